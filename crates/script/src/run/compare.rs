//! Comparison of an expected packet with the one that the stack sent.

use super::packet_text::{flags_text, ip_text, options_text};
use super::target::SentPacket;
use crate::ast::{IpField, ScriptPacket, TcpOption, TcpPacket};
use tcpassay_wire::Flags;

/// A field in which an expected and an actual packet differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldDifference {
    /// The name of the field.
    pub field: &'static str,
    /// The value in the script.
    pub expected: String,
    /// The value in the packet.
    pub live: String,
}

/// How strictly packets are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strictness {
    /// Window, PSH, the options of a SYN, and the padding of other options are not compared.
    pub loose: bool,
    /// Timestamps may differ by this many ticks; `None` accepts any timestamp.
    pub stamps: Option<u32>,
}

/// The fields in which the expected packet and the actual one differ.
pub(super) fn differences(
    want: &ScriptPacket,
    tcp: &TcpPacket,
    live: &TcpPacket,
    sent: &SentPacket,
    how: Strictness,
) -> Vec<FieldDifference> {
    let tos = sent.tos;
    let mut list = Vec::new();
    let mut check = |field, same: bool, expected: String, live: String| {
        if !same {
            list.push(FieldDifference { field, expected, live });
        }
    };
    let flags = |f: Flags| if how.loose { f.without(Flags::PSH) } else { f };
    check("flags", flags(tcp.flags) == flags(live.flags), flags_text(tcp.flags), flags_text(live.flags));
    check("seq", tcp.any_seq || tcp.seq == live.seq, tcp.seq.to_string(), live.seq.to_string());
    check("len", tcp.len == live.len, tcp.len.to_string(), live.len.to_string());
    let number = |n: Option<u32>| n.map_or("none".to_owned(), |n| n.to_string());
    let acks = tcp.ack.unwrap_or(0) == live.ack.unwrap_or(0);
    check("ack", acks, number(tcp.ack), number(live.ack));
    if let (Some(a), Some(b), false) = (tcp.window, live.window, how.loose) {
        check("win", a == b, a.to_string(), b.to_string());
    }
    let urgent = |t: &TcpPacket| u32::from(t.urgent.unwrap_or(0));
    check("urg", urgent(tcp) == urgent(live), urgent(tcp).to_string(), urgent(live).to_string());
    if let (Some(a), Some(b)) = (&tcp.options, &live.options)
        && !(how.loose && tcp.flags.has(Flags::SYN))
    {
        check("options", same_options(a, b, how), options_text(a), options_text(b));
    }
    let field = match want.ip {
        IpField::Unsaid => true,
        IpField::Ecn(bits) => bits == tos & 3,
        IpField::EitherEct => matches!(tos & 3, 1 | 2),
        IpField::Tos(wanted) => wanted == tos,
    };
    let live = if matches!(want.ip, IpField::Tos(_)) { IpField::Tos(tos) } else { IpField::Ecn(tos & 3) };
    check("ip", field, ip_text(want.ip), ip_text(live));
    if let Some(hops) = want.hops {
        check("hops", hops == sent.hops, hops.to_string(), sent.hops.to_string());
    }
    list
}

fn same_options(want: &[TcpOption], live: &[TcpOption], how: Strictness) -> bool {
    let counts = |option: &&TcpOption| !(how.loose && matches!(option, TcpOption::Nop | TcpOption::Eol));
    let want: Vec<&TcpOption> = want.iter().filter(counts).collect();
    let live: Vec<&TcpOption> = live.iter().filter(counts).collect();
    let same = |(a, b): (&TcpOption, &TcpOption)| match (a, b) {
        (TcpOption::Timestamps(val, ecr), TcpOption::Timestamps(live_val, live_ecr)) => {
            let close = |a: u32, b: u32| {
                how.stamps.is_none_or(|within| a.wrapping_sub(b).min(b.wrapping_sub(a)) <= within)
            };
            val.zip(*live_val).is_none_or(|(a, b)| close(a, b)) && ecr.is_none_or(|e| Some(e) == *live_ecr)
        }
        (a, b) => a == b,
    };
    want.len() == live.len() && want.into_iter().zip(live).all(same)
}
