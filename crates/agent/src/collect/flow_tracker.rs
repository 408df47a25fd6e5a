//! Counters, delays and events of flows, from the packets at the taps.
//!
//! The transmission of a delivered packet is found by the IP identification, which Linux increments for each packet of a connection, also
//! within a super-segment. [`rtt`](crate::collect::rtt) computes the round-trip times.

use crate::collect::rtt::RttSampler;
use crate::collect::tap::CapturedPacket;
use std::collections::{BTreeMap, VecDeque};
use tcpassay_measure::pcapng::host_of;
use tcpassay_measure::{Collector, Delivery, EventKind, EventRow, FlowCounters, FlowId, PacketRecord};
use tcpassay_units::{Bytes, SeqNum, Time};
use tcpassay_wire::codec::{Content, Envelope};
use tcpassay_wire::{Ecn, Flags, Layout, SackBlock, Segment};

/// Number of times at which segments left that are remembered: trace events are read after the packets of the same instant, and of some later ones.
const DEPARTURES: usize = 256;

/// A transmission that is not acknowledged.
struct Transmission {
    id: u16,
    packets: u16,
    end: u64,
    at: u64,
}

/// One direction of a connection.
struct Direction {
    flow: FlowId,
    /// The initial sequence number, which has position 0.
    first: Option<SeqNum>,
    /// What a middlebox adds to the numbers of this direction, from the SYN that arrived: the log has those of the sender.
    shift: u32,
    /// The position after the last byte sent.
    sent_end: u64,
    /// The position up to which the peer has acknowledged.
    acked: u64,
    sent: VecDeque<Transmission>,
    rtt: RttSampler,
    /// The largest payload of a packet, from the options of the handshake.
    mss: u32,
    /// The latest times at which segments left, each once.
    departures: VecDeque<Time>,
    /// The shift of the window scale option.
    scale: u8,
}

/// Host and port of one end.
type End = (u32, u16);

/// Every connection of the run.
pub struct FlowTracker {
    start: u64,
    /// For each host, whether it is on this machine; empty if all are.
    local: Vec<bool>,
    directions: Vec<[Direction; 2]>,
    places: BTreeMap<(End, End), (usize, usize)>,
    /// Of a connection from ports that another one had: that one and its server, whose end lives until it answers the new SYN.
    replaced: BTreeMap<usize, (usize, u32)>,
    /// For each host, how many packets at its taps the recording has.
    recorded: Vec<u64>,
}

impl FlowTracker {
    /// A tracker for a run that begins at `start` of the kernel's clock, in nanoseconds.
    pub fn new(start: u64) -> FlowTracker {
        FlowTracker {
            start,
            local: Vec::new(),
            directions: Vec::new(),
            places: BTreeMap::new(),
            replaced: BTreeMap::new(),
            recorded: Vec::new(),
        }
    }

    /// Only these hosts are on this machine. The kernel may report events of others, whose agents record them.
    pub fn set_local(&mut self, local: Vec<bool>) {
        self.local = local;
    }

    /// Returns true if a host is on this machine.
    pub fn is_local(&self, host: u32) -> bool {
        self.local.get(host as usize).copied().unwrap_or(true)
    }

    /// The run begins at `start` of the kernel's clock, in nanoseconds.
    pub fn start_at(&mut self, start: u64) {
        self.start = start;
    }

    /// Adds a connection from `client` to `server`. `flows` are its directions, the client's first.
    pub fn open(&mut self, client: End, server: End, flows: [FlowId; 2]) {
        let direction = |flow| Direction {
            flow,
            first: None,
            shift: 0,
            sent_end: 0,
            acked: 0,
            sent: VecDeque::new(),
            rtt: RttSampler::default(),
            mss: 1460,
            departures: VecDeque::new(),
            scale: 0,
        };
        let place = self.directions.len();
        self.directions.push(flows.map(direction));
        if let Some((old, _)) = self.places.insert((client, server), (place, 0)) {
            self.replaced.insert(place, (old, server.0));
        }
        self.places.insert((server, client), (place, 1));
    }

    /// How many packets at the taps of a host the recording has.
    pub fn recorded(&self, host: usize) -> u64 {
        self.recorded.get(host).copied().unwrap_or(0)
    }

    /// The flow of the data from `from` to `to`.
    pub fn flow(&self, from: End, to: End) -> Option<FlowId> {
        let (place, side) = *self.places.get(&(from, to))?;
        let place = self.at(from.0, place);
        Some(self.directions[place][side].flow)
    }

    /// The connection that a host has at the ports of connection `place`.
    fn at(&self, host: u32, place: usize) -> usize {
        self.replaced.get(&place).filter(|(_, server)| *server == host).map_or(place, |(old, _)| *old)
    }

    /// The segment size of a flow in bytes, from the handshake.
    pub fn mss(&self, flow: FlowId) -> u64 {
        // The two flows of a connection have consecutive numbers.
        let place = flow.0 as usize;
        self.directions.get(place / 2).map_or(0, |both| u64::from(both[place % 2].mss))
    }

