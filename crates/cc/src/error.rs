//! Errors while creating a controller.

use std::fmt;

/// An error while creating a controller: the name, parameter or value, and the allowed ones.
#[derive(Clone, PartialEq, Debug)]
pub enum BuildError {
    /// The controller does not exist.
    UnknownController {
        /// The given name.
        name: String,
        /// The existing names.
        allowed: Vec<&'static str>,
    },
    /// The controller has no such parameter.
    UnknownParam {
        /// The controller.
        controller: &'static str,
        /// The given name.
        param: String,
        /// Its parameters.
        allowed: Vec<&'static str>,
    },
    /// The value is outside the range of the parameter or not a number.
    OutOfRange {
        /// The controller.
        controller: &'static str,
        /// The parameter.
        param: &'static str,
        /// The given value.
        value: f64,
        /// Smallest and largest allowed value.
        range: (f64, f64),
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::UnknownController { name, allowed } => {
                write!(f, "`{name}` is not a congestion controller; allowed are {}", allowed.join(", "))
            }
            BuildError::UnknownParam { controller, param, allowed } if allowed.is_empty() => {
                write!(f, "`{controller}` has no parameter `{param}`; it has none at all")
            }
            BuildError::UnknownParam { controller, param, allowed } => {
                write!(f, "`{controller}` has no parameter `{param}`; allowed are {}", allowed.join(", "))
            }
            BuildError::OutOfRange { controller, param, value, range: (least, most) } => {
                write!(f, "{param} = {value} of `{controller}` is out of range; allowed is {least} to {most}")
            }
        }
    }
}

impl std::error::Error for BuildError {}
