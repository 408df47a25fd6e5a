//! The error that describes why a case is invalid.

use crate::params::{Setting, Value};
use std::fmt;

/// An error of a case. Its text is one sentence with the parameter, the value, and the allowed values.
#[derive(Clone, PartialEq, Debug)]
pub struct CaseError {
    /// The path as given, with its address.
    pub path: String,
    /// The path and value of a second setting that contradicts the first.
    pub other: Option<String>,
    /// The value; `None` if the path is wrong.
    pub value: Option<Value>,
    /// The reason, and the allowed values.
    pub why: String,
}

impl CaseError {
    pub(crate) fn new(path: &str, value: Option<&Value>, why: impl Into<String>) -> CaseError {
        CaseError { path: path.to_owned(), other: None, value: value.cloned(), why: why.into() }
    }

    /// A contradiction between two settings.
    pub(crate) fn between(a: (&str, &Setting), b: (&str, &Setting), why: impl Into<String>) -> CaseError {
        CaseError {
            path: a.0.to_owned(),
            other: Some(b.0.to_owned()),
            value: Some(Value::Text(a.1.to_string())),
            why: format!("with `{}` = `{}`: {}", b.0, b.1, why.into()),
        }
    }
}

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "`{}` = `{value}`: {}", self.path, self.why),
            None => write!(f, "`{}`: {}", self.path, self.why),
        }
    }
}

impl std::error::Error for CaseError {}
