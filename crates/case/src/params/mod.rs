//! The one parameter table.
//!
//! A case is a set of triples `<entity, parameter, value>`. Every parameter is declared here once, with its kind
//! (and so its unit), suggested levels, default, the substrates that honour it, constraints and one line of doc;
//! plan files, the command line, reports and the replay command all read this table ([`to_json`]).
//!
//! * The default is the simplest value, so that isolating a cause and printing the shortest replay agree on what
//!   "simpler" is. A row of `stack` whose default is `profile` takes what `stack.profile` says.
//! * The unit stands in the value (`"10ms"`, `"1Gbit"`, `"30KB"`); a bare number is refused where a unit is needed.
//! * A path may be addressed to one side or instance: `sender/stack.ecn`, `receiver0/nic.gro`,
//!   `access/link.delay`. The most specific address wins; a plain path is for all instances
//!   (see [`topology`](crate::topology) for the names).
//!
//! This module must not know how a parameter is honoured: that is the part of the settings of a [`Case`](crate::Case).

mod app;
pub mod grammar;
mod json;
mod kind;
mod net;
mod nic;
mod stack;

pub use json::to_json;
pub use kind::{Kind, Setting, Value};

use std::fmt;

/// Where a parameter is honoured: `model`, `kernel`, `host`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Substrates {
    /// The simulator of this crate.
    pub model: bool,
    /// A real Linux kernel in virtual time (User-Mode Linux).
    pub kernel: bool,
    /// The running kernel, in network namespaces.
    pub host: bool,
}

/// Where a case runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Substrate {
    /// The simulator of this crate.
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
    /// The simplest value; what holds when a case says nothing.
    pub default: &'static str,
    /// Suggested levels for a plan, simplest first.
    pub levels: &'static [&'static str],
    /// Who honours it.
    pub substrates: Substrates,
    /// What must hold together with other parameters; empty when nothing.
    pub constraints: &'static str,
    /// One line.
    pub doc: &'static str,
}

impl ParamSpec {
    const fn new(
        path: &'static str,
        kind: Kind,
        default: &'static str,
        levels: &'static [&'static str],
        substrates: Substrates,
        doc: &'static str,
    ) -> ParamSpec {
        ParamSpec { path, kind, default, levels, substrates, constraints: "", doc }
    }

    const fn needs(mut self, constraints: &'static str) -> ParamSpec {
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

/// Every parameter, in the order of the entities. The parameters of controllers (`stack.cc.<name>`) are not rows:
/// they are declared by the controllers themselves ([`tcpassay_cc::params`]) and joined in [`to_json`].
pub const TABLE: [&[ParamSpec]; 4] = [app::ROWS, stack::ROWS, nic::ROWS, net::ROWS];

/// All rows in order.
pub fn rows() -> impl Iterator<Item = &'static ParamSpec> {
    TABLE.iter().copied().flatten()
}

/// The row of `path`.
pub fn find(path: &str) -> Option<&'static ParamSpec> {
    rows().find(|row| row.path == path)
}

/// The known path that looks most like `path`, when any does.
pub fn nearest(path: &str) -> Option<&'static str> {
    let close = |known: &'static str| (distance(path, known), known);
    let (edits, known) = rows().map(|row| close(row.path)).min()?;
    (edits <= path.len().div_ceil(3)).then_some(known)
}

/// Levenshtein distance between two short texts.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_default_and_level_is_a_value_of_its_kind() {
        for row in rows() {
            for text in row.levels.iter().chain([&row.default]) {
                let parsed = row.kind.parse(&Value::Text((*text).to_owned()));
                assert!(parsed.is_ok(), "{} = {text}: {}", row.path, parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn every_path_stands_once_and_has_a_doc_line() {
        let mut seen = BTreeSet::new();
        for row in rows() {
            assert!(seen.insert(row.path), "{} stands twice", row.path);
            assert!(row.doc.len() > 10 && !row.doc.contains('\n'), "{}", row.path);
            assert!(row.levels.first().is_none_or(|first| *first == row.default), "{}", row.path);
        }
        assert!(seen.len() > 90, "{}", seen.len());
    }

    #[test]
    fn the_nearest_name_is_suggested_for_a_slip_and_nothing_for_nonsense() {
        assert_eq!(nearest("link.dealy"), Some("link.delay"));
        assert_eq!(nearest("queue.ecn_treshold"), Some("queue.ecn_threshold"));
        assert_eq!(nearest("flux.capacitor"), None);
    }
}
