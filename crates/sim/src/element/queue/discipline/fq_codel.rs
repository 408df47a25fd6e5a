//! FQ-CoDel (RFC 8290): flows are hashed to queues, which deficit round robin serves with priority for new queues.
//! Each queue has its own CoDel state.
//!
//! As in Linux's `sch_fq_codel`, CoDel's test for a nearly empty queue uses the total backlog, and an overflow drops
//! half of the bytes of the longest queue, at most `drop_batch` packets, and increases the count of its CoDel state
//! by the number of dropped packets.

use super::codel::{CoDelSpec, CoDelState};
use crate::element::Backlog;
use crate::element::switch::choose;
use crate::engine::{Core, DropReason, ElementContext, FlowLabel, PacketId, PacketList};
use std::collections::VecDeque;
use tcpassay_units::{Bytes, Seed};

/// FQ-CoDel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FqCoDelSpec {
    /// The CoDel parameters of each queue; the limit applies to the total backlog.
    pub codel: CoDelSpec,
    /// Number of queues. Flows with the same hash share a queue. RFC 8290 section 5.2.3: 1024.
    pub queues: u16,
    /// Bytes that a queue may send per round (section 5.2.4: 1514).
    pub quantum: Bytes,
    /// Maximum number of packets that an overflow drops (Linux: 64).
    pub drop_batch: u32,
}

impl FqCoDelSpec {
    /// Linux's defaults, which are the RFC's: 10240 packets, ECN on.
    pub const LINUX: FqCoDelSpec = FqCoDelSpec {
        codel: CoDelSpec {
            ecn: true,
            limit: crate::element::QueueLimit::packets(10_240),
            ..CoDelSpec::INTERNET
        },
        queues: 1024,
        quantum: Bytes::new(1514),
        drop_batch: 64,
    };
}

#[derive(Clone, Debug, Default)]
struct Flow {
    list: PacketList,
    codel: CoDelState,
    deficit: i64,
    /// The queue is on one of the two lists.
    active: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct FqCoDel {
    spec: FqCoDelSpec,
    salt: u32,
    quantum: i64,
    flows: Vec<Flow>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    total: Backlog,
}

impl FqCoDel {
    pub fn new(spec: FqCoDelSpec, name: &str, seed: Seed) -> FqCoDel {
        assert!(spec.queues > 0 && !spec.quantum.is_zero(), "no queues or no quantum");
        FqCoDel {
            spec,
            salt: seed.stream(&format!("{name}.hash")).bits32(),
            quantum: i64::try_from(spec.quantum.get()).expect("a quantum below 2^63"),
            flows: vec![Flow::default(); usize::from(spec.queues)],
            new: VecDeque::new(),
            old: VecDeque::new(),
            total: Backlog::default(),
        }
    }

    fn bucket(&self, flow: FlowLabel) -> usize {
        choose(flow, self.salt, self.flows.len())
    }

    pub fn enqueue(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        let size = core.packets[id].size().get();
        let at = self.bucket(core.packets[id].flow);
        let fits = self.spec.codel.limit.fits(self.total, size);
        let flow = &mut self.flows[at];
        flow.list.push_back(&mut core.packets, id);
        if !flow.active {
            flow.active = true;
            flow.deficit = self.quantum;
            self.new.push_back(at);
        }
        self.total.packets += 1;
        self.total.bytes += size;
        if !fits {
            self.drop_from_fattest(ctx, core);
        }
    }

    /// RFC 8290 section 4.1: drops from the head of the longest queue.
    fn drop_from_fattest(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        let by_bytes = |flow: &&mut Flow| flow.list.bytes();
        // The first queue among equally long ones.
        let fattest = self.flows.iter_mut().rev().max_by_key(by_bytes).expect("a queue");
        let enough = fattest.list.bytes() / 2;
        let (mut bytes, mut dropped) = (0, 0);
        for _ in 0..self.spec.drop_batch.max(1) {
            let Some(id) = fattest.list.pop_front(&core.packets) else { break };
            let size = core.packets[id].size().get();
            bytes += size;
            dropped += 1;
            self.total.packets -= 1;
            self.total.bytes -= size;
            ctx.drop(core, id, DropReason::Full);
            if bytes >= enough {
                break;
            }
        }
        fattest.codel.overflowed(dropped);
    }

