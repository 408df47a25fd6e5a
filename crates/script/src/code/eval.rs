//! Evaluating a block of code.

use super::names::constant;
use super::read::{Claim, Expr, Op, Stmt};
use crate::place::Place;
use std::cell::Cell;
use std::collections::BTreeMap;
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

/// Most that a value may be: characters of its texts, and one for each item of its lists.
const LARGEST: usize = 1 << 16;
/// Lists inside lists.
const DEEPEST: usize = 16;
/// Most that all variables may be together, in the unit of [`LARGEST`].
const MOST_HELD: usize = 1 << 22;
/// Bytes that a script may print.
const MOST_PRINTED: usize = 1 << 20;
/// Most that a script may evaluate, in the unit of [`LARGEST`]: a second or two.
const MOST_STEPS: usize = 1 << 28;

/// Variables of a script, which live from block to block, and what was printed.
#[derive(Clone, Debug, Default)]
pub struct Env {
    names: BTreeMap<String, Value>,
    /// What the variables are together.
    held: usize,
    /// What was evaluated so far.
    steps: Cell<usize>,
    bytes_printed: usize,
    /// A line a `print`.
    pub printed: Vec<String>,
}

impl Env {
    /// Runs the statements; `look` gives what the stack says under a name such as `tcpi_snd_cwnd`.
    ///
    /// # Errors
    /// An assertion that does not hold, a name that nobody knows, nonsense, more than the limits allow.
    pub fn run(&mut self, body: &[Stmt], look: &dyn Fn(&str) -> Option<Value>) -> Result<(), Failure> {
        for stmt in body {
            self.step(1)?;
            match stmt {
                Stmt::Assert(claim) => self.assert(claim, look)?,
                Stmt::Print(items) => {
                    let items: Result<Vec<Value>, Failure> =
                        items.iter().map(|e| self.value(e, look)).collect();
                    let line = Value::List(items?).to_string();
                    self.bytes_printed += line.len() + 1;
                    if self.bytes_printed > MOST_PRINTED {
                        return beyond(format!("the code prints more than {MOST_PRINTED} bytes"));
                    }
                    self.printed.push(line);
                }
                Stmt::Let(name, value) => {
                    let value = self.value(value, look)?;
                    self.held += name.len() + measure(&value).0;
                    if let Some(old) = self.names.insert(name.clone(), value) {
                        self.held -= name.len() + measure(&old).0;
                    }
                    if self.held > MOST_HELD {
                        return beyond(format!("the variables take more than {MOST_HELD} bytes"));
                    }
                }
                Stmt::Eval(e) => {
                    self.value(e, look)?;
                }
                Stmt::If(branches, otherwise) => {
                    let mut chosen = otherwise;
                    for (condition, body) in branches {
                        if truth(&self.value(condition, look)?) {
                            chosen = body;
                            break;
                        }
                    }
                    self.run(chosen, look)?;
                }
            }
        }
        Ok(())
    }

    /// An assertion that does not hold is told as it is written, with the values of its names, and with its message unless that
    /// repeats one of the values.
    fn assert(&self, claim: &Claim, look: &dyn Fn(&str) -> Option<Value>) -> Result<(), Failure> {
        if truth(&self.value(&claim.condition, look)?) {
            return Ok(());
        }
        let seen = self.seen(&claim.condition, look);
        let shown: Vec<String> = seen.iter().map(|(name, value)| format!("{name} is {value}")).collect();
        let mut said = claim.text.split_whitespace().collect::<Vec<_>>().join(" ");
        if !shown.is_empty() {
            said = format!("{said}: {}", shown.join(", "));
        }
        if let Some(message) = &claim.message {
            let message = self.value(message, look)?.to_string();
            if !seen.iter().any(|(_, value)| value.to_string() == message) {
                said = format!("{said} ({message})");
            }
        }
        Err(Failure::Assert(claim.place, said))
    }

