//! Arguments of calls in scripts, and jobs for the thread that makes calls.

use super::names::word;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use tcpassay_script::ast::Expr;
use tcpassay_script::run::{ScriptError, SyscallResult};

/// What came of a call.
pub struct Returned {
    /// What it gave.
    pub answer: Result<SyscallResult, ScriptError>,
    /// The descriptor that it made.
    pub made: Option<OwnedFd>,
}

/// A call, to be made wherever it may block.
pub type Job = Box<dyn FnOnce() -> Returned + Send>;

/// What the call's `...` stand for.
pub struct SocketEnvironment {
    /// `AF_INET` or `AF_INET6`.
    pub domain: i32,
    /// Where sockets are bound.
    pub local: SocketAddr,
    /// Where they connect to.
    pub remote: SocketAddr,
    /// The controller that every socket gets.
    pub controller: String,
    /// `CLOCK_REALTIME` when the script began, in nanoseconds.
    pub began: u64,
}

/// The most that one call reads or writes.
pub(super) const MAX_BUFFER: i64 = 256 << 20;

/// A job that compares what the kernel gave with what the script says.
pub(super) fn compared(make: impl FnOnce() -> Result<SyscallResult, ScriptError> + Send + 'static) -> Job {
    Box::new(|| Returned { answer: make(), made: None })
}

pub(super) fn invalid<T>(why: &str) -> Result<T, ScriptError> {
    Err(ScriptError::Invalid(why.to_owned()))
}

/// The number of an argument.
pub fn int(args: &[Expr], index: usize) -> Result<i64, ScriptError> {
    let number = word(args.get(index))?;
    number.ok_or_else(|| ScriptError::Invalid(format!("argument {} must be a number", index + 1)))
}

pub(super) fn short(args: &[Expr], index: usize) -> Result<i32, ScriptError> {
    let n = int(args, index)?;
    // Flag words have their highest bit set.
    i32::try_from(n)
        .or_else(|_| u32::try_from(n).map(u32::cast_signed))
        .or_else(|_| invalid("a number beyond 32 bits"))
}

pub(super) fn flags(args: &[Expr], index: usize) -> Result<i32, ScriptError> {
    let n = word(args.get(index))?.unwrap_or(0);
    i32::try_from(n).or_else(|_| invalid("flags beyond 32 bits"))
}

pub(super) fn room(n: i64) -> Result<Vec<u8>, ScriptError> {
    if n > MAX_BUFFER {
        return Err(ScriptError::Unsupported(format!("a buffer of {n} bytes")));
    }
    usize::try_from(n).map(|n| vec![0; n]).or_else(|_| invalid("a size below zero"))
}

/// `[{..., 1000}, {..., 2000}]`
pub(super) fn rooms(e: Option<&Expr>) -> Result<Vec<Vec<u8>>, ScriptError> {
    const WHAT: &str = "a vector of buffers is `[{..., 1000}]`";
    let Some(Expr::List(items)) = e else { return invalid(WHAT) };
    let mut total = 0_i64;
    let mut one = |item: &Expr| match item {
        Expr::Group(members) => match members.as_slice() {
            [(_, Expr::Any), .., (_, Expr::Int(n))] => {
                total = total.saturating_add(*n);
                room(total)?;
                room(*n)
            }
            [(_, _), .., (_, Expr::Int(_))] => {
                Err(ScriptError::Unsupported("a vector with a buffer of its own".to_owned()))
            }
            _ => invalid(WHAT),
        },
        _ => invalid(WHAT),
    };
    items.iter().map(&mut one).collect()
}

pub(super) fn length(args: &[Expr], index: usize) -> Result<usize, ScriptError> {
    usize::try_from(int(args, index)?).or_else(|_| invalid("a size below zero"))
}

pub(super) fn member<'a>(e: Option<&'a Expr>, name: &str) -> Option<&'a Expr> {
    let Some(Expr::Group(members)) = e else { return None };
    members.iter().find(|(n, _)| n == name).map(|(_, e)| e)
}
