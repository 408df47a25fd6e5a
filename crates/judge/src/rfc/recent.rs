//! Which timestamp is echoed: RFC 7323 section 4.3.

use super::bound::{Bound, PerEnd, Strength, time};
use crate::finding::Findings;
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use std::collections::BTreeMap;
use tcpassay_measure::EventKind;
use tcpassay_wire::Flags;

pub(super) const RECENT: Bound = Bound {
    name: "timestamp-recent",
    title: "an echo that is not TS.Recent",
    section: "RFC 7323 section 4.3, which defines what is echoed; MUST",
    strength: Strength::Must,
    statement: "the timestamp that a segment echoes is that of a segment which began at or below the last ACK number that was sent before (data beyond \
                a gap, and those that follow data which wait for an ACK, are not echoed). It is not older than that of a segment which was the first one after \
                all data before were acknowledged, and which is acknowledged now.",
    exceptions: "a device that merges segments with different timestamps. Not judged are the second condition for segments whose ACK number is old, and \
                 everything after FINs in both directions, and after a SYN that follows data.",
    needs: &[Need::BothDirections, Need::Handshake, Need::EveryPacket, Need::NoCopies, Need::AtEnd],
    looks: Sorts::SYN.or(Sorts::EMPTY_OUT).or(Sorts::DATA_OUT).or(Sorts::EMPTY_IN).or(Sorts::DATA_IN),
    new: |flows| PerEnd::<Recent>::rule(flows, on),
};

/// Segments that begin at different positions above the last ACK number and are remembered.
const MOST: usize = 4096;

#[derive(Clone, Debug, Default)]
struct Recent {
    /// The highest ACK number that this end has sent.
    last_ack: Option<u64>,
    /// The highest timestamp of a segment that began at or below it.
    highest: Option<u32>,
    /// The highest timestamp of the segments that began at each position above it.
    above: BTreeMap<u64, u32>,
    /// The first segment after an ACK of everything: its end and its timestamp.
    first: Option<(u64, u32)>,
    /// The highest timestamp of such a segment that is acknowledged.
    lowest: Option<u32>,
    /// The end of the data that have arrived, and the highest ACK number.
    arrived: u64,
    acked: u64,
    /// What is not followed any more.
    over: bool,
}

fn newer(one: u32, than: Option<u32>) -> bool {
    than.is_none_or(|than| one.wrapping_sub(than).cast_signed() > 0)
}

fn on(state: &mut Recent, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stamp) = step.event.value.and_then(|value| u32::try_from(value).ok()) else { return };
    // A reset, or another handshake on the same ports, ends what is known of the connection.
    let again = step.flags().has(Flags::SYN) && state.arrived > 0;
    state.over |= step.end.over || again || step.flags().has(Flags::RST) || state.above.len() >= MOST;
    if state.over {
        return;
    }
    if step.flags().has(Flags::SYN) {
        if step.event.kind == EventKind::In {
            // A SYN that its SYN-ACK overtook is older.
            state.highest = if newer(stamp, state.highest) { Some(stamp) } else { state.highest };
        } else {
            state.last_ack = step.event.ack.or(state.last_ack);
        }
        return;
    }
    if step.event.kind == EventKind::In {
        state.arrives(step, stamp);
        return;
    }
    let Some(ack) = step.event.ack else { return };
    if let Some((_, first)) = state.first.take_if(|first| first.0 <= ack)
        && newer(first, state.lowest)
    {
        state.lowest = Some(first);
    }
    let ahead = state.highest.is_some() && newer(stamp, state.highest);
    let behind = state.lowest.is_some_and(|lowest| newer(lowest, Some(stamp)));
    if state.last_ack.is_some() && (ahead || behind) {
        let (bound, word) = if ahead { (state.highest, "newest") } else { (state.lowest, "oldest") };
        found.add(RECENT.of_receiver(context, step), || {
            format!(
                "{} echoed the timestamp {stamp} at {}; the {word} one that it could echo was {}.",
                context.who(step.flow),
                time(step.at()),
                bound.unwrap_or_default()
            )
        });
    }
    let last = state.last_ack.unwrap_or(0).max(ack);
    state.last_ack = Some(last);
    while let Some(entry) = state.above.first_entry().filter(|entry| *entry.key() <= last) {
        let stamp = entry.remove();
        if newer(stamp, state.highest) {
            state.highest = Some(stamp);
        }
    }
}

