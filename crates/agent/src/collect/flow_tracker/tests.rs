use super::*;
use std::net::SocketAddr;
use tcpassay_measure::pcapng::host_address;
use tcpassay_measure::{CollectOptions, Flow, TcpSummary};
use tcpassay_units::Dur;
use tcpassay_wire::codec::DecodedPacket;
use tcpassay_wire::{Options, Timestamps};

const START: u64 = 1_000_000;
const CLIENT: End = (0, 40_000);
const SERVER: End = (1, 5001);

/// The two flows of a connection between the hosts 0 and 1.
pub fn connection(collector: &mut Collector, mss: u64) -> [FlowId; 2] {
    [(0, 1), (1, 0)].map(|(from, to)| {
        collector.add_flow(Flow {
            name: format!("flow.{from}"),
            connection: 0,
            from,
            to,
            class: String::new(),
            cc: "reno".to_owned(),
            mss: Bytes::new(mss),
            start: Time::ZERO,
            end: None,
            counters: FlowCounters::default(),
            tcp: TcpSummary::default(),
        })
    })
}

struct Run {
    tracker: FlowTracker,
    collector: Collector,
    flows: [FlowId; 2],
}

impl Run {
    /// A connection from host 0 to host 1 after its handshake, with initial sequence numbers of 100 and 900 and an MSS of 1000.
    fn new() -> Run {
        let options = CollectOptions { events: true, latency: true, ..CollectOptions::default() };
        let mut collector = Collector::new(options);
        let flows = connection(&mut collector, 1000);
        let mut tracker = FlowTracker::new(START);
        tracker.open(CLIENT, SERVER, flows);
        let mut run = Run { tracker, collector, flows };
        let handshake = Options { mss: Some(1000), ..Options::default() };
        let syn = |flags, seq, ack| Segment { flags, options: handshake, ..segment(seq, ack, 0) };
        run.pass(0, 1, CLIENT, SERVER, syn(Flags::SYN, 100, 0));
        run.pass(0, 2, SERVER, CLIENT, syn(Flags::SYN | Flags::ACK, 900, 101));
        run
    }

    /// A packet that leaves a host `us` microseconds after the start and arrives after 10 us.
    fn pass(&mut self, us: u64, id: u16, from: End, to: End, segment: Segment) {
        self.leave(us, id, from, to, segment);
        self.arrive(us + 10, id, from, to, segment);
    }

    fn leave(&mut self, us: u64, id: u16, from: End, to: End, segment: Segment) {
        self.at_tap(us, id, (from, to), segment, from.0, true);
    }

    fn arrive(&mut self, us: u64, id: u16, from: End, to: End, segment: Segment) {
        self.at_tap(us, id, (from, to), segment, to.0, false);
    }

    fn at_tap(&mut self, us: u64, id: u16, (from, to): (End, End), segment: Segment, host: u32, out: bool) {
        let end = |(host, port): End| SocketAddr::new(host_address(host).into(), port);
        let envelope = Envelope { from: end(from), to: end(to), ecn: Ecn::NotEct, id, ttl: 64 };
        let len = segment.len + 40;
        let packet = DecodedPacket { envelope, content: Content::Tcp(segment), checksum_ok: None };
        let seen = CapturedPacket { at: START + us * 1000, tap: 0, len, packet };
        self.tracker.packet(&seen, host, out, &mut self.collector);
    }

    fn counters(&mut self, side: usize) -> FlowCounters {
        self.collector.flow_mut(self.flows[side]).counters
    }
}

fn segment(seq: u32, ack: u32, len: u32) -> Segment {
    Segment { seq: SeqNum::new(seq), ack: SeqNum::new(ack), flags: Flags::ACK, len, ..Segment::default() }
}

#[test]
fn a_super_segment_counts_as_the_packets_that_it_contains() {
    let mut run = Run::new();
    run.pass(100, 7, CLIENT, SERVER, segment(101, 901, 2500));
    let counters = run.counters(0);
    // Three packets of 1000, 1000 and 500 bytes, each with headers of 40 bytes.
    assert_eq!((counters.delivered_packets, counters.delivered_bytes), (3, 2500));
    assert_eq!(counters.delivered_wire_bytes, 2500 + 3 * 40);
}

#[test]
fn bytes_that_were_sent_before_are_a_retransmission_and_new_ones_are_not() {
    let mut run = Run::new();
    run.leave(100, 7, CLIENT, SERVER, segment(101, 901, 1000));
    run.leave(200, 8, CLIENT, SERVER, segment(1101, 901, 1000));
    run.leave(300, 9, CLIENT, SERVER, segment(101, 901, 1000));
    let log = run.collector.finish(Time::ZERO + Dur::from_millis(1)).events;
    let kinds: Vec<EventKind> = log.iter().filter(|e| e.len == Some(1000)).map(|e| e.kind).collect();
    assert_eq!(kinds, [EventKind::Out, EventKind::Out, EventKind::Retransmit]);
}

