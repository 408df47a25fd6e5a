//! Pacing: the earliest time of the next transmission.
//!
//! Sources: the controller's rate; otherwise `tcp_update_pacing_rate` of Linux (percent of cwnd / srtt). When Linux paces:
//! `tcp_update_skb_after_send`, `tcp_pacing_check`.

use crate::config::Pacing;
use tcpassay_cc::Control;
use tcpassay_units::{Bytes, Dur, Rate, Time};

/// Linux's percentages (`tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
pub(super) const LINUX: (u32, u32) = (200, 120);

/// Linux paces nothing before so many segments with data have left.
const UNPACED: u64 = 10;
/// Linux `tcp_update_pacing_rate`: a percentage of `window` a round trip, by whether slow start is far from its end.
pub(super) fn rate(window: Bytes, control: Control, percent: (u32, u32), srtt: Dur) -> Rate {
    let percent = if control.cwnd < control.ssthresh / 2 { percent.0 } else { percent.1 };
    Rate::from_bytes_per(Bytes::new(window.get().saturating_mul(u64::from(percent)) / 100), srtt)
}

/// Release times.
#[derive(Clone, Debug, Default)]
pub(super) struct Pacer {
    /// In force.
    pub rate: Option<Rate>,
    /// What a client of Linux keeps as its rate, paced or not, from the SYN-ACK until the first ACK of data.
    pub first: Option<Rate>,
    /// Segments with data that left, as far as that matters.
    segments: u64,
    /// Nothing leaves before.
    next: Time,
    /// Something waits for `next`.
    waiting: bool,
}

impl Pacer {
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

    /// Nothing waits.
    #[inline]
    pub fn rest(&mut self) {
        self.waiting = false;
    }

    /// `bytes` left now.
    #[inline]
    pub fn sent(&mut self, now: Time, bytes: u64) {
        if let Some(rate) = self.rate {
            self.next = self.next.max(now).saturating_add(rate.time_for(Bytes::new(bytes)));
        }
    }

    /// `bytes` in so many segments left now. The first ten are not paced, and what left later than it might have
    /// shortens the wait of the next by up to a half.
    #[inline]
    pub fn sent_linux(&mut self, now: Time, bytes: u64, segments: u64) {
        let Some(rate) = self.rate else { return };
        self.segments = (self.segments + segments).min(UNPACED);
        let credit = now.since(self.next);
        self.next = self.next.max(now);
        if self.segments >= UNPACED {
            let wait = rate.time_for(Bytes::new(bytes));
            self.next = self.next.saturating_add(wait - credit.min(wait / 2));
        }
    }

    /// When the next transmission may begin, as far as the ones before decide.
    #[inline]
    pub fn next(&self) -> Time {
        self.next
    }

    /// When what waits may leave, or [`Time::MAX`].
    #[inline]
    pub fn deadline(&self) -> Time {
        if self.waiting { self.next } else { Time::MAX }
    }
}
