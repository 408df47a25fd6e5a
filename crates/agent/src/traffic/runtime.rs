//! The sockets of every host: one process, no threads, nothing that waits.
//!
//! A socket belongs to the namespace in which it was made; after that one process may use them all. Readiness is
//! edge-triggered, so that a socket is looked at once for each thing that happened to it. What a connection is for travels
//! outside the network: the addresses of its two ends say which connection has arrived.

use crate::collect::flow_tracker::FlowTracker;
use crate::collect::tcp_info::TcpInfo;
use crate::netns::build::NetnsSet;
use crate::system::Failure;
use crate::traffic::cc_engine::KernelCcNames;
use crate::traffic::io_threads::{self, BlockingWriters, Reader, Writer};
use crate::traffic::socket_options;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use tcpassay_case::Case;
use tcpassay_linux::sys;
use tcpassay_measure::pcapng::host_address;
use tcpassay_measure::{Collector, Flow, FlowCounters, FlowId, TcpSummary};
use tcpassay_units::{Bytes, Time};
use tcpassay_workload::{ConnKey, HostIndex, SocketId, TrafficSchedule};

/// The first port that servers listen at; each part of the workload has its own.
const PORT: u16 = 5001;

/// One end of a connection.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as epoll and the case tell them")]
pub struct Endpoint {
    pub fd: OwnedFd,
    pub host: usize,
    pub slot: SocketId,
    /// The direction in which it sends, and the other.
    pub out: FlowId,
    pub into: FlowId,
    /// Its congestion control keeps an alpha.
    dctcp: bool,
    quickack: bool,
    pub connected: bool,
    /// Something has arrived since it was last found empty.
    pub fed: Cell<bool>,
    /// Its reader wants to know how much there is before it reads: one that reads slowly.
    pub measures: bool,
    /// The peer has closed; what is readable comes before.
    pub hung_up: bool,
    pub only_reads: bool,
    pub pump: IoMode,
}

/// Who moves the data of a socket.
pub enum IoMode {
    /// The application, when it is told that there is something to do.
    None,
    /// A thread that reads; and how much of it has been recorded.
    Reads(Option<Reader>, u64),
    /// A thread that sends.
    Writes,
    /// A thread that does what the application is waiting for.
    Waits(Writer),
}

/// A listening socket.
struct Listener {
    fd: OwnedFd,
    host: usize,
    at: SocketAddrV4,
}

/// Connections that no server has accepted yet, by the addresses of client and server.
///
/// The client's address alone does not name a connection: Linux chooses source ports for each destination separately
/// (`__inet_hash_connect`), so that two connections of one host to two servers may have the same port.
#[derive(Default)]
struct PendingConnections(BTreeMap<(SocketAddrV4, SocketAddrV4), (ConnKey, [FlowId; 2])>);

impl PendingConnections {
    fn open(&mut self, client: SocketAddrV4, server: SocketAddrV4, connection: (ConnKey, [FlowId; 2])) {
        self.0.insert((client, server), connection);
    }

    fn accept(&mut self, client: SocketAddrV4, server: SocketAddrV4) -> Option<(ConnKey, [FlowId; 2])> {
        self.0.remove(&(client, server))
    }
}

/// Every socket of the run.
pub struct TrafficRuntime<'a> {
    pub case: &'a Case,
    plan: Arc<TrafficSchedule>,
    names: KernelCcNames,
    pub namespaces: NetnsSet,
    start: u64,
    now: Time,
    pub poll: OwnedFd,
    pub collector: Collector,
    pub flow_tracker: FlowTracker,
    pub socks: Vec<Option<Endpoint>>,
    pub slots: Vec<Vec<usize>>,
    listeners: Vec<Listener>,
    arriving: PendingConnections,
    records: u32,
    pub payload: Arc<[u8]>,
    /// Bulk ends are served by threads: in a guest.
    pub pumps: bool,
    /// Where bulk receivers copy to; empty where they discard.
    copies: Vec<u8>,
    /// Writes that wait (`app.blocking`).
    pub blocking_writers: BlockingWriters,
    /// What was read is told to the end: the run is over.
    settled: bool,
    /// The kernel's trace counts timeouts.
    pub traced: bool,
    /// What should not have gone wrong.
    pub failure: Option<Failure>,
}

/// A socket as epoll names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpollToken {
    Timer,
    /// Writes have returned.
    Bell,
    Listener(usize),
    Endpoint(usize),
}

