//! Timers that count ticks, as Linux's do.
//!
//! Sources: `mod_timer` and `calc_wheel_index` of Linux (`kernel/time/timer.c`), `usecs_to_jiffies`.

use tcpassay_units::{Dur, Time};

/// A tick: `HZ` = 1000, as in the kernel that `tcpassay kernel build` makes.
const TICK: u64 = 1_000_000;

/// The expiry of timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimerTicks {
    /// A timer fires when its time has passed.
    #[default]
    Off,
    /// A timer fires with a tick of 1 ms. The time is rounded up to ticks and counts from the last tick, and the timer never
    /// fires before its time; if it is 63 ticks or longer, it fires at a multiple of 8 ticks, from 504 ticks on of 64, and so on.
    Linux,
}

impl TimerTicks {
    /// When a timer fires that is set at `now` for `wait`.
    #[inline]
    pub fn expiry(self, now: Time, wait: Dur) -> Time {
        match self {
            TimerTicks::Off => now.saturating_add(wait),
            TimerTicks::Linux => on_wheel(now, wait),
        }
    }

    /// The same for a timer that is set at `now` for the time `at`; [`Time::MAX`] is never.
    #[inline]
    pub(crate) fn expiry_at(self, now: Time, at: Time) -> Time {
        if self == TimerTicks::Off || at == Time::MAX { at } else { on_wheel(now, at.since(now)) }
    }

    /// A wait as the stack counts it: rounded up to ticks (`usecs_to_jiffies`).
    pub fn round_up(self, wait: Dur) -> Dur {
        match self {
            TimerTicks::Off => wait,
            TimerTicks::Linux => Dur::from_nanos(wait.as_nanos().div_ceil(TICK).saturating_mul(TICK)),
        }
    }

    /// A timer that fires after `wait` was set for at least this.
    pub fn least(self, wait: Dur) -> Dur {
        match self {
            TimerTicks::Off => wait,
            TimerTicks::Linux => {
                let ticks = 1 + (1 << step(wait.as_nanos().div_ceil(TICK)));
                wait.saturating_sub(Dur::from_nanos(ticks * TICK))
            }
        }
    }

    /// [`TimerTicks::round_up`] for a wait that often gives the same as the one `before`.
    #[inline]
    pub(crate) fn round_up_after(self, wait: Dur, before: Dur) -> Dur {
        let same = self == TimerTicks::Linux && before.as_nanos().wrapping_sub(wait.as_nanos()) < TICK;
        if same { before } else { self.round_up(wait) }
    }

    /// A duration in whole ticks.
    pub(crate) fn round_down(self, dur: Dur) -> Dur {
        match self {
            TimerTicks::Off => dur,
            TimerTicks::Linux => Dur::from_nanos(dur.as_nanos() / TICK * TICK),
        }
    }

    /// The time between two instants as the stack counts it.
    pub(crate) fn between(self, earlier: Time, later: Time) -> Dur {
        self.last(later).since(self.last(earlier))
    }

    /// The time as the stack counts it: that of the last tick (`tcp_jiffies32`).
    pub(crate) fn last(self, now: Time) -> Time {
        match self {
            TimerTicks::Off => now,
            TimerTicks::Linux => Time::from_nanos(now.as_nanos() / TICK * TICK),
        }
    }
}

/// The steps of the wheel for a timer of `delta` ticks, as a power of two: each level of the wheel has 63 of its steps, which are eight
/// times those of the level before (`LVL_START`).
fn step(delta: u64) -> u32 {
    let mut shift = 0;
    while delta >= 63 << shift && shift < 24 {
        shift += 3;
    }
    shift
}

fn on_wheel(now: Time, wait: Dur) -> Time {
    let delta = wait.as_nanos().div_ceil(TICK);
    let expires = now.as_nanos() / TICK + delta;
    let shift = step(delta);
    Time::from_nanos((((expires >> shift) + 1) << shift).saturating_mul(TICK))
}

/// The expiry of a timer that is set again and again. While the tick and the rounded wait are the same, so is the expiry, which is then
/// not computed again. On Linux nor is it while their sum is the same.
#[derive(Clone, Debug)]
pub(crate) struct Expiry {
    ticks: TimerTicks,
    /// The end of the tick of the last computation.
    until: Time,
    /// The wait of the last computation, rounded up.
    wait: Dur,
    at: Time,
    /// The timer has served something else since.
    moved: bool,
}

impl Expiry {
    pub fn new(ticks: TimerTicks) -> Expiry {
        Expiry { ticks, until: Time::ZERO, wait: Dur::ZERO, at: Time::ZERO, moved: false }
    }

    pub fn ticks(&self) -> TimerTicks {
        self.ticks
    }

    /// When the timer fires if it is set at `now` for `wait`. `now` never decreases.
    #[inline]
    pub fn after(&mut self, now: Time, wait: Dur) -> Time {
        if now >= self.until || self.wait.as_nanos().wrapping_sub(wait.as_nanos()) >= TICK {
            self.compute(now, wait);
        }
        self.at
    }

