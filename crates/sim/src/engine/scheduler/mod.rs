//! The event queue. Each source has at most one pending event.
//!
//! A link schedules only the arrival of its first packet in flight, and a host only its earliest timer. The number of
//! queue entries is therefore the number of waiting elements and not the number of packets. Most events are due
//! within microseconds and are stored in a [timing wheel](wheel::TimingWheel). Events further ahead are stored in a
//! [winner tree](tree::WinnerTree), and those of the sources with the smallest ids in a [linear queue](linear). An
//! event stays where it was inserted; the next event is the smallest of the three first ones.
//!
//! The order is total: by time, then by insertion. The queue does not depend on what a source represents.

#![expect(clippy::inline_always, reason = "called in the run loop, once for each event")]

mod key;
mod linear;
mod tree;
mod wheel;

pub use key::SourceId;

use key::{EventKey, IDLE, Location, SOURCE_BITS, SourceEntry, nanos_of, source_of, time_of};
use linear::LinearQueue;
use tcpassay_units::{Time, count};
use tree::WinnerTree;
use wheel::TimingWheel;

/// The event queue. See the module.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    linear: LinearQueue,
    near: TimingWheel,
    far: WinnerTree,
    slots: Vec<SourceEntry>,
    free: Vec<u32>,
    inserted: u64,
}

impl Scheduler {
    /// A new source without a wake-up.
    pub fn add(&mut self) -> SourceId {
        if let Some(s) = self.free.pop() {
            return SourceId(s);
        }
        let s = u32::try_from(self.slots.len()).expect("bounded below");
        assert!(s < 1 << SOURCE_BITS, "more than four million things that wait");
        self.slots.push(SourceEntry { key: IDLE, next: s, place: Location::NotQueued });
        self.far.reserve(self.slots.len());
        SourceId(s)
    }

    /// Releases `source`. Its event is cancelled and its id may be reused.
    pub fn remove(&mut self, source: SourceId) {
        self.clear(source);
        self.free.push(source.0);
    }

    /// Number of sources added and not removed.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no source.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Schedules `source` at `time`, replacing its pending event. Among events at the same time, the one that was set
    /// first comes first. Setting the time that is pending, or that was pending until the event was taken, keeps the
    /// position.
    #[inline]
    pub fn set(&mut self, source: SourceId, time: Time) {
        let slot = &self.slots[source.0 as usize];
        let (key, place) = (slot.key, slot.place);
        if time_of(key) != time || key == IDLE {
            self.move_to(source, time);
        } else if place == Location::NotQueued {
            self.put(source, key);
        }
    }

    /// As [`Scheduler::set`], but always behind all other events at `time`.
    #[inline]
    fn move_to(&mut self, source: SourceId, time: Time) {
        if self.slots[source.0 as usize].place != Location::NotQueued {
            self.take_out(source);
        }
        self.add_last(source, time);
    }

    /// Schedules `source`, which has no pending event, at `time` behind all other events at that time.
    #[inline(always)]
    pub(crate) fn add_last(&mut self, source: SourceId, time: Time) {
        debug_assert!(self.slots[source.0 as usize].place == Location::NotQueued, "a second wake-up");
        // 2^42 insertions suffice for two days at twenty million per second.
        count(&mut self.inserted, 1);
        debug_assert!(self.inserted < 1 << (64 - SOURCE_BITS), "too many insertions");
        let low = self.inserted << SOURCE_BITS | u64::from(source.0);
        self.put_last(source, EventKey::from(time.as_nanos()) << 64 | EventKey::from(low));
    }

    /// Cancels the event of `source`, if any.
    #[inline]
    pub fn clear(&mut self, source: SourceId) {
        if self.slots[source.0 as usize].place != Location::NotQueued {
            self.take_out(source);
        }
        self.slots[source.0 as usize].key = IDLE;
    }

    /// The time of the pending event of `source`.
    pub fn pending(&self, source: SourceId) -> Option<Time> {
        let slot = &self.slots[source.0 as usize];
        (slot.place != Location::NotQueued).then(|| time_of(slot.key))
    }

    /// The next event.
    #[inline]
    pub fn peek(&self) -> Option<(Time, SourceId)> {
        let key = self.linear.first().min(self.near.first()).min(self.far.first());
        (key != IDLE).then(|| (time_of(key), source_of(key)))
    }

    /// Removes and returns the next event when it is due by `end`. An event at [`Time::MAX`] is never due.
    #[inline(always)]
    pub fn take(&mut self, end: Time) -> Option<(Time, SourceId)> {
        let (linear, near, far) = (self.linear.first(), self.near.first(), self.far.first());
        // Most often the times differ; then the lower halves of the keys need not be compared.
        let key = if nanos_of(linear) < nanos_of(near).min(nanos_of(far)) {
            linear
        } else if nanos_of(near) < nanos_of(linear).min(nanos_of(far)) {
            near
        } else {
            linear.min(near).min(far)
        };
        let ns = nanos_of(key);
        if ns > end.as_nanos() || ns == u64::MAX {
            return None;
        }
        let source = source_of(key);
        match std::mem::replace(&mut self.slots[source.0 as usize].place, Location::NotQueued) {
            Location::Linear => self.linear.take_first(),
            Location::Wheel => {
                self.near.take_first(&mut self.slots);
                self.near.turn_to(ns);
            }
            Location::Tree | Location::NotQueued => {
                self.far.put(source, IDLE);
                self.near.turn_to(ns);
            }
        }
        Some((Time::from_nanos(ns), source))
    }

    /// Inserts a key with the largest insertion number so far.
    #[inline(always)]
    fn put_last(&mut self, source: SourceId, key: EventKey) {
        let slot = &mut self.slots[source.0 as usize];
        slot.key = key;
        if LinearQueue::holds(source) {
            slot.place = Location::Linear;
            self.linear.insert_last(key);
            return;
        }
        (slot.next, slot.place) = (source.0, Location::Wheel);
        if !self.near.insert_last(&mut self.slots, source, key) {
            self.put_anywhere(source, key);
        }
    }

    /// Inserts any key.
    #[inline(never)]
    fn put(&mut self, source: SourceId, key: EventKey) {
        let slot = &mut self.slots[source.0 as usize];
        slot.key = key;
        if LinearQueue::holds(source) {
            slot.place = Location::Linear;
            self.linear.insert(key);
            return;
        }
        (slot.next, slot.place) = (source.0, Location::Wheel);
        self.put_anywhere(source, key);
    }

    /// Inserts into a bucket that has other sources, or into the tree.
    #[inline(never)]
    fn put_anywhere(&mut self, source: SourceId, key: EventKey) {
        if !self.near.insert(&mut self.slots, source, key) {
            self.slots[source.0 as usize].place = Location::Tree;
            self.far.put(source, key);
        }
        if self.near.is_untuned() {
            let far = &mut self.far;
            self.near.tune(&mut self.slots, |source, key| far.put(source, key));
        }
    }

    /// Removes the source from its queue; its key stays.
    #[inline(never)]
    fn take_out(&mut self, source: SourceId) {
        let slot = &mut self.slots[source.0 as usize];
        let place = std::mem::replace(&mut slot.place, Location::NotQueued);
        match place {
            Location::NotQueued => {}
            Location::Linear => self.linear.remove(source),
            Location::Wheel => self.near.remove(&mut self.slots, source),
            Location::Tree => self.far.put(source, IDLE),
        }
    }
}

#[cfg(test)]
mod tests;
