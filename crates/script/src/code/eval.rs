//! Evaluation of a block of code.

use super::names::constant;
use super::operators::{binary, braces, compare, function, unary};
use super::syntax::{Assertion, CodeExpr, Operator, Statement};
use super::value::{CodeError, CodeValue, measure, truth, unsupported};
use std::cell::Cell;
use std::collections::BTreeMap;

/// The maximum size of a value: the bytes of its strings, plus one for each value and item.
const MAX_VALUE_SIZE: usize = 1 << 16;

/// The maximum depth of nested lists.
const MAX_DEPTH: usize = 16;

/// The maximum total size of all variables, in the unit of [`MAX_VALUE_SIZE`].
const MAX_VARIABLES_SIZE: usize = 1 << 22;

/// The maximum number of bytes that a script prints.
const MAX_PRINTED: usize = 1 << 20;

/// The maximum total size of the values that a script evaluates, in the unit of [`MAX_VALUE_SIZE`]. It takes about two seconds.
const MAX_STEPS: usize = 1 << 28;

/// The variables of a script, which all its code blocks share, and the printed lines.
#[derive(Clone, Debug, Default)]
pub struct CodeEnvironment {
    names: BTreeMap<String, CodeValue>,
    /// The total size of the variables.
    held: usize,
    /// The total size of the evaluated values.
    steps: Cell<usize>,
    bytes_printed: usize,
    /// The printed lines.
    pub printed: Vec<String>,
}

