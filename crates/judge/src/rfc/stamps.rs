//! Timestamps: RFC 7323 sections 3 and 4.

use super::bound::{Bound, PerEnd, Strength, time};
use crate::captured::Packet;
use crate::finding::Findings;
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

const SENT: Sorts = Sorts::EMPTY_OUT.or(Sorts::DATA_OUT);

pub(super) const MISSING: Bound = Bound {
    name: "timestamp-missing",
    title: "a segment without a timestamp",
    section: "RFC 7323 section 3.2, MUST",
    strength: Strength::Must,
    statement: "when both SYNs have timestamps, every segment except a reset has them.",
    exceptions: "packets whose options the capture cut off are not judged: a timestamp may be there.",
    needs: &[Need::Headers, Need::BothDirections, Need::Handshake, Need::AtEnd],
    looks: SENT.or(Sorts::SYN),
    new: |flows| PerEnd::<Agreed>::rule(flows, missing),
};

pub(super) const BACKWARDS: Bound = Bound {
    name: "timestamp-backwards",
    title: "timestamps that decrease",
    section: "RFC 7323 section 5.3, which relies on a clock that MUST NOT decrease",
    strength: Strength::Must,
    statement: "a timestamp is not lower than that of a segment that was sent a second before.",
    exceptions: "the answer to a SYN and resets are not judged: SYN cookies store options in it.",
    needs: &[Need::Headers, Need::NoCopies, Need::AtEnd],
    looks: SENT,
    new: |flows| PerEnd::<Highest>::rule(flows, backwards),
};

pub(super) const ECHO: Bound = Bound {
    name: "timestamp-echo",
    title: "an echo of a timestamp that was not sent",
    section: "RFC 7323 section 4.3, MUST",
    strength: Strength::Must,
    statement: "a segment with ACK echoes a timestamp that its peer has sent: it is not lower than the first one and not far above the highest \
                one.",
    exceptions: "a middlebox that changes timestamps in one direction. An echo of 0 in the answer to a SYN is not judged. A capture may have \
                 missed an ACK with a newer timestamp: an echo is too high if it is further above the highest one than this is above the \
                 first one, and by more than 60,000.",
    needs: &[
        Need::Headers,
        Need::BothDirections,
        Need::Handshake,
        Need::EveryPacket,
        Need::NoCopies,
        Need::AtEnd,
    ],
    looks: SENT.or(Sorts::DATA_IN).or(Sorts::EMPTY_IN),
    new: |flows| PerEnd::<Heard>::rule(flows, echo),
};

fn packet<'a>(context: &Context<'a>, step: &Step<'_>) -> Option<&'a Packet> {
    context.captured.map(|captured| captured.packet(step.row))
}

/// Whether the SYN of each end had timestamps: the own one, the peer's.
#[derive(Clone, Debug, Default)]
struct Agreed([bool; 2]);

fn missing(state: &mut Agreed, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(packet) = packet(context, step) else { return };
    if step.flags().has(Flags::SYN) {
        state.0[usize::from(!step.is_sent())] = packet.stamps.is_some();
        return;
    }
    let bare = step.is_sent() && packet.stamps.is_none() && !packet.cut && !step.flags().has(Flags::RST);
    if bare && state.0 == [true; 2] {
        found.add(MISSING.of_sender(context, step), || {
            format!("{} sent a segment without a timestamp at {}.", context.who(step.flow), time(step.at()))
        });
    }
}

/// The highest timestamp, with the time and the row of the first segment that had it.
#[derive(Clone, Debug, Default)]
struct Highest(Option<(u32, Time, usize)>);

fn backwards(state: &mut Highest, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stamps) = packet(context, step).and_then(|packet| packet.stamps) else { return };
    if !step.is_sent() || !step.is_stream() {
        return;
    }
    let Some((highest, at, row)) = state.0.filter(|known| stamps.val.wrapping_sub(known.0).cast_signed() < 0)
    else {
        if state.0.is_none_or(|known| known.0 != stamps.val) {
            state.0 = Some((stamps.val, step.at(), step.row));
        }
        return;
    };
    if step.at().since(at) >= Dur::from_secs(1) {
        found.add(BACKWARDS.of_sender(context, step).since(row, at), || {
            let at = time(at);
            format!(
                "{} sent the timestamp {highest} at {at} and {} at {}.",
                context.who(step.flow),
                stamps.val,
                time(step.at())
            )
        });
    }
}

/// Ticks by which the clock of the peer may have advanced until a packet that the capture missed.
const MISSED: u32 = 60_000;

