//! Data of a segment: in order, out of order, or received before.

use super::memory::Fate;
use super::{Arrival, Receiver, WindowBefore};
use crate::log::{AckReason, Log};
use crate::messages::Span;
use tcpassay_units::{Dur, Time, count};
use tcpassay_wire::Ecn;

impl Receiver {
    /// Processes data that passed the acceptability test. Returns whether everything up to the FIN has now arrived.
    pub(crate) fn data(&mut self, now: Time, a: &Arrival, log: &mut Log) -> bool {
        count(&mut self.stats.data_segments, 1);
        let mut rtt = a.rtt;
        if self.rules.measures_any_segment
            && let Some(rtt) = self.round_by_stamp(rtt.take())
        {
            self.window.measured(rtt);
        }
        if a.cwr {
            self.echo.cwr();
            if !a.span.is_empty() {
                self.acks.cwr();
            }
        }
        if self.rules.forgets_unreported_duplicate {
            // An earlier duplicate that no ACK has reported is not reported any more.
            self.dsack = None;
        }
        // Never beyond the announced window or a received FIN; a FIN needs no memory, so that it may be at the edge. Linux takes
        // a segment whole or not at all: with nothing unread it may be longer than the window (`tcp_sequence`,
        // `sk_forced_mem_schedule`).
        let counted = self.memory.is_some() && !self.finished();
        let mut grows = false;
        let mut before =
            (a.span.start > self.nxt && self.acks.has_compressed()).then(|| self.window_before());
        if counted {
            let (fate, grew) = self.admit(&a.span, a.fin, a.push, u64::from(a.header));
            grows = grew;
            match (fate, &mut before) {
                (Fate::Dropped, _) => return false,
                (Fate::Attached, Some(before)) => *before = self.window_before(),
                _ => {}
            }
        }
        let finished = self.place(now, a, (counted, before), rtt, log);
        if grows {
            // After what its mark or a gap of time begins (`tcp_event_data_recv`, `tcp_data_queue_ofo`).
            self.acks.window_grew();
        }
        finished
    }

    /// Adds data to what has arrived. `counted`: their memory was accounted for; `before`: the window before that, if duplicate ACKs were
    /// left out. Returns whether everything up to the FIN has now arrived.
    fn place(
        &mut self,
        now: Time,
        a: &Arrival,
        (counted, before): (bool, Option<WindowBefore>),
        rtt: Option<Dur>,
        log: &mut Log,
    ) -> bool {
        let beyond = a.span.end > self.edge && !self.finished();
        if beyond && self.rules.takes_whole_segments && self.readable() > 0 && !counted {
            self.acks.demand(AckReason::Answer);
            return false;
        }
        let edge = if beyond && self.rules.takes_whole_segments { a.span.end } else { self.edge };
        let end = a.span.end.min(if self.finished() { self.nxt } else { edge });
        let fin = a.fin && end == a.span.end;
        let span = a.span.start..end;
        if a.span.start > self.nxt {
            self.out_of_order(now, span, fin, a, before, log);
            return false;
        }
        if span.end <= self.nxt && !(fin && span.end == self.nxt && !self.finished()) {
            // In Linux's reports a FIN takes a position, as in sequence space.
            let end = span.end + u64::from(self.rules.fin_takes_position && a.fin && a.span.end < self.nxt);
            self.mark_duplicate(a.span.end - a.span.start, a.ecn);
            self.duplicate(span.start..end.max(span.start));
            self.acks.quick_mode(self.announced_window());
            self.acks.old_data();
            return false;
        }
        self.in_order(now, &span, fin, a, rtt, log)
    }

    #[inline]
    fn in_order(
        &mut self,
        now: Time,
        span: &Span,
        fin: bool,
        a: &Arrival,
        rtt: Option<Dur>,
        log: &mut Log,
    ) -> bool {
        let end = span.end;
        let len = end.saturating_sub(self.nxt);
        let partly_old = span.start < self.nxt;
        if partly_old {
            self.duplicate(span.start..self.nxt);
            if self.rules.acks_overlap_at_once && self.report_duplicates {
                // `tcp_do_segment`: the next segment in order would clear the report.
                self.acks.demand(AckReason::OutOfOrder);
            }
        }
        // `tcp_fin` drops data out of order and SACK blocks.
        let ends = fin && self.rules.fin_ends_reports;
        let gaps = !self.assembly.is_empty() && !ends;
        self.nxt = end;
        if fin {
            self.fin = end;
        }
        if gaps {
            if let Some(again) = self.assembly.first_before(end) {
                // RFC 2883 section 4: the first block is the first range that arrived twice, which is the part that was delivered.
                if partly_old {
                    self.count_duplicate(&again);
                } else {
                    self.duplicate(again);
                }
            }
            let reported = (a.closing && self.rules.fin_ends_reports).then(|| self.assembly.blocks().clone());
            self.nxt = self.assembly.advance(end);
            if let Some(blocks) = reported.filter(|_| self.fin <= self.nxt) {
                // `tcp_fin` answers before the blocks that are in order by now are removed.
                self.assembly.report(blocks);
            }
            if let Some(memory) = self.memory.as_deref_mut() {
                memory.move_in_order(end);
            }
        }
        let finished = self.fin <= self.nxt;
        if finished {
            self.nxt = self.fin + 1;
            // The ACK that `tcp_fin` sends still reports the blocks that it discards afterwards.
            self.forgets_after_ack = self.rules.fin_ends_reports && a.closing;
            if self.rules.fin_ends_reports && !a.closing {
                self.forget_out_of_order();
            }
        }
        // Linux counts the part that is old, too (`tcp_event_data_recv`), so that the mark of a segment with a new FIN counts.
        let seen = if self.rules.takes_whole_segments { end.saturating_sub(span.start) } else { len };
        if seen > 0 {
            // Linux measures before what had arrived out of order follows (`tcp_event_data_recv`, `tcp_ofo_queue`).
            let arrived = if self.rules.takes_whole_segments { end } else { self.nxt };
            self.measure(now, arrived, rtt);
            self.acks.data(now, seen, a.push, self.announced_window(), a.rto);
            self.mark(now, seen, a.ecn, log);
            if self.memory.is_none() && self.window.grow(len, self.nxt - self.read) {
                self.acks.window_grew();
            }
        }
        if gaps && (self.assembly.is_empty() || !self.rules.filled_part_is_no_reason) {
            // RFC 5681 section 4.2: at once when a gap is filled, in all or in part.
            self.acks.demand(AckReason::OutOfOrder);
        }
        if finished {
            self.acks.fin();
        }
        self.acks.ask_later(false);
        finished
    }

