//! For each segment sent, the bytes in flight and the bytes lost at the time of its transmission.

use std::collections::VecDeque;
use tcpassay_units::Time;

/// The state at a transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Departure {
    pub at: Time,
    /// Bytes in flight, including the transmission.
    pub flight: u64,
    /// Bytes lost before.
    pub lost: u64,
}

/// The transmissions of which a rate sample may still arrive, in order of time.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct History(VecDeque<Departure>);

impl History {
    /// Adds a transmission. Of several transmissions at the same time only the last is kept.
    pub fn push(&mut self, new: Departure) {
        match self.0.back_mut() {
            Some(last) if last.at == new.at => *last = new,
            _ => self.0.push_back(new),
        }
    }

    /// Returns the state at the transmission of time `at`, and removes earlier transmissions.
    pub fn find(&mut self, at: Time) -> Option<Departure> {
        while self.0.front().is_some_and(|first| first.at < at) {
            self.0.pop_front();
        }
        self.0.front().copied().filter(|first| first.at == at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_units::Dur;

    #[test]
    fn a_sample_finds_the_last_departure_of_its_time_and_older_ones_are_forgotten() {
        let at = |ms| Time::ZERO + Dur::from_millis(ms);
        let mut history = History::default();
        for (ms, flight) in [(1, 10), (1, 20), (2, 30), (4, 40)] {
            history.push(Departure { at: at(ms), flight, lost: 0 });
        }
        assert_eq!(history.find(at(1)).map(|d| d.flight), Some(20));
        assert_eq!(history.find(at(4)).map(|d| d.flight), Some(40));
        assert_eq!(history.find(at(2)), None);
    }
}
