//! A middlebox on a link: it changes options, flags and numbers of segments, and forgets connections that are idle.

use crate::engine::{Core, DropReason, ElementContext, Packet, PacketId, Protocol};
use tcpassay_case::params::grammar::RewriteRules;
use tcpassay_units::{Dur, Seed};
use tcpassay_wire::{Ecn, Flags};

/// One direction of a middlebox. An option that is removed becomes NOPs, so that packets keep their length. On kernels the relay has the same
/// rules (`crates/agent/src/netns/middlebox.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MiddleboxSpec {
    /// What is changed.
    pub rules: RewriteRules,
    /// What is added to sequence numbers of this direction, and of the other direction, if the rules say so.
    pub shifts: [u32; 2],
    /// The table of connections ([`Network::add_connection_table`](crate::engine::Network::add_connection_table)), and the time without a
    /// packet after which one is forgotten.
    pub forgets: Option<(usize, Dur)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Middlebox(MiddleboxSpec);

impl MiddleboxSpec {
    pub(super) fn make(self, _: &str, _: Seed) -> Middlebox {
        Middlebox(self)
    }
}

impl Middlebox {
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        if !self.knows(core, id) {
            ctx.drop(core, id, DropReason::Forgotten);
            return;
        }
        if self.rewrite(&mut core.packets[id]) {
            ctx.changed();
        }
        ctx.forward(core, id);
    }

    /// Whether the middlebox knows the connection of a segment. A SYN makes a connection known.
    fn knows(&self, core: &mut Core, id: PacketId) -> bool {
        let (Some((table, after)), packet) = (self.0.forgets, &core.packets[id]) else { return true };
        if packet.kind != Protocol::Tcp {
            return true;
        }
        let (flow, opens, now) = (packet.flow, packet.segment.flags.has(Flags::SYN), core.now);
        let table = &mut core.last_passed[table];
        let known = table.get(&flow).is_some_and(|last| now.since(*last) <= after);
        if known || opens {
            table.insert(flow, now);
        } else {
            table.remove(&flow);
        }
        known || opens
    }

    /// Applies the rules. Returns whether something has changed.
    fn rewrite(&self, packet: &mut Packet) -> bool {
        let before = (packet.ecn, packet.segment);
        self.apply(packet);
        (packet.ecn, packet.segment) != before
    }

    fn apply(&self, packet: &mut Packet) {
        let MiddleboxSpec { rules, shifts: [own, other], .. } = self.0;
        let flags = packet.segment.flags;
        let segment = &mut packet.segment;
        if rules.no_ect {
            packet.ecn = Ecn::NotEct;
        }
        match packet.kind {
            Protocol::Udp => return,
            Protocol::Icmp => {
                // The message quotes a segment of the other direction.
                if rules.sequence {
                    segment.seq = segment.seq - other;
                }
                return;
            }
            Protocol::Tcp => {}
        }
        if rules.sequence {
            segment.seq = segment.seq + own;
            if flags.has(Flags::ACK) {
                segment.ack = segment.ack - other;
            }
        }
        if !flags.has(Flags::SYN) {
            return;
        }
        let options = &mut segment.options;
        options.sack_permitted &= !rules.no_sack;
        if rules.no_timestamps {
            options.timestamps = None;
        }
        if let Some(scale) = rules.window_scale {
            options.window_scale = options.window_scale.and(scale);
        }
        if let (Some(most), Some(mss)) = (rules.mss, options.mss) {
            options.mss = Some(mss.min(most));
        }
        if rules.no_ecn_flags {
            segment.flags = flags.without(Flags::ECE | Flags::CWR | Flags::AE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::test_net::{TestPath, ect0};
    use crate::engine::FlowLabel;
    use tcpassay_units::SeqNum;
    use tcpassay_wire::{SackBlock, SackBlocks, Timestamps};

    fn syn() -> Packet {
        let mut p = ect0(0);
        p.segment.flags = Flags::SYN | Flags::ECE | Flags::CWR;
        p.segment.options.mss = Some(1460);
        p.segment.options.window_scale = Some(7);
        p.segment.options.sack_permitted = true;
        p.segment.options.timestamps = Some(Timestamps { val: 5, ecr: 0 });
        p.measure();
        p
    }

    fn through(rules: &str, packet: Packet) -> Packet {
        let before = (packet.ecn, packet.segment);
        let spec = MiddleboxSpec { rules: rules.parse().unwrap(), shifts: [1000, 7], forgets: None };
        let mut line = TestPath::new(spec);
        line.send(packet);
        let after = line.arrived[0].1.clone();
        assert_eq!(line.counters().marked, u64::from((after.ecn, after.segment) != before));
        after
    }

    #[test]
    fn options_are_removed_from_a_syn_which_keeps_its_length() {
        let p = through("no-sack+no-timestamps+no-window-scale+mss:1360B", syn());
        let o = p.segment.options;
        assert_eq!((o.sack_permitted, o.timestamps, o.window_scale, o.mss), (false, None, None, Some(1360)));
        assert_eq!(p.size(), syn().size());
        assert_eq!(through("window-scale:0", syn()).segment.options.window_scale, Some(0));
        let mut without = syn();
        without.segment.options.window_scale = None;
        assert_eq!(through("window-scale:3", without).segment.options.window_scale, None, "none is added");
    }

    #[test]
    fn ecn_flags_of_a_syn_and_the_ecn_field_of_all_packets_are_cleared() {
        let p = through("no-ecn-flags", syn());
        assert_eq!((p.segment.flags, p.ecn), (Flags::SYN, Ecn::Ect0));
        assert_eq!(through("no-ect", ect0(100)).ecn, Ecn::NotEct);
        let mut data = ect0(100);
        data.segment.flags = Flags::ACK | Flags::ECE;
        assert!(through("no-ecn-flags", data).segment.flags.has(Flags::ECE), "of SYNs only");
    }

    #[test]
    fn sequence_and_acknowledgment_numbers_are_shifted_and_sack_blocks_are_not() {
        let mut p = ect0(100);
        p.segment.seq = SeqNum::new(u32::MAX);
        p.segment.ack = SeqNum::new(3);
        let block = SackBlock { start: SeqNum::new(10), end: SeqNum::new(20) };
        p.segment.options.sack = [block].into_iter().collect::<SackBlocks>();
        p.measure();
        let p = through("sequence", p);
        assert_eq!((p.segment.seq.get(), p.segment.ack.get()), (999, u32::MAX - 3));
        assert_eq!(p.segment.options.sack[..], [block]);
    }

    #[test]
    fn a_connection_is_forgotten_after_its_idle_time_until_the_next_syn() {
        let spec = MiddleboxSpec {
            rules: RewriteRules::NONE,
            shifts: [0; 2],
            forgets: Some((0, Dur::from_millis(10))),
        };
        let mut line = TestPath::new(spec);
        line.net.add_connection_table();
        let data = |flow: u32, seq: u32| {
            let mut p = ect0(100);
            (p.flow, p.segment.seq) = (FlowLabel(flow), SeqNum::new(seq));
            p
        };
        let open = |flow: u32| {
            let mut p = syn();
            p.flow = FlowLabel(flow);
            p
        };
        for (ms, p) in [
            (0, open(1)),
            (10, data(1, 1)),
            (20, data(1, 2)),
            (25, data(2, 3)),
            (31, data(1, 4)),
            (32, data(1, 5)),
            (33, open(1)),
            (34, data(1, 6)),
        ] {
            line.run_until(ms * 1_000_000);
            line.send(p);
        }
        line.finish();
        assert_eq!(line.seqs(), [0, 1, 2, 0, 6], "flow 2 never opened; flow 1 was idle for 11 ms");
        assert_eq!(line.counters().dropped[DropReason::Forgotten], 3);
    }
}
