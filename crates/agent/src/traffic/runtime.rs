//! The sockets of all hosts.
//!
//! A socket belongs to the network namespace in which it was made; after that, one process may use the
//! sockets of all namespaces. Epoll is edge-triggered, so that the loop looks at a socket once for each
//! event. The recording needs the connection of the workload that a server has accepted; it is determined
//! from the addresses of both ends.

mod opening;

use crate::collect::flow_tracker::FlowTracker;
use crate::collect::host_taps::HostTaps;
use crate::collect::inet_diag::SocketEnds;
use crate::collect::tap::CapturedPacket;
use crate::collect::tcp_info::TcpInfo;
use crate::netns::build::NetnsSet;
use crate::netns::topology::NetnsTopology;
use crate::system::Failure;
use crate::traffic::addresses::{PendingConnections, part_and_index, server_address};
use crate::traffic::app_row::{Call, app_row};
use crate::traffic::cc_engine::KernelCcNames;
use crate::traffic::endpoint::{Endpoint, IoMode, ReadMode, Readiness};
use crate::traffic::epoll_token::EpollToken;
use crate::traffic::first_connections::OpenedSockets;
use crate::traffic::halted::HaltedHosts;
use crate::traffic::io_threads::{self, BlockingWriters};
use crate::traffic::socket_options;
use std::cell::Cell;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, LazyLock};
use tcpassay_case::{Case, CcName};
use tcpassay_linux::sys;
use tcpassay_measure::pcapng::host_of;
use tcpassay_measure::reason::AppCall;
use tcpassay_measure::{Collector, Flow, FlowCounters, FlowId, LimitTimes, TcpSummary};
use tcpassay_tcp::Pacing;
use tcpassay_units::{Bytes, Time};
use tcpassay_wire::Flags;
use tcpassay_wire::codec::Content;
use tcpassay_workload::{ConnKey, HostIndex, SocketId, TrafficSchedule};

/// The backlog of a listening socket.
const BACKLOG: i32 = 4096;
/// The bytes that applications write, at most at once: zeros. The kernel gives memory that nobody has written to no pages of its own.
pub static PAYLOAD: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; 1 << 20].into_boxed_slice());
/// The events of an endpoint whose application reads and writes.
const APPLICATION_EVENTS: i32 = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
/// The events of an endpoint that a thread serves.
const THREAD_EVENTS: i32 = libc::EPOLLRDHUP | libc::EPOLLET;

/// A listening socket.
struct Listener {
    fd: OwnedFd,
    host: usize,
    address: SocketAddrV4,
}

/// The endpoints that belong to the slots of each host.
struct SlotTable(Vec<Vec<Option<usize>>>);

impl SlotTable {
    fn new(hosts: usize) -> SlotTable {
        SlotTable(vec![Vec::new(); hosts])
    }

    fn get(&self, host: usize, slot: SocketId) -> Option<usize> {
        self.0[host].get(slot.0 as usize).copied().flatten()
    }

    fn set(&mut self, host: usize, slot: SocketId, endpoint: Option<usize>) {
        let (slots, slot) = (&mut self.0[host], slot.0 as usize);
        if slot >= slots.len() {
            slots.resize(slot + 1, None);
        }
        slots[slot] = endpoint;
    }
}

