//! Samples of the round-trip time, computed from packets as the sender of Linux computes them.
//!
//! Source: `tcp_clean_rtx_queue` and `tcp_ack_update_rtt` of Linux; the model has the same rules. The sample of an ACK is the time since the
//! transmission of the oldest segment that it newly acknowledges, unless any of these segments was retransmitted (Karn's
//! algorithm). Otherwise it is the time since the transmission of the oldest segment that the ACK is the first to SACK. Otherwise it
//! comes from the echoed timestamp, in milliseconds.

use std::collections::VecDeque;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Timestamps;

/// A range of bytes that was sent at once, and is acknowledged as a whole.
#[derive(Clone, Copy, Debug)]
struct SentRange {
    begin: u64,
    end: u64,
    at: Time,
    retransmitted: bool,
    sacked: bool,
}

/// The unacknowledged ranges of a flow, in the order of positions.
#[derive(Debug, Default)]
pub struct RttSampler {
    ranges: VecDeque<SentRange>,
    acked: u64,
    /// The timestamp of the last segment sent, and the time of that segment.
    clock: Option<(u32, Time)>,
}

impl RttSampler {
    /// Adds a segment. `retransmitted`: any of its bytes was sent before.
    pub fn on_sent(
        &mut self,
        at: Time,
        (begin, end): (u64, u64),
        retransmitted: bool,
        stamp: Option<Timestamps>,
    ) {
        self.clock = stamp.map(|s| (s.val, at)).or(self.clock);
        if retransmitted {
            self.cut(begin);
            self.cut(end);
            self.within(begin, end).for_each(|p| p.retransmitted = true);
        }
        let begin = self.ranges.back().map_or(begin, |last| begin.max(last.end));
        if begin < end {
            self.ranges.push_back(SentRange { begin, end, at, retransmitted, sacked: false });
        }
    }

    /// Processes an ACK up to `acked` with its SACK blocks and its timestamp echo. Returns its sample.
    pub fn on_ack(&mut self, at: Time, acked: u64, sacks: &[(u64, u64)], echo: Option<u32>) -> Option<Dur> {
        let advanced = acked > self.acked;
        let (mut oldest, mut retransmitted) = (None, false);
        if advanced {
            self.acked = acked;
            self.cut(acked);
            while let Some(p) = self.ranges.front().filter(|p| p.end <= acked).copied() {
                retransmitted |= p.retransmitted;
                if !p.retransmitted && !p.sacked {
                    oldest = oldest.or(Some(p.at));
                }
                self.ranges.pop_front();
            }
        }
        let mut sacked = None;
        for &(begin, end) in sacks.iter().filter(|(begin, end)| *begin >= acked && begin < end) {
            self.cut(begin);
            self.cut(end);
            for p in self.within(begin, end).filter(|p| !p.sacked) {
                p.sacked = true;
                if !p.retransmitted {
                    sacked = Some(sacked.map_or(p.at, |at: Time| at.min(p.at)));
                }
            }
        }
        let by_position = oldest.filter(|_| !retransmitted).or(sacked).map(|sent| at.since(sent));
        by_position.or_else(|| if advanced { self.by_echo(at, echo?) } else { None })
    }

    /// The sample from an echoed timestamp: at least one tick of 1 ms.
    fn by_echo(&self, at: Time, echo: u32) -> Option<Dur> {
        let (stamp, then) = self.clock?;
        let ms = |t: Time| t.as_nanos() / 1_000_000;
        let since = u32::try_from(ms(at) - ms(then)).ok()?;
        let ticks = stamp.wrapping_add(since).wrapping_sub(echo);
        (ticks < 1 << 31).then(|| Dur::from_millis(u64::from(ticks.max(1))))
    }

    /// The ranges between two positions.
    fn within(&mut self, begin: u64, end: u64) -> impl Iterator<Item = &mut SentRange> {
        let from = self.ranges.partition_point(|p| p.end <= begin);
        self.ranges.range_mut(from..).take_while(move |p| p.begin < end)
    }

    /// Splits the range that contains the position `at`.
    fn cut(&mut self, at: u64) {
        let i = self.ranges.partition_point(|p| p.end <= at);
        if let Some(p) = self.ranges.get_mut(i).filter(|p| p.begin < at) {
            let front = SentRange { end: at, ..*p };
            p.begin = at;
            self.ranges.insert(i, front);
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
        let mut sampler = RttSampler::default();
        for i in 0..n {
            let begin = u64::from(i) * 10;
            let stamp = Timestamps { val: 1001 + i, ecr: 0 };
            sampler.on_sent(ms(u64::from(i) + 1), (begin, begin + 10), false, Some(stamp));
        }
        sampler
    }

    #[test]
    fn an_ack_of_two_segments_gives_a_sample_of_the_older() {
        assert_eq!(sent(4).on_ack(ms(12), 20, &[], None), Some(Dur::from_millis(11)));
    }

    #[test]
    fn an_ack_of_a_part_of_a_super_segment_gives_a_sample_and_an_ack_of_the_rest_another() {
        let mut sampler = sent(1);
        assert_eq!(sampler.on_ack(ms(11), 5, &[], None), Some(Dur::from_millis(10)));
        assert_eq!(sampler.on_ack(ms(12), 10, &[], None), Some(Dur::from_millis(11)));
    }

    #[test]
    fn a_sacked_segment_gives_one_sample_and_none_when_the_hole_is_filled() {
        let mut sampler = sent(4);
        assert_eq!(sampler.on_ack(ms(12), 0, &[(10, 20)], None), Some(Dur::from_millis(10)));
        assert_eq!(sampler.on_ack(ms(13), 0, &[(10, 30)], None), Some(Dur::from_millis(10)));
        assert_eq!(sampler.on_ack(ms(14), 0, &[(10, 30)], None), None);
        sampler.on_sent(ms(14), (0, 10), true, Some(Timestamps { val: 1014, ecr: 0 }));
        // The echo is of the second transmission; data that were SACKed before give no sample.
        assert_eq!(sampler.on_ack(ms(24), 30, &[], Some(1014)), Some(Dur::from_millis(10)));
        assert_eq!(sampler.on_ack(ms(25), 40, &[], None), Some(Dur::from_millis(21)));
    }

    #[test]
    fn a_dsack_of_acknowledged_data_gives_no_sample() {
        let mut sampler = sent(4);
        sampler.on_ack(ms(12), 20, &[], None);
        assert_eq!(sampler.on_ack(ms(13), 20, &[(0, 10)], Some(1003)), None);
    }
}
