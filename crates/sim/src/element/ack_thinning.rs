//! ACK thinning: a return path that forwards only the newest of each group of pure ACKs.

use crate::engine::{Core, DropReason, ElementContext, FlowLabel, HostId, Packet, PacketId, Protocol};
use std::collections::{BTreeMap, VecDeque};
use tcpassay_units::{Dur, Seed, SeqNum, Time};
use tcpassay_wire::Flags;

/// Forwards one of `one_in` pure ACKs of each flow, as return paths with a low capacity do (ACK filtering, RFC 3449
/// section 5.2.1).
///
/// A pure ACK is held. The next one replaces it, and the held one is dropped. The newest one is forwarded when
/// `one_in` of them have arrived, or `longest` after the arrival of the first one, whichever is earlier. The last ACK
/// of a burst is therefore always forwarded.
///
/// ACKs that carry further information are forwarded at once, behind the held one: an ACK whose acknowledgement
/// number does not exceed that of the previous packet of the flow (a duplicate ACK or a window update), an ACK with
/// SACK blocks, and an ACK whose ECN flags (ECE, CWR, AE) differ from those of the previous packet. All other packets
/// of the flow are forwarded at once, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckThinningSpec {
    /// Size of a group of pure ACKs, of which one is forwarded; at least 1.
    pub one_in: u16,
    /// The longest time for which an ACK is held, counted from the first ACK of its group.
    pub longest: Dur,
}

#[derive(Clone, Debug)]
pub(crate) struct AckThinning {
    spec: AckThinningSpec,
    flows: BTreeMap<(FlowLabel, HostId), Flow>,
    /// The end times of the groups in order. An entry that does not match the current group of its flow is ignored.
    ends: VecDeque<(Time, (FlowLabel, HostId))>,
    held: u64,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Acknowledgement number and ECN flags of the last packet.
    last: Option<(SeqNum, [bool; 3])>,
    /// The newest ACK of the current group, the number of ACKs, and the end time of the group.
    group: Option<(PacketId, u16, Time)>,
}

impl AckThinningSpec {
    pub(super) fn make(self, _: &str, _: Seed) -> AckThinning {
        assert!(self.one_in > 0, "one ACK in none");
        AckThinning { spec: self, flows: BTreeMap::new(), ends: VecDeque::new(), held: 0 }
    }
}

impl AckThinning {
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        let packet = &core.packets[id];
        if packet.kind != Protocol::Tcp {
            ctx.forward(core, id);
            return;
        }
        let key = (packet.flow, packet.src);
        let said = (packet.segment.ack, ecn_flags(packet));
        let flow = self.flows.entry(key).or_default();
        let thinned = packet.is_pure_ack()
            && packet.segment.options.sack.is_empty()
            && flow.last.is_none_or(|(ack, flags)| said.0.distance(ack) > 0 && said.1 == flags);
        let is_end = packet.segment.flags.any(Flags::FIN | Flags::RST);
        flow.last = Some(said);
        if !thinned {
            if let Some((held, ..)) = flow.group.take() {
                self.held -= 1;
                ctx.forward(core, held);
            }
            // The state of a direction is removed after its FIN, so that ended connections use no memory; later
            // packets start a new state.
            if is_end {
                self.flows.remove(&key);
            }
            ctx.forward(core, id);
            self.arm(ctx, core);
            return;
        }
        let (came, ends) = if let Some((older, came, ends)) = flow.group.take() {
            ctx.drop(core, older, DropReason::Thinned);
            (came + 1, ends)
        } else {
            let ends = core.now + self.spec.longest;
            self.held += 1;
            self.ends.push_back((ends, key));
            (1, ends)
        };
        if came >= self.spec.one_in {
            self.held -= 1;
            ctx.forward(core, id);
        } else {
            flow.group = Some((id, came, ends));
        }
        self.arm(ctx, core);
    }

    pub fn wake(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        while let Some(&(at, key)) = self.ends.front()
            && at <= core.now
        {
            self.ends.pop_front();
            if let Some(flow) = self.flows.get_mut(&key)
                && let Some((held, _, ends)) = flow.group
                && ends == at
            {
                flow.group = None;
                self.held -= 1;
                ctx.forward(core, held);
            }
        }
        self.arm(ctx, core);
    }

    pub fn held(&self) -> u64 {
        self.held
    }

    fn arm(&mut self, ctx: &ElementContext, core: &mut Core) {
        let is_over = |&(at, key): &(Time, (FlowLabel, HostId))| {
            self.flows.get(&key).and_then(|flow| flow.group).is_none_or(|(.., ends)| ends != at)
        };
        while self.ends.front().is_some_and(is_over) {
            self.ends.pop_front();
        }
        ctx.wake_at(core, self.ends.front().map(|(at, _)| *at));
    }
}

