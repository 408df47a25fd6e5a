//! BPF in the running kernel.
//!
//! * [`limiter`]: the marking of a rate limiter, by the backlog of the queue of a device.
//! * [`shim`]: the controllers of `cc` control real senders. The kernel reports events as [`Record`]s, which a [`ControlledConnection`] translates.
//! * [`objects`]: congestion controllers that are BPF programs, from an object file.
//!
//! The C sources are in `src/bpf` under GPL-2.0, because they call functions of the kernel that only GPL programs may call. The build
//! script compiles them with clang, and the binary contains them as data. `src/bpf/kernel.h` declares those fields of kernel
//! structures that the programs use; libbpf relocates them to the layout of the running kernel.
//!
//! Without the feature `bpf` this crate compiles everywhere without further tools, and every function returns [`Error::NotBuilt`].
//!
//! This crate knows controllers and units; it must not know cases, plans, or the applications whose sockets it drives.

mod connection;
mod error;
pub mod limiter;
#[cfg(feature = "bpf")]
mod load;
pub mod objects;
mod record;
pub mod shim;

pub use connection::{ControlledConnection, Decision, Reserve};
pub use error::Error;
pub use record::{INFINITE, Record, RecordKind, SIZE};

/// Succeeds if BPF can be used: the feature is built in and the kernel has type information (BTF).
///
/// # Errors
///
/// The missing feature, and how to get it.
pub fn available() -> Result<(), Error> {
    if !cfg!(feature = "bpf") {
        return Err(Error::NotBuilt);
    }
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(Error::Missing {
            what: "the kernel's description of its own types (/sys/kernel/btf/vmlinux)",
            remedy: "a kernel built with CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_JIT",
        });
    }
    Ok(())
}
