//! Distributions of flow and message sizes.
//!
//! The web-search table is from the DCTCP paper (Alizadeh et al., SIGCOMM 2010, Figure 4) and the data-mining table
//! from VL2 (Greenberg et al., SIGCOMM 2009), both with the values that the pFabric simulations published and that
//! later traffic generators use. Between two points the distribution is linear in the size, as in those generators.
//! The mean depends on this choice: for data mining, a step function to the lower point gives 2.1 MB, to the upper
//! point 23 MB.
//!
//! The Hadoop table is from Roy et al., "Inside the Social Network's (Datacenter) Network" (SIGCOMM 2015), with the
//! values that the simulations of HPCC (Li et al., SIGCOMM 2019) published. The sizes of values in a key-value store
//! are the model that Atikoglu et al., "Workload Analysis of a Large-Scale Key-Value Store" (SIGMETRICS 2012), fitted
//! to the pool ETC: shares of the sizes up to 14 bytes, and a generalized Pareto distribution above.

use crate::error::ValueError;
use rand_distr::{Distribution, Exp1, Pareto};
use std::fmt;
use tcpassay_units::{Bytes, Stream};

/// A distribution of sizes. Every size is at least one byte.
#[derive(Clone, PartialEq, Debug)]
pub enum SizeDistribution {
    /// Constant: `10KB` or `fixed:10KB`.
    Fixed(Bytes),
    /// Exponential with this mean: `exp:10KB`.
    Exp(Bytes),
    /// Pareto with a mean and a shape above 1: `pareto:10KB:1.2`. The smallest size is `mean (shape - 1) / shape`.
    Pareto {
        /// The mean.
        mean: Bytes,
        /// The shape (alpha); below 2 the variance is infinite.
        shape: f64,
    },
    /// A weighted choice: `choice:10KB@0.9,1MB@0.1`.
    Choice(Vec<(Bytes, f64)>),
    /// Points of a cumulative distribution function: `websearch`, `datamining`, `hadoop`, `keyvalue`, `file:<cdf>`.
    Table(EmpiricalCdf),
}

/// A cumulative distribution function of sizes, linear between its points.
#[derive(Clone, PartialEq, Debug)]
pub struct EmpiricalCdf {
    name: String,
    /// Sizes and the share of draws at or below them; neither decreases, and the last share is 1.
    points: Vec<(f64, f64)>,
}

const ALLOWED: &str = "a size (`10KB`), `fixed:<size>`, `exp:<mean>`, `pareto:<mean>:<shape above 1>`, \
    `choice:<size>@<weight>,...`, `websearch`, `datamining`, `hadoop`, `keyvalue`, `file:<path of a cdf>`";

const WEB_SEARCH: [(f64, f64); 12] = [
    (0.0, 0.0),
    (10e3, 0.15),
    (20e3, 0.2),
    (30e3, 0.3),
    (50e3, 0.4),
    (80e3, 0.53),
    (200e3, 0.6),
    (1e6, 0.7),
    (2e6, 0.8),
    (5e6, 0.9),
    (10e6, 0.97),
    (30e6, 1.0),
];

const DATA_MINING: [(f64, f64); 13] = [
    (0.0, 0.0),
    (180.0, 0.1),
    (216.0, 0.2),
    (560.0, 0.3),
    (900.0, 0.4),
    (1100.0, 0.5),
    (1870.0, 0.6),
    (3160.0, 0.7),
    (10e3, 0.8),
    (400e3, 0.9),
    (3.16e6, 0.95),
    (100e6, 0.98),
    (1e9, 1.0),
];

const HADOOP: [(f64, f64); 20] = [
    (0.0, 0.0),
    (100.0, 0.01),
    (200.0, 0.02),
    (300.0, 0.05),
    (350.0, 0.15),
    (400.0, 0.2),
    (500.0, 0.3),
    (600.0, 0.4),
    (700.0, 0.5),
    (1000.0, 0.6),
    (2000.0, 0.67),
    (7000.0, 0.7),
    (30e3, 0.72),
    (50e3, 0.82),
    (80e3, 0.87),
    (120e3, 0.9),
    (300e3, 0.95),
    (1e6, 0.975),
    (2e6, 0.99),
    (10e6, 1.0),
];

