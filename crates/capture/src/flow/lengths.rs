//! The lengths of packets that arrive, and of those that never do: a path drops packets above a length, and the sender does not learn it, or
//! does not act on it (RFC 2923 section 2.1, RFC 4821).

use serde::Serialize;

/// Packets that are remembered.
const MOST: usize = 16;
/// Transmissions of the same data after which their length may be the reason.
const ENOUGH: u32 = 3;

/// Data that never arrived although they were sent again and again, while shorter packets pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct BlackHole {
    /// The payload of the packets that were lost.
    pub length: u32,
    /// The largest payload that arrived; 0 if no data did.
    pub passed: u32,
    /// Transmissions of the first data that are missing.
    pub transmissions: u32,
    /// Shorter packets with the same data arrived later.
    pub over: bool,
}

/// A packet that is longer than those that arrived.
#[derive(Clone, Copy, Debug)]
struct Long {
    start: u64,
    end: u64,
    len: u32,
}

/// The lengths of a direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lengths {
    /// The largest payload that arrived.
    passed: u32,
    /// Packets that are longer, in order.
    waiting: Vec<Long>,
    /// Transmissions of the first data that are not acknowledged, all longer than what arrived.
    transmissions: u32,
    /// The payload of the last packet that is shorter than those that were lost.
    shorter: u32,
    /// The receiver has answered since it was sent again.
    answered: bool,
    found: Option<BlackHole>,
}

impl Lengths {
    /// A packet is sent; `una` is the first position that is not acknowledged.
    #[inline]
    pub fn sent(&mut self, start: u64, end: u64, una: u64) {
        let len = u32::try_from(end - start).unwrap_or(u32::MAX);
        if len > self.passed || !self.waiting.is_empty() {
            self.long(Long { start, end, len }, una);
        }
    }

    fn long(&mut self, one: Long, una: u64) {
        let is_first = one.start <= una && una < one.end;
        if one.len <= self.passed || self.found.is_some_and(|found| one.len < found.length) {
            // The data come in another form: what was longer has not arrived.
            self.waiting.retain(|long| long.end <= one.start || one.end <= long.start);
            self.shorter = one.len;
            if self.found.is_some() {
                return;
            }
        } else if self.waiting.iter().all(|long| long.end <= one.start) && self.waiting.len() < MOST {
            self.waiting.push(one);
        } else {
            self.waiting.retain(|long| long.len == one.len || long.end <= one.start || one.end <= long.start);
        }
        if is_first {
            let again = self.transmissions > 0 && one.len > self.passed;
            self.transmissions =
                if again { self.transmissions + 1 } else { u32::from(one.len > self.passed) };
            self.answered &= again;
            self.judge(one.len);
        }
    }

    fn judge(&mut self, length: u32) {
        if self.transmissions >= ENOUGH && self.answered {
            let (passed, transmissions) = (self.passed, self.transmissions);
            self.found = Some(BlackHole { length, passed, transmissions, over: false });
        }
    }

    /// The receiver answers. `ack` is above `una` if it acknowledges data.
    #[inline]
    pub fn answer(&mut self, ack: u64, una: u64) {
        if ack > una {
            if !self.waiting.is_empty() {
                self.arrived(0, ack);
            }
            if let Some(found) = self.found.as_mut().filter(|_| self.transmissions > 0) {
                (found.over, found.passed) = (true, found.passed.max(self.shorter));
            }
            self.transmissions = 0;
        } else if self.transmissions > 1 {
            self.answered = true;
            if let Some(first) = self.waiting.first() {
                self.judge(first.len);
            }
        }
    }

    /// The receiver has the positions from `start` to `end`.
    pub fn arrived(&mut self, start: u64, end: u64) {
        let passed = &mut self.passed;
        self.waiting.retain(|long| {
            let has = start <= long.start && long.end <= end;
            *passed = if has { (*passed).max(long.len) } else { *passed };
            !has
        });
        // A packet of this length arrived after all.
        let passed = self.passed;
        self.found = self.found.filter(|found| found.length > passed);
    }

    /// The black hole, if there is one.
    pub fn found(&self) -> Option<BlackHole> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 1448 bytes from position 1 on of which the first is sent `again` times, and answers in between.
    fn stuck(again: u32) -> Lengths {
        let mut lengths = Lengths::default();
        for n in 0..4 {
            lengths.sent(1 + 1448 * n, 1449 + 1448 * n, 1);
        }
        for _ in 0..again {
            lengths.sent(1, 1449, 1);
            lengths.answer(1, 1);
        }
        lengths
    }

    #[test]
    fn data_that_only_arrive_in_shorter_packets_fell_into_a_black_hole() {
        assert_eq!(stuck(1).found(), None);
        let hole = BlackHole { length: 1448, passed: 0, transmissions: 4, over: false };
        assert_eq!(stuck(3).found(), Some(hole));
        let mut mended = stuck(3);
        mended.sent(1, 513, 1);
        mended.answer(513, 1);
        assert_eq!(mended.found(), Some(BlackHole { passed: 512, over: true, ..hole }));
    }

    #[test]
    fn data_that_arrive_at_last_were_only_lost() {
        let mut lengths = stuck(3);
        lengths.answer(1449, 1);
        assert_eq!(lengths.found(), None);
        // SACK reports a packet of this length.
        let mut lengths = stuck(3);
        lengths.arrived(1449, 2897);
        assert_eq!(lengths.found(), None);
    }
}
