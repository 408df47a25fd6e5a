//! The window that the peer offers.

/// The window in force, and the largest that was ever offered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerWindow {
    size: u64,
    largest: u64,
}

impl PeerWindow {
    /// The first window, of `size` bytes.
    pub fn new(size: u64) -> PeerWindow {
        PeerWindow { size, largest: size }
    }

    /// Bytes from the first unacknowledged position on.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The largest window so far.
    #[inline]
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// An ACK offers `size` bytes. Returns the largest window before if this one is larger.
    #[inline]
    pub fn update(&mut self, size: u64) -> Option<u64> {
        self.size = size;
        (size > self.largest).then(|| std::mem::replace(&mut self.largest, size))
    }

    /// Position after the last one that the window allows.
    #[inline]
    pub fn edge(&self, una: u64) -> u64 {
        una + self.size
    }

    /// Bytes that the window still allows when `nxt` is the next new position.
    #[inline]
    pub fn room(&self, una: u64, nxt: u64) -> u64 {
        (una + self.size).saturating_sub(nxt)
    }

    /// Half of the largest window, or all of it while it is at most the default MSS (`tcp_bound_to_half_wnd`).
    pub fn half_of_largest(&self) -> u64 {
        if self.largest > 536 { self.largest / 2 } else { self.largest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_the_window_minus_the_data_sent() {
        let window = PeerWindow::new(4000);
        assert_eq!(window.edge(1001), 5001);
        assert_eq!(window.room(1001, 3001), 2000);
        assert_eq!(window.room(1001, 9001), 0, "the peer shrank its window");
    }

    #[test]
    fn the_largest_window_stays_when_the_window_shrinks() {
        let mut window = PeerWindow::new(4000);
        assert_eq!(window.update(1000), None);
        assert_eq!((window.size(), window.largest()), (1000, 4000));
        assert_eq!(window.update(8000), Some(4000));
        assert_eq!(window.half_of_largest(), 4000);
        assert_eq!(PeerWindow::new(536).half_of_largest(), 536);
    }
}
