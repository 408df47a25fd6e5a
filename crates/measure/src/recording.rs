//! The recording of one run.

use crate::event::Reason;
use crate::histogram::Histogram;
use crate::log::EventLog;
use crate::serial::{bytes, dur, optional_rate, optional_time, time};
use crate::series::Series;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};
use tcpassay_states::SendLimit;
use tcpassay_units::{Bytes, Dur, Rate, Time};
use tcpassay_wire::{Ecn, Layout, Segment};

/// The recording of one run of one case.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Recording {
    /// The case, the software versions, and how the run ended.
    pub header: Header,
    /// Requested and measured properties of the path.
    pub environment: Vec<EnvironmentProperty>,
    /// Names of the hosts; other tables refer to hosts by index.
    pub hosts: Vec<String>,
    /// The directions of all connections; other tables refer to flows by index.
    pub flows: Vec<Flow>,
    /// Links, queues and shapers; other tables refer to devices by index.
    pub devices: Vec<Device>,
    /// Further counters: entity, name, value.
    pub counters: BTreeMap<String, BTreeMap<String, u64>>,
    /// Distributions of latency (`latency.parquet`).
    #[serde(skip)]
    pub latencies: Vec<Latency>,
    /// Capture points of [`Recording::packets`].
    pub interfaces: Vec<CapturePoint>,
    /// Time series (`series.parquet`).
    #[serde(skip)]
    pub series: Option<Series>,
    /// The arrival of each packet at its receiver (`deliveries.parquet`), when collected.
    #[serde(skip)]
    pub deliveries: Vec<Delivery>,
    /// Flows, requests and barrier rounds that ended (`completions.parquet`).
    #[serde(skip)]
    pub completions: Vec<Completion>,
    /// The event log (`events.parquet`).
    #[serde(skip)]
    pub events: EventLog,
    /// Captured packets (`packets.pcapng`), in order of time.
    #[serde(skip)]
    pub packets: Vec<PacketRecord>,
}

impl Recording {
    /// Whether the model was the TCP of every host: its log has its decisions, and its timers are exact.
    pub fn is_of_model(&self) -> bool {
        self.header.substrate == "model" && self.header.stacks.is_empty()
    }

    /// Whether the TCP of a host (an index of [`Recording::hosts`]) is neither the model nor Linux, or that of a capture, so that only
    /// what every TCP does is known of it.
    #[must_use]
    pub fn has_unknown_tcp(&self, host: u32) -> bool {
        self.header.substrate == "capture" || self.header.stacks.iter().any(|stack| stack.host == host)
    }
}

/// The case, the software versions, and how the run ended.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Header {
    /// Version of tcpassay.
    pub version: String,
    /// `model`, `kernel`, `host`.
    pub substrate: String,
    /// Release of the kernel whose TCP was used; `None` for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The hosts of the model whose TCP is another implementation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackUnderTest>,
    /// The seed of the run.
    pub seed: u64,
    /// The complete case, including parameters with default values.
    pub case: Vec<Triple>,
    /// The command that repeats the run.
    pub replay: Option<String>,
    /// Duration of the run.
    #[serde(rename = "duration_ns", with = "dur")]
    pub duration: Dur,
    /// False when the run was interrupted; the recording then covers only a part of the case.
    pub complete: bool,
    /// The device whose rate is the capacity of the path: an index of [`Recording::devices`].
    pub bottleneck: Option<u32>,
}

/// A host whose TCP is not the model but another implementation (`stack.implementation`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StackUnderTest {
    /// The host: an index of [`Recording::hosts`].
    pub host: u32,
    /// Name of the implementation.
    pub name: String,
    /// Its version, with the features that it was built with.
    pub version: String,
    /// Checksum of the files that the command of a process names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The variables of its connections that it shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shows: Vec<String>,
}

/// One parameter of a case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Triple {
    /// `sender`, `receiver`, `link`, `queue`, `topology`.
    pub entity: String,
    /// The path in the parameter table, as in `stack.cc`.
    pub parameter: String,
    /// The value with its unit, `10ms`.
    pub value: String,
}

/// A property of the environment, requested and measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EnvironmentProperty {
    /// The entity: `link`, `sender.nic`.
    pub entity: String,
    /// The property: `rate`, `rtt`, `loss`, `marks`.
    pub property: String,
    /// Unit of both numbers.
    pub unit: String,
    /// The value that the case requests; `None` when it requests none.
    pub asked: Option<f64>,
    /// The measured value; `None` when it could not be measured.
    pub measured: Option<f64>,
}

