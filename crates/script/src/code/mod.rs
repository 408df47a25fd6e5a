//! Blocks of code between `%{` and `}%`: a small part of Python, evaluated, never executed.
//!
//! Statements: `assert`, `print`, assignment (also `+=` and its like), an expression, `pass`. Expressions: numbers, texts,
//! names, `or`/`and`/`not`, chained comparisons, arithmetic and bits, `a if b else c`, a few functions, `%` and `.format`
//! of a text. Everything else is refused when it is read, so that the script is reported as unsupported and never passes.

mod eval;
mod names;
mod read;
mod tcp_info;

pub use eval::{Env, Failure, Value};
pub use names::constant;
pub(crate) use read::parse;
pub use read::{Expr, Op, Stmt};
pub use tcp_info::{tcp_info, tcp_info_field};
