//! A real Linux kernel as the target of a script: a TUN device in its own network namespace, and sockets.
//!
//! The agent writes inbound packets to the TUN device and reads outbound packets from it. The time of an outbound packet is the
//! time at which the reader wakes. The addresses are those of packetdrill: local 192.168.0.1, remote 192.0.2.1, port 8080.
//!
//! # Time
//!
//! In a guest in virtual time, the clock advances by about 1 us when one thread passes a call to another; 100 us are allowed.
//! Kernel timers expire on ticks (1 ms in the guest), and the timer wheel rounds them up by at most one eighth
//! (`kernel/time/timer.c`); that much is allowed. The script begins just before a tick. On a host in real time, 4 ms or one
//! eighth of the wait are allowed.

use super::arguments::{Job, Returned, SocketEnvironment, int};
use super::calls;
use super::names;
use super::worker::Worker;
use crate::netns::build::batch;
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use tcpassay_linux::syscall;
use tcpassay_script::ast::{Expr, PacketBody, ScriptPacket, Syscall};
use tcpassay_script::code::CodeValue;
use tcpassay_script::host::ScriptHost;
use tcpassay_script::run::target::{SentPacket, StepResult};
use tcpassay_script::run::{ScriptError, SequenceMap, SyscallResult, Target};
use tcpassay_script::{IpVersion, ScriptSettings, wire};
use tcpassay_units::{Dur, SeqNum, Time};
use tcpassay_wire::Flags;
use tcpassay_wire::codec::{Content, decode};

const PORT: u16 = 8080;
/// `struct virtio_net_hdr`.
const HEADER: usize = 10;
/// Sysctls of features that a kernel may be built without. Setting them has no effect then. `tcp_syncookies=2` is an exception.
const ABSENT: [&str; 3] = ["net.ipv4.tcp_syncookies", "net.ipv4.tcp_fack", "net.mptcp.enabled"];
const TICK: u64 = 1_000_000;
/// The allowed error in time without a wait, in a guest: the clock advances by about 1 us per passed call.
const AT_ONCE: Dur = Dur::from_micros(100);

/// A connection of the script.
struct Conn {
    /// The local address; `None` until the connection has sent a packet if the kernel chooses the port.
    local: Option<SocketAddr>,
    remote: SocketAddr,
    map: SequenceMap,
    /// The first sequence number of the last packet that the kernel sent.
    last: u32,
}

/// The socket that inbound packets refer to.
#[derive(Clone, Copy)]
enum SocketUnderTest {
    None,
    Listener(SocketAddr),
    Connection(usize),
}

/// The kernel of this process, in the network namespace of this process.
pub struct Kernel {
    virtual_time: bool,
    packet_timeout: Dur,
    tun: Option<OwnedFd>,
    worker: Worker,
    started: u64,
    host: ScriptHost,
    environment: SocketEnvironment,
    gateway: IpAddr,
    files: BTreeMap<i64, OwnedFd>,
    new_file: Option<OwnedFd>,
    conns: Vec<Conn>,
    socket_under_test: SocketUnderTest,
    /// The socket that code blocks refer to.
    subject: Option<i64>,
    /// The socket of the last call.
    calling: Option<i64>,
    /// The last call was `accept`. Its new descriptor becomes the subject.
    accepting: bool,
    pending: Option<Returned>,
    sent: VecDeque<SentPacket>,
    buffer: Vec<u8>,
    /// `--mss`
    gso: Option<u16>,
}

fn failed(what: &str) -> impl Fn(std::io::Error) -> ScriptError + '_ {
    move |e| ScriptError::Unsupported(format!("{what}: {e}"))
}

/// The header of a packet that is written to the device (`struct virtio_net_hdr`). A packet whose payload is longer than `gso`, the value of
/// `--mss`, consists of segments of this length that a NIC has merged: the header has `gso_type`, `hdr_len` and `gso_size`.
fn merged(gso: Option<u16>, bytes: &[u8], payload: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let size = gso.filter(|&size| payload > usize::from(size)).zip(u16::try_from(bytes.len() - payload).ok());
    if let Some((size, headers)) = size {
        // VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6
        header[1] = if bytes.first().is_some_and(|first| first >> 4 == 6) { 4 } else { 1 };
        header[2..4].copy_from_slice(&headers.to_ne_bytes());
        header[4..6].copy_from_slice(&size.to_ne_bytes());
    }
    header
}

