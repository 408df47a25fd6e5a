//! The parser of the packetdrill language: a recursive descent parser with one function per construct.
//!
//! It is hand-written so that each error says what was expected. Sources: the grammar of google/packetdrill (`syntax.md`) and
//! public scripts. Constructs that the runner does not support, such as tunnels, are reported as unsupported with their line.

mod call;
mod condition;
mod option;
mod packet;

pub use condition::select;

use crate::ast::{Action, CodeBlock, EventTime, OptionLine, Script, ScriptEvent, ShellCommand};
use crate::code;
use crate::cursor::{Cursor, Parsed};
use crate::position::SyntaxError;
use tcpassay_units::Dur;

/// Parses a script.
///
/// # Errors
/// The first syntax error or unsupported construct.
pub fn parse(text: &str) -> Result<Script, SyntaxError> {
    let mut c = Cursor::new(text);
    let mut script = Script { options: Vec::new(), init: None, events: Vec::new(), cleanup: None };
    loop {
        c.space();
        if !c.starts("--") {
            break;
        }
        script.options.push(option_line(&mut c)?);
    }
    if c.starts("#") {
        return c.fail("`#ifdef`, `#ifndef`, `#else` or `#endif`");
    }
    loop {
        c.space();
        match c.peek() {
            None => return Ok(script),
            Some('`') => {
                let shell = shell(&mut c)?;
                if script.events.is_empty() && script.init.is_none() {
                    script.init = Some(shell);
                } else {
                    let end = c.clone();
                    c.space();
                    if !c.at_end() {
                        return end.fail("the end of the script after its last command");
                    }
                    script.cleanup = Some(shell);
                }
            }
            Some(_) => script.events.push(event(&mut c)?),
        }
    }
}

/// The lines `--name=value` at the beginning, up to the first error. They may define words of the rest of the script.
pub(crate) fn options(text: &str) -> Vec<OptionLine> {
    let mut c = Cursor::new(text);
    let mut made = Vec::new();
    loop {
        c.space();
        if !c.starts("--") {
            return made;
        }
        match option_line(&mut c) {
            Ok(line) => made.push(line),
            Err(_) => return made,
        }
    }
}

fn option_line(c: &mut Cursor<'_>) -> Parsed<OptionLine> {
    let position = c.position();
    c.skip(2);
    let name = c.word("the name of an option")?.to_owned();
    c.take_while(|c| c == ' ' || c == '\t');
    let mut value = String::new();
    if c.starts("=") {
        c.skip(1);
        c.take_while(|c| c == ' ' || c == '\t');
        // `--define=CC="reno"`: a quoted value may contain white space.
        loop {
            value.push_str(c.take_while(|c| !c.is_whitespace() && c != '"' && c != '`'));
            let Some(quote @ ('"' | '`')) = c.peek() else { break };
            c.skip(1);
            let quoted = c.quoted(quote, "the value of an option")?;
            value = format!("{value}{quote}{quoted}{quote}");
        }
    }
    Ok(OptionLine { name, value, position })
}

fn shell(c: &mut Cursor<'_>) -> Parsed<ShellCommand> {
    let position = c.position();
    c.skip(1);
    let text = c.quoted('`', "a command")?.to_owned();
    Ok(ShellCommand { text, position })
}

fn event(c: &mut Cursor<'_>) -> Parsed<ScriptEvent> {
    let position = c.position();
    let (when, end) = time(c)?;
    c.space();
    let action = match c.peek() {
        Some('<' | '>') => Action::Packet(packet::packet(c)?),
        Some('`') => Action::Shell(shell(c)?),
        Some('%') if c.starts("%{") => {
            c.skip(2);
            let begin = c.position();
            let text = c.until("}%", "a block of code")?;
            Action::Code(CodeBlock { text: text.to_owned(), body: code::parse(text, begin) })
        }
        Some(x) if x.is_ascii_alphabetic() => {
            let mut call = call::call(c)?;
            call.end = end;
            return Ok(ScriptEvent { position, when, action: Action::Call(call) });
        }
        _ => return c.fail("a packet (`<` or `>`), a system call, a command or `%{`"),
    };
    if end.is_some() {
        return c.fail("a system call after a time that has an end");
    }
    Ok(ScriptEvent { position, when, action })
}

/// Parses the time of an event and the end of a blocking call.
fn time(c: &mut Cursor<'_>) -> Parsed<(EventTime, Option<Dur>)> {
    c.space();
    if c.eat("*") {
        return Ok((EventTime::Any, None));
    }
    let relative = c.eat("+");
    let start = seconds(c)?;
    if c.eat("~") {
        let _ = c.eat("+");
        let before = c.clone();
        let end = seconds(c)?;
        if end < start {
            return before.fail("an end that is not before the beginning");
        }
        let range = if relative { EventTime::RelativeRange } else { EventTime::AbsoluteRange };
        return Ok((range(start, end), None));
    }
    let end = if c.eat("...") {
        let _ = c.eat("+");
        Some(seconds(c)?)
    } else {
        None
    };
    Ok((if relative { EventTime::Relative(start) } else { EventTime::Absolute(start) }, end))
}

/// Parses a time in seconds with up to nine decimals.
fn seconds(c: &mut Cursor<'_>) -> Parsed<Dur> {
    const WHAT: &str = "a time in seconds, such as `0.1`, `+.1`, `+.1~+.2` or `*`";
    c.space();
    let start = c.clone();
    let whole = c.take_while(|c| c.is_ascii_digit());
    let mut part = "";
    if c.peek() == Some('.') && !c.starts("...") {
        c.bump();
        part = c.take_while(|c| c.is_ascii_digit());
    }
    if whole.is_empty() && part.is_empty() || whole.len() > 9 || part.len() > 9 {
        return start.fail(WHAT);
    }
    let number = |digits: &str| digits.parse::<u64>().unwrap_or(0);
    let nanos = number(&format!("{part:0<9}"));
    Ok(Dur::from_nanos(number(whole) * 1_000_000_000 + nanos))
}

#[cfg(test)]
mod tests;
