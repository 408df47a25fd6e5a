//! BBR (version 1): draft-cardwell-iccrg-bbr-congestion-control-00 with the constants and the arithmetic of Linux 6.1 `tcp_bbr.c`: packets,
//! microseconds, gains in 1/256, bandwidths in packets per microsecond times 2^24.
//!
//! The phase with which `ProbeBW` begins is random. [`Candidates`] contains the specification with each phase that agrees with the
//! decisions so far.

use super::bbr_arithmetic::{
    Aggregation, Maximum, Policer, SCALE, UNIT, bytes_a_second, micros, over, super_segment, up, within,
};
use super::specification::{Specification, Values};
use tcpassay_cc::{Ack, Cause, Control, Event, View};
use tcpassay_units::{Bytes, Dur, Rate, Time};

/// Phases with which `ProbeBW` may begin: all but the one that drains (`CYCLE_LEN`, `bbr_cycle_rand`).
const BEGINNINGS: [usize; 7] = [0, 2, 3, 4, 5, 6, 7];
/// Largest number of candidates; a larger one is not followed.
const MOST: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Repair {
    None,
    Loss,
    Timeout,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts about the path")]
#[derive(Clone, PartialEq, Eq, Debug)]
struct Bbr {
    startup_gain: u64,
    window_gain: u64,
    excess_gain: u64,
    min_rtt_window: Dur,
    finds_policers: bool,
    mode: Mode,
    /// The phase of `ProbeBW` and its begin.
    phase: (usize, Time),
    rates: Maximum,
    rounds: u64,
    round_end: u64,
    round_begins: bool,
    delivered: u64,
    delivered_at: Time,
    lost: u64,
    lost_at_timer: u64,
    flight: u64,
    /// The shortest round-trip time in microseconds and when it was measured.
    shortest: Option<u64>,
    shortest_at: Time,
    pause_end: Option<Time>,
    pause_round: bool,
    /// Deliveries that a pause of `ProbeRTT` limited.
    paused: Option<(u64, u64)>,
    full_rate: u64,
    full_rounds: u32,
    full: bool,
    policer: Policer,
    aggregation: Aggregation,
    repair: Repair,
    repair_before: Repair,
    conserves: bool,
    reducing: bool,
    kept: u64,
    restarts: bool,
    measured: bool,
    rate: u64,
    /// The phase with which a `ProbeBW` of this event begins, and whether one began.
    beginning: usize,
    began: bool,
}

impl Bbr {
    fn new(values: &Values<'_>) -> Bbr {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "gains are positive and small"
        )]
        let gain = |name, default: f64| (values.get(name, default) * 256.0).round() as u64;
        Bbr {
            startup_gain: gain("startup_gain", 739.0 / 256.0),
            window_gain: gain("cwnd_gain", 2.0),
            excess_gain: gain("excess_gain", 1.0),
            min_rtt_window: Dur::from_secs_f64(values.get("min_rtt_window", 10.0)),
            finds_policers: values.get("policer", 1.0) >= 1.0,
            mode: Mode::Startup,
            phase: (0, Time::ZERO),
            rates: Maximum::default(),
            rounds: 0,
            round_end: 0,
            round_begins: false,
            delivered: 0,
            delivered_at: Time::ZERO,
            lost: 0,
            lost_at_timer: 0,
            flight: 0,
            shortest: None,
            shortest_at: Time::ZERO,
            pause_end: None,
            pause_round: false,
            paused: None,
            full_rate: 0,
            full_rounds: 0,
            full: false,
            policer: Policer::default(),
            aggregation: Aggregation { since: Time::ZERO, acked: 0, most: [0; 2], part: 0, rounds: 0 },
            repair: Repair::None,
            repair_before: Repair::None,
            conserves: false,
            reducing: false,
            kept: 0,
            restarts: false,
            measured: false,
            rate: 0,
            beginning: 0,
            began: false,
        }
    }

    fn bandwidth(&self) -> u64 {
        if self.policer.used { self.policer.bandwidth } else { self.rates.get() }
    }

    fn pacing_gain(&self) -> u64 {
        match self.mode {
            Mode::Startup => self.startup_gain,
            // 1 / 2.885, the inverse of 2 / ln 2.
            Mode::Drain => UNIT * 1000 / 2885,
            Mode::ProbeBw if self.policer.used => UNIT,
            Mode::ProbeBw => match self.phase.0 {
                0 => UNIT * 5 / 4,
                1 => UNIT * 3 / 4,
                _ => UNIT,
            },
            Mode::ProbeRtt => UNIT,
        }
    }

    /// `bbr_bdp`: ten packets before a round-trip time is known.
    fn product(&self, bandwidth: u64, gain: u64) -> u64 {
        self.shortest.map_or(10, |rtt| {
            (bandwidth.saturating_mul(rtt).saturating_mul(gain) / UNIT).div_ceil(1 << SCALE)
        })
    }

    /// `bbr_quantization_budget`.
    fn whole(&self, window: u64, mss: u64) -> u64 {
        let window = (window + 3 * super_segment(self.rate, mss)).next_multiple_of(2);
        window + if self.mode == Mode::ProbeBw && self.phase.0 == 0 { 2 } else { 0 }
    }

    /// `bbr_inflight`.
    fn inflight(&self, gain: u64, mss: u64) -> u64 {
        self.whole(self.product(self.rates.get(), gain), mss)
    }

    /// `bbr_packets_in_net_at_edt`. `probes`: the gain is above one.
    fn in_net(&self, view: &View, flight: u64, probes: bool) -> u64 {
        let next = if probes { super_segment(self.rate, view.mss.get()) } else { 0 };
        let wait = view.next_send.since(view.now).as_micros();
        (flight + next).saturating_sub(within(self.bandwidth(), wait))
    }

    fn keep(&mut self, cwnd: u64) {
        let fresh = self.repair_before == Repair::None && self.mode != Mode::ProbeRtt;
        self.kept = if fresh { cwnd } else { self.kept.max(cwnd) };
    }

    fn probes(&mut self) {
        self.mode = Mode::ProbeBw;
        self.phase = (self.beginning, self.delivered_at);
        self.began = true;
    }

    fn paces(&mut self, view: &View, gain: u64) {
        let mss = view.mss.get();
        if !self.measured && view.srtt.is_some() {
            self.begins(view);
        }
        let rate = bytes_a_second(self.bandwidth(), mss, gain);
        if self.full || rate > self.rate {
            self.rate = rate;
        }
    }

    /// `bbr_init_pacing_rate_from_rtt`: a round-trip time of 1 ms as long as none is known.
    fn begins(&mut self, view: &View) {
        let mss = view.mss.get();
        self.measured = view.srtt.is_some();
        let rtt = view.srtt.map_or(1000, |srtt| srtt.as_micros().max(1));
        self.rate = bytes_a_second(over(up(view.control.cwnd, mss), rtt), mss, self.startup_gain);
    }

    fn interval(&mut self) {
        let Policer { samples, used, bandwidth, .. } = self.policer;
        let (delivered, lost, at) = (self.delivered, self.lost, self.delivered_at);
        self.policer = Policer { samples, used, bandwidth, rounds: 0, delivered, lost, at };
    }

    fn forgets_policer(&mut self) {
        self.policer = Policer::default();
        self.interval();
    }

    fn polices(&mut self, mss: u64, losses: u64, limited: bool) {
        if !self.finds_policers {
            return;
        }
        if self.policer.used {
            if self.mode == Mode::ProbeBw && self.round_begins {
                self.policer.rounds += 1;
                if self.policer.rounds >= 48 {
                    self.forgets_policer();
                    self.probes();
                }
            }
            return;
        }
        if !self.policer.samples {
            if losses == 0 {
                return;
            }
            self.interval();
            self.policer.samples = true;
        }
        if limited {
            self.forgets_policer();
            return;
        }
        self.policer.rounds += u32::from(self.round_begins);
        if self.policer.rounds > 16 {
            self.forgets_policer();
        }
        if self.policer.rounds < 4 || losses == 0 {
            return;
        }
        let Policer { bandwidth: before, delivered, lost, at, .. } = self.policer;
        let (lost, delivered) = (self.lost - lost, self.delivered - delivered);
        let ms = self.delivered_at.as_nanos() / 1_000_000 - at.as_nanos() / 1_000_000;
        // A loss rate of 50/256.
        if delivered == 0 || lost * UNIT < 50 * delivered || ms == 0 {
            return;
        }
        let bandwidth = over(delivered, ms * 1000);
        let difference = bandwidth.abs_diff(before);
        let close = difference * UNIT <= 32 * before || bytes_a_second(difference, mss, UNIT) <= 500;
        if before > 0 && close {
            self.policer.bandwidth = u64::midpoint(bandwidth, before);
            (self.policer.used, self.policer.rounds) = (true, 0);
        } else {
            self.policer.bandwidth = bandwidth;
            self.interval();
        }
    }

    fn aggregates(&mut self, acked: u64, cwnd: u64) {
        if acked == 0 {
            return;
        }
        if self.round_begins {
            self.aggregation.rounds += 1;
            if self.aggregation.rounds >= 5 {
                let part = 1 - self.aggregation.part;
                (self.aggregation.rounds, self.aggregation.part) = (0, part);
                self.aggregation.most[part] = 0;
            }
        }
        let now = self.delivered_at;
        let mut expected = within(self.bandwidth(), micros(now) - micros(self.aggregation.since));
        let epoch = &mut self.aggregation;
        if epoch.acked <= expected || epoch.acked + acked >= 1 << 20 {
            (epoch.acked, epoch.since, expected) = (0, now, 0);
        }
        epoch.acked = (epoch.acked + acked).min((1 << 20) - 1);
        let most = &mut epoch.most[epoch.part];
        *most = (*most).max((epoch.acked - expected).min(cwnd));
    }

    fn cycles(&mut self, view: &View, before: u64, losses: u64) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let mss = view.mss.get();
        let age = micros(self.delivered_at).saturating_sub(micros(self.phase.1));
        let long = self.shortest.is_some_and(|rtt| age > rtt);
        let gain = self.pacing_gain();
        let in_net = self.in_net(view, before, gain > UNIT);
        let over = match gain.cmp(&UNIT) {
            std::cmp::Ordering::Equal => long,
            std::cmp::Ordering::Greater => long && (losses > 0 || in_net >= self.inflight(gain, mss)),
            std::cmp::Ordering::Less => long || in_net <= self.inflight(UNIT, mss),
        };
        if over {
            self.phase = ((self.phase.0 + 1) % 8, self.delivered_at);
        }
    }

    fn fills(&mut self, limited: bool) {
        if self.full || !self.round_begins || limited {
            return;
        }
        if self.rates.get() >= self.full_rate.saturating_mul(5) / 4 {
            (self.full_rate, self.full_rounds) = (self.rates.get(), 0);
        } else {
            self.full_rounds += 1;
            self.full = self.full_rounds >= 3;
        }
    }

    /// Returns the threshold in packets if startup ends.
    fn drains(&mut self, view: &View) -> Option<u64> {
        let mss = view.mss.get();
        let ends = self.mode == Mode::Startup && self.full;
        if ends {
            self.mode = Mode::Drain;
        }
        let target = self.inflight(UNIT, mss);
        if self.mode == Mode::Drain && self.in_net(view, up(view.flight, mss), ends) <= target {
            self.probes();
        }
        ends.then_some(target)
    }

    fn pauses(&mut self, view: &View, ack: &Ack, cwnd: u64) -> u64 {
        let (now, mss) = (view.now, view.mss.get());
        let flight = up(view.flight, mss);
        let old = now > self.shortest_at + self.min_rtt_window;
        // `is_ack_delayed`: the ACK of one packet that is shorter than a segment.
        let one = |bytes| up(bytes, mss) == 1;
        let delayed = ack.acked < view.mss
            && ack.marked.is_zero()
            && ack.lost.is_zero()
            && one(ack.delivered)
            && ack.sample.is_some_and(|sample| one(sample.delivered));
        if let Some(rtt) = ack.rtt.map(Dur::as_micros)
            && (self.shortest.is_none_or(|shortest| rtt < shortest) || old && !delayed)
        {
            (self.shortest, self.shortest_at) = (Some(rtt), now);
        }
        if old && !self.restarts && self.mode != Mode::ProbeRtt {
            self.keep(cwnd);
            self.mode = Mode::ProbeRtt;
            (self.pause_end, self.paused) = (None, None);
        }
        let mut window = cwnd;
        if self.mode == Mode::ProbeRtt {
            let from = self.paused.map_or(self.delivered, |(from, _)| from);
            self.paused = Some((from, self.delivered + flight));
            if self.pause_end.is_none() {
                if flight <= 4 {
                    self.pause_end = Some(now + Dur::from_millis(200));
                    self.pause_round = false;
                    self.round_end = self.delivered;
                }
            } else {
                self.pause_round |= self.round_begins;
                if self.pause_round {
                    window = self.ends_pause(now, cwnd);
                }
            }
        }
        self.restarts &= ack.delivered.is_zero();
        window
    }

    fn ends_pause(&mut self, now: Time, cwnd: u64) -> u64 {
        if self.pause_end.is_none_or(|end| now <= end) {
            return cwnd;
        }
        self.shortest_at = now;
        if self.full {
            self.probes();
        } else {
            self.mode = Mode::Startup;
        }
        cwnd.max(self.kept)
    }

    /// `bbr_set_cwnd`.
    fn window(&mut self, view: &View, cwnd: u64, acked: u64, losses: u64) -> u64 {
        let mss = view.mss.get();
        let limit = |cwnd: u64, mode| if mode == Mode::ProbeRtt { cwnd.min(4) } else { cwnd };
        if acked == 0 {
            return limit(cwnd, self.mode);
        }
        let flight = up(view.flight, mss);
        let mut cwnd = if losses > 0 { cwnd.saturating_sub(losses).max(1) } else { cwnd };
        let before = std::mem::replace(&mut self.repair_before, self.repair);
        if self.repair == Repair::Loss && before != Repair::Loss {
            (self.conserves, self.round_end) = (true, self.delivered);
            cwnd = flight + acked;
        } else if self.repair == Repair::None && before != Repair::None {
            self.conserves = false;
            cwnd = cwnd.max(self.kept);
        }
        if self.conserves {
            cwnd = cwnd.max(flight + acked);
        } else {
            let gain = match self.mode {
                Mode::Startup | Mode::Drain => self.startup_gain,
                Mode::ProbeBw => self.window_gain,
                Mode::ProbeRtt => UNIT,
            };
            let bandwidth = self.bandwidth();
            let excess = self.aggregation.most[0].max(self.aggregation.most[1]) * self.excess_gain / UNIT;
            let excess = if self.full { excess.min(within(bandwidth, 100_000)) } else { 0 };
            let target = self.whole(self.product(bandwidth, gain) + excess, mss);
            if self.full {
                cwnd = (cwnd + acked).min(target);
            } else if cwnd < target || self.delivered < 10 {
                cwnd += acked;
            }
            cwnd = cwnd.max(4);
        }
        limit(cwnd, self.mode)
    }

    fn ack(&mut self, view: &View, ack: &Ack, cwnd: u64) -> (u64, Option<u64>) {
        let mss = view.mss.get();
        let before = self.flight;
        let (acked, losses) = (up(ack.delivered, mss), up(ack.lost, mss));
        self.lost_at_timer = 0;
        (self.lost, self.delivered) = (self.lost + losses, self.delivered + acked);
        if acked > 0 {
            self.delivered_at = view.now;
        }
        self.round_begins = false;
        let sample = ack.sample.map(|sample| (up(sample.delivered, mss), sample.interval.as_micros()));
        let sample = sample.filter(|(_, micros)| *micros > 0);
        let mut limited = ack.app_limited;
        if let Some((delivered, micros)) = sample {
            let prior = self.delivered.saturating_sub(delivered);
            limited |= self.paused.is_some_and(|(from, to)| from <= prior && prior <= to);
            if prior >= self.round_end {
                (self.round_end, self.round_begins) = (self.delivered, true);
                self.rounds += 1;
                self.conserves = false;
            }
            self.polices(mss, losses, limited);
            let rate = over(delivered, micros);
            if rate >= self.rates.get() || !limited {
                self.rates.add(self.rounds, rate);
            }
            self.aggregates(acked, cwnd);
        }
        self.cycles(view, before, losses);
        self.fills(limited);
        let threshold = self.drains(view);
        let cwnd = self.pauses(view, ack, cwnd);
        let gain = self.pacing_gain();
        self.paces(view, gain);
        (self.window(view, cwnd, acked, losses), threshold)
    }

    fn sent(&mut self, view: &View, bytes: Bytes, limited: bool, cwnd: u64) -> u64 {
        self.lost += std::mem::take(&mut self.lost_at_timer);
        let pauses = self.paused.is_some_and(|(_, to)| self.delivered <= to);
        if view.flight > bytes || !(limited || pauses) {
            return cwnd;
        }
        self.restarts = true;
        (self.aggregation.since, self.aggregation.acked) = (view.now, 0);
        match self.mode {
            Mode::ProbeBw => self.paces(view, UNIT),
            Mode::ProbeRtt => return self.ends_pause(view.now, cwnd),
            Mode::Startup | Mode::Drain => {}
        }
        cwnd
    }

    fn on(&mut self, view: &View, event: &Event) -> Control {
        let mss = view.mss.get();
        let Control { cwnd, ssthresh, .. } = view.control;
        let had = up(cwnd, mss);
        let flight = up(view.flight, mss);
        let newly_lost = self.flight.saturating_sub(flight);
        let mut threshold = None;
        let window = match *event {
            Event::Established => {
                (self.shortest, self.shortest_at) = (view.min_rtt.map(Dur::as_micros), view.now);
                (self.aggregation.since, self.aggregation.acked) = (view.now, 0);
                self.begins(view);
                had
            }
            Event::Sent { bytes, app_limited, .. } => self.sent(view, bytes, app_limited, had),
            Event::Ack(ref ack) => {
                let (window, ends) = self.ack(view, ack, had);
                threshold = ends;
                window
            }
            Event::Congestion { cause, .. } => {
                if !self.reducing {
                    self.keep(had);
                }
                (self.reducing, self.lost_at_timer) = (true, newly_lost);
                if cause == Cause::Loss {
                    self.repair = Repair::Loss;
                }
                had
            }
            Event::RecoveryExit { spurious, .. } => {
                (self.repair, self.reducing) = (Repair::None, false);
                if spurious {
                    (self.full_rate, self.full_rounds) = (0, 0);
                    self.forgets_policer();
                }
                had
            }
            Event::Timeout { again, .. } => {
                if !(again || self.reducing) {
                    self.keep(had);
                }
                self.reducing = false;
                self.lost += newly_lost;
                (self.repair, self.repair_before) = (Repair::Timeout, Repair::Timeout);
                (self.full_rate, self.round_begins) = (0, true);
                self.polices(mss, 1, false);
                flight + 1
            }
            Event::Resume { .. } => had,
        };
        self.flight = flight;
        Control {
            cwnd: if window == had { cwnd } else { view.mss.saturating_mul(window) },
            ssthresh: threshold.map_or(ssthresh, |packets| view.mss * packets),
            pacing: Some(Rate::from_bits_per_sec((self.rate * 8).max(8))),
        }
    }
}

