//! The cycle of `ProbeBW`, the long-term bound that its probes find, and the pauses of `ProbeRTT`.

use super::{Acks, Bbr3, FREE, Measured, Mode, Plateau, WAIT, real, whole};
use tcpassay_cc::{Ack, Limited, View};
use tcpassay_units::{Dur, Time};

impl Bbr3 {
    pub(super) fn down(&mut self, now: Time) {
        (self.loss_in_round, self.latest, self.up_each) = (false, (0.0, 0), FREE);
        (self.since_probe, self.began, self.cycle_at) = (self.beginning, true, now);
        self.acks = Acks::Stopping;
        self.begins_round();
        self.mode = Mode::Down;
    }

    pub(super) fn refills(&mut self) {
        self.unbounds();
        (self.up_rounds, self.up_acked, self.early) = (0, 0, false);
        self.acks = Acks::Refilling;
        self.begins_round();
        self.mode = Mode::Refill;
    }

    pub(super) fn steepens(&mut self, view: &View) {
        let part = view.control.cwnd.get() / (1 << self.up_rounds);
        self.up_each = part.max(view.mss.get());
        self.up_rounds = (self.up_rounds + 1).min(30);
    }

    pub(super) fn target(&self, view: &View) -> u64 {
        self.product(view, self.bandwidth(), 1.0).min(view.control.cwnd.get())
    }

    /// `InflightWithHeadroom`: 15 % less than the long-term bound, at least a segment.
    pub(super) fn headroom(&self, view: &View) -> u64 {
        if self.long == FREE {
            return FREE;
        }
        let mss = view.mss.get();
        let room = whole(real(self.long) * 0.15).max(mss);
        self.long.saturating_sub(room).max(4 * mss)
    }

    /// `IsTimeToProbeBW`.
    pub(super) fn probes(&mut self, view: &View) -> bool {
        let rounds = (self.target(view) / view.mss.get()).min(63);
        if self.since_probe >= rounds {
            return true;
        }
        self.unknown |= view.now > self.cycle_at + WAIT;
        false
    }

    pub(super) fn cycle(&mut self, view: &View, sample: &Measured, newly: u64) {
        if !self.full || self.adapts(view, sample, newly) {
            return;
        }
        let mode = self.mode;
        match mode {
            Mode::Down | Mode::Cruise if self.probes(view) => self.refills(),
            Mode::Down => {
                let flight = view.flight.get();
                let most = self.quantized(view, self.product(view, self.largest(), 1.0));
                if flight <= self.headroom(view) && flight <= most {
                    self.mode = Mode::Cruise;
                }
            }
            Mode::Refill if self.round_begins => {
                self.samples = true;
                self.acks = Acks::Starting;
                self.begins_round();
                self.plateau = Plateau { rate: sample.rate, rounds: 0 };
                self.mode = Mode::Up;
                self.steepens(view);
            }
            Mode::Up if self.ends_up(view, sample.rate) => {
                self.too_high = false;
                self.down(view.now);
            }
            _ => {}
        }
    }

    pub(super) fn ends_up(&mut self, view: &View, rate: f64) -> bool {
        if self.too_high && self.flight >= self.long {
            self.early = true;
            return true;
        }
        if view.limited == Limited::Cwnd && view.control.cwnd.get() >= self.long {
            self.plateau = Plateau { rate, rounds: 0 };
            return false;
        }
        self.plateau.reached()
    }

    /// `AdaptLongTermModel`. Returns whether a new probe follows at once.
    pub(super) fn adapts(&mut self, view: &View, sample: &Measured, newly: u64) -> bool {
        if self.round_begins && self.acks == Acks::Starting {
            self.acks = Acks::Feedback;
        }
        if self.round_begins && self.acks == Acks::Stopping {
            (self.samples, self.acks) = (false, Acks::Init);
            if self.cycles() {
                if !sample.limited && self.rates.1 > 0.0 {
                    self.rates = (self.rates.1, 0.0);
                }
                if self.early && !self.too_high {
                    self.refills();
                    return true;
                }
            }
        }
        if self.overloads(sample) {
            if self.samples {
                (self.too_high, self.samples) = (true, false);
                if !sample.limited {
                    let least = whole(real(self.target(view)) * self.beta);
                    self.long = sample.flight.max(least);
                }
                if self.mode == Mode::Up {
                    self.save(Some(Mode::Up));
                    self.down(view.now);
                }
            }
            return false;
        }
        if self.long == FREE {
            return false;
        }
        self.long = self.long.max(sample.flight);
        let filled = view.limited == Limited::Cwnd && view.control.cwnd.get() >= self.long;
        if self.mode == Mode::Up && filled {
            self.up_acked += newly;
            let steps = self.up_acked / self.up_each;
            self.up_acked -= steps * self.up_each;
            self.long += steps * view.mss.get();
            if self.round_begins {
                self.steepens(view);
            }
        }
        false
    }

    pub(super) fn pause_window(&self, view: &View) -> u64 {
        self.product(view, self.bandwidth(), 0.5).max(4 * view.mss.get())
    }

    pub(super) fn pauses(&mut self, view: &View, ack: &Ack, cwnd: u64) -> u64 {
        let now = view.now;
        let due = now > self.probed_at + self.interval;
        if let Some(rtt) = ack.rtt.filter(|rtt| due || self.probed.is_none_or(|probed| *rtt < probed)) {
            (self.probed, self.probed_at) = (Some(rtt), now);
        }
        let old = now > self.shortest_at + Dur::from_secs(10);
        if let Some(probed) =
            self.probed.filter(|probed| old || self.shortest.is_none_or(|rtt| *probed < rtt))
        {
            (self.shortest, self.shortest_at) = (Some(probed), self.probed_at);
        }
        if due && !self.restarts && self.mode != Mode::ProbeRtt {
            self.keep(cwnd);
            self.mode = Mode::ProbeRtt;
            (self.pause_end, self.paused, self.acks) = (None, None, Acks::Stopping);
            self.begins_round();
        }
        let mut window = cwnd;
        if self.mode == Mode::ProbeRtt {
            let from = self.paused.map_or(self.delivered, |(from, _)| from);
            self.paused = Some((from, self.delivered + view.flight.get()));
            if self.pause_end.is_some() {
                self.pause_round |= self.round_begins;
                if self.pause_round {
                    window = self.ends_pause(now, cwnd);
                }
            } else if view.flight.get() <= self.pause_window(view) {
                (self.pause_end, self.pause_round) = (Some(now + Dur::from_millis(200)), false);
                self.begins_round();
            }
        }
        self.restarts &= ack.delivered.is_zero();
        window
    }

    pub(super) fn ends_pause(&mut self, now: Time, cwnd: u64) -> u64 {
        if self.pause_end.is_none_or(|end| now <= end) {
            return cwnd;
        }
        self.probed_at = now;
        self.unbounds();
        if self.full {
            self.down(now);
            self.mode = Mode::Cruise;
        } else {
            self.mode = Mode::Startup;
        }
        cwnd.max(self.kept)
    }
}
