//! How fast a port sends: not at all limited, at a fixed rate, or as a trace says.

use tcpassay_units::{Bytes, Carry, Dur, Rate, Time};

/// How fast a port sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Each packet in no time: something else in the path limits.
    Unlimited,
    /// A fixed rate.
    Fixed(Rate),
    /// A rate that changes at the given instants of a cycle of the given length; `None` is an outage. Before the first
    /// instant the last rate of the cycle holds.
    Steps(Vec<(Dur, Option<Rate>)>, Dur),
    /// Instants of a cycle at each of which 1500 bytes may leave (mahimahi's format); what is not used is lost. The cycle
    /// is as long as its last instant.
    Opportunities(Vec<Dur>),
}

/// Why a trace cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: `{text}`: {why}")]
pub struct TraceError {
    /// Counted from 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
    /// What is wrong, and what is allowed.
    pub why: &'static str,
}

/// Bytes of one opportunity.
const OPPORTUNITY: u64 = 1500;

impl Pace {
    /// From the text of a trace: lines of one whole number are mahimahi's (milliseconds, one opportunity each); lines of
    /// `seconds,rate` (`0.5,20Mbit`) are steps, where a rate of `0` is an outage and the last line's instant ends the cycle.
    /// Empty lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    ///
    /// The first line that is neither, goes back in time, or leaves nothing ever to be sent.
    pub fn from_trace(text: &str) -> Result<Pace, TraceError> {
        let lines = text.lines().zip(1..).map(|(text, line)| (text.trim(), line));
        let lines: Vec<_> = lines.filter(|(t, _)| !t.is_empty() && !t.starts_with('#')).collect();
        let fail = |(text, line): (&str, usize), why| TraceError { line, text: text.to_owned(), why };
        let Some(&first) = lines.first() else {
            return Err(fail(
                ("", 1),
                "an empty trace; allowed are lines of milliseconds, or of `seconds,rate`",
            ));
        };
        let mut at = Dur::ZERO;
        let mut advance = |to: Dur, line| {
            if to < at {
                return Err(fail(line, "earlier than the line before; instants must not decrease"));
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
                return Err(fail(first, "a cycle of no length; the last instant must be above 0"));
            }
            return Ok(Pace::Opportunities(instants));
        }
        let mut steps = Vec::new();
        for &line in &lines {
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
            let why =
                "nothing can ever be sent; a line before the last needs a rate, and the last ends the cycle";
            return Err(fail(*lines.last().expect("there is a first line"), why));
        }
        Ok(Pace::Steps(steps, last.0))
    }
}

/// The state of a [`Pace`].
#[derive(Clone, Debug)]
pub(crate) enum Pacer {
    Unlimited,
    /// The carry counts only for what begins when the packet before has left.
    Fixed {
        rate: Rate,
        carry: Carry,
        left: Time,
    },
    Steps {
        steps: Vec<(Dur, Option<Rate>)>,
        cycle: Dur,
    },
    /// `at` counts opportunities from the first of the first cycle; `left` bytes of it are unused.
    Opportunities {
        instants: Vec<Dur>,
        at: u64,
        left: u64,
    },
}

impl Pacer {
    pub fn new(pace: Pace) -> Pacer {
        match pace {
            Pace::Unlimited => Pacer::Unlimited,
            Pace::Fixed(rate) => Pacer::Fixed { rate, carry: Carry::default(), left: Time::ZERO },
            Pace::Steps(steps, cycle) => {
                assert!(steps.iter().any(|s| s.1.is_some()), "a trace that never sends");
                assert!(
                    steps.iter().all(|s| s.0 < cycle) && steps.is_sorted_by_key(|s| s.0),
                    "steps out of order"
                );
                Pacer::Steps { steps, cycle }
            }
            Pace::Opportunities(instants) => {
                assert!(instants.last().is_some_and(|i| !i.is_zero()), "a trace without opportunities");
                Pacer::Opportunities { instants, at: 0, left: OPPORTUNITY }
            }
        }
    }

    /// When `bytes` that begin at `start` have left. Calls go forward in time.
    pub fn sent_at(&mut self, start: Time, bytes: u64) -> Time {
        match self {
            Pacer::Unlimited => start,
            Pacer::Fixed { rate, carry, left } => {
                if start > *left {
                    *carry = Carry::default();
                }
                *left = start + rate.tx_time(Bytes::new(bytes), carry);
                *left
            }
            Pacer::Steps { steps, cycle } => stepped(steps, *cycle, start, bytes),
            Pacer::Opportunities { instants, at, left } => {
                let per_cycle = instants.len() as u64;
                let cycle = *instants.last().expect("checked when made");
                let instant = |at: u64| {
                    let within = usize::try_from(at % per_cycle).expect("an index");
                    Time::ZERO + cycle * (at / per_cycle) + instants[within]
                };
                let turn = start.as_nanos() / cycle.as_nanos();
                // The cycle before may end in the very instant in which this one begins.
                let earliest = turn.saturating_sub(1) * per_cycle;
                if earliest > *at {
                    (*at, *left) = (earliest, OPPORTUNITY);
                }
                while instant(*at) < start {
                    (*at, *left) = (*at + 1, OPPORTUNITY);
                }
                let mut bytes = bytes;
                while bytes > *left {
                    bytes -= *left;
                    (*at, *left) = (*at + 1, OPPORTUNITY);
                }
                *left -= bytes;
                instant(*at)
            }
        }
    }
}

