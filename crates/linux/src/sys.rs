//! System calls that `std` does not have. Each function makes one system call and has safe arguments.
//!
//! Each function returns the error of the system call. `libc` has
//! the numbers and layouts; what it lacks is declared beside its use with the header it is from.

#![expect(unsafe_code, reason = "system calls that std does not have; each block says why it is sound")]

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The result of a call that returns -1 on failure.
pub(crate) fn check(code: libc::c_int) -> io::Result<libc::c_int> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(code) }
}

/// The result of a call that returns a number of bytes, or -1 on failure.
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
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) })
        .map(drop)
}

/// Moves this process to a new network namespace (unshare(2)).
pub fn unshare_net() -> io::Result<()> {
    // SAFETY: takes a number.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Moves this process to an existing network namespace (setns(2)).
pub fn enter(namespace: BorrowedFd) -> io::Result<()> {
    // SAFETY: takes an open descriptor and a number.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Writes all file systems and powers the machine off (reboot(2)). Returns only on failure.
pub fn power_off() -> io::Error {
    // SAFETY: neither takes a pointer.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    io::Error::last_os_error()
}

/// Adds `seed` to the kernel's random number generator as 512 bits of entropy, so that no reader waits for entropy.
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
    check(unsafe { libc::ioctl(random.as_raw_fd(), 0x4008_5203, &raw const pool) }).map(drop)
}

/// socket(2) with `SOCK_CLOEXEC`.
pub fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = check(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// setsockopt(2) with a value of any type, as bytes.
pub fn set_bytes(fd: BorrowedFd, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    let len = libc::socklen_t::try_from(value.len()).expect("short options");
    // SAFETY: the kernel reads `len` bytes of the slice.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, value.as_ptr().cast(), len) }).map(drop)
}

/// setsockopt(2) with an int.
pub fn set(fd: BorrowedFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    set_bytes(fd, level, option, &value.to_ne_bytes())
}

/// getsockopt(2) into `buffer`. Returns the length of the value.
pub fn get_bytes(fd: BorrowedFd, level: i32, option: i32, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = libc::socklen_t::try_from(buffer.len()).expect("short options");
    // SAFETY: the kernel writes at most `len` bytes into the slice, and says how many.
    check(unsafe {
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
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const at).cast(), len_of::<libc::sockaddr_in>()) })
        .map(drop)
}

/// connect(2). `EINPROGRESS` is success.
pub fn connect(fd: BorrowedFd, to: SocketAddrV4) -> io::Result<()> {
    let to = address(to);
    // SAFETY: a sockaddr_in and its length.
    let code =
        unsafe { libc::connect(fd.as_raw_fd(), (&raw const to).cast(), len_of::<libc::sockaddr_in>()) };
    match check(code) {
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        other => other.map(drop),
    }
}

/// listen(2).
pub fn listen(fd: BorrowedFd, backlog: i32) -> io::Result<()> {
    // SAFETY: takes numbers.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) }).map(drop)
}

/// accept4(2). Returns a non-blocking socket and the address of its peer.
pub fn accept(fd: BorrowedFd) -> io::Result<(OwnedFd, SocketAddrV4)> {
    // SAFETY: all zeroes are a valid sockaddr_in.
    let mut peer: libc::sockaddr_in = unsafe { zeroed() };
    let mut len = len_of::<libc::sockaddr_in>();
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes at most `len` bytes of the address.
    let got = check(unsafe { libc::accept4(fd.as_raw_fd(), (&raw mut peer).cast(), &raw mut len, flags) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok((unsafe { OwnedFd::from_raw_fd(got) }, address_back(&peer)))
}

/// getsockname(2).
pub fn local_address(fd: BorrowedFd) -> io::Result<SocketAddrV4> {
    // SAFETY: all zeroes are a valid sockaddr_in.
    let mut here: libc::sockaddr_in = unsafe { zeroed() };
    let mut len = len_of::<libc::sockaddr_in>();
    // SAFETY: the kernel writes at most `len` bytes of the address.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut here).cast(), &raw mut len) })?;
    Ok(address_back(&here))
}

/// send(2) with `MSG_DONTWAIT` and `MSG_NOSIGNAL`.
pub fn send(fd: BorrowedFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads the slice.
    count(unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) })
}

/// shutdown(2) of the outgoing direction.
pub fn shutdown_write(fd: BorrowedFd) -> io::Result<()> {
    // SAFETY: takes numbers.
    check(unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) }).map(drop)
}

/// sendto(2) with `MSG_DONTWAIT` and `MSG_NOSIGNAL`.
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

