//! Loads the shared object and uses it like packetdrill: packets as bytes, calls by function pointers, and a second thread for blocking
//! calls.

#![expect(
    unsafe_code,
    reason = "a host program of a C interface; pointers are to locals that outlive the calls"
)]

use libc::{c_int, c_longlong, c_void, size_t, socklen_t, ssize_t, timeval};
use std::ffi::CString;
use std::mem::{transmute, zeroed};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tcpassay_units::SeqNum;
use tcpassay_wire::codec::{Content, Envelope, decode, encode};
use tcpassay_wire::{Ecn, Flags, Options, Segment};

/// `struct packetdrill_interface`: the user data, then 32 function pointers in the order of packetdrill.h.
#[derive(Clone, Copy)]
struct Stack(&'static [*mut c_void; 35]);

// SAFETY: the interface is called from two threads by packetdrill; the object has its own lock.
unsafe impl Send for Stack {}

const NAMES: [&str; 35] = [
    "userdata",
    "free",
    "socket",
    "bind",
    "listen",
    "accept",
    "connect",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmsg",
    "write",
    "writev",
    "send",
    "sendto",
    "sendmsg",
    "fcntl",
    "ioctl",
    "close",
    "shutdown",
    "getsockopt",
    "setsockopt",
    "poll",
    "netdev_send",
    "netdev_receive",
    "usleep",
    "gettimeofday",
    "epoll_create",
    "epoll_ctl",
    "epoll_wait",
    "pipe",
    "splice",
    "",
    "",
];

impl Stack {
    fn load(flags: &str) -> Stack {
        let here = std::env::current_exe().expect("a path");
        let object = here.parent().expect("a folder").join("libtcpassay_bridge.so");
        let path = CString::new(object.to_str().expect("text")).expect("no NUL");
        let flags = CString::new(flags).expect("no NUL");
        let mut table = [std::ptr::null_mut::<c_void>(); 35];
        // SAFETY: the object exports a function of this type, and the table has room for its structure.
        unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!handle.is_null(), "{} is not there", object.display());
            let init = libc::dlsym(handle, c"packetdrill_interface_init".as_ptr());
            assert!(!init.is_null());
            let init: extern "C" fn(*const libc::c_char, *mut c_void) = transmute(init);
            init(flags.as_ptr(), table.as_mut_ptr().cast());
        }
        assert!(!table[32].is_null() && table[33].is_null(), "32 functions");
        Stack(Box::leak(Box::new(table)))
    }

    fn at(self, name: &str) -> *mut c_void {
        self.0[NAMES.iter().position(|n| *n == name).expect("a name of the interface")]
    }

    fn userdata(self) -> *mut c_void {
        self.0[0]
    }

    fn socket(self) -> c_int {
        // SAFETY: the type of this entry.
        let call: extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int =
            unsafe { transmute(self.at("socket")) };
        call(self.userdata(), libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP)
    }

    fn with_address(self, name: &str, fd: c_int, at: SocketAddr) -> c_int {
        let SocketAddr::V4(v4) = at else { panic!("IPv4") };
        // SAFETY: all zeroes are a valid sockaddr_in; the type of this entry; the address outlives the call.
        unsafe {
            let call: extern "C" fn(*mut c_void, c_int, *const c_void, socklen_t) -> c_int =
                transmute(self.at(name));
            let mut raw: libc::sockaddr_in = zeroed();
            raw.sin_family = u16::try_from(libc::AF_INET).expect("2");
            raw.sin_port = v4.port().to_be();
            raw.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
            call(self.userdata(), fd, (&raw const raw).cast(), 16)
        }
    }

    fn two(self, name: &str, fd: c_int, number: c_int) -> c_int {
        // SAFETY: the type of the entries that this is used for.
        let call: extern "C" fn(*mut c_void, c_int, c_int) -> c_int = unsafe { transmute(self.at(name)) };
        call(self.userdata(), fd, number)
    }

    fn accept(self, fd: c_int) -> c_int {
        // SAFETY: the type of this entry; null says that no address is wanted.
        unsafe {
            let call: extern "C" fn(*mut c_void, c_int, *mut c_void, *mut c_void) -> c_int =
                transmute(self.at("accept"));
            call(self.userdata(), fd, std::ptr::null_mut(), std::ptr::null_mut())
        }
    }

    fn bytes(self, name: &str, fd: c_int, n: usize) -> ssize_t {
        let mut room = vec![1_u8; n];
        // SAFETY: the type of read and write; the buffer has `n` bytes.
        let call: extern "C" fn(*mut c_void, c_int, *mut c_void, size_t) -> ssize_t =
            unsafe { transmute(self.at(name)) };
        call(self.userdata(), fd, room.as_mut_ptr().cast(), n)
    }

    fn info(self, fd: c_int) -> Vec<u8> {
        let mut bytes = vec![0_u8; 512];
        let mut len: socklen_t = 512;
        // SAFETY: the type of this entry; the buffer has `len` bytes.
        unsafe {
            let call: extern "C" fn(*mut c_void, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int =
                transmute(self.at("getsockopt"));
            let given = call(
                self.userdata(),
                fd,
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut len,
            );
            assert_eq!(given, 0);
        }
        bytes.truncate(len as usize);
        bytes
    }

    fn inject(self, segment: Segment) {
        let envelope = Envelope { from: peer(), to: here(), ecn: Ecn::NotEct, id: 1, ttl: 64 };
        let mut bytes = Vec::new();
        encode(&envelope, &Content::Tcp(segment), usize::MAX, &mut bytes).expect("a packet");
        // SAFETY: the type of this entry; the bytes outlive the call.
        let call: extern "C" fn(*mut c_void, *const c_void, size_t) -> c_int =
            unsafe { transmute(self.at("netdev_send")) };
        assert_eq!(call(self.userdata(), bytes.as_ptr().cast(), bytes.len()), 0);
    }

    /// The next packet and its time; `None` if the stack sends no more packets.
    fn next(self) -> Option<(Segment, c_longlong)> {
        let mut room = vec![0_u8; 65_536];
        let (mut n, mut at) = (room.len(), 0);
        // SAFETY: the type of this entry; `n` says how much room there is.
        unsafe {
            let call: extern "C" fn(*mut c_void, *mut c_void, *mut size_t, *mut c_longlong) -> c_int =
                transmute(self.at("netdev_receive"));
            assert_eq!(call(self.userdata(), room.as_mut_ptr().cast(), &raw mut n, &raw mut at), 0);
        }
        if n == 0 {
            return None;
        }
        let packet = decode(&room[..n]).expect("a packet");
        assert_eq!((packet.envelope.from, packet.envelope.to), (here(), peer()));
        assert_eq!(packet.checksum_ok, Some(true));
        let Content::Tcp(segment) = packet.content else { panic!("TCP") };
        Some((segment, at))
    }

    fn sleep(self, micros: u32) {
        // SAFETY: the type of this entry.
        let call: extern "C" fn(*mut c_void, u32) -> c_int = unsafe { transmute(self.at("usleep")) };
        call(self.userdata(), micros);
    }

    fn now(self) -> c_longlong {
        // SAFETY: the type of this entry; it writes one timeval.
        unsafe {
            let call: extern "C" fn(*mut c_void, *mut timeval, *mut c_void) -> c_int =
                transmute(self.at("gettimeofday"));
            let mut at: timeval = zeroed();
            call(self.userdata(), &raw mut at, std::ptr::null_mut());
            at.tv_sec * 1_000_000 + at.tv_usec
        }
    }
}

