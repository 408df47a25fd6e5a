//! Packets of the script and of the stack: to and fro, and what differs.
//!
//! As in the original: the sequence number of a SYN is absolute, every other is relative to it; the script's timestamps are those
//! that it writes, mapped to the live ones by the packets that carried them; options are compared in the order of the
//! header, which each stack lays out in its own way.

use super::stack::Sent;
use crate::ast::{IpField, Opt, Packet, Tcp};
use std::collections::BTreeMap;
use std::fmt;
use tcpassay_tcp::FastOpen;
use tcpassay_units::SeqNum;
use tcpassay_wire::{AccEcn, Ecn, Flags, Options, SackBlock, SackBlocks, Segment, Timestamps};

/// How a stack lays out its options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    Linux,
    FreeBsd,
}

/// How the numbers of one connection map.
#[derive(Clone, Debug)]
pub struct Map {
    /// Our initial sequence number.
    pub iss: SeqNum,
    /// What the script calls it.
    pub script_iss: u32,
    /// The peer's, which the script chose.
    pub irs: SeqNum,
    /// Timestamps that the script wrote for ours.
    stamps: BTreeMap<u32, u32>,
    /// The first of them: live, script.
    first_stamp: Option<(u32, u32)>,
    /// Both ends know both numbers: another SYN of the peer changes nothing.
    pub settled: bool,
}

impl Map {
    /// Of a connection whose initial sequence number is `iss`.
    pub fn new(iss: SeqNum) -> Map {
        Map {
            iss,
            script_iss: 0,
            irs: SeqNum::new(0),
            stamps: BTreeMap::new(),
            first_stamp: None,
            settled: false,
        }
    }

    fn ours(&self, syn: bool) -> u32 {
        if syn { self.iss.get().wrapping_sub(self.script_iss) } else { self.iss.get() }
    }

    fn theirs(&self, syn: bool) -> u32 {
        if syn { 0 } else { self.irs.get() }
    }

    /// The script's name of one of our timestamps.
    fn stamp_out(&self, live: u32) -> u32 {
        self.first_stamp.map_or(live, |(first, script)| script.wrapping_add(live.wrapping_sub(first)))
    }

    /// The timestamp of ours that the script means.
    fn stamp_in(&self, script: u32) -> u32 {
        if script == 0 && !self.stamps.contains_key(&0) {
            return 0;
        }
        let by_first = || self.first_stamp.map(|(live, first)| live.wrapping_add(script.wrapping_sub(first)));
        self.stamps.get(&script).copied().or_else(by_first).unwrap_or(script)
    }

    /// The script expects `script` where the stack sent `live`.
    pub fn learn_stamp(&mut self, live: u32, script: u32) {
        self.first_stamp.get_or_insert((live, script));
        self.stamps.insert(script, live);
    }

    /// The segment that the script injects.
    ///
    /// # Errors
    /// What the model cannot take.
    pub fn inject(&mut self, tcp: &Tcp) -> Result<Segment, String> {
        let syn = tcp.flags.has(Flags::SYN);
        if syn && !self.settled {
            self.irs = SeqNum::new(tcp.seq);
        }
        let mut options = Options::default();
        let mut counters = None;
        for opt in tcp.options.iter().flatten() {
            match opt {
                Opt::Mss(n) => options.mss = Some(*n),
                Opt::WindowScale(n) => options.window_scale = Some(*n),
                Opt::SackPermitted => options.sack_permitted = true,
                Opt::Timestamps(val, ecr) => {
                    let val = val.ok_or("a timestamp to inject must be a number")?;
                    let ecr = ecr.ok_or("a timestamp to inject must be a number")?;
                    options.timestamps = Some(Timestamps { val, ecr: self.stamp_in(ecr) });
                }
                Opt::Sack(blocks) => {
                    let ours = self.ours(syn);
                    let live = |n: &u32| SeqNum::new(n.wrapping_add(ours));
                    options.sack =
                        blocks.iter().map(|(s, e)| SackBlock { start: live(s), end: live(e) }).collect();
                }
                // Fast Open's goes beside the segment.
                Opt::Nop | Opt::Eol | Opt::FastOpen { .. } | Opt::Md5(_) => {}
                Opt::AccurateEcn(text) => counters = Some(counters_of(text)?),
            }
        }
        if let Some(counters) = counters {
            if options.sack.len() > 3 {
                return Err("four SACK blocks beside accurate ECN".to_owned());
            }
            options.set_accecn(&counters);
        }
        let ack = tcp.ack.map_or(SeqNum::new(0), |n| SeqNum::new(n.wrapping_add(self.ours(syn))));
        Ok(Segment {
            seq: SeqNum::new(tcp.seq.wrapping_add(self.theirs(syn))),
            ack,
            flags: tcp.flags,
            window: tcp.window.unwrap_or(0),
            urgent: tcp.urgent.unwrap_or(0),
            len: tcp.len,
            options,
        })
    }

