//! CUBIC as Linux computes it: whole segments, ticks of a millisecond, integers.
//!
//! Source: `tcp_cubic.c` (`bictcp_update`, `cubic_root`, `cubictcp_recalc_ssthresh`, `cubictcp_acked`) and
//! `tcp_cong_avoid_ai` of Linux 6. It does what [`Cubic`](super::Cubic) does, rounded as there: a window that a script or a kernel's
//! `TCP_INFO` names is met to the segment.
//!
//! Differences:
//!
//! * A tick is a millisecond whatever the kernel's `HZ`.
//! * `CA_EVENT_TX_START` moves the epoch on by the idle time before each burst; here the epoch ends after an idle time beyond
//!   the RTO.
//! * The table that `cubic_root` starts from is computed.

use super::train::Train;
use crate::cbrt::cbrt;
use crate::{Ack, Cause, ParamInfo, Params, Reset, Values, View, WindowRule};
use tcpassay_units::{Bytes, Dur};

/// `beta`, of 1024.
const BETA: u64 = 717;
const BETA_SCALE: u64 = 1024;
/// `bic_scale` times ten: the factor of the cube at 100 ms.
const CUBE_RTT_SCALE: u64 = 410;
/// `beta_scale`: `8 (1 + beta) / 3 / (1 - beta)`.
const FRIENDLY_SCALE: u64 = 15;

/// CUBIC of Linux.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct LinuxCubic {
    /// Acknowledged segments that earn one more.
    cnt: u64,
    /// Acknowledged segments towards the next (`snd_cwnd_cnt`).
    credit: u64,
    last_max: u64,
    last_cwnd: u64,
    /// In ticks; zero where there is none.
    last_time: u64,
    epoch_start: u64,
    origin: u64,
    k: u64,
    delay_min: Dur,
    ack_cnt: u64,
    tcp_cwnd: u64,
    train: Option<Train>,
}

impl LinuxCubic {
    /// It has no parameters of its own.
    pub fn new(_values: &Values, params: &Params) -> LinuxCubic {
        LinuxCubic { train: params.hystart_detect.map(Train::new), ..LinuxCubic::default() }
    }

    /// `bictcp_update`
    fn update(&mut self, now: u64, cwnd: u64, acked: u64) {
        self.ack_cnt += acked;
        if self.last_cwnd == cwnd && now - self.last_time <= 1000 / 32 {
            return;
        }
        if self.epoch_start == 0 || now != self.last_time {
            self.curve(now, cwnd, acked);
        }
        let step = (cwnd * FRIENDLY_SCALE) >> 3;
        while self.ack_cnt > step {
            self.ack_cnt -= step;
            self.tcp_cwnd += 1;
        }
        if self.tcp_cwnd > cwnd {
            self.cnt = self.cnt.min(cwnd / (self.tcp_cwnd - cwnd));
        }
        self.cnt = self.cnt.max(2);
    }

    fn curve(&mut self, now: u64, cwnd: u64, acked: u64) {
        self.last_cwnd = cwnd;
        self.last_time = now;
        if self.epoch_start == 0 {
            self.epoch_start = now;
            self.ack_cnt = acked;
            self.tcp_cwnd = cwnd;
            let below = self.last_max > cwnd;
            self.k = if below { cubic_root((1 << 40) / CUBE_RTT_SCALE * (self.last_max - cwnd)) } else { 0 };
            self.origin = if below { self.last_max } else { cwnd };
        }
        // In 1/1024 s.
        let t = ((now - self.epoch_start + self.delay_min.as_millis()) << 10) / 1000;
        let offset = u128::from(t.abs_diff(self.k));
        let delta = (u128::from(CUBE_RTT_SCALE) * offset * offset * offset) >> 40;
        let delta = u64::try_from(delta).unwrap_or(u64::MAX);
        let target =
            if t < self.k { self.origin.saturating_sub(delta) } else { self.origin.saturating_add(delta) };
        self.cnt = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if self.last_max == 0 {
            self.cnt = self.cnt.min(20);
        }
    }
}