impl CodeEnvironment {
    /// Runs the statements. `look` returns the value that the target has for a name such as `tcpi_snd_cwnd`.
    ///
    /// # Errors
    /// See [`CodeError`].
    pub fn run(
        &mut self,
        body: &[Statement],
        look: &dyn Fn(&str) -> Option<CodeValue>,
    ) -> Result<(), CodeError> {
        for stmt in body {
            self.step(1)?;
            match stmt {
                Statement::Assert(assertion) => self.assert(assertion, look)?,
                Statement::Print(items) => {
                    let items: Result<Vec<CodeValue>, CodeError> =
                        items.iter().map(|e| self.value(e, look)).collect();
                    let line = CodeValue::List(items?).to_string();
                    self.bytes_printed += line.len() + 1;
                    if self.bytes_printed > MAX_PRINTED {
                        return unsupported(format!("the code prints more than {MAX_PRINTED} bytes"));
                    }
                    self.printed.push(line);
                }
                Statement::Let(name, value) => {
                    let value = self.value(value, look)?;
                    self.held += name.len() + measure(&value).0;
                    if let Some(old) = self.names.insert(name.clone(), value) {
                        self.held -= name.len() + measure(&old).0;
                    }
                    if self.held > MAX_VARIABLES_SIZE {
                        return unsupported(format!(
                            "the variables take more than {MAX_VARIABLES_SIZE} bytes"
                        ));
                    }
                }
                Statement::Eval(e) => {
                    self.value(e, look)?;
                }
                Statement::If(branches, otherwise) => {
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

    /// The error of a false assertion has its source text and the values of its names. It has the message, too, unless that
    /// repeats one of the values.
    fn assert(
        &self,
        assertion: &Assertion,
        look: &dyn Fn(&str) -> Option<CodeValue>,
    ) -> Result<(), CodeError> {
        if truth(&self.value(&assertion.condition, look)?) {
            return Ok(());
        }
        let seen = self.seen(&assertion.condition, look);
        let shown: Vec<String> = seen.iter().map(|(name, value)| format!("{name} is {value}")).collect();
        let mut text = assertion.text.split_whitespace().collect::<Vec<_>>().join(" ");
        if !shown.is_empty() {
            text = format!("{text}: {}", shown.join(", "));
        }
        if let Some(message) = &assertion.message {
            let message = self.value(message, look)?.to_string();
            if !seen.iter().any(|(_, value)| value.to_string() == message) {
                text = format!("{text} ({message})");
            }
        }
        Err(CodeError::AssertionFailed(assertion.position, text))
    }

    /// Defines a variable before the first block. The value is an integer if the text is one, and a string otherwise.
    pub fn define(&mut self, name: &str, text: &str) {
        let text = text.trim_matches('"');
        let value = text.parse().map_or_else(|_| CodeValue::Text(text.to_owned()), CodeValue::Int);
        self.names.insert(name.to_owned(), value);
    }

    /// Counts `n` evaluation steps.
    fn step(&self, n: usize) -> Result<(), CodeError> {
        self.steps.set(self.steps.get() + n);
        if self.steps.get() > MAX_STEPS {
            return unsupported("the code takes too many steps".to_owned());
        }
        Ok(())
    }

    /// Returns the value if it is within the limits.
    fn within(&self, value: CodeValue) -> Result<CodeValue, CodeError> {
        let (size, depth) = measure(&value);
        self.step(size)?;
        if size > MAX_VALUE_SIZE || depth > MAX_DEPTH {
            return unsupported(format!(
                "a value of more than {MAX_VALUE_SIZE} characters or items, or {MAX_DEPTH} lists deep"
            ));
        }
        Ok(value)
    }

    fn values(
        &self,
        items: &[CodeExpr],
        look: &dyn Fn(&str) -> Option<CodeValue>,
    ) -> Result<Vec<CodeValue>, CodeError> {
        let mut made = Vec::new();
        let mut size = 0;
        for item in items {
            let value = self.value(item, look)?;
            size += measure(&value).0;
            if size > MAX_VALUE_SIZE {
                return unsupported(format!("a list of more than {MAX_VALUE_SIZE} characters or items"));
            }
            made.push(value);
        }
        Ok(made)
    }

    /// The names in a condition and their values.
    fn seen<'a>(
        &self,
        condition: &'a CodeExpr,
        look: &dyn Fn(&str) -> Option<CodeValue>,
    ) -> Vec<(&'a str, CodeValue)> {
        let mut names = Vec::new();
        collect(condition, &mut names);
        names
            .into_iter()
            .filter(|n| constant(n).is_none())
            .filter_map(|n| self.name(n, look).ok().map(|v| (n, v)))
            .collect()
    }

    fn name(&self, name: &str, look: &dyn Fn(&str) -> Option<CodeValue>) -> Result<CodeValue, CodeError> {
        if let Some(value) = self.names.get(name) {
            return Ok(value.clone());
        }
        constant(name)
            .map(CodeValue::Int)
            .or_else(|| look(name))
            .ok_or_else(|| CodeError::UnknownName(name.to_owned()))
    }

    fn value(&self, e: &CodeExpr, look: &dyn Fn(&str) -> Option<CodeValue>) -> Result<CodeValue, CodeError> {
        self.step(1)?;
        let made = match e {
            CodeExpr::Int(n) => return Ok(CodeValue::Int(*n)),
            CodeExpr::Real(x) => return Ok(CodeValue::Real(*x)),
            CodeExpr::Text(t) => CodeValue::Text(t.clone()),
            CodeExpr::Name(name) => self.name(name, look)?,
            CodeExpr::List(items) => CodeValue::List(self.values(items, look)?),
            CodeExpr::Unary(op, a) => unary(*op, &self.value(a, look)?)?,
            CodeExpr::Binary(Operator::Or, a, b) => {
                let a = self.value(a, look)?;
                if truth(&a) { a } else { self.value(b, look)? }
            }
            CodeExpr::Binary(Operator::And, a, b) => {
                let a = self.value(a, look)?;
                if truth(&a) { self.value(b, look)? } else { a }
            }
            CodeExpr::Binary(op, a, b) => binary(*op, &self.value(a, look)?, &self.value(b, look)?)?,
            CodeExpr::Compare(first, rest) => {
                let mut left = self.value(first, look)?;
                for (op, right) in rest {
                    let right = self.value(right, look)?;
                    if !compare(*op, &left, &right)? {
                        return Ok(CodeValue::Int(0));
                    }
                    left = right;
                }
                CodeValue::Int(1)
            }
            CodeExpr::If(condition, then, otherwise) => {
                let branch = if truth(&self.value(condition, look)?) { then } else { otherwise };
                self.value(branch, look)?
            }
            CodeExpr::Call(name, args) => {
                let args = self.values(args, look)?;
                function(name, &args)?
            }
            CodeExpr::Format(text, args) => {
                let args = self.values(args, look)?;
                braces(&self.value(text, look)?.to_string(), &args)
            }
        };
        self.within(made)
    }
}

fn collect<'a>(e: &'a CodeExpr, names: &mut Vec<&'a str>) {
    match e {
        CodeExpr::Name(n) if !names.contains(&n.as_str()) => names.push(n),
        CodeExpr::Unary(_, a) => collect(a, names),
        CodeExpr::Binary(_, a, b) => {
            collect(a, names);
            collect(b, names);
        }
        CodeExpr::Compare(a, rest) => {
            collect(a, names);
            for (_, b) in rest {
                collect(b, names);
            }
        }
        CodeExpr::Call(_, items) | CodeExpr::List(items) => {
            for i in items {
                collect(i, names);
            }
        }
        CodeExpr::If(a, b, c) => {
            for i in [a, b, c] {
                collect(i, names);
            }
        }
        _ => {}
    }
}
