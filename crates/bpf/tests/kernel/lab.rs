//! A sender, a shaper and a receiver in three namespaces, and a transfer between them.
#![expect(unsafe_code, reason = "system calls: setns and socket options")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The reason why the tests cannot run; `None` if they can.
pub fn missing() -> Option<String> {
    // Only root can make namespaces.
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    if !root {
        return Some("not root".to_owned());
    }
    if let Err(e) = tcpassay_bpf::available() {
        return Some(e.to_string());
    }
    let has = |program: &str| Command::new(program).arg("-V").output().is_ok();
    (!has("ip") || !has("tc")).then(|| "ip or tc is missing".to_owned())
}

/// Waits until no other test of this process transfers data.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that panicked while it held the lock left no state behind.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns from the test, with a message, if BPF cannot be used. Otherwise waits until no other test transfers data: concurrent transfers
/// would disturb each other.
#[macro_export]
macro_rules! needs_bpf {
    () => {
        if let Some(why) = lab::missing() {
            $crate::control::say(&format!("skipped: {why}"));
            return;
        }
        let _turn = lab::turn();
    };
}

/// Three network namespaces: `sender` (10.77.1.1) -- `middle` -- `receiver` (10.77.2.1). They are removed when this is dropped.
pub struct Namespaces {
    sender: String,
    middle: String,
    receiver: String,
}

pub const RECEIVER: &str = "10.77.2.1";

impl Namespaces {
    /// A topology with `mbit` Mbit/s towards the receiver and a drop-tail queue of `queue` bytes. `name` is the name of the test.
    pub fn new(name: &str, mbit: u32, queue: u32) -> Namespaces {
        let of = |part: &str| format!("tcpassay-bpf-{}-{name}-{part}", std::process::id());
        let lab = Namespaces { sender: of("s"), middle: of("m"), receiver: of("r") };
        for ns in [&lab.sender, &lab.middle, &lab.receiver] {
            ip(&["netns", "add", ns]);
            ip(&["-n", ns, "link", "set", "lo", "up"]);
        }
        lab.wire(&lab.sender, "s", "10.77.1.1", "10.77.1.2");
        lab.wire(&lab.receiver, "r", RECEIVER, "10.77.2.2");
        run("ip", &["netns", "exec", &lab.middle, "sysctl", "-qw", "net.ipv4.ip_forward=1"]);
        let tc = |args: &[&str]| run("tc", &[&["-n", &lab.middle], args].concat());
        tc(&["qdisc", "add", "dev", "r", "root", "handle", "1:", "htb", "default", "1"]);
        let rate = format!("{mbit}mbit");
        tc(&[
            "class", "add", "dev", "r", "parent", "1:", "classid", "1:1", "htb", "rate", &rate, "burst", "3k",
        ]);
        tc(&["qdisc", "add", "dev", "r", "parent", "1:1", "bfifo", "limit", &queue.to_string()]);
        lab
    }

    fn wire(&self, ns: &str, peer: &str, address: &str, router: &str) {
        ip(&["-n", &self.middle, "link", "add", peer, "type", "veth", "peer", "name", "eth", "netns", ns]);
        ip(&["-n", &self.middle, "addr", "add", &format!("{router}/24"), "dev", peer]);
        ip(&["-n", ns, "addr", "add", &format!("{address}/24"), "dev", "eth"]);
        // No super-segments: the queue in bytes and the window in packets then count the same packets.
        ip(&["-n", ns, "link", "set", "eth", "up", "gso_max_size", "2000", "gso_max_segs", "1"]);
        ip(&["-n", &self.middle, "link", "set", peer, "up"]);
        ip(&["-n", ns, "route", "add", "default", "via", router]);
    }

    /// Sends for `time`, and at least `least` bytes, with the given controllers. Returns the final `TCP_INFO` of the sender.
    pub fn transfer(
        &self,
        controller: &str,
        receivers: Option<&str>,
        (time, least): (Duration, usize),
    ) -> Sent {
        let (sender, receiver) = (self.sender.clone(), self.receiver.clone());
        let (controller, receivers) = (controller.to_owned(), receivers.map(str::to_owned));
        let listener = inside(&receiver, move || {
            let listener = TcpListener::bind((RECEIVER, 0)).expect("a free port");
            if let Some(name) = receivers {
                set_controller(&listener, &name);
            }
            listener
        });
        let port = listener.local_addr().expect("bound").port();
        let sink = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("the sender connects");
            let (mut buffer, mut total) = (vec![0; 1 << 16], 0u64);
            while let n @ 1.. = socket.read(&mut buffer).expect("the sender closes in order") {
                total += n as u64;
            }
            total
        });
        let sent = inside(&sender, move || {
            let mut socket = connect(port, &controller);
            let (started, chunk) = (now(), vec![7; 1 << 16]);
            let (mut samples, mut written) = (Vec::new(), 0);
            while started.elapsed() < time || written < least {
                socket.write_all(&chunk).expect("the receiver reads");
                written += chunk.len();
                samples.push((started.elapsed(), info_word(&socket, 80)));
            }
            let mut sent = Sent {
                controller: controller_of(&socket),
                port: socket.local_addr().expect("connected").port(),
                samples,
                retransmitted: info_word(&socket, 100),
                reordered: info_word(&socket, 220),
                options: info_byte(&socket, 5),
                drops: 0,
                seconds: 0.0,
                bytes: 0,
            };
            socket.shutdown(std::net::Shutdown::Write).expect("connected");
            let _ = socket.read(&mut [0]);
            sent.seconds = started.elapsed().as_secs_f64();
            sent
        });
        Sent { bytes: sink.join().expect("no panic"), drops: self.drops(), ..sent }
    }

    /// The number of packets that the queue has dropped.
    fn drops(&self) -> u64 {
        let said = Command::new("tc").args(["-n", &self.middle, "-s", "qdisc", "show", "dev", "r"]).output();
        let said = String::from_utf8(said.expect("it is there").stdout).expect("tc speaks ASCII");
        let of_queue = said.split("qdisc bfifo").nth(1).expect("the queue is there");
        let count = of_queue.split("(dropped ").nth(1).and_then(|rest| rest.split(',').next());
        count.and_then(|n| n.parse().ok()).expect("tc counts drops")
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for ns in [&self.sender, &self.middle, &self.receiver] {
            let _ = Command::new("ip").args(["netns", "del", ns]).status();
        }
    }
}

