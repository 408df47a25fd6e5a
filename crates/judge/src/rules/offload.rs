//! What segmentation and merging may not change: PSH and timestamps (Linux `tcp_gso_segment`, `tcp_gro_receive`).

use super::names::NIC as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use std::collections::{BTreeSet, VecDeque};
use tcpassay_measure::EventKind;
use tcpassay_units::Time;
use tcpassay_wire::Flags;

/// Number of ends of segments with PSH that are remembered.
const MOST: usize = 4096;

/// Segments of one flow that were sent and have not arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Offload {
    /// Ends of segments with PSH; then the largest end that was forgotten.
    pushed: BTreeSet<u64>,
    forgotten: u64,
    /// Positions of data, the millisecond in which they were sent, and whether that was for the first time.
    sent: VecDeque<(u64, u64, u64, bool)>,
}

fn milliseconds(at: Time) -> u64 {
    at.as_nanos() / 1_000_000
}

impl Offload {
    pub fn sent(&mut self, step: &Step<'_>) {
        if step.flags().has(Flags::PSH) {
            self.pushed.insert(step.seq_end());
            if self.pushed.len() > MOST {
                self.forgotten = self.pushed.pop_first().unwrap_or(0);
            }
        }
        // Data of a SYN may not be accepted, and are not merged with others.
        if step.len() > 0 && step.is_stream() {
            let first = step.event.kind == EventKind::Out;
            self.sent.push_back((step.seq(), step.seq_end(), milliseconds(step.at()), first));
        }
    }

    pub fn arrived(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let (start, end) = (step.seq(), step.seq_end());
        if step.flags().has(Flags::PSH) && end > self.forgotten && !self.pushed.contains(&end) {
            found.add(step.of_receiver(context, NAME, "PSH on a packet that was sent without it"), || {
                format!(
                    "A segment arrived at {} with PSH and positions {start} to {end}; no segment that ends there was sent with PSH. Only the last \
                     packet of a super-segment has it (Linux `tcp_gso_segment`).", context.who(step.flow)
                )
            });
        }
        let stamps = |flow| context.stack(flow).is_some_and(|stack| stack.timestamps);
        if stamps(step.flow) && stamps(step.peer) {
            self.merged(context, step, (start, end), found);
        }
        // What arrived in order is not looked up again.
        while self.sent.front().is_some_and(|sent| sent.1 <= step.end.now.frontier.min(start)) {
            self.sent.pop_front();
        }
    }

    /// Segments whose timestamps differ are not merged.
    fn merged(&self, context: &Context<'_>, step: &Step<'_>, (start, end): (u64, u64), found: &mut Findings) {
        let mut parts = self.sent.iter().filter(|sent| sent.0 < end && sent.1 > start);
        let Some(first) = parts.next() else { return };
        if !first.3 || first.1 >= end {
            return;
        }
        let parts: Vec<_> = parts.collect();
        if !parts.iter().all(|part| part.3) || parts.iter().all(|part| part.2 == first.2) {
            return;
        }
        found.add(step.of_receiver(context, NAME, "segments with different timestamps are merged"), || {
            format!(
                "The segment with positions {start} to {end} that arrived at {} has parts that were sent in different milliseconds and so had \
                 different timestamps (Linux `tcp_gro_receive`).", context.who(step.flow)
            )
        });
    }
}
