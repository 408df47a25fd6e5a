//! The smallest round-trip time, and state `ProbeRTT`, in which it is measured (section "`ProbeRTT` Logic").

use super::{AckPhase, Bbr3, PROBE_RTT_GAIN, State};
use crate::event::{Ack, View};
use std::cmp::max;
use tcpassay_units::{Dur, Time};

/// Duration of `ProbeRTT`.
const PROBE_RTT: Dur = Dur::from_millis(200);
/// Time for which a smallest round-trip time is valid.
const MIN_RTT_WINDOW: Dur = Dur::from_secs(10);

impl Bbr3 {
    /// `UpdateMinRTT` and `CheckProbeRTT`. Returns the window.
    pub(super) fn update_min_rtt(&mut self, view: &View, ack: &Ack, cwnd: u64) -> u64 {
        let now = view.now;
        let probe_expired = now > self.probe_rtt_at + self.probe_rtt_interval;
        if let Some(rtt) = ack.rtt
            && (probe_expired || self.probe_rtt_min.is_none_or(|min| rtt < min))
        {
            self.probe_rtt_min = Some(rtt);
            self.probe_rtt_at = now;
        }
        let expired = now > self.min_rtt_at + MIN_RTT_WINDOW;
        if let Some(least) = self.probe_rtt_min
            && (expired || self.min_rtt.is_none_or(|min| least < min))
        {
            self.min_rtt = Some(least);
            self.min_rtt_at = self.probe_rtt_at;
        }
        if probe_expired && !self.idle_restart && self.state != State::ProbeRtt {
            self.save_window(cwnd);
            self.state = State::ProbeRtt;
            self.probe_rtt_end = None;
            self.unreliable = None;
            self.ack_phase = AckPhase::Stopping;
            self.start_round();
        }
        let mut window = cwnd;
        if self.state == State::ProbeRtt {
            let from = self.unreliable.map_or(self.delivered, |(from, _)| from);
            self.unreliable = Some((from, self.delivered + view.flight.get()));
            if self.probe_rtt_end.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    window = self.check_probe_rtt_done(now, cwnd);
                }
            } else if view.flight.get() <= self.probe_rtt_window(view) {
                self.probe_rtt_end = Some(now + PROBE_RTT);
                self.probe_rtt_round_done = false;
                self.start_round();
            }
        }
        if !ack.delivered.is_zero() {
            self.idle_restart = false;
        }
        window
    }

    pub(super) fn probe_rtt_window(&self, view: &View) -> u64 {
        max(self.product(view, self.bandwidth(), PROBE_RTT_GAIN), 4 * view.mss.get())
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Time, cwnd: u64) -> u64 {
        if self.probe_rtt_end.is_none_or(|end| now <= end) {
            return cwnd;
        }
        self.probe_rtt_at = now;
        self.reset_shortterm();
        if self.full {
            self.start_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
        max(cwnd, self.prior_cwnd)
    }
}
