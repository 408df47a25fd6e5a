//! System calls exactly as a packetdrill script makes them, a TUN device, the scheduler.
//!
//! A call may block. It returns what the kernel returned: a number or an `errno`.

#![expect(unsafe_code, reason = "system calls that std does not have; each block says why it is sound")]

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// What a call gave: a number, or an `errno`.
pub type Given = Result<i64, i32>;

fn given(code: libc::ssize_t) -> Given {
    if code < 0 { Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { Ok(code as i64) }
}

fn small(code: libc::c_int) -> Given {
    given(code as libc::ssize_t)
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

    /// `AF_UNSPEC`
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

/// A call whose pointers are all null, for scripts that test just that.
pub fn with_null(call: Null) -> Given {
    let null = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: no call here looks at memory of this process, as each pointer is null; that of `Send` to the address is an
    // address of the length that it says.
    given(unsafe {
        match call {
            Null::Read(fd, n) => libc::read(fd, null, n),
            Null::Receive(fd, n, flags) => libc::recv(fd, null, n, flags),
            Null::Write(fd, n) => libc::write(fd, null, n),
            Null::Send(fd, n, flags, None) => libc::send(fd, null, n, flags),
            Null::Send(fd, n, flags, Some(to)) => {
                libc::sendto(fd, null, n, flags, to.bytes.as_ptr().cast(), to.len)
            }
            Null::Bind(fd) => libc::bind(fd, null.cast(), 16) as libc::ssize_t,
            Null::Connect(fd) => libc::connect(fd, null.cast(), 16) as libc::ssize_t,
            Null::Set(fd, level, option) => libc::setsockopt(fd, level, option, null, 4) as libc::ssize_t,
            Null::Get(fd, level, option) => {
                libc::getsockopt(fd, level, option, null, null.cast()) as libc::ssize_t
            }
            Null::Name(fd, false) => libc::getsockname(fd, null.cast(), null.cast()) as libc::ssize_t,
            Null::Name(fd, true) => libc::getpeername(fd, null.cast(), null.cast()) as libc::ssize_t,
        }
    })
}

/// What [`with_null`] calls: descriptors, lengths, flags.
pub enum Null {
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

/// pipe(2): the end to read from, the end to write to.
pub fn pipe() -> Result<(OwnedFd, OwnedFd), i32> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors.
    let code = unsafe { libc::pipe(ends.as_mut_ptr()) };
    Ok((descriptor(if code < 0 { code } else { ends[0] })?, descriptor(ends[1])?))
}

/// splice(2) without offsets.
pub fn splice(from: RawFd, to: RawFd, n: usize, flags: u32) -> Given {
    let null = std::ptr::null_mut();
    // SAFETY: null says that there are no offsets.
    given(unsafe { libc::splice(from, null, to, null, n, flags) })
}

/// sendfile(2) from an offset.
pub fn send_file(to: RawFd, from: RawFd, offset: i64, n: usize) -> Given {
    let mut offset: libc::off_t = offset;
    // SAFETY: the kernel reads and writes one offset.
    given(unsafe { libc::sendfile(to, from, &raw mut offset, n) })
}

/// A file of zeros, so many bytes long, that lies nowhere.
pub fn zeros(len: i64) -> Result<OwnedFd, i32> {
    // SAFETY: the kernel reads the name, which ends with a zero; the descriptor is ours.
    unsafe {
        let made = descriptor(libc::memfd_create(c"script".as_ptr(), 0))?;
        small(libc::ftruncate(made.as_raw_fd(), len))?;
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

/// A new descriptor; 0 when it is made.
fn descriptor(code: libc::c_int) -> Result<OwnedFd, i32> {
    let fd = small(code)?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(RawFd::try_from(fd).expect("a descriptor")) })
}

/// socket(2).
pub fn socket(domain: i32, kind: i32, protocol: i32) -> Result<OwnedFd, i32> {
    // SAFETY: takes numbers.
    descriptor(unsafe { libc::socket(domain, kind, protocol) })
}

/// accept4(2) that does not ask who it is.
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
pub fn bind(fd: RawFd, at: &Address) -> Given {
    // SAFETY: the kernel reads `len` bytes, which the address has.
    small(unsafe { libc::bind(fd, at.bytes.as_ptr().cast(), at.len) })
}

/// connect(2).
pub fn connect(fd: RawFd, to: &Address) -> Given {
    // SAFETY: the kernel reads `len` bytes, which the address has.
    small(unsafe { libc::connect(fd, to.bytes.as_ptr().cast(), to.len) })
}

/// getsockname(2) or getpeername(2).
pub fn name(fd: RawFd, peer: bool) -> Result<Option<SocketAddr>, i32> {
    let mut bytes = [0; 28];
    let mut len: libc::socklen_t = 28;
    let at = bytes.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes of the array.
    small(unsafe {
        if peer { libc::getpeername(fd, at, &raw mut len) } else { libc::getsockname(fd, at, &raw mut len) }
    })?;
    Ok(Address::from_bytes(&bytes))
}

/// listen(2).
pub fn listen(fd: RawFd, backlog: i32) -> Given {
    // SAFETY: takes numbers.
    small(unsafe { libc::listen(fd, backlog) })
}

/// shutdown(2).
pub fn shutdown(fd: RawFd, how: i32) -> Given {
    // SAFETY: takes numbers.
    small(unsafe { libc::shutdown(fd, how) })
}

/// close(2).
pub fn close(fd: OwnedFd) -> Given {
    // SAFETY: the descriptor is given up to this call.
    small(unsafe { libc::close(fd.into_raw_fd()) })
}

/// fcntl(2) with a number.
pub fn fcntl(fd: RawFd, command: i32, argument: i32) -> Given {
    // SAFETY: F_GETFL and F_SETFL, the only commands that callers use, take numbers.
    small(unsafe { libc::fcntl(fd, command, argument) })
}

/// ioctl(2) of a request that writes one int.
pub fn ask(fd: RawFd, request: libc::c_ulong) -> Result<i64, i32> {
    let mut n: libc::c_int = 0;
    // SAFETY: the requests that callers use write one int.
    small(unsafe { libc::ioctl(fd, request, &raw mut n) })?;
    Ok(n.into())
}

/// setsockopt(2).
pub fn set(fd: RawFd, level: i32, option: i32, value: &[u8]) -> Given {
    let len = libc::socklen_t::try_from(value.len()).expect("short options");
    // SAFETY: the kernel reads `len` bytes of the slice.
    small(unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast(), len) })
}

