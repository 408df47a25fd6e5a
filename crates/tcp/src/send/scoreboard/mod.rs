//! The scoreboard: the records of data that were sent and not yet cumulatively acknowledged, in order of the stream.
//!
//! It knows positions, marks and byte counts. It must not know congestion state, timers or the controller: those read it
//! ([`Scoreboard::pipe`], [`Scoreboard::next_lost`]) and decide what is marked.
//!
//! Cost: an in-order ACK touches only the records that it acknowledges. SACK blocks that an earlier ACK reported are
//! skipped; searches for records to mark resume where the last one ended.
//!
//! Sources: RFC 2018, RFC 6675 section 4 (pipe, `IsLost`); Linux `tcp_input.c` for the flags.

pub(super) mod loss_marking;
pub(super) mod sent;
mod super_segment;

use super::delivery::{Delivered, Run};
use super::ring::Ring;
use crate::messages::Span;
use arrayvec::ArrayVec;
use sent::{APP, EVER, FIN, JOINED, JUDGED, LOST, PART, PUSH, RETX, SACKED, Sent, Snapshot};
use std::collections::VecDeque;
use tcpassay_units::Time;

/// The scoreboard.
#[derive(Clone, Debug)]
pub(super) struct Scoreboard {
    q: Ring<Sent>,
    una: u64,
    nxt: u64,
    sacked: u64,
    lost: u64,
    retx: u64,
    pending: u64,
    /// Bytes acknowledged of the first record's segment that do not count before the rest is acknowledged.
    uncounted: u64,
    high_sacked: u64,
    /// The SACK blocks of the previous ACK.
    cache: ArrayVec<Span, 4>,
    /// No record below this position needs a retransmission.
    retx_hint: u64,
    /// All records below this position that are not SACKed are marked lost by the duplicate threshold.
    mark_hint: u64,
    /// No record below this position is an original transmission in flight.
    rack_hint: u64,
    /// A record whose retransmission is in flight stays so when it is marked lost for the first time.
    keeps_retransmission: bool,
    /// Number of records that share the buffer of the record before.
    joined: usize,
    /// Retransmissions in order of time: (when, first position, position after the last); stale ones are skipped.
    resent: VecDeque<(Time, u64, u64)>,
}

impl Scoreboard {
    /// Nothing sent; the next position is `at`. `keeps_retransmission`: a record whose retransmission is in flight stays so when it is
    /// marked lost for the first time.
    pub fn new(at: u64, keeps_retransmission: bool) -> Scoreboard {
        Scoreboard {
            keeps_retransmission,
            q: Ring::new(),
            una: at,
            nxt: at,
            sacked: 0,
            lost: 0,
            retx: 0,
            pending: 0,
            uncounted: 0,
            high_sacked: at,
            cache: ArrayVec::new(),
            retx_hint: at,
            mark_hint: at,
            rack_hint: at,
            joined: 0,
            resent: VecDeque::new(),
        }
    }

    /// First position not cumulatively acknowledged.
    #[inline]
    pub fn una(&self) -> u64 {
        self.una
    }

    /// Next new position.
    #[inline]
    pub fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Bytes SACKed.
    #[inline]
    pub fn sacked(&self) -> u64 {
        self.sacked
    }

    /// Bytes marked lost and not SACKed.
    #[inline]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Bytes of retransmissions in flight.
    #[inline]
    pub fn retransmitted(&self) -> u64 {
        self.retx
    }

    /// Of the lost bytes, those whose retransmission is not in flight.
    #[inline]
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Position after the highest SACKed one; at least [`Scoreboard::una`].
    #[inline]
    pub fn high_sacked(&self) -> u64 {
        self.high_sacked
    }

    /// Sent and not cumulatively acknowledged (RFC 5681 `FlightSize`).
    #[inline]
    pub fn outstanding(&self) -> u64 {
        self.nxt - self.una
    }

    /// RFC 6675 section 4, `pipe`: each byte that is neither SACKed nor lost, and each retransmitted byte again.
    #[inline]
    pub fn pipe(&self) -> u64 {
        if (self.sacked | self.lost | self.retx) == 0 { self.outstanding() } else { self.pipe_of_marked() }
    }

    #[inline(never)]
    fn pipe_of_marked(&self) -> u64 {
        self.outstanding() + self.retx - self.sacked - self.lost
    }

