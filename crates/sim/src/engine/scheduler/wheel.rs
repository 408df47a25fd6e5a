//! A timing wheel for the near future: constant cost per event, independent of the number of pending events.
//!
//! A bucket is a circular list of sources sorted by key, addressed by its last element, so that the usual insertion
//! (behind all others) and the removal of the first need no search. A bitmap marks the buckets that are not empty;
//! two lookups find the next one. The wheel covers one turn: it rejects events further ahead. The width of the
//! buckets is adapted to the events (see [`TimingWheel::tune`]); the width never changes the order of events.

#![expect(clippy::inline_always, reason = "called in the run loop, once for each event")]

use super::key::{EventKey, IDLE, Location, SourceEntry, SourceId, nanos_of, source_of};

/// Number of buckets in a turn.
const BUCKETS: usize = 4096;
const WORDS: usize = BUCKETS / 64;
/// Marks an empty bucket.
const NONE: u32 = u32::MAX;
/// Initial width of a bucket: 64 ns (log2).
const SHIFT: u32 = 6;
/// Largest width of a bucket: about one second (log2).
const WIDEST: u32 = 30;
/// Number of unfavourable insertions after which the width changes.
const PATIENCE: u32 = if cfg!(test) { 16 } else { 1024 };
/// Weight of a rejected insertion, relative to one step of a list search.
const REFUSAL: u32 = 8;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct TimingWheel {
    /// The smallest key.
    first: EventKey,
    /// Logarithm of the width of a bucket in nanoseconds.
    shift: u32,
    /// All buckets before this one are empty.
    base: u64,
    /// Bit w is set when word w of `words` is not zero.
    summary: u64,
    words: Box<[u64; WORDS]>,
    /// The last source of each bucket.
    last: Box<[u32; BUCKETS]>,
    /// Since the last change of the width: number of rejected events, and number of list elements that insertions
    /// stepped over.
    refused: u32,
    steps: u32,
}

