//! The parameters of a connection's congestion controller.

use crate::Config;
use std::collections::BTreeMap;
use tcpassay_cc::Params;
use tcpassay_units::Stream;

impl Config {
    /// The parameters of a controller for a connection with these settings. `values` are the controller's own (`stack.cc.<name>`).
    pub fn controller_params(&self, values: BTreeMap<String, f64>, rng: Stream) -> Params {
        Params {
            values,
            byte_counting: self.byte_counting,
            hystart: self.hystart,
            arithmetic: self.cc_arithmetic,
            rng,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Profile};
    use std::collections::BTreeMap;
    use tcpassay_cc::{Arithmetic, ByteCounting, HystartDetect, HystartMode};
    use tcpassay_units::Seed;

    #[test]
    fn a_controller_has_the_rules_of_the_profile_and_the_values_that_are_given() {
        let values = BTreeMap::from([("beta".to_owned(), 0.8)]);
        let params = Config::profile(Profile::Linux).controller_params(values, Seed(1).stream("cc"));
        assert_eq!(params.values.get("beta"), Some(&0.8));
        assert_eq!(params.byte_counting, ByteCounting::All);
        assert_eq!(params.hystart, HystartMode::Linux(HystartDetect { train: true, delay: true }));
        assert_eq!(params.arithmetic, Arithmetic::Linux);
    }
}
