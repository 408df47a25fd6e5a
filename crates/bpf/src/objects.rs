//! Congestion controllers that are BPF programs, from an object file. Every `struct tcp_congestion_ops` in the file is registered under its
//! own name, as by `bpftool struct_ops register`, until [`Objects`] is dropped or the process ends.

use crate::Error;
use std::path::Path;

/// Registered controllers. When this is dropped, new sockets cannot use them; a socket that uses one keeps it until it is closed.
#[derive(Debug)]
pub struct Objects {
    names: Vec<String>,
    #[cfg(feature = "bpf")]
    _loaded: (Vec<libbpf_rs::Link>, libbpf_rs::Object),
}

impl Objects {
    /// The names of the controllers in the kernel, for `TCP_CONGESTION`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Loads the object file `content`, which is read once, and registers every controller in it. Messages name it `name`.
    ///
    /// # Errors
    ///
    /// BPF is not available; the file cannot be read or contains no controller; or the kernel refuses (no permission, the name is in
    /// use, the verifier rejects a program).
    #[cfg(feature = "bpf")]
    pub fn load(name: &str, content: &Path) -> Result<Objects, Error> {
        use crate::load::{self, Registered};
        crate::available()?;
        let wrong = |why| Error::Object { path: name.into(), why };
        let content = std::fs::read(content).map_err(|e| wrong(e.to_string()))?;
        let open = || libbpf_rs::ObjectBuilder::default().open_memory(&content);
        let Registered { names, links, object } = load::register(name, open, |_| Ok(()))?;
        if names.is_empty() {
            return Err(wrong("it has no `struct tcp_congestion_ops` in a section .struct_ops".to_owned()));
        }
        Ok(Objects { names, _loaded: (links, object) })
    }

    /// Loads the object file and registers every controller in it.
    ///
    /// # Errors
    ///
    /// Always: this build has no BPF.
    #[cfg(not(feature = "bpf"))]
    pub fn load(_name: &str, _content: &Path) -> Result<Objects, Error> {
        Err(Error::NotBuilt)
    }
}
