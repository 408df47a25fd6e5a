//! Values of expressions, and the limits of evaluation.

use crate::place::Place;
use std::fmt;

/// What an expression is worth.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A whole number; truth values are 0 and 1.
    Int(i64),
    /// A number with decimals.
    Real(f64),
    /// A text.
    Text(String),
    /// A list or tuple.
    List(Vec<Value>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(n) => n.fmt(f),
            Value::Real(x) => x.fmt(f),
            Value::Text(t) => f.write_str(t),
            Value::List(items) => {
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
pub enum Failure {
    /// An assertion does not hold: where, and what its message says.
    Assert(Place, String),
    /// A name that this evaluator does not know.
    Unknown(String),
    /// An operation that makes no sense, such as dividing by zero.
    Wrong(String),
    /// More than this evaluator does: a number beyond 64 bits, a long text, many steps.
    Beyond(String),
}

/// How large a value is, in the unit of [`LARGEST`], and how deep its lists are.
pub(super) fn measure(value: &Value) -> (usize, usize) {
    match value {
        Value::Int(_) | Value::Real(_) => (1, 0),
        Value::Text(text) => (1 + text.len(), 0),
        Value::List(items) => {
            let (mut size, mut depth) = (1, 0);
            for (s, d) in items.iter().map(measure) {
                size += s;
                depth = depth.max(d);
            }
            (size, depth + 1)
        }
    }
}

pub(super) fn truth(v: &Value) -> bool {
    match v {
        Value::Int(n) => *n != 0,
        Value::Real(x) => *x != 0.0,
        Value::Text(t) => !t.is_empty(),
        Value::List(items) => !items.is_empty(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "as Python does")]
pub(super) fn real(v: &Value) -> Result<f64, Failure> {
    match v {
        Value::Int(n) => Ok(*n as f64),
        Value::Real(x) => Ok(*x),
        other => Err(Failure::Wrong(format!("`{other}` is not a number"))),
    }
}

pub(super) fn beyond<T>(what: String) -> Result<T, Failure> {
    Err(Failure::Beyond(what))
}

pub(super) fn too_large() -> Failure {
    Failure::Beyond("a number beyond 64 bits".to_owned())
}
