//! Code blocks between `%{` and `}%`: a parser and an evaluator of a subset of Python.
//!
//! Statements: `assert`, `print`, assignment (also `+=` and similar), expressions, `pass`, `if` with `elif` and `else`.
//! Expressions: numbers, strings, names, `or`, `and`, `not`, chained comparisons, arithmetic and bit operators,
//! `a if b else c`, a few functions, `%` and `.format` of a string. The parser rejects everything else, and the script is
//! reported as unsupported. There are no loops. The size of statements and values, the number of evaluation steps and the
//! output are bounded, so every block ends within about two seconds and a few megabytes.

mod eval;
mod expression;
mod names;
mod operators;
mod statement;
mod syntax;
mod value;

pub use eval::CodeEnvironment;
pub use names::constant;
pub(crate) use statement::parse;
pub use syntax::{Assertion, CodeExpr, Operator, Statement};
pub use value::{CodeError, CodeValue};
