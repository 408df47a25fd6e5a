//! The environment of a run: a guest in virtual time, or the kernel of this machine in real time, alone or as a part of a testbed.

use std::collections::BTreeSet;
use std::fs::File;
use std::process::{Command, Stdio};
use tcpassay_case::params::Substrate;
use tcpassay_case::{LinuxQdisc, QueueKind};
use tcpassay_linux::sys;
use tcpassay_messages::Part;

/// The qdiscs that a case may need, each with the shortest arguments with which `tc` makes one.
fn qdiscs() -> impl Iterator<Item = (&'static str, &'static str)> {
    let disciplines = QueueKind::all().filter_map(|kind| match kind.linux() {
        LinuxQdisc::Own { trial, .. } | LinuxQdisc::Composed { trial } => Some((kind.qdisc(), trial)),
        LinuxQdisc::Absent(_) => None,
    });
    std::iter::once(("netem", "netem")).chain(disciplines)
}

/// The guest's clock at boot in nanoseconds: the kernel parameter `time-travel-start`, which the runner sets to the same value.
pub const BOOT: u64 = 1_000_000_000_000_000_000;

/// A parameter of the project's kernel patch 0008: a token bucket whose handle has this major number serves its queue like a link.
pub const LINK_MAJOR: &str = "/sys/module/sch_tbf/parameters/link_major";

/// The environment of a run.
pub struct Environment {
    /// `kernel`, `host` or `remote`.
    pub substrate: Substrate,
    /// Queue disciplines that this kernel does not have.
    absent: BTreeSet<&'static str>,
    /// Why BPF programs cannot mark packets; `None` if they can.
    pub no_bpf: Option<String>,
    /// The part of the testbed that this machine has.
    pub part: Option<Part>,
    /// The network namespace in which the process was started: that of the test interfaces.
    pub origin: Option<File>,
}

impl Environment {
    /// A guest. Its kernel is configured with all queue disciplines.
    pub fn guest() -> Environment {
        let no_bpf = Some("the kernel of a guest has no compiler for BPF programs".to_owned());
        Environment {
            substrate: Substrate::Kernel,
            absent: BTreeSet::new(),
            no_bpf,
            part: None,
            origin: None,
        }
    }

    /// This machine. With root privileges, the process moves to a new network namespace and tries each queue discipline there. Without them,
    /// nothing can be tried, and all queue disciplines are assumed to exist.
    pub fn host() -> std::io::Result<Environment> {
        let mut absent = BTreeSet::new();
        let origin = File::open("/proc/self/ns/net").ok();
        if sys::is_root() {
            sys::unshare_net()?;
            for (number, (kind, words)) in (1..).zip(qdiscs()) {
                if !accepts_qdisc(number, words)? {
                    absent.insert(kind);
                }
            }
        }
        let no_bpf = tcpassay_bpf::available().err().map(|e| e.to_string());
        Ok(Environment { substrate: Substrate::Host, absent, no_bpf, part: None, origin })
    }

    /// The name of the substrate.
    pub fn name(&self) -> &'static str {
        match self.substrate {
            Substrate::Remote => "remote",
            Substrate::Host => "host",
            _ => "kernel",
        }
    }

    /// Returns true if the run takes place in real time, on the kernel of this machine.
    pub fn is_host(&self) -> bool {
        matches!(self.substrate, Substrate::Host | Substrate::Remote)
    }

    /// Returns true if the machine is a part of a testbed that uses its links as they are.
    pub fn links_as_is(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.as_is)
    }

    /// Makes this machine a part of a testbed.
    pub fn join(&mut self, part: Part) {
        self.part = Some(part);
        self.substrate = Substrate::Remote;
    }

    /// Returns true if the kernel has a queue discipline.
    pub fn has(&self, kind: &str) -> bool {
        !self.absent.contains(kind)
    }

    /// Returns true if a queue of this kind can be served as by a link: in a guest whose kernel has patch 0008.
    pub fn link_serves(&self, kind: QueueKind) -> bool {
        !self.is_host() && crate::netns::qdiscs::decides(kind) && std::path::Path::new(LINK_MAJOR).exists()
    }

    /// Returns true if a socket can use a congestion controller. A controller that cannot be tried is assumed to exist.
    pub fn has_cc(&self, name: &str) -> bool {
        use std::os::fd::AsFd;
        if !self.is_host() || !sys::is_root() {
            return true;
        }
        sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0)
            .and_then(|s| sys::set_bytes(s.as_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes()))
            .is_ok()
    }

    /// A host without these queue disciplines and without BPF.
    #[cfg(test)]
    pub fn without(absent: &[&'static str]) -> Environment {
        let no_bpf = Some("no BPF".to_owned());
        let absent = absent.iter().copied().collect();
        Environment { substrate: Substrate::Host, absent, no_bpf, part: None, origin: None }
    }
}

/// Returns true if `tc` can create a queue discipline on the loopback device. It is removed with the namespace of the process.
fn accepts_qdisc(handle: u16, words: &str) -> std::io::Result<bool> {
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
