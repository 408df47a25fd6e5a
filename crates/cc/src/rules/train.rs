//! HyStart as Linux's CUBIC has it: slow start ends when ACKs of one train span half the smallest round trip, or when the
//! round trip of a round has risen.
//!
//! Source: `hystart_update`, `bictcp_hystart_reset` and `cubictcp_acked` of `tcp_cubic.c`, with its default parameters
//! (`hystart_low_window`, `hystart_ack_delta_us`, `HYSTART_MIN_SAMPLES`, `HYSTART_DELAY_THRESH`); Ha and Rhee, "Taming
//! the elephants" (2011).
//!
//! Differences:
//!
//! * Rounds are those of [`Ack::round`]; Linux's end when the cumulative point passes what was sent at the last end.
//! * The ACK that ends slow start earns no growth; in Linux it counts in congestion avoidance.

use crate::{Ack, View};
use tcpassay_units::{Dur, Time};

/// Segments of window below which slow start goes on whatever is seen (`hystart_low_window`).
const LOW_WINDOW: u64 = 16;
/// `hystart_ack_delta_us`: ACKs farther apart are not of one train.
const ACK_DELTA: Dur = Dur::from_millis(2);
const MIN_SAMPLES: u32 = 8;
const DELAY_MIN: Dur = Dur::from_millis(4);
const DELAY_MAX: Dur = Dur::from_millis(16);
/// `hystart_ack_delay`: what four super-segments of 64 KiB take at the pacing rate, at most a millisecond.
const SUPER: u64 = 4 * 65_536;
const MOST_ACK_DELAY: Dur = Dur::from_millis(1);

/// Which detections are on (`hystart_detect`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Detect {
    /// The length of ACK trains.
    pub train: bool,
    /// The rise of the round trip.
    pub delay: bool,
}

/// The state of `struct bictcp` that is HyStart's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Train {
    detect: Detect,
    delay_min: Option<Dur>,
    round: u64,
    round_start: Time,
    last_ack: Time,
    curr_rtt: Option<Dur>,
    samples: u32,
    found: bool,
}

impl Train {
    pub fn new(detect: Detect) -> Train {
        Train {
            detect,
            delay_min: None,
            round: 0,
            round_start: Time::ZERO,
            last_ack: Time::ZERO,
            curr_rtt: None,
            samples: 0,
            found: false,
        }
    }

    /// Slow start begins anew after a timeout (`bictcp_reset`).
    pub fn reset(&mut self, now: Time) {
        *self = Train { round: self.round, round_start: now, last_ack: now, ..Train::new(self.detect) };
    }

    /// Whether slow start is to end.
    pub fn found(&self) -> bool {
        self.found
    }

    /// An ACK; `fresh`: congestion avoidance began less than a second ago, so that its round trip says nothing.
    pub fn on_ack(&mut self, view: &View, ack: &Ack, fresh: bool) {
        let Some(delay) = ack.rtt.filter(|_| !fresh) else { return };
        self.delay_min = Some(self.delay_min.map_or(delay, |min| min.min(delay)));
        if !self.found && view.control.cwnd < view.control.ssthresh {
            self.update(view, ack, delay);
        }
    }

    fn update(&mut self, view: &View, ack: &Ack, delay: Dur) {
        let now = view.now;
        if ack.round != self.round {
            self.round = ack.round;
            self.round_start = now;
            self.last_ack = now;
            self.curr_rtt = None;
            self.samples = 0;
        }
        if view.control.cwnd < view.mss * LOW_WINDOW {
            return;
        }
        let delay_min = self.delay_min.unwrap_or(delay);
        if self.detect.train && now.since(self.last_ack) <= ACK_DELTA {
            self.last_ack = now;
            let threshold = (delay_min + ack_delay(view)) / 2;
            self.found |= now.since(self.round_start) > threshold;
        }
        if self.detect.delay {
            let least = self.curr_rtt.map_or(delay, |rtt| rtt.min(delay));
            self.curr_rtt = Some(least);
            if self.samples < MIN_SAMPLES {
                self.samples += 1;
            } else {
                self.found |= least > delay_min + (delay_min / 8).clamp(DELAY_MIN, DELAY_MAX);
            }
        }
    }
}

/// `hystart_ack_delay`, with the rate that Linux keeps in slow start: twice the window in a round trip.
fn ack_delay(view: &View) -> Dur {
    let rate_window = (view.control.cwnd.get() * 2).max(1);
    let srtt = view.srtt.unwrap_or(Dur::ZERO);
    Dur::from_nanos(srtt.as_nanos().saturating_mul(SUPER) / rate_window).min(MOST_ACK_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Control;
    use tcpassay_units::Bytes;

    /// The ACK of round `round` at `ms`, with a window of `segments` and this round trip.
    fn ack(train: &mut Train, ms: u64, round: u64, segments: u64, rtt_ms: u64) -> bool {
        let mss = Bytes::new(1000);
        let control = Control { cwnd: mss * segments, ssthresh: Bytes::MAX, pacing: None };
        let rtt = Dur::from_millis(rtt_ms);
        let now = Time::ZERO + Dur::from_millis(ms);
        let view = View { now, srtt: Some(rtt), ..View::start(mss, control) };
        let ack = Ack {
            acked: mss,
            delivered: mss,
            lost: Bytes::ZERO,
            marked: Bytes::ZERO,
            rtt: Some(rtt),
            delivery_rate: None,
            app_limited: false,
            round,
        };
        train.on_ack(&view, &ack, false);
        train.found()
    }

    #[test]
    fn a_round_trip_that_rose_by_an_eighth_in_nine_samples_ends_slow_start() {
        let mut train = Train::new(Detect { train: false, delay: true });
        assert!(!ack(&mut train, 100, 1, 10, 100));
        for i in 0..8 {
            assert!(!ack(&mut train, 200 + i, 2, 20, 113), "sample {i}");
        }
        assert!(ack(&mut train, 208, 2, 20, 113));
    }

    #[test]
    fn a_rise_below_an_eighth_or_a_small_window_ends_nothing() {
        let mut train = Train::new(Detect { train: false, delay: true });
        ack(&mut train, 100, 1, 10, 100);
        assert!((0..20).all(|i| !ack(&mut train, 200 + i, 2, 20, 112)));
        assert!((0..20).all(|i| !ack(&mut train, 300 + i, 3, 15, 300)));
    }

    #[test]
    fn a_train_of_acks_longer_than_half_the_smallest_round_trip_ends_slow_start() {
        let mut train = Train::new(Detect { train: true, delay: false });
        ack(&mut train, 100, 1, 10, 10);
        // The round begins at 200 ms; (10 + 1) / 2 ms later is 205.5 ms.
        for ms in [200, 202, 204] {
            assert!(!ack(&mut train, ms, 2, 20, 10), "{ms} ms");
        }
        assert!(ack(&mut train, 206, 2, 20, 10));
        let mut broken = Train::new(Detect { train: true, delay: false });
        assert!([200, 202, 205, 206].iter().all(|&ms| !ack(&mut broken, ms, 2, 20, 10)), "a gap of 3 ms");
    }
}