impl Default for TimingWheel {
    fn default() -> TimingWheel {
        TimingWheel {
            first: IDLE,
            shift: SHIFT,
            base: 0,
            summary: 0,
            words: Box::new([0; WORDS]),
            last: Box::new([NONE; BUCKETS]),
            refused: 0,
            steps: 0,
        }
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lowest bits")]
fn index(bucket: u64) -> usize {
    bucket as usize % BUCKETS
}

impl TimingWheel {
    /// The smallest key.
    #[inline(always)]
    pub fn first(&self) -> EventKey {
        self.first
    }

    /// Whether the width should change. Called when an insertion was rejected or had to step over other sources.
    #[inline]
    pub fn is_untuned(&self) -> bool {
        self.refused * REFUSAL + self.steps >= PATIENCE * REFUSAL
    }

    /// Advances the wheel: no event before `ns` will be inserted any more.
    #[inline(always)]
    pub fn turn_to(&mut self, ns: u64) {
        self.base = self.base.max(ns >> self.shift);
    }

    /// Inserts `source`, whose list consists of itself, with `key` when it becomes the last of its bucket within this
    /// turn. Returns whether it was inserted. The key is larger than all others of its time.
    #[inline(always)]
    pub fn insert_last(&mut self, slots: &mut [SourceEntry], source: SourceId, key: EventKey) -> bool {
        let bucket = nanos_of(key) >> self.shift;
        if bucket.wrapping_sub(self.base) >= BUCKETS as u64 {
            return false;
        }
        let at = index(bucket);
        let last = self.last[at];
        if last == NONE {
            self.words[at / 64] |= 1 << (at % 64);
            self.summary |= 1 << (at / 64);
        } else {
            let before = &mut slots[last as usize];
            if nanos_of(before.key) > nanos_of(key) {
                return false;
            }
            let next = std::mem::replace(&mut before.next, source.0);
            slots[source.0 as usize].next = next;
        }
        self.last[at] = source.0;
        if nanos_of(key) < nanos_of(self.first) {
            self.first = key;
        }
        true
    }

    /// Inserts `source` with `key`. Returns false when the event is more than one turn ahead.
    pub fn insert(&mut self, slots: &mut [SourceEntry], source: SourceId, key: EventKey) -> bool {
        slots[source.0 as usize].next = source.0;
        let bucket = nanos_of(key) >> self.shift;
        if bucket.wrapping_sub(self.base) >= BUCKETS as u64 {
            self.refused += 1;
            return false;
        }
        let last = self.last[index(bucket)];
        if last == NONE || slots[last as usize].key < key {
            self.insert_last(slots, source, key);
            self.first = self.first.min(key);
            return true;
        }
        self.insert_between(slots, self.last[index(bucket)], source, key);
        self.first = self.first.min(key);
        true
    }

    /// Inserts in front of the last source of a bucket.
    fn insert_between(&mut self, slots: &mut [SourceEntry], last: u32, source: SourceId, key: EventKey) {
        let mut before = last;
        loop {
            self.steps += 1;
            let next = slots[before as usize].next;
            if slots[next as usize].key > key {
                break;
            }
            before = next;
        }
        slots[source.0 as usize].next = slots[before as usize].next;
        slots[before as usize].next = source.0;
    }

    /// Removes the source with the smallest key.
    #[inline(always)]
    pub fn take_first(&mut self, slots: &mut [SourceEntry]) {
        let source = source_of(self.first).0;
        let at = index(nanos_of(self.first) >> self.shift);
        let next = slots[source as usize].next;
        if next == source {
            self.empty(at);
            self.first = self.find(slots, at);
        } else {
            let last = self.last[at];
            slots[last as usize].next = next;
            self.first = slots[next as usize].key;
        }
    }

    /// Removes a source, which must be present.
    pub fn remove(&mut self, slots: &mut [SourceEntry], source: SourceId) {
        let key = slots[source.0 as usize].key;
        if key == self.first {
            self.take_first(slots);
            return;
        }
        let at = index(nanos_of(key) >> self.shift);
        let next = slots[source.0 as usize].next;
        if next == source.0 {
            self.empty(at);
            return;
        }
        let mut before = self.last[at];
        while slots[before as usize].next != source.0 {
            before = slots[before as usize].next;
        }
        slots[before as usize].next = next;
        if self.last[at] == source.0 {
            self.last[at] = before;
        }
    }

    #[inline(always)]
    fn empty(&mut self, at: usize) {
        self.last[at] = NONE;
        let word = &mut self.words[at / 64];
        *word &= !(1 << (at % 64));
        if *word == 0 {
            self.summary &= !(1 << (at / 64));
        }
    }

    /// The smallest key in the buckets from `at` on, once around the wheel.
    #[inline(always)]
    fn find(&self, slots: &[SourceEntry], at: usize) -> EventKey {
        let here = self.words[at / 64] & (u64::MAX << (at % 64));
        let found = if here != 0 {
            at / 64 * 64 + here.trailing_zeros() as usize
        } else {
            let ahead = self.summary & ((u64::MAX << (at / 64)) << 1);
            let word = if ahead != 0 { ahead } else { self.summary }.trailing_zeros() as usize;
            if word >= WORDS {
                return IDLE;
            }
            word * 64 + self.words[word].trailing_zeros() as usize
        };
        let last = self.last[found % BUCKETS];
        slots[slots[last as usize].next as usize].key
    }

    /// Widens the buckets when rejections dominated, and narrows them when list steps dominated. Sources that do not
    /// fit the new turn are passed to `refuse`.
    #[cold]
    pub fn tune(&mut self, slots: &mut [SourceEntry], mut refuse: impl FnMut(SourceId, EventKey)) {
        let wider = self.refused * REFUSAL > self.steps;
        let shift = if wider { (self.shift + 1).min(WIDEST) } else { self.shift.saturating_sub(1) };
        (self.refused, self.steps) = (0, 0);
        if shift == self.shift {
            return;
        }
        let mut all: Vec<EventKey> = Vec::new();
        while self.first != IDLE {
            all.push(self.first);
            self.take_first(slots);
        }
        self.base = (self.base << self.shift) >> shift;
        self.shift = shift;
        for key in all {
            let source = source_of(key);
            if !self.insert(slots, source, key) {
                slots[source.0 as usize].place = Location::Tree;
                refuse(source, key);
            }
        }
    }
}
