//! How the applications' connections are opened and accepted.

use super::{Listener, TrafficRuntime};
use crate::system::Failure;
use crate::traffic::addresses::{client_port, connect, server_address};
use crate::traffic::endpoint::{Endpoint, IoMode};
use crate::traffic::io_threads;
use std::cell::Cell;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};
use tcpassay_linux::sys;
use tcpassay_workload::{ConnKey, SocketId};

impl TrafficRuntime<'_> {
    /// Opens the socket of a connection that an application opens at the start of the run.
    pub fn open_before_start(&mut self, host: usize, key: ConnKey) -> Result<(), Failure> {
        let fd = self.open_client(host, key)?;
        self.opened.add(host, key, fd);
        Ok(())
    }

    /// Returns true if applications open connections at the start of the run.
    pub fn opens_at_start(&self) -> bool {
        !self.opened.is_empty()
    }

    /// Sends the SYNs of all connections whose sockets are open, before the applications ask for them.
    pub fn connect_opened(&mut self) -> Result<(), Failure> {
        self.opened.each(connect)
    }

    /// The socket of a connection at its client, not yet connected.
    fn open_client(&mut self, host: usize, key: ConnKey) -> Result<OwnedFd, Failure> {
        let fd = self.open(host, key.part)?;
        if !self.local.is_empty() {
            // The server's agent learns from the port which connection of the workload it is.
            let client = SocketAddrV4::new(*server_address(host, 0).ip(), client_port(key)?);
            sys::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1).map_err(|e| e.to_string())?;
            sys::bind(fd.as_fd(), client).map_err(|e| format!("the port {client}: {e}"))?;
        }
        Ok(fd)
    }

    /// Opens the connection `key` from a host, from the port of the connection `before`, if there was one.
    pub fn connect(
        &mut self,
        host: usize,
        slot: SocketId,
        key: ConnKey,
        before: Option<ConnKey>,
    ) -> Result<(), Failure> {
        let fd = if let Some(before) = before {
            let fd = self.open(host, key.part)?;
            self.halted.bind_again(fd.as_fd(), before)?;
            connect(fd.as_fd(), key)?;
            fd
        } else if let Some(fd) = self.opened.take(host, key) {
            fd
        } else {
            let fd = self.open_client(host, key)?;
            connect(fd.as_fd(), key)?;
            fd
        };
        let server = server_address(key.server.0 as usize, key.part);
        let flows = self.add_flows(key);
        let client = sys::local_address(fd.as_fd()).map_err(|e| e.to_string())?;
        self.flow_tracker.open((key.client.0, client.port()), (key.server.0, server.port()), flows);
        if self.is_local(key.server.0) {
            self.pending.insert(client, server, (key, flows));
        }
        let endpoint = self.new_endpoint(fd, host, (slot, key), flows);
        self.add(endpoint, [client, server]).map(drop)
    }

    /// Accepts all connections that wait at a listener. `assign` gives each of them a slot, and tells whether its application only reads.
    /// Returns the indices of the new endpoints.
    pub fn accept(
        &mut self,
        listener: usize,
        mut assign: impl FnMut(usize, ConnKey) -> (SocketId, bool),
    ) -> Result<Vec<usize>, Failure> {
        let Listener { host, address, .. } = self.listeners[listener];
        let mut new = Vec::new();
        loop {
            let (fd, peer) = match sys::accept(self.listeners[listener].fd.as_fd()) {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(new),
                Err(e) => return Err(format!("accepting: {e}")),
            };
            let taken = self.pending.take(peer, address).or_else(|| {
                self.expect(peer, address);
                self.pending.take(peer, address)
            });
            let Some((key, [incoming, outgoing])) = taken else {
                return Err(format!("a connection from {peer} to {address} that no application opened"));
            };
            let (slot, only_reads) = assign(host, key);
            let endpoint = self.new_endpoint(fd, host, (slot, key), [outgoing, incoming]);
            if endpoint.quickack {
                sys::set(endpoint.fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1)
                    .map_err(|e| e.to_string())?;
            }
            let mut io = IoMode::Application;
            // The kernel resets TCP_QUICKACK between reads, so that an application with `app.quickack` reads by itself.
            if self.io_threads && only_reads && !endpoint.quickack {
                let fd = endpoint.fd.try_clone().map_err(|e| e.to_string())?;
                let reader = io_threads::start_reader(fd).map_err(|e| format!("a reader: {e}"))?;
                io = IoMode::Reader(Some(reader), 0);
            }
            let may_have_data = Cell::new(true);
            let endpoint = Endpoint { connected: true, may_have_data, only_reads, io, ..endpoint };
            new.push(self.add(endpoint, [address, peer])?);
        }
    }
}
