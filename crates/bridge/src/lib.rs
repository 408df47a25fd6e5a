//! The model TCP as a shared object that the original packetdrill loads: `packetdrill --so_filename=libtcpassay_bridge.so
//! --so_flags=linux SCRIPT`. Virtual time, no interface, no root.
//!
//! The interface is `struct packetdrill_interface` of packetdrill's `packetdrill.h`: pointers to functions that are called as the
//! system calls of the same name, and four of the original's own (send a packet, receive one, sleep, ask for the time).
//!
//! | file | what |
//! | --- | --- |
//! | `stack` | the model behind a lock; time; calls that block |
//! | `numbers` | Linux's numbers as names |
//! | this one | pointers: the only unsafe code |
//!
//! # Not there
//!
//! epoll, pipes and splice give `ENOSYS`; ICMP is not taken; sysctls that a script sets by shell lines reach the host of packetdrill
//! and not the model, whose profile (`--so_flags`) says all; options are laid out as Linux does, whatever the profile.

#![expect(
    unsafe_code,
    reason = "an interface of C: pointers come in and go out; each block says why it is sound"
)]
// As the interface has them: C's widths.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "C's integer widths at this boundary: descriptors, lengths and results that fit by their nature"
)]

mod numbers;
mod stack;

use libc::{
    c_char, c_int, c_long, c_longlong, c_ulong, c_void, iovec, pollfd, size_t, sockaddr, socklen_t, ssize_t,
    timeval,
};
use stack::{Bridge, Given};
use std::ffi::CStr;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::slice;
use tcpassay_script::ast::Expr;
use tcpassay_units::Dur;

type Us = *mut c_void;

