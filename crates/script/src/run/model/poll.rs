//! `poll`, and the events of a socket.

use super::args::{int, member, unsupported};
use super::socket::Role;
use super::state::Model;
use crate::ast::Expr;
use crate::run::target::{ScriptError, SyscallResult};
use tcpassay_tcp::State;

pub(super) const IN: i64 = 1;
pub(super) const OUT: i64 = 4;
pub(super) const ERR: i64 = 8;
pub(super) const HUP: i64 = 16;
pub(super) const RDHUP: i64 = 0x2000;
pub(super) const ONESHOT: i64 = 1 << 30;
pub(super) const EDGE: i64 = 1 << 31;

/// The maximum number of descriptors per call.
const MAX_DESCRIPTORS: usize = 1024;

/// The bits of `POLL*` or `EPOLL*` names, or of a number.
pub(super) fn bits(e: &Expr) -> Result<i64, ScriptError> {
    let Expr::Names(names) = e else {
        return match e {
            Expr::Int(n) => Ok(*n),
            _ => Err(ScriptError::Invalid("events must be a number or names joined by `|`".to_owned())),
        };
    };
    let mut made = 0;
    for name in names {
        made |= match name.trim_start_matches('E') {
            "POLLIN" => IN,
            "POLLRDNORM" => 0x40,
            "POLLOUT" => OUT,
            "POLLWRNORM" => 0x100,
            "POLLERR" => ERR,
            "POLLHUP" => HUP,
            "POLLRDHUP" => RDHUP,
            "POLLPRI" => 2,
            "POLLONESHOT" => ONESHOT,
            "POLLET" => EDGE,
            // This flag matters only with several waiting threads.
            "POLLEXCLUSIVE" | "0" => 0,
            _ => return unsupported(format!("the event {name}")),
        };
    }
    Ok(made)
}

pub(super) fn words(bits: i64) -> String {
    let all = [(IN, "IN"), (2, "PRI"), (OUT, "OUT"), (ERR, "ERR"), (HUP, "HUP"), (RDHUP, "RDHUP")];
    let set: Vec<String> =
        all.iter().filter(|(b, _)| bits & b != 0).map(|(_, n)| format!("POLL{n}")).collect();
    if set.is_empty() { "0".to_owned() } else { set.join("|") }
}

fn number(e: Option<&Expr>) -> Result<i64, ScriptError> {
    match e {
        Some(Expr::Int(n)) => Ok(*n),
        _ => Err(ScriptError::Invalid("a descriptor must be a number".to_owned())),
    }
}

impl Model {
    /// The `POLL*` events of a socket (`tcp_poll` of Linux).
    ///
    /// # Errors
    /// The descriptor is not a socket.
    pub fn ready(&mut self, fd: i64) -> Result<i64, ScriptError> {
        let socket = self.socket_at(fd)?.clone();
        let index = match &socket.role {
            // With a deferred connect the socket is in SYN-SENT and writable (`tcp_poll`).
            Role::Fresh if socket.deferred => return Ok(OUT),
            Role::Fresh => return Ok(OUT | HUP),
            Role::Listening(queue) => {
                let open = queue.iter().any(|&p| self.table.connections[p].conn.was_established());
                return Ok(if open { IN } else { 0 });
            }
            Role::Connected(index) => *index,
        };
        let conn = &self.table.connections[index].conn;
        let mut mask = 0;
        let gone = conn.state() == State::Closed;
        let read_over = socket.shut_read || conn.peer_has_closed() || gone;
        if gone || (read_over && socket.shut_write) {
            mask |= HUP;
        }
        if read_over {
            mask |= IN | RDHUP;
        }
        if conn.readable().get() > 0 {
            mask |= IN;
        }
        let opening = match conn.state() {
            State::SynSent => true,
            State::SynReceived => !conn.is_fast_open_child(),
            _ => false,
        };
        if !opening && (socket.shut_write || gone || conn.has_room()) {
            mask |= OUT;
        }
        if conn.error().is_some() && !socket.error_reported
            || !self.table.connections[index].errors.is_empty()
        {
            mask |= ERR;
        }
        Ok(mask)
    }

    pub(super) fn poll(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let Some(Expr::List(items)) = args.first() else {
            return Err(ScriptError::Invalid(
                "the descriptors of poll must have the form `[{fd=3, events=POLLIN, revents=POLLIN}]`"
                    .to_owned(),
            ));
        };
        let timeout = int(args, 2)?;
        if items.len() > MAX_DESCRIPTORS {
            return unsupported(format!("poll of more than {MAX_DESCRIPTORS} descriptors"));
        }
        let mut expected = Vec::new();
        let mut live = Vec::new();
        let mut count = 0;
        for item in items {
            let Expr::Group(members) = item else {
                return Err(ScriptError::Invalid(
                    "an entry of poll must have the form `{fd=3, events=POLLIN}`".to_owned(),
                ));
            };
            let fd = number(member(members, "fd"))?;
            let asked = bits(member(members, "events").unwrap_or(&Expr::Int(0)))?;
            let revents = self.ready(fd)? & (asked | ERR | HUP);
            count += i64::from(revents != 0);
            live.push(words(revents));
            match member(members, "revents") {
                Some(Expr::Any) | None => expected.push(words(revents)),
                Some(e) => expected.push(words(bits(e)?)),
            }
        }
        if count == 0 && timeout != 0 && !self.wait_over(timeout) {
            return Ok(SyscallResult::Blocks);
        }
        if expected == live {
            return Ok(SyscallResult::Done(count));
        }
        Err(ScriptError::Mismatch { expected: expected.join(", "), live: live.join(", ") })
    }

    /// Returns true if the call has waited for `timeout` milliseconds. A negative timeout never ends.
    pub(super) fn wait_over(&self, timeout: i64) -> bool {
        u64::try_from(timeout).is_ok_and(|ms| self.table.now.since(self.call_began).as_millis() >= ms)
    }
}
