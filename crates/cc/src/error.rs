//! What the user is told when a controller cannot be made.

use std::fmt;

/// Why a controller cannot be made: the name, the parameter or the value, and what is allowed.
#[derive(Clone, PartialEq, Debug)]
pub enum BuildError {
    /// No controller has this name.
    UnknownController {
        /// What was asked.
        name: String,
        /// The names that there are.
        allowed: Vec<&'static str>,
    },
    /// The controller has no such parameter.
    UnknownParam {
        /// The controller.
        controller: &'static str,
        /// What was asked.
        param: String,
        /// The parameters that it has.
        allowed: Vec<&'static str>,
    },
    /// The value lies outside the parameter's range (or is not a number).
    OutOfRange {
        /// The controller.
        controller: &'static str,
        /// The parameter.
        param: &'static str,
        /// What was asked.
        value: f64,
        /// Smallest and largest allowed.
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
