//! The fields of `TCP_INFO` in code blocks, in the units of Linux.

use super::connections::ModelConnection;
use crate::code::CodeValue;
use tcpassay_tcp::{CongestionState, Info, Profile, State};
use tcpassay_units::{Bytes, Dur, Time};

/// `TCP_INFINITE_SSTHRESH`
const NO_SSTHRESH: i64 = 0x7fff_ffff;

/// The value of `name`; `None` if the model does not have it.
pub(super) fn look(entry: &ModelConnection, now: Time, profile: Profile, name: &str) -> Option<CodeValue> {
    let info = entry.conn.info_at(now);
    let bsd = matches!(profile, Profile::FreeBsd | Profile::FreeBsdRack);
    let mss = info.mss.get().max(1);
    let segments = |b: Bytes| int(b.get().div_ceil(mss));
    let whole = |b: Bytes| int(b.get() / mss);
    let micros = |d: Dur| int(d.as_micros());
    let agreed = entry.conn.agreed_options();
    let counted = info.accurate.unwrap_or_default();
    if let Some(named) = name.strip_prefix("TCPI_").and_then(state_by_name) {
        return Some(CodeValue::Int(state(named, bsd)));
    }
    Some(CodeValue::Int(match name {
        "tcpi_state" => state(info.state, bsd),
        "tcpi_ca_state" => match info.ca_state {
            CongestionState::Open => 0,
            CongestionState::Disorder => 1,
            CongestionState::Cwr => 2,
            CongestionState::Recovery => 3,
            CongestionState::Loss => 4,
        },
        "tcpi_options" => {
            let syn_data = entry.conn.used_syn_data();
            let bits = [
                (agreed.timestamps, 1),
                (agreed.sack, 2),
                (agreed.scaled, 4),
                (agreed.ecn, 8),
                (syn_data, 32),
            ];
            bits.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum()
        }
        "tcpi_snd_wscale" => i64::from(agreed.peer_shift),
        "tcpi_rcv_wscale" => i64::from(agreed.our_shift),
        "tcpi_rto" => micros(info.rto),
        "tcpi_snd_mss" => int(mss),
        "tcpi_advmss" => int(agreed.announced_mss.get()),
        "tcpi_unacked" => segments(info.unacked),
        "tcpi_sacked" => segments(info.sacked),
        "tcpi_lost" => segments(info.lost_all),
        "tcpi_retrans" => segments(info.retransmitted_out),
        "tcpi_backoff" => int(u64::from(info.backoff)),
        "tcpi_retransmits" => int(u64::from(info.timeouts_in_a_row)),
        "tcpi_reordering" => int(u64::from(info.reordering)),
        "tcpi_rtt" => micros(info.srtt.unwrap_or(Dur::ZERO)),
        "tcpi_rttvar" => micros(info.rttvar),
        "tcpi_min_rtt" => info.min_rtt.map_or(0xffff_ffff, micros),
        "tcpi_snd_ssthresh" if bsd => int(info.ssthresh.get().min(0x3fff_c000)),
        "tcpi_snd_cwnd" if bsd => int(info.cwnd.get()),
        "tcpi_snd_ssthresh" if info.ssthresh == Bytes::MAX => NO_SSTHRESH,
        "tcpi_snd_ssthresh" => whole(info.ssthresh),
        "tcpi_snd_cwnd" => whole(info.cwnd),
        "tcpi_total_retrans" | "tcpi_snd_rexmitpack" => int(info.retransmissions),
        "tcpi_bytes_acked" => int(info.bytes_acked.get()),
        "tcpi_bytes_received" => int(info.bytes_received.get()),
        "tcpi_bytes_sent" => int(info.bytes_sent.get()),
        "tcpi_bytes_retrans" => int(info.bytes_retransmitted.get()),
        "tcpi_segs_in" => int(info.segments_in),
        "tcpi_segs_out" => int(info.segments_out),
        "tcpi_data_segs_in" => int(info.data_segments_in),
        // Linux reports whole milliseconds.
        "tcpi_last_data_recv" if !bsd => int(now.since(entry.times.received).as_millis()),
        "tcpi_last_data_sent" if !bsd => int(now.since(entry.times.sent).as_millis()),
        "tcpi_notsent_bytes" => int(info.notsent.get()),
        "tcpi_rcv_ooopack" => int(info.out_of_order_in),
        "tcpi_delivered" if !bsd => int(info.delivered_packets) + handshake_delivered(entry),
        "tcpi_delivered" => int(info.delivered_packets),
        "tcpi_delivered_ce" => info.accurate.map_or(segments(info.delivered_ce), |a| int(a.delivered_ce)),
        "tcpi_received_ce" => int(counted.received_ce),
        "tcpi_delivered_e0_bytes" => int(counted.delivered_bytes[0]),
        "tcpi_delivered_ce_bytes" => int(counted.delivered_bytes[1]),
        "tcpi_delivered_e1_bytes" => int(counted.delivered_bytes[2]),
        "tcpi_received_e0_bytes" => int(counted.received_bytes[0]),
        "tcpi_received_ce_bytes" => int(counted.received_bytes[1]),
        "tcpi_received_e1_bytes" => int(counted.received_bytes[2]),
        "tcpi_accecn_opt_seen" => i64::from(counted.option_seen),
        "tcpi_accecn_fail_mode" => i64::from(counted.fail_mode),
        "tcpi_ecn_mode" => match (agreed.ecn, info.accurate) {
            (false, _) => 0,
            (true, None) => 1,
            (true, Some(_)) => 2,
        },
        "tcpi_snd_wnd" => int(info.snd_wnd.get()),
        "tcpi_rcv_wnd" | "tcpi_rcv_space" if bsd => int(info.rcv_wnd.get()),
        "SK_MEMINFO_RMEM_ALLOC" => int(info.rcv_memory?.0.get()),
        "SK_MEMINFO_RCVBUF" => int(info.rcv_memory?.1.get()),
        "tcpi_busy_time" => micros(info.busy),
        "tcpi_rwnd_limited" => micros(info.limited_rwnd),
        "tcpi_reord_seen" => int(info.reorderings),
        "tcpi_rcv_mss" => int(info.rcv_mss.get()),
        "tcpi_probes" => int(u64::from(info.probes)),
        "tcpi_snd_nxt" if bsd => int(u64::from(entry.conn.next_numbers().0.get())),
        "tcpi_rcv_nxt" if bsd => int(u64::from(entry.conn.next_numbers().1.get())),
        "tcpi_sndbuf_limited" => micros(info.limited_sndbuf),
        "tcpi_fackets" => 0,
        _ => return None,
    }))
}

