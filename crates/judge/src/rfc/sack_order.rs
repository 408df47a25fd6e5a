//! SACK blocks against what arrived: RFC 2018 section 4, RFC 2883 section 4.

use super::bound::{Bound, PerEnd, Strength, is_dsack, settled, time};
use crate::finding::Findings;
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_units::Time;
use tcpassay_wire::Flags;

const NEEDS: &[Need] =
    &[Need::BothDirections, Need::Handshake, Need::EveryPacket, Need::NoCopies, Need::AtEnd];

pub(super) const FIRST_BLOCK: Bound = Bound {
    name: "sack-first-block",
    title: "the first SACK block is not that of the newest data",
    section: "RFC 2018 section 4, MUST",
    strength: Strength::Must,
    statement: "the first SACK block, or the second after one that reports a duplicate, contains the data that arrived last, if these are \
                above a gap.",
    exceptions: "a receiver that discards data (lack of memory, beyond its window). Data count when the receiver must have processed them: \
                 after twice its shortest response time, at least 10 ms.",
    needs: NEEDS,
    looks: Sorts::SACKS_OUT.or(Sorts::DATA_IN).or(Sorts::LAST),
    new: |flows| PerEnd::<Newest>::rule(flows, first),
};

pub(super) const DSACK: Bound = Bound {
    name: "dsack-of-single-arrival",
    title: "a DSACK of data that arrived once",
    section: "RFC 2883 section 4, MUST",
    strength: Strength::Must,
    statement: "a first SACK block at or below the ACK, or inside of the second block, reports data that arrived more than once.",
    exceptions: "a packet that the network copied behind the place of the capture.",
    needs: NEEDS,
    looks: Sorts::SACKS_OUT.or(Sorts::DATA_IN).or(Sorts::LAST),
    new: |flows| PerEnd::<Repeated>::rule(flows, dsack),
};

/// The data that arrived last, if they are above a gap: positions, time, row.
#[derive(Clone, Debug, Default)]
struct Newest(Option<((u64, u64), Time, usize)>);

fn first(state: &mut Newest, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if step.event.kind == EventKind::In {
        let above = step.seq() > step.before.frontier && step.end.repeated.is_none();
        let taken = !step.refused && step.seq_end() <= step.before.offered;
        let plain = step.len() > 0 && !step.flags().any(Flags::SYN | Flags::FIN | Flags::RST);
        state.0 = (above && taken && plain).then_some(((step.seq(), step.seq_end()), step.at(), step.row));
        return;
    }
    let (Some((range, at, row)), Some(ack)) = (state.0, step.event.ack) else { return };
    if step.sacks.is_empty() || !step.is_stream() || step.at().since(at) < settled(context, step.flow) {
        return;
    }
    let Some(block) = step.sacks.get(usize::from(is_dsack(step))) else { return };
    if ack < range.0 && (range.0 < block.0 || block.1 < range.1) {
        state.0 = None;
        found.add(FIRST_BLOCK.of_receiver(context, step).since(row, step.at()), || {
            let at = time(at);
            format!(
                "Positions {} to {} were the last to arrive at {}, at {at}, but the first SACK block that it sent at {} is of {} to {}.",
                range.0, range.1, context.who(step.flow), time(step.at()), block.0, block.1
            )
        });
    }
}

/// Ranges that arrived more than once.
#[derive(Clone, Debug, Default)]
struct Repeated {
    ranges: Vec<(u64, u64)>,
    /// There were more than are remembered.
    many: bool,
}

/// Number of ranges that are remembered.
const MOST: usize = 256;

fn dsack(state: &mut Repeated, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if step.event.kind == EventKind::In {
        let fin = u64::from(step.flags().has(Flags::FIN));
        let whole = (step.seq(), step.seq_end() + fin);
        let again = if step.refused { Some(whole) } else { step.end.repeated };
        if let Some(range) = again {
            state.many |= state.ranges.len() == MOST;
            if !state.many {
                state.ranges.push(range);
            }
        }
        return;
    }
    // The SYN is at position 0.
    if state.many || step.sacks.is_empty() || !is_dsack(step) || step.sacks[0].1 <= 1 {
        return;
    }
    let (start, end) = step.sacks[0];
    if start < end && !state.ranges.iter().any(|range| range.0 < end && start < range.1) {
        found.add(DSACK.of_receiver(context, step), || {
            format!(
                "{} reported positions {start} to {end} as duplicates; they had arrived once at most.",
                context.who(step.flow)
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Line, data, found, opened, sacked};

    const NOTHING: [Vec<u64>; 0] = [];

    fn flight() -> Vec<Line> {
        let mut log = opened();
        log.extend([
            (10_000, 0, data(1, 1000)),
            (10_010, 0, data(2001, 1000)),
            (10_020, 0, data(4001, 1000)),
        ]);
        log
    }

    #[test]
    fn the_first_block_contains_what_arrived_last() {
        let mut log = flight();
        log.push((25_000, 1, sacked(1001, &[(2001, 3001), (4001, 5001)])));
        assert_eq!(found("sack-first-block", &log), [vec![6, 7]]);
        log[6] = (25_000, 1, sacked(1001, &[(4001, 5001), (2001, 3001)]));
        assert_eq!(found("sack-first-block", &log), NOTHING);
        // The receiver may not have processed the last packet yet.
        log[6] = (10_030, 1, sacked(1001, &[(2001, 3001)]));
        assert_eq!(found("sack-first-block", &log), NOTHING);
    }

    #[test]
    fn a_dsack_reports_what_arrived_twice() {
        let mut log = flight();
        log.push((25_000, 1, sacked(1001, &[(1, 1001), (4001, 5001)])));
        assert_eq!(found("dsack-of-single-arrival", &log), [vec![7]]);
        log.insert(6, (20_000, 0, data(1, 1000)));
        assert_eq!(found("dsack-of-single-arrival", &log), NOTHING);
    }
}
