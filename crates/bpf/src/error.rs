//! Errors of BPF, as messages for the user.

use std::path::PathBuf;

/// The reason why an operation with BPF failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program was built without the feature `bpf`.
    #[error(
        "this build has no BPF: `make agent` builds it in where clang, pkg-config and the headers of libelf and zlib are \
         (Debian: apt-get install clang pkg-config libelf-dev zlib1g-dev; or run tools/bpf.sh as root)"
    )]
    NotBuilt,
    /// The kernel lacks a feature, or the process lacks a permission.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// The missing feature.
        what: &'static str,
        /// How to get it.
        remedy: &'static str,
    },
    /// The controller does not exist, or its settings are invalid.
    #[error("{0}")]
    Controller(String),
    /// The object file cannot be read, or contains no controller.
    #[error("{}: {why}", path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The kernel refused an operation.
    #[error("the kernel refused to {what}: {why}")]
    Refused {
        /// The operation.
        what: String,
        /// The messages of libbpf and errno.
        why: String,
    },
}
