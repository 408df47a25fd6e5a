//! The buffer sizes and the `MSG_*` flags of calls that send or receive.

use super::args::{int, names};
use crate::ast::{Expr, Syscall};
use crate::run::target::ScriptError;

/// The `MSG_*` flags with their values on Linux.
const MESSAGE_FLAGS: [(i64, &str); 11] = [
    (0x1, "MSG_OOB"),
    (0x2, "MSG_PEEK"),
    (0x20, "MSG_TRUNC"),
    (0x40, "MSG_DONTWAIT"),
    (0x80, "MSG_EOR"),
    (0x100, "MSG_WAITALL"),
    (0x2000, "MSG_ERRQUEUE"),
    (0x4000, "MSG_NOSIGNAL"),
    (0x8000, "MSG_MORE"),
    (0x0400_0000, "MSG_ZEROCOPY"),
    (0x2000_0000, "MSG_FASTOPEN"),
];

/// The names of the `MSG_*` flags in an argument, which holds names or the number of Linux.
fn message_flags(args: &[Expr], index: usize) -> Vec<&str> {
    match args.get(index) {
        Some(Expr::Int(n)) => {
            MESSAGE_FLAGS.iter().filter(|(bit, _)| n & bit != 0).map(|(_, name)| *name).collect()
        }
        _ => names(args, index),
    }
}

fn size(n: i64) -> Result<u64, ScriptError> {
    u64::try_from(n).map_err(|_| ScriptError::Invalid("a negative size".to_owned()))
}

/// The number of bytes that a call sends or wants to receive, and its flags.
pub(in crate::run) fn requested(call: &Syscall) -> Result<(u64, Vec<&str>), ScriptError> {
    let args = &call.args;
    match call.name.as_str() {
        "readv" | "writev" => Ok((vector(args.get(1))?, Vec::new())),
        "recvmsg" | "sendmsg" => Ok((message(args.get(1))?, message_flags(args, 2))),
        _ => Ok((size(int(args, 2)?)?, message_flags(args, 3))),
    }
}

/// The sum of the sizes in a vector of buffers, `[{..., 1000}, {..., 2000}]`.
fn vector(e: Option<&Expr>) -> Result<u64, ScriptError> {
    let invalid =
        || ScriptError::Invalid("a vector of buffers must have the form `[{..., 1000}]`".to_owned());
    let Some(Expr::List(items)) = e else { return Err(invalid()) };
    let mut sum = 0_u64;
    for item in items {
        let Expr::Group(members) = item else { return Err(invalid()) };
        let Some((_, Expr::Int(n))) = members.last() else { return Err(invalid()) };
        sum = sum.saturating_add(size(*n)?);
    }
    Ok(sum)
}

fn message(e: Option<&Expr>) -> Result<u64, ScriptError> {
    let Some(Expr::Group(members)) = e else {
        return Err(ScriptError::Invalid(
            "a message must have the form `{msg_iov(1)=[{..., 1000}], ...}`".to_owned(),
        ));
    };
    vector(members.iter().find(|(name, _)| name == "msg_iov").map(|(_, e)| e))
}
