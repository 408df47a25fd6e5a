//! What an element is: it receives packets, and has effects.

use tcpassay_measure::{DropReason, ElementEvent, ElementPacket};
use tcpassay_units::Time;

/// A packet inside an element. `known`: it has the number of [`ElementPacket::id`]; packets that the element creates have another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub packet: ElementPacket,
    pub known: bool,
    /// When it arrived.
    pub since: Time,
}

/// What an element does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect {
    pub event: ElementEvent,
    pub packet: ElementPacket,
    pub known: bool,
}

/// What an element does at one time, in order.
#[derive(Debug, Default)]
pub(super) struct Effects {
    effects: Vec<Effect>,
    /// Number of those that the log has shown.
    shown: usize,
}

impl Effects {
    /// The first one that the log has not shown.
    pub fn first(&self) -> Option<&Effect> {
        self.effects.get(self.shown)
    }

    /// The log shows the first one.
    pub fn show(&mut self) {
        self.shown += 1;
        if self.shown >= self.effects.len() {
            self.effects.clear();
            self.shown = 0;
        }
    }

    pub fn add(&mut self, event: ElementEvent, held: Held) {
        self.effects.push(Effect { event, packet: held.packet, known: held.known });
    }

    pub fn departs(&mut self, held: Held) {
        self.add(ElementEvent::Departed, held);
    }

    pub fn drops(&mut self, held: Held, why: DropReason) {
        self.add(ElementEvent::Dropped(why), held);
    }

    /// Marks an ECN-capable packet. Returns whether it is one.
    pub fn marks(&mut self, held: &mut Held) -> bool {
        let capable = held.packet.ecn != NOT_ECT;
        if capable {
            held.packet.ecn = CE;
            self.add(ElementEvent::Marked, *held);
        }
        capable
    }
}

pub(super) const NOT_ECT: u8 = 0b00;
pub(super) const ECT_1: u8 = 0b01;
pub(super) const CE: u8 = 0b11;

/// What elements share.
#[derive(Debug, Default)]
pub(super) struct World {
    /// For each buffer that ports share its size and the bytes in it.
    pub buffers: Vec<(u64, u64)>,
    /// The backlog of the queue that an element asks for ([`Element::asks`]).
    pub backlog: u64,
}

/// An element, as its rule describes it.
pub(super) trait Element {
    /// A packet arrives.
    fn arrives(&mut self, now: Time, held: Held, world: &mut World, out: &mut Effects);
    /// When the element acts without an arrival.
    fn due(&self) -> Option<Time> {
        None
    }
    /// It acts because the time has come.
    fn acts(&mut self, _now: Time, _world: &mut World, _out: &mut Effects) {}
    /// Bytes that wait in front of a packet of `flow`.
    fn backlog(&mut self, _now: Time, _flow: u32) -> u64 {
        0
    }
    /// The longest backlog after an arrival, in bytes, if it has a queue.
    fn longest(&self) -> Option<u64> {
        None
    }
    /// The element whose backlog this one needs when a packet arrives.
    fn asks(&self) -> Option<usize> {
        None
    }
    /// Whether the log does not say in which order two events at `now` happened, and the result depends on it.
    fn is_ambiguous(&self, _now: Time) -> bool {
        false
    }
}
