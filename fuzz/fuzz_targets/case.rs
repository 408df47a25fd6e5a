//! A case as text, `path = value` a line, and after a line `---` the file that it may name: errors or a case, and what the
//! case says of itself makes the same case.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use tcpassay_sim::{case::Case, params::Value};

fuzz_target!(|text: &str| {
    let (lines, file) = text.split_once("---\n").unwrap_or((text, ""));
    let triples: BTreeMap<String, Value> = lines
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(path, value)| (path.to_owned(), value_of(value)))
        .collect();
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
