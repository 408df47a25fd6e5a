//! What was in flight, and what had been lost, when each segment was sent.

use std::collections::VecDeque;
use tcpassay_units::Time;

/// The state when something was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Departure {
    pub at: Time,
    /// Bytes in flight, with what was sent.
    pub flight: u64,
    /// Bytes lost before.
    pub lost: u64,
}

/// What was sent and may still be sampled, in order of time.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct History(VecDeque<Departure>);

impl History {
    /// Something was sent. Of what leaves at the same time the last counts.
    pub fn push(&mut self, new: Departure) {
        match self.0.back_mut() {
            Some(last) if last.at == new.at => *last = new,
            _ => self.0.push_back(new),
        }
    }

    /// The state at `at`, of which a sample is; what was sent before is forgotten.
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
