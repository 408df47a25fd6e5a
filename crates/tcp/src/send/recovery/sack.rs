//! Selection of the segments that a recovery with SACK sends after the segments known to be lost.
//!
//! Source: RFC 6675 section 4, rules 3 and 4 of `NextSeg`, and section 5 step 4.3.

use crate::send::scoreboard::Scoreboard;
use crate::send::scoreboard::sent::RETX;

/// `HighRxt` and `RescueRxt`.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::send) struct NextSeg {
    high_rxt: u64,
    /// A rescue retransmission is allowed after this position is acknowledged.
    rescue: Option<u64>,
}

/// A segment to retransmit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::send) struct Retransmit {
    /// Its record in the scoreboard.
    pub index: usize,
    /// It is the rescue retransmission of this recovery.
    pub rescue: bool,
}

impl NextSeg {
    /// A recovery begins.
    pub fn begin(una: u64) -> NextSeg {
        NextSeg { high_rxt: una, rescue: None }
    }

    /// Everything up to `end` was retransmitted.
    #[inline]
    pub fn on_retransmit(&mut self, end: u64) {
        self.high_rxt = self.high_rxt.max(end);
    }

    /// The first retransmission of a recovery ends at `end`: no rescue before it is acknowledged.
    pub fn on_first_retransmit(&mut self, end: u64) {
        self.rescue = Some(end);
    }

    /// The rescue retransmission was sent. `HighRxt` keeps the value of `before`.
    pub fn on_rescue(&mut self, before: &NextSeg, recover: u64) {
        self.high_rxt = before.high_rxt;
        self.rescue = Some(recover);
    }

    /// Rule 3: a segment below the highest SACKed position that is not known to be lost. Rule 4: once in each recovery, the last segment
    /// that is not SACKed. Unlike in the RFC, rule 4 does not apply while a retransmission of that segment is in flight.
    pub fn next(&self, scoreboard: &mut Scoreboard, mss: u64) -> Option<Retransmit> {
        if let Some(index) = scoreboard.next_unsacked(self.high_rxt) {
            scoreboard.trim(index, mss);
            return Some(Retransmit { index, rescue: false });
        }
        if self.rescue.is_some_and(|at| scoreboard.una() <= at) {
            return None;
        }
        let last = scoreboard.last_unsacked()?;
        let index = scoreboard.trim_to_tail(last, mss);
        (!scoreboard.at(index).is(RETX)).then_some(Retransmit { index, rescue: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::scoreboard::testing::{acked, sacked, sent};

    #[test]
    fn unsacked_segments_below_the_highest_sacked_one_come_first_each_once() {
        let mut scoreboard = sent(6);
        sacked(&mut scoreboard, 3..4);
        let mut next = NextSeg::begin(1);
        next.on_first_retransmit(1001);
        for start in [1, 1001, 2001] {
            let found = next.next(&mut scoreboard, 1000).unwrap();
            let record = *scoreboard.at(found.index);
            assert_eq!((record.start, found.rescue), (start, false));
            next.on_retransmit(record.end());
        }
        assert_eq!(
            next.next(&mut scoreboard, 1000),
            None,
            "no rescue before the first segment is acknowledged"
        );
    }

    #[test]
    fn the_rescue_is_the_last_segment_once_a_recovery() {
        let mut scoreboard = sent(6);
        sacked(&mut scoreboard, 3..4);
        let mut next = NextSeg::begin(1);
        next.on_first_retransmit(1001);
        next.on_retransmit(3001);
        acked(&mut scoreboard, 2);
        let before = next;
        let found = next.next(&mut scoreboard, 1000).unwrap();
        assert_eq!((scoreboard.at(found.index).start, found.rescue), (5001, true));
        next.on_retransmit(6001);
        next.on_rescue(&before, 6001);
        assert_eq!(next.next(&mut scoreboard, 1000), None);
    }
}
