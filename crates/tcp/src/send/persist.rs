//! Probes of a closed window.
//!
//! Sources: RFC 9293 section 3.8.6.1; Linux `tcp_send_probe0`; FreeBSD `tcp_setpersist`.

use super::timers::{fires, note};
use crate::log::{Log, Timer, TimerChange};
use crate::tick::TimerTicks;
use tcpassay_units::{Dur, Time};

/// The wait before the first probe, and the bounds of this wait and of the later ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wait {
    pub first: Dur,
    pub min: Dur,
    pub max: Dur,
    /// Doublings of the wait in addition to those that the probes cause: the back-off of the retransmission timer, if both timers share
    /// it (`icsk_backoff` of Linux). They apply from the second probe on and after each ACK.
    pub shift: u32,
    pub ticks: TimerTicks,
}

/// The timer of window probes, and the probe that it requests.
#[derive(Clone, Debug)]
pub(super) struct Persist {
    timer: Time,
    /// True if the peer's window has been closed since the last transmission of data. Only then the other
    /// fields are valid.
    active: bool,
    backoff: u32,
    /// Probes that the peer did not answer.
    unanswered: u32,
    /// A probe is to be sent by the next poll.
    probe_due: bool,
    /// True if the timer fired while the window was smaller than a segment: a segment of the size of the
    /// window is then sent (RFC 9293 section 3.8.6.2.1).
    override_sws: bool,
    /// The position of a byte that was sent as a probe and is not known to have arrived, and when it was sent.
    probe: Option<(u64, Time)>,
}

impl Default for Persist {
    fn default() -> Persist {
        Persist {
            timer: Time::MAX,
            active: false,
            backoff: 0,
            unanswered: 0,
            probe_due: false,
            override_sws: false,
            probe: None,
        }
    }
}

impl Persist {
    #[inline]
    pub fn deadline(&self) -> Time {
        self.timer
    }

    /// Window probes since the peer last answered.
    pub fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// Window probes may send less than a segment.
    #[inline]
    pub fn overrides_sws(&self) -> bool {
        self.override_sws
    }

    #[inline]
    pub fn is_probe_due(&self) -> bool {
        self.probe_due
    }

    /// Returns whether a probe is due, and clears the request.
    pub fn take_probe(&mut self) -> bool {
        std::mem::take(&mut self.probe_due)
    }

    /// The probe is not sent.
    pub fn cancel_probe(&mut self) {
        self.probe_due = false;
    }

    /// The peer's window is closed and nothing is in flight. Returns whether the timer started and no probe
    /// was sent before.
    pub fn start(&mut self, now: Time, wait: Wait, log: &mut Log) -> bool {
        if self.timer != Time::MAX || self.probe_due {
            return false;
        }
        self.active = true;
        let first = self.backoff == 0;
        self.restart(now, if first { Wait { shift: 0, ..wait } } else { wait }, log);
        first
    }

    /// The timer counts from `now`.
    pub fn restart(&mut self, now: Time, wait: Wait, log: &mut Log) {
        let Wait { first, min, max, shift, ticks } = wait;
        let wait = first.saturating_mul(1 << (self.backoff + shift).min(32)).max(min).min(max);
        self.timer = ticks.expiry(now, wait);
        note(log, now, Timer::Persist, TimerChange::Set(self.timer));
    }

    /// The local interface dropped a probe: another one after `wait`.
    pub fn retry(&mut self, now: Time, wait: Dur, log: &mut Log) {
        self.unanswered += 1;
        self.timer = now.saturating_add(wait);
        note(log, now, Timer::Persist, TimerChange::Set(self.timer));
    }

    pub fn fires(&mut self, now: Time, log: &mut Log) -> bool {
        fires(&mut self.timer, now, Timer::Persist, log)
    }

