//! Times of packets: what contradicts the others is recognised, and does not become a time of the analysis.

use tcpassay_units::{Dur, Time};

/// A time that is further than this (ten years) from the first time of the capture contradicts it.
const FARTHEST_NS: u64 = 10 * 365 * 24 * 3600 * 1_000_000_000;
/// Two successive packets of an interface that contradict the others, but not each other by more than this, show that its clock was set.
const TOGETHER_NS: u64 = 3600 * 1_000_000_000;

/// A host stamps packets on several processors before it queues them for the capture: their times may be in another order by this.
pub const CLOCK_DISORDER: Dur = Dur::from_micros(10);

/// The time of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// It is that of the packet.
    Time,
    /// The packet has none.
    Absent,
    /// It contradicts the first time of the capture.
    Contradictory,
    /// The clock of the interface was set by more than ten years: from this packet on times continue the ones before.
    Set,
}

/// The clocks of all interfaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    first: Option<u64>,
    of: Vec<Clock>,
}

/// The clock of one interface.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// Time of its last packet.
    now: Time,
    /// Times of packets count from here; they become times from `base.1` on.
    base: Option<(u64, u64)>,
    /// The time of the last packet, if it contradicts the others.
    odd: Option<u64>,
}

impl Clocks {
    /// The time of a packet of an interface, and what is known of it.
    #[inline]
    pub fn time(&mut self, at: Option<u64>, interface: usize) -> (Time, Told) {
        if self.of.len() <= interface {
            let now = self.first.map_or(Time::ZERO, Time::from_nanos);
            self.of.resize(interface + 1, Clock { now, ..Clock::default() });
        }
        let clock = &mut self.of[interface];
        let Some(at) = at else { return (clock.now, Told::Absent) };
        let first = *self.first.get_or_insert(at);
        let (from, to) = *clock.base.get_or_insert((first, first));
        let shifted = if at >= from { to.saturating_add(at - from) } else { to.saturating_sub(from - at) };
        if at.abs_diff(from) <= FARTHEST_NS && shifted.abs_diff(first) <= FARTHEST_NS {
            clock.odd = None;
            return (Time::from_nanos(shifted), Told::Time);
        }
        let before = clock.odd.replace(at);
        let now = clock.now;
        if before.is_some_and(|before| at.abs_diff(before) <= TOGETHER_NS) {
            clock.base = Some((at, now.as_nanos()));
            clock.odd = None;
            return (now, Told::Set);
        }
        (now, Told::Contradictory)
    }

    /// Remembers the time of the last packet; returns that of the one before.
    #[inline]
    pub fn passed(&mut self, time: Time, interface: usize) -> Time {
        std::mem::replace(&mut self.of[interface].now, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR_NS: u64 = 365 * 24 * 3600 * 1_000_000_000;
    const START: u64 = 50 * YEAR_NS;

    /// The times of packets of interface 0, and what is known of them.
    fn told(times: &[u64]) -> Vec<(u64, Told)> {
        let mut clocks = Clocks::default();
        let mut one = |at: &u64| {
            let (time, told) = clocks.time(Some(*at), 0);
            let _ = clocks.passed(time, 0);
            (time.as_nanos(), told)
        };
        times.iter().map(&mut one).collect()
    }

    fn plain(at: u64) -> (u64, Told) {
        (at, Told::Time)
    }

    #[test]
    fn a_time_more_than_ten_years_from_the_first_is_contradictory_and_the_packet_has_the_time_before_it() {
        let all = [START, START + 5, START + 10 * YEAR_NS + 1, START + 7, 0, u64::MAX, START + 9];
        let odd = |at: u64| (at, Told::Contradictory);
        let expected = [
            plain(START),
            plain(START + 5),
            odd(START + 5),
            plain(START + 7),
            odd(START + 7),
            odd(START + 7),
            plain(START + 9),
        ];
        assert_eq!(told(&all), expected);
        assert_eq!(told(&[START, START + 10 * YEAR_NS]), [plain(START), plain(START + 10 * YEAR_NS)]);
        assert_eq!(told(&[START, START - 10 * YEAR_NS]), [plain(START), plain(START - 10 * YEAR_NS)]);
    }

    #[test]
    fn a_clock_that_was_set_continues_the_times_before() {
        // A device begins in 1970 and gets its time after two packets.
        let all = [1000, 2000, START, START + 300, START + 700];
        assert_eq!(
            told(&all),
            [plain(1000), plain(2000), (2000, Told::Contradictory), (2000, Told::Set), plain(2400)]
        );
    }

    #[test]
    fn times_that_are_set_again_and_again_stay_within_ten_years_of_the_first() {
        let mut all = vec![START];
        for n in 0..100 {
            let base = if n % 2 == 0 { 0 } else { START };
            all.extend([base, base, base + 10 * YEAR_NS]);
        }
        let most = told(&all).into_iter().map(|(at, _)| at).max();
        assert_eq!(most, Some(START + 10 * YEAR_NS));
    }

    #[test]
    fn an_interface_with_another_epoch_is_set_to_that_of_the_first() {
        let mut clocks = Clocks::default();
        let mut one = |at, interface| {
            let (time, _) = clocks.time(Some(at), interface);
            let _ = clocks.passed(time, interface);
            time.as_nanos()
        };
        assert_eq!([one(START, 0), one(500, 1), one(600, 1), one(650, 1)], [START, START, START, START + 50]);
        assert_eq!(one(START + 20, 0), START + 20);
    }
}
