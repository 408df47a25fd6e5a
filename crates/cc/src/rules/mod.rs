//! The window rules, each with its source and its differences from the source, and the table of controllers by name.

mod bbr;
mod bbr3;
mod cubic;
mod cubic_linux;
mod dctcp;
mod linux_hystart;
mod mvegas;
mod reno;
mod vegas;
mod vegas_rounds;

pub use bbr::Bbr;
pub use bbr3::Bbr3;
pub use cubic::Cubic;
pub use cubic_linux::LinuxCubic;
pub use dctcp::Dctcp;
pub use mvegas::ModifiedVegas;
pub use reno::Reno;
pub use vegas::Vegas;

use crate::controller::{Arithmetic, Controller, ParamInfo, Params};
use crate::error::BuildError;
use crate::param_values::ParamValues;
use crate::rule::WindowRule;
use crate::windowed::Windowed;

struct Entry {
    name: &'static str,
    params: &'static [ParamInfo],
    make: fn(&ParamValues, &Params) -> Box<dyn Controller>,
}

/// A table entry: a [`Windowed`] controller with the rule `R`, created by `new`.
macro_rules! windowed {
    ($rule:ty) => {
        Entry {
            name: <$rule>::NAME,
            params: <$rule>::PARAMS,
            make: |values, params| Box::new(Windowed::new(<$rule>::new(values, params), params)),
        }
    };
}

/// Every controller, the simplest first.
const TABLE: &[Entry] = &[
    windowed!(Reno),
    Entry {
        name: Cubic::NAME,
        params: Cubic::PARAMS,
        make: |values, params| match params.arithmetic {
            Arithmetic::Rfc | Arithmetic::FreeBsd => {
                Box::new(Windowed::new(Cubic::new(values, params), params))
            }
            Arithmetic::Linux => Box::new(Windowed::new(LinuxCubic::new(values, params), params)),
        },
    },
    windowed!(Dctcp),
    windowed!(Vegas),
    windowed!(ModifiedVegas),
    Entry { name: Bbr::NAME, params: Bbr::PARAMS, make: |values, params| Box::new(Bbr::new(values, params)) },
    Entry {
        name: Bbr3::NAME,
        params: Bbr3::PARAMS,
        make: |values, params| Box::new(Bbr3::new(values, params)),
    },
];

/// The controllers that [`build`] can create, the simplest first.
pub const NAMES: [&str; TABLE.len()] = {
    let mut names = [""; TABLE.len()];
    let mut i = 0;
    while i < TABLE.len() {
        names[i] = TABLE[i].name;
        i += 1;
    }
    names
};

/// Creates the controller `name`.
///
/// # Errors
///
/// An unknown controller, an unknown parameter, or a value that is out of range or not a number.
pub fn build(name: &str, params: &Params) -> Result<Box<dyn Controller>, BuildError> {
    let entry = TABLE
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| BuildError::UnknownController { name: name.to_owned(), allowed: names() })?;
    let values = ParamValues::resolve(entry.name, entry.params, params)?;
    Ok((entry.make)(&values, params))
}

/// The names that [`build`] accepts, in alphabetical order.
pub fn names() -> Vec<&'static str> {
    let mut names = NAMES.to_vec();
    names.sort_unstable();
    names
}

/// The names of the controllers that leave recovery to the data path ([`Controller::governs_recovery`]), in alphabetical order.
pub fn window_based() -> Vec<&'static str> {
    let governs = |name: &str| build(name, &Params::default()).is_ok_and(|cc| cc.governs_recovery());
    names().into_iter().filter(|name| !governs(name)).collect()
}

/// The parameters of the controller `name`; empty when it has none or does not exist.
pub fn params(name: &str) -> &'static [ParamInfo] {
    TABLE.iter().find(|entry| entry.name == name).map_or(&[], |entry| entry.params)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_value(name: &str, value: f64) -> Params {
        Params { values: [(name.to_owned(), value)].into(), ..Params::default() }
    }

    #[test]
    fn every_controller_is_built_by_its_name_and_returns_it() {
        for name in names() {
            assert_eq!(build(name, &Params::default()).unwrap().name(), name);
        }
    }

    #[test]
    fn bbr_governs_recovery_and_the_others_are_window_based() {
        assert_eq!(window_based(), ["cubic", "dctcp", "mvegas", "reno", "vegas"]);
    }

    #[test]
    fn the_names_are_sorted() {
        assert!(names().is_sorted());
    }

    #[test]
    fn every_default_lies_in_its_range_and_every_bound_builds() {
        for name in names() {
            for info in params(name) {
                for value in [info.default, info.range.0, info.range.1] {
                    assert!(build(name, &with_value(info.name, value)).is_ok(), "{name} {info:?}");
                }
            }
        }
    }

    #[test]
    fn reno_comes_first_because_levels_begin_with_the_simplest() {
        assert_eq!(NAMES, ["reno", "cubic", "dctcp", "vegas", "mvegas", "bbr", "bbr3"]);
    }

    #[test]
    fn an_unknown_controller_is_refused_with_the_known_names() {
        let error = build("rneo", &Params::default()).unwrap_err().to_string();
        assert!(error.starts_with("`rneo` is not a congestion controller; allowed are "), "{error}");
        assert!(error.contains("reno"), "{error}");
    }

    #[test]
    fn an_unknown_parameter_is_refused_with_the_known_parameters() {
        let error = build("reno", &with_value("gain", 1.0)).unwrap_err().to_string();
        assert_eq!(error, "`reno` has no parameter `gain`; allowed are beta, beta_ecn");
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_the_range() {
        let error = build("reno", &with_value("beta", 1.5)).unwrap_err().to_string();
        assert_eq!(error, "beta = 1.5 of `reno` is out of range; allowed is 0.1 to 0.95");
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        assert!(build("reno", &with_value("beta", f64::NAN)).is_err());
    }
}
