//! Keys of the event queue: a time, an insertion and a source in one number.

use tcpassay_units::Time;

/// A place in the event queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceId(pub(crate) u32);

impl SourceId {
    /// Of what never waits.
    pub(crate) const NONE: SourceId = SourceId(u32::MAX);
}

/// A wake-up in one number, so that the queue is a minimum over numbers: the time above, then the insertion, then the
/// source. Insertions are unique, so the source never decides.
pub(super) type Key = u128;

/// No wake-up pending: later than every other key.
pub(super) const IDLE: Key = Key::MAX;
/// Bits of a key for the source: four million of them.
pub(super) const SOURCE_BITS: u32 = 22;

/// Where the wake-up of a source lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In none.
    Out,
    /// Among the few.
    Few,
    /// In the wheel.
    Near,
    /// In the tree.
    Far,
}

/// A source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Its wake-up. One that was taken keeps its key until another is set.
    pub(super) key: Key,
    /// The next source in its bucket of the wheel.
    pub(super) next: u32,
    pub(super) place: Place,
}

#[inline]
pub(super) fn time_of(key: Key) -> Time {
    Time::from_nanos(nanos_of(key))
}

#[inline]
pub(super) fn nanos_of(key: Key) -> u64 {
    (key >> 64) as u64
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lowest bits are the source")]
pub(super) fn source_of(key: Key) -> SourceId {
    SourceId(key as u32 & ((1 << SOURCE_BITS) - 1))
}
