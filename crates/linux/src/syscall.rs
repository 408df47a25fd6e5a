//! The system calls of packetdrill scripts, a TUN device, and scheduling.
//!
//! A call may block. It returns the number or the `errno` of the kernel.

#![expect(unsafe_code, reason = "system calls that std does not have; each block says why it is sound")]

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// The result of a system call: a number, or an `errno`.
pub type SyscallReturn = Result<i64, i32>;

/// The result of a call that returns -1 on failure.
fn returned(code: libc::ssize_t) -> SyscallReturn {
    if code < 0 { Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { Ok(code as i64) }
}

/// The same for calls that return an int.
fn returned_int(code: libc::c_int) -> SyscallReturn {
    returned(code as libc::ssize_t)
}

/// A socket address in the kernel's form.
pub struct Address {
    bytes: [u8; 28],
    len: libc::socklen_t,
}

impl Address {
    /// `sockaddr_in` or `sockaddr_in6`.
    pub fn of(at: SocketAddr) -> Address {
        let mut bytes = [0; 28];
        let mut put = |from: usize, what: &[u8]| bytes[from..from + what.len()].copy_from_slice(what);
        let family = |n: libc::c_int| u16::try_from(n).expect("small numbers").to_ne_bytes();
        put(2, &at.port().to_be_bytes());
        let len = match at {
            SocketAddr::V4(v4) => {
                put(0, &family(libc::AF_INET));
                put(4, &v4.ip().octets());
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                put(0, &family(libc::AF_INET6));
                put(8, &v6.ip().octets());
                size_of::<libc::sockaddr_in6>()
            }
        };
        Address { bytes, len: libc::socklen_t::try_from(len).expect("28 at most") }
    }

    /// An address of the family `AF_UNSPEC`.
    pub fn unspecified() -> Address {
        Address { bytes: [0; 28], len: 16 }
    }

    fn from_bytes(bytes: &[u8; 28]) -> Option<SocketAddr> {
        let family = libc::c_int::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        match family {
            libc::AF_INET => {
                let ip: [u8; 4] = bytes[4..8].try_into().expect("4 bytes");
                Some(SocketAddrV4::new(ip.into(), port).into())
            }
            libc::AF_INET6 => {
                let ip: [u8; 16] = bytes[8..24].try_into().expect("16 bytes");
                Some(SocketAddrV6::new(ip.into(), port, 0, 0).into())
            }
            _ => None,
        }
    }
}

/// Makes a call whose pointers are all null.
pub fn with_null(call: NullCall) -> SyscallReturn {
    let null = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the pointers are null, so that the kernel reads and writes no memory of this process. Only `Send` passes a pointer, to an
    // address of the given length.
    returned(unsafe {
        match call {
            NullCall::Read(fd, n) => libc::read(fd, null, n),
            NullCall::Receive(fd, n, flags) => libc::recv(fd, null, n, flags),
            NullCall::Write(fd, n) => libc::write(fd, null, n),
            NullCall::Send(fd, n, flags, None) => libc::send(fd, null, n, flags),
            NullCall::Send(fd, n, flags, Some(to)) => {
                libc::sendto(fd, null, n, flags, to.bytes.as_ptr().cast(), to.len)
            }
            NullCall::Bind(fd) => libc::bind(fd, null.cast(), 16) as libc::ssize_t,
            NullCall::Connect(fd) => libc::connect(fd, null.cast(), 16) as libc::ssize_t,
            NullCall::Set(fd, level, option) => libc::setsockopt(fd, level, option, null, 4) as libc::ssize_t,
            NullCall::Get(fd, level, option) => {
                libc::getsockopt(fd, level, option, null, null.cast()) as libc::ssize_t
            }
            NullCall::Name(fd, false) => libc::getsockname(fd, null.cast(), null.cast()) as libc::ssize_t,
            NullCall::Name(fd, true) => libc::getpeername(fd, null.cast(), null.cast()) as libc::ssize_t,
        }
    })
}

/// The calls of [`with_null`] with their descriptors, lengths and flags.
pub enum NullCall {
    /// read(2) of so many bytes.
    Read(RawFd, usize),
    /// recv(2): bytes, flags.
    Receive(RawFd, usize, i32),
    /// write(2) of so many bytes.
    Write(RawFd, usize),
    /// sendto(2): bytes, flags, destination.
    Send(RawFd, usize, i32, Option<Address>),
    /// bind(2).
    Bind(RawFd),
    /// connect(2).
    Connect(RawFd),
    /// setsockopt(2): level, option.
    Set(RawFd, i32, i32),
    /// getsockopt(2): level, option.
    Get(RawFd, i32, i32),
    /// getsockname(2), or getpeername(2) if true.
    Name(RawFd, bool),
}

/// pipe(2). Returns the end to read from and the end to write to.
pub fn pipe() -> Result<(OwnedFd, OwnedFd), i32> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors.
    let code = unsafe { libc::pipe(ends.as_mut_ptr()) };
    Ok((descriptor(if code < 0 { code } else { ends[0] })?, descriptor(ends[1])?))
}

