//! CUBIC as in Linux: whole segments, milliseconds, and a count of segments per increase of the window.
//!
//! Source: `bictcp_update`, `cubictcp_recalc_ssthresh`, `cubictcp_cong_avoid`, `cubictcp_cwnd_event` and
//! `bictcp_reset` of `net/ipv4/tcp_cubic.c`, and `tcp_cong_avoid_ai` of `tcp_cong.c`, both of 6.1, with HZ = 1000.
//!
//! Relevant differences from [`Cubic`](super::Cubic), which implements RFC 9438: the count is recomputed only after a
//! change of the window or after 31 ms, so that below a round-trip time of about 30 ms the window follows the
//! Reno-friendly window with a delay; a reduction is rounded down to whole segments; before the first loss the window
//! grows by at least a twentieth per round trip; an undo restores only the window.
//!
//! Differences from Linux:
//!
//! * The cube root is exact; Linux uses a table and one step of Newton's method, with an error of 0.2 %.
//! * The segments of an ACK are computed from its bytes and the MSS, rounded up.
//! * Marks have their own factor (`beta_ecn`), by default that of losses.

use super::cubic::Cubic;
use super::linux_hystart::LinuxHystart;
use crate::cbrt::cbrt;
use crate::{Ack, Cause, ParamInfo, ParamValues, Params, ResetReason, View, WindowRule};
use tcpassay_units::{Bytes, Dur, Time};

/// `BICTCP_BETA_SCALE`.
const BETA_SCALE: u64 = 1024;
/// `HZ / 32` ticks: while the window is constant, the count is not recomputed for this time.
const STANDS: u64 = 31;
/// Growth before the first loss: one segment per 20, that is 5 % per round trip.
const FIRST_COUNT: u64 = 20;

/// CUBIC as `tcp_cubic.c` computes it.
#[derive(Clone, PartialEq, Debug)]
pub struct LinuxCubic {
    /// `bic_scale`: 1024 C / 10.
    scale: u64,
    /// `beta` in units of 1/1024, after losses and after marks.
    beta: u64,
    beta_ecn: u64,
    fast_convergence: bool,
    /// `last_max_cwnd` in segments; 0 before a loss.
    last_max: u64,
    /// `cnt`: number of acknowledged segments per segment of growth.
    count: u64,
    /// `last_cwnd`, `last_time`: the window and the time at the last computation of the count.
    made_at: (u64, u64),
    epoch: Option<Epoch>,
    /// `snd_cwnd_cnt`.
    credit: u64,
    train: LinuxHystart,
}

/// The time from one reduction to the next.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Epoch {
    /// `epoch_start` in ticks.
    start: u64,
    /// `bic_K` in 1/1024 s, and `bic_origin_point`.
    k: u64,
    origin: u64,
    /// `ack_cnt` and `tcp_cwnd`.
    acked: u64,
    reno: u64,
}

/// `tcp_jiffies32`.
fn ticks(at: Time) -> u64 {
    at.as_nanos() / 1_000_000
}

fn segments(bytes: Bytes, mss: Bytes) -> u64 {
    bytes.get() / mss.get()
}

impl LinuxCubic {
    /// Creates the rule from the parameters declared in [`WindowRule::PARAMS`].
    pub fn new(values: &ParamValues, params: &Params) -> LinuxCubic {
        LinuxCubic {
            scale: rounded(values.get("c") * 102.4).max(1),
            beta: rounded(values.get("beta") * 1024.0),
            beta_ecn: rounded(values.get("beta_ecn") * 1024.0),
            fast_convergence: values.get("fast_convergence") > 0.0,
            last_max: 0,
            count: 0,
            made_at: (0, 0),
            epoch: None,
            credit: 0,
            train: LinuxHystart::enabled(params).unwrap_or_default(),
        }
    }

    /// `bictcp_update`.
    fn update(&mut self, now: u64, cwnd: u64, acked: u64) {
        if let Some(epoch) = &mut self.epoch {
            epoch.acked += acked;
        }
        if self.made_at.0 == cwnd && now - self.made_at.1 <= STANDS {
            return;
        }
        if self.epoch.is_none() || self.made_at.1 != now {
            self.made_at = (cwnd, now);
            self.count = self.cubic_count(now, cwnd, acked);
        }
        let epoch = self.epoch.as_mut().expect("begun with the first count");
        // `beta_scale` and `delta`: the number of segments for which Reno with this beta grows by one.
        let scale = 8 * (BETA_SCALE + self.beta) / 3 / (BETA_SCALE - self.beta);
        let delta = (cwnd * scale / 8).max(1);
        let steps = epoch.acked.saturating_sub(1) / delta;
        epoch.acked -= steps * delta;
        epoch.reno += steps;
        if epoch.reno > cwnd {
            self.count = self.count.min(cwnd / (epoch.reno - cwnd));
        }
        self.count = self.count.max(2);
    }

