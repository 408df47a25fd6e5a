//! The stacks of all hosts: connections, their timers, sending and receiving.

use super::data_path::{HostRecorder, NextAction, flush_tally, serve, transmit};
use super::datagrams::Datagrams;
use super::endpoint::{FlowEntry, HostEndpoint, NONE};
use super::line::HostLine;
use super::real_flows::RealFlows;
use crate::engine::{Core, FlowLabel, HostId, Packet, PacketId, Route, TimerId};
use crate::python::BuildPython;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tcpassay_case::{HostSettings, Implementation, SmallQueues};
use tcpassay_measure::reason::AppCall;
use tcpassay_measure::{self as measure, Collector};
use tcpassay_tcp::{Config, Connection, EcnMode, State};
use tcpassay_units::{Bytes, Dur, Rate, Seed, SeqNum, Time, count};
use tcpassay_wire::{Ecn, Flags};
use tcpassay_workload::{ConnKey, SocketId, TrafficSchedule, UdpSource};

/// IPv4 and TCP headers without options.
const HEADERS: Bytes = Bytes::new(40);

/// The purpose of a timer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimerOwner {
    Unused,
    Conn(u32),
    Apps(u32),
    Real(u32),
    Datagrams,
}

/// The parameters of [`Stacks`].
pub(crate) struct StacksConfig {
    /// Settings of each host, in the order of the topology.
    pub hosts: Vec<HostSettings>,
    /// The rate at which each host's own queue is served: that of its NIC, or of its access link.
    pub lines: Vec<Option<Rate>>,
    /// The engine's id of each host.
    pub ids: Vec<HostId>,
    pub plan: Arc<TrafficSchedule>,
    pub seed: Seed,
    pub collector: Collector,
    /// Background datagrams: sending host, receiving host, schedule.
    pub datagrams: Option<(usize, usize, UdpSource)>,
    /// Creates controllers in Python.
    pub python: Option<BuildPython>,
}

/// The stacks of all hosts.
#[derive(Debug)]
pub(crate) struct Stacks {
    pub(super) hosts: Vec<HostStack>,
    lines: Vec<Option<HostLine>>,
    pub(super) conns: Vec<Option<Box<HostEndpoint>>>,
    free: Vec<u32>,
    free_flows: Vec<usize>,
    /// Connections that a socket call modified, in the order of the calls.
    modified: VecDeque<u32>,
    owners: Vec<TimerOwner>,
    pub(super) plan: Arc<TrafficSchedule>,
    seed: Seed,
    pub(super) datagrams: Option<Datagrams>,
    python: Option<BuildPython>,
    /// Index of each host by its engine id.
    logs: bool,
    /// At least one host has Fast Open enabled.
    fast_open: bool,
    /// Pairs (client, server) for which the client has a Fast Open cookie.
    pub(super) cookies: BTreeSet<(u32, u32)>,
    /// The path MTUs that hosts learned from ICMP, by host and peer.
    pub(super) path_mtus: BTreeMap<(usize, usize), Bytes>,
    pub recorder: HostRecorder,
    /// The connections of hosts whose TCP is not the model.
    pub(super) real: RealFlows,
    /// Connections that the server is to open, too, as its client just did.
    crossing: VecDeque<usize>,
}

#[derive(Debug)]
pub(super) struct HostStack {
    pub settings: HostSettings,
    /// The stack settings, shared by the connections of the host.
    config: Arc<Config>,
    pub id: HostId,
    /// The connection of each socket of the applications.
    slots: Vec<u32>,
    /// The initial sequence number of the next connection, if it is set.
    isn: Option<u32>,
    /// It has stopped, and answers nothing.
    pub down: bool,
}

