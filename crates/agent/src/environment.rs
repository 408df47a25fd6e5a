//! Where the agent runs, and what is different with it: a guest in virtual time, or the kernel of this machine in real time.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use tcpassay_case::params::Substrate;
use tcpassay_linux::sys;

/// Queue disciplines that a case may need, with the least that `tc` wants to be told to make one.
const KINDS: [(&str, &str); 10] = [
    ("netem", "netem"),
    ("htb", "htb"),
    ("tbf", "tbf rate 1mbit burst 10kb limit 10kb"),
    ("bfifo", "bfifo limit 10000"),
    ("red", "red limit 100000 min 10000 max 30000 avpkt 1000 burst 20 bandwidth 1mbit"),
    ("codel", "codel"),
    ("fq_codel", "fq_codel"),
    ("pie", "pie"),
    ("fq", "fq"),
    ("dualpi2", "dualpi2"),
];

/// `time-travel-start`: the guest's clock at boot, in nanoseconds. The runner passes the same.
pub const BOOT: u64 = 1_000_000_000_000_000_000;

/// The parameter of patch 0008: handles with this major number are links.
pub const LINK_MAJOR: &str = "/sys/module/sch_tbf/parameters/link_major";

/// Where the agent runs.
pub struct Environment {
    /// `kernel` or `host`.
    pub substrate: Substrate,
    /// Queue disciplines that this kernel does not have.
    absent: BTreeSet<&'static str>,
    /// Why no program of ours can mark; `None` when it can.
    pub no_program: Option<String>,
}

impl Environment {
    /// A guest, which is configured to have everything.
    pub fn guest() -> Environment {
        let no_program =
            Some("no qdisc marks returning ACKs; the model does, and the substrate `host`".to_owned());
        Environment { substrate: Substrate::Kernel, absent: BTreeSet::new(), no_program }
    }

    /// This machine, as far as the process may look: without root nothing can be tried, and nothing is taken for absent.
    /// With root the process is in a network namespace of its own afterwards, in which each discipline was tried.
    pub fn host() -> std::io::Result<Environment> {
        let mut absent = BTreeSet::new();
        if sys::is_root() {
            sys::unshare_net()?;
            for (number, (kind, words)) in (1..).zip(KINDS) {
                if !queue_is_taken(number, words)? {
                    absent.insert(kind);
                }
            }
        }
        let no_program = tcpassay_bpf::available().err().map(|e| e.to_string());
        Ok(Environment { substrate: Substrate::Host, absent, no_program })
    }

    /// The name of the substrate.
    pub fn name(&self) -> &'static str {
        if self.is_host() { "host" } else { "kernel" }
    }

    /// Returns true if the run takes place in real time, on the kernel of this machine.
    pub fn is_host(&self) -> bool {
        self.substrate == Substrate::Host
    }

    /// Whether this kernel has a queue discipline.
    pub fn has(&self, kind: &str) -> bool {
        !self.absent.contains(kind)
    }

    /// Whether a queue of this kind is served as by a link here: in a guest whose kernel has patch 0008.
    pub fn link_serves(&self, kind: &str) -> bool {
        !self.is_host() && crate::netns::qdiscs::decides(kind) && std::path::Path::new(LINK_MAJOR).exists()
    }

    /// Whether this kernel lets a socket have a congestion control; what cannot be tried is taken to be there.
    pub fn has_cc(&self, name: &str) -> bool {
        use std::os::fd::AsFd;
        if !self.is_host() || !sys::is_root() {
            return true;
        }
        sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0)
            .and_then(|s| sys::set_bytes(s.as_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes()))
            .is_ok()
    }

    #[cfg(test)]
    pub fn without(absent: &[&'static str]) -> Environment {
        let no_program = Some("no BPF".to_owned());
        Environment { substrate: Substrate::Host, absent: absent.iter().copied().collect(), no_program }
    }
}

/// Whether the loopback device of the present namespace takes a queue discipline; it is gone with the namespace.
fn queue_is_taken(handle: u16, words: &str) -> std::io::Result<bool> {
    let status = Command::new("tc")
        .args(["qdisc", "replace", "dev", "lo", "root", "handle", &format!("{handle}:")])
        .args(words.split(' '))
        .env_clear()
        .env("PATH", crate::system::PATH)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|e| {
            std::io::Error::other(format!("`tc` cannot be run ({e}); it is in Debian's iproute2"))
        })?;
    Ok(status.success())
}