/// When `bytes` that begin at `start` have left at the rates of `steps`. Rounded up to a nanosecond at the end only.
fn stepped(steps: &[(Dur, Option<Rate>)], cycle: Dur, start: Time, bytes: u64) -> Time {
    // In bits times nanoseconds a second, so that a rate times a duration is exact.
    let mut left = u128::from(bytes) * 8_000_000_000;
    let mut turn = start.as_nanos() / cycle.as_nanos();
    let mut within = Dur::from_nanos(start.as_nanos() % cycle.as_nanos());
    let mut next = steps.partition_point(|s| s.0 <= within);
    loop {
        let rate = steps[if next == 0 { steps.len() - 1 } else { next - 1 }].1;
        let end = steps.get(next).map_or(cycle, |s| s.0);
        let bits = rate.map_or(0, |r| u128::from(r.bits_per_sec()));
        let passes = bits * u128::from((end - within).as_nanos());
        if passes >= left && bits > 0 {
            let d = u64::try_from(left.div_ceil(bits)).expect("within a step");
            return Time::ZERO + cycle * turn + within + Dur::from_nanos(d);
        }
        left -= passes;
        within = end;
        if next == steps.len() {
            (turn, within, next) = (turn + 1, Dur::ZERO, steps.partition_point(|s| s.0.is_zero()));
        } else {
            next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Dur::from_millis(n)
    }

    #[test]
    fn an_opportunity_carries_1500_bytes_and_what_is_unused_is_lost() {
        let mut p = Pacer::new(Pace::from_trace("1\n1\n4\n").unwrap());
        // Two opportunities at 1 ms: 1500 and 700 + 800 bytes; the next is at 4 ms.
        assert_eq!(p.sent_at(ms(0), 1500), ms(1));
        assert_eq!(p.sent_at(ms(1), 700), ms(1));
        assert_eq!(p.sent_at(ms(1), 800), ms(1));
        assert_eq!(p.sent_at(ms(1), 100), ms(4));
        // The 1400 bytes left at 4 ms pass unused; the cycle of 4 ms starts again.
        assert_eq!(p.sent_at(ms(5), 1500), ms(5));
        assert_eq!(p.sent_at(ms(402), 1), ms(404));
    }

    #[test]
    fn a_packet_may_need_several_opportunities() {
        let mut p = Pacer::new(Pace::from_trace("1\n2\n3\n").unwrap());
        assert_eq!(p.sent_at(ms(0), 4000), ms(3));
        assert_eq!(p.sent_at(ms(3), 500), ms(3));
    }

    #[test]
    fn a_packet_spans_changes_of_the_rate_and_outages() {
        let mut p = Pacer::new(Pace::from_trace("0,8Mbit\n0.001,0\n0.002,16Mbit\n0.01,0\n").unwrap());
        // 1000 bytes in the first ms, none in the second, 2000 bytes in the third.
        assert_eq!(p.sent_at(ms(0), 3000), ms(3));
        assert_eq!(p.sent_at(ms(1), 2), Time::from_nanos(2_001_000));
        // Into the next cycle: 1000 bytes in the last half ms, 1000 in the first.
        assert_eq!(p.sent_at(Time::from_nanos(9_500_000), 2000), ms(11));
    }

    #[test]
    fn a_fixed_rate_does_not_drift() {
        let mut p = Pacer::new(Pace::Fixed(Rate::from_gbit(3)));
        let mut now = Time::ZERO;
        for _ in 0..3_000 {
            now = p.sent_at(now, 1);
        }
        assert_eq!(now, Time::from_nanos(8_000));
    }

    #[test]
    fn a_bad_trace_names_the_line_the_value_and_what_is_allowed() {
        let e = |text| Pace::from_trace(text).unwrap_err().to_string();
        assert_eq!(e("5\n3\n"), "line 2: `3`: earlier than the line before; instants must not decrease");
        assert_eq!(e("# x\n0,1Gbit\n1,fast"), "line 3: `1,fast`: not a rate as in `20Mbit`, nor `0`");
        assert_eq!(e("1\n2 ms"), "line 2: `2 ms`: not a whole number of milliseconds");
        assert!(e("").contains("an empty trace"));
        assert!(e("0,0\n1,0").contains("nothing can ever be sent"));
        assert!(e("0\n").contains("a cycle of no length"));
    }
}
