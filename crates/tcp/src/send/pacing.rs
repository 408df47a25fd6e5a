//! Pacing: the earliest time of the next transmission.
//!
//! Sources: the controller's rate; otherwise `tcp_update_pacing_rate` of Linux (percent of cwnd / srtt). When Linux paces:
//! `tcp_update_skb_after_send`, `tcp_pacing_check`.

use crate::config::Pacing;
use tcpassay_cc::Control;
use tcpassay_units::{Bytes, Dur, Rate, Time};

/// Linux's percentages (`tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
pub(super) const LINUX: (u32, u32) = (200, 120);

/// Number of segments with data that Linux sends without pacing at the start.
const UNPACED: u64 = 10;

/// Linux `tcp_update_pacing_rate`: a percentage of `window` each round trip, which depends on whether cwnd is below half of ssthresh.
pub(super) fn rate(window: Bytes, control: Control, percent: (u32, u32), srtt: Dur) -> Rate {
    let percent = if control.cwnd < control.ssthresh / 2 { percent.0 } else { percent.1 };
    Rate::from_bytes_per(Bytes::new(window.get().saturating_mul(u64::from(percent)) / 100), srtt)
}

/// The pacing rate, and the earliest time of the next transmission.
#[derive(Clone, Debug, Default)]
pub(super) struct Pacer {
    /// Whether the first segments are not paced and lateness is credited, as in Linux.
    credit: bool,
    /// The pacing rate in force.
    rate: Option<Rate>,
    /// The rate of a Linux client, whether it paces or not, from the SYN-ACK until the first ACK of data.
    first: Option<Rate>,
    /// Segments with data that left, counted up to [`UNPACED`].
    segments: u64,
    /// The earliest time of the next transmission.
    next: Time,
    /// True if a segment waits for `next`.
    waiting: bool,
}

impl Pacer {
    /// `credit`: the first ten segments are not paced, and a segment that was sent late shortens the wait of the next
    /// one by up to a half.
    pub fn new(credit: bool) -> Pacer {
        Pacer { credit, ..Pacer::default() }
    }

    /// The rate in force; `None` if nothing is paced.
    #[inline]
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// The rate in force, or the one that a Linux client derives from its handshake.
    pub fn rate_or_first(&self) -> Option<Rate> {
        self.rate.or(self.first)
    }

    /// The rate after an ACK.
    #[inline]
    pub fn update(&mut self, rule: Pacing, control: &Control, srtt: Option<Dur>) {
        self.first = None;
        if rule == Pacing::Off {
            self.rate = control.pacing;
            return;
        }
        self.rate = match (control.pacing, rule, srtt) {
            (Some(rate), ..) => Some(rate),
            (None, Pacing::Percent { slow_start, avoidance }, Some(srtt)) if !srtt.is_zero() => {
                Some(rate(control.cwnd, *control, (slow_start, avoidance), srtt))
            }
            _ => None,
        };
    }

    /// The first rate of a Linux client, of [`Agreed::rate_window`](crate::messages::Agreed::rate_window).
    pub fn begin(&mut self, rule: Pacing, window: Bytes, srtt: Option<Dur>) {
        let Some(srtt) = srtt.filter(|srtt| !srtt.is_zero()) else { return };
        let percent = if let Pacing::Percent { slow_start, .. } = rule { slow_start } else { LINUX.0 };
        let first = Rate::from_bytes_per(Bytes::new(window.get() * u64::from(percent) / 100), srtt);
        self.first = Some(first);
        if rule != Pacing::Off {
            self.rate = Some(first);
        }
    }

    /// Whether the next transmission must wait; then [`Pacer::deadline`] says until when.
    pub fn blocks(&mut self, now: Time) -> bool {
        self.waiting = self.rate.is_some() && now < self.next;
        self.waiting
    }

    /// Records that no segment waits.
    #[inline]
    pub fn rest(&mut self) {
        self.waiting = false;
    }

    /// Records that `bytes` were sent now in this number of segments.
    #[inline]
    pub fn sent(&mut self, now: Time, bytes: u64, segments: u64) {
        let Some(rate) = self.rate else { return };
        if !self.credit {
            self.next = self.next.max(now).saturating_add(rate.time_for(Bytes::new(bytes)));
            return;
        }
        self.segments = (self.segments + segments).min(UNPACED);
        let credit = now.since(self.next);
        self.next = self.next.max(now);
        if self.segments >= UNPACED {
            let wait = rate.time_for(Bytes::new(bytes));
            self.next = self.next.saturating_add(wait - credit.min(wait / 2));
        }
    }

    /// The earliest time of the next transmission.
    #[inline]
    pub fn next(&self) -> Time {
        self.next
    }

    /// The time at which the waiting segment may be sent; [`Time::MAX`] if none waits.
    #[inline]
    pub fn deadline(&self) -> Time {
        if self.waiting { self.next } else { Time::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_RATE: Control = Control {
        cwnd: Bytes::new(100_000),
        ssthresh: Bytes::MAX,
        pacing: Some(Rate::from_bits_per_sec(8_000_000)),
    };

    fn at(us: u64) -> Time {
        Time::ZERO + Dur::from_micros(us)
    }

    #[test]
    fn a_segment_waits_for_the_time_of_the_one_before() {
        let mut pacer = Pacer::new(false);
        pacer.update(Pacing::Off, &AT_RATE, None);
        assert!(!pacer.blocks(at(0)));
        pacer.sent(at(0), 1000, 1);
        assert!(pacer.blocks(at(999)));
        assert_eq!(pacer.deadline(), at(1000));
        assert!(!pacer.blocks(at(1000)));
        assert_eq!(pacer.deadline(), Time::MAX);
    }

    #[test]
    fn linux_paces_after_ten_segments_and_credits_lateness_up_to_half_a_wait() {
        let mut pacer = Pacer::new(true);
        pacer.update(Pacing::Off, &AT_RATE, None);
        pacer.sent(at(0), 9000, 9);
        assert!(!pacer.blocks(at(0)));
        pacer.sent(at(0), 1000, 1);
        assert_eq!(pacer.next(), at(1000));
        pacer.sent(at(1200), 1000, 1);
        assert_eq!(pacer.next(), at(2000), "200 us late");
        pacer.sent(at(9000), 1000, 1);
        assert_eq!(pacer.next(), at(9500), "at most half of the wait is credited");
    }

    #[test]
    fn the_rate_is_twice_the_window_a_round_trip_in_slow_start_and_a_fifth_more_after_it() {
        let rule = Pacing::Percent { slow_start: 200, avoidance: 120 };
        let srtt = Some(Dur::from_millis(100));
        let mut pacer = Pacer::new(false);
        pacer.update(rule, &Control { pacing: None, ..AT_RATE }, srtt);
        assert_eq!(pacer.rate(), Some(Rate::from_bits_per_sec(16_000_000)));
        let avoidance = Control { pacing: None, ssthresh: Bytes::new(200_000), ..AT_RATE };
        pacer.update(rule, &avoidance, srtt);
        assert_eq!(pacer.rate(), Some(Rate::from_bits_per_sec(9_600_000)));
    }
}