impl Stacks {
    pub fn new(spec: StacksConfig) -> Stacks {
        let (hosts, ids) = (spec.hosts, spec.ids);
        let real = RealFlows::new(hosts.iter().any(|host| host.implementation != Implementation::Model));
        let fast_open = hosts.iter().any(|host| host.fastopen);
        let datagrams = spec.datagrams.map(|(from, to, source)| Datagrams {
            from: ids[from],
            to: ids[to],
            source,
            timer: None,
        });
        let lines = hosts.iter().zip(spec.lines);
        let lines = lines.map(|(host, rate)| rate.map(|rate| HostLine::new(rate, host.mtu))).collect();
        Stacks {
            lines,
            hosts: hosts
                .into_iter()
                .zip(ids)
                .map(|(settings, id)| {
                    let config = Arc::new(settings.stack.clone());
                    let isn = settings.isn;
                    HostStack { settings, config, id, slots: Vec::new(), isn, down: false }
                })
                .collect(),
            conns: Vec::new(),
            free: Vec::new(),
            free_flows: Vec::new(),
            modified: VecDeque::new(),
            owners: Vec::new(),
            plan: spec.plan,
            seed: spec.seed,
            datagrams,
            python: spec.python,
            logs: spec.collector.collect().events,
            fast_open,
            cookies: BTreeSet::new(),
            path_mtus: BTreeMap::new(),
            recorder: HostRecorder::new(spec.collector),
            real,
            crossing: VecDeque::new(),
        }
    }

    pub fn start_datagrams(&mut self, net: &mut Core) {
        if self.datagrams.is_some() {
            let timer = self.add_timer(net, TimerOwner::Datagrams);
            self.datagrams.as_mut().expect("there are some").start(net, timer);
        }
    }

    pub fn send_datagram(&mut self, net: &mut Core) {
        self.datagrams.as_mut().expect("a timer of datagrams").send(net);
        self.recorder.state.datagrams_sent += 1;
    }

    pub fn add_timer(&mut self, net: &mut Core, owner: TimerOwner) -> TimerId {
        let timer = net.add_timer();
        let at = timer.index();
        if at >= self.owners.len() {
            self.owners.resize(at + 1, TimerOwner::Unused);
        }
        self.owners[at] = owner;
        timer
    }

    pub fn owner(&self, timer: TimerId) -> TimerOwner {
        self.owners[timer.index()]
    }

    #[inline]
    pub(super) fn conn(&mut self, c: u32) -> &mut HostEndpoint {
        self.conns[c as usize].as_mut().expect("a connection that lives")
    }

    #[inline]
    pub(super) fn conn_ref(&self, c: u32) -> &HostEndpoint {
        self.conns[c as usize].as_ref().expect("a connection that lives")
    }

    /// The connection of `flow` at `host`; otherwise the index of the flow when `host` can still accept it.
    #[inline]
    pub fn find(&self, host: HostId, flow: FlowLabel) -> Result<u32, Option<usize>> {
        let (place, generation) = FlowEntry::place(flow);
        let Some(f) = self.recorder.flows.get(place).filter(|f| f.generation == generation) else {
            return Err(None);
        };
        let server = f.server == host;
        match f.ends[usize::from(server)] {
            NONE => Err((server && !f.accepted).then_some(place)),
            c => Ok(c),
        }
    }