/// Shares of the values of 0 to 14 bytes in the pool ETC.
const SHORT_VALUES: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837, 0.00837,
    0.08989, 0.00092, 0.00326, 0.01980,
];
/// Scale and shape of the generalized Pareto distribution of its longer values.
const LONG_VALUES: (f64, f64) = (214.476, 0.348_238);
/// The largest value that memcached stores.
const LARGEST_VALUE: f64 = 1e6;
/// Points between 15 bytes and the largest value, at equal ratios.
const POINTS_OF_LONG_VALUES: u32 = 100;

impl SizeDistribution {
    /// DCTCP's web-search flows; mean 1.71 MB.
    pub fn web_search() -> SizeDistribution {
        SizeDistribution::Table(EmpiricalCdf { name: "websearch".to_owned(), points: WEB_SEARCH.to_vec() })
    }

    /// VL2's data-mining flows; mean 12.66 MB; half of the flows are below 1.1 KB.
    pub fn data_mining() -> SizeDistribution {
        SizeDistribution::Table(EmpiricalCdf { name: "datamining".to_owned(), points: DATA_MINING.to_vec() })
    }

    /// The flows of a Hadoop cluster; mean 120 KB; half of the flows are below 700 B.
    pub fn hadoop() -> SizeDistribution {
        SizeDistribution::Table(EmpiricalCdf { name: "hadoop".to_owned(), points: HADOOP.to_vec() })
    }

    /// The values of a key-value store; mean 195 B. Larger ones than 1 MB are left out.
    pub fn key_value() -> SizeDistribution {
        let mut points = vec![(0.0, 0.0)];
        let mut below = 0.0;
        for (size, own) in (0_u32..).zip(SHORT_VALUES) {
            below += own;
            points.push((f64::from(size), below));
        }
        let (scale, shape) = LONG_VALUES;
        let above = |size: f64| (1.0 + shape * (size - 15.0) / scale).powf(-1.0 / shape);
        let ratio = (LARGEST_VALUE / 15.0).powf(1.0 / f64::from(POINTS_OF_LONG_VALUES));
        for point in 1..=POINTS_OF_LONG_VALUES {
            let size = 15.0 * ratio.powi(point.cast_signed());
            let within = (1.0 - above(size)) / (1.0 - above(LARGEST_VALUE));
            points.push((
                size,
                if point == POINTS_OF_LONG_VALUES { 1.0 } else { below + (1.0 - below) * within },
            ));
        }
        SizeDistribution::Table(EmpiricalCdf { name: "keyvalue".to_owned(), points })
    }

