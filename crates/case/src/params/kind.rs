//! Kinds of values, and values.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use tcpassay_units::{Bytes, Dur, Rate};

/// A value as written in a plan file or on the command line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `true`, `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with decimals.
    Real(f64),
    /// A text: a word, or a number with its unit.
    Text(String),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(b) => f.write_str(if *b { "on" } else { "off" }),
            Value::Int(n) => n.fmt(f),
            Value::Real(x) => x.fmt(f),
            Value::Text(text) => f.write_str(text),
        }
    }
}

/// The set of values that a parameter accepts.
#[derive(Clone, Copy, Debug)]
pub enum ValueKind {
    /// `on` or `off` (`true`, `false`).
    Bool,
    /// A whole number in a range, inclusive.
    Int {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// A number from 0 to 1, or a percentage (`"0.1%"`).
    Probability,
    /// A length of time in a range, inclusive.
    Dur {
        /// Shortest.
        min: Dur,
        /// Longest.
        max: Dur,
    },
    /// A number of bytes in a range, inclusive.
    Bytes {
        /// Smallest.
        min: Bytes,
        /// Largest.
        max: Bytes,
    },
    /// Bits per second.
    Rate,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One of these words, or a value of the kind.
    Or(&'static [&'static str], &'static ValueKind),
    /// A text with its own grammar.
    Text {
        /// The description of the grammar, for messages.
        form: &'static str,
        /// The check of a text; its error is the reason why the text is wrong.
        check: fn(&str) -> Result<(), String>,
    },
}

/// A parsed value.
#[derive(Clone, PartialEq, Debug)]
pub enum Setting {
    /// On or off.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A probability.
    Probability(f64),
    /// A length of time.
    Dur(Dur),
    /// A number of bytes.
    Bytes(Bytes),
    /// A rate.
    Rate(Rate),
    /// A word of a [`ValueKind::Choice`] or [`ValueKind::Or`].
    Word(&'static str),
    /// A text that passed its grammar's check.
    Text(String),
}

impl Setting {
    /// The value of a switch; `None` for a word.
    pub fn switch(&self) -> Option<bool> {
        if let Setting::Bool(on) = self { Some(*on) } else { None }
    }

    /// A whole number; `None` for a word. Panics if it does not fit 32 bits: the ranges of the table do.
    pub fn int(&self) -> Option<u32> {
        if let Setting::Int(n) = self {
            Some(u32::try_from(*n).expect("ranges of the table fit 32 bits"))
        } else {
            None
        }
    }

    /// A probability; `None` for a word.
    pub fn probability(&self) -> Option<f64> {
        if let Setting::Probability(p) = self { Some(*p) } else { None }
    }

    /// A length of time; `None` for a word.
    pub fn dur(&self) -> Option<Dur> {
        if let Setting::Dur(d) = self { Some(*d) } else { None }
    }

    /// A number of bytes; `None` for a word.
    pub fn bytes(&self) -> Option<Bytes> {
        if let Setting::Bytes(bytes) = self { Some(*bytes) } else { None }
    }

    /// A rate; `None` for a word.
    pub fn rate(&self) -> Option<Rate> {
        if let Setting::Rate(rate) = self { Some(*rate) } else { None }
    }

    /// A word; `None` for any other setting.
    pub fn word(&self) -> Option<&'static str> {
        if let Setting::Word(word) = self { Some(word) } else { None }
    }

    /// A text, read by its grammar; `None` for a word. Panics if the grammar is not that of the row.
    pub fn parsed<T: FromStr<Err = String>>(&self) -> Option<T> {
        if let Setting::Text(text) = self {
            Some(text.parse().expect("the row checks its text"))
        } else {
            None
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Bool(b) => f.write_str(if *b { "on" } else { "off" }),
            Setting::Int(n) => n.fmt(f),
            Setting::Probability(p) => p.fmt(f),
            Setting::Dur(d) => d.fmt(f),
            Setting::Bytes(b) => b.fmt(f),
            Setting::Rate(r) => r.fmt(f),
            Setting::Word(w) => f.write_str(w),
            Setting::Text(t) => f.write_str(t),
        }
    }
}

impl ValueKind {
    /// Any length of time up to an hour.
    pub const DUR: ValueKind = ValueKind::Dur { min: Dur::ZERO, max: Dur::from_secs(3600) };
    /// Any number of bytes from 1 up to a terabyte.
    pub const BYTES: ValueKind = ValueKind::Bytes { min: Bytes::new(1), max: Bytes::new(1_000_000_000_000) };
    /// `profile` (the setting of the profile), `on` or `off`.
    pub const SWITCH: ValueKind = ValueKind::Or(&["profile"], &ValueKind::Bool);

