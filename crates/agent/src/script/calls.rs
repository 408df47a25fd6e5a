//! System calls of a script on the kernel. Each call is a job for the worker thread, because it may block.

use super::arguments::{
    Job, MAX_BUFFER, Returned, SocketEnvironment, compared, flags, int, invalid, length, member, room, rooms,
    short,
};
use super::names::{error, number, word};
use std::os::fd::{OwnedFd, RawFd};
use tcpassay_linux::syscall::{self, Address, SyscallReturn};
use tcpassay_script::ast::{Expr, Syscall};
use tcpassay_script::run::{ScriptError, SyscallResult};

pub(super) fn answered(result: SyscallReturn) -> SyscallResult {
    result.map_or_else(|errno| SyscallResult::Error(error(errno)), SyscallResult::Done)
}

fn job(make: impl FnOnce() -> SyscallReturn + Send + 'static) -> Job {
    Box::new(|| Returned { answer: Ok(answered(make())), made: None })
}

fn making(make: impl FnOnce() -> Result<OwnedFd, i32> + Send + 'static) -> Job {
    Box::new(|| match make() {
        Ok(fd) => Returned { answer: Ok(SyscallResult::NewDescriptor), made: Some(fd) },
        Err(errno) => Returned { answer: Ok(SyscallResult::Error(error(errno))), made: None },
    })
}

/// Returns true if an argument is `NULL`.
fn null(e: Option<&Expr>) -> bool {
    matches!(e, Some(Expr::Names(names)) if names.as_slice() == ["NULL"])
}

/// The job of a call with `NULL` as a pointer.
fn with_null(call: &Syscall, fd: RawFd, at: &SocketEnvironment) -> Result<Job, ScriptError> {
    let args = &call.args;
    let made = match call.name.as_str() {
        "read" => syscall::NullCall::Read(fd, length(args, 2)?),
        "recv" | "recvfrom" => syscall::NullCall::Receive(fd, length(args, 2)?, flags(args, 3)?),
        "write" => syscall::NullCall::Write(fd, length(args, 2)?),
        "send" | "sendto" => {
            let flags = flags(args, 3)?;
            let to = (flags & libc::MSG_FASTOPEN != 0).then(|| Address::of(at.remote));
            syscall::NullCall::Send(fd, length(args, 2)?, flags | libc::MSG_NOSIGNAL, to)
        }
        "bind" => syscall::NullCall::Bind(fd),
        "connect" => syscall::NullCall::Connect(fd),
        "setsockopt" => syscall::NullCall::Set(fd, short(args, 1)?, short(args, 2)?),
        "getsockopt" => syscall::NullCall::Get(fd, short(args, 1)?, short(args, 2)?),
        "getsockname" | "getpeername" => syscall::NullCall::Name(fd, call.name == "getpeername"),
        other => return Err(ScriptError::Unsupported(format!("{other} with NULL"))),
    };
    Ok(job(move || syscall::with_null(made)))
}

/// The address of a call with `MSG_FASTOPEN`; `None` without that flag.
fn fast_address(flags: i32, e: Option<&Expr>, at: &SocketEnvironment) -> Option<Address> {
    let unspecified = matches!(e, Some(Expr::Names(names)) if names.as_slice() == ["AF_UNSPEC"]);
    (flags & libc::MSG_FASTOPEN != 0)
        .then(|| if unspecified { Address::unspecified() } else { Address::of(at.remote) })
}

