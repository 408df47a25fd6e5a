//! The interface of a controller: its output, its inputs and its events.

use tcpassay_units::{Bytes, Dur, Rate, Time};

/// The output of a controller. It is complete and absolute each time.
///
/// The sender clamps `cwnd` to [1 MSS, maximum] and counts the clamps, which an oracle reports.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control {
    /// Congestion window in bytes.
    pub cwnd: Bytes,
    /// Slow-start threshold in bytes; [`Bytes::MAX`] until the first congestion event.
    pub ssthresh: Bytes,
    /// Pacing rate of the wire-level payload. With `None` the sender applies its own rule (`stack.pacing`: off, or a
    /// gain times `cwnd / srtt`).
    pub pacing: Option<Rate>,
}

/// The limit of the sender when the event occurred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limited {
    /// The congestion window. Only in this case may the window grow.
    Cwnd,
    /// The application had no more data to send.
    App,
    /// The peer's receive window.
    Rwnd,
}

/// The state of the sender, which a controller may read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct View {
    /// The current time.
    pub now: Time,
    /// Sender maximum segment size: payload bytes of a full segment, without options.
    pub mss: Bytes,
    /// The current control.
    pub control: Control,
    /// Bytes in flight: sent, neither cumulatively nor selectively acknowledged, nor marked lost (RFC 6675 pipe),
    /// after the event took effect.
    pub flight: Bytes,
    /// Smoothed round-trip time (RFC 6298), once measured.
    pub srtt: Option<Dur>,
    /// The smallest round-trip time of the connection.
    pub min_rtt: Option<Dur>,
    /// The limit of the sender during the flight that this event ends.
    pub limited: Limited,
    /// The earliest time at which pacing permits the next transmission; not in the future if pacing does not
    /// delay it.
    pub next_send: Time,
    /// The sender neither suspects nor repairs a loss, and reduces nothing (`TCP_CA_Open` of Linux).
    pub open: bool,
}

/// The reason of a recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Loss was detected by duplicate ACKs, SACK or RACK.
    Loss,
    /// The peer echoed a congestion mark (ECE, RFC 3168; CE count or DCTCP's echo).
    Ecn,
}

/// A delivery rate sample: the data delivered between the transmission of a segment and its ACK. If an ACK
/// reports several segments, the sample is of the one that was sent last.
///
/// Source: draft-cheng-iccrg-delivery-rate-estimation; Linux `tcp_rate_gen`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateSample {
    /// Bytes delivered, as [`Ack::delivered`] counts them.
    pub delivered: Bytes,
    /// The time in which these bytes were sent or acknowledged, whichever is longer; never zero.
    pub interval: Dur,
    /// Time at which the segment was sent.
    pub sent_at: Time,
}

impl RateSample {
    /// The delivery rate.
    pub fn rate(&self) -> Rate {
        Rate::from_bytes_per(self.delivered, self.interval)
    }
}

/// An ACK that changed the state: the cumulative acknowledgement, SACK information, or the echo of marks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ack {
    /// Bytes newly acknowledged cumulatively, including those that SACK reported before.
    pub acked: Bytes,
    /// Bytes newly delivered: newly acknowledged or newly selectively acknowledged; each byte counts once.
    pub delivered: Bytes,
    /// Bytes newly marked lost.
    pub lost: Bytes,
    /// The bytes of `delivered` that the peer reports as CE-marked. With DCTCP's echo or classic ECE these are all of
    /// them when ECE is set; with accurate ECN they follow from the counters.
    pub marked: Bytes,
    /// A valid round-trip time sample of this ACK (Karn's algorithm), if any.
    pub rtt: Option<Dur>,
    /// Delivery rate sample (draft-cheng-iccrg-delivery-rate-estimation), if valid.
    pub sample: Option<RateSample>,
    /// Whether the delivery rate sample was limited by the application.
    pub app_limited: bool,
    /// Number of the current round trip. It increases by one each time an ACK covers data sent after the previous
    /// increase.
    pub round: u64,
    /// The path reorders packets so often that data delivered out of order also increases the window (Linux
    /// `tcp_may_raise_cwnd`).
    pub reordered: bool,
}

/// An event that a controller processes. Events are data, so that they can be logged, replayed, fuzzed and compared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// The handshake is complete; `view.control` contains the initial window.
    Established,
    /// `bytes` of payload were sent (new data or a retransmission).
    Sent {
        /// Payload bytes.
        bytes: Bytes,
        /// The application left the window unused before (Linux `app_limited`).
        app_limited: bool,
        /// The time since the previous transmission, if nothing was in flight (Linux `CA_EVENT_TX_START`).
        idle: Option<Dur>,
    },
    /// A recovery or congestion window reduction begins. `flight` is the flight size of RFC 5681 (sent and not
    /// cumulatively acknowledged) before lost data is subtracted.
    Congestion {
        /// Loss or mark.
        cause: Cause,
        /// Flight size before the event.
        flight: Bytes,
    },
    /// The recovery ends. When it is not spurious, `exit` is the largest window that the exit rule of the data path
    /// allows (`stack.recovery_exit`; [`Bytes::MAX`] without a bound). When it is spurious, the changes of
    /// `Congestion` or `Timeout` must be undone, even if the recovery ended before.
    RecoveryExit {
        /// The whole recovery was proven spurious (Eifel, DSACK, F-RTO, RACK restore).
        spurious: bool,
        /// Upper bound of cwnd from the exit rule.
        exit: Bytes,
    },
    /// The retransmission timer fired. `again` marks a repeated timeout of the same data (backoff).
    Timeout {
        /// Flight size before the timeout.
        flight: Bytes,
        /// The timeout is not the first one in a row.
        again: bool,
    },
    /// The first transmission after an idle time longer than the RTO (RFC 5681 section 4.1, RFC 2861).
    Resume {
        /// Duration of the idle time.
        idle: Dur,
        /// The current retransmission timeout.
        rto: Dur,
        /// The restart window: min(initial window, cwnd).
        restart: Bytes,
    },
    /// An ACK was processed.
    Ack(Ack),
}

impl View {
    /// The view at the start of a connection: no data in flight and no measurements.
    pub fn start(mss: Bytes, control: Control) -> View {
        View {
            now: Time::ZERO,
            mss,
            control,
            flight: Bytes::ZERO,
            srtt: None,
            min_rtt: None,
            limited: Limited::Cwnd,
            next_send: Time::ZERO,
            open: true,
        }
    }
}
