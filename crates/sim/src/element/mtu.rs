//! A router before a link whose MTU is below that of the hosts.

use crate::engine::{Core, DropReason, ElementContext, NodeId, PacketId, Protocol};
use tcpassay_case::params::grammar::IcmpReport;
use tcpassay_units::{Bytes, Dur, Seed, Time};

/// Drops packets that are longer than the MTU of the next link, and reports them to their sender (RFC 1191 section 4). All packets have DF
/// set: TCP of today discovers the path MTU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MtuSpec {
    /// The largest IP packet of the next link.
    pub mtu: Bytes,
    /// Packets that this router has merged leave as they are (LRO).
    pub merged: bool,
    /// The packets that are reported.
    pub icmp: IcmpReport,
    /// Where messages enter the network: the switch of this router, or the receiving NIC of the host before it.
    pub back: NodeId,
}

#[derive(Clone, Debug)]
pub(crate) struct Mtu {
    limit: u16,
    merged: bool,
    icmp: IcmpReport,
    back: NodeId,
    /// The earliest time of the next message.
    next: Time,
}

impl MtuSpec {
    pub(super) fn make(self, _: &str, _: Seed) -> Mtu {
        let mtu = u16::try_from(self.mtu.get()).expect("an MTU fits 16 bits");
        Mtu { limit: mtu, merged: self.merged, icmp: self.icmp, back: self.back, next: Time::ZERO }
    }
}

impl Mtu {
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        let packet = &core.packets[id];
        // The longest wire packet of a super-segment, which is segmented behind this router.
        let wire = if packet.segs > 1 && !self.merged {
            packet.headers() + u32::from(packet.mss)
        } else {
            packet.size_u32()
        };
        if wire <= u32::from(self.limit) {
            ctx.forward(core, id);
            return;
        }
        if packet.kind == Protocol::Tcp && self.reports(core.now) {
            let message = core.packets[id].too_long(self.limit);
            ctx.made(1);
            let message = core.packets.insert(message);
            let handle = core.packets[message].handle(message);
            ctx.left(core, handle);
            core.moving.push((self.back, handle));
        }
        ctx.drop(core, id, DropReason::TooLong);
    }

    fn reports(&mut self, now: Time) -> bool {
        match self.icmp {
            IcmpReport::Always => true,
            IcmpReport::Never => false,
            IcmpReport::PerSecond(n) => {
                let due = now >= self.next;
                if due {
                    self.next = now + Dur::from_nanos(1_000_000_000 / u64::from(n));
                }
                due
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::test_net::{TestPath, numbered};

    /// Sends packets of 540, 500 and 501 bytes, 1 ms apart, into a link with an MTU of 500. Returns the MTU of each message, and the line.
    fn line(icmp: IcmpReport) -> (Vec<u16>, TestPath) {
        // The path of the test has one element, behind which packets arrive: messages do so, too.
        let mut line =
            TestPath::new(MtuSpec { mtu: Bytes::new(500), merged: false, icmp, back: TestPath::END });
        for (seq, len) in [(7, 500), (8, 460), (9, 461)] {
            line.send(numbered(seq, len));
            line.run_until((u64::from(seq) - 6) * 1_000_000);
        }
        line.finish();
        let messages = line.arrived.iter().filter(|(_, p)| p.kind == Protocol::Icmp);
        (messages.map(|(_, p)| p.mss).collect(), line)
    }

    #[test]
    fn a_packet_above_the_mtu_is_dropped_and_reported_with_its_position_and_the_mtu() {
        let (messages, line) = line(IcmpReport::Always);
        assert_eq!(messages, [500, 500]);
        assert_eq!(line.seqs(), [7, 8, 9], "a message, the packet of 500 bytes, a message");
        assert_eq!(line.arrived[0].1.size().get(), 20 + 8 + 540, "it quotes the packet");
        assert_eq!(line.counters().dropped[DropReason::TooLong], 2);
        assert_eq!(line.counters().balance(), 0);
    }

    #[test]
    fn a_black_hole_reports_nothing_and_a_limit_is_kept() {
        assert!(line(IcmpReport::Never).0.is_empty());
        assert_eq!(line(IcmpReport::PerSecond(100)).0.len(), 1, "one in 10 ms");
        assert_eq!(line(IcmpReport::PerSecond(1000)).0.len(), 2);
    }
}