/// One direction of a connection.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Flow {
    /// Name as an entity: `flow.3`.
    pub name: String,
    /// Number of the connection, equal for both directions.
    pub connection: u32,
    /// Sending host: an index of [`Recording::hosts`].
    pub from: u32,
    /// Receiving host.
    pub to: u32,
    /// The traffic class: `bulk`, `rpc 10KB/100B`, `background`.
    pub class: String,
    /// Congestion control of the sender.
    pub cc: String,
    /// Maximum segment size.
    #[serde(rename = "mss_bytes", with = "bytes")]
    pub mss: Bytes,
    /// Time at which the connection was opened.
    #[serde(rename = "start_ns", with = "time")]
    pub start: Time,
    /// Time at which the sending application closed its connection, or at which the connection failed; `None` when
    /// neither happened in the run. The actions of TCP after `close` (the FIN, TIME-WAIT) are not included, because
    /// an application cannot observe them.
    #[serde(rename = "end_ns", with = "optional_time")]
    pub end: Option<Time>,
    /// Packet and byte counters.
    pub counters: FlowCounters,
    /// Statistics of the sender at the end.
    pub tcp: TcpSummary,
}

/// Packet and byte counters of one direction of a connection. Bytes on the wire include headers, as the bottleneck
/// counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "WrittenCounters", into = "WrittenCounters")]
pub struct FlowCounters {
    /// Packets were not counted (`collect.taps = false`): all counters except [`FlowCounters::read_bytes`] are
    /// undefined, and null in a file.
    pub unseen: bool,
    /// Packets with payload that left the sending host, after segmentation.
    pub sent_packets: u64,
    /// Their payload.
    pub sent_bytes: u64,
    /// Retransmissions among these packets.
    pub retransmitted_packets: u64,
    /// Their payload.
    pub retransmitted_bytes: u64,
    /// Packets without payload that left the sending host.
    pub acks_sent: u64,
    /// Packets with payload that reached the receiving host.
    pub delivered_packets: u64,
    /// Their payload.
    pub delivered_bytes: u64,
    /// Their length on the wire.
    pub delivered_wire_bytes: u64,
    /// Packets with CE among these.
    pub ce_packets: u64,
    /// Bytes that the application read.
    pub read_bytes: u64,
}

/// [`FlowCounters`] in a file.
#[derive(Serialize, Deserialize)]
struct WrittenCounters {
    sent_packets: Option<u64>,
    sent_bytes: Option<u64>,
    retransmitted_packets: Option<u64>,
    retransmitted_bytes: Option<u64>,
    acks_sent: Option<u64>,
    delivered_packets: Option<u64>,
    delivered_bytes: Option<u64>,
    delivered_wire_bytes: Option<u64>,
    ce_packets: Option<u64>,
    read_bytes: u64,
}

impl From<FlowCounters> for WrittenCounters {
    fn from(c: FlowCounters) -> WrittenCounters {
        let counted = |n: u64| (!c.unseen).then_some(n);
        WrittenCounters {
            sent_packets: counted(c.sent_packets),
            sent_bytes: counted(c.sent_bytes),
            retransmitted_packets: counted(c.retransmitted_packets),
            retransmitted_bytes: counted(c.retransmitted_bytes),
            acks_sent: counted(c.acks_sent),
            delivered_packets: counted(c.delivered_packets),
            delivered_bytes: counted(c.delivered_bytes),
            delivered_wire_bytes: counted(c.delivered_wire_bytes),
            ce_packets: counted(c.ce_packets),
            read_bytes: c.read_bytes,
        }
    }
}

impl From<WrittenCounters> for FlowCounters {
    fn from(w: WrittenCounters) -> FlowCounters {
        FlowCounters {
            unseen: w.sent_packets.is_none(),
            sent_packets: w.sent_packets.unwrap_or(0),
            sent_bytes: w.sent_bytes.unwrap_or(0),
            retransmitted_packets: w.retransmitted_packets.unwrap_or(0),
            retransmitted_bytes: w.retransmitted_bytes.unwrap_or(0),
            acks_sent: w.acks_sent.unwrap_or(0),
            delivered_packets: w.delivered_packets.unwrap_or(0),
            delivered_bytes: w.delivered_bytes.unwrap_or(0),
            delivered_wire_bytes: w.delivered_wire_bytes.unwrap_or(0),
            ce_packets: w.ce_packets.unwrap_or(0),
            read_bytes: w.read_bytes,
        }
    }
}

impl FlowCounters {
    /// Payload bytes of this direction, from the best available counter.
    pub(crate) fn payload(&self) -> u64 {
        if self.unseen { self.read_bytes } else { self.delivered_bytes.max(self.sent_bytes) }
    }

