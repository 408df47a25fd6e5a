//! The collector of a run.
//!
//! The functions below are called once or twice for each packet. They add to counters of the flow or device, compare
//! the time with the end of the current interval, and append a row when an interval ends. They do not allocate
//! memory, except for logs that grow.

use crate::event::EventRow;
use crate::histogram::Histogram;
use crate::log::EventLog;
use crate::metrics::BACKGROUND;
use crate::recording::{
    CapturePoint, Completion, Delivery, Flow, FlowCounters, Latency, LatencyKind, PacketRecord, Recording,
};
use crate::rows::{self, IntervalGauges, IntervalSums};
use crate::series::Series;
use tcpassay_units::{Dur, Time};

/// The data to collect. The default collects counters only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each a row of the command line")]
pub struct CollectOptions {
    /// Interval of time series.
    pub series: Option<Dur>,
    /// Distributions of one-way latency, RTT and queue delay.
    pub latency: bool,
    /// The delivery of each packet, for series at any interval.
    pub deliveries: bool,
    /// The event log.
    pub events: bool,
    /// Captured packets.
    pub packets: bool,
    /// Latency distributions exclude samples measured within this time after the start of the first flow of the test.
    pub warmup: Dur,
    /// Packets are not counted: the recording has no packet counters ([`FlowCounters::unseen`]).
    pub unseen: bool,
}

/// A flow of the collector: an index of [`Recording::flows`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowId(pub u32);

/// A capture point of the collector: an index of [`Recording::interfaces`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InterfaceIndex(pub u32);

/// Collects the data of a run; see the module.
#[derive(Clone, Debug)]
pub struct Collector {
    collect: CollectOptions,
    flows: Vec<FlowCollector>,
    interfaces: Vec<CapturePoint>,
    /// RTT and one-way latency of each of the first [`OWN_LATENCY`] flows, when latency is collected, and of all
    /// others together. They are stored separately from the flows, so that counting a packet accesses them directly.
    own_latency: Vec<[Histogram; 2]>,
    latency: [Histogram; 2],
    /// Latency of background traffic beyond the first flows, which is not part of the distribution `all`.
    background: [Histogram; 2],
    /// Start of latency collection; unknown until a flow of the test was opened.
    warm_at: Time,
    deliveries: Vec<Delivery>,
    completions: Vec<Completion>,
    events: EventLog,
    packets: Vec<PacketRecord>,
}

#[derive(Clone, Debug)]
struct FlowCollector {
    info: Flow,
    sums: IntervalSums<4>,
    gauges: IntervalGauges,
}

/// Flows beyond this number share one distribution, because each has two of up to 150 KB.
const OWN_LATENCY: usize = 64;
const RTT: usize = 0;
const ONE_WAY: usize = 1;

/// The state of a sender at one time. A value that the substrate does not provide is absent.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SenderSample {
    /// Congestion window in bytes.
    pub cwnd: Option<f64>,
    /// Slow-start threshold in bytes; absent before the first congestion.
    pub ssthresh: Option<f64>,
    /// Bytes in flight.
    pub flight: Option<f64>,
    /// Smoothed round-trip time in nanoseconds.
    pub srtt: Option<f64>,
    /// Retransmission timeout in nanoseconds.
    pub rto: Option<f64>,
    /// DCTCP's alpha.
    pub alpha: Option<f64>,
    /// Pacing rate in bit/s.
    pub pacing: Option<f64>,
}

impl SenderSample {
    /// In the order of [`rows::GAUGES`]; NaN is absent.
    fn fields(&self) -> [f64; 7] {
        [self.cwnd, self.ssthresh, self.flight, self.srtt, self.rto, self.alpha, self.pacing]
            .map(|field| field.unwrap_or(f64::NAN))
    }
}

impl Collector {
    /// Creates a collector. Panics when the interval of the series is zero.
    pub fn new(collect: CollectOptions) -> Collector {
        assert!(collect.series != Some(Dur::ZERO), "a series needs an interval");
        Collector {
            collect,
            flows: Vec::new(),
            interfaces: Vec::new(),
            own_latency: Vec::new(),
            latency: Default::default(),
            background: Default::default(),
            warm_at: Time::MAX,
            deliveries: Vec::new(),
            completions: Vec::new(),
            events: EventLog::default(),
            packets: Vec::new(),
        }
    }

