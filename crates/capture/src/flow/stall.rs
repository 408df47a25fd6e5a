//! Stalls: silences of a connection that its round-trip times do not explain, and their causes.

use serde::Serialize;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use tcpassay_units::Dur;

/// The cause of a stall, derived from the packet that ended it, from what was outstanding, and from timestamps.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, EnumMessage, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum StallCause {
    /// The sender waited for its retransmission timer: no ACK and no report of a loss came for what was outstanding.
    RetransmissionTimer,
    /// The sender waited for the probe timer of the last segment, which is shorter than the retransmission timer (RFC 8985 section 7).
    TailLossProbe,
    /// The receiver had reported a loss (SACK, duplicate ACKs), and the lost data came again.
    FastRetransmission,
    /// The sender waited for an ACK that the receiver delayed: less than two segments were outstanding, and the ACK left late.
    DelayedAck,
    /// An ACK of less than two segments came late: the receiver delayed it, or the path did.
    PossibleDelayedAck,
    /// An ACK came late, and has not the form of a delayed one: the receiver or the path.
    LateAck,
    /// The receiver had announced that its window has no room for a segment: its application did not read.
    ClosedWindow,
    /// What the receive window permits was outstanding, and an ACK that opened it came late.
    FullWindow,
    /// The packet that ended the silence was on the path: its timestamp shows that it was sent before.
    Path,
    /// The sender had nothing outstanding and sent nothing: its application had written nothing.
    Application,
    /// The data of this end were acknowledged and not answered until it closed the connection, although data of it had been answered before:
    /// the application of the other end.
    Unanswered,
    /// The data of this end were acknowledged, and nothing followed until it closed the connection: the application of the other end did not
    /// answer, or its own one had no more to send.
    OneOfTheApplications,
    /// Nothing was outstanding, and no data arrived at the capture: the application, the window of the sender, or the path.
    NoData,
    /// Data that the sender had sent did not arrive at the receiver: the path lost or held them, and the timer of the sender had not sent them
    /// again.
    MissingData,
    /// The sender had data outstanding and sent new data without an ACK: its application wrote, or it paces, or it probes for a loss.
    SenderResumed,
    /// The end that opens the connection waited for the timer of its SYN.
    SynTimer,
}

/// All stalls of a flow with one cause.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Stalls {
    /// The cause.
    pub cause: StallCause,
    /// Number of stalls.
    pub count: u64,
    /// The sum of the silences.
    pub total_ns: u64,
    /// The longest silence.
    pub longest_ns: u64,
    /// Time at which the first stall began, since the first packet of the connection.
    pub first_ns: u64,
    /// Time at which the longest stall began, since the first packet of the connection.
    pub longest_at_ns: u64,
}

/// The stalls of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct StallTable(Vec<Stalls>);

impl StallTable {
    /// Adds a silence that began `start` after the first packet.
    pub fn add(&mut self, cause: StallCause, start: Dur, length: Dur) {
        let (start, length) = (start.as_nanos(), length.as_nanos());
        let place = self.0.iter().position(|one| one.cause == cause).unwrap_or_else(|| {
            self.0.push(Stalls {
                cause,
                count: 0,
                total_ns: 0,
                longest_ns: 0,
                first_ns: start,
                longest_at_ns: start,
            });
            self.0.len() - 1
        });
        let stalls = &mut self.0[place];
        stalls.count += 1;
        stalls.total_ns = stalls.total_ns.saturating_add(length);
        if length > stalls.longest_ns {
            (stalls.longest_ns, stalls.longest_at_ns) = (length, start);
        }
    }

    /// Adds a silence that continues the last stall with its cause: together they are `whole` and began `start` after the first packet.
    pub fn extend(&mut self, cause: StallCause, start: Dur, length: Dur, whole: Dur) {
        let Some(stalls) = self.0.iter_mut().find(|one| one.cause == cause) else { return };
        stalls.total_ns = stalls.total_ns.saturating_add(length.as_nanos());
        if whole.as_nanos() > stalls.longest_ns {
            (stalls.longest_ns, stalls.longest_at_ns) = (whole.as_nanos(), start.as_nanos());
        }
    }

    pub fn has(&self, cause: StallCause) -> bool {
        self.0.iter().any(|one| one.cause == cause)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// By cause.
    pub fn take(&self) -> Vec<Stalls> {
        let mut all = self.0.clone();
        all.sort_by_key(|one| one.cause);
        all
    }
}

/// No threshold is shorter.
pub(crate) const SHORTEST: Dur = Dur::from_millis(10);

/// No round trip is longer, if nothing is known of it.
const LONGEST_TRIP: Dur = Dur::from_secs(3);
/// No retransmission timer is shorter, if nothing is known of the round trip (Linux: `TCP_RTO_MIN`).
pub(crate) const SHORTEST_TIMER: Dur = Dur::from_millis(200);

/// Whether a silence is shorter than any retransmission timer: data that are sent again after a report of a loss needed none.
pub(crate) fn is_short(silence: Dur, round_trip: Dur) -> bool {
    silence < SHORTEST_TIMER.max(round_trip.saturating_mul(2))
}

/// The silence from which on there is a stall with this cause. `round_trip` is that of the connection, `receiver` the response time of the
/// receiver of the direction that stalled.
///
/// Without a round trip only those silences are stalls that a timer or a closed window explains, and those that are longer than any
/// round trip.
pub(crate) fn shortest(
    cause: StallCause,
    round_trip: Option<Dur>,
    receiver: impl FnOnce() -> Option<Dur>,
) -> Dur {
    if let Some(round_trip) = round_trip {
        return threshold(round_trip);
    }
    match cause {
        StallCause::ClosedWindow => SHORTEST,
        StallCause::RetransmissionTimer | StallCause::TailLossProbe | StallCause::SynTimer => SHORTEST_TIMER,
        StallCause::DelayedAck
        | StallCause::PossibleDelayedAck
        | StallCause::LateAck
        | StallCause::FullWindow => receiver().map_or(LONGEST_TRIP, threshold),
        StallCause::FastRetransmission
        | StallCause::Path
        | StallCause::Application
        | StallCause::Unanswered
        | StallCause::OneOfTheApplications
        | StallCause::NoData
        | StallCause::MissingData
        | StallCause::SenderResumed => LONGEST_TRIP,
    }
}

/// The round-trip time, plus a quarter of it or [`SHORTEST`], whichever is longer.
fn threshold(round_trip: Dur) -> Dur {
    let more = if round_trip / 4 > SHORTEST { round_trip / 4 } else { SHORTEST };
    round_trip.saturating_add(more)
}