    /// The count of the cubic function; begins an epoch when there is none.
    fn cubic_count(&mut self, now: u64, cwnd: u64, acked: u64) -> u64 {
        let epoch = *self.epoch.get_or_insert_with(|| {
            let missing = self.last_max.saturating_sub(cwnd);
            Epoch { start: now, k: root(missing, self.scale), origin: cwnd + missing, acked, reno: cwnd }
        });
        let delay = self.train.delay_min().map_or(0, |d| d.as_nanos().div_ceil(1_000_000));
        let t = ((now - epoch.start + delay) << 10) / 1000;
        let off = u128::from(t.abs_diff(epoch.k));
        let delta = u64::try_from((u128::from(self.scale * 10) * off * off * off) >> 40).unwrap_or(u64::MAX);
        let target =
            if t < epoch.k { epoch.origin.saturating_sub(delta) } else { epoch.origin.saturating_add(delta) };
        let count = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if self.last_max == 0 { count.min(FIRST_COUNT) } else { count }
    }
}

/// `bic_K` in 1/1024 s for `missing` segments below the origin: the root of 2^40 missing / (10 scale).
fn root(missing: u64, scale: u64) -> u64 {
    let factor = (1u64 << 40) / (scale * 10);
    #[expect(clippy::cast_precision_loss, reason = "Linux uses three significant digits")]
    let cube = factor.saturating_mul(missing) as f64;
    rounded(cbrt(cube))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
fn rounded(x: f64) -> u64 {
    (x + 0.5) as u64
}

impl WindowRule for LinuxCubic {
    const NAME: &'static str = "cubic";
    const PARAMS: &'static [ParamInfo] = Cubic::PARAMS;

    fn leave_slow_start(&mut self, view: &View) -> Option<Bytes> {
        self.train.ends().then_some(view.control.cwnd)
    }

    const LEAVES_BEFORE_GROWTH: bool = true;

    const WANTS_START: bool = true;

    /// The epoch advances by the time since the previous transmission (`cubictcp_cwnd_event`).
    fn start(&mut self, view: &View, idle: Dur) {
        if let Some(epoch) = &mut self.epoch {
            let now = ticks(view.now);
            let before = view.now.saturating_sub(idle);
            epoch.start = (epoch.start + now - ticks(before)).min(now);
        }
    }

    fn observe(&mut self, view: &View, ack: &Ack) {
        let fresh = self.epoch.is_some_and(|e| ticks(view.now) - e.start < 1000);
        self.train.on_ack(view, ack, fresh);
    }

    fn grow(&mut self, view: &View, acked: Bytes) -> Bytes {
        let acked = acked.get().div_ceil(view.mss.get());
        self.update(ticks(view.now), segments(view.control.cwnd, view.mss), acked);
        let mut more = 0;
        if self.credit >= self.count {
            // The credit was earned when a segment required a higher count.
            (self.credit, more) = (0, 1);
        }
        self.credit += acked;
        more += self.credit / self.count;
        self.credit %= self.count;
        view.control.cwnd.saturating_add(view.mss * more)
    }

    fn reduce(&mut self, view: &View, cause: Cause, flight: Bytes) -> Bytes {
        self.epoch = None;
        self.credit = 0;
        let cwnd = segments(view.control.cwnd, view.mss);
        self.last_max = if cwnd < self.last_max && self.fast_convergence {
            cwnd * (BETA_SCALE + self.beta) / (2 * BETA_SCALE)
        } else {
            cwnd
        };
        let beta = if cause == Cause::Loss { self.beta } else { self.beta_ecn };
        view.mss * (segments(flight, view.mss) * beta / BETA_SCALE).max(2)
    }

    fn reset(&mut self, view: &View, why: ResetReason) {
        if why == ResetReason::Timeout {
            (self.epoch, self.last_max, self.count, self.made_at) = (None, 0, 0, (0, 0));
            self.train.reset(view.now);
        }
    }

    fn internals(&self) -> Vec<(&'static str, f64)> {
        #[expect(clippy::cast_precision_loss, reason = "windows are far below 2^53 segments")]
        let float = |n: u64| n as f64;
        let mut values = vec![("last_max_segments", float(self.last_max)), ("count", float(self.count))];
        if let Some(epoch) = &self.epoch {
            values.extend([("k", float(epoch.k) / 1024.0), ("reno_segments", float(epoch.reno))]);
        }
        values
    }
}
