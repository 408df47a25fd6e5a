//! The list of SACK blocks of each ACK: a replay of RFC 2018 section 4 and RFC 2883 section 4.

use super::names::SEGMENT_CONTENTS as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_tcp::{EcnMode, StackFlavor};

/// Blocks that a receiver keeps, and blocks that fit beside timestamps (RFC 2018 section 3).
const KEPT: usize = 4;
const BESIDE_STAMPS: usize = 3;

/// The replay for one receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    /// The blocks, the one that changed last first.
    recent: Vec<(u64, u64)>,
    /// The blocks before the last arrival.
    before: Vec<(u64, u64)>,
    /// The receiver may have discarded data that the log shows as arrived.
    unsure: bool,
}

impl Reports {
    /// Data arrived.
    pub fn arrived(&mut self, context: &Context<'_>, step: &Step<'_>) {
        let Some(stack) = context.stack(step.flow) else { return };
        let (start, end, frontier) = (step.seq(), step.seq_end(), step.end.now.frontier);
        // A receiver takes only what is in its window, and Linux nothing if it has no memory.
        self.unsure |= step.end.fin_in.is_some() || end > step.before.offered || stack.recv_memory.is_some();
        if self.unsure || start >= end {
            return;
        }
        self.before.clone_from(&self.recent);
        if start > step.before.frontier {
            let touches = |one: &(u64, u64), other: &(u64, u64)| one.0 <= other.1 && other.0 <= one.1;
            let mut block = (start, end);
            if stack.flavor == StackFlavor::Linux {
                // A block grows by other blocks, not by what was dropped from the list (`tcp_sack_new_ofo_skb`).
                while let Some(place) = self.recent.iter().position(|one| touches(one, &block)) {
                    let one = self.recent.remove(place);
                    block = (block.0.min(one.0), block.1.max(one.1));
                }
            } else if let Some(range) = step.end.above.iter().find(|range| range.0 <= start && end <= range.1)
            {
                block = *range;
            }
            self.recent.retain(|one| !touches(one, &block));
            self.recent.insert(0, block);
            self.recent.truncate(KEPT);
        }
        self.recent.retain(|one| one.0 > frontier);
    }

    /// A pure ACK is sent. `dsack`: its first block reports a duplicate; `pending`: it may be that of segments before the last arrival.
    pub fn sent(
        &mut self,
        context: &Context<'_>,
        step: &Step<'_>,
        (dsack, pending): (bool, bool),
        found: &mut Findings,
    ) {
        let Some(stack) = context.stack(step.flow) else { return };
        // The ACK that DCTCP sends at a change of CE describes the state before the change.
        let before = stack.ecn == EcnMode::Dctcp;
        if before || self.unsure || step.event.ack != Some(step.end.now.frontier) || step.len() > 0 {
            return;
        }
        let most = if step.event.value.is_some() { BESIDE_STAMPS } else { KEPT };
        let told = &step.sacks[usize::from(dsack)..];
        let fit = |blocks: &[(u64, u64)]| blocks[..blocks.len().min(most - usize::from(dsack))].to_vec();
        if pending && told == fit(&self.before) {
            return;
        }
        let due = &fit(&self.recent)[..];
        // The option of accurate ECN takes space.
        let fewer =
            stack.ecn == EcnMode::Accurate && due.starts_with(told) && (due.is_empty() || !told.is_empty());
        if told == due || fewer {
            return;
        }
        // A difference would repeat in each ACK.
        self.unsure = true;
        found.add(step.of_receiver(context, NAME, "other SACK blocks than those that changed last"), || {
            format!(
                "{} sent an ACK of {} with the SACK blocks {}; by what has arrived they are {} (RFC 2018 section 4).",
                context.who(step.flow), step.end.now.frontier, list(told), list(due)
            )
        });
    }
}

fn list(blocks: &[(u64, u64)]) -> String {
    if blocks.is_empty() {
        return "none".to_owned();
    }
    blocks.iter().map(|(start, end)| format!("{start} to {end}")).collect::<Vec<_>>().join(", ")
}
