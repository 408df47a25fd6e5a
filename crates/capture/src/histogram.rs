//! A histogram of durations with logarithmic classes in constant memory, with quantiles and a test for two
//! groups.

use tcpassay_units::Dur;

/// Classes of an octave: a class is 9 % wide.
const PER_OCTAVE: u32 = 8;
/// From 1 ns to 2^42 ns (73 minutes).
const CLASSES: usize = 42 * PER_OCTAVE as usize;

/// A distribution of durations.
#[derive(Clone, Debug)]
pub struct DurationHistogram {
    counts: Box<[u32; CLASSES]>,
    total: u64,
    least: Dur,
    most: Dur,
    sum_ns: u128,
}

/// Two groups of durations, clearly apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Modes {
    /// Median of the lower group.
    pub low: Dur,
    /// Median of the upper group.
    pub high: Dur,
    /// Share of the upper group, 0 to 1.
    pub high_share: f64,
}

impl Default for DurationHistogram {
    fn default() -> DurationHistogram {
        DurationHistogram {
            counts: Box::new([0; CLASSES]),
            total: 0,
            least: Dur::MAX,
            most: Dur::ZERO,
            sum_ns: 0,
        }
    }
}

fn class(value: Dur) -> usize {
    let ns = value.as_nanos().max(1);
    let octave = ns.ilog2();
    // The three bits behind the leading one: linear within the octave.
    let rest = if octave >= 3 { ns >> (octave - 3) } else { ns << (3 - octave) } & 7;
    let place = octave * PER_OCTAVE + u32::try_from(rest).expect("three bits");
    (place as usize).min(CLASSES - 1)
}

/// The middle of a class.
fn middle(class: usize) -> Dur {
    let (octave, rest) = (class / PER_OCTAVE as usize, class % PER_OCTAVE as usize);
    let (octave, rest) = (u32::try_from(octave).expect("42"), rest as u64);
    // (8 + rest + 1/2) eighths of the octave's first value.
    let sixteenths = 17 + 2 * rest;
    Dur::from_nanos(if octave >= 4 { sixteenths << (octave - 4) } else { (sixteenths << octave) >> 4 })
}

impl DurationHistogram {
    /// Adds a duration.
    pub fn add(&mut self, value: Dur) {
        let count = &mut self.counts[class(value)];
        *count = count.saturating_add(1);
        self.total += 1;
        self.sum_ns += u128::from(value.as_nanos());
        self.least = if value < self.least { value } else { self.least };
        self.most = if value > self.most { value } else { self.most };
    }

    /// Number of durations.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The shortest; `None` when there is none.
    pub fn least(&self) -> Option<Dur> {
        (self.total > 0).then_some(self.least)
    }

    /// The longest.
    pub fn most(&self) -> Option<Dur> {
        (self.total > 0).then_some(self.most)
    }

