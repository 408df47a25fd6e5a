//! BBR version 3: draft-ietf-ccwg-bbr, version 06, as far as `ProbeBW` has not waited for more than two seconds, because the wait for the
//! next probe is random beyond that. The number of round trips at its begin is random, too: 0 or 1.

pub(super) mod candidates;
mod cycle;

use super::specification::Values;
use tcpassay_cc::{Ack, Cause, Event, View};
use tcpassay_units::{Bytes, Dur, Time};

/// No bound.
const FREE: u64 = u64::MAX;
/// The shortest wait for a probe (`PickProbeWait`).
const WAIT: Dur = Dur::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Acks {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The end of growth: a largest rate, and the round trips without a quarter more.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Plateau {
    rate: f64,
    rounds: u32,
}

impl Plateau {
    fn reached(&self) -> bool {
        self.rounds == 3
    }

    fn round(&mut self, rate: f64) -> bool {
        if self.reached() {
        } else if rate < 1.25 * self.rate {
            self.rounds += 1;
        } else {
            *self = Plateau { rate, rounds: 0 };
        }
        self.reached()
    }
}

/// The state that an undo restores.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Saved {
    mode: Option<Mode>,
    rate: f64,
    short: u64,
    long: u64,
}

/// A rate sample with what was lost and in flight since the transmission of its segment.
#[derive(Clone, Copy, Debug)]
struct Measured {
    rate: f64,
    delivered: u64,
    prior: u64,
    lost: u64,
    flight: u64,
    limited: bool,
}

/// A transmission: its time, the data in flight after it and the data lost before it.
type Departure = (Time, u64, u64);

#[expect(clippy::struct_excessive_bools, reason = "independent facts about the path")]
#[derive(Clone, PartialEq, Debug)]
struct Bbr3 {
    threshold: f64,
    beta: f64,
    window_gain: f64,
    interval: Dur,
    ecn: bool,
    mode: Mode,
    acks: Acks,
    delivered: u64,
    lost: u64,
    lost_at_timer: u64,
    flight: u64,
    round_end: u64,
    round_begins: bool,
    rounds: u64,
    drain_round: u64,
    loss_round_end: u64,
    loss_round_begins: bool,
    loss_in_round: bool,
    losses: u32,
    latest: (f64, u64),
    plateau: Plateau,
    full: bool,
    /// The largest rate of the last cycle and of this one.
    rates: (f64, f64),
    rate_short: f64,
    short: u64,
    long: u64,
    marked: u64,
    of_round: u64,
    alpha: f64,
    shortest: Option<Dur>,
    shortest_at: Time,
    probed: Option<Dur>,
    probed_at: Time,
    pause_end: Option<Time>,
    pause_round: bool,
    paused: Option<(u64, u64)>,
    restarts: bool,
    cycle_at: Time,
    since_probe: u64,
    samples: bool,
    too_high: bool,
    early: bool,
    up_acked: u64,
    up_each: u64,
    up_rounds: u32,
    extra_at: Time,
    extra_delivered: u64,
    /// The largest excess of the last two halves of the window of round trips, with the round at which each began.
    extra: [(u64, u64); 2],
    repairs: bool,
    kept: u64,
    saved: Option<Saved>,
    rate: f64,
    /// The number of round trips with which a wait for a probe begins in this event, whether one began, and whether the end of a wait is not
    /// known.
    beginning: u64,
    began: bool,
    unknown: bool,
}

