//! Controllers in Python: `stack.cc = "python:<file>.py:<Class>"`.
//!
//! A run is a function of case, seed and version, so the content of the file is a part of the case: when the
//! case is read, the checksum of the file is appended to the value. If the value already contains a
//! checksum, it must be that of the file.

use std::sync::Arc;

/// A class in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PythonController {
    /// The name of the file, relative to the plan.
    pub file: String,
    /// The name of the class.
    pub class: String,
    /// The text of the file.
    pub source: Arc<str>,
    /// Its checksum: XXH3-64, sixteen hexadecimal digits.
    pub digest: String,
}

/// File, class and checksum of a value.
fn parts(text: &str) -> Option<(&str, &str, Option<&str>)> {
    let rest = text.strip_prefix("python:")?;
    let (rest, digest) = match rest.rsplit_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (rest, None),
    };
    let (file, class) = rest.rsplit_once(':')?;
    let identifier = |c: char| c == '_' || c.is_alphanumeric();
    let named = !class.is_empty()
        && class.chars().all(identifier)
        && !class.starts_with(|c: char| c.is_ascii_digit());
    let hexadecimal = digest.is_none_or(|d| d.len() == 16 && d.bytes().all(|b| b.is_ascii_hexdigit()));
    let python = std::path::Path::new(file).extension().is_some_and(|end| end == "py");
    (python && named && hexadecimal).then_some((file, class, digest))
}

/// Whether a value names a class in a file.
pub(crate) fn check(text: &str) -> Result<(), String> {
    if parts(text).is_some() { Ok(()) } else { Err(String::new()) }
}

impl PythonController {
    /// The controller of a value, without the text of its file.
    pub(crate) fn named(text: &str) -> PythonController {
        let (file, class, digest) = parts(text).expect("the row checks its text");
        PythonController {
            file: file.to_owned(),
            class: class.to_owned(),
            source: "".into(),
            digest: digest.unwrap_or_default().to_owned(),
        }
    }
}