impl EpollToken {
    fn number(self) -> u64 {
        match self {
            EpollToken::Timer => 0,
            EpollToken::Bell => u64::MAX,
            EpollToken::Listener(i) => 1 + 2 * i as u64,
            EpollToken::Endpoint(i) => 2 + 2 * i as u64,
        }
    }

    /// The token of a number that epoll gave back.
    pub fn of(number: u64) -> EpollToken {
        let at = |n: u64| usize::try_from(n / 2).expect("fits memory");
        match number {
            0 => EpollToken::Timer,
            u64::MAX => EpollToken::Bell,
            n if n % 2 == 1 => EpollToken::Listener(at(n - 1)),
            n => EpollToken::Endpoint(at(n - 2)),
        }
    }
}

/// What is taken at once by a receiver that copies: as iperf3 does.
const COPIED: usize = 128 << 10;
/// So much is written at a time by an application that sends without end in calls of any size.
pub const ENDLESS: Bytes = Bytes::new(1 << 40);
/// What is told of a socket that a thread serves.
const END: i32 = libc::EPOLLRDHUP | libc::EPOLLET;
const EDGES: i32 = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;

fn host_number(host: usize) -> u32 {
    u32::try_from(host).expect("few hosts")
}

impl<'a> TrafficRuntime<'a> {
    /// Sockets for `plan`, with every server listening. The run begins at `start` of the kernel's clock; `names` are those of the
    /// controllers that are not Linux's.
    pub fn new(
        case: &'a Case,
        plan: &Arc<TrafficSchedule>,
        namespaces: NetnsSet,
        collector: Collector,
        (start, names): (u64, KernelCcNames),
    ) -> Result<TrafficRuntime<'a>, Failure> {
        let mut runtime = TrafficRuntime {
            case,
            names,
            plan: Arc::clone(plan),
            namespaces,
            start,
            now: Time::ZERO,
            poll: sys::poll().map_err(|e| format!("epoll: {e}"))?,
            collector,
            flow_tracker: FlowTracker::new(start),
            socks: Vec::new(),
            slots: vec![Vec::new(); case.hosts.len()],
            listeners: Vec::new(),
            arriving: PendingConnections::default(),
            records: 0,
            payload: vec![0; 1 << 20].into(),
            pumps: false,
            copies: Vec::new(),
            blocking_writers: BlockingWriters::new().map_err(|e| format!("eventfd: {e}"))?,
            settled: false,
            traced: false,
            failure: None,
        };
        sys::watch(
            runtime.poll.as_fd(),
            runtime.blocking_writers.bell.as_fd(),
            libc::EPOLLIN | libc::EPOLLET,
            EpollToken::Bell.number(),
        )
        .map_err(|e| format!("epoll: {e}"))?;
        for (part, what) in (0u16..).zip(plan.parts()) {
            // Incast asks the other way round; a listener too many costs nothing.
            let mut hosts: Vec<HostIndex> =
                what.pairs.iter().flat_map(|pair| [pair.sender, pair.receiver]).collect();
            hosts.sort_unstable();
            hosts.dedup();
            for host in hosts {
                runtime.listen(host.0 as usize, part).map_err(|e| format!("listening: {e}"))?;
            }
        }
        Ok(runtime)
    }

    /// The time of the run when the process woke: it stands still until the process sleeps.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Looks at the clock, once for each time that the process wakes: a system call is what a guest is slow at. Where no
    /// NIC holds packets back (receive merging), the instant of a packet that has just passed is the present one.
    pub fn wake(&mut self, packet: Option<u64>) {
        let merges = self.case.hosts.iter().any(|h| h.nic.gro);
        let at = packet.filter(|_| !merges).unwrap_or_else(sys::now);
        self.now = self.now.max(Time::from_nanos(at.saturating_sub(self.start)));
    }

    fn listen(&mut self, host: usize, part: u16) -> Result<(), Failure> {
        let fd = self.open(host, part)?;
        let at = SocketAddrV4::new(host_address(host_number(host)), PORT + part);
        let done = sys::bind(fd.as_fd(), at).and_then(|()| sys::listen(fd.as_fd(), 4096)).and_then(|()| {
            let token = EpollToken::Listener(self.listeners.len()).number();
            sys::watch(self.poll.as_fd(), fd.as_fd(), libc::EPOLLIN, token)
        });
        done.map_err(|e| format!("{at}: {e}"))?;
        self.listeners.push(Listener { fd, host, at });
        Ok(())
    }

    /// Whether the controller of a part of the workload at a host is DCTCP, and its name.
    fn cc(&self, host: usize, part: u16) -> &str {
        self.plan.parts()[usize::from(part)].cc.as_deref().unwrap_or(&self.case.hosts[host].cc)
    }

    /// A TCP socket of a host with every option of the case, each read back.
    fn open(&mut self, host: usize, part: u16) -> Result<OwnedFd, Failure> {
        self.namespaces.enter(host)?;
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        let fd = sys::socket(libc::AF_INET, kind, 0).map_err(|e| format!("a socket: {e}"))?;
        let cc = self.cc(host, part).to_owned();
        let name = self.names.get(&(host, cc.clone())).unwrap_or(&cc);
        socket_options::apply(self.case, fd.as_fd(), host, name)?;
        Ok(fd)
    }

    pub fn sock(&self, host: usize, slot: SocketId) -> &Endpoint {
        let at = self.slots[host][slot.0 as usize];
        self.socks[at].as_ref().expect("a socket call on a slot that was given up")
    }

    /// The end at `host` of the connection `key`, which has yet to connect; `out` is the direction in which it sends.
    fn socket(
        &self,
        fd: OwnedFd,
        host: usize,
        (slot, key): (SocketId, ConnKey),
        [out, into]: [FlowId; 2],
    ) -> Endpoint {
        Endpoint {
            fd,
            host,
            slot,
            out,
            into,
            dctcp: self.cc(host, key.part) == "dctcp",
            quickack: self.case.hosts[host].stack.quickack,
            connected: false,
            fed: Cell::new(false),
            measures: self.plan.part(key).spec.read_rate.is_some(),
            hung_up: false,
            only_reads: false,
            pump: IoMode::None,
        }
    }

    /// From now on what bulk receivers read is copied.
    pub fn copy_what_is_read(&mut self) {
        self.copies = vec![0; COPIED];
    }

    /// From now on bulk ends are served by threads.
    pub fn use_pumps(&mut self) {
        self.pumps = true;
    }

    fn place(&mut self, sock: Endpoint) -> Result<(), Failure> {
        let at = self.socks.len();
        let events = if matches!(sock.pump, IoMode::None) { EDGES } else { END };
        sys::watch(self.poll.as_fd(), sock.fd.as_fd(), events, EpollToken::Endpoint(at).number())
            .map_err(|e| format!("epoll: {e}"))?;
        let (slots, slot) = (&mut self.slots[sock.host], sock.slot.0 as usize);
        if slot >= slots.len() {
            slots.resize(slot + 1, usize::MAX);
        }
        slots[slot] = at;
        self.socks.push(Some(sock));
        Ok(())
    }

    /// Two rows of the recording for a new connection.
    fn record(&mut self, key: ConnKey) -> [FlowId; 2] {
        let now = self.now();
        [(key.client.0, key.server.0), (key.server.0, key.client.0)].map(|(from, to)| {
            let n = self.records;
            self.records += 1;
            let cc = self.cc(from as usize, key.part).to_owned();
            self.collector.add_flow(Flow {
                name: format!("flow.{n}"),
                connection: n / 2,
                from,
                to,
                class: self.plan.part(key).class.clone(),
                cc,
                mss: self.case.hosts[from as usize].stack.mss,
                start: now,
                end: None,
                counters: FlowCounters::default(),
                tcp: TcpSummary::default(),
            })
        })
    }

    pub fn begin(&mut self, host: usize, slot: SocketId, key: ConnKey) -> Result<(), Failure> {
        let fd = self.open(host, key.part)?;
        let server = SocketAddrV4::new(host_address(key.server.0), PORT + key.part);
        let flows = self.record(key);
        sys::connect(fd.as_fd(), server).map_err(|e| format!("connecting to {server}: {e}"))?;
        let here = sys::local_address(fd.as_fd()).map_err(|e| e.to_string())?;
        self.flow_tracker.open((key.client.0, here.port()), (key.server.0, server.port()), flows);
        self.arriving.open(here, server, (key, flows));
        let sock = self.socket(fd, host, (slot, key), flows);
        self.place(sock)
    }

    /// The connections that wait at a listener: `slot` gives each of them its place.
    pub fn accept(
        &mut self,
        listener: usize,
        mut slot: impl FnMut(usize, ConnKey) -> (SocketId, bool),
    ) -> Result<Vec<usize>, Failure> {
        let Listener { host, at: here, .. } = self.listeners[listener];
        let mut new = Vec::new();
        loop {
            let (fd, peer) = match sys::accept(self.listeners[listener].fd.as_fd()) {
                Ok(got) => got,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(new),
                Err(e) => return Err(format!("accepting: {e}")),
            };
            let Some((key, [into, out])) = self.arriving.accept(peer, here) else {
                return Err(format!("a connection from {peer} to {here} that nobody opened"));
            };
            let (slot, only_reads) = slot(host, key);
            let sock = self.socket(fd, host, (slot, key), [out, into]);
            if sock.quickack {
                sys::set(sock.fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1)
                    .map_err(|e| e.to_string())?;
            }
            let mut pump = IoMode::None;
            // The kernel forgets `app.quickack` between reads; an application that reminds it reads by itself.
            if self.pumps && only_reads && !sock.quickack {
                let own = sock.fd.try_clone().map_err(|e| e.to_string())?;
                pump = IoMode::Reads(Some(io_threads::read(own).map_err(|e| format!("a reader: {e}"))?), 0);
            }
            new.push(self.socks.len());
            self.place(Endpoint { connected: true, fed: Cell::new(true), only_reads, pump, ..sock })?;
        }
    }

    /// Takes note of what epoll says; `None` when the socket is gone, an error when it has failed.
    pub fn note(&mut self, at: usize, events: i32) -> Option<Result<(), ()>> {
        let sock = self.socks.get_mut(at)?.as_mut()?;
        let failed =
            || sys::get(sock.fd.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR).map_or(true, |code| code != 0);
        if events & libc::EPOLLERR != 0 && failed() {
            return Some(Err(()));
        }
        if events & libc::EPOLLOUT != 0 {
            sock.connected = true;
        }
        if events & libc::EPOLLIN != 0 {
            sock.fed.set(true);
        }
        if events & (libc::EPOLLRDHUP | libc::EPOLLHUP) != 0 {
            sock.hung_up = true;
        }
        Some(Ok(()))
    }

    /// Reads for an application that does nothing else; says whether the peer has closed.
    pub fn read_for(&mut self, at: usize) -> bool {
        let now = self.now();
        let sock = self.socks[at].as_mut().expect("it was noted");
        if let IoMode::Reads(reader, recorded) = &mut sock.pump {
            // The reader ends with the stream, which has ended: it knows best what it was.
            if let Some(reader) = reader.take_if(|_| sock.hung_up) {
                let all = reader.join().expect("a reader does not panic");
                let more = all.saturating_sub(*recorded);
                *recorded = all;
                let into = sock.into;
                self.collector.read(into, now, more);
            }
            return sock.hung_up;
        }
        let into = sock.into;
        loop {
            let taken = if self.copies.is_empty() {
                sys::discard(sock.fd.as_fd(), 1 << 30)
            } else {
                sys::receive(sock.fd.as_fd(), &mut self.copies)
            };
            match taken {
                Ok(0) => return true,
                Ok(n) => {
                    quick(sock);
                    self.collector.read(into, now, n as u64);
                    if n < self.copies.len() || self.copies.is_empty() {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        sock.hung_up
    }

    /// Every socket gives a sample to the series.
    pub fn sample(&mut self, at: Time) {
        for sock in self.socks.iter_mut().flatten() {
            if let Ok(info) = TcpInfo::of(sock.fd.as_fd(), sock.dctcp) {
                // What was read until now belongs to the interval that ends here.
                sock.record(at, &info, &mut self.collector);
                if info.bytes_sent().is_none_or(|n| n > 0) {
                    self.collector.sample(sock.out, at, info.sample());
                }
            }
        }
    }

    /// Has a thread send without end.
    pub fn pump(&mut self, at: usize) -> io::Result<()> {
        let sock = self.socks[at].as_mut().expect("a socket that is written to");
        sys::watch_else(self.poll.as_fd(), sock.fd.as_fd(), END, EpollToken::Endpoint(at).number())?;
        sock.pump = IoMode::Writes;
        io_threads::write(sock.fd.try_clone()?, Arc::clone(&self.payload))
    }

    /// What of a write an application that waits has to itself: all of it, unless it still waits for the one before.
    pub fn write_and_wait(&mut self, at: usize, n: Bytes) -> io::Result<Bytes> {
        let sock = self.socks[at].as_mut().expect("a socket that is written to");
        if !matches!(sock.pump, IoMode::Waits(_)) {
            let own = sock.fd.try_clone()?;
            sock.pump = IoMode::Waits(self.blocking_writers.writer(at, own, Arc::clone(&self.payload))?);
        }
        let IoMode::Waits(writer) = &mut sock.pump else { unreachable!("it was just made") };
        if writer.busy {
            return Ok(Bytes::ZERO);
        }
        writer.write(n.get());
        Ok(n)
    }

    /// Sockets whose write has returned: the application goes on.
    pub fn returned(&mut self) -> Vec<usize> {
        let all = self.blocking_writers.returned();
        for at in &all {
            if let Some(Some(Endpoint { pump: IoMode::Waits(writer), .. })) = self.socks.get_mut(*at) {
                writer.busy = false;
            }
        }
        all
    }

    /// The run is over: what its readers have taken until now is what was read, and what comes while the last packets are
    /// being looked at is not.
    pub fn settle(&mut self) {
        let now = self.now();
        for sock in self.socks.iter_mut().flatten() {
            if let Ok(info) = TcpInfo::of(sock.fd.as_fd(), false) {
                sock.record(now, &info, &mut self.collector);
            }
        }
        self.settled = true;
    }

    /// The last words of a socket, which is closed.
    pub fn give_up(&mut self, at: usize, ended: bool) {
        let now = self.now();
        let Some(mut sock) = self.socks[at].take() else { return };
        if let Ok(info) = TcpInfo::of(sock.fd.as_fd(), sock.dctcp) {
            if !self.settled {
                sock.record(now, &info, &mut self.collector);
            }
            let (traced, summary) = (self.traced, info.summary());
            let flow = self.collector.flow_mut(sock.out);
            let timeouts = if traced { flow.tcp.timeouts } else { summary.timeouts };
            flow.tcp = TcpSummary { timeouts, recoveries: flow.tcp.recoveries, ..summary };
            if info.mss() > 0 {
                flow.mss = Bytes::new(info.mss());
            }
            flow.end = ended.then_some(now);
        }
        self.slots[sock.host][sock.slot.0 as usize] = usize::MAX;
    }

    /// Enters the namespace of a place of the topology.
    pub fn enter(&mut self, netns: usize) -> Result<(), Failure> {
        self.namespaces.enter(netns)
    }
}

impl Endpoint {
    /// What is readable, counted by the kernel.
    pub fn counted(&self) -> Bytes {
        let n = sys::readable(self.fd.as_fd()).unwrap_or(0);
        self.fed.set(n > 0);
        Bytes::new(n)
    }

    /// Records what its reader has taken: all that has arrived in order, as long as the stream goes on.
    fn record(&mut self, at: Time, info: &TcpInfo, collector: &mut Collector) {
        if let (IoMode::Reads(Some(_), recorded), false, Some(all)) =
            (&mut self.pump, self.hung_up, info.bytes_received())
        {
            collector.read(self.into, at, all.saturating_sub(*recorded));
            *recorded = all;
        }
    }
}

/// `app.quickack` is kept on: the kernel turns it off by itself.
pub fn quick(sock: &Endpoint) {
    if sock.quickack {
        // It cannot fail on a TCP socket; a delayed ACK more would be all.
        let _ = sys::set(sock.fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_connections_from_one_port_to_two_servers_are_told_apart() {
        let at = |host, port| SocketAddrV4::new(host_address(host), port);
        let connection = |server, n| {
            let key = ConnKey { part: 0, client: HostIndex(0), server: HostIndex(server), index: n };
            (key, [FlowId(2 * n), FlowId(2 * n + 1)])
        };
        let mut arriving = PendingConnections::default();
        arriving.open(at(0, 40_000), at(1, PORT), connection(1, 0));
        arriving.open(at(0, 40_000), at(2, PORT), connection(2, 1));
        assert_eq!(arriving.accept(at(0, 40_000), at(2, PORT)), Some(connection(2, 1)));
        assert_eq!(arriving.accept(at(0, 40_000), at(1, PORT)), Some(connection(1, 0)));
        assert_eq!(arriving.accept(at(0, 40_000), at(1, PORT)), None);
    }
}