    /// The packet that the script injects, with live numbers.
    ///
    /// # Errors
    /// A timestamp that is no number.
    pub fn live(&mut self, tcp: &Tcp) -> Result<Tcp, String> {
        let syn = tcp.flags.has(Flags::SYN);
        if syn {
            self.irs = SeqNum::new(tcp.seq);
        }
        let (ours, theirs) = (self.ours(syn), self.theirs(syn));
        let option = |opt: &Opt| match opt {
            Opt::Timestamps(Some(val), Some(ecr)) => {
                Ok(Opt::Timestamps(Some(*val), Some(self.stamp_in(*ecr))))
            }
            Opt::Timestamps(..) => Err("a timestamp to inject must be a number".to_owned()),
            Opt::Sack(blocks) => Ok(Opt::Sack(
                blocks.iter().map(|(s, e)| (s.wrapping_add(ours), e.wrapping_add(ours))).collect(),
            )),
            other => Ok(other.clone()),
        };
        let options = tcp.options.iter().flatten().map(option).collect::<Result<_, _>>()?;
        Ok(Tcp {
            seq: tcp.seq.wrapping_add(theirs),
            ack: tcp.ack.map(|n| n.wrapping_add(ours)),
            options: Some(options),
            ..tcp.clone()
        })
    }

    /// A sequence number of ours, of which the script says how far it is behind the SYN.
    pub fn our_number(&self, script: u32) -> u32 {
        script.wrapping_add(self.iss.get())
    }

    /// A segment of the stack in the words of the script; `options` are its options in the order of the header.
    pub fn show(&self, live: &Segment, options: &[Opt]) -> Tcp {
        let syn = live.flags.has(Flags::SYN);
        let ack = live.flags.has(Flags::ACK);
        Tcp {
            flags: live.flags,
            seq: live.seq.get().wrapping_sub(self.ours(syn)),
            any_seq: false,
            len: live.len,
            ack: ack.then(|| live.ack.get().wrapping_sub(self.theirs(syn))),
            window: Some(live.window),
            urgent: live.flags.has(Flags::URG).then_some(live.urgent),
            options: Some(options.iter().map(|opt| self.option(opt, syn)).collect()),
        }
    }

    /// An option of the stack in the words of the script.
    fn option(&self, live: &Opt, syn: bool) -> Opt {
        let theirs = self.theirs(syn);
        match live {
            Opt::Timestamps(val, ecr) => Opt::Timestamps(val.map(|val| self.stamp_out(val)), *ecr),
            Opt::Sack(blocks) => Opt::Sack(
                blocks.iter().map(|(s, e)| (s.wrapping_sub(theirs), e.wrapping_sub(theirs))).collect(),
            ),
            other => other.clone(),
        }
    }
}

/// Hexadecimal digits, two a byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, b| text + &format!("{b:02x}"))
}

/// The bytes that hexadecimal digits stand for.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// The option of Fast Open of a packet to inject.
pub(super) fn fast_open_of(tcp: &Tcp) -> Result<Option<FastOpen>, String> {
    let found = tcp.options.iter().flatten().find_map(|opt| match opt {
        Opt::FastOpen { experimental, cookie } => Some((*experimental, cookie)),
        _ => None,
    });
    let Some((experimental, cookie)) = found else { return Ok(None) };
    let cookie = bytes_of(cookie).ok_or("a cookie to inject must be hexadecimal digits")?;
    Ok(Some(FastOpen { experimental, cookie }))
}

/// The fields of accurate ECN's option, as [`AccEcn::counts`] has them.
const COUNTERS: [&str; 3] = ["e0b", "ceb", "e1b"];

