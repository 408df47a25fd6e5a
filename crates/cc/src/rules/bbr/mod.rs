//! BBR (version 1) as in Linux 6.1: the sending rate follows the largest delivery rate of ten round trips, the window twice the product
//! of this rate and of the smallest round-trip time of ten seconds.
//!
//! Sources: draft-cardwell-iccrg-bbr-congestion-control-00; Linux 6.1 `net/ipv4/tcp_bbr.c` for the constants, the rounding (whole
//! packets, microseconds, gains in 1/256), the rate of policers, the aggregation of ACKs, and the order of the steps.
//!
//! Differences from Linux:
//!
//! * Times of the 10 s window and of the 200 ms in `ProbeRtt` are exact; in Linux they are ticks.
//! * A packet that the sender's own queue drops is reported as a loss, so that a recovery begins; in Linux the state is CWR, which BBR
//!   ignores.
//! * Profiles other than `linux` count bytes; they are rounded up to packets for each sample.

mod aggregation;
mod arithmetic;
mod filter;
mod gains;
mod parameters;
mod policer;

use crate::controller::{Controller, Params};
use crate::event::{Ack, Cause, Control, Event, RateSample, View};
use crate::param_values::ParamValues;
use aggregation::Aggregation;
use arithmetic::{Totals, UNIT, bytes_per_second, gain, micros, packets, packets_in, rate_of};
use filter::WindowedMax;
use gains::{Gains, INITIAL, Mode, PHASES};
use policer::{Policer, Verdict};
use tcpassay_units::{Bytes, Dur, Rate, Stream, Time};

/// Round trips of the bandwidth filter.
const BANDWIDTH_ROUNDS: u64 = 10;
/// Growth of the bandwidth per round trip, in 1/256, at which the pipe is not yet full.
const FULL_GROWTH: u64 = UNIT * 5 / 4;
/// Number of round trips without this growth after which the pipe is full.
const FULL_ROUNDS: u32 = 3;
/// Duration of `ProbeRtt`.
const PROBE_RTT: Dur = Dur::from_millis(200);
/// The SYN counts as one of the first packets that were delivered (`tp->delivered`).
const SYN: u64 = 1;
/// The smallest window, in packets.
const LEAST: u64 = 4;
/// Limit of the excess of aggregated ACKs: the packets that the bandwidth delivers in this number of
/// microseconds.
const EXCESS_MICROS: u64 = 100_000;

/// The congestion states of Linux that BBR distinguishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Recovery {
    /// Open, Disorder, CWR.
    None,
    Fast,
    Timeout,
}

/// A rate sample in packets and microseconds.
#[derive(Clone, Copy, Debug)]
struct Sample {
    delivered: u64,
    /// Total number of packets delivered when the packet of the sample was sent.
    prior: u64,
    micros: u64,
}

/// BBR.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the path and the recovery")]
#[derive(Clone, Debug)]
pub struct Bbr {
    gains: Gains,
    min_rtt_window: Dur,
    finds_policers: bool,
    excess_gain: u64,
    random: Stream,

    mode: Mode,
    bandwidth: WindowedMax,
    rounds: u64,
    /// Total number of packets delivered at which the round trip ends: an ACK for a packet sent at or after
    /// this count begins the next one.
    round_end: u64,
    round_start: bool,
    totals: Totals,
    /// Packets lost by a timer since the last ACK.
    lost_by_timer: u64,
    /// Packets in flight after the last event.
    flight: u64,
    min_rtt: Option<u64>,
    min_rtt_at: Time,
    probe_rtt_end: Option<Time>,
    probe_rtt_round_done: bool,
    /// Range of the delivered count: samples of packets sent in this range are ignored, because they do not
    /// measure the bandwidth.
    unreliable: Option<(u64, u64)>,
    phase: usize,
    phase_at: Time,
    full_bandwidth: u64,
    full_rounds: u32,
    full: bool,
    policer: Policer,
    aggregation: Aggregation,
    recovery: Recovery,
    recovery_before: Recovery,
    conserves: bool,
    /// A reduction for a mark or a loss is in progress: a further one does not save the window (`tcp_enter_recovery` and `tcp_enter_loss`
    /// then do not call `bbr_ssthresh`).
    reducing: bool,
    prior_cwnd: u64,
    idle_restart: bool,
    has_seen_rtt: bool,
    /// Pacing rate in bytes per second.
    rate: u64,
}

