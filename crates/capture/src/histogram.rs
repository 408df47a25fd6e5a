//! A histogram of durations with logarithmic classes in bounded memory, with quantiles and a test for two
//! groups.

use tcpassay_units::Dur;

/// Bits behind the leading one that tell the classes of an octave apart: a class is at most 0.1 % wide.
const FINE: u32 = 10;
/// The largest number of classes in memory. When more are needed, two neighbours become one.
const MOST: usize = 1024;
/// The same for the test of two groups: a class is at most 13 % wide.
const COARSE: u32 = 3;
/// From 1 ns to 2^42 ns (73 minutes).
const OCTAVES: u32 = 42;
const COARSE_CLASSES: usize = (OCTAVES << COARSE) as usize;

/// A distribution of durations.
#[derive(Clone, Debug)]
pub struct DurationHistogram {
    /// The classes that occur, in order, and their durations. A class is the octave and the bits behind its leading one.
    counts: Vec<(u16, u32)>,
    /// Number of these bits.
    bits: u32,
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
            counts: Vec::new(),
            bits: FINE,
            total: 0,
            least: Dur::MAX,
            most: Dur::ZERO,
            sum_ns: 0,
        }
    }
}

fn class(value: Dur, bits: u32) -> u16 {
    let ns = value.as_nanos().max(1);
    let octave = ns.ilog2();
    // Linear within the octave.
    let rest = if octave >= bits { ns >> (octave - bits) } else { ns << (bits - octave) };
    let place = (u64::from(octave) << bits) + (rest & ((1 << bits) - 1));
    u16::try_from(place.min((u64::from(OCTAVES) << bits) - 1)).expect("at most 42 octaves of 1024")
}

/// The middle of a class.
fn middle(class: u16, bits: u32) -> Dur {
    let (octave, rest) = (u32::from(class) >> bits, u64::from(class) & ((1 << bits) - 1));
    // Twice the first value of the class, and its width, in units of 2^octave / 2^(bits + 1).
    let halves = (2 << bits) + 2 * rest + 1;
    let ns = if octave > bits { halves << (octave - bits - 1) } else { (halves << octave) >> (bits + 1) };
    Dur::from_nanos(ns)
}

impl DurationHistogram {
    /// Adds a duration.
    pub fn add(&mut self, value: Dur) {
        let class = class(value, self.bits);
        match self.counts.binary_search_by_key(&class, |(class, _)| *class) {
            Ok(place) => self.counts[place].1 = self.counts[place].1.saturating_add(1),
            Err(place) => {
                self.counts.insert(place, (class, 1));
                while self.counts.len() > MOST {
                    self.widen();
                }
            }
        }
        self.total += 1;
        self.sum_ns += u128::from(value.as_nanos());
        self.least = if value < self.least { value } else { self.least };
        self.most = if value > self.most { value } else { self.most };
    }

    /// Makes one class of two.
    #[cold]
    fn widen(&mut self) {
        self.bits -= 1;
        self.counts.iter_mut().for_each(|(class, _)| *class >>= 1);
        self.counts.dedup_by(|next, before| {
            let same = next.0 == before.0;
            before.1 = if same { before.1.saturating_add(next.1) } else { before.1 };
            same
        });
    }

