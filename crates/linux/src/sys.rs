//! System calls that `std` does not have. A function is one system call with safe arguments.
//!
//! Each function returns the error of the system call. `libc` has
//! the numbers and layouts; what it lacks is declared beside its use with the header it is from.

#![expect(unsafe_code, reason = "system calls that std does not have; each block says why it is sound")]

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The result of a call that answers -1 on failure.
pub(crate) fn done(code: libc::c_int) -> io::Result<libc::c_int> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(code) }
}

fn count(n: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

fn text(s: &str) -> CString {
    CString::new(s).expect("names of the agent have no NUL")
}

fn len_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).expect("small structures")
}

/// mount(2) without options.
pub fn mount(source: &str, target: &str, kind: &str, flags: libc::c_ulong) -> io::Result<()> {
    let (source, target, kind) = (text(source), text(target), text(kind));
    // SAFETY: three NUL-terminated strings that outlive the call; no data pointer is given.
    done(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) })
        .map(drop)
}

/// A new network namespace for this process.
pub fn unshare_net() -> io::Result<()> {
    // SAFETY: takes a number; the process has one thread, whose namespace is meant to change.
    done(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Enters a network namespace.
pub fn enter(namespace: BorrowedFd) -> io::Result<()> {
    // SAFETY: takes an open descriptor and a number.
    done(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Writes everything out and switches the machine off; returns only on failure. Pid 1 alone may.
pub fn power_off() -> io::Error {
    // SAFETY: neither takes a pointer.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    io::Error::last_os_error()
}

/// Credits the kernel's random number generator with `seed`, so that nothing waits for entropy.
pub fn credit_randomness(random: BorrowedFd, seed: [u8; 64]) -> io::Result<()> {
    // include/uapi/linux/random.h: struct rand_pool_info, RNDADDENTROPY = _IOW('R', 3, int[2]).
    #[repr(C)]
    struct Pool {
        bits: libc::c_int,
        size: libc::c_int,
        bytes: [u8; 64],
    }
    let pool = Pool { bits: 512, size: 64, bytes: seed };
    // SAFETY: the structure is the one this request reads, and outlives the call.
    done(unsafe { libc::ioctl(random.as_raw_fd(), 0x4008_5203, &raw const pool) }).map(drop)
}

/// A socket, closed on exec.
pub fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = done(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// setsockopt(2) of plain bytes.
pub fn set_bytes(fd: BorrowedFd, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    let len = libc::socklen_t::try_from(value.len()).expect("short options");
    // SAFETY: the kernel reads `len` bytes of the slice.
    done(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, value.as_ptr().cast(), len) }).map(drop)
}

/// setsockopt(2) of an int.
pub fn set(fd: BorrowedFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    set_bytes(fd, level, option, &value.to_ne_bytes())
}

/// getsockopt(2) into `buffer`; returns how much the kernel had to say.
pub fn get_bytes(fd: BorrowedFd, level: i32, option: i32, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = libc::socklen_t::try_from(buffer.len()).expect("short options");
    // SAFETY: the kernel writes at most `len` bytes into the slice, and says how many.
    done(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, option, buffer.as_mut_ptr().cast(), &raw mut len)
    })?;
    Ok(len as usize)
}

/// getsockopt(2) of an int.
pub fn get(fd: BorrowedFd, level: i32, option: i32) -> io::Result<i32> {
    let mut value = [0; 4];
    get_bytes(fd, level, option, &mut value)?;
    Ok(i32::from_ne_bytes(value))
}

fn address(at: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: u16::try_from(libc::AF_INET).expect("2"),
        sin_port: at.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*at.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

fn address_back(at: &libc::sockaddr_in) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(u32::from_be(at.sin_addr.s_addr)), u16::from_be(at.sin_port))
}

/// bind(2).
pub fn bind(fd: BorrowedFd, at: SocketAddrV4) -> io::Result<()> {
    let at = address(at);
    // SAFETY: a sockaddr_in and its length.
    done(unsafe { libc::bind(fd.as_raw_fd(), (&raw const at).cast(), len_of::<libc::sockaddr_in>()) })
        .map(drop)
}

/// connect(2); a connection that is under way is no error.
pub fn connect(fd: BorrowedFd, to: SocketAddrV4) -> io::Result<()> {
    let to = address(to);
    // SAFETY: a sockaddr_in and its length.
    let code =
        unsafe { libc::connect(fd.as_raw_fd(), (&raw const to).cast(), len_of::<libc::sockaddr_in>()) };
    match done(code) {
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        other => other.map(drop),
    }
}

