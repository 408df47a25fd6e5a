//! Arguments of system calls in a script.

use crate::ast::{Expr, Syscall};
use crate::run::target::ScriptError;

pub(in crate::run) fn unsupported<T>(what: impl Into<String>) -> Result<T, ScriptError> {
    Err(ScriptError::Unsupported(what.into()))
}

/// The argument `index`, which must be a number.
pub(in crate::run) fn int(args: &[Expr], index: usize) -> Result<i64, ScriptError> {
    match args.get(index) {
        Some(Expr::Int(n)) => Ok(*n),
        Some(Expr::List(items)) if matches!(items.as_slice(), [Expr::Int(_)]) => int(items, 0),
        _ => Err(ScriptError::Invalid(format!("argument {} must be a number", index + 1))),
    }
}

/// The names in an argument such as `A|B`. The list is empty for a number or an absent argument.
pub(in crate::run) fn names(args: &[Expr], index: usize) -> Vec<&str> {
    match args.get(index) {
        Some(Expr::Names(names)) => names.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The value of the member `name` of `{name=value, ...}`.
pub(super) fn member<'a>(group: &'a [(String, Expr)], name: &str) -> Option<&'a Expr> {
    group.iter().find(|(n, _)| n == name).map(|(_, e)| e)
}

/// Returns true if an argument is an invalid pointer: `NULL`, or a number in the place of a buffer.
fn nowhere(e: &Expr) -> bool {
    match e {
        Expr::Int(_) => true,
        Expr::Names(names) => names.as_slice() == ["NULL"],
        _ => false,
    }
}

/// Returns true if the buffer of a call that sends or receives is an invalid pointer.
///
/// # Errors
/// Some buffers of the vector are valid and others are not.
pub(super) fn bad_buffer(call: &Syscall) -> Result<bool, ScriptError> {
    let vector = match (call.name.as_str(), call.args.get(1)) {
        ("readv" | "writev", vector) => vector,
        ("recvmsg" | "sendmsg", Some(Expr::Group(members))) => {
            members.iter().find(|(name, _)| name == "msg_iov").map(|(_, e)| e)
        }
        (_, Some(buffer)) => return Ok(nowhere(buffer)),
        (_, None) => return Ok(false),
    };
    let Some(Expr::List(items)) = vector else { return Ok(false) };
    let mut kinds = items.iter().filter_map(|item| match item {
        Expr::Group(members) => match members.as_slice() {
            [.., (_, base), (_, Expr::Int(n))] if *n > 0 => Some(nowhere(base)),
            _ => None,
        },
        _ => None,
    });
    let first = kinds.next().unwrap_or(false);
    if kinds.any(|other| other != first) {
        return unsupported("a vector with valid and invalid buffers");
    }
    Ok(first)
}

/// Returns true if the address, the option value or the descriptor list of a call is `NULL`.
pub(super) fn bad_argument(call: &Syscall) -> bool {
    let index = match call.name.as_str() {
        "setsockopt" | "getsockopt" => 3,
        "poll" => 0,
        _ => 1,
    };
    let null = |e: &Expr| matches!(e, Expr::Names(names) if names.as_slice() == ["NULL"]);
    call.args.get(index).is_some_and(null)
}
