//! Where something stands in a script, and what is wrong there.

use std::fmt;

/// A place in a script; both count from 1, the column in characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The text is not a script, or not one that is understood here.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{position}: {}", self.reason())]
pub struct SyntaxError {
    /// Where.
    pub position: Position,
    /// What could have stood there; what is not understood, when `unsupported`.
    pub expected: String,
    /// What stands there.
    pub found: String,
    /// It belongs to the language, and neither the model nor the runner has it.
    pub unsupported: bool,
}

impl SyntaxError {
    /// The error without its place.
    pub fn reason(&self) -> String {
        if self.unsupported {
            self.expected.clone()
        } else {
            format!("expected {}, found {}", self.expected, self.found)
        }
    }
}
