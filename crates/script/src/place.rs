//! Where something stands in a script, and what is wrong there.

use std::fmt;

/// A place in a script; both count from 1, the column in characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Place {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The text is not a script.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: expected {expected}, found {found}")]
pub struct SyntaxError {
    /// Where.
    pub place: Place,
    /// What could have stood there.
    pub expected: String,
    /// What stands there.
    pub found: String,
}
