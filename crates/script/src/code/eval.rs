//! Evaluation of a block of code.

use super::names::constant;
use super::operators::{binary, braces, compare, function, unary};
use super::syntax::{Claim, Expr, Op, Stmt};
use super::value::{Failure, Value, beyond, measure, truth};
use std::cell::Cell;
use std::collections::BTreeMap;

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
