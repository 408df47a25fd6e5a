//! What the grammars read alike.

use std::str::FromStr;
use tcpassay_units::UnitError;

/// A number; `what` names what was expected.
pub(super) fn number<T: FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not {what}"))
}

/// A value with a unit.
pub(super) fn unit<T: FromStr<Err = UnitError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|why: UnitError| why.to_string())
}
