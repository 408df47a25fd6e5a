//! A winner tree (tournament tree) over sources: the root holds the smallest key, and a changed key is propagated
//! from its leaf upwards.
//!
//! Each node has four children, which share a cache line. The propagation stops where the winner did not change.

use super::key::{EventKey, IDLE, SourceId};

/// Four siblings of the tree, which occupy one cache line.
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
    /// The smallest key of the root group.
    first: EventKey,
    /// Entry k of group g is the smallest key of group `4g + k + 1`; in the last level the entries are the sources.
    groups: Vec<Group>,
    /// Index of the first group of the last level.
    leaves: usize,
}

impl Default for WinnerTree {
    fn default() -> WinnerTree {
        WinnerTree { first: IDLE, groups: vec![Group([IDLE; 4])], leaves: 0 }
    }
}

impl WinnerTree {
    /// Allocates entries for `sources` sources.
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

    /// Stores the key of a source and propagates it towards the root.
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
