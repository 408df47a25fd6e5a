//! Fair queueing of packets by flow (Linux `sch_fq` without pacing, which the sender implements here), and the pair
//! of output buffers of a switch port.
//!
//! As in `sch_fq`: one queue per flow, deficit round robin, a larger quantum for a new flow, priority for flows that
//! were idle (with a full quantum after 40 ms), and limits per flow and in total.

use crate::element::{Backlog, QueueLimit};
use crate::engine::{Core, DropReason, ElementContext, FlowLabel, PacketId, PacketList};
use std::collections::{BTreeMap, VecDeque};
use tcpassay_units::{Bytes, Dur, Time};

/// Fair queueing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FqSpec {
    /// Bytes that a flow may send per round (Linux: two packets).
    pub quantum: Bytes,
    /// Bytes that a new flow may send in its first round (Linux: ten packets).
    pub initial_quantum: Bytes,
    /// Maximum number of waiting packets per flow (Linux: 100).
    pub flow_limit: u32,
    /// Limit of the total backlog (Linux: 10,000 packets).
    pub limit: QueueLimit,
}

impl FqSpec {
    /// Linux's defaults.
    pub const LINUX: FqSpec = FqSpec {
        quantum: Bytes::new(2 * 1514),
        initial_quantum: Bytes::new(10 * 1514),
        flow_limit: 100,
        limit: QueueLimit::packets(10_000),
    };
}

#[derive(Clone, Debug, Default)]
struct Flow {
    list: PacketList,
    credit: i64,
    active: bool,
    /// The time at which the queue was found empty.
    idle_since: Time,
}

/// `flow_refill_delay` of `sch_fq`: after a longer idle time a flow receives a full quantum.
const REFILL: Dur = Dur::from_millis(40);

#[derive(Clone, Debug)]
pub(crate) struct Fq {
    spec: FqSpec,
    flows: Vec<Flow>,
    /// Index of each flow in `flows`. Datagrams have flow numbers far above those of connections.
    places: BTreeMap<u32, usize>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    total: Backlog,
}

impl Fq {
    pub fn new(spec: FqSpec) -> Fq {
        assert!(!spec.quantum.is_zero(), "a quantum of zero");
        Fq {
            spec,
            flows: Vec::new(),
            places: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            total: Backlog::default(),
        }
    }

    pub fn enqueue(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        let size = core.packets[id].size().get();
        let at = *self.places.entry(core.packets[id].flow.0).or_insert(self.flows.len());
        if at == self.flows.len() {
            self.flows.push(Flow { credit: signed(self.spec.initial_quantum.get()), ..Flow::default() });
        }
        let flow = &mut self.flows[at];
        if flow.list.len() >= self.spec.flow_limit || !self.spec.limit.fits(self.total, size) {
            ctx.drop(core, id, DropReason::Full);
            return;
        }
        flow.list.push_back(&mut core.packets, id);
        if !flow.active {
            flow.active = true;
            // A negative credit is kept (`fq_enqueue` compares without signs).
            if flow.credit >= 0 && core.now.since(flow.idle_since) > REFILL {
                flow.credit = flow.credit.max(signed(self.spec.quantum.get()));
            }
            self.new.push_back(at);
        }
        self.total.packets += 1;
        self.total.bytes += size;
    }

    pub fn dequeue(&mut self, core: &Core) -> Option<PacketId> {
        loop {
            let is_new = !self.new.is_empty();
            let lane = if is_new { &mut self.new } else { &mut self.old };
            let at = *lane.front()?;
            let flow = &mut self.flows[at];
            if flow.credit <= 0 {
                flow.credit += signed(self.spec.quantum.get());
                lane.pop_front();
                self.old.push_back(at);
                continue;
            }
            let Some(id) = flow.list.pop_front(&core.packets) else {
                lane.pop_front();
                // A new flow whose queue became empty stays for one more round, so that it does not become new again
                // at once.
                if is_new && !self.old.is_empty() {
                    self.old.push_back(at);
                } else {
                    flow.active = false;
                    flow.idle_since = core.now;
                }
                continue;
            };
            let size = core.packets[id].size().get();
            flow.credit -= signed(size);
            self.total.packets -= 1;
            self.total.bytes -= size;
            return Some(id);
        }
    }

    pub fn total(&self) -> Backlog {
        self.total
    }

    pub fn backlog(&self, flow: FlowLabel) -> Backlog {
        let list = self.places.get(&flow.0).map(|&at| &self.flows[at].list);
        list.map_or(Backlog::default(), |l| Backlog { packets: l.len(), bytes: l.bytes() })
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).expect("below 2^63")
}

/// The two output buffers of a switch port, one for each half of the switch's input ports
/// ([`IngressTagSpec`](crate::element::IngressTagSpec)). The buffers are served alternately, one packet each. A
/// single sender in one half receives as much as all senders of the other half together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DualBufferSpec {
    /// Limit of each buffer.
    pub limit: QueueLimit,
    /// ECN-capable packets that find a larger backlog in their buffer are marked CE.
    pub mark_above: Option<Bytes>,
}

#[derive(Clone, Debug)]
pub(crate) struct DualBuffer {
    spec: DualBufferSpec,
    buffers: [PacketList; 2],
    turn: usize,
}