    /// The mean.
    pub fn mean(&self) -> Option<Dur> {
        let mean = self.sum_ns.checked_div(u128::from(self.total))?;
        Some(Dur::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// A quantile, to 5 %; `thousandths` is 500 for the median.
    pub fn quantile(&self, thousandths: u64) -> Option<Dur> {
        let wanted = (self.total * thousandths).div_ceil(1000).max(1);
        self.nth(0, CLASSES, wanted)
    }

    /// The value of rank `wanted` (from 1) within some classes.
    fn nth(&self, from: usize, to: usize, wanted: u64) -> Option<Dur> {
        let mut seen = 0;
        for place in from..to {
            seen += u64::from(self.counts[place]);
            if seen >= wanted {
                // Zero has no class of its own.
                let zero = place == 0 && self.least == Dur::ZERO;
                let value = if zero { Dur::ZERO } else { middle(place) };
                let value = if value < self.least { self.least } else { value };
                return Some(if value > self.most { self.most } else { value });
            }
        }
        None
    }

    /// Two groups: each has at least a tenth and five of the durations, their medians differ by a factor of two or more, and between
    /// the medians there is a class around which there are at most a quarter as many as around the smaller of both.
    pub fn modes(&self) -> Option<Modes> {
        // The sum of five neighbouring classes, which smooths chance.
        let around = |place: usize| -> u64 {
            let (from, to) = (place.saturating_sub(2), (place + 3).min(CLASSES));
            self.counts[from..to].iter().map(|count| u64::from(*count)).sum()
        };
        let split = self.split()?;
        let low: u64 = self.counts[..split].iter().map(|count| u64::from(*count)).sum();
        let high = self.total - low;
        let least = (self.total / 10).max(5);
        if low < least || high < least {
            return None;
        }
        let (a, b) = (self.nth(0, split, low.div_ceil(2))?, self.nth(split, CLASSES, high.div_ceil(2))?);
        let peak = |from: usize, to: usize| (from..to).map(around).max().unwrap_or(0);
        let valley = (class(a)..=class(b)).map(around).min()?;
        let smaller = peak(0, split).min(peak(split, CLASSES));
        #[expect(clippy::cast_precision_loss, reason = "a share for people")]
        let high_share = high as f64 / self.total as f64;
        (b >= a.saturating_mul(2) && valley * 4 <= smaller).then_some(Modes { low: a, high: b, high_share })
    }

    /// The class before which the variance between both parts is largest (Otsu 1979), over the logarithm of the duration.
    fn split(&self) -> Option<usize> {
        #[expect(clippy::cast_precision_loss, reason = "a weight")]
        let weight = |place: usize| (f64::from(self.counts[place]), place as f64);
        let (mut total, mut sum) = (0.0, 0.0);
        for place in 0..CLASSES {
            let (count, at) = weight(place);
            total += count;
            sum += count * at;
        }
        let (mut below, mut sum_below) = (0.0, 0.0);
        let (mut best, mut first, mut last) = (0.0, None, None);
        for place in 1..CLASSES {
            let (count, at) = weight(place - 1);
            below += count;
            sum_below += count * at;
            let above = total - below;
            if below == 0.0 || above == 0.0 {
                continue;
            }
            let apart = sum_below / below - (sum - sum_below) / above;
            let between = below * above * apart * apart;
            if between > best {
                (best, first) = (between, Some(place));
            }
            if between >= best {
                last = Some(place);
            }
        }
        // Empty classes between the groups are all equally good.
        Some(usize::midpoint(first?, last?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values_us: &[(u64, usize)]) -> DurationHistogram {
        let mut made = DurationHistogram::default();
        for (value, count) in values_us {
            (0..*count).for_each(|_| made.add(Dur::from_micros(*value)));
        }
        made
    }

    #[test]
    fn quantiles_are_within_a_class_of_the_truth() {
        let mut made = DurationHistogram::default();
        (1..=1000).for_each(|n| made.add(Dur::from_micros(n)));
        let median = made.quantile(500).expect("values").as_micros();
        assert!((475..=525).contains(&median), "{median}");
        assert_eq!(made.quantile(1000).expect("values").as_micros() / 50, 1000 / 50);
        assert_eq!((made.least(), made.most()), (Some(Dur::from_micros(1)), Some(Dur::from_millis(1))));
    }

    #[test]
    fn the_round_trips_of_the_papers_figure_4_are_bimodal() {
        // Figure 4 of "Experiences Evaluating DCTCP": twelve rounds, five short ones.
        let figure =
            [(1331, 1), (1314, 2), (40, 1), (1317, 1), (57, 1), (1310, 1), (76, 1), (1247, 1), (85, 1)];
        let figure: Vec<(u64, usize)> = figure.into_iter().chain([(1278, 1), (1384, 1), (67, 1)]).collect();
        let modes = of(&figure).modes().expect("two groups");
        assert!((55..=80).contains(&modes.low.as_micros()), "{:?}", modes.low);
        assert!((1200..=1400).contains(&modes.high.as_micros()), "{:?}", modes.high);
        assert!((modes.high_share - 8.0 / 13.0).abs() < 1e-9);
    }

    #[test]
    fn one_group_is_not_bimodal_however_wide_it_is() {
        assert_eq!(of(&[(100, 50)]).modes(), None);
        let wide: Vec<(u64, usize)> = (0..200).map(|n| (100 + 10 * n, 3)).collect();
        assert_eq!(of(&wide).modes(), None);
        // A few outliers do not form a group.
        assert_eq!(of(&[(100, 95), (2000, 4)]).modes(), None);
    }

    #[test]
    fn every_duration_has_a_class_whose_middle_is_near() {
        for ns in [1, 2, 3, 7, 8, 9, 15, 16, 1000, 123_456_789, u64::MAX] {
            let middle = middle(class(Dur::from_nanos(ns))).as_nanos();
            if (16..1 << 41).contains(&ns) {
                assert!(middle.abs_diff(ns) * 16 <= ns, "{ns} in {middle}");
            }
        }
    }
}