impl Bbr {
    /// Creates the controller from the parameters declared in [`Bbr::PARAMS`].
    pub fn new(values: &ParamValues, params: &Params) -> Bbr {
        Bbr {
            gains: Gains { startup: gain(values.get("startup_gain")), window: gain(values.get("cwnd_gain")) },
            min_rtt_window: Dur::from_secs_f64(values.get("min_rtt_window")),
            finds_policers: values.get("policer") >= 1.0,
            excess_gain: gain(values.get("excess_gain")),
            random: params.rng.clone(),
            mode: Mode::Startup,
            bandwidth: WindowedMax::default(),
            rounds: 0,
            round_end: 0,
            round_start: false,
            totals: Totals::default(),
            lost_by_timer: 0,
            flight: 0,
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            probe_rtt_end: None,
            probe_rtt_round_done: false,
            unreliable: None,
            phase: 0,
            phase_at: Time::ZERO,
            full_bandwidth: 0,
            full_rounds: 0,
            full: false,
            policer: Policer::default(),
            aggregation: Aggregation::new(Time::ZERO),
            recovery: Recovery::None,
            recovery_before: Recovery::None,
            conserves: false,
            reducing: false,
            prior_cwnd: 0,
            idle_restart: false,
            has_seen_rtt: false,
            rate: 0,
        }
    }

    /// The bandwidth estimate: that of the policer if one was detected, otherwise the maximum filter.
    fn bandwidth(&self) -> u64 {
        self.policer.rate().unwrap_or(self.bandwidth.get())
    }

    fn pacing_gain(&self) -> u64 {
        self.gains.pacing(self.mode, self.phase, self.policer.rate().is_some())
    }

    fn quantized(&self, window: u64, mss: Bytes) -> u64 {
        gains::quantized(window, gains::burst(self.rate, mss), self.mode == Mode::ProbeBw && self.phase == 0)
    }

    fn inflight(&self, bandwidth: u64, gain: u64, mss: Bytes) -> u64 {
        self.quantized(gains::product(bandwidth, self.min_rtt, gain), mss)
    }

    /// Estimated number of packets in flight at the earliest time at which pacing permits the next packet.
    fn flight_at_departure(&self, view: &View, flight: u64) -> u64 {
        let wait = view.next_send.since(view.now).as_micros();
        let more = if self.pacing_gain() > UNIT { gains::burst(self.rate, view.mss) } else { 0 };
        (flight + more).saturating_sub(packets_in(self.bandwidth(), wait))
    }

    fn save_window(&mut self, cwnd: u64) {
        let restores = self.recovery_before == Recovery::None && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if restores { cwnd } else { self.prior_cwnd.max(cwnd) };
    }

    fn begin_probe_bw(&mut self) {
        self.mode = Mode::ProbeBw;
        let back = usize::try_from(self.random.below(7)).expect("below 7");
        self.phase = PHASES - 1 - back;
        self.next_phase();
    }

    fn next_phase(&mut self) {
        self.phase = (self.phase + 1) % PHASES;
        self.phase_at = self.totals.delivered_at;
    }

    /// The rate before any sample: the window in each round trip, times the gain of Startup.
    fn start_rate(&mut self, view: &View, cwnd: u64) {
        let rtt = view.srtt.map_or(1000, |srtt| srtt.as_micros().max(1));
        self.has_seen_rtt = view.srtt.is_some();
        self.rate = bytes_per_second(rate_of(cwnd, rtt), view.mss.get(), self.gains.startup);
    }

    fn set_rate(&mut self, view: &View, gain: u64) {
        if !self.has_seen_rtt && view.srtt.is_some() {
            self.start_rate(view, packets(view.control.cwnd, view.mss));
        }
        let rate = bytes_per_second(self.bandwidth(), view.mss.get(), gain);
        if self.full || rate > self.rate {
            self.rate = rate;
        }
    }

    /// A sample in packets, if it is valid.
    fn sample(&self, view: &View, ack: &Ack) -> Option<Sample> {
        let RateSample { delivered, interval, .. } = ack.sample?;
        let micros = interval.as_micros();
        let delivered = packets(delivered, view.mss);
        (micros > 0).then(|| Sample {
            delivered,
            prior: self.totals.delivered.saturating_sub(delivered),
            micros,
        })
    }

    fn policer_step(&self, view: &View, losses: u64, app_limited: bool) -> policer::Step {
        policer::Step {
            totals: self.totals,
            losses,
            app_limited,
            round_start: self.round_start,
            cycling: self.mode == Mode::ProbeBw,
            mss: view.mss.get(),
        }
    }