/// getsockopt(2) into `buffer`; how much the kernel had to say.
pub fn get(fd: RawFd, level: i32, option: i32, buffer: &mut [u8]) -> Result<usize, i32> {
    let mut len = libc::socklen_t::try_from(buffer.len()).expect("short options");
    // SAFETY: the kernel writes at most `len` bytes into the slice.
    small(unsafe { libc::getsockopt(fd, level, option, buffer.as_mut_ptr().cast(), &raw mut len) })?;
    Ok(len as usize)
}

/// read(2).
pub fn read(fd: RawFd, into: &mut [u8]) -> Given {
    // SAFETY: the kernel writes at most the length of the slice.
    given(unsafe { libc::read(fd, into.as_mut_ptr().cast(), into.len()) })
}

/// recv(2).
pub fn receive(fd: RawFd, into: &mut [u8], flags: i32) -> Given {
    // SAFETY: the kernel writes at most the length of the slice.
    given(unsafe { libc::recv(fd, into.as_mut_ptr().cast(), into.len(), flags) })
}

/// write(2).
pub fn write(fd: RawFd, from: &[u8]) -> Given {
    // SAFETY: the kernel reads the slice.
    given(unsafe { libc::write(fd, from.as_ptr().cast(), from.len()) })
}

/// sendto(2), to nobody in particular when `to` is `None`.
pub fn send(fd: RawFd, from: &[u8], flags: i32, to: Option<&Address>) -> Given {
    let (at, len) = to.map_or((std::ptr::null(), 0), |to| (to.bytes.as_ptr().cast(), to.len));
    // SAFETY: the kernel reads the slice, and `len` bytes of the address, which is null when there is none.
    given(unsafe { libc::sendto(fd, from.as_ptr().cast(), from.len(), flags, at, len) })
}

fn vector(parts: &mut [Vec<u8>]) -> Vec<libc::iovec> {
    parts.iter_mut().map(|p| libc::iovec { iov_base: p.as_mut_ptr().cast(), iov_len: p.len() }).collect()
}

/// readv(2).
pub fn read_vector(fd: RawFd, parts: &mut [Vec<u8>]) -> Given {
    let made = vector(parts);
    let count = libc::c_int::try_from(made.len()).expect("few parts");
    // SAFETY: each part is a buffer of its length, and lives through the call.
    given(unsafe { libc::readv(fd, made.as_ptr(), count) })
}

/// writev(2).
pub fn write_vector(fd: RawFd, parts: &mut [Vec<u8>]) -> Given {
    let made = vector(parts);
    let count = libc::c_int::try_from(made.len()).expect("few parts");
    // SAFETY: each part is a buffer of its length, and lives through the call.
    given(unsafe { libc::writev(fd, made.as_ptr(), count) })
}

/// A control message: level, type, payload.
pub type Control = (i32, i32, Vec<u8>);

