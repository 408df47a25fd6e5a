//! Statements and expressions of a block of code.

use crate::place::Place;

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// `assert condition, message`
    Assert(Claim),
    /// `print(a, b)`
    Print(Vec<Expr>),
    /// `name = value`
    Let(String, Expr),
    /// An expression for its own sake.
    Eval(Expr),
    /// `if a: ... elif b: ... else: ...`: conditions with their statements, then those without a condition.
    If(Vec<(Expr, Vec<Stmt>)>, Vec<Stmt>),
}

/// An assertion.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    /// Where it stands.
    pub place: Place,
    /// The condition as it is written.
    pub text: String,
    /// The condition.
    pub condition: Expr,
    /// What is said when it does not hold.
    pub message: Option<Expr>,
}

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A whole number.
    Int(i64),
    /// A number with decimals.
    Real(f64),
    /// A text.
    Text(String),
    /// A name.
    Name(String),
    /// `not a`, `-a`, `~a`.
    Unary(Op, Box<Expr>),
    /// `a op b`.
    Binary(Op, Box<Expr>, Box<Expr>),
    /// `a < b <= c`.
    Compare(Box<Expr>, Vec<(Op, Expr)>),
    /// `a if c else b`: condition, then, otherwise.
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `min(a, b)`.
    Call(String, Vec<Expr>),
    /// `text.format(a, b)`.
    Format(Box<Expr>, Vec<Expr>),
    /// `(a, b)`, `[a, b]`.
    List(Vec<Expr>),
}

/// An operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "they are Python's")]
pub enum Op {
    Or,
    And,
    Not,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    NotIn,
    BitOr,
    BitXor,
    BitAnd,
    Shl,
    Shr,
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    Invert,
}
