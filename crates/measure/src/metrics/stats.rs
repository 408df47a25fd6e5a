//! Statistics for metrics. A result that cannot be computed is `None`, never 0.

/// The mean; `None` when there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count(values.len()))
}

/// The population standard deviation (divided by n, because a series is complete and not a sample); `None` for fewer
/// than two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    Some((values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count(values.len())).sqrt())
}

/// Coefficient of variation: standard deviation over mean; `None` when the mean is 0.
pub fn variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean > 0.0)?;
    Some(deviation(values)? / mean)
}

/// The nearest-rank quantile: the smallest value that at least a share `q` (0 to 1) of the values does not exceed;
/// `None` when there are no values. `sorted` must be in ascending order.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the length")]
    let rank = (q * count(sorted.len()) - 1e-9).ceil().max(1.0) as usize;
    Some(sorted[(rank - 1).min(last)])
}

/// Jain's fairness index: (sum x)^2 / (n sum x^2), from 1/n (one flow has everything) to 1 (equal shares); `None` for
/// fewer than two values, or when all are 0. (Jain, Chiu, Hawe: DEC TR-301, 1984.)
pub fn jain(values: &[f64]) -> Option<f64> {
    let squares: f64 = values.iter().map(|x| x * x).sum();
    let sum: f64 = values.iter().sum();
    (values.len() > 1 && squares > 0.0).then(|| sum * sum / (count(values.len()) * squares))
}

/// A period of a series.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Period {
    /// Number of values per period.
    pub lag: usize,
    /// Autocorrelation at this lag: 1 is an exact repetition, 0 is none.
    pub strength: f64,
}

/// The shortest significant period of a series.
///
/// The autocorrelation is examined beyond its first value below 0, up to a third of the series, so that a period must
/// occur three times. The first local maximum of at least 90 % of the highest one is the period. It must reach 0.3
/// and three times the standard deviation of noise (1 / sqrt(n)). A series with a coefficient of variation below 0.1
/// does not oscillate, because the granularity of packets causes such variation.
pub fn period(values: &[f64]) -> Option<Period> {
    let n = values.len();
    if n < 12 || variation(values)? < 0.1 {
        return None;
    }
    let mean = mean(values)?;
    let centred: Vec<f64> = values.iter().map(|x| x - mean).collect();
    let variance = centred.iter().map(|x| x * x).sum::<f64>() / count(n);
    let correlation: Vec<f64> = (0..=n / 3)
        .map(|lag| {
            let pairs = centred.iter().zip(&centred[lag..]);
            pairs.map(|(a, b)| a * b).sum::<f64>() / count(n - lag) / variance
        })
        .collect();
    let from = correlation.iter().position(|r| *r < 0.0)?;
    let highest = correlation[from..].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if highest < f64::max(0.3, 3.0 / count(n).sqrt()) {
        return None;
    }
    let is_peak = |lag: usize| {
        let r = correlation[lag];
        r >= 0.9 * highest
            && r >= correlation[lag - 1]
            && correlation.get(lag + 1).is_none_or(|next| r >= *next)
    };
    let lag = (from.max(1)..correlation.len()).find(|lag| is_peak(*lag))?;
    Some(Period { lag, strength: correlation[lag] })
}

/// Length of the longest run of zeros.
pub fn longest_silence(values: &[f64]) -> usize {
    let (mut longest, mut silent) = (0, 0);
    for value in values {
        silent = if *value == 0.0 { silent + 1 } else { 0 };
        longest = longest.max(silent);
    }
    longest
}

/// A count as a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
pub fn count(n: usize) -> f64 {
    n as f64
}

/// The values in ascending order.
pub(super) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-12)
    }

    #[test]
    fn an_empty_list_has_no_mean_no_deviation_and_no_fairness() {
        assert_eq!((mean(&[]), deviation(&[1.0]), variation(&[0.0, 0.0])), (None, None, None));
        assert_eq!((quantile(&[], 0.5), jain(&[3.0]), jain(&[0.0, 0.0])), (None, None, None));
    }

    #[test]
    fn two_four_four_four_five_five_seven_nine_deviates_by_two_from_five() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert!(near(mean(&values), 5.0) && near(deviation(&values), 2.0) && near(variation(&values), 0.4));
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        for (q, expected) in
            [(0.0, 1.0), (0.1, 1.0), (0.11, 2.0), (0.5, 5.0), (0.9, 9.0), (0.99, 10.0), (1.0, 10.0)]
        {
            assert_eq!(quantile(&values, q), Some(expected), "{q}");
        }
    }

    #[test]
    fn jain_is_one_for_equal_shares_and_one_in_n_when_one_has_all() {
        assert!(near(jain(&[3.0, 3.0, 3.0]), 1.0));
        assert!(near(jain(&[5.0, 0.0, 0.0, 0.0]), 0.25));
        // Shares of 25, 25 and 50: 100^2 / (3 * (625 + 625 + 2500)) = 10000 / 11250.
        assert!(near(jain(&[25.0, 25.0, 50.0]), 8.0 / 9.0));
    }

    #[test]
    fn a_stall_of_two_in_every_ten_has_a_period_of_ten() {
        let values: Vec<f64> = (0..100).map(|i| if i % 10 < 2 { 0.0 } else { 1.0 }).collect();
        let found = period(&values).expect("it repeats");
        assert_eq!(found.lag, 10);
        assert!(found.strength > 0.99);
        assert_eq!(longest_silence(&values), 2);
    }

    #[test]
    fn noise_a_ramp_and_a_steady_rate_have_no_period() {
        let mut rng = tcpassay_units::Seed(4).stream("noise");
        let noise: Vec<f64> = (0..500).map(|_| rng.unit()).collect();
        assert_eq!(period(&noise), None);
        let ramp: Vec<f64> = (0..500).map(f64::from).collect();
        assert_eq!(period(&ramp), None);
        assert_eq!(period(&[1.0; 500]), None);
        assert_eq!(period(&[0.0, 1.0, 0.0, 1.0]), None);
    }

    #[test]
    fn a_period_under_noise_is_found() {
        let mut rng = tcpassay_units::Seed(5).stream("noise");
        let values: Vec<f64> = (0..400)
            .map(|i| 5.0 + (f64::from(i) / 25.0 * std::f64::consts::TAU).sin() + 0.5 * rng.unit())
            .collect();
        assert!((24..=26).contains(&period(&values).expect("it repeats").lag));
    }
}
