//! Loss marks: which records are lost, which are to be retransmitted, and in which order.
//!
//! Sources: RFC 6675 section 4 (`IsLost`, `NextSeg`), RFC 8985 section 6.2 step 5.

use super::Scoreboard;
use super::sent::{EVER, FIN, JUDGED, LOST, RETX, SACKED, Sent};
use tcpassay_units::Time;

/// The result of a RACK scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::send) struct RackScan {
    /// Bytes newly marked lost.
    pub lost: u64,
    /// Span of them.
    pub first: u64,
    /// Position after the last of them.
    pub last: u64,
    /// When the last of those that may still be reordered becomes lost.
    pub wait: Option<Time>,
}

impl Scoreboard {
    /// RFC 6675 `IsLost`: the position below which every unSACKed byte has `threshold` discontiguous SACKed runs
    /// above it, or more than (`threshold` - 1) x `mss` SACKed bytes. Walks from the highest SACKed record down, about
    /// `threshold` records.
    pub fn lost_below(&self, threshold: u32, mss: u64) -> u64 {
        if self.sacked == 0 {
            return self.una;
        }
        let enough = u64::from(threshold.saturating_sub(1)) * mss;
        let (mut bytes, mut runs, mut in_run) = (0, 0, false);
        let top = self.find(self.high_sacked - 1).min(self.q.len() - 1);
        for i in (0..=top).rev() {
            let s = &self.q[i];
            if s.is(SACKED) {
                bytes += u64::from(s.len);
                runs += u32::from(!in_run);
                in_run = true;
                if bytes > enough || runs >= threshold {
                    return s.start;
                }
            } else {
                in_run = false;
            }
        }
        self.una
    }

    /// Whether at least `count` segments are SACKed (RFC 8985 `RACK.segs_sacked`), however small they are. The records are counted only
    /// if the number of bytes does not decide it.
    pub fn holds_sacked_segments(&self, count: u64, mss: u64) -> bool {
        if self.sacked >= count * mss || self.sacked < count {
            return self.sacked >= count * mss;
        }
        let (mut segments, mut bytes) = (0, 0);
        let top = self.find(self.high_sacked - 1).min(self.q.len() - 1);
        for s in (0..=top).rev().map(|i| &self.q[i]).filter(|s| s.is(SACKED)) {
            segments += u64::from(s.len).div_ceil(mss);
            bytes += u64::from(s.len);
            if segments >= count || bytes >= self.sacked {
                break;
            }
        }
        segments >= count
    }

    /// Marks everything unSACKed below `pos` lost, once. Returns the bytes newly marked.
    pub fn mark_below(&mut self, pos: u64) -> u64 {
        let mut marked = 0;
        let mut i = self.find(self.mark_hint);
        while i < self.q.len() && self.q[i].start < pos {
            if self.q[i].flags & (SACKED | LOST) == 0 {
                marked += self.mark(i);
            }
            i += 1;
        }
        self.mark_hint = self.mark_hint.max(pos);
        marked
    }

    /// Marks the first `mss` bytes lost unless they are. Returns the bytes newly marked.
    pub fn mark_front(&mut self, mss: u64) -> u64 {
        let Some(front) = self.q.front() else { return 0 };
        if front.flags & (SACKED | LOST) != 0 {
            return 0;
        }
        if u64::from(front.len) > mss {
            self.split(0, self.una + mss);
        }
        self.mark(0)
    }

    /// Marks the last `mss` bytes lost, and a FIN in the same record; a FIN alone is skipped. Returns the positions newly
    /// marked.
    pub fn mark_tail(&mut self, mss: u64) -> u64 {
        let alone = |s: &Sent| s.is(FIN) && s.len == 1;
        let Some(last) = (0..self.q.len()).rev().find(|&i| !alone(&self.q[i])) else { return 0 };
        if self.q[last].flags & (SACKED | LOST) != 0 {
            return 0;
        }
        let most = mss + u64::from(self.q[last].is(FIN));
        let last = self.trim_to_tail(last, most);
        self.mark(last)
    }

    /// Marks record `i` lost, again when its retransmission was in flight.
    fn mark(&mut self, i: usize) -> u64 {
        let keeps = self.keeps_retransmission;
        let s = &mut self.q[i];
        if keeps && s.flags & (LOST | RETX | SACKED) == RETX {
            s.flags |= LOST;
            self.lost += u64::from(s.len);
            return u64::from(s.len);
        }
        self.mark_again(i)
    }

    /// Marks record `i` lost, whether its retransmission is in flight or not.
    fn mark_again(&mut self, i: usize) -> u64 {
        let s = &mut self.q[i];
        debug_assert!(!s.is(SACKED) && (!s.is(LOST) || s.is(RETX)));
        let n = u64::from(s.len);
        if !s.is(LOST) {
            self.lost += n;
        }
        if s.is(RETX) {
            self.retx -= n;
        }
        self.pending += n;
        s.flags = (s.flags | LOST) & !RETX;
        self.retx_hint = self.retx_hint.min(s.start);
        n
    }

