//! Names of congestion controllers: those of the model and those of Linux.

use std::fmt;

/// The controllers of Linux (`net/ipv4/tcp_*.c`).
const OF_LINUX: [&str; 17] = [
    "bbr",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "reno",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
];

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

const fn contains(names: &[&str], name: &str) -> bool {
    let mut i = 0;
    while i < names.len() && !same(names[i], name) {
        i += 1;
    }
    i < names.len()
}

/// Number of controllers.
const COUNT: usize = {
    let (mut count, mut i) = (tcpassay_cc::NAMES.len() + 1, 0);
    while i < OF_LINUX.len() {
        if !contains(&tcpassay_cc::NAMES, OF_LINUX[i]) {
            count += 1;
        }
        i += 1;
    }
    count
};

/// The controllers of the model, those that only Linux has, and none.
pub(super) const CONTROLLERS: [&str; COUNT] = {
    let mut all = [""; COUNT];
    let (mut at, mut i) = (0, 0);
    while i < tcpassay_cc::NAMES.len() + OF_LINUX.len() {
        let own = i < tcpassay_cc::NAMES.len();
        let name = if own { tcpassay_cc::NAMES[i] } else { OF_LINUX[i - tcpassay_cc::NAMES.len()] };
        if own || !contains(&tcpassay_cc::NAMES, name) {
            all[at] = name;
            at += 1;
        }
        i += 1;
    }
    all[at] = CcName::NONE.0;
    all
};

/// The congestion controller that `stack.cc` names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CcName(&'static str);

impl CcName {
    /// Reno (RFC 5681, RFC 6582), which the model and Linux have.
    pub const RENO: CcName = CcName("reno");
    /// CUBIC (RFC 9438), which the model and Linux have.
    pub const CUBIC: CcName = CcName("cubic");
    /// DCTCP (RFC 8257), which the model and Linux have.
    pub const DCTCP: CcName = CcName("dctcp");
    /// BBR (draft-cardwell-iccrg-bbr-congestion-control-00), which the model and Linux have.
    pub const BBR: CcName = CcName("bbr");

    /// No congestion control, which some real stacks have (`stack.implementation`).
    pub const NONE: CcName = CcName("none");

    /// A class in Python, which only the model has.
    pub const PYTHON: CcName = CcName("python");

    /// The controller of a word of [`CONTROLLERS`].
    pub(super) const fn new(word: &'static str) -> CcName {
        CcName(word)
    }

    /// The name in cases, recordings and Linux.
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// Whether the model has the controller.
    pub fn in_model(self) -> bool {
        self == CcName::PYTHON || contains(&tcpassay_cc::NAMES, self.0)
    }

    /// Whether Linux has a controller of this name. A kernel may have been built without it.
    pub fn in_linux(self) -> bool {
        contains(&OF_LINUX, self.0)
    }
}

impl fmt::Display for CcName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controllers_of_the_model_come_first_and_no_name_occurs_twice() {
        assert_eq!(CONTROLLERS[..7], ["reno", "cubic", "dctcp", "vegas", "mvegas", "bbr", "bbr3"]);
        assert_eq!((CONTROLLERS.len(), CONTROLLERS[19]), (20, "none"));
        let once: std::collections::BTreeSet<_> = CONTROLLERS.iter().collect();
        assert_eq!(once.len(), 20);
    }

    #[test]
    fn a_name_states_whether_the_model_and_linux_have_the_controller() {
        for (name, model, linux) in [
            ("reno", true, true),
            ("mvegas", true, false),
            ("bbr", true, true),
            ("cdg", false, true),
            ("dctcp", true, true),
        ] {
            assert_eq!((CcName(name).in_model(), CcName(name).in_linux()), (model, linux), "{name}");
        }
        assert!(!same("reno", "ren") && !same("ren", "reno") && same("reno", "reno"));
    }
}