/// `struct packetdrill_interface`, in its order.
#[repr(C)]
pub struct Interface {
    userdata: Us,
    free: extern "C" fn(Us),
    socket: extern "C" fn(Us, c_int, c_int, c_int) -> c_int,
    bind: extern "C" fn(Us, c_int, *const sockaddr, socklen_t) -> c_int,
    listen: extern "C" fn(Us, c_int, c_int) -> c_int,
    accept: extern "C" fn(Us, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: extern "C" fn(Us, c_int, *const sockaddr, socklen_t) -> c_int,
    read: extern "C" fn(Us, c_int, *mut c_void, size_t) -> ssize_t,
    readv: extern "C" fn(Us, c_int, *const iovec, c_int) -> ssize_t,
    recv: extern "C" fn(Us, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    recvfrom: extern "C" fn(Us, c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t,
    recvmsg: extern "C" fn(Us, c_int, *mut libc::msghdr, c_int) -> ssize_t,
    write: extern "C" fn(Us, c_int, *const c_void, size_t) -> ssize_t,
    writev: extern "C" fn(Us, c_int, *const iovec, c_int) -> ssize_t,
    send: extern "C" fn(Us, c_int, *const c_void, size_t, c_int) -> ssize_t,
    sendto: extern "C" fn(Us, c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t,
    sendmsg: extern "C" fn(Us, c_int, *const libc::msghdr, c_int) -> ssize_t,
    /// Declared with `...`; see [`fcntl`].
    fcntl: extern "C" fn(Us, c_int, c_int, usize) -> c_int,
    /// Declared with `...`; see [`fcntl`].
    ioctl: extern "C" fn(Us, c_int, c_ulong, *mut c_int) -> c_int,
    close: extern "C" fn(Us, c_int) -> c_int,
    shutdown: extern "C" fn(Us, c_int, c_int) -> c_int,
    getsockopt: extern "C" fn(Us, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    setsockopt: extern "C" fn(Us, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: extern "C" fn(Us, *mut pollfd, libc::nfds_t, c_int) -> c_int,
    netdev_send: extern "C" fn(Us, *const c_void, size_t) -> c_int,
    netdev_receive: extern "C" fn(Us, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    usleep: extern "C" fn(Us, libc::useconds_t) -> c_int,
    gettimeofday: extern "C" fn(Us, *mut timeval, *mut c_void) -> c_int,
    epoll_create: extern "C" fn(Us, c_int) -> c_int,
    epoll_ctl: extern "C" fn(Us, c_int, c_int, c_int, *mut libc::epoll_event) -> c_int,
    epoll_wait: extern "C" fn(Us, c_int, *mut libc::epoll_event, c_int, c_int) -> c_int,
    pipe: extern "C" fn(Us, *mut c_int) -> c_int,
    splice: extern "C" fn(Us, c_int, *mut i64, c_int, *mut i64, size_t, libc::c_uint) -> ssize_t,
}

/// What packetdrill looks up and calls once: fills in the interface. `flags` is `--so_flags`: the name of a profile; one that is
/// not known ends the program, since there is no way to return an error.
///
/// # Safety
/// `flags` is null or a C string; `interface` points to memory for the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, interface: *mut Interface) {
    // SAFETY: a C string when it is not null, as the caller promises.
    let flags = if flags.is_null() { "" } else { unsafe { CStr::from_ptr(flags) }.to_str().unwrap_or("?") };
    let bridge = match Bridge::new(flags) {
        Ok(bridge) => bridge,
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(2);
        }
    };
    let made = Interface {
        userdata: Box::into_raw(Box::new(bridge)).cast(),
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    };
    // SAFETY: the caller's memory for the structure, which holds nothing that would have to be dropped.
    unsafe { interface.write(made) };
}

fn bridge<'a>(us: Us) -> &'a Bridge {
    // SAFETY: `userdata` is the Box of `packetdrill_interface_init`, which lives until `free`, the last call; a Bridge is shared
    // between threads by its own lock.
    unsafe { &*us.cast::<Bridge>() }
}

extern "C" fn free(us: Us) {
    // SAFETY: made by Box::into_raw in `packetdrill_interface_init`; nothing uses it any more.
    drop(unsafe { Box::from_raw(us.cast::<Bridge>()) });
}

fn fail(errno: c_int) -> i64 {
    // SAFETY: the calling thread's own errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}

fn long(given: Given) -> ssize_t {
    given.unwrap_or_else(fail) as ssize_t
}

fn short(given: Given) -> c_int {
    given.unwrap_or_else(fail) as c_int
}

fn int(n: impl Into<i64>) -> Expr {
    Expr::Int(n.into())
}

fn address(at: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    if at.is_null() || (len as usize) < size_of::<libc::sockaddr_in>() {
        return None;
    }
    // SAFETY: `len` bytes are there; the family says which structure they are, whose length is looked at before it is read.
    unsafe {
        match c_int::from((*at).sa_family) {
            libc::AF_INET => {
                let at = at.cast::<libc::sockaddr_in>().read_unaligned();
                Some(
                    SocketAddrV4::new(u32::from_be(at.sin_addr.s_addr).into(), u16::from_be(at.sin_port))
                        .into(),
                )
            }
            libc::AF_INET6 if len as usize >= size_of::<libc::sockaddr_in6>() => {
                let at = at.cast::<libc::sockaddr_in6>().read_unaligned();
                let ip = std::net::Ipv6Addr::from(at.sin6_addr.s6_addr).to_canonical();
                Some(match ip {
                    std::net::IpAddr::V4(ip) => SocketAddrV4::new(ip, u16::from_be(at.sin6_port)).into(),
                    std::net::IpAddr::V6(ip) => {
                        SocketAddrV6::new(ip, u16::from_be(at.sin6_port), 0, 0).into()
                    }
                })
            }
            _ => None,
        }
    }
}

/// Writes an address, cut to the room that there is, as accept(2) does.
fn give_address(at: SocketAddr, into: *mut sockaddr, len: *mut socklen_t) {
    if into.is_null() || len.is_null() {
        return;
    }
    let mut bytes = [0_u8; 28];
    let whole = match at {
        SocketAddr::V4(v4) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&v4.ip().octets());
            16
        }
        SocketAddr::V6(v6) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            28
        }
    };
    bytes[2..4].copy_from_slice(&at.port().to_be_bytes());
    // SAFETY: the caller has room for `*len` bytes, and no more than these are written.
    unsafe {
        let n = whole.min(*len as usize);
        into.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), n);
        *len = whole as socklen_t;
    }
}

extern "C" fn socket(us: Us, _domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    short(bridge(us).call("socket", vec![Expr::Any, numbers::kind(kind), numbers::protocol(protocol)]))
}

extern "C" fn bind(us: Us, fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    short(address(at, len).ok_or(libc::EAFNOSUPPORT).and_then(|at| bridge(us).bind(fd.into(), at)))
}

extern "C" fn listen(us: Us, fd: c_int, backlog: c_int) -> c_int {
    short(bridge(us).listen(fd.into(), backlog))
}

extern "C" fn accept(us: Us, fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int {
    short(bridge(us).accept(fd.into()).map(|(made, remote)| {
        if let Some(remote) = remote {
            give_address(remote, at, len);
        }
        made
    }))
}

extern "C" fn connect(us: Us, fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    short(address(at, len).ok_or(libc::EAFNOSUPPORT).and_then(|at| bridge(us).connect(fd.into(), at)))
}

/// Payload is zeros.
fn fill(into: *mut c_void, given: Given) -> ssize_t {
    if let Ok(n) = given
        && !into.is_null()
    {
        // SAFETY: a read gives no more than the caller asked for, and has room for.
        unsafe { into.cast::<u8>().write_bytes(0, n as usize) };
    }
    long(given)
}

extern "C" fn read(us: Us, fd: c_int, into: *mut c_void, n: size_t) -> ssize_t {
    fill(into, bridge(us).call("read", vec![int(fd), Expr::Any, int(n as i64)]))
}

extern "C" fn recv(us: Us, fd: c_int, into: *mut c_void, n: size_t, flags: c_int) -> ssize_t {
    let args = vec![int(fd), Expr::Any, int(n as i64), numbers::message_flags(flags)];
    let given = bridge(us).call("recv", args);
    // With MSG_TRUNC nothing is written (tcp(7)).
    fill(if flags & libc::MSG_TRUNC == 0 { into } else { std::ptr::null_mut() }, given)
}

extern "C" fn recvfrom(
    us: Us,
    fd: c_int,
    into: *mut c_void,
    n: size_t,
    flags: c_int,
    _at: *mut sockaddr,
    _len: *mut socklen_t,
) -> ssize_t {
    recv(us, fd, into, n, flags)
}

/// The lengths of a vector's parts as `[{..., n}, ...]`.
fn parts(list: *const iovec, count: usize) -> Expr {
    // SAFETY: the caller has `count` entries there.
    let list = if count == 0 { &[] } else { unsafe { slice::from_raw_parts(list, count) } };
    let one = |part: &iovec| {
        Expr::Group(vec![(String::new(), Expr::Any), (String::new(), int(part.iov_len as i64))])
    };
    Expr::List(list.iter().map(one).collect())
}

extern "C" fn readv(us: Us, fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    long(bridge(us).call("readv", vec![int(fd), parts(list, count as usize), int(count)]))
}

extern "C" fn writev(us: Us, fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    long(bridge(us).call("writev", vec![int(fd), parts(list, count as usize), int(count)]))
}

fn message(call: &str, us: Us, fd: c_int, header: *const libc::msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's message header.
    let header = unsafe { &*header };
    let list = parts(header.msg_iov, header.msg_iovlen);
    let whole = Expr::Group(vec![("msg_iov".to_owned(), list)]);
    long(bridge(us).call(call, vec![int(fd), whole, numbers::message_flags(flags)]))
}

extern "C" fn recvmsg(us: Us, fd: c_int, header: *mut libc::msghdr, flags: c_int) -> ssize_t {
    let given = message("recvmsg", us, fd, header, flags);
    // SAFETY: the caller's message header; there are no control messages.
    unsafe { (*header).msg_controllen = 0 };
    given
}

extern "C" fn sendmsg(us: Us, fd: c_int, header: *const libc::msghdr, flags: c_int) -> ssize_t {
    message("sendmsg", us, fd, header, flags)
}

extern "C" fn write(us: Us, fd: c_int, _from: *const c_void, n: size_t) -> ssize_t {
    long(bridge(us).call("write", vec![int(fd), Expr::Any, int(n as i64)]))
}

extern "C" fn send(us: Us, fd: c_int, _from: *const c_void, n: size_t, flags: c_int) -> ssize_t {
    long(bridge(us).call("send", vec![int(fd), Expr::Any, int(n as i64), numbers::message_flags(flags)]))
}

extern "C" fn sendto(
    us: Us,
    fd: c_int,
    from: *const c_void,
    n: size_t,
    flags: c_int,
    _at: *const sockaddr,
    _len: socklen_t,
) -> ssize_t {
    send(us, fd, from, n, flags)
}

/// The C declaration is variadic, and Rust cannot define such a function yet. Where this crate runs (System V on `x86_64`, AAPCS64),
/// a variadic integer or pointer is passed exactly as a named one, in the next register; callers that pass none leave
/// there something that only `F_SETFL` would look at.
extern "C" fn fcntl(us: Us, fd: c_int, command: c_int, argument: usize) -> c_int {
    let [command, argument] = numbers::file_control(command, argument);
    short(bridge(us).call("fcntl", vec![int(fd), command, argument]))
}

extern "C" fn ioctl(us: Us, fd: c_int, request: c_ulong, into: *mut c_int) -> c_int {
    short(bridge(us).ask("ioctl", vec![int(fd), numbers::request(request), Expr::Any]).map(|n| {
        // SAFETY: the requests that are known write one int, for which the caller has room.
        unsafe { into.write(n as c_int) };
        0
    }))
}

extern "C" fn close(us: Us, fd: c_int) -> c_int {
    short(bridge(us).close(fd.into()))
}

extern "C" fn shutdown(us: Us, fd: c_int, how: c_int) -> c_int {
    short(bridge(us).call("shutdown", vec![int(fd), numbers::how(how)]))
}

extern "C" fn getsockopt(
    us: Us,
    fd: c_int,
    level: c_int,
    option: c_int,
    into: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller says in `*len` how much room there is.
    let room = unsafe { *len } as usize;
    let bytes = if (level, option) == (libc::IPPROTO_TCP, libc::TCP_INFO) {
        tcpassay_linux::tcp_info::tcp_info(|name| bridge(us).info(fd.into(), name))
    } else {
        let [level, option] = numbers::option(level, option);
        match bridge(us).ask("getsockopt", vec![int(fd), level, option, Expr::Any, Expr::Any]) {
            Ok(n) => (n as c_int).to_ne_bytes().to_vec(),
            Err(errno) => return fail(errno) as c_int,
        }
    };
    let n = bytes.len().min(room);
    // SAFETY: no more than the room that there is.
    unsafe {
        into.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), n);
        *len = n as socklen_t;
    }
    0
}

