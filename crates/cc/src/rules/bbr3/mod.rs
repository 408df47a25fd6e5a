//! BBR version 3: a model of the path with long-term bounds (the largest safe values that probing has found)
//! and short-term bounds (from the most recent losses), and cycles of the phases Down, Cruise, Refill and
//! Up.
//!
//! Source: draft-ietf-ccwg-bbr, version 06; the names of sections are those of the draft.
//!
//! Differences from the draft:
//!
//! * The draft processes each lost packet (`HandleLostPacket`). Here the sender reports the bytes that an
//!   ACK showed to be lost, and these are compared with the flight at the transmission of the newest
//!   delivered packet.
//! * Precautionary probing compares the bound with the flight before the ACK: after it, a flight that the window limits is always below.
//! * Without SACK, too, 2 % must be lost (`has_selective_acks`): the sender does not report whether SACK is in use.
//! * ACKs that report losses count as ranges of lost data (`StartupFullLossCnt`).
//! * The draft has no response to marks. With `ecn = 1` this one reduces the short-term bound by a third of the smoothed share of marked
//!   bytes once in a round trip, and half of the bytes marked end a probe, as in the implementation for Linux that the draft refers to.

mod events;
mod history;
mod min_rtt;
mod parameters;
mod probe_bw;
mod signals;

use crate::controller::Params;
use crate::event::{Ack, View};
use crate::param_values::ParamValues;
use history::History;
use signals::{Growth, Latest, MaxBandwidth, Sample, share};
use std::cmp::{max, min};
use tcpassay_units::{Dur, Stream, Time};

const STARTUP_GAIN: f64 = 2.77;
const DRAIN_GAIN: f64 = 0.5;
const DOWN_GAIN: f64 = 0.9;
const UP_GAIN: f64 = 1.25;
const UP_WINDOW_GAIN: f64 = 2.25;
const PROBE_RTT_GAIN: f64 = 0.5;
/// Number of ACKs with losses in a round trip that ends Startup.
const STARTUP_LOSSES: u32 = 6;
/// Pacing margin: the pacing rate is 1 % below bandwidth times gain.
const MARGIN: f64 = 0.99;
/// Largest number of round trips of Drain.
const DRAIN_ROUNDS: u64 = 3;
const NONE: u64 = u64::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// The part of a probe whose ACKs are arriving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The values before a loss, which are restored if the loss was spurious.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Undo {
    state: Option<State>,
    bandwidth: f64,
    shortterm: u64,
    longterm: u64,
}

/// BBR version 3.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the path and the recovery")]
#[derive(Clone, Debug)]
pub struct Bbr3 {
    loss_thresh: f64,
    beta: f64,
    cwnd_gain: f64,
    probe_rtt_interval: Dur,
    ecn: bool,
    random: Stream,

    state: State,
    ack_phase: AckPhase,
    history: History,
    delivered: u64,
    lost: u64,
    flight: u64,
    lost_by_timer: u64,
    round_end: u64,
    round_start: bool,
    rounds: u64,
    drain_round: u64,
    loss_round_end: u64,
    loss_round_start: bool,
    loss_in_round: bool,
    losses_in_round: u32,
    latest: Latest,
    growth: Growth,
    full: bool,
    max_bandwidth: MaxBandwidth,
    bandwidth_shortterm: f64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
    marked_in_round: u64,
    round_delivered: u64,
    alpha: f64,
    min_rtt: Option<Dur>,
    min_rtt_at: Time,
    probe_rtt_min: Option<Dur>,
    probe_rtt_at: Time,
    probe_rtt_end: Option<Time>,
    probe_rtt_round_done: bool,
    unreliable: Option<(u64, u64)>,
    idle_restart: bool,
    cycle_at: Time,
    probe_wait: Dur,
    rounds_since_probe: u64,
    probe_samples: bool,
    /// The last probe lost too much (`prev_probe_too_high`).
    too_high_before: bool,
    /// The last probe ended when the bound of the one before was in flight (`prev_probe_precautionary`).
    ended_early: bool,
    up_acked: u64,
    up_acked_per_increase: u64,
    up_rounds: u32,
    extra_at: Time,
    extra_delivered: u64,
    extra: signals::RoundMax,
    recovering: bool,
    prior_cwnd: u64,
    undo: Option<Undo>,
    /// Bytes a second.
    rate: f64,
}

