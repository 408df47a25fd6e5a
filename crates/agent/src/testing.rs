//! Cases for unit tests.

use tcpassay_case::Case;
use tcpassay_case::params::{Substrate, Value};

/// A case with these values; everything else has its default.
pub fn case(substrate: Substrate, rows: &[(&str, &str)]) -> Case {
    let triples = rows.iter().map(|(path, value)| ((*path).to_owned(), Value::from(*value))).collect();
    let no_files = |_: &str| Err(std::io::Error::other("a test has no files"));
    Case::on(substrate, &triples, &no_files).unwrap_or_else(|errors| panic!("{rows:?}: {errors:?}"))
}
