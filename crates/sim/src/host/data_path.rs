//! The data path of a connection in its host: arriving segments, departing segments, and their recording.

use super::endpoint::{FlowEntry, HostEndpoint};
use super::line::{HostLine, QueuedPacket};
use super::log::event;
use super::recording::RecordingState;
use crate::engine::{Core, FlowLabel, HostId, Packet};
use tcpassay_case::SmallQueues;
use tcpassay_measure::reason::AppCall;
use tcpassay_measure::{Collector, Delivery, EventKind, EventRow, FlowCounters, Reason};
use tcpassay_tcp::{Connection, Sending};
use tcpassay_units::{Bytes, Time, count};
use tcpassay_wire::{Ecn, Segment};
use tcpassay_workload::SocketId;

/// The action that remains after an input was processed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NextAction {
    Nothing,
    /// The application of this host and socket has a pending event.
    Tell(usize, SocketId),
    /// Connection and application have finished.
    Remove,
}

/// The recording of the hosts.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub(crate) struct HostRecorder {
    pub collector: Collector,
    pub(super) state: RecordingState,
    pub(super) flows: Vec<FlowEntry>,
    /// Whether any of the following collectors processes individual packets.
    pub(super) each: bool,
    logs: bool,
    captures: bool,
    latency: bool,
    deliveries: bool,
}

impl HostRecorder {
    pub fn new(collector: Collector) -> HostRecorder {
        let collect = *collector.collect();
        HostRecorder {
            collector,
            state: RecordingState::default(),
            flows: Vec::new(),
            each: collect.events || collect.packets || collect.latency || collect.deliveries,
            logs: collect.events,
            captures: collect.packets,
            latency: collect.latency,
            deliveries: collect.deliveries,
        }
    }

    /// Whether a collector needs the times at which packets were sent.
    pub fn wants_send_times(&self) -> bool {
        self.latency || self.deliveries
    }

    /// Records a segment before the stack processes it.
    pub(super) fn before(&mut self, conn: &HostEndpoint, packet: &Packet, now: Time) {
        if (self.latency || self.deliveries) && packet.segment.len > 0 {
            self.delivered(conn, packet, now);
        }
        if self.captures {
            self.capture(conn, packet.src, now, &packet.segment, packet.ecn);
        }
    }

    /// Records the effects after the stack processed a segment.
    pub(super) fn after(&mut self, conn: &mut HostEndpoint, now: Time) {
        if self.latency
            && let Some(rtt) = conn.tcp.take_rtt()
        {
            self.collector.rtt(conn.out, now, rtt);
        }
    }

    #[inline]
    fn delivered(&mut self, conn: &HostEndpoint, packet: &Packet, now: Time) {
        let delivery = Delivery {
            at: now,
            flow: conn.into.0,
            wire_bytes: packet.size_u32(),
            bytes: packet.segment.len,
            one_way: now.since(packet.created),
            ce: packet.ecn == Ecn::Ce,
        };
        self.collector.arrived(conn.into, delivery);
    }

    /// Captures a segment between stack and NIC; `src` sent it.
    #[cold]
    fn capture(&mut self, conn: &HostEndpoint, src: HostId, now: Time, segment: &Segment, ecn: Ecn) {
        let way = (conn.route.flow, src);
        self.state.capture(&mut self.collector, &self.flows, now, conn.host, way, segment, ecn);
    }

    /// As [`HostRecorder::capture`], at a host with a real stack, if packets are captured.
    pub(super) fn captured(
        &mut self,
        host: usize,
        way: (FlowLabel, HostId),
        now: Time,
        segment: &Segment,
        ecn: Ecn,
    ) {
        if self.captures {
            self.state.capture(&mut self.collector, &self.flows, now, host, way, segment, ecn);
        }
    }

    /// An application made a call that took `taken` bytes, or has none (`shutdown`). `asked`: the bytes of the whole call, if these are
    /// fewer.
    #[inline]
    pub(super) fn application(
        &mut self,
        conn: &HostEndpoint,
        now: Time,
        call: AppCall,
        taken: Option<Bytes>,
        asked: Option<Bytes>,
    ) {
        if self.logs {
            self.log_application(conn, now, call, taken, asked);
        }
    }

