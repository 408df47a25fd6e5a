//! The controllers of `cc` control the senders of a real Linux, in the way of CCP (Narayan et al., SIGCOMM 2018): a BPF
//! `tcp_congestion_ops` is the data path, and user space decides, with the same code as in the model.
//!
//! [`Shim::start`] registers a BPF program as a controller and starts a thread. The thread reads the records of the program, asks the
//! controller of each connection, and writes its decisions back. When the [`Shim`] is dropped, the kernel unregisters the controller.
//!
//! Several shims can run at the same time, each with a name, a program and a thread of its own.

#[cfg(feature = "bpf")]
mod run;
mod spec;
#[cfg(feature = "bpf")]
mod sys;

use crate::Error;

pub use spec::{ShimCounts, Spec, Traced};

/// The number of arguments of `cong_control` in `struct tcp_congestion_ops` that the shim needs. Linux 6.10 added the acknowledgement
/// number and the flags of the ACK.
#[cfg(any(feature = "bpf", test))]
const ARGUMENTS: usize = 4;

/// Succeeds if the shim can run: BPF can be used, and the kernel passes its controllers what the shim needs.
///
/// # Errors
///
/// The missing feature, and how to get it.
pub fn available() -> Result<(), Error> {
    crate::available()?;
    #[cfg(feature = "bpf")]
    has_enough_arguments(crate::load::arguments_of("cong_control"))?;
    Ok(())
}

#[cfg(any(feature = "bpf", test))]
fn has_enough_arguments(arguments: Option<usize>) -> Result<(), Error> {
    if arguments.is_some_and(|n| n >= ARGUMENTS) {
        return Ok(());
    }
    Err(Error::Missing {
        what: "the information about each ACK that the shim needs (tcp_congestion_ops.cong_control with four arguments)",
        remedy: "use Linux 6.10 or newer; the kernel's own controllers and BPF object files work without it",
    })
}

/// A controller of `cc` that is registered in the kernel.
#[derive(Debug)]
pub struct Shim {
    name: String,
    #[cfg(feature = "bpf")]
    inner: run::Running,
}

impl Shim {
    /// Registers the controller and starts its thread.
    ///
    /// # Errors
    ///
    /// BPF is not available; the controller does not exist; or the kernel refuses (no permission, too old, the name is in use).
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

    /// Unregisters the controller, processes the remaining records and returns the counts. Sockets that still use the controller keep the
    /// last decided window and follow the built-in rules of the data path.
    ///
    /// # Errors
    ///
    /// The thread could not read or write the maps of the program.
    pub fn stop(self) -> Result<ShimCounts, Error> {
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
    fn a_kernel_that_passes_too_few_arguments_is_refused_with_the_first_version_that_passes_enough() {
        for arguments in [None, Some(2)] {
            let error = has_enough_arguments(arguments).unwrap_err().to_string();
            assert!(error.contains("cong_control") && error.contains("Linux 6.10 or newer"), "{error}");
        }
        assert!(has_enough_arguments(Some(4)).is_ok());
    }
}
