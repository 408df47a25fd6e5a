//! The syntax tree of a code block.

use crate::position::Position;

/// A statement of a code block.
#[derive(Clone, PartialEq, Debug)]
pub enum Statement {
    /// `assert condition, message`
    Assert(Assertion),
    /// `print(a, b)`
    Print(Vec<CodeExpr>),
    /// `name = value`
    Let(String, CodeExpr),
    /// An expression statement.
    Eval(CodeExpr),
    /// `if a: ... elif b: ... else: ...`: conditions with their statements, and the statements after `else`.
    If(Vec<(CodeExpr, Vec<Statement>)>, Vec<Statement>),
}

/// An `assert` statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Assertion {
    /// The position of the statement.
    pub position: Position,
    /// The source text of the condition.
    pub text: String,
    /// The condition.
    pub condition: CodeExpr,
    /// The message of a failure.
    pub message: Option<CodeExpr>,
}

/// An expression of a code block.
#[derive(Clone, PartialEq, Debug)]
pub enum CodeExpr {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// A string.
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