    /// Parses a [`SizeDistribution`]. `file` returns the text of a CDF file.
    pub(crate) fn parse(
        text: &str,
        file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<SizeDistribution, ValueError> {
        let bad = |why: String| ValueError::new(why, ALLOWED);
        let bytes = |text: &str| match text.parse::<Bytes>() {
            Ok(Bytes::ZERO) => Err(bad("the size must be at least one byte".to_owned())),
            Ok(n) => Ok(n),
            Err(e) => Err(bad(e.to_string())),
        };
        match text.split_once(':').unwrap_or((text, "")) {
            ("websearch", "") => Ok(SizeDistribution::web_search()),
            ("datamining", "") => Ok(SizeDistribution::data_mining()),
            ("hadoop", "") => Ok(SizeDistribution::hadoop()),
            ("keyvalue", "") => Ok(SizeDistribution::key_value()),
            ("fixed", rest) => Ok(SizeDistribution::Fixed(bytes(rest)?)),
            ("exp", rest) => Ok(SizeDistribution::Exp(bytes(rest)?)),
            ("pareto", rest) => {
                let (mean, shape) =
                    rest.split_once(':').ok_or_else(|| bad("the shape is missing".to_owned()))?;
                let shape: f64 = shape.parse().map_err(|_| bad(format!("`{shape}` is not a number")))?;
                if !(shape > 1.0 && shape.is_finite()) {
                    return Err(bad(format!("a distribution with a shape of {shape} has no mean")));
                }
                Ok(SizeDistribution::Pareto { mean: bytes(mean)?, shape })
            }
            ("choice", rest) => {
                let mut choices = Vec::new();
                for item in rest.split(',') {
                    let (size, weight) = item.split_once('@').unwrap_or((item, "1"));
                    let weight: f64 =
                        weight.parse().map_err(|_| bad(format!("`{weight}` is not a number")))?;
                    if !(weight > 0.0 && weight.is_finite()) {
                        return Err(bad(format!("a weight of {weight} is not above zero")));
                    }
                    choices.push((bytes(size)?, weight));
                }
                Ok(SizeDistribution::Choice(choices))
            }
            ("file", path) => {
                let content = file(path).map_err(bad)?;
                EmpiricalCdf::parse(path, &content).map(SizeDistribution::Table).map_err(bad)
            }
            (_, "") => Ok(SizeDistribution::Fixed(bytes(text)?)),
            (kind, _) => Err(bad(format!("`{kind}` is not a distribution"))),
        }
    }

    /// Draws one size.
    pub fn draw(&self, rng: &mut Stream) -> Bytes {
        let drawn = match self {
            SizeDistribution::Fixed(n) => return *n,
            SizeDistribution::Exp(mean) => {
                let unit: f64 = Exp1.sample(rng);
                mean.as_f64() * unit
            }
            SizeDistribution::Pareto { mean, shape } => {
                let least = mean.as_f64() * (shape - 1.0) / shape;
                Pareto::new(least, *shape).expect("checked when it was read").sample(rng)
            }
            SizeDistribution::Choice(choices) => {
                let total: f64 = choices.iter().map(|(_, w)| w).sum();
                let mut at = rng.unit() * total;
                for (size, weight) in choices {
                    at -= weight;
                    if at < 0.0 {
                        return *size;
                    }
                }
                return choices.last().expect("at least one choice").0;
            }
            SizeDistribution::Table(table) => table.at(rng.unit()),
        };
        Bytes::from_f64(drawn).max(Bytes::new(1))
    }

    /// The mean in bytes.
    pub fn mean(&self) -> f64 {
        match self {
            SizeDistribution::Fixed(n) => n.as_f64(),
            SizeDistribution::Exp(mean) | SizeDistribution::Pareto { mean, .. } => mean.as_f64(),
            SizeDistribution::Choice(choices) => {
                let total: f64 = choices.iter().map(|(_, w)| w).sum();
                choices.iter().map(|(n, w)| n.as_f64() * w).sum::<f64>() / total
            }
            SizeDistribution::Table(table) => table.mean(),
        }
    }
}

impl EmpiricalCdf {
    /// Parses a CDF file: one `<bytes> <share>` per line; neither decreases, and the last share is 1 (or 100 for
    /// percent). Empty lines and text after `#` are ignored.
    ///
    /// # Errors
    /// The line and the cause.
    pub fn parse(name: &str, text: &str) -> Result<EmpiricalCdf, String> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line_no = at + 1;
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let fields: Vec<&str> = line.split_whitespace().collect();
            let number = |text: &str| match text.parse::<f64>() {
                Ok(x) if x >= 0.0 && x.is_finite() => Ok(x),
                _ => Err(format!("{name}:{line_no}: `{text}` is not a number of zero or more")),
            };
            let [size, share] = fields[..] else {
                return Err(format!("{name}:{line_no}: `{line}` is not a size in bytes and a share"));
            };
            let (size, share) = (number(size)?, number(share)?);
            if points.last().is_some_and(|&(s, p)| size < s || share < p) {
                return Err(format!(
                    "{name}:{line_no}: `{line}`: a value is smaller than on the previous line"
                ));
            }
            points.push((size, share));
        }
        let Some(&(largest, total)) = points.last() else {
            return Err(format!("{name}: no line with a size and a share"));
        };
        let whole = if (total - 100.0).abs() < 1e-9 { 100.0 } else { 1.0 };
        if (total - whole).abs() > 1e-9 {
            return Err(format!("{name}: the last share is {total}; it must be 1 (or 100 for percent)"));
        }
        if largest < 1.0 {
            return Err(format!("{name}: the largest size is {largest}; it must be at least 1 byte"));
        }
        for point in &mut points {
            point.1 /= whole;
        }
        if points[0].1 > 0.0 {
            // Without a point at share 0, the first size is the smallest one.
            points.insert(0, (points[0].0, 0.0));
        }
        Ok(EmpiricalCdf { name: name.to_owned(), points })
    }

    /// The quantile `p` of the sizes.
    fn at(&self, p: f64) -> f64 {
        let next = self.points.partition_point(|&(_, share)| share <= p).min(self.points.len() - 1);
        let (s1, p1) = self.points[next];
        let (s0, p0) = self.points[next.saturating_sub(1)];
        if p1 > p0 { s0 + (s1 - s0) * (p - p0) / (p1 - p0) } else { s1 }
    }

    fn mean(&self) -> f64 {
        self.points.windows(2).map(|w| (w[1].1 - w[0].1) * f64::midpoint(w[0].0, w[1].0)).sum()
    }
}