/// The job of a call. `live` maps descriptors of the script to those of the process.
pub fn prepare(
    call: &Syscall,
    live: &dyn Fn(i64) -> Result<RawFd, ScriptError>,
    at: &SocketEnvironment,
) -> Result<Job, ScriptError> {
    let args = &call.args;
    let fd = || live(int(args, 0)?);
    let pointer = if matches!(call.name.as_str(), "setsockopt" | "getsockopt") { 3 } else { 1 };
    if null(args.get(pointer)) && !matches!(call.name.as_str(), "splice" | "accept" | "accept4") {
        return with_null(call, fd()?, at);
    }
    Ok(match call.name.as_str() {
        "socket" => socket(args, at)?,
        "bind" => {
            let (fd, local) = (fd()?, Address::of(at.local));
            job(move || syscall::bind(fd, &local))
        }
        "listen" => {
            let (fd, backlog) = (fd()?, short(args, 1)?);
            job(move || syscall::listen(fd, backlog))
        }
        "accept" => {
            let fd = fd()?;
            making(move || syscall::accept(fd, 0))
        }
        "accept4" => {
            let (fd, flags) = (fd()?, flags(args, 3)?);
            making(move || syscall::accept(fd, flags))
        }
        "connect" => {
            let fd = fd()?;
            let unspecified =
                matches!(args.get(1), Some(Expr::Names(names)) if names.as_slice() == ["AF_UNSPEC"]);
            let to = if unspecified { Address::unspecified() } else { Address::of(at.remote) };
            job(move || syscall::connect(fd, &to))
        }
        "read" => {
            let (fd, mut into) = (fd()?, room(int(args, 2)?)?);
            job(move || syscall::read(fd, &mut into))
        }
        "recv" | "recvfrom" => {
            let (fd, mut into, flags) = (fd()?, room(int(args, 2)?)?, flags(args, 3)?);
            job(move || syscall::receive(fd, &mut into, flags))
        }
        "readv" => {
            let (fd, mut into) = (fd()?, rooms(args.get(1))?);
            job(move || syscall::read_vector(fd, &mut into))
        }
        "recvmsg" => super::message::receive(fd()?, args, at)?,
        "splice" | "sendfile" => between(call, fd()?, live)?,
        "open" => making(|| syscall::file_of_zeros(MAX_BUFFER)),
        "write" => {
            let (fd, from) = (fd()?, room(int(args, 2)?)?);
            job(move || syscall::write(fd, &from))
        }
        "send" | "sendto" => {
            let (fd, from, flags) = (fd()?, room(int(args, 2)?)?, flags(args, 3)?);
            let to = fast_address(flags, args.get(4), at);
            job(move || syscall::send(fd, &from, flags | libc::MSG_NOSIGNAL, to.as_ref()))
        }
        "writev" => {
            let (fd, mut from) = (fd()?, rooms(args.get(1))?);
            job(move || syscall::write_vector(fd, &mut from))
        }
        "sendmsg" => send_message(fd()?, args, at)?,
        "shutdown" => {
            let (fd, how) = (fd()?, short(args, 1)?);
            job(move || syscall::shutdown(fd, how))
        }
        "fcntl" => {
            let (fd, command, argument) = (fd()?, short(args, 1)?, flags(args, 2)?);
            if ![libc::F_GETFL, libc::F_SETFL].contains(&command) {
                return Err(ScriptError::Unsupported(format!("fcntl {command}")));
            }
            job(move || syscall::fcntl(fd, command, argument))
        }
        "ioctl" => ask(fd()?, args)?,
        "setsockopt" => {
            let (fd, level, option, value) = (fd()?, short(args, 1)?, short(args, 2)?, bytes(args.get(3))?);
            job(move || syscall::set(fd, level, option, &value))
        }
        "getsockopt" => get(fd()?, args)?,
        "poll" => poll(args, live)?,
        "epoll_create" | "epoll_create1" => making(syscall::epoll),
        "epoll_ctl" => {
            let (epoll, operation, fd) = (fd()?, short(args, 1)?, live(int(args, 2)?)?);
            let events = word(member(args.get(3), "events"))?.unwrap_or(0);
            let events = u32::try_from(events).or_else(|_| invalid("events beyond 32 bits"))?;
            job(move || syscall::epoll_ctl(epoll, operation, fd, events, 0))
        }
        "epoll_wait" => epoll_wait(fd()?, args)?,
        "getsockname" | "getpeername" => {
            let (fd, peer) = (fd()?, call.name == "getpeername");
            job(move || syscall::socket_address(fd, peer).map(|_| 0))
        }
        other => return Err(ScriptError::Unsupported(format!("the system call `{other}`"))),
    })
}

/// splice(2) and sendfile(2): data from one descriptor to another; `fd` is the first argument.
fn between(
    call: &Syscall,
    fd: RawFd,
    live: &dyn Fn(i64) -> Result<RawFd, ScriptError>,
) -> Result<Job, ScriptError> {
    let args = &call.args;
    if call.name == "sendfile" {
        let (to, from) = (fd, live(int(args, 1)?)?);
        let (offset, n) = (word(args.get(2))?.unwrap_or(0), length(args, 3)?);
        return Ok(job(move || syscall::send_file(to, from, offset, n)));
    }
    let (from, to) = (fd, live(int(args, 2)?)?);
    let (n, flags) = (length(args, 4)?, flags(args, 5)?.cast_unsigned());
    if !null(args.get(1)) || !null(args.get(3)) {
        return Err(ScriptError::Unsupported("splice with an offset".to_owned()));
    }
    Ok(job(move || syscall::splice(from, to, n, flags)))
}

fn send_message(fd: RawFd, args: &[Expr], at: &SocketEnvironment) -> Result<Job, ScriptError> {
    if member(args.get(1), "msg_control").is_some_and(|e| *e != Expr::List(Vec::new())) {
        return Err(ScriptError::Unsupported("a control message in sendmsg".to_owned()));
    }
    let (mut from, flags) = (rooms(member(args.get(1), "msg_iov"))?, flags(args, 2)?);
    let to = fast_address(flags, None, at);
    Ok(job(move || syscall::send_message(fd, &mut from, flags | libc::MSG_NOSIGNAL, to.as_ref())))
}

