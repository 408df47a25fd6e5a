//! A row of the table: the declaration of a parameter together with what it changes.

use super::kind::{Kind, Setting};
use super::linux::Knob;
use super::spec::{ParamSpec, Substrates};

/// A parameter that changes the settings `S`.
#[derive(Debug)]
pub struct Row<S: 'static> {
    /// What a user may say.
    pub spec: ParamSpec,
    /// Changes the settings. A word such as `profile` may leave them as they are.
    pub set: fn(&mut S, &Setting),
    /// What Linux offers for it. Empty if the agent does it by itself, or if the row is not for kernels.
    pub linux: &'static [Knob<S>],
}

impl<S> Row<S> {
    /// A parameter without constraints: path, kind, default, levels, substrates, one line of documentation, setting.
    pub(super) const fn new(
        path: &'static str,
        kind: Kind,
        default: &'static str,
        levels: &'static [&'static str],
        substrates: Substrates,
        doc: &'static str,
        set: fn(&mut S, &Setting),
    ) -> Row<S> {
        Row {
            spec: ParamSpec { path, kind, default, levels, substrates, constraints: "", doc },
            set,
            linux: &[],
        }
    }

    /// Adds what Linux offers.
    pub(super) const fn linux(mut self, knobs: &'static [Knob<S>]) -> Row<S> {
        self.linux = knobs;
        self
    }

    /// Adds what must hold together with other parameters.
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