    /// Processes an arriving segment. Returns what remains to be done.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    pub fn input(&mut self, net: &mut Core, c: u32, id: PacketId) -> NextAction {
        if self.fast_open && net.packet(id).segment.flags.has(Flags::SYN) {
            self.process_fast_open(c);
        }
        let conn = self.conns[c as usize].as_deref_mut().expect("a connection that lives");
        let recorder = &mut self.recorder;
        let now = net.now();
        let packet = net.packet(id);
        if packet.segment.len > 0 {
            let (tally, segs) = (&mut conn.tally, u64::from(packet.segs));
            count(&mut tally.delivered_packets, segs);
            count(&mut tally.delivered_bytes, u64::from(packet.segment.len));
            count(&mut tally.delivered_wire_bytes, u64::from(packet.size_u32()));
            if packet.ecn == Ecn::Ce {
                count(&mut tally.ce_packets, segs);
            }
        }
        if recorder.each {
            recorder.before(conn, packet, now);
        }
        if packet.segs > 1 {
            conn.tcp.on_merged(now, &packet.segment, packet.ecn, packet.segs, u32::from(packet.mss));
        } else {
            conn.tcp.on_segment(now, &packet.segment, packet.ecn);
        }
        if recorder.each {
            recorder.after(conn, now);
        }
        serve(conn, net, &mut self.lines, recorder)
    }

    /// Sends the pending segments, reads on behalf of an application that only reads, and sets the timer unless an
    /// application event is pending.
    pub fn serve(&mut self, net: &mut Core, c: u32) -> NextAction {
        let conn = self.conns[c as usize].as_deref_mut().expect("a connection that lives");
        serve(conn, net, &mut self.lines, &mut self.recorder)
    }

    /// Sends the pending segments of the connection.
    pub fn transmit(&mut self, net: &mut Core, c: u32) {
        let conn = self.conns[c as usize].as_deref_mut().expect("a connection that lives");
        transmit(conn, net, &mut self.lines, &mut self.recorder);
    }

    /// Sets the timer of the connection.
    pub fn arm(&mut self, net: &mut Core, c: u32) {
        self.conn(c).arm(net);
    }

    /// The timer of the connection fired. Returns whether a TCP timer was due.
    pub fn on_timer(&mut self, net: &Core, c: u32) -> bool {
        let now = net.now();
        let conn = self.conn(c);
        conn.armed = Time::MAX;
        if conn.linger_until <= now {
            conn.linger_until = Time::MAX;
            if !conn.tcp.is_flushed() {
                conn.tcp.abort(now);
            }
            return true;
        }
        if conn.leaves_at <= now {
            conn.leaves_at = Time::MAX;
            conn.tcp.packet_left();
            if conn.tcp.next_timer().is_none_or(|at| at > now) {
                return true;
            }
        }
        if conn.tcp.next_timer().is_none_or(|at| at > now) {
            return false;
        }
        conn.tcp.on_timer(now);
        true
    }

    /// The connection failed while its application still uses it.
    pub fn has_failed(&self, c: u32) -> bool {
        let conn = self.conn_ref(c);
        conn.slot.is_some() && conn.tcp.state() == State::Closed && conn.tcp.error().is_some()
    }

    /// Both the connection and its application have finished.
    pub fn is_over(&self, c: u32) -> bool {
        self.conns[c as usize].as_ref().is_some_and(|conn| conn.is_over())
    }

    /// Before a step of a write: tells the connection what waits in the host, and notes when the first of it leaves.
    pub fn note_host_queue(&mut self, c: u32, now: Time) {
        let conn = self.conn(c);
        if let Some((waiting, _)) = &mut conn.waiting {
            conn.tcp.note_host_queue(Bytes::new(waiting.memory(now)));
        }
    }

    /// After a write: if it waits for a packet to leave the host, this is when the first does.
    pub fn await_departure(&mut self, c: u32) {
        let conn = self.conn(c);
        if let Some((waiting, _)) = &conn.waiting
            && conn.tcp.take_autocorked()
        {
            conn.leaves_at = waiting.next().unwrap_or(Time::MAX);
        }
    }

    pub fn left_host(&mut self, c: u32, bytes: Bytes) {
        let conn = self.conn(c);
        conn.queued = conn.queued.saturating_sub(bytes.get());
    }

    pub fn socket(&self, host: usize, slot: SocketId) -> u32 {
        let c = self.hosts[host].slots[slot.0 as usize];
        assert!(c != NONE, "a socket call on a slot that was given up");
        c
    }

    pub fn attach(&mut self, c: u32, slot: SocketId) {
        let host = self.conn(c).host;
        self.conn(c).slot = Some(slot);
        let (slots, at) = (&mut self.hosts[host].slots, slot.0 as usize);
        if at >= slots.len() {
            slots.resize(at + 1, NONE);
        }
        slots[at] = c;
    }

    /// Detaches the application from the connection.
    pub fn detach(&mut self, c: u32) {
        let conn = self.conn(c);
        let host = conn.host;
        if let Some(slot) = conn.slot.take() {
            self.hosts[host].slots[slot.0 as usize] = NONE;
        }
    }

    /// Closes the connection as `app.linger` specifies.
    pub fn close(&mut self, c: u32, now: Time) {
        let linger = self.hosts[self.conn_ref(c).host].settings.linger;
        let conn = self.conn(c);
        conn.closed = conn.closed.or(Some(now));
        match linger {
            Some(Dur::ZERO) => conn.tcp.abort(now),
            Some(patience) => {
                conn.tcp.close(now);
                conn.linger_until = now.saturating_add(patience);
            }
            None => conn.tcp.close(now),
        }
    }

    pub fn mark_modified(&mut self, c: u32) {
        if let Some(conn) = &mut self.conns[c as usize]
            && !conn.modified
        {
            conn.modified = true;
            self.modified.push_back(c);
        }
    }

    pub fn next_modified(&mut self) -> Option<u32> {
        while let Some(c) = self.modified.pop_front() {
            if let Some(conn) = &mut self.conns[c as usize] {
                conn.modified = false;
                return Some(c);
            }
        }
        None
    }

    /// A call of an application for the event log; see [`HostRecorder::application`].
    pub fn log_application(
        &mut self,
        c: u32,
        now: Time,
        call: AppCall,
        taken: Option<Bytes>,
        asked: Option<Bytes>,
    ) {
        let conn = self.conns[c as usize].as_deref().expect("a connection that lives");
        self.recorder.application(conn, now, call, taken, asked);
    }

    pub fn has_read(&mut self, c: u32, bytes: Bytes) {
        self.conn(c).tally.read_bytes += bytes.get();
    }

    pub fn end_of(&self, c: u32) -> (usize, ConnKey) {
        let conn = self.conn_ref(c);
        (conn.host, conn.key)
    }

    /// Opens a connection.
    pub fn connect(&mut self, net: &mut Core, key: ConnKey) -> u32 {
        let place = self.open_flow(net.now(), key);
        self.open(net, place, false)
    }

    /// Creates the entries of a new connection, whose client opens it at `now`.
    pub(super) fn open_flow(&mut self, now: Time, key: ConnKey) -> usize {
        let out = [self.add_record(key, false, now), self.add_record(key, true, now)];
        let place = self.free_flows.pop().unwrap_or(self.recorder.flows.len());
        let server = self.hosts[key.server.0 as usize].id;
        let both_open = self.plan.part(key).spec.both_open;
        let (ends, accepted) = ([NONE; 2], both_open);
        let flow =
            FlowEntry { key, server, ends, accepted, both_open, out, kept: false, generation: 0, count: 0 };
        if place == self.recorder.flows.len() {
            self.recorder.flows.push(flow);
        } else {
            let old = &self.recorder.flows[place];
            let (generation, count) = (FlowEntry::next_generation(old.generation), old.count + 1);
            self.recorder.flows[place] = FlowEntry { generation, count, ..flow };
        }
        self.real.opened(place, &self.recorder.flows[place]);
        if both_open {
            self.crossing.push_back(place);
        }
        place
    }

    /// The next connection that the server is to open, too: its host and the entry.
    pub(super) fn next_crossing(&mut self) -> Option<(usize, usize)> {
        let place = self.crossing.pop_front()?;
        Some((self.recorder.flows[place].key.server.0 as usize, place))
    }

    /// Creates the server's endpoint of a connection whose SYN arrives.
    pub fn listen(&mut self, net: &mut Core, place: usize) -> u32 {
        self.recorder.flows[place].accepted = true;
        self.open(net, place, true)
    }

    /// Creates an endpoint of a connection.
    pub(super) fn open(&mut self, net: &mut Core, place: usize, server: bool) -> u32 {
        let now = net.now();
        let flow = self.recorder.flows[place];
        let key = flow.key;
        let (client, far) = (key.client.0 as usize, key.server.0 as usize);
        let (host, peer) = if server { (far, client) } else { (client, far) };
        let name = format!("{key}.{}", if server { "server" } else { "client" });
        let mut rng = self.seed.stream(&format!("tcp.{name}"));
        let (drawn, offset) = (rng.bits32(), rng.bits32());
        let iss = SeqNum::new(self.hosts[host].isn.take().unwrap_or(drawn));
        let (mut config, cc) = self.config(host, key, &name);
        if let Some(mtu) = self.path_mtus.get(&(host, peer)) {
            Arc::make_mut(&mut config).path_mss = Some(*mtu - HEADERS);
        }
        let mut tcp = if server && !flow.both_open {
            Connection::listen(config, cc, iss, offset)
        } else {
            Connection::connect(config, cc, iss, offset, now)
        };
        tcp.set_log(self.logs);
        if self.hosts[host].settings.fastopen {
            self.offer_fast_open(&mut tcp, key, server);
        }
        let c = self.free.pop().unwrap_or_else(|| {
            self.conns.push(None);
            u32::try_from(self.conns.len() - 1).expect("fewer than 2^32 connections")
        });
        let timer = self.add_timer(net, TimerOwner::Conn(c));
        let (from, to) = (&self.hosts[host], self.hosts[peer].id);
        let small_queues = from.settings.small_queues;
        let route = Route {
            src: from.id,
            dst: to,
            flow: FlowEntry::id(place, flow.generation),
            notify: matches!(small_queues, SmallQueues::Auto | SmallQueues::Bytes(_)),
            // Used until the handshake has determined the value.
            accecn: false,
        };
        let waiting = self.hosts[host].config.skbs.filter(|_| self.lines[host].is_some());
        let waiting = waiting.map(|skbs| (Box::default(), skbs.overhead.get()));
        self.conns[c as usize] = Some(Box::new(HostEndpoint {
            tcp,
            route,
            tally: measure::FlowCounters::default(),
            slot: None,
            timer,
            armed: Time::MAX,
            closed: None,
            linger_until: Time::MAX,
            queued: 0,
            last_sent: 0,
            small_queues,
            waiting,
            leaves_at: Time::MAX,
            blocked: false,
            only_reads: false,
            open_reported: false,
            close_reported: false,
            modified: false,
            host,
            key,
            out: flow.out[usize::from(server)],
            into: flow.out[usize::from(!server)],
        }));
        self.recorder.flows[place].ends[usize::from(server)] = c;
        c
    }

    /// The stack settings and the controller of a connection: those of the host, unless its traffic class has its own
    /// controller. In that case DCTCP's ECN feedback is enabled only when that controller is DCTCP.
    fn config(
        &self,
        host: usize,
        key: ConnKey,
        name: &str,
    ) -> (Arc<Config>, Box<dyn tcpassay_cc::Controller>) {
        let settings = &self.hosts[host].settings;
        let mut config = Arc::clone(&self.hosts[host].config);
        let own = self.plan.part(key).cc.as_deref();
        let cc = own.unwrap_or(settings.cc.name());
        if own.is_some() && cc != "dctcp" && config.ecn == EcnMode::Dctcp {
            Arc::make_mut(&mut config).ecn = EcnMode::Off;
        }
        let random = self.seed.stream(&format!("cc.{name}"));
        if let (None, Some(class)) = (own, &settings.python) {
            let build =
                self.python.expect("a case with a controller in Python runs where there is an interpreter");
            return (config, build(class, random));
        }
        let params = settings.cc_params(cc, random);
        (config, tcpassay_cc::build(cc, &params).expect("the case was checked"))
    }

    /// Removes a connection and writes its final statistics to the recording.
    pub fn remove(&mut self, net: &mut Core, c: u32) {
        let mut conn = self.conns[c as usize].take().expect("a connection that lives");
        flush_tally(&mut self.recorder.collector, &mut conn, net.now());
        self.summarise(&conn, Some(net.now()), net.now());
        net.remove_timer(conn.timer);
        self.owners[conn.timer.index()] = TimerOwner::Unused;
        self.free.push(c);
        let (place, _) = FlowEntry::place(conn.route.flow);
        let flow = &mut self.recorder.flows[place];
        for end in &mut flow.ends {
            if *end == c {
                *end = NONE;
            }
        }
        if flow.ends == [NONE; 2] && self.real.is_empty() && !flow.kept {
            self.free_flows.push(place);
        }
    }

    /// Answers a segment for which the host has no connection with a reset (RFC 9293 section 3.10.7.1).
    pub fn reset_unknown(&mut self, net: &mut Core, host: HostId, id: PacketId) {
        let packet = net.packet(id).clone();
        let settings = &self.hosts[usize::from(host.0)].settings;
        let cc = tcpassay_cc::build("reno", &tcpassay_cc::Params::default()).expect("reno is always there");
        let mut closed = Connection::listen(&settings.stack, cc, SeqNum::new(0), 0);
        closed.abort(net.now());
        closed.on_segment(net.now(), &packet.segment, packet.ecn);
        while let Some(out) = closed.poll_transmit(net.now()) {
            net.send(Packet::tcp(host, packet.src, packet.flow, out.segment, out.ecn, out.mss));
        }
    }

    /// A router reports that a segment was too long (RFC 1191). Returns the connection, if it is to send again. Later connections to the same
    /// host begin with the path MTU.
    ///
    /// As in `tcp_v4_err`, the segment must be outstanding, and a path MTU is not below `ip_rt_min_pmtu`.
    pub fn too_long(&mut self, now: Time, host: HostId, message: &Packet) -> Option<u32> {
        const LEAST: Bytes = Bytes::new(552);
        let c = self.find(host, message.flow).ok()?;
        let conn = self.conn(c);
        let outstanding = conn.tcp.gauges().unacked.get();
        let before_next = conn.tcp.next_numbers().0.distance(message.segment.seq);
        if !u64::try_from(before_next).is_ok_and(|n| (1..=outstanding).contains(&n)) {
            return None;
        }
        let mtu = Bytes::new(u64::from(message.mss)).max(LEAST);
        let (at, key) = (conn.host, conn.key);
        let (client, server) = (key.client.0 as usize, key.server.0 as usize);
        let peer = if at == client { server } else { client };
        let known = self.path_mtus.entry((at, peer)).or_insert(mtu);
        *known = mtu.min(*known);
        self.conn(c).tcp.set_path(now, mtu - HEADERS, true);
        Some(c)
    }

    pub(super) fn add_record(&mut self, key: ConnKey, backwards: bool, now: Time) -> measure::FlowId {
        let part = self.plan.part(key);
        let (mut from, mut to) = (key.client.0, key.server.0);
        if backwards {
            std::mem::swap(&mut from, &mut to);
        }
        let settings = &self.hosts[from as usize].settings;
        let n = self.recorder.state.records;
        self.recorder.state.records += 1;
        self.recorder.collector.add_flow(measure::Flow {
            name: format!("flow.{n}"),
            connection: n / 2,
            from,
            to,
            class: part.class.clone(),
            cc: part.cc.clone().unwrap_or_else(|| settings.cc.name().to_owned()),
            mss: settings.stack.mss,
            start: now,
            end: None,
            counters: measure::FlowCounters::default(),
            tcp: measure::TcpSummary::default(),
        })
    }
}
