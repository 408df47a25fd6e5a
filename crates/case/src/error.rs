//! Why a case is refused.

use crate::params::{Setting, Value};
use std::fmt;

/// What is wrong with a case, in one sentence: the parameter, the value, and what is allowed.
#[derive(Clone, PartialEq, Debug)]
pub struct CaseError {
    /// The path as it was given, with its address.
    pub path: String,
    /// A second path that the first contradicts, when there is one.
    pub other: Option<String>,
    /// The value; `None` when the path itself is wrong.
    pub value: Option<Value>,
    /// What is wrong, and what is allowed.
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
