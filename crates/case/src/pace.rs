//! The rate at which a port sends: unlimited, fixed, or given by a trace.

use std::sync::Arc;
use tcpassay_units::{Bytes, Dur, Rate, Time};

/// The rate of a port. The ports with a trace share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Transmission takes no time, because another element of the path limits the rate.
    Unlimited,
    /// A fixed rate.
    Fixed(Rate),
    /// A rate that changes periodically: the times of the changes within a cycle with the new rates (`None`:
    /// outage), and the length of the cycle. Before the first change the last rate of the cycle applies.
    Steps(Arc<[(Dur, Option<Rate>)]>, Dur),
    /// Times within a cycle at each of which 1500 bytes may be sent (the format of mahimahi). An unused
    /// opportunity is lost. The last time is the length of the cycle.
    Opportunities(Arc<[Dur]>),
}

/// The error of an invalid trace.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: `{text}`: {why}")]
pub struct TraceError {
    /// The line, counted from 1.
    pub line: usize,
    /// The text of the line.
    pub text: String,
    /// The reason, and the allowed values.
    pub why: &'static str,
}

/// Bytes of one opportunity to send ([`Pace::Opportunities`]).
pub const OPPORTUNITY: u64 = 1500;

impl Pace {
    /// Parses the text of a trace. Lines of one whole number have the format of mahimahi (milliseconds, one
    /// opportunity each). Lines of `seconds,rate` (`0.5,20Mbit`) are changes of the rate; a rate of `0` is
    /// an outage, and the time of the last line is the end of the cycle. Empty lines and lines that begin
    /// with `#` are ignored.
    ///
    /// # Errors
    ///
    /// The first line with another format or with a time before that of the previous line; a trace that
    /// never permits a transmission.
    pub fn from_trace(text: &str) -> Result<Pace, TraceError> {
        let lines = text.lines().map(str::trim).zip(1..);
        let mut lines = lines.filter(|(t, _)| !t.is_empty() && !t.starts_with('#')).peekable();
        let fail = |(text, line): (&str, usize), why| TraceError { line, text: text.to_owned(), why };
        let Some(&first) = lines.peek() else {
            return Err(fail(
                ("", 1),
                "an empty trace; allowed are lines of milliseconds, or of `seconds,rate`",
            ));
        };
        let mut at = Dur::ZERO;
        let mut advance = |to: Dur, line| {
            if to < at {
                return Err(fail(line, "earlier than the line before; times must not decrease"));
            }
            at = to;
            Ok(to)
        };
        if !first.0.contains(',') {
            let mut instants = Vec::new();
            for line in lines {
                let ms: u64 = line
                    .0
                    .parse()
                    .ok()
                    .filter(|ms| *ms < 1 << 40)
                    .ok_or_else(|| fail(line, "not a whole number of milliseconds"))?;
                instants.push(advance(Dur::from_millis(ms), line)?);
            }
            if at.is_zero() {
                return Err(fail(first, "the cycle has no length; the last time must be above 0"));
            }
            return Ok(Pace::Opportunities(instants.into()));
        }
        let mut steps = Vec::new();
        let mut end = first;
        for line in lines {
            end = line;
            let (time, rate) =
                line.0.split_once(',').ok_or_else(|| fail(line, "not of the form `seconds,rate`"))?;
            let s: f64 = time
                .trim()
                .parse()
                .ok()
                .filter(|s| (0.0..1e9).contains(s))
                .ok_or_else(|| fail(line, "not a number of seconds"))?;
            let rate = match rate.trim() {
                "0" => None,
                r => Some(r.parse().map_err(|_| fail(line, "not a rate as in `20Mbit`, nor `0`"))?),
            };
            steps.push((advance(Dur::from_secs_f64(s), line)?, rate));
        }
        let last = steps.pop().expect("there is a first line");
        if steps.iter().all(|s| s.1.is_none()) || last.0.is_zero() {
            let why = "the trace never permits a transmission; a line before the last needs a rate, and the last line ends the cycle";
            return Err(fail(end, why));
        }
        if let Some(&(at, _)) = steps.last()
            && at == last.0
        {
            return Err(fail(end, "the line before has this time, too, so that its rate never applies"));
        }
        Ok(Pace::Steps(steps.into(), last.0))
    }

    /// The bytes that may be sent before `end`, counted from the start of the run. [`Pace::Unlimited`] has no number.
    pub fn capacity(&self, end: Time) -> Option<Bytes> {
        let ns = end.as_nanos();
        let bytes = match self {
            Pace::Unlimited => return None,
            Pace::Fixed(rate) => bytes_of(u128::from(rate.bits_per_sec()) * u128::from(ns)),
            Pace::Opportunities(at) => {
                let cycle = at.last().expect("not empty").as_nanos();
                let (turns, within) = (ns / cycle, ns % cycle);
                let passed = at.partition_point(|time| time.as_nanos() < within);
                // The last ones of a cycle are at the instant at which the next one begins.
                let ahead = if turns > 0 && within == 0 {
                    at.len() - at.partition_point(|time| time.as_nanos() < cycle)
                } else {
                    0
                };
                (turns * at.len() as u64 + passed as u64 - ahead as u64) * OPPORTUNITY
            }
            Pace::Steps(steps, cycle) => {
                let (turns, within) = (ns / cycle.as_nanos(), ns % cycle.as_nanos());
                let before = u128::from(turns) * sent_within(steps, cycle.as_nanos());
                bytes_of(before + sent_within(steps, within))
            }
        };
        Some(Bytes::new(bytes))
    }

