//! System calls on sockets, with the errors of Linux and FreeBSD.

use super::config::{self, Open};
use super::message::asked;
use super::model::{Model, Target};
use super::packet::Map;
use super::socket::{File, Role, Socket};
use super::stack::Trouble;
use crate::ast::{Call, Expr};
use tcpassay_tcp::{ConnError, Connection, Profile, State};
use tcpassay_units::{Bytes, SeqNum};

/// What became of an attempt.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Attempt {
    /// It returned this.
    Done(i64),
    /// It returned -1 and this `errno`.
    Error(&'static str),
    /// It gave a new descriptor: whatever the script calls it.
    New(Box<File>),
    /// It blocks.
    Blocks,
}

pub(super) type Tried = Result<Attempt, Trouble>;

pub(super) fn unsupported<T>(what: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Unsupported(what.into()))
}

/// A number where one is needed.
pub(super) fn int(args: &[Expr], index: usize) -> Result<i64, Trouble> {
    match args.get(index) {
        Some(Expr::Int(n)) => Ok(*n),
        Some(Expr::List(items)) if matches!(items.as_slice(), [Expr::Int(_)]) => int(items, 0),
        _ => Err(Trouble::Nonsense(format!("argument {} must be a number", index + 1))),
    }
}

/// The names of a flag word; none for a number 0 or an absent argument.
pub(super) fn names(args: &[Expr], index: usize) -> Vec<&str> {
    match args.get(index) {
        Some(Expr::Names(names)) => names.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Whether an argument is a pointer to nowhere: `NULL`, or a number where a buffer belongs.
fn nowhere(e: &Expr) -> bool {
    match e {
        Expr::Int(_) => true,
        Expr::Names(names) => names.as_slice() == ["NULL"],
        _ => false,
    }
}

/// Whether what a call sends or receives has no buffer.
///
/// # Errors
/// Some of its buffers are there and others are not.
fn bad_buffer(call: &Call) -> Result<bool, Trouble> {
    let vector = match (call.name.as_str(), call.args.get(1)) {
        ("readv" | "writev", vector) => vector,
        ("recvmsg" | "sendmsg", Some(Expr::Group(members))) => {
            members.iter().find(|(name, _)| name == "msg_iov").map(|(_, e)| e)
        }
        (_, Some(buffer)) => return Ok(nowhere(buffer)),
        (_, None) => return Ok(false),
    };
    let Some(Expr::List(items)) = vector else { return Ok(false) };
    let mut kinds = items.iter().filter_map(|item| match item {
        Expr::Group(members) => match members.as_slice() {
            [.., (_, base), (_, Expr::Int(n))] if *n > 0 => Some(nowhere(base)),
            _ => None,
        },
        _ => None,
    });
    let first = kinds.next().unwrap_or(false);
    if kinds.any(|other| other != first) {
        return unsupported("a vector of which some buffers are bad");
    }
    Ok(first)
}

/// Whether the address, the value or the list of a call is a pointer to nowhere.
fn bad_argument(call: &Call) -> bool {
    let index = match call.name.as_str() {
        "setsockopt" | "getsockopt" => 3,
        "poll" => 0,
        _ => 1,
    };
    let null = |e: &Expr| matches!(e, Expr::Names(names) if names.as_slice() == ["NULL"]);
    call.args.get(index).is_some_and(null)
}

impl Model {
    /// Tries a call once.
    pub(super) fn attempt(&mut self, call: &Call) -> Tried {
        let args = &call.args;
        let takes = !matches!(
            call.name.as_str(),
            "socket" | "poll" | "open" | "epoll_create" | "epoll_create1" | "pipe"
        );
        if let (true, Some(Expr::Int(fd))) = (takes, args.first())
            && !self.files.contains_key(fd)
        {
            return Ok(Attempt::Error("EBADF"));
        }
        match call.name.as_str() {
            "socket" => socket(args),
            "bind" | "connect" | "getsockname" | "getpeername" | "setsockopt" | "getsockopt" | "poll"
                if bad_argument(call) =>
            {
                Ok(Attempt::Error("EFAULT"))
            }
            "bind" => {
                self.socket_of(args)?.bound = true;
                Ok(Attempt::Done(0))
            }
            "listen" => self.listen(args),
            "accept" | "accept4" => self.accept(args),
            "connect" => self.connect(args),
            "read" | "recv" | "recvfrom" | "readv" | "recvmsg" => self.receive(call),
            "write" | "send" | "sendto" | "writev" | "sendmsg" => self.send(call),
            "shutdown" => self.shutdown(args),
            "close" => self.close(args),
            "fcntl" => self.fcntl(args),
            "ioctl" => self.ioctl(args),
            "setsockopt" => self.setsockopt(args),
            "getsockopt" => self.getsockopt(args),
            "poll" => self.poll(args),
            "epoll_create" | "epoll_create1" => Ok(Attempt::New(Box::new(File::Epoll(Vec::new())))),
            "epoll_ctl" => self.epoll_ctl(args),
            "epoll_wait" => self.epoll_wait(args),
            "open" => Ok(Attempt::New(Box::new(File::Plain))),
            "pipe" => self.pipe(args),
            "splice" | "sendfile" => self.splice(call),
            "getsockname" | "getpeername" => Ok(Attempt::Done(0)),
            other => unsupported(format!("the system call `{other}`")),
        }
    }

    pub(super) fn file(&mut self, fd: i64) -> Result<&mut File, Trouble> {
        self.files.get_mut(&fd).ok_or_else(|| Trouble::Nonsense(format!("descriptor {fd} is not open")))
    }

    pub(super) fn socket_at(&mut self, fd: i64) -> Result<&mut Socket, Trouble> {
        match self.file(fd)? {
            File::Socket(socket) => Ok(socket),
            File::Epoll(_) | File::Plain => {
                Err(Trouble::Nonsense(format!("descriptor {fd} is not a socket")))
            }
        }
    }

    pub(super) fn socket_of(&mut self, args: &[Expr]) -> Result<&mut Socket, Trouble> {
        let fd = int(args, 0)?;
        self.socket_at(fd)
    }

    fn listen(&mut self, args: &[Expr]) -> Tried {
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

    fn accept(&mut self, args: &[Expr]) -> Tried {
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
        cfg.keepalive = config::keepalive(&socket.options, host);
        let name = config::cc_name(profile, host, &socket.options);
        let cc = config::controller(&cfg, profile, host, name).map_err(Trouble::Unsupported)?;
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
        self.world.peers[peer].hops = socket.options.hops.unwrap_or(super::world::HOPS);
        self.world.peers[peer].bare = socket.options.bare;
        Ok(peer)
    }

    fn connect(&mut self, args: &[Expr]) -> Tried {
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
    fn disconnect(&mut self, fd: i64) -> Tried {
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

    /// The error that ended the connection, told once.
    pub(super) fn take_error(&mut self, fd: i64, peer: usize) -> Result<Option<&'static str>, Trouble> {
        let by_icmp = self.world.peers[peer].icmp_error;
        let error = by_icmp.or_else(|| self.world.peers[peer].conn.error().map(errno));
        let socket = self.socket_at(fd)?;
        if socket.error_told {
            return Ok(None);
        }
        socket.error_told = error.is_some();
        Ok(error)
    }

    fn receive(&mut self, call: &Call) -> Tried {
        let fd = int(&call.args, 0)?;
        let socket = self.socket_at(fd)?.clone();
        let (n, flags) = asked(call)?;
        for flag in &flags {
            if !matches!(
                *flag,
                "MSG_PEEK"
                    | "MSG_DONTWAIT"
                    | "MSG_WAITALL"
                    | "MSG_TRUNC"
                    | "MSG_NOSIGNAL"
                    | "MSG_OOB"
                    | "MSG_ERRQUEUE"
                    | "0"
            ) {
                return unsupported(format!("{} with {flag}", call.name));
            }
        }
        if flags.contains(&"MSG_ERRQUEUE") {
            return self.receive_error(call, socket.peer());
        }
        if socket.deferred {
            // In SYN-SENT, whatever was not sent yet.
            let waits = !socket.nonblocking && !flags.contains(&"MSG_DONTWAIT");
            return Ok(if waits { Attempt::Blocks } else { Attempt::Error("EAGAIN") });
        }
        let Some(peer) = socket.peer() else { return Ok(Attempt::Error("ENOTCONN")) };
        if flags.contains(&"MSG_OOB") {
            return self.receive_urgent(fd, peer, flags.contains(&"MSG_PEEK"));
        }
        let now = self.world.now;
        let n = self.stop_at_mark(fd, peer, n)?;
        let conn = &mut self.world.peers[peer].conn;
        let there = conn.readable().get();
        let all =
            flags.contains(&"MSG_WAITALL") && there < n && !conn.peer_has_closed() && conn.error().is_none();
        if there > 0 && n > 0 && bad_buffer(call)? && !flags.contains(&"MSG_TRUNC") {
            return Ok(Attempt::Error("EFAULT"));
        }
        if there > 0 && !all || n == 0 {
            let got =
                if flags.contains(&"MSG_PEEK") { there.min(n) } else { conn.read(now, Bytes::new(n)).get() };
            self.world.flush(peer);
            self.check_control(call, peer, socket.options.inq)?;
            return Ok(Attempt::Done(i64::try_from(got).expect("a read of bytes that fit")));
        }
        if conn.peer_closed() {
            return Ok(Attempt::Done(0));
        }
        if let Some(error) = self.take_error(fd, peer)? {
            return Ok(Attempt::Error(error));
        }
        if socket.shut_read {
            return Ok(Attempt::Done(0));
        }
        let state = self.world.peers[peer].conn.state();
        if state == State::Closed {
            return Ok(if socket.connect_told { Attempt::Done(0) } else { Attempt::Error("ENOTCONN") });
        }
        if socket.nonblocking || flags.contains(&"MSG_DONTWAIT") {
            return Ok(Attempt::Error("EAGAIN"));
        }
        Ok(Attempt::Blocks)
    }

    /// A read ends before the urgent byte, and unless that is in line with the others it is left out (`tcp_recvmsg_locked`).
    fn stop_at_mark(&mut self, fd: i64, peer: usize, n: u64) -> Result<u64, Trouble> {
        let inline = self.socket_at(fd)?.options.flag("SO_OOBINLINE");
        let now = self.world.now;
        let conn = &mut self.world.peers[peer].conn;
        Ok(match conn.urgent_ahead() {
            Some((ahead, _)) if !ahead.is_zero() => n.min(ahead.get()),
            Some((_, true)) if !inline && n > 0 => {
                let _ = conn.read(now, Bytes::new(1));
                n
            }
            _ => n,
        })
    }

    /// `MSG_OOB` (`tcp_recv_urg`).
    fn receive_urgent(&mut self, fd: i64, peer: usize, keep: bool) -> Tried {
        let read = self.world.peers[peer].conn.info().bytes_received.get();
        let ahead = self.world.peers[peer].conn.urgent_ahead();
        let left = self.world.peers[peer].conn.readable().get();
        let socket = self.socket_at(fd)?;
        let Some((before, there)) = ahead.filter(|_| !socket.options.flag("SO_OOBINLINE")) else {
            return Ok(Attempt::Error("EINVAL"));
        };
        if !there {
            return Ok(Attempt::Error("EAGAIN"));
        }
        let end = read - left + before.get() + 1;
        if socket.urgent_taken == end {
            return Ok(Attempt::Error("EINVAL"));
        }
        if !keep {
            socket.urgent_taken = end;
        }
        Ok(Attempt::Done(1))
    }

    fn send(&mut self, call: &Call) -> Tried {
        let tried = self.send_some(call)?;
        if let Attempt::Done(n) = tried {
            let flags = asked(call)?.1;
            let socket = self.socket_of(&call.args)?.clone();
            let zero_copy = flags.contains(&"MSG_ZEROCOPY") && socket.options.flag("SO_ZEROCOPY");
            if let (Some(peer), Ok(n)) = (socket.peer(), u64::try_from(n)) {
                self.note_written(peer, n, zero_copy, socket.options.stages);
            }
        }
        Ok(tried)
    }

    fn send_some(&mut self, call: &Call) -> Tried {
        let fd = int(&call.args, 0)?;
        let socket = self.socket_at(fd)?.clone();
        let (n, flags) = asked(call)?;
        for flag in &flags {
            if !matches!(
                *flag,
                "MSG_DONTWAIT"
                    | "MSG_NOSIGNAL"
                    | "MSG_MORE"
                    | "MSG_EOR"
                    | "MSG_FASTOPEN"
                    | "MSG_OOB"
                    | "MSG_ZEROCOPY"
                    | "0"
            ) {
                return unsupported(format!("{} with {flag}", call.name));
            }
        }
        let bsd = self.is_bsd();
        let linux = matches!(self.profile, Profile::Linux | Profile::Linux46);
        let nowhere = names(&call.args, 4) == ["AF_UNSPEC"];
        if flags.contains(&"MSG_FASTOPEN") && linux && nowhere {
            return Ok(Attempt::Error("EOPNOTSUPP"));
        }
        let bad = n > 0 && bad_buffer(call)?;
        // What cannot be read does not go with a SYN, which then asks for a cookie only (`tcp_send_syn_data`).
        if let Some(attempt) = self.send_fast(fd, if bad { 0 } else { n }, &flags)? {
            return Ok(attempt);
        }
        let Some(peer) = socket.peer() else {
            return Ok(Attempt::Error(if bsd { "ENOTCONN" } else { "EPIPE" }));
        };
        if let Some(error) = self.take_error(fd, peer)? {
            return Ok(Attempt::Error(error));
        }
        let conn = &mut self.world.peers[peer].conn;
        let nonblocking = socket.nonblocking || flags.contains(&"MSG_DONTWAIT");
        match conn.state() {
            _ if socket.shut_write => return Ok(Attempt::Error("EPIPE")),
            State::Established | State::CloseWait => {}
            State::SynReceived if conn.is_fast_open_child() => {}
            State::SynSent | State::SynReceived if nonblocking => {
                return Ok(Attempt::Error(if bsd { "ENOTCONN" } else { "EAGAIN" }));
            }
            State::SynSent | State::SynReceived => {
                if self.written < n {
                    self.hold_ack(fd)?;
                }
                return Ok(Attempt::Blocks);
            }
            _ => return Ok(Attempt::Error("EPIPE")),
        }
        if bad {
            return Ok(Attempt::Error("EFAULT"));
        }
        let more = flags.contains(&"MSG_MORE");
        if !std::mem::take(&mut self.waits) || conn.check_space() {
            for end in super::errqueue::fragments(
                call,
                n,
                flags.contains(&"MSG_ZEROCOPY") && socket.options.flag("SO_ZEROCOPY"),
            ) {
                self.fill(peer, end, more, &flags);
                if end < n && self.written >= end {
                    self.world.peers[peer].conn.end_record();
                }
            }
        }
        let done = |n: u64| Ok(Attempt::Done(i64::try_from(n).expect("a write of bytes that fit")));
        if self.written >= n {
            return done(n);
        }
        match (nonblocking, self.written) {
            (true, 0) => Ok(Attempt::Error("EAGAIN")),
            (true, written) => done(written),
            (false, _) => {
                self.waits = linux;
                Ok(Attempt::Blocks)
            }
        }
    }

    /// A call has written `n` bytes, of which the error queue may tell.
    fn note_written(&mut self, peer: usize, n: u64, zero_copy: bool, stages: super::errqueue::Stages) {
        let now = self.world.now;
        let peer = &mut self.world.peers[peer];
        peer.errors.wrote(n, zero_copy, stages);
        if peer.errors.waits() {
            let info = peer.conn.info();
            peer.errors.left(now, 0, info.bytes_acked.get() + info.unacked.get());
        }
    }

    /// Writes until `n` bytes are written in this call or there is no room; what is written is sent as it may.
    fn fill(&mut self, peer: usize, n: u64, more: bool, flags: &[&str]) {
        let now = self.world.now;
        while self.written < n {
            let conn = &mut self.world.peers[peer].conn;
            let left = Bytes::new(n - self.written);
            let taken = conn.write_step(now, left, self.written == 0, more).get();
            self.written += taken;
            if flags.contains(&"MSG_EOR") && self.written >= n {
                conn.end_record();
            }
            if flags.contains(&"MSG_OOB") && self.written >= n {
                conn.mark_urgent();
            }
            self.world.flush(peer);
            if taken == 0 {
                break;
            }
        }
    }

    fn shutdown(&mut self, args: &[Expr]) -> Tried {
        let fd = int(args, 0)?;
        let how = names(args, 1);
        let Some(peer) = self.socket_at(fd)?.peer() else {
            if matches!(self.socket_at(fd)?.role, Role::Listening(_)) {
                self.socket_at(fd)?.role = Role::Fresh;
                return Ok(Attempt::Done(0));
            }
            return Ok(Attempt::Error("ENOTCONN"));
        };
        if self.world.peers[peer].conn.state() == State::Closed {
            return Ok(Attempt::Error("ENOTCONN"));
        }
        let socket = self.socket_at(fd)?;
        match how.as_slice() {
            ["SHUT_RD"] => socket.shut_read = true,
            ["SHUT_WR"] => socket.shut_write = true,
            ["SHUT_RDWR"] => (socket.shut_read, socket.shut_write) = (true, true),
            _ => return Ok(Attempt::Error("EINVAL")),
        }
        if how != ["SHUT_RD"] {
            let now = self.world.now;
            self.world.peers[peer].conn.shutdown(now);
            self.world.flush(peer);
        }
        Ok(Attempt::Done(0))
    }

    fn close(&mut self, args: &[Expr]) -> Tried {
        let fd = int(args, 0)?;
        self.file(fd)?;
        let Some(File::Socket(socket)) = self.files.remove(&fd) else { return Ok(Attempt::Done(0)) };
        let now = self.world.now;
        match socket.role {
            Role::Fresh => {}
            Role::Listening(queue) => {
                for peer in queue {
                    self.world.peers[peer].conn.abort(now);
                    self.world.flush(peer);
                }
            }
            Role::Connected(peer) => {
                let conn = &mut self.world.peers[peer].conn;
                if socket.options.linger == Some(0) {
                    conn.abort(now);
                } else {
                    conn.close(now);
                }
                self.world.flush(peer);
            }
        }
        Ok(Attempt::Done(0))
    }

    fn fcntl(&mut self, args: &[Expr]) -> Tried {
        let flags = names(args, 2);
        let socket = self.socket_of(args)?;
        match names(args, 1).as_slice() {
            ["F_GETFL"] => Ok(Attempt::Done(if socket.nonblocking { 0x802 } else { 2 })),
            ["F_SETFL"] => {
                socket.nonblocking = flags.contains(&"O_NONBLOCK");
                Ok(Attempt::Done(0))
            }
            other => unsupported(format!("fcntl {}", other.join("|"))),
        }
    }

    fn ioctl(&mut self, args: &[Expr]) -> Tried {
        let fd = int(args, 0)?;
        let request = names(args, 1).join("|");
        let peer = self.socket_at(fd)?.peer();
        let info = |conn: &Connection| conn.info();
        let value = match (request.as_str(), peer) {
            ("SIOCINQ" | "FIONREAD", Some(p)) => {
                let inline = self.socket_at(fd)?.options.flag("SO_OOBINLINE");
                let conn = &self.world.peers[p].conn;
                let mark = conn.urgent_ahead().filter(|&(_, there)| there && !inline);
                mark.map_or(conn.readable(), |(ahead, _)| ahead).get()
            }
            ("SIOCATMARK", Some(p)) => {
                u64::from(self.world.peers[p].conn.urgent_ahead().is_some_and(|(ahead, _)| ahead.is_zero()))
            }
            ("SIOCOUTQ" | "TIOCOUTQ", Some(p)) => {
                let i = info(&self.world.peers[p].conn);
                i.unacked.get() + i.notsent.get()
            }
            ("SIOCOUTQNSD", Some(p)) => info(&self.world.peers[p].conn).notsent.get(),
            ("SIOCINQ" | "FIONREAD" | "SIOCOUTQ" | "TIOCOUTQ" | "SIOCOUTQNSD", None) => {
                return Ok(Attempt::Error("EINVAL"));
            }
            _ => return unsupported(format!("ioctl {request}")),
        };
        self.told = i64::try_from(value).unwrap_or(i64::MAX);
        if let Ok(want) = int(args, 2)
            && want != self.told
        {
            return Err(Trouble::Mismatch { expected: format!("[{want}]"), live: format!("[{value}]") });
        }
        Ok(Attempt::Done(0))
    }
}

fn socket(args: &[Expr]) -> Tried {
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

fn errno(error: ConnError) -> &'static str {
    match error {
        ConnError::Reset => "ECONNRESET",
        ConnError::TimedOut => "ETIMEDOUT",
        ConnError::Refused => "ECONNREFUSED",
    }
}
