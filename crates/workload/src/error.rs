//! Errors in the values of `app.*` parameters.

/// An invalid `app.*` value: the row, the value, the cause and the allowed values.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{path}` = `{value}`: {why}; allowed: {allowed}")]
pub struct SpecError {
    /// The row of the parameter table, as in `app.flow_size`.
    pub path: String,
    /// The value as written in the plan.
    pub value: String,
    /// The cause.
    pub why: String,
    /// The allowed values.
    pub allowed: String,
}

/// The cause and the allowed values of a [`SpecError`], before the row is known.
pub(crate) struct ValueError {
    pub why: String,
    pub allowed: &'static str,
}

impl ValueError {
    pub fn new(why: impl Into<String>, allowed: &'static str) -> ValueError {
        ValueError { why: why.into(), allowed }
    }

    /// Adds the row and the value.
    pub fn at(self, path: &str, value: &str) -> SpecError {
        SpecError {
            path: path.to_owned(),
            value: value.to_owned(),
            why: self.why,
            allowed: self.allowed.to_owned(),
        }
    }
}
