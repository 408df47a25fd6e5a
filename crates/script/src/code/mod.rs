//! Blocks of code between `%{` and `}%`: a small part of Python, evaluated, never executed.
//!
//! Statements: `assert`, `print`, assignment (also `+=` and its like), an expression, `pass`, `if` with `elif` and `else`.
//! Expressions: numbers, texts, names, `or`/`and`/`not`, chained comparisons, arithmetic and bits, `a if b else c`, a few functions, `%` and `.format`
//! of a text. Everything else is refused when it is read, so that the script is reported as unsupported and never passes.
//! There are no loops, and what a statement may be, a value may hold and all code may evaluate and print is bounded: whatever a
//! block says, it ends within a second or two and a few megabytes.

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
