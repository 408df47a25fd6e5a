//! Types for the parameters whose values have their own grammar.
//!
//! Each type parses one grammar (`FromStr`, whose error gives the reason), and [`check`] converts it to the
//! check of a row of the table.

mod stack;
mod text;

pub use stack::{Abc, DelayedAckValue, LossDetectionValue, PacingValue, UndoValue};

use crate::pace::Pace;
use std::str::FromStr;
use tcpassay_units::{Bytes, Dur, Rate, UnitError};
use text::{number, unit};

/// The check of a table row whose text reads as `T`.
pub(super) fn check<T: FromStr<Err = String>>(text: &str) -> Result<(), String> {
    text.parse::<T>().map(drop)
}

/// A probability written as a number from 0 to 1 or a percentage.
pub(crate) fn probability(text: &str) -> Result<f64, String> {
    let p: f64 = match text.strip_suffix('%') {
        Some(percent) => number::<f64>(percent, "a percentage")? / 100.0,
        None => number(text, "a probability")?,
    };
    if (0.0..=1.0).contains(&p) { Ok(p) } else { Err(format!("`{text}` is not from 0 to 1")) }
}

/// The prefix of a `link.rate` that contains the steps of a trace instead of a file name.
pub(crate) const STEPS: &str = "steps:";

/// The text of a trace ([`Pace::from_trace`]) from steps without [`STEPS`], as in `0,10Mbit;0.5,2Mbit;1,2Mbit`.
pub(crate) fn trace_of_steps(steps: &str) -> String {
    steps.replace(';', "\n")
}

/// `link.rate`: a rate, `trace:<file>`, or `steps:<seconds>,<rate>;...` ([`Pace::from_trace`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkRate {
    /// A constant rate.
    Fixed(Rate),
    /// The file's name, or the steps with [`STEPS`] before them.
    Trace(String),
}

impl FromStr for LinkRate {
    type Err = String;
    fn from_str(text: &str) -> Result<LinkRate, String> {
        if let Some(steps) = text.strip_prefix(STEPS) {
            if !steps.contains(',') {
                return Err("steps of the form `seconds,rate` are needed, separated by `;`".to_owned());
            }
            Pace::from_trace(&trace_of_steps(steps))
                .map_err(|e| format!("step {}: `{}`: {}", e.line, e.text, e.why))?;
            return Ok(LinkRate::Trace(text.to_owned()));
        }
        match text.strip_prefix("trace:") {
            Some("") => Err("the file's name is missing".to_owned()),
            Some(file) => Ok(LinkRate::Trace(file.to_owned())),
            None => Ok(LinkRate::Fixed(unit(text)?)),
        }
    }
}

/// `link.back_rate`: `same` (`None`), or a [`LinkRate`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackRate(pub Option<LinkRate>);

impl FromStr for BackRate {
    type Err = String;
    fn from_str(text: &str) -> Result<BackRate, String> {
        if text == "same" { Ok(BackRate(None)) } else { text.parse().map(|rate| BackRate(Some(rate))) }
    }
}

/// `link.loss_model`.
#[derive(Clone, PartialEq, Debug)]
pub enum LossModel {
    /// Each packet with `link.loss`, correlated by `link.loss_correlation`.
    Bernoulli,
    /// Gilbert-Elliott, as netem's `loss gemodel p r 1-h 1-k`.
    GilbertElliott {
        /// Probability to move from good to bad, per packet.
        p: f64,
        /// Probability to move from bad to good.
        r: f64,
        /// Loss probability in the bad state.
        bad: f64,
        /// Loss probability in the good state.
        good: f64,
    },
    /// Exactly these packets with payload, counted from 1 as they arrive at the link.
    List(Vec<u64>),
}

impl FromStr for LossModel {
    type Err = String;
    fn from_str(text: &str) -> Result<LossModel, String> {
        if text == "bernoulli" {
            return Ok(LossModel::Bernoulli);
        }
        if let Some(rest) = text.strip_prefix("gilbert-elliott:") {
            let p: Vec<f64> = rest.split(',').map(probability).collect::<Result<_, _>>()?;
            return match p[..] {
                [p, r, bad, good] => Ok(LossModel::GilbertElliott { p, r, bad, good }),
                [p, r] => Ok(LossModel::GilbertElliott { p, r, bad: 1.0, good: 0.0 }),
                _ => Err("two or four probabilities are needed".to_owned()),
            };
        }
        let list = text.strip_prefix("list:").ok_or_else(String::new)?;
        let mut packets: Vec<u64> =
            list.split(',').map(|n| number(n, "a packet's number")).collect::<Result<_, _>>()?;
        packets.sort_unstable();
        packets.dedup();
        if packets.first() == Some(&0) {
            return Err("packets are counted from 1".to_owned());
        }
        Ok(LossModel::List(packets))
    }
}