    fn look_for_policer(&mut self, step: &policer::Step) {
        if self.finds_policers && self.policer.on(step) == Verdict::Over {
            self.begin_probe_bw();
        }
    }

    /// Updates the round-trip counter and the bandwidth.
    fn update_bandwidth(&mut self, view: &View, sample: &Sample, losses: u64, app_limited: bool) {
        if sample.prior >= self.round_end {
            self.round_end = self.totals.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.conserves = false;
        }
        let step = self.policer_step(view, losses, app_limited);
        self.look_for_policer(&step);
        let bandwidth = rate_of(sample.delivered, sample.micros);
        if !app_limited || bandwidth >= self.bandwidth.get() {
            self.bandwidth.update(BANDWIDTH_ROUNDS, self.rounds, bandwidth);
        }
    }

    /// Whether the phase of `ProbeBw` is over. A phase lasts for the smallest round-trip time. The probing
    /// phase continues until the target is in flight or a loss occurs; the draining phase ends early if no
    /// queue remains.
    fn phase_is_over(&self, view: &View, prior_flight: u64, losses: u64) -> bool {
        let age = micros(self.totals.delivered_at).saturating_sub(micros(self.phase_at));
        let long = self.min_rtt.is_some_and(|rtt| age > rtt);
        let gain = self.pacing_gain();
        if gain == UNIT {
            return long;
        }
        let flight = self.flight_at_departure(view, prior_flight);
        let bandwidth = self.bandwidth.get();
        if gain > UNIT {
            long && (losses > 0 || flight >= self.inflight(bandwidth, gain, view.mss))
        } else {
            long || flight <= self.inflight(bandwidth, UNIT, view.mss)
        }
    }

    /// The pipe is full when the bandwidth has not grown by a quarter in three round trips.
    fn check_full(&mut self, app_limited: bool) {
        if self.full || !self.round_start || app_limited {
            return;
        }
        let bandwidth = self.bandwidth.get();
        if bandwidth >= self.full_bandwidth.saturating_mul(FULL_GROWTH) / UNIT {
            self.full_bandwidth = bandwidth;
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.full = self.full_rounds >= FULL_ROUNDS;
    }

    /// Startup ends with a full pipe, Drain when the queue is gone. Returns the new ssthresh in packets when Startup ends.
    fn check_drain(&mut self, view: &View) -> Option<u64> {
        let mut ssthresh = None;
        let bandwidth = self.bandwidth.get();
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
            ssthresh = Some(self.inflight(bandwidth, UNIT, view.mss));
        }
        if self.mode == Mode::Drain {
            // The gain of the state in which the ACK arrived decides.
            let target = self.inflight(bandwidth, UNIT, view.mss);
            let more = if ssthresh.is_some() { gains::burst(self.rate, view.mss) } else { 0 };
            let wait = view.next_send.since(view.now).as_micros();
            let flight =
                (packets(view.flight, view.mss) + more).saturating_sub(packets_in(self.bandwidth(), wait));
            if flight <= target {
                self.begin_probe_bw();
            }
        }
        ssthresh
    }