    /// Adds the counters of `more`.
    pub(crate) fn add(&mut self, more: &FlowCounters) {
        self.sent_packets += more.sent_packets;
        self.sent_bytes += more.sent_bytes;
        self.retransmitted_packets += more.retransmitted_packets;
        self.retransmitted_bytes += more.retransmitted_bytes;
        self.acks_sent += more.acks_sent;
        self.delivered_packets += more.delivered_packets;
        self.delivered_bytes += more.delivered_bytes;
        self.delivered_wire_bytes += more.delivered_wire_bytes;
        self.ce_packets += more.ce_packets;
        self.read_bytes += more.read_bytes;
    }
}

/// Statistics of the sender of a flow: `TCP_INFO`, and values that only the model has. A value that the substrate
/// does not provide is absent, never 0.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TcpSummary {
    /// Congestion window at the end, in bytes.
    pub cwnd_bytes: Option<u64>,
    /// Slow-start threshold at the end, in bytes; `None` also before the first congestion event.
    pub ssthresh_bytes: Option<u64>,
    /// Smoothed round-trip time at the end.
    pub srtt_ns: Option<u64>,
    /// Mean deviation of the round-trip time.
    pub rttvar_ns: Option<u64>,
    /// Smallest round-trip time.
    pub min_rtt_ns: Option<u64>,
    /// Retransmission timeout at the end.
    pub rto_ns: Option<u64>,
    /// Retransmitted segments.
    pub retransmits: Option<u64>,
    /// Retransmissions that were proven unnecessary.
    pub spurious_retransmits: Option<u64>,
    /// Segments that were marked lost.
    pub lost: Option<u64>,
    /// Retransmission timeouts that fired.
    pub timeouts: Option<u64>,
    /// Sum over all timeouts of the time from the last acceptable ACK, or the last transmission, to the timeout.
    pub timeout_time_ns: Option<u64>,
    /// Entries into fast recovery.
    pub recoveries: Option<u64>,
    /// Recoveries that were undone.
    pub undos: Option<u64>,
    /// Tail loss probes sent.
    pub probes: Option<u64>,
    /// Bytes acknowledged.
    pub bytes_acked: Option<u64>,
    /// Segments sent.
    pub segments_out: Option<u64>,
    /// Segments received.
    pub segments_in: Option<u64>,
    /// ACKs received that carried ECE.
    pub ece_acks: Option<u64>,
    /// Segments received that carried CE.
    pub ce_segments: Option<u64>,
    /// Number of ACKs that this end sent because its delayed-ACK timer fired.
    pub delayed_ack_timeouts: Option<u64>,
    /// Pure ACKs sent by this end.
    pub acks_out: Option<u64>,
    /// The time of the sender by what kept it from sending. Recordings of version 0.1.0 do not have it.
    #[serde(default)]
    pub limits: LimitTimes,
    /// Time in which the congestion window limited the sender.
    pub cwnd_limited_ns: Option<u64>,
    /// Time in which the receive window limited the sender.
    pub rwnd_limited_ns: Option<u64>,
    /// Time in which the application had no data to send.
    pub app_limited_ns: Option<u64>,
    /// DCTCP's alpha at the end.
    pub alpha: Option<f64>,
    /// Controller outputs that were clamped.
    pub clamps: Option<u64>,
}

/// The time of a sender since its handshake by what kept it from sending, in ns. If several limits held at once, the last one in this order
/// counts. `None`: the stack does not tell. Of a kernel, whose `application` is `None`, the rest of the time with data is in `congestion_window`, whatever
/// limited the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LimitTimes {
    /// The application had written nothing that was unsent.
    pub application: Option<u64>,
    /// A small segment waited, for Nagle's algorithm or because it was corked.
    pub nagle: Option<u64>,
    /// Everything was sent, and a write waited for room in the send buffer.
    pub send_buffer: Option<u64>,
    /// The peer's receive window.
    pub receive_window: Option<u64>,
    /// The congestion window.
    pub congestion_window: Option<u64>,
    /// Pacing.
    pub pacing: Option<u64>,
    /// The queue of the own host (TCP small queues).
    pub host_queue: Option<u64>,
    /// The repair of losses.
    pub recovery: Option<u64>,
    /// The waits for retransmission timeouts and tail loss probes that were sent.
    pub timers: Option<u64>,
}

impl LimitTimes {
    /// The time under each limit, in order.
    pub fn by_limit(&self) -> [(SendLimit, Option<u64>); 9] {
        [
            (SendLimit::Application, self.application),
            (SendLimit::Nagle, self.nagle),
            (SendLimit::SendBuffer, self.send_buffer),
            (SendLimit::ReceiveWindow, self.receive_window),
            (SendLimit::CongestionWindow, self.congestion_window),
            (SendLimit::Pacing, self.pacing),
            (SendLimit::HostQueue, self.host_queue),
            (SendLimit::Recovery, self.recovery),
            (SendLimit::Timers, self.timers),
        ]
    }

    /// The time under a limit.
    pub fn of(&self, limit: SendLimit) -> Option<u64> {
        self.by_limit()[limit as usize].1
    }