    /// The largest relative error of a quantile: half of the width of a class.
    pub fn error(&self) -> f64 {
        0.5 / f64::from(1_u32 << self.bits)
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

    /// A quantile with the error [`Self::error`]; `thousandths` is 500 for the median.
    pub fn quantile(&self, thousandths: u64) -> Option<Dur> {
        let wanted = (self.total * thousandths).div_ceil(1000).max(1);
        self.nth(wanted)
    }

    /// The value of rank `wanted` (from 1).
    fn nth(&self, wanted: u64) -> Option<Dur> {
        let mut seen = 0;
        let reaches = |(_, count): &&(u16, u32)| {
            seen += u64::from(*count);
            seen >= wanted
        };
        let (class, _) = *self.counts.iter().find(reaches)?;
        // Zero has no class of its own.
        let zero = class == 0 && self.least == Dur::ZERO;
        let value = if zero { Dur::ZERO } else { middle(class, self.bits) };
        let value = if value < self.least { self.least } else { value };
        Some(if value > self.most { self.most } else { value })
    }

    /// The durations in wide classes.
    fn coarse(&self) -> Vec<u64> {
        let mut made = vec![0; COARSE_CLASSES];
        for (class, count) in &self.counts {
            made[usize::from(class >> (self.bits - COARSE))] += u64::from(*count);
        }
        made
    }

    /// Two groups: each has at least a tenth and five of the durations, their medians differ by a factor of two or more, and between
    /// the medians there is a class around which there are at most a quarter as many as around the smaller of both.
    pub fn modes(&self) -> Option<Modes> {
        let counts = self.coarse();
        // The sum of five neighbouring classes, which smooths chance.
        let around = |place: usize| -> u64 {
            let (from, to) = (place.saturating_sub(2), (place + 3).min(COARSE_CLASSES));
            counts[from..to].iter().sum()
        };
        let split = split(&counts)?;
        let low: u64 = counts[..split].iter().sum();
        let high = self.total - low;
        let least = (self.total / 10).max(5);
        if low < least || high < least {
            return None;
        }
        let (a, b) = (self.nth(low.div_ceil(2))?, self.nth(low + high.div_ceil(2))?);
        let wide = |value: Dur| usize::from(class(value, COARSE));
        let peak = |from: usize, to: usize| (from..to).map(around).max().unwrap_or(0);
        let valley = (wide(a)..=wide(b)).map(around).min()?;
        let smaller = peak(0, split).min(peak(split, COARSE_CLASSES));
        #[expect(clippy::cast_precision_loss, reason = "a share for people")]
        let high_share = high as f64 / self.total as f64;
        (b >= a.saturating_mul(2) && valley * 4 <= smaller).then_some(Modes { low: a, high: b, high_share })
    }
}

/// The class before which the variance between both parts is largest (Otsu 1979), over the logarithm of the duration.
fn split(counts: &[u64]) -> Option<usize> {
    #[expect(clippy::cast_precision_loss, reason = "a weight")]
    let weight = |place: usize| (counts[place] as f64, place as f64);
    let (mut total, mut sum) = (0.0, 0.0);
    for place in 0..counts.len() {
        let (count, at) = weight(place);
        total += count;
        sum += count * at;
    }
    let (mut below, mut sum_below) = (0.0, 0.0);
    let (mut best, mut first, mut last) = (0.0, None, None);
    for place in 1..counts.len() {
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
    fn quantiles_have_an_error_of_a_thousandth() {
        let mut made = DurationHistogram::default();
        (1..=1000).for_each(|n| made.add(Dur::from_micros(n)));
        let near = |value: Option<Dur>, us: f64| {
            (value.expect("values").as_secs_f64() * 1e6 / us - 1.0).abs() <= made.error()
        };
        assert!(made.error() < 0.0005);
        assert!(near(made.quantile(500), 500.0), "{:?}", made.quantile(500));
        assert!(near(made.quantile(990), 990.0), "{:?}", made.quantile(990));
        assert_eq!((made.least(), made.most()), (Some(Dur::from_micros(1)), Some(Dur::from_millis(1))));
    }

    #[test]
    fn many_different_durations_have_wider_classes_in_the_same_memory() {
        let mut made = DurationHistogram::default();
        // Three octaves, evenly by the logarithm.
        for n in 0..40_000 {
            made.add(Dur::from_secs_f64(0.001 * 8.0_f64.powf(f64::from(n) / 40_000.0)));
        }
        assert!(made.counts.len() <= 1024, "{}", made.counts.len());
        assert_eq!(
            (made.total(), made.counts.iter().map(|(_, count)| u64::from(*count)).sum()),
            (40_000, 40_000)
        );
        assert!((made.error() - 1.0 / 512.0).abs() < 1e-9, "{}", made.error());
        let median = made.quantile(500).expect("values").as_secs_f64();
        assert!((median / 0.002_828_4 - 1.0).abs() <= made.error() + 0.0001, "{median}");
        assert_eq!(made.modes(), None);
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
        for bits in COARSE..=FINE {
            for ns in [1, 2, 3, 7, 8, 9, 15, 16, 1000, 123_456_789, (1 << 42) - 1, u64::MAX] {
                let middle = middle(class(Dur::from_nanos(ns), bits), bits).as_nanos();
                if ns < 1 << 42 {
                    assert!(middle.abs_diff(ns) << (bits + 1) <= ns, "{ns} in {middle}, {bits} bits");
                }
            }
        }
    }
}