/// listen(2).
pub fn listen(fd: BorrowedFd, backlog: i32) -> io::Result<()> {
    // SAFETY: takes numbers.
    done(unsafe { libc::listen(fd.as_raw_fd(), backlog) }).map(drop)
}

/// accept4(2): a non-blocking socket and its peer.
pub fn accept(fd: BorrowedFd) -> io::Result<(OwnedFd, SocketAddrV4)> {
    // SAFETY: all zeroes are a valid sockaddr_in.
    let mut peer: libc::sockaddr_in = unsafe { zeroed() };
    let mut len = len_of::<libc::sockaddr_in>();
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes at most `len` bytes of the address.
    let got = done(unsafe { libc::accept4(fd.as_raw_fd(), (&raw mut peer).cast(), &raw mut len, flags) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok((unsafe { OwnedFd::from_raw_fd(got) }, address_back(&peer)))
}

/// getsockname(2).
pub fn local_address(fd: BorrowedFd) -> io::Result<SocketAddrV4> {
    // SAFETY: all zeroes are a valid sockaddr_in.
    let mut here: libc::sockaddr_in = unsafe { zeroed() };
    let mut len = len_of::<libc::sockaddr_in>();
    // SAFETY: the kernel writes at most `len` bytes of the address.
    done(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut here).cast(), &raw mut len) })?;
    Ok(address_back(&here))
}

/// send(2) that neither waits nor raises SIGPIPE.
pub fn send(fd: BorrowedFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads the slice.
    count(unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) })
}

/// Closes our direction (shutdown(2)).
pub fn shutdown_write(fd: BorrowedFd) -> io::Result<()> {
    // SAFETY: takes numbers.
    done(unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) }).map(drop)
}

/// sendto(2) that does not wait.
pub fn send_to(fd: BorrowedFd, bytes: &[u8], to: SocketAddrV4) -> io::Result<usize> {
    let to = address(to);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads the slice and the address.
    count(unsafe {
        libc::sendto(
            fd.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags,
            (&raw const to).cast(),
            len_of::<libc::sockaddr_in>(),
        )
    })
}

/// recv(2) that does not wait.
pub fn receive(fd: BorrowedFd, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the length of the slice.
    count(unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) })
}

/// Takes one message or two, what is there, in one call (recvmmsg(2)); says how long they are, 0 for none.
pub fn receive_two(fd: BorrowedFd, into: [&mut [u8]; 2]) -> io::Result<[usize; 2]> {
    let mut parts = into.map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() });
    // SAFETY: all zeroes are a valid mmsghdr: no address, no control data, nothing to write to.
    let mut headers: [libc::mmsghdr; 2] = unsafe { zeroed() };
    for (header, part) in headers.iter_mut().zip(&mut parts) {
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: two headers, each with one part that is a slice of the caller's; the kernel writes at most its length.
    let n = done(unsafe {
        libc::recvmmsg(fd.as_raw_fd(), headers.as_mut_ptr(), 2, libc::MSG_DONTWAIT, std::ptr::null_mut())
    })?;
    let len = |at: usize| if at < n.cast_unsigned() as usize { headers[at].msg_len as usize } else { 0 };
    Ok([len(0), len(1)])
}

/// Takes up to `n` bytes of a TCP stream without copying them (tcp(7): `MSG_TRUNC` discards).
pub fn discard(fd: BorrowedFd, n: usize) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing, so that the pointer is never used.
    count(unsafe { libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), n, flags) })
}

/// Takes `n` bytes of a TCP stream without copying them, and waits for them; less at its end.
pub fn discard_all(fd: BorrowedFd, n: usize) -> io::Result<usize> {
    let flags = libc::MSG_WAITALL | libc::MSG_TRUNC;
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing, so that the pointer is never used.
    count(unsafe { libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), n, flags) })
}

/// Sends the same bytes so many times (at most 1024), and waits until they are in the send buffer.
pub fn send_again(fd: BorrowedFd, bytes: &[u8], times: usize) -> io::Result<usize> {
    let part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut parts = vec![part; times];
    // SAFETY: all zeroes are a message without address and control data.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len();
    // SAFETY: the kernel reads the parts, each the slice; both outlive the call.
    count(unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) })
}

