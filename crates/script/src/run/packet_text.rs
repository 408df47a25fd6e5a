//! Packets as text, in the syntax of scripts.

use crate::ast::{IpField, TcpOption, TcpPacket};
use std::fmt;
use tcpassay_wire::Flags;

/// Flags in the syntax of scripts.
pub(super) fn flags_text(flags: Flags) -> String {
    const LETTERS: [(Flags, char); 9] = [
        (Flags::SYN, 'S'),
        (Flags::FIN, 'F'),
        (Flags::RST, 'R'),
        (Flags::PSH, 'P'),
        (Flags::URG, 'U'),
        (Flags::ECE, 'E'),
        (Flags::CWR, 'W'),
        (Flags::AE, 'A'),
        (Flags::ACK, '.'),
    ];
    if flags == Flags::NONE {
        return "-".to_owned();
    }
    LETTERS.iter().filter(|(f, _)| flags.has(*f)).map(|(_, c)| *c).collect()
}

pub(super) fn ip_text(ip: IpField) -> String {
    match ip {
        IpField::Unsaid => "any".to_owned(),
        IpField::Ecn(0) => "noecn".to_owned(),
        IpField::Ecn(1) => "ect1".to_owned(),
        IpField::Ecn(2) => "ect0".to_owned(),
        IpField::Ecn(_) => "ce".to_owned(),
        IpField::EitherEct => "ect01".to_owned(),
        IpField::Tos(tos) => format!("tos {tos:#04x}"),
    }
}

pub(super) fn options_text(list: &[TcpOption]) -> String {
    let parts: Vec<String> = list.iter().map(ToString::to_string).collect();
    parts.join(",")
}

impl fmt::Display for TcpOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stamp = |s: &Option<u32>| s.map_or("...".to_owned(), |n| n.to_string());
        match self {
            TcpOption::Mss(n) => write!(f, "mss {n}"),
            TcpOption::WindowScale(n) => write!(f, "wscale {n}"),
            TcpOption::SackPermitted => f.write_str("sackOK"),
            TcpOption::Sack(blocks) => {
                f.write_str("sack")?;
                blocks.iter().try_for_each(|(s, e)| write!(f, " {s}:{e}"))
            }
            TcpOption::Timestamps(val, ecr) => write!(f, "TS val {} ecr {}", stamp(val), stamp(ecr)),
            TcpOption::Nop => f.write_str("nop"),
            TcpOption::Eol => f.write_str("eol"),
            TcpOption::Md5(text) => write!(f, "md5 {text}"),
            TcpOption::FastOpen { experimental, cookie } => {
                let name = if *experimental { "FOEXP" } else { "FO" };
                if cookie.is_empty() { f.write_str(name) } else { write!(f, "{name} {cookie}") }
            }
            TcpOption::AccurateEcn(text) => write!(f, "ECN {text}"),
        }
    }
}

impl fmt::Display for TcpPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.seq.wrapping_add(self.len);
        write!(f, "{} {}:{end}({})", flags_text(self.flags), self.seq, self.len)?;
        for (name, value) in
            [("ack", self.ack), ("win", self.window.map(u32::from)), ("urg", self.urgent.map(u32::from))]
        {
            if let Some(n) = value {
                write!(f, " {name} {n}")?;
            }
        }
        match &self.options {
            None => f.write_str(" <...>"),
            Some(list) if list.is_empty() => Ok(()),
            Some(list) => write!(f, " <{}>", options_text(list)),
        }
    }
}