impl Kernel {
    /// `virtual_time`: the clock does not advance while a thread runs.
    pub fn new(virtual_time: bool) -> std::io::Result<Kernel> {
        let unknown = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), 0);
        Ok(Kernel {
            virtual_time,
            packet_timeout: if virtual_time { Dur::from_secs(130) } else { Dur::from_secs(5) },
            tun: None,
            worker: Worker::start()?,
            started: syscall::monotonic(),
            host: ScriptHost::default(),
            environment: SocketEnvironment {
                domain: libc::AF_INET,
                local: unknown,
                remote: unknown,
                controller: "cubic".to_owned(),
                began: 0,
            },
            gateway: unknown.ip(),
            files: BTreeMap::new(),
            new_file: None,
            conns: Vec::new(),
            socket_under_test: SocketUnderTest::None,
            subject: None,
            calling: None,
            accepting: false,
            pending: None,
            sent: VecDeque::new(),
            buffer: vec![0; 70_000],
            gso: None,
        })
    }

    fn live(&self, fd: i64) -> Result<RawFd, ScriptError> {
        let file = self.files.get(&fd);
        file.map(AsRawFd::as_raw_fd)
            .ok_or_else(|| ScriptError::Invalid(format!("descriptor {fd} is not open")))
    }

    /// Creates the device, its addresses and its routes.
    fn network(&mut self, settings: &ScriptSettings) -> Result<(), ScriptError> {
        let v6 = settings.ip_version == IpVersion::V6;
        let named = |name: &str, v4: &str, v6_text: &str| {
            let set = settings.addresses.iter().rev().find(|(n, _)| n == name).map(|(_, ip)| *ip);
            set.unwrap_or_else(|| if v6 { v6_text } else { v4 }.parse().expect("an address"))
        };
        let local = named("local_ip", "192.168.0.1", "fd3d:fa7b:d17d::1");
        let remote = named("remote_ip", "192.0.2.1", "2001:db8::1");
        self.gateway = named("gateway_ip", "192.168.0.2", "fd3d:fa7b:d17d::2");
        // A mapped socket has IPv6 addresses and IPv4 packets.
        let mapped = |ip: IpAddr| match ip {
            IpAddr::V4(ip) if settings.ip_version == IpVersion::V4MappedV6 => ip.to_ipv6_mapped().into(),
            ip => ip,
        };
        self.environment.local = SocketAddr::new(mapped(local), PORT);
        self.environment.remote = SocketAddr::new(mapped(remote), PORT);
        self.environment.domain =
            if settings.ip_version == IpVersion::V4 { libc::AF_INET } else { libc::AF_INET6 };
        self.gso = settings.gso;
        self.tun = Some(syscall::tun("tun0", true).map_err(failed("a TUN device"))?);
        let (prefix, more) = if v6 { (48, " nodad") } else { (16, "") };
        let mut lines = vec![
            "link set lo up".to_owned(),
            format!("addr add {local}/{prefix} dev tun0{more}"),
            "link set tun0 up".to_owned(),
        ];
        if let Some(mtu) = settings.mtu {
            lines.push(format!("link set tun0 mtu {mtu}"));
        }
        lines.push(self.route_line("add"));
        batch("ip", &lines).map_err(ScriptError::Unsupported)
    }

    fn route_line(&self, what: &str) -> String {
        let prefix = match self.environment.remote.ip().to_canonical() {
            IpAddr::V4(ip) => format!("{ip}/24").replace(&format!(".{}/", ip.octets()[3]), ".0/"),
            IpAddr::V6(ip) => format!("{ip}/128"),
        };
        let attributes = self.host.route.iter().map(|(name, value)| match name.as_str() {
            "rto_min" => format!("rto_min {value}ms"),
            "ecn" => "features ecn".to_owned(),
            "features" | "congctl" => String::new(),
            name => format!("{name} {value}"),
        });
        let attributes: Vec<String> = attributes.collect();
        format!("route {what} {prefix} via {} dev tun0 {}", self.gateway, attributes.join(" "))
    }

    /// Applies the settings that commands have changed.
    fn apply(&mut self, before: &ScriptHost) -> Result<(), String> {
        let changed: Vec<(String, String)> = self
            .host
            .all("")
            .filter(|(key, value)| before.get(key) != Some(value))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        for (key, value) in changed {
            if key == "net.ipv4.tcp_congestion_control" {
                // Set by socket option, because a namespace restricts the sysctl to allowed controllers.
                self.has_controller(&value)?;
                self.environment.controller = value;
                continue;
            }
            let path = match key.strip_prefix("module.") {
                // A module parameter affects the whole kernel. Only in a guest does no other process use the kernel.
                Some(key) if self.virtual_time => format!("/sys/module/{}", key.replace('.', "/parameters/")),
                Some(_) => return Err(format!("{key}={value}: it would change this host")),
                None => format!("/proc/sys/{}", key.replace('.', "/")),
            };
            match std::fs::write(&path, &value) {
                Err(e)
                    if e.kind() == ErrorKind::NotFound && ABSENT.contains(&key.as_str()) && value != "2" => {}
                done => done.map_err(|e| format!("sysctl {key}={value}: {e}"))?,
            }
        }
        if self.host.route != before.route {
            let mtu = self.host.route.get("mtu").map(|mtu| format!("link set tun0 mtu {mtu}"));
            let lines: Vec<String> = mtu.into_iter().chain([self.route_line("replace")]).collect();
            batch("ip", &lines)?;
        }
        if self.host.local_drop != before.local_drop {
            // In packets. 1000 is the default `txqueuelen`.
            let limit = if self.host.local_drop { 0 } else { 1000 };
            batch("tc", &[format!("qdisc replace dev tun0 root pfifo limit {limit}")])?;
        }
        if self.host.no_tso != before.no_tso {
            // linux/ethtool.h: ETHTOOL_STSO, ETHTOOL_GTSO; ETHTOOL_SGSO, ETHTOOL_GGSO.
            let socket =
                tcpassay_linux::sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(|e| e.to_string())?;
            for (set, get) in [(0x1f, 0x1e), (0x24, 0x23)] {
                tcpassay_linux::sys::offload(socket.as_fd(), "tun0", set, get, !self.host.no_tso)
                    .map_err(|e| format!("segmentation offload of the device: {e}"))?;
            }
        }
        Ok(())
    }

    fn has_controller(&self, name: &str) -> Result<(), String> {
        let wrong =
            |errno| format!("the congestion controller `{name}`: {} from this kernel", names::error(errno));
        let socket = syscall::socket(self.environment.domain, libc::SOCK_STREAM, 0).map_err(wrong)?;
        syscall::set(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
            .map_err(wrong)?;
        Ok(())
    }

    /// Reads the packets that the kernel has sent. Returns true if there were any.
    fn drain(&mut self) -> bool {
        let mut any = false;
        while let Some(tun) = &self.tun {
            let Ok(n) = syscall::read(tun.as_raw_fd(), &mut self.buffer) else { break };
            let at = self.now();
            let n = usize::try_from(n).expect("not negative");
            let bytes = &self.buffer[HEADER.min(n)..n];
            let (Ok(packet), Some((tos, options))) = (decode(bytes), wire::read(bytes)) else { continue };
            // `decode` has checked the length of the IP header.
            let hops = if bytes[0] >> 4 == 6 { bytes[7] } else { bytes[8] };
            let Content::Tcp(segment) = packet.content else { continue };
            let (from, to) = (packet.envelope.from, packet.envelope.to);
            let opens = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
            let found = self.conn_of(from, to);
            let Some(conn) = found.or_else(|| if opens { self.adopt(from, to) } else { None }) else {
                continue;
            };
            let known = &mut self.conns[conn];
            if segment.flags.has(Flags::SYN) {
                known.map.iss = segment.seq;
            }
            known.last = segment.seq.get();
            self.sent.push_back(SentPacket { at, conn, segment, options, tos, hops });
            any = true;
        }
        any
    }

    fn conn_of(&mut self, from: SocketAddr, to: SocketAddr) -> Option<usize> {
        let known = self.conns.iter().rposition(|c| c.local == Some(from) && c.remote == to);
        known.or_else(|| {
            let new = self.conns.iter().rposition(|c| c.local.is_none() && c.remote == to)?;
            self.conns[new].local = Some(from);
            Some(new)
        })
    }

    /// Registers a connection that a call has opened implicitly: by the first write after a deferred `connect`, or by a second
    /// `connect` of a socket.
    fn adopt(&mut self, from: SocketAddr, to: SocketAddr) -> Option<usize> {
        let remote =
            SocketAddr::new(self.environment.remote.ip().to_canonical(), self.environment.remote.port());
        if to != remote {
            return None;
        }
        let conn = self.connect_to(Some(from), to);
        self.socket_under_test = SocketUnderTest::Connection(conn);
        self.subject = self.calling.or(self.subject);
        Some(conn)
    }

    fn connect_to(&mut self, local: Option<SocketAddr>, remote: SocketAddr) -> usize {
        let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
        let map = SequenceMap::new(SeqNum::new(0));
        let conn = Conn { local: local.map(canonical), remote: canonical(remote), map, last: 0 };
        self.conns.push(conn);
        self.conns.len() - 1
    }

    fn answer(&mut self, returned: Returned) -> Result<SyscallResult, ScriptError> {
        self.new_file = returned.made;
        returned.answer
    }

    /// Updates the socket under test before a call is made.
    fn note(&mut self, call: &Syscall) -> Result<(), ScriptError> {
        let fd = || int(&call.args, 0);
        self.accepting = matches!(call.name.as_str(), "accept" | "accept4");
        self.calling = fd().ok();
        match call.name.as_str() {
            "socket" => (self.socket_under_test, self.subject) = (SocketUnderTest::None, None),
            "listen" => {
                let at = syscall::socket_address(self.live(fd()?)?, false)
                    .ok()
                    .flatten()
                    .unwrap_or(self.environment.local);
                self.socket_under_test =
                    SocketUnderTest::Listener(SocketAddr::new(self.environment.local.ip(), at.port()));
            }
            "connect" | "sendto" | "send" | "sendmsg" => {
                let fast = calls::uses_fast_open(call);
                if call.name == "connect" || fast {
                    let fresh = syscall::socket_address(self.live(fd()?)?, true).is_err();
                    if fresh && self.subject != Some(fd()?) {
                        let local = syscall::socket_address(self.live(fd()?)?, false).ok().flatten();
                        let local = local.filter(|at| at.port() != 0 && !at.ip().is_unspecified());
                        let conn = self.connect_to(local, self.environment.remote);
                        self.socket_under_test = SocketUnderTest::Connection(conn);
                        self.subject = Some(fd()?);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The job of a call. `close` takes ownership of the descriptor.
    fn job(&mut self, call: &Syscall) -> Result<Job, ScriptError> {
        if call.name == "close" {
            let fd = int(&call.args, 0)?;
            let file = self.files.remove(&fd);
            let file = file.ok_or_else(|| ScriptError::Invalid(format!("descriptor {fd} is not open")))?;
            return Ok(calls::close(file));
        }
        calls::prepare(call, &|fd| self.live(fd), &self.environment)
    }

    /// pipe(2), which creates two descriptors.
    fn pipe(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError> {
        let Some(Expr::List(ends)) = call.args.first() else {
            return Err(ScriptError::Unsupported(
                "the descriptors of a pipe must have the form `[5, 6]`".to_owned(),
            ));
        };
        let (from, to) = (int(ends, 0)?, int(ends, 1)?);
        match syscall::pipe() {
            Ok((read, write)) => {
                self.files.insert(from, read);
                self.files.insert(to, write);
                Ok(SyscallResult::Done(0))
            }
            Err(errno) => Ok(SyscallResult::Error(names::error(errno))),
        }
    }
}

impl Target for Kernel {
    fn begin(&mut self, settings: &ScriptSettings) -> Result<(), ScriptError> {
        self.network(settings)?;
        let before = self.host.clone();
        for (name, value) in &settings.sysctls {
            self.host.set(name, value);
        }
        self.host.files.extend(settings.shell_files.iter().cloned());
        self.apply(&before).map_err(ScriptError::Unsupported)?;
        if self.virtual_time {
            // A previous script may have set it.
            let _ = std::fs::write("/sys/module/tcp_dctcp/parameters/dctcp_receiver", "0");
            // One microsecond before a tick, so that a timer of n ticks runs one microsecond late.
            let now = syscall::monotonic();
            let start = (now / TICK + 3) * TICK - 1000;
            self.started = now;
            self.advance_to(Time::from_nanos(start - now));
            self.started = start;
            // The packets that the kernel sends when the device comes up do not belong to the script.
            self.drain();
        } else {
            self.started = syscall::monotonic();
        }
        self.environment.began =
            syscall::real_time().saturating_sub(syscall::monotonic().saturating_sub(self.started));
        Ok(())
    }

    fn now(&self) -> Time {
        Time::from_nanos(syscall::monotonic().saturating_sub(self.started))
    }

    fn step(&mut self, until: Time) -> StepResult {
        // The maximum wait for a call without an end time.
        let most = Dur::from_secs(if self.virtual_time { 100_000 } else { 100 });
        let until = until.min(self.now().saturating_add(most));
        loop {
            if self.drain() {
                return StepResult::Acted;
            }
            if self.pending.is_none() {
                self.pending = self.worker.returned();
                if self.pending.is_some() {
                    return StepResult::Acted;
                }
            }
            let now = self.now();
            if now >= until {
                return StepResult::Quiet;
            }
            let Some(tun) = &self.tun else { return StepResult::Quiet };
            syscall::wait_readable(tun.as_fd(), self.worker.bell(), (until - now).as_nanos());
        }
    }

    fn advance_to(&mut self, until: Time) {
        while self.now() < until {
            let left = (until - self.now()).as_nanos();
            syscall::wait_readable(self.worker.bell(), self.worker.bell(), left);
        }
    }

    fn packet_timeout(&self) -> Dur {
        self.packet_timeout
    }

    fn allowed_time_error(&self, wait: Dur, settings: &ScriptSettings) -> Dur {
        if !self.virtual_time {
            let least = if settings.tolerance.is_zero() { Dur::from_millis(4) } else { settings.tolerance };
            return least.max(wait / 8);
        }
        if wait.is_zero() { AT_ONCE } else { Dur::from_nanos(TICK) + wait / 8 }
    }

    fn call(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError> {
        if call.name == "pipe" {
            return self.pipe(call);
        }
        let takes =
            !matches!(call.name.as_str(), "socket" | "poll" | "open" | "epoll_create" | "epoll_create1");
        if takes && int(&call.args, 0).is_ok_and(|fd| !self.files.contains_key(&fd)) {
            // The descriptor is not open in the script. The same number may be open in this process.
            return Ok(SyscallResult::errno("EBADF"));
        }
        // An invalid argument is a limitation of the runner and not a failure of the kernel.
        let lacking = |error| match error {
            ScriptError::Invalid(what) => ScriptError::Unsupported(format!("{}: {what}", call.name)),
            other => other,
        };
        self.note(call).map_err(lacking)?;
        let job = self.job(call).map_err(lacking)?;
        match self.worker.make(job).map_err(failed("a thread for calls"))? {
            Some(returned) => self.answer(returned),
            None => Ok(SyscallResult::Blocks),
        }
    }

    fn retry(&mut self, _: &Syscall) -> Result<SyscallResult, ScriptError> {
        match self.pending.take().or_else(|| self.worker.returned()) {
            Some(returned) => self.answer(returned),
            None => Ok(SyscallResult::Blocks),
        }
    }

    fn name_descriptor(&mut self, fd: Option<i64>) -> i64 {
        let fd = fd.unwrap_or_else(|| self.files.keys().next_back().map_or(3, |last| last + 1));
        if let Some(made) = self.new_file.take() {
            self.files.insert(fd, made);
        }
        if self.accepting {
            self.subject = Some(fd);
        }
        fd
    }

    fn inject(&mut self, packet: &ScriptPacket) -> Result<(), ScriptError> {
        if let SocketUnderTest::Listener(local) = self.socket_under_test {
            let port = u16::try_from(self.conns.len()).ok().and_then(|number| PORT.checked_add(number));
            let Some(port) = port else {
                return Err(ScriptError::Unsupported("more connections than there are ports".to_owned()));
            };
            let remote = SocketAddr::new(self.environment.remote.ip(), port);
            self.socket_under_test = SocketUnderTest::Connection(self.connect_to(Some(local), remote));
        }
        if let SocketUnderTest::None = self.socket_under_test {
            // The packet goes to a closed port.
            let (local, remote) = (self.environment.local, self.environment.remote);
            self.socket_under_test = SocketUnderTest::Connection(self.connect_to(Some(local), remote));
        }
        let SocketUnderTest::Connection(index) = self.socket_under_test else {
            return Err(ScriptError::Invalid("no socket can receive this packet".to_owned()));
        };
        self.drain();
        let conn = &mut self.conns[index];
        let Some(local) = conn.local else {
            return Err(ScriptError::Invalid("the connection has sent no packet yet".to_owned()));
        };
        let bytes = match &packet.body {
            PacketBody::Tcp(tcp) => {
                let live = conn.map.live(tcp).map_err(ScriptError::Unsupported)?;
                wire::segment(conn.remote, local, wire::tos(packet.ip), &live)
            }
            PacketBody::Icmp(icmp) => {
                let seq = icmp.seq.map_or(conn.last, |seq| conn.map.our_number(seq));
                wire::icmp(local, conn.remote, seq, icmp)
            }
        };
        let bytes = bytes.map_err(ScriptError::Unsupported)?;
        let payload = match &packet.body {
            PacketBody::Tcp(tcp) => tcp.len as usize,
            PacketBody::Icmp(_) => 0,
        };
        let mut framed = Vec::from(merged(self.gso, &bytes, payload));
        framed.extend(bytes);
        let tun = self.tun.as_ref().expect("made at the beginning");
        syscall::write(tun.as_raw_fd(), &framed).map(drop).map_err(|errno| {
            ScriptError::Unsupported(format!("the TUN device rejected the packet: {}", names::error(errno)))
        })
    }

    fn next_packet(&mut self) -> Option<SentPacket> {
        self.drain();
        self.sent.pop_front()
    }

    fn connection_under_test(&self) -> Option<usize> {
        match self.socket_under_test {
            SocketUnderTest::Connection(conn) => Some(conn),
            _ => None,
        }
    }

    fn sequence_map(&mut self, conn: usize) -> &mut SequenceMap {
        &mut self.conns[conn].map
    }

    fn shell(&mut self, text: &str) -> Result<(), String> {
        let before = self.host.clone();
        self.host.run(text, None)?;
        if std::mem::take(&mut self.host.metrics_flushed) && !self.conns.is_empty() {
            // The metrics of a new namespace are empty.
            batch("ip", &["tcp_metrics flush all".to_owned()])?;
        }
        self.apply(&before)
    }

    fn value(&self, name: &str) -> Option<CodeValue> {
        if name == "SK_MEMINFO_RMEM_ALLOC" || name == "SK_MEMINFO_RCVBUF" {
            let fd = self.files.get(&self.subject?)?;
            return super::info::memory(fd.as_raw_fd(), name).map(CodeValue::Int);
        }
        let fd = self.files.get(&self.subject?)?;
        super::info::look(fd.as_raw_fd(), name).map(CodeValue::Int)
    }

    fn diagnostics(&self) -> Vec<String> {
        let Some(fd) = self.subject.and_then(|fd| self.files.get(&fd)) else { return Vec::new() };
        super::info::words(fd.as_raw_fd())
    }
}

#[cfg(test)]
mod tests;