    /// Gives a variable a value before the first block: a number, where the text is one.
    pub fn define(&mut self, name: &str, text: &str) {
        let text = text.trim_matches('"');
        let value = text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Int);
        self.names.insert(name.to_owned(), value);
    }

    /// `n` more was evaluated.
    fn step(&self, n: usize) -> Result<(), Failure> {
        self.steps.set(self.steps.get() + n);
        if self.steps.get() > MOST_STEPS {
            return beyond("the code evaluates too much".to_owned());
        }
        Ok(())
    }

    /// The value, unless it is too large.
    fn within(&self, value: Value) -> Result<Value, Failure> {
        let (size, depth) = measure(&value);
        self.step(size)?;
        if size > LARGEST || depth > DEEPEST {
            return beyond(format!(
                "a value of more than {LARGEST} characters or items, or {DEEPEST} lists deep"
            ));
        }
        Ok(value)
    }

    fn values(&self, items: &[Expr], look: &dyn Fn(&str) -> Option<Value>) -> Result<Vec<Value>, Failure> {
        let mut made = Vec::new();
        let mut size = 0;
        for item in items {
            let value = self.value(item, look)?;
            size += measure(&value).0;
            if size > LARGEST {
                return beyond(format!("a list of more than {LARGEST} characters or items"));
            }
            made.push(value);
        }
        Ok(made)
    }

    /// The names in a condition that does not hold, with their values.
    fn seen<'a>(&self, condition: &'a Expr, look: &dyn Fn(&str) -> Option<Value>) -> Vec<(&'a str, Value)> {
        let mut names = Vec::new();
        collect(condition, &mut names);
        names
            .into_iter()
            .filter(|n| constant(n).is_none())
            .filter_map(|n| self.name(n, look).ok().map(|v| (n, v)))
            .collect()
    }

    fn name(&self, name: &str, look: &dyn Fn(&str) -> Option<Value>) -> Result<Value, Failure> {
        if let Some(value) = self.names.get(name) {
            return Ok(value.clone());
        }
        constant(name).map(Value::Int).or_else(|| look(name)).ok_or_else(|| Failure::Unknown(name.to_owned()))
    }

    fn value(&self, e: &Expr, look: &dyn Fn(&str) -> Option<Value>) -> Result<Value, Failure> {
        self.step(1)?;
        let made = match e {
            Expr::Int(n) => return Ok(Value::Int(*n)),
            Expr::Real(x) => return Ok(Value::Real(*x)),
            Expr::Text(t) => Value::Text(t.clone()),
            Expr::Name(name) => self.name(name, look)?,
            Expr::List(items) => Value::List(self.values(items, look)?),
            Expr::Unary(op, a) => unary(*op, &self.value(a, look)?)?,
            Expr::Binary(Op::Or, a, b) => {
                let a = self.value(a, look)?;
                if truth(&a) { a } else { self.value(b, look)? }
            }
            Expr::Binary(Op::And, a, b) => {
                let a = self.value(a, look)?;
                if truth(&a) { self.value(b, look)? } else { a }
            }
            Expr::Binary(op, a, b) => binary(*op, &self.value(a, look)?, &self.value(b, look)?)?,
            Expr::Compare(first, rest) => {
                let mut left = self.value(first, look)?;
                for (op, right) in rest {
                    let right = self.value(right, look)?;
                    if !compare(*op, &left, &right)? {
                        return Ok(Value::Int(0));
                    }
                    left = right;
                }
                Value::Int(1)
            }
            Expr::If(condition, then, otherwise) => {
                let branch = if truth(&self.value(condition, look)?) { then } else { otherwise };
                self.value(branch, look)?
            }
            Expr::Call(name, args) => {
                let args = self.values(args, look)?;
                function(name, &args)?
            }
            Expr::Format(text, args) => {
                let args = self.values(args, look)?;
                braces(&self.value(text, look)?.to_string(), &args)
            }
        };
        self.within(made)
    }
}

/// How large a value is, in the unit of [`LARGEST`], and how deep its lists are.
fn measure(value: &Value) -> (usize, usize) {
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

fn collect<'a>(e: &'a Expr, names: &mut Vec<&'a str>) {
    match e {
        Expr::Name(n) if !names.contains(&n.as_str()) => names.push(n),
        Expr::Unary(_, a) => collect(a, names),
        Expr::Binary(_, a, b) => {
            collect(a, names);
            collect(b, names);
        }
        Expr::Compare(a, rest) => {
            collect(a, names);
            for (_, b) in rest {
                collect(b, names);
            }
        }
        Expr::Call(_, items) | Expr::List(items) => {
            for i in items {
                collect(i, names);
            }
        }
        Expr::If(a, b, c) => {
            for i in [a, b, c] {
                collect(i, names);
            }
        }
        _ => {}
    }
}

