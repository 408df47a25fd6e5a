//! The model TCP as a shared object that the original packetdrill loads: `packetdrill --so_filename=libtcpassay_bridge.so
//! --so_flags=linux SCRIPT`. Virtual time, no interface, no root.
//!
//! The interface is `struct packetdrill_interface` of packetdrill's `packetdrill.h`: pointers to functions with the names and arguments of
//! system calls, and four functions of packetdrill (send a packet, receive a packet, sleep, get the time).
//!
//! | module | content |
//! | --- | --- |
//! | `stack` | the model behind a lock; virtual time; calls that block |
//! | `numbers` | the numbers of Linux as the names that the model knows |
//! | this one | the functions of the interface, with all unsafe code |
//!
//! # Limits
//!
//! epoll, pipes and splice return `ENOSYS`. Injected ICMP messages are refused. Sysctls that a script sets by shell commands change the
//! host of packetdrill, not the model: its profile (`--so_flags`) determines its behaviour. TCP options have the order of
//! Linux with every profile.

#![expect(unsafe_code, reason = "a C interface with pointers; each block says why it is sound")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "descriptors, lengths and results have the integer types of C; their values fit"
)]

mod numbers;
mod stack;

use libc::{
    c_char, c_int, c_long, c_longlong, c_ulong, c_void, iovec, pollfd, size_t, sockaddr, socklen_t, ssize_t,
    timeval,
};
use stack::Bridge;
use std::ffi::CStr;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::slice;
use tcpassay_linux::syscall::SyscallReturn;
use tcpassay_script::ast::Expr;
use tcpassay_units::Dur;

type Userdata = *mut c_void;