/// The specification with each beginning of `ProbeBW` that agrees with the decisions so far.
#[derive(Clone, Debug)]
pub(super) struct Candidates(Vec<Bbr>);

impl Candidates {
    pub fn new(values: &Values<'_>) -> Candidates {
        Candidates(vec![Bbr::new(values)])
    }
}

impl Specification for Candidates {
    fn on(&mut self, view: &View, event: &Event, asked: &Control) -> Option<Control> {
        let (mut left, mut first) = (Vec::new(), None);
        for before in std::mem::take(&mut self.0) {
            for beginning in BEGINNINGS {
                let mut next = Bbr { beginning, began: false, ..before.clone() };
                let expected = next.on(view, event);
                let began = next.began;
                (next.beginning, next.began) = (0, false);
                if expected == *asked {
                    if !left.contains(&next) {
                        left.push(next);
                    }
                } else {
                    first.get_or_insert((expected, next));
                }
                if !began {
                    break;
                }
            }
        }
        if left.is_empty() {
            let (expected, next) = first?;
            self.0 = vec![next];
            return Some(expected);
        }
        if left.len() > MOST {
            left.clear();
        }
        self.0 = left;
        None
    }

    fn variables(&self) -> String {
        let Some(one) = self.0.first() else { return String::new() };
        format!(
            " ({:?}{}, {} round trips, {} with a full pipe, the largest rate is {} bytes/s, the shortest round trip {} us)",
            one.mode,
            if one.mode == Mode::ProbeBw { format!(" phase {}", one.phase.0) } else { String::new() },
            one.rounds,
            one.full_rounds,
            bytes_a_second(one.bandwidth(), 1, UNIT),
            one.shortest.unwrap_or(0)
        )
    }
}