/// splice(2) without offsets.
pub fn splice(from: RawFd, to: RawFd, n: usize, flags: u32) -> SyscallReturn {
    let null = std::ptr::null_mut();
    // SAFETY: null says that there are no offsets.
    returned(unsafe { libc::splice(from, null, to, null, n, flags) })
}

/// sendfile(2) from an offset.
pub fn send_file(to: RawFd, from: RawFd, offset: i64, n: usize) -> SyscallReturn {
    let mut offset: libc::off_t = offset;
    // SAFETY: the kernel reads and writes one offset.
    returned(unsafe { libc::sendfile(to, from, &raw mut offset, n) })
}

/// An anonymous file of `len` zero bytes (`memfd_create(2)`).
pub fn file_of_zeros(len: i64) -> Result<OwnedFd, i32> {
    // SAFETY: the kernel reads the name, which ends with a zero; the descriptor is ours.
    unsafe {
        let made = descriptor(libc::memfd_create(c"script".as_ptr(), 0))?;
        returned_int(libc::ftruncate(made.as_raw_fd(), len))?;
        Ok(made)
    }
}

/// `CLOCK_REALTIME`, in nanoseconds.
pub fn real_time() -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut at) };
    at.tv_sec.cast_unsigned() * 1_000_000_000 + at.tv_nsec.cast_unsigned()
}

/// The descriptor that a call returned.
fn descriptor(code: libc::c_int) -> Result<OwnedFd, i32> {
    let fd = returned_int(code)?;
    // SAFETY: the system call returned a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(RawFd::try_from(fd).expect("a descriptor")) })
}

/// socket(2).
pub fn socket(domain: i32, kind: i32, protocol: i32) -> Result<OwnedFd, i32> {
    // SAFETY: takes numbers.
    descriptor(unsafe { libc::socket(domain, kind, protocol) })
}

/// accept4(2) without the address of the peer.
pub fn accept(fd: RawFd, flags: i32) -> Result<OwnedFd, i32> {
    // SAFETY: null says that no address is wanted.
    descriptor(unsafe { libc::accept4(fd, std::ptr::null_mut(), std::ptr::null_mut(), flags) })
}

/// `epoll_create1(2)`.
pub fn epoll() -> Result<OwnedFd, i32> {
    // SAFETY: takes a number.
    descriptor(unsafe { libc::epoll_create1(0) })
}

/// bind(2).
pub fn bind(fd: RawFd, at: &Address) -> SyscallReturn {
    // SAFETY: the kernel reads `len` bytes, which the address has.
    returned_int(unsafe { libc::bind(fd, at.bytes.as_ptr().cast(), at.len) })
}

