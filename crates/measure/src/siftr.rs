//! The event log of one host in the format of FreeBSD's siftr(4), with the same fields.
//!
//! One line for each segment of the host's stack, as the kernel module writes it (`sys/netinet/siftr.c`,
//! IPv4): for an arriving segment with the state before TCP processes it, for a segment that is sent with
//! the state before it is in flight. The state is derived from the other rows of the event log. Fields that
//! a recording does not contain are 0: packet hash, bandwidth-controlled window, receive window, both window
//! scales (windows are already scaled), socket buffers, reassembly queue, flow id and type.
//!
//! Ticks are milliseconds (`hz=1000`). The port is 5001 at the accepting end, and 32768 or higher at the other end.

use crate::event::{EventKind, EventRow};
use crate::pcapng::host_address;
use crate::reason::{CongestionChange, CongestionState, StateChange, TcpState};
use crate::recording::{Flow, Recording};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use tcpassay_units::{Bytes, Dur, Time};

/// `TCP_RTT_SCALE` of `netinet/tcp_var.h`.
const RTT_SCALE: u64 = 32;
/// ssthresh before the first congestion event: `TCP_MAXWIN << TCP_MAX_WINSHIFT`.
const NO_SSTHRESH: u64 = 65_535 << 14;
/// `TF_REQ_SCALE | TF_RCVD_SCALE`.
const SCALED: u32 = 0x0060;
const SACK_PERMIT: u32 = 0x0200;
const FAST_RECOVERY: u32 = 0x0010_0000;
const CONG_RECOVERY: u32 = 0x2000_0000;

/// The state of a connection according to the log.
#[derive(Clone, Copy, Debug)]
struct State {
    ssthresh: u64,
    cwnd: u64,
    window: u64,
    fsm: u8,
    srtt: u64,
    rto: u64,
    flags: u32,
    /// Highest position sent and acknowledged.
    sent: u64,
    acked: u64,
}

/// Writes the log of `host`.
///
/// # Errors
/// Errors of `out`.
pub fn write(recording: &Recording, host: u32, out: &mut impl Write) -> io::Result<()> {
    let off = |value: &str| matches!(value, "false" | "off");
    let sack = !recording.header.case.iter().any(|t| t.parameter == "stack.sack" && off(&t.value));
    let start = State {
        ssthresh: NO_SSTHRESH,
        cwnd: 0,
        window: 0,
        fsm: 0,
        srtt: 0,
        rto: 0,
        flags: SCALED | if sack { SACK_PERMIT } else { 0 },
        sent: 0,
        acked: 0,
    };
    writeln!(
        out,
        "enable_time_secs=0\tenable_time_usecs=0\tsiftrver=1.2.4\thz=1000\ttcp_rtt_scale={RTT_SCALE}\t\
         sysname=tcpassay\tsysver={}\tipmode=4",
        recording.header.version
    )?;
    let mut states: BTreeMap<u32, State> = BTreeMap::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut packets = [0u64; 2];
    for event in recording.events.iter().filter(|e| e.host == host) {
        let Some(place) = event.flow else { continue };
        let Some(flow) = recording.flows.get(place as usize) else { continue };
        let state = states.entry(place).or_insert(start);
        let inbound = event.kind == EventKind::In;
        if inbound || matches!(event.kind, EventKind::Out | EventKind::Retransmit) {
            let ends = ends(recording, flow);
            packets[usize::from(!inbound)] += 1;
            writeln!(out, "{}", state.line(inbound, event.at, &ends, flow, sack))?;
            seen.insert(format!("{};{}-{};{},", ends[0].0, ends[0].1, ends[1].0, ends[1].1));
        }
        // An arriving segment is logged before TCP processes it, a departing one before it is in flight.
        state.learn(&event);
    }
    let end = Time::ZERO + recording.header.duration;
    writeln!(
        out,
        "disable_time_secs={}\tdisable_time_usecs={}\tnum_inbound_tcp_pkts={}\tnum_outbound_tcp_pkts={}\t\
         total_tcp_pkts={}\tnum_inbound_skipped_pkts_malloc=0\tnum_outbound_skipped_pkts_malloc=0\t\
         num_inbound_skipped_pkts_mtx=0\tnum_outbound_skipped_pkts_mtx=0\tnum_inbound_skipped_pkts_tcb=0\t\
         num_outbound_skipped_pkts_tcb=0\tnum_inbound_skipped_pkts_icb=0\tnum_outbound_skipped_pkts_icb=0\t\
         total_skipped_tcp_pkts=0\tflow_list={}",
        end.as_nanos() / 1_000_000_000,
        end.as_nanos() % 1_000_000_000 / 1_000,
        packets[0],
        packets[1],
        packets[0] + packets[1],
        seen.into_iter().collect::<String>(),
    )
}

