//! A snapshot of a connection, like `TCP_INFO`.

use crate::{CongestionState, SendLimit, State};
use tcpassay_units::{Bytes, Dur, Rate};

/// Counters and present values of a connection. Counters start at zero with the connection and never fall.
///
/// A snapshot does not change the connection. It takes a few hundred nanoseconds, because the controller's
/// variables are collected into a vector.
#[derive(Clone, PartialEq, Debug)]
pub struct Info {
    /// State of RFC 9293.
    pub state: State,
    /// Congestion state of the sender.
    pub ca_state: CongestionState,
    /// Payload bytes of a full segment that we send.
    pub mss: Bytes,
    /// Congestion window in force.
    pub cwnd: Bytes,
    /// Slow-start threshold in force; [`Bytes::MAX`] before the first congestion.
    pub ssthresh: Bytes,
    /// Smoothed round-trip time (RFC 6298), once measured.
    pub srtt: Option<Dur>,
    /// Mean deviation of the round-trip time.
    pub rttvar: Dur,
    /// Retransmission timeout in force, with backoff.
    pub rto: Dur,
    /// The smallest round-trip time seen.
    pub min_rtt: Option<Dur>,
    /// Bytes in flight (RFC 6675 pipe).
    pub flight: Bytes,
    /// Bytes sent and not cumulatively acknowledged.
    pub unacked: Bytes,
    /// Bytes of `unacked` that are selectively acknowledged.
    pub sacked: Bytes,
    /// Bytes of `unacked` that are marked lost and not retransmitted.
    pub lost: Bytes,
    /// Bytes of `unacked` that are marked lost, retransmitted or not.
    pub lost_all: Bytes,
    /// Bytes of `unacked` whose retransmission is in flight.
    pub retransmitted_out: Bytes,
    /// Doublings of the retransmission timeout in force.
    pub backoff: u32,
    /// Retransmission timeouts since SND.UNA last advanced.
    pub timeouts_in_a_row: u32,
    /// Largest observed reordering in segments; at least the initial duplicate threshold.
    pub reordering: u32,
    /// ACKs that showed reordering.
    pub reorderings: u64,
    /// Window and keepalive probes that nothing has answered.
    pub probes: u32,
    /// Payload of the peer's full segments, as far as known.
    pub rcv_mss: Bytes,
    /// Bytes written by the application and never sent yet.
    pub notsent: Bytes,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: Bytes,
    /// Payload bytes cumulatively acknowledged.
    pub bytes_acked: Bytes,
    /// Payload bytes sent again.
    pub bytes_retransmitted: Bytes,
    /// Segments retransmitted, counted as wire packets (a super-segment counts as the packets into which the
    /// NIC segments it).
    pub retransmissions: u64,
    /// Times that the retransmission timer fired with data outstanding.
    pub timeouts: u64,
    /// Fast recoveries entered.
    pub recoveries: u64,
    /// Window reductions because of marks.
    pub ecn_reductions: u64,
    /// Recoveries and timeouts that were undone because they were spurious.
    pub undos: u64,
    /// Retransmissions proven unnecessary.
    pub spurious: u64,
    /// Tail loss probes sent.
    pub tlp_probes: u64,
    /// Bytes delivered: acknowledged or selectively acknowledged, each byte once.
    pub delivered: Bytes,
    /// The packets of those bytes.
    pub delivered_packets: u64,
    /// Bytes of `delivered` that the peer reported as CE-marked.
    pub delivered_ce: Bytes,
    /// Counters of accurate ECN; `None` if it was not negotiated.
    pub accurate: Option<AccurateInfo>,
    /// Arriving ACKs with ECE set.
    pub ece_acks_in: u64,
    /// Duplicate ACKs that arrived (RFC 5681 section 2).
    pub dup_acks_in: u64,
    /// Arriving data segments that carried CE.
    pub ce_segments_in: u64,
    /// Their payload bytes.
    pub ce_bytes_in: Bytes,
    /// Arriving segments.
    pub segments_in: u64,
    /// Arriving segments with payload (or FIN).
    pub data_segments_in: u64,
    /// Segments sent, of any kind.
    pub segments_out: u64,
    /// ACKs without payload that were sent.
    pub acks_out: u64,
    /// In-order payload bytes received, read or not.
    pub bytes_received: Bytes,
    /// Payload bytes that arrived and had arrived before.
    pub bytes_duplicate: Bytes,
    /// Arriving data segments that were not the next in order.
    pub out_of_order_in: u64,
    /// Times that the delayed-ACK timer fired.
    pub delayed_ack_timeouts: u64,
    /// Number of times that an acknowledgment was delayed (the delayed-ACK timer was set).
    pub delayed_acks: u64,
    /// Number of times that an acknowledgment was neither sent nor delayed (the DCTCP bug).
    pub forgotten_acks: u64,
    /// Segments refused (PAWS, out of window, bad ACK).
    pub refused: u64,
    /// The peer's receive window as we know it.
    pub snd_wnd: Bytes,
    /// The receive window that we offer.
    pub rcv_wnd: Bytes,
    /// Receive buffer: the most that the window may become at present.
    pub rcv_buf: Bytes,
    /// Linux's accounting of receive memory: bytes in use, and the limit; `None` without one.
    pub rcv_memory: Option<(Bytes, Bytes)>,
    /// Time with data to send during which cwnd was the limit.
    pub limited_cwnd: Dur,
    /// Time with data to send during which the peer's window was the limit.
    pub limited_rwnd: Dur,
    /// Time in which everything was sent and a writer waited for room in the send buffer (Linux `TCP_CHRONO_SNDBUF_LIMITED`).
    pub limited_sndbuf: Dur,
    /// Time during which the application offered nothing to send.
    pub limited_app: Dur,
    /// Time since the handshake by what kept the sender from sending.
    pub limits: LimitTimes,
    /// Time during which something was unsent or unacknowledged.
    pub busy: Dur,
    /// Pacing rate in force.
    pub pacing_rate: Option<Rate>,
    /// Number of times that the controller returned a window outside of the bounds.
    pub clamps: u64,
    /// Name of the controller.
    pub controller: &'static str,
    /// The controller's internal variables by name.
    pub internals: Vec<(&'static str, f64)>,
}

/// The time of a sender by what kept it from sending ([`SendLimit`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LimitTimes([Dur; 9]);

impl LimitTimes {
    /// The time under a limit.
    pub fn of(&self, limit: SendLimit) -> Dur {
        self.0[limit as usize]
    }

