//! From packets at the taps to what the recording counts: sent, delivered, one-way times, round-trip times, events.
//!
//! A delivered packet finds its transmission by the IP identification, which Linux counts up for each packet of a connection,
//! also within a super-segment. Round-trip times are those of [`rtt`](crate::collect::rtt).

use crate::collect::rtt::RttSampler;
use crate::collect::tap::CapturedPacket;
use std::collections::{BTreeMap, VecDeque};
use tcpassay_measure::pcapng::host_of;
use tcpassay_measure::{Collector, Delivery, EventKind, EventRow, FlowCounters, FlowId, PacketRecord};
use tcpassay_units::{Bytes, SeqNum, Time};
use tcpassay_wire::codec::{Content, Envelope};
use tcpassay_wire::{Ecn, Flags, SackBlock, Segment};

/// One transmission that is not acknowledged.
struct Transmission {
    id: u16,
    packets: u16,
    end: u64,
    at: u64,
}

/// One direction of a connection.
struct Direction {
    flow: FlowId,
    first: Option<SeqNum>,
    /// The end of what was sent.
    top: u64,
    /// What the other end has acknowledged.
    acked: u64,
    sent: VecDeque<Transmission>,
    board: RttSampler,
    /// Largest payload of a packet, by the options of the handshake.
    mss: u32,
    scale: u8,
}

/// Host and port of one end.
type End = (u32, u16);

/// Every connection of the run.
pub struct FlowTracker {
    start: u64,
    directions: Vec<[Direction; 2]>,
    places: BTreeMap<(End, End), (usize, usize)>,
}

impl FlowTracker {
    /// Of a run that begins at `start` of the kernel's clock.
    pub fn new(start: u64) -> FlowTracker {
        FlowTracker { start, directions: Vec::new(), places: BTreeMap::new() }
    }

    /// A connection from `client` to `server`; `flows` are its directions, the client's first.
    pub fn open(&mut self, client: End, server: End, flows: [FlowId; 2]) {
        let direction = |flow| Direction {
            flow,
            first: None,
            top: 0,
            acked: 0,
            sent: VecDeque::new(),
            board: RttSampler::default(),
            mss: 1460,
            scale: 0,
        };
        let place = self.directions.len();
        self.directions.push(flows.map(direction));
        self.places.insert((client, server), (place, 0));
        self.places.insert((server, client), (place, 1));
    }

    /// The direction in which `from` sends to `to`.
    pub fn flow(&self, from: End, to: End) -> Option<FlowId> {
        let (place, side) = *self.places.get(&(from, to))?;
        Some(self.directions[place][side].flow)
    }

    /// The segment size of a direction, by its handshake.
    pub fn mss(&self, flow: FlowId) -> u64 {
        // Connections have two flows each, one behind the other.
        let place = flow.0 as usize;
        self.directions.get(place / 2).map_or(0, |both| u64::from(both[place % 2].mss))
    }

    /// Every direction of every connection.
    pub fn flows(&self) -> impl Iterator<Item = FlowId> + '_ {
        self.directions.iter().flatten().map(|d| d.flow)
    }

    /// A packet at a tap of `host`: on its way out, or in.
    pub fn packet(&mut self, seen: &CapturedPacket, host: u32, outgoing: bool, collector: &mut Collector) {
        let Content::Tcp(segment) = &seen.packet.content else { return };
        let e = &seen.packet.envelope;
        let (Some(from), Some(to)) = (host_of(e.from.ip()), host_of(e.to.ip())) else { return };
        let ends = ((from, e.from.port()), (to, e.to.port()));
        let Some(&(place, side)) = self.places.get(&ends) else { return };
        let Some(since) = seen.at.checked_sub(self.start) else { return };
        let at = Time::from_nanos(since);
        if collector.wants_packets() {
            collector.packet(PacketRecord {
                at,
                interface: host,
                from,
                to,
                from_port: e.from.port(),
                to_port: e.to.port(),
                ecn: e.ecn,
                id: e.id,
                note: None,
                segment: Some(*segment),
                datagram_len: 0,
            });
        }
        let [a, b] = &mut self.directions[place];
        let (this, other) = if side == 0 { (a, b) } else { (b, a) };
        let kind = if outgoing && from == host {
            this.sends(at, e, segment, collector)
        } else if !outgoing && to == host {
            this.arrives(at, seen.len, e, segment, collector);
            other.hears(at, segment, collector);
            EventKind::In
        } else {
            return;
        };
        if collector.wants_events() {
            // The event is of the direction in which this host sends.
            let flow = if outgoing { this.flow } else { other.flow };
            collector.event(this.event(at, host, flow, kind, e.ecn, segment, other.first));
        }
    }
}

