//! What keeps the sender from sending, as parts of its time.
//!
//! The limit is determined when the sender stops sending, and holds until it stops the next time. Nothing here influences the sender.

use crate::info::LimitTimes;
use crate::log::SendLimit;
use tcpassay_units::Time;

/// The limit in force, and the time under each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    limit: SendLimit,
    since: Time,
    times: LimitTimes,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { limit: SendLimit::Application, since: Time::ZERO, times: LimitTimes::default() }
    }
}

impl Limits {
    /// The handshake is done: time counts from now on.
    pub fn start(&mut self, now: Time) {
        self.since = now;
    }

    /// Sets what limits the sender from now on.
    #[inline]
    pub fn set(&mut self, now: Time, limit: SendLimit) {
        if self.limit != limit {
            self.charge(now);
            self.limit = limit;
        }
    }

    fn charge(&mut self, now: Time) {
        self.times.add(self.limit, now.since(self.since));
        self.since = now;
    }

    /// A timer fired that repairs a loss. Nothing was sent and nothing was acknowledged from `idle` on: this time was spent waiting for it.
    pub fn on_timer(&mut self, now: Time, idle: Time) {
        let began = self.since.max(idle).min(now);
        self.charge(began);
        self.times.add(SendLimit::Timers, now.since(began));
        self.since = now;
    }

    /// The time under each limit up to `now`.
    pub fn until(&self, now: Time) -> LimitTimes {
        let mut copy = *self;
        copy.charge(now);
        copy.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_units::Dur;

    fn at(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    #[test]
    fn the_wait_for_a_timer_that_fires_is_taken_from_the_limit_in_force() {
        let mut limits = Limits::default();
        limits.start(at(10));
        limits.set(at(30), SendLimit::CongestionWindow);
        limits.on_timer(at(130), at(50));
        limits.set(at(130), SendLimit::Recovery);
        let times = limits.until(at(150));
        let ms = |limit| times.of(limit).as_millis();
        assert_eq!((ms(SendLimit::Application), ms(SendLimit::CongestionWindow)), (20, 20));
        assert_eq!((ms(SendLimit::Timers), ms(SendLimit::Recovery)), (80, 20));
        assert_eq!(times.total().as_millis(), 140, "all of the time since the handshake");
    }
}
