//! System calls.

use super::{Conn, FIRST_LOCAL, LOCAL, PORT, REMOTE, Role, Socket, StackTarget, Subject};
use crate::ast::{Expr, Syscall};
use crate::run::model::args::{int, names, unsupported};
use crate::run::model::buffers::requested;
use crate::run::sequence_map::SequenceMap;
use crate::run::target::{ScriptError, SyscallResult};
use std::net::SocketAddrV4;
use tcpassay_stack::SocketStatus;
use tcpassay_units::SeqNum;

/// Bytes that a call passes to the stack at once.
const STEP: u64 = 32_768;

fn done(bytes: u64) -> SyscallResult {
    SyscallResult::Done(i64::try_from(bytes).expect("bytes that fit memory"))
}

/// Refuses a `MSG_*` flag that is not among these.
fn only(call: &Syscall, flags: &[&str], known: &[&str]) -> Result<(), ScriptError> {
    match flags.iter().find(|flag| !known.contains(flag)) {
        Some(flag) => unsupported(format!("{} with {flag} on another TCP", call.name)),
        None => Ok(()),
    }
}

impl StackTarget {
    /// Makes a call, or makes a call that blocked again.
    pub(super) fn syscall(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError> {
        let args = &call.args;
        let name = call.name.as_str();
        let takes = !["socket", "poll", "open", "epoll_create", "epoll_create1", "pipe"].contains(&name);
        if takes
            && let Some(Expr::Int(fd)) = args.first()
            && !self.files.contains_key(fd)
        {
            return Ok(SyscallResult::errno("EBADF"));
        }
        match name {
            "socket" => self.socket(args),
            "bind" | "getsockname" | "getpeername" => Ok(SyscallResult::Done(0)),
            "listen" => self.listen(args),
            "accept" | "accept4" => self.accept(args),
            "connect" => self.connect(args),
            "read" | "recv" | "recvfrom" | "readv" | "recvmsg" => self.receive(call),
            "write" | "send" | "sendto" | "writev" | "sendmsg" => self.send(call),
            "shutdown" => self.shutdown(args),
            "close" => self.close(args),
            "fcntl" => self.fcntl(args),
            "setsockopt" => self.socket_of(args)?.options.set(args),
            "getsockopt" => {
                unsupported(format!("getsockopt {}: a stack shows no options", names(args, 2).join("|")))
            }
            other => unsupported(format!("the system call `{other}` on another TCP")),
        }
    }

    fn socket_of(&mut self, args: &[Expr]) -> Result<&mut Socket, ScriptError> {
        let fd = int(args, 0)?;
        let file = self.files.get_mut(&fd);
        file.ok_or_else(|| ScriptError::Invalid(format!("descriptor {fd} is not a socket")))
    }

    fn socket(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let kind = names(args, 1);
        if !kind.contains(&"SOCK_STREAM") {
            return unsupported(format!("a socket of type {}", kind.join("|")));
        }
        let nonblocking = kind.contains(&"SOCK_NONBLOCK");
        self.new_file = Some(Socket { nonblocking, ..Socket::default() });
        Ok(SyscallResult::NewDescriptor)
    }

    fn listen(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let socket = self.socket_of(args)?;
        let options = socket.options.clone();
        match socket.role {
            Role::Fresh => {}
            Role::Listening(_) => return Ok(SyscallResult::Done(0)),
            Role::Connected(_) => return Ok(SyscallResult::errno("EINVAL")),
        }
        self.running(&options)?;
        self.made(|stack, now| stack.listen(now, PORT))?;
        self.socket_of(args)?.role = Role::Listening([].into());
        self.subject = Subject::Listener;
        Ok(SyscallResult::Done(0))
    }

    fn accept(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let socket = self.socket_of(args)?;
        let Role::Listening(queue) = &mut socket.role else { return Ok(SyscallResult::errno("EINVAL")) };
        let Some(conn) = queue.pop_front() else {
            let nonblocking = socket.nonblocking;
            return Ok(if nonblocking { SyscallResult::errno("EAGAIN") } else { SyscallResult::Blocks });
        };
        self.new_file = Some(Socket {
            role: Role::Connected(conn),
            options: socket.options.clone(),
            nonblocking: names(args, 3).contains(&"SOCK_NONBLOCK"),
            connect_reported: true,
            ..Socket::default()
        });
        Ok(SyscallResult::NewDescriptor)
    }

    fn connect(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        if names(args, 1) == ["AF_UNSPEC"] {
            return unsupported("connect with AF_UNSPEC on another TCP");
        }
        let socket = self.socket_of(args)?.clone();
        match socket.role {
            Role::Fresh => {
                self.running(&socket.options)?;
                let opened = self.connections.iter().filter(|conn| conn.local.port() >= FIRST_LOCAL).count();
                let port = u16::try_from(opened).ok().and_then(|n| FIRST_LOCAL.checked_add(n));
                let Some(port) = port else { return unsupported("more connections than there are ports") };
                let conn = self.add(SocketAddrV4::new(LOCAL, port), SocketAddrV4::new(REMOTE, PORT));
                self.subject = Subject::Connection(conn);
                self.socket_of(args)?.role = Role::Connected(conn);
                // Its SYN arrives with the answer to the call.
                let made =
                    self.made(|stack, now| stack.connect(now, port, SocketAddrV4::new(REMOTE, PORT)))?;
                self.connections[conn].socket = Some(made);
                Ok(if socket.nonblocking {
                    SyscallResult::errno("EINPROGRESS")
                } else {
                    SyscallResult::Blocks
                })
            }
            Role::Connected(conn) => {
                let status = self.status_of(conn);
                if let Some(errno) = self.take_error(args, conn)? {
                    return Ok(SyscallResult::errno(errno));
                }
                Ok(match (status.established, socket.connect_reported) {
                    (false, _) if socket.nonblocking => SyscallResult::errno("EALREADY"),
                    (false, _) => SyscallResult::Blocks,
                    (true, true) => SyscallResult::errno("EISCONN"),
                    (true, false) => {
                        self.socket_of(args)?.connect_reported = true;
                        SyscallResult::Done(0)
                    }
                })
            }
            Role::Listening(_) => Ok(SyscallResult::errno("EISCONN")),
        }
    }

    /// Registers a connection.
    pub(super) fn add(&mut self, local: SocketAddrV4, remote: SocketAddrV4) -> usize {
        let map = SequenceMap::new(SeqNum::new(0));
        self.connections.push(Conn { local, remote, map, socket: None, reset: false });
        self.connections.len() - 1
    }

    fn status_of(&self, conn: usize) -> SocketStatus {
        let socket = self.connections[conn].socket;
        socket.and_then(|socket| self.status.get(&socket).copied()).unwrap_or_default()
    }

    /// The error of a connection that has failed, once.
    fn take_error(&mut self, args: &[Expr], conn: usize) -> Result<Option<&'static str>, ScriptError> {
        let reset = self.connections[conn].reset;
        let failed = self.status_of(conn).failed;
        let socket = self.socket_of(args)?;
        if !failed || std::mem::replace(&mut socket.error_reported, true) {
            return Ok(None);
        }
        Ok(Some(match (reset, socket.connect_reported) {
            (true, true) => "ECONNRESET",
            (true, false) => "ECONNREFUSED",
            (false, _) => "ETIMEDOUT",
        }))
    }

