//! Super-segments: their parts, which become records of their own when the parts differ, and their union when they are sent again.

use super::Scoreboard;
use super::sent::{EVER, FIN, LOST, PART, PUSH, RETX, SACKED};

impl Scoreboard {
    /// Cuts record `index` so that it holds at most `max` positions from its start.
    pub fn trim(&mut self, index: usize, max: u64) {
        let s = &self.q[index];
        if u64::from(s.len) > max {
            let pos = s.start + max;
            self.split(index, pos);
        }
    }

    /// Cuts record `index` so that it holds at most `max` positions up to its end. Returns the index of that part.
    pub fn trim_to_tail(&mut self, index: usize, max: u64) -> usize {
        let s = &self.q[index];
        if u64::from(s.len) <= max {
            return index;
        }
        let pos = s.end() - max;
        self.split(index, pos);
        index + 1
    }

    /// Cuts the last segment off a record, as the interface cuts a super-segment of segments of `unit` bytes. The result is not longer than
    /// `mss`, which options may have made shorter than `unit`. Returns its index.
    pub fn last_segment(&mut self, index: usize, unit: u64, mss: u64) -> usize {
        let s = self.q[index];
        let before = (s.payload().max(1) - 1) / unit;
        if before > 0 {
            self.split(index, s.start + before * mss);
        }
        let last = index + usize::from(before > 0);
        if self.q[last].payload() > mss {
            self.trim(last, mss);
        }
        last
    }

    /// Appends the records behind record `index` to it, as long as the whole has at most `room` bytes of data and ends at `edge` at the
    /// latest. SACKed records and those behind an end for which `ends` holds stay (`tcp_retrans_try_collapse`).
    pub fn collapse(&mut self, index: usize, room: u64, edge: u64, mut ends: impl FnMut(u64) -> bool) {
        let (mut all, mut end) = (self.q[index].payload(), self.q[index].end());
        while let Some(&next) = self.q.get(index + 1) {
            all += next.payload();
            if next.is(SACKED) || all > room || next.end() > edge || ends(end) {
                break;
            }
            end = next.end();
            self.append_next(index);
        }
    }

    /// Appends the record behind record `index` to it. The marks of record `index` hold for both.
    fn append_next(&mut self, index: usize) {
        self.leave_buffer(index + 1);
        let next = self.q.remove(index + 1);
        self.forget(&next);
        let to = &mut self.q[index];
        let n = u64::from(next.len);
        to.len += next.len;
        to.flags |= next.flags & (FIN | PUSH | EVER);
        if to.is(SACKED) {
            // No other mark of it counts. The probe sends the last segment again even if it is SACKed.
            self.sacked += n;
            return;
        }
        if to.is(LOST) {
            self.lost += n;
            self.pending += if to.is(RETX) { 0 } else { n };
        }
        self.retx += if to.is(RETX) { n } else { 0 };
    }

    /// Whether record `index` begins a super-segment of several records, of which the second has the same marks.
    #[inline]
    pub fn has_parts(&self, index: usize) -> bool {
        self.q.get(index + 1).is_some_and(|next| next.is(PART) && self.q[index].has_same_marks(next))
    }

    /// Joins record `index` and the records that continue its super-segment, which is retransmitted as a whole with the present segment
    /// size (`__tcp_retransmit_skb`). Returns the number of joined records.
    #[cold]
    pub fn join_parts(&mut self, index: usize) -> u64 {
        let mut count = 1;
        while self.has_parts(index) {
            self.append_next(index);
            count += 1;
        }
        count
    }

    /// Divides record `index`, whose segments an option makes shorter, into records of at most `mss` bytes of data.
    #[cold]
    pub fn cut_parts(&mut self, mut index: usize, mss: u64) {
        while self.q[index].payload() > mss {
            self.split(index, self.q[index].start + mss);
            index += 1;
            self.q[index].flags |= PART;
        }
    }

    /// [`Scoreboard::last_segment`], if record `index` continues a super-segment. As in `tcp_send_loss_probe`, the last segment begins
    /// after (number of segments - 1) times `mss`, the present segment size. If no data are behind that position, the super-segment is
    /// not divided.
    #[cold]
    pub fn last_segment_of_parts(&mut self, index: usize, mss: u64) -> usize {
        let mut first = index;
        while first > 0 && self.q[first].is(PART) && self.q[first].has_same_marks(&self.q[first - 1]) {
            first -= 1;
        }
        let others = self.join_parts(first) - 1;
        let s = self.q[first];
        let mut last = first;
        if others > 0 && others * mss < s.payload() {
            self.split(first, s.start + others * mss);
            last = first + 1;
        }
        if self.q[last].payload() > mss {
            self.trim(last, mss);
        }
        let more = self.q.len();
        if last > first {
            self.cut_parts(first, mss);
        }
        last + self.q.len() - more
    }
}