    pub fn dequeue(&mut self, ctx: &mut ElementContext, core: &mut Core) -> Option<PacketId> {
        loop {
            let is_new = !self.new.is_empty();
            let at = *self.new.front().or(self.old.front())?;
            let flow = &mut self.flows[at];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                self.pop(is_new);
                self.old.push_back(at);
                continue;
            }
            let (list, total) = (&mut flow.list, &mut self.total);
            let taken = flow.codel.dequeue(&self.spec.codel, ctx, core, |core| {
                let id = list.pop_front(&core.packets);
                if let Some(id) = id {
                    total.packets -= 1;
                    total.bytes -= core.packets[id].size().get();
                }
                (id, total.bytes)
            });
            let Some(id) = taken else {
                self.pop(is_new);
                // Section 4.2: a new queue that became empty stays for one more round, so that it does not become new
                // again at once.
                if is_new && !self.old.is_empty() {
                    self.old.push_back(at);
                } else {
                    self.flows[at].active = false;
                }
                continue;
            };
            flow.deficit -= i64::try_from(core.packets[id].size().get()).expect("a packet");
            return Some(id);
        }
    }

    fn pop(&mut self, is_new: bool) {
        if is_new {
            self.new.pop_front();
        } else {
            self.old.pop_front();
        }
    }

    pub fn total(&self) -> Backlog {
        self.total
    }

    pub fn backlog(&self, flow: FlowLabel) -> Backlog {
        let list = &self.flows[self.bucket(flow)].list;
        Backlog { packets: list.len(), bytes: list.bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::DisciplineSpec;
    use crate::element::test_net::{TestPath, numbered};
    use crate::element::{Pace, PortSpec, QueueLimit};
    use crate::engine::Packet;
    use tcpassay_units::{Dur, Rate};

    fn line(spec: FqCoDelSpec) -> TestPath {
        TestPath::new(PortSpec::new(
            DisciplineSpec::FqCoDel(spec),
            Pace::Fixed(Rate::from_mbit(12)),
            Dur::ZERO,
        ))
    }

    fn of_flow(flow: u32, seq: u32, len: u32) -> Packet {
        let mut p = numbered(seq, len);
        p.flow = FlowLabel(flow);
        p
    }

    #[test]
    fn flows_alternate_by_bytes() {
        let mut line = line(FqCoDelSpec::LINUX);
        for n in 0..30 {
            line.send(of_flow(1, n, 1460));
        }
        for n in 0..90 {
            line.send(of_flow(2, n, 460));
        }
        line.run_until(30_000_000);
        let bytes = |flow| -> u64 {
            line.arrived.iter().filter(|(_, p)| p.flow == FlowLabel(flow)).map(|(_, p)| p.size().get()).sum()
        };
        let (a, b) = (bytes(1), bytes(2));
        assert!(a.abs_diff(b) <= 2 * 1514 && a + b >= 40_000, "{a} {b}");
    }

    #[test]
    fn a_new_flow_goes_first() {
        let mut line = line(FqCoDelSpec::LINUX);
        for n in 0..10 {
            line.send(of_flow(1, n, 1460));
        }
        line.run_until(3_500_000);
        line.send(of_flow(2, 100, 100));
        line.finish();
        let at = line.seqs().iter().position(|s| *s == 100).unwrap();
        assert_eq!(at, 4);
    }

    #[test]
    fn an_overflow_drops_from_the_head_of_the_queue_with_most_bytes() {
        let codel = CoDelSpec { limit: QueueLimit::packets(20), ..FqCoDelSpec::LINUX.codel };
        let mut line = line(FqCoDelSpec { codel, drop_batch: 2, ..FqCoDelSpec::LINUX });
        for n in 0..16 {
            line.send(of_flow(1, n, 1460));
        }
        for n in 100..106 {
            line.send(of_flow(2, n, 1460));
        }
        line.finish();
        // One is sent at once; the 21st waiting packet makes flow 1 lose its two oldest, 1 and 2.
        assert_eq!(line.counters().dropped[DropReason::Full], 2);
        let seqs = line.seqs();
        assert!(!seqs.contains(&1) && !seqs.contains(&2) && seqs.contains(&3) && seqs.contains(&105));
    }

    #[test]
    fn codel_drops_only_from_the_queue_with_standing_delay() {
        let mut line = line(FqCoDelSpec::LINUX);
        for n in 0..600 {
            line.send(of_flow(1, n, 1460));
        }
        for n in 0..50 {
            line.run_until(n * 10_000_000);
            line.send(of_flow(2, 1000, 100));
        }
        line.finish();
        let sparse = line.arrived.iter().filter(|(_, p)| p.flow == FlowLabel(2)).count();
        assert!(line.counters().dropped[DropReason::Early] > 3, "the queue never stood");
        assert_eq!(sparse, 50);
    }
}