#[test]
fn sack_blocks_are_rows_behind_their_segment_and_the_echo_or_the_timestamp_is_its_value() {
    let mut run = Run::new();
    for (us, seq) in [(100, 101), (200, 1101), (300, 2101)] {
        run.leave(us, 7, CLIENT, SERVER, segment(seq, 901, 1000));
    }
    let mut ack = segment(901, 101, 0);
    ack.options.timestamps = Some(Timestamps { val: 70, ecr: 60 });
    for (start, end) in [(1101, 2101), (2101, 3101)] {
        ack.options.sack.push(SackBlock { start: SeqNum::new(start), end: SeqNum::new(end) });
    }
    run.pass(400, 3, SERVER, CLIENT, ack);
    let log = run.collector.finish(Time::ZERO + Dur::from_millis(1)).events;
    let rows: Vec<_> = log.iter().skip_while(|e| e.at < Time::ZERO + Dur::from_micros(400)).collect();
    let told: Vec<_> = rows.iter().map(|e| (e.kind, e.host, e.flow, e.seq, e.len, e.value)).collect();
    let block = |host: u32, seq| (EventKind::Sack, host, Some(host), Some(seq), Some(1000), None);
    assert_eq!(
        told,
        [
            (EventKind::Out, 1, Some(1), Some(1), Some(0), Some(60)),
            block(1, 1001),
            block(1, 2001),
            (EventKind::In, 0, Some(0), Some(1), Some(0), Some(70)),
            block(0, 1001),
            block(0, 2001),
        ]
    );
}

#[test]
fn the_end_that_a_server_still_has_keeps_its_flow_until_the_server_answers_the_new_syn() {
    let mut run = Run::new();
    let again = connection(&mut run.collector, 1000);
    run.tracker.open(CLIENT, SERVER, again);
    let syn = |flags, seq, ack| Segment { flags, ..segment(seq, ack, 0) };
    run.pass(100, 3, CLIENT, SERVER, syn(Flags::SYN, 70_000, 0));
    run.pass(200, 4, SERVER, CLIENT, segment(901, 101, 0));
    assert_eq!(run.tracker.flow(SERVER, CLIENT), Some(run.flows[1]));
    run.pass(300, 5, CLIENT, SERVER, syn(Flags::RST, 101, 0));
    run.pass(400, 6, CLIENT, SERVER, syn(Flags::SYN, 70_000, 0));
    run.pass(500, 7, SERVER, CLIENT, syn(Flags::SYN | Flags::ACK, 8000, 70_001));
    assert_eq!(run.tracker.flow(SERVER, CLIENT), Some(again[1]));
    let log = run.collector.finish(Time::ZERO + Dur::from_millis(1)).events;
    let rows = log.iter().skip_while(|e| e.at < Time::ZERO + Dur::from_micros(100));
    let server: Vec<_> = rows.filter(|e| e.host == 1).map(|e| (e.kind, e.flow, e.ack)).collect();
    let (old, new) = (Some(run.flows[1].0), Some(again[1].0));
    assert_eq!(server[1], (EventKind::Out, old, Some(1)));
    assert_eq!(server.last(), Some(&(EventKind::Out, new, Some(1))));
    assert!(server[..4].iter().all(|row| row.1 == old), "{server:?}");
}

#[test]
fn positions_are_those_of_the_sender_behind_a_middlebox_that_changes_sequence_numbers() {
    let mut run = Run::new();
    let flows = connection(&mut run.collector, 1000);
    let client = (0, 40_002);
    run.tracker.open(client, SERVER, flows);
    // The middlebox adds 5000 to the numbers of the client.
    let segment_of = |flags, seq, ack, len| Segment { flags, ..segment(seq, ack, len) };
    run.leave(100, 1, client, SERVER, segment_of(Flags::SYN, 100, 0, 0));
    run.arrive(110, 1, client, SERVER, segment_of(Flags::SYN, 5100, 0, 0));
    run.leave(120, 2, SERVER, client, segment_of(Flags::SYN | Flags::ACK, 900, 5101, 0));
    run.arrive(130, 2, SERVER, client, segment_of(Flags::SYN | Flags::ACK, 900, 101, 0));
    run.leave(140, 3, client, SERVER, segment(101, 901, 1000));
    run.arrive(150, 3, client, SERVER, segment(5101, 901, 1000));
    run.leave(160, 4, SERVER, client, segment(901, 6101, 0));
    run.arrive(170, 4, SERVER, client, segment(901, 1101, 0));
    let log = run.collector.finish(Time::ZERO + Dur::from_millis(1)).events;
    let rows = log.iter().skip_while(|e| e.at < Time::ZERO + Dur::from_micros(140));
    let told: Vec<_> = rows.map(|e| (e.kind, e.host, e.seq, e.ack)).collect();
    assert_eq!(
        told,
        [
            (EventKind::Out, 0, Some(1), Some(1)),
            (EventKind::In, 1, Some(1), Some(1)),
            (EventKind::Out, 1, Some(1), Some(1001)),
            (EventKind::In, 0, Some(1), Some(1001)),
        ]
    );
}

