//! A recording with at least one value of each kind of data.

use std::borrow::Cow;
use std::path::PathBuf;
use tcpassay_measure::{
    CapturePoint, CollectOptions, Collector, Completion, CompletionKind, Delivery, Device, DeviceCounters,
    DeviceSampler, EnvironmentProperty, EventKind, EventRow, Flow, FlowCounters, Histogram, Latency,
    LatencyKind, PacketRecord, Recording, SenderSample, TcpSummary, Triple,
};
use tcpassay_units::{Bytes, Dur, Rate, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Layout, Options, Segment, Timestamps};

pub const fn us(n: u64) -> Time {
    Time::from_nanos(n * 1_000)
}

pub fn flow(connection: u32) -> Flow {
    Flow {
        name: format!("flow.{connection}"),
        connection,
        from: 0,
        to: 1,
        class: "bulk".to_owned(),
        cc: "dctcp".to_owned(),
        mss: Bytes::new(1448),
        start: Time::ZERO,
        end: None,
        counters: FlowCounters::default(),
        tcp: TcpSummary::default(),
    }
}

pub fn device(name: &str, rate: Rate) -> Device {
    Device {
        name: name.to_owned(),
        kind: "fifo".to_owned(),
        rate: Some(rate),
        counters: DeviceCounters::default(),
    }
}

pub fn captured(at: Time, segment: Option<Segment>) -> PacketRecord {
    PacketRecord {
        at,
        interface: 0,
        from: 0,
        to: 300,
        from_port: 40_000,
        to_port: 5001,
        ecn: Ecn::Ect0,
        id: 7,
        layout: Layout::Linux,
        note: None,
        segment,
        datagram_len: 0,
    }
}

/// Returns a recording with a few rows of each kind of data.
pub fn recording() -> Recording {
    let collect = CollectOptions {
        series: Some(Dur::from_millis(1)),
        latency: true,
        deliveries: true,
        events: true,
        packets: true,
        ..CollectOptions::default()
    };
    let mut collector = Collector::new(collect);
    let (mut sampler, mut waiting) = (DeviceSampler::default(), Histogram::default());
    let flow = collector.add_flow(flow(0));
    let nic = collector.add_interface(CapturePoint {
        name: "sender0.nic".to_owned(),
        description: "as the sender's NIC sends them".to_owned(),
    });
    for n in 0..5u64 {
        let at = us(500 + n * 1_000);
        collector.sent(flow, 1448, n == 3);
        sampler.sample([1514 * (n + 1), n / 4, n / 4], 1514 * (n + 1));
        waiting.record(Dur::from_micros(12 * n));
        let one_way = Dur::from_micros(50 + n);
        let ce = n == 4;
        let delivery = Delivery { at, flow: 0, wire_bytes: 1514, bytes: 1448, one_way, ce };
        collector.delivered(flow, delivery);
        collector.read(flow, at, 1448);
        collector.rtt(flow, at, Dur::from_micros(100 + n));
        let alpha = (n > 2).then_some(0.25);
        let sample = SenderSample { cwnd: Some(14_480.0), alpha, ..SenderSample::default() };
        collector.sample(flow, us((n + 1) * 1_000), sample);
    }
    let mut event = EventRow::new(us(1), 0, Some(0), EventKind::Out);
    event.seq = Some(0);
    event.flags = Some(Flags::SYN);
    event.len = Some(0);
    collector.event(event);
    let mut event = EventRow::new(us(200_000), 0, Some(0), EventKind::TimerFire);
    event.why = Cow::Borrowed("retransmit");
    event.cwnd = Some(Bytes::new(1448));
    event.ssthresh = Some(Bytes::new(2896));
    event.rto = Some(Dur::from_millis(200));
    event.ce = true;
    collector.event(event);
    collector.event(EventRow::new(us(200_001), 1, None, EventKind::Drop));
    let syn = Segment {
        seq: SeqNum::new(u32::MAX),
        flags: Flags::SYN,
        window: 65_535,
        options: Options {
            mss: Some(1460),
            timestamps: Some(Timestamps { val: 1, ecr: 0 }),
            ..Options::default()
        },
        ..Segment::default()
    };
    let data = Segment { seq: SeqNum::new(0), ack: SeqNum::new(9), flags: Flags::ACK, len: 1448, ..syn };
    assert_eq!(nic.0, 0);
    collector.packet(captured(us(1), Some(syn)));
    let note = Some(Cow::Borrowed("dropped: full"));
    let marked = captured(Time::from_nanos(1_234_567_891), Some(data));
    collector.packet(PacketRecord { ecn: Ecn::Ce, note, ..marked });
    collector.packet(PacketRecord { datagram_len: 1000, ..captured(us(2_000_000), None) });
    collector.completed(Completion {
        kind: CompletionKind::Rpc,
        class: "rpc 10KB/100B".to_owned(),
        client: 0,
        server: 1,
        connection: 0,
        request: Bytes::new(10_000),
        response: Bytes::new(100),
        start: us(10),
        end: us(260),
        ideal: Some(Dur::from_micros(125)),
        ok: true,
    });
    let mut recording = collector.finish(us(5_000));
    add_bottleneck(&mut recording, sampler, waiting);
    recording.header.version.push_str("0.1.0");
    recording.header.substrate.push_str("model");
    recording.header.seed = 7;
    recording.header.complete = true;
    recording.header.bottleneck = Some(0);
    recording.header.case = vec![Triple {
        entity: "link".to_owned(),
        parameter: "link.rate".to_owned(),
        value: "1Gbit".to_owned(),
    }];
    recording.environment = vec![EnvironmentProperty {
        entity: "link".to_owned(),
        property: "rate".to_owned(),
        unit: "bit/s".to_owned(),
        asked: Some(1e9),
        measured: None,
    }];
    recording.hosts = vec!["sender0".to_owned(), "receiver0".to_owned()];
    recording.flows[0].tcp = TcpSummary { timeouts: Some(1), alpha: Some(0.125), ..TcpSummary::default() };
    recording.counters.entry("sender0".to_owned()).or_default().insert("acks".to_owned(), 3);
    recording
}

fn add_bottleneck(recording: &mut Recording, sampler: DeviceSampler, waiting: Histogram) {
    let counters = DeviceCounters {
        packets: 5,
        bytes: 7_570,
        drops: 1,
        dropped_bytes: 1_514,
        marks: 1,
        max_backlog_bytes: 7_570,
    };
    recording.devices = vec![Device { counters, ..device("queue.bottleneck", Rate::from_gbit(1)) }];
    let entity = "queue.bottleneck".to_owned();
    recording.latencies.push(Latency { kind: LatencyKind::QueueDelay, entity, histogram: waiting });
    let series = recording.series.as_mut().expect("series");
    let mut bottleneck = sampler.into_series("queue.bottleneck");
    // In the order in which a stored recording has them.
    bottleneck.columns.sort_by(|a, b| a.name.cmp(&b.name));
    series.entities.push(bottleneck);
}

/// An empty folder for one test.
pub fn folder(test: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("the target folder can be written");
    dir
}