/// close(2) of a descriptor.
pub fn close(file: OwnedFd) -> Job {
    job(move || syscall::close(file))
}

/// Returns true if a call has the flag `MSG_FASTOPEN`.
pub fn uses_fast_open(call: &Syscall) -> bool {
    let index = match call.name.as_str() {
        "sendto" | "send" => 3,
        "sendmsg" => 2,
        _ => return false,
    };
    flags(&call.args, index).is_ok_and(|flags| flags & libc::MSG_FASTOPEN != 0)
}

fn socket(args: &[Expr], at: &SocketEnvironment) -> Result<Job, ScriptError> {
    let (kind, protocol) = (flags(args, 1)?, flags(args, 2)?);
    if ![0, libc::IPPROTO_TCP].contains(&protocol) || kind & 0xf != libc::SOCK_STREAM {
        return Err(ScriptError::Unsupported("a socket that is not TCP".to_owned()));
    }
    let (domain, controller) = (at.domain, at.controller.clone());
    Ok(making(move || {
        use std::os::fd::AsRawFd;
        let made = syscall::socket(domain, kind, protocol)?;
        syscall::set(made.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, controller.as_bytes())?;
        Ok(made)
    }))
}

/// The value of a socket option.
fn bytes(e: Option<&Expr>) -> Result<Vec<u8>, ScriptError> {
    match e {
        Some(Expr::Text(text)) => Ok(unescaped(text)),
        Some(Expr::List(items)) if items.len() == 1 => bytes(items.first()),
        Some(Expr::Group(members)) => {
            let known = |(name, _): &(String, Expr)| {
                ["onoff", "linger", "l_onoff", "l_linger"].contains(&name.as_str())
            };
            if !members.iter().all(known) {
                return Err(ScriptError::Unsupported(
                    "a structure as the value of a socket option".to_owned(),
                ));
            }
            let mut made = Vec::new();
            for (_, e) in members {
                made.extend(bytes(Some(e))?);
            }
            Ok(made)
        }
        e => {
            let n = word(e)?.unwrap_or(0);
            let n = i32::try_from(n).or_else(|_| u32::try_from(n).map(u32::cast_signed));
            Ok(n.or_else(|_| invalid("an option beyond 32 bits"))?.to_ne_bytes().to_vec())
        }
    }
}

/// The bytes of a string. `\x` and two digits are one byte.
fn unescaped(text: &str) -> Vec<u8> {
    let mut made = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.strip_prefix(b"x").and_then(|d| d.get(..2)).filter(|_| *first == b'\\');
        let byte = digits.and_then(|d| u8::from_str_radix(str::from_utf8(d).ok()?, 16).ok());
        made.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    made
}

/// Compares a 32-bit value with the script. Its sign is unknown, so `0xffffffff` equals -1.
fn compare(want: Option<i64>, live: i64) -> Result<SyscallResult, ScriptError> {
    let same =
        |want: i64| want == live || u32::try_from(want).is_ok_and(|n| i64::from(n.cast_signed()) == live);
    match want {
        Some(want) if !same(want) => {
            Err(ScriptError::Mismatch { expected: format!("[{want}]"), live: format!("[{live}]") })
        }
        _ => Ok(SyscallResult::Done(0)),
    }
}

fn ask(fd: RawFd, args: &[Expr]) -> Result<Job, ScriptError> {
    let request = int(args, 1)?;
    let known = ["SIOCINQ", "SIOCOUTQ", "SIOCOUTQNSD", "SIOCATMARK"].map(number);
    if !known.contains(&Ok(request)) {
        return Err(ScriptError::Unsupported(format!("ioctl {request:#x}")));
    }
    let request = libc::c_ulong::try_from(request).or_else(|_| invalid("a negative request"))?;
    let want = word(args.get(2))?;
    Ok(compared(move || match syscall::ioctl_read_int(fd, request) {
        Ok(n) => compare(want, n),
        Err(errno) => Ok(SyscallResult::Error(error(errno))),
    }))
}