/// connect(2).
pub fn connect(fd: RawFd, to: &Address) -> SyscallReturn {
    // SAFETY: the kernel reads `len` bytes, which the address has.
    returned_int(unsafe { libc::connect(fd, to.bytes.as_ptr().cast(), to.len) })
}

/// getsockname(2) or getpeername(2).
pub fn socket_address(fd: RawFd, peer: bool) -> Result<Option<SocketAddr>, i32> {
    let mut bytes = [0; 28];
    let mut len: libc::socklen_t = 28;
    let at = bytes.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes of the array.
    returned_int(unsafe {
        if peer { libc::getpeername(fd, at, &raw mut len) } else { libc::getsockname(fd, at, &raw mut len) }
    })?;
    Ok(Address::from_bytes(&bytes))
}

/// listen(2).
pub fn listen(fd: RawFd, backlog: i32) -> SyscallReturn {
    // SAFETY: takes numbers.
    returned_int(unsafe { libc::listen(fd, backlog) })
}

/// shutdown(2).
pub fn shutdown(fd: RawFd, how: i32) -> SyscallReturn {
    // SAFETY: takes numbers.
    returned_int(unsafe { libc::shutdown(fd, how) })
}

/// close(2).
pub fn close(fd: OwnedFd) -> SyscallReturn {
    // SAFETY: the descriptor is given up to this call.
    returned_int(unsafe { libc::close(fd.into_raw_fd()) })
}

/// fcntl(2) with a number.
pub fn fcntl(fd: RawFd, command: i32, argument: i32) -> SyscallReturn {
    // SAFETY: F_GETFL and F_SETFL, the only commands that callers use, take numbers.
    returned_int(unsafe { libc::fcntl(fd, command, argument) })
}

/// ioctl(2) of a request that writes one int.
pub fn ioctl_read_int(fd: RawFd, request: libc::c_ulong) -> Result<i64, i32> {
    let mut n: libc::c_int = 0;
    // SAFETY: the requests that callers use write one int.
    returned_int(unsafe { libc::ioctl(fd, request, &raw mut n) })?;
    Ok(n.into())
}

/// setsockopt(2).
pub fn set(fd: RawFd, level: i32, option: i32, value: &[u8]) -> SyscallReturn {
    let len = libc::socklen_t::try_from(value.len()).expect("short options");
    // SAFETY: the kernel reads `len` bytes of the slice.
    returned_int(unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast(), len) })
}

/// getsockopt(2) into `buffer`. Returns the length of the value.
pub fn get(fd: RawFd, level: i32, option: i32, buffer: &mut [u8]) -> Result<usize, i32> {
    let mut len = libc::socklen_t::try_from(buffer.len()).expect("short options");
    // SAFETY: the kernel writes at most `len` bytes into the slice.
    returned_int(unsafe { libc::getsockopt(fd, level, option, buffer.as_mut_ptr().cast(), &raw mut len) })?;
    Ok(len as usize)
}

/// read(2).
pub fn read(fd: RawFd, into: &mut [u8]) -> SyscallReturn {
    // SAFETY: the kernel writes at most the length of the slice.
    returned(unsafe { libc::read(fd, into.as_mut_ptr().cast(), into.len()) })
}

/// recv(2).
pub fn receive(fd: RawFd, into: &mut [u8], flags: i32) -> SyscallReturn {
    // SAFETY: the kernel writes at most the length of the slice.
    returned(unsafe { libc::recv(fd, into.as_mut_ptr().cast(), into.len(), flags) })
}

/// write(2).
pub fn write(fd: RawFd, from: &[u8]) -> SyscallReturn {
    // SAFETY: the kernel reads the slice.
    returned(unsafe { libc::write(fd, from.as_ptr().cast(), from.len()) })
}

/// sendto(2), without an address if `to` is `None`.
pub fn send(fd: RawFd, from: &[u8], flags: i32, to: Option<&Address>) -> SyscallReturn {
    let (at, len) = to.map_or((std::ptr::null(), 0), |to| (to.bytes.as_ptr().cast(), to.len));
    // SAFETY: the kernel reads the slice, and `len` bytes of the address, which is null when there is none.
    returned(unsafe { libc::sendto(fd, from.as_ptr().cast(), from.len(), flags, at, len) })
}