/// Local and foreign address and port.
fn ends(recording: &Recording, flow: &Flow) -> [(std::net::Ipv4Addr, u32); 2] {
    // The first flow of a connection is the one of the end that opened it.
    let opener = recording.flows.iter().find(|f| f.connection == flow.connection).map(|f| f.from);
    let high = 32_768 + flow.connection % 28_000;
    let (local, foreign) = if opener == Some(flow.from) { (high, 5001) } else { (5001, high) };
    [(host_address(flow.from), local), (host_address(flow.to), foreign)]
}

impl State {
    fn learn(&mut self, event: &EventRow) {
        let keep = |place: &mut u64, value: Option<Bytes>| *place = value.map_or(*place, Bytes::get);
        keep(&mut self.cwnd, event.cwnd);
        keep(&mut self.ssthresh, event.ssthresh);
        if event.kind == EventKind::In {
            keep(&mut self.window, event.window);
            self.acked = self.acked.max(event.ack.unwrap_or(0));
        }
        if event.kind == EventKind::Out {
            let len = event.len.unwrap_or(0);
            self.sent = self.sent.max(event.seq.unwrap_or(0) + u64::from(len));
        }
        self.srtt = event.srtt.map_or(self.srtt, Dur::as_nanos);
        self.rto = event.rto.map_or(self.rto, Dur::as_nanos);
        match event.kind {
            EventKind::State => {
                if let Some(StateChange::Moved { to, .. }) = StateChange::read(&event.why) {
                    self.fsm = fsm(to);
                }
            }
            EventKind::Congestion => {
                let bits = match CongestionChange::read(&event.why).and_then(|change| change.to) {
                    Some(CongestionState::Recovery) => FAST_RECOVERY | CONG_RECOVERY,
                    Some(CongestionState::Cwr) => CONG_RECOVERY,
                    _ => 0,
                };
                self.flags = self.flags & !(FAST_RECOVERY | CONG_RECOVERY) | bits;
            }
            _ => {}
        }
    }

    fn line(
        &self,
        inbound: bool,
        at: Time,
        ends: &[(std::net::Ipv4Addr, u32); 2],
        flow: &Flow,
        sack: bool,
    ) -> String {
        let [local, foreign] = ends;
        let ns = at.as_nanos();
        let fields = [
            self.ssthresh,
            self.cwnd,
            0,
            self.window,
            0,
            0,
            0,
            u64::from(self.fsm),
            flow.mss.get(),
            self.srtt * RTT_SCALE / 1_000_000,
            u64::from(sack),
            u64::from(self.flags),
            self.rto / 1_000_000,
            0,
            0,
            0,
            0,
            self.sent.saturating_sub(self.acked.max(1)),
            0,
            0,
            0,
        ];
        let fields: Vec<String> = fields.iter().map(u64::to_string).collect();
        format!(
            "{},0x00000000,{}.{:06},{},{},{},{},{}",
            if inbound { 'i' } else { 'o' },
            ns / 1_000_000_000,
            ns % 1_000_000_000 / 1_000,
            local.0,
            local.1,
            foreign.0,
            foreign.1,
            fields.join(",")
        )
    }
}

/// The number of a state in `netinet/tcp_fsm.h`.
fn fsm(state: Option<TcpState>) -> u8 {
    match state {
        None | Some(TcpState::Closed) => 0,
        Some(TcpState::Listen) => 1,
        Some(TcpState::SynSent) => 2,
        Some(TcpState::SynReceived) => 3,
        Some(TcpState::Established) => 4,
        Some(TcpState::CloseWait) => 5,
        Some(TcpState::FinWait1) => 6,
        Some(TcpState::Closing) => 7,
        Some(TcpState::LastAck) => 8,
        Some(TcpState::FinWait2) => 9,
        Some(TcpState::TimeWait) => 10,
    }
}
