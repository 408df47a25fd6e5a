//! A windowed maximum filter with three estimates.
//!
//! Source: Kathleen Nichols' windowed filter, in Linux `lib/win_minmax.c`. The estimates are the largest
//! value, the largest value after it, and the largest value after that one. When the first becomes older
//! than the window, the second replaces it.

/// A value and its time, in any unit that does not decrease.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Estimate {
    at: u64,
    value: u64,
}

/// The filter.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct WindowedMax {
    best: [Estimate; 3],
}

impl WindowedMax {
    /// The largest value.
    pub fn get(&self) -> u64 {
        self.best[0].value
    }

    /// Discards all values and begins with `value`.
    pub fn reset(&mut self, at: u64, value: u64) {
        self.best = [Estimate { at, value }; 3];
    }

    /// Adds `value` of time `at`. `length` is the length of the window, in the unit of `at`.
    pub fn update(&mut self, length: u64, at: u64, value: u64) {
        let new = Estimate { at, value };
        if value >= self.best[0].value || at - self.best[2].at > length {
            self.reset(at, value);
            return;
        }
        if value >= self.best[1].value {
            self.best[1..].fill(new);
        } else if value >= self.best[2].value {
            self.best[2] = new;
        }
        let age = at - self.best[0].at;
        if age > length {
            // The first estimate is older than the window; the second may be, too.
            self.shift(new);
            if at - self.best[0].at > length {
                self.shift(new);
            }
        } else if self.best[1].at == self.best[0].at && age > length / 4 {
            self.best[1..].fill(new);
        } else if self.best[2].at == self.best[1].at && age > length / 2 {
            self.best[2] = new;
        }
    }

    fn shift(&mut self, new: Estimate) {
        self.best = [self.best[1], self.best[2], new];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_stays_for_the_window_and_the_next_one_follows() {
        let mut max = WindowedMax::default();
        max.update(10, 0, 90);
        for (at, value) in [(1, 50), (4, 70), (7, 60), (10, 40)] {
            max.update(10, at, value);
            assert_eq!(max.get(), 90, "at {at}");
        }
        max.update(10, 11, 30);
        assert_eq!(max.get(), 70, "of time 4");
        max.update(10, 15, 20);
        assert_eq!(max.get(), 60, "of time 7");
    }

    #[test]
    fn a_larger_value_is_taken_at_once_and_a_pause_longer_than_the_window_forgets_all() {
        let mut max = WindowedMax::default();
        max.update(10, 0, 90);
        max.update(10, 3, 91);
        assert_eq!(max.get(), 91);
        max.update(10, 14, 5);
        assert_eq!(max.get(), 5);
    }
}
