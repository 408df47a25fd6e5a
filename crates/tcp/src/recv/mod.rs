//! The receiver: the incoming stream from segments to the application's reads, and its acknowledgements.
//!
//! Sans I/O. The connection hands it what passed the acceptability test, unwrapped to stream positions; it decides about
//! acknowledgements, window, SACK and the echo of marks. It must not know headers, states or the outgoing stream.
//!
//! | file | rule | source |
//! | --- | --- | --- |
//! | `assembly` | out-of-order data, SACK blocks, DSACK | RFC 2018, RFC 2883 |
//! | `window` | receive window and buffer | RFC 9293 section 3.8.6, RFC 7323 |
//! | `memory` | Linux's account of receive memory | `tcp_input.c`, `tcp_output.c` |
//! | `admission` | whether a packet is kept, by the account of memory | `tcp_data_queue` |
//! | `answer` | the content of an ACK | RFC 9293, RFC 2018 |
//! | `ack_policy` | when to acknowledge | RFC 1122, RFC 5681; Linux |
//! | `ce_echo` | echo of marks | RFC 3168, RFC 8257, RFC 9768 |
//! | `marking` | which marks are acknowledged at once | RFC 8257; Linux |

mod ack_policy;
mod admission;
mod answer;
mod assembly;
mod ce_echo;
mod info;
mod marking;
mod memory;
#[cfg(test)]
mod tests;
mod window;

use crate::Config;
use crate::flavor::RecvRules;
use crate::log::{AckReason, Log};
use crate::messages::Span;
use ack_policy::AckPolicy;
use arrayvec::ArrayVec;
use assembly::Assembly;
pub(crate) use ce_echo::{ByteCounts, Echo, ace_of};
use memory::{Fate, Memory};
use tcpassay_units::{Dur, Time, count};
use tcpassay_wire::Ecn;
use window::{Offer, Window};

/// A segment with data or FIN, acceptable, in stream positions.
#[expect(clippy::struct_excessive_bools, reason = "independent flags of a header, and one of the connection")]
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Arrival {
    /// Positions of its payload; may begin below what was received and end beyond the window.
    pub span: Span,
    /// A FIN stands at `span.end`.
    pub fin: bool,
    /// PSH.
    pub push: bool,
    /// CWR, in the modes where it means "window reduced".
    pub cwr: bool,
    /// ECN field.
    pub ecn: Ecn,
    /// now - TSecr in our clock, when timestamps are in force.
    pub rtt: Option<Dur>,
    /// The sender's retransmission timeout.
    pub rto: Dur,
    /// Bytes of the TCP header.
    pub header: u32,
    /// We have sent a FIN, so that the peer's is acknowledged at once.
    pub closing: bool,
}

/// An ACK of the data before a change of CE (RFC 8257 section 3.2), with the state before the change.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct OldAck {
    /// Position acknowledged.
    pub nxt: u64,
    /// ECE.
    pub ece: bool,
    /// SACK blocks of then.
    pub sacks: ArrayVec<Span, 4>,
}

/// Event counts since the connection began.
#[derive(Clone, Copy, Default, Debug)]
struct Stats {
    ce_segments: u64,
    ce_bytes: u64,
    data_segments: u64,
    duplicate_bytes: u64,
    out_of_order: u64,
    delayed: u64,
    delay_timeouts: u64,
    forgotten: u64,
}

/// The receiver half of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// RCV.NXT; past the FIN once that arrived in order.
    nxt: u64,
    /// First position that the application has not read.
    read: u64,
    /// RCV.NXT when the last ACK left (Linux `rcv_wup`; RFC 7323 Last.ACK.sent).
    acked: u64,
    /// Right edge announced.
    edge: u64,
    /// Position of the FIN, once seen; otherwise [`u64::MAX`].
    fin: u64,
    assembly: Assembly,
    dsack: Option<Span>,
    report_duplicates: bool,
    window: Window,
    memory: Option<Box<Memory>>,
    /// The window as last announced, and for which positions of `read` and `nxt`: the answer while neither moves. No position is
    /// zero, so that zeros stand for none.
    announced: (u64, u64, u16),
    /// The window that an ACK would announce, as last computed, in the same way. The buffer and the threshold that limits it change only
    /// when one of those positions does, the right edge only when it is announced.
    offer: (u64, u64, Offer),
    acks: AckPolicy,
    echo: Echo,
    /// An ECT mark was seen: from then on a Not-ECT segment is a retransmission.
    ect_seen: bool,
    /// RCV.NXT at the last mark, for DCTCP's old ACK (`prior_rcv_nxt`).
    nxt_at_mark: u64,
    old_ack: Option<OldAck>,
    /// End of urgent data (RFC 9293 section 3.8.5).
    urgent: u64,
    /// What is out of order is forgotten when the next ACK has reported it.
    forgets_after_ack: bool,
    rules: &'static RecvRules,
    stats: Stats,
}

