//! `shutdown`, `close`, `fcntl` and `ioctl`.

use super::args::{int, names, unsupported};
use super::socket::{File, Role};
use super::state::Model;
use crate::ast::Expr;
use crate::run::target::{ScriptError, SyscallResult};
use tcpassay_tcp::{Connection, State};

impl Model {
    pub(super) fn shutdown(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let fd = int(args, 0)?;
        let how = names(args, 1);
        let Some(index) = self.socket_at(fd)?.connection() else {
            if matches!(self.socket_at(fd)?.role, Role::Listening(_)) {
                self.socket_at(fd)?.role = Role::Fresh;
                return Ok(SyscallResult::Done(0));
            }
            return Ok(SyscallResult::errno("ENOTCONN"));
        };
        if self.table.connections[index].conn.state() == State::Closed {
            return Ok(SyscallResult::errno("ENOTCONN"));
        }
        let socket = self.socket_at(fd)?;
        match how.as_slice() {
            ["SHUT_RD"] => socket.shut_read = true,
            ["SHUT_WR"] => socket.shut_write = true,
            ["SHUT_RDWR"] => (socket.shut_read, socket.shut_write) = (true, true),
            _ => return Ok(SyscallResult::errno("EINVAL")),
        }
        if how != ["SHUT_RD"] {
            let now = self.table.now;
            self.table.connections[index].conn.shutdown(now);
            self.table.flush(index);
        }
        Ok(SyscallResult::Done(0))
    }

    pub(super) fn close(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let fd = int(args, 0)?;
        self.file(fd)?;
        let Some(File::Socket(socket)) = self.files.remove(&fd) else { return Ok(SyscallResult::Done(0)) };
        let now = self.table.now;
        match socket.role {
            Role::Fresh => {}
            Role::Listening(queue) => {
                for index in queue {
                    self.table.connections[index].conn.abort(now);
                    self.table.flush(index);
                }
            }
            Role::Connected(index) => {
                let conn = &mut self.table.connections[index].conn;
                if socket.options.linger == Some(0) {
                    conn.abort(now);
                } else {
                    conn.close(now);
                }
                self.table.flush(index);
            }
        }
        Ok(SyscallResult::Done(0))
    }

    pub(super) fn fcntl(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let flags = names(args, 2);
        let socket = self.socket_of(args)?;
        match names(args, 1).as_slice() {
            ["F_GETFL"] => Ok(SyscallResult::Done(if socket.nonblocking { 0x802 } else { 2 })),
            ["F_SETFL"] => {
                socket.nonblocking = flags.contains(&"O_NONBLOCK");
                Ok(SyscallResult::Done(0))
            }
            other => unsupported(format!("fcntl {}", other.join("|"))),
        }
    }

    pub(super) fn ioctl(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let fd = int(args, 0)?;
        let request = names(args, 1).join("|");
        let index = self.socket_at(fd)?.connection();
        let info = |conn: &Connection| conn.info();
        let value = match (request.as_str(), index) {
            ("SIOCINQ" | "FIONREAD", Some(p)) => {
                let inline = self.socket_at(fd)?.options.flag("SO_OOBINLINE");
                let conn = &self.table.connections[p].conn;
                let mark = conn.urgent_ahead().filter(|&(_, there)| there && !inline);
                mark.map_or(conn.readable(), |(ahead, _)| ahead).get()
            }
            ("SIOCATMARK", Some(p)) => u64::from(
                self.table.connections[p].conn.urgent_ahead().is_some_and(|(ahead, _)| ahead.is_zero()),
            ),
            ("SIOCOUTQ" | "TIOCOUTQ", Some(p)) => {
                let i = info(&self.table.connections[p].conn);
                i.unacked.get() + i.notsent.get()
            }
            ("SIOCOUTQNSD", Some(p)) => info(&self.table.connections[p].conn).notsent.get(),
            ("SIOCINQ" | "FIONREAD" | "SIOCOUTQ" | "TIOCOUTQ" | "SIOCOUTQNSD", None) => {
                return Ok(SyscallResult::errno("EINVAL"));
            }
            _ => return unsupported(format!("ioctl {request}")),
        };
        self.output_value = i64::try_from(value).unwrap_or(i64::MAX);
        if let Ok(want) = int(args, 2)
            && want != self.output_value
        {
            return Err(ScriptError::Mismatch { expected: format!("[{want}]"), live: format!("[{value}]") });
        }
        Ok(SyscallResult::Done(0))
    }
}