/// Calls on the socket, by whatever descriptor, wait from now on unless they say otherwise.
pub fn make_blocking(fd: BorrowedFd) -> io::Result<()> {
    // SAFETY: takes numbers.
    let flags = done(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: takes numbers.
    done(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) }).map(drop)
}

/// Bytes that a read would return (FIONREAD).
pub fn readable(fd: BorrowedFd) -> io::Result<u64> {
    let mut n: libc::c_int = 0;
    // SAFETY: this request writes one int.
    done(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut n) })?;
    Ok(u64::try_from(n).unwrap_or(0))
}

/// Switches an offload of an interface (`ETHTOOL_S*` of include/uapi/linux/ethtool.h) and reads it back by `get`.
pub fn offload(fd: BorrowedFd, interface: &str, set: u32, get: u32, on: bool) -> io::Result<bool> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let mut value = Value { command: set, data: u32::from(on) };
    // SAFETY: all zeroes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request points to an ethtool_value, which these commands read or write, and both outlive the calls.
    unsafe {
        done(libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL, &raw mut request))?;
        (&raw mut value.command).write(get);
        done(libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL, &raw mut request))?;
    }
    Ok(value.data != 0)
}

/// The place of an interface in this namespace.
pub fn interface_index(name: &str) -> io::Result<i32> {
    let name = text(name);
    // SAFETY: a NUL-terminated string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 { Err(io::Error::last_os_error()) } else { Ok(index.cast_signed()) }
}

/// The clock of the recording: `CLOCK_REALTIME` in nanoseconds.
pub fn now() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

/// A mount namespace of this process's own: what it mounts is seen by itself and its children, and goes with them.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: takes a number; the process has one thread.
    done(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE)
}

/// Whether the process may do everything.
pub fn is_root() -> bool {
    // SAFETY: takes and changes nothing.
    unsafe { libc::geteuid() == 0 }
}

/// The process goes before all others that are not of real time (nice -20). Where sessions share the processors among
/// themselves (sched(7), autogroup) nice counts within one only: the process gets a session of its own, and that one's nice.
pub fn hurry() -> io::Result<()> {
    // SAFETY: takes nothing. A leader of a process group cannot have one; then nice has to do.
    if unsafe { libc::setsid() } >= 0 {
        // There is no such file where sessions do not share.
        let _ = std::fs::write("/proc/self/autogroup", "-20");
    }
    // SAFETY: takes numbers.
    done(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) }).map(drop)
}

/// Has the kernel end this process when its parent ends, however that comes about; returns the parent.
pub fn end_with_parent() -> io::Result<i32> {
    // SAFETY: takes numbers.
    done(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // SAFETY: takes and changes nothing.
    Ok(unsafe { libc::getppid() })
}

/// Takes the lock of an open file, when nobody has it; it goes with the process.
pub fn try_lock(file: BorrowedFd) -> io::Result<bool> {
    // SAFETY: takes a descriptor and a number.
    match done(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}

/// The clock that nobody sets: `CLOCK_MONOTONIC` in nanoseconds.
pub fn steady() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Time of the processor that this process has taken, in nanoseconds.
pub fn cpu() -> u64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(which, &raw mut at) };
    at.tv_sec.cast_unsigned() * 1_000_000_000 + at.tv_nsec.cast_unsigned()
}