fn here() -> SocketAddr {
    "192.168.0.1:8080".parse().expect("an address")
}

fn peer() -> SocketAddr {
    "192.0.2.1:8080".parse().expect("an address")
}

fn segment(flags: Flags, seq: u32, ack: u32, len: u32) -> Segment {
    Segment { seq: SeqNum::new(seq), ack: SeqNum::new(ack), flags, window: 32_792, len, ..Segment::default() }
}

/// An accepted connection with a round-trip time of 100 ms: its socket and the initial sequence number of the stack.
fn accepted(stack: Stack) -> (c_int, u32) {
    let listener = stack.socket();
    assert_eq!(stack.with_address("bind", listener, here()), 0);
    assert_eq!(stack.two("listen", listener, 1), 0);
    let options = Options { mss: Some(1000), ..Options::default() };
    stack.inject(Segment { options, ..segment(Flags::SYN, 777, 0, 0) });
    let (answer, _) = stack.next().expect("a SYN-ACK");
    assert_eq!((answer.flags, answer.ack), (Flags::SYN | Flags::ACK, SeqNum::new(778)));
    let iss = answer.seq.get();
    stack.sleep(100_000);
    stack.inject(segment(Flags::ACK, 778, iss.wrapping_add(1), 0));
    (stack.accept(listener), iss)
}