/// The lowest and the highest timestamp of the peer. A SYN that is sent again may have an older one than a segment before it.
#[derive(Clone, Debug, Default)]
struct Heard(Option<(u32, u32)>);

fn echo(state: &mut Heard, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stamps) = packet(context, step).and_then(|packet| packet.stamps) else { return };
    if step.event.kind == EventKind::In {
        let (lowest, highest) = state.0.unwrap_or((stamps.val, stamps.val));
        let above = stamps.val.wrapping_sub(highest).cast_signed() > 0;
        let below = stamps.val.wrapping_sub(lowest).cast_signed() < 0;
        state.0 = Some((if below { stamps.val } else { lowest }, if above { stamps.val } else { highest }));
        return;
    }
    let Some((lowest, highest)) =
        state.0.filter(|_| step.flags().has(Flags::ACK) && !step.flags().has(Flags::RST))
    else {
        return;
    };
    let blank = stamps.ecr == 0 && step.flags().has(Flags::SYN);
    let below = stamps.ecr.wrapping_sub(lowest).cast_signed() < 0;
    let ahead = stamps.ecr.wrapping_sub(highest);
    let above = ahead.cast_signed() > 0 && ahead > highest.wrapping_sub(lowest).max(MISSED);
    if !blank && (below || above) {
        found.add(ECHO.of_receiver(context, step), || {
            format!(
                "{} echoed the timestamp {} at {}; its peer had sent {lowest} to {highest}.",
                context.who(step.flow),
                stamps.ecr,
                time(step.at())
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Line, ack, data, found, opened, segment, stamped};
    use tcpassay_wire::Flags;

    const NOTHING: [Vec<u64>; 0] = [];

    /// A handshake with timestamps, and a segment that is acknowledged.
    fn log() -> Vec<Line> {
        let mut log = opened();
        log[0].2 = stamped(100, 0, log[0].2);
        log[1].2 = stamped(900, 100, log[1].2);
        log[2].2 = stamped(101, 900, log[2].2);
        log.extend([
            (10_000, 0, stamped(110, 900, data(1, 1000))),
            (10_100, 1, stamped(910, 110, ack(1001))),
            (2_000_000, 0, stamped(2100, 910, data(1001, 1000))),
            (2_000_100, 1, stamped(2900, 2100, ack(2001))),
        ]);
        log
    }

    #[test]
    fn every_segment_but_a_reset_has_a_timestamp() {
        assert_eq!(found("timestamp-missing", &log()), NOTHING);
        let mut bare = log();
        bare[4].2.options.timestamps = None;
        assert_eq!(found("timestamp-missing", &bare), [vec![5]]);
        bare[4].2.flags = Flags::RST | Flags::ACK;
        assert_eq!(found("timestamp-missing", &bare), NOTHING);
        bare[4].2.flags = Flags::ACK;
        bare[0].2.options.timestamps = None;
        assert_eq!(found("timestamp-missing", &bare), NOTHING);
    }

    #[test]
    fn timestamps_do_not_decrease() {
        assert_eq!(found("timestamp-backwards", &log()), NOTHING);
        let mut back = log();
        back[5].2 = stamped(109, 910, data(1001, 1000));
        assert_eq!(found("timestamp-backwards", &back), [vec![4, 6]]);
        // Pacing may give a segment a timestamp of the near future.
        back[5].0 = 20_000;
        assert_eq!(found("timestamp-backwards", &back), NOTHING);
    }

    #[test]
    fn an_echo_is_a_timestamp_that_was_sent() {
        assert_eq!(found("timestamp-echo", &log()), NOTHING);
        let mut odd = log();
        odd[4].2 = stamped(910, 70_111, ack(1001));
        assert_eq!(found("timestamp-echo", &odd), [vec![5]]);
        odd[4].2 = stamped(910, 111, ack(1001));
        assert_eq!(found("timestamp-echo", &odd), NOTHING);
        odd[4].2 = stamped(910, 99, ack(1001));
        assert_eq!(found("timestamp-echo", &odd), [vec![5]]);
        // A lower one has arrived.
        let mut older = odd.clone();
        older[3].2 = stamped(99, 900, data(1, 1000));
        assert_eq!(found("timestamp-echo", &older), NOTHING);
        odd[4].2 = stamped(910, 99, segment(1, 0, 1001, Flags::ACK | Flags::RST));
        assert_eq!(found("timestamp-echo", &odd), NOTHING);
    }
}
