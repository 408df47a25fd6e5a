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

/// Linux `tcp_update_pacing_rate`: a percentage of `window` each round trip, which depends on whether cwnd is below half of ssthresh, both
/// in whole `units`.
fn rate(window: Bytes, control: Control, unit: Bytes, percent: (u32, u32), srtt: Dur) -> Rate {
    let slow = control.cwnd / unit < control.ssthresh / unit / 2;
    let percent = if slow { percent.0 } else { percent.1 };
    Rate::from_bytes_per(Bytes::new(window.get().saturating_mul(u64::from(percent))), srtt * 100)
}

/// What the rate is computed from, as the last ACK left it (`tcp_update_pacing_rate`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Basis {
    /// cwnd, or the bytes outstanding if they are more.
    pub window: Bytes,
    /// cwnd and ssthresh decide the percentage.
    pub control: Control,
    /// The unit of the windows: a segment where the stack counts packets, otherwise a byte.
    pub unit: Bytes,
    pub srtt: Option<Dur>,
}

impl Basis {
    fn rate(&self, percent: (u32, u32)) -> Option<Rate> {
        let srtt = self.srtt.filter(|srtt| !srtt.is_zero())?;
        Some(rate(self.window, self.control, self.unit, percent, srtt))
    }
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
    /// What the rate is computed from.
    basis: Option<Basis>,
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

    /// The rate that Linux sizes super-segments by: the one in force, or the one that it has without pacing, too (`sk_pacing_rate`).
    pub fn rate_of_size(&self) -> Option<Rate> {
        self.rate.or(self.first).or_else(|| self.basis?.rate(LINUX))
    }

    /// The rate after an ACK.
    #[inline]
    pub fn update(&mut self, rule: Pacing, basis: Basis) {
        self.first = None;
        self.basis = Some(basis);
        self.rate = match (basis.control.pacing, rule) {
            (None, Pacing::Percent { slow_start, avoidance }) => basis.rate((slow_start, avoidance)),
            (rate, _) => rate,
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

    /// A segment without data was sent now. It does not wait, but lateness before it is not credited (`tcp_wstamp_ns`).
    #[inline]
    pub fn control_sent(&mut self, now: Time) {
        if self.credit && self.rate.is_some() {
            self.next = self.next.max(now);
        }
    }

    /// The time that the timestamp option of a segment without data has that is sent now: with the credit of Linux that of the next paced
    /// transmission, although the segment does not wait for it (`tcp_wstamp_ns`, `skb_mstamp_ns`).
    #[inline]
    pub fn stamp_time(&self, now: Time) -> Time {
        if self.credit && self.rate.is_some() { self.next.max(now) } else { now }
    }

    /// How long the next transmission waits, for timers that are set now (`tcp_pacing_delay` of Linux, since 4.20).
    #[inline]
    pub fn delay(&self, now: Time) -> Dur {
        if self.credit && self.rate.is_some() { self.next.since(now) } else { Dur::ZERO }
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

    const AT_RATE: Basis = Basis {
        window: Bytes::new(100_000),
        control: Control {
            cwnd: Bytes::new(100_000),
            ssthresh: Bytes::MAX,
            pacing: Some(Rate::from_bits_per_sec(8_000_000)),
        },
        unit: Bytes::new(1),
        srtt: Some(Dur::from_millis(100)),
    };

    fn at(us: u64) -> Time {
        Time::ZERO + Dur::from_micros(us)
    }

    #[test]
    fn a_segment_waits_for_the_time_of_the_one_before() {
        let mut pacer = Pacer::new(false);
        pacer.update(Pacing::Off, AT_RATE);
        assert!(!pacer.blocks(at(0)));
        pacer.sent(at(0), 1000, 1);
        assert!(pacer.blocks(at(999)));
        assert_eq!(pacer.deadline(), at(1000));
        assert!(!pacer.blocks(at(1000)));
        assert_eq!(pacer.deadline(), Time::MAX);
    }

    #[test]
    fn the_window_is_compared_with_half_of_ssthresh_in_whole_segments() {
        let rule = Pacing::Percent { slow_start: 200, avoidance: 120 };
        let unit = Bytes::new(1000);
        let mut pacer = Pacer::new(true);
        let mut at_half = |segments: u64| {
            let control = Control { cwnd: unit * segments, ssthresh: Bytes::new(69_000), pacing: None };
            pacer.update(rule, Basis { window: Bytes::new(34_000), control, unit, ..AT_RATE });
            pacer.rate()
        };
        // 34 is not below 69 / 2.
        assert_eq!(at_half(34), Some(Rate::from_bits_per_sec(3_264_000)));
        assert_eq!(at_half(33), Some(Rate::from_bits_per_sec(5_440_000)));
    }

    #[test]
    fn linux_paces_after_ten_segments_and_credits_lateness_up_to_half_a_wait() {
        let mut pacer = Pacer::new(true);
        pacer.update(Pacing::Off, AT_RATE);
        pacer.sent(at(0), 9000, 9);
        assert!(!pacer.blocks(at(0)));
        pacer.sent(at(0), 1000, 1);
        assert_eq!(pacer.next(), at(1000));
        pacer.sent(at(1200), 1000, 1);
        assert_eq!(pacer.next(), at(2000), "200 us late");
        assert_eq!(
            pacer.stamp_time(at(1500)),
            at(2000),
            "an ACK does not wait, but has the timestamp of the next transmission"
        );
        assert_eq!(pacer.stamp_time(at(2500)), at(2500));
        pacer.sent(at(9000), 1000, 1);
        assert_eq!(pacer.next(), at(9500), "at most half of the wait is credited");
        pacer.control_sent(at(12_000));
        pacer.sent(at(12_000), 1000, 1);
        assert_eq!(pacer.next(), at(13_000), "an ACK at the same time takes the credit");
    }

    #[test]
    fn the_rate_is_twice_the_window_a_round_trip_in_slow_start_and_a_fifth_more_after_it() {
        let rule = Pacing::Percent { slow_start: 200, avoidance: 120 };
        let unpaced = Control { pacing: None, ..AT_RATE.control };
        let mut pacer = Pacer::new(false);
        pacer.update(rule, Basis { control: unpaced, ..AT_RATE });
        assert_eq!(pacer.rate(), Some(Rate::from_bits_per_sec(16_000_000)));
        let avoidance = Control { ssthresh: Bytes::new(200_000), ..unpaced };
        pacer.update(rule, Basis { control: avoidance, ..AT_RATE });
        assert_eq!(pacer.rate(), Some(Rate::from_bits_per_sec(9_600_000)));
        let inflated = Basis { window: Bytes::new(200_000), control: avoidance, ..AT_RATE };
        pacer.update(rule, inflated);
        assert_eq!(
            pacer.rate(),
            Some(Rate::from_bits_per_sec(19_200_000)),
            "what is outstanding exceeds cwnd"
        );
        pacer.update(Pacing::Off, inflated);
        assert_eq!((pacer.rate(), pacer.rate_of_size()), (None, Some(Rate::from_bits_per_sec(19_200_000))));
    }
}
