//! The implementation of [`Controller`](crate::Controller) for BBR version 3.

use super::history::Departure;
use super::signals::{self, Growth, share};
use super::{Bbr3, NONE, STARTUP_GAIN, State};
use crate::controller::Controller;
use crate::event::{Cause, Control, Event, View};
use std::cmp::max;
use tcpassay_units::{Bytes, Dur, Rate};

impl Bbr3 {
    fn on_undo(&mut self) {
        self.loss_in_round = false;
        self.growth = Growth::default();
        let Some(undo) = self.undo.take() else { return };
        self.bandwidth_shortterm = self.bandwidth_shortterm.max(undo.bandwidth);
        self.inflight_shortterm = max(self.inflight_shortterm, undo.shortterm);
        self.inflight_longterm = max(self.inflight_longterm, undo.longterm);
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if self.state != State::Up && self.state != State::ProbeRtt => {
                self.start_refill();
            }
            _ => {}
        }
    }

    fn newly_lost(&self, view: &View) -> u64 {
        self.flight.saturating_sub(view.flight.get())
    }

    fn on_restart(&mut self, view: &View, cwnd: u64) -> u64 {
        self.idle_restart = true;
        self.extra_at = view.now;
        if self.is_probe_bw() {
            self.set_rate(1.0);
        } else if self.state == State::ProbeRtt {
            return self.check_probe_rtt_done(view.now, cwnd);
        }
        cwnd
    }
}

impl Controller for Bbr3 {
    fn name(&self) -> &'static str {
        Bbr3::NAME
    }

    fn on(&mut self, view: &View, event: &Event) -> Control {
        let found = view.control.cwnd.get();
        let window = match *event {
            Event::Established => {
                self.min_rtt = view.srtt;
                self.min_rtt_at = view.now;
                self.probe_rtt_at = view.now;
                self.extra_at = view.now;
                let rtt = view.srtt.map_or(0.001, Dur::as_secs_f64).max(1e-6);
                self.rate = STARTUP_GAIN * signals::real(found) / rtt;
                found
            }
            Event::Sent { bytes, app_limited, .. } => {
                self.lost += std::mem::take(&mut self.lost_by_timer);
                let pauses = self.unreliable.is_some_and(|(_, to)| self.delivered <= to);
                let window = if view.flight <= bytes && (app_limited || pauses) {
                    self.on_restart(view, found)
                } else {
                    found
                };
                self.history.push(Departure { at: view.now, flight: view.flight.get(), lost: self.lost });
                window
            }
            Event::Ack(ref ack) => self.on_ack(view, ack),
            Event::Congestion { cause, .. } => {
                self.lost_by_timer = self.newly_lost(view);
                if cause == Cause::Loss {
                    self.save_window(found);
                    self.recovering = true;
                    self.undo = None;
                    self.remember(None);
                }
                found
            }
            Event::RecoveryExit { spurious, .. } => {
                let restored = if self.recovering { max(found, self.prior_cwnd) } else { found };
                self.recovering = false;
                if spurious {
                    self.on_undo();
                }
                restored
            }
            Event::Timeout { again, .. } => {
                if !again {
                    self.save_window(found);
                    self.undo = None;
                    self.remember(None);
                }
                self.lost += self.newly_lost(view);
                self.recovering = true;
                self.loss_in_round = true;
                view.flight.get() + view.mss.get()
            }
            Event::Resume { .. } => found,
        };
        self.flight = view.flight.get();
        let pacing = Some(Rate::from_bits_per_sec(share(self.rate, 8.0).max(8)));
        Control { cwnd: Bytes::new(window), ssthresh: view.control.ssthresh, pacing }
    }

    fn governs_recovery(&self) -> bool {
        true
    }

    /// Bandwidth in bytes a second, round-trip time in seconds, gains, the state (0 Startup, 1 Drain, 2 Down, 3 Cruise, 4 Refill, 5 Up,
    /// 6 `ProbeRtt`), bounds in bytes (0: none), whether the pipe is full, the share of marks.
    fn internals(&self) -> Vec<(&'static str, f64)> {
        let bound = |bytes: u64| if bytes == NONE { 0.0 } else { signals::real(bytes) };
        vec![
            ("bandwidth", self.bandwidth()),
            ("max_bandwidth", self.max_bandwidth.get()),
            ("min_rtt", self.min_rtt.map_or(0.0, Dur::as_secs_f64)),
            ("pacing_gain", self.pacing_gain()),
            ("cwnd_gain", self.window_gain()),
            ("mode", f64::from(self.state as u8)),
            ("inflight_longterm", bound(self.inflight_longterm)),
            ("inflight_shortterm", bound(self.inflight_shortterm)),
            ("full", f64::from(u8::from(self.full))),
            ("alpha", self.alpha),
        ]
    }

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}
