//! Round-trip time and retransmission timeout.
//!
//! Sources: RFC 6298 (estimator, bounds, backoff); Linux `tcp_rtt_estimator` for [`RtoBounds::min_on_variance`], where
//! the minimum lies under the variance, so that the RTO is never less than srtt + min, and the variance is the largest
//! deviation of a round trip, which falls only once a round trip; FreeBSD `TCP_REXMTVAL` and `TCPT_RANGESET` for
//! [`RtoBounds::slop`].
//!
//! The clock's granularity G is taken as zero, its ticks being nanoseconds.

use crate::config::RtoBounds;
use tcpassay_units::{Dur, Time};

/// Estimator and timeout.
#[derive(Clone, Debug)]
pub(super) struct Rtt {
    bounds: RtoBounds,
    /// Smoothed round-trip time.
    pub srtt: Option<Dur>,
    /// Mean deviation.
    pub rttvar: Dur,
    /// Linux's filter, when it is in force.
    linux: Option<Deviation>,
    /// Timeout without backoff.
    base: Dur,
    /// Timeout in force.
    rto: Dur,
    /// Doublings in force.
    pub backoff: u32,
    /// Smallest sample of the connection.
    pub min: Option<Dur>,
    /// Most recent sample.
    pub latest: Option<Dur>,
    /// Last sample that entered the estimate, until somebody takes it.
    pub fresh: Option<Dur>,
    window: MinFilter,
}

impl Rtt {
    /// Nothing measured.
    pub fn new(bounds: RtoBounds) -> Rtt {
        Rtt {
            bounds,
            srtt: None,
            rttvar: Dur::ZERO,
            linux: bounds.min_on_variance.then(Deviation::default),
            base: bounds.initial,
            rto: bounds.initial.min(bounds.max),
            backoff: 0,
            min: None,
            latest: None,
            fresh: None,
            window: MinFilter::default(),
        }
    }

    /// The handshake was retransmitted and gave no sample: 3 s until data give one (RFC 6298 section 5.7).
    pub fn fall_back(&mut self) {
        self.base = self.base.max(Dur::from_secs(3)).min(self.bounds.max);
        self.settle();
    }

    /// RFC 6298 section 2; a sample ends the backoff (section 5). `una` and `nxt` tell Linux's filter when a round trip
    /// has passed.
    #[inline]
    pub fn sample(&mut self, r: Dur, una: u64, nxt: u64) {
        if let Some(linux) = &mut self.linux {
            linux.sample(self.srtt, r, self.bounds.min, una, nxt);
        }
        self.fresh = Some(r);
        let srtt = match self.srtt {
            None => {
                self.rttvar = r / 2;
                r
            }
            Some(srtt) => {
                self.rttvar = (self.rttvar * 3 + srtt.abs_diff(r)) / 4;
                (srtt * 7 + r) / 8
            }
        };
        self.srtt = Some(srtt);
        let rto = match &self.linux {
            Some(linux) => srtt + linux.rttvar,
            None => (srtt + self.rttvar * 4).max(self.bounds.min),
        } + self.bounds.slop;
        self.base = rto.min(self.bounds.max);
        self.rto = self.base;
        self.backoff = 0;
    }

    /// Other bounds from now on.
    pub fn set_bounds(&mut self, bounds: RtoBounds) {
        self.bounds = bounds;
        self.settle();
    }

    /// A round trip without doubt, for the minimum.
    #[inline]
    pub fn observe_min(&mut self, now: Time, r: Dur) {
        self.latest = Some(r);
        self.min = Some(self.min.map_or(r, |m| m.min(r)));
        self.window.update(now, r);
    }

    /// Smallest sample of the last five minutes (Linux `tcp_min_rtt_wlen`), which RACK measures reordering with.
    pub fn windowed_min(&self) -> Option<Dur> {
        self.window.get()
    }

    /// The timeout in force.
    pub fn rto(&self) -> Dur {
        self.rto
    }

    fn settle(&mut self) {
        self.rto = self.base.saturating_mul(1 << self.backoff.min(32)).min(self.bounds.max);
    }

    /// RFC 6298 section 5.5.
    pub fn back_off(&mut self) {
        self.backoff += 1;
        self.settle();
    }
}

/// The deviation as Linux filters it (`mdev_us`, `mdev_max_us`, `rttvar_us`; each four times a mean deviation).
#[derive(Clone, Copy, Debug, Default)]
struct Deviation {
    mdev: Dur,
    most: Dur,
    rttvar: Dur,
    edge: u64,
}

impl Deviation {
    #[inline]
    fn sample(&mut self, srtt: Option<Dur>, r: Dur, min: Dur, una: u64, nxt: u64) {
        let Some(srtt) = srtt else {
            self.mdev = r * 2;
            self.rttvar = self.mdev.max(min);
            self.most = self.rttvar;
            self.edge = nxt;
            return;
        };
        let error = srtt.abs_diff(r);
        let quarter = self.mdev / 4;
        if error <= quarter {
            self.mdev -= quarter - error;
        } else if r < srtt {
            // A round trip that got shorter widens the deviation an eighth as fast.
            self.mdev += (error - quarter) / 8;
        } else {
            self.mdev += error - quarter;
        }
        self.most = self.most.max(self.mdev);
        self.rttvar = self.rttvar.max(self.most);
        if una > self.edge {
            self.rttvar -= self.rttvar.saturating_sub(self.most) / 4;
            self.edge = nxt;
            self.most = min;
        }
    }
}

/// The minimum over a sliding window, by three samples (Kathleen Nichols' filter, Linux `lib/win_minmax.c`); before the
/// first sample all are [`Dur::MAX`].
#[derive(Clone, Copy, Debug)]
struct MinFilter {
    best: [(Time, Dur); 3],
}

const WINDOW: Dur = Dur::from_secs(300);

impl Default for MinFilter {
    fn default() -> MinFilter {
        MinFilter { best: [(Time::ZERO, Dur::MAX); 3] }
    }
}

impl MinFilter {
    #[inline]
    fn update(&mut self, now: Time, r: Dur) {
        let new = (now, r);
        let [a, b, c] = &mut self.best;
        if r <= a.1 || now.since(c.0) > WINDOW {
            self.best = [new; 3];
            return;
        }
        if r <= b.1 {
            (*b, *c) = (new, new);
        } else if r <= c.1 {
            *c = new;
        }
        let age = now.since(a.0);
        if age <= WINDOW / 4 {
            return;
        }
        if age > WINDOW {
            self.best = [*b, *c, new];
        } else if b.0 == a.0 {
            (*b, *c) = (new, new);
        } else if c.0 == b.0 && age > WINDOW / 2 {
            *c = new;
        }
    }

    fn get(&self) -> Option<Dur> {
        let (_, min) = self.best[0];
        (min != Dur::MAX).then_some(min)
    }
}