/// The sockets of a run, and what they report.
pub struct TrafficRuntime<'a> {
    pub case: &'a Case,
    pub namespaces: NetnsSet,
    pub epoll: OwnedFd,
    pub collector: Collector,
    pub flow_tracker: FlowTracker,
    /// The taps, once the run begins.
    pub taps: HostTaps,
    /// Threads move the data of bulk transfers. Only in a guest; see [`io_threads`].
    pub io_threads: bool,
    /// The threads of blocking writes (`app.blocking`).
    pub blocking_writers: BlockingWriters,
    /// The kernel's trace events count timeouts.
    pub traced: bool,
    /// The timeouts that `TCP_INFO` has counted for each flow whose connection ended.
    timeouts_of_tcp_info: Vec<(FlowId, Option<u64>)>,
    /// The sockets that applications have opened or accepted, each with its host, until they are sampled; empty without a series.
    pub new_sockets: Vec<(usize, SocketEnds)>,
    /// The first failure of a system call that should not fail.
    pub failure: Option<Failure>,
    schedule: Arc<TrafficSchedule>,
    cc_names: KernelCcNames,
    /// The start of the run by the kernel's clock, in nanoseconds.
    start: u64,
    now: Time,
    endpoints: Vec<Option<Endpoint>>,
    slots: SlotTable,
    listeners: Vec<Listener>,
    pending: PendingConnections,
    /// The sockets of connections that applications open at the start of the run.
    opened: OpenedSockets,
    flows: u32,
    read_mode: ReadMode,
    /// For each host, whether it is on this machine; empty if all are.
    local: Vec<bool>,
    /// The connections of which each flow is a direction, in the order of flows.
    connections: Vec<ConnKey>,
    halted: HaltedHosts,
    /// [`TrafficRuntime::record_final_reads`] was called.
    final_reads_recorded: bool,
}

