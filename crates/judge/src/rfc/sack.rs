//! SACK blocks by themselves: RFC 2018 sections 2, 3 and 8, RFC 2883 section 4.

use super::bound::{Bound, PerEnd, Strength, is_dsack};
use crate::finding::Findings;
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use tcpassay_wire::Flags;

pub(super) const TOUCH: Bound = Bound {
    name: "sack-blocks-touch",
    title: "SACK blocks that touch each other",
    section: "RFC 2018 section 3, where a block is contiguous and isolated by definition; treated as SHOULD",
    strength: Strength::Should,
    statement: "two SACK blocks of a segment neither overlap nor touch: the bytes just below and just above a block have not been received.",
    exceptions: "a first block that reports a duplicate (RFC 2883) may lie inside of another one.",
    needs: &[],
    looks: Sorts::SACKS_OUT,
    new: |flows| PerEnd::<()>::rule(flows, touch),
};

pub(super) const STALE: Bound = Bound {
    name: "sack-below-ack",
    title: "a SACK block below the ACK that is not the first",
    section: "RFC 2883 section 4, MUST",
    strength: Strength::Must,
    statement: "only the first SACK block reports data that the same segment acknowledges: there it reports a duplicate.",
    exceptions: "a middlebox that changes sequence numbers and leaves SACK blocks as they were. Segments with a block of data that were not \
                 sent are therefore not judged.",
    needs: &[Need::BothDirections],
    looks: Sorts::SACKS_OUT,
    new: |flows| PerEnd::<()>::rule(flows, stale),
};

pub(super) const ABOVE_ACK: Bound = Bound {
    name: "ack-below-sacked",
    title: "an ACK below data that its sender had reported without a gap",
    section: "RFC 2018 section 8, SHOULD NOT discard what was reported, and RFC 9293 section 3.10.7.4",
    strength: Strength::Should,
    statement: "when everything below a block has arrived that a receiver has reported, its ACK includes the block.",
    exceptions: "a receiver without memory may discard what it has reported (reneging). Blocks of data that were not sent are not judged.",
    needs: &[Need::BothDirections],
    looks: Sorts::SACKS_OUT.or(Sorts::EMPTY_OUT).or(Sorts::DATA_OUT),
    new: |flows| PerEnd::<Reported>::rule(flows, above),
};

pub(super) const PERMITTED: Bound = Bound {
    name: "sack-permitted",
    title: "SACK against its negotiation",
    section: "RFC 2018 section 2, MUST NOT",
    strength: Strength::Must,
    statement: "the option SACK-permitted is sent with a SYN only, and SACK blocks only if the peer's SYN had the option.",
    exceptions: "a middlebox that removes the option from a SYN behind the place of the log, or adds it.",
    needs: &[Need::Headers, Need::BothDirections, Need::Handshake, Need::AtEnd],
    looks: Sorts::SYN.or(Sorts::EMPTY_OUT).or(Sorts::DATA_OUT),
    new: |flows| PerEnd::<Permission>::rule(flows, permitted),
};

/// Whether all blocks report data that the peer has sent, as far as this log shows.
fn plausible(step: &Step<'_>) -> bool {
    let highest = step.end.above.last().map_or(step.end.now.frontier, |range| range.1);
    step.sacks.iter().all(|block| block.0 < block.1 && block.1 <= highest)
}

fn touch((): &mut (), context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    // A duplicate may also lie inside of another block than the second: the order of blocks is judged by another rule.
    let within = |first: &(u64, u64)| step.sacks[1..].iter().any(|two| two.0 <= first.0 && first.1 <= two.1);
    let duplicate = is_dsack(step) || step.sacks.first().is_some_and(within);
    let blocks = &step.sacks[usize::from(duplicate)..];
    let touching = |(place, one): (usize, &(u64, u64))| {
        let other = blocks[place + 1..].iter().find(|other| one.0 <= other.1 && other.0 <= one.1)?;
        Some((*one, *other))
    };
    if let Some((one, other)) = blocks.iter().enumerate().find_map(touching) {
        found.add(TOUCH.of_receiver(context, step), || {
            format!(
                "{} reported positions {} to {} and {} to {} in two SACK blocks of one segment.",
                context.who(step.flow),
                one.0,
                one.1,
                other.0,
                other.1
            )
        });
    }
}

fn stale((): &mut (), context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(ack) = step.event.ack.filter(|_| plausible(step)) else { return };
    if let Some(block) = step.sacks.iter().skip(1).find(|block| block.1 <= ack) {
        found.add(STALE.of_receiver(context, step), || {
            format!(
                "{} acknowledged everything below {ack} and reported positions {} to {} in a SACK block that is not the first.",
                context.who(step.flow), block.0, block.1
            )
        });
    }
}

/// Blocks that a receiver has reported.
#[derive(Clone, Debug, Default)]
struct Reported {
    blocks: Vec<((u64, u64), usize)>,
}

/// Number of blocks that are remembered.
const MOST: usize = 32;

