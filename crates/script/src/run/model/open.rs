//! `socket`, `listen`, `accept` and `connect`.

use super::args::{Attempt, Tried, int, names, unsupported};
use super::connections::HOPS;
use super::socket::{File, Open, Role, Socket};
use super::state::{Model, Target};
use super::{config, controller};
use crate::ast::Expr;
use crate::run::sequence_map::Map;
use crate::run::stack::Trouble;
use tcpassay_tcp::{Connection, State};
use tcpassay_units::SeqNum;

impl Model {
    pub(super) fn listen(&mut self, args: &[Expr]) -> Tried {
        let fd = int(args, 0)?;
        let socket = self.socket_at(fd)?;
        match socket.role {
            Role::Fresh => socket.role = Role::Listening(Vec::new()),
            Role::Listening(_) => {}
            Role::Connected(_) => return Ok(Attempt::Error("EINVAL")),
        }
        self.target = Target::Listener(fd);
        Ok(Attempt::Done(0))
    }

    pub(super) fn accept(&mut self, args: &[Expr]) -> Tried {
        let fd = int(args, 0)?;
        let nonblocking = self.socket_at(fd)?.nonblocking;
        let Role::Listening(queue) = self.socket_at(fd)?.role.clone() else {
            return Ok(Attempt::Error("EINVAL"));
        };
        let deferred = self.socket_at(fd)?.options.defer_accept;
        let ready = |&(_, &peer): &(usize, &usize)| {
            let conn = &self.world.peers[peer].conn;
            let open = conn.was_established();
            open && (!deferred || conn.readable().get() > 0 || conn.state() != State::Established)
        };
        let Some((at, &peer)) = queue.iter().enumerate().find(ready) else {
            return Ok(if nonblocking { Attempt::Error("EAGAIN") } else { Attempt::Blocks });
        };
        let mut socket = Socket::new();
        let listener = self.socket_at(fd)?;
        if let Role::Listening(queue) = &mut listener.role {
            queue.remove(at);
            listener.accepted += 1;
        }
        socket.options = listener.options.clone();
        socket.options.inq = false;
        socket.role = Role::Connected(peer);
        self.world.peers[peer].conn.accepted();
        socket.connect_told = true;
        socket.nonblocking = names(args, 3).contains(&"SOCK_NONBLOCK");
        Ok(Attempt::New(Box::new(File::Socket(Box::new(socket)))))
    }

    /// A connection with the options of `socket`.
    pub(super) fn make(&mut self, socket: &Socket, open: Open) -> Result<usize, Trouble> {
        let host = &self.host;
        let profile = self.profile;
        let mut cfg = config::config(profile, host, &self.settings, &socket.options, open)
            .map_err(Trouble::Unsupported)?;
        cfg.keepalive = controller::keepalive(&socket.options, host);
        let name = controller::cc_name(profile, host, &socket.options);
        let cc = controller::controller(&cfg, profile, host, name).map_err(Trouble::Unsupported)?;
        let number = u32::try_from(self.world.peers.len()).expect("few connections");
        let iss = SeqNum::new(0x1000_0000_u32.wrapping_add(number.wrapping_mul(0x0100_0001)));
        let ts_offset = 0x0200_0000;
        let mut conn = match open {
            Open::Active => Connection::connect(&cfg, cc, iss, ts_offset, self.world.now),
            Open::Passive => Connection::listen(&cfg, cc, iss, ts_offset),
        };
        conn.hold_handshake_ack(open == Open::Active && socket.options.defer_accept);
        let peer = self.world.add(conn, Map::new(iss));
        self.world.peers[peer].tos = socket.options.tos;
        self.world.peers[peer].hops = socket.options.hops.unwrap_or(HOPS);
        self.world.peers[peer].bare = socket.options.bare;
        Ok(peer)
    }

    pub(super) fn connect(&mut self, args: &[Expr]) -> Tried {
        let fd = int(args, 0)?;
        let socket = self.socket_at(fd)?.clone();
        if names(args, 1) == ["AF_UNSPEC"] {
            return self.disconnect(fd);
        }
        let peer = match socket.role {
            Role::Fresh => {
                if let Some(attempt) = self.connect_fast(fd)? {
                    return Ok(attempt);
                }
                let peer = self.make(&socket, Open::Active)?;
                self.socket_at(fd)?.role = Role::Connected(peer);
                self.target = Target::Peer(peer);
                self.world.flush(peer);
                if socket.nonblocking {
                    return Ok(Attempt::Error("EINPROGRESS"));
                }
                peer
            }
            Role::Connected(peer) => peer,
            Role::Listening(_) => return Ok(Attempt::Error("EISCONN")),
        };
        if let Some(error) = self.take_error(fd, peer)? {
            return Ok(Attempt::Error(error));
        }
        match self.world.peers[peer].conn.state() {
            State::SynSent | State::SynReceived if socket.nonblocking => Ok(Attempt::Error("EALREADY")),
            State::SynSent | State::SynReceived => Ok(Attempt::Blocks),
            State::Closed => Ok(Attempt::Error("ECONNABORTED")),
            _ if socket.connect_told => Ok(Attempt::Error("EISCONN")),
            _ => {
                self.socket_at(fd)?.connect_told = true;
                Ok(Attempt::Done(0))
            }
        }
    }

    /// `connect` to no address (`tcp_disconnect` of Linux): the connection is aborted, and the socket is as new.
    pub(super) fn disconnect(&mut self, fd: i64) -> Tried {
        if self.is_bsd() {
            return Ok(Attempt::Error("EAFNOSUPPORT"));
        }
        let peer = self.socket_at(fd)?.peer();
        if let Some(peer) = peer {
            self.world.peers[peer].conn.abort(self.world.now);
            self.world.flush(peer);
        }
        let socket = self.socket_at(fd)?;
        let (options, nonblocking) = (socket.options.clone(), socket.nonblocking);
        *socket = Socket { options, nonblocking, ..Socket::new() };
        Ok(Attempt::Done(0))
    }
}

pub(super) fn socket(args: &[Expr]) -> Tried {
    let kind = names(args, 1);
    if !kind.contains(&"SOCK_STREAM") {
        return unsupported(format!("a socket of type {}", kind.join("|")));
    }
    if names(args, 2).iter().any(|n| !matches!(*n, "IPPROTO_TCP" | "0")) {
        return unsupported(format!("a socket of protocol {}", names(args, 2).join("|")));
    }
    let mut socket = Socket::new();
    socket.nonblocking = kind.contains(&"SOCK_NONBLOCK");
    Ok(Attempt::New(Box::new(File::Socket(Box::new(socket)))))
}