extern "C" fn setsockopt(
    us: Us,
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: the caller has `len` bytes there.
    let bytes =
        if len == 0 { &[] } else { unsafe { slice::from_raw_parts(value.cast::<u8>(), len as usize) } };
    let word =
        |at: usize| bytes.get(at..at + 4).map_or(0, |b| c_int::from_ne_bytes(b.try_into().expect("4 bytes")));
    let value = match (level, option) {
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            Expr::Text(String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned())
        }
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            Expr::Group(vec![("onoff".to_owned(), int(word(0))), ("linger".to_owned(), int(word(4)))])
        }
        _ => int(word(0)),
    };
    let [level, option] = numbers::option(level, option);
    short(bridge(us).call("setsockopt", vec![int(fd), level, option, value, int(len)]))
}

extern "C" fn poll(us: Us, list: *mut pollfd, count: libc::nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the caller has `count` entries there, to read and to write.
    let list = if count == 0 { &mut [] } else { unsafe { slice::from_raw_parts_mut(list, count as usize) } };
    let of: Vec<(i64, i16)> = list.iter().map(|p| (p.fd.into(), p.events)).collect();
    short(bridge(us).poll(&of, timeout).map(|happened| {
        for (entry, now) in list.iter_mut().zip(&happened) {
            entry.revents = *now;
        }
        happened.iter().filter(|now| **now != 0).count() as i64
    }))
}

