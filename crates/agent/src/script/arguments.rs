//! Arguments of calls in scripts, and jobs for the thread that makes calls.

use super::names::word;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use tcpassay_script::ast::Expr;
use tcpassay_script::run::{Answer, Trouble};

/// What came of a call.
pub struct Returned {
    /// What it gave.
    pub answer: Result<Answer, Trouble>,
    /// The descriptor that it made.
    pub made: Option<OwnedFd>,
}

/// A call, to be made wherever it may block.
pub type Job = Box<dyn FnOnce() -> Returned + Send>;

/// What the call's `...` stand for.
pub struct Places {
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
pub(super) const MOST: i64 = 256 << 20;

/// A job that compares what the kernel gave with what the script says.
pub(super) fn judged(make: impl FnOnce() -> Result<Answer, Trouble> + Send + 'static) -> Job {
    Box::new(|| Returned { answer: make(), made: None })
}

pub(super) fn nonsense<T>(why: &str) -> Result<T, Trouble> {
    Err(Trouble::Nonsense(why.to_owned()))
}

/// The number of an argument.
pub fn int(args: &[Expr], index: usize) -> Result<i64, Trouble> {
    let number = word(args.get(index))?;
    number.ok_or_else(|| Trouble::Nonsense(format!("argument {} must be a number", index + 1)))
}

pub(super) fn short(args: &[Expr], index: usize) -> Result<i32, Trouble> {
    let n = int(args, index)?;
    // Flag words have their highest bit set.
    i32::try_from(n)
        .or_else(|_| u32::try_from(n).map(u32::cast_signed))
        .or_else(|_| nonsense("a number beyond 32 bits"))
}

pub(super) fn flags(args: &[Expr], index: usize) -> Result<i32, Trouble> {
    let n = word(args.get(index))?.unwrap_or(0);
    i32::try_from(n).or_else(|_| nonsense("flags beyond 32 bits"))
}

pub(super) fn room(n: i64) -> Result<Vec<u8>, Trouble> {
    if n > MOST {
        return Err(Trouble::Unsupported(format!("a buffer of {n} bytes")));
    }
    usize::try_from(n).map(|n| vec![0; n]).or_else(|_| nonsense("a size below zero"))
}

/// `[{..., 1000}, {..., 2000}]`
pub(super) fn rooms(e: Option<&Expr>) -> Result<Vec<Vec<u8>>, Trouble> {
    const WHAT: &str = "a vector of buffers is `[{..., 1000}]`";
    let Some(Expr::List(items)) = e else { return nonsense(WHAT) };
    let mut total = 0_i64;
    let mut one = |item: &Expr| match item {
        Expr::Group(members) => match members.as_slice() {
            [(_, Expr::Any), .., (_, Expr::Int(n))] => {
                total = total.saturating_add(*n);
                room(total)?;
                room(*n)
            }
            [(_, _), .., (_, Expr::Int(_))] => {
                Err(Trouble::Unsupported("a vector with a buffer of its own".to_owned()))
            }
            _ => nonsense(WHAT),
        },
        _ => nonsense(WHAT),
    };
    items.iter().map(&mut one).collect()
}

pub(super) fn length(args: &[Expr], index: usize) -> Result<usize, Trouble> {
    usize::try_from(int(args, index)?).or_else(|_| nonsense("a size below zero"))
}

pub(super) fn member<'a>(e: Option<&'a Expr>, name: &str) -> Option<&'a Expr> {
    let Some(Expr::Group(members)) = e else { return None };
    members.iter().find(|(n, _)| n == name).map(|(_, e)| e)
}