    /// The allowed values, as a phrase: `a length of time from 0s to 3600s`.
    pub fn allowed(&self) -> String {
        match self {
            ValueKind::Bool => "on or off".to_owned(),
            ValueKind::Int { min, max } => format!("a whole number from {min} to {max}"),
            ValueKind::Probability => "a probability from 0 to 1, or a percentage as in `0.1%`".to_owned(),
            ValueKind::Dur { min, max } => format!("a length of time from {min} to {max}, as in `10ms`"),
            ValueKind::Bytes { min, max } => format!("a number of bytes from {min} to {max}, as in `30KB`"),
            ValueKind::Rate => "a rate, as in `1Gbit`".to_owned(),
            ValueKind::Choice(words) => format!("one of {}", words.join(", ")),
            ValueKind::Or(words, kind) => format!("{}, or {}", words.join(", "), kind.allowed()),
            ValueKind::Text { form, .. } => (*form).to_owned(),
        }
    }

    /// The unit or kind in one word, for tables.
    pub fn name(&self) -> &'static str {
        match self {
            ValueKind::Bool => "switch",
            ValueKind::Int { .. } => "integer",
            ValueKind::Probability => "probability",
            ValueKind::Dur { .. } => "time",
            ValueKind::Bytes { .. } => "bytes",
            ValueKind::Rate => "rate",
            ValueKind::Choice(_) => "choice",
            ValueKind::Or(_, kind) => kind.name(),
            ValueKind::Text { .. } => "text",
        }
    }

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// The reason and the allowed values. The name of the parameter is not repeated.
    pub fn parse(&self, value: &Value) -> Result<Setting, String> {
        let refuse = || Err(format!("allowed is {}", self.allowed()));
        match (self, value) {
            (ValueKind::Or(words, kind), _) => {
                if let Value::Text(text) = value
                    && let Some(word) = words.iter().find(|w| *w == text)
                {
                    return Ok(Setting::Word(word));
                }
                // If `off` is one of the words it takes precedence over the switch. `false` in TOML means
                // the same.
                if *value == Value::Bool(false)
                    && let Some(word) = words.iter().find(|w| **w == "off")
                {
                    return Ok(Setting::Word(word));
                }
                kind.parse(value).or_else(|_| refuse())
            }
            (ValueKind::Bool, Value::Bool(b)) => Ok(Setting::Bool(*b)),
            (ValueKind::Bool, Value::Text(t)) if t == "on" || t == "true" => Ok(Setting::Bool(true)),
            (ValueKind::Bool, Value::Text(t)) if t == "off" || t == "false" => Ok(Setting::Bool(false)),
            (ValueKind::Int { min, max }, _) => {
                let n = match value {
                    Value::Int(n) => Some(*n),
                    Value::Text(t) => t.parse().ok(),
                    _ => None,
                };
                n.filter(|n| (min..=max).contains(&n)).map_or_else(refuse, |n| Ok(Setting::Int(n)))
            }
            (ValueKind::Probability, _) => {
                probability(value).map_or_else(refuse, |p| Ok(Setting::Probability(p)))
            }
            (ValueKind::Dur { min, max }, Value::Text(t)) => match t.parse::<Dur>() {
                Ok(d) if (min..=max).contains(&&d) => Ok(Setting::Dur(d)),
                Ok(_) => refuse(),
                Err(why) => Err(why.to_string()),
            },
            (ValueKind::Bytes { min, max }, Value::Text(t)) => match t.parse::<Bytes>() {
                Ok(b) if (min..=max).contains(&&b) => Ok(Setting::Bytes(b)),
                Ok(_) => refuse(),
                Err(why) => Err(why.to_string()),
            },
            (ValueKind::Rate, Value::Text(t)) => t.parse().map(Setting::Rate).map_err(|why| why.to_string()),
            (
                ValueKind::Dur { .. } | ValueKind::Bytes { .. } | ValueKind::Rate,
                Value::Int(_) | Value::Real(_),
            ) => Err(format!("the unit is missing; allowed is {}", self.allowed())),
            (ValueKind::Choice(words), Value::Text(t)) => {
                words.iter().find(|w| *w == t).map_or_else(refuse, |w| Ok(Setting::Word(w)))
            }
            (ValueKind::Choice(words), Value::Bool(b)) => {
                let word = if *b { "on" } else { "off" };
                words.iter().find(|w| **w == word).map_or_else(refuse, |w| Ok(Setting::Word(w)))
            }
            (ValueKind::Text { form, check }, _) => {
                let text = value.to_string();
                match check(&text) {
                    Ok(()) => Ok(Setting::Text(text)),
                    Err(why) if why.is_empty() => Err(format!("allowed is {form}")),
                    Err(why) => Err(format!("{why}; allowed is {form}")),
                }
            }
            _ => refuse(),
        }
    }
}

