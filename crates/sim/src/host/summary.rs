//! Statistics of connections for the recording, beside the counters of the data path.

use super::data_path::{HostRecorder, flush_tally};
use super::endpoint::HostEndpoint;
use super::stacks::Stacks;
use crate::engine::{NodeId, Packet, PacketEvent, PacketId, Protocol};
use tcpassay_case::{IdlePath, completion};
use tcpassay_measure::{InterfaceIndex, LimitTimes, SenderSample, TcpSummary};
use tcpassay_tcp::{Gauges, Info, SendLimit};
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Layout;

impl Stacks {
    /// Capture points of the hosts and of watched elements.
    pub fn set_interfaces(&mut self, hosts: Vec<InterfaceIndex>, nodes: Vec<(NodeId, InterfaceIndex)>) {
        self.recorder.state.hosts = hosts;
        self.recorder.state.nodes = nodes;
    }

    /// How each host orders the options of its SYNs, in the order of the topology.
    pub fn set_layouts(&mut self, layouts: Vec<Layout>) {
        self.recorder.state.layouts = layouts;
    }

    /// Records a packet event at a watched element: each packet once, when it leaves or is dropped. A mark is a note of it.
    pub fn observe(&mut self, now: Time, node: NodeId, what: PacketEvent, id: PacketId, packet: &Packet) {
        let Some((_, interface)) = self.recorder.state.nodes.iter().find(|(n, _)| *n == node) else { return };
        let comment = match what {
            PacketEvent::Arrived => return,
            PacketEvent::Marked => {
                self.recorder.state.marked.insert((node, id));
                return;
            }
            PacketEvent::Departed => self.recorder.state.marked.remove(&(node, id)).then_some("marked"),
            PacketEvent::Dropped(_) => {
                self.recorder.state.marked.remove(&(node, id));
                Some("dropped")
            }
        };
        // Captures have no ICMP.
        if packet.kind == Protocol::Icmp {
            return;
        }
        let segment = (packet.kind == Protocol::Tcp).then_some(&packet.segment);
        let (from, interface) = ((packet.flow, packet.src), interface.0);
        let HostRecorder { collector, state, flows, .. } = &mut self.recorder;
        state.put(collector, flows, now, interface, from, segment, packet.ecn, comment);
    }

    /// Records a completion of an application.
    pub fn completed(&mut self, done: &tcpassay_workload::AppCompletion) {
        let path = self.recorder.state.idle.get(&(done.key.client.0, done.key.server.0)).copied();
        self.recorder.collector.completed(completion(done, &self.plan, path));
    }

    /// Records the state of every sender at the end of an interval.
    pub fn sample(&mut self, at: Time) {
        for conn in self.conns.iter().flatten() {
            if conn.tcp.bytes_sent().is_zero() {
                continue;
            }
            self.recorder.collector.sample(conn.out, at, sample(&conn.tcp.gauges()));
        }
    }

    /// Adds all counters up to `at` to the series; called before an interval ends.
    pub fn tally(&mut self, at: Time) {
        for conn in self.conns.iter_mut().flatten() {
            flush_tally(&mut self.recorder.collector, conn, at);
        }
    }

    /// Records the final statistics of every open connection.
    pub fn summarise_all(&mut self, now: Time) {
        self.tally(now);
        let conns = std::mem::take(&mut self.conns);
        for conn in conns.iter().flatten() {
            self.summarise(conn, None, now);
        }
        self.conns = conns;
    }

    /// Records the final statistics of a connection.
    pub(super) fn summarise(&mut self, conn: &HostEndpoint, end: Option<Time>, now: Time) {
        let info = conn.tcp.info();
        let flow = self.recorder.collector.flow_mut(conn.out);
        flow.end = conn.closed.or(end);
        let limits = limits(&conn.tcp.info_at(now).limits);
        flow.tcp = TcpSummary { limits, ..summary(&info, conn.tcp.gauges().alpha) };
        flow.mss = info.mss;
        flow.counters.retransmitted_packets = info.retransmissions;
        flow.counters.retransmitted_bytes = info.bytes_retransmitted.get();
    }

    /// Sets the idle path between two hosts.
    pub fn set_idle_path(&mut self, client: u32, server: u32, path: IdlePath) {
        self.recorder.state.idle.insert((client, server), path);
    }

    /// Number of background datagrams sent and received.
    pub fn datagrams(&self) -> (u64, u64) {
        (self.recorder.state.datagrams_sent, self.recorder.state.datagrams_received)
    }
}

fn sample(now: &Gauges) -> SenderSample {
    #[expect(clippy::cast_precision_loss, reason = "rates and times far below 2^53")]
    let float = |n: u64| n as f64;
    SenderSample {
        cwnd: Some(now.cwnd.as_f64()),
        ssthresh: (now.ssthresh != Bytes::MAX).then(|| now.ssthresh.as_f64()),
        flight: Some(now.flight.as_f64()),
        srtt: now.srtt.map(|d| float(d.as_nanos())),
        rto: Some(float(now.rto.as_nanos())),
        alpha: now.alpha,
        pacing: now.pacing_rate.map(|r| float(r.bits_per_sec())),
    }
}

fn limits(times: &tcpassay_tcp::LimitTimes) -> LimitTimes {
    let of = |limit| Some(times.of(limit).as_nanos());
    LimitTimes {
        application: of(SendLimit::Application),
        nagle: of(SendLimit::Nagle),
        send_buffer: of(SendLimit::SendBuffer),
        receive_window: of(SendLimit::ReceiveWindow),
        congestion_window: of(SendLimit::CongestionWindow),
        pacing: of(SendLimit::Pacing),
        host_queue: of(SendLimit::HostQueue),
        recovery: of(SendLimit::Recovery),
        timers: of(SendLimit::Timers),
    }
}

fn summary(info: &Info, alpha: Option<f64>) -> TcpSummary {
    TcpSummary {
        cwnd_bytes: Some(info.cwnd.get()),
        ssthresh_bytes: (info.ssthresh != Bytes::MAX).then_some(info.ssthresh.get()),
        srtt_ns: info.srtt.map(Dur::as_nanos),
        rttvar_ns: Some(info.rttvar.as_nanos()),
        min_rtt_ns: info.min_rtt.map(Dur::as_nanos),
        rto_ns: Some(info.rto.as_nanos()),
        retransmits: Some(info.retransmissions),
        spurious_retransmits: Some(info.spurious),
        lost: None,
        timeouts: Some(info.timeouts),
        timeout_time_ns: None,
        recoveries: Some(info.recoveries),
        undos: Some(info.undos),
        probes: Some(info.tlp_probes),
        bytes_acked: Some(info.bytes_acked.get()),
        segments_out: Some(info.segments_out),
        segments_in: Some(info.segments_in),
        ece_acks: Some(info.ece_acks_in),
        ce_segments: Some(info.ce_segments_in),
        delayed_ack_timeouts: Some(info.delayed_ack_timeouts),
        acks_out: Some(info.acks_out),
        limits: LimitTimes::default(),
        cwnd_limited_ns: Some(info.limited_cwnd.as_nanos()),
        rwnd_limited_ns: Some(info.limited_rwnd.as_nanos()),
        app_limited_ns: Some(info.limited_app.as_nanos()),
        alpha,
        clamps: Some(info.clamps),
    }
}