impl<'a> TrafficRuntime<'a> {
    /// Sockets for a schedule; every server of this machine listens. `cc_names` are the names of the
    /// controllers that Linux does not have.
    pub fn new(
        case: &'a Case,
        schedule: &Arc<TrafficSchedule>,
        topology: &NetnsTopology,
        namespaces: NetnsSet,
        collector: Collector,
        cc_names: KernelCcNames,
    ) -> Result<TrafficRuntime<'a>, Failure> {
        let mut runtime = TrafficRuntime {
            case,
            namespaces,
            epoll: sys::epoll().map_err(|e| epoll_error(&e))?,
            collector,
            flow_tracker: FlowTracker::new(u64::MAX),
            taps: HostTaps::default(),
            io_threads: false,
            blocking_writers: BlockingWriters::new().map_err(|e| format!("eventfd: {e}"))?,
            traced: false,
            timeouts_of_tcp_info: Vec::new(),
            new_sockets: Vec::new(),
            failure: None,
            schedule: Arc::clone(schedule),
            cc_names,
            start: u64::MAX,
            now: Time::ZERO,
            endpoints: Vec::new(),
            slots: SlotTable::new(case.hosts.len()),
            listeners: Vec::new(),
            pending: PendingConnections::default(),
            opened: OpenedSockets::default(),
            flows: 0,
            read_mode: ReadMode::Discard,
            local: topology.hosts_here(),
            connections: Vec::new(),
            halted: HaltedHosts::default(),
            final_reads_recorded: false,
        };
        runtime.flow_tracker.set_local(runtime.local.clone());
        let returned = EpollToken::WritesReturned.number();
        let events = libc::EPOLLIN | libc::EPOLLET;
        sys::watch(runtime.epoll.as_fd(), runtime.blocking_writers.eventfd.as_fd(), events, returned)
            .map_err(|e| epoll_error(&e))?;
        for (part, traffic) in (0u16..).zip(schedule.parts()) {
            // In an incast the receiver of the data connects to the senders; therefore both ends of each pair listen.
            let mut hosts: Vec<HostIndex> =
                traffic.pairs.iter().flat_map(|pair| [pair.sender, pair.receiver]).collect();
            hosts.sort_unstable();
            hosts.dedup();
            for host in hosts.into_iter().filter(|host| topology.has_host(host.0 as usize)) {
                runtime.listen(host.0 as usize, part).map_err(|e| format!("listening: {e}"))?;
            }
        }
        Ok(runtime)
    }

    /// The run begins at `start` of the kernel's clock, in nanoseconds.
    pub fn start_at(&mut self, start: u64) {
        self.start = start;
        self.flow_tracker.start_at(start);
    }

    /// The time of the run when the process woke last. It does not change while the process works.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Updates the time of the run, once for each time that the process wakes: system calls are slow in a guest. `packet`: when the
    /// packet that woke the process passed its tap. That instant is the present one unless a NIC delays packets (receive merging).
    pub fn update_clock(&mut self, packet: Option<u64>) {
        let merges = self.case.hosts.iter().any(|h| h.nic.gro);
        let at = packet.filter(|_| !merges).unwrap_or_else(sys::now);
        self.now = self.now.max(Time::from_nanos(at.saturating_sub(self.start)));
    }

    /// Lets bulk receivers copy what they read from now on.
    pub fn copy_received_data(&mut self) {
        self.read_mode = ReadMode::copying();
    }

    /// Lets threads move the data of bulk transfers from now on.
    pub fn use_io_threads(&mut self) {
        self.io_threads = true;
    }

    fn listen(&mut self, host: usize, part: u16) -> Result<(), Failure> {
        let fd = self.open(host, part)?;
        let address = server_address(host, part);
        let done =
            sys::bind(fd.as_fd(), address).and_then(|()| sys::listen(fd.as_fd(), BACKLOG)).and_then(|()| {
                let token = EpollToken::Listener(self.listeners.len()).number();
                sys::watch(self.epoll.as_fd(), fd.as_fd(), libc::EPOLLIN, token)
            });
        done.map_err(|e| format!("{address}: {e}"))?;
        self.listeners.push(Listener { fd, host, address });
        Ok(())
    }

    /// The congestion controller of a part of the workload at a host.
    fn cc(&self, host: usize, part: u16) -> &str {
        self.schedule.parts()[usize::from(part)].cc.as_deref().unwrap_or(self.case.hosts[host].cc.name())
    }

    /// A TCP socket in the namespace of a host, with the options of the case.
    fn open(&mut self, host: usize, part: u16) -> Result<OwnedFd, Failure> {
        self.namespaces.enter(host)?;
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        let fd = sys::socket(libc::AF_INET, kind, 0).map_err(|e| format!("a socket: {e}"))?;
        let cc = self.cc(host, part).to_owned();
        let name = self.cc_names.get(&(host, cc.clone())).unwrap_or(&cc);
        socket_options::apply(self.case, fd.as_fd(), host, name)?;
        Ok(fd)
    }

    /// The endpoint of a slot.
    ///
    /// # Panics
    /// If the endpoint was closed: the workload does not use a slot after that.
    pub fn endpoint(&self, host: usize, slot: SocketId) -> &Endpoint {
        self.slot(host, slot).and_then(|at| self.endpoints[at].as_ref()).expect("the slot is open")
    }

    /// The index of the endpoint of a slot; `None` after it was closed.
    pub fn slot(&self, host: usize, slot: SocketId) -> Option<usize> {
        self.slots.get(host, slot)
    }

    /// The host and the slot of an endpoint; `None` after it was closed.
    pub fn owner(&self, at: usize) -> Option<(usize, SocketId)> {
        self.endpoints.get(at)?.as_ref().map(|endpoint| (endpoint.host, endpoint.slot))
    }

    /// Returns true if the application of an endpoint only reads.
    pub fn only_reads(&self, at: usize) -> bool {
        self.endpoints[at].as_ref().is_some_and(|endpoint| endpoint.only_reads)
    }

    /// An endpoint of the connection `key` at `host`, not yet connected.
    fn new_endpoint(
        &self,
        fd: OwnedFd,
        host: usize,
        (slot, key): (SocketId, ConnKey),
        [outgoing, incoming]: [FlowId; 2],
    ) -> Endpoint {
        let stack = &self.case.hosts[host].stack;
        // Controllers of Linux that set no pacing rate.
        let unpaced = [CcName::RENO, CcName::CUBIC, CcName::DCTCP].map(|cc| cc.name().to_owned());
        let unpaced = unpaced.each_ref().map(String::as_str);
        Endpoint {
            fd,
            host,
            slot,
            outgoing,
            incoming,
            is_dctcp: self.cc(host, key.part) == CcName::DCTCP.name(),
            quickack: self.case.hosts[host].stack.quickack,
            impossible: LimitTimes {
                nagle: (stack.nodelay && !stack.cork).then_some(0),
                pacing: (stack.pacing == Pacing::Off && unpaced.contains(&self.cc(host, key.part)))
                    .then_some(0),
                ..LimitTimes::default()
            },
            connected: false,
            may_have_data: Cell::new(false),
            asks_readable: self.schedule.part(key).spec.read_rate.is_some(),
            peer_closed: false,
            only_reads: false,
            io: IoMode::Application,
        }
    }

    /// Adds an endpoint, whose socket has these addresses. Returns its index.
    fn add(&mut self, endpoint: Endpoint, ends: SocketEnds) -> Result<usize, Failure> {
        let at = self.endpoints.len();
        let events =
            if matches!(endpoint.io, IoMode::Application) { APPLICATION_EVENTS } else { THREAD_EVENTS };
        let token = EpollToken::Endpoint(at).number();
        sys::watch(self.epoll.as_fd(), endpoint.fd.as_fd(), events, token).map_err(|e| epoll_error(&e))?;
        self.slots.set(endpoint.host, endpoint.slot, Some(at));
        if self.collector.collect().series.is_some() {
            self.new_sockets.push((endpoint.host, ends));
        }
        self.endpoints.push(Some(endpoint));
        Ok(at)
    }

    /// Adds the two flows of a new connection to the recording, the client's first.
    fn add_flows(&mut self, key: ConnKey) -> [FlowId; 2] {
        let now = self.now();
        self.connections.push(key);
        [(key.client.0, key.server.0), (key.server.0, key.client.0)].map(|(from, to)| {
            let n = self.flows;
            self.flows += 1;
            let cc = self.cc(from as usize, key.part).to_owned();
            self.collector.add_flow(Flow {
                name: format!("flow.{n}"),
                connection: n / 2,
                from,
                to,
                class: self.schedule.part(key).class.clone(),
                cc,
                mss: self.case.hosts[from as usize].stack.mss,
                start: now,
                end: None,
                counters: FlowCounters::default(),
                tcp: TcpSummary::default(),
            })
        })
    }

    /// Returns true if a host is on this machine.
    fn is_local(&self, host: u32) -> bool {
        self.local.get(host as usize).copied().unwrap_or(true)
    }

    /// The connections of the workload, in the order of their flows.
    pub fn connections(&self) -> &[ConnKey] {
        &self.connections
    }

    /// Reads the packets since the last call. Returns when the last of them passed.
    pub fn read_packets(&mut self) -> Option<u64> {
        self.read_packets_until(self.taps.complete_until())
    }

    /// Reads the packets that passed before an instant of the kernel's clock. Returns when the last of them passed.
    pub fn read_packets_until(&mut self, until: u64) -> Option<u64> {
        let mut taps = std::mem::take(&mut self.taps);
        let last = taps.drain(until, |packet, host, outgoing| self.packet(packet, host, outgoing));
        self.taps = taps;
        last
    }

    /// The number of packets of `host` that the recording has, for the row of a call that follows at once. In real time, or without packets or
    /// events in the recording, it is not known.
    pub fn packets_before_call(&mut self, host: usize) -> Option<u64> {
        if self.taps.real_time || !self.collector.wants_events() || !self.collector.wants_packets() {
            return None;
        }
        self.read_packets_until(u64::MAX);
        Some(self.flow_tracker.recorded(host))
    }

    /// Takes a packet at a tap of `host` into account. The first one of a connection from another machine opens its flows.
    pub fn packet(&mut self, packet: &CapturedPacket, host: u32, outgoing: bool) {
        if let (false, false, Content::Tcp(segment)) =
            (outgoing, self.local.is_empty(), &packet.packet.content)
            && segment.flags.has(Flags::SYN)
            && !segment.flags.has(Flags::ACK)
            && let (SocketAddr::V4(from), SocketAddr::V4(to)) =
                (packet.packet.envelope.from, packet.packet.envelope.to)
        {
            self.expect(from, to);
        }
        self.flow_tracker.packet(packet, host, outgoing, &mut self.collector);
    }

    /// Opens the flows of a connection from another machine, unless they are open or the connection does not belong to the workload.
    fn expect(&mut self, client: SocketAddrV4, server: SocketAddrV4) {
        let Some(key) = self.connection(client, server) else { return };
        let (from, to) = ((key.client.0, client.port()), (key.server.0, server.port()));
        if self.is_local(key.client.0) || self.flow_tracker.flow(from, to).is_some() {
            return;
        }
        let flows = self.add_flows(key);
        self.flow_tracker.open(from, to, flows);
        self.pending.insert(client, server, (key, flows));
    }

    /// The connection of the workload between these addresses, if it is one.
    fn connection(&self, client: SocketAddrV4, server: SocketAddrV4) -> Option<ConnKey> {
        let host = |address: SocketAddrV4| {
            let host = host_of((*address.ip()).into())?;
            ((host as usize) < self.case.hosts.len()).then_some(HostIndex(host))
        };
        let (part, index) = part_and_index(client, server)?;
        let known = usize::from(part) < self.schedule.parts().len();
        known.then_some(ConnKey { part, client: host(client)?, server: host(server)?, index })
    }

    /// Takes the events of epoll for an endpoint into account.
    pub fn update_readiness(&mut self, at: usize, events: i32) -> Readiness {
        match self.endpoints.get_mut(at) {
            Some(Some(endpoint)) => endpoint.update(events),
            _ => Readiness::Closed,
        }
    }

    /// Reads everything that is readable for an application that only reads. Returns true if the peer has closed.
    pub fn read_available(&mut self, at: usize) -> bool {
        let now = self.now();
        let open = "the endpoint is open";
        let before = self.packets_before_call(self.endpoints[at].as_ref().expect(open).host);
        let endpoint = self.endpoints[at].as_mut().expect(open);
        endpoint.read_available((now, before), &mut self.read_mode, &mut self.collector)
    }

    /// Adds a sample of each socket to the series, at the end of an interval.
    pub fn sample(&mut self, at: Time) {
        for endpoint in self.endpoints.iter_mut().flatten() {
            if let Ok(info) = TcpInfo::of(endpoint.fd.as_fd(), endpoint.is_dctcp) {
                // What was read until now belongs to the interval that ends.
                endpoint.record_reader(at, &info, &mut self.collector);
                if info.bytes_sent().is_none_or(|n| n > 0) {
                    self.collector.sample(endpoint.outgoing, at, info.sample());
                }
            }
        }
    }

    /// Starts a thread that sends on an endpoint without end.
    pub fn send_without_end(&mut self, at: usize) -> io::Result<()> {
        let endpoint = self.endpoints[at].as_mut().expect("the endpoint is open");
        let token = EpollToken::Endpoint(at).number();
        sys::modify_watch(self.epoll.as_fd(), endpoint.fd.as_fd(), THREAD_EVENTS, token)?;
        endpoint.io = IoMode::Sender;
        io_threads::start_sender(endpoint.fd.try_clone()?, &PAYLOAD)
    }

    /// Starts a blocking write of `n` bytes. Returns `n`, or 0 if the previous write of the endpoint has not returned.
    pub fn write_blocking(&mut self, at: usize, n: Bytes) -> io::Result<Bytes> {
        let endpoint = self.endpoints[at].as_mut().expect("the endpoint is open");
        if !matches!(endpoint.io, IoMode::BlockingWriter(_)) {
            let fd = endpoint.fd.try_clone()?;
            let writer = self.blocking_writers.start(at, fd, &PAYLOAD)?;
            endpoint.io = IoMode::BlockingWriter(writer);
        }
        let IoMode::BlockingWriter(writer) = &mut endpoint.io else { unreachable!("set above") };
        if writer.busy {
            return Ok(Bytes::ZERO);
        }
        writer.write(n.get());
        Ok(n)
    }

    /// The endpoints whose blocking writes have returned since the last call.
    pub fn returned_writes(&mut self) -> Vec<usize> {
        let all = self.blocking_writers.returned();
        for at in &all {
            if let Some(Some(Endpoint { io: IoMode::BlockingWriter(writer), .. })) =
                self.endpoints.get_mut(*at)
            {
                writer.busy = false;
            }
        }
        all
    }

    /// Records what the reader threads have read until now, the end of the run. Data that arrive later, while the last packets are
    /// collected, are not recorded.
    pub fn record_final_reads(&mut self) {
        let now = self.now();
        for endpoint in self.endpoints.iter_mut().flatten() {
            if let Ok(info) = TcpInfo::of(endpoint.fd.as_fd(), false) {
                endpoint.record_reader(now, &info, &mut self.collector);
            }
        }
        self.final_reads_recorded = true;
    }

    /// Closes an endpoint and records its final `TCP_INFO`. `ended`: the connection ended during the run.
    pub fn close(&mut self, at: usize, ended: bool) {
        let now = self.now();
        let Some(mut endpoint) = self.endpoints[at].take() else { return };
        if let Ok(info) = TcpInfo::of(endpoint.fd.as_fd(), endpoint.is_dctcp) {
            if !self.final_reads_recorded {
                endpoint.record_reader(now, &info, &mut self.collector);
            }
            let (traced, summary) = (self.traced, info.summary());
            self.timeouts_of_tcp_info.push((endpoint.outgoing, summary.timeouts));
            let flow = self.collector.flow_mut(endpoint.outgoing);
            let timeouts = if traced { flow.tcp.timeouts } else { summary.timeouts };
            // What the kernel counts as limited by nothing else contains the repair of losses and the waits for timers.
            let recovery = flow.tcp.limits.recovery.or(traced.then_some(0));
            let timers = flow.tcp.limits.timers.or(traced.then_some(0));
            let apart = recovery.unwrap_or(0) + timers.unwrap_or(0);
            let rest = summary.limits.congestion_window.map(|rest| rest.saturating_sub(apart));
            let limits = LimitTimes {
                nagle: endpoint.impossible.nagle,
                pacing: endpoint.impossible.pacing,
                recovery,
                timers,
                congestion_window: rest,
                ..summary.limits
            };
            flow.tcp = TcpSummary { timeouts, recoveries: flow.tcp.recoveries, limits, ..summary };
            if info.mss() > 0 {
                flow.mss = Bytes::new(info.mss());
            }
            flow.end = ended.then_some(now);
        }
        self.slots.set(endpoint.host, endpoint.slot, None);
    }

    /// Takes the numbers of timeouts from `TCP_INFO`, because the trace events do not count them.
    pub fn take_timeouts_of_tcp_info(&mut self) {
        self.traced = false;
        for (flow, timeouts) in self.timeouts_of_tcp_info.drain(..) {
            self.collector.flow_mut(flow).tcp.timeouts = timeouts;
        }
    }

    /// A host stops (`app.reboot`): its connections vanish without a segment.
    pub fn halt(&mut self, host: usize) -> Result<(), Failure> {
        self.namespaces.enter(host)?;
        for at in 0..self.endpoints.len() {
            let Some(endpoint) = self.endpoints[at].as_ref().filter(|end| end.host == host) else { continue };
            let key = self.connections[endpoint.outgoing.0 as usize / 2];
            self.halted.stop(
                host,
                endpoint.fd.as_fd(),
                Some(key).filter(|key| key.client.0 as usize == host),
            )?;
            if self.collector.wants_events() {
                let number = u32::try_from(host).expect("hosts are numbered in 32 bits");
                let about = (self.now, number, endpoint.outgoing);
                self.collector.event(app_row(about, AppCall::Reboot, Call::default()));
            }
            self.close(at, true);
            self.halted.keep_silent()?;
        }
        Ok(())
    }

    /// A host that stopped begins again.
    pub fn boot(&mut self, host: usize) {
        self.halted.boot(host);
    }

    /// Closes all endpoints at the end of the run.
    pub fn close_all(&mut self) {
        for at in 0..self.endpoints.len() {
            self.close(at, false);
        }
    }
}

fn epoll_error(e: &io::Error) -> Failure {
    format!("epoll: {e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_each_host_have_endpoints_of_their_own_until_they_are_closed() {
        let mut slots = SlotTable::new(2);
        slots.set(1, SocketId(3), Some(7));
        assert_eq!(
            (slots.get(1, SocketId(3)), slots.get(1, SocketId(2)), slots.get(0, SocketId(3))),
            (Some(7), None, None)
        );
        assert_eq!(slots.get(1, SocketId(99)), None);
        slots.set(1, SocketId(3), None);
        assert_eq!(slots.get(1, SocketId(3)), None);
    }
}
