//! Arrival processes and waiting times.

use crate::error::ValueError;
use rand_distr::{Distribution, Exp1};
use std::fmt;
use tcpassay_units::{Bytes, Dur, Rate, Stream};

/// The arrival process of flows or requests (`app.arrival`).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ArrivalProcess {
    /// Closed loop: the next one begins when a previous one completed.
    Closed,
    /// Poisson process: exponential interarrival times, independent of completions.
    Poisson(ArrivalRate),
    /// Constant interarrival times.
    Uniform(ArrivalRate),
    /// The given number at once, every `app.gap`.
    Burst(u32),
}

/// The rate of an arrival process.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ArrivalRate {
    /// Arrivals per second: `1000/s`.
    PerSecond(f64),
    /// Offered load: `1Gbit`; the arrival rate follows from the mean size.
    Load(Rate),
}

/// A waiting time (`app.think`, `app.gap`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitTime {
    /// Constant: `10ms`.
    Fixed(Dur),
    /// Exponential with this mean: `exp:10ms`.
    Exp(Dur),
}

const ARRIVALS: &str = "`closed`, `poisson:<rate>`, `uniform:<rate>`, `burst:<n>`, \
    a rate being `<number>/s` or an offered load such as `1Gbit`";
const WAITS: &str = "a length of time (`10ms`) or `exp:<mean>`";

impl ArrivalRate {
    fn parse(text: &str) -> Result<ArrivalRate, ValueError> {
        let bad = |why: String| ValueError::new(why, ARRIVALS);
        let Some(number) = text.strip_suffix("/s") else {
            return text.parse().map(ArrivalRate::Load).map_err(|e| bad(format!("{e}")));
        };
        match number.parse::<f64>() {
            Ok(x) if x > 0.0 && x <= 1e9 => Ok(ArrivalRate::PerSecond(x)),
            _ => Err(bad(format!("`{number}` a second is not above zero and at most 1e9"))),
        }
    }

    /// Arrivals per second when each has `mean` bytes.
    pub fn per_second(self, mean: f64) -> f64 {
        match self {
            ArrivalRate::PerSecond(x) => x,
            ArrivalRate::Load(rate) => Bytes::new(rate.bits_per_sec()).as_f64() / (mean * 8.0),
        }
    }
}

impl ArrivalProcess {
    pub(crate) fn parse(text: &str) -> Result<ArrivalProcess, ValueError> {
        match text.split_once(':').unwrap_or((text, "")) {
            ("closed", "") => Ok(ArrivalProcess::Closed),
            ("poisson", pace) => ArrivalRate::parse(pace).map(ArrivalProcess::Poisson),
            ("uniform", pace) => ArrivalRate::parse(pace).map(ArrivalProcess::Uniform),
            ("burst", n) => match n.parse::<u32>() {
                Ok(n) if n > 0 => Ok(ArrivalProcess::Burst(n)),
                _ => Err(ValueError::new(format!("`{n}` is not a number of one or more"), ARRIVALS)),
            },
            (kind, _) => Err(ValueError::new(format!("`{kind}` is not an arrival process"), ARRIVALS)),
        }
    }

    /// The time to the next arrival and the number of arrivals at that time, when each has `mean` bytes; `None` for a
    /// closed loop.
    pub(crate) fn next(&self, mean: f64, gap: WaitTime, rng: &mut Stream) -> Option<(Dur, u32)> {
        match self {
            ArrivalProcess::Closed => None,
            ArrivalProcess::Poisson(pace) => {
                let unit: f64 = Exp1.sample(rng);
                Some((Dur::from_secs_f64(unit / pace.per_second(mean)), 1))
            }
            ArrivalProcess::Uniform(pace) => Some((Dur::from_secs_f64(1.0 / pace.per_second(mean)), 1)),
            ArrivalProcess::Burst(n) => Some((gap.draw(rng), *n)),
        }
    }
}

impl WaitTime {
    /// No waiting time.
    pub const NONE: WaitTime = WaitTime::Fixed(Dur::ZERO);