/// `link.reorder`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ReorderRule {
    /// No reordering.
    Off,
    /// With probability `p` a packet is held until `gap` others have passed it.
    Gap {
        /// Probability that a packet is held, 0 to 1.
        p: f64,
        /// Number of packets that must pass a held packet.
        gap: u32,
    },
    /// Bursts of `n` packets arrive in reverse.
    ReverseBurst(u32),
}

impl FromStr for ReorderRule {
    type Err = String;
    fn from_str(text: &str) -> Result<ReorderRule, String> {
        if text == "off" {
            return Ok(ReorderRule::Off);
        }
        let (head, n) = text.split_once(':').ok_or_else(String::new)?;
        let n: u32 = number(n, "a number of packets")?;
        match head {
            "reverse-burst" if (2..=1024).contains(&n) => Ok(ReorderRule::ReverseBurst(n)),
            "reverse-burst" => Err(format!("a burst of {n} is not from 2 to 1024")),
            _ if n == 0 || n > 1024 => Err(format!("a gap of {n} is not from 1 to 1024")),
            _ => Ok(ReorderRule::Gap { p: probability(head)?, gap: n }),
        }
    }
}

/// `off`, or two amounts with units, of which the second one is called `second` in the message.
fn off_or_pair<A: FromStr<Err = UnitError>, B: FromStr<Err = UnitError>>(
    text: &str,
    second: &str,
) -> Result<Option<(A, B)>, String> {
    if text == "off" {
        return Ok(None);
    }
    let (one, other) = text.split_once(',').ok_or_else(|| format!("the {second} is missing"))?;
    Ok(Some((unit(one)?, unit(other)?)))
}

/// `link.policer`: `off` or `<rate>,<burst>`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicerText(pub Option<(Rate, Bytes)>);

impl FromStr for PolicerText {
    type Err = String;
    fn from_str(text: &str) -> Result<PolicerText, String> {
        Ok(PolicerText(off_or_pair(text, "burst")?))
    }
}

/// `link.slot`: `off`, or `<shortest gap>,<longest gap>[,<packets>]`: packets are sent only in slots, each
/// with at most this number of packets. The gap is the time between two slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(pub Option<(Dur, Dur, u32)>);

impl FromStr for Slot {
    type Err = String;
    fn from_str(text: &str) -> Result<Slot, String> {
        if text == "off" {
            return Ok(Slot(None));
        }
        let parts: Vec<&str> = text.split(',').collect();
        let (min, max, packets) = match parts[..] {
            [min, max] => (min, max, u32::MAX),
            [min, max, n] => (min, max, number(n, "a number of packets")?),
            _ => return Err(String::new()),
        };
        let (min, max): (Dur, Dur) = (unit(min)?, unit(max)?);
        if min.is_zero() || min > max || packets == 0 {
            return Err(
                "gaps and packets must be positive, and the second gap must not be shorter than the first"
                    .to_owned(),
            );
        }
        Ok(Slot(Some((min, max, packets))))
    }
}

/// `link.pause`: `off`, or `<every>,<length>`: the time between the beginnings of two pauses, and the length of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PauseText(pub Option<(Dur, Dur)>);

impl FromStr for PauseText {
    type Err = String;
    fn from_str(text: &str) -> Result<PauseText, String> {
        let pause: Option<(Dur, Dur)> = off_or_pair(text, "length")?;
        if pause.is_some_and(|(every, length)| length.is_zero() || length >= every) {
            return Err("a pause has a length and must end before the next one begins".to_owned());
        }
        Ok(PauseText(pause))
    }
}

/// `link.icmp`: `on`, `off`, or at most so many messages per second, as in `10/s`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpReport {
    /// One message for each dropped packet.
    Always,
    /// No message.
    Never,
    /// At most this number of messages per second, evenly spaced.
    PerSecond(u32),
}

