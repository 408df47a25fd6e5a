//! `socket`, `listen`, `accept` and `connect`.

use super::args::{int, names, unsupported};
use super::connections::DEFAULT_HOP_LIMIT;
use super::socket::{File, OpenMode, Role, Socket};
use super::state::{Model, SocketUnderTest};
use super::{config, controller};
use crate::ast::Expr;
use crate::run::sequence_map::SequenceMap;
use crate::run::target::{ScriptError, SyscallResult};
use tcpassay_tcp::{Connection, State};
use tcpassay_units::SeqNum;

impl Model {
    pub(super) fn socket(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let kind = names(args, 1);
        if !kind.contains(&"SOCK_STREAM") {
            return unsupported(format!("a socket of type {}", kind.join("|")));
        }
        if names(args, 2).iter().any(|n| !matches!(*n, "IPPROTO_TCP" | "0")) {
            return unsupported(format!("a socket of protocol {}", names(args, 2).join("|")));
        }
        let mut socket = Socket::new();
        socket.nonblocking = kind.contains(&"SOCK_NONBLOCK");
        Ok(self.new_descriptor(File::Socket(Box::new(socket))))
    }

    pub(super) fn listen(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let fd = int(args, 0)?;
        let socket = self.socket_at(fd)?;
        match socket.role {
            Role::Fresh => socket.role = Role::Listening(Vec::new()),
            Role::Listening(_) => {}
            Role::Connected(_) => return Ok(SyscallResult::errno("EINVAL")),
        }
        self.socket_under_test = SocketUnderTest::Listener(fd);
        Ok(SyscallResult::Done(0))
    }

    pub(super) fn accept(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let fd = int(args, 0)?;
        let nonblocking = self.socket_at(fd)?.nonblocking;
        let Role::Listening(queue) = self.socket_at(fd)?.role.clone() else {
            return Ok(SyscallResult::errno("EINVAL"));
        };
        let deferred = self.socket_at(fd)?.options.defer_accept;
        let ready = |&(_, &index): &(usize, &usize)| {
            let conn = &self.table.connections[index].conn;
            let open = conn.was_established();
            open && (!deferred || conn.readable().get() > 0 || conn.state() != State::Established)
        };
        let Some((at, &index)) = queue.iter().enumerate().find(ready) else {
            return Ok(if nonblocking { SyscallResult::errno("EAGAIN") } else { SyscallResult::Blocks });
        };
        let mut socket = Socket::new();
        let listener = self.socket_at(fd)?;
        if let Role::Listening(queue) = &mut listener.role {
            queue.remove(at);
            listener.accepted += 1;
        }
        socket.options = listener.options.clone();
        socket.options.inq = false;
        socket.role = Role::Connected(index);
        self.table.connections[index].conn.accepted();
        socket.connect_reported = true;
        socket.nonblocking = names(args, 3).contains(&"SOCK_NONBLOCK");
        Ok(self.new_descriptor(File::Socket(Box::new(socket))))
    }

    /// Creates a connection with the options of `socket`.
    pub(super) fn new_connection(&mut self, socket: &Socket, open: OpenMode) -> Result<usize, ScriptError> {
        let host = &self.host;
        let profile = self.profile;
        let mut cfg = config::config(profile, host, &self.settings, &socket.options, open)
            .map_err(ScriptError::Unsupported)?;
        cfg.keepalive = controller::keepalive(&socket.options, host);
        let name = controller::cc_name(profile, host, &socket.options);
        let cc = controller::controller(&cfg, name).map_err(ScriptError::Unsupported)?;
        let number = u32::try_from(self.table.connections.len()).expect("few connections");
        let iss = SeqNum::new(0x1000_0000_u32.wrapping_add(number.wrapping_mul(0x0100_0001)));
        let ts_offset = 0x0200_0000;
        let mut conn = match open {
            OpenMode::Active => Connection::connect(&cfg, cc, iss, ts_offset, self.table.now),
            OpenMode::Passive => Connection::listen(&cfg, cc, iss, ts_offset),
        };
        conn.hold_handshake_ack(open == OpenMode::Active && socket.options.defer_accept);
        let index = self.table.add(conn, SequenceMap::new(iss));
        self.table.connections[index].tos = socket.options.tos;
        self.table.connections[index].hops = socket.options.hops.unwrap_or(DEFAULT_HOP_LIMIT);
        self.table.connections[index].no_options = socket.options.no_options;
        Ok(index)
    }

    pub(super) fn connect(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let fd = int(args, 0)?;
        let socket = self.socket_at(fd)?.clone();
        if names(args, 1) == ["AF_UNSPEC"] {
            return self.disconnect(fd);
        }
        let index = match socket.role {
            Role::Fresh => {
                if let Some(attempt) = self.connect_fast(fd)? {
                    return Ok(attempt);
                }
                let index = self.new_connection(&socket, OpenMode::Active)?;
                self.socket_at(fd)?.role = Role::Connected(index);
                self.socket_under_test = SocketUnderTest::Connection(index);
                self.table.flush(index);
                if socket.nonblocking {
                    return Ok(SyscallResult::errno("EINPROGRESS"));
                }
                index
            }
            Role::Connected(index) => index,
            Role::Listening(_) => return Ok(SyscallResult::errno("EISCONN")),
        };
        if let Some(error) = self.take_error(fd, index)? {
            return Ok(SyscallResult::errno(error));
        }
        match self.table.connections[index].conn.state() {
            State::SynSent | State::SynReceived if socket.nonblocking => Ok(SyscallResult::errno("EALREADY")),
            State::SynSent | State::SynReceived => Ok(SyscallResult::Blocks),
            State::Closed => Ok(SyscallResult::errno("ECONNABORTED")),
            _ if socket.connect_reported => Ok(SyscallResult::errno("EISCONN")),
            _ => {
                self.socket_at(fd)?.connect_reported = true;
                Ok(SyscallResult::Done(0))
            }
        }
    }

    /// `connect` with `AF_UNSPEC` (`tcp_disconnect` of Linux): aborts the connection; the socket keeps its options.
    pub(super) fn disconnect(&mut self, fd: i64) -> Result<SyscallResult, ScriptError> {
        if self.is_bsd() {
            return Ok(SyscallResult::errno("EAFNOSUPPORT"));
        }
        let index = self.socket_at(fd)?.connection();
        if let Some(index) = index {
            self.table.connections[index].conn.abort(self.table.now);
            self.table.flush(index);
        }
        let socket = self.socket_at(fd)?;
        let (options, nonblocking) = (socket.options.clone(), socket.nonblocking);
        *socket = Socket { options, nonblocking, ..Socket::new() };
        Ok(SyscallResult::Done(0))
    }
}
