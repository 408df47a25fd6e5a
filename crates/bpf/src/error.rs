//! What the user is told when BPF cannot be had.

use std::path::PathBuf;

/// Why something that needs BPF was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program was built without the feature `bpf`.
    #[error(
        "this build has no BPF: `make agent` builds it in where clang, pkg-config and the headers of libelf and zlib are \
         (Debian: apt-get install clang pkg-config libelf-dev zlib1g-dev; or run tools/bpf.sh as root)"
    )]
    NotBuilt,
    /// The kernel or the rights that the process has do not allow it.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// What is not there.
        what: &'static str,
        /// How it can be had.
        remedy: &'static str,
    },
    /// There is no such controller, or it cannot be made so.
    #[error("{0}")]
    Controller(String),
    /// The object file cannot be read, or holds nothing that is wanted.
    #[error("{}: {why}", path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The kernel refused; in its words.
    #[error("the kernel refused to {what}: {why}")]
    Refused {
        /// What was asked of it.
        what: String,
        /// libbpf's words and errno's.
        why: String,
    },
}