/// The flags that signal congestion. With accurate ECN they are a counter of three bits (RFC 9768 section 3.2.2).
fn ecn_flags(packet: &Packet) -> [bool; 3] {
    [Flags::ECE, Flags::CWR, Flags::AE].map(|flag| packet.segment.flags.has(flag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::test_net::{TestPath, numbered};
    use tcpassay_wire::SackBlock;

    const MS: u64 = 1_000_000;

    fn thin(one_in: u16) -> TestPath {
        TestPath::new(AckThinningSpec { one_in, longest: Dur::from_millis(10) })
    }

    /// A pure ACK of `flow` for everything up to `ack`, with the same number to be recognised by.
    fn ack(flow: u32, ack: u32) -> Packet {
        let mut p = numbered(ack, 0);
        p.segment.ack = SeqNum::new(ack);
        p.flow = FlowLabel(flow);
        p
    }

    #[test]
    fn of_three_acks_of_a_flow_the_newest_is_forwarded_with_the_third() {
        let mut line = thin(3);
        for n in 1..=6 {
            line.run_until(u64::from(n) * MS);
            line.send(ack(0, n));
            line.send(ack(1, 100 + n));
        }
        assert_eq!(line.seqs(), [3, 103, 6, 106]);
        assert_eq!(line.times(), [3 * MS, 3 * MS, 6 * MS, 6 * MS]);
        assert_eq!(line.counters().dropped[DropReason::Thinned], 8);
    }

    #[test]
    fn the_last_ack_of_a_burst_is_forwarded_the_longest_time_after_the_first_that_is_held() {
        let mut line = thin(4);
        for n in 1..=6 {
            line.run_until(u64::from(n) * MS);
            line.send(ack(0, n));
        }
        line.finish();
        // 1 to 4 are one group; 5, at 5 ms, begins the next.
        assert_eq!(line.seqs(), [4, 6]);
        assert_eq!(line.times(), [4 * MS, 15 * MS]);
    }

    #[test]
    fn a_lone_ack_is_delayed_and_not_kept() {
        let mut line = thin(1000);
        line.send(ack(0, 7));
        line.finish();
        assert_eq!((line.seqs(), line.times()), (vec![7], vec![10 * MS]));
    }

    #[test]
    fn a_group_that_was_forwarded_does_not_end_the_next_one_early() {
        let mut line = thin(2);
        for (at, n) in [(0, 1), (1, 2), (5, 3)] {
            line.run_until(at * MS);
            line.send(ack(0, n));
        }
        line.finish();
        assert_eq!((line.seqs(), line.times()), (vec![2, 3], vec![MS, 15 * MS]));
    }

    #[test]
    fn duplicates_sack_and_changes_of_ecn_flags_pass_behind_what_is_held() {
        let mut line = thin(10);
        let sacks = |n| {
            let mut p = ack(0, n);
            let block = SackBlock { start: SeqNum::new(50), end: SeqNum::new(60) };
            p.segment.options.sack.push(block);
            p.measure();
            p
        };
        let flagged = |n, flags| {
            let mut p = ack(0, n);
            p.segment.flags |= flags;
            p
        };
        line.send(ack(0, 1));
        line.send(ack(0, 2));
        line.send(ack(0, 2)); // a duplicate ACK
        line.send(ack(0, 2)); // another duplicate ACK
        line.send(ack(0, 3));
        line.send(sacks(4));
        line.send(ack(0, 5));
        line.send(flagged(6, Flags::ECE));
        line.send(flagged(7, Flags::ECE)); // ECE does not change: thinned
        line.send(flagged(8, Flags::ECE));
        line.send(ack(0, 9)); // ECE changes
        assert_eq!(line.seqs(), [2, 2, 2, 3, 4, 5, 6, 8, 9]);
        assert_eq!((line.counters().dropped[DropReason::Thinned], line.net.held(line.node)), (2, 0));
    }

    #[test]
    fn data_and_fin_pass_behind_the_ack_that_is_held() {
        let mut line = thin(10);
        line.send(ack(0, 1));
        let mut data = numbered(1000, 1);
        data.segment.ack = SeqNum::new(1);
        line.send(data);
        line.send(ack(0, 2));
        let mut fin = ack(0, 3);
        fin.segment.flags |= Flags::FIN;
        line.send(fin);
        line.finish();
        assert_eq!((line.seqs(), line.times()), (vec![1, 1000, 2, 3], vec![0; 4]));
    }
}