fn probability(value: &Value) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "only 0 and 1 pass the range below")]
    let p = match value {
        Value::Int(n) => *n as f64,
        Value::Real(x) => *x,
        Value::Text(t) => match t.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().ok()? / 100.0,
            None => t.parse().ok()?,
        },
        Value::Bool(_) => return None,
    };
    (0.0..=1.0).contains(&p).then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bare_number_is_refused_where_a_unit_is_needed() {
        let error = ValueKind::DUR.parse(&Value::Int(10)).unwrap_err();
        assert_eq!(error, "the unit is missing; allowed is a length of time from 0s to 3600s, as in `10ms`");
        assert!(ValueKind::Rate.parse(&Value::from("10")).is_err());
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_the_range() {
        let kind = ValueKind::Int { min: 1, max: 9 };
        assert_eq!(kind.parse(&Value::Int(10)).unwrap_err(), "allowed is a whole number from 1 to 9");
        assert_eq!(kind.parse(&Value::from("9")), Ok(Setting::Int(9)));
    }

    #[test]
    fn a_probability_may_be_a_percentage_and_never_exceeds_one() {
        assert_eq!(ValueKind::Probability.parse(&Value::from("25%")), Ok(Setting::Probability(0.25)));
        assert_eq!(ValueKind::Probability.parse(&Value::Real(0.001)), Ok(Setting::Probability(0.001)));
        assert!(ValueKind::Probability.parse(&Value::Real(1.5)).is_err());
        assert!(ValueKind::Probability.parse(&Value::from("NaN")).is_err());
    }

    #[test]
    fn switches_read_words_and_booleans_and_may_be_left_to_the_profile() {
        assert_eq!(ValueKind::SWITCH.parse(&Value::Bool(true)), Ok(Setting::Bool(true)));
        assert_eq!(ValueKind::SWITCH.parse(&Value::from("off")), Ok(Setting::Bool(false)));
        assert_eq!(ValueKind::SWITCH.parse(&Value::from("profile")), Ok(Setting::Word("profile")));
        assert!(ValueKind::SWITCH.parse(&Value::from("maybe")).is_err());
    }

    proptest! {
        #[test]
        fn a_setting_prints_as_a_value_that_parses_to_it(ns in 0u64..3_600_000_000_000, n in 1u64..1_000_000_000_000) {
            for (kind, setting) in [
                (ValueKind::DUR, Setting::Dur(Dur::from_nanos(ns))),
                (ValueKind::BYTES, Setting::Bytes(Bytes::new(n))),
                (ValueKind::Rate, Setting::Rate(Rate::from_bits_per_sec(n))),
            ] {
                prop_assert_eq!(kind.parse(&Value::Text(setting.to_string())), Ok(setting));
            }
        }
    }
}