#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
fn real(bytes: u64) -> f64 {
    bytes as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
fn whole(bytes: f64) -> u64 {
    bytes as u64
}

impl Bbr3 {
    fn new(values: &Values<'_>) -> Bbr3 {
        Bbr3 {
            threshold: values.get("loss_thresh", 0.02),
            beta: values.get("beta", 0.7),
            window_gain: values.get("cwnd_gain", 2.0),
            interval: Dur::from_secs_f64(values.get("probe_rtt_interval", 5.0)),
            ecn: values.get("ecn", 0.0) >= 1.0,
            mode: Mode::Startup,
            acks: Acks::Init,
            delivered: 0,
            lost: 0,
            lost_at_timer: 0,
            flight: 0,
            round_end: 0,
            round_begins: false,
            rounds: 0,
            drain_round: 0,
            loss_round_end: 0,
            loss_round_begins: false,
            loss_in_round: false,
            losses: 0,
            latest: (0.0, 0),
            plateau: Plateau::default(),
            full: false,
            rates: (0.0, 0.0),
            rate_short: f64::INFINITY,
            short: FREE,
            long: FREE,
            marked: 0,
            of_round: 0,
            alpha: 1.0,
            shortest: None,
            shortest_at: Time::ZERO,
            probed: None,
            probed_at: Time::ZERO,
            pause_end: None,
            pause_round: false,
            paused: None,
            restarts: false,
            cycle_at: Time::ZERO,
            since_probe: 0,
            samples: false,
            too_high: false,
            early: false,
            up_acked: 0,
            up_each: FREE,
            up_rounds: 0,
            extra_at: Time::ZERO,
            extra_delivered: 0,
            extra: [(0, 0); 2],
            repairs: false,
            kept: 0,
            saved: None,
            rate: 0.0,
            beginning: 0,
            began: false,
            unknown: false,
        }
    }

    fn largest(&self) -> f64 {
        self.rates.0.max(self.rates.1)
    }

    fn bandwidth(&self) -> f64 {
        self.largest().min(self.rate_short)
    }

    fn product(&self, view: &View, rate: f64, gain: f64) -> u64 {
        match self.shortest {
            Some(rtt) if rate > 0.0 => whole(rate * rtt.as_secs_f64() * gain),
            _ => 10 * view.mss.get(),
        }
    }

    fn quantized(&self, view: &View, bytes: u64) -> u64 {
        let mss = view.mss.get();
        let quantum = whole(self.rate * 0.001).min(65_536).max(2 * mss);
        bytes.max(3 * quantum).max(4 * mss) + if self.mode == Mode::Up { 2 * mss } else { 0 }
    }

    fn cycles(&self) -> bool {
        matches!(self.mode, Mode::Down | Mode::Cruise | Mode::Refill | Mode::Up)
    }

    fn begins_round(&mut self) {
        self.round_end = self.delivered;
    }

    fn unbounds(&mut self) {
        (self.rate_short, self.short) = (f64::INFINITY, FREE);
    }

    fn keep(&mut self, cwnd: u64) {
        let more = self.repairs || self.mode == Mode::ProbeRtt;
        self.kept = if more { self.kept.max(cwnd) } else { cwnd };
    }

    fn save(&mut self, mode: Option<Mode>) {
        let fresh = Saved { mode: None, rate: self.rate_short, short: self.short, long: self.long };
        let saved = self.saved.get_or_insert(fresh);
        saved.mode = saved.mode.or(mode);
    }

    fn measured(&self, ack: &Ack, departure: Option<Departure>) -> Option<Measured> {
        let sample = ack.sample?;
        let delivered = sample.delivered.get();
        let prior = self.delivered.saturating_sub(delivered);
        let pauses = self.paused.is_some_and(|(from, to)| from <= prior && prior <= to);
        Some(Measured {
            rate: real(delivered) / sample.interval.as_secs_f64(),
            delivered,
            prior,
            lost: departure.map_or(0, |(_, _, lost)| self.lost - lost),
            flight: departure.map_or(delivered, |(_, flight, _)| flight),
            limited: ack.app_limited || pauses,
        })
    }

    /// `IsInflightTooHigh`, and with ECN more than half of a round trip marked.
    fn overloads(&self, sample: &Measured) -> bool {
        let marks = self.ecn && self.of_round > 0 && 2 * self.marked > self.of_round;
        marks || real(sample.lost) > real(sample.flight) * self.threshold
    }

    fn signals(&mut self, view: &View, sample: &Measured) {
        self.latest = (self.latest.0.max(sample.rate), self.latest.1.max(sample.delivered));
        self.loss_round_begins = sample.prior >= self.loss_round_end;
        if self.loss_round_begins {
            self.loss_round_end = self.delivered;
        }
        self.round_begins = sample.prior >= self.round_end;
        if self.round_begins {
            self.begins_round();
            self.rounds += 1;
            self.since_probe += 1;
        }
        if !sample.limited || sample.rate >= self.largest() {
            self.rates.1 = self.rates.1.max(sample.rate);
        }
        if self.loss_round_begins {
            self.lowers(view);
            self.loss_in_round = false;
        }
    }

    /// `AdaptLowerBoundsFromCongestion`.
    fn lowers(&mut self, view: &View) {
        let marks = self.ecn && self.marked > 0;
        if self.ecn && self.of_round > 0 {
            let share = (real(self.marked) / real(self.of_round)).min(1.0);
            self.alpha += (share - self.alpha) / 16.0;
        }
        if matches!(self.mode, Mode::Startup | Mode::Refill | Mode::Up) || !(marks || self.loss_in_round) {
            return;
        }
        if self.short == FREE {
            self.short = view.control.cwnd.get();
        }
        let before = self.short;
        if self.loss_in_round {
            let rate = if self.rate_short.is_infinite() { self.largest() } else { self.rate_short };
            self.rate_short = self.latest.0.max(self.beta * rate);
            self.short = self.latest.1.max(whole(real(before) * self.beta));
        }
        if marks {
            self.short = self.short.min(whole(real(before) * (1.0 - self.alpha / 3.0)));
        }
    }

    /// `UpdateACKAggregation`.
    fn aggregates(&mut self, view: &View, newly: u64) {
        let mut due = whole(self.bandwidth() * view.now.since(self.extra_at).as_secs_f64());
        if self.extra_delivered <= due {
            (self.extra_delivered, self.extra_at, due) = (0, view.now, 0);
        }
        self.extra_delivered += newly;
        let extra = (self.extra_delivered - due).min(view.control.cwnd.get());
        let rounds: u64 = if self.full { 10 } else { 1 };
        let half = (rounds / 2).max(1);
        if self.rounds >= self.extra[1].0 + half {
            self.extra = [self.extra[1], (self.rounds, 0)];
            if self.rounds >= self.extra[0].0 + 2 * half.max(rounds - half) {
                self.extra[0] = (self.rounds, 0);
            }
        }
        self.extra[1].1 = self.extra[1].1.max(extra);
    }

    fn startup(&mut self, view: &View, sample: &Measured) {
        let begins = self.mode == Mode::Startup;
        // `CheckStartupHighLoss`: six losses in a round trip of a recovery.
        if begins && self.repairs && self.loss_round_begins && self.losses >= 6 && self.overloads(sample) {
            self.save(Some(Mode::Startup));
            self.full = true;
            self.long = self.product(view, self.bandwidth(), 1.0).max(self.latest.1);
        }
        if self.loss_round_begins {
            self.losses = 0;
        }
        if begins && self.full {
            (self.mode, self.drain_round) = (Mode::Drain, self.rounds);
        }
    }

    fn drain(&mut self, view: &View) {
        if self.mode != Mode::Drain {
            return;
        }
        let target = self.quantized(view, self.product(view, self.bandwidth(), 1.0));
        if view.flight.get() <= target || self.rounds > self.drain_round + 3 {
            self.down(view.now);
        }
    }

    fn paces(&mut self, gain: f64) {
        let rate = gain * self.bandwidth() * 0.99;
        if self.full || rate > self.rate {
            self.rate = rate;
        }
    }

    fn window(&self, view: &View, cwnd: u64, newly: u64) -> u64 {
        let mss = view.mss.get();
        let gain = match self.mode {
            Mode::Up => self.window_gain.max(2.25),
            Mode::ProbeRtt => 0.5,
            _ => self.window_gain,
        };
        let extra = self.extra[0].1.max(self.extra[1].1);
        let most = self.quantized(view, self.product(view, self.bandwidth(), gain) + extra);
        let grown = cwnd + newly;
        let cwnd = match (self.full, cwnd < most || self.delivered < 10 * mss) {
            (true, _) => grown.min(most),
            (false, true) => grown,
            (false, false) => cwnd,
        };
        let cwnd = cwnd.max(4 * mss);
        let cwnd = if self.mode == Mode::ProbeRtt { cwnd.min(self.pause_window(view)) } else { cwnd };
        let long = match self.mode {
            Mode::Startup | Mode::Drain => FREE,
            Mode::Down | Mode::Refill | Mode::Up => self.long,
            Mode::Cruise | Mode::ProbeRtt => self.headroom(view),
        };
        cwnd.min(long.min(self.short).max(4 * mss))
    }

    fn ack(&mut self, view: &View, ack: &Ack, departure: Option<Departure>) -> u64 {
        let newly = ack.delivered.get();
        (self.lost, self.lost_at_timer) = (self.lost + ack.lost.get(), 0);
        self.delivered += newly;
        (self.marked, self.of_round) = (self.marked + ack.marked.get(), self.of_round + newly);
        if ack.lost > Bytes::ZERO {
            if !self.loss_in_round {
                self.loss_round_end = self.delivered;
            }
            self.loss_in_round = true;
            self.losses += 1;
        }
        (self.round_begins, self.loss_round_begins) = (false, false);
        let sample = self.measured(ack, departure);
        if let Some(sample) = &sample {
            self.signals(view, sample);
            self.aggregates(view, newly);
            if self.round_begins && !sample.limited && self.plateau.round(sample.rate) {
                self.full = true;
            }
            self.startup(view, sample);
        }
        self.drain(view);
        if let Some(sample) = &sample {
            self.cycle(view, sample, newly);
        }
        let cwnd = self.pauses(view, ack, view.control.cwnd.get());
        if let Some(sample) = sample.filter(|_| self.loss_round_begins) {
            self.latest = (sample.rate, sample.delivered);
            (self.marked, self.of_round) = (0, 0);
        }
        self.paces(match self.mode {
            Mode::Startup => 2.77,
            Mode::Drain => 0.5,
            Mode::Down => 0.9,
            Mode::Up => 1.25,
            Mode::Cruise | Mode::Refill | Mode::ProbeRtt => 1.0,
        });
        self.window(view, cwnd, newly)
    }

    fn sent(&mut self, view: &View, bytes: Bytes, limited: bool) -> u64 {
        let mut cwnd = view.control.cwnd.get();
        self.lost += std::mem::take(&mut self.lost_at_timer);
        let pauses = self.paused.is_some_and(|(_, to)| self.delivered <= to);
        if view.flight <= bytes && (limited || pauses) {
            (self.restarts, self.extra_at) = (true, view.now);
            if self.cycles() {
                self.paces(1.0);
            } else if self.mode == Mode::ProbeRtt {
                cwnd = self.ends_pause(view.now, cwnd);
            }
        }
        cwnd
    }

    fn undoes(&mut self) {
        (self.loss_in_round, self.plateau) = (false, Plateau::default());
        let Some(saved) = self.saved.take() else { return };
        self.rate_short = self.rate_short.max(saved.rate);
        (self.short, self.long) = (self.short.max(saved.short), self.long.max(saved.long));
        let pauses = self.mode == Mode::ProbeRtt;
        match saved.mode {
            Some(Mode::Startup) if self.mode != Mode::Startup => {
                self.full = false;
                self.mode = if pauses { Mode::ProbeRtt } else { Mode::Startup };
            }
            Some(Mode::Up) if self.mode != Mode::Up && !pauses => self.refills(),
            _ => {}
        }
    }

    fn on(&mut self, view: &View, event: &Event, departure: Option<Departure>) -> (u64, u64) {
        let cwnd = view.control.cwnd.get();
        let newly_lost = self.flight.saturating_sub(view.flight.get());
        let window = match *event {
            Event::Established => {
                self.shortest = view.srtt;
                (self.shortest_at, self.probed_at, self.extra_at) = (view.now, view.now, view.now);
                let rtt = view.srtt.map_or(0.001, |srtt| srtt.as_secs_f64().max(1e-6));
                self.rate = 2.77 * real(cwnd) / rtt;
                cwnd
            }
            Event::Sent { bytes, app_limited, .. } => self.sent(view, bytes, app_limited),
            Event::Ack(ref ack) => self.ack(view, ack, departure),
            Event::Congestion { cause, .. } => {
                self.lost_at_timer = newly_lost;
                if cause == Cause::Loss {
                    self.keep(cwnd);
                    (self.repairs, self.saved) = (true, None);
                    self.save(None);
                }
                cwnd
            }
            Event::RecoveryExit { spurious, .. } => {
                let restored = if self.repairs { cwnd.max(self.kept) } else { cwnd };
                self.repairs = false;
                if spurious {
                    self.undoes();
                }
                restored
            }
            Event::Timeout { again, .. } => {
                if !again {
                    self.keep(cwnd);
                    self.saved = None;
                    self.save(None);
                }
                self.lost += newly_lost;
                (self.repairs, self.loss_in_round) = (true, true);
                view.flight.get() + view.mss.get()
            }
            Event::Resume { .. } => cwnd,
        };
        self.flight = view.flight.get();
        (window, whole(self.rate * 8.0).max(8))
    }
}