    /// The packets of [`Scoreboard::pipe`]: a short segment is one, too. Walks all records.
    pub fn packets_in_flight(&self, mss: u64) -> u64 {
        let copies = |s: &Sent| u64::from(s.flags & (SACKED | LOST) == 0) + u64::from(s.is(RETX));
        self.q.iter().map(|s| copies(s) * s.packets(mss)).sum()
    }

    /// The packets outstanding (`packets_out`). Walks all records.
    pub fn packets(&self, mss: u64) -> u64 {
        self.q.iter().map(|s| s.packets(mss)).sum()
    }

    /// The oldest record.
    pub fn front(&self) -> Option<&Sent> {
        self.q.front()
    }

    /// The record at `index`.
    pub fn at(&self, index: usize) -> &Sent {
        &self.q[index]
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.q.len()
    }

    /// Number of Linux's buffers that hold them: SACKed neighbours share one.
    #[inline]
    pub fn buffers(&self) -> usize {
        self.q.len() - self.joined
    }

    /// Appends new data.
    #[inline]
    pub fn push(&mut self, sent: Sent) {
        debug_assert_eq!(sent.start, self.nxt);
        self.nxt = sent.end();
        self.q.push_back(sent);
    }

    /// Index of the record that holds `pos`, or the number of records when `pos` is beyond them.
    fn find(&self, pos: u64) -> usize {
        if pos <= self.una {
            return 0;
        }
        self.q.partition_point(|s| s.end() <= pos)
    }

    /// Takes `sent` (all or a front part of a record) out of the counts.
    fn forget(&mut self, sent: &Sent) {
        let n = u64::from(sent.len);
        if sent.is(SACKED) {
            self.sacked -= n;
            return;
        }
        if sent.is(LOST) {
            self.lost -= n;
            if !sent.is(RETX) {
                self.pending -= n;
            }
        }
        if sent.is(RETX) {
            self.retx -= n;
        }
    }

    /// Moves the cumulative point to `ack`. Touches only the records that it covers.
    pub fn ack_to(&mut self, ack: u64, out: &mut Delivered) {
        let known = if self.sacked > 0 { self.high_sacked } else { 0 };
        debug_assert!(ack >= self.una && ack <= self.nxt, "an ACK outside what was sent");
        let (owed, count) = (std::mem::take(&mut self.uncounted), self.q.len());
        self.ack_clean(ack, known, out);
        while let Some(front) = self.q.front_mut() {
            if front.start >= ack {
                break;
            }
            let covered = ack - front.start;
            if covered >= u64::from(front.len) {
                let sent = *front;
                self.q.drop_front(1);
                self.forget(&sent);
                self.leave_buffer(0);
                out.acked(&sent, known);
            } else {
                let part = u32::try_from(covered).expect("less than the record's length");
                let sent = Sent { len: part, flags: front.flags & !FIN, ..*front };
                let single = u64::from(front.len) <= out.mss;
                front.start = ack;
                front.len -= part;
                self.forget(&sent);
                if single && out.needs_whole_segments {
                    self.uncounted = out.acked_part(&sent);
                } else {
                    out.acked(&sent, known);
                }
            }
        }
        if self.q.len() < count {
            out.recount(owed);
        } else {
            self.uncounted += owed;
        }
        self.una = ack;
        self.high_sacked = self.high_sacked.max(ack);
        if self.q.is_empty() {
            self.resent.clear();
        }
    }

    /// The common case of [`Scoreboard::ack_to`]: whole records that were sent once and carry no mark.
    fn ack_clean(&mut self, ack: u64, known: u64, out: &mut Delivered) {
        let clean = |s: &Sent| s.is_clean() && s.end() <= ack;
        let count = self.q.iter().take_while(|s| clean(s)).count();
        if count > 0 {
            let run = self.q.iter().take(count).map(|s| s.packets(out.mss)).sum();
            out.acked_run(&self.take(count, run), known);
        }
    }

    /// Takes the first `count` records out, which are clean; there is one at least.
    #[inline]
    fn take(&mut self, count: usize, packets: u64) -> Run {
        let (first, last) = (&self.q[0], self.q[count - 1]);
        let (start, first_end, first_sent_at) = (first.start, first.end(), first.sent_at);
        let run = Run { start, first_end, first_sent_at, packets, last };
        self.q.drop_front(count);
        run
    }

