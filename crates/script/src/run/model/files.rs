//! `pipe`, `splice` and `sendfile`. Pipes and files of a script have unlimited size.
//!
//! Source: `tcp_splice_read` of Linux. It stops before urgent data and does not wait there.

use super::args::int;
use super::socket::File;
use super::state::Model;
use crate::ast::{Expr, Syscall};
use crate::run::target::{ScriptError, SyscallResult};
use tcpassay_units::Bytes;

impl Model {
    /// `pipe([5, 6])`
    pub(super) fn pipe(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let Some(Expr::List(ends)) = args.first() else {
            return Err(ScriptError::Invalid(
                "the descriptors of a pipe must have the form `[5, 6]`".to_owned(),
            ));
        };
        for index in 0..2 {
            let fd = int(ends, index)?;
            self.files.insert(fd, File::Plain);
        }
        Ok(SyscallResult::Done(0))
    }

    /// `splice(4, NULL, 6, NULL, 1000, 0)`, `sendfile(4, 5, [0], 1000)`
    pub(super) fn splice(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError> {
        let args = &call.args;
        let (from, to, count) = if call.name == "splice" {
            (args.first(), args.get(2), 4)
        } else {
            (args.get(1), args.first(), 3)
        };
        let fd = |e: Option<&Expr>| match e {
            Some(Expr::Int(fd)) => Ok(*fd),
            _ => Err(ScriptError::Invalid("a descriptor must be a number".to_owned())),
        };
        let (from, to) = (fd(from)?, fd(to)?);
        if matches!(self.file(from)?, File::Plain) {
            let write = Syscall {
                name: "write".to_owned(),
                args: vec![Expr::Int(to), Expr::Any, Expr::Int(int(args, count)?)],
                ..call.clone()
            };
            return self.try_syscall(&write);
        }
        let socket = self.socket_at(from)?.clone();
        let Some(index) = socket.connection() else { return Ok(SyscallResult::errno("ENOTCONN")) };
        let now = self.table.now;
        let conn = &mut self.table.connections[index].conn;
        let most = u64::try_from(int(args, count)?).unwrap_or(0);
        let ahead = conn.urgent_ahead().map_or(most, |(ahead, _)| ahead.get());
        let waits = conn.readable().is_zero() && !conn.peer_has_closed() && conn.error().is_none();
        if waits && most > 0 {
            return Ok(if socket.nonblocking {
                SyscallResult::errno("EAGAIN")
            } else {
                SyscallResult::Blocks
            });
        }
        let got = conn.read(now, Bytes::new(most.min(ahead))).get();
        self.table.flush(index);
        Ok(SyscallResult::Done(i64::try_from(got).expect("a read of bytes that fit")))
    }
}
