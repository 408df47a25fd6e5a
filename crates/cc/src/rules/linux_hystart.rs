//! HyStart as in Linux's CUBIC. Slow start ends when the ACKs of one train span half of the smallest round-trip time,
//! or when the round-trip time of a round has increased.
//!
//! Source: `hystart_update`, `bictcp_hystart_reset` and `cubictcp_acked` of `tcp_cubic.c`, with its default
//! parameters (`hystart_low_window`, `hystart_ack_delta_us`, `HYSTART_MIN_SAMPLES`, `HYSTART_DELAY_THRESH`); Ha and
//! Rhee, "Taming the elephants" (2011).
//!
//! Differences:
//!
//! * Only the variant without pacing is implemented: the threshold is half of the round-trip time.
//! * The ACK that ends slow start does not increase the window; in Linux it counts in congestion avoidance.

use crate::{Ack, HystartDetect, HystartMode, Params, View};
use tcpassay_units::{Dur, Time};

/// Slow start never ends below this window in segments (`hystart_low_window`).
const LOW_WINDOW: u64 = 16;
/// `hystart_ack_delta_us`: ACKs with a larger distance belong to different trains.
const ACK_DELTA: Dur = Dur::from_millis(2);
const MIN_SAMPLES: u32 = 8;
const DELAY_MIN: Dur = Dur::from_millis(4);
const DELAY_MAX: Dur = Dur::from_millis(16);
/// Upper limit of `hystart_ack_delay`, the transmission time of four super-segments of 64 KiB at the pacing rate.
const SUPER: u64 = 4 * 65_536;
const MOST_ACK_DELAY: Dur = Dur::from_millis(1);

/// The fields of `struct bictcp` that belong to HyStart.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct LinuxHystart {
    detect: HystartDetect,
    delay_min: Option<Dur>,
    /// Bytes acknowledged so far, the largest number of bytes sent by then, and that number at the start of the round
    /// (`end_seq`).
    una: u64,
    sent: u64,
    end: u64,
    round_start: Time,
    last_ack: Time,
    curr_rtt: Option<Dur>,
    samples: u32,
    /// Slow start has ended by HyStart once. Only a timeout lets HyStart act again (`cubictcp_state`), not a slow start after idle.
    found: bool,
    /// This ACK ends slow start.
    ends: bool,
}

impl LinuxHystart {
    pub fn new(detect: HystartDetect) -> LinuxHystart {
        LinuxHystart { detect, ..LinuxHystart::default() }
    }

    /// The state, when the parameters enable HyStart.
    pub fn enabled(params: &Params) -> Option<LinuxHystart> {
        if let HystartMode::Linux(detect) = params.hystart { Some(LinuxHystart::new(detect)) } else { None }
    }

    /// The smallest round-trip time sample that was not discarded.
    pub fn delay_min(&self) -> Option<Dur> {
        self.delay_min
    }

    /// Slow start begins again after a timeout (`bictcp_reset`).
    pub fn reset(&mut self, now: Time) {
        let LinuxHystart { detect, una, sent, .. } = *self;
        *self = LinuxHystart {
            detect,
            una,
            sent,
            end: sent,
            round_start: now,
            last_ack: now,
            ..LinuxHystart::default()
        };
    }

    /// Whether the last ACK ends slow start.
    pub fn ends(&self) -> bool {
        self.ends
    }

    /// Processes an ACK. `fresh`: congestion avoidance began less than a second ago, so that the round-trip time
    /// sample is ignored.
    pub fn on_ack(&mut self, view: &View, ack: &Ack, fresh: bool) {
        self.una += ack.acked.get();
        self.sent = self.sent.max(self.una + view.flight.get());
        self.ends = false;
        let Some(delay) = ack.rtt.filter(|_| !fresh) else { return };
        self.delay_min = Some(self.delay_min.map_or(delay, |min| min.min(delay)));
        if !self.found && view.control.cwnd < view.control.ssthresh {
            self.update(view, delay);
            self.ends = self.found;
        }
    }