/// The result of a transfer.
#[derive(Debug)]
pub struct Sent {
    /// The controller that the socket had in the end (`TCP_CONGESTION`).
    pub controller: String,
    /// The sender's port.
    pub port: u16,
    /// `tcpi_snd_cwnd` after each write.
    pub samples: Vec<(Duration, u32)>,
    /// `tcpi_total_retrans`.
    pub retransmitted: u32,
    /// `tcpi_reord_seen`: how often the sender detected reordering. Packets between namespaces are reordered if the sender moves to another
    /// processor while the first processor is busy.
    pub reordered: u32,
    /// The number of packets that the queue of the shaper has dropped in all transfers.
    pub drops: u64,
    /// `tcpi_options`; bit 3 is ECN.
    pub options: u8,
    pub bytes: u64,
    pub seconds: f64,
}

impl Sent {
    pub fn mbit(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a transfer of seconds")]
        let bits = self.bytes as f64 * 8.0;
        bits / self.seconds / 1e6
    }
}

#[expect(clippy::disallowed_methods, reason = "the kernel's time")]
fn now() -> Instant {
    Instant::now()
}

fn ip(args: &[&str]) {
    run("ip", args);
}

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().expect("it is there");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {words}", args.join(" "));
}

/// Runs `what` on a thread in the namespace. Its sockets stay in that namespace.
fn inside<T: Send + 'static>(ns: &str, what: impl FnOnce() -> T + Send + 'static) -> T {
    let file = File::open(format!("/run/netns/{ns}")).expect("the namespace is there");
    let run = move || {
        // SAFETY: moves this thread alone, which ends with `what`; the descriptor is open.
        let moved = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
        assert!(moved == 0, "setns: {}", std::io::Error::last_os_error());
        what()
    };
    std::thread::spawn(run).join().expect("no panic inside")
}

/// A connection whose controller is set before the handshake.
fn connect(port: u16, controller: &str) -> TcpStream {
    use std::os::fd::FromRawFd;
    // SAFETY: makes a descriptor that nobody else has.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        TcpStream::from_raw_fd(fd)
    };
    set_controller(&socket, controller);
    let address = libc::sockaddr_in {
        sin_family: u16::try_from(libc::AF_INET).expect("small"),
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([10, 77, 2, 1]) },
        sin_zero: [0; 8],
    };
    let length = u32::try_from(size_of_val(&address)).expect("small");
    // SAFETY: the address is a `sockaddr_in` of the length given.
    let result = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
    assert!(result == 0, "connect: {}", std::io::Error::last_os_error());
    socket
}

fn set_controller(socket: &impl AsRawFd, name: &str) {
    let length = u32::try_from(name.len()).expect("short");
    // SAFETY: the kernel reads `length` bytes of the name.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            length,
        )
    };
    assert!(result == 0, "{name}: {}", std::io::Error::last_os_error());
}

fn option(socket: &impl AsRawFd, option: libc::c_int, buffer: &mut [u8]) -> usize {
    let mut length = u32::try_from(buffer.len()).expect("small");
    // SAFETY: the kernel writes at most `length` bytes to the buffer.
    let result = unsafe {
        let at = buffer.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, at, &raw mut length)
    };
    assert!(result == 0, "{}", std::io::Error::last_os_error());
    length as usize
}

fn controller_of(socket: &TcpStream) -> String {
    let mut name = [0; 16];
    let length = option(socket, libc::TCP_CONGESTION, &mut name);
    String::from_utf8_lossy(&name[..length]).trim_end_matches('\0').to_owned()
}

fn info_word(socket: &TcpStream, at: usize) -> u32 {
    let mut info = [0; 232];
    assert!(option(socket, libc::TCP_INFO, &mut info) > at + 3);
    u32::from_ne_bytes(info[at..at + 4].try_into().expect("4 bytes"))
}

fn info_byte(socket: &TcpStream, at: usize) -> u8 {
    let mut info = [0; 232];
    assert!(option(socket, libc::TCP_INFO, &mut info) > at);
    info[at]
}