    /// Moves the cumulative point to `ack` in the simple case: nothing is SACKed, lost or retransmitted, and
    /// `ack` is the end of a record that, like all before it, was sent once. Whatever was sent before (`xmit`, `end`)
    /// must be covered, too: RACK would look at it. Otherwise nothing changes.
    #[inline]
    pub fn ack_run(&mut self, ack: u64, mss: u64, (xmit, end): (Time, u64)) -> Option<Run> {
        if (self.sacked | self.lost | self.retx | self.uncounted) != 0 || !self.resent.is_empty() {
            return None;
        }
        let first = self.q.front()?;
        let (start, first_end, first_sent_at) = (first.start, first.end(), first.sent_at);
        let (mut count, mut packets, mut last) = (0, 0, first);
        loop {
            if !last.is_clean() || last.end() > ack {
                return None;
            }
            count += 1;
            packets += last.packets(mss);
            let next = self.q.get(count);
            if last.end() == ack {
                if next.is_some_and(|s| !s.is_clean() || (s.sent_at, s.end()) < (xmit, end)) {
                    return None;
                }
                break;
            }
            last = next?;
        }
        let run = Run { start, first_end, first_sent_at, packets, last: *last };
        self.q.drop_front(count);
        self.una = ack;
        self.high_sacked = self.high_sacked.max(ack);
        Some(run)
    }

    /// Record `index`, if there is one, is the first of its buffer.
    #[inline]
    fn leave_buffer(&mut self, index: usize) {
        if self.joined > 0 && self.q.get(index).is_some_and(|s| s.is(JOINED)) {
            self.q[index].flags &= !JOINED;
            self.joined -= 1;
        }
    }

    /// Record `index` was SACKed just now: it moves into the buffer of the record before, and the one behind it, too, if possible
    /// (`tcp_shift_skb_data`). `whole`: all of it was reported.
    fn join_buffer(&mut self, index: usize, mss: u64, whole: bool) {
        let joins = |board: &Scoreboard, index: usize| {
            let pair = index.checked_sub(1).and_then(|before| board.q.get(before)).zip(board.q.get(index));
            pair.is_some_and(|(before, s)| !s.is(JOINED) && before.takes_in(s, mss))
        };
        if !joins(self, index) {
            return;
        }
        self.q[index].flags |= JOINED;
        self.joined += 1;
        if whole && self.q.get(index + 1).is_some_and(|next| next.is(SACKED)) && joins(self, index + 1) {
            self.q[index + 1].flags |= JOINED;
            self.joined += 1;
        }
    }

    /// Cuts record `index` in two at `pos`, which lies inside it.
    fn split(&mut self, index: usize, pos: u64) {
        let s = &mut self.q[index];
        debug_assert!(s.start < pos && pos < s.end());
        let head = u32::try_from(pos - s.start).expect("inside the record");
        let tail = Sent { start: pos, len: s.len - head, flags: s.flags & !(PART | JOINED), ..*s };
        s.len = head;
        s.flags &= !(FIN | PUSH);
        self.q.insert(index + 1, tail);
    }

    /// Marks what `blocks` report (RFC 2018). Blocks lie above the cumulative point; parts outside what was sent are
    /// ignored, and with `whole`, the size of a segment, whatever is no whole segment, as in Linux (`tcp_match_skb_to_sack`).
    pub fn sack(&mut self, blocks: &ArrayVec<Span, 4>, whole: Option<u64>, out: &mut Delivered) {
        let known = self.high_sacked;
        let mut all = true;
        for block in blocks {
            let mut start = block.start.max(self.una);
            let mut end = block.end.min(self.nxt);
            // The previous ACK reported this block: it grew at one end, or not at all.
            for known in &self.cache {
                if known.start <= start && start < known.end {
                    start = known.end;
                }
                if known.start < end && end <= known.end {
                    end = known.start;
                }
            }
            if start < end {
                all &= self.sack_span(start..end, whole, known, out);
            }
        }
        if all {
            self.cache.clone_from(blocks);
        } else {
            self.cache.clear();
        }
    }

