//! Hosts whose TCP is not the model (`stack.implementation`).
//!
//! The network carries segments without payload. At such a host an arriving segment becomes a whole IPv4 packet: addresses and
//! ports of the recording, both checksums, and the bytes of its stream, which are a function of (flow, position). A packet that
//! the stack sends is read and verified, and becomes a segment of the network. Applications are the same as on the model.
//!
//! The log of such a host has what its segments show, and the calls of its applications.

mod sockets;

use super::real_begin::{Begun, begin};
use super::real_state::{Known, ShownStates};
use super::stacks::Stacks;
use crate::engine::{Core, HostId, Packet, Route, TimerId};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;
use tcpassay_case::Case;
use tcpassay_measure::{
    Delivery, EventKind, EventRow, FlowId, Reason, SegmentLog, SentBy, StackUnderTest, pcapng,
};
use tcpassay_stack::process::Commands;
use tcpassay_stack::{
    Description, Drained, Next, SocketId as StackSocket, SocketStatus, Stack, StackError, content,
};
use tcpassay_units::{Dur, Seed, Time};
use tcpassay_wire::codec::Envelope;
use tcpassay_wire::{Ecn, Flags, Segment, whole};
use tcpassay_workload::{Apps, SocketId};

/// A host with its stack.
#[derive(Debug)]
pub(crate) struct RealHost {
    index: usize,
    id: HostId,
    stack: Box<dyn Stack>,
    about: Description,
    digest: Option<String>,
    timer: TimerId,
    armed: Time,
    linger: Option<Dur>,
    /// What the stack did and this host has not processed.
    drained: Drained,
    shown: ShownStates,
    /// Connections of applications, by the socket of the stack.
    ends: BTreeMap<StackSocket, RealEnd>,
    /// The socket of the stack by that of the application.
    slots: Vec<Option<StackSocket>>,
    /// Sockets whose status has changed.
    changed: VecDeque<StackSocket>,
    /// By entry of the flow table: what segments show of the end at this host.
    logs: BTreeMap<usize, RealFlow>,
    packet: Vec<u8>,
    /// For data that are read.
    buffer: Vec<u8>,
    identification: u16,
    /// How often in a row it asked to be called at once, and did nothing then.
    restless: u32,
    /// Its timer fires at this instant, and nothing has arrived at it.
    fires: bool,
    failure: Option<StackError>,
}

/// Calls at once without anything done, after which a stack counts as one that is never quiet.
const MOST_RESTLESS: u32 = 10_000;

/// Bytes of one call of a stack.
const STEP: usize = 32_768;

/// A connection of an application.
#[derive(Debug)]
struct RealEnd {
    slot: SocketId,
    /// The entry of its connection.
    place: usize,
    /// The flow that it sends, and that it receives.
    out: FlowId,
    into: FlowId,
    status: SocketStatus,
    written: u64,
    read: u64,
    /// Bytes of the last write that were not accepted.
    wanted: u64,
    /// Position up to which the peer had acknowledged then.
    acked: u64,
    open_reported: bool,
    close_reported: bool,
}

/// An end of a connection as its segments show it.
#[derive(Debug)]
struct RealFlow {
    log: SegmentLog,
    route: Route,
    out: FlowId,
    into: FlowId,
    counts: SegmentCounts,
    /// Position up to which the peer has acknowledged what this end sent.
    acked: u64,
    /// Position up to which this end has acknowledged what its peer sent.
    acked_out: u64,
    /// The last SYN of the peer that opens another connection from the same port.
    opens_again: Option<Segment>,
    /// The socket of its application.
    socket: Option<StackSocket>,
}

/// Segments of an end, for the summary of its flow.
#[derive(Clone, Copy, Debug, Default)]
struct SegmentCounts {
    sent: u64,
    received: u64,
    acks: u64,
    again: u64,
    again_bytes: u64,
    ce: u64,
}