/// recvmsg(2) into `parts`; what it gave, its flags, and its control messages.
pub fn receive_message(
    fd: RawFd,
    parts: &mut [Vec<u8>],
    flags: i32,
) -> Result<(i64, i32, Vec<Control>), i32> {
    let mut made = vector(parts);
    let mut space = [0_u64; 64];
    // SAFETY: all zeroes are a valid msghdr.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = made.as_mut_ptr();
    message.msg_iovlen = made.len() as _;
    message.msg_control = space.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&space) as _;
    // SAFETY: the header points to buffers of the lengths that it says; all live through the call.
    let n = given(unsafe { libc::recvmsg(fd, &raw mut message, flags) })?;
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

/// sendmsg(2) of `parts` without control messages, to nobody in particular when `to` is `None`.
pub fn send_message(fd: RawFd, parts: &mut [Vec<u8>], flags: i32, to: Option<&Address>) -> Given {
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
    given(unsafe { libc::sendmsg(fd, &raw const message, flags) })
}

/// poll(2): descriptors and events; gives the number and fills in what happened.
pub fn poll(of: &[(RawFd, i16)], timeout_ms: i32, happened: &mut Vec<i16>) -> Given {
    let mut made: Vec<libc::pollfd> =
        of.iter().map(|&(fd, events)| libc::pollfd { fd, events, revents: 0 }).collect();
    // SAFETY: the kernel reads and writes as many entries as there are.
    let n = small(unsafe { libc::poll(made.as_mut_ptr(), made.len() as libc::nfds_t, timeout_ms) })?;
    *happened = made.iter().map(|p| p.revents).collect();
    Ok(n)
}

/// `epoll_ctl(2)`; `data` comes back with events.
pub fn epoll_ctl(epoll: RawFd, operation: i32, fd: RawFd, events: u32, data: u64) -> Given {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: the kernel reads one event.
    small(unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) })
}

/// More descriptors than a script has.
const MOST_EVENTS: i32 = 4096;

/// `epoll_wait(2)` for at most `most` events.
pub fn epoll_wait(epoll: RawFd, most: i32, timeout_ms: i32, events: &mut Vec<u32>) -> Given {
    // The kernel refuses zero and less, so that nothing is written then.
    let most = most.min(MOST_EVENTS);
    let mut made = vec![libc::epoll_event { events: 0, u64: 0 }; usize::try_from(most).unwrap_or(0)];
    // SAFETY: the kernel writes at most `most` events, for which there is room.
    let n = small(unsafe { libc::epoll_wait(epoll, made.as_mut_ptr(), most, timeout_ms) })?;
    events.extend(made.iter().take(usize::try_from(n).unwrap_or(0)).map(|e| e.events));
    Ok(n)
}

/// `CLOCK_MONOTONIC`, in nanoseconds.
pub fn now() -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut at) };
    at.tv_sec.cast_unsigned() * 1_000_000_000 + at.tv_nsec.cast_unsigned()
}

/// Waits until one of two descriptors is readable, at most so many nanoseconds.
pub fn wait(a: BorrowedFd, b: BorrowedFd, ns: u64) {
    let watch = |fd: BorrowedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut both = [watch(a), watch(b)];
    let most = libc::timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    };
    // SAFETY: two entries and a timespec; no signal mask is given.
    unsafe { libc::ppoll(both.as_mut_ptr(), 2, &raw const most, std::ptr::null()) };
}

/// Lets other threads run.
pub fn step_aside() {
    // SAFETY: takes nothing.
    unsafe { libc::sched_yield() };
}

/// The calling thread's number.
pub fn thread() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

/// Bounds what memory this process and its threads may take; beyond, an allocation ends the process.
pub fn limit_memory(bytes: u64) {
    let most = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the kernel reads one rlimit.
    unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const most) };
}

/// Timers of this thread without slack, and, where that is allowed, before every ordinary process.
pub fn urgent() -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: 20 };
    // SAFETY: prctl takes numbers here; sched_setscheduler reads one sched_param of the calling thread.
    let code = unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority)
    };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A TUN device of this name, whose packets come and go with a `virtio_net_hdr` of 10 bytes before them; it takes
/// super-segments, like an Ethernet card, unless `whole` is false.
pub fn tun(name: &str, whole: bool) -> io::Result<OwnedFd> {
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
        small(libc::ioctl(device.as_raw_fd(), TUNSETIFF, &raw mut request))
            .and_then(|_| {
                let offload = if whole { CSUM | TSO4_TSO6_ECN } else { CSUM };
                small(libc::ioctl(device.as_raw_fd(), TUNSETOFFLOAD, offload))
            })
            .map_err(io::Error::from_raw_os_error)?;
    }
    let flags = fcntl(device.as_raw_fd(), libc::F_GETFL, 0).map_err(io::Error::from_raw_os_error)?;
    let flags = i32::try_from(flags).expect("flags") | libc::O_NONBLOCK;
    fcntl(device.as_raw_fd(), libc::F_SETFL, flags).map_err(io::Error::from_raw_os_error)?;
    Ok(device.into())
}
