//! The transmitter of a port: computes when a packet sent at a [`Pace`] has left.

use std::sync::Arc;
use tcpassay_case::pace::{OPPORTUNITY, Pace};
use tcpassay_units::{Bytes, Carry, Dur, Rate, Time};

/// The state of a [`Pace`].
#[derive(Clone, Debug)]
pub(crate) enum Transmitter {
    Unlimited,
    /// The remainder applies only to a packet that begins when the previous one has left.
    Fixed {
        rate: Rate,
        carry: Carry,
        left: Time,
    },
    Steps {
        steps: Arc<[(Dur, Option<Rate>)]>,
        cycle: Dur,
    },
    /// `at` counts opportunities from the first one of the first cycle; `left` bytes of the current one are unused.
    Opportunities {
        instants: Arc<[Dur]>,
        at: u64,
        left: u64,
    },
}

impl Transmitter {
    pub fn new(pace: Pace) -> Transmitter {
        match pace {
            Pace::Unlimited => Transmitter::Unlimited,
            Pace::Fixed(rate) => Transmitter::Fixed { rate, carry: Carry::default(), left: Time::ZERO },
            Pace::Steps(steps, cycle) => {
                assert!(steps.iter().any(|s| s.1.is_some()), "a trace that never sends");
                assert!(
                    steps.iter().all(|s| s.0 < cycle) && steps.is_sorted_by_key(|s| s.0),
                    "steps out of order"
                );
                Transmitter::Steps { steps, cycle }
            }
            Pace::Opportunities(instants) => {
                assert!(instants.last().is_some_and(|i| !i.is_zero()), "a trace without opportunities");
                Transmitter::Opportunities { instants, at: 0, left: OPPORTUNITY }
            }
        }
    }

    /// The time at which `bytes` have left whose transmission begins at `start`. Calls must have ascending times.
    pub fn sent_at(&mut self, start: Time, bytes: u64) -> Time {
        match self {
            Transmitter::Unlimited => start,
            Transmitter::Fixed { rate, carry, left } => {
                if start > *left {
                    *carry = Carry::default();
                }
                *left = start + rate.tx_time(Bytes::new(bytes), carry);
                *left
            }
            Transmitter::Steps { steps, cycle } => stepped(steps, *cycle, start, bytes),
            Transmitter::Opportunities { instants, at, left } => {
                let per_cycle = instants.len() as u64;
                let cycle = *instants.last().expect("checked when made");
                let instant = |at: u64| {
                    let within = usize::try_from(at % per_cycle).expect("an index");
                    Time::ZERO + cycle * (at / per_cycle) + instants[within]
                };
                let turn = start.as_nanos() / cycle.as_nanos();
                // The previous cycle may end at the instant at which this one begins.
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

/// The time at which `bytes` have left whose transmission begins at `start`, at the rates of `steps`; rounded up to a
/// nanosecond only at the end.
fn stepped(steps: &[(Dur, Option<Rate>)], cycle: Dur, start: Time, bytes: u64) -> Time {
    // In units of bits times nanoseconds per second, so that rate times duration is exact.
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
        let mut p = Transmitter::new(Pace::from_trace("1\n1\n4\n").unwrap());
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
        let mut p = Transmitter::new(Pace::from_trace("1\n2\n3\n").unwrap());
        assert_eq!(p.sent_at(ms(0), 4000), ms(3));
        assert_eq!(p.sent_at(ms(3), 500), ms(3));
    }

    #[test]
    fn a_packet_spans_changes_of_the_rate_and_outages() {
        let mut p = Transmitter::new(Pace::from_trace("0,8Mbit\n0.001,0\n0.002,16Mbit\n0.01,0\n").unwrap());
        // 1000 bytes in the first ms, none in the second, 2000 bytes in the third.
        assert_eq!(p.sent_at(ms(0), 3000), ms(3));
        assert_eq!(p.sent_at(ms(1), 2), Time::from_nanos(2_001_000));
        // Into the next cycle: 1000 bytes in the last half ms, 1000 in the first.
        assert_eq!(p.sent_at(Time::from_nanos(9_500_000), 2000), ms(11));
    }

    #[test]
    fn a_fixed_rate_does_not_drift() {
        let mut p = Transmitter::new(Pace::Fixed(Rate::from_gbit(3)));
        let mut now = Time::ZERO;
        for _ in 0..3_000 {
            now = p.sent_at(now, 1);
        }
        assert_eq!(now, Time::from_nanos(8_000));
    }
}
