//! Round-trip times as the sender's estimator takes them, from the packets at its interface.
//!
//! Source: `tcp_clean_rtx_queue` and `tcp_ack_update_rtt` of Linux, which are what the model's samples follow, too, so that both
//! recordings mean the same: from the first transmission of the oldest segment that an ACK covers, unless anything that it
//! covers was sent twice (Karn); else of the oldest that it is the first to SACK; else by the echoed timestamp, in its
//! milliseconds.

use std::collections::VecDeque;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Timestamps;

/// What was sent together and has one fate.
#[derive(Clone, Copy, Debug)]
struct SentRange {
    begin: u64,
    end: u64,
    at: Time,
    again: bool,
    sacked: bool,
}

/// What is not acknowledged, by position.
#[derive(Debug, Default)]
pub struct RttSampler {
    pieces: VecDeque<SentRange>,
    acked: u64,
    /// The timestamp of the last segment sent, and when that was.
    clock: Option<(u32, Time)>,
}

impl RttSampler {
    /// A segment left; `again` when any of it had left before.
    pub fn sent(&mut self, at: Time, (begin, end): (u64, u64), again: bool, stamp: Option<Timestamps>) {
        self.clock = stamp.map(|s| (s.val, at)).or(self.clock);
        if again {
            self.cut(begin);
            self.cut(end);
            self.within(begin, end).for_each(|p| p.again = true);
        }
        let begin = self.pieces.back().map_or(begin, |last| begin.max(last.end));
        if begin < end {
            self.pieces.push_back(SentRange { begin, end, at, again, sacked: false });
        }
    }

    /// An ACK up to `acked`, with these SACK blocks and this echo, arrived: its sample.
    pub fn heard(&mut self, at: Time, acked: u64, sacks: &[(u64, u64)], echo: Option<u32>) -> Option<Dur> {
        let advanced = acked > self.acked;
        let (mut oldest, mut again) = (None, false);
        if advanced {
            self.acked = acked;
            self.cut(acked);
            while let Some(p) = self.pieces.front().filter(|p| p.end <= acked).copied() {
                again |= p.again;
                if !p.again && !p.sacked {
                    oldest = oldest.or(Some(p.at));
                }
                self.pieces.pop_front();
            }
        }
        let mut sacked = None;
        for &(begin, end) in sacks.iter().filter(|(begin, end)| *begin >= acked && begin < end) {
            self.cut(begin);
            self.cut(end);
            for p in self.within(begin, end).filter(|p| !p.sacked) {
                p.sacked = true;
                if !p.again {
                    sacked = Some(sacked.map_or(p.at, |at: Time| at.min(p.at)));
                }
            }
        }
        let by_position = oldest.filter(|_| !again).or(sacked).map(|sent| at.since(sent));
        by_position.or_else(|| if advanced { self.by_echo(at, echo?) } else { None })
    }

    /// At least one tick.
    fn by_echo(&self, at: Time, echo: u32) -> Option<Dur> {
        let (stamp, then) = self.clock?;
        let ms = |t: Time| t.as_nanos() / 1_000_000;
        let since = u32::try_from(ms(at) - ms(then)).ok()?;
        let ticks = stamp.wrapping_add(since).wrapping_sub(echo);
        (ticks < 1 << 31).then(|| Dur::from_millis(u64::from(ticks.max(1))))
    }

    fn within(&mut self, begin: u64, end: u64) -> impl Iterator<Item = &mut SentRange> {
        let from = self.pieces.partition_point(|p| p.end <= begin);
        self.pieces.range_mut(from..).take_while(move |p| p.begin < end)
    }

    /// Makes `at` the border of a piece.
    fn cut(&mut self, at: u64) {
        let i = self.pieces.partition_point(|p| p.end <= at);
        if let Some(p) = self.pieces.get_mut(i).filter(|p| p.begin < at) {
            let front = SentRange { end: at, ..*p };
            p.begin = at;
            self.pieces.insert(i, front);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    /// Segments of 10 at 1, 2, 3, ... ms with a clock of timestamps that began at 1000.
    fn sent(n: u32) -> RttSampler {
        let mut board = RttSampler::default();
        for i in 0..n {
            let begin = u64::from(i) * 10;
            let stamp = Timestamps { val: 1001 + i, ecr: 0 };
            board.sent(ms(u64::from(i) + 1), (begin, begin + 10), false, Some(stamp));
        }
        board
    }

    #[test]
    fn an_ack_of_two_segments_measures_the_older() {
        assert_eq!(sent(4).heard(ms(12), 20, &[], None), Some(Dur::from_millis(11)));
    }

    #[test]
    fn a_part_of_a_super_segment_measures_and_the_rest_measures_again() {
        let mut board = sent(1);
        assert_eq!(board.heard(ms(11), 5, &[], None), Some(Dur::from_millis(10)));
        assert_eq!(board.heard(ms(12), 10, &[], None), Some(Dur::from_millis(11)));
    }

    #[test]
    fn what_is_sacked_measures_once_and_not_when_the_hole_is_filled() {
        let mut board = sent(4);
        assert_eq!(board.heard(ms(12), 0, &[(10, 20)], None), Some(Dur::from_millis(10)));
        assert_eq!(board.heard(ms(13), 0, &[(10, 30)], None), Some(Dur::from_millis(10)));
        assert_eq!(board.heard(ms(14), 0, &[(10, 30)], None), None);
        board.sent(ms(14), (0, 10), true, Some(Timestamps { val: 1014, ecr: 0 }));
        // The echo is of the second transmission; what was SACKed long ago says nothing.
        assert_eq!(board.heard(ms(24), 30, &[], Some(1014)), Some(Dur::from_millis(10)));
        assert_eq!(board.heard(ms(25), 40, &[], None), Some(Dur::from_millis(21)));
    }

    #[test]
    fn a_duplicate_report_of_what_was_acknowledged_measures_nothing() {
        let mut board = sent(4);
        board.heard(ms(12), 20, &[], None);
        assert_eq!(board.heard(ms(13), 20, &[(0, 10)], Some(1003)), None);
    }
}
