//! A linear queue for the events of the sources with the smallest ids, which are links. In a dumbbell topology only
//! these are busy, and a linear search over them is faster than any other structure.

#![expect(clippy::inline_always, reason = "called in the run loop, once for each event")]

use super::key::{EventKey, IDLE, SourceId, nanos_of, source_of};

/// Number of sources in the linear queue.
const FEW: usize = 4;

/// See the module. The keys are in ascending order; [`IDLE`] fills the places behind them.
#[derive(Clone, Debug)]
pub(super) struct LinearQueue {
    keys: [EventKey; FEW],
}

impl Default for LinearQueue {
    fn default() -> LinearQueue {
        LinearQueue { keys: [IDLE; FEW] }
    }
}

impl LinearQueue {
    /// Whether `source` belongs into this queue: its id is small.
    #[inline(always)]
    pub fn holds(source: SourceId) -> bool {
        (source.0 as usize) < FEW
    }

    /// The smallest key.
    #[inline(always)]
    pub fn first(&self) -> EventKey {
        self.keys[0]
    }

    /// Inserts `key`, whose source is not present, behind all keys of its time.
    #[inline(always)]
    pub fn insert_last(&mut self, key: EventKey) {
        let ns = nanos_of(key);
        let [a, b, c, _] = self.keys;
        self.keys = if nanos_of(a) > ns {
            [key, a, b, c]
        } else if nanos_of(b) > ns {
            [a, key, b, c]
        } else if nanos_of(c) > ns {
            [a, b, key, c]
        } else {
            [a, b, c, key]
        };
    }

    /// Inserts `key`, whose source is not present.
    pub fn insert(&mut self, key: EventKey) {
        self.keys[FEW - 1] = key;
        self.keys.sort_unstable();
    }

    /// Removes the smallest key.
    #[inline(always)]
    pub fn take_first(&mut self) {
        let [_, b, c, d] = self.keys;
        self.keys = [b, c, d, IDLE];
    }

    /// Removes `source`, which must be present.
    pub fn remove(&mut self, source: SourceId) {
        let place = self.keys.iter_mut().find(|key| **key != IDLE && source_of(**key) == source);
        *place.expect("a source of this queue") = IDLE;
        self.keys.sort_unstable();
    }
}
