//! `#ifdef`, `#ifndef`, `#else` and `#endif` of nplab's packetdrill: parts of a script for one stack.

use crate::position::{Position, SyntaxError};

/// The text without the parts for other stacks. Their lines are empty, so that line numbers stay the same.
///
/// # Errors
/// A directive has no counterpart or no name.
pub fn select(text: &str, defined: &[&str]) -> Result<String, SyntaxError> {
    if !text.contains("#ifdef") && !text.contains("#ifndef") {
        return Ok(text.to_owned());
    }
    // For each enclosing part: whether it is included, and where it began.
    let mut parts: Vec<(bool, Position)> = Vec::new();
    let mut made = String::with_capacity(text.len());
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let position = Position { line: number, column: 1 };
        let mut words = line.split_whitespace();
        let fail = |expected: &str| {
            let found = format!("`{}`", line.trim());
            Err(SyntaxError { position, expected: expected.to_owned(), found, unsupported: false })
        };
        match words.next() {
            Some(word @ ("#ifdef" | "#ifndef")) => match words.next() {
                Some(name) => parts.push((defined.contains(&name) == (word == "#ifdef"), position)),
                None => return fail("a name after the directive"),
            },
            Some("#else") => match parts.last_mut() {
                Some((counts, _)) => *counts = !*counts,
                None => return fail("`#ifdef` before it"),
            },
            Some("#endif") if parts.pop().is_some() => {}
            Some("#endif") => return fail("`#ifdef` before it"),
            _ if parts.iter().all(|(counts, _)| *counts) => {
                made.push_str(line);
                continue;
            }
            _ => {}
        }
        if line.ends_with('\n') {
            made.push('\n');
        }
    }
    match parts.last() {
        None => Ok(made),
        Some(&(_, position)) => Err(SyntaxError {
            position,
            expected: "`#endif` after it".to_owned(),
            found: "the end of the script".to_owned(),
            unsupported: false,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_for_other_stacks_leave_empty_lines() {
        let text = "a\n#ifdef FreeBSD\nb\n#else\nc\n#endif\nd";
        assert_eq!(select(text, &["FreeBSD"]).unwrap(), "a\n\nb\n\n\n\nd");
        assert_eq!(select(text, &["Linux"]).unwrap(), "a\n\n\n\nc\n\nd");
        assert_eq!(select("#ifndef Linux\nb\n#endif\n", &["Linux"]).unwrap(), "\n\n\n");
    }

    #[test]
    fn a_nested_part_is_included_if_both_conditions_hold() {
        let text = "#ifdef A\n#ifdef B\nx\n#endif\n#endif\n";
        assert_eq!(select(text, &["B"]).unwrap(), "\n\n\n\n\n");
        assert_eq!(select(text, &["A", "B"]).unwrap(), "\n\nx\n\n\n");
    }

    #[test]
    fn an_unbalanced_directive_is_an_error_with_its_position() {
        let error = |text: &str| select(text, &[]).unwrap_err().to_string();
        assert_eq!(error("x\n#ifdef A\n"), "2:1: expected `#endif` after it, found the end of the script");
        assert_eq!(error("#ifdef A\n#endif\n#endif\n"), "3:1: expected `#ifdef` before it, found `#endif`");
    }
}