    /// The timer fired. `open`: the window holds something, although less than a segment.
    pub fn on_timer(&mut self, open: bool) {
        self.backoff += 1;
        if open {
            self.override_sws = true;
        } else {
            self.unanswered += 1;
            self.probe_due = true;
        }
    }

    /// Stops the timer after a transmission of data, because the window is open.
    #[inline]
    pub fn stop(&mut self) {
        if self.active {
            *self = Persist { probe: self.probe, ..Persist::default() };
        }
    }

    /// An ACK arrived, so that the peer is reachable. Returns whether the timer runs.
    #[inline]
    pub fn on_ack(&mut self) -> bool {
        self.unanswered = 0;
        self.timer != Time::MAX
    }

    /// The byte at `nxt` is sent as a probe.
    pub fn on_probe_sent(&mut self, now: Time, nxt: u64) {
        self.probe = Some((nxt, now));
    }

    /// Whether the byte at `nxt` was sent as a probe.
    #[inline]
    pub fn has_probed(&self, nxt: u64) -> bool {
        self.probe.is_some_and(|(at, _)| at == nxt)
    }

    /// An ACK covers the byte at `nxt`. Returns when it was sent, if it was sent as a probe.
    pub fn take_probed(&mut self, nxt: u64) -> Option<Time> {
        self.probe.take().filter(|&(at, _)| at == nxt).map(|(_, sent_at)| sent_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Wait = Wait {
        first: Dur::from_millis(300),
        min: Dur::from_millis(200),
        max: Dur::from_secs(1),
        shift: 0,
        ticks: TimerTicks::Off,
    };

    fn at(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    #[test]
    fn a_closed_window_is_probed_with_back_off_within_the_bounds() {
        let mut log = Log::default();
        let mut persist = Persist::default();
        assert!(persist.start(at(0), WAIT, &mut log));
        assert_eq!(persist.deadline(), at(300));
        assert!(!persist.start(at(100), WAIT, &mut log), "it runs already");
        for (fired, next) in [(300, 600), (900, 1000), (1900, 1000)] {
            assert!(persist.fires(at(fired), &mut log));
            persist.on_timer(false);
            assert!(persist.take_probe());
            assert!(!persist.start(at(fired), WAIT, &mut log), "not the first probe");
            assert_eq!(persist.deadline(), at(fired + next));
        }
        assert_eq!(persist.unanswered(), 3);
        assert!(persist.on_ack());
        assert_eq!(persist.unanswered(), 0);
    }

    #[test]
    fn an_ack_restarts_the_wait_with_the_back_off_of_the_retransmission_timer() {
        let mut log = Log::default();
        let mut persist = Persist::default();
        let wait = Wait { max: Dur::from_secs(120), shift: 2, ..WAIT };
        persist.start(at(0), wait, &mut log);
        assert_eq!(persist.deadline(), at(300), "the first wait is not doubled");
        persist.restart(at(100), wait, &mut log);
        assert_eq!(persist.deadline(), at(1300));
        persist.on_timer(false);
        persist.restart(at(2000), wait, &mut log);
        assert_eq!(persist.deadline(), at(4400));
    }

    #[test]
    fn a_window_below_a_segment_overrides_silly_window_avoidance_instead() {
        let mut persist = Persist::default();
        persist.start(at(0), WAIT, &mut Log::default());
        persist.on_timer(true);
        assert!(persist.overrides_sws() && !persist.is_probe_due());
        persist.stop();
        assert!(!persist.overrides_sws());
    }

    #[test]
    fn a_probed_byte_is_remembered_after_the_window_opens_and_taken_once() {
        let mut persist = Persist::default();
        persist.start(at(0), WAIT, &mut Log::default());
        persist.on_probe_sent(at(5), 1001);
        persist.stop();
        assert!(persist.has_probed(1001) && !persist.has_probed(1));
        assert_eq!(persist.take_probed(1001), Some(at(5)));
        assert_eq!(persist.take_probed(1001), None);
    }
}