impl Recent {
    fn arrives(&mut self, step: &Step<'_>, stamp: u32) {
        let (seq, end) = (step.seq(), step.seq_end());
        let last = self.last_ack.unwrap_or(u64::MAX);
        if seq > last {
            let known = self.above.entry(seq).or_insert(stamp);
            if newer(stamp, Some(*known)) {
                *known = stamp;
            }
        } else if newer(stamp, self.highest) {
            self.highest = Some(stamp);
        }
        let ack = step.event.ack.unwrap_or(0);
        if end > seq && seq == last && seq >= self.arrived && ack >= self.acked {
            self.first = Some((end, stamp));
        }
        self.arrived = self.arrived.max(end);
        self.acked = self.acked.max(ack);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Line, ack, data, found, opened, stamped, syn};
    use tcpassay_wire::Flags;

    const NOTHING: [Vec<u64>; 0] = [];

    /// End 1 receives three segments of 1000 bytes, sent at ticks 110, 120 and 130, and sends one ACK after each of `acks`: the number of segments
    /// that have arrived, the ACK number and the echo.
    fn log(acks: &[(usize, u32, u32)]) -> Vec<Line> {
        let mut log = opened();
        log[0].2 = stamped(100, 0, log[0].2);
        log[1].2 = stamped(900, 100, log[1].2);
        log[2].2 = stamped(101, 900, log[2].2);
        let seqs = [1, 1001, 2001];
        for (n, (seq, stamp)) in seqs.into_iter().zip([110, 120, 130]).enumerate() {
            let at = 10_000 + 10_000 * n as u64;
            log.push((at, 0, stamped(stamp, 900, data(seq, 1000))));
            for (_, number, echo) in acks.iter().filter(|(after, ..)| *after == n + 1) {
                log.push((at + 50, 1, stamped(910, *echo, ack(*number))));
            }
        }
        log
    }

    #[test]
    fn an_ack_of_two_segments_echoes_the_first_of_them() {
        assert_eq!(found("timestamp-recent", &log(&[(2, 2001, 110), (3, 3001, 130)])), NOTHING);
        assert_eq!(found("timestamp-recent", &log(&[(2, 2001, 120)])), [vec![6]]);
        assert_eq!(found("timestamp-recent", &log(&[(2, 2001, 101)])), [vec![6]]);
    }

    #[test]
    fn data_beyond_a_gap_are_not_echoed() {
        let gap = |echo| {
            let mut log = log(&[(1, 1001, 110), (3, 1001, echo)]);
            log.remove(5);
            log
        };
        assert_eq!(found("timestamp-recent", &gap(110)), NOTHING);
        assert_eq!(found("timestamp-recent", &gap(130)), [vec![7]]);
    }

    #[test]
    fn a_syn_that_its_syn_ack_overtook_is_not_echoed() {
        let crossed = |echo| {
            vec![
                (0, 1, stamped(900, 0, syn(Flags::SYN, 0))),
                (10_000, 0, stamped(110, 900, syn(Flags::SYN | Flags::ACK, 1))),
                (10_010, 0, stamped(100, 0, syn(Flags::SYN, 0))),
                (10_020, 1, stamped(910, 110, ack(1))),
                (10_030, 1, stamped(910, echo, ack(1))),
            ]
        };
        assert_eq!(found("timestamp-recent", &crossed(110)), NOTHING);
        assert_eq!(found("timestamp-recent", &crossed(111)), [vec![5]]);
    }

    #[test]
    fn a_segment_after_an_ack_of_everything_is_echoed_from_its_ack_on() {
        assert_eq!(found("timestamp-recent", &log(&[(1, 1001, 110), (2, 1001, 110)])), NOTHING);
        assert_eq!(found("timestamp-recent", &log(&[(1, 1001, 110), (2, 2001, 110)])), [vec![7]]);
    }
}
