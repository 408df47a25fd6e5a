//! `recvmsg` with `MSG_ERRQUEUE`: an entry of the error queue is compared with the control messages in the script.

use super::args::{member, names, unsupported};
use super::error_queue::{QueueEntry, TimestampKind, TimestampingFlags};
use super::state::Model;
use crate::ast::{Expr, Syscall};
use crate::run::target::{ScriptError, SyscallResult};
use tcpassay_units::{Dur, Time};

fn is_name(e: Option<&Expr>, wanted: &str) -> bool {
    matches!(e, Some(Expr::Names(names)) if names.as_slice() == [wanted])
}

/// Returns true if the script has this number or name, or anything (`...`).
fn says(e: Option<&Expr>, number: u64, name: &str) -> bool {
    match e {
        None | Some(Expr::Any) => true,
        Some(Expr::Int(n)) => u64::try_from(*n) == Ok(number),
        Some(Expr::Names(names)) => !name.is_empty() && names.as_slice() == [name],
        _ => false,
    }
}

/// The text of an entry that differs from the control messages in the script; `None` if they agree.
fn mismatch(note: &QueueEntry, messages: &[Expr], tolerance: Dur) -> Option<String> {
    let groups: Vec<&[(String, Expr)]> = messages
        .iter()
        .filter_map(|m| match m {
            Expr::Group(members) => Some(members.as_slice()),
            _ => None,
        })
        .collect();
    let data = |kind: &dyn Fn(&Expr) -> bool| {
        let found = groups.iter().find(|g| member(g, "cmsg_type").is_some_and(kind))?;
        match member(found, "cmsg_data") {
            Some(Expr::Group(members)) => Some(members.as_slice()),
            _ => None,
        }
    };
    let error = data(&|e| {
        is_name(Some(e), "IP_RECVERR")
            || is_name(Some(e), "IPV6_RECVERR")
            || is_name(Some(e), "CMSG_TYPE_RECVERR")
    });
    let Some(error) = error else { return Some("an extended error".to_owned()) };
    let stamp = data(&|e| is_name(Some(e), "SCM_TIMESTAMPING"));
    match *note {
        QueueEntry::ZeroCopyDone(first, last) => {
            let same = says(member(error, "ee_errno"), 0, "")
                && says(member(error, "ee_origin"), 5, "SO_EE_ORIGIN_ZEROCOPY")
                && says(member(error, "ee_code"), 1, "SO_EE_CODE_ZEROCOPY_COPIED")
                && says(member(error, "ee_info"), first.into(), "")
                && says(member(error, "ee_data"), last.into(), "");
            (!same).then(|| {
                format!(
                    "ee_origin=SO_EE_ORIGIN_ZEROCOPY, ee_code=SO_EE_CODE_ZEROCOPY_COPIED, ee_info={first}, ee_data={last}"
                )
            })
        }
        QueueEntry::Timestamp { stage, at, byte, .. } => {
            let (number, name) = match stage {
                TimestampKind::Sent => (0, "SCM_TSTAMP_SND"),
                TimestampKind::Scheduled => (1, "SCM_TSTAMP_SCHED"),
                TimestampKind::Acknowledged => (2, "SCM_TSTAMP_ACK"),
            };
            let when = stamp.is_none_or(|stamp| {
                let part = |name| match member(stamp, name) {
                    Some(Expr::Int(n)) => u64::try_from(*n).unwrap_or(0).min(1_000_000_000),
                    _ => 0,
                };
                let wanted = Time::ZERO + Dur::from_secs(part("scm_sec")) + Dur::from_nanos(part("scm_nsec"));
                wanted.since(at).max(at.since(wanted)) <= tolerance
            });
            let same = when
                && says(member(error, "ee_errno"), 42, "ENOMSG")
                && says(member(error, "ee_origin"), 4, "SO_EE_ORIGIN_TIMESTAMPING")
                && says(member(error, "ee_info"), number, name)
                && says(member(error, "ee_data"), byte, "");
            (!same).then(|| format!("ee_info={name}, ee_data={byte} at {at}"))
        }
    }
}

impl Model {
    pub(super) fn receive_error(
        &mut self,
        call: &Syscall,
        index: Option<usize>,
    ) -> Result<SyscallResult, ScriptError> {
        let Some(index) = index else { return Ok(SyscallResult::errno("EAGAIN")) };
        let Some(Expr::Group(message)) = call.args.get(1) else {
            return unsupported(format!("{} with MSG_ERRQUEUE", call.name));
        };
        let queue = &mut self.table.connections[index].errors;
        let Some(note) = queue.entries.pop_front() else { return Ok(SyscallResult::errno("EAGAIN")) };
        if let Some(Expr::List(messages)) = member(message, "msg_control") {
            let tolerance = self.settings.tolerance;
            if let Some(live) = mismatch(&note, messages, tolerance) {
                let expected = "another entry of the error queue".to_owned();
                return Err(ScriptError::Mismatch { expected, live });
            }
        }
        let tail = matches!(note, QueueEntry::Timestamp { tail: true, .. });
        let live = if tail { ["MSG_ERRQUEUE", "MSG_TRUNC"].as_slice() } else { &["MSG_ERRQUEUE"] };
        let flags: Vec<&str> = match member(message, "msg_flags") {
            Some(Expr::Names(names)) => names.iter().map(String::as_str).collect(),
            _ => live.to_vec(),
        };
        if flags.len() != live.len() || !live.iter().all(|f| flags.contains(f)) {
            return Err(ScriptError::Mismatch { expected: flags.join("|"), live: live.join("|") });
        }
        Ok(SyscallResult::Done(0))
    }

    /// The value of `SO_TIMESTAMPING`, with or without brackets.
    pub(super) fn stages(args: &[Expr]) -> TimestampingFlags {
        match args.get(3) {
            Some(Expr::List(items)) => TimestampingFlags::of(&names(items, 0)),
            _ => TimestampingFlags::of(&names(args, 3)),
        }
    }
}