/// `struct packetdrill_interface`; the order of the fields is that of the header.
#[repr(C)]
pub struct PacketdrillInterface {
    userdata: Userdata,
    free: extern "C" fn(Userdata),
    socket: extern "C" fn(Userdata, c_int, c_int, c_int) -> c_int,
    bind: extern "C" fn(Userdata, c_int, *const sockaddr, socklen_t) -> c_int,
    listen: extern "C" fn(Userdata, c_int, c_int) -> c_int,
    accept: extern "C" fn(Userdata, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: extern "C" fn(Userdata, c_int, *const sockaddr, socklen_t) -> c_int,
    read: extern "C" fn(Userdata, c_int, *mut c_void, size_t) -> ssize_t,
    readv: extern "C" fn(Userdata, c_int, *const iovec, c_int) -> ssize_t,
    recv: extern "C" fn(Userdata, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    recvfrom:
        extern "C" fn(Userdata, c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t,
    recvmsg: extern "C" fn(Userdata, c_int, *mut libc::msghdr, c_int) -> ssize_t,
    write: extern "C" fn(Userdata, c_int, *const c_void, size_t) -> ssize_t,
    writev: extern "C" fn(Userdata, c_int, *const iovec, c_int) -> ssize_t,
    send: extern "C" fn(Userdata, c_int, *const c_void, size_t, c_int) -> ssize_t,
    sendto:
        extern "C" fn(Userdata, c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t,
    sendmsg: extern "C" fn(Userdata, c_int, *const libc::msghdr, c_int) -> ssize_t,
    /// Variadic in C; see [`fcntl`].
    fcntl: extern "C" fn(Userdata, c_int, c_int, usize) -> c_int,
    /// Variadic in C; see [`fcntl`].
    ioctl: extern "C" fn(Userdata, c_int, c_ulong, *mut c_int) -> c_int,
    close: extern "C" fn(Userdata, c_int) -> c_int,
    shutdown: extern "C" fn(Userdata, c_int, c_int) -> c_int,
    getsockopt: extern "C" fn(Userdata, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    setsockopt: extern "C" fn(Userdata, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: extern "C" fn(Userdata, *mut pollfd, libc::nfds_t, c_int) -> c_int,
    netdev_send: extern "C" fn(Userdata, *const c_void, size_t) -> c_int,
    netdev_receive: extern "C" fn(Userdata, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    usleep: extern "C" fn(Userdata, libc::useconds_t) -> c_int,
    gettimeofday: extern "C" fn(Userdata, *mut timeval, *mut c_void) -> c_int,
    epoll_create: extern "C" fn(Userdata, c_int) -> c_int,
    epoll_ctl: extern "C" fn(Userdata, c_int, c_int, c_int, *mut libc::epoll_event) -> c_int,
    epoll_wait: extern "C" fn(Userdata, c_int, *mut libc::epoll_event, c_int, c_int) -> c_int,
    pipe: extern "C" fn(Userdata, *mut c_int) -> c_int,
    splice: extern "C" fn(Userdata, c_int, *mut i64, c_int, *mut i64, size_t, libc::c_uint) -> ssize_t,
}

/// The entry point, which packetdrill looks up by name and calls once. Fills in the interface. `flags` is the value of `--so_flags`, the
/// name of a profile. An unknown profile ends the program with a message, because the function cannot return an error.
///
/// # Safety
/// `flags` is null or a C string; `interface` points to memory for the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    interface: *mut PacketdrillInterface,
) {
    // SAFETY: a C string when it is not null, as the caller promises.
    let flags = if flags.is_null() { "" } else { unsafe { CStr::from_ptr(flags) }.to_str().unwrap_or("?") };
    let bridge = match Bridge::new(flags) {
        Ok(bridge) => bridge,
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(2);
        }
    };
    let made = PacketdrillInterface {
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

fn bridge<'a>(userdata: Userdata) -> &'a Bridge {
    // SAFETY: `userdata` is the Box of `packetdrill_interface_init`, which lives until `free`, the last call; a Bridge is shared
    // between threads by its own lock.
    unsafe { &*userdata.cast::<Bridge>() }
}

extern "C" fn free(userdata: Userdata) {
    // SAFETY: made by Box::into_raw in `packetdrill_interface_init`; nothing uses it any more.
    drop(unsafe { Box::from_raw(userdata.cast::<Bridge>()) });
}

fn fail(errno: c_int) -> i64 {
    // SAFETY: the calling thread's own errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}

fn long(result: SyscallReturn) -> ssize_t {
    result.unwrap_or_else(fail) as ssize_t
}

fn short(result: SyscallReturn) -> c_int {
    result.unwrap_or_else(fail) as c_int
}

fn int(n: impl Into<i64>) -> Expr {
    Expr::Int(n.into())
}

fn address(at: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    if at.is_null() || (len as usize) < size_of::<libc::sockaddr_in>() {
        return None;
    }
    // SAFETY: `len` bytes are readable; the family determines the structure, whose length is compared with `len` before it is read.
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

/// Writes an address, truncated to the length of the buffer, as accept(2) does.
fn write_address(at: SocketAddr, into: *mut sockaddr, len: *mut socklen_t) {
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

extern "C" fn socket(userdata: Userdata, _domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    short(bridge(userdata).call("socket", vec![Expr::Any, numbers::kind(kind), numbers::protocol(protocol)]))
}

extern "C" fn bind(userdata: Userdata, fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    short(address(at, len).ok_or(libc::EAFNOSUPPORT).and_then(|at| bridge(userdata).bind(fd.into(), at)))
}

extern "C" fn listen(userdata: Userdata, fd: c_int, backlog: c_int) -> c_int {
    short(bridge(userdata).listen(fd.into(), backlog))
}

extern "C" fn accept(userdata: Userdata, fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int {
    short(bridge(userdata).accept(fd.into()).map(|(made, remote)| {
        if let Some(remote) = remote {
            write_address(remote, at, len);
        }
        made
    }))
}

extern "C" fn connect(userdata: Userdata, fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    short(address(at, len).ok_or(libc::EAFNOSUPPORT).and_then(|at| bridge(userdata).connect(fd.into(), at)))
}

/// Fills the buffer of a read with zeros, which is the payload of all packets.
fn fill(into: *mut c_void, result: SyscallReturn) -> ssize_t {
    if let Ok(n) = result
        && !into.is_null()
    {
        // SAFETY: a read returns no more bytes than the caller requested, and the caller's buffer has this size.
        unsafe { into.cast::<u8>().write_bytes(0, n as usize) };
    }
    long(result)
}

extern "C" fn read(userdata: Userdata, fd: c_int, into: *mut c_void, n: size_t) -> ssize_t {
    fill(into, bridge(userdata).call("read", vec![int(fd), Expr::Any, int(n as i64)]))
}

extern "C" fn recv(userdata: Userdata, fd: c_int, into: *mut c_void, n: size_t, flags: c_int) -> ssize_t {
    let args = vec![int(fd), Expr::Any, int(n as i64), numbers::message_flags(flags)];
    let result = bridge(userdata).call("recv", args);
    // With MSG_TRUNC nothing is written (tcp(7)).
    fill(if flags & libc::MSG_TRUNC == 0 { into } else { std::ptr::null_mut() }, result)
}

extern "C" fn recvfrom(
    userdata: Userdata,
    fd: c_int,
    into: *mut c_void,
    n: size_t,
    flags: c_int,
    _at: *mut sockaddr,
    _len: *mut socklen_t,
) -> ssize_t {
    recv(userdata, fd, into, n, flags)
}

/// The lengths of the parts of an `iovec` as the expression `[{..., n}, ...]`.
fn parts(list: *const iovec, count: usize) -> Expr {
    // SAFETY: the caller has `count` entries there.
    let list = if count == 0 { &[] } else { unsafe { slice::from_raw_parts(list, count) } };
    let one = |part: &iovec| {
        Expr::Group(vec![(String::new(), Expr::Any), (String::new(), int(part.iov_len as i64))])
    };
    Expr::List(list.iter().map(one).collect())
}

extern "C" fn readv(userdata: Userdata, fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    long(bridge(userdata).call("readv", vec![int(fd), parts(list, count as usize), int(count)]))
}

extern "C" fn writev(userdata: Userdata, fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    long(bridge(userdata).call("writev", vec![int(fd), parts(list, count as usize), int(count)]))
}

fn message(call: &str, userdata: Userdata, fd: c_int, header: *const libc::msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's message header.
    let header = unsafe { &*header };
    let list = parts(header.msg_iov, header.msg_iovlen);
    let whole = Expr::Group(vec![("msg_iov".to_owned(), list)]);
    long(bridge(userdata).call(call, vec![int(fd), whole, numbers::message_flags(flags)]))
}

extern "C" fn recvmsg(userdata: Userdata, fd: c_int, header: *mut libc::msghdr, flags: c_int) -> ssize_t {
    let result = message("recvmsg", userdata, fd, header, flags);
    // SAFETY: the caller's message header; there are no control messages.
    unsafe { (*header).msg_controllen = 0 };
    result
}

extern "C" fn sendmsg(userdata: Userdata, fd: c_int, header: *const libc::msghdr, flags: c_int) -> ssize_t {
    message("sendmsg", userdata, fd, header, flags)
}

extern "C" fn write(userdata: Userdata, fd: c_int, _from: *const c_void, n: size_t) -> ssize_t {
    long(bridge(userdata).call("write", vec![int(fd), Expr::Any, int(n as i64)]))
}

extern "C" fn send(userdata: Userdata, fd: c_int, _from: *const c_void, n: size_t, flags: c_int) -> ssize_t {
    long(
        bridge(userdata).call("send", vec![int(fd), Expr::Any, int(n as i64), numbers::message_flags(flags)]),
    )
}

extern "C" fn sendto(
    userdata: Userdata,
    fd: c_int,
    from: *const c_void,
    n: size_t,
    flags: c_int,
    _at: *const sockaddr,
    _len: socklen_t,
) -> ssize_t {
    send(userdata, fd, from, n, flags)
}

/// The C declaration is variadic, and stable Rust cannot define a variadic function. On the supported platforms (System V on `x86_64`,
/// AAPCS64) a variadic integer or pointer is passed like a named argument, in the next register. If the caller passes no
/// argument, the register has an arbitrary value, which only `F_SETFL` would use.
extern "C" fn fcntl(userdata: Userdata, fd: c_int, command: c_int, argument: usize) -> c_int {
    let [command, argument] = numbers::file_control(command, argument);
    short(bridge(userdata).call("fcntl", vec![int(fd), command, argument]))
}

extern "C" fn ioctl(userdata: Userdata, fd: c_int, request: c_ulong, into: *mut c_int) -> c_int {
    short(bridge(userdata).call_for_value("ioctl", vec![int(fd), numbers::request(request), Expr::Any]).map(
        |n| {
            // SAFETY: the requests that are known write one int, for which the caller has room.
            unsafe { into.write(n as c_int) };
            0
        },
    ))
}

extern "C" fn close(userdata: Userdata, fd: c_int) -> c_int {
    short(bridge(userdata).close(fd.into()))
}

extern "C" fn shutdown(userdata: Userdata, fd: c_int, how: c_int) -> c_int {
    short(bridge(userdata).call("shutdown", vec![int(fd), numbers::how(how)]))
}

extern "C" fn getsockopt(
    userdata: Userdata,
    fd: c_int,
    level: c_int,
    option: c_int,
    into: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller says in `*len` how much room there is.
    let room = unsafe { *len } as usize;
    let bytes = if (level, option) == (libc::IPPROTO_TCP, libc::TCP_INFO) {
        tcpassay_linux::tcp_info::tcp_info(|name| bridge(userdata).info(fd.into(), name))
    } else {
        let [level, option] = numbers::option(level, option);
        match bridge(userdata)
            .call_for_value("getsockopt", vec![int(fd), level, option, Expr::Any, Expr::Any])
        {
            Ok(n) => (n as c_int).to_ne_bytes().to_vec(),
            Err(errno) => return fail(errno) as c_int,
        }
    };
    let n = bytes.len().min(room);
    // SAFETY: no more bytes are written than the buffer has.
    unsafe {
        into.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), n);
        *len = n as socklen_t;
    }
    0
}

extern "C" fn setsockopt(
    userdata: Userdata,
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
    short(bridge(userdata).call("setsockopt", vec![int(fd), level, option, value, int(len)]))
}

extern "C" fn poll(userdata: Userdata, list: *mut pollfd, count: libc::nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the caller has `count` entries there, to read and to write.
    let list = if count == 0 { &mut [] } else { unsafe { slice::from_raw_parts_mut(list, count as usize) } };
    let of: Vec<(i64, i16)> = list.iter().map(|p| (p.fd.into(), p.events)).collect();
    short(bridge(userdata).poll(&of, timeout).map(|happened| {
        for (entry, now) in list.iter_mut().zip(&happened) {
            entry.revents = *now;
        }
        happened.iter().filter(|now| **now != 0).count() as i64
    }))
}

extern "C" fn netdev_send(userdata: Userdata, from: *const c_void, n: size_t) -> c_int {
    // SAFETY: the caller has `n` bytes there.
    let bytes = unsafe { slice::from_raw_parts(from.cast::<u8>(), n) };
    short(bridge(userdata).receive(bytes).map(|()| 0))
}

extern "C" fn netdev_receive(
    userdata: Userdata,
    into: *mut c_void,
    count: *mut size_t,
    time: *mut c_longlong,
) -> c_int {
    let mut bytes = Vec::new();
    let at = bridge(userdata).next_packet(&mut bytes);
    // SAFETY: `*count` says how much room there is, and no more is written; both other pointers are the caller's to write.
    unsafe {
        let n = bytes.len().min(*count);
        into.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), n);
        *count = n;
        *time = at.unwrap_or(0) as c_longlong;
    }
    0
}

extern "C" fn usleep(userdata: Userdata, time: libc::useconds_t) -> c_int {
    bridge(userdata).sleep(Dur::from_micros(time.into()));
    0
}

extern "C" fn gettimeofday(userdata: Userdata, into: *mut timeval, _zone: *mut c_void) -> c_int {
    let now = bridge(userdata).now();
    let made = timeval { tv_sec: (now / 1_000_000) as c_long, tv_usec: (now % 1_000_000) as c_long };
    // SAFETY: the caller's memory for the structure.
    unsafe { into.write(made) };
    0
}

extern "C" fn epoll_create(_: Userdata, _: c_int) -> c_int {
    fail(libc::ENOSYS) as c_int
}

extern "C" fn epoll_ctl(_: Userdata, _: c_int, _: c_int, _: c_int, _: *mut libc::epoll_event) -> c_int {
    fail(libc::ENOSYS) as c_int
}

extern "C" fn epoll_wait(_: Userdata, _: c_int, _: *mut libc::epoll_event, _: c_int, _: c_int) -> c_int {
    fail(libc::ENOSYS) as c_int
}

extern "C" fn pipe(_: Userdata, _: *mut c_int) -> c_int {
    fail(libc::ENOSYS) as c_int
}

extern "C" fn splice(
    _: Userdata,
    _: c_int,
    _: *mut i64,
    _: c_int,
    _: *mut i64,
    _: size_t,
    _: libc::c_uint,
) -> ssize_t {
    fail(libc::ENOSYS) as ssize_t
}
