//! A winner tree over sources: the smallest key of all in one place, any key changed in a walk from its leaf upwards.
//!
//! The tree has four children to a node, which lie together in one cache line. A walk stops where the winner did not change.

use super::key::{EventKey, IDLE, SourceId};

/// Four neighbours of the tree: a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group([EventKey; 4]);

impl Group {
    #[inline]
    fn least(&self) -> EventKey {
        let [a, b, c, d] = self.0;
        a.min(b).min(c.min(d))
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct WinnerTree {
    /// The smallest of the top group.
    first: EventKey,
    /// Slot k of group g is the smallest of group `4g + k + 1`, down to the last level, whose slots are the sources.
    groups: Vec<Group>,
    /// The first group of the last level.
    leaves: usize,
}

impl Default for WinnerTree {
    fn default() -> WinnerTree {
        WinnerTree { first: IDLE, groups: vec![Group([IDLE; 4])], leaves: 0 }
    }
}

impl WinnerTree {
    /// Makes room for `sources` sources.
    pub fn reserve(&mut self, sources: usize) {
        while sources > 4 * (self.groups.len() - self.leaves) {
            self.grow();
        }
    }

    /// The smallest key.
    #[inline]
    pub fn first(&self) -> EventKey {
        self.first
    }

    /// Puts a key in its slot and walks towards the top until the smallest is what it was.
    #[inline(never)]
    pub fn put(&mut self, source: SourceId, key: EventKey) {
        let mut slot = source.0 as usize % 4;
        let mut group = self.leaves + source.0 as usize / 4;
        let mut least = key;
        loop {
            let at = &mut self.groups[group];
            at.0[slot] = least;
            least = at.least();
            if group == 0 {
                self.first = least;
                return;
            }
            (group, slot) = ((group - 1) / 4, (group - 1) % 4);
            if self.groups[group].0[slot] == least {
                return;
            }
        }
    }

    /// Adds a level.
    fn grow(&mut self) {
        let sources = self.groups.split_off(self.leaves);
        self.leaves = self.leaves * 4 + 1;
        self.groups = vec![Group([IDLE; 4]); self.leaves];
        self.groups.extend_from_slice(&sources);
        self.groups.resize(self.leaves * 4 + 1, Group([IDLE; 4]));
        for group in (1..self.groups.len()).rev() {
            self.groups[(group - 1) / 4].0[(group - 1) % 4] = self.groups[group].least();
        }
    }
}
