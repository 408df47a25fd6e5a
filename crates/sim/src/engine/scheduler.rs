//! The event queue: a winner tree over sources, each of which has at most one pending wake-up.
//!
//! The tree has four children to a node, which lie together in one cache line.
//!
//! A link schedules only the head of its flight and a host only its earliest timer, so the tree holds as many
//! entries as the network has things that wait, not as many as it has packets. Re-arming a source is one walk from its
//! leaf towards the root, which stops where the winner did not change.
//!
//! The order is total: by time, then by insertion. It must not know what a source stands for.

use tcpassay_units::Time;

/// A place in the event queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceId(pub(crate) u32);

impl SourceId {
    /// Of what never waits.
    pub(crate) const NONE: SourceId = SourceId(u32::MAX);
}

/// A wake-up in one number, so that the tree is a minimum over numbers: the time above, then the insertion, then the
/// source. Insertions are unique, so the source never decides.
type Key = u128;

/// No wake-up pending: later than every other key.
const IDLE: Key = Key::MAX;
/// Bits of a key for the source: four million of them.
const SOURCE_BITS: u32 = 22;

/// Four neighbours of the tree: a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group([Key; 4]);

impl Group {
    #[inline]
    fn least(&self) -> Key {
        let [a, b, c, d] = self.0;
        a.min(b).min(c.min(d))
    }
}

/// The event queue. See the module.
#[derive(Clone, Debug)]
pub struct Scheduler {
    /// The smallest of the top group.
    first: Key,
    /// Slot k of group g is the smallest of group `4g + k + 1`, down to the last level, whose slots are the sources.
    groups: Vec<Group>,
    /// The first group of the last level.
    leaves: usize,
    used: u32,
    free: Vec<u32>,
    inserted: u64,
}

impl Default for Scheduler {
    fn default() -> Scheduler {
        Scheduler {
            first: IDLE,
            groups: vec![Group([IDLE; 4])],
            leaves: 0,
            used: 0,
            free: Vec::new(),
            inserted: 0,
        }
    }
}

impl Scheduler {
    /// A new source without a wake-up.
    pub fn add(&mut self) -> SourceId {
        if let Some(s) = self.free.pop() {
            return SourceId(s);
        }
        let s = self.used;
        assert!(s < 1 << SOURCE_BITS, "more than four million things that wait");
        self.used += 1;
        if self.used as usize > 4 * (self.groups.len() - self.leaves) {
            self.grow();
        }
        SourceId(s)
    }

    /// Gives the place of `source` back; its wake-up is cleared and its id will be used again.
    pub fn remove(&mut self, source: SourceId) {
        self.clear(source);
        self.free.push(source.0);
    }

    /// Sources added and not removed.
    pub fn len(&self) -> usize {
        self.used as usize - self.free.len()
    }

    /// Whether there is no source at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Wakes `source` at `time` instead of whatever was pending. Among wake-ups at one instant the one set first
    /// comes first; setting the time that is already pending keeps its place.
    #[inline]
    pub fn set(&mut self, source: SourceId, time: Time) {
        let old = self.key(source);
        if time_of(old) != time || old == IDLE {
            self.move_to(source, time);
        }
    }

    /// As [`Scheduler::set`] for a source that has no wake-up pending at `time`, which is for the caller to know.
    #[inline]
    pub(crate) fn move_to(&mut self, source: SourceId, time: Time) {
        // 2^42 insertions are two days at twenty million a second.
        self.inserted += 1;
        debug_assert!(self.inserted < 1 << (64 - SOURCE_BITS), "too many insertions");
        let low = self.inserted << SOURCE_BITS | u64::from(source.0);
        self.put(source, Key::from(time.as_nanos()) << 64 | Key::from(low));
    }

    /// Cancels the wake-up of `source`, if any.
    #[inline]
    pub fn clear(&mut self, source: SourceId) {
        self.put(source, IDLE);
    }

    /// When `source` will wake.
    pub fn pending(&self, source: SourceId) -> Option<Time> {
        let key = self.key(source);
        (key != IDLE).then(|| time_of(key))
    }