    #[cold]
    fn log_application(
        &mut self,
        conn: &HostEndpoint,
        now: Time,
        call: AppCall,
        taken: Option<Bytes>,
        asked: Option<Bytes>,
    ) {
        let host = u32::try_from(conn.host).expect("few hosts");
        let event = EventRow::new(now, host, Some(conn.out.0), EventKind::App);
        let (why, value) = (Reason::Borrowed(call.name()), taken.map(Bytes::get));
        self.collector.event(EventRow { why, value, asked, ..event });
    }

    #[cold]
    fn log(&mut self, conn: &mut HostEndpoint) {
        let (host, out) = (u32::try_from(conn.host).expect("few hosts"), conn.out.0);
        for entry in conn.tcp.drain_log() {
            self.collector.event(event(&entry, host, out));
        }
    }
}

/// Completes an input: sends pending segments, reads on behalf of an application that only reads, and sets the timer
/// unless an application event is pending.
#[expect(clippy::inline_always, reason = "once for each packet")]
#[inline(always)]
pub(super) fn serve(
    conn: &mut HostEndpoint,
    net: &mut Core,
    lines: &mut [Option<HostLine>],
    recorder: &mut HostRecorder,
) -> NextAction {
    transmit(conn, net, lines, recorder);
    if conn.only_reads {
        let n = conn.tcp.readable();
        if !n.is_zero() {
            let _ = conn.tcp.read(net.now(), n);
            count(&mut conn.tally.read_bytes, n.get());
            recorder.application(conn, net.now(), AppCall::Read, Some(n), None);
            transmit(conn, net, lines, recorder);
        }
    }
    if let Some(slot) = conn.slot
        && conn.has_pending_event()
    {
        return NextAction::Tell(conn.host, slot);
    }
    conn.arm(net);
    if conn.is_over() { NextAction::Remove } else { NextAction::Nothing }
}

/// Sends the pending segments of the connection.
#[expect(clippy::inline_always, reason = "once for each packet")]
#[inline(always)]
pub(super) fn transmit(
    conn: &mut HostEndpoint,
    net: &mut Core,
    lines: &mut [Option<HostLine>],
    recorder: &mut HostRecorder,
) {
    if conn.tcp.may_transmit() {
        if conn.tcp.may_only_acknowledge() {
            acknowledge(conn, net, lines, recorder);
        } else {
            send(conn, net, lines, recorder);
        }
    }
    if recorder.each && recorder.logs {
        recorder.log(conn);
    }
}

/// [`send`] where nothing but a pure ACK can be due. No queue delays it.
#[inline(never)]
fn acknowledge(
    conn: &mut HostEndpoint,
    net: &mut Core,
    lines: &mut [Option<HostLine>],
    recorder: &mut HostRecorder,
) {
    if let Some(sending) = conn.tcp.acknowledge_into(net.now(), net.draft()) {
        put(conn, net, lines, recorder, sending);
    }
}

fn send(
    conn: &mut HostEndpoint,
    net: &mut Core,
    lines: &mut [Option<HostLine>],
    recorder: &mut HostRecorder,
) {
    let now = net.now();
    let limited = conn.small_queues != SmallQueues::Off;
    let mut sent = false;
    while conn.tcp.may_transmit() {
        if !limited && let Some(mut burst) = conn.tcp.begin_burst(now) {
            while burst.has_next() {
                let sending = conn.tcp.next_of_burst(now, &mut burst, net.draft());
                put(conn, net, lines, recorder, sending);
            }
            conn.tcp.end_burst(now, &burst);
            continue;
        }
        // A full queue delays data, never pure ACKs.
        let room = !limited || host_has_room(conn, now, sent);
        let draft = net.draft();
        let sending =
            if room { conn.tcp.transmit_into(now, draft) } else { conn.tcp.control_into(now, draft) };
        let Some(sending) = sending else { break };
        sent |= put(conn, net, lines, recorder, sending);
    }
}

