//! The connection's own timers, and the next deadline.

use super::{ConnError, Connection};
use crate::log::{LogEvent, State, Timer, TimerChange};
use crate::messages::GaveUp;
use tcpassay_units::Time;

impl Connection {
    /// The next deadline. A call of [`on_timer`](Connection::on_timer) before it does no harm.
    #[inline]
    pub fn next_timer(&self) -> Option<Time> {
        let own = self.recv.timer().min(self.open.syn().deadline()).min(self.linger);
        let mut at = own.min(self.sender_at());
        if self.cfg.keepalive.is_some() {
            at = at.min(self.keepalive_at());
        }
        (at != Time::MAX && self.state != State::Closed).then_some(at)
    }

    /// The sender's deadline.
    #[inline]
    fn sender_at(&self) -> Time {
        if !self.touched {
            self.send_timer
        } else if self.synchronised() && !self.open.syn().is_running() {
            self.send.deadline()
        } else {
            Time::MAX
        }
    }

    /// Makes a timer due that may fire now, before its [deadline](Connection::next_timer): that of compressed ACKs on Linux fires within
    /// its slack (`tcp_comp_sack_slack_ns`) when the kernel serves another timer. Returns whether there is one. For a follower of a
    /// real stack, which cannot know these other timers.
    pub fn hasten_timer(&mut self, now: Time) -> bool {
        self.recv.hasten(now)
    }

    /// Runs every timer that is due.
    pub fn on_timer(&mut self, now: Time) {
        self.clock = now;
        if self.state == State::Closed {
            return;
        }
        self.run_own_timers(now);
        if self.keepalive_at() <= now {
            self.on_keepalive(now);
        }
        if self.sender_at() <= now {
            self.touched = true;
            if let Err(gave_up) = self.send.on_timer(now, &mut self.log) {
                self.gave_up(now, gave_up);
            }
        }
    }

    /// The timers of the receiver, the handshake and the end of the connection.
    #[inline]
    pub(super) fn run_own_timers(&mut self, now: Time) {
        if !self.rules.caches_clock || !self.recv.only_compressed_is_due(now) {
            self.cached_clock = now;
        }
        if self.recv.timer() <= now {
            self.fired(now, Timer::DelayedAck);
            self.recv.on_timer(now, self.send.rto());
        }
        if self.open.syn().deadline() <= now {
            self.on_handshake_timer(now);
        }
        if self.linger <= now {
            self.fired(now, Timer::TimeWait);
            self.end(now, None, "closed");
        }
    }

    fn gave_up(&mut self, now: Time, gave_up: GaveUp) {
        let why = match gave_up {
            GaveUp::Retries => "retries",
            GaveUp::UserTimeout => "user timeout",
        };
        self.end(now, Some(ConnError::TimedOut), why);
    }

    fn fired(&mut self, now: Time, timer: Timer) {
        self.log.put(now, || LogEvent::Timer { timer, change: TimerChange::Fired });
    }

    /// Whether sender and receiver may transfer data and the connection has not ended.
    #[inline]
    pub(super) fn synchronised(&self) -> bool {
        self.streams
    }

    /// RFC 9293 section 3.8.4: only while nothing is outstanding; retransmission tests the peer otherwise.
    fn keepalive_at(&self) -> Time {
        let Some(k) = self.cfg.keepalive else { return Time::MAX };
        if !matches!(self.state, State::Established | State::CloseWait | State::FinWait2) || !self.send.idle()
        {
            return Time::MAX;
        }
        self.last_in.saturating_add(k.idle).saturating_add(k.interval.saturating_mul(u64::from(self.probes)))
    }

    fn on_keepalive(&mut self, now: Time) {
        self.fired(now, Timer::Keepalive);
        let most = self.cfg.keepalive.map_or(0, |k| k.count);
        if self.probes >= most {
            self.reset = Some(self.own_reset(now));
            self.end(now, Some(ConnError::TimedOut), "keepalive");
            return;
        }
        self.probes += 1;
        self.probe_due = true;
    }
}
