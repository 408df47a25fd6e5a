//! The event queue: a winner tree over sources, each of which has at most one pending wake-up.
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

/// No wake-up pending: later than every key.
const IDLE: u128 = u128::MAX;

/// The event queue. See the module.
#[derive(Clone, Debug)]
pub struct Scheduler {
    /// Of each source: time in the high half, insertion in the low half, or [`IDLE`]. Padded to a power of two.
    keys: Vec<u128>,
    /// `tree[1]` is the source that wakes first; `tree[i]` the better of `tree[2i]` and `tree[2i + 1]`; the leaves,
    /// from `keys.len()` on, are the sources in order.
    tree: Vec<u32>,
    used: u32,
    free: Vec<u32>,
    inserted: u64,
}

impl Default for Scheduler {
    fn default() -> Scheduler {
        Scheduler { keys: vec![IDLE], tree: vec![0, 0], used: 0, free: Vec::new(), inserted: 0 }
    }
}

impl Scheduler {
    /// A new source without a wake-up.
    pub fn add(&mut self) -> SourceId {
        if let Some(s) = self.free.pop() {
            return SourceId(s);
        }
        let s = self.used;
        self.used += 1;
        if self.used as usize > self.keys.len() {
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
        let old = self.keys[source.0 as usize];
        if time_of(old) == time && old != IDLE {
            return;
        }
        self.inserted += 1;
        self.keys[source.0 as usize] = u128::from(time.as_nanos()) << 64 | u128::from(self.inserted);
        self.fix(source.0);
    }

    /// Cancels the wake-up of `source`, if any.
    #[inline]
    pub fn clear(&mut self, source: SourceId) {
        if self.keys[source.0 as usize] != IDLE {
            self.keys[source.0 as usize] = IDLE;
            self.fix(source.0);
        }
    }

    /// When `source` will wake.
    pub fn pending(&self, source: SourceId) -> Option<Time> {
        let key = self.keys[source.0 as usize];
        (key != IDLE).then(|| time_of(key))
    }

    /// The first wake-up, which stays pending until it is set anew or cleared.
    #[inline]
    pub fn peek(&self) -> Option<(Time, SourceId)> {
        let first = self.tree[1];
        let key = self.keys[first as usize];
        (key != IDLE).then(|| (time_of(key), SourceId(first)))
    }

    /// Takes the first wake-up out.
    pub fn pop(&mut self) -> Option<(Time, SourceId)> {
        let first = self.peek()?;
        self.clear(first.1);
        Some(first)
    }

    /// Walks from the leaf of `source`, whose key changed, to the root or to where the winner is another, unchanged.
    #[inline]
    fn fix(&mut self, source: u32) {
        let (keys, tree) = (&self.keys[..], &mut self.tree[..]);
        let mut winner = source;
        let mut key = keys[source as usize];
        let mut at = keys.len() + source as usize;
        while at > 1 {
            let rival = tree[at ^ 1];
            let rival_key = keys[rival as usize];
            if rival_key < key {
                winner = rival;
                key = rival_key;
            }
            at >>= 1;
            if tree[at] == winner && winner != source {
                return;
            }
            tree[at] = winner;
        }
    }

    fn grow(&mut self) {
        let leaves = self.keys.len() * 2;
        self.keys.resize(leaves, IDLE);
        self.tree = vec![0; 2 * leaves];
        for (leaf, s) in self.tree[leaves..].iter_mut().zip(0..) {
            *leaf = s;
        }
        for at in (1..leaves).rev() {
            let (a, b) = (self.tree[2 * at], self.tree[2 * at + 1]);
            self.tree[at] = if self.keys[b as usize] < self.keys[a as usize] { b } else { a };
        }
    }
}

fn time_of(key: u128) -> Time {
    Time::from_nanos((key >> 64) as u64)
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
