//! What the hosts tell the recording besides the hot path's counters.

use super::conn::Conn;
use super::stacks::Stacks;
use super::taps::{Taps, tell_tally};
use crate::engine::{Kind, NodeId, Packet, Seen};
use tcpassay_case::{IdlePath, completion};
use tcpassay_measure::{InterfaceId, Sample, TcpSummary};
use tcpassay_tcp::{Gauges, Info};
use tcpassay_units::{Bytes, Dur, Time};

impl Stacks {
    /// Capture points of the hosts and of watched elements.
    pub fn set_interfaces(&mut self, hosts: Vec<InterfaceId>, nodes: Vec<(NodeId, InterfaceId)>) {
        self.taps.report.hosts = hosts;
        self.taps.report.nodes = nodes;
    }

    /// What happened at a watched element.
    pub fn observe(&mut self, now: Time, node: NodeId, what: Seen, packet: &Packet) {
        let Some((_, interface)) = self.taps.report.nodes.iter().find(|(n, _)| *n == node) else { return };
        let comment = match what {
            Seen::In => return,
            Seen::Out => None,
            Seen::Marked => Some("marked"),
            Seen::Dropped(_) => Some("dropped"),
        };
        let segment = (packet.kind == Kind::Tcp).then_some(&packet.segment);
        let (from, interface) = ((packet.flow, packet.src), interface.0);
        let Taps { collector, report, flows, .. } = &mut self.taps;
        report.put(collector, flows, now, interface, from, segment, packet.ecn, comment);
    }

    /// What an application finished.
    pub fn completed(&mut self, done: &tcpassay_workload::Completion) {
        let path = self.taps.report.idle.get(&(done.key.client.0, done.key.server.0)).copied();
        self.taps.collector.completed(completion(done, &self.plan, path));
    }

    /// What every sender says of itself at the end of an interval.
    pub fn sample(&mut self, at: Time) {
        for conn in self.conns.iter().flatten() {
            if conn.tcp.bytes_sent().is_zero() {
                continue;
            }
            self.taps.collector.sample(conn.out, at, sample(&conn.tcp.gauges()));
        }
    }

    /// What passed up to `at`, for the series: to be called before an interval ends.
    pub fn tally(&mut self, at: Time) {
        for conn in self.conns.iter_mut().flatten() {
            tell_tally(&mut self.taps.collector, conn, at);
        }
    }

    /// The last words of every connection that still lives.
    pub fn summarise_all(&mut self, now: Time) {
        self.tally(now);
        let conns = std::mem::take(&mut self.conns);
        for conn in conns.iter().flatten() {
            self.summarise(conn, None);
        }
        self.conns = conns;
    }

    /// The last words of a connection.
    pub(super) fn summarise(&mut self, conn: &Conn, end: Option<Time>) {
        let info = conn.tcp.info();
        let flow = self.taps.collector.flow_mut(conn.out);
        flow.end = conn.closed.or(end);
        flow.tcp = summary(&info, conn.tcp.gauges().alpha);
        flow.mss = info.mss;
        flow.counters.retransmitted_packets = info.retransmissions;
        flow.counters.retransmitted_bytes = info.bytes_retransmitted.get();
    }

    /// The idle path between two hosts.
    pub fn set_idle_path(&mut self, client: u32, server: u32, path: IdlePath) {
        self.taps.report.idle.insert((client, server), path);
    }

    /// Datagrams sent and received.
    pub fn datagrams(&self) -> (u64, u64) {
        (self.taps.report.datagrams_sent, self.taps.report.datagrams_received)
    }
}

fn sample(now: &Gauges) -> Sample {
    #[expect(clippy::cast_precision_loss, reason = "rates and times far below 2^53")]
    let float = |n: u64| n as f64;
    Sample {
        cwnd: Some(now.cwnd.as_f64()),
        ssthresh: (now.ssthresh != Bytes::MAX).then(|| now.ssthresh.as_f64()),
        flight: Some(now.flight.as_f64()),
        srtt: now.srtt.map(|d| float(d.as_nanos())),
        rto: Some(float(now.rto.as_nanos())),
        alpha: now.alpha,
        pacing: now.pacing_rate.map(|r| float(r.bits_per_sec())),
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
        cwnd_limited_ns: Some(info.limited_cwnd.as_nanos()),
        rwnd_limited_ns: Some(info.limited_rwnd.as_nanos()),
        app_limited_ns: Some(info.limited_app.as_nanos()),
        alpha,
        clamps: Some(info.clamps),
    }
}