/// recv(2) with `MSG_DONTWAIT`.
pub fn receive(fd: BorrowedFd, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the length of the slice.
    count(unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) })
}

/// recvfrom(2) with `MSG_DONTWAIT`. Returns the length of a datagram and the address of its sender.
pub fn receive_from(fd: BorrowedFd, into: &mut [u8]) -> io::Result<(usize, SocketAddrV4)> {
    // SAFETY: all zeroes are a valid sockaddr_in.
    let mut peer: libc::sockaddr_in = unsafe { zeroed() };
    let mut len = len_of::<libc::sockaddr_in>();
    // SAFETY: the kernel writes at most the length of the slice, and at most `len` bytes of the address.
    let got = count(unsafe {
        libc::recvfrom(
            fd.as_raw_fd(),
            into.as_mut_ptr().cast(),
            into.len(),
            libc::MSG_DONTWAIT,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    })?;
    Ok((got, address_back(&peer)))
}

/// Receives up to two messages in one call (recvmmsg(2)). Returns their lengths; 0 if there is no message.
pub fn receive_two(fd: BorrowedFd, into: [&mut [u8]; 2]) -> io::Result<[usize; 2]> {
    let mut parts = into.map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() });
    // SAFETY: all zeroes are a valid mmsghdr: no address, no control data, nothing to write to.
    let mut headers: [libc::mmsghdr; 2] = unsafe { zeroed() };
    for (header, part) in headers.iter_mut().zip(&mut parts) {
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: two headers, each with one part that is a slice of the caller's; the kernel writes at most its length.
    let n = check(unsafe {
        libc::recvmmsg(fd.as_raw_fd(), headers.as_mut_ptr(), 2, libc::MSG_DONTWAIT, std::ptr::null_mut())
    })?;
    let len = |at: usize| if at < n.cast_unsigned() as usize { headers[at].msg_len as usize } else { 0 };
    Ok([len(0), len(1)])
}

/// Discards up to `n` readable bytes of a TCP stream (tcp(7), `MSG_TRUNC`). Returns how many.
pub fn discard(fd: BorrowedFd, n: usize) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing, so that the pointer is never used.
    count(unsafe { libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), n, flags) })
}

/// Discards `n` bytes of a TCP stream, and waits for them (`MSG_WAITALL`). Returns fewer at the end of the stream.
pub fn discard_all(fd: BorrowedFd, n: usize) -> io::Result<usize> {
    let flags = libc::MSG_WAITALL | libc::MSG_TRUNC;
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing, so that the pointer is never used.
    count(unsafe { libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), n, flags) })
}

/// Sends the same bytes `times` times (at most 1024) in one call of sendmsg(2). Returns when they are in the send buffer.
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

/// Clears `O_NONBLOCK`, for all descriptors of the socket.
pub fn make_blocking(fd: BorrowedFd) -> io::Result<()> {
    // SAFETY: takes numbers.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: takes numbers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) }).map(drop)
}

/// The number of bytes that a read would return (`FIONREAD`).
pub fn readable(fd: BorrowedFd) -> io::Result<u64> {
    let mut n: libc::c_int = 0;
    // SAFETY: this request writes one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut n) })?;
    Ok(u64::try_from(n).unwrap_or(0))
}

/// Switches an offload of an interface on or off by the command `set` (`ETHTOOL_S*` of include/uapi/linux/ethtool.h). Returns the state
/// that the command `get` (`ETHTOOL_G*`) reads back.
pub fn offload(fd: BorrowedFd, interface: &str, set: u32, get: u32, on: bool) -> io::Result<bool> {
    ethtool(fd, interface, set, u32::from(on))?;
    ethtool(fd, interface, get, 0).map(|value| value != 0)
}

/// The request of an ioctl for ethtool (include/uapi/linux/sockios.h).
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// A command of include/uapi/linux/ethtool.h whose argument is a `struct ethtool_value`. Returns the value that the kernel leaves there.
pub fn ethtool(fd: BorrowedFd, interface: &str, command: u32, data: u32) -> io::Result<u32> {
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let mut value = Value { command, data };
    // SAFETY: all zeroes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request points to an ethtool_value, which these commands read or write, and both outlive the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL, &raw mut request) })?;
    Ok(value.data)
}

/// A command of include/uapi/linux/ethtool.h whose argument is a structure of 32-bit numbers, the first of which is the command. The kernel
/// reads and writes the whole structure, so that `words` must be as long as that of the command.
pub fn ethtool_words<const N: usize>(
    fd: BorrowedFd,
    interface: &str,
    words: &mut [u32; N],
) -> io::Result<()> {
    // SAFETY: all zeroes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request points to the words, which outlive the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL, &raw mut request) }).map(drop)
}