    /// The sum; `None` if nothing is known.
    pub fn total(&self) -> Option<u64> {
        let known: Vec<u64> = self.by_limit().into_iter().filter_map(|(_, time)| time).collect();
        (!known.is_empty()).then(|| known.iter().sum())
    }
}

/// A link, queue or shaper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Device {
    /// Name as an entity: `queue.bottleneck`.
    pub name: String,
    /// `link`, `fifo`, `htb`, `red`, ...
    pub kind: String,
    /// Its rate; `None` when it has none or when the rate varies.
    #[serde(rename = "rate_bps", with = "optional_rate")]
    pub rate: Option<Rate>,
    /// Packet and byte counters.
    pub counters: DeviceCounters,
}

/// Packet and byte counters of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DeviceCounters {
    /// Packets that left it.
    pub packets: u64,
    /// Their length on the wire.
    pub bytes: u64,
    /// Packets that it dropped.
    pub drops: u64,
    /// Their length.
    pub dropped_bytes: u64,
    /// Packets that it marked CE.
    pub marks: u64,
    /// The largest backlog that an arriving packet found, that packet included, in bytes.
    pub max_backlog_bytes: u64,
}

/// A distribution of latency.
#[derive(Clone, PartialEq, Debug)]
pub struct Latency {
    /// The kind of latency.
    pub kind: LatencyKind,
    /// A flow, a device, or `all`.
    pub entity: String,
    /// In nanoseconds.
    pub histogram: Histogram,
}

/// The kind of a latency.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Debug,
    Serialize,
    Deserialize,
    EnumMessage,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LatencyKind {
    /// One-way latency of a packet with payload, from the sender's stack to the receiving host's.
    OneWay,
    /// The sender's round-trip time samples.
    Rtt,
    /// Waiting time of a packet in a device, without its transmission.
    QueueDelay,
}

/// The arrival of a packet with payload at its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Time of the arrival.
    pub at: Time,
    /// Index of its flow in [`Recording::flows`].
    pub flow: u32,
    /// Length on the wire.
    pub wire_bytes: u32,
    /// Payload.
    pub bytes: u32,
    /// Time since it left the sender's stack.
    pub one_way: Dur,
    /// The packet carried CE.
    pub ce: bool,
}

/// The kind of a completion; `tcpassay-workload` defines the exact times.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Debug,
    Serialize,
    Deserialize,
    EnumMessage,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CompletionKind {
    /// A bulk flow.
    Flow,
    /// A request with its response.
    Rpc,
    /// A barrier round.
    Round,
}

/// The end of a flow, request or barrier round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The kind.
    pub kind: CompletionKind,
    /// Class of the workload, `rpc 10KB/100B`.
    pub class: String,
    /// The host that opened the connection.
    pub client: u32,
    /// The host that responded (last).
    pub server: u32,
    /// Number of the connection: the client's counter in its class.
    pub connection: u32,
    /// Bytes to the server.
    pub request: Bytes,
    /// Bytes to the client.
    pub response: Bytes,
    /// Time at which the application wanted to begin.
    pub start: Time,
    /// Time at which it ended.
    pub end: Time,
    /// Duration on an idle path, for the slowdown; `None` when unknown.
    pub ideal: Option<Dur>,
    /// False when the connection failed before completion.
    pub ok: bool,
}

/// A point at which packets were captured.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CapturePoint {
    /// `sender0.nic`.
    pub name: String,
    /// Description for readers of the capture.
    pub description: String,
}

/// A captured packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketRecord {
    /// Time of the capture.
    pub at: Time,
    /// Index of the capture point in [`Recording::interfaces`].
    pub interface: u32,
    /// Sending host.
    pub from: u32,
    /// Receiving host.
    pub to: u32,
    /// Sender's port.
    pub from_port: u16,
    /// Receiver's port.
    pub to_port: u16,
    /// ECN field of its IP header.
    pub ecn: Ecn,
    /// IP identification, which distinguishes copies.
    pub id: u16,
    /// The layout of the options of a SYN.
    pub layout: Layout,
    /// The event of the packet at this point (`dropped: full`, `marked`), written as the comment of the
    /// packet.
    pub note: Option<Reason>,
    /// The segment; `None` for a datagram.
    pub segment: Option<Segment>,
    /// Payload length of a datagram; unused for a segment.
    pub datagram_len: u32,
}

impl Recording {
    /// The flows that carried payload, with their indices.
    pub fn data_flows(&self) -> impl Iterator<Item = (u32, &Flow)> {
        (0u32..).zip(&self.flows).filter(|(_, flow)| {
            let c = &flow.counters;
            (if c.unseen { c.read_bytes } else { c.sent_bytes }) > 0
        })
    }
}
