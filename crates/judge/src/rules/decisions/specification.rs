//! What the specifications of controllers have in common.

use std::collections::BTreeMap;
use tcpassay_cc::{Control, Event, View};

/// The specification of a controller, with the variables that follow from the events so far.
pub(super) trait Specification {
    /// Processes an event. Returns what the specification gives if `asked` differs from it.
    fn on(&mut self, view: &View, event: &Event, asked: &Control) -> Option<Control>;
    /// The variables, for the text of a finding.
    fn variables(&self) -> String;
}

/// The values of a controller's parameters.
pub(super) struct Values<'a>(pub &'a BTreeMap<String, f64>);

impl Values<'_> {
    pub fn get(&self, name: &str, default: f64) -> f64 {
        self.0.get(name).copied().unwrap_or(default)
    }
}