/// Passes the segment of the draft to the network. Returns whether data wait for the line of the host now.
#[expect(clippy::inline_always, reason = "once for each packet, from two places")]
#[inline(always)]
fn put(
    conn: &mut HostEndpoint,
    net: &mut Core,
    lines: &mut [Option<HostLine>],
    recorder: &mut HostRecorder,
    Sending { ecn, mss, header, len }: Sending,
) -> bool {
    let now = net.now();
    if recorder.each && recorder.captures {
        recorder.capture(conn, conn.route.src, now, net.draft(), ecn);
    }
    conn.route.accecn = conn.tcp.counts_marks();
    let handle = net.send_draft(&conn.route, ecn, mss, header);
    if len > 0 {
        count(&mut conn.tally.sent_packets, u64::from(handle.segs));
        count(&mut conn.tally.sent_bytes, u64::from(len));
    } else {
        count(&mut conn.tally.acks_sent, 1);
    }
    let mut waits = false;
    if let Some((waiting, overhead)) = &mut conn.waiting
        && let Some(line) = &mut lines[conn.host]
    {
        let packet =
            QueuedPacket { size: handle.size, len, segs: u32::from(handle.segs), overhead: *overhead };
        line.enqueue(now, packet, waiting);
        if len > 0 {
            conn.last_sent = len;
            waits = true;
        }
    }
    if conn.route.notify {
        conn.queued += u64::from(handle.size);
        if len > 0 {
            conn.last_sent = handle.size;
        }
    }
    waits
}

/// Adds the counters since the last call to the recording; `at` lies in the same interval of its series.
pub(super) fn flush_tally(collector: &mut Collector, conn: &mut HostEndpoint, at: Time) {
    let t = std::mem::take(&mut conn.tally);
    if t.sent_packets + t.acks_sent > 0 {
        let (sent_packets, sent_bytes, acks_sent) = (t.sent_packets, t.sent_bytes, t.acks_sent);
        let sent = FlowCounters { sent_packets, sent_bytes, acks_sent, ..FlowCounters::default() };
        collector.add(conn.out, at, &sent);
    }
    if t.delivered_packets + t.read_bytes > 0 {
        collector.add(conn.into, at, &FlowCounters { sent_packets: 0, sent_bytes: 0, acks_sent: 0, ..t });
    }
}

/// Memory that the kernel accounts for a packet in addition to its bytes (`truesize` of an empty
/// `sk_stream_alloc_skb`).
const OVERHEAD: u64 = 1280;

/// Whether data may join what the connection has in the queues of its host; `sent`: some did at this time.
#[inline(never)]
fn host_has_room(conn: &mut HostEndpoint, now: Time, sent: bool) -> bool {
    match conn.small_queues {
        SmallQueues::Profile | SmallQueues::Off => true,
        SmallQueues::Line => line_has_room(conn, now, sent),
        SmallQueues::Bytes(bytes) => goes_on(conn, now, sent, conn.queued < bytes.get()),
        SmallQueues::Auto => {
            let limit = auto_limit(&conn.tcp, u64::from(conn.last_sent));
            goes_on(conn, now, sent, conn.queued <= limit)
        }
    }
}

/// Whether the connection may go on; `room`: more data may wait in the queues of the host. If it has data that must wait, its transmission
/// ends: it sets the timer of probes, for example.
fn goes_on(conn: &mut HostEndpoint, now: Time, sent: bool, room: bool) -> bool {
    let held = !room && conn.tcp.may_be_held(now);
    if held {
        conn.tcp.hold(now, sent);
    }
    !held
}

/// [`Connection::small_queue_limit`] in IP bytes, for packets of the size of the last one.
fn auto_limit(tcp: &Connection, last: u64) -> u64 {
    let memory = last + OVERHEAD;
    match tcp.small_queue_limit(last, memory) {
        u64::MAX => u64::MAX,
        limit => limit * last / memory,
    }
}

/// Whether data may join what waits for the line of the host; `sent`: some did at this time. If not, the connection sends again when
/// a packet has left (`tcp_tsq_write`).
fn line_has_room(conn: &mut HostEndpoint, now: Time, sent: bool) -> bool {
    let Some((waiting, overhead)) = &mut conn.waiting else { return true };
    let (memory, last) = (waiting.memory(now), u64::from(conn.last_sent));
    // The kernel's counter begins at 1.
    if memory < 2 * (last + *overhead) || !conn.tcp.may_be_held(now) {
        return true;
    }
    let limit = conn.tcp.small_queue_limit(last, last + *overhead);
    if memory < limit || (conn.tcp.owes_retransmission() && memory < limit.saturating_mul(2)) {
        return true;
    }
    conn.leaves_at = waiting.next().unwrap_or(Time::MAX);
    conn.tcp.hold(now, sent);
    false
}