/// The value of `name` for a socket without a connection. Only the state is known.
pub(super) fn look_unconnected(live: State, bsd: bool, name: &str) -> Option<CodeValue> {
    if let Some(named) = name.strip_prefix("TCPI_").and_then(state_by_name) {
        return Some(CodeValue::Int(state(named, bsd)));
    }
    (name == "tcpi_state").then(|| CodeValue::Int(state(live, bsd)))
}

/// 1 if Linux counts the SYN or SYN-ACK as a delivered packet of its own.
fn handshake_delivered(entry: &ModelConnection) -> i64 {
    let opening = entry.conn.state() == State::SynReceived || !entry.conn.was_established();
    let with_data = entry.conn.fast_open_answer().is_some_and(|a| a.sent > 0 && a.acked == a.sent);
    i64::from(!opening && !with_data)
}

/// The state of `TCPI_SYN_RECEIVED` and similar names, which exist on both systems.
fn state_by_name(name: &str) -> Option<State> {
    Some(match name {
        "CLOSED" => State::Closed,
        "LISTEN" => State::Listen,
        "SYN_SENT" => State::SynSent,
        "SYN_RECEIVED" => State::SynReceived,
        "ESTABLISHED" => State::Established,
        "CLOSE_WAIT" => State::CloseWait,
        "FIN_WAIT_1" => State::FinWait1,
        "CLOSING" => State::Closing,
        "LAST_ACK" => State::LastAck,
        "FIN_WAIT_2" => State::FinWait2,
        "TIME_WAIT" => State::TimeWait,
        _ => return None,
    })
}

fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn state(state: State, bsd: bool) -> i64 {
    let (linux, freebsd) = match state {
        State::Closed => (7, 0),
        State::Listen => (10, 1),
        State::SynSent => (2, 2),
        State::SynReceived => (3, 3),
        State::Established => (1, 4),
        State::FinWait1 => (4, 6),
        State::FinWait2 => (5, 9),
        State::CloseWait => (8, 5),
        State::Closing => (11, 7),
        State::LastAck => (9, 8),
        // Linux replaces the socket by a smaller one and closes it (`tcp_time_wait`).
        State::TimeWait => (7, 10),
    };
    if bsd { freebsd } else { linux }
}

/// The state of a connection in one line, for the report of a failure.
pub(super) fn describe(info: &Info) -> String {
    let ssthresh = if info.ssthresh == Bytes::MAX { "none".to_owned() } else { info.ssthresh.to_string() };
    format!(
        "{:?}, {:?}; cwnd {} ssthresh {ssthresh} in flight {} unacked {} sacked {} lost {} unsent {}; srtt {} rto {}; \
         peer's window {} ours {}",
        info.state,
        info.ca_state,
        info.cwnd,
        info.flight,
        info.unacked,
        info.sacked,
        info.lost,
        info.notsent,
        info.srtt.map_or("unknown".to_owned(), |d| d.to_string()),
        info.rto,
        info.snd_wnd,
        info.rcv_wnd,
    )
}