/// `e1b 1 ceb 0 e0b 1`
fn counters_of(text: &str) -> Result<AccEcn, String> {
    let wrong =
        || format!("the counters `{text}`: expected e0b, ceb and e1b from either end, of 24 bits each");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut option =
        AccEcn { e1b_first: words.first().is_none_or(|name| *name == "e1b"), fields: 0, counts: [0; 3] };
    for pair in words.chunks(2) {
        let &[name, value] = pair else { return Err(wrong()) };
        let place = COUNTERS.iter().position(|known| *known == name).ok_or_else(wrong)?;
        let next = if option.e1b_first {
            2_usize.checked_sub(option.fields.into())
        } else {
            Some(option.fields.into())
        };
        let value = value.parse().ok().filter(|&n: &u32| n < 1 << 24).ok_or_else(wrong)?;
        if next != Some(place) {
            return Err(wrong());
        }
        option.counts[place] = value;
        option.fields += 1;
    }
    Ok(option)
}

fn counters_text(option: &AccEcn) -> String {
    let parts: Vec<String> =
        option.order().map(|place| format!("{} {}", COUNTERS[place], option.counts[place])).collect();
    parts.join(" ")
}

/// The SACK blocks without an accurate ECN option beside them.
fn bare(live: &Options) -> SackBlocks {
    live.sack.iter().copied().collect()
}

/// Options in the order in which a stack lays them out.
pub(super) fn lay_out(live: &Options, fast_open: Option<&FastOpen>, layout: Layout) -> Vec<Opt> {
    let mut list = Vec::new();
    let scale = live.window_scale.map(Opt::WindowScale);
    let stamps = live.timestamps.map(|t| Opt::Timestamps(Some(t.val), Some(t.ecr)));
    let sack = (!live.sack.is_empty())
        .then(|| Opt::Sack(live.sack.iter().map(|b| (b.start.get(), b.end.get())).collect()));
    let fast_open = fast_open.map(|o| Opt::FastOpen { experimental: o.experimental, cookie: hex(&o.cookie) });
    list.extend(live.mss.map(Opt::Mss));
    match layout {
        // `tcp_options_write` of Linux.
        Layout::Linux => {
            if let Some(t) = stamps {
                list.extend(if live.sack_permitted {
                    vec![Opt::SackPermitted, t]
                } else {
                    vec![Opt::Nop, Opt::Nop, t]
                });
            }
            // Accurate ECN's ends where the next NOPs would stand, if they are enough, or NOPs follow it.
            let mut spare = 0;
            if let Some(counters) = live.accecn() {
                list.push(Opt::AccurateEcn(counters_text(&counters)));
                spare = counters.wire_len() % 4;
                let padding = live.wire_len() - Options { sack: bare(live), ..*live }.wire_len();
                if padding > counters.wire_len() {
                    list.extend((spare..4).map(|_| Opt::Nop));
                    spare = 0;
                }
            }
            let mut nops = |wanted: u32| {
                let replaced = if spare <= wanted { std::mem::take(&mut spare) } else { 0 };
                (replaced..wanted).map(|_| Opt::Nop)
            };
            if live.sack_permitted && live.timestamps.is_none() {
                list.extend(nops(2).chain([Opt::SackPermitted]));
            }
            if let Some(scale) = scale {
                list.extend(nops(1).chain([scale]));
            }
            if let Some(sack) = sack {
                list.extend(nops(2).chain([sack]));
            }
            if let Some(fast_open) = fast_open {
                list.push(fast_open);
                while !wire_len(&list).is_multiple_of(4) {
                    list.push(Opt::Nop);
                }
            }
        }
        // `tcp_addoptions` of FreeBSD: aligned before, padded with EOL after.
        Layout::FreeBsd => {
            if let Some(scale) = scale {
                list.extend([Opt::Nop, scale]);
            }
            if live.sack_permitted {
                list.push(Opt::SackPermitted);
            }
            if let Some(t) = stamps {
                while wire_len(&list) % 4 != 2 {
                    list.push(Opt::Nop);
                }
                list.push(t);
            }
            if let Some(sack) = sack {
                while wire_len(&list) % 4 != 2 {
                    list.push(Opt::Nop);
                }
                list.push(sack);
            }
            list.extend(live.accecn().map(|counters| Opt::AccurateEcn(counters_text(&counters))));
            list.extend(fast_open);
            while !wire_len(&list).is_multiple_of(4) {
                list.push(Opt::Eol);
            }
        }
    }
    list
}

