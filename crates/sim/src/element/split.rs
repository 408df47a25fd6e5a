//! Segmentation of a super-segment into wire packets (TSO in the NIC, GSO above it).
//!
//! As in Linux's `tcp_gso_segment`, which hardware follows: only the first packet carries CWR (with accurate ECN the
//! bit is part of a counter, and all packets carry it); only the last packet carries FIN and PSH; all packets carry
//! the other flags and the ECN field of the IP header.

use crate::engine::{Arena, Core, ElementContext, PacketId, PacketList};
use tcpassay_wire::Flags;

/// Segments super-segments without delay, for a path whose port does not ([`PortSpec::segment`](super::PortSpec)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SplitSpec;

#[inline]
pub(crate) fn receive(ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
    if core.packets[id].segs == 1 {
        ctx.forward(core, id);
        return;
    }
    let mut pieces = split(ctx, &mut core.packets, id);
    while let Some(piece) = pieces.pop_front(&core.packets) {
        ctx.forward(core, piece);
    }
}

/// Segments packet `id` into wire packets, in order. The first one keeps the id.
pub(crate) fn split(ctx: &mut ElementContext, arena: &mut Arena, id: PacketId) -> PacketList {
    let mut pieces = PacketList::default();
    let whole = arena[id].clone();
    let (mss, segs) = (u32::from(whole.mss), u32::from(whole.segs));
    for n in 0..segs {
        let mut piece = whole.clone();
        let (first, last) = (n == 0, n + 1 == segs);
        piece.segs = 1;
        piece.segment.seq = whole.segment.seq + n * mss;
        piece.segment.len = if last { whole.segment.len - n * mss } else { mss };
        if !first && !whole.accecn {
            piece.segment.flags = piece.segment.flags.without(Flags::CWR);
        }
        if !last {
            piece.segment.flags = piece.segment.flags.without(Flags::FIN | Flags::PSH);
        }
        // Each packet notifies its host of its own bytes (`tcp_gso_segment` gives each its part of `truesize`).
        piece.notify = whole.notify;
        piece.measure();
        let at = if first {
            arena[id] = piece;
            id
        } else {
            ctx.made(1);
            arena.insert(piece)
        };
        pieces.push_back(arena, at);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::test_net::{TestPath, data};
    use crate::engine::Packet;
    use tcpassay_units::SeqNum;
    use tcpassay_wire::{Ecn, Timestamps};

    fn send(packet: Packet) -> Vec<Packet> {
        let mut line = TestPath::new(SplitSpec);
        line.send(packet);
        assert_eq!(line.counters().balance(), 0);
        line.arrived.into_iter().map(|(_, p)| p).collect()
    }

    fn super_segment() -> Packet {
        let mut p = data(3000);
        p.segment.seq = SeqNum::new(u32::MAX);
        p.segment.flags = Flags::ACK | Flags::CWR | Flags::ECE | Flags::PSH | Flags::FIN;
        p.ecn = Ecn::Ce;
        p
    }

    #[test]
    fn a_super_segment_is_cut_at_every_mss() {
        let cut: Vec<(u32, u32, u64)> = send(super_segment())
            .iter()
            .map(|p| (p.segment.seq.get(), p.segment.len, p.size().get()))
            .collect();
        assert_eq!(cut, [(u32::MAX, 1460, 1500), (1459, 1460, 1500), (2919, 80, 120)]);
    }

    #[test]
    fn cwr_is_on_the_first_packet_and_fin_and_push_on_the_last_only() {
        let flags: Vec<Flags> = send(super_segment()).iter().map(|p| p.segment.flags).collect();
        let each = Flags::ACK | Flags::ECE;
        assert_eq!(flags, [each | Flags::CWR, each, each | Flags::PSH | Flags::FIN]);
    }

    #[test]
    fn with_accurate_ecn_the_counter_stays_on_every_packet() {
        let mut p = super_segment();
        p.accecn = true;
        assert!(send(p).iter().all(|p| p.segment.flags.has(Flags::CWR)));
    }

    #[test]
    fn the_ecn_field_and_the_timestamps_are_on_every_packet() {
        let mut p = super_segment();
        p.segment.options.timestamps = Some(Timestamps { val: 7, ecr: 3 });
        p.measure();
        let cut = send(p);
        assert_eq!(cut.len(), 3);
        assert!(cut.iter().all(|p| p.ecn == Ecn::Ce && p.segment.options.timestamps.unwrap().val == 7));
        assert_eq!(cut[0].size().get(), 1512);
    }

    #[test]
    fn the_packets_notify_their_host_of_all_bytes_of_the_super_segment() {
        let mut p = super_segment();
        p.notify = true;
        p.segs = 3;
        p.measure();
        assert_eq!(p.size().get(), 3120);
        let cut = send(p);
        assert!(cut.iter().all(|p| p.notify));
        assert_eq!(cut.iter().map(|p| p.size().get()).sum::<u64>(), 3120);
    }

    #[test]
    fn a_packet_that_fits_passes_as_it_is() {
        assert_eq!(send(data(1460)).len(), 1);
    }
}
