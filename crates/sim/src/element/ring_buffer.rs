//! A ring buffer that starts empty and doubles its capacity; it holds the packets in flight on a link.

/// A first-in-first-out queue with access by distance from the first entry.
#[derive(Clone, Debug)]
pub(crate) struct RingBuffer<T> {
    /// The entries; their number is zero or a power of two.
    places: Vec<T>,
    head: u32,
    len: u32,
}

impl<T> Default for RingBuffer<T> {
    fn default() -> RingBuffer<T> {
        RingBuffer { places: Vec::new(), head: 0, len: 0 }
    }
}

impl<T: Copy> RingBuffer<T> {
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry `n` places behind the first. When there are not so many entries, the result is an arbitrary old
    /// entry.
    #[inline]
    pub fn get(&self, n: u32) -> &T {
        let mask = self.places.len().wrapping_sub(1);
        &self.places[self.head.wrapping_add(n) as usize & mask]
    }

    #[inline]
    pub fn front(&self) -> Option<&T> {
        (self.len > 0).then(|| self.get(0))
    }

    #[inline]
    pub fn push_back(&mut self, one: T) {
        if self.len as usize == self.places.len() {
            self.grow(one);
        }
        let mask = self.places.len().wrapping_sub(1);
        self.places[self.head.wrapping_add(self.len) as usize & mask] = one;
        self.len += 1;
    }

    /// Removes the first entry.
    #[inline]
    pub fn pop_front(&mut self) {
        self.len -= 1;
        self.head = self.head.wrapping_add(1);
    }

    /// Doubles the capacity; new entries are initialised with `filler`.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, filler: T) {
        let old = self.places.len();
        if old > 0 {
            self.places.rotate_left(self.head as usize & (old - 1));
        }
        self.head = 0;
        self.places.resize((2 * old).max(4), filler);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn it_agrees_with_a_deque(ops in prop::collection::vec(prop_oneof![3 => (0u8..).prop_map(Some), 2 => Just(None)], 0..200)) {
            let (mut ring, mut deque) = (RingBuffer::default(), VecDeque::new());
            for op in ops {
                if let Some(n) = op {
                    ring.push_back(n);
                    deque.push_back(n);
                } else if !ring.is_empty() {
                    ring.pop_front();
                    deque.pop_front();
                }
                let all: Vec<u8> = (0..ring.len()).map(|n| *ring.get(n)).collect();
                prop_assert_eq!(&deque, &all);
                prop_assert_eq!(ring.front(), deque.front());
            }
        }
    }
}