fn above(state: &mut Reported, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if !step.is_sent() || !step.is_stream() || state.blocks.is_empty() && step.sacks.is_empty() {
        return;
    }
    let Some(ack) = step.event.ack else { return };
    let own = &step.sacks[usize::from(is_dsack(step))..];
    if !own.is_empty() && plausible(step) {
        for block in own.iter().filter(|block| block.1 > ack) {
            match state.blocks.iter_mut().find(|(known, _)| known.0 == block.0 && known.1 <= block.1) {
                Some(known) => *known = (*block, step.row),
                None => state.blocks.push((*block, step.row)),
            }
        }
        if state.blocks.len() > MOST {
            state.blocks.remove(0);
        }
    }
    let below = state.blocks.iter().find(|(block, _)| block.0 <= ack && ack < block.1).copied();
    state.blocks.retain(|(block, _)| block.0 > ack);
    if let Some((block, row)) = below {
        let mut one = ABOVE_ACK.of_receiver(context, step);
        if row != step.row {
            one.rows.insert(0, row);
        }
        found.add(one, || {
            format!(
                "{} acknowledged everything below {ack} only, although it had reported positions {} to {} as received.",
                context.who(step.flow),
                block.0,
                block.1
            )
        });
    }
}

/// Whether the peer's SYN had the option.
#[derive(Clone, Debug, Default)]
struct Permission {
    permits: Option<bool>,
}

fn permitted(state: &mut Permission, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(packet) = context.captured.map(|captured| captured.packet(step.row)) else { return };
    let syn = step.flags().has(Flags::SYN);
    if !step.is_sent() {
        if syn && !packet.cut {
            state.permits = Some(state.permits.unwrap_or(false) || packet.sack_permitted);
        }
        return;
    }
    let why = if packet.sack_permitted && !syn {
        "sent the option SACK-permitted with a segment that is not a SYN"
    } else if !step.sacks.is_empty() && state.permits == Some(false) {
        "sent SACK blocks, although the SYN of its peer had no option SACK-permitted"
    } else {
        return;
    };
    found.add(PERMITTED.of_receiver(context, step), || format!("{} {why}.", context.who(step.flow)));
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Line, ack, data, found, opened, sacked, syn};
    use tcpassay_wire::Flags;

    const NOTHING: [Vec<u64>; 0] = [];

    /// Five segments of 1000 bytes, then an answer, which is frame 9.
    fn flight(answer: tcpassay_wire::Segment) -> Vec<Line> {
        let mut log = opened();
        log.extend((0..5).map(|n| (10_000 + u64::from(n), 0, data(1 + 1000 * n, 1000))));
        log.push((20_000, 1, answer));
        log
    }

    #[test]
    fn two_blocks_of_a_segment_have_a_gap_between_them() {
        let touching = sacked(1, &[(2001, 3001), (1001, 2001)]);
        assert_eq!(found("sack-blocks-touch", &flight(touching)), [vec![9]]);
        let isolated = sacked(1, &[(3001, 4001), (1001, 2001)]);
        assert_eq!(found("sack-blocks-touch", &flight(isolated)), NOTHING);
        let duplicate = sacked(1, &[(2001, 3001), (1001, 4001)]);
        assert_eq!(found("sack-blocks-touch", &flight(duplicate)), NOTHING);
        let later = sacked(1, &[(3001, 4001), (1001, 2001), (3001, 4001)]);
        assert_eq!(found("sack-blocks-touch", &flight(later)), NOTHING);
    }

    #[test]
    fn only_the_first_block_reports_what_is_acknowledged() {
        assert_eq!(found("sack-below-ack", &flight(sacked(2001, &[(3001, 4001), (1, 1001)]))), [vec![9]]);
        assert_eq!(found("sack-below-ack", &flight(sacked(2001, &[(1, 1001), (3001, 4001)]))), NOTHING);
        // A middlebox that changes sequence numbers: blocks of data that were not sent.
        assert_eq!(found("sack-below-ack", &flight(sacked(2001, &[(9001, 9501), (1, 1001)]))), NOTHING);
    }

    #[test]
    fn an_ack_includes_a_block_that_touches_it() {
        assert_eq!(found("ack-below-sacked", &flight(sacked(1001, &[(1001, 2001)]))), [vec![9]]);
        assert_eq!(found("ack-below-sacked", &flight(sacked(1001, &[(2001, 3001)]))), NOTHING);
        assert_eq!(found("ack-below-sacked", &flight(sacked(2001, &[(1001, 2001)]))), NOTHING);
    }

    #[test]
    fn an_ack_includes_what_was_reported_before() {
        let mut log = flight(sacked(1, &[(1001, 3001)]));
        log.extend([(30_000, 0, data(1, 1000)), (40_000, 1, ack(1001))]);
        assert_eq!(found("ack-below-sacked", &log), [vec![9, 11]]);
        log[10] = (40_000, 1, ack(3001));
        assert_eq!(found("ack-below-sacked", &log), NOTHING);
    }

    #[test]
    fn sack_follows_its_negotiation() {
        let mut log = flight(sacked(1, &[(1001, 2001)]));
        assert_eq!(found("sack-permitted", &log), NOTHING);
        log[0].2.options.sack_permitted = false;
        assert_eq!(found("sack-permitted", &log), [vec![9]]);
        let mut late = ack(1001);
        late.options.sack_permitted = syn(Flags::SYN, 0).options.sack_permitted;
        assert_eq!(found("sack-permitted", &flight(late)), [vec![9]]);
    }
}
