//! Rows of the log of elements ([`ElementLog`](tcpassay_measure::ElementLog)).

use super::ids::NodeId;
use super::packet::{Packet, PacketId, Protocol};
use tcpassay_measure::{ElementEvent, ElementPacket, ElementRow};
use tcpassay_units::Time;
use tcpassay_wire::Options;

/// The row for an event of a packet.
pub(super) fn row(at: Time, node: NodeId, event: ElementEvent, id: PacketId, packet: &Packet) -> ElementRow {
    let element = u16::try_from(node.0).unwrap_or(u16::MAX);
    ElementRow { at, element, event, packet: contents(id, packet) }
}

fn contents(id: PacketId, packet: &Packet) -> ElementPacket {
    let segment = &packet.segment;
    let datagram = packet.kind == Protocol::Udp;
    let bits = [
        (packet.corrupt, ElementPacket::CORRUPT),
        (datagram, ElementPacket::DATAGRAM),
        (packet.accecn, ElementPacket::COUNTS),
        (!segment.options.sack.is_empty(), ElementPacket::SACK),
        (packet.band != 0, ElementPacket::SECOND),
    ];
    ElementPacket {
        id: id.number(),
        flow: packet.flow.0,
        size: packet.size_u32(),
        len: segment.len,
        seq: segment.seq.get(),
        ack: segment.ack.get(),
        options: hash(&segment.options),
        src: packet.src.0,
        dst: packet.dst.0,
        mss: packet.mss,
        segs: packet.segs,
        flags: segment.flags.bits(),
        headers: u16::try_from(packet.headers()).unwrap_or(u16::MAX),
        ecn: packet.ecn.bits(),
        is: bits.iter().filter(|(is, _)| *is).fold(0, |all, (_, bit)| all | bit),
    }
}

/// Equal options have equal hashes; SYN options are not included.
fn hash(options: &Options) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    let mut mix = |n: u32| hash = (hash.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b1);
    if let Some(stamps) = options.timestamps {
        mix(stamps.val);
        mix(stamps.ecr);
    }
    if !options.sack.is_bare() {
        for block in &options.sack {
            mix(block.start.get());
            mix(block.end.get());
        }
        if let Some(counters) = options.accecn() {
            mix(u32::from(counters.fields) << 1 | u32::from(counters.e1b_first));
            counters.counts.into_iter().for_each(mix);
        }
    }
    hash
}