#[test]
fn written_data_leave_as_packets_and_are_retransmitted_exactly_after_the_timeout() {
    let stack = Stack::load("rfc");
    let (fd, iss) = accepted(stack);
    let began = stack.now();
    assert_eq!(stack.bytes("write", fd, 1000), 1000);
    let (data, at) = stack.next().expect("data");
    assert_eq!((data.seq.get(), data.len, at - began), (iss.wrapping_add(1), 1000, 0));
    // RFC 6298 section 2: the RTO is at least one second.
    let (again, at) = stack.next().expect("a retransmission");
    assert_eq!((again.seq, again.len, at - began), (data.seq, 1000, 1_000_000));
    // struct tcp_info: tcpi_snd_cwnd, in segments; tcpi_total_retrans.
    let info = stack.info(fd);
    assert_eq!((info[80], info[100]), (1, 1));
}

#[test]
fn a_blocking_read_on_another_thread_returns_at_the_virtual_time_of_the_data() {
    let stack = Stack::load("");
    let (fd, iss) = accepted(stack);
    let began = stack.now();
    let (tell, told) = std::sync::mpsc::channel();
    let asked = Arc::new(AtomicBool::new(false));
    let asks = Arc::clone(&asked);
    let reader = std::thread::spawn(move || {
        let stack = stack;
        tell.send(std::fs::read_link("/proc/thread-self").expect("proc")).expect("somebody waits");
        let n = stack.bytes("read", fd, 5000);
        asks.store(true, Ordering::SeqCst);
        (n, stack.now())
    });
    until_asleep(&told.recv().expect("it begins"));
    stack.sleep(250_000);
    let before = now();
    stack.inject(segment(Flags::ACK | Flags::PSH, 778, iss.wrapping_add(1), 500));
    // Virtual time does not advance until the reader has asked for it, but the wait is bounded: on a busy machine the reader may be late.
    if asked.load(Ordering::SeqCst) {
        stack.sleep(250_000);
    } else {
        assert!(before.elapsed() >= Duration::from_millis(200), "the stack waited for the reader");
    }
    let (n, at) = reader.join().expect("the thread");
    assert_eq!((n, at - began), (500, 250_000));
    let (ack, _) = stack.next().expect("an ACK");
    assert_eq!(ack.ack, SeqNum::new(778 + 500));
}

/// Waits until the thread sleeps, like packetdrill: its call blocks then.
fn until_asleep(thread: &Path) {
    let stat = Path::new("/proc").join(thread).join("stat");
    let asleep = || {
        std::fs::read_to_string(&stat)
            .expect("it lives")
            .rsplit(") ")
            .next()
            .expect("a state")
            .starts_with('S')
    };
    while !asleep() {
        std::thread::yield_now();
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a call took in real time")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn repeated_requests_for_the_time_advance_it() {
    let stack = Stack::load("freebsd");
    let began = stack.now();
    let spins = (1..1000).find(|_| stack.now() - began >= 20);
    assert_eq!(spins, Some(35));
}

#[test]
fn a_stack_without_further_packets_returns_an_empty_packet() {
    assert_eq!(Stack::load("linux").next(), None);
}

#[test]
fn an_error_is_minus_one_and_errno() {
    let stack = Stack::load("");
    let fd = stack.socket();
    assert_eq!(stack.bytes("read", fd, 10), -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOTCONN));
    assert_eq!(stack.two("shutdown", 99, libc::SHUT_WR), -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EBADF));
    // epoll is not supported.
    assert_eq!(stack.two("epoll_create", 1, 0), -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS));
}
