//! The timestamp clock of an end (RFC 7323 section 4): it shows when a packet was sent, and so how long the packet was on its way to the capture.

use tcpassay_units::{Dur, Time};

/// The length of a tick of the clocks in use: Linux from 6.7 on if a route asks for it, Linux, FreeBSD, macOS and Windows today, Linux
/// with `HZ` of 250 and 100, older Windows.
const TICKS_NS: [u64; 5] = [1_000, 1_000_000, 4_000_000, 10_000_000, 100_000_000];
/// Ticks without which nothing is said of the rate.
const ENOUGH: u64 = 10;
/// Time after which the rate is certain.
const MATURE: Dur = Dur::from_secs(5);
/// Clocks of two hosts drift by at most one part in this many.
const DRIFT: i64 = 2000;

/// The relation of the timestamps of an end to the clock of the capture.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StampClock {
    /// The first value, and when it passed.
    first: Option<(u32, Time)>,
    /// The last value, and when it passed first.
    last: u32,
    last_at: Time,
    /// Nanoseconds of a tick; 0 while it is unknown.
    tick: u64,
    /// The shortest way to the capture up to now, relative to that of the first packet, and when it was seen.
    shortest: i64,
    at: Time,
}

impl StampClock {
    /// A packet with the value `val` passes.
    #[inline]
    pub fn passed(&mut self, val: u32, at: Time) {
        if self.first.is_none() {
            (self.first, self.last) = (Some((val, at)), val);
            (self.at, self.last_at) = (at, at);
        } else if val != self.last {
            self.later(val, at);
        }
    }

    fn later(&mut self, val: u32, at: Time) {
        let Some((first, since)) = self.first else { return };
        if val.wrapping_sub(self.last).cast_signed() < 0 {
            return;
        }
        (self.last, self.last_at) = (val, at);
        let span = at.since(since);
        if self.tick == 0 || span <= MATURE {
            let tick = tick(u64::from(val.wrapping_sub(first)), span);
            // A packet that the path held does not change the rate to none.
            if tick != self.tick && tick != 0 {
                (self.tick, self.shortest, self.at) = (tick, 0, since);
            }
        }
        let Some(way) = self.way(val, at) else { return };
        let known = self.known(at);
        if way <= known {
            (self.shortest, self.at) = (way, at);
        }
    }

    /// The way of a packet, relative to that of the first one.
    fn way(&self, val: u32, at: Time) -> Option<i64> {
        let (first, since) = self.first.filter(|_| self.tick > 0)?;
        let sent =
            i64::from(val.wrapping_sub(first).cast_signed()).checked_mul(i64::try_from(self.tick).ok()?)?;
        i64::try_from(at.since(since).as_nanos()).ok()?.checked_sub(sent)
    }

    /// The shortest way at a time: it may have become longer by the drift of the clocks.
    fn known(&self, at: Time) -> i64 {
        let age = i64::try_from(at.since(self.at).as_nanos()).unwrap_or(i64::MAX);
        self.shortest.saturating_add(age / DRIFT)
    }

    /// By how much the way of a packet was longer than the shortest one, and than that of the packet before: queues that stand hold no packet
    /// for longer than others. `None` if the clock is unknown, or its ticks are longer than a
    /// quarter of `precision`.
    pub fn excess(&self, val: u32, at: Time, precision: Dur) -> Option<Dur> {
        if self.tick.saturating_mul(4) > precision.as_nanos() {
            return None;
        }
        let usual = self.known(at).max(self.way(self.last, self.last_at)?);
        let excess = self.way(val, at)?.saturating_sub(usual);
        Some(Dur::from_nanos(u64::try_from(excess).unwrap_or(0)))
    }
}

/// The tick of a clock that advanced by `ticks` in `span`; 0 if it is none in use.
fn tick(ticks: u64, span: Dur) -> u64 {
    if ticks < ENOUGH || ticks > u64::from(u32::MAX / 2) {
        return 0;
    }
    let measured = span.as_nanos() / ticks;
    TICKS_NS.into_iter().find(|tick| measured.abs_diff(*tick) <= tick / 5).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    #[test]
    fn the_timestamp_of_a_packet_shows_how_long_the_path_held_it() {
        let mut clock = StampClock::default();
        let precision = Dur::from_millis(100);
        assert_eq!(clock.excess(7, ms(20), precision), None);
        (0..20).for_each(|n| clock.passed(7 + 10 * n, ms(20 + 10 * u64::from(n))));
        // It was sent 200 ms after the first one.
        assert_eq!(clock.excess(207, ms(220), precision), Some(Dur::ZERO));
        assert_eq!(clock.excess(207, ms(370), precision).map(|dur| dur.as_nanos() / 1_000_000), Some(149));
        // A tick of 1 ms says nothing about 3 ms.
        assert_eq!(clock.excess(207, ms(223), Dur::from_millis(3)), None);
    }

    #[test]
    fn a_queue_that_stands_holds_no_packet_for_longer_than_the_one_before() {
        let mut clock = StampClock::default();
        (0..20).for_each(|n| clock.passed(10 * n, ms(10 * u64::from(n))));
        // The queue grows by 200 ms, and stands.
        clock.passed(200, ms(400));
        assert_eq!(clock.excess(300, ms(500), Dur::from_millis(100)), Some(Dur::ZERO));
        assert_eq!(clock.excess(210, ms(500), Dur::from_millis(100)), Some(Dur::from_millis(90)));
    }

    #[test]
    fn a_clock_of_no_known_rate_tells_nothing() {
        let mut clock = StampClock::default();
        (0..20).for_each(|n| clock.passed(25 * n, ms(10 * u64::from(n))));
        assert_eq!(clock.excess(500, ms(300), Dur::from_millis(100)), None);
    }

    #[test]
    fn clocks_may_drift() {
        let mut clock = StampClock::default();
        // Of a second the clock of the capture measures 400 us more.
        (0..1000_u32)
            .for_each(|n| clock.passed(1000 * n, Time::ZERO + Dur::from_micros(1_000_400) * u64::from(n)));
        let last = Time::ZERO + Dur::from_micros(1_000_400) * 1000;
        assert!(
            clock
                .excess(1_000_000, last, Dur::from_millis(100))
                .is_some_and(|excess| excess < Dur::from_millis(1))
        );
    }
}