impl FromStr for IcmpReport {
    type Err = String;
    fn from_str(text: &str) -> Result<IcmpReport, String> {
        match text {
            "on" => Ok(IcmpReport::Always),
            "off" => Ok(IcmpReport::Never),
            _ => match number(text.strip_suffix("/s").ok_or_else(String::new)?, "a number of messages")? {
                n @ 1..=1_000_000 => Ok(IcmpReport::PerSecond(n)),
                n => Err(format!("{n} messages per second are not from 1 to 1000000")),
            },
        }
    }
}

/// `link.offload`: how the router before a link merges the segments that it receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForwardingOffload {
    /// Merged packets leave as they are, and are too long for the next link (LRO); otherwise they are segmented again (GRO).
    pub lro: bool,
    /// How long the first packet waits for its interrupt.
    pub wait: Dur,
}

impl FromStr for ForwardingOffload {
    type Err = String;
    fn from_str(text: &str) -> Result<ForwardingOffload, String> {
        let (kind, wait) = text.split_once(':').unwrap_or((text, "50us"));
        let lro = match kind {
            "lro" => true,
            "gro" => false,
            _ => return Err(String::new()),
        };
        let wait = wait.parse::<Dur>().map_err(|e| e.to_string())?;
        if wait > Dur::from_millis(100) {
            return Err(format!("{wait} is more than 100ms"));
        }
        Ok(ForwardingOffload { lro, wait })
    }
}

/// `link.rewrite`: what a middlebox changes in the packets of both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a set of rules")]
pub struct RewriteRules {
    /// Removes SACK permitted from SYNs.
    pub no_sack: bool,
    /// Removes timestamps from SYNs.
    pub no_timestamps: bool,
    /// Removes the window scale from SYNs, or sets it to this value.
    pub window_scale: Option<Option<u8>>,
    /// The largest MSS in SYNs.
    pub mss: Option<u16>,
    /// Clears AE, CWR and ECE of SYNs.
    pub no_ecn_flags: bool,
    /// Clears the ECN field of IP headers.
    pub no_ect: bool,
    /// Adds a number to the sequence numbers of each direction, and subtracts it from acknowledgment numbers; SACK blocks stay as they are.
    pub sequence: bool,
}

impl RewriteRules {
    /// No change.
    pub const NONE: RewriteRules = RewriteRules {
        no_sack: false,
        no_timestamps: false,
        window_scale: None,
        mss: None,
        no_ecn_flags: false,
        no_ect: false,
        sequence: false,
    };
}

impl FromStr for RewriteRules {
    type Err = String;
    fn from_str(text: &str) -> Result<RewriteRules, String> {
        let mut rules = RewriteRules::NONE;
        if text == "none" {
            return Ok(rules);
        }
        for rule in text.split('+') {
            let before = rules;
            match rule.split_once(':').unwrap_or((rule, "")) {
                ("no-sack", "") => rules.no_sack = true,
                ("no-timestamps", "") => rules.no_timestamps = true,
                ("no-window-scale", "") if rules.window_scale.is_none() => rules.window_scale = Some(None),
                ("window-scale", n) if rules.window_scale.is_none() => match number(n, "a window scale")? {
                    n @ 0..=14 => rules.window_scale = Some(Some(n)),
                    n => return Err(format!("a window scale of {n} is not from 0 to 14")),
                },
                ("mss", bytes) => match unit::<Bytes>(bytes)?.get() {
                    n @ 88..=9176 => rules.mss = Some(u16::try_from(n).expect("below 9177")),
                    n => return Err(format!("an MSS of {n} bytes is not from 88 to 9176")),
                },
                ("no-ecn-flags", "") => rules.no_ecn_flags = true,
                ("no-ect", "") => rules.no_ect = true,
                ("sequence", "") => rules.sequence = true,
                _ => return Err(format!("`{rule}` is not a change, or contradicts another one")),
            }
            if rules == before {
                return Err(format!("`{rule}` is given twice"));
            }
        }
        Ok(rules)
    }
}

/// `queue.limit`: bytes, or packets as in `100p`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLimitValue {
    /// Bytes on the wire.
    Bytes(Bytes),
    /// Packets; a super-segment counts as one, as in Linux.
    Packets(u32),
}

impl FromStr for QueueLimitValue {
    type Err = String;
    fn from_str(text: &str) -> Result<QueueLimitValue, String> {
        let limit = match text.strip_suffix('p') {
            Some(n) => QueueLimitValue::Packets(number(n, "a number of packets")?),
            None => QueueLimitValue::Bytes(unit(text)?),
        };
        match limit {
            QueueLimitValue::Packets(0) | QueueLimitValue::Bytes(Bytes::ZERO) => {
                Err("a queue with a limit of 0 cannot hold a packet".to_owned())
            }
            limit => Ok(limit),
        }
    }
}

