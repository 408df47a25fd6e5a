//! Hosts that stop and begin again (`app.reboot`).
//!
//! A socket in repair mode is closed without a segment (`TCP_REPAIR`, `__tcp_close`). Until the host is back, its ports have listening
//! sockets whose filter drops every packet, so that the kernel does not answer with resets. Connections that the applications had closed
//! stay in the kernel until they end.

use crate::system::Failure;
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tcpassay_linux::sys;
use tcpassay_workload::ConnKey;

/// A classic BPF program that takes no byte of any packet.
const DROP: [(u16, u8, u8, u32); 1] = [(0x06, 0, 0, 0)];

/// The ports of hosts that have stopped.
#[derive(Default)]
pub struct HaltedHosts {
    /// The addresses of connections that vanished, until they are opened again.
    addresses: BTreeMap<ConnKey, SocketAddrV4>,
    /// A host and an address for which no socket answers any more.
    closed: Option<(usize, SocketAddrV4)>,
    /// The sockets that drop what arrives, each with its host.
    silent: Vec<(usize, OwnedFd)>,
}

impl HaltedHosts {
    /// A connection of `host` is to vanish when its socket is closed; `key`: it is one that the host has opened.
    ///
    /// # Errors
    /// A kernel that has no repair mode for this process.
    pub fn stop(&mut self, host: usize, fd: BorrowedFd, key: Option<ConnKey>) -> Result<(), Failure> {
        let address = sys::local_address(fd).map_err(|e| e.to_string())?;
        sys::set(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR, 1).map_err(|e| format!("TCP_REPAIR: {e}"))?;
        if let Some(key) = key {
            self.addresses.insert(key, address);
            self.closed = Some((host, address));
        }
        Ok(())
    }

    /// Drops what arrives for the connection that was closed, in the namespace of its host.
    ///
    /// # Errors
    /// A system call that fails.
    pub fn keep_silent(&mut self) -> Result<(), Failure> {
        let Some((host, address)) = self.closed.take() else { return Ok(()) };
        let fd = sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0).map_err(|e| format!("a socket: {e}"))?;
        let done = sys::attach_filter(fd.as_fd(), &DROP)
            .and_then(|()| sys::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1))
            .and_then(|()| sys::bind(fd.as_fd(), address))
            .and_then(|()| sys::listen(fd.as_fd(), 1));
        done.map_err(|e| format!("the port {address}: {e}"))?;
        self.silent.push((host, fd));
        Ok(())
    }

    /// A host is back: it answers again.
    pub fn boot(&mut self, host: usize) {
        self.silent.retain(|(at, _)| *at != host);
    }

    /// Binds the socket to the port of a connection that vanished.
    ///
    /// # Errors
    /// A port that is not free.
    pub fn bind_again(&mut self, fd: BorrowedFd, before: ConnKey) -> Result<(), Failure> {
        let address = self.addresses.remove(&before).ok_or("a connection that did not vanish")?;
        let done =
            sys::set(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1).and_then(|()| sys::bind(fd, address));
        done.map_err(|e| format!("the port {address}: {e}"))
    }
}
