//! `epoll_ctl` and `epoll_wait`.

use super::args::{int, member, names};
use super::poll::{EDGE, ERR, HUP, IN, ONESHOT, OUT, bits, words};
use super::socket::{EpollItem, WakeupCounts};
use super::socket::{File, Role};
use super::state::Model;
use crate::ast::Expr;
use crate::run::target::{ScriptError, SyscallResult};

impl Model {
    pub(super) fn epoll_ctl(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let (epoll, fd) = (int(args, 0)?, int(args, 2)?);
        let events = match args.get(3) {
            Some(Expr::Group(members)) => bits(member(members, "events").unwrap_or(&Expr::Int(0)))?,
            _ => 0,
        };
        let File::Epoll(watches) = self.file(epoll)? else {
            return Err(ScriptError::Invalid(format!("descriptor {epoll} is not an epoll instance")));
        };
        let at = watches.iter().position(|w| w.fd == fd);
        let watch = EpollItem { fd, events, seen: 0, disarmed: false, wakes: WakeupCounts::default() };
        match (names(args, 1).as_slice(), at) {
            (["EPOLL_CTL_ADD"], None) => watches.push(watch),
            (["EPOLL_CTL_ADD"], Some(_)) => return Ok(SyscallResult::errno("EEXIST")),
            (["EPOLL_CTL_MOD"], Some(at)) => watches[at] = watch,
            (["EPOLL_CTL_DEL"], Some(at)) => {
                watches.remove(at);
            }
            _ => return Ok(SyscallResult::errno("ENOENT")),
        }
        Ok(SyscallResult::Done(0))
    }

    pub(super) fn epoll_wait(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let epoll = int(args, 0)?;
        let timeout = int(args, 3)?;
        let File::Epoll(mut watches) = self.file(epoll)?.clone() else {
            return Err(ScriptError::Invalid(format!("descriptor {epoll} is not an epoll instance")));
        };
        let mut live = Vec::new();
        for watch in watches.iter_mut().filter(|w| !w.disarmed) {
            let now = self.ready(watch.fd)? & (watch.events | ERR | HUP);
            // An edge: an event that was not set at the last report, or a wakeup since then.
            let wakes = self.wakes(watch.fd);
            let woken = wakes.errors > watch.wakes.errors && now & ERR != 0
                || wakes.write_wakeups > watch.wakes.write_wakeups && now & OUT != 0
                || wakes.arrivals > watch.wakes.arrivals && now & IN != 0;
            let fresh = if watch.events & EDGE == 0 || woken { now } else { now & !watch.seen };
            watch.seen &= now;
            if fresh != 0 {
                live.push(words(now));
                watch.seen = now;
                watch.wakes = wakes;
                watch.disarmed = watch.events & ONESHOT != 0;
            }
        }
        if live.is_empty() && timeout != 0 && !self.wait_over(timeout) {
            let File::Epoll(kept) = self.file(epoll)? else { unreachable!("seen above") };
            *kept = watches;
            return Ok(SyscallResult::Blocks);
        }
        let File::Epoll(kept) = self.file(epoll)? else { unreachable!("seen above") };
        *kept = watches;
        let count = i64::try_from(live.len()).expect("few descriptors");
        let wanted = match args.get(1) {
            Some(Expr::Group(members)) => {
                vec![words(bits(member(members, "events").unwrap_or(&Expr::Int(0)))?)]
            }
            Some(Expr::List(items)) => {
                let mut wanted = Vec::new();
                for item in items {
                    if let Expr::Group(members) = item {
                        wanted.push(words(bits(member(members, "events").unwrap_or(&Expr::Int(0)))?));
                    }
                }
                wanted
            }
            _ => return Ok(SyscallResult::Done(count)),
        };
        if count > 0 && wanted != live {
            return Err(ScriptError::Mismatch { expected: wanted.join(", "), live: live.join(", ") });
        }
        Ok(SyscallResult::Done(count))
    }

    /// The number of wakeups of the socket so far.
    pub(super) fn wakes(&mut self, fd: i64) -> WakeupCounts {
        let Some(File::Socket(socket)) = self.files.get(&fd) else { return WakeupCounts::default() };
        match &socket.role {
            Role::Fresh => WakeupCounts::default(),
            Role::Listening(queue) => {
                let open =
                    queue.iter().filter(|&&p| self.table.connections[p].conn.was_established()).count();
                let arrivals = socket.accepted + u64::try_from(open).expect("few connections");
                WakeupCounts { arrivals, ..WakeupCounts::default() }
            }
            Role::Connected(index) => {
                let entry = &self.table.connections[*index];
                // A FIN also wakes readers.
                let arrivals = entry.times.bytes + u64::from(entry.conn.peer_has_closed());
                WakeupCounts { errors: entry.errors.wakes, write_wakeups: entry.write_wakeups, arrivals }
            }
        }
    }
}