impl WindowRule for LinuxCubic {
    const NAME: &'static str = "cubic";
    const PARAMS: &'static [ParamInfo] = &[];

    fn leave_slow_start(&mut self, view: &View) -> Option<Bytes> {
        self.train.as_ref().filter(|train| train.found()).map(|_| view.control.cwnd)
    }

    fn observe(&mut self, view: &View, ack: &Ack) {
        let fresh = self.epoch_start > 0 && tick(view) - self.epoch_start < 1000;
        if let Some(rtt) = ack.rtt.filter(|_| !fresh) {
            let rtt = rtt.max(Dur::from_micros(1));
            self.delay_min = if self.delay_min.is_zero() { rtt } else { self.delay_min.min(rtt) };
        }
        if let Some(train) = &mut self.train {
            train.on_ack(view, ack, fresh);
        }
    }

    fn grow(&mut self, view: &View, acked: Bytes) -> Bytes {
        let mss = view.mss.get();
        let mut cwnd = (view.control.cwnd.get() / mss).max(1);
        let acked = acked.get().div_ceil(mss);
        self.update(tick(view), cwnd, acked);
        // `tcp_cong_avoid_ai`
        if self.credit >= self.cnt {
            self.credit = 0;
            cwnd += 1;
        }
        self.credit += acked;
        cwnd += self.credit / self.cnt;
        self.credit %= self.cnt;
        Bytes::new(cwnd * mss)
    }

    fn reduce(&mut self, view: &View, _cause: Cause, _flight: Bytes) -> Bytes {
        let cwnd = view.control.cwnd.get() / view.mss.get();
        self.epoch_start = 0;
        self.credit = 0;
        let converges = cwnd < self.last_max;
        self.last_max = if converges { cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE) } else { cwnd };
        view.mss * (cwnd * BETA / BETA_SCALE).max(2)
    }

    fn reset(&mut self, view: &View, why: Reset) {
        match why {
            Reset::Timeout => {
                *self = LinuxCubic { train: self.train, ..LinuxCubic::default() };
                if let Some(train) = &mut self.train {
                    train.reset(view.now);
                }
            }
            Reset::Idle => self.epoch_start = 0,
            Reset::Recovered => {}
        }
    }

    fn internals(&self) -> Vec<(&'static str, f64)> {
        #[expect(clippy::cast_precision_loss, reason = "segments and ticks")]
        let values =
            vec![("w_max", self.last_max as f64), ("k", self.k as f64 / 1024.0), ("cnt", self.cnt as f64)];
        values
    }
}

/// The time in ticks; zero stands for none.
fn tick(view: &View) -> u64 {
    view.now.as_nanos() / 1_000_000 + 1
}

/// The integer cube root of `tcp_cubic.c`: a guess from the six highest bits, and one step of Newton's.
fn cubic_root(a: u64) -> u64 {
    let bits = u64::from(64 - a.leading_zeros());
    if bits < 7 {
        return (guess(a) + 35) >> 6;
    }
    let b = ((bits * 84) >> 8) - 1;
    let x = ((guess(a >> (b * 3)) + 10) << b) >> 6;
    let x = 2 * x + a / (x * (x - 1));
    (x * 341) >> 10
}

/// 64 times the cube root of `x`, less ten or so.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 256")]
#[expect(clippy::cast_precision_loss, reason = "x is below 64")]
fn guess(x: u64) -> u64 {
    if x == 0 { 0 } else { (64.0 * cbrt(x as f64) - 10.0) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_integer_root_is_within_a_hundredth() {
        for (cube, root) in
            [(1_000_000, 100), (2_681_735_678, 1389), (26_817_356_780, 2993), (1 << 45, 32_768)]
        {
            let got = cubic_root(cube);
            assert!(got.abs_diff(root) * 100 <= root, "{cube}: {got}, not {root}");
        }
    }
}
