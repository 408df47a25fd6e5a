//! What a controller may set, what it may read, and what it is told.

use tcpassay_units::{Bytes, Dur, Rate, Time};

/// All that a controller may set, returned whole and absolute each time.
///
/// The sender clamps `cwnd` to [1 MSS, maximum] and counts the clamps: a clamp is something for an oracle.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control {
    /// Congestion window in bytes.
    pub cwnd: Bytes,
    /// Slow-start threshold in bytes; [`Bytes::MAX`] until the first congestion.
    pub ssthresh: Bytes,
    /// Pacing rate of the wire-level payload, or `None` to leave pacing to the sender's own rule
    /// (`stack.pacing`: off, or a gain times `cwnd / srtt`).
    pub pacing: Option<Rate>,
}

/// What kept the sender from sending more when the event happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limited {
    /// The congestion window: growth is earned.
    Cwnd,
    /// The application offered no more data.
    App,
    /// The peer's receive window.
    Rwnd,
}

/// What a controller may read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct View {
    /// The present.
    pub now: Time,
    /// Sender maximum segment size: payload bytes of a full segment (options already taken off).
    pub mss: Bytes,
    /// The control in force.
    pub control: Control,
    /// Bytes in flight: sent, neither cumulatively nor selectively acknowledged, nor marked lost (RFC 6675 pipe),
    /// after the event took effect.
    pub flight: Bytes,
    /// Smoothed round-trip time (RFC 6298), once measured.
    pub srtt: Option<Dur>,
    /// The smallest round-trip time seen on the connection.
    pub min_rtt: Option<Dur>,
    /// What limited the sender over the flight that this event concludes.
    pub limited: Limited,
}

/// Why a recovery begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Loss was detected by duplicate ACKs, SACK or RACK.
    Loss,
    /// The peer echoed a congestion mark (ECE, RFC 3168; CE count or DCTCP's echo).
    Ecn,
}

/// One ACK that moved something: the cumulative point, SACK, or the echo of marks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ack {
    /// Bytes newly acknowledged by the cumulative point (including any that SACK had reported before).
    pub acked: Bytes,
    /// Bytes newly delivered: newly acknowledged or newly selectively acknowledged, each byte once.
    pub delivered: Bytes,
    /// Bytes newly marked lost.
    pub lost: Bytes,
    /// Of `delivered`, the bytes that the peer reports as CE-marked: with DCTCP's echo or classic ECE all of them
    /// when ECE is set, with accurate ECN what the counters say.
    pub marked: Bytes,
    /// A valid round-trip sample of this ACK (Karn), if any.
    pub rtt: Option<Dur>,
    /// Delivery rate sample (draft-cheng-iccrg-delivery-rate-estimation), if valid.
    pub delivery_rate: Option<Rate>,
    /// Whether the delivery rate sample was limited by the application.
    pub app_limited: bool,
    /// Number of the present round trip: it rises by one each time an ACK covers data sent after the rise before.
    pub round: u64,
    /// The path reorders so much that what is delivered out of order opens the window, too (Linux `tcp_may_raise_cwnd`).
    pub reordered: bool,
}

/// What a controller is told. Events are data: they can be logged, replayed, fuzzed and compared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// The handshake finished; `view.control` holds the initial window.
    Established,
    /// `bytes` of payload were sent (new data or a retransmission).
    Sent {
        /// Payload bytes.
        bytes: Bytes,
    },
    /// Recovery or congestion-window reduction begins. `flight` is the flight size of RFC 5681 (sent and not
    /// cumulatively acknowledged) before the loss was taken off it.
    Congestion {
        /// Loss or mark.
        cause: Cause,
        /// Flight before the event.
        flight: Bytes,
    },
    /// Recovery ends. Not spurious: the window that the data path's exit rule allows is `exit`
    /// (`stack.recovery_exit`; [`Bytes::MAX`] when the rule sets no bound). Spurious: it should never have begun, and
    /// what `Congestion` or `Timeout` changed is to be undone, also when the recovery has been left before.
    RecoveryExit {
        /// The whole recovery was proven false (Eifel, DSACK, F-RTO, RACK restore).
        spurious: bool,
        /// Bound on cwnd from the exit rule.
        exit: Bytes,
    },
    /// The retransmission timer fired. `again`: it is a repeated timeout of the same data (backoff).
    Timeout {
        /// Flight before the timeout.
        flight: Bytes,
        /// Not the first timeout in a row.
        again: bool,
    },
    /// The first transmission after an idle time longer than the RTO (RFC 5681 section 4.1, RFC 2861).
    Resume {
        /// How long the connection was idle.
        idle: Dur,
        /// The retransmission timeout in force.
        rto: Dur,
        /// The restart window: min(initial window, cwnd).
        restart: Bytes,
    },
    /// An ACK was processed.
    Ack(Ack),
}

impl View {
    /// The view at the start of a connection: nothing in flight, nothing measured.
    pub fn start(mss: Bytes, control: Control) -> View {
        View {
            now: Time::ZERO,
            mss,
            control,
            flight: Bytes::ZERO,
            srtt: None,
            min_rtt: None,
            limited: Limited::Cwnd,
        }
    }
}