    /// The collected data.
    pub fn collect(&self) -> &CollectOptions {
        &self.collect
    }

    /// Adds a flow. Its counters and statistics may be filled later through [`Collector::flow_mut`].
    pub fn add_flow(&mut self, info: Flow) -> FlowId {
        let id = FlowId(u32::try_from(self.flows.len()).expect("fewer than 2^32 flows"));
        if info.class != BACKGROUND {
            self.warm_at = self.warm_at.min(info.start.saturating_add(self.collect.warmup));
        }
        if self.collect.latency && self.flows.len() < OWN_LATENCY {
            self.own_latency.push(Default::default());
        }
        self.flows.push(FlowCollector {
            info,
            sums: IntervalSums::new(self.collect.series),
            gauges: IntervalGauges::default(),
        });
        id
    }

    /// Adds a capture point.
    pub fn add_interface(&mut self, interface: CapturePoint) -> InterfaceIndex {
        let id = InterfaceIndex(u32::try_from(self.interfaces.len()).expect("fewer than 2^32 interfaces"));
        self.interfaces.push(interface);
        id
    }

    /// The row of a flow.
    pub fn flow_mut(&mut self, flow: FlowId) -> &mut Flow {
        &mut self.flows[flow.0 as usize].info
    }

    /// A packet left the sending host; `bytes` is its payload.
    #[inline]
    pub fn sent(&mut self, flow: FlowId, bytes: u32, retransmission: bool) {
        let counters = &mut self.flows[flow.0 as usize].info.counters;
        if bytes == 0 {
            counters.acks_sent += 1;
            return;
        }
        counters.sent_packets += 1;
        counters.sent_bytes += u64::from(bytes);
        if retransmission {
            counters.retransmitted_packets += 1;
            counters.retransmitted_bytes += u64::from(bytes);
        }
    }

    /// A packet with payload arrived at the receiving host, before its stack processes it.
    #[inline]
    pub fn delivered(&mut self, flow: FlowId, packet: Delivery) {
        let more = FlowCounters {
            delivered_packets: 1,
            delivered_bytes: u64::from(packet.bytes),
            delivered_wire_bytes: u64::from(packet.wire_bytes),
            ce_packets: u64::from(packet.ce),
            ..FlowCounters::default()
        };
        self.add(flow, packet.at, &more);
        self.arrived(flow, packet);
    }

    /// Adds the counters since the last call, for callers that count themselves. `at` is their latest time; all
    /// belong to one interval of the series. [`Collector::arrived`] must still be called for each packet.
    pub fn add(&mut self, flow: FlowId, at: Time, more: &FlowCounters) {
        let tap = &mut self.flows[flow.0 as usize];
        tap.info.counters.add(more);
        if self.collect.series.is_some() && more.delivered_bytes + more.read_bytes > 0 {
            let sums = tap.sums.at(at);
            sums[0] += more.delivered_wire_bytes;
            sums[1] += more.delivered_bytes;
            sums[2] += more.read_bytes;
            sums[3] += more.ce_packets;
        }
    }

    /// Records the latency of a packet that arrived at the receiving host, and its delivery, when these are
    /// collected.
    #[inline]
    pub fn arrived(&mut self, flow: FlowId, packet: Delivery) {
        if self.collect.latency && packet.at >= self.warm_at {
            self.latency_of(flow)[ONE_WAY].record(packet.one_way);
        }
        if self.collect.deliveries {
            self.deliveries.push(Delivery { flow: flow.0, ..packet });
        }
    }

    /// The application read `bytes`.
    #[inline]
    pub fn read(&mut self, flow: FlowId, at: Time, bytes: u64) {
        let tap = &mut self.flows[flow.0 as usize];
        tap.info.counters.read_bytes += bytes;
        if self.collect.series.is_some() {
            tap.sums.at(at)[2] += bytes;
        }
    }