fn vector(parts: &mut [Vec<u8>]) -> Vec<libc::iovec> {
    parts.iter_mut().map(|p| libc::iovec { iov_base: p.as_mut_ptr().cast(), iov_len: p.len() }).collect()
}

/// readv(2).
pub fn read_vector(fd: RawFd, parts: &mut [Vec<u8>]) -> SyscallReturn {
    let made = vector(parts);
    let count = libc::c_int::try_from(made.len()).expect("few parts");
    // SAFETY: each part is a buffer of its length, and lives through the call.
    returned(unsafe { libc::readv(fd, made.as_ptr(), count) })
}

/// writev(2).
pub fn write_vector(fd: RawFd, parts: &mut [Vec<u8>]) -> SyscallReturn {
    let made = vector(parts);
    let count = libc::c_int::try_from(made.len()).expect("few parts");
    // SAFETY: each part is a buffer of its length, and lives through the call.
    returned(unsafe { libc::writev(fd, made.as_ptr(), count) })
}

/// A control message: level, type, payload.
pub type ControlMessage = (i32, i32, Vec<u8>);

/// recvmsg(2) into `parts`. Returns its result, the flags of the message, and its control messages.
pub fn receive_message(
    fd: RawFd,
    parts: &mut [Vec<u8>],
    flags: i32,
) -> Result<(i64, i32, Vec<ControlMessage>), i32> {
    let mut made = vector(parts);
    let mut space = [0_u64; 64];
    // SAFETY: all zeroes are a valid msghdr.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = made.as_mut_ptr();
    message.msg_iovlen = made.len() as _;
    message.msg_control = space.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&space) as _;
    // SAFETY: the header points to buffers of the lengths that it says; all live through the call.
    let n = returned(unsafe { libc::recvmsg(fd, &raw mut message, flags) })?;
    let mut found = Vec::new();
    // SAFETY: the kernel filled the space with whole control messages and said how much of it; the macros walk it.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(&raw const message);
        while !at.is_null() {
            let header = at.read_unaligned();
            let len = (header.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            let payload = std::slice::from_raw_parts(libc::CMSG_DATA(at), len).to_vec();
            found.push((header.cmsg_level, header.cmsg_type, payload));
            at = libc::CMSG_NXTHDR(&raw const message, at);
        }
    }
    Ok((n, message.msg_flags, found))
}

/// sendmsg(2) of `parts` without control messages, and without an address if `to` is `None`.
pub fn send_message(fd: RawFd, parts: &mut [Vec<u8>], flags: i32, to: Option<&Address>) -> SyscallReturn {
    let mut made = vector(parts);
    // SAFETY: all zeroes are a valid msghdr.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = made.as_mut_ptr();
    message.msg_iovlen = made.len() as _;
    if let Some(to) = to {
        // The kernel only reads it.
        message.msg_name = to.bytes.as_ptr().cast_mut().cast();
        message.msg_namelen = to.len;
    }
    // SAFETY: the header points to buffers of the lengths that it says; all live through the call.
    returned(unsafe { libc::sendmsg(fd, &raw const message, flags) })
}

/// poll(2) of pairs of descriptor and events. Writes the events that have happened to `happened`.
pub fn poll(of: &[(RawFd, i16)], timeout_ms: i32, happened: &mut Vec<i16>) -> SyscallReturn {
    let mut made: Vec<libc::pollfd> =
        of.iter().map(|&(fd, events)| libc::pollfd { fd, events, revents: 0 }).collect();
    // SAFETY: the kernel reads and writes as many entries as there are.
    let n = returned_int(unsafe { libc::poll(made.as_mut_ptr(), made.len() as libc::nfds_t, timeout_ms) })?;
    *happened = made.iter().map(|p| p.revents).collect();
    Ok(n)
}

