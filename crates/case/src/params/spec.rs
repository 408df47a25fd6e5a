//! What the table says of a parameter.

use super::kind::{Kind, Setting, Value};
use std::fmt;

/// Where a parameter is honoured: `model`, `kernel`, `host`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Substrates {
    /// The simulator.
    pub model: bool,
    /// A real Linux kernel in virtual time (User-Mode Linux).
    pub kernel: bool,
    /// The running kernel, in network namespaces.
    pub host: bool,
}

/// Where a case runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Substrate {
    /// The simulator.
    #[default]
    Model,
    /// A real Linux kernel in virtual time.
    Kernel,
    /// The running kernel, in network namespaces.
    Host,
}

impl Substrates {
    /// Whether it is among them.
    pub fn has(self, substrate: Substrate) -> bool {
        match substrate {
            Substrate::Model => self.model,
            Substrate::Kernel => self.kernel,
            Substrate::Host => self.host,
        }
    }

    /// Everywhere.
    pub const MKH: Substrates = Substrates { model: true, kernel: true, host: true };
    /// Where time is virtual.
    pub const MK: Substrates = Substrates { model: true, kernel: true, host: false };
    /// The model alone.
    pub const M: Substrates = Substrates { model: true, kernel: false, host: false };
    /// A kernel in virtual time alone.
    pub const K: Substrates = Substrates { model: false, kernel: true, host: false };
    /// The host's kernel alone.
    pub const H: Substrates = Substrates { model: false, kernel: false, host: true };
    /// Real kernels alone.
    pub const KH: Substrates = Substrates { model: false, kernel: true, host: true };
    /// The model and the host's kernel.
    pub const MH: Substrates = Substrates { model: true, kernel: false, host: true };

    /// The names, in the table's order.
    pub fn names(self) -> Vec<&'static str> {
        let all = [(self.model, "model"), (self.kernel, "kernel"), (self.host, "host")];
        all.into_iter().filter_map(|(here, name)| here.then_some(name)).collect()
    }
}

impl fmt::Display for Substrates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(", "))
    }
}

/// One parameter: one knob of an entity.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// `<entity>.<name>`, e.g. `link.delay`.
    pub path: &'static str,
    /// What values it takes, and in which unit.
    pub kind: Kind,
    /// The default, which is the simplest value.
    pub default: &'static str,
    /// Suggested levels for a plan, simplest first.
    pub levels: &'static [&'static str],
    /// Who honours it.
    pub substrates: Substrates,
    /// Constraints with other parameters, as text; empty without constraints.
    pub constraints: &'static str,
    /// One line.
    pub doc: &'static str,
}

impl ParamSpec {
    pub(super) const fn new(
        path: &'static str,
        kind: Kind,
        default: &'static str,
        levels: &'static [&'static str],
        substrates: Substrates,
        doc: &'static str,
    ) -> ParamSpec {
        ParamSpec { path, kind, default, levels, substrates, constraints: "", doc }
    }

    pub(super) const fn needs(mut self, constraints: &'static str) -> ParamSpec {
        self.constraints = constraints;
        self
    }

    /// The default, parsed. Panics when the table is wrong (a test parses every default and level).
    pub fn default_setting(&self) -> Setting {
        self.kind
            .parse(&Value::Text(self.default.to_owned()))
            .unwrap_or_else(|why| panic!("default of {}: {why}", self.path))
    }
}
