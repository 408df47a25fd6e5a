//! TCP options.

use crate::ast::TcpOption;
use crate::cursor::{Cursor, Parsed};

const WHAT: &str = "a TCP option: mss, wscale, sackOK, sack, TS val, nop, eol, FO, FOEXP, md5 or ECN";

/// Options of other versions of packetdrill: Multipath TCP, TCP-AO.
const ELSEWHERE: [&str; 27] = [
    "mp_capable",
    "mpcapable",
    "mp_join",
    "mpjoin",
    "mp_join_syn",
    "mp_join_syn_ack",
    "mp_join_ack",
    "dss",
    "dsn4",
    "dsn8",
    "dack4",
    "dack8",
    "add_addr",
    "add_address",
    "addr4",
    "addr6",
    "remove_addr",
    "remove_address",
    "mp_prio",
    "mp_fail",
    "mp_fastclose",
    "mp_reset",
    "mp_tcprst",
    "ao",
    "AO",
    "tcpao",
    "generic",
];

/// Parses `<mss 1460,nop,...>`. Returns `None` for `<...>`.
pub(super) fn options(c: &mut Cursor<'_>) -> Parsed<Option<Vec<TcpOption>>> {
    c.need("<")?;
    if c.eat("...") {
        c.need(">")?;
        return Ok(None);
    }
    let mut list = Vec::new();
    loop {
        c.space();
        if list.is_empty() && c.eat(">") {
            return Ok(Some(list));
        }
        list.push(option(c)?);
        if c.eat(">") {
            return Ok(Some(list));
        }
        if !c.eat(",") {
            return c.fail("`,` and another TCP option, or `>`");
        }
    }
}

fn option(c: &mut Cursor<'_>) -> Parsed<TcpOption> {
    c.space();
    let before = c.clone();
    let word = c.word(WHAT)?;
    Ok(match word {
        "mss" => TcpOption::Mss(c.number("an MSS, 0 to 65535")?),
        "wscale" => TcpOption::WindowScale(c.number("a window scale, 0 to 255")?),
        "sackOK" => TcpOption::SackPermitted,
        "nop" => TcpOption::Nop,
        "eol" => TcpOption::Eol,
        "sack" => sack(c)?,
        "TS" => {
            if !c.eat_word("val") {
                return c.fail("`val`");
            }
            let val = stamp(c)?;
            if !c.eat_word("ecr") {
                return c.fail("`ecr`");
            }
            TcpOption::Timestamps(val, stamp(c)?)
        }
        "FO" | "FOEXP" => {
            let cookie = until_next(c);
            let cookie = cookie.trim().trim_start_matches("cookie").trim().to_owned();
            TcpOption::FastOpen { experimental: word == "FOEXP", cookie }
        }
        "md5" => TcpOption::Md5(until_next(c).trim().to_owned()),
        "ECN" | "AccECN" | "ACCECN" => {
            let words: Vec<&str> = until_next(c).split_whitespace().collect();
            TcpOption::AccurateEcn(words.join(" "))
        }
        _ if ELSEWHERE.contains(&word) => return before.unsupported(&format!("the TCP option `{word}`")),
        _ => return before.fail(WHAT),
    })
}

fn until_next<'a>(c: &mut Cursor<'a>) -> &'a str {
    c.take_while(|c| c != ',' && c != '>')
}

/// Parses a timestamp. Returns `None` for `...` and `*`.
fn stamp(c: &mut Cursor<'_>) -> Parsed<Option<u32>> {
    if c.eat("...") || c.eat("*") {
        return Ok(None);
    }
    c.number("a timestamp, 0 to 4294967295, or `...`").map(Some)
}

fn sack(c: &mut Cursor<'_>) -> Parsed<TcpOption> {
    let mut blocks = Vec::new();
    loop {
        c.space();
        if !c.peek().is_some_and(|c| c.is_ascii_digit()) {
            return if blocks.is_empty() {
                c.fail("a SACK block, as in `1001:2001`")
            } else {
                Ok(TcpOption::Sack(blocks))
            };
        }
        if blocks.len() == 4 {
            return c.fail("at most four SACK blocks");
        }
        let start = c.number("the first sequence number of a SACK block")?;
        c.need(":")?;
        blocks.push((start, c.number("the sequence number after a SACK block")?));
    }
}