    pub(crate) fn parse(text: &str) -> Result<WaitTime, ValueError> {
        let dur = |text: &str| text.parse::<Dur>().map_err(|e| ValueError::new(e.to_string(), WAITS));
        match text.split_once(':') {
            None => Ok(WaitTime::Fixed(dur(text)?)),
            Some(("exp", mean)) => Ok(WaitTime::Exp(dur(mean)?)),
            Some((kind, _)) => {
                Err(ValueError::new(format!("`{kind}` is not a distribution of times"), WAITS))
            }
        }
    }

    /// Draws one waiting time.
    pub fn draw(self, rng: &mut Stream) -> Dur {
        match self {
            WaitTime::Fixed(d) => d,
            WaitTime::Exp(mean) => {
                let unit: f64 = Exp1.sample(rng);
                mean.mul_f64(unit)
            }
        }
    }

    /// The mean.
    pub fn mean(self) -> Dur {
        match self {
            WaitTime::Fixed(d) | WaitTime::Exp(d) => d,
        }
    }
}

impl fmt::Display for ArrivalRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrivalRate::PerSecond(x) => write!(f, "{x}/s"),
            ArrivalRate::Load(rate) => write!(f, "{rate}"),
        }
    }
}

impl fmt::Display for ArrivalProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrivalProcess::Closed => f.write_str("closed"),
            ArrivalProcess::Poisson(pace) => write!(f, "poisson:{pace}"),
            ArrivalProcess::Uniform(pace) => write!(f, "uniform:{pace}"),
            ArrivalProcess::Burst(n) => write!(f, "burst:{n}"),
        }
    }
}

impl fmt::Display for WaitTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitTime::Fixed(d) => write!(f, "{d}"),
            WaitTime::Exp(mean) => write!(f, "exp:{mean}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tcpassay_units::Seed;

    #[test]
    fn arrivals_and_waits_print_as_they_are_written() {
        for text in ["closed", "poisson:1000/s", "poisson:5Gbit", "uniform:250/s", "burst:10"] {
            assert_eq!(ArrivalProcess::parse(text).unwrap_or_else(|_| panic!("{text}")).to_string(), text);
        }
        for text in ["10ms", "exp:2us"] {
            assert_eq!(WaitTime::parse(text).unwrap_or_else(|_| panic!("{text}")).to_string(), text);
        }
    }

    #[test]
    fn a_load_of_8_gbit_with_1_mb_flows_is_a_thousand_flows_a_second() {
        let pace = ArrivalRate::Load(Rate::from_gbit(8));
        assert!((pace.per_second(1e6) - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn uniform_arrivals_of_250_a_second_are_4_ms_apart() {
        let mut rng = Seed(1).stream("a");
        let arrival = ArrivalProcess::Uniform(ArrivalRate::PerSecond(250.0));
        assert_eq!(arrival.next(1.0, WaitTime::NONE, &mut rng), Some((Dur::from_millis(4), 1)));
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_deviation_of_an_exponential() {
        let mut rng = Seed(2).stream("a");
        let arrival = ArrivalProcess::Poisson(ArrivalRate::PerSecond(1000.0));
        let gaps: Vec<f64> = (0..50_000)
            .map(|_| arrival.next(1.0, WaitTime::NONE, &mut rng).expect("open").0.as_secs_f64())
            .collect();
        let mean = gaps.iter().sum::<f64>() / 50_000.0;
        let var = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / 50_000.0;
        assert!((mean - 1e-3).abs() < 2e-5, "{mean}");
        assert!((var.sqrt() - 1e-3).abs() < 4e-5, "{}", var.sqrt());
    }

    #[test]
    fn wrong_arrivals_say_what_is_allowed() {
        for text in
            ["", "poisson", "poisson:0/s", "poisson:-1/s", "uniform:10", "burst:0", "burst:x", "closed:1"]
        {
            assert!(ArrivalProcess::parse(text).is_err(), "{text}");
        }
        let error = ArrivalProcess::parse("poison:1/s")
            .map_err(|bad| bad.at("app.arrival", "poison:1/s"))
            .expect_err("unknown");
        assert!(error.to_string().starts_with(
            "`app.arrival` = `poison:1/s`: `poison` is not an arrival process; allowed: `closed`"
        ));
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let _ = ArrivalProcess::parse(&text);
            let _ = WaitTime::parse(&text);
        }
    }
}