fn truth(v: &Value) -> bool {
    match v {
        Value::Int(n) => *n != 0,
        Value::Real(x) => *x != 0.0,
        Value::Text(t) => !t.is_empty(),
        Value::List(items) => !items.is_empty(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "as Python does")]
fn real(v: &Value) -> Result<f64, Failure> {
    match v {
        Value::Int(n) => Ok(*n as f64),
        Value::Real(x) => Ok(*x),
        other => Err(Failure::Wrong(format!("`{other}` is not a number"))),
    }
}

fn beyond<T>(what: String) -> Result<T, Failure> {
    Err(Failure::Beyond(what))
}

fn too_large() -> Failure {
    Failure::Beyond("a number beyond 64 bits".to_owned())
}

fn unary(op: Op, a: &Value) -> Result<Value, Failure> {
    Ok(match (op, a) {
        (Op::Not, a) => Value::Int(i64::from(!truth(a))),
        (Op::Sub, Value::Int(n)) => Value::Int(n.checked_neg().ok_or_else(too_large)?),
        (Op::Sub, a) => Value::Real(-real(a)?),
        (Op::Invert, Value::Int(n)) => Value::Int(!n),
        (Op::Add, a) => a.clone(),
        (_, a) => return Err(Failure::Wrong(format!("no such sign before `{a}`"))),
    })
}

fn binary(op: Op, a: &Value, b: &Value) -> Result<Value, Failure> {
    if let (Value::Int(a), Value::Int(b)) = (a, b) {
        return whole(op, *a, *b);
    }
    if let (Op::Mod, Value::Text(text)) = (op, a) {
        return Ok(percents(text, b));
    }
    if let (Op::Add, Value::Text(_), _) | (Op::Add, _, Value::Text(_)) = (op, a, b) {
        return Ok(Value::Text(format!("{a}{b}")));
    }
    if matches!(a, Value::List(_))
        || matches!(b, Value::List(_))
        || (op == Op::Mul && is_text(a) != is_text(b))
    {
        return beyond("an operation on lists, or a text that is repeated".to_owned());
    }
    let (x, y) = (real(a)?, real(b)?);
    let zero = || Failure::Wrong("a division by zero".to_owned());
    Ok(Value::Real(match op {
        Op::Add => x + y,
        Op::Sub => x - y,
        Op::Mul => x * y,
        Op::Div | Op::FloorDiv | Op::Mod if y == 0.0 => return Err(zero()),
        Op::Div => x / y,
        Op::FloorDiv => (x / y).floor(),
        Op::Mod => x - y * (x / y).floor(),
        Op::Pow => x.powf(y),
        _ => return Err(Failure::Wrong(format!("no such operation on `{a}` and `{b}`"))),
    }))
}

fn is_text(v: &Value) -> bool {
    matches!(v, Value::Text(_))
}

#[expect(clippy::cast_precision_loss, reason = "as Python does")]
fn whole(op: Op, a: i64, b: i64) -> Result<Value, Failure> {
    let zero = || Failure::Wrong("a division by zero".to_owned());
    let shift = || u32::try_from(b).ok().filter(|&n| n < 63).ok_or_else(too_large);
    let made = match op {
        Op::Add => a.checked_add(b),
        Op::Sub => a.checked_sub(b),
        Op::Mul => a.checked_mul(b),
        Op::Div | Op::FloorDiv | Op::Mod if b == 0 => return Err(zero()),
        // The smallest number has no opposite: its quotient by -1 is no number of 64 bits.
        Op::Div if a.checked_rem(b) == Some(0) => a.checked_div(b),
        Op::Div => return Ok(Value::Real(a as f64 / b as f64)),
        Op::FloorDiv => {
            a.checked_div_euclid(b).map(|q| if b < 0 && a.rem_euclid(b) != 0 { q - 1 } else { q })
        }
        Op::Mod => {
            let r = a.wrapping_rem_euclid(b);
            Some(if b < 0 && r != 0 { r + b } else { r })
        }
        Op::BitOr => Some(a | b),
        Op::BitXor => Some(a ^ b),
        Op::BitAnd => Some(a & b),
        Op::Shl => a.checked_mul(1 << shift()?),
        Op::Shr if b >= 63 => Some(a >> 63),
        Op::Shr => Some(a >> shift()?),
        Op::Pow => u32::try_from(b).ok().and_then(|n| a.checked_pow(n)),
        _ => return Err(Failure::Wrong("no such operation on numbers".to_owned())),
    };
    made.map(Value::Int).ok_or_else(too_large)
}

/// Whether two values are the same, as Python has it: a whole number may equal one with decimals.
#[expect(clippy::cast_precision_loss, reason = "a number with decimals has no more")]
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Int(whole), Value::Real(real)) | (Value::Real(real), Value::Int(whole)) => {
            (*whole as f64).partial_cmp(real) == Some(std::cmp::Ordering::Equal)
        }
        _ => a == b,
    }
}