#[test]
fn packets_of_other_connections_and_before_the_start_are_ignored() {
    let mut run = Run::new();
    run.arrive(100, 7, (0, 40_001), SERVER, segment(101, 901, 1000));
    assert_eq!(run.counters(0).delivered_packets, 0);
    assert_eq!(run.tracker.flow(SERVER, CLIENT), Some(run.flows[1]));
    assert_eq!(run.tracker.flow((0, 40_001), SERVER), None);
    assert_eq!(run.tracker.mss(run.flows[0]), 1000);
}

#[test]
fn a_machine_without_the_peer_learns_its_numbers_window_and_segment_size_from_the_handshake() {
    let mut run = Run::new();
    run.tracker = FlowTracker::new(START);
    run.tracker.set_local(vec![false, true]);
    run.tracker.open(CLIENT, SERVER, run.flows);
    let options = Options { mss: Some(1000), window_scale: Some(7), ..Options::default() };
    run.arrive(10, 1, CLIENT, SERVER, Segment { flags: Flags::SYN, options, ..segment(100, 0, 0) });
    let flags = Flags::SYN | Flags::ACK;
    run.leave(20, 2, SERVER, CLIENT, Segment { flags, options, ..segment(900, 101, 0) });
    run.arrive(30, 3, CLIENT, SERVER, Segment { window: 500, ..segment(101, 901, 2500) });
    run.leave(40, 4, SERVER, CLIENT, segment(901, 2601, 0));
    let counters = run.counters(0);
    assert_eq!((counters.delivered_packets, counters.sent_packets), (3, 0));
    let log = run.collector.finish(Time::ZERO + Dur::from_millis(1)).events;
    let later = log.iter().skip_while(|e| e.at < Time::ZERO + Dur::from_micros(30));
    let told: Vec<_> = later.map(|e| (e.kind, e.seq, e.ack, e.window)).collect();
    let window = |bytes| Some(Bytes::new(bytes));
    assert_eq!(
        told,
        [(EventKind::In, Some(1), Some(1), window(64_000)), (EventKind::Out, Some(1), Some(2501), window(0)),]
    );
}

#[test]
fn positions_of_a_peer_on_another_machine_go_on_beyond_the_sequence_space() {
    let mut run = Run::new();
    run.tracker = FlowTracker::new(START);
    run.tracker.set_local(vec![false, true]);
    run.tracker.open(CLIENT, SERVER, run.flows);
    run.arrive(10, 1, CLIENT, SERVER, Segment { flags: Flags::SYN, ..segment(100, 0, 0) });
    let flags = Flags::SYN | Flags::ACK;
    run.leave(20, 2, SERVER, CLIENT, Segment { flags, ..segment(900, 101, 0) });
    // ACKs of 1.5 GB each: the third one is beyond 2^32.
    for n in 1..=3_u32 {
        let ack = 101_u32.wrapping_add(n.wrapping_mul(1_500_000_000));
        run.leave(20 + u64::from(n), 3, SERVER, CLIENT, segment(901, ack, 0));
    }
    run.arrive(30, 4, CLIENT, SERVER, segment(101_u32.wrapping_add(205_032_704), 901, 1000));
    let log = run.collector.finish(Time::ZERO + Dur::from_millis(1)).events;
    let later = log.iter().skip_while(|e| e.at < Time::ZERO + Dur::from_micros(20));
    let acks: Vec<_> = later.filter(|e| e.kind == EventKind::Out).filter_map(|e| e.ack).collect();
    assert_eq!(acks, [1, 1_500_000_001, 3_000_000_001, 4_500_000_001]);
    let arrived: Vec<_> = log.iter().filter(|e| e.len == Some(1000)).map(|e| e.seq).collect();
    assert_eq!(arrived, [Some(4_500_000_001)]);
}

#[test]
fn the_time_from_a_segment_to_its_ack_is_a_sample() {
    let mut run = Run::new();
    run.pass(100, 7, CLIENT, SERVER, segment(101, 901, 1000));
    run.pass(150, 3, SERVER, CLIENT, segment(901, 1101, 0));
    let recording = run.collector.finish(Time::ZERO + Dur::from_millis(1));
    let log = recording.events;
    // The ACK arrives 60 us after the segment left; positions count from the initial sequence number.
    let ack = log.iter().find(|e| e.kind == EventKind::In && e.ack == Some(1001)).unwrap();
    assert_eq!((ack.at, ack.seq), (Time::ZERO + Dur::from_micros(160), Some(1)));
}