fn get(fd: RawFd, args: &[Expr]) -> Result<Job, ScriptError> {
    let (level, option) = (short(args, 1)?, short(args, 2)?);
    let want = args.get(3).cloned();
    Ok(compared(move || {
        let mut buffer = [0; 512];
        let len = match syscall::get(fd, level, option, &mut buffer) {
            Ok(len) => len,
            Err(errno) => return Ok(SyscallResult::Error(error(errno))),
        };
        match &want {
            Some(Expr::Text(text)) => {
                let live = String::from_utf8_lossy(&buffer[..len]);
                let live = live.trim_end_matches('\0');
                if live == text {
                    Ok(SyscallResult::Done(0))
                } else {
                    Err(ScriptError::Mismatch { expected: text.clone(), live: live.to_owned() })
                }
            }
            Some(Expr::Group(_)) => {
                let wanted = bytes(want.as_ref())?;
                if buffer.starts_with(&wanted) {
                    Ok(SyscallResult::Done(0))
                } else {
                    Err(ScriptError::Mismatch {
                        expected: format!("{wanted:?}"),
                        live: format!("{:?}", &buffer[..len]),
                    })
                }
            }
            other => {
                let live = i32::from_ne_bytes(buffer[..4].try_into().expect("4 bytes"));
                compare(word(other.as_ref())?, live.into())
            }
        }
    }))
}

fn poll(args: &[Expr], live: &dyn Fn(i64) -> Result<RawFd, ScriptError>) -> Result<Job, ScriptError> {
    let Some(Expr::List(items)) = args.first() else {
        return invalid(
            "the descriptors of poll must have the form `[{fd=3, events=POLLIN, revents=POLLIN}]`",
        );
    };
    let events = |e: Option<&Expr>| {
        let n = word(e)?;
        n.map(|n| i16::try_from(n).or_else(|_| invalid("events beyond 16 bits"))).transpose()
    };
    let mut of = Vec::new();
    let mut wanted = Vec::new();
    for item in items {
        let fd = word(member(Some(item), "fd"))?;
        let fd =
            live(fd.ok_or_else(|| {
                ScriptError::Invalid("an entry of poll must have the member `fd`".to_owned())
            })?)?;
        of.push((fd, events(member(Some(item), "events"))?.unwrap_or(0)));
        wanted.push(events(member(Some(item), "revents"))?);
    }
    let timeout = short(args, 2)?;
    Ok(compared(move || {
        let mut happened = Vec::new();
        match syscall::poll(&of, timeout, &mut happened) {
            Err(errno) => Ok(SyscallResult::Error(error(errno))),
            Ok(n) => {
                let same = wanted.iter().zip(&happened).all(|(w, live)| w.is_none_or(|w| w == *live));
                if same {
                    return Ok(SyscallResult::Done(n));
                }
                let wanted: Vec<i16> =
                    wanted.iter().zip(&happened).map(|(w, live)| w.unwrap_or(*live)).collect();
                Err(ScriptError::Mismatch {
                    expected: format!("{wanted:#x?}"),
                    live: format!("{happened:#x?}"),
                })
            }
        }
    }))
}

fn epoll_wait(epoll: RawFd, args: &[Expr]) -> Result<Job, ScriptError> {
    let events = |e: &Expr| word(member(Some(e), "events"));
    let wanted: Vec<Option<i64>> = match args.get(1) {
        Some(Expr::List(items)) => items.iter().map(events).collect::<Result<_, _>>()?,
        Some(one @ Expr::Group(_)) => vec![events(one)?],
        _ => Vec::new(),
    };
    let (most, timeout) = (short(args, 2)?, short(args, 3)?);
    Ok(compared(move || {
        let mut happened = Vec::new();
        match syscall::epoll_wait(epoll, most, timeout, &mut happened) {
            Err(errno) => Ok(SyscallResult::Error(error(errno))),
            Ok(n) => {
                let differs = |(w, live): (&Option<i64>, &u32)| w.is_some_and(|w| w != i64::from(*live));
                if wanted.iter().zip(&happened).any(differs) {
                    let (expected, live) = (format!("{wanted:#x?}"), format!("{happened:#x?}"));
                    return Err(ScriptError::Mismatch { expected, live });
                }
                Ok(SyscallResult::Done(n))
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_32_bits_may_be_written_with_and_without_its_sign() {
        assert_eq!(compare(Some(0xffff_ffff), -1), Ok(SyscallResult::Done(0)));
        assert_eq!(compare(Some(-1), -1), Ok(SyscallResult::Done(0)));
        assert!(compare(Some(1), -1).is_err());
    }

    #[test]
    fn a_text_may_have_bytes_by_their_digits() {
        assert_eq!(unescaped("\\x00\\xffa\\n\\x0"), b"\x00\xffa\\n\\x0");
    }

    #[test]
    fn vectors_larger_than_the_runner_takes_are_unsupported() {
        let part = |n: i64| Expr::Group(vec![(String::new(), Expr::Any), (String::new(), Expr::Int(n))]);
        assert_eq!(rooms(Some(&Expr::List(vec![part(5), part(0)]))).unwrap(), [vec![0_u8; 5], vec![]]);
        let large = Expr::List(vec![part(MAX_BUFFER), part(1)]);
        assert!(matches!(rooms(Some(&large)), Err(ScriptError::Unsupported(_))));
    }
}