fn compare(op: Op, a: &Value, b: &Value) -> Result<bool, Failure> {
    match (op, a, b) {
        (Op::In | Op::NotIn, _, Value::List(items)) => {
            return Ok(items.iter().any(|item| equal(a, item)) == (op == Op::In));
        }
        (Op::In | Op::NotIn, Value::Text(part), Value::Text(text)) => {
            return Ok(text.contains(part.as_str()) == (op == Op::In));
        }
        (Op::Eq | Op::Ne, Value::List(_), _) | (Op::Eq | Op::Ne, _, Value::List(_)) => {
            return Ok(equal(a, b) == (op == Op::Eq));
        }
        (Op::Lt | Op::Le | Op::Gt | Op::Ge, Value::List(_), _)
        | (Op::Lt | Op::Le | Op::Gt | Op::Ge, _, Value::List(_)) => {
            return beyond("the order of lists".to_owned());
        }
        _ => {}
    }
    let order = match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::Int(_) | Value::Real(_), Value::Int(_) | Value::Real(_)) => real(a)?.partial_cmp(&real(b)?),
        _ => None,
    };
    Ok(match op {
        Op::Eq => order.is_some_and(std::cmp::Ordering::is_eq),
        Op::Ne => !order.is_some_and(std::cmp::Ordering::is_eq),
        Op::Lt => order.is_some_and(std::cmp::Ordering::is_lt),
        Op::Le => order.is_some_and(std::cmp::Ordering::is_le),
        Op::Gt => order.is_some_and(std::cmp::Ordering::is_gt),
        Op::Ge => order.is_some_and(std::cmp::Ordering::is_ge),
        _ => return Err(Failure::Wrong(format!("`{b}` is not a list"))),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "what does not fit is refused")]
fn function(name: &str, args: &[Value]) -> Result<Value, Failure> {
    let items = match args {
        [Value::List(items)] => items.as_slice(),
        _ => args,
    };
    let wrong = || Failure::Wrong(format!("`{name}` of {} values", args.len()));
    let best = |op: Op| {
        let mut best = items.first().cloned().ok_or_else(wrong)?;
        for v in items {
            if compare(op, v, &best)? {
                best = v.clone();
            }
        }
        Ok(best)
    };
    match (name, args) {
        ("min", _) => best(Op::Lt),
        ("max", _) => best(Op::Gt),
        ("abs", [Value::Int(n)]) => n.checked_abs().map(Value::Int).ok_or_else(too_large),
        ("abs", [v]) => Ok(Value::Real(real(v)?.abs())),
        ("int", [Value::Text(t)]) => t.trim().parse().map(Value::Int).map_err(|_| wrong()),
        ("int", [Value::Int(n)]) => Ok(Value::Int(*n)),
        ("int", [v]) => match real(v)?.trunc() {
            x if x.abs() < 9.2e18 => Ok(Value::Int(x as i64)),
            _ => Err(too_large()),
        },
        ("float", [v]) => Ok(Value::Real(real(v)?)),
        ("bool", [v]) => Ok(Value::Int(i64::from(truth(v)))),
        ("str", [v]) => Ok(Value::Text(v.to_string())),
        ("len", [Value::List(items)]) => Ok(Value::Int(i64::try_from(items.len()).map_err(|_| wrong())?)),
        ("len", [Value::Text(t)]) => Ok(Value::Int(i64::try_from(t.chars().count()).map_err(|_| wrong())?)),
        _ => Err(wrong()),
    }
}

/// `"a %d b %s" % (x, y)`: each directive is replaced, whatever its kind.
fn percents(text: &str, args: &Value) -> Value {
    let mut args = match args {
        Value::List(items) => items.clone(),
        one => vec![one.clone()],
    }
    .into_iter();
    let mut made = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            made.push(c);
            continue;
        }
        match chars.by_ref().find(|c| c.is_ascii_alphabetic() || *c == '%') {
            Some('%') => made.push('%'),
            _ => made.push_str(&args.next().map(|v| v.to_string()).unwrap_or_default()),
        }
    }
    Value::Text(made)
}

/// `"a {} b".format(x)`, each argument once.
fn braces(text: &str, args: &[Value]) -> Value {
    let mut args = args.iter();
    let mut made = String::new();
    let mut parts = text.split('{');
    made.push_str(parts.next().unwrap_or(""));
    for part in parts {
        let after = part.split_once('}').map_or(part, |(_, after)| after);
        made.push_str(&args.next().map(ToString::to_string).unwrap_or_default());
        made.push_str(after);
    }
    Value::Text(made)
}