    /// The sender measured a round-trip time.
    #[inline]
    pub fn rtt(&mut self, flow: FlowId, at: Time, rtt: Dur) {
        if self.collect.latency && at >= self.warm_at {
            self.latency_of(flow)[RTT].record(rtt);
        }
    }

    #[inline]
    fn latency_of(&mut self, flow: FlowId) -> &mut [Histogram; 2] {
        let place = flow.0 as usize;
        if place < self.own_latency.len() {
            return &mut self.own_latency[place];
        }
        if self.flows[place].info.class == BACKGROUND { &mut self.background } else { &mut self.latency }
    }

    /// The next time at which senders should be sampled: the end of an interval. `None` when no series are collected.
    pub fn next_sample(&self, now: Time) -> Option<Time> {
        let interval = self.collect.series?.as_nanos();
        Some(Time::from_nanos((now.as_nanos() / interval + 1) * interval))
    }

    /// Records the state of a sender as the value of the interval that ends at `at`.
    pub fn sample(&mut self, flow: FlowId, at: Time, sample: SenderSample) {
        let Some(interval) = self.collect.series else { return };
        let ended = (at.as_nanos() / interval.as_nanos()).saturating_sub(1);
        self.flows[flow.0 as usize].gauges.put(ended, sample.fields());
    }

    /// Whether events are collected. Callers check this before they create one.
    #[inline]
    pub fn wants_events(&self) -> bool {
        self.collect.events
    }

    /// Whether packets are collected. Callers check this before they create one.
    #[inline]
    pub fn wants_packets(&self) -> bool {
        self.collect.packets
    }

    /// One row of the event log.
    pub fn event(&mut self, event: EventRow) {
        if self.collect.events {
            self.events.push(event);
        }
    }

    /// One captured packet.
    pub fn packet(&mut self, packet: PacketRecord) {
        if self.collect.packets {
            self.packets.push(packet);
        }
    }

    /// A flow, request or round ended.
    pub fn completed(&mut self, completion: Completion) {
        self.completions.push(completion);
    }

    /// The recording of a run that ended at `end`. The caller fills in header, environment and hosts.
    pub fn finish(self, end: Time) -> Recording {
        let mut recording = Recording {
            interfaces: self.interfaces,
            deliveries: self.deliveries,
            completions: self.completions,
            events: self.events,
            packets: self.packets,
            ..Recording::default()
        };
        recording.header.duration = end.since(Time::ZERO);
        let mut all = self.latency;
        let mut own_latency = self.own_latency.into_iter();
        let mut latencies = Vec::new();
        let mut entities = Vec::new();
        let mut keep = |kind, entity: &str, histogram: Histogram| {
            if histogram.count() > 0 {
                latencies.push(Latency { kind, entity: entity.to_owned(), histogram });
            }
        };
        for tap in self.flows {
            if let Some([rtt, one_way]) = own_latency.next() {
                if tap.info.class != BACKGROUND {
                    all[RTT].add(&rtt);
                    all[ONE_WAY].add(&one_way);
                }
                keep(LatencyKind::Rtt, &tap.info.name, rtt);
                keep(LatencyKind::OneWay, &tap.info.name, one_way);
            }
            let last = tap.info.end.unwrap_or(end).min(end);
            let mut series = rows::flow_series(&tap.info.name, tap.sums, &tap.gauges, last);
            let mut info = tap.info;
            info.counters.unseen = self.collect.unseen;
            if let (Some(series), true) = (&mut series, self.collect.unseen) {
                series.columns.retain(|column| !rows::OF_PACKETS.contains(&column.name.as_str()));
            }
            entities.extend(series);
            recording.flows.push(info);
        }
        let [rtt, one_way] = all;
        keep(LatencyKind::Rtt, "all", rtt);
        keep(LatencyKind::OneWay, "all", one_way);
        recording.latencies = latencies;
        for entity in &mut entities {
            entity.columns.sort_by(|a, b| a.name.cmp(&b.name));
        }
        recording.series = self.collect.series.map(|interval| Series { interval, entities });
        recording
    }
}
