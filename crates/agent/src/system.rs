//! What steps on a kernel share: how they fail, where programs are, how a file of the kernel is written.

use std::fs;

/// What went wrong, for the outcome of the case.
pub type Failure = String;

/// Where `ip` and `tc` are.
pub const PATH: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

/// Writes a file of `/proc/sys` or `/sys` and reads it back. Fails if the kernel keeps another value.
pub fn write_and_check(path: &str, value: &str) -> Result<(), Failure> {
    fs::write(path, value).map_err(|e| format!("{path} = {value}: {e}"))?;
    let got = fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    if words(&got) == words(value) {
        Ok(())
    } else {
        Err(format!("{path}: {value} was written and it is {}", got.trim()))
    }
}
