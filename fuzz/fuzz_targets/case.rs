//! A case as text and after a line `---` the file that it may name: errors or a case, and what the case says of itself makes the
//! same case.
//!
//! A line is `path = value`; or a character that picks a row of the parameter table and the value; or two that pick a row
//! and a level: a fuzzer that knows nothing reaches every parameter's grammar so.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use tcpassay_case::Case;
use tcpassay_case::params::{Value, rows};

fuzz_target!(|text: &str| {
    let (lines, file) = text.split_once("---\n").unwrap_or((text, ""));
    let triples: BTreeMap<String, Value> = lines.lines().filter_map(triple).collect();
    // Thousands of hosts are allowed, and take longer than a fuzzer waits.
    if triples.iter().any(|(path, value)| (path == "topology" || path == "rack.hosts") && large(value)) {
        return;
    }
    let read = |_: &str| Ok(file.to_owned());
    if let Ok(case) = Case::with_files(&triples, &read) {
        let said = case.to_triples();
        let again = Case::with_files(&said, &read).expect("a case accepts what it says of itself");
        assert_eq!(again.to_triples(), said);
    }
});

fn triple(line: &str) -> Option<(String, Value)> {
    if let Some((path, value)) = line.split_once(" = ") {
        return Some((path.to_owned(), value_of(value)));
    }
    let mut rest = line.chars();
    let row = picked(&rows().collect::<Vec<_>>(), rest.next()?)?;
    let value = match (rest.next(), rest.next()) {
        (Some(level), None) => picked(row.levels, level)?,
        _ => &line[line.chars().next()?.len_utf8()..],
    };
    Some((row.path.to_owned(), value_of(value)))
}

fn picked<T: Copy>(among: &[T], by: char) -> Option<T> {
    among.get(by as usize % among.len().max(1)).copied()
}

fn value_of(text: &str) -> Value {
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match (text.parse(), text.parse()) {
            (Ok(number), _) => Value::Int(number),
            (_, Ok(number)) => Value::Real(number),
            _ => Value::Text(text.to_owned()),
        },
    }
}

fn large(value: &Value) -> bool {
    format!("{value:?}").chars().filter(char::is_ascii_digit).count() > 2
}
