//! Values of parameters of the stack.

use super::text::{number, unit};
use std::str::FromStr;
use tcpassay_units::Dur;

/// `stack.delayed_ack`: `off`, or `<n>,<timeout>[,adaptive][,quick:<k>]`. `None`: `off`, which changes only
/// the delay and keeps the other rules of the profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayedAckValue(pub Option<tcpassay_tcp::DelayedAck>);

impl FromStr for DelayedAckValue {
    type Err = String;
    fn from_str(text: &str) -> Result<DelayedAckValue, String> {
        if text == "off" {
            return Ok(DelayedAckValue(None));
        }
        let mut d = tcpassay_tcp::DelayedAck {
            every: 1,
            timeout: Dur::from_millis(40),
            adaptive: false,
            quick_ack: 0,
        };
        let (every, rest) = text.split_once(',').ok_or("the timeout is missing")?;
        d.every = number(every, "a number of segments")?;
        if !(1..=64).contains(&d.every) {
            return Err(format!("{} segments are not from 1 to 64", d.every));
        }
        let mut parts = rest.split(',');
        d.timeout = unit(parts.next().expect("split gives at least one part"))?;
        if d.timeout.is_zero() || d.timeout > Dur::from_secs(10) {
            return Err(format!("the timeout {} is not from 1ns to 10s", d.timeout));
        }
        for part in parts {
            match part.split_once(':') {
                None if part == "adaptive" => d.adaptive = true,
                Some(("quick", k)) => {
                    d.quick_ack = number(k, "a number of segments")?;
                    if d.quick_ack > 1000 {
                        return Err(format!("quick:{k} is more than 1000"));
                    }
                }
                _ => return Err(format!("`{part}` is neither `adaptive` nor `quick:<n>`")),
            }
        }
        Ok(DelayedAckValue(Some(d)))
    }
}

/// `stack.loss_detection`: `dupthresh[:<n>][:adaptive]`, `rack[:dsack]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossDetectionValue(pub tcpassay_tcp::LossDetection);

impl FromStr for LossDetectionValue {
    type Err = String;
    fn from_str(text: &str) -> Result<LossDetectionValue, String> {
        use tcpassay_tcp::LossDetection::{DupThresh, Rack};
        let mut parts = text.split(':');
        let detection = match parts.next() {
            Some("rack") => match parts.next() {
                None => Rack { dsack_adaptation: false },
                Some("dsack") => Rack { dsack_adaptation: true },
                Some(other) => return Err(format!("`{other}` is not `dsack`")),
            },
            Some("dupthresh") => {
                let (mut threshold, mut adaptive) = (3, false);
                for part in parts.by_ref() {
                    if part == "adaptive" {
                        adaptive = true;
                    } else {
                        threshold = number(part, "a number of duplicate ACKs")?;
                    }
                }
                if !(1..=300).contains(&threshold) {
                    return Err(format!("a threshold of {threshold} is not from 1 to 300"));
                }
                DupThresh { threshold, adaptive }
            }
            _ => return Err(String::new()),
        };
        if parts.next().is_some() { Err(String::new()) } else { Ok(LossDetectionValue(detection)) }
    }
}

/// `stack.undo`: `off`, or a set of `eifel`, `eifel-timeout`, `dsack`, `rack-restore` joined by `+`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UndoValue(pub tcpassay_tcp::Undo);

impl FromStr for UndoValue {
    type Err = String;
    fn from_str(text: &str) -> Result<UndoValue, String> {
        let mut undo = tcpassay_tcp::Undo::default();
        if text != "off" {
            for part in text.split('+') {
                match part {
                    "eifel" => undo.eifel = true,
                    "eifel-timeout" => undo.eifel_timeout = true,
                    "dsack" => undo.dsack = true,
                    "rack-restore" => undo.rack_restore = true,
                    _ => return Err(format!("`{part}` is not a proof that undoes a reduction")),
                }
            }
        }
        Ok(UndoValue(undo))
    }
}

/// `stack.abc`: `per-ack`, `all`, or the limit in MSS an ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abc(pub tcpassay_cc::ByteCounting);

impl FromStr for Abc {
    type Err = String;
    fn from_str(text: &str) -> Result<Abc, String> {
        use tcpassay_cc::ByteCounting;
        match text {
            "per-ack" | "off" => Ok(Abc(ByteCounting::PerAck)),
            "all" => Ok(Abc(ByteCounting::All)),
            "on" => Ok(Abc(ByteCounting::Limit(2))),
            n => match number(n, "a number of MSS")? {
                0 => Err("with a limit of 0 the window never grows".to_owned()),
                n => Ok(Abc(ByteCounting::Limit(n))),
            },
        }
    }
}

/// `stack.pacing`: `off`, `on` (Linux's 200 % and 120 %), or `<slow start>%,<avoidance>%`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacingValue(pub tcpassay_tcp::Pacing);

impl FromStr for PacingValue {
    type Err = String;
    fn from_str(text: &str) -> Result<PacingValue, String> {
        use tcpassay_tcp::Pacing::{Off, Percent};
        let percent = |t: &str| -> Result<u32, String> {
            let n = number(t.strip_suffix('%').ok_or("the `%` is missing")?, "a whole percentage")?;
            if (1..=10_000).contains(&n) { Ok(n) } else { Err(format!("`{t}` is not from 1% to 10000%")) }
        };
        match text {
            "off" => Ok(PacingValue(Off)),
            "on" => Ok(PacingValue(Percent { slow_start: 200, avoidance: 120 })),
            _ => {
                let (ss, ca) = text.split_once(',').ok_or("the second percentage is missing")?;
                Ok(PacingValue(Percent { slow_start: percent(ss)?, avoidance: percent(ca)? }))
            }
        }
    }
}
