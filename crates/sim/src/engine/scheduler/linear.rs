//! A linear queue for the events of the sources with the smallest ids, which are links. In a dumbbell topology only
//! these are busy, and a linear search over them is faster than any other structure.

#![expect(clippy::inline_always, reason = "called in the run loop, once for each event")]

use super::key::{EventKey, IDLE, SourceId};

/// Number of sources in the linear queue.
const FEW: usize = 4;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct LinearQueue {
    first: EventKey,
    keys: [EventKey; FEW],
}

impl Default for LinearQueue {
    fn default() -> LinearQueue {
        LinearQueue { first: IDLE, keys: [IDLE; FEW] }
    }
}

impl LinearQueue {
    /// The smallest key.
    #[inline(always)]
    pub fn first(&self) -> EventKey {
        self.first
    }

    /// Inserts `source` with `key`. Returns false when the id of the source is too large for this queue.
    #[inline(always)]
    pub fn insert(&mut self, source: SourceId, key: EventKey) -> bool {
        let Some(place) = self.keys.get_mut(source.0 as usize) else { return false };
        *place = key;
        if key < self.first {
            self.first = key;
        }
        true
    }

    /// Removes `source`, which must be present.
    #[inline(always)]
    pub fn remove(&mut self, source: SourceId) {
        let gone = source.0 as usize % FEW;
        self.keys[gone] = IDLE;
        // The slot is not read again immediately, because the processor would have to wait for the preceding store.
        let key = |place: usize| if place == gone { IDLE } else { self.keys[place] };
        self.first = key(0).min(key(1)).min(key(2).min(key(3)));
    }
}
