//! Elements that concern ACKs: thinning (RFC 3449 section 5.2.1) and ECE on returning ACKs.

use super::element::{Effects, Element, Held, World};
use super::path::is_ack;
use std::collections::{BTreeMap, VecDeque};
use tcpassay_measure::{DropReason, ElementEvent, ElementPacket};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// A direction of a connection.
type Direction = (u32, u16);

/// Of each group of pure ACKs only the newest passes.
#[derive(Debug)]
pub(super) struct Thinning {
    pub one_in: u32,
    pub longest: Dur,
    /// Acknowledgement number and ECN flags of the last packet.
    pub last: BTreeMap<Direction, (u32, u16)>,
    /// The groups in the order of their ends: the newest ACK and their number.
    pub groups: VecDeque<(Time, Direction, Held, u32)>,
}

const ECN_FLAGS: Flags = Flags::from_bits(Flags::ECE.bits() | Flags::CWR.bits() | Flags::AE.bits());

impl Element for Thinning {
    fn arrives(&mut self, now: Time, held: Held, _: &mut World, out: &mut Effects) {
        let packet = &held.packet;
        if packet.is(ElementPacket::DATAGRAM) {
            out.departs(held);
            return;
        }
        let direction = (packet.flow, packet.src);
        let (ack, flags) = (packet.ack, packet.flags & ECN_FLAGS.bits());
        let last = self.last.insert(direction, (ack, flags));
        let tells =
            last.is_some_and(|(before, with)| ack.wrapping_sub(before).cast_signed() <= 0 || with != flags);
        let place = self.groups.iter().position(|group| group.1 == direction);
        if !is_ack(packet) || packet.is(ElementPacket::SACK) || tells {
            if let Some(group) = place.and_then(|place| self.groups.remove(place)) {
                out.departs(group.2);
            }
            if Flags::from_bits(packet.flags).any(Flags::FIN | Flags::RST) {
                self.last.remove(&direction);
            }
            out.departs(held);
            return;
        }
        let count = if let Some(place) = place {
            let group = &mut self.groups[place];
            out.drops(group.2, DropReason::Thinned);
            group.2 = held;
            group.3 += 1;
            group.3
        } else {
            self.groups.push_back((now + self.longest, direction, held, 1));
            1
        };
        if count >= self.one_in {
            self.groups.remove(place.unwrap_or(self.groups.len() - 1));
            out.departs(held);
        }
    }

    fn due(&self) -> Option<Time> {
        self.groups.front().map(|group| group.0)
    }

    fn acts(&mut self, now: Time, _: &mut World, out: &mut Effects) {
        while let Some((_, _, held, _)) = self.groups.pop_front_if(|group| group.0 <= now) {
            out.departs(held);
        }
    }
}

/// Sets ECE on ACKs while the queue of their data holds more than a threshold.
#[derive(Debug)]
pub(super) struct Echo {
    pub queue: usize,
    pub above: u64,
}

impl Element for Echo {
    fn arrives(&mut self, _: Time, mut held: Held, world: &mut World, out: &mut Effects) {
        let flags = Flags::from_bits(held.packet.flags);
        if world.backlog > self.above && flags.has(Flags::ACK) && !flags.any(Flags::SYN | Flags::RST) {
            held.packet.flags |= Flags::ECE.bits();
            out.add(ElementEvent::Marked, held);
        }
        out.departs(held);
    }

    fn asks(&self) -> Option<usize> {
        Some(self.queue)
    }
}
