//! Loads the shared object and drives it as packetdrill does: packets as bytes, calls by pointer, a second thread for calls that
//! block.

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

/// `struct packetdrill_interface`: the user's data, then 32 pointers to functions in the order of packetdrill.h.
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

    fn us(self) -> *mut c_void {
        self.0[0]
    }

    fn socket(self) -> c_int {
        // SAFETY: the type of this entry.
        let call: extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int =
            unsafe { transmute(self.at("socket")) };
        call(self.us(), libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP)
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
            call(self.us(), fd, (&raw const raw).cast(), 16)
        }
    }

    fn two(self, name: &str, fd: c_int, number: c_int) -> c_int {
        // SAFETY: the type of the entries that this is used for.
        let call: extern "C" fn(*mut c_void, c_int, c_int) -> c_int = unsafe { transmute(self.at(name)) };
        call(self.us(), fd, number)
    }

    fn accept(self, fd: c_int) -> c_int {
        // SAFETY: the type of this entry; null says that no address is wanted.
        unsafe {
            let call: extern "C" fn(*mut c_void, c_int, *mut c_void, *mut c_void) -> c_int =
                transmute(self.at("accept"));
            call(self.us(), fd, std::ptr::null_mut(), std::ptr::null_mut())
        }
    }

    fn bytes(self, name: &str, fd: c_int, n: usize) -> ssize_t {
        let mut room = vec![1_u8; n];
        // SAFETY: the type of read and write; the buffer has `n` bytes.
        let call: extern "C" fn(*mut c_void, c_int, *mut c_void, size_t) -> ssize_t =
            unsafe { transmute(self.at(name)) };
        call(self.us(), fd, room.as_mut_ptr().cast(), n)
    }

    fn info(self, fd: c_int) -> Vec<u8> {
        let mut bytes = vec![0_u8; 512];
        let mut len: socklen_t = 512;
        // SAFETY: the type of this entry; the buffer has `len` bytes.
        unsafe {
            let call: extern "C" fn(*mut c_void, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int =
                transmute(self.at("getsockopt"));
            let given = call(
                self.us(),
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
        assert_eq!(call(self.us(), bytes.as_ptr().cast(), bytes.len()), 0);
    }

    /// The next packet, and when it left; `None` when there will be none.
    fn next(self) -> Option<(Segment, c_longlong)> {
        let mut room = vec![0_u8; 65_536];
        let (mut n, mut at) = (room.len(), 0);
        // SAFETY: the type of this entry; `n` says how much room there is.
        unsafe {
            let call: extern "C" fn(*mut c_void, *mut c_void, *mut size_t, *mut c_longlong) -> c_int =
                transmute(self.at("netdev_receive"));
            assert_eq!(call(self.us(), room.as_mut_ptr().cast(), &raw mut n, &raw mut at), 0);
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
        call(self.us(), micros);
    }

    fn now(self) -> c_longlong {
        // SAFETY: the type of this entry; it writes one timeval.
        unsafe {
            let call: extern "C" fn(*mut c_void, *mut timeval, *mut c_void) -> c_int =
                transmute(self.at("gettimeofday"));
            let mut at: timeval = zeroed();
            call(self.us(), &raw mut at, std::ptr::null_mut());
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

/// An accepted connection, whose round trip took 100 ms: its socket, and our initial sequence number.
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
fn what_is_written_leaves_as_packets_and_a_loss_ends_in_a_timeout_at_its_exact_time() {
    let stack = Stack::load("rfc");
    let (fd, iss) = accepted(stack);
    let began = stack.now();
    assert_eq!(stack.bytes("write", fd, 1000), 1000);
    let (data, at) = stack.next().expect("data");
    assert_eq!((data.seq.get(), data.len, at - began), (iss.wrapping_add(1), 1000, 0));
    // RFC 6298: one second at least.
    let (again, at) = stack.next().expect("a retransmission");
    assert_eq!((again.seq, again.len, at - began), (data.seq, 1000, 1_000_000));
    // struct tcp_info: tcpi_snd_cwnd, in segments; tcpi_total_retrans.
    let info = stack.info(fd);
    assert_eq!((info[80], info[100]), (1, 1));
}

#[test]
fn a_read_that_blocks_on_another_thread_returns_at_the_instant_at_which_data_arrive() {
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
    // Time stands still until the thread has asked what it is; of one that does not come to it on a busy machine, only for a while.
    if asked.load(Ordering::SeqCst) {
        stack.sleep(250_000);
    } else {
        assert!(before.elapsed() >= Duration::from_millis(200), "it was not waited for");
    }
    let (n, at) = reader.join().expect("the thread");
    assert_eq!((n, at - began), (500, 250_000));
    let (ack, _) = stack.next().expect("an ACK");
    assert_eq!(ack.ack, SeqNum::new(778 + 500));
}

/// As packetdrill, which waits until the thread sleeps: then its call blocks.
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
fn who_spins_on_the_clock_sees_it_move() {
    let stack = Stack::load("freebsd");
    let began = stack.now();
    let spins = (1..1000).find(|_| stack.now() - began >= 20);
    assert_eq!(spins, Some(35));
}

#[test]
fn a_stack_that_will_send_nothing_says_so() {
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
    // The interface that the original asks for with epoll_create.
    assert_eq!(stack.two("epoll_create", 1, 0), -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS));
}