    fn receive(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError> {
        let args = &call.args;
        let (wanted, flags) = requested(call)?;
        only(call, &flags, &["MSG_PEEK", "MSG_DONTWAIT", "MSG_NOSIGNAL", "0"])?;
        let socket = self.socket_of(args)?.clone();
        let Role::Connected(conn) = socket.role else { return Ok(SyscallResult::errno("ENOTCONN")) };
        let status = self.status_of(conn);
        if flags.contains(&"MSG_PEEK") && status.readable > 0 {
            return Ok(done(wanted.min(status.readable as u64)));
        }
        if status.readable > 0 {
            let id = self.connections[conn].socket.expect("a socket with a status");
            let most = usize::try_from(wanted).unwrap_or(usize::MAX).min(status.readable);
            let mut buffer = vec![0; most];
            let got = self.made(|stack, now| stack.read(now, id, &mut buffer))?;
            return Ok(done(got as u64));
        }
        if status.end_of_stream {
            return Ok(SyscallResult::Done(0));
        }
        if let Some(errno) = self.take_error(args, conn)? {
            return Ok(SyscallResult::errno(errno));
        }
        if status.closed {
            return Ok(SyscallResult::Done(0));
        }
        let waits = !socket.nonblocking && !flags.contains(&"MSG_DONTWAIT");
        Ok(if waits { SyscallResult::Blocks } else { SyscallResult::errno("EAGAIN") })
    }

    fn send(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError> {
        let args = &call.args;
        let (wanted, flags) = requested(call)?;
        only(call, &flags, &["MSG_DONTWAIT", "MSG_NOSIGNAL", "0"])?;
        let socket = self.socket_of(args)?.clone();
        let Role::Connected(conn) = socket.role else { return Ok(SyscallResult::errno("EPIPE")) };
        if let Some(errno) = self.take_error(args, conn)? {
            return Ok(SyscallResult::errno(errno));
        }
        let nonblocking = socket.nonblocking || flags.contains(&"MSG_DONTWAIT");
        let status = self.status_of(conn);
        if socket.shut_write || status.closed {
            return Ok(SyscallResult::errno("EPIPE"));
        }
        if !status.established {
            return Ok(if nonblocking { SyscallResult::errno("EAGAIN") } else { SyscallResult::Blocks });
        }
        let id = self.connections[conn].socket.expect("a socket with a status");
        while self.written < wanted {
            let step = usize::try_from((wanted - self.written).min(STEP)).expect("at most a step");
            let taken = self.made(|stack, now| stack.write(now, id, &vec![0; step]))?;
            self.written += taken as u64;
            if taken < step {
                break;
            }
        }
        Ok(match self.written {
            written if written >= wanted => done(written),
            0 if nonblocking => SyscallResult::errno("EAGAIN"),
            written if nonblocking => done(written),
            _ => SyscallResult::Blocks,
        })
    }

    fn shutdown(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let how = names(args, 1).join("|");
        if how != "SHUT_WR" {
            return unsupported(format!(
                "shutdown with {how}: another TCP closes its sending direction only"
            ));
        }
        let Role::Connected(conn) = self.socket_of(args)?.role else {
            return Ok(SyscallResult::errno("ENOTCONN"));
        };
        let Some(id) = self.connections[conn].socket.filter(|_| !self.status_of(conn).closed) else {
            return Ok(SyscallResult::errno("ENOTCONN"));
        };
        self.socket_of(args)?.shut_write = true;
        self.made(|stack, now| stack.shutdown(now, id))?;
        Ok(SyscallResult::Done(0))
    }

    fn close(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let fd = int(args, 0)?;
        let Some(socket) = self.files.remove(&fd) else { return Ok(SyscallResult::errno("EBADF")) };
        // The port of a listening socket stays open: no stack has a call that closes it.
        let Role::Connected(conn) = socket.role else { return Ok(SyscallResult::Done(0)) };
        let open = self.connections[conn].socket.filter(|_| !self.status_of(conn).closed);
        if let Some(id) = open {
            let aborts = socket.options.aborts;
            self.made(|stack, now| if aborts { stack.abort(now, id) } else { stack.close(now, id) })?;
        }
        Ok(SyscallResult::Done(0))
    }

    fn fcntl(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let socket = self.socket_of(args)?;
        match names(args, 1).as_slice() {
            ["F_GETFL"] => Ok(SyscallResult::Done(if socket.nonblocking { 0x802 } else { 2 })),
            ["F_SETFL"] => {
                socket.nonblocking = names(args, 2).contains(&"O_NONBLOCK");
                Ok(SyscallResult::Done(0))
            }
            other => unsupported(format!("fcntl {}", other.join("|"))),
        }
    }
}
