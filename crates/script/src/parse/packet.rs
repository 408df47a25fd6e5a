//! Packets.

use super::option;
use crate::ast::{IcmpMessage, IpField, PacketBody, PacketDirection, ScriptPacket, TcpPacket};
use crate::cursor::{Cursor, Parsed};
use tcpassay_wire::Flags;

/// Parses a packet from `<` or `>` on.
pub(super) fn packet(c: &mut Cursor<'_>) -> Parsed<ScriptPacket> {
    let direction = if c.eat("<") {
        PacketDirection::In
    } else {
        c.need(">")?;
        PacketDirection::Out
    };
    let (mut ip, mut hops) = (IpField::Unsaid, None);
    if !echoes(c) {
        ip = ip_field(c, direction, &mut hops)?;
    }
    let echoed = if echoes(c) { echoed(c)? } else { None };
    c.space();
    if c.peek().is_some_and(|x| x.is_ascii_digit()) && ports(c) {
        return c.unsupported("a packet with ports of its own");
    }
    let body = match c.peek_word() {
        word @ ("ipv4" | "ipv6" | "gre" | "GREv0" | "mpls" | "GRE" | "MPLS" | "psp") => {
            return c.unsupported(&format!("a packet inside another: {word}"));
        }
        word @ ("udp" | "sctp" | "udplite" | "UDP" | "SCTP" | "UDPLite" | "dccp") => {
            return c.unsupported(&format!("a packet of {}", word.to_ascii_uppercase()));
        }
        "icmp" | "icmpv6" => {
            let icmp = icmp(c)?;
            PacketBody::Icmp(IcmpMessage { seq: echoed.or(icmp.seq), ..icmp })
        }
        _ if echoed.is_some() => return c.fail("`icmp`, which the echoed header belongs to"),
        _ => PacketBody::Tcp(tcp(c, direction)?),
    };
    let end = c.clone();
    if c.eat("/") {
        // `/udp(9899>12345)` of nplab's packetdrill.
        if !c.eat_word("udp") && !c.eat_word("UDP") {
            return c.fail("`udp`");
        }
        c.need("(")?;
        c.number::<u16>("a port, 0 to 65535")?;
        c.need(">")?;
        c.number::<u16>("a port, 0 to 65535")?;
        c.need(")")?;
        return end.unsupported("TCP inside UDP");
    }
    if c.eat("{") {
        return end.unsupported("a packet that is changed at random");
    }
    Ok(ScriptPacket { direction, ip, hops, body })
}

/// Parses `[ect0]`, `[tos 0x2]`, `[ect0, ttl 64]`.
fn ip_field(c: &mut Cursor<'_>, direction: PacketDirection, hops: &mut Option<u8>) -> Parsed<IpField> {
    const WHAT: &str =
        "`ect0`, `ect1`, `ect01`, `ce`, `noecn`, `nocheck`, `tos`, `ttl`, `hlim` or `flowlabel`";
    let mut field = IpField::Unsaid;
    for (open, close) in [("[", "]"), ("(", ")")] {
        if !c.eat(open) {
            continue;
        }
        loop {
            let before = c.clone();
            let name = c.word(WHAT)?;
            match name.to_ascii_lowercase().as_str() {
                "ect0" => field = IpField::Ecn(2),
                "ect1" => field = IpField::Ecn(1),
                "ect01" => field = IpField::EitherEct,
                "ce" => field = IpField::Ecn(3),
                "noecn" => field = IpField::Ecn(0),
                "nocheck" => field = IpField::Unsaid,
                "tos" => field = IpField::Tos(c.number("a TOS byte")?),
                "ttl" | "hlim" => *hops = Some(c.number("a hop limit, 0 to 255")?),
                "flowlabel" => {
                    let _ = c.number::<u32>("a flow label")?;
                    if direction == PacketDirection::Out {
                        return before.unsupported("the flow label of a packet");
                    }
                }
                _ => {
                    return before.fail(WHAT);
                }
            }
            if c.eat(close) {
                break;
            }
            c.need(",")?;
        }
    }
    Ok(field)
}