impl RealHost {
    /// The host `index` of a case; `None` if its TCP is the model. `state`: the stack is asked to show the state of its connections.
    ///
    /// # Errors
    /// A process that cannot be used.
    pub fn new(
        case: &Case,
        index: usize,
        (id, timer): (HostId, TimerId),
        seed: Seed,
        commands: Option<&Commands>,
        state: bool,
    ) -> Result<Option<RealHost>, StackError> {
        let Some(Begun { stack, about, digest }) = begin(case, index, seed, commands, state)? else {
            return Ok(None);
        };
        Ok(Some(RealHost {
            index,
            id,
            stack,
            about,
            digest,
            timer,
            armed: Time::MAX,
            linger: case.hosts[index].linger,
            drained: Drained::default(),
            shown: ShownStates::default(),
            fires: false,
            ends: BTreeMap::new(),
            slots: Vec::new(),
            changed: VecDeque::new(),
            logs: BTreeMap::new(),
            packet: Vec::new(),
            buffer: vec![0; STEP],
            identification: 0,
            restless: 0,
            failure: None,
        }))
    }

    /// The name and version of the stack, for the recording.
    pub fn under_test(&self) -> StackUnderTest {
        StackUnderTest {
            host: u32::try_from(self.index).expect("few hosts"),
            name: self.about.name.clone(),
            version: self.about.version.clone(),
            digest: self.digest.clone(),
            shows: self.about.shows.clone(),
        }
    }

    /// Why the stack cannot be used any more.
    pub fn failure(&self) -> Option<&StackError> {
        self.failure.as_ref()
    }

    /// Accepts connections at `port`.
    pub fn listen(&mut self, port: u16) {
        let listening = self.stack.listen(Time::ZERO, port);
        self.note(listening);
    }

