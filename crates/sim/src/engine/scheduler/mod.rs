//! The event queue: sources, each of which has at most one pending wake-up.
//!
//! A link schedules only the head of its flight and a host only its earliest timer, so the queue holds as many
//! entries as the network has things that wait, not as many as it has packets. Most of them are due within microseconds and
//! lie in a [wheel](wheel::TimingWheel) of buckets; what is further ahead lies in a [tree](tree::WinnerTree), and the first [few] sources
//! lie side by side. A wake-up stays where it was put: the next one is the smallest of the three first ones.
//!
//! The order is total: by time, then by insertion. It must not know what a source stands for.

#![expect(clippy::inline_always, reason = "each stands in the run loop, once for each event")]

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

    /// Gives the place of `source` back; its wake-up is cleared and its id will be used again.
    pub fn remove(&mut self, source: SourceId) {
        self.clear(source);
        self.free.push(source.0);
    }

    /// Sources added and not removed.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no source at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Wakes `source` at `time` instead of whatever was pending. Among wake-ups at one instant the one set first
    /// comes first; setting the time that is already pending, or was until it was taken, keeps its place.
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

    /// As [`Scheduler::set`], but behind all other wake-ups at `time` in any case.
    #[inline]
    fn move_to(&mut self, source: SourceId, time: Time) {
        if self.slots[source.0 as usize].place != Location::NotQueued {
            self.take_out(source);
        }
        self.add_last(source, time);
    }

    /// Wakes `source`, which has no wake-up pending, at `time`, behind all other wake-ups then.
    #[inline(always)]
    pub(crate) fn add_last(&mut self, source: SourceId, time: Time) {
        debug_assert!(self.slots[source.0 as usize].place == Location::NotQueued, "a second wake-up");
        // 2^42 insertions are two days at twenty million a second.
        count(&mut self.inserted, 1);
        debug_assert!(self.inserted < 1 << (64 - SOURCE_BITS), "too many insertions");
        let low = self.inserted << SOURCE_BITS | u64::from(source.0);
        self.put(source, EventKey::from(time.as_nanos()) << 64 | EventKey::from(low));
    }

    /// Cancels the wake-up of `source`, if any.
    #[inline]
    pub fn clear(&mut self, source: SourceId) {
        if self.slots[source.0 as usize].place != Location::NotQueued {
            self.take_out(source);
        }
        self.slots[source.0 as usize].key = IDLE;
    }

    /// When `source` will wake.
    pub fn pending(&self, source: SourceId) -> Option<Time> {
        let slot = &self.slots[source.0 as usize];
        (slot.place != Location::NotQueued).then(|| time_of(slot.key))
    }

    /// The first wake-up.
    #[inline]
    pub fn peek(&self) -> Option<(Time, SourceId)> {
        let key = self.linear.first().min(self.near.first()).min(self.far.first());
        (key != IDLE).then(|| (time_of(key), source_of(key)))
    }

    /// Takes the first wake-up out when it is due by `end`.
    #[inline(always)]
    pub fn take(&mut self, end: Time) -> Option<(Time, SourceId)> {
        let (linear, near, far) = (self.linear.first(), self.near.first(), self.far.first());
        let key = linear.min(near).min(far);
        if nanos_of(key) > end.as_nanos() || key == IDLE {
            return None;
        }
        let source = source_of(key);
        self.slots[source.0 as usize].place = Location::NotQueued;
        if key == linear {
            self.linear.remove(source);
        } else {
            if key == near {
                self.near.take_first(&mut self.slots);
            } else {
                self.far.put(source, IDLE);
            }
            self.near.turn_to(nanos_of(key));
        }
        Some((time_of(key), source))
    }

    #[inline(always)]
    fn put(&mut self, source: SourceId, key: EventKey) {
        let slot = &mut self.slots[source.0 as usize];
        slot.key = key;
        if self.linear.insert(source, key) {
            slot.place = Location::Linear;
            return;
        }
        (slot.next, slot.place) = (source.0, Location::Wheel);
        if !self.near.insert_last(&mut self.slots, source, key) {
            self.put_anywhere(source, key);
        }
    }

    /// Into a bucket with others, or into the tree.
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

    /// Out of the queue; its key stays.
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
