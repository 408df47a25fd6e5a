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
    /// Data that were sent for the first time, and those that were sent again.
    first: VecDeque<Part>,
    again: VecDeque<Part>,
    /// Number of segments with data.
    segments: u64,
    /// True if `first` is not in the order of positions.
    unordered: bool,
}

/// Data of a segment.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Number of segments with data that were sent before.
    number: u64,
    start: u64,
    end: u64,
    /// The millisecond in which it was sent.
    stamp: u64,
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
            let (number, start, end) = (self.segments, step.seq(), step.seq_end());
            self.segments += 1;
            let part = Part { number, start, end, stamp: milliseconds(step.at()) };
            if step.event.kind == EventKind::Out {
                self.unordered |= self.first.back().is_some_and(|last| start < last.end);
                self.first.push_back(part);
            } else {
                self.again.push_back(part);
            }
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
        let below = step.end.now.frontier.min(start);
        loop {
            let oldest = match (self.first.front(), self.again.front()) {
                (Some(first), Some(again)) if again.number < first.number => &mut self.again,
                (Some(_), _) => &mut self.first,
                (None, _) => &mut self.again,
            };
            if oldest.pop_front_if(|part| part.end <= below).is_none() {
                return;
            }
        }
    }

    /// The index of the first part that ends above `start`. Without losses it is one of the first parts.
    fn place(&self, start: u64) -> usize {
        let above = |part: &Part| part.end > start;
        let near = self.first.iter().take(4).position(above);
        near.unwrap_or_else(|| self.first.partition_point(|part| !above(part)))
    }

    /// Segments whose timestamps differ are not merged.
    fn merged(&self, context: &Context<'_>, step: &Step<'_>, (start, end): (u64, u64), found: &mut Findings) {
        let overlaps = |part: &&Part| part.start < end && part.end > start;
        let place = if self.unordered { 0 } else { self.place(start) };
        let mut parts = self.first.range(place..);
        let Some(first) = (if self.unordered { parts.find(overlaps) } else { parts.next().filter(overlaps) })
        else {
            return;
        };
        if first.end >= end {
            return;
        }
        let mut others = parts.take_while(|part| self.unordered || part.start < end).filter(overlaps);
        if others.all(|part| part.stamp == first.stamp) || self.again.iter().any(|part| overlaps(&part)) {
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
