//! The ACK aggregation estimate: the amount by which acknowledged data exceed the estimated bandwidth,
//! because ACKs or data are aggregated on the path.
//!
//! Source: `bbr_update_ack_aggregation` of Linux 6.1 `tcp_bbr.c`. The excess of an epoch is the data
//! acknowledged beyond the estimated bandwidth. The largest excess of the last five to ten round trips is
//! added to the window.

use super::arithmetic::{Totals, micros, packets_in};
use tcpassay_units::Time;

/// Number of round trips of each of the two parts of the filter's window.
const ROUNDS: u32 = 5;
/// Number of acknowledged packets that ends an epoch.
const LONGEST: u64 = 1 << 20;

/// The values of an ACK that the estimate uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub totals: Totals,
    /// Packets newly delivered.
    pub acked: u64,
    pub round_start: bool,
    /// The bandwidth estimate in packets per microsecond times 2^24.
    pub bandwidth: u64,
    /// The window in packets.
    pub cwnd: u64,
}

/// The state of the measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Aggregation {
    begin: Time,
    acked: u64,
    /// The largest excess in each part of the filter's window; then the index of the current part.
    most: [u64; 2],
    part: usize,
    rounds: u32,
}

impl Aggregation {
    pub fn new(now: Time) -> Aggregation {
        Aggregation { begin: now, acked: 0, most: [0; 2], part: 0, rounds: 0 }
    }

    /// Begins a new epoch after an idle time.
    pub fn restart(&mut self, now: Time) {
        self.begin = now;
        self.acked = 0;
    }

    /// The largest excess, in packets.
    pub fn excess(&self) -> u64 {
        self.most[0].max(self.most[1])
    }

    /// Processes an ACK with a valid rate sample.
    pub fn on(&mut self, step: &Step) {
        if step.acked == 0 {
            return;
        }
        if step.round_start {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.part = 1 - self.part;
                self.most[self.part] = 0;
            }
        }
        let now = step.totals.delivered_at;
        let mut expected = packets_in(step.bandwidth, micros(now) - micros(self.begin));
        if self.acked <= expected || self.acked + step.acked >= LONGEST {
            self.restart(now);
            expected = 0;
        }
        self.acked = (self.acked + step.acked).min(LONGEST - 1);
        let excess = (self.acked - expected).min(step.cwnd);
        self.most[self.part] = self.most[self.part].max(excess);
    }
}