impl Receiver {
    pub(crate) fn new(cfg: &Config) -> Receiver {
        let rules = &cfg.flavor.rules().recv;
        let window = Window::new(cfg.recv_buffer, cfg.mss.get(), cfg.recv_tuning);
        Receiver {
            nxt: 1,
            read: 1,
            acked: 1,
            // The SYN or SYN-ACK offers it: data may overtake the ACK that ends the handshake.
            edge: 1 + u64::from(window.first()),
            fin: u64::MAX,
            assembly: Assembly::new(rules.sack_blocks_grow_by_arrivals),
            dsack: None,
            report_duplicates: false,
            memory: None,
            window,
            announced: (0, 0, 0),
            offer: (0, 0, Offer { field: 0, edge: 0 }),
            acks: AckPolicy::new(cfg),
            echo: Echo::Off,
            ect_seen: false,
            nxt_at_mark: 1,
            old_ack: None,
            urgent: 0,
            forgets_after_ack: false,
            rules,
            stats: Stats::default(),
        }
    }

    /// The window of a SYN, which is never scaled, and the scale to offer.
    pub(crate) fn first_window(&self) -> (u16, u8) {
        (self.window.first(), self.window.wanted_shift())
    }

    /// Every segment will have this many bytes of options. Our SYN-ACK has not been sent.
    pub(crate) fn reserve_options(&mut self, options: u64) {
        self.window.reserve(options);
        self.edge = 1 + u64::from(self.window.first());
    }

    /// The handshake agreed: our window scale, the payload of the peer's full segments, DSACK, and ECN.
    pub(crate) fn agreed(&mut self, shift: u8, mss: u64, dsack: bool, echo: Echo) {
        self.window.set_shift(shift);
        self.window.set_mss(mss);
        self.acks.set_mss(mss);
        self.report_duplicates = dsack;
        self.echo = echo;
        self.announced = (0, 0, 0);
    }

    /// The right edge up to which a segment may begin: never below what has arrived, nor, by Linux's account of memory, below the
    /// largest that was ever announced.
    #[inline]
    pub(crate) fn limit(&self) -> u64 {
        self.memory.as_deref().map_or(self.edge, Memory::limit).max(self.edge).max(self.nxt)
    }

    /// The buffer becomes a whole number of segments, and all that is free is announced.
    pub(crate) fn announce_all(&mut self, mss: u64) {
        self.window.announce_all(mss);
    }

    #[inline]
    pub(crate) fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Last.ACK.sent of RFC 7323.
    #[inline]
    pub(crate) fn last_acked(&self) -> u64 {
        self.acked
    }

    /// Right edge of the window.
    #[inline]
    pub(crate) fn edge(&self) -> u64 {
        self.edge
    }

    /// The window as the last ACK announced it (`rcv_wnd`), of which later data have used a part.
    #[inline]
    fn announced_window(&self) -> u64 {
        self.edge.saturating_sub(self.acked)
    }

    /// What the buffer could take from `nxt` on, announced or not; never less than was announced.
    pub(crate) fn free(&self) -> u64 {
        self.window.free_edge(self.read, self.nxt).max(self.edge).saturating_sub(self.nxt)
    }

    /// CWR arrived without data: marks are not echoed any more, and an ACK is sent.
    pub(crate) fn heard_cwr(&mut self) {
        self.echo.cwr();
        self.answer(0..0);
    }

    /// A mark arrived without data: it is echoed like one with data.
    pub(crate) fn latch_mark(&mut self) {
        self.echo.latch();
    }

    /// The first window was offered, from what has arrived on.
    pub(crate) fn offer_first(&mut self) {
        self.edge = self.edge.max(self.nxt + u64::from(self.window.first()));
        self.announced = (0, 0, 0);
    }

