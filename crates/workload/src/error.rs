//! What is wrong with a value, in the words of the person who wrote it.

/// Why an `app.*` value is refused: shows the row, the value and what is allowed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{path}` = `{value}`: {why}; allowed: {allowed}")]
pub struct SpecError {
    /// The row of the parameter table, as in `app.flow_size`.
    pub path: String,
    /// The value as it was given.
    pub value: String,
    /// What is wrong with it.
    pub why: String,
    /// What would be right.
    pub allowed: String,
}

/// The inner half of a [`SpecError`]: what is wrong, before it is known in which row.
pub(crate) struct ValueError {
    pub why: String,
    pub allowed: &'static str,
}

impl ValueError {
    pub fn new(why: impl Into<String>, allowed: &'static str) -> ValueError {
        ValueError { why: why.into(), allowed }
    }

    /// With the row and the value.
    pub fn at(self, path: &str, value: &str) -> SpecError {
        SpecError {
            path: path.to_owned(),
            value: value.to_owned(),
            why: self.why,
            allowed: self.allowed.to_owned(),
        }
    }
}
