//! Keys of the event queue: time, insertion number and source in one integer.

use tcpassay_units::Time;

/// A source of events in the event queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceId(pub(crate) u32);

impl SourceId {
    /// The id of an element that never schedules an event.
    pub(crate) const NONE: SourceId = SourceId(u32::MAX);
}

/// An event as one integer, so that the queue only compares integers: the time in the upper bits, then the insertion
/// number, then the source. Insertion numbers are unique, so the source never decides the order.
pub(super) type EventKey = u128;

/// No pending event; larger than every other key.
pub(super) const IDLE: EventKey = EventKey::MAX;
/// Number of key bits for the source; they allow four million sources.
pub(super) const SOURCE_BITS: u32 = 22;

/// The data structure that contains the event of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Location {
    /// The source has no pending event.
    NotQueued,
    /// In the linear queue.
    Linear,
    /// In the timing wheel.
    Wheel,
    /// In the winner tree.
    Tree,
}

/// The state of a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceEntry {
    /// The pending event. After the event was taken, the key stays until the next event is set.
    pub(super) key: EventKey,
    /// The next source in the same bucket of the wheel.
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