    fn update(&mut self, view: &View, delay: Dur) {
        let now = view.now;
        if self.una > self.end {
            self.end = self.sent;
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

/// `hystart_ack_delay`, with the pacing rate of Linux in slow start: twice the window per round-trip time.
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

    /// An ACK at `ms`, with a window of `segments` and this round trip; `first` acknowledges more than was sent when the
    /// last round began.
    fn ack(train: &mut LinuxHystart, ms: u64, first: bool, segments: u64, rtt_ms: u64) -> bool {
        let mss = Bytes::new(1000);
        let control = Control { cwnd: mss * segments, ssthresh: Bytes::MAX, pacing: None };
        let rtt = Dur::from_millis(rtt_ms);
        let now = Time::ZERO + Dur::from_millis(ms);
        if first {
            train.una = train.end;
        }
        let view = View { now, srtt: Some(rtt), flight: mss * 100, ..View::start(mss, control) };
        let ack = Ack {
            acked: mss,
            delivered: mss,
            lost: Bytes::ZERO,
            marked: Bytes::ZERO,
            rtt: Some(rtt),
            sample: None,
            app_limited: false,
            round: 0,
            reordered: false,
        };
        train.on_ack(&view, &ack, false);
        train.ends()
    }

    #[test]
    fn a_round_trip_that_rose_by_an_eighth_in_nine_samples_ends_slow_start() {
        let mut train = LinuxHystart::new(HystartDetect { train: false, delay: true });
        assert!(!ack(&mut train, 100, true, 10, 100));
        for i in 0..8 {
            assert!(!ack(&mut train, 200 + i, i == 0, 20, 113), "sample {i}");
        }
        assert!(ack(&mut train, 208, false, 20, 113));
    }

    #[test]
    fn once_found_the_exit_of_slow_start_is_not_looked_for_before_a_timeout() {
        let mut train = LinuxHystart::new(HystartDetect { train: false, delay: true });
        ack(&mut train, 100, true, 10, 100);
        assert_eq!((0..12).filter(|i| ack(&mut train, 200 + i, *i == 0, 20, 113)).count(), 1);
        // The window is below ssthresh again after idle.
        assert!((0..12).all(|i| !ack(&mut train, 900 + i, i == 0, 20, 113)));
        train.reset(Time::ZERO + Dur::from_millis(1500));
        ack(&mut train, 1600, true, 10, 100);
        assert_eq!((0..12).filter(|i| ack(&mut train, 1700 + i, *i == 0, 20, 113)).count(), 1);
    }

    #[test]
    fn a_rise_below_an_eighth_or_a_small_window_ends_nothing() {
        let mut train = LinuxHystart::new(HystartDetect { train: false, delay: true });
        ack(&mut train, 100, true, 10, 100);
        assert!((0..20).all(|i| !ack(&mut train, 200 + i, i == 0, 20, 112)));
        assert!((0..20).all(|i| !ack(&mut train, 300 + i, i == 0, 15, 300)));
    }

    #[test]
    fn a_train_of_acks_longer_than_half_the_smallest_round_trip_ends_slow_start() {
        let mut train = LinuxHystart::new(HystartDetect { train: true, delay: false });
        ack(&mut train, 100, true, 10, 10);
        // The round begins at 200 ms; (10 + 1) / 2 ms later is 205.5 ms.
        for ms in [200, 202, 204] {
            assert!(!ack(&mut train, ms, ms == 200, 20, 10), "{ms} ms");
        }
        assert!(ack(&mut train, 206, false, 20, 10));
        let mut broken = LinuxHystart::new(HystartDetect { train: true, delay: false });
        assert!(
            [200, 202, 205, 206].iter().all(|&ms| !ack(&mut broken, ms, ms == 200, 20, 10)),
            "a gap of 3 ms"
        );
    }
}