    /// Keeps the first error; returns the value of a call that succeeded.
    fn note<T>(&mut self, result: Result<T, StackError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(why) => {
                self.failure.get_or_insert(why);
                None
            }
        }
    }

    /// A segment of the network arrives.
    pub fn arrival(&mut self, stacks: &mut Stacks, net: &mut Core, apps: &Apps, packet: &Packet) {
        let now = net.now();
        self.fires = false;
        let Some(place) = stacks.place_of(packet.flow) else { return };
        let index = self.index;
        let flow = self.flow(stacks, place);
        let segment = &packet.segment;
        if segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK) {
            flow.opens_again = Some(*segment);
        }
        let recorder = &mut stacks.recorder;
        if segment.len > 0 {
            let delivery = Delivery {
                at: now,
                flow: flow.into.0,
                wire_bytes: packet.size_u32(),
                bytes: segment.len,
                one_way: now.since(packet.created),
                ce: packet.ecn == Ecn::Ce,
            };
            recorder.collector.delivered(flow.into, delivery);
        }
        flow.counts.received += 1;
        flow.counts.ce += u64::from(packet.ecn == Ecn::Ce);
        recorder.captured(index, (packet.flow, packet.src), now, segment, packet.ecn);
        let seen = flow.log.segment(SentBy::Peer, segment);
        if let Some(seen) = seen
            && recorder.collector.wants_events()
        {
            let collector = &mut recorder.collector;
            flow.log.rows(now, SentBy::Peer, (segment, packet.ecn), seen, |row| collector.event(row));
        }
        if segment.flags.has(Flags::ACK)
            && let Some(ack) = flow.log.position(SentBy::Own, segment.ack)
        {
            flow.acked = flow.acked.max(ack);
        }
        let payload = match seen {
            // The first byte of the stream has position 1, after the SYN.
            Some((at, _)) => content::bytes(flow.into.0, at.saturating_sub(1), segment.len as usize),
            None => &[],
        };
        let (acked, socket) = (flow.acked, flow.socket);
        let (from, to) = stacks.addresses(place, packet.src);
        self.identification = self.identification.wrapping_add(1);
        let envelope =
            Envelope { from: from.into(), to: to.into(), ecn: packet.ecn, id: self.identification, ttl: 64 };
        self.packet.clear();
        whole::encode(&envelope, segment, payload, &mut self.packet)
            .expect("a segment of the network fits a packet");
        let expected =
            socket.and_then(|socket| Some((socket, self.ends.get(&socket)?.next(apps, segment.len, acked)?)));
        let taken = match expected {
            Some((socket, call)) => self.stack.input_then(now, &self.packet, socket, call),
            None => self.stack.input(now, &self.packet),
        };
        self.note(taken);
    }

    /// The timer of this host fired. Returns whether the stack did something.
    pub fn on_timer(&mut self, now: Time) {
        self.armed = Time::MAX;
        if self.stack.deadline(now).is_some_and(|at| at <= now) {
            self.fires = true;
            let advanced = self.stack.advance(now);
            self.note(advanced);
        }
    }

    /// Sets the timer.
    fn arm(&mut self, net: &mut Core) {
        let now = net.now();
        let Some(due) = self.stack.deadline(now) else { return };
        // A stack that is quiet and still wants to be called now gets its next tick.
        let due = if due <= now {
            self.restless += 1;
            if self.restless > MOST_RESTLESS {
                let name = &self.about.name;
                self.failure = Some(StackError::broken(format!(
                    "{name} asked {MOST_RESTLESS} times in a row to be called at once, and did nothing then"
                )));
            }
            now + self.about.granularity
        } else {
            self.restless = 0;
            due
        };
        if due < self.armed {
            self.armed = due;
            net.set_timer(self.timer, due);
        }
    }

    /// Processes what the stack did until it does nothing more: sends its packets, and tells the applications what has changed.
    pub fn settle(&mut self, stacks: &mut Stacks, net: &mut Core, apps: &mut Apps) {
        while self.failure.is_none() {
            self.collect();
            let place = (net.now(), self.number());
            self.shown.show(&mut self.drained, &mut stacks.recorder.collector, place, self.fires);
            let mut packets = std::mem::take(&mut self.drained.packets);
            for packet in packets.drain(..) {
                let sent = self.departure(stacks, net, &packet);
                self.note(sent);
                self.stack.recycle(packet);
            }
            self.drained.packets = packets;
            let logs = &self.logs;
            let known = |entry| logs.get(&entry).map(RealFlow::known);
            self.shown.check(&mut stacks.recorder.collector, place, known);
            self.shown.log_closed(&mut stacks.recorder.collector, place);
            for (socket, port, from) in std::mem::take(&mut self.drained.accepted) {
                self.accept(stacks, apps, socket, port, from);
            }
            let Some(socket) = self.changed.pop_front() else { break };
            self.tell(stacks, net, apps, socket);
        }
        self.fires = false;
        if self.failure.is_none() {
            self.arm(net);
        }
    }

    /// Its place among the hosts.
    fn number(&self) -> u32 {
        u32::try_from(self.index).expect("few hosts")
    }

    /// Reads what the stack did. The status of the sockets is valid then.
    fn collect(&mut self) {
        self.stack.drain(&mut self.drained);
        let quiet = self.drained.packets.is_empty() && self.drained.changed.is_empty();
        if !quiet || !self.drained.accepted.is_empty() {
            self.restless = 0;
        }
        for (socket, status) in self.drained.changed.drain(..) {
            if let Some(end) = self.ends.get_mut(&socket) {
                end.status = status;
            }
            if status.closed {
                self.shown.closed(socket);
            }
            if !self.changed.contains(&socket) {
                self.changed.push_back(socket);
            }
        }
    }

    /// A packet that the stack sent.
    fn departure(&mut self, stacks: &mut Stacks, net: &mut Core, bytes: &[u8]) -> Result<(), StackError> {
        let name = &self.about.name;
        let foreign =
            |why: &str| StackError::broken(format!("{name} sent a packet that is not one of its own: {why}"));
        let read = whole::decode(bytes).map_err(|why| foreign(&format!("{why:?}")))?;
        let envelope = read.headers.envelope;
        let place = stacks.flow_between(self.index, envelope.from, envelope.to);
        let place = place.ok_or_else(|| {
            foreign(&format!("from {} to {} there is no connection", envelope.from, envelope.to))
        })?;
        let now = net.now();
        let segment = read.headers.segment;
        if segment.flags.has(Flags::SYN) {
            self.replace(stacks, place);
        }
        let flow = self.flow(stacks, place);
        let seen = flow.log.segment(SentBy::Own, &segment);
        let wrong = match seen {
            _ if !read.ip_checksum_ok => Some("IP checksum"),
            _ if !read.tcp_checksum_ok => Some("TCP checksum"),
            // Below the acknowledged position the content is not used: a keepalive probe has a garbage octet there.
            Some((at, _))
                if at + u64::from(segment.len) > flow.acked
                    && content::verify(flow.out.0, at.saturating_sub(1), read.payload).is_err() =>
            {
                Some("content")
            }
            _ => None,
        };
        let recorder = &mut stacks.recorder;
        recorder.captured(
            flow.log.host as usize,
            (flow.route.flow, flow.route.src),
            now,
            &segment,
            envelope.ecn,
        );
        if let Some(seen) = seen
            && recorder.collector.wants_events()
        {
            let collector = &mut recorder.collector;
            flow.log.rows(now, SentBy::Own, (&segment, envelope.ecn), seen, |row| collector.event(row));
            if let Some(what) = wrong {
                let row = EventRow::new(now, flow.log.host, Some(flow.log.flow), EventKind::Damaged);
                collector.event(EventRow {
                    why: Reason::Borrowed(what),
                    seq: Some(seen.0),
                    len: Some(segment.len),
                    ..row
                });
            }
        }
        if segment.flags.has(Flags::ACK)
            && !segment.flags.has(Flags::RST)
            && let Some(ack) = flow.log.position(SentBy::Peer, segment.ack)
        {
            flow.acked_out = flow.acked_out.max(ack);
        }
        let again = seen.is_some_and(|(_, again)| again);
        recorder.collector.sent(flow.out, segment.len, again);
        let counts = &mut flow.counts;
        counts.sent += 1;
        counts.acks += u64::from(segment.len == 0);
        counts.again += u64::from(again);
        counts.again_bytes += if again { u64::from(segment.len) } else { 0 };
        *net.draft() = segment;
        let handle = net.send_draft(&flow.route, envelope.ecn, segment.len.max(1), segment.header_len());
        if wrong.is_some_and(|what| what != "content") {
            net.damage(handle.id);
        }
        Ok(())
    }

    fn flow(&mut self, stacks: &Stacks, place: usize) -> &mut RealFlow {
        let (index, id) = (self.index, self.id);
        self.logs.entry(place).or_insert_with(|| {
            let (route, out, into) = stacks.end_at(place, id);
            let log = SegmentLog::new(u32::try_from(index).expect("few hosts"), out.0);
            RealFlow {
                log,
                route,
                out,
                into,
                counts: SegmentCounts::default(),
                acked: 0,
                acked_out: 0,
                opens_again: None,
                socket: None,
            }
        })
    }

    /// The stack answers the SYN of a connection that replaces the one of an entry, which had the same ports: what follows belongs to it.
    fn replace(&mut self, stacks: &mut Stacks, place: usize) {
        let (_, out, _) = stacks.end_at(place, self.id);
        let Some(syn) = self.logs.get(&place).filter(|old| old.out != out).and_then(|old| old.opens_again)
        else {
            return;
        };
        let old = self.logs.remove(&place).expect("it was there");
        old.summarise(stacks);
        self.flow(stacks, place).log.segment(SentBy::Peer, &syn);
    }

    /// The stack has accepted a connection.
    fn accept(
        &mut self,
        stacks: &mut Stacks,
        apps: &mut Apps,
        socket: StackSocket,
        port: u16,
        from: SocketAddrV4,
    ) {
        let local =
            SocketAddrV4::new(pcapng::host_address(u32::try_from(self.index).expect("few hosts")), port);
        let place = stacks.flow_between(self.index, local.into(), from.into());
        let Some(place) = place.filter(|place| stacks.take_accept(*place)) else {
            self.failure.get_or_insert(StackError::broken(format!(
                "it accepted a connection from {from} that nobody opened"
            )));
            return;
        };
        let slot = apps.accept(stacks.key_at(place));
        self.attach(stacks, socket, slot, place);
    }

    /// Opens the connection of an entry for a socket of an application.
    pub fn open(&mut self, stacks: &Stacks, now: Time, slot: SocketId, place: usize) {
        let (from, to) = stacks.addresses(place, self.id);
        let opened = self.stack.connect(now, from.port(), to);
        if let Some(socket) = self.note(opened) {
            self.attach(stacks, socket, slot, place);
        }
    }

    fn attach(&mut self, stacks: &Stacks, socket: StackSocket, slot: SocketId, place: usize) {
        let (_, out, into) = stacks.end_at(place, self.id);
        let end = RealEnd {
            slot,
            place,
            out,
            into,
            status: SocketStatus::default(),
            written: 0,
            read: 0,
            wanted: 0,
            acked: 0,
            open_reported: false,
            close_reported: false,
        };
        self.ends.insert(socket, end);
        self.flow(stacks, place).socket = Some(socket);
        self.shown.attach(socket, place, out);
        let at = slot.0 as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, None);
        }
        self.slots[at] = Some(socket);
    }

    /// Tells the application of a socket what has changed.
    fn tell(&mut self, stacks: &mut Stacks, net: &mut Core, apps: &mut Apps, socket: StackSocket) {
        let now = net.now();
        let Some(end) = self.ends.get_mut(&socket) else { return };
        let (slot, status) = (end.slot, end.status);
        let mut news = status.readable > 0 || end.wanted > 0 && status.writable > 0;
        news |= status.established && !end.open_reported || status.end_of_stream && !end.close_reported;
        end.open_reported |= status.established;
        end.close_reported |= status.end_of_stream;
        if status.failed {
            self.detach(stacks, socket, now);
            apps.failed(now, slot, &mut RealSockets { host: self, stacks, net });
        } else if news {
            apps.ready(now, slot, &mut RealSockets { host: self, stacks, net });
        }
    }

    /// The application does not use the socket any more.
    fn detach(&mut self, stacks: &mut Stacks, socket: StackSocket, now: Time) {
        if let Some(end) = self.ends.remove(&socket) {
            self.slots[end.slot.0 as usize] = None;
            stacks.recorder.collector.flow_mut(end.out).end.get_or_insert(now);
        }
    }

    /// Writes the counts of segments to the recording.
    pub fn summarise(&self, stacks: &mut Stacks) {
        for flow in self.logs.values() {
            flow.summarise(stacks);
        }
    }
}

