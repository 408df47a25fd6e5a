//! The incoming stream of a receiver of the model: what is kept of each segment (RFC 9293 section 3.10.7.4).

/// Data that have arrived.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// RCV.NXT, after the FIN once that is in order.
    pub nxt: u64,
    /// First position that the application has not read.
    pub read: u64,
    /// Ranges above `nxt`, sorted; no two touch.
    pub above: Vec<(u64, u64)>,
    /// Position of the FIN.
    pub fin: Option<u64>,
    /// There may have been two SACK blocks or more when data arrived out of order last. Linux's blocks may be parts of one range.
    pub crowded: bool,
    /// Arrivals out of order since nothing was.
    kept: u32,
}

impl Stream {
    pub fn new() -> Stream {
        Stream { nxt: 1, read: 1, above: Vec::new(), fin: None, crowded: false, kept: 0 }
    }

    /// Whether the FIN and everything before it have arrived.
    pub fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| fin < self.nxt)
    }

    /// Bytes that can be read.
    pub fn readable(&self) -> u64 {
        self.nxt - u64::from(self.is_finished()) - self.read
    }

    /// Keeps a range above `nxt`. Returns whether a part of it had arrived before.
    pub fn keep(&mut self, start: u64, end: u64) -> bool {
        self.kept = if self.above.is_empty() { 0 } else { self.kept };
        self.crowded = self.kept >= 2;
        self.kept += 1;
        let first = self.above.partition_point(|range| range.1 < start);
        let last = self.above.partition_point(|range| range.0 <= end);
        let repeats = self.above[first..last].iter().any(|range| range.0.max(start) < range.1.min(end));
        let whole = self.above[first..last]
            .iter()
            .fold((start, end), |whole, range| (whole.0.min(range.0), whole.1.max(range.1)));
        self.above.splice(first..last, [whole]);
        repeats
    }

    /// Everything up to `end` has arrived in order, and what follows it directly.
    pub fn advance(&mut self, end: u64) {
        self.nxt = end;
        while let Some(first) = self.above.first().copied().filter(|first| first.0 <= self.nxt) {
            self.nxt = self.nxt.max(first.1);
            self.above.remove(0);
        }
    }

    /// Nothing is kept from `from` on.
    pub fn cut(&mut self, from: u64) {
        self.above.retain_mut(|range| {
            range.1 = range.1.min(from);
            range.0 < range.1
        });
    }
}
