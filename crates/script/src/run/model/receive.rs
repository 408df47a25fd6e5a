//! Calls that receive data.

use super::args::{bad_buffer, int, unsupported};
use super::buffers::requested;
use super::state::Model;
use crate::ast::Syscall;
use crate::run::target::{ScriptError, SyscallResult};
use tcpassay_tcp::State;
use tcpassay_units::Bytes;

impl Model {
    pub(super) fn receive(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError> {
        let fd = int(&call.args, 0)?;
        let socket = self.socket_at(fd)?.clone();
        let (n, flags) = requested(call)?;
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
            return self.receive_error(call, socket.connection());
        }
        if socket.deferred {
            // With a deferred connect the socket is in SYN-SENT.
            let waits = !socket.nonblocking && !flags.contains(&"MSG_DONTWAIT");
            return Ok(if waits { SyscallResult::Blocks } else { SyscallResult::errno("EAGAIN") });
        }
        let Some(index) = socket.connection() else { return Ok(SyscallResult::errno("ENOTCONN")) };
        if flags.contains(&"MSG_OOB") {
            return self.receive_urgent(fd, index, flags.contains(&"MSG_PEEK"));
        }
        let now = self.table.now;
        let n = self.stop_at_mark(fd, index, n)?;
        let conn = &mut self.table.connections[index].conn;
        let there = conn.readable().get();
        let all =
            flags.contains(&"MSG_WAITALL") && there < n && !conn.peer_has_closed() && conn.error().is_none();
        if there > 0 && n > 0 && bad_buffer(call)? && !flags.contains(&"MSG_TRUNC") {
            return Ok(SyscallResult::errno("EFAULT"));
        }
        if there > 0 && !all || n == 0 {
            let got =
                if flags.contains(&"MSG_PEEK") { there.min(n) } else { conn.read(now, Bytes::new(n)).get() };
            self.table.flush(index);
            self.check_control(call, index, socket.options.inq)?;
            return Ok(SyscallResult::Done(i64::try_from(got).expect("a read of bytes that fit")));
        }
        if conn.peer_closed() {
            return Ok(SyscallResult::Done(0));
        }
        if let Some(error) = self.take_error(fd, index)? {
            return Ok(SyscallResult::errno(error));
        }
        if socket.shut_read {
            return Ok(SyscallResult::Done(0));
        }
        let state = self.table.connections[index].conn.state();
        if state == State::Closed {
            return Ok(if socket.connect_reported {
                SyscallResult::Done(0)
            } else {
                SyscallResult::errno("ENOTCONN")
            });
        }
        if socket.nonblocking || flags.contains(&"MSG_DONTWAIT") {
            return Ok(SyscallResult::errno("EAGAIN"));
        }
        Ok(SyscallResult::Blocks)
    }

    /// A read stops before the urgent byte. Without `SO_OOBINLINE` the next read skips that byte (`tcp_recvmsg_locked`).
    pub(super) fn stop_at_mark(&mut self, fd: i64, index: usize, n: u64) -> Result<u64, ScriptError> {
        let inline = self.socket_at(fd)?.options.flag("SO_OOBINLINE");
        let now = self.table.now;
        let conn = &mut self.table.connections[index].conn;
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
    pub(super) fn receive_urgent(
        &mut self,
        fd: i64,
        index: usize,
        keep: bool,
    ) -> Result<SyscallResult, ScriptError> {
        let read = self.table.connections[index].conn.info().bytes_received.get();
        let ahead = self.table.connections[index].conn.urgent_ahead();
        let left = self.table.connections[index].conn.readable().get();
        let socket = self.socket_at(fd)?;
        let Some((before, there)) = ahead.filter(|_| !socket.options.flag("SO_OOBINLINE")) else {
            return Ok(SyscallResult::errno("EINVAL"));
        };
        if !there {
            return Ok(SyscallResult::errno("EAGAIN"));
        }
        let end = read - left + before.get() + 1;
        if socket.urgent_taken == end {
            return Ok(SyscallResult::errno("EINVAL"));
        }
        if !keep {
            socket.urgent_taken = end;
        }
        Ok(SyscallResult::Done(1))
    }
}