impl fmt::Display for SizeDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeDistribution::Fixed(n) => write!(f, "{n}"),
            SizeDistribution::Exp(mean) => write!(f, "exp:{mean}"),
            SizeDistribution::Pareto { mean, shape } => write!(f, "pareto:{mean}:{shape}"),
            SizeDistribution::Choice(choices) => {
                let items: Vec<String> = choices.iter().map(|(n, w)| format!("{n}@{w}")).collect();
                write!(f, "choice:{}", items.join(","))
            }
            SizeDistribution::Table(table) => match table.name.as_str() {
                name @ ("websearch" | "datamining" | "hadoop" | "keyvalue") => f.write_str(name),
                path => write!(f, "file:{path}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tcpassay_units::Seed;

    fn parse(text: &str) -> Result<SizeDistribution, String> {
        let file = |path: &str| match path {
            "two.cdf" => Ok("# bytes share\n100 0.5\n200 1.0\n".to_owned()),
            "percent.cdf" => Ok("0 0\n1000 100\n".to_owned()),
            "falls.cdf" => Ok("100 0.5\n50 1\n".to_owned()),
            "short.cdf" => Ok("100 0.5\n200 0.9\n".to_owned()),
            _ => Err(format!("{path}: no such file")),
        };
        SizeDistribution::parse(text, &file).map_err(|bad| bad.at("app.flow_size", text).to_string())
    }

    fn mean_of_draws(size: &SizeDistribution, n: u32) -> f64 {
        let mut rng = Seed(5).stream("draws");
        (0..n).map(|_| size.draw(&mut rng).as_f64()).sum::<f64>() / f64::from(n)
    }

    #[test]
    fn the_published_tables_have_their_means() {
        assert!((SizeDistribution::web_search().mean() - 1_711_250.0).abs() < 1e-6);
        assert!((SizeDistribution::data_mining().mean() - 12_658_198.6).abs() < 1e-6);
        assert!((SizeDistribution::hadoop().mean() - 120_420.75).abs() < 1e-6);
    }

    #[test]
    fn values_of_a_key_value_store_follow_the_model_of_the_paper() {
        let SizeDistribution::Table(table) = SizeDistribution::key_value() else { panic!("not a table") };
        // The paper: 2 and 3 bytes have 17.820 and 9.239 % of the requests, and 44.155 % have at most 14 bytes.
        assert_eq!(
            [0.0059, 0.1840, 0.1841, 0.2764].map(|p| Bytes::from_f64(table.at(p).ceil()).get()),
            [2, 2, 3, 3]
        );
        let (median_of_long, scale, shape) = (table.at(0.44155 + 0.55845 / 2.0), 214.476, 0.348_238);
        assert!((median_of_long - (15.0 + scale * (2_f64.powf(shape) - 1.0) / shape)).abs() < 1.0);
        assert!((table.at(1.0) - 1e6).abs() < 1e-3);
        assert!((table.mean() - 194.6).abs() < 0.1);
    }

    #[test]
    fn a_third_of_the_web_search_flows_is_below_30_kb_and_three_in_ten_above_1_mb() {
        let mut rng = Seed(1).stream("w");
        let draws: Vec<Bytes> = (0..100_000).map(|_| SizeDistribution::web_search().draw(&mut rng)).collect();
        let below = draws.iter().filter(|n| n.get() <= 30_000).count();
        let above = draws.iter().filter(|n| n.get() > 1_000_000).count();
        assert!((29_500..30_500).contains(&below), "{below}");
        assert!((29_500..30_500).contains(&above), "{above}");
        assert!(draws.iter().all(|n| (1..=30_000_000).contains(&n.get())));
    }

    #[test]
    fn draws_average_to_the_mean_that_the_distribution_states() {
        for (text, tolerance) in [
            ("10KB", 0.0),
            ("exp:10KB", 0.02),
            ("pareto:10KB:2.5", 0.03),
            ("choice:10KB@0.5,1MB@0.5", 0.02),
            ("websearch", 0.02),
            ("file:two.cdf", 0.02),
        ] {
            let size = parse(text).expect(text);
            let off = mean_of_draws(&size, 100_000) / size.mean() - 1.0;
            assert!(off.abs() <= tolerance, "{text}: off by {off}");
        }
    }

    #[test]
    fn a_file_without_a_point_at_share_zero_starts_at_its_first_size() {
        let Ok(SizeDistribution::Table(table)) = parse("file:two.cdf") else { panic!("not a table") };
        let quartiles = [0.0, 0.25, 0.5, 0.75].map(|p| Bytes::from_f64(table.at(p)).get());
        assert_eq!(quartiles, [100, 100, 100, 150]);
        let Ok(SizeDistribution::Table(percent)) = parse("file:percent.cdf") else { panic!("not a table") };
        assert!((percent.at(0.3) - 300.0).abs() < 1e-9);
    }

    #[test]
    fn a_printed_value_is_parsed_to_the_same_value() {
        for text in [
            "10KB",
            "exp:10KB",
            "pareto:10KB:1.2",
            "choice:10KB@0.5,1MB@0.5",
            "hadoop",
            "keyvalue",
            "file:two.cdf",
        ] {
            let size = parse(text).expect(text);
            assert_eq!(size.to_string(), text);
        }
    }

    #[test]
    fn a_wrong_size_shows_the_value_what_is_wrong_and_what_is_allowed() {
        let error = parse("pareto:10KB:0.9").expect_err("no mean");
        assert!(error.starts_with(
            "`app.flow_size` = `pareto:10KB:0.9`: a distribution with a shape of 0.9 has no mean; allowed: a size"
        ));
        assert!(parse("gauss:10KB").expect_err("unknown").contains("`gauss` is not a distribution"));
        assert!(parse("10").expect_err("no unit").contains("the unit is missing"));
        assert!(parse("0B").expect_err("zero").contains("the size must be at least one byte"));
        assert!(parse("choice:10KB@-1").expect_err("weight").contains("a weight of -1 is not above zero"));
        assert!(
            parse("file:falls.cdf")
                .expect_err("falls")
                .contains("falls.cdf:2: `50 1`: a value is smaller than on the previous line")
        );
        assert!(parse("file:short.cdf").expect_err("short").contains("the last share is 0.9"));
        assert!(parse("file:none.cdf").expect_err("missing").contains("none.cdf: no such file"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let _ = parse(&text);
            let _ = EmpiricalCdf::parse("p", &text);
        }

        #[test]
        fn a_draw_is_at_least_one_byte_and_within_its_table(seed: u64) {
            let mut rng = Seed(seed).stream("d");
            for size in [SizeDistribution::data_mining(), SizeDistribution::Exp(Bytes::new(2)), SizeDistribution::Pareto { mean: Bytes::new(1), shape: 1.1 }] {
                prop_assert!(size.draw(&mut rng).get() >= 1);
            }
            prop_assert!(SizeDistribution::data_mining().draw(&mut rng).get() <= 1_000_000_000);
        }
    }
}
