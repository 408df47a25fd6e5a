//! The long-term bandwidth estimate: detection of a policer and of its rate.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00 and the constants of Linux 6.1 `tcp_bbr.c`. The
//! average rate is measured over intervals between losses that last at least four round trips and in which
//! at least a fifth of the packets were lost. If two consecutive intervals have nearly the same rate, a
//! policer is assumed, and the mean of the two rates is used for 48 round trips.

use super::arithmetic::{Totals, UNIT, bytes_per_second, rate_of};
use tcpassay_units::Time;

/// Smallest and largest length of an interval in round trips.
const ROUNDS: (u32, u32) = (4, 16);
/// Smallest share of lost packets in an interval, in 1/256.
const LOSS: u64 = 50;
/// Two rates agree if they differ by at most an eighth (in 1/256) ...
const RATIO: u64 = 32;
/// ... or by at most this number of bytes per second.
const DIFFERENCE: u64 = 4000 / 8;
/// Round trips for which the rate is used.
const USE: u32 = 48;

/// The values of an ACK that the detection uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Totals after the ACK.
    pub totals: Totals,
    /// Packets newly lost.
    pub losses: u64,
    pub app_limited: bool,
    /// The ACK begins a round trip.
    pub round_start: bool,
    /// Gains are cycled (mode `ProbeBw`).
    pub cycling: bool,
    /// Bytes of a packet.
    pub mss: u64,
}

/// The result of an ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// No change of the state.
    Same,
    /// A policer was detected. Its rate is used from now on.
    Policed,
    /// The rate was used for its number of round trips, and the path is probed again.
    Over,
}

/// The state of the measurement.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Policer {
    sampling: bool,
    rounds: u32,
    uses: bool,
    /// The rate of the last interval, or the one in use; zero if there is none.
    bandwidth: u64,
    /// Totals at the begin of the interval.
    begin: Totals,
}

impl Policer {
    /// The rate of the policer, if one was detected.
    pub fn rate(&self) -> Option<u64> {
        self.uses.then_some(self.bandwidth)
    }

    /// Discards the measurement and the rate.
    pub fn reset(&mut self, totals: Totals) {
        *self = Policer { begin: totals, ..Policer::default() };
    }

    fn begin_interval(&mut self, totals: Totals) {
        self.begin = totals;
        self.rounds = 0;
    }

    /// Processes an ACK, or a timeout, which counts as one loss at the end of a round trip.
    pub fn on(&mut self, step: &Step) -> Verdict {
        if self.uses {
            if step.cycling && step.round_start {
                self.rounds += 1;
                if self.rounds >= USE {
                    self.reset(step.totals);
                    return Verdict::Over;
                }
            }
            return Verdict::Same;
        }
        if !self.sampling {
            // The first loss shows that the bucket of the policer is empty.
            if step.losses == 0 {
                return Verdict::Same;
            }
            self.begin_interval(step.totals);
            self.sampling = true;
        }
        if step.app_limited {
            self.reset(step.totals);
            return Verdict::Same;
        }
        self.rounds += u32::from(step.round_start);
        if self.rounds < ROUNDS.0 {
            return Verdict::Same;
        }
        if self.rounds > ROUNDS.1 {
            self.reset(step.totals);
            return Verdict::Same;
        }
        if step.losses == 0 {
            return Verdict::Same;
        }
        let lost = step.totals.lost - self.begin.lost;
        let delivered = step.totals.delivered - self.begin.delivered;
        if delivered == 0 || lost * UNIT < LOSS * delivered {
            return Verdict::Same;
        }
        let ms = millis(step.totals.delivered_at) - millis(self.begin.delivered_at);
        if ms < 1 {
            return Verdict::Same;
        }
        self.end_interval(rate_of(delivered, ms * 1000), step)
    }

    fn end_interval(&mut self, bandwidth: u64, step: &Step) -> Verdict {
        if self.bandwidth > 0 {
            let difference = bandwidth.abs_diff(self.bandwidth);
            if difference * UNIT <= RATIO * self.bandwidth
                || bytes_per_second(difference, step.mss, UNIT) <= DIFFERENCE
            {
                self.bandwidth = u64::midpoint(bandwidth, self.bandwidth);
                self.uses = true;
                self.rounds = 0;
                return Verdict::Policed;
            }
        }
        self.bandwidth = bandwidth;
        self.begin_interval(step.totals);
        Verdict::Same
    }
}

fn millis(at: Time) -> u64 {
    at.as_nanos() / 1_000_000
}
