//! Calls that send data.

use super::args::{bad_buffer, int, names, unsupported};
use super::buffers::requested;
use super::error_queue::TimestampingFlags;
use super::state::Model;
use crate::ast::{Expr, Syscall};
use crate::run::target::{ScriptError, SyscallResult};
use tcpassay_tcp::State;
use tcpassay_units::Bytes;

/// The maximum number of buffers in one zero-copy segment (`MAX_SKB_FRAGS`).
const FRAGMENTS: usize = 17;

impl Model {
    pub(super) fn send(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError> {
        let tried = self.send_some(call)?;
        if let SyscallResult::Done(n) = tried {
            let flags = requested(call)?.1;
            let socket = self.socket_of(&call.args)?.clone();
            let zero_copy = flags.contains(&"MSG_ZEROCOPY") && socket.options.flag("SO_ZEROCOPY");
            if let (Some(index), Ok(n)) = (socket.connection(), u64::try_from(n)) {
                self.note_written(index, n, zero_copy, socket.options.stages);
            }
        }
        Ok(tried)
    }

    pub(super) fn send_some(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError> {
        let fd = int(&call.args, 0)?;
        let socket = self.socket_at(fd)?.clone();
        let (n, flags) = requested(call)?;
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
        let linux = self.profile.is_linux();
        let nowhere = names(&call.args, 4) == ["AF_UNSPEC"];
        if flags.contains(&"MSG_FASTOPEN") && linux && nowhere {
            return Ok(SyscallResult::errno("EOPNOTSUPP"));
        }
        let bad = n > 0 && bad_buffer(call)?;
        // With an invalid buffer the SYN carries no data and only requests a cookie (`tcp_send_syn_data`).
        if let Some(attempt) = self.send_fast(fd, if bad { 0 } else { n }, &flags)? {
            return Ok(attempt);
        }
        let Some(index) = socket.connection() else {
            return Ok(SyscallResult::errno(if bsd { "ENOTCONN" } else { "EPIPE" }));
        };
        if let Some(error) = self.take_error(fd, index)? {
            return Ok(SyscallResult::errno(error));
        }
        let conn = &mut self.table.connections[index].conn;
        let nonblocking = socket.nonblocking || flags.contains(&"MSG_DONTWAIT");
        match conn.state() {
            _ if socket.shut_write => return Ok(SyscallResult::errno("EPIPE")),
            State::Established | State::CloseWait => {}
            State::SynReceived if conn.is_fast_open_child() => {}
            State::SynSent | State::SynReceived if nonblocking => {
                return Ok(SyscallResult::errno(if bsd { "ENOTCONN" } else { "EAGAIN" }));
            }
            State::SynSent | State::SynReceived => {
                if self.written < n {
                    self.hold_ack(fd)?;
                }
                return Ok(SyscallResult::Blocks);
            }
            _ => return Ok(SyscallResult::errno("EPIPE")),
        }
        if bad {
            return Ok(SyscallResult::errno("EFAULT"));
        }
        let more = flags.contains(&"MSG_MORE");
        if !std::mem::take(&mut self.waits) || conn.check_space() {
            for end in
                fragments(call, n, flags.contains(&"MSG_ZEROCOPY") && socket.options.flag("SO_ZEROCOPY"))
            {
                self.fill(index, end, more, &flags);
                if end < n && self.written >= end {
                    self.table.connections[index].conn.end_record();
                }
            }
        }
        let done = |n: u64| Ok(SyscallResult::Done(i64::try_from(n).expect("a write of bytes that fit")));
        if self.written >= n {
            return done(n);
        }
        match (nonblocking, self.written) {
            (true, 0) => Ok(SyscallResult::errno("EAGAIN")),
            (true, written) => done(written),
            (false, _) => {
                self.waits = linux;
                Ok(SyscallResult::Blocks)
            }
        }
    }

    /// Registers a write of `n` bytes with the error queue.
    pub(super) fn note_written(&mut self, index: usize, n: u64, zero_copy: bool, stages: TimestampingFlags) {
        let now = self.table.now;
        let entry = &mut self.table.connections[index];
        entry.errors.wrote(n, zero_copy, stages);
        if entry.errors.waits() {
            let info = entry.conn.info();
            entry.errors.left(now, 0, info.bytes_acked.get() + info.unacked.get());
        }
    }

    /// Writes and sends until this call has written `n` bytes or the send buffer is full.
    pub(super) fn fill(&mut self, index: usize, n: u64, more: bool, flags: &[&str]) {
        let now = self.table.now;
        while self.written < n {
            let conn = &mut self.table.connections[index].conn;
            let left = Bytes::new(n - self.written);
            let taken = conn.write_step(now, left, self.written == 0, more).get();
            self.written += taken;
            if flags.contains(&"MSG_EOR") && self.written >= n {
                conn.end_record();
            }
            if flags.contains(&"MSG_OOB") && self.written >= n {
                conn.mark_urgent();
            }
            self.table.flush(index);
            if taken == 0 {
                break;
            }
        }
    }
}

/// The offsets at which a write of `n` bytes is split into segments because it has more than [`FRAGMENTS`] buffers.
pub(super) fn fragments(call: &Syscall, n: u64, zero_copy: bool) -> Vec<u64> {
    let members = match call.args.get(1) {
        Some(Expr::Group(members)) if zero_copy => members.as_slice(),
        _ => return vec![n],
    };
    let Some((_, Expr::List(pieces))) = members.iter().find(|(name, _)| name == "msg_iov") else {
        return vec![n];
    };
    let lens = pieces.iter().map(|piece| match piece {
        Expr::Group(members) => match members.last() {
            Some((_, Expr::Int(n))) => u64::try_from(*n).unwrap_or(0),
            _ => 0,
        },
        _ => 0,
    });
    let lens: Vec<u64> = lens.filter(|&n| n > 0).collect();
    let mut end = 0;
    let ends = lens.chunks(FRAGMENTS).map(|chunk| {
        end += chunk.iter().sum::<u64>();
        end
    });
    let ends: Vec<u64> = ends.collect();
    if ends.is_empty() { vec![n] } else { ends }
}
