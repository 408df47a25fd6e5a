//! Calls that receive data.

use super::args::{Attempt, Tried, bad_buffer, int, unsupported};
use super::buffers::asked;
use super::state::Model;
use crate::ast::Call;
use crate::run::stack::Trouble;
use tcpassay_tcp::State;
use tcpassay_units::Bytes;

impl Model {
    pub(super) fn receive(&mut self, call: &Call) -> Tried {
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
    pub(super) fn stop_at_mark(&mut self, fd: i64, peer: usize, n: u64) -> Result<u64, Trouble> {
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
    pub(super) fn receive_urgent(&mut self, fd: i64, peer: usize, keep: bool) -> Tried {
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
}
