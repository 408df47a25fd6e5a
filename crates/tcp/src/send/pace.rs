//! Pacing: the earliest time of the next transmission.
//!
//! Sources: the controller's rate; otherwise `tcp_update_pacing_rate` of Linux (percent of cwnd / srtt).

use crate::config::Pacing;
use tcpassay_cc::Control;
use tcpassay_units::{Bytes, Dur, Rate, Time};

/// Linux's percentages (`tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
pub(super) const LINUX: (u32, u32) = (200, 120);

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
    /// Nothing leaves before.
    next: Time,
    /// Something waits for `next`.
    waiting: bool,
}

impl Pacer {
    /// The rate after an ACK.
    #[inline]
    pub fn update(&mut self, rule: Pacing, control: &Control, srtt: Option<Dur>) {
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

    /// When what waits may leave, or [`Time::MAX`].
    #[inline]
    pub fn deadline(&self) -> Time {
        if self.waiting { self.next } else { Time::MAX }
    }
}