/// The index of an interface in the network namespace of the process.
pub fn interface_index(name: &str) -> io::Result<i32> {
    let name = text(name);
    // SAFETY: a NUL-terminated string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 { Err(io::Error::last_os_error()) } else { Ok(index.cast_signed()) }
}

/// `CLOCK_REALTIME` in nanoseconds. Recordings use this clock.
pub fn now() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

/// Moves this process to a new mount namespace. Later mounts are visible in this process and its children only, and end with them.
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: takes a number.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE)
}

/// Returns true if the effective user is root.
pub fn is_root() -> bool {
    // SAFETY: takes and changes nothing.
    unsafe { libc::geteuid() == 0 }
}

/// Gives the process the highest priority of normal scheduling (nice -20). With autogroups (sched(7)) a nice value counts only within a
/// session; therefore the process becomes the leader of a new session, whose autogroup gets the same nice value.
pub fn raise_priority() -> io::Result<()> {
    // SAFETY: takes nothing. The call fails for the leader of a process group, for which the nice value of the process must suffice.
    if unsafe { libc::setsid() } >= 0 {
        // The file exists only in kernels with autogroups.
        let _ = std::fs::write("/proc/self/autogroup", "-20");
    }
    // SAFETY: takes numbers.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) }).map(drop)
}

/// Lets the kernel kill this process when its parent ends for any reason (`PR_SET_PDEATHSIG`). Returns the process id of the parent.
pub fn end_with_parent() -> io::Result<i32> {
    // SAFETY: takes numbers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // SAFETY: takes and changes nothing.
    Ok(unsafe { libc::getppid() })
}

/// Creates a copy of this process (fork(2)). Returns 0 in the copy, and its process id in this process.
///
/// # Errors
/// As the system call; also if this process has several threads, of which the copy would have only one.
pub fn fork() -> io::Result<i32> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("a process with several threads is not copied"));
    }
    // SAFETY: there is one thread, so that no lock is held by a thread that the copy does not have.
    check(unsafe { libc::fork() })
}

/// Waits for the end of a child process. Returns its wait status, which is 0 if it ended with exit code 0.
pub fn wait_for_child(process: i32) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: writes one int.
        match check(unsafe { libc::waitpid(process, &raw mut status, 0) }) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(|_| status),
        }
    }
}

/// Separates this process from the session in which it was started: signals that end the session do not end it.
pub fn detach() -> io::Result<()> {
    // SAFETY: takes nothing.
    check(unsafe { libc::setsid() })?;
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGPIPE] {
        // SAFETY: the signal is ignored; no handler is installed.
        if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Reads from a descriptor (read(2)). Returns the number of bytes, 0 at the end.
pub fn read(fd: BorrowedFd, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is as long as it says.
    count(unsafe { libc::read(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) })
}

/// Waits until a descriptor has something to read or its other end is closed. Returns false after `milliseconds`.
pub fn wait_readable(fd: BorrowedFd, milliseconds: i32) -> io::Result<bool> {
    let mut one = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one structure.
        match check(unsafe { libc::poll(&raw mut one, 1, milliseconds) }) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(|n| n > 0),
        }
    }
}

/// Locks an open file (flock(2)) until the process ends. Returns false if another process has the lock.
pub fn try_lock(file: BorrowedFd) -> io::Result<bool> {
    // SAFETY: takes a descriptor and a number.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// The CPU time of this process in nanoseconds.
pub fn cpu_time() -> u64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(which, &raw mut at) };
    at.tv_sec.cast_unsigned() * 1_000_000_000 + at.tv_nsec.cast_unsigned()
}