    #[inline(never)]
    fn compute(&mut self, now: Time, wait: Dur) {
        if self.ticks == TimerTicks::Off {
            self.at = self.ticks.expiry(now, wait);
            return;
        }
        let (until, rounded) = (self.ticks.last(now) + Dur::from_nanos(TICK), self.ticks.round_up(wait));
        // A timer that runs and is set for the same tick again stays where it is in the wheel (`__mod_timer`).
        if self.moved || now >= self.at || until + rounded != self.until + self.wait {
            self.at = self.ticks.expiry(now, wait);
        }
        (self.until, self.wait, self.moved) = (until, rounded, false);
    }

    /// The timer is set for something else.
    #[inline]
    pub fn leave(&mut self) {
        self.moved = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fires(now_us: u64, wait_us: u64) -> u64 {
        let now = Time::ZERO + Dur::from_micros(now_us);
        TimerTicks::Linux.expiry(now, Dur::from_micros(wait_us)).as_nanos() / 1000
    }

    #[test]
    fn linux_rounds_a_time_up_to_ticks_and_counts_it_from_the_last_one() {
        // A probe of 2.2 ms that is set at 0.23 ms: three ticks after tick 0, and one more, so that it is not early.
        assert_eq!(fires(230, 2200), 4000);
        assert_eq!(fires(10_300, 40_000), 51_000);
        assert_eq!(fires(10_000, 40_000), 51_000);
    }

    #[test]
    fn linux_fires_longer_timers_at_multiples_of_8_and_64_ticks() {
        assert_eq!(fires(0, 62_000), 63_000);
        assert_eq!(fires(0, 63_000), 64_000);
        // A corked remainder of 200 ms that began to wait at 120.5 ms.
        assert_eq!(fires(120_500, 200_000), 328_000);
        assert_eq!(fires(0, 503_000), 504_000);
        assert_eq!(fires(0, 504_000), 512_000);
        assert_eq!(fires(0, 1_000_000), 1_024_000);
    }

    #[test]
    fn a_timer_fires_later_than_it_was_set_for_by_no_more_than_a_tick_and_a_step_of_the_wheel() {
        let ms = Dur::from_millis;
        assert_eq!([10, 100, 1024].map(|n| TimerTicks::Linux.least(ms(n))), [8, 91, 959].map(ms));
        assert_eq!(TimerTicks::Off.least(ms(10)), ms(10));
        for (now, wait) in [(999, 8001), (1, 99_999), (999_999, 959_500)] {
            let late = fires(now, wait) - now;
            assert!(
                TimerTicks::Linux.least(Dur::from_micros(late)) <= Dur::from_micros(wait),
                "{now} {wait}"
            );
        }
    }

    #[test]
    fn an_expiry_is_computed_again_when_the_tick_or_the_rounded_wait_changes() {
        let us = Dur::from_micros;
        let mut expiry = Expiry::new(TimerTicks::Linux);
        for (now, wait, at) in [
            (230, 2200, 4000),
            (999, 2001, 4000),
            (999, 3000, 4000),
            (999, 2000, 3000),
            (999, 3001, 5000),
            (1000, 3001, 6000),
            (1400, 200_000, 208_000),
        ] {
            assert_eq!(expiry.after(Time::ZERO + us(now), us(wait)), Time::ZERO + us(at), "{now} {wait}");
        }
        assert_eq!(Expiry::new(TimerTicks::Off).after(Time::ZERO + us(230), us(2200)), Time::ZERO + us(2430));
    }

    #[test]
    fn a_timer_that_is_set_for_the_same_tick_again_fires_as_it_was_set_first() {
        let (at, wait) = (|us| Time::ZERO + Dur::from_micros(us), Dur::from_millis);
        let mut expiry = Expiry::new(TimerTicks::Linux);
        assert_eq!(expiry.after(at(1_000_500), wait(100)), at(1_104_000), "a multiple of 8 ticks");
        assert_eq!(expiry.after(at(1_060_500), wait(40)), at(1_104_000), "it is for tick 1100 again");
        assert_eq!(expiry.after(at(1_060_500), wait(41)), at(1_102_000));
        assert_eq!(expiry.after(at(1_061_500), wait(120)), at(1_184_000));
        expiry.leave();
        assert_eq!(
            expiry.after(at(1_161_500), wait(20)),
            at(1_182_000),
            "the timer was set for something else meanwhile"
        );
        assert_eq!(expiry.after(at(1_300_500), wait(100)), at(1_408_000));
        assert_eq!(expiry.after(at(1_408_500), wait(1)), at(1_410_000), "it has fired");
    }

    #[test]
    fn without_ticks_a_timer_fires_when_its_time_has_passed() {
        let now = Time::ZERO + Dur::from_micros(230);
        assert_eq!(TimerTicks::Off.expiry(now, Dur::from_micros(2200)), Time::ZERO + Dur::from_micros(2430));
        assert_eq!(TimerTicks::Linux.expiry_at(now, Time::MAX), Time::MAX);
    }
}
