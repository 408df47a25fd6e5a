//! Module parameters that the hosts of a guest require. On substrate `host` the module parameters of the
//! kernel are not changed.

use crate::system::{Failure, write_and_check};
use std::fs;
use tcpassay_case::{Case, Change};

/// Sets the parameters of modules, and reads them back. The declaration of a parameter states the value that
/// corresponds to a kernel without the file.
pub fn set(case: &Case) -> Result<(), Failure> {
    writes(case, &|path| fs::exists(path).unwrap_or(false))
        .into_iter()
        .try_for_each(|(path, value)| write_and_check(&path, &value))
}

/// The files to write with their values. A file that does not exist is written only if the value differs from that of
/// a kernel without it; the write then fails.
fn writes(case: &Case, exists: &dyn Fn(&str) -> bool) -> Vec<(String, String)> {
    let changes = (0..case.hosts.len()).flat_map(|host| case.changes(host));
    let file = |change| match change {
        Change::Module { file, value, absent } => {
            let path = format!("/sys/module/{file}");
            (value != absent || exists(&path)).then_some((path, value))
        }
        _ => None,
    };
    changes.filter_map(|asked| file(asked.change)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::case;
    use tcpassay_case::params::Substrate;

    const RECEIVER: &str = "/sys/module/tcp_dctcp/parameters/dctcp_receiver";

    fn written(rows: &[(&str, &str)], existing: &[&str]) -> Vec<(String, String)> {
        writes(&case(Substrate::Kernel, rows), &|path| existing.contains(&path))
    }

    #[test]
    fn a_parameter_of_a_controller_is_written_with_its_value_for_linux() {
        let rows = [("stack.cc", "cubic"), ("stack.hystart", "linux-delay")];
        let expected = [("hystart", "1"), ("hystart_detect", "2")]
            .map(|(name, value)| (format!("/sys/module/tcp_cubic/parameters/{name}"), value.to_owned()));
        let written = written(&rows, &[]);
        assert!(expected.iter().all(|one| written.contains(one)), "{written:?}");
    }

    #[test]
    fn a_file_that_does_not_exist_is_not_written_with_the_value_of_a_kernel_without_it() {
        let dctcp = [("stack.cc", "dctcp"), ("stack.ecn", "dctcp")];
        let of_receiver = |written: Vec<(String, String)>| -> Vec<String> {
            written.into_iter().filter(|(path, _)| path == RECEIVER).map(|(_, value)| value).collect()
        };
        // Both hosts of a pair use the module; 0 is the receiver of a kernel without the file.
        assert_eq!(of_receiver(written(&dctcp, &[])), Vec::<String>::new());
        assert_eq!(of_receiver(written(&dctcp, &[RECEIVER])), ["0", "0"]);
        let rearm = [dctcp[0], dctcp[1], ("stack.dctcp_receiver", "rearm")];
        assert_eq!(of_receiver(written(&rearm, &[])), ["2", "2"]);
    }
}