    /// When the sender of a flow last sent something that takes sequence numbers, before `at`; `None` if it is not known any more.
    pub fn last_sent_before(&self, flow: FlowId, at: Time) -> Option<Time> {
        let place = flow.0 as usize;
        let departures = &self.directions.get(place / 2)?[place % 2].departures;
        departures.iter().rev().find(|sent| **sent < at).copied()
    }

    /// The flows of all connections.
    pub fn flows(&self) -> impl Iterator<Item = FlowId> + '_ {
        self.directions.iter().flatten().map(|d| d.flow)
    }

    /// Processes a packet at a tap of `host` that leaves it (`outgoing`) or arrives.
    pub fn packet(&mut self, seen: &CapturedPacket, host: u32, outgoing: bool, collector: &mut Collector) {
        let Content::Tcp(segment) = &seen.packet.content else { return };
        let e = &seen.packet.envelope;
        let (Some(from), Some(to)) = (host_of(e.from.ip()), host_of(e.to.ip())) else { return };
        let ends = ((from, e.from.port()), (to, e.to.port()));
        let Some(&(place, side)) = self.places.get(&ends) else { return };
        if outgoing && segment.flags.has(Flags::SYN) && self.at(host, place) != place {
            self.replaced.remove(&place);
        }
        let place = self.at(host, place);
        let Some(since) = seen.at.checked_sub(self.start) else { return };
        let at = Time::from_nanos(since);
        if collector.wants_packets() {
            self.recorded.resize(self.recorded.len().max(host as usize + 1), 0);
            self.recorded[host as usize] += 1;
            collector.packet(PacketRecord {
                at,
                interface: host,
                from,
                to,
                from_port: e.from.port(),
                to_port: e.to.port(),
                ecn: e.ecn,
                id: e.id,
                layout: Layout::Linux,
                note: None,
                segment: Some(*segment),
                datagram_len: 0,
            });
        }
        let peer_is_local = self.is_local(if outgoing { to } else { from });
        let [a, b] = &mut self.directions[place];
        let (this, other) = if side == 0 { (a, b) } else { (b, a) };
        let segment = &if outgoing { other.acknowledged(segment) } else { this.arrived(segment) };
        let kind = if outgoing && from == host {
            if !peer_is_local {
                other.on_acknowledged_here(segment);
            }
            this.on_sent(at, e, segment, collector)
        } else if !outgoing && to == host {
            if !peer_is_local {
                this.on_handshake(segment);
            }
            this.on_delivered(at, seen.len, e, segment, collector);
            other.on_ack(at, segment, collector);
            EventKind::In
        } else {
            return;
        };
        if collector.wants_events() {
            // The event belongs to the flow in which this host sends.
            let flow = if outgoing { this.flow } else { other.flow };
            collector.event(this.event(at, host, flow, kind, e.ecn, segment, other));
            for block in &segment.options.sack {
                let place = |seq| other.position(seq, other.sent_end);
                let (Some(start), Some(end)) = (place(block.start), place(block.end)) else { continue };
                collector.event(EventRow {
                    seq: Some(start),
                    len: u32::try_from(end.saturating_sub(start)).ok(),
                    ..EventRow::new(at, host, Some(flow.0), EventKind::Sack)
                });
            }
        }
    }
}

impl Direction {
    /// The position of a sequence number: the bytes since the initial sequence number. `near`: a position close to it.
    fn position(&self, seq: SeqNum, near: u64) -> Option<u64> {
        seq.unwrap_near(self.first?, near)
    }

    /// A segment that arrives, with the numbers that its sender gave it.
    fn arrived(&mut self, s: &Segment) -> Segment {
        // A SYN within a connection opens another one.
        if let (true, Some(first), 0) = (s.flags.has(Flags::SYN), self.first, self.acked) {
            self.shift = s.seq.get().wrapping_sub(first.get());
        }
        Segment { seq: s.seq - self.shift, ..*s }
    }

    /// A segment of the receiver, which reports the numbers that arrived.
    fn acknowledged(&self, s: &Segment) -> Segment {
        let mut sent = *s;
        if self.shift != 0 {
            let block = |b: &SackBlock| SackBlock { start: b.start - self.shift, end: b.end - self.shift };
            sent.options.sack = s.options.sack.iter().map(block).collect();
            sent.ack = s.ack - self.shift;
        }
        sent
    }

    /// Reads what a SYN tells about the segments that follow: the beginning of their numbers, and the options. The tap of the sender sees it
    /// first; a machine without the sender sees it when it arrives.
    fn on_handshake(&mut self, s: &Segment) {
        if s.flags.has(Flags::SYN) {
            self.first = Some(s.seq);
            self.scale = s.options.window_scale.unwrap_or(0).min(14);
            let options = if s.options.timestamps.is_some() { 12 } else { 0 };
            self.mss = u32::from(s.options.mss.unwrap_or(536)).saturating_sub(options).max(1);
        }
    }