/// `epoll_ctl(2)`. `data` is returned with the events.
pub fn epoll_ctl(epoll: RawFd, operation: i32, fd: RawFd, events: u32, data: u64) -> SyscallReturn {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: the kernel reads one event.
    returned_int(unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) })
}

/// The maximum number of events of one call. A script has fewer descriptors.
const MOST_EVENTS: i32 = 4096;

/// `epoll_wait(2)` for at most `most` events.
pub fn epoll_wait(epoll: RawFd, most: i32, timeout_ms: i32, events: &mut Vec<u32>) -> SyscallReturn {
    // For 0 and negative numbers the kernel returns EINVAL and writes nothing.
    let most = most.min(MOST_EVENTS);
    let mut made = vec![libc::epoll_event { events: 0, u64: 0 }; usize::try_from(most).unwrap_or(0)];
    // SAFETY: the kernel writes at most `most` events, for which there is room.
    let n = returned_int(unsafe { libc::epoll_wait(epoll, made.as_mut_ptr(), most, timeout_ms) })?;
    events.extend(made.iter().take(usize::try_from(n).unwrap_or(0)).map(|e| e.events));
    Ok(n)
}

/// `CLOCK_MONOTONIC`, in nanoseconds.
pub fn monotonic() -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut at) };
    at.tv_sec.cast_unsigned() * 1_000_000_000 + at.tv_nsec.cast_unsigned()
}

/// Waits until one of two descriptors is readable, for at most `ns` nanoseconds.
pub fn wait_readable(a: BorrowedFd, b: BorrowedFd, ns: u64) {
    let watch = |fd: BorrowedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut both = [watch(a), watch(b)];
    let most = libc::timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    };
    // SAFETY: two entries and a timespec; no signal mask is given.
    unsafe { libc::ppoll(both.as_mut_ptr(), 2, &raw const most, std::ptr::null()) };
}

/// `sched_yield(2)`.
pub fn yield_processor() {
    // SAFETY: takes nothing.
    unsafe { libc::sched_yield() };
}

/// The id of the calling thread (gettid(2)).
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

/// Limits the address space of this process (`RLIMIT_AS`). A larger allocation fails, which ends the process.
pub fn limit_memory(bytes: u64) {
    let most = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the kernel reads one rlimit.
    unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const most) };
}

/// Sets the timer slack of this thread to 1 ns and gives it real-time priority (`SCHED_FIFO`).
///
/// # Errors
/// The process has no permission for real-time priority.
pub fn use_real_time_priority() -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: 20 };
    // SAFETY: prctl takes numbers here; sched_setscheduler reads one sched_param of the calling thread.
    let code = unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority)
    };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Creates a TUN device. Each packet has a `virtio_net_hdr` of 10 bytes before it. With `super_segments` the device accepts
