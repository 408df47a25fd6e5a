//! The wake-ups of the first few sources, which are links: a dumbbell has no others that are busy, and looks through all of
//! them sooner than through anything else.

#![expect(clippy::inline_always, reason = "each stands in the run loop, once for each event")]

use super::key::{EventKey, IDLE, SourceId};

/// How many.
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

    /// Takes `source` in with `key`, when it is one of the few.
    #[inline(always)]
    pub fn insert(&mut self, source: SourceId, key: EventKey) -> bool {
        let Some(place) = self.keys.get_mut(source.0 as usize) else { return false };
        *place = key;
        if key < self.first {
            self.first = key;
        }
        true
    }

    /// Takes `source` out, which is in.
    #[inline(always)]
    pub fn remove(&mut self, source: SourceId) {
        let gone = source.0 as usize % FEW;
        self.keys[gone] = IDLE;
        // Its place is not read again at once: the processor would have to wait for it to be written.
        let key = |place: usize| if place == gone { IDLE } else { self.keys[place] };
        self.first = key(0).min(key(1)).min(key(2).min(key(3)));
    }
}