    /// The sum.
    pub fn total(&self) -> Dur {
        self.0.iter().fold(Dur::ZERO, |sum, time| sum + *time)
    }

    pub(crate) fn add(&mut self, limit: SendLimit, time: Dur) {
        self.0[limit as usize] += time;
    }
}

/// The part of [`Info`] that is read repeatedly during a connection. Reading it allocates no memory and costs some ten
/// nanoseconds; the fields have the meaning that they have in [`Info`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gauges {
    /// Congestion window in force.
    pub cwnd: Bytes,
    /// Slow-start threshold in force; [`Bytes::MAX`] before the first congestion.
    pub ssthresh: Bytes,
    /// Bytes in flight (RFC 6675 pipe).
    pub flight: Bytes,
    /// Bytes sent and not cumulatively acknowledged.
    pub unacked: Bytes,
    /// Smoothed round-trip time, once measured.
    pub srtt: Option<Dur>,
    /// Retransmission timeout in force, with backoff.
    pub rto: Dur,
    /// Pacing rate in force.
    pub pacing_rate: Option<Rate>,
    /// DCTCP's alpha; `None` of other controllers.
    pub alpha: Option<f64>,
}

/// The counters of accurate ECN. Bytes are those with ECT(0), CE and ECT(1), in this order. All counters
/// start at zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccurateInfo {
    /// Packets that we sent and the peer reported as CE.
    pub delivered_ce: u64,
    /// Payload bytes that the peer reported.
    pub delivered_bytes: [u64; 3],
    /// Packets that arrived with CE.
    pub received_ce: u64,
    /// Payload bytes that arrived.
    pub received_bytes: [u64; 3],
    /// State of the peer's options: none seen (0), an empty one (1), counters (2), invalid (3).
    pub option_seen: u8,
    /// What the path does not carry, as a bit set: our ECN field (2), our option (4), the peer's option (8).
    pub fail_mode: u8,
}

impl Info {
    /// The counters of a connection without events.
    pub(crate) fn empty() -> Info {
        Info {
            state: State::Closed,
            ca_state: CongestionState::Open,
            mss: Bytes::ZERO,
            cwnd: Bytes::ZERO,
            ssthresh: Bytes::MAX,
            srtt: None,
            rttvar: Dur::ZERO,
            rto: Dur::ZERO,
            min_rtt: None,
            flight: Bytes::ZERO,
            unacked: Bytes::ZERO,
            sacked: Bytes::ZERO,
            lost: Bytes::ZERO,
            lost_all: Bytes::ZERO,
            retransmitted_out: Bytes::ZERO,
            backoff: 0,
            timeouts_in_a_row: 0,
            reordering: 0,
            reorderings: 0,
            probes: 0,
            rcv_mss: Bytes::ZERO,
            notsent: Bytes::ZERO,
            bytes_sent: Bytes::ZERO,
            bytes_acked: Bytes::ZERO,
            bytes_retransmitted: Bytes::ZERO,
            retransmissions: 0,
            timeouts: 0,
            recoveries: 0,
            ecn_reductions: 0,
            undos: 0,
            spurious: 0,
            tlp_probes: 0,
            delivered: Bytes::ZERO,
            delivered_packets: 0,
            delivered_ce: Bytes::ZERO,
            accurate: None,
            ece_acks_in: 0,
            dup_acks_in: 0,
            ce_segments_in: 0,
            ce_bytes_in: Bytes::ZERO,
            segments_in: 0,
            data_segments_in: 0,
            segments_out: 0,
            acks_out: 0,
            bytes_received: Bytes::ZERO,
            bytes_duplicate: Bytes::ZERO,
            out_of_order_in: 0,
            delayed_ack_timeouts: 0,
            delayed_acks: 0,
            forgotten_acks: 0,
            refused: 0,
            snd_wnd: Bytes::ZERO,
            rcv_wnd: Bytes::ZERO,
            rcv_buf: Bytes::ZERO,
            rcv_memory: None,
            limited_cwnd: Dur::ZERO,
            limited_rwnd: Dur::ZERO,
            limited_sndbuf: Dur::ZERO,
            limited_app: Dur::ZERO,
            limits: LimitTimes::default(),
            busy: Dur::ZERO,
            pacing_rate: None,
            clamps: 0,
            controller: "",
            internals: Vec::new(),
        }
    }
}
