//! Parameters of modules that the hosts of a guest ask for. Those of this machine's kernel belong to the machine.

use crate::system::{Failure, write_and_check};
use std::fs;
use tcpassay_case::{Case, Change};

/// Sets the parameters of modules, and reads them back. A kernel without the file behaves by the value that the declaration names.
pub fn set(case: &Case) -> Result<(), Failure> {
    for host in 0..case.hosts.len() {
        for asked in case.changes(host) {
            let Change::Module { file, value, absent } = asked.change else { continue };
            let path = format!("/sys/module/{file}");
            if value != absent || fs::exists(&path).unwrap_or(false) {
                write_and_check(&path, &value)?;
            }
        }
    }
    Ok(())
}
