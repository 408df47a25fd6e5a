//! The error type of the agent, the search path of programs, and writing to files of the kernel.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use tcpassay_linux::sys;

/// An error as a message for the user.
pub type Failure = String;

/// The search path for `ip` and `tc`.
pub const PATH: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

/// The release of the kernel.
pub fn release() -> String {
    let text = sys::read_text("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_owned()
}

/// The number that the kernel has drawn at its boot.
pub fn boot() -> String {
    let text = sys::read_text("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Writes a file of `/proc/sys` or `/sys` and reads it back. Fails if the kernel keeps another value.
pub fn write_and_check(path: &str, value: &str) -> Result<(), Failure> {
    let wrong = |e: std::io::Error| format!("{path} = {value}: {e}");
    let mut file = fs::File::options().read(true).write(true).truncate(true).open(path).map_err(wrong)?;
    file.write_all(value.as_bytes()).map_err(wrong)?;
    // One read returns the whole value; each further system call stops a guest.
    let mut bytes = [0; 4096];
    let n = file.read_at(&mut bytes, 0).map_err(|e| format!("{path}: {e}"))?;
    let got = String::from_utf8_lossy(&bytes[..n]);
    // The kernel separates numbers by tabs.
    if got.split_whitespace().eq(value.split_whitespace()) {
        Ok(())
    } else {
        Err(format!("{path}: {value} was written and it is {}", got.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_a_file_does_not_keep_is_an_error_with_both_values() {
        // Writes to /dev/null succeed, and reads return nothing.
        assert_eq!(write_and_check("/dev/null", "7").unwrap_err(), "/dev/null: 7 was written and it is ");
        assert_eq!(write_and_check("/dev/null", " "), Ok(()));
    }

    #[test]
    fn a_file_that_does_not_exist_is_an_error_with_its_path() {
        let error = write_and_check("/proc/sys/net/ipv4/no_such_sysctl", "1").unwrap_err();
        assert!(error.starts_with("/proc/sys/net/ipv4/no_such_sysctl = 1: "), "{error}");
    }
}
