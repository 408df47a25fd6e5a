//! Fair queueing by flow (Linux `sch_fq` without pacing).

use super::codel::signed;
use super::element::{Effects, Held};
use super::port::{Discipline, Offer};
use super::queue::Line;
use super::wire::Limit;
use std::collections::{BTreeMap, VecDeque};
use tcpassay_measure::DropReason;
use tcpassay_units::{Dur, Time};

/// Packets of a flow that may wait, and the idle time after which a flow has a whole quantum again.
const MOST_OF_FLOW: usize = 100;
const REFILL: Dur = Dur::from_millis(40);

#[derive(Debug, Default)]
struct Flow {
    line: Line,
    credit: i64,
    listed: bool,
    idle_since: Time,
}

/// Fair queueing.
#[derive(Debug)]
pub(super) struct Fair {
    quantum: i64,
    first_quantum: i64,
    limit: Limit,
    flows: BTreeMap<u32, Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
    bytes: u64,
}

impl Fair {
    pub fn new(frame: u64, limit: Limit) -> Fair {
        Fair {
            quantum: signed(2 * frame),
            first_quantum: signed(10 * frame),
            limit,
            flows: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }
}

impl Discipline for Fair {
    fn put(&mut self, now: Time, held: Held, out: &mut Effects) {
        let fits = self.limit.holds(self.packets, self.bytes, held.packet.size);
        let first = Flow { credit: self.first_quantum, ..Flow::default() };
        let flow = self.flows.entry(held.packet.flow).or_insert(first);
        if flow.line.len() >= MOST_OF_FLOW || !fits {
            out.drops(held, DropReason::Full);
            return;
        }
        flow.line.push(held);
        self.packets += 1;
        self.bytes += u64::from(held.packet.size);
        if !flow.listed {
            flow.listed = true;
            if now.since(flow.idle_since) > REFILL && (0..self.quantum).contains(&flow.credit) {
                flow.credit = self.quantum;
            }
            self.new.push_back(held.packet.flow);
        }
    }

    fn take(&mut self, now: Time, _: &mut Effects) -> Offer {
        loop {
            let of_new = !self.new.is_empty();
            let list = if of_new { &mut self.new } else { &mut self.old };
            let Some(number) = list.pop_front() else { return Offer::Nothing };
            let flow = self.flows.get_mut(&number).expect("a listed flow");
            if flow.credit <= 0 {
                flow.credit += self.quantum;
                self.old.push_back(number);
            } else if let Some(held) = flow.line.pop() {
                flow.credit -= i64::from(held.packet.size);
                self.packets -= 1;
                self.bytes -= u64::from(held.packet.size);
                if of_new {
                    self.new.push_front(number);
                } else {
                    self.old.push_front(number);
                }
                return Offer::Packet(held);
            } else if of_new && !self.old.is_empty() {
                self.old.push_back(number);
            } else {
                (flow.listed, flow.idle_since) = (false, now);
            }
        }
    }

    fn total(&self) -> (usize, u64) {
        (self.packets, self.bytes)
    }

    fn backlog(&self, flow: u32) -> u64 {
        self.flows.get(&flow).map_or(0, |flow| flow.line.bytes)
    }
}