impl DualBuffer {
    pub fn new(spec: DualBufferSpec) -> DualBuffer {
        DualBuffer { spec, buffers: Default::default(), turn: 0 }
    }

    pub fn enqueue(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        let buffer = &mut self.buffers[usize::from(core.packets[id].band)];
        let waits = Backlog { packets: buffer.len(), bytes: buffer.bytes() };
        if !self.spec.limit.fits(waits, core.packets[id].size().get()) {
            ctx.drop(core, id, DropReason::Full);
            return;
        }
        if self.spec.mark_above.is_some_and(|t| waits.bytes > t.get()) {
            ctx.mark(core, id);
        }
        buffer.push_back(&mut core.packets, id);
    }

    pub fn dequeue(&mut self, core: &Core) -> Option<PacketId> {
        for at in [self.turn, 1 - self.turn] {
            if let Some(id) = self.buffers[at].pop_front(&core.packets) {
                self.turn = 1 - at;
                return Some(id);
            }
        }
        None
    }

    pub fn total(&self) -> Backlog {
        let [a, b] = &self.buffers;
        Backlog { packets: a.len() + b.len(), bytes: a.bytes() + b.bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::DisciplineSpec;
    use crate::element::test_net::{TestPath, ect0, numbered};
    use crate::element::{Pace, PortSpec};
    use crate::engine::Packet;
    use tcpassay_units::{Dur, Rate};

    fn line(queue: DisciplineSpec) -> TestPath {
        TestPath::new(PortSpec::new(queue, Pace::Fixed(Rate::from_mbit(12)), Dur::ZERO))
    }

    fn of_flow(flow: u32, seq: u32, band: u8) -> Packet {
        let mut p = numbered(seq, 1460);
        (p.flow, p.band) = (FlowLabel(flow), band);
        p
    }

    #[test]
    fn busy_flows_take_turns_of_a_quantum() {
        let initial_quantum = Bytes::new(3028);
        let mut line = line(DisciplineSpec::Fq(FqSpec { initial_quantum, ..FqSpec::LINUX }));
        for n in 0..4 {
            line.send(of_flow(1, n, 0));
        }
        for n in 10..16 {
            line.send(of_flow(2, n, 0));
        }
        line.finish();
        // 3028 bytes are three packets of 1500 in the first turn (the last overdraws), then two by two.
        assert_eq!(line.seqs(), [0, 1, 2, 10, 11, 12, 3, 13, 14, 15]);
    }

    #[test]
    fn a_flow_has_its_first_quantum_once_and_a_plain_one_after_a_pause() {
        let mut line = line(DisciplineSpec::Fq(FqSpec::LINUX));
        let turns = |line: &mut TestPath, from: u32| {
            for n in 0..20 {
                line.send(of_flow(1, from + n, 0));
                line.send(of_flow(2, from + 100 + n, 0));
            }
            line.finish();
            let seqs: Vec<u32> = line.seqs().into_iter().filter(|s| *s >= from && *s < from + 200).collect();
            seqs.iter().take_while(|s| **s < from + 100).count()
        };
        // 15,140 bytes are eleven packets of 1500, the last of which overdraws; one more had been sent before flow 2 came.
        assert_eq!(turns(&mut line, 0), 11);
        let now = line.net.core().now;
        line.run_until(now.as_nanos() + 100_000_000);
        assert!(turns(&mut line, 1000) <= 4);
    }

    #[test]
    fn a_flow_keeps_to_its_limit() {
        let mut line = line(DisciplineSpec::Fq(FqSpec { flow_limit: 3, ..FqSpec::LINUX }));
        for n in 0..6 {
            line.send(of_flow(1, n, 0));
        }
        line.send(of_flow(2, 100, 0));
        line.finish();
        assert_eq!((line.counters().dropped[DropReason::Full], line.arrived.len()), (2, 5));
    }

    #[test]
    fn a_sender_alone_on_its_buffer_gets_half() {
        let mut line =
            line(DisciplineSpec::DualBuffer(DualBufferSpec { limit: QueueLimit::NONE, mark_above: None }));
        for n in 0..100 {
            line.send(of_flow(1, n, 0));
            line.send(of_flow(2, n, 0));
            line.send(of_flow(3, n, 1));
        }
        line.run_until(100_500_000);
        let share = |flow| line.arrived.iter().filter(|(_, p)| p.flow == FlowLabel(flow)).count();
        assert_eq!((share(1), share(2), share(3)), (25, 25, 50));
    }

    #[test]
    fn each_buffer_has_its_own_limit_and_threshold() {
        let spec = DualBufferSpec { limit: QueueLimit::packets(3), mark_above: Some(Bytes::new(1500)) };
        let mut line = line(DisciplineSpec::DualBuffer(spec));
        for band in [0, 0, 0, 0, 0, 1, 1] {
            let mut p = ect0(1460);
            p.band = band;
            line.send(p);
        }
        // Buffer 0: one sent, three wait (the third found 3000 bytes), one dropped. Buffer 1 has two, below the threshold.
        assert_eq!((line.counters().dropped[DropReason::Full], line.counters().marked), (1, 1));
        assert_eq!(line.net.held(line.node), 6);
    }
}
