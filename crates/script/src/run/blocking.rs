//! System calls of a script: a call that blocks continues while the script goes on.

use super::runner::{BlockedCall, RunResult, Runner};
use super::target::{SyscallResult, Target};
use crate::ast::Syscall;
use crate::position::Position;
use crate::report::Status;
use tcpassay_units::{Dur, Time};

impl<'a, T: Target> Runner<'a, T> {
    /// Makes a call. If it blocks, it continues while the script goes on.
    pub(super) fn call(&mut self, call: &'a Syscall, end: Option<Time>, position: Position) -> RunResult {
        if self.blocked.is_some() {
            self.finish_blocked(position)?;
        }
        let began = self.target.now();
        let answer = self.target.call(call).map_err(|t| self.stop_for(t, &call.name, position))?;
        if answer == SyscallResult::Blocks {
            self.blocked = Some(BlockedCall { call, position, began, end });
            return if end.is_some() { Ok(()) } else { self.finish_blocked(position) };
        }
        self.check_result(call, &answer, position)?;
        self.check_end(began, end, position);
        Ok(())
    }

    /// Checks whether the blocked call has returned.
    pub(super) fn poll_blocked(&mut self) -> RunResult {
        let Some(blocked) = self.blocked.clone() else { return Ok(()) };
        let answer = self.target.retry(blocked.call);
        let answer = answer.map_err(|t| self.stop_for(t, &blocked.call.name, blocked.position))?;
        if answer == SyscallResult::Blocks {
            return Ok(());
        }
        self.blocked = None;
        self.check_result(blocked.call, &answer, blocked.position)?;
        self.check_end(blocked.began, blocked.end, blocked.position);
        Ok(())
    }

    /// Lets time pass until the blocked call returns. The event at `position` waits for it.
    pub(super) fn finish_blocked(&mut self, position: Position) -> RunResult {
        while let Some(blocked) = &self.blocked {
            let (name, at) = (blocked.call.name.clone(), blocked.position);
            if !self.step(Time::MAX, position)? {
                return Err(self.stop(
                    Status::Fail,
                    at,
                    format!("`{name}` blocks, and no timer or packet can end it"),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn check_result(
        &mut self,
        call: &Syscall,
        answer: &SyscallResult,
        position: Position,
    ) -> RunResult {
        let want = &call.result;
        let (value, errno) = match answer {
            SyscallResult::Done(n) => (*n, None),
            SyscallResult::Error(errno) => (-1, Some(&**errno)),
            SyscallResult::NewDescriptor if want.value.is_some_and(|fd| fd < 0) => (0, None),
            SyscallResult::NewDescriptor => (self.target.name_descriptor(want.value), None),
            SyscallResult::Blocks => unreachable!("a call that blocks has no result"),
        };
        let same_value = want.value.is_none_or(|w| w == value);
        // `EWOULDBLOCK` and `EAGAIN` are the same number.
        let one = |name: &str| if name == "EWOULDBLOCK" { "EAGAIN".to_owned() } else { name.to_owned() };
        let same_errno = want.errno.as_deref().is_none_or(|w| Some(one(w).as_str()) == errno);
        if same_value && same_errno {
            return Ok(());
        }
        let text = |value: Option<i64>, errno: Option<&str>| {
            let value = value.map_or("...".to_owned(), |v| v.to_string());
            errno.map_or(value.clone(), |e| format!("{value} {e}"))
        };
        let expected = text(want.value, want.errno.as_deref());
        let live = text(Some(value), errno);
        Err(self.stop(Status::Fail, position, format!("{}: expected {expected}, got {live}", call.name)))
    }

    /// Compares the current time with the time at which a call must return.
    pub(super) fn check_end(&mut self, began: Time, end: Option<Time>, position: Position) {
        let Some(end) = end else { return };
        let now = self.target.now();
        let wait = end.since(began);
        let slack = self.settings.tolerance.max(Dur::from_millis(4)).max(wait / 8);
        if now > end || end.since(now) > slack {
            let off = if now > end { now - end } else { end - now };
            let what = format!("the call returned at {now}, expected at {end}");
            self.note_drift(position, off, wait, &what, Vec::new());
        }
    }
}