extern "C" fn netdev_send(us: Us, from: *const c_void, n: size_t) -> c_int {
    // SAFETY: the caller has `n` bytes there.
    let bytes = unsafe { slice::from_raw_parts(from.cast::<u8>(), n) };
    short(bridge(us).receive(bytes).map(|()| 0))
}

extern "C" fn netdev_receive(us: Us, into: *mut c_void, count: *mut size_t, time: *mut c_longlong) -> c_int {
    let mut bytes = Vec::new();
    let at = bridge(us).next_packet(&mut bytes);
    // SAFETY: `*count` says how much room there is, and no more is written; both other pointers are the caller's to write.
    unsafe {
        let n = bytes.len().min(*count);
        into.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), n);
        *count = n;
        *time = at.unwrap_or(0) as c_longlong;
    }
    0
}

extern "C" fn usleep(us: Us, time: libc::useconds_t) -> c_int {
    bridge(us).sleep(Dur::from_micros(time.into()));
    0
}

extern "C" fn gettimeofday(us: Us, into: *mut timeval, _zone: *mut c_void) -> c_int {
    let now = bridge(us).now();
    let made = timeval { tv_sec: (now / 1_000_000) as c_long, tv_usec: (now % 1_000_000) as c_long };
    // SAFETY: the caller's memory for the structure.
    unsafe { into.write(made) };
    0
}

extern "C" fn epoll_create(_: Us, _: c_int) -> c_int {
    fail(libc::ENOSYS) as c_int
}

extern "C" fn epoll_ctl(_: Us, _: c_int, _: c_int, _: c_int, _: *mut libc::epoll_event) -> c_int {
    fail(libc::ENOSYS) as c_int
}

extern "C" fn epoll_wait(_: Us, _: c_int, _: *mut libc::epoll_event, _: c_int, _: c_int) -> c_int {
    fail(libc::ENOSYS) as c_int
}

extern "C" fn pipe(_: Us, _: *mut c_int) -> c_int {
    fail(libc::ENOSYS) as c_int
}

extern "C" fn splice(
    _: Us,
    _: c_int,
    _: *mut i64,
    _: c_int,
    _: *mut i64,
    _: size_t,
    _: libc::c_uint,
) -> ssize_t {
    fail(libc::ENOSYS) as ssize_t
}
