//! The cycle of `ProbeBW`: its four states, the times of its probes, and the long-term bound that the probes find (section "`ProbeBW`").

use super::signals::{self, Growth, Latest, Sample, share};
use super::{AckPhase, Bbr3, NONE, State};
use crate::event::{Limited, View};
use std::cmp::{max, min};
use tcpassay_units::{Dur, Time};

const HEADROOM: f64 = 0.15;
/// Largest number of round trips between probes, for coexistence with Reno and CUBIC.
const RENO_ROUNDS: u64 = 63;

impl Bbr3 {
    /// `InflightWithHeadroom`.
    pub(super) fn with_headroom(&self, view: &View) -> u64 {
        if self.inflight_longterm == NONE {
            return NONE;
        }
        let mss = view.mss.get();
        let room = max(mss, share(signals::real(self.inflight_longterm), HEADROOM));
        max(self.inflight_longterm.saturating_sub(room), 4 * mss)
    }

    /// `TargetInflight`.
    fn target(&self, view: &View) -> u64 {
        min(self.product(view, self.bandwidth(), 1.0), view.control.cwnd.get())
    }

    pub(super) fn start_down(&mut self, now: Time) {
        self.loss_in_round = false;
        self.latest = Latest::default();
        self.up_acked_per_increase = NONE;
        // `PickProbeWait`
        self.rounds_since_probe = self.random.below(2);
        self.probe_wait = Dur::from_secs(2) + Dur::from_secs_f64(self.random.unit());
        self.cycle_at = now;
        self.ack_phase = AckPhase::Stopping;
        self.start_round();
        self.state = State::Down;
    }

    pub(super) fn start_refill(&mut self) {
        self.reset_shortterm();
        self.up_rounds = 0;
        self.up_acked = 0;
        self.ended_early = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::Refill;
    }

    fn start_up(&mut self, view: &View, rate: f64) {
        self.probe_samples = true;
        self.ack_phase = AckPhase::Starting;
        self.start_round();
        self.growth = Growth::from(rate);
        self.state = State::Up;
        self.raise_slope(view);
    }

    /// `RaiseInflightLongtermSlope`.
    fn raise_slope(&mut self, view: &View) {
        let growth = 1 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_acked_per_increase = max(view.control.cwnd.get() / growth, view.mss.get());
    }

    /// `IsTimeToProbeBW`.
    fn is_time_to_probe(&self, view: &View) -> bool {
        let segments = self.target(view) / view.mss.get();
        view.now > self.cycle_at + self.probe_wait || self.rounds_since_probe >= segments.min(RENO_ROUNDS)
    }

    /// `IsTimeToGoDown`.
    fn is_time_to_go_down(&mut self, view: &View, rate: f64) -> bool {
        let cwnd = view.control.cwnd.get();
        if self.too_high_before && self.flight >= self.inflight_longterm {
            self.ended_early = true;
            return true;
        }
        if view.limited == Limited::Cwnd && cwnd >= self.inflight_longterm {
            self.growth = Growth::from(rate);
            return false;
        }
        self.growth.is_over()
    }

    /// `UpdateProbeBWCyclePhase`.
    pub(super) fn update_cycle(&mut self, view: &View, sample: &Sample, newly: u64) {
        if !self.full {
            return;
        }
        if self.adapt_longterm(view, sample, newly) {
            return;
        }
        let state = self.state;
        match state {
            State::Down | State::Cruise if self.is_time_to_probe(view) => self.start_refill(),
            State::Down
                if view.flight.get() <= self.with_headroom(view)
                    && view.flight.get() <= self.inflight(view, self.max_bandwidth.get(), 1.0) =>
            {
                self.state = State::Cruise;
            }
            State::Refill if self.round_start => self.start_up(view, sample.rate),
            State::Up if self.is_time_to_go_down(view, sample.rate) => {
                self.too_high_before = false;
                self.start_down(view.now);
            }
            _ => {}
        }
    }

    /// `AdaptLongTermModel`, `HandleInflightTooHigh`, `ProbeInflightLongtermUpward`. Returns whether a probe begins.
    fn adapt_longterm(&mut self, view: &View, sample: &Sample, newly: u64) -> bool {
        if self.ack_phase == AckPhase::Starting && self.round_start {
            self.ack_phase = AckPhase::Feedback;
        }
        if self.ack_phase == AckPhase::Stopping && self.round_start {
            self.probe_samples = false;
            self.ack_phase = AckPhase::Init;
            if self.is_probe_bw() && !sample.app_limited {
                self.max_bandwidth.advance();
            }
            // The probe that ended early lost little: the next one may go beyond the bound.
            if self.is_probe_bw() && self.ended_early && !self.too_high_before {
                self.start_refill();
                return true;
            }
        }
        if self.is_too_high(sample) {
            if self.probe_samples {
                self.too_high_before = true;
                self.probe_samples = false;
                if !sample.app_limited {
                    let least = share(signals::real(self.target(view)), self.beta);
                    self.inflight_longterm = max(sample.flight, least);
                }
                if self.state == State::Up {
                    self.remember(Some(State::Up));
                    self.start_down(view.now);
                }
            }
            return false;
        }
        if self.inflight_longterm == NONE {
            return false;
        }
        self.inflight_longterm = max(self.inflight_longterm, sample.flight);
        if self.state == State::Up
            && view.limited == Limited::Cwnd
            && view.control.cwnd.get() >= self.inflight_longterm
        {
            self.up_acked += newly;
            let steps = self.up_acked / self.up_acked_per_increase;
            self.up_acked -= steps * self.up_acked_per_increase;
            self.inflight_longterm += steps * view.mss.get();
            if self.round_start {
                self.raise_slope(view);
            }
        }
        false
    }
}