    /// An ACK is delayed for no longer than this.
    pub(crate) fn set_longest_delay(&mut self, delay: Dur) {
        self.acks.set_longest_delay(delay);
    }

    /// The ACK that is due waits for data that are about to be written (Linux, `tcp_rcv_synsent_state_process`).
    pub(crate) fn hold_ack(&mut self, now: Time) {
        self.acks.hold(now);
    }

    /// Nothing is out of order, and the window is open: header prediction may be tried.
    #[inline]
    pub(crate) fn predictable(&self) -> bool {
        self.assembly.is_empty()
            && self.edge > self.nxt
            && self.fin == u64::MAX
            && self.memory.as_deref().is_none_or(Memory::is_plain)
    }

    /// Processes data that passed the acceptability test. Returns whether everything up to the FIN has now arrived.
    pub(crate) fn data(&mut self, now: Time, a: &Arrival, log: &mut Log) -> bool {
        count(&mut self.stats.data_segments, 1);
        let mut rtt = a.rtt;
        if self.rules.measures_any_segment
            && let Some(rtt) = rtt.take()
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
        // Never beyond the announced window or a received FIN; a FIN needs no memory, so that it may stand at the edge. Linux takes
        // a segment whole or not at all: with nothing unread it may be longer than the window (`tcp_sequence`,
        // `sk_forced_mem_schedule`).
        let counted = self.memory.is_some() && !self.finished();
        if counted && matches!(self.admit(&a.span, a.fin, a.push, u64::from(a.header)), Fate::Dropped) {
            return false;
        }
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
            self.out_of_order(now, span, fin, a, log);
            return false;
        }
        if span.end <= self.nxt && !(fin && span.end == self.nxt && !self.finished()) {
            // In Linux's reports a FIN takes a position, as in sequence space.
            let end = span.end + u64::from(self.rules.fin_takes_position && a.fin && a.span.end < self.nxt);
            self.mark_duplicate(a.span.end - a.span.start, a.ecn);
            self.duplicate(span.start..end.max(span.start));
            self.acks.quick_mode(self.announced_window());
            self.acks.demand(AckReason::OutOfOrder);
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
            // The ACK that leaves from `tcp_fin` itself still reports what it then forgets.
            self.forgets_after_ack = self.rules.fin_ends_reports && a.closing;
            if self.rules.fin_ends_reports && !a.closing {
                self.forget_out_of_order();
            }
        }
        if len > 0 {
            self.measure(now, rtt);
            self.acks.data(now, len, a.push, self.announced_window(), a.rto);
            self.mark(now, len, a.ecn, log);
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

    /// Nothing out of order is kept or reported any more (`tcp_fin`).
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
        self.nxt += len;
        self.measure(now, rtt);
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

    fn out_of_order(&mut self, now: Time, span: Span, fin: bool, a: &Arrival, log: &mut Log) {
        self.stats.out_of_order += 1;
        let len = span.end.saturating_sub(span.start);
        self.mark(now, len, a.ecn, log);
        if fin {
            self.fin = span.end;
        }
        let span = span.start..span.end + u64::from(fin && self.rules.fin_takes_position);
        if !span.is_empty() {
            // The window guarantees memory: data inside it are kept.
            if let Some(again) = self.assembly.insert(span) {
                self.duplicate(again);
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
    fn duplicate(&mut self, span: Span) {
        self.count_duplicate(&span);
        if self.report_duplicates && !span.is_empty() {
            self.dsack = Some(span);
        }
    }

    /// A segment was not acceptable, or repeats what is known: it is answered (RFC 9293 section 3.10.7.4).
    pub(crate) fn answer(&mut self, span: Span) {
        if !span.is_empty() && span.start < self.nxt {
            self.duplicate(span.start..span.end.min(self.nxt));
            self.acks.quick_mode(self.announced_window());
        }
        self.acks.demand(AckReason::Answer);
    }

    /// Urgent data up to `end` were announced.
    pub(crate) fn urgent(&mut self, end: u64) {
        self.urgent = self.urgent.max(end);
    }

    /// Unread bytes before the last urgent one, unless that is read; and whether it has arrived.
    pub(crate) fn urgent_ahead(&self) -> Option<(u64, bool)> {
        let ahead = self.urgent.checked_sub(self.read + 1)?;
        Some((ahead, self.nxt >= self.urgent))
    }

    /// Urgent data have not arrived or have not been read.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent > self.read
    }

    /// Data left, not a FIN alone.
    #[inline]
    pub(crate) fn replied(&mut self, now: Time) {
        self.acks.replied(now);
    }

    /// The delayed-ACK deadline, or [`Time::MAX`].
    #[inline]
    pub(crate) fn timer(&self) -> Time {
        self.acks.deadline()
    }

    /// A timer of ACKs is due.
    pub(crate) fn on_timer(&mut self, now: Time, rto: Dur) {
        if !self.acks.compressed_due(now) && self.acks.fire(rto) {
            self.stats.delay_timeouts += 1;
        }
    }

    /// Without SACK every duplicate ACK counts.
    pub(crate) fn compress_nothing(&mut self) {
        self.acks.compress_nothing();
    }

    /// Bytes that can be read.
    #[inline]
    pub(crate) fn readable(&self) -> u64 {
        self.stream_end() - self.read
    }

    /// In-order bytes end here (the FIN is not one).
    #[inline]
    fn stream_end(&self) -> u64 {
        self.nxt - u64::from(self.finished())
    }

    /// The FIN arrived in order.
    #[inline]
    pub(crate) fn finished(&self) -> bool {
        self.fin < self.nxt
    }

    /// The application reads up to `n` bytes.
    #[inline]
    pub(crate) fn read(&mut self, now: Time, n: u64) -> u64 {
        let readable = self.readable();
        let n = n.min(readable);
        if n == 0 {
            return 0;
        }
        self.read += n;
        match self.memory.as_deref_mut() {
            Some(memory) => memory.read(now, self.read, self.nxt, self.window.rtt()),
            None => self.window.consumed(now, self.read),
        }
        self.acks.read(self.nxt - self.acked.min(self.nxt), n == readable);
        if !self.finished() && self.is_worth_an_ack() {
            self.acks.demand(AckReason::WindowUpdate);
        }
        n
    }

    /// Whether the window has opened enough for an ACK of its own: Linux's rule (twice the window in force), or BSD's (two
    /// segments and a quarter of the buffer, or an eighth left, or half the buffer).
    #[inline]
    fn is_worth_an_ack(&self) -> bool {
        if let Some(memory) = self.memory.as_deref() {
            return memory.has_doubled(self.at());
        }
        let current = self.edge.saturating_sub(self.nxt);
        let buf = self.window.size();
        if self.rules.updates_doubled_window && 2 * current > buf {
            return false;
        }
        let free = self.window.free_edge(self.read, self.nxt);
        if !self.window.worthwhile(free, self.edge) {
            return false;
        }
        if self.rules.updates_doubled_window {
            return free - self.nxt >= 2 * current;
        }
        let gain = free - self.edge;
        2 * gain >= buf || (gain >= 2 * self.acks.rcv_mss() && (gain >= buf / 4 || current <= buf / 8))
    }

    /// Whether [`Arrival::rtt`] is of use.
    #[inline]
    pub(crate) fn wants_rtt(&self) -> bool {
        self.window.tunes()
    }

    /// A segment of this length is as long as the longest (`tcp_rcv_rtt_measure_ts`).
    #[inline]
    pub(crate) fn is_full(&self, len: u64) -> bool {
        len >= self.acks.rcv_mss()
    }

    /// Data have arrived in order up to RCV.NXT. Most segments neither measure a round trip nor end one.
    #[inline]
    fn measure(&mut self, now: Time, by_timestamp: Option<Dur>) {
        if self.window.tunes() && (by_timestamp.is_some() || self.window.round_is_over(self.nxt)) {
            let end = self.round_end();
            self.window.arrived(now, self.nxt, end, by_timestamp);
        }
    }

    /// What has to arrive until a round trip is over. Linux adds the window announced last to what has arrived
    /// (`tcp_rcv_rtt_measure`), also where a part of that window is used up.
    #[inline(never)]
    fn round_end(&self) -> u64 {
        let unacked = self.nxt - self.acked.min(self.nxt);
        if self.rules.round_includes_unacked { self.edge + unacked } else { self.edge }
    }

    pub(crate) fn set_quickack(&mut self, on: bool) {
        self.acks.set_quick(on);
    }
}