    /// Marks every unSACKed record for which `is_lost` holds (a retransmission timeout, which sends the first again in any case).
    /// Returns the bytes newly marked.
    pub fn mark_where(&mut self, is_lost: impl Fn(&Sent) -> bool) -> u64 {
        let mut marked = 0;
        for i in 0..self.q.len() {
            let s = &self.q[i];
            if !s.is(SACKED) && (!s.is(LOST) || s.is(RETX)) && is_lost(s) {
                marked += if i == 0 { self.mark_again(i) } else { self.mark(i) };
            }
        }
        marked
    }

    /// Removes all loss marks: the recovery was spurious.
    pub fn unmark(&mut self) {
        self.q.each(|s| s.flags &= !LOST);
        self.lost = 0;
        self.pending = 0;
        self.mark_hint = self.una;
        self.rack_hint = self.una;
        self.retx_hint = self.nxt;
        let mut resent: Vec<_> = self
            .q
            .iter()
            .filter(|s| s.flags & (EVER | SACKED) == EVER)
            .map(|s| (s.sent_at, s.start, s.end()))
            .collect();
        resent.sort_unstable();
        self.resent = resent.into();
    }

    /// Whether nothing was sent before (`xmit`, `end`) that is still in flight or to be resent: RACK has nothing to do.
    pub fn none_before(&self, xmit: Time, end: u64) -> bool {
        self.resent.is_empty() && self.q.front().is_none_or(|s| (s.sent_at, s.end()) >= (xmit, end))
    }

    /// The first record that is lost and not in flight again.
    pub fn next_lost(&mut self) -> Option<usize> {
        if self.pending == 0 {
            return None;
        }
        let mut i = self.find(self.retx_hint);
        while self.q[i].flags & (LOST | RETX) != LOST {
            i += 1;
        }
        self.retx_hint = self.q[i].start;
        Some(i)
    }

    /// RFC 6675 section 4 `NextSeg` rule 3: the first record that is neither SACKed nor retransmitted, below the
    /// highest SACKed one.
    pub fn next_unsacked(&self, above: u64) -> Option<usize> {
        let first = self.find(above);
        (first..self.q.len())
            .take_while(|&i| self.q[i].start < self.high_sacked)
            .find(|&i| self.q[i].flags & (SACKED | LOST | RETX) == 0)
    }

    /// The last record.
    pub fn last(&self) -> Option<usize> {
        self.q.len().checked_sub(1)
    }

    /// The last record, if it is not SACKed (a rescue retransmission or a loss probe); walks down over SACKed ones.
    pub fn last_unsacked(&self) -> Option<usize> {
        (0..self.q.len()).rev().find(|&i| !self.q[i].is(SACKED))
    }

    /// RFC 8985 section 6.2 step 5: marks what was sent before (`xmit`, `end`) if its `deadline` has passed. Returns
    /// what it marked and, over the rest of what was sent before, the latest deadline.
    pub fn rack_scan(
        &mut self,
        xmit: Time,
        end: u64,
        now: Time,
        deadline: impl Fn(Time) -> Time,
    ) -> RackScan {
        let mut scan = RackScan::default();
        let sent_before = |s: &Sent| (s.sent_at, s.end()) < (xmit, end);
        // Original transmissions lie in order of time.
        let mut i = self.find(self.rack_hint);
        let mut contiguous = true;
        while i < self.q.len() {
            let s = self.q[i];
            if s.flags & (SACKED | LOST | EVER | JUDGED) == 0 {
                if !sent_before(&s) {
                    break;
                }
                contiguous &= self.rack_judge(i, now, &deadline, &mut scan);
            }
            if contiguous {
                self.rack_hint = s.end();
            }
            i += 1;
        }
        // Retransmissions have an order of their own.
        let mut k = 0;
        while let Some(&(at, start, stop)) = self.resent.get(k) {
            // A retransmission at the present time is newer than all delivered segments.
            if at > xmit || at >= now {
                break;
            }
            let mut alive = false;
            let mut j = self.find(start);
            while j < self.q.len() && self.q[j].start < stop {
                let s = self.q[j];
                if s.sent_at == at
                    && s.start >= start
                    && s.flags & (SACKED | JUDGED) == 0
                    && (!s.is(LOST) || s.is(RETX))
                {
                    if sent_before(&s) {
                        alive |= !self.rack_judge(j, now, &deadline, &mut scan);
                    } else {
                        alive = true;
                    }
                }
                j += 1;
            }
            if alive {
                k += 1;
            } else if k == 0 {
                self.resent.pop_front();
            } else {
                self.resent.remove(k);
            }
        }
        scan
    }

    /// Marks record `i` when its deadline passed; otherwise notes the deadline. Returns whether it was marked.
    fn rack_judge(
        &mut self,
        i: usize,
        now: Time,
        deadline: &impl Fn(Time) -> Time,
        scan: &mut RackScan,
    ) -> bool {
        let s = self.q[i];
        let at = deadline(s.sent_at);
        if at > now {
            scan.wait = Some(scan.wait.map_or(at, |w| w.max(at)));
            return false;
        }
        // Retransmissions are visited in the order of their transmission, which need not be that of their positions.
        let first = scan.lost == 0;
        scan.first = if first { s.start } else { scan.first.min(s.start) };
        scan.last = scan.last.max(s.end());
        scan.lost += self.mark(i);
        if self.keeps_retransmission {
            self.q[i].flags |= JUDGED;
        }
        true
    }
}