fn tcp(c: &mut Cursor<'_>, direction: PacketDirection) -> Parsed<TcpPacket> {
    let flags = flags(c)?;
    let any_seq = direction == PacketDirection::Out && c.eat("...");
    let (seq, end) = if any_seq {
        (0, None)
    } else {
        let seq: u32 = c.number("a sequence number")?;
        c.need(":")?;
        (seq, Some(c.number::<u32>("the sequence number after the payload")?))
    };
    c.need("(")?;
    let after = c.clone();
    let len: u32 = c.number("the length of the payload")?;
    c.need(")")?;
    if let Some(end) = end
        && end.wrapping_sub(seq) != len
    {
        return after.fail(&format!("the length {} of {seq}:{end}", end.wrapping_sub(seq)));
    }
    let options = Some(Vec::new());
    let mut tcp = TcpPacket { flags, seq, any_seq, len, ack: None, window: None, urgent: None, options };
    loop {
        c.space();
        match c.peek_word() {
            "ack" => {
                c.skip(3);
                tcp.ack = Some(c.number("an acknowledgement number")?);
            }
            "win" => {
                c.skip(3);
                tcp.window = Some(c.number("a window, 0 to 65535")?);
            }
            "urg" => {
                c.skip(3);
                tcp.urgent = Some(c.number("an urgent pointer, 0 to 65535")?);
            }
            _ => break,
        }
    }
    if c.starts("<") {
        tcp.options = option::options(c)?;
    }
    if direction == PacketDirection::In && tcp.options.is_none() {
        return after.fail("options that say what is sent; `<...>` is for packets of the stack");
    }
    Ok(tcp)
}

/// Parses `S.`, `P.`, `SEW`, `.`, `-`. A digit is the ACE field of accurate ECN.
fn flags(c: &mut Cursor<'_>) -> Parsed<Flags> {
    c.space();
    let start = c.clone();
    let letters = c.take_while(|c| !c.is_whitespace());
    if letters == "-" {
        return Ok(Flags::NONE);
    }
    let mut flags = Flags::NONE;
    for letter in letters.chars() {
        flags |= match letter {
            'F' => Flags::FIN,
            'S' => Flags::SYN,
            'R' => Flags::RST,
            'P' => Flags::PSH,
            '.' => Flags::ACK,
            'U' => Flags::URG,
            'E' => Flags::ECE,
            'W' | 'C' => Flags::CWR,
            'A' => Flags::AE,
            '0'..='7' => {
                let n = u16::try_from(letter.to_digit(8).expect("a digit")).expect("below 8");
                Flags::from_bits(n << 6)
            }
            _ => return start.fail("the flags of a segment, made of F S R P . U E W A, or `-` for none"),
        };
    }
    if letters.is_empty() {
        return start.fail("the flags of a segment, made of F S R P . U E W A, or `-` for none");
    }
    Ok(flags)
}

/// Parses `icmp unreachable frag_needed mtu 1000 [1:1461(1460)]`.
fn icmp(c: &mut Cursor<'_>) -> Parsed<IcmpMessage> {
    c.word("icmp")?;
    let kind = c.word("the type of an ICMP message")?.to_owned();
    let mut icmp = IcmpMessage { kind, code: String::new(), mtu: None, seq: None };
    loop {
        c.space();
        match c.peek_word() {
            "" => break,
            "id" => return c.unsupported("an ICMP message with an identifier"),
            "mtu" => {
                c.skip(3);
                icmp.mtu = Some(c.number("an MTU")?);
            }
            word if icmp.code.is_empty() => {
                word.clone_into(&mut icmp.code);
                c.skip(word.len());
            }
            _ => return c.fail("`mtu` or the echoed header, as in `[1:1001(1000)]`"),
        }
    }
    icmp.seq = echoed(c)?;
    Ok(icmp)
}

/// Returns true if ports such as `8080 > 53000` follow.
fn ports(c: &Cursor<'_>) -> bool {
    let mut ahead = c.clone();
    ahead.take_while(|c| c.is_ascii_digit());
    ahead.eat(">")
}

/// Returns true if an echoed header follows. Only an echoed header has a `:` in its brackets.
fn echoes(c: &Cursor<'_>) -> bool {
    let mut ahead = c.clone();
    ahead.space();
    let rest = ahead.rest();
    rest.strip_prefix('[')
        .is_some_and(|rest| rest.split([']', '\n']).next().is_some_and(|inner| inner.contains(':')))
}

/// Parses an echoed header, `[1:1461(1460)]` or `[S 0:0(0)]`, and returns its first sequence number.
fn echoed(c: &mut Cursor<'_>) -> Parsed<Option<u32>> {
    if !c.eat("[") {
        return Ok(None);
    }
    c.space();
    if let word @ ("udp" | "raw" | "sctp" | "UDP" | "RAW" | "SCTP") = c.peek_word() {
        return c.unsupported(&format!("an ICMP message about a packet of {}", word.to_ascii_uppercase()));
    }
    // Flags may precede the sequence number.
    if c.peek().is_some_and(|c| !c.is_ascii_digit()) {
        c.take_while(|c| !c.is_whitespace());
    }
    let seq = c.number("the first sequence number of the echoed header")?;
    c.until("]", "the echoed header")?;
    Ok(Some(seq))
}