    /// Updates the smallest round-trip time. If it was not measured again for ten seconds, begins
    /// `ProbeRtt`, in which the queue drains. Returns the window.
    fn update_min_rtt(&mut self, view: &View, ack: &Ack, cwnd: u64) -> u64 {
        let expired = view.now > self.min_rtt_at + self.min_rtt_window;
        if let Some(rtt) = ack.rtt.map(Dur::as_micros)
            && (self.min_rtt.is_none_or(|min| rtt < min) || (expired && !is_delayed(view, ack)))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = view.now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_window(cwnd);
            self.mode = Mode::ProbeRtt;
            self.unreliable = None;
            self.probe_rtt_end = None;
        }
        let mut window = cwnd;
        if self.mode == Mode::ProbeRtt {
            let delivered = self.totals.delivered;
            let from = self.unreliable.map_or(delivered, |(from, _)| from);
            self.unreliable = Some((from, delivered + packets(view.flight, view.mss)));
            if self.probe_rtt_end.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    window = self.check_probe_rtt_done(view.now, cwnd);
                }
            } else if packets(view.flight, view.mss) <= LEAST {
                self.probe_rtt_end = Some(view.now + PROBE_RTT);
                self.probe_rtt_round_done = false;
                self.round_end = delivered;
            }
        }
        if !ack.delivered.is_zero() {
            self.idle_restart = false;
        }
        window
    }

    fn check_probe_rtt_done(&mut self, now: Time, cwnd: u64) -> u64 {
        if self.probe_rtt_end.is_none_or(|end| now <= end) {
            return cwnd;
        }
        self.min_rtt_at = now;
        if self.full {
            self.begin_probe_bw();
        } else {
            self.mode = Mode::Startup;
        }
        cwnd.max(self.prior_cwnd)
    }

    /// The window during recovery (`bbr_set_cwnd_to_recover_or_restore`): packet conservation in the first
    /// round trip, then no limit; at the end the window before the recovery is restored. If the second value
    /// is true, the window is final for this ACK.
    fn recovered(&mut self, view: &View, cwnd: u64, acked: u64, losses: u64) -> (u64, bool) {
        let flight = packets(view.flight, view.mss);
        let mut cwnd = if losses > 0 { cwnd.saturating_sub(losses).max(1) } else { cwnd };
        let before = std::mem::replace(&mut self.recovery_before, self.recovery);
        if self.recovery == Recovery::Fast && before != Recovery::Fast {
            self.conserves = true;
            self.round_end = self.totals.delivered;
            cwnd = flight + acked;
        } else if before != Recovery::None && self.recovery == Recovery::None {
            cwnd = cwnd.max(self.prior_cwnd);
            self.conserves = false;
        }
        if self.conserves { (cwnd.max(flight + acked), true) } else { (cwnd, false) }
    }

    fn window(&mut self, view: &View, cwnd: u64, acked: u64, losses: u64) -> u64 {
        let mut cwnd = cwnd;
        if acked > 0 {
            let (repaired, bound) = self.recovered(view, cwnd, acked, losses);
            cwnd = repaired;
            if !bound {
                let bandwidth = self.bandwidth();
                let mut target = gains::product(bandwidth, self.min_rtt, self.gains.window(self.mode));
                if self.full {
                    let excess = self.excess_gain * self.aggregation.excess() / UNIT;
                    target += excess.min(packets_in(bandwidth, EXCESS_MICROS));
                }
                let target = self.quantized(target, view.mss);
                if self.full {
                    cwnd = (cwnd + acked).min(target);
                } else if cwnd < target || self.totals.delivered + SYN < INITIAL {
                    cwnd += acked;
                }
                cwnd = cwnd.max(LEAST);
            }
        }
        if self.mode == Mode::ProbeRtt { cwnd.min(LEAST) } else { cwnd }
    }

    fn on_ack(&mut self, view: &View, ack: &Ack) -> (u64, Option<u64>) {
        let prior_flight = self.flight;
        let acked = packets(ack.delivered, view.mss);
        let losses = packets(ack.lost, view.mss);
        self.totals.lost += losses;
        self.lost_by_timer = 0;
        self.totals.delivered += acked;
        if acked > 0 {
            self.totals.delivered_at = view.now;
        }
        let cwnd = packets(view.control.cwnd, view.mss);
        let sample = self.sample(view, ack);
        let app_limited = ack.app_limited
            || sample.zip(self.unreliable).is_some_and(|(s, (from, to))| (from..=to).contains(&s.prior));
        self.round_start = false;
        if let Some(sample) = &sample {
            self.update_bandwidth(view, sample, losses, app_limited);
            self.aggregation.on(&aggregation::Step {
                totals: self.totals,
                acked,
                round_start: self.round_start,
                bandwidth: self.bandwidth(),
                cwnd,
            });
        }
        if self.mode == Mode::ProbeBw && self.phase_is_over(view, prior_flight, losses) {
            self.next_phase();
        }
        self.check_full(app_limited);
        let ssthresh = self.check_drain(view);
        let cwnd = self.update_min_rtt(view, ack, cwnd);
        self.set_rate(view, self.pacing_gain());
        (self.window(view, cwnd, acked, losses), ssthresh)
    }

    /// Processes the first transmission after an application-limited idle time with nothing in flight: the
    /// pacing rate becomes the bandwidth estimate.
    fn on_restart(&mut self, view: &View, cwnd: u64) -> u64 {
        self.idle_restart = true;
        self.aggregation.restart(view.now);
        match self.mode {
            Mode::ProbeBw => self.set_rate(view, UNIT),
            Mode::ProbeRtt => return self.check_probe_rtt_done(view.now, cwnd),
            Mode::Startup | Mode::Drain => {}
        }
        cwnd
    }

    fn on_timeout(&mut self, view: &View, cwnd: u64, again: bool) -> u64 {
        if !again && !self.reducing {
            self.save_window(cwnd);
        }
        self.reducing = false;
        self.totals.lost += self.newly_lost(view);
        self.recovery = Recovery::Timeout;
        self.recovery_before = Recovery::Timeout;
        self.full_bandwidth = 0;
        self.round_start = true;
        let step = self.policer_step(view, 1, false);
        self.look_for_policer(&step);
        packets(view.flight, view.mss) + 1
    }

    /// Number of packets marked lost since the last event, computed from the decrease of the flight.
    fn newly_lost(&self, view: &View) -> u64 {
        self.flight.saturating_sub(packets(view.flight, view.mss))
    }

    /// Bandwidth in packets a second, the smallest round-trip time in seconds, both gains, the mode (0 Startup, 1 Drain, 2 `ProbeBw`,
    /// 3 `ProbeRtt`), the phase of `ProbeBw`, whether the pipe is full, whether the rate is a policer's, and the excess in packets.
    #[expect(clippy::cast_precision_loss, reason = "numbers for people; exact below 2^53")]
    fn variables(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("bandwidth", self.bandwidth() as f64 * 1e6 / 16_777_216.0),
            ("min_rtt", self.min_rtt.map_or(0.0, |rtt| rtt as f64 * 1e-6)),
            ("pacing_gain", self.pacing_gain() as f64 / 256.0),
            ("cwnd_gain", self.gains.window(self.mode) as f64 / 256.0),
            ("mode", f64::from(self.mode as u8)),
            ("phase", self.phase as f64),
            ("full", f64::from(u8::from(self.full))),
            ("policed", f64::from(u8::from(self.policer.rate().is_some()))),
            ("extra_acked", self.aggregation.excess() as f64),
        ]
    }

    fn forget_losses(&mut self) {
        self.full_bandwidth = 0;
        self.full_rounds = 0;
        self.policer.reset(self.totals);
    }
}

