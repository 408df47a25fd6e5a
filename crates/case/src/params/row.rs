//! A row of the table: the declaration of a parameter with the setting and the knobs that it changes.

use super::kind::{Setting, ValueKind};
use super::linux::Knob;
use super::spec::{ParamSpec, Substrates};

/// A parameter that changes the settings `S`.
#[derive(Debug)]
pub struct Row<S: 'static> {
    /// The declaration for users: path, kind, default, levels.
    pub spec: ParamSpec,
    /// Changes the settings. A word such as `profile` may leave them as they are.
    pub set: fn(&mut S, &Setting),
    /// The knobs of Linux. Empty if the agent implements the parameter itself, or if kernels do not support
    /// it.
    pub linux: &'static [Knob<S>],
}

impl<S> Row<S> {
    /// A parameter without constraints: path, kind, default, levels, substrates, one line of documentation, setting.
    pub(super) const fn new(
        path: &'static str,
        kind: ValueKind,
        default: &'static str,
        levels: &'static [&'static str],
        substrates: Substrates,
        doc: &'static str,
        set: fn(&mut S, &Setting),
    ) -> Row<S> {
        Row { spec: ParamSpec::new(path, kind, default, levels, substrates, doc), set, linux: &[] }
    }

    /// Adds the knobs of Linux.
    pub(super) const fn linux(mut self, knobs: &'static [Knob<S>]) -> Row<S> {
        self.linux = knobs;
        self
    }

    /// Adds the constraints with other parameters, as text.
    pub(super) const fn needs(mut self, constraints: &'static str) -> Row<S> {
        self.spec.constraints = constraints;
        self
    }
}

/// Sets a field to a value, if there is one.
pub(super) fn put<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}
