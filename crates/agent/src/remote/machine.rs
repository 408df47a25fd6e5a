//! The settings of the whole machine that a case changes: parameters of the modules of congestion controllers. They have no namespace.
//!
//! Every sysctl that a parameter needs has a namespace in Linux 6.1 and later.

use crate::netns::topology::NetnsTopology;
use crate::system::Failure;
use std::fs;
use tcpassay_case::{Case, Change};

/// A file of the kernel that a run needs to have a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WantedFile {
    /// The path.
    pub file: String,
    /// The value.
    pub value: String,
    /// The parameter that needs it.
    pub parameter: &'static str,
    /// The case asks for it; a default leaves the file as it is.
    pub required: bool,
}

/// The files that the hosts of a case on this machine need.
pub fn wanted(case: &Case, topology: &NetnsTopology) -> Vec<WantedFile> {
    let mut all: Vec<WantedFile> = Vec::new();
    for host in (0..case.hosts.len()).filter(|host| topology.has_host(*host)) {
        for asked in case.changes(host) {
            let Change::Module { file, value, .. } = asked.change else { continue };
            // `stack.cc` itself has its default with other values of its parameters.
            let given =
                asked.setting != asked.parameter.default_setting() || asked.parameter.path == "stack.cc";
            let file = format!("/sys/module/{file}");
            all.push(WantedFile { file, value, parameter: asked.parameter.path, required: given });
        }
    }
    all.dedup();
    all
}

/// The reason why a file cannot have its value, as far as it is known before it is written. `allowed`: the testbed allows the change.
///
/// # Errors
/// The reason.
pub fn check(wanted: &WantedFile, allowed: bool) -> Result<(), Failure> {
    let WantedFile { file, value, .. } = wanted;
    let now = fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    if now.trim() == value || allowed {
        return Ok(());
    }
    Err(format!(
        "{file} is {} and would have to be {value} on the whole machine; `allow` does not contain `controllers`",
        now.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::placement::tests::part;
    use crate::testing::case;
    use tcpassay_case::params::Substrate;
    use tcpassay_messages::Role;

    #[test]
    fn parameters_of_a_controller_are_files_of_the_machine_of_its_host() {
        let rows = [("link.delay", "0s"), ("sender/stack.cc", "cubic"), ("sender/stack.cc.beta", "0.8")];
        let case = case(Substrate::Remote, &rows);
        let files = |own: &str| {
            let mut topology = NetnsTopology::of(&case, &Environment::without(&[]));
            topology.cut(&case, &part(own, &[("a", Role::Sender), ("b", Role::Receiver)])).unwrap();
            wanted(&case, &topology).into_iter().filter(|file| file.required).collect::<Vec<_>>()
        };
        let file = "/sys/module/tcp_cubic/parameters/beta".to_owned();
        let expected = WantedFile { file, value: "819".to_owned(), parameter: "stack.cc", required: true };
        assert_eq!(files("a"), [expected]);
        assert_eq!(files("b"), []);
    }

    #[test]
    fn a_change_that_is_not_allowed_is_an_error_with_both_values() {
        let file = std::env::temp_dir().join(format!("tcpassay-machine-{}", std::process::id()));
        fs::write(&file, "717\n").unwrap();
        let file_name = file.to_str().unwrap();
        let wanted = |value: &str| WantedFile {
            file: file_name.to_owned(),
            value: value.to_owned(),
            parameter: "stack.cc",
            required: true,
        };
        assert_eq!(check(&wanted("819"), true), Ok(()));
        assert_eq!(check(&wanted("717"), false), Ok(()));
        assert_eq!(
            check(&wanted("819"), false).unwrap_err(),
            format!(
                "{file_name} is 717 and would have to be 819 on the whole machine; `allow` does not contain `controllers`"
            )
        );
        fs::remove_file(&file).unwrap();
        assert!(check(&wanted("819"), true).unwrap_err().starts_with(file_name));
    }
}
