//! Values of expressions, and the limits of evaluation.

use crate::position::Position;
use std::fmt;

/// What an expression is worth.
#[derive(Clone, PartialEq, Debug)]
pub enum CodeValue {
    /// A whole number; truth values are 0 and 1.
    Int(i64),
    /// A number with decimals.
    Real(f64),
    /// A text.
    Text(String),
    /// A list or tuple.
    List(Vec<CodeValue>),
}

impl fmt::Display for CodeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodeValue::Int(n) => n.fmt(f),
            CodeValue::Real(x) => x.fmt(f),
            CodeValue::Text(t) => f.write_str(t),
            CodeValue::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { " " })?;
                    item.fmt(f)?;
                }
                Ok(())
            }
        }
    }
}

/// Why a block did not run to its end.
#[derive(Clone, PartialEq, Debug)]
pub enum CodeError {
    /// An assertion does not hold: where, and what its message says.
    AssertionFailed(Position, String),
    /// A name that this evaluator does not know.
    UnknownName(String),
    /// An operation that makes no sense, such as dividing by zero.
    Invalid(String),
    /// More than this evaluator does: a number beyond 64 bits, a long text, many steps.
    Unsupported(String),
}

/// How large a value is, in the unit of [`MAX_VALUE_SIZE`], and how deep its lists are.
pub(super) fn measure(value: &CodeValue) -> (usize, usize) {
    match value {
        CodeValue::Int(_) | CodeValue::Real(_) => (1, 0),
        CodeValue::Text(text) => (1 + text.len(), 0),
        CodeValue::List(items) => {
            let (mut size, mut depth) = (1, 0);
            for (s, d) in items.iter().map(measure) {
                size += s;
                depth = depth.max(d);
            }
            (size, depth + 1)
        }
    }
}

pub(super) fn truth(v: &CodeValue) -> bool {
    match v {
        CodeValue::Int(n) => *n != 0,
        CodeValue::Real(x) => *x != 0.0,
        CodeValue::Text(t) => !t.is_empty(),
        CodeValue::List(items) => !items.is_empty(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "as Python does")]
pub(super) fn real(v: &CodeValue) -> Result<f64, CodeError> {
    match v {
        CodeValue::Int(n) => Ok(*n as f64),
        CodeValue::Real(x) => Ok(*x),
        other => Err(CodeError::Invalid(format!("`{other}` is not a number"))),
    }
}

pub(super) fn unsupported<T>(what: String) -> Result<T, CodeError> {
    Err(CodeError::Unsupported(what))
}

pub(super) fn too_large() -> CodeError {
    CodeError::Unsupported("a number beyond 64 bits".to_owned())
}