    /// Marks what one block reports. Returns whether all of it counted.
    fn sack_span(&mut self, block: Span, whole: Option<u64>, known: u64, out: &mut Delivered) -> bool {
        let mut all = true;
        let mut i = self.find(block.start);
        while i < self.q.len() && self.q[i].start < block.end {
            if self.q[i].is(SACKED) {
                i += 1;
                continue;
            }
            let (mut start, mut end) = (block.start, block.end);
            if let Some(mss) = whole {
                let s = &self.q[i];
                if u64::from(s.len) <= mss && (start > s.start || end < s.end()) {
                    all = false;
                    i += 1;
                    continue;
                }
                start = s.start + start.saturating_sub(s.start).next_multiple_of(mss);
                if end < s.end() {
                    end = s.start + (end - s.start) / mss * mss;
                }
                all &= start <= block.start.max(s.start) && end == block.end;
                if start >= end || start >= s.end() {
                    i += 1;
                    continue;
                }
            }
            if self.q[i].start < start {
                self.split(i, start);
                i += 1;
            }
            let cut = self.q[i].end() > end;
            if cut {
                self.split(i, end);
            }
            let mut sent = self.q[i];
            let moves = sent.flags & (LOST | RETX) != RETX;
            self.forget(&sent);
            out.sacked(&sent, known);
            sent.flags = (sent.flags | SACKED) & !(LOST | RETX);
            self.sacked += u64::from(sent.len);
            self.high_sacked = self.high_sacked.max(sent.end());
            self.q[i] = sent;
            if let Some(mss) = whole.filter(|_| moves) {
                self.join_buffer(i, mss, !cut);
            }
            i += 1;
        }
        all
    }

    /// Removes all SACK marks, because the receiver discarded SACKed data (RFC 2018 section 8).
    pub fn renege(&mut self) {
        self.q.each(|s| s.flags &= !(SACKED | JOINED));
        self.joined = 0;
        self.sacked = 0;
        self.high_sacked = self.una;
        self.cache.clear();
        self.mark_hint = self.una;
        self.rack_hint = self.una;
    }

    /// The retransmission of record `index` does not count as in flight.
    pub fn uncount(&mut self, index: usize) {
        let s = &mut self.q[index];
        if s.is(RETX) && !s.is(LOST) {
            s.flags &= !RETX;
            self.retx -= u64::from(s.len);
        }
    }

    /// When the record with `pos` was sent, if it is outstanding.
    pub fn sent_at(&self, pos: u64) -> Option<Time> {
        (self.una <= pos && pos < self.nxt).then(|| self.q[self.find(pos)].sent_at)
    }

    /// Record `index` is sent again.
    pub fn resend(&mut self, index: usize, now: Time, snap: Snapshot, app_limited: bool) -> Sent {
        // Linux probes with the last segment even if it is SACKed, or with the part of it for which an option leaves room.
        let last = index + 2 >= self.q.len();
        let s = &mut self.q[index];
        debug_assert!(last || !s.is(SACKED));
        let n = u64::from(s.len);
        if s.flags & (LOST | RETX) == LOST {
            self.pending -= n;
        }
        if !s.is(RETX) {
            self.retx += n;
        }
        s.flags = (s.flags | RETX | EVER) & !JUDGED;
        if app_limited {
            s.flags |= APP;
        } else {
            s.flags &= !APP;
        }
        s.sent_at = now;
        s.snap = snap;
        s.tries = s.tries.saturating_add(1);
        let sent = *s;
        self.resent.push_back((now, sent.start, sent.end()));
        sent
    }

    /// Whether a retransmission is in flight, or the first record was ever retransmitted (`tcp_any_retrans_done`).
    pub fn any_retransmitted(&self) -> bool {
        self.retx > 0 || self.q.front().is_some_and(|s| s.is(EVER))
    }

    /// Whether all of `span` that is outstanding was SACKed before.
    pub fn has_sacked(&self, span: &Span) -> bool {
        (self.find(span.start)..self.q.len())
            .map(|i| &self.q[i])
            .take_while(|s| s.start < span.end)
            .all(|s| s.is(SACKED))
    }

