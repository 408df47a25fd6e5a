//! The controllers of `cc` on a real Linux sender, in the manner of CCP: a BPF `tcp_congestion_ops` is the data path, the decision is
//! made here, by the code that decides in the model.
//!
//! [`Shim::start`] registers the kernel's side under a name for `TCP_CONGESTION` and starts a thread that reads its records, asks a
//! controller for each connection, and writes back what it decides. Dropping the [`Shim`] takes the name away.
//!
//! Several run side by side, each with a name, a program and a thread of its own.

#[cfg(feature = "bpf")]
mod run;
mod spec;
#[cfg(feature = "bpf")]
mod sys;

use crate::Error;

pub use spec::{Outcome, Spec, Traced};

/// Arguments of `cong_control` in the kernel's `struct tcp_congestion_ops` that the shim needs: Linux 6.10 gave it the ACK's
/// number and its flags beside the rate sample.
#[cfg(any(feature = "bpf", test))]
const ARGUMENTS: usize = 4;

/// Whether the shim can run here: BPF can be used, and the kernel tells its controllers enough. Object files may do with less.
///
/// # Errors
///
/// What is missing, and how to get it.
pub fn available() -> Result<(), Error> {
    crate::available()?;
    #[cfg(feature = "bpf")]
    tells_enough(crate::load::arguments_of("cong_control"))?;
    Ok(())
}

#[cfg(any(feature = "bpf", test))]
fn tells_enough(arguments: Option<usize>) -> Result<(), Error> {
    if arguments.is_some_and(|n| n >= ARGUMENTS) {
        return Ok(());
    }
    Err(Error::Missing {
        what: "what the shim is told of each ACK (tcp_congestion_ops.cong_control with four arguments)",
        remedy: "Linux 6.10 or newer; the kernel's own controllers work, and BPF object files that it takes",
    })
}

/// A controller of `cc` in the kernel's list.
#[derive(Debug)]
pub struct Shim {
    name: String,
    #[cfg(feature = "bpf")]
    inner: run::Running,
}

impl Shim {
    /// Registers it and starts deciding.
    ///
    /// # Errors
    ///
    /// BPF is not available; there is no such controller; or the kernel refuses (no right, too old, the name is taken).
    pub fn start(spec: &Spec) -> Result<Shim, Error> {
        available()?;
        spec.check()?;
        #[cfg(feature = "bpf")]
        return Ok(Shim { name: spec.kernel_name(), inner: run::Running::start(spec)? });
        #[cfg(not(feature = "bpf"))]
        Err(Error::NotBuilt)
    }

    /// The name for `TCP_CONGESTION`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes the name away, waits for the records that are there, and says what was done. Sockets that still have it keep the last window
    /// that was decided, and the rules that the data path has of its own.
    ///
    /// # Errors
    ///
    /// The thread could not read or write what the kernel shares with it.
    pub fn stop(self) -> Result<Outcome, Error> {
        #[cfg(feature = "bpf")]
        return self.inner.stop();
        #[cfg(not(feature = "bpf"))]
        Err(Error::NotBuilt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_tells_too_little_of_an_ack_is_refused_with_the_version_that_does() {
        for arguments in [None, Some(2)] {
            let error = tells_enough(arguments).unwrap_err().to_string();
            assert!(error.contains("cong_control") && error.contains("Linux 6.10 or newer"), "{error}");
        }
        assert!(tells_enough(Some(4)).is_ok());
    }
}
