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
pub(super) type EventKey = u128;

/// No wake-up pending: later than every other key.
pub(super) const IDLE: EventKey = EventKey::MAX;
/// Bits of a key for the source: four million of them.
pub(super) const SOURCE_BITS: u32 = 22;

/// Where the wake-up of a source lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Location {
    /// In none.
    NotQueued,
    /// Among the few.
    Linear,
    /// In the wheel.
    Wheel,
    /// In the tree.
    Tree,
}

/// A source.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceEntry {
    /// Its wake-up. One that was taken keeps its key until another is set.
    pub(super) key: EventKey,
    /// The next source in its bucket of the wheel.
    pub(super) next: u32,
    pub(super) place: Location,
}

#[inline]
pub(super) fn time_of(key: EventKey) -> Time {
    Time::from_nanos(nanos_of(key))
}

#[inline]
pub(super) fn nanos_of(key: EventKey) -> u64 {
    (key >> 64) as u64
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lowest bits are the source")]
pub(super) fn source_of(key: EventKey) -> SourceId {
    SourceId(key as u32 & ((1 << SOURCE_BITS) - 1))
}
