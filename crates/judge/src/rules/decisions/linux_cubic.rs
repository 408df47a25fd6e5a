//! CUBIC of Linux 6.1 with a tick of 1 ms: `tcp_cubic.c` and `tcp_cong_avoid_ai`, in segments and milliseconds.

use super::slow_start::Hystart;
use super::specification::Values;
use super::windows::{Forget, Rule};
use tcpassay_cc::{Ack, Cause, View};
use tcpassay_tcp::Config;
use tcpassay_units::{Dur, Time};

/// `BICTCP_BETA_SCALE`.
const ONE: u64 = 1024;

/// An epoch of `bictcp_update`.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: u64,
    /// `bic_K`, in 1/1024 s.
    k: u64,
    origin: u64,
    /// `ack_cnt` and `tcp_cwnd`.
    acks: u64,
    reno: u64,
}

/// CUBIC of Linux.
#[derive(Clone, Debug)]
pub(super) struct LinuxCubic {
    /// `bic_scale`, `beta` and the factor after a mark.
    scale: u64,
    beta: u64,
    beta_ecn: u64,
    converges: bool,
    largest: u64,
    /// Segments for each increase (`cnt`), and the window and time for which it was computed.
    count: u64,
    computed: (u64, u64),
    epoch: Option<Epoch>,
    /// `snd_cwnd_cnt`.
    credit: u64,
    hystart: Hystart,
}

fn ms(at: Time) -> u64 {
    at.as_nanos() / 1_000_000
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "parameters are positive and small"
)]
fn nearest(x: f64) -> u64 {
    x.round() as u64
}

impl LinuxCubic {
    pub fn new(values: &Values<'_>, stack: &Config) -> LinuxCubic {
        let per_1024 = |name| nearest(values.get(name, 0.7) * 1024.0);
        LinuxCubic {
            // C = bic_scale * 10 / 1024.
            scale: nearest(values.get("c", 0.4) * 102.4).max(1),
            beta: per_1024("beta"),
            beta_ecn: per_1024("beta_ecn"),
            converges: values.get("fast_convergence", 1.0) > 0.0,
            largest: 0,
            count: 0,
            computed: (0, 0),
            epoch: None,
            credit: 0,
            hystart: Hystart::new(stack),
        }
    }

    /// `bictcp_update`.
    fn update(&mut self, now: u64, cwnd: u64, acked: u64) {
        if let Some(epoch) = &mut self.epoch {
            epoch.acks += acked;
        }
        let (window, at) = self.computed;
        if window == cwnd && now - at <= 31 {
            return;
        }
        // Within a tick only the Reno-friendly part is computed again.
        if self.epoch.is_none() || at != now {
            self.computed = (cwnd, now);
            let (scale, largest) = (self.scale, self.largest);
            let epoch = *self.epoch.get_or_insert_with(|| begun(now, cwnd, acked, largest, scale));
            self.count = self.cubic(&epoch, now, cwnd);
        }
        let Some(epoch) = &mut self.epoch else { return };
        let segments = (cwnd * (8 * (ONE + self.beta) / 3 / (ONE - self.beta)) / 8).max(1);
        while epoch.acks > segments {
            epoch.acks -= segments;
            epoch.reno += 1;
        }
        if let Some(behind) = epoch.reno.checked_sub(cwnd).filter(|behind| *behind > 0) {
            self.count = self.count.min(cwnd / behind);
        }
        self.count = self.count.max(2);
    }

    fn cubic(&self, epoch: &Epoch, now: u64, cwnd: u64) -> u64 {
        let delay = self.hystart.shortest.map_or(0, |shortest| shortest.as_nanos().div_ceil(1_000_000));
        let t = (now - epoch.start + delay) * 1024 / 1000;
        let cube = u128::from(t.abs_diff(epoch.k)).pow(3);
        let off = u64::try_from(u128::from(self.scale * 10) * cube / (1 << 40)).unwrap_or(u64::MAX);
        let target =
            if t < epoch.k { epoch.origin.saturating_sub(off) } else { epoch.origin.saturating_add(off) };
        let count = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        // Before the first loss the window grows by a twentieth for each round trip at least.
        if self.largest == 0 { count.min(20) } else { count }
    }
}

/// A new epoch with a window of `cwnd` segments.
#[expect(clippy::cast_precision_loss, reason = "`cubic_root` of Linux has three significant digits")]
fn begun(now: u64, cwnd: u64, acked: u64, largest: u64, scale: u64) -> Epoch {
    let below = largest.saturating_sub(cwnd);
    let cube = ((1u64 << 40) / (scale * 10)).saturating_mul(below);
    Epoch { start: now, k: nearest((cube as f64).cbrt()), origin: largest.max(cwnd), acks: acked, reno: cwnd }
}

impl Rule for LinuxCubic {
    fn hears(&mut self, view: &View, ack: &Ack) {
        // `cubictcp_acked`: samples right after a loss are too long.
        let fresh = self.epoch.is_some_and(|epoch| ms(view.now) - epoch.start < 1000);
        self.hystart.on_ack(view, ack, fresh);
    }

    /// `cubictcp_cwnd_event`: idle time does not count.
    fn starts(&mut self, view: &View, idle: Dur) {
        if let Some(epoch) = &mut self.epoch {
            let now = ms(view.now);
            epoch.start = now.min(epoch.start + (now - ms(view.now.saturating_sub(idle))));
        }
    }

    fn leaves(&mut self, view: &View) -> Option<u64> {
        self.hystart.found.then(|| view.control.cwnd.get())
    }

    /// `tcp_cong_avoid_ai`.
    fn avoids(&mut self, view: &View, cwnd: u64, acked: u64) -> u64 {
        let mss = view.mss.get();
        let acked = acked.div_ceil(mss);
        self.update(ms(view.now), cwnd / mss, acked);
        let mut more = 0;
        if self.credit >= self.count {
            (self.credit, more) = (0, 1);
        }
        let credit = self.credit + acked;
        self.credit = credit % self.count;
        cwnd + mss * (more + credit / self.count)
    }

    fn reduces(&mut self, view: &View, cause: Cause, cwnd: u64, flight: u64) -> u64 {
        let mss = view.mss.get();
        let cwnd = cwnd / mss;
        (self.epoch, self.credit) = (None, 0);
        let converges = self.converges && cwnd < self.largest;
        self.largest = if converges { cwnd * (ONE + self.beta) / (2 * ONE) } else { cwnd };
        let beta = if cause == Cause::Ecn { self.beta_ecn } else { self.beta };
        mss * (flight / mss * beta / ONE).max(2)
    }

    /// `bictcp_state`: only a timeout forgets.
    fn forgets(&mut self, view: &View, why: Forget) {
        if why == Forget::Timeout {
            (self.epoch, self.largest, self.count, self.computed) = (None, 0, 0, (0, 0));
            self.hystart.reset(view.now);
        }
    }

    fn variables(&self) -> String {
        let epoch = self.epoch.map_or_else(String::new, |epoch| {
            format!(
                ", bic_K {} / 1024 s, tcp_cwnd {} segments, the epoch began at {} ms",
                epoch.k, epoch.reno, epoch.start
            )
        });
        format!(", last_max_cwnd {} segments, cnt {}{epoch}", self.largest, self.count)
    }
}