/// super-segments, like an Ethernet card with TSO.
pub fn tun(name: &str, super_segments: bool) -> io::Result<OwnedFd> {
    // include/uapi/linux/if_tun.h
    const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
    const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
    const CSUM: libc::c_ulong = 1;
    const TSO4_TSO6_ECN: libc::c_ulong = 2 | 4 | 8;
    let device = std::fs::File::options().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: all zeroes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *to = from.cast_signed();
    }
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = u16::try_from(flags).expect("16 bits").cast_signed();
    // SAFETY: the first request reads and writes the ifreq; the second takes a number.
    unsafe {
        returned_int(libc::ioctl(device.as_raw_fd(), TUNSETIFF, &raw mut request))
            .and_then(|_| {
                let offload = if super_segments { CSUM | TSO4_TSO6_ECN } else { CSUM };
                returned_int(libc::ioctl(device.as_raw_fd(), TUNSETOFFLOAD, offload))
            })
            .map_err(io::Error::from_raw_os_error)?;
    }
    let flags = fcntl(device.as_raw_fd(), libc::F_GETFL, 0).map_err(io::Error::from_raw_os_error)?;
    let flags = i32::try_from(flags).expect("flags") | libc::O_NONBLOCK;
    fcntl(device.as_raw_fd(), libc::F_SETFL, flags).map_err(io::Error::from_raw_os_error)?;
    Ok(device.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn addresses_have_the_layout_of_the_kernel() {
        // struct sockaddr_in: family (AF_INET 2, byte order of the machine), port and address in network byte order.
        let v4 = Address::of("192.0.2.1:8080".parse().unwrap());
        assert_eq!((v4.len, &v4.bytes[2..8]), (16, &[0x1f, 0x90, 192, 0, 2, 1][..]));
        assert_eq!(v4.bytes[..2], 2_u16.to_ne_bytes());
        // struct sockaddr_in6: family (AF_INET6 10), port, flow information (32 bits), address, scope.
        let v6 = Address::of("[2001:db8::1]:80".parse().unwrap());
        assert_eq!((v6.len, &v6.bytes[2..12]), (28, &[0, 80, 0, 0, 0, 0, 0x20, 0x01, 0x0d, 0xb8][..]));
        assert_eq!(v6.bytes[..2], 10_u16.to_ne_bytes());
        assert_eq!(Address::from_bytes(&v6.bytes), Some("[2001:db8::1]:80".parse().unwrap()));
        assert_eq!(Address::from_bytes(&v4.bytes), Some("192.0.2.1:8080".parse().unwrap()));
        assert_eq!(Address::from_bytes(&Address::unspecified().bytes), None);
    }

    #[test]
    fn a_call_returns_a_number_or_the_errno() {
        let (ours, peer) = UnixStream::pair().unwrap();
        assert_eq!(write(ours.as_raw_fd(), &[0; 5]), Ok(5));
        assert_eq!(ioctl_read_int(peer.as_raw_fd(), libc::FIONREAD), Ok(5));
        assert_eq!(read(peer.as_raw_fd(), &mut [0; 10]), Ok(5));
        // EBADF is 9, EFAULT 14 (asm-generic/errno-base.h).
        assert_eq!(read(-1, &mut [0; 10]), Err(9));
        assert_eq!(with_null(NullCall::Write(ours.as_raw_fd(), 10)), Err(14));
        assert_eq!(close(ours.into()), Ok(0));
    }

    #[test]
    fn vectors_are_gathered_and_scattered() {
        let (ours, peer) = UnixStream::pair().unwrap();
        assert_eq!(write_vector(ours.as_raw_fd(), &mut [vec![1, 2], vec![3]]), Ok(3));
        let mut parts = [vec![0; 1], vec![0; 5]];
        assert_eq!(read_vector(peer.as_raw_fd(), &mut parts), Ok(3));
        assert_eq!(parts, [vec![1], vec![2, 3, 0, 0, 0]]);
        assert_eq!(send_message(ours.as_raw_fd(), &mut [vec![7; 4]], 0, None), Ok(4));
        let (n, flags, control) = receive_message(peer.as_raw_fd(), &mut [vec![0; 9]], 0).unwrap();
        assert_eq!((n, flags, control.len()), (4, 0, 0));
    }

    #[test]
    fn a_file_of_zeros_has_its_length_and_poll_reports_what_is_ready() {
        let file = file_of_zeros(3).unwrap();
        let mut bytes = [9; 5];
        assert_eq!(read(file.as_raw_fd(), &mut bytes), Ok(3));
        assert_eq!(bytes, [0, 0, 0, 9, 9]);
        let (ours, _peer) = UnixStream::pair().unwrap();
        let mut happened = Vec::new();
        // POLLIN is 1, POLLOUT 4.
        assert_eq!(poll(&[(ours.as_raw_fd(), 1 | 4)], 0, &mut happened), Ok(1));
        assert_eq!(happened, [4]);
    }
}