/// A timer (`timerfd_create(2)`), which is readable from the instant on that [`set_timer`] sets.
pub fn timer() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd =
        check(unsafe { libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a timer to an instant of the clock of [`now`], instead of the previous instant. 0 disarms the timer.
pub fn set_timer(fd: BorrowedFd, at: u64) -> io::Result<()> {
    let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let at = libc::timespec {
        tv_sec: (at / 1_000_000_000).cast_signed(),
        tv_nsec: (at % 1_000_000_000).cast_signed(),
    };
    let spec = libc::itimerspec { it_interval: zero, it_value: at };
    // SAFETY: the kernel reads one itimerspec; no old one is asked for.
    check(unsafe {
        libc::timerfd_settime(fd.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &raw const spec, std::ptr::null_mut())
    })
    .map(drop)
}

/// An epoll instance.
pub fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: takes a number.
    let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A counter (eventfd(2)), which is readable while it is not 0.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Adds 1 to an eventfd.
pub fn eventfd_add(eventfd: BorrowedFd) -> io::Result<()> {
    let one = 1_u64;
    // SAFETY: the kernel reads the eight bytes of the number.
    count(unsafe { libc::write(eventfd.as_raw_fd(), (&raw const one).cast(), 8) }).map(drop)
}

/// Sets an eventfd to 0.
pub fn eventfd_reset(eventfd: BorrowedFd) -> io::Result<()> {
    let mut n = 0_u64;
    // SAFETY: the kernel writes the eight bytes of the number.
    count(unsafe { libc::read(eventfd.as_raw_fd(), (&raw mut n).cast(), 8) }).map(drop)
}

/// Adds `fd` to an epoll instance. `token` is returned with its events. A descriptor is removed when it is closed.
pub fn watch(poll: BorrowedFd, fd: BorrowedFd, events: i32, token: u64) -> io::Result<()> {
    control(poll, libc::EPOLL_CTL_ADD, fd, events, token)
}

/// Changes the events for which an epoll instance watches `fd`.
pub fn modify_watch(poll: BorrowedFd, fd: BorrowedFd, events: i32, token: u64) -> io::Result<()> {
    control(poll, libc::EPOLL_CTL_MOD, fd, events, token)
}

fn control(poll: BorrowedFd, what: i32, fd: BorrowedFd, events: i32, token: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: token };
    // SAFETY: the kernel reads one epoll_event.
    check(unsafe { libc::epoll_ctl(poll.as_raw_fd(), what, fd.as_raw_fd(), &raw mut event) }).map(drop)
}

/// Waits for events and replaces the contents of `into` by them, as `(token, events)`.
pub fn wait(poll: BorrowedFd, into: &mut Vec<(u64, i32)>) -> io::Result<()> {
    const MOST: usize = 64;
    into.clear();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
    let most = i32::try_from(MOST).expect("64");
    // SAFETY: the kernel writes at most MOST events.
    let n = match check(unsafe { libc::epoll_wait(poll.as_raw_fd(), events.as_mut_ptr(), most, -1) }) {
        Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
        other => other?,
    };
    let n = usize::try_from(n).expect("not negative");
    into.extend(events[..n].iter().map(|e| (e.u64, e.events.cast_signed())));
    Ok(())
}

/// Attaches a classic BPF program to a socket. An instruction is `(code, jt, jf, k)` (struct `sock_filter`).
pub fn attach_filter(fd: BorrowedFd, program: &[(u16, u8, u8, u32)]) -> io::Result<()> {
    let mut code: Vec<libc::sock_filter> =
        program.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    let program = libc::sock_fprog {
        len: u16::try_from(code.len()).expect("a short program"),
        filter: code.as_mut_ptr(),
    };
    // SAFETY: the kernel reads the program that `program` points to; both outlive the call.
    check(unsafe {
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

/// Binds a packet socket to an interface, whose packets it receives.
pub fn bind_packet(fd: BorrowedFd, interface: i32) -> io::Result<()> {
    bind_link(fd, interface, u16::try_from(libc::ETH_P_ALL).expect("3"))
}

/// Binds a packet socket to an interface, to which it sends. The socket receives nothing.
pub fn bind_packet_to_send(fd: BorrowedFd, interface: i32) -> io::Result<()> {
    bind_link(fd, interface, 0)
}

/// Lets a packet socket receive only packets that arrive, not those that leave.
pub fn ignore_outgoing(fd: BorrowedFd) -> io::Result<()> {
    // PACKET_IGNORE_OUTGOING (include/uapi/linux/if_packet.h, Linux 4.20).
    set(fd, libc::SOL_PACKET, 23, 1)
}

/// Sets the limits of open files of this process (`RLIMIT_NOFILE`).
pub fn allow_files(n: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: n, rlim_max: n };
    // SAFETY: the kernel reads one rlimit.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}

fn bind_link(fd: BorrowedFd, interface: i32, protocol: u16) -> io::Result<()> {
    // SAFETY: all zeroes are a valid sockaddr_ll.
    let mut at: libc::sockaddr_ll = unsafe { zeroed() };
    at.sll_family = u16::try_from(libc::AF_PACKET).expect("17");
    at.sll_protocol = protocol.to_be();
    at.sll_ifindex = interface;
    // SAFETY: a sockaddr_ll and its length.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const at).cast(), len_of::<libc::sockaddr_ll>()) })
        .map(drop)
}

#[cfg(test)]
mod tests;