/// Bytes of a list of options.
pub(super) fn wire_len(list: &[Opt]) -> usize {
    let len = |opt: &Opt| match opt {
        Opt::Mss(_) => 4,
        Opt::WindowScale(_) => 3,
        Opt::SackPermitted => 2,
        Opt::Timestamps(..) => 10,
        Opt::Sack(blocks) => 2 + 8 * blocks.len(),
        Opt::Nop | Opt::Eol => 1,
        Opt::Md5(_) => 18,
        Opt::FastOpen { experimental, cookie } => 2 + if *experimental { 2 } else { 0 } + cookie.len() / 2,
        Opt::AccurateEcn(text) => 2 + 3 * (text.split_whitespace().count() / 2),
    };
    list.iter().map(len).sum()
}

/// The ECN field that the script injects.
pub(super) fn ecn_of(ip: IpField) -> Ecn {
    match ip {
        IpField::Unsaid => Ecn::NotEct,
        IpField::EitherEct => Ecn::Ect0,
        IpField::Ecn(bits) | IpField::Tos(bits) => Ecn::from_bits(bits),
    }
}

/// A field of a packet, as expected and as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Which field.
    pub field: &'static str,
    /// As the script wants it.
    pub expected: String,
    /// As the stack sent it.
    pub live: String,
}

/// What is compared, and how strictly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strictness {
    /// Window, PSH and the options of a SYN do not count.
    pub loose: bool,
    /// Timestamps are compared, within this many ticks.
    pub stamps: Option<u32>,
}

/// What differs between the expected packet and the live one.
pub(super) fn differences(
    want: &Packet,
    tcp: &Tcp,
    live: &Tcp,
    sent: &Sent,
    how: Strictness,
) -> Vec<Difference> {
    let tos = sent.tos;
    let mut list = Vec::new();
    let mut check = |field, same: bool, expected: String, live: String| {
        if !same {
            list.push(Difference { field, expected, live });
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
    let urgent = |t: &Tcp| u32::from(t.urgent.unwrap_or(0));
    check("urg", urgent(tcp) == urgent(live), urgent(tcp).to_string(), urgent(live).to_string());
    if let (Some(a), Some(b)) = (&tcp.options, &live.options)
        && !(how.loose && tcp.flags.has(Flags::SYN))
    {
        check("options", same_options(a, b, how.stamps), options_text(a), options_text(b));
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

fn same_options(want: &[Opt], live: &[Opt], stamps: Option<u32>) -> bool {
    let same = |(a, b): (&Opt, &Opt)| match (a, b) {
        (Opt::Timestamps(val, ecr), Opt::Timestamps(live_val, live_ecr)) => {
            let close = |a: u32, b: u32| {
                stamps.is_none_or(|within| a.wrapping_sub(b).min(b.wrapping_sub(a)) <= within)
            };
            val.zip(*live_val).is_none_or(|(a, b)| close(a, b)) && ecr.is_none_or(|e| Some(e) == *live_ecr)
        }
        (a, b) => a == b,
    };
    want.len() == live.len() && want.iter().zip(live).all(same)
}

/// As the language writes flags.
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

fn options_text(list: &[Opt]) -> String {
    let parts: Vec<String> = list.iter().map(ToString::to_string).collect();
    parts.join(",")
}

impl fmt::Display for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stamp = |s: &Option<u32>| s.map_or("...".to_owned(), |n| n.to_string());
        match self {
            Opt::Mss(n) => write!(f, "mss {n}"),
            Opt::WindowScale(n) => write!(f, "wscale {n}"),
            Opt::SackPermitted => f.write_str("sackOK"),
            Opt::Sack(blocks) => {
                f.write_str("sack")?;
                blocks.iter().try_for_each(|(s, e)| write!(f, " {s}:{e}"))
            }
            Opt::Timestamps(val, ecr) => write!(f, "TS val {} ecr {}", stamp(val), stamp(ecr)),
            Opt::Nop => f.write_str("nop"),
            Opt::Eol => f.write_str("eol"),
            Opt::Md5(text) => write!(f, "md5 {text}"),
            Opt::FastOpen { experimental, cookie } => {
                let name = if *experimental { "FOEXP" } else { "FO" };
                if cookie.is_empty() { f.write_str(name) } else { write!(f, "{name} {cookie}") }
            }
            Opt::AccurateEcn(text) => write!(f, "ECN {text}"),
        }
    }
}

/// As the language writes it.
impl fmt::Display for Tcp {
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
