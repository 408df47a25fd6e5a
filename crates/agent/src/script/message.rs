//! `recvmsg`: the control messages and flags of the kernel are compared with those in the script.

use super::arguments::{Job, SocketEnvironment, compared, flags, member, rooms};
use super::names::{error, word};
use std::os::fd::RawFd;
use tcpassay_linux::syscall;
use tcpassay_script::ast::Expr;
use tcpassay_script::run::{ScriptError, SyscallResult};

/// The allowed error of a timestamp in a control message, in nanoseconds, as in packetdrill.
const STAMP: u64 = 4_000_000;
/// The flags of a message that are compared.
const SHOWN: i32 = libc::MSG_ERRQUEUE | libc::MSG_TRUNC | libc::MSG_CTRUNC | libc::MSG_OOB | libc::MSG_EOR;

/// The expected content of a control message.
#[derive(Clone, Debug)]
enum Wanted {
    Anything,
    /// A 32-bit number, for example of `TCP_CM_INQ`.
    Number(i64),
    /// Members of `struct sock_extended_err`: name, offset, size, value.
    Error(Vec<(&'static str, usize, usize, i64)>),
    /// The first of three timestamps, in nanoseconds since the start of the script.
    Stamp(u64),
}

/// `struct sock_extended_err` of linux/errqueue.h: name, offset, bytes.
const ERROR: [(&str, usize, usize); 6] = [
    ("ee_errno", 0, 4),
    ("ee_origin", 4, 1),
    ("ee_type", 5, 1),
    ("ee_code", 6, 1),
    ("ee_info", 8, 4),
    ("ee_data", 12, 4),
];

fn wanted(data: Option<&Expr>) -> Result<Wanted, ScriptError> {
    let Some(group @ Expr::Group(members)) = data else {
        return Ok(word(data)?.map_or(Wanted::Anything, Wanted::Number));
    };
    let has = |prefix: &str| members.iter().all(|(name, _)| name.starts_with(prefix));
    if has("ee_") {
        let mut made = Vec::new();
        for (name, at, len) in ERROR {
            if let Some(value) = word(member(Some(group), name))? {
                made.push((name, at, len, value));
            }
        }
        return Ok(Wanted::Error(made));
    }
    if has("scm_") {
        let part =
            |name| Ok(word(member(Some(group), name))?.and_then(|n| u64::try_from(n).ok()).unwrap_or(0));
        let seconds = part("scm_sec")?.saturating_mul(1_000_000_000);
        return Ok(Wanted::Stamp(seconds.saturating_add(part("scm_nsec")?)));
    }
    Err(ScriptError::Unsupported("a control message of this form".to_owned()))
}

/// An integer of `len` bytes in little-endian order.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<i64> {
    let mut wide = [0; 8];
    wide[..len].copy_from_slice(bytes.get(at..at + len)?);
    Some(i64::from_le_bytes(wide))
}

/// The expected and the actual text of a difference; `None` if there is none.
fn difference(want: &Wanted, live: &[u8], began: u64) -> Option<(String, String)> {
    let shown = |n: Option<i64>| n.map_or("nothing".to_owned(), |n| n.to_string());
    match want {
        Wanted::Anything => None,
        Wanted::Number(n) => {
            let got = number(live, 0, 4).map(|n| if n > i64::from(i32::MAX) { n - (1 << 32) } else { n });
            (got != Some(*n)).then(|| (format!("cmsg_data={n}"), format!("cmsg_data={}", shown(got))))
        }
        Wanted::Error(members) => members.iter().find_map(|&(name, at, len, n)| {
            let got = number(live, at, len);
            (got != Some(n)).then(|| (format!("{name}={n}"), format!("{name}={}", shown(got))))
        }),
        Wanted::Stamp(n) => {
            let got = number(live, 0, 8).zip(number(live, 8, 8)).map(|(sec, nsec)| {
                (sec.cast_unsigned() * 1_000_000_000 + nsec.cast_unsigned()).saturating_sub(began)
            });
            let near = got.is_some_and(|got| got.abs_diff(*n) <= STAMP);
            let text = |n: u64| format!("scm_sec={}, scm_nsec={}", n / 1_000_000_000, n % 1_000_000_000);
            (!near).then(|| (text(*n), got.map_or("no stamp".to_owned(), text)))
        }
    }
}

/// The job of recvmsg(2) with the comparison.
pub fn receive(fd: RawFd, args: &[Expr], at: &SocketEnvironment) -> Result<Job, ScriptError> {
    let message = args.get(1);
    let (mut into, flags) = (rooms(member(message, "msg_iov"))?, flags(args, 2)?);
    let flags_wanted = word(member(message, "msg_flags"))?;
    let mut expected = Vec::new();
    if let Some(Expr::List(messages)) = member(message, "msg_control") {
        for one in messages {
            let part = |name: &str| word(member(Some(one), name));
            expected.push((part("cmsg_level")?, part("cmsg_type")?, wanted(member(Some(one), "cmsg_data"))?));
        }
    }
    let began = at.began;
    Ok(compared(move || {
        let (n, live_flags, found) = match syscall::receive_message(fd, &mut into, flags) {
            Ok(got) => got,
            Err(errno) => return Ok(SyscallResult::Error(error(errno))),
        };
        let mismatch = |expected: String, live: String| Err(ScriptError::Mismatch { expected, live });
        if let Some(want) = flags_wanted
            && want & i64::from(SHOWN) != i64::from(live_flags & SHOWN)
        {
            return mismatch(format!("msg_flags={want:#x}"), format!("msg_flags={:#x}", live_flags & SHOWN));
        }
        if !expected.is_empty() && expected.len() != found.len() {
            let count = |n: usize| format!("{n} control messages");
            return mismatch(count(expected.len()), count(found.len()));
        }
        for ((level, kind, want), (live_level, live_kind, data)) in expected.iter().zip(&found) {
            let same = |want: &Option<i64>, live: i32| want.is_none_or(|want| want == i64::from(live));
            if !same(level, *live_level) || !same(kind, *live_kind) {
                let text = |l: i64, k: i64| format!("cmsg_level={l}, cmsg_type={k}");
                let or_live = |want: &Option<i64>, live: i32| want.unwrap_or(i64::from(live));
                return mismatch(
                    text(or_live(level, *live_level), or_live(kind, *live_kind)),
                    text((*live_level).into(), (*live_kind).into()),
                );
            }
            if let Some((expected, live)) = difference(want, data, began) {
                return mismatch(expected, live);
            }
        }
        Ok(SyscallResult::Done(n))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// errno 42 (`ENOMSG`), origin 4, type 0, code 0, info 2, data 999.
    const NOTE: [u8; 16] = [42, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 0xe7, 3, 0, 0];

    fn note(data: i64) -> Wanted {
        let members = [
            ("ee_errno", "ENOMSG"),
            ("ee_origin", "SO_EE_ORIGIN_TIMESTAMPING"),
            ("ee_info", "SCM_TSTAMP_ACK"),
        ];
        let mut group: Vec<(String, Expr)> =
            members.iter().map(|(n, v)| ((*n).to_owned(), Expr::Names(vec![(*v).to_owned()]))).collect();
        group.push(("ee_data".to_owned(), Expr::Int(data)));
        wanted(Some(&Expr::Group(group))).unwrap()
    }

    #[test]
    fn an_extended_error_is_compared_member_by_member() {
        assert_eq!(difference(&note(999), &NOTE, 0), None);
        let found = difference(&note(998), &NOTE, 0);
        assert_eq!(found, Some(("ee_data=998".to_owned(), "ee_data=999".to_owned())));
    }

    #[test]
    fn a_stamp_counts_from_the_beginning_of_the_script_and_may_be_4_ms_off() {
        let mut live = [0; 48];
        live[..8].copy_from_slice(&100_i64.to_le_bytes());
        live[8..16].copy_from_slice(&23_000_000_i64.to_le_bytes());
        let began = 100_000_000_000;
        assert_eq!(difference(&Wanted::Stamp(20_000_000), &live, began), None);
        assert!(difference(&Wanted::Stamp(18_000_000), &live, began).is_some());
    }
}
