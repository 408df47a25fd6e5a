//! BPF in the running kernel.
//!
//! * [`limiter`]: the step of a rate limiter, which marks by the backlog of a device's queue.
//! * [`shim`]: the controllers of `cc` drive a real sender; [`Record`] is what the kernel tells, [`Connection`] what is made of it.
//! * [`objects`]: congestion controllers that are BPF programs, given as an object file.
//!
//! The C sources are in `src/bpf`, each under GPL-2.0, because what they call in the kernel is for GPL programs alone; the build script
//! compiles them with clang and they travel in the binary as data. The structures of the kernel that they read are declared by
//! hand in `src/bpf/kernel.h`, with the fields that are used and no others: libbpf finds where those lie in the running kernel.
//!
//! Without the feature `bpf` this crate compiles everywhere, needs nothing, and every entry answers [`Error::NotBuilt`].
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

pub use connection::{Connection, Decision, Reserve};
pub use error::Error;
pub use record::{INFINITE, Kind, Limit, Record, SIZE, State};

/// Whether BPF can be used here: built in, by root, on a kernel that describes itself.
///
/// # Errors
///
/// What is missing, and how to get it.
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
