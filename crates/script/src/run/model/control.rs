//! `shutdown`, `close`, `fcntl` and `ioctl`.

use super::args::{Attempt, Tried, int, names, unsupported};
use super::socket::{File, Role};
use super::state::Model;
use crate::ast::Expr;
use crate::run::stack::Trouble;
use tcpassay_tcp::{Connection, State};

impl Model {
    pub(super) fn shutdown(&mut self, args: &[Expr]) -> Tried {
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

    pub(super) fn close(&mut self, args: &[Expr]) -> Tried {
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

    pub(super) fn fcntl(&mut self, args: &[Expr]) -> Tried {
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

    pub(super) fn ioctl(&mut self, args: &[Expr]) -> Tried {
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