    /// The mean rate: the bytes of a cycle divided by its length. [`Pace::Unlimited`] has 2^64 - 1 bit/s.
    pub fn mean(&self) -> Rate {
        match self {
            Pace::Unlimited => Rate::from_bits_per_sec(u64::MAX),
            Pace::Fixed(rate) => *rate,
            Pace::Opportunities(at) => {
                let packets = u64::try_from(at.len()).expect("a file's lines");
                Rate::from_bytes_per(Bytes::new(OPPORTUNITY * packets), *at.last().expect("not empty"))
            }
            Pace::Steps(steps, cycle) => {
                let ends = steps.iter().skip(1).map(|s| s.0).chain([*cycle]);
                // Before the first change the last rate applies.
                let before = steps.first().map_or(Dur::ZERO, |s| s.0);
                let wrap = steps.last().and_then(|s| s.1).map_or(Bytes::ZERO, |r| r.bytes_in(before));
                let within: Bytes = steps
                    .iter()
                    .zip(ends)
                    .filter_map(|((from, rate), to)| Some(rate.as_ref()?.bytes_in(to.saturating_sub(*from))))
                    .sum();
                Rate::from_bytes_per(wrap + within, *cycle)
            }
        }
    }
}

/// Whole bytes of bits times nanoseconds per second.
fn bytes_of(bits: u128) -> u64 {
    u64::try_from(bits / 8_000_000_000).expect("what a link carries in a run")
}

/// What may be sent in the first `within` nanoseconds of a cycle, in bits times nanoseconds per second.
fn sent_within(steps: &[(Dur, Option<Rate>)], within: u64) -> u128 {
    let rate_of = |rate: Option<Rate>| rate.map_or(0, |rate| u128::from(rate.bits_per_sec()));
    // Before the first change the last rate applies.
    let first = (0, steps.last().map_or(0, |step| rate_of(step.1)));
    let changes =
        std::iter::once(first).chain(steps.iter().map(|(at, rate)| (at.as_nanos(), rate_of(*rate))));
    let ends = steps.iter().map(|step| step.0.as_nanos()).chain([u64::MAX]);
    changes.zip(ends).map(|((from, rate), to)| rate * u128::from(to.min(within).saturating_sub(from))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_trace_contains_line_value_and_allowed_values() {
        let e = |text| Pace::from_trace(text).unwrap_err().to_string();
        assert_eq!(e("5\n3\n"), "line 2: `3`: earlier than the line before; times must not decrease");
        assert_eq!(e("# x\n0,1Gbit\n1,fast"), "line 3: `1,fast`: not a rate as in `20Mbit`, nor `0`");
        assert_eq!(e("1\n2 ms"), "line 2: `2 ms`: not a whole number of milliseconds");
        assert!(e("").contains("an empty trace"));
        assert!(e("0,0\n1,0").contains("the trace never permits a transmission"));
        assert!(e("0\n").contains("the cycle has no length"));
        let never = "line 3: `1,0`: the line before has this time, too, so that its rate never applies";
        assert_eq!(e("0,10Mbit\n1,20Mbit\n1,0"), never);
    }

    #[test]
    fn the_capacity_is_the_integral_of_the_rate_also_across_cycles_and_outages() {
        let capacity = |pace: &Pace, ms| pace.capacity(Time::ZERO + Dur::from_millis(ms)).unwrap().get();
        // 8 Mbit/s are 1000 bytes a millisecond. The last rate applies before the first change.
        let steps = Pace::from_trace("0.010,8Mbit\n0.030,0\n0.040,16Mbit\n0.050,16Mbit").unwrap();
        let at = [0, 5, 10, 30, 40, 50, 55, 100].map(|ms| capacity(&steps, ms));
        assert_eq!(at, [0, 10_000, 20_000, 40_000, 40_000, 60_000, 70_000, 120_000]);
        // An opportunity counts from its instant on, not at the end of the interval before.
        let trace = Pace::from_trace("0\n2\n5\n5\n").unwrap();
        let at = [0, 1, 2, 3, 5, 6, 7, 8, 11].map(|ms| capacity(&trace, ms) / 1500);
        assert_eq!(at, [0, 1, 1, 2, 2, 5, 5, 6, 9]);
        assert_eq!(capacity(&Pace::Fixed(Rate::from_mbit(8)), 3), 3000);
        assert_eq!(Pace::Unlimited.capacity(Time::ZERO), None);
    }
}
