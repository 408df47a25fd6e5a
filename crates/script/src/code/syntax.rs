//! Statements and expressions of a block of code.

use crate::position::Position;

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Statement {
    /// `assert condition, message`
    Assert(Assertion),
    /// `print(a, b)`
    Print(Vec<CodeExpr>),
    /// `name = value`
    Let(String, CodeExpr),
    /// An expression for its own sake.
    Eval(CodeExpr),
    /// `if a: ... elif b: ... else: ...`: conditions with their statements, then those without a condition.
    If(Vec<(CodeExpr, Vec<Statement>)>, Vec<Statement>),
}

/// An assertion.
#[derive(Clone, PartialEq, Debug)]
pub struct Assertion {
    /// Where it stands.
    pub position: Position,
    /// The condition as it is written.
    pub text: String,
    /// The condition.
    pub condition: CodeExpr,
    /// What is said when it does not hold.
    pub message: Option<CodeExpr>,
}

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub enum CodeExpr {
    /// A whole number.
    Int(i64),
    /// A number with decimals.
    Real(f64),
    /// A text.
    Text(String),
    /// A name.
    Name(String),
    /// `not a`, `-a`, `~a`.
    Unary(Operator, Box<CodeExpr>),
    /// `a op b`.
    Binary(Operator, Box<CodeExpr>, Box<CodeExpr>),
    /// `a < b <= c`.
    Compare(Box<CodeExpr>, Vec<(Operator, CodeExpr)>),
    /// `a if c else b`: condition, then, otherwise.
    If(Box<CodeExpr>, Box<CodeExpr>, Box<CodeExpr>),
    /// `min(a, b)`.
    Call(String, Vec<CodeExpr>),
    /// `text.format(a, b)`.
    Format(Box<CodeExpr>, Vec<CodeExpr>),
    /// `(a, b)`, `[a, b]`.
    List(Vec<CodeExpr>),
}

/// An operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "they are Python's")]
pub enum Operator {
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
