//! Positions in a script, and syntax errors.

use std::fmt;

/// A position in a script. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A syntax error, or a part of the language that is not supported.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{position}: {}", self.reason())]
pub struct SyntaxError {
    /// The position of the error.
    pub position: Position,
    /// The syntax that was expected; the unsupported construct if `unsupported`.
    pub expected: String,
    /// The text at the position.
    pub found: String,
    /// The construct belongs to the language, but the runner does not support it.
    pub unsupported: bool,
}

impl SyntaxError {
    /// The error without its position.
    pub fn reason(&self) -> String {
        if self.unsupported {
            self.expected.clone()
        } else {
            format!("expected {}, found {}", self.expected, self.found)
        }
    }
}
