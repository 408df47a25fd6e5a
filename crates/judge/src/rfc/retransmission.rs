//! Needless retransmissions: RFC 2018 section 5, RFC 6675 section 5.

use super::bound::{Bound, PerEnd, Strength, is_dsack, settled, time};
use crate::finding::Findings;
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_units::{Dur, Time};

pub(super) const SACKED_AGAIN: Bound = Bound {
    name: "sacked-data-sent-again",
    title: "data that SACK had reported are sent again",
    section: "RFC 2018 section 5 and RFC 6675 section 5, SHOULD",
    strength: Strength::Should,
    statement: "a segment is not sent again whose data a SACK block reported as a whole before it was sent.",
    exceptions: "a retransmission timeout may discard what SACK reported: after a silence of 150 ms before a retransmission the oracle is \
                 silent about all that was sent before. A block counts only when the sender must have processed it: after twice its \
                 shortest response time, at least 10 ms. A packet that waited longer in the sender (traffic control) may be older than the \
                 block.",
    needs: &[Need::BothDirections, Need::NoCopies, Need::AtEnd],
    looks: Sorts::SACKS_IN.or(Sorts::DATA_OUT),
    new: |flows| PerEnd::<Sacked>::rule(flows, on),
};

/// A silence that may be a retransmission timeout.
const TIMEOUT: Dur = Dur::from_millis(150);
/// Number of blocks that are remembered.
const MOST: usize = 64;

#[derive(Clone, Debug, Default)]
struct Sacked {
    /// Blocks with the time and the row of the first segment that reported them.
    blocks: Vec<((u64, u64), Time, usize)>,
    last_sent: Option<Time>,
    /// What was sent before the last possible timeout.
    recover: u64,
}

fn on(state: &mut Sacked, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if step.is_arrival() {
        let ack = step.event.ack.unwrap_or(0);
        state.blocks.retain(|(block, ..)| block.1 > ack);
        let dsack = usize::from(is_dsack(step));
        for block in &step.sacks[dsack..] {
            if !state.blocks.iter().any(|(known, ..)| known.0 <= block.0 && block.1 <= known.1) {
                if state.blocks.len() == MOST {
                    let _ = state.blocks.remove(0);
                }
                state.blocks.push((*block, step.at(), step.row));
            }
        }
        return;
    }
    if !step.is_sent() || step.len() == 0 {
        return;
    }
    let silent = state.last_sent.replace(step.at()).is_some_and(|last| step.at().since(last) >= TIMEOUT);
    if step.event.kind != EventKind::Retransmit {
        return;
    }
    if silent {
        state.recover = step.before.nxt;
    }
    let (start, end) = (step.seq(), step.seq_end());
    if start < state.recover || step.len() <= 1 {
        return;
    }
    let settled = settled(context, step.flow);
    let covers = |block: &&((u64, u64), Time, usize)| {
        block.0.0 <= start && end <= block.0.1 && step.at().since(block.1) >= settled
    };
    if let Some((block, at, row)) = state.blocks.iter().find(covers) {
        found.add(SACKED_AGAIN.of_sender(context, step).since(*row, step.at()), || {
            let at = time(*at);
            format!(
                "{} sent positions {start} to {end} again at {}, although a SACK block of {} to {} had reached it at {at}.",
                context.who(step.flow), time(step.at()), block.0, block.1
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, data, found, opened, sacked};

    const NOTHING: [Vec<u64>; 0] = [];

    #[test]
    fn a_segment_that_a_block_covers_is_not_sent_again() {
        let mut log = opened();
        log.extend([
            (10_000, 0, data(1, 1000)),
            (10_010, 0, data(1001, 1000)),
            (10_020, 0, data(2001, 1000)),
            (30_000, 1, sacked(1, &[(1001, 3001)])),
            (45_000, 0, data(2001, 1000)),
        ]);
        assert_eq!(found("sacked-data-sent-again", &log), [vec![7, 8]]);
        // The hole is sent again, not what is above it.
        log[7] = (45_000, 0, data(1, 1000));
        assert_eq!(found("sacked-data-sent-again", &log), NOTHING);
        // A part of the segment is not reported.
        log[6] = (30_000, 1, sacked(1, &[(1001, 2501)]));
        log[7] = (45_000, 0, data(2001, 1000));
        assert_eq!(found("sacked-data-sent-again", &log), NOTHING);
    }

    #[test]
    fn after_a_timeout_all_may_be_sent_again() {
        let mut log = opened();
        log.extend([
            (10_000, 0, data(1, 1000)),
            (10_010, 0, data(1001, 1000)),
            (30_000, 1, sacked(1, &[(1001, 2001)])),
            (250_000, 0, data(1, 1000)),
            (250_100, 0, data(1001, 1000)),
            (260_000, 1, ack(2001)),
        ]);
        assert_eq!(found("sacked-data-sent-again", &log), NOTHING);
    }

    #[test]
    fn a_block_that_has_just_arrived_may_not_be_processed_yet() {
        let mut log = opened();
        log.extend([
            (10_000, 0, data(1, 1000)),
            (10_010, 0, data(1001, 1000)),
            (30_000, 1, sacked(1, &[(1001, 2001)])),
            (30_500, 0, data(1001, 1000)),
        ]);
        assert_eq!(found("sacked-data-sent-again", &log), NOTHING);
    }
}