/// `switch.buffers`: `shared:<size>`, `dual:<size>` (of each buffer), or `port` (each port has its own `queue.limit`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffers {
    /// Each output port has its own buffer, `queue.limit`.
    Port,
    /// One buffer of this size for all ports.
    Shared(Bytes),
    /// Two buffers of this size for each output port, each for half of the input ports, served round robin.
    Dual(Bytes),
}

impl FromStr for Buffers {
    type Err = String;
    fn from_str(text: &str) -> Result<Buffers, String> {
        match text.split_once(':') {
            None if text == "port" => Ok(Buffers::Port),
            Some(("shared", size)) => Ok(Buffers::Shared(unit(size)?)),
            Some(("dual", size)) => Ok(Buffers::Dual(unit(size)?)),
            _ => Err(String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_delayed_ack_is_a_count_a_timeout_and_extras() {
        let d = "2,40ms,adaptive,quick:16".parse::<DelayedAckValue>().unwrap().0.unwrap();
        assert_eq!((d.every, d.timeout, d.adaptive, d.quick_ack), (2, Dur::from_millis(40), true, 16));
        assert_eq!("off".parse::<DelayedAckValue>(), Ok(DelayedAckValue(None)));
        assert_eq!("2".parse::<DelayedAckValue>().unwrap_err(), "the timeout is missing");
        assert!("0,40ms".parse::<DelayedAckValue>().is_err());
        assert!("2,40ms,slow".parse::<DelayedAckValue>().is_err());
    }

    #[test]
    fn loss_detection_reads_its_threshold_and_adaptation() {
        use tcpassay_tcp::LossDetection as L;
        let read = |t: &str| t.parse::<LossDetectionValue>().map(|d| d.0);
        assert_eq!(read("dupthresh"), Ok(L::DupThresh { threshold: 3, adaptive: false }));
        assert_eq!(read("dupthresh:5:adaptive"), Ok(L::DupThresh { threshold: 5, adaptive: true }));
        assert_eq!(read("rack:dsack"), Ok(L::Rack { dsack_adaptation: true }));
        assert!(read("rack:dsack:x").is_err());
        assert!(read("dupthresh:0").is_err());
    }

    #[test]
    fn an_explicit_loss_list_is_sorted_and_counts_from_one() {
        assert_eq!("list:7,3,3".parse(), Ok(LossModel::List(vec![3, 7])));
        assert!("list:0".parse::<LossModel>().is_err());
        assert!("gilbert-elliott:0.1,0.2,0.3".parse::<LossModel>().is_err());
    }

    #[test]
    fn changes_of_a_middlebox_are_a_set_without_contradictions() {
        let rules: RewriteRules = "no-sack+window-scale:0+mss:1360B".parse().unwrap();
        assert_eq!(
            rules,
            RewriteRules {
                no_sack: true,
                window_scale: Some(Some(0)),
                mss: Some(1360),
                ..RewriteRules::NONE
            }
        );
        for wrong in [
            "",
            "no-sack+no-sack",
            "no-window-scale+window-scale:3",
            "window-scale:15",
            "mss:20B",
            "none+no-ect",
        ] {
            assert!(wrong.parse::<RewriteRules>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_limit_is_bytes_or_packets() {
        assert_eq!("30KB".parse(), Ok(QueueLimitValue::Bytes(Bytes::new(30_000))));
        assert_eq!("100p".parse(), Ok(QueueLimitValue::Packets(100)));
        assert!("100".parse::<QueueLimitValue>().is_err());
        assert!("0p".parse::<QueueLimitValue>().is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9:,.%+/-]{0,24}") {
            let _ = text.parse::<DelayedAckValue>();
            let _ = text.parse::<LossDetectionValue>();
            let _ = text.parse::<LossModel>();
            let _ = text.parse::<ReorderRule>();
            let _ = text.parse::<Slot>();
            let _ = text.parse::<PolicerText>();
            let _ = text.parse::<Buffers>();
            let _ = text.parse::<IcmpReport>();
            let _ = text.parse::<RewriteRules>();
            let _ = text.parse::<QueueLimitValue>();
        }
    }
}
