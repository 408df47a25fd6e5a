//! Arguments of system calls in a script, and jobs for the thread that makes the calls.

use super::names::word;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use tcpassay_script::ast::Expr;
use tcpassay_script::run::{ScriptError, SyscallResult};

/// The result of a job.
pub struct Returned {
    /// The result of the call.
    pub answer: Result<SyscallResult, ScriptError>,
    /// The new descriptor.
    pub made: Option<OwnedFd>,
}

/// A system call that the worker thread makes, because it may block.
pub type Job = Box<dyn FnOnce() -> Returned + Send>;

/// The values of `...` in arguments.
pub struct SocketEnvironment {
    /// `AF_INET` or `AF_INET6`.
    pub domain: i32,
    /// The address of `bind`.
    pub local: SocketAddr,
    /// The address of `connect`.
    pub remote: SocketAddr,
    /// The congestion controller of every socket.
    pub controller: String,
    /// `CLOCK_REALTIME` when the script began, in nanoseconds.
    pub began: u64,
}

/// The maximum number of bytes of one call.
pub(super) const MAX_BUFFER: i64 = 256 << 20;

/// A job that compares the values of the kernel with the script.
pub(super) fn compared(make: impl FnOnce() -> Result<SyscallResult, ScriptError> + Send + 'static) -> Job {
    Box::new(|| Returned { answer: make(), made: None })
}

pub(super) fn invalid<T>(why: &str) -> Result<T, ScriptError> {
    Err(ScriptError::Invalid(why.to_owned()))
}

/// The argument `index`, which must be a number.
pub fn int(args: &[Expr], index: usize) -> Result<i64, ScriptError> {
    let number = word(args.get(index))?;
    number.ok_or_else(|| ScriptError::Invalid(format!("argument {} must be a number", index + 1)))
}

pub(super) fn short(args: &[Expr], index: usize) -> Result<i32, ScriptError> {
    let n = int(args, index)?;
    // Flags may set the highest bit.
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
    usize::try_from(n).map(|n| vec![0; n]).or_else(|_| invalid("a negative size"))
}

/// The buffers of a vector, `[{..., 1000}, {..., 2000}]`.
pub(super) fn rooms(e: Option<&Expr>) -> Result<Vec<Vec<u8>>, ScriptError> {
    const WHAT: &str = "a vector of buffers must have the form `[{..., 1000}]`";
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
    usize::try_from(int(args, index)?).or_else(|_| invalid("a negative size"))
}

pub(super) fn member<'a>(e: Option<&'a Expr>, name: &str) -> Option<&'a Expr> {
    let Some(Expr::Group(members)) = e else { return None };
    members.iter().find(|(n, _)| n == name).map(|(_, e)| e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_32_bits_may_be_signed_or_unsigned() {
        let args = [Expr::Int(0xffff_ffff), Expr::Int(-1), Expr::Int(1 << 33)];
        assert_eq!((short(&args, 0), short(&args, 1)), (Ok(-1), Ok(-1)));
        assert_eq!(short(&args, 2), Err(ScriptError::Invalid("a number beyond 32 bits".to_owned())));
        assert_eq!(short(&args, 3), Err(ScriptError::Invalid("argument 4 must be a number".to_owned())));
    }

    #[test]
    fn absent_flags_are_zero_and_sizes_are_not_negative() {
        assert_eq!(flags(&[Expr::Any], 0), Ok(0));
        assert_eq!(length(&[Expr::Int(7)], 0), Ok(7));
        assert_eq!(length(&[Expr::Int(-7)], 0), Err(ScriptError::Invalid("a negative size".to_owned())));
    }

    #[test]
    fn buffers_have_at_most_256_mib() {
        assert_eq!(room(3).unwrap(), [0; 3]);
        assert!(matches!(room((256 << 20) + 1), Err(ScriptError::Unsupported(_))));
        assert!(matches!(room(-1), Err(ScriptError::Invalid(_))));
    }

    #[test]
    fn a_member_of_a_structure_is_found_by_its_name() {
        let group = Expr::Group(vec![("fd".to_owned(), Expr::Int(3)), ("events".to_owned(), Expr::Int(1))]);
        assert_eq!(member(Some(&group), "events"), Some(&Expr::Int(1)));
        assert_eq!((member(Some(&group), "revents"), member(Some(&Expr::Int(1)), "fd")), (None, None));
    }
}
