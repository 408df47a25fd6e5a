//! How much more than expected is acknowledged at a time, because ACKs or data are collected on the path.
//!
//! Source: `bbr_update_ack_aggregation` of Linux 6.1 `tcp_bbr.c`. In each epoch, what is acknowledged beyond the estimated bandwidth is
//! the excess; the largest excess of five to ten round trips enlarges the window.

use super::arithmetic::{Totals, micros, packets_in};
use tcpassay_units::Time;

/// Round trips of one of the two parts of the window.
const ROUNDS: u32 = 5;
/// An epoch ends when so many packets were acknowledged in it.
const LONGEST: u64 = 1 << 20;

/// What an ACK says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub totals: Totals,
    /// Packets newly delivered.
    pub acked: u64,
    pub round_start: bool,
    /// The bandwidth in use.
    pub bandwidth: u64,
    /// The window in packets.
    pub cwnd: u64,
}

/// The state of the measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Aggregation {
    begin: Time,
    acked: u64,
    /// The largest excess in each part of the window, and which part is the present one.
    most: [u64; 2],
    part: usize,
    rounds: u32,
}

impl Aggregation {
    pub fn new(now: Time) -> Aggregation {
        Aggregation { begin: now, acked: 0, most: [0; 2], part: 0, rounds: 0 }
    }

    /// A new epoch begins, after the connection was idle.
    pub fn restart(&mut self, now: Time) {
        self.begin = now;
        self.acked = 0;
    }

    /// The largest excess, in packets.
    pub fn excess(&self) -> u64 {
        self.most[0].max(self.most[1])
    }

    /// Takes an ACK with a valid rate sample.
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