    /// Processes an acknowledgement of this machine to a sender on another machine, whose transmissions are not seen. What is acknowledged was
    /// sent; the number of a segment that arrives may be damaged.
    fn on_acknowledged_here(&mut self, s: &Segment) {
        if s.flags.has(Flags::ACK)
            && let Some(acked) = self.position(s.ack, self.sent_end)
        {
            self.sent_end = self.sent_end.max(acked);
        }
    }

    /// Processes a segment that leaves the sender.
    fn on_sent(&mut self, at: Time, e: &Envelope, s: &Segment, collector: &mut Collector) -> EventKind {
        self.on_handshake(s);
        let Some(begin) = self.position(s.seq, self.sent_end) else { return EventKind::Out };
        let end = begin + u64::from(s.seq_len());
        let retransmitted = end > begin && begin < self.sent_end;
        self.sent_end = self.sent_end.max(end);
        let packets = s.len.div_ceil(self.mss).max(1);
        for n in 0..packets {
            let bytes = (s.len - n * self.mss).min(self.mss);
            collector.sent(self.flow, bytes, retransmitted);
        }
        if s.seq_len() > 0 {
            let packets = u16::try_from(packets).unwrap_or(u16::MAX);
            if self.departures.back() != Some(&at) {
                if self.departures.len() == DEPARTURES {
                    self.departures.pop_front();
                }
                self.departures.push_back(at);
            }
            self.sent.push_back(Transmission { id: e.id, packets, end, at: at.as_nanos() });
            self.rtt.on_sent(at, (begin, end), retransmitted, s.options.timestamps);
        }
        if retransmitted { EventKind::Retransmit } else { EventKind::Out }
    }

    /// Processes a segment that arrives at the receiver.
    fn on_delivered(&mut self, at: Time, len: u32, e: &Envelope, s: &Segment, collector: &mut Collector) {
        if s.len == 0 {
            return;
        }
        let is_it = |sent: &Transmission| e.id.wrapping_sub(sent.id) < sent.packets;
        let sent = self.sent.iter().find(|sent| is_it(sent)).map_or(at.as_nanos(), |sent| sent.at);
        let one_way = at.since(Time::from_nanos(sent));
        let ce = e.ecn == Ecn::Ce;
        // A super-segment that was not segmented counts as several packets, each with headers of its own.
        let packets = s.len.div_ceil(self.mss);
        let wire_bytes = s.len + packets * len.saturating_sub(s.len);
        let packets = u64::from(packets);
        let more = FlowCounters {
            delivered_packets: packets,
            delivered_bytes: u64::from(s.len),
            delivered_wire_bytes: u64::from(wire_bytes),
            ce_packets: if ce { packets } else { 0 },
            ..FlowCounters::default()
        };
        collector.add(self.flow, at, &more);
        collector
            .arrived(self.flow, Delivery { at, flow: self.flow.0, wire_bytes, bytes: s.len, one_way, ce });
    }

    /// Processes an acknowledgement that arrives at the sender.
    fn on_ack(&mut self, at: Time, s: &Segment, collector: &mut Collector) {
        if !s.flags.has(Flags::ACK) {
            return;
        }
        let Some(acked) =
            self.position(s.ack, self.acked).filter(|ack| (self.acked..=self.sent_end).contains(ack))
        else {
            return;
        };
        self.acked = acked;
        while self.sent.front().is_some_and(|sent| sent.end <= acked) {
            self.sent.pop_front();
        }
        let block = |b: &SackBlock| Some((self.position(b.start, acked)?, self.position(b.end, acked)?));
        let sacks: Vec<(u64, u64)> = s.options.sack.iter().filter_map(block).collect();
        let echo = s.options.timestamps.map(|ts| ts.ecr);
        if let Some(rtt) = self.rtt.on_ack(at, acked, &sacks, echo) {
            collector.rtt(self.flow, at, rtt);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the columns of a row")]
    fn event(
        &self,
        at: Time,
        host: u32,
        flow: FlowId,
        kind: EventKind,
        ecn: Ecn,
        s: &Segment,
        other: &Direction,
    ) -> EventRow {
        let scale = if s.flags.has(Flags::SYN) { 0 } else { self.scale };
        let acknowledges = s.flags.has(Flags::ACK);
        // As on the model: the timestamp of what arrives, the echo of what is sent.
        let stamp = s.options.timestamps.map(|ts| if kind == EventKind::In { ts.val } else { ts.ecr });
        EventRow {
            seq: self.position(s.seq, self.sent_end),
            ack: acknowledges.then(|| other.position(s.ack, other.sent_end)).flatten(),
            value: stamp.map(u64::from),
            len: Some(s.len),
            flags: Some(s.flags),
            window: Some(Bytes::new(u64::from(s.window) << scale)),
            ce: ecn == Ecn::Ce,
            ..EventRow::new(at, host, Some(flow.0), kind)
        }
    }
}

#[cfg(test)]
pub mod tests;
