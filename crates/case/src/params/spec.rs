//! The declaration of a parameter.

use super::kind::{Setting, Value, ValueKind};
use std::fmt;

/// The substrates that support a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a set: each substrate is a member or not")]
pub struct Substrates {
    /// The simulator.
    pub model: bool,
    /// A real Linux kernel in virtual time (User-Mode Linux).
    pub kernel: bool,
    /// The running kernel, in network namespaces.
    pub host: bool,
    /// The running kernels of several hosts.
    pub remote: bool,
}

/// The substrate on which a case runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Substrate {
    /// The simulator.
    #[default]
    Model,
    /// A real Linux kernel in virtual time.
    Kernel,
    /// The running kernel, in network namespaces.
    Host,
    /// The running kernels of several hosts, connected by their interfaces.
    Remote,
}

impl Substrates {
    /// Whether the set contains `substrate`.
    pub fn has(self, substrate: Substrate) -> bool {
        match substrate {
            Substrate::Model => self.model,
            Substrate::Kernel => self.kernel,
            Substrate::Host => self.host,
            Substrate::Remote => self.remote,
        }
    }

    /// All substrates.
    pub const MKH: Substrates = Substrates { model: true, kernel: true, host: true, remote: true };
    /// The substrates with virtual time.
    pub const MK: Substrates = Substrates { model: true, kernel: true, host: false, remote: false };
    /// Only the model.
    pub const M: Substrates = Substrates { model: true, kernel: false, host: false, remote: false };
    /// The model, guests, and hosts with real network interfaces.
    pub const MKR: Substrates = Substrates { model: true, kernel: true, host: false, remote: true };
    /// The model, and hosts with real network interfaces.
    pub const MR: Substrates = Substrates { model: true, kernel: false, host: false, remote: true };
    /// Only a kernel in virtual time.
    pub const K: Substrates = Substrates { model: false, kernel: true, host: false, remote: false };
    /// Only running kernels in real time.
    pub const H: Substrates = Substrates { model: false, kernel: false, host: true, remote: true };
    /// Only real kernels.
    pub const KH: Substrates = Substrates { model: false, kernel: true, host: true, remote: true };
    /// The model and running kernels in real time.
    pub const MH: Substrates = Substrates { model: true, kernel: false, host: true, remote: true };

    /// The names of the substrates, in the order of the documentation.
    pub fn names(self) -> Vec<&'static str> {
        let all =
            [(self.model, "model"), (self.kernel, "kernel"), (self.host, "host"), (self.remote, "remote")];
        all.into_iter().filter_map(|(here, name)| here.then_some(name)).collect()
    }
}

impl fmt::Display for Substrates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(", "))
    }
}

/// The declaration of one parameter.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// `<entity>.<name>`, e.g. `link.delay`.
    pub path: &'static str,
    /// The accepted values, with their unit.
    pub kind: ValueKind,
    /// The default, which is the simplest value.
    pub default: &'static str,
    /// Suggested levels for a plan, simplest first.
    pub levels: &'static [&'static str],
    /// The substrates that support it.
    pub substrates: Substrates,
    /// Constraints with other parameters, as text; empty without constraints.
    pub constraints: &'static str,
    /// One line of documentation.
    pub doc: &'static str,
}

impl ParamSpec {
    pub(super) const fn new(
        path: &'static str,
        kind: ValueKind,
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