impl Bbr3 {
    /// Creates the controller from the parameters declared in [`Bbr3::PARAMS`].
    pub fn new(values: &ParamValues, params: &Params) -> Bbr3 {
        Bbr3 {
            loss_thresh: values.get("loss_thresh"),
            beta: values.get("beta"),
            cwnd_gain: values.get("cwnd_gain"),
            probe_rtt_interval: Dur::from_secs_f64(values.get("probe_rtt_interval")),
            ecn: values.get("ecn") >= 1.0,
            random: params.rng.clone(),
            state: State::Startup,
            ack_phase: AckPhase::Init,
            history: History::default(),
            delivered: 0,
            lost: 0,
            flight: 0,
            lost_by_timer: 0,
            round_end: 0,
            round_start: false,
            rounds: 0,
            drain_round: 0,
            loss_round_end: 0,
            loss_round_start: false,
            loss_in_round: false,
            losses_in_round: 0,
            latest: Latest::default(),
            growth: Growth::default(),
            full: false,
            max_bandwidth: MaxBandwidth::default(),
            bandwidth_shortterm: f64::INFINITY,
            inflight_shortterm: NONE,
            inflight_longterm: NONE,
            marked_in_round: 0,
            round_delivered: 0,
            alpha: 1.0,
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            probe_rtt_min: None,
            probe_rtt_at: Time::ZERO,
            probe_rtt_end: None,
            probe_rtt_round_done: false,
            unreliable: None,
            idle_restart: false,
            cycle_at: Time::ZERO,
            probe_wait: Dur::ZERO,
            rounds_since_probe: 0,
            probe_samples: false,
            too_high_before: false,
            ended_early: false,
            up_acked: 0,
            up_acked_per_increase: NONE,
            up_rounds: 0,
            extra_at: Time::ZERO,
            extra_delivered: 0,
            extra: signals::RoundMax::default(),
            recovering: false,
            prior_cwnd: 0,
            undo: None,
            rate: 0.0,
        }
    }

    fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => STARTUP_GAIN,
            State::Drain => DRAIN_GAIN,
            State::Down => DOWN_GAIN,
            State::Up => UP_GAIN,
            State::Cruise | State::Refill | State::ProbeRtt => 1.0,
        }
    }

    fn window_gain(&self) -> f64 {
        match self.state {
            State::Up => UP_WINDOW_GAIN.max(self.cwnd_gain),
            State::ProbeRtt => PROBE_RTT_GAIN,
            _ => self.cwnd_gain,
        }
    }

    fn is_probe_bw(&self) -> bool {
        matches!(self.state, State::Down | State::Cruise | State::Refill | State::Up)
    }

    /// "Rate cap" of the table of control behaviour.
    fn bandwidth(&self) -> f64 {
        self.max_bandwidth.get().min(self.bandwidth_shortterm)
    }

    /// `BDPMultiple`.
    fn product(&self, view: &View, bandwidth: f64, gain: f64) -> u64 {
        match self.min_rtt {
            Some(rtt) if bandwidth > 0.0 => share(bandwidth * rtt.as_secs_f64(), gain),
            _ => view.mss.get() * 10,
        }
    }

    /// `QuantizationBudget`: three super-segments, four segments, and more while probing.
    fn quantized(&self, view: &View, size: u64) -> u64 {
        let mss = view.mss.get();
        let quantum = share(self.rate, 0.001).min(65_536).max(2 * mss);
        let size = size.max(3 * quantum).max(4 * mss);
        if self.state == State::Up { size + 2 * mss } else { size }
    }

    fn inflight(&self, view: &View, bandwidth: f64, gain: f64) -> u64 {
        self.quantized(view, self.product(view, bandwidth, gain))
    }

    fn start_round(&mut self) {
        self.round_end = self.delivered;
    }

    fn reset_shortterm(&mut self) {
        self.bandwidth_shortterm = f64::INFINITY;
        self.inflight_shortterm = NONE;
    }

    /// The sample of an ACK, with the state in which its packet was sent.
    fn sample(&mut self, ack: &Ack) -> Option<Sample> {
        let sample = ack.sample?;
        let departure = self.history.find(sample.sent_at);
        let delivered = sample.delivered.get();
        let prior = self.delivered.saturating_sub(delivered);
        let unreliable = self.unreliable.is_some_and(|(from, to)| (from..=to).contains(&prior));
        Some(Sample {
            rate: signals::real(delivered) / sample.interval.as_secs_f64(),
            delivered,
            prior,
            lost: departure.map_or(0, |d| self.lost - d.lost),
            flight: departure.map_or(delivered, |d| d.flight),
            app_limited: ack.app_limited || unreliable,
            marked: ack.marked.get(),
        })
    }

    /// `IsInflightTooHigh`.
    fn is_too_high(&self, sample: &Sample) -> bool {
        signals::real(sample.lost) > signals::real(sample.flight) * self.loss_thresh
            || (self.ecn && self.round_delivered > 0 && self.marked_in_round * 2 > self.round_delivered)
    }

    /// `UpdateMaxBw` and `UpdateRound`.
    fn update_bandwidth(&mut self, sample: &Sample) {
        self.round_start = sample.prior >= self.round_end;
        if self.round_start {
            self.start_round();
            self.rounds += 1;
            self.rounds_since_probe += 1;
        }
        if sample.rate >= self.max_bandwidth.get() || !sample.app_limited {
            self.max_bandwidth.update(sample.rate);
        }
    }

    /// `AdaptLowerBoundsFromCongestion`, once in a round trip.
    fn adapt_lower_bounds(&mut self, view: &View) {
        let marked = self.ecn && self.marked_in_round > 0;
        if self.ecn && self.round_delivered > 0 {
            let fraction = signals::real(self.marked_in_round) / signals::real(self.round_delivered);
            self.alpha += (fraction.min(1.0) - self.alpha) / 16.0;
        }
        let probing = matches!(self.state, State::Startup | State::Refill | State::Up);
        if probing || !(self.loss_in_round || marked) {
            return;
        }
        if self.inflight_shortterm == NONE {
            self.inflight_shortterm = view.control.cwnd.get();
        }
        let mut bound = self.inflight_shortterm;
        if self.loss_in_round {
            if self.bandwidth_shortterm.is_infinite() {
                self.bandwidth_shortterm = self.max_bandwidth.get();
            }
            self.bandwidth_shortterm = self.latest.bandwidth.max(self.beta * self.bandwidth_shortterm);
            bound = max(self.latest.inflight, share(signals::real(self.inflight_shortterm), self.beta));
        }
        if marked {
            let cut = share(signals::real(self.inflight_shortterm), 1.0 - self.alpha / 3.0);
            bound = min(bound, cut);
        }
        self.inflight_shortterm = bound;
    }

    /// `UpdateLatestDeliverySignals` and `UpdateCongestionSignals`.
    fn update_signals(&mut self, view: &View, sample: &Sample) {
        self.latest.update(sample);
        self.loss_round_start = sample.prior >= self.loss_round_end;
        if self.loss_round_start {
            self.loss_round_end = self.delivered;
        }
        self.update_bandwidth(sample);
        if self.loss_round_start {
            self.adapt_lower_bounds(view);
            self.loss_in_round = false;
        }
    }

    /// `UpdateACKAggregation`.
    fn update_extra(&mut self, view: &View, newly: u64) {
        let expected = |from: Time| share(self.bandwidth() * view.now.since(from).as_secs_f64(), 1.0);
        let mut due = expected(self.extra_at);
        if self.extra_delivered <= due {
            self.extra_delivered = 0;
            self.extra_at = view.now;
            due = 0;
        }
        self.extra_delivered += newly;
        let extra = (self.extra_delivered - due).min(view.control.cwnd.get());
        self.extra.update(self.rounds, if self.full { 10 } else { 1 }, extra);
    }

    /// `CheckStartupHighLoss` and `CheckStartupDone`.
    fn check_startup(&mut self, view: &View, sample: &Sample) {
        if self.state == State::Startup
            && self.recovering
            && self.loss_round_start
            && self.losses_in_round >= STARTUP_LOSSES
            && self.is_too_high(sample)
        {
            self.remember(Some(State::Startup));
            self.full = true;
            self.inflight_longterm = max(self.product(view, self.bandwidth(), 1.0), self.latest.inflight);
        }
        if self.loss_round_start {
            self.losses_in_round = 0;
        }
        if self.state == State::Startup && self.full {
            self.state = State::Drain;
            self.drain_round = self.rounds;
        }
    }

    /// `CheckDrainDone`.
    fn check_drain(&mut self, view: &View) {
        if self.state == State::Drain
            && (view.flight.get() <= self.inflight(view, self.bandwidth(), 1.0)
                || self.rounds > self.drain_round + DRAIN_ROUNDS)
        {
            self.start_down(view.now);
        }
    }

    fn set_rate(&mut self, gain: f64) {
        let rate = gain * self.bandwidth() * MARGIN;
        if self.full || rate > self.rate {
            self.rate = rate;
        }
    }

    fn save_window(&mut self, cwnd: u64) {
        let keeps = self.recovering || self.state == State::ProbeRtt;
        self.prior_cwnd = if keeps { max(self.prior_cwnd, cwnd) } else { cwnd };
    }

    fn remember(&mut self, state: Option<State>) {
        let undo = self.undo.get_or_insert(Undo {
            state: None,
            bandwidth: self.bandwidth_shortterm,
            shortterm: self.inflight_shortterm,
            longterm: self.inflight_longterm,
        });
        undo.state = undo.state.or(state);
    }

    /// `SetCwnd`, `BoundCwndForProbeRTT`, `BoundCwndForModel`.
    fn window(&self, view: &View, cwnd: u64, newly: u64) -> u64 {
        let mss = view.mss.get();
        let most =
            self.quantized(view, self.product(view, self.bandwidth(), self.window_gain()) + self.extra.get());
        let mut cwnd = cwnd;
        if self.full {
            cwnd = min(cwnd + newly, most);
        } else if cwnd < most || self.delivered < 10 * mss {
            cwnd += newly;
        }
        cwnd = max(cwnd, 4 * mss);
        if self.state == State::ProbeRtt {
            cwnd = min(cwnd, self.probe_rtt_window(view));
        }
        let bound = match self.state {
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.with_headroom(view),
            State::Startup | State::Drain => NONE,
        };
        min(cwnd, max(min(bound, self.inflight_shortterm), 4 * mss))
    }

    fn on_ack(&mut self, view: &View, ack: &Ack) -> u64 {
        let newly = ack.delivered.get();
        self.lost += ack.lost.get();
        self.lost_by_timer = 0;
        self.delivered += newly;
        self.marked_in_round += ack.marked.get();
        self.round_delivered += newly;
        if !ack.lost.is_zero() {
            if !self.loss_in_round {
                self.loss_round_end = self.delivered;
            }
            self.loss_in_round = true;
            self.losses_in_round += 1;
        }
        self.round_start = false;
        self.loss_round_start = false;
        let sample = self.sample(ack);
        if let Some(sample) = &sample {
            self.update_signals(view, sample);
            self.update_extra(view, newly);
            if self.round_start && !sample.app_limited && self.growth.on_round(sample.rate) {
                self.full = true;
            }
            self.check_startup(view, sample);
        }
        self.check_drain(view);
        if let Some(sample) = &sample {
            self.update_cycle(view, sample, newly);
        }
        let cwnd = self.update_min_rtt(view, ack, view.control.cwnd.get());
        if let (true, Some(sample)) = (self.loss_round_start, &sample) {
            self.latest = Latest::of(sample);
            self.marked_in_round = 0;
            self.round_delivered = 0;
        }
        self.set_rate(self.pacing_gain());
        self.window(view, cwnd, newly)
    }
}