/// A timer that is readable from an absolute instant on.
pub fn timer() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd =
        done(unsafe { libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a timer to an instant of [`now`]'s clock; what was due before is forgotten.
pub fn set_timer(fd: BorrowedFd, at: u64) -> io::Result<()> {
    let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let at = libc::timespec {
        tv_sec: (at / 1_000_000_000).cast_signed(),
        tv_nsec: (at % 1_000_000_000).cast_signed(),
    };
    let spec = libc::itimerspec { it_interval: zero, it_value: at };
    // SAFETY: the kernel reads one itimerspec; no old one is asked for.
    done(unsafe {
        libc::timerfd_settime(fd.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &raw const spec, std::ptr::null_mut())
    })
    .map(drop)
}

/// An epoll instance.
pub fn poll() -> io::Result<OwnedFd> {
    // SAFETY: takes a number.
    let fd = done(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A counter that is readable when it is not 0 (eventfd(2)).
pub fn bell() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = done(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Counts the bell up.
pub fn ring(bell: BorrowedFd) -> io::Result<()> {
    let one = 1_u64;
    // SAFETY: the kernel reads the eight bytes of the number.
    count(unsafe { libc::write(bell.as_raw_fd(), (&raw const one).cast(), 8) }).map(drop)
}

/// Sets the bell back to 0.
pub fn heard(bell: BorrowedFd) -> io::Result<()> {
    let mut n = 0_u64;
    // SAFETY: the kernel writes the eight bytes of the number.
    count(unsafe { libc::read(bell.as_raw_fd(), (&raw mut n).cast(), 8) }).map(drop)
}

/// Watches `fd` for `events`; `token` comes back with them. A closed descriptor leaves by itself.
pub fn watch(poll: BorrowedFd, fd: BorrowedFd, events: i32, token: u64) -> io::Result<()> {
    control(poll, libc::EPOLL_CTL_ADD, fd, events, token)
}

/// Watches `fd`, which is watched, for other events.
pub fn watch_else(poll: BorrowedFd, fd: BorrowedFd, events: i32, token: u64) -> io::Result<()> {
    control(poll, libc::EPOLL_CTL_MOD, fd, events, token)
}

fn control(poll: BorrowedFd, what: i32, fd: BorrowedFd, events: i32, token: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: token };
    // SAFETY: the kernel reads one epoll_event.
    done(unsafe { libc::epoll_ctl(poll.as_raw_fd(), what, fd.as_raw_fd(), &raw mut event) }).map(drop)
}

/// Waits for events; fills `into` with `(token, events)`.
pub fn wait(poll: BorrowedFd, into: &mut Vec<(u64, i32)>) -> io::Result<()> {
    const MOST: usize = 64;
    into.clear();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
    let most = i32::try_from(MOST).expect("64");
    // SAFETY: the kernel writes at most MOST events.
    let n = match done(unsafe { libc::epoll_wait(poll.as_raw_fd(), events.as_mut_ptr(), most, -1) }) {
        Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
        other => other?,
    };
    let n = usize::try_from(n).expect("not negative");
    into.extend(events[..n].iter().map(|e| (e.u64, e.events.cast_signed())));
    Ok(())
}

/// Attaches a classic BPF program of `(code, jt, jf, k)`.
pub fn attach_filter(fd: BorrowedFd, program: &[(u16, u8, u8, u32)]) -> io::Result<()> {
    let mut code: Vec<libc::sock_filter> =
        program.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    let program = libc::sock_fprog {
        len: u16::try_from(code.len()).expect("a short program"),
        filter: code.as_mut_ptr(),
    };
    // SAFETY: the kernel reads the program that `program` points to; both outlive the call.
    done(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            len_of::<libc::sock_fprog>(),
        )
    })
    .map(drop)
}

/// Binds a packet socket to one interface, whose packets it takes.
pub fn bind_packet(fd: BorrowedFd, interface: i32) -> io::Result<()> {
    bind_link(fd, interface, u16::try_from(libc::ETH_P_ALL).expect("3"))
}

/// Binds a packet socket to one interface, to which it sends and of which it takes nothing.
pub fn bind_packet_to_send(fd: BorrowedFd, interface: i32) -> io::Result<()> {
    bind_link(fd, interface, 0)
}

/// Has a packet socket take what arrives and not what leaves.
pub fn ignore_outgoing(fd: BorrowedFd) -> io::Result<()> {
    // PACKET_IGNORE_OUTGOING (include/uapi/linux/if_packet.h, Linux 4.20).
    set(fd, libc::SOL_PACKET, 23, 1)
}

/// Lets this process have so many files open, also beyond what it was started with.
pub fn allow_files(n: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: n, rlim_max: n };
    // SAFETY: the kernel reads one rlimit.
    done(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}

fn bind_link(fd: BorrowedFd, interface: i32, protocol: u16) -> io::Result<()> {
    // SAFETY: all zeroes are a valid sockaddr_ll.
    let mut at: libc::sockaddr_ll = unsafe { zeroed() };
    at.sll_family = u16::try_from(libc::AF_PACKET).expect("17");
    at.sll_protocol = protocol.to_be();
    at.sll_ifindex = interface;
    // SAFETY: a sockaddr_ll and its length.
    done(unsafe { libc::bind(fd.as_raw_fd(), (&raw const at).cast(), len_of::<libc::sockaddr_ll>()) })
        .map(drop)
}