    /// Bytes, and packets of at most `mss`, that an ACK up to `ack` with these blocks shows to be delivered and that were not known to be.
    pub fn newly(&self, ack: u64, sacks: &[Span], mss: u64) -> (u64, u64) {
        let end = sacks.iter().map(|s| s.end).fold(ack, u64::max);
        let mut found = (0, 0);
        for sent in self.q.iter().take_while(|s| s.start < end).filter(|s| !s.is(SACKED)) {
            let covered = |span: &&Span| span.start <= sent.start && sent.end() <= span.end;
            let upto = if sent.end() <= ack || sacks.iter().any(|s| covered(&s)) { sent.end() } else { ack };
            let bytes = upto.saturating_sub(sent.start.max(self.una));
            found.0 += bytes;
            found.1 += if upto == sent.end() { bytes.div_ceil(mss) } else { bytes / mss };
        }
        found
    }

    /// Bytes of `span` that were retransmitted and are outstanding.
    pub fn retransmitted_in(&self, span: &Span) -> u64 {
        let mut bytes = 0;
        let mut i = self.find(span.start);
        while let Some(s) = self.q.get(i).filter(|s| s.start < span.end) {
            if s.is(EVER) {
                bytes += s.end().min(span.end) - s.start.max(span.start);
            }
            i += 1;
        }
        bytes
    }

    /// Whether the counts equal a recount of the records. Walks all of them.
    pub fn audit(&self) -> Result<(), String> {
        let (mut sacked, mut lost, mut retx, mut pending, mut pos) = (0, 0, 0, 0, self.una);
        for s in self.q.iter() {
            if s.start != pos || s.len == 0 {
                return Err(format!("record at {} where {pos} is next", s.start));
            }
            pos = s.end();
            let n = u64::from(s.len);
            if s.is(SACKED) {
                sacked += n;
                if s.flags & (LOST | RETX) != 0 || s.end() > self.high_sacked {
                    return Err(format!("SACKed record with marks {:#b} at {}", s.flags, s.start));
                }
                continue;
            }
            lost += if s.is(LOST) { n } else { 0 };
            retx += if s.is(RETX) { n } else { 0 };
            pending += if s.flags & (LOST | RETX) == LOST { n } else { 0 };
            if s.flags & (LOST | RETX) == LOST && s.start < self.retx_hint {
                return Err(format!("lost record at {} below the hint {}", s.start, self.retx_hint));
            }
            if s.is(RETX) && !s.is(EVER) {
                return Err(format!("a retransmission that never was at {}", s.start));
            }
        }
        let joined = self.q.iter().filter(|s| s.is(JOINED)).count();
        if joined != self.joined || self.q.front().is_some_and(|s| s.is(JOINED)) {
            return Err(format!("{joined} records share a buffer, {} counted", self.joined));
        }
        let counted = (sacked, lost, retx, pending, pos);
        let kept = (self.sacked, self.lost, self.retx, self.pending, self.nxt);
        if counted == kept { Ok(()) } else { Err(format!("counted {counted:?}, kept {kept:?}")) }
    }
}

/// Scoreboards for the tests of other components. Segments have 1000 bytes; numbers of segments count from 0.
#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use tcpassay_units::Dur;

    /// `n` segments, sent at the beginning of time.
    pub fn sent(n: u64) -> Scoreboard {
        sent_every(n, Dur::ZERO)
    }

    /// `n` segments, sent at these intervals.
    pub fn sent_every(n: u64, interval: Dur) -> Scoreboard {
        let mut scoreboard = Scoreboard::new(1, false);
        for i in 0..n {
            let sent_at = Time::ZERO + interval * i;
            scoreboard.push(Sent { start: 1 + 1000 * i, sent_at, len: 1000, tries: 1, ..Sent::default() });
        }
        scoreboard
    }

    /// These segments are SACKed.
    pub fn sacked(scoreboard: &mut Scoreboard, segments: Span) {
        let block = 1 + 1000 * segments.start..1 + 1000 * segments.end;
        let mut delivered = Delivered { mss: 1000, ..Delivered::default() };
        scoreboard.sack(&std::iter::once(block).collect(), None, &mut delivered);
    }

    /// The first `n` segments are acknowledged.
    pub fn acked(scoreboard: &mut Scoreboard, n: u64) {
        let mut delivered = Delivered { mss: 1000, ..Delivered::default() };
        scoreboard.ack_to(1 + 1000 * n, &mut delivered);
    }
}
