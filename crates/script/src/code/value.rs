//! Values of expressions, and errors of evaluation.

use crate::position::Position;
use std::fmt;

/// The value of an expression.
#[derive(Clone, PartialEq, Debug)]
pub enum CodeValue {
    /// An integer. Boolean values are 0 and 1.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// A string.
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

/// The reason why the evaluation of a block stopped.
#[derive(Clone, PartialEq, Debug)]
pub enum CodeError {
    /// An assertion is false: its position and message.
    AssertionFailed(Position, String),
    /// An unknown name.
    UnknownName(String),
    /// An invalid operation, such as a division by zero.
    Invalid(String),
    /// A limit of the evaluator is exceeded: a number beyond 64 bits, a long string, too many steps.
    Unsupported(String),
}

/// The size of a value (1 plus the bytes of its strings and the sizes of its items), and the depth of its lists.
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
