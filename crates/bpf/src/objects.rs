//! Congestion controllers that are BPF programs themselves, given as an object file: every `struct tcp_congestion_ops` in it is
//! registered under its own name, as `bpftool struct_ops register` would, and gone when [`Objects`] is dropped or the process dies.

use crate::Error;
use std::path::Path;

/// Registered controllers; dropping it takes them away from new sockets (those that have one keep it until they close).
#[derive(Debug)]
pub struct Objects {
    names: Vec<String>,
    #[cfg(feature = "bpf")]
    _loaded: (Vec<libbpf_rs::Link>, libbpf_rs::Object),
}

impl Objects {
    /// What the kernel calls them: the names for `TCP_CONGESTION`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Loads the object file and registers every controller in it.
    ///
    /// # Errors
    ///
    /// BPF is not available; the file cannot be read or holds no controller; or the kernel refuses (no right, a name
    /// that is taken, a program that its verifier rejects).
    #[cfg(feature = "bpf")]
    pub fn load(path: &Path) -> Result<Objects, Error> {
        use crate::load::{self, Kept};
        crate::available()?;
        std::fs::read(path).map_err(|e| Error::Object { path: path.to_owned(), why: e.to_string() })?;
        let open = || libbpf_rs::ObjectBuilder::default().open_file(path);
        let Kept { names, links, object } = load::register(&path.display().to_string(), open, |_| Ok(()))?;
        if names.is_empty() {
            let why = "it has no `struct tcp_congestion_ops` in a section .struct_ops".to_owned();
            return Err(Error::Object { path: path.to_owned(), why });
        }
        Ok(Objects { names, _loaded: (links, object) })
    }

    /// Loads the object file and registers every controller in it.
    ///
    /// # Errors
    ///
    /// This build cannot.
    #[cfg(not(feature = "bpf"))]
    pub fn load(_path: &Path) -> Result<Objects, Error> {
        Err(Error::NotBuilt)
    }
}