    /// Removes all data out of order and their reports (`tcp_fin`).
    pub(super) fn forget_out_of_order(&mut self) {
        self.dsack = None;
        self.assembly.clear();
        if let Some(memory) = self.memory.as_deref_mut() {
            memory.forget_later();
        }
    }

    /// Data of a SYN or SYN-ACK, as Linux takes them (`tcp_fastopen_add_skb`): neither do delayed ACKs begin with them, nor does the
    /// window open.
    pub(crate) fn data_of_syn(&mut self, len: u64, header: u64) {
        if len == 0 {
            return;
        }
        count(&mut self.stats.data_segments, 1);
        if let Some(memory) = self.memory.as_deref_mut() {
            memory.hold(self.nxt, len, header);
        }
        self.nxt += len;
    }

    /// [`Receiver::data`] for what header prediction lets through: the next `len` bytes, all inside the window, with
    /// nothing out of order and nothing else to be reported. `acks`: the segment acknowledges something, too.
    #[expect(clippy::inline_always, reason = "once for each packet, from one place")]
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the parts of an Arrival that count")]
    pub(crate) fn data_next(
        &mut self,
        now: Time,
        len: u64,
        push: bool,
        ecn: Ecn,
        acks: bool,
        rtt: Option<Dur>,
        rto: Dur,
        log: &mut Log,
    ) {
        count(&mut self.stats.data_segments, 1);
        let rtt = self.round_by_stamp(rtt);
        self.nxt += len;
        self.measure(now, self.nxt, rtt);
        self.acks.data(now, len, push, self.announced_window(), rto);
        self.mark(now, len, ecn, log);
        let grew = match self.memory.as_deref_mut() {
            Some(memory) => memory.take_next(self.nxt - len, len, self.acks.rcv_mss()),
            None => self.window.grow(len, self.nxt - self.read),
        };
        if grew {
            self.acks.window_grew();
        }
        self.acks.ask_later(!acks);
    }

    /// `before`: the window before the segment was accounted for, if duplicate ACKs were left out.
    fn out_of_order(
        &mut self,
        now: Time,
        span: Span,
        fin: bool,
        a: &Arrival,
        before: Option<WindowBefore>,
        log: &mut Log,
    ) {
        self.stats.out_of_order += 1;
        let len = span.end.saturating_sub(span.start);
        self.mark(now, len, a.ecn, log);
        if fin {
            self.fin = span.end;
        }
        let span = span.start..span.end + u64::from(fin && self.rules.fin_takes_position);
        if !span.is_empty() {
            let pending = before.filter(|_| self.acks.has_compressed() && self.assembly.crowds(&span));
            let blocks = pending.map(|_| self.assembly.blocks_with(&span));
            // The window guarantees memory: data inside it are kept.
            if let Some(again) = self.assembly.insert(span) {
                self.duplicate(again);
            }
            if let (Some(window), Some(blocks)) = (pending, blocks) {
                // Linux has scheduled the ACK of this segment already, and counts it as sent.
                self.send_compressed(now, blocks, window, log);
                return;
            }
        }
        // RFC 5681 section 4.2: a duplicate ACK at once, unless Linux leaves it out.
        self.acks.out_of_order();
        self.acks.ask_later(false);
    }

    fn count_duplicate(&mut self, span: &Span) {
        self.stats.duplicate_bytes += span.end - span.start;
    }

    /// Data arrived that were received before: the next ACK reports them.
    pub(super) fn duplicate(&mut self, span: Span) {
        self.count_duplicate(&span);
        if self.report_duplicates && !span.is_empty() {
            self.dsack = Some(span);
        }
    }

    /// Data have arrived in order up to `nxt`. Most segments neither measure a round trip nor end one.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    fn measure(&mut self, now: Time, nxt: u64, by_timestamp: Option<Dur>) {
        if self.window.tunes() && (by_timestamp.is_some() || self.window.round_is_over(nxt)) {
            let end = self.round_end(nxt);
            self.window.arrived(now, nxt, end, by_timestamp);
        }
    }

    /// The round trip by timestamp, if it counts.
    #[inline]
    fn round_by_stamp(&self, rtt: Option<Dur>) -> Option<Dur> {
        let known = self.window.rtt();
        let waits = self.rules.longer_round_needs_empty_queue && self.readable() > 0 && !known.is_zero();
        rtt.filter(|&rtt| !waits || rtt < known)
    }

    /// The position whose arrival ends the round trip. Linux adds the window announced last to the data that
    /// have arrived (`tcp_rcv_rtt_measure`), also where a part of that window is used up.
    #[inline(never)]
    fn round_end(&self, nxt: u64) -> u64 {
        let unacked = nxt.saturating_sub(self.acked);
        if self.rules.round_includes_unacked { self.edge + unacked } else { self.edge }
    }
}
