//! The event queue: sources, each of which has at most one pending wake-up.
//!
//! A link schedules only the head of its flight and a host only its earliest timer, so the queue holds as many
//! entries as the network has things that wait, not as many as it has packets. Most of them are due within microseconds and
//! lie in a [wheel](wheel::Wheel) of buckets; what is further ahead lies in a [tree](tree::Tree), and the first [few] sources
//! lie side by side. A wake-up stays where it was put: the next one is the smallest of the three first ones.
//!
//! The order is total: by time, then by insertion. It must not know what a source stands for.

#![expect(clippy::inline_always, reason = "each stands in the run loop, once for each event")]

mod few;
mod key;
mod tree;
mod wheel;

pub use key::SourceId;

use few::Few;
use key::{IDLE, Key, Place, SOURCE_BITS, Slot, nanos_of, source_of, time_of};
use tcpassay_units::{Time, count};
use tree::Tree;
use wheel::Wheel;

/// The event queue. See the module.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    few: Few,
    near: Wheel,
    far: Tree,
    slots: Vec<Slot>,
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
        self.slots.push(Slot { key: IDLE, next: s, place: Place::Out });
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
        } else if place == Place::Out {
            self.put(source, key);
        }
    }

    /// As [`Scheduler::set`], but behind all other wake-ups at `time` in any case.
    #[inline]
    fn move_to(&mut self, source: SourceId, time: Time) {
        if self.slots[source.0 as usize].place != Place::Out {
            self.take_out(source);
        }
        self.add_last(source, time);
    }

    /// Wakes `source`, which has no wake-up pending, at `time`, behind all other wake-ups then.
    #[inline(always)]
    pub(crate) fn add_last(&mut self, source: SourceId, time: Time) {
        debug_assert!(self.slots[source.0 as usize].place == Place::Out, "a second wake-up");
        // 2^42 insertions are two days at twenty million a second.
        count(&mut self.inserted, 1);
        debug_assert!(self.inserted < 1 << (64 - SOURCE_BITS), "too many insertions");
        let low = self.inserted << SOURCE_BITS | u64::from(source.0);
        self.put(source, Key::from(time.as_nanos()) << 64 | Key::from(low));
    }

    /// Cancels the wake-up of `source`, if any.
    #[inline]
    pub fn clear(&mut self, source: SourceId) {
        if self.slots[source.0 as usize].place != Place::Out {
            self.take_out(source);
        }
        self.slots[source.0 as usize].key = IDLE;
    }

    /// When `source` will wake.
    pub fn pending(&self, source: SourceId) -> Option<Time> {
        let slot = &self.slots[source.0 as usize];
        (slot.place != Place::Out).then(|| time_of(slot.key))
    }

    /// The first wake-up.
    #[inline]
    pub fn peek(&self) -> Option<(Time, SourceId)> {
        let key = self.few.first().min(self.near.first()).min(self.far.first());
        (key != IDLE).then(|| (time_of(key), source_of(key)))
    }

    /// Takes the first wake-up out when it is due by `end`.
    #[inline(always)]
    pub fn take(&mut self, end: Time) -> Option<(Time, SourceId)> {
        let (few, near, far) = (self.few.first(), self.near.first(), self.far.first());
        let key = few.min(near).min(far);
        if nanos_of(key) > end.as_nanos() || key == IDLE {
            return None;
        }
        let source = source_of(key);
        self.slots[source.0 as usize].place = Place::Out;
        if key == few {
            self.few.remove(source);
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
    fn put(&mut self, source: SourceId, key: Key) {
        let slot = &mut self.slots[source.0 as usize];
        slot.key = key;
        if self.few.insert(source, key) {
            slot.place = Place::Few;
            return;
        }
        (slot.next, slot.place) = (source.0, Place::Near);
        if !self.near.insert_last(&mut self.slots, source, key) {
            self.put_anywhere(source, key);
        }
    }

    /// Into a bucket with others, or into the tree.
    #[inline(never)]
    fn put_anywhere(&mut self, source: SourceId, key: Key) {
        if !self.near.insert(&mut self.slots, source, key) {
            self.slots[source.0 as usize].place = Place::Far;
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
        let place = std::mem::replace(&mut slot.place, Place::Out);
        match place {
            Place::Out => {}
            Place::Few => self.few.remove(source),
            Place::Near => self.near.remove(&mut self.slots, source),
            Place::Far => self.far.put(source, IDLE),
        }
    }
}

#[cfg(test)]
mod tests;
