//! Parser of statements and blocks.

use super::expression::{ExpressionParser, KEYWORDS, MAX_DEPTH, blank};
use super::syntax::{Assertion, CodeExpr, Statement};
use crate::cursor::{Cursor, Parsed};
use crate::position::Position;

/// Parses the code block `text`, which begins at `position`.
pub(crate) fn parse(text: &str, position: Position) -> Parsed<Vec<Statement>> {
    let mut c = Cursor::within(text, position);
    let mut body = Vec::new();
    loop {
        body.extend(suite(&mut c, text, None, 0)?);
        if c.at_end() {
            return Ok(body);
        }
    }
}

/// The indentation of the statement at the cursor; `None` if it is not the first statement of its line. The first line of a
/// block has indentation 0, because the text before it belongs to the script.
fn indentation(c: &Cursor<'_>, text: &str) -> Option<usize> {
    let before = &text[..text.len() - c.rest().len()];
    let line = before.rsplit('\n').next().unwrap_or("");
    if !line.trim_start().is_empty() {
        return None;
    }
    let width = line.chars().fold(0, |at, c| if c == '\t' { (at / 8 + 1) * 8 } else { at + 1 });
    Some(if before.contains('\n') { width } else { 0 })
}

/// The statements with a larger indentation than `outer`. At the top level (`None`) the indentation does not matter.
fn suite(c: &mut Cursor<'_>, text: &str, outer: Option<usize>, depth: u32) -> Parsed<Vec<Statement>> {
    let mut body = Vec::new();
    let mut own = None;
    loop {
        blank(c, true);
        if c.at_end() {
            return Ok(body);
        }
        if c.starts(";") {
            c.skip(1);
            continue;
        }
        let column = indentation(c, text);
        if let (Some(column), Some(outer)) = (column, outer) {
            if column <= outer {
                return Ok(body);
            }
            if *own.get_or_insert(column) != column {
                return c.fail("the indentation of the statement before");
            }
        }
        if c.peek_word() == "if" {
            body.push(branches(c, text, column.unwrap_or(0), depth + 1)?);
            continue;
        }
        body.extend(statement(c)?);
        ended(c)?;
    }
}

fn ended(c: &mut Cursor<'_>) -> Parsed<()> {
    blank(c, false);
    if !c.at_end() && !c.starts("\n") && !c.starts(";") {
        return c.fail("`;` or a new line after a statement");
    }
    Ok(())
}

/// Parses `if a: ... elif b: ... else: ...` with indentation `column`.
fn branches(c: &mut Cursor<'_>, text: &str, column: usize, depth: u32) -> Parsed<Statement> {
    if depth > MAX_DEPTH {
        return c.fail("fewer blocks inside blocks");
    }
    let mut conditions = Vec::new();
    loop {
        // `if` or `elif`.
        c.skip(c.peek_word().len());
        let condition = ExpressionParser { c, depth: 0, brackets: 0, parts: 0 }.expr()?;
        conditions.push((condition, branch(c, text, column, depth)?));
        let before = c.clone();
        blank(c, true);
        let aligned = indentation(c, text) == Some(column);
        match c.peek_word() {
            "elif" if aligned => {}
            "else" if aligned => {
                c.skip("else".len());
                return Ok(Statement::If(conditions, branch(c, text, column, depth)?));
            }
            _ => {
                *c = before;
                return Ok(Statement::If(conditions, Vec::new()));
            }
        }
    }
}

/// Parses `: statement; statement`, or `:` and indented lines.
fn branch(c: &mut Cursor<'_>, text: &str, column: usize, depth: u32) -> Parsed<Vec<Statement>> {
    blank(c, false);
    if !c.starts(":") {
        return c.fail("`:`");
    }
    c.skip(1);
    blank(c, false);
    let line = c.position().line;
    let mut body = Vec::new();
    if c.starts("\n") || c.at_end() {
        let mut ahead = c.clone();
        blank(&mut ahead, true);
        if ahead.at_end() || indentation(&ahead, text).is_some_and(|own| own <= column) {
            return ahead.fail("an indented statement");
        }
        return suite(c, text, Some(column), depth);
    }
    loop {
        body.extend(statement(c)?);
        ended(c)?;
        if !c.starts(";") {
            return Ok(body);
        }
        c.skip(1);
        blank(c, false);
        if c.at_end() || c.starts("\n") || c.position().line != line {
            return Ok(body);
        }
    }
}

fn statement(c: &mut Cursor<'_>) -> Parsed<Option<Statement>> {
    let position = c.position();
    let word = c.peek_word();
    if KEYWORDS.contains(&word) {
        return c.fail("`assert`, `print`, an assignment or an expression");
    }
    let mut r = ExpressionParser { c, depth: 0, brackets: 0, parts: 0 };
    match word {
        "pass" => {
            r.c.skip(4);
            Ok(None)
        }
        "assert" => {
            r.c.skip(6);
            let from = r.c.rest();
            let condition = r.expr()?;
            let text = from[..from.len() - r.c.rest().len()].trim().to_owned();
            let message = if r.eat(",") { Some(r.tuple()?) } else { None };
            Ok(Some(Statement::Assert(Assertion { position, text, condition, message })))
        }
        "print" => {
            r.c.skip(5);
            let what = if r.ended() { CodeExpr::List(Vec::new()) } else { r.tuple()? };
            Ok(Some(Statement::Print(vec![what])))
        }
        _ => r.assignment().map(Some),
    }
}
