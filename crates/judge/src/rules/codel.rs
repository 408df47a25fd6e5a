//! The delay of a queue with CoDel: RFC 8289, RFC 8290.

use crate::facts::HEADERS;
use crate::finding::{Findings, Oracle};
use crate::step::{Context, Rule, Step};
use std::collections::{BTreeMap, VecDeque};
use tcpassay_case::QueueKind;
use tcpassay_measure::EventKind;
use tcpassay_units::{Bytes, Dur, Rate, Time};

pub(super) const NAME: &str = "queue-delay";

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "delay of a queue against RFC 8289 (CoDel)",
    asserts: "while every packet of a queue with CoDel (with FQ-CoDel: of a connection) waits longer than the target although more than \
              one packet waits behind it, CoDel drops or marks a packet within two intervals.",
    why: "RFC 8289 section 4.2 and 5: CoDel drops when the delay was above the target for an interval, and then more and more often, \
          unless no more than a packet is left in the queue. A queue that stays above its target delays all traffic (RFC 7567 section 2).",
    evidence: "the transmission of the first packet that waited too long, and the arrival at which the bound was exceeded.",
    wrong_when: "packets wait at another place than in the queue. The oracle subtracts an upper bound of all other delays, counts only \
                 packets of the hosts' connections, and takes each loss for a drop of the queue.",
    needs: &[],
};

/// The largest super-segment, which leaves a queue as a whole.
const SUPER_SEGMENT: Bytes = Bytes::new(65_536);

/// Data that were sent and have not arrived.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    at: Time,
    row: usize,
    flow: usize,
    seq: u64,
    bytes: u64,
}

/// Packets that share a queue, in the order in which they were sent.
#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    /// Row and time of departure of the first of consecutive packets that waited longer than the target.
    above: Option<(usize, Time)>,
}

/// What the oracle knows of the path of a flow.
#[derive(Clone, Copy, Debug)]
struct Queue {
    target: Dur,
    /// The longest time above the target.
    most: Dur,
    fair: bool,
    /// Upper bound of the delay of an empty packet outside of the queue.
    delay: Dur,
    rate: Rate,
    packet: u64,
}

/// Implements the rules in the documentation of this module.
pub(super) struct CoDel {
    /// For each flow its queue, if the delay of the path without it is known; empty before the first row.
    queues: Vec<Option<Queue>>,
    lines: BTreeMap<usize, Line>,
}

/// Whether a queue uses CoDel.
pub(super) fn applies(context: &Context<'_>) -> bool {
    let codel = |kind| matches!(kind, QueueKind::CoDel | QueueKind::FqCoDel);
    context.facts.is_some_and(|facts| facts.has_queue(codel))
}

impl CoDel {
    pub fn new() -> CoDel {
        CoDel { queues: Vec::new(), lines: BTreeMap::new() }
    }
}

fn queue(context: &Context<'_>, flow: usize) -> Option<Queue> {
    let (facts, ends) = (context.facts?, &context.recording.flows[flow]);
    let (delay, rate, headers) = facts.idle(ends.from, ends.to)?;
    let settings = facts.host(ends.from)?;
    let links = facts.links(ends.from, ends.to)?;
    let of = links.iter().map(|link| &link.queue).find(|queue| {
        // The queues of the way back may have another discipline.
        matches!(queue.kind, QueueKind::CoDel | QueueKind::FqCoDel) && ends.from == 0
    })?;
    let largest =
        if settings.stack.tso.is_some() { SUPER_SEGMENT } else { Bytes::new(settings.mtu.get() + HEADERS) };
    Some(Queue {
        target: of.target.unwrap_or(Dur::from_millis(5)),
        most: of.interval.unwrap_or(Dur::from_millis(100)) * 2 + rate.time_for(largest) * 2,
        fair: of.kind == QueueKind::FqCoDel,
        delay,
        rate,
        packet: settings.mtu.get() + headers,
    })
}

impl Rule for CoDel {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if !context.in_virtual_time() || step.len() == 0 || !step.is_stream() {
            return;
        }
        if self.queues.is_empty() {
            self.queues = (0..context.recording.flows.len()).map(|flow| queue(context, flow)).collect();
        }
        if step.is_sent() {
            let Some(queue) = self.queues[step.flow] else { return };
            let line = self.lines.entry(if queue.fair { step.flow } else { usize::MAX }).or_default();
            let bytes = step.len() + HEADERS;
            line.waiting.push_back(Waiting {
                at: step.at(),
                row: step.row,
                flow: step.flow,
                seq: step.seq(),
                bytes,
            });
        } else if step.event.kind == EventKind::In {
            let Some(queue) = self.queues[step.peer] else { return };
            let line = self.lines.entry(if queue.fair { step.peer } else { usize::MAX }).or_default();
            line.arrives(queue, context, step, found);
        }
    }
}

impl Line {
    /// The first packet of what was sent arrives; what was sent before it and has not arrived was dropped.
    fn arrives(&mut self, queue: Queue, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let is = |waiting: &Waiting| waiting.flow == step.peer && waiting.seq == step.seq();
        // Only the first packet of a super-segment tells how long it waited.
        let Some(place) = self.waiting.iter().position(is) else { return };
        // Of several transmissions the arrival may be of any.
        let newest = self.waiting.iter().rposition(is).unwrap_or(place);
        let packet = self.waiting[place];
        self.waiting.drain(..=newest);
        let first = Bytes::new(packet.bytes.min(queue.packet));
        let left = step.at().saturating_sub(queue.delay + queue.rate.time_for(first));
        let waited = left.since(packet.at);
        let mut behind = 0;
        for other in self.waiting.iter().take_while(|other| other.at < left) {
            behind += other.bytes;
            if behind > 2 * queue.packet {
                break;
            }
        }
        if place > 0
            || newest != place
            || step.event.ce
            || waited <= queue.target
            || behind <= 2 * queue.packet
        {
            self.above = None;
            return;
        }
        let (row, since) = *self.above.get_or_insert((packet.row, left));
        if left.since(since) <= queue.most {
            return;
        }
        self.above = None;
        found.add(step.of_receiver(context, NAME, "a queue stays above its target").since(row, since).warning(), || {
            format!(
                "Since {since:#} every packet of {} waited longer than {:#} in a queue with CoDel, the last one {waited:#}, with more than {behind} \
                 bytes behind it, and none was dropped or marked for {:#} (RFC 8289 section 5).",
                context.who(step.peer), queue.target, left.since(since)
            )
        });
    }
}