impl RealEnd {
    /// What the application will do about a segment with `len` bytes, after which the peer has acknowledged up to `acked`, if that is certain.
    fn next(&self, apps: &Apps, len: u32, acked: u64) -> Option<Next<'static>> {
        if len > 0 {
            let most = apps.reads_at_once(self.slot)?.get();
            return Some(Next::Read(usize::try_from(most).map_or(STEP, |most| most.min(STEP))));
        }
        // The room that the ACK makes, if there was none.
        let room = (acked - self.acked).min(self.wanted).min(STEP as u64);
        let room = usize::try_from(room).expect("at most a step");
        (room > 0).then(|| Next::Write(content::bytes(self.out.0, self.written, room)))
    }
}

impl RealFlow {
    fn known(&self) -> Known<'_> {
        Known { log: &self.log, out: self.out, acked: self.acked, acked_out: self.acked_out }
    }

    /// Writes the counts of segments to the recording.
    fn summarise(&self, stacks: &mut Stacks) {
        let counts = self.counts;
        let row = stacks.recorder.collector.flow_mut(self.out);
        row.tcp.retransmits = Some(counts.again);
        row.tcp.segments_out = Some(counts.sent);
        row.tcp.segments_in = Some(counts.received);
        row.tcp.acks_out = Some(counts.acks);
        row.tcp.ce_segments = Some(counts.ce);
    }
}

/// The sockets of a host with a real stack, for its applications.
pub(super) struct RealSockets<'a> {
    pub host: &'a mut RealHost,
    pub stacks: &'a mut Stacks,
    pub net: &'a mut Core,
}
