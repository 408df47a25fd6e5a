//! The long-term bandwidth: the rate that a policer lets pass.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00 and the constants of Linux 6.1 `tcp_bbr.c`. Between two losses that are four
//! round trips apart at least, with a fifth of the packets lost, the average rate is measured. If two such intervals in a row agree, the
//! sender is taken to be policed and uses their mean for 48 round trips.

use super::arithmetic::{Totals, UNIT, bytes_per_second, rate_of};
use tcpassay_units::Time;

/// Round trips of an interval: at least, and at most.
const ROUNDS: (u32, u32) = (4, 16);
/// Share of lost packets, in 1/256, of which an interval has at least so many.
const LOSS: u64 = 50;
/// Two intervals agree if they differ by an eighth at most, in 1/256 ...
const RATIO: u64 = 32;
/// ... or by so many bytes a second.
const DIFFERENCE: u64 = 4000 / 8;
/// Round trips for which the rate is used.
const USE: u32 = 48;

/// What an ACK says of losses.
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

/// What follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Nothing.
    Same,
    /// A policer was found: its rate is used from now on.
    Policed,
    /// The rate has been used long enough.
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
    /// The rate in use, if one is.
    pub fn rate(&self) -> Option<u64> {
        self.uses.then_some(self.bandwidth)
    }

    /// Forgets everything.
    pub fn reset(&mut self, totals: Totals) {
        *self = Policer { begin: totals, ..Policer::default() };
    }

    fn begin_interval(&mut self, totals: Totals) {
        self.begin = totals;
        self.rounds = 0;
    }

    /// Takes an ACK, or a timeout (one loss, the end of a round trip).
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
            // The first loss says that the policer has no tokens left.
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