    /// The first wake-up, which stays pending until it is set anew or cleared.
    #[inline]
    pub fn peek(&self) -> Option<(Time, SourceId)> {
        let key = self.first;
        (key != IDLE).then(|| (time_of(key), source_of(key)))
    }

    /// Takes the first wake-up out.
    pub fn pop(&mut self) -> Option<(Time, SourceId)> {
        let first = self.peek()?;
        self.clear(first.1);
        Some(first)
    }

    #[inline]
    fn key(&self, source: SourceId) -> Key {
        let at = source.0 as usize;
        self.groups[self.leaves + at / 4].0[at % 4]
    }

    /// Puts a key in its slot and walks towards the top until the smallest is what it was.
    #[inline]
    fn put(&mut self, source: SourceId, key: Key) {
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

#[inline]
fn time_of(key: Key) -> Time {
    Time::from_nanos((key >> 64) as u64)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lowest bits are the source")]
fn source_of(key: Key) -> SourceId {
    SourceId(key as u32 & ((1 << SOURCE_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn t(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    #[test]
    fn wake_ups_at_one_instant_come_in_the_order_they_were_set() {
        let mut q = Scheduler::default();
        let s: Vec<SourceId> = (0..5).map(|_| q.add()).collect();
        for i in [3, 0, 4, 1, 2] {
            q.set(s[i], t(7));
        }
        let order: Vec<SourceId> = std::iter::from_fn(|| q.pop()).map(|(_, s)| s).collect();
        assert_eq!(order, [s[3], s[0], s[4], s[1], s[2]]);
    }

    #[test]
    fn setting_the_pending_time_again_keeps_the_place_in_the_order() {
        let mut q = Scheduler::default();
        let (a, b) = (q.add(), q.add());
        q.set(a, t(7));
        q.set(b, t(7));
        q.set(a, t(7));
        assert_eq!(q.pop(), Some((t(7), a)));
    }

    #[test]
    fn moving_a_wake_up_away_and_back_puts_it_last() {
        let mut q = Scheduler::default();
        let (a, b) = (q.add(), q.add());
        q.set(a, t(7));
        q.set(b, t(7));
        q.set(a, t(9));
        q.set(a, t(7));
        assert_eq!(q.pop(), Some((t(7), b)));
    }

    #[test]
    fn a_removed_source_never_wakes_and_its_place_is_used_again() {
        let mut q = Scheduler::default();
        let a = q.add();
        q.set(a, t(1));
        q.remove(a);
        assert_eq!((q.len(), q.pop()), (0, None));
        assert_eq!(q.add(), a);
        assert_eq!(q.pending(a), None);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Add,
        Set(usize, u64),
        Clear(usize),
        Pop,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            1 => Just(Op::Add),
            6 => (0usize..40, 0u64..12).prop_map(|(s, t)| Op::Set(s, t)),
            2 => (0usize..40).prop_map(Op::Clear),
            3 => Just(Op::Pop),
        ]
    }

    proptest! {
        /// The model: a list of (time, insertion, source), searched whole.
        #[test]
        fn the_tree_agrees_with_a_searched_list(ops in prop::collection::vec(op(), 1..300)) {
            let mut q = Scheduler::default();
            let mut list: Vec<(u64, u64, SourceId)> = Vec::new();
            let mut sources = vec![q.add()];
            for (n, op) in (0u64..).zip(ops) {
                match op {
                    Op::Add => sources.push(q.add()),
                    Op::Set(s, time) => {
                        let s = sources[s % sources.len()];
                        q.set(s, t(time));
                        if !list.iter().any(|e| e.2 == s && e.0 == time) {
                            list.retain(|e| e.2 != s);
                            list.push((time, n, s));
                        }
                    }
                    Op::Clear(s) => {
                        let s = sources[s % sources.len()];
                        q.clear(s);
                        list.retain(|e| e.2 != s);
                    }
                    Op::Pop => {
                        let first = list.iter().min().copied();
                        list.retain(|e| Some(*e) != first);
                        prop_assert_eq!(q.pop(), first.map(|(time, _, s)| (t(time), s)));
                    }
                }
                prop_assert_eq!(q.peek(), list.iter().min().map(|&(time, _, s)| (t(time), s)));
            }
        }
    }
}
