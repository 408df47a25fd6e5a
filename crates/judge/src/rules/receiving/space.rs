//! The room of a receiver, in one of the forms that a stack has.

use super::memory::{Memory, Taken};
use super::window::{Buffer, Offer, Place};
use tcpassay_units::{Dur, Time};

/// The receive buffer.
#[derive(Clone, Debug)]
pub(super) enum Space {
    /// It counts bytes of the stream.
    Bytes(Buffer),
    /// It counts memory, as Linux does.
    Memory(Memory),
    /// The log does not tell what it holds.
    Unknown,
}

impl Space {
    pub fn is_known(&self) -> bool {
        !matches!(self, Space::Unknown)
    }

    /// Whether it may grow with what the application reads.
    pub fn grows(&self) -> bool {
        match self {
            Space::Bytes(buffer) => buffer.grows(),
            Space::Memory(memory) => memory.grows(),
            Space::Unknown => false,
        }
    }

    /// The window of a segment that leaves now.
    pub fn offer(&self, place: &Place) -> Option<Offer> {
        match self {
            Space::Bytes(buffer) => Some(buffer.offer(place)),
            Space::Memory(memory) => Some(memory.offer(place)),
            Space::Unknown => None,
        }
    }

    /// Whether an ACK would announce no less than the last one.
    pub fn keeps(&self, place: &Place) -> Option<bool> {
        match self {
            Space::Bytes(buffer) => Some(buffer.keeps(place)),
            Space::Memory(memory) => Some(memory.keeps(place)),
            Space::Unknown => None,
        }
    }

    /// A packet arrives. `None`: everything is kept.
    pub fn arrives(&mut self, start: u64, end: u64, fin: bool, place: &Place) -> Option<Taken> {
        if let Space::Memory(memory) = self { Some(memory.arrives(start, end, fin, place)) } else { None }
    }

    /// The application has read up to `read`. `rtt`: the round-trip time as the receiver measures it, if the log tells.
    pub fn read(&mut self, at: Time, read: u64, rtt: Option<Dur>) {
        match (&mut *self, rtt) {
            (Space::Bytes(buffer), Some(rtt)) => buffer.read(at, read, rtt),
            (Space::Memory(memory), Some(rtt)) => memory.read(at, read, rtt),
            (Space::Bytes(buffer), None) if buffer.may_grow(read) => *self = Space::Unknown,
            (Space::Memory(memory), None) if memory.may_grow(read) => *self = Space::Unknown,
            (Space::Memory(memory), None) => memory.release(read),
            _ => {}
        }
    }

    /// Whether the window opened by so much that it is announced at once. `doubles`: if it is at least twice as large.
    pub fn updates(&self, place: &Place, doubles: bool) -> Option<bool> {
        match self {
            Space::Bytes(buffer) => Some(buffer.updates(place, doubles)),
            Space::Memory(memory) => Some(memory.updates(place)),
            Space::Unknown => None,
        }
    }
}