impl Direction {
    fn position(&self, seq: SeqNum, near: u64) -> Option<u64> {
        seq.unwrap_near(self.first?, near)
    }

    /// A segment leaves the sender.
    fn sends(&mut self, at: Time, e: &Envelope, s: &Segment, collector: &mut Collector) -> EventKind {
        if s.flags.has(Flags::SYN) {
            self.first = Some(s.seq);
            self.scale = s.options.window_scale.unwrap_or(0).min(14);
            let options = if s.options.timestamps.is_some() { 12 } else { 0 };
            self.mss = u32::from(s.options.mss.unwrap_or(536)).saturating_sub(options).max(1);
        }
        let Some(begin) = self.position(s.seq, self.top) else { return EventKind::Out };
        let end = begin + u64::from(s.seq_len());
        let again = end > begin && begin < self.top;
        self.top = self.top.max(end);
        let packets = s.len.div_ceil(self.mss).max(1);
        for n in 0..packets {
            let bytes = (s.len - n * self.mss).min(self.mss);
            collector.sent(self.flow, bytes, again);
        }
        if s.seq_len() > 0 {
            let packets = u16::try_from(packets).unwrap_or(u16::MAX);
            self.sent.push_back(Transmission { id: e.id, packets, end, at: at.as_nanos() });
            self.board.sent(at, (begin, end), again, s.options.timestamps);
        }
        if again { EventKind::Retransmit } else { EventKind::Out }
    }

    /// A segment reaches the receiving host.
    fn arrives(&mut self, at: Time, len: u32, e: &Envelope, s: &Segment, collector: &mut Collector) {
        if s.len == 0 {
            return;
        }
        let is_it = |sent: &Transmission| e.id.wrapping_sub(sent.id) < sent.packets;
        let sent = self.sent.iter().find(|sent| is_it(sent)).map_or(at.as_nanos(), |sent| sent.at);
        let one_way = at.since(Time::from_nanos(sent));
        let ce = e.ecn == Ecn::Ce;
        // A super-segment that was never cut stands for as many packets, each with headers of its own.
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

    /// The sender hears from the other end.
    fn hears(&mut self, at: Time, s: &Segment, collector: &mut Collector) {
        if !s.flags.has(Flags::ACK) {
            return;
        }
        let Some(acked) = self.position(s.ack, self.acked).filter(|ack| *ack >= self.acked) else { return };
        self.acked = acked;
        while self.sent.front().is_some_and(|sent| sent.end <= acked) {
            self.sent.pop_front();
        }
        let block = |b: &SackBlock| Some((self.position(b.start, acked)?, self.position(b.end, acked)?));
        let sacks: Vec<(u64, u64)> = s.options.sack.iter().filter_map(block).collect();
        let echo = s.options.timestamps.map(|ts| ts.ecr);
        if let Some(rtt) = self.board.heard(at, acked, &sacks, echo) {
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
        other: Option<SeqNum>,
    ) -> EventRow {
        let scale = if s.flags.has(Flags::SYN) { 0 } else { self.scale };
        let ack = other.filter(|_| s.flags.has(Flags::ACK));
        EventRow {
            seq: self.position(s.seq, self.top),
            ack: ack.and_then(|first| s.ack.unwrap_near(first, self.top)),
            len: Some(s.len),
            flags: Some(s.flags),
            window: Some(Bytes::new(u64::from(s.window) << scale)),
            ce: ecn == Ecn::Ce,
            ..EventRow::new(at, host, Some(flow.0), kind)
        }
    }
}
