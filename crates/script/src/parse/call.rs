//! System calls.

use crate::ast::{ExpectedResult, Expr, Syscall};
use crate::cursor::{Cursor, Parsed};

/// The maximum nesting of arguments. It bounds the recursion of the parser.
const MAX_DEPTH: u32 = 16;

/// Parses `name(arguments) = result errno (note)`.
pub(super) fn call(c: &mut Cursor<'_>) -> Parsed<Syscall> {
    let name = c.word("the name of a system call")?.to_owned();
    c.need("(")?;
    let args = list(c, ")", 0)?;
    c.need("=")?;
    let result = outcome(c)?;
    Ok(Syscall { name, args, result, end: None })
}

fn outcome(c: &mut Cursor<'_>) -> Parsed<ExpectedResult> {
    c.space();
    let mut out = ExpectedResult { value: None, errno: None };
    if !c.eat("...") {
        out.value = Some(c.number("what the call gives: a number or `...`")?);
    }
    let line = c.position().line;
    // Only on the same line, because the next line begins with a time or a comment.
    c.take_while(|c| c == ' ' || c == '\t');
    let word = c.peek_word();
    if word.starts_with('E') && c.position().line == line {
        c.skip(word.len());
        out.errno = Some(word.to_owned());
        c.take_while(|c| c == ' ' || c == '\t');
    }
    if c.starts("(") {
        c.skip(1);
        c.until(")", "a note")?;
    }
    Ok(out)
}

fn list(c: &mut Cursor<'_>, close: &str, depth: u32) -> Parsed<Vec<Expr>> {
    let mut items = Vec::new();
    if c.eat(close) {
        return Ok(items);
    }
    loop {
        items.push(expr(c, depth)?);
        if c.eat(close) {
            return Ok(items);
        }
        if !c.eat(",") {
            return c.fail(&format!("`,` or `{close}`"));
        }
    }
}

fn expr(c: &mut Cursor<'_>, depth: u32) -> Parsed<Expr> {
    const WHAT: &str = "an argument: a number, a name, a text, `...`, `[...]` or `{...}`";
    c.space();
    if depth > MAX_DEPTH {
        return c.fail("fewer brackets inside brackets");
    }
    if c.eat("...") {
        return Ok(Expr::Any);
    }
    match c.peek() {
        Some('"') => {
            let mut text = String::new();
            // Adjacent strings are concatenated.
            while c.eat("\"") {
                text.push_str(c.quoted('"', "a text")?);
            }
            let _ = c.eat("...");
            Ok(Expr::Text(text))
        }
        Some('[') => {
            c.skip(1);
            Ok(Expr::List(list(c, "]", depth + 1)?))
        }
        Some('{') => {
            c.skip(1);
            group(c, depth + 1)
        }
        Some(x) if x.is_ascii_digit() || x == '-' => {
            let mut value: i64 = c.number("a number of 64 bits")?;
            let mut names = Vec::new();
            while c.eat("|") {
                c.space();
                if c.peek().is_some_and(|c| c.is_ascii_digit()) {
                    value |= c.number::<i64>("a number")?;
                } else {
                    names.push(c.word("a name")?.to_owned());
                }
            }
            if names.is_empty() {
                return Ok(Expr::Int(value));
            }
            names.insert(0, value.to_string());
            Ok(Expr::Names(names))
        }
        Some(x) if x.is_ascii_alphabetic() || x == '_' => {
            let name = c.word(WHAT)?;
            if c.eat("(") {
                return Ok(Expr::Made(name.to_owned(), list(c, ")", depth + 1)?));
            }
            let mut names = vec![name.to_owned()];
            while c.eat("|") {
                c.space();
                if c.peek().is_some_and(|c| c.is_ascii_digit()) {
                    names.push(c.number::<i64>("a number")?.to_string());
                } else {
                    names.push(c.word("a name")?.to_owned());
                }
            }
            Ok(Expr::Names(names))
        }
        _ => c.fail(WHAT),
    }
}

/// Parses `{a, name=b, name(n)=c}`.
fn group(c: &mut Cursor<'_>, depth: u32) -> Parsed<Expr> {
    let mut members = Vec::new();
    if c.eat("}") {
        return Ok(Expr::Group(members));
    }
    loop {
        c.space();
        let before = c.clone();
        let mut name = c.peek_word();
        c.skip(name.len());
        if !name.is_empty() && c.eat("(") && c.until(")", "a count").is_err() {
            return c.fail("`)`");
        }
        if name.is_empty() || !c.eat("=") {
            name = "";
            *c = before;
        }
        members.push((name.to_owned(), expr(c, depth)?));
        if c.eat("}") {
            return Ok(Expr::Group(members));
        }
        if !c.eat(",") {
            return c.fail("`,` or `}`");
        }
    }
}
