//! Names of congestion controllers: those of the model, those of Linux, and those of modules of users.

use std::fmt;

/// The controllers of Linux (`net/ipv4/tcp_*.c`), and the module of this project, `mvegas`.
const OF_LINUX: [&str; 18] = [
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
    "mvegas",
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
    all[at] = "none";
    all
};

const MODULE_PREFIX: &str = "module:";

/// `TCP_CA_NAME_MAX` without the terminating zero.
const LONGEST: usize = 15;

/// The congestion controller that `stack.cc` names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CcName(Name);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Name {
    Word(&'static str),
    /// The name of a module, followed by zeros.
    Module([u8; LONGEST]),
}

/// Whether a value is `module:<name>`, with a name that Linux accepts.
pub(super) fn check_module(text: &str) -> Result<(), String> {
    let Some(name) = text.strip_prefix(MODULE_PREFIX) else { return Err(String::new()) };
    let valid = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    if (1..=LONGEST).contains(&name.len()) && name.bytes().all(valid) {
        Ok(())
    } else {
        Err(format!("a name in Linux has at most {LONGEST} letters, digits, `_`, `-` and `.`"))
    }
}

impl CcName {
    /// Reno (RFC 5681, RFC 6582), which the model and Linux have.
    pub const RENO: CcName = CcName(Name::Word("reno"));
    /// CUBIC (RFC 9438), which the model and Linux have.
    pub const CUBIC: CcName = CcName(Name::Word("cubic"));
    /// DCTCP (RFC 8257), which the model and Linux have.
    pub const DCTCP: CcName = CcName(Name::Word("dctcp"));
    /// BBR (draft-cardwell-iccrg-bbr-congestion-control-00), which the model and Linux have.
    pub const BBR: CcName = CcName(Name::Word("bbr"));

    /// No congestion control, which some real stacks have (`stack.implementation`).
    pub const NONE: CcName = CcName(Name::Word("none"));

    /// A class in Python, which only the model has.
    pub const PYTHON: CcName = CcName(Name::Word("python"));

    /// The controller of a word of [`CONTROLLERS`].
    pub(super) const fn new(word: &'static str) -> CcName {
        CcName(Name::Word(word))
    }

    /// The controller of a value that [`check_module`] accepts; `None` for another value.
    pub(super) fn module(text: &str) -> Option<CcName> {
        let name = text.strip_prefix(MODULE_PREFIX)?;
        let mut bytes = [0; LONGEST];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(CcName(Name::Module(bytes)))
    }

    /// The name in recordings and Linux.
    pub fn name(&self) -> &str {
        match &self.0 {
            Name::Word(word) => word,
            Name::Module(bytes) => {
                let end = bytes.iter().position(|b| *b == 0).unwrap_or(LONGEST);
                std::str::from_utf8(&bytes[..end]).expect("the row checks its text")
            }
        }
    }

    /// Whether the controller is that of a module, which only a kernel can have.
    pub fn is_module(&self) -> bool {
        matches!(self.0, Name::Module(_))
    }

    /// Whether Linux has a controller of this name. A kernel may have been built without it.
    pub fn in_linux(&self) -> bool {
        match self.0 {
            Name::Word(word) => contains(&OF_LINUX, word),
            Name::Module(_) => true,
        }
    }
}

impl fmt::Display for CcName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
    fn a_name_states_whether_linux_has_the_controller() {
        for (name, linux) in
            [("reno", true), ("mvegas", true), ("bbr3", false), ("cdg", true), ("none", false)]
        {
            assert_eq!(CcName::new(name).in_linux(), linux, "{name}");
        }
        assert!(!same("reno", "ren") && !same("ren", "reno") && same("reno", "reno"));
    }

    #[test]
    fn a_module_has_the_name_by_which_linux_registers_it() {
        let cc = CcName::module("module:my_cc.2").expect("a name");
        assert_eq!((cc.name(), cc.is_module(), cc.in_linux()), ("my_cc.2", true, true));
        assert_eq!(CcName::module("module:fifteen-letters").expect("a name").name(), "fifteen-letters");
        assert_eq!(check_module("module:fifteen-letters"), Ok(()));
        for wrong in ["module:", "module:sixteen--letters", "module:a b", "module:a/b", "reno"] {
            assert!(check_module(wrong).is_err(), "{wrong}");
        }
    }
}