impl Controller for Bbr {
    fn name(&self) -> &'static str {
        Bbr::NAME
    }

    fn on(&mut self, view: &View, event: &Event) -> Control {
        let mut cwnd = view.control.cwnd;
        let mut ssthresh = view.control.ssthresh;
        let found = packets(cwnd, view.mss);
        let window = match *event {
            Event::Established => {
                self.min_rtt = view.min_rtt.map(Dur::as_micros);
                self.min_rtt_at = view.now;
                self.aggregation.restart(view.now);
                self.start_rate(view, found);
                found
            }
            Event::Sent { bytes, app_limited, .. } => {
                self.totals.lost += std::mem::take(&mut self.lost_by_timer);
                let pauses = self.unreliable.is_some_and(|(_, to)| self.totals.delivered <= to);
                if view.flight <= bytes && (app_limited || pauses) {
                    self.on_restart(view, found)
                } else {
                    found
                }
            }
            Event::Ack(ref ack) => {
                let (window, threshold) = self.on_ack(view, ack);
                if let Some(threshold) = threshold {
                    ssthresh = view.mss * threshold;
                }
                window
            }
            Event::Congestion { cause, .. } => {
                if !self.reducing {
                    self.save_window(found);
                }
                self.reducing = true;
                self.lost_by_timer = self.newly_lost(view);
                if cause == Cause::Loss {
                    self.recovery = Recovery::Fast;
                }
                found
            }
            Event::RecoveryExit { spurious, .. } => {
                self.recovery = Recovery::None;
                self.reducing = false;
                if spurious {
                    self.forget_losses();
                }
                found
            }
            Event::Timeout { again, .. } => self.on_timeout(view, found, again),
            Event::Resume { .. } => found,
        };
        if window != found {
            cwnd = view.mss.saturating_mul(window);
        }
        self.flight = packets(view.flight, view.mss);
        Control { cwnd, ssthresh, pacing: Some(Rate::from_bits_per_sec((self.rate * 8).max(8))) }
    }

    fn governs_recovery(&self) -> bool {
        true
    }

    fn internals(&self) -> Vec<(&'static str, f64)> {
        self.variables()
    }

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

/// Whether the ACK was probably delayed: it acknowledges a single packet smaller than the MSS
/// (`FLAG_ACK_MAYBE_DELAYED`).
fn is_delayed(view: &View, ack: &Ack) -> bool {
    ack.acked < view.mss
        && ack.marked.is_zero()
        && ack.lost.is_zero()
        && packets(ack.delivered, view.mss) == 1
        && ack.sample.is_some_and(|sample| packets(sample.delivered, view.mss) == 1)
}
