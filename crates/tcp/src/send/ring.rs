//! A queue of records in a ring whose size is a power of two: of the scoreboard, and of the send buffer.
//!
//! As `VecDeque`, but several entries are removed at the front in one step, and a place is found without a comparison.

use std::ops::{Index, IndexMut};

/// The queue. `T` is small and plain: places that hold nothing hold defaults.
#[derive(Clone, Debug)]
pub(in crate::send) struct Ring<T> {
    /// The number of places is a power of two.
    places: Vec<T>,
    /// Place of the first entry; it exists also if there is none.
    head: usize,
    len: usize,
}

impl<T: Copy + Default> Ring<T> {
    pub fn new() -> Ring<T> {
        Ring { places: vec![T::default(); 8], head: 0, len: 0 }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn place(&self, i: usize) -> usize {
        self.head.wrapping_add(i) & (self.places.len() - 1)
    }

    #[inline]
    pub fn get(&self, i: usize) -> Option<&T> {
        if i < self.len { self.places.get(self.place(i)) } else { None }
    }

    #[inline]
    pub fn front(&self) -> Option<&T> {
        if self.len == 0 { None } else { self.places.get(self.head) }
    }

    pub fn back(&self) -> Option<&T> {
        self.get(self.len.wrapping_sub(1))
    }

    pub fn back_mut(&mut self) -> Option<&mut T> {
        let last = self.len.checked_sub(1)?;
        Some(&mut self[last])
    }

    pub fn front_mut(&mut self) -> Option<&mut T> {
        if self.len == 0 { None } else { Some(&mut self[0]) }
    }

    #[inline]
    pub fn push_back(&mut self, entry: T) {
        if self.len == self.places.len() {
            self.grow();
        }
        let at = self.place(self.len);
        self.places[at] = entry;
        self.len += 1;
    }

    #[cold]
    fn grow(&mut self) {
        self.places.rotate_left(self.head);
        self.head = 0;
        self.places.resize(2 * self.places.len(), T::default());
    }

    /// Takes out the first entry.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let first = *self.front()?;
        self.drop_front(1);
        Some(first)
    }

    /// Drops the first `n` entries; there are at least `n`.
    #[inline]
    pub fn drop_front(&mut self, n: usize) {
        self.head = self.place(n);
        self.len -= n;
    }

    /// Puts `entry` before the one at `i`.
    pub fn insert(&mut self, i: usize, entry: T) {
        self.push_back(entry);
        for k in (i + 1..self.len).rev() {
            self[k] = self[k - 1];
        }
        self[i] = entry;
    }

    /// Takes out the entry at `i`.
    pub fn remove(&mut self, i: usize) -> T {
        let entry = self[i];
        for k in i + 1..self.len {
            self[k - 1] = self[k];
        }
        self.len -= 1;
        entry
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        (0..self.len).map(|i| &self[i])
    }

    /// Applies `change` to every entry.
    pub fn each(&mut self, mut change: impl FnMut(&mut T)) {
        for i in 0..self.len {
            change(&mut self[i]);
        }
    }

    /// The first index at which `before` no longer holds; it holds for all up to there and for none after.
    pub fn partition_point(&self, before: impl Fn(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = usize::midpoint(low, high);
            if before(&self[middle]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl<T: Copy + Default> Index<usize> for Ring<T> {
    type Output = T;

    #[inline]
    fn index(&self, i: usize) -> &T {
        self.get(i).expect("an entry of the queue")
    }
}

impl<T: Copy + Default> IndexMut<usize> for Ring<T> {
    #[inline]
    fn index_mut(&mut self, i: usize) -> &mut T {
        assert!(i < self.len, "an entry of the queue");
        let at = self.place(i);
        &mut self.places[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push(u32),
        Drop(usize),
        Insert(usize, u32),
        Remove(usize),
        Pop,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => any::<u32>().prop_map(Step::Push),
            1 => (0usize..6).prop_map(Step::Drop),
            1 => (0usize..40, any::<u32>()).prop_map(|(i, x)| Step::Insert(i, x)),
            1 => (0usize..40).prop_map(Step::Remove),
            1 => Just(Step::Pop),
        ]
    }

    proptest! {
        #[test]
        fn it_holds_what_a_deque_holds(steps in proptest::collection::vec(step(), 0..200)) {
            let (mut ring, mut deque) = (Ring::new(), VecDeque::new());
            for s in steps {
                match s {
                    Step::Push(x) => {
                        ring.push_back(x);
                        deque.push_back(x);
                    }
                    Step::Drop(n) => {
                        let n = n.min(deque.len());
                        ring.drop_front(n);
                        deque.drain(..n);
                    }
                    Step::Insert(i, x) => {
                        let i = i.min(deque.len());
                        ring.insert(i, x);
                        deque.insert(i, x);
                    }
                    Step::Remove(i) if i < deque.len() => {
                        prop_assert_eq!(Some(ring.remove(i)), deque.remove(i));
                    }
                    Step::Remove(_) => {}
                    Step::Pop => prop_assert_eq!(ring.pop_front(), deque.pop_front()),
                }
                prop_assert_eq!((ring.front(), ring.back()), (deque.front(), deque.back()));
                prop_assert_eq!(ring.back_mut(), deque.back_mut());
                prop_assert!(ring.iter().eq(deque.iter()));
            }
        }
    }

    #[test]
    fn a_partition_point_is_found_across_the_end_of_the_ring() {
        let mut ring = Ring::new();
        for x in 0..8 {
            ring.push_back(x);
        }
        ring.drop_front(5);
        for x in 8..12 {
            ring.push_back(x);
        }
        assert_eq!(ring.partition_point(|&x| x < 9), 4);
        assert_eq!(ring.partition_point(|&x| x < 100), 7);
    }
}
