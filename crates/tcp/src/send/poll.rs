//! Selection of the next segment: probes, retransmissions, new data, in this order.
//!
//! Sources: RFC 6675 section 4 (`NextSeg`), RFC 3042 (limited transmit).

use super::loss::rto::Frto;
use super::output::nagle::NagleInput;
use super::output::segment_size::{self, SizeInput};
use super::output::tso::{self, DeferInput, LengthInput};
use super::scoreboard::sent::SACKED;
use super::{Flow, Sender};
use crate::config::Recovery;
use crate::log::{CongestionCause, CongestionState as Ca, Log, SendLimit};
use crate::messages::Chunk;
use tcpassay_cc::{Cause, Limited};
use tcpassay_units::{Rate, Time};

/// Below this rate BBR sends no super-segments (`bbr_min_tso_segs`).
const SINGLE_SEGMENTS: Rate = Rate::from_bits_per_sec(1_200_000);

impl Sender {
    /// The next action of [`Sender::poll`] if it needs no decisions: new data wait, the peer's window
    /// permits a whole segment, and nothing else must be sent before.
    #[expect(clippy::inline_always, reason = "once for each burst")]
    #[inline(always)]
    pub fn flow(&self) -> Flow {
        let (una, nxt) = (self.scoreboard.una(), self.scoreboard.nxt());
        let end = nxt + self.mss;
        let simple = self.simple
            && !self.persist.is_probe_due()
            && !self.probe.is_due()
            && !self.force_retransmit
            && self.pacer.rate().is_none()
            && self.scoreboard.pending() == 0
            && self.frto != Frto::New
            && self.buffer.is_simple(end)
            && self.timers.is_rto_running()
            && !self.timers.is_paused()
            && nxt > una
            && end <= self.window.edge(una)
            && end + u64::from(self.buffer.has_fin()) <= self.buffer.end();
        if !simple {
            return Flow::Other;
        }
        let room = self.room();
        if room >= self.mss { Flow::Whole(room) } else { Flow::Full }
    }

    /// The actions of [`Sender::poll`] if the window is [full](Flow::Full).
    #[expect(clippy::inline_always, reason = "once for each packet, from one place")]
    #[inline(always)]
    pub fn rest_full(&mut self, now: Time, log: &mut Log) {
        self.refresh_probe(now, log);
        self.pacer.rest();
        self.nagle.end_burst();
        self.buffer.on_rest();
        self.stop_probe_timer_in_flight();
        self.cwnd_validation.set(now, Limited::Cwnd);
        self.limits.set(now, self.unless_repairing(SendLimit::CongestionWindow));
        let (una, nxt) = (self.scoreboard.una(), self.scoreboard.nxt());
        self.cwnd_validation.take_sent();
        self.cwnd_validation.validate(true, una, nxt, 0);
    }

    /// Whether [`Sender::poll`] would probably send something that the queue of the own host may hold back: no probe, and
    /// nothing for which a timer has fired.
    pub fn may_be_held(&mut self, now: Time) -> bool {
        if self.force_retransmit
            || self.probe.is_due()
            || self.persist.is_probe_due()
            || self.pacer.blocks(now)
        {
            return false;
        }
        let room = self.room_apart();
        self.scoreboard.pending() > 0
            || (self.has_new() && room > 0 && room >= self.mss.min(self.unsent()) && self.peer_room() > 0)
    }

    /// Whether a lost segment is sent next.
    pub fn owes_retransmission(&self) -> bool {
        self.scoreboard.pending() > 0
    }

    /// A packet has left the own host, whose queue held back what could be sent: Linux sends lost segments then, also while F-RTO wants new
    /// data only (`tcp_tsq_write`).
    pub fn on_packet_left(&mut self) {
        self.repairs_beside_frto = self.frto == Frto::New && self.scoreboard.pending() > 0;
    }

    /// The queue of the own host holds back what could be sent; `sent`: something was sent before that at this time
    /// (the end of `tcp_write_xmit`).
    pub fn rest_held(&mut self, now: Time, sent: bool, log: &mut Log) {
        self.refresh_probe(now, log);
        if let Some(n) = self.next_new(now) {
            // The buffer is divided before the queue is checked.
            self.buffer.split(self.scoreboard.nxt() + n);
        }
        self.buffer.release();
        self.limits.set(now, self.unless_repairing(SendLimit::HostQueue));
        self.validate_early(sent);
    }

    /// The limit, or the repair of losses.
    #[inline]
    fn unless_repairing(&self, limit: SendLimit) -> SendLimit {
        if matches!(self.state, Ca::Recovery | Ca::Loss) { SendLimit::Recovery } else { limit }
    }

    /// Something else than the windows ends the transmission, after something was `sent` or not: the window may be full all the same (the
    /// end of `tcp_write_xmit`).
    fn validate_early(&mut self, sent: bool) {
        let filled = self.room_apart() < self.mss;
        self.cwnd_validation.take_sent();
        if sent || filled {
            let (una, nxt) = (self.scoreboard.una(), self.scoreboard.nxt());
            self.cwnd_validation.validate(filled, una, nxt, self.out_in_window());
        }
    }

    /// What is outstanding, in the unit of the window.
    fn out_in_window(&self) -> u64 {
        if self.counts_packets() {
            self.scoreboard.packets(self.unit()) * self.unit()
        } else {
            self.scoreboard.outstanding()
        }
    }

    /// Returns the next segment, or `None` if nothing may be sent. The returned segment counts as sent at `now`.
    pub fn poll(&mut self, now: Time, log: &mut Log) -> Option<Chunk> {
        if !self.up {
            return None;
        }
        if self.local_drop.is_active() {
            self.on_local_drop(now, log);
            return None;
        }
        if self.pmtud.probes() {
            self.note_path_success();
        }
        if let Some(probe) = self.window_probe(now) {
            return Some(probe);
        }
        if self.probe.is_due()
            && let Some(chunk) = self.send_probe(now, log)
        {
            return Some(chunk);
        }
        if !self.force_retransmit
            && self.pacer.blocks(now)
            && (self.scoreboard.pending() > 0 || self.has_new())
            // A closed window starts its timer at once (`tcp_check_probe_timer`).
            && (self.scoreboard.outstanding() > 0 || self.peer_room() > 0)
        {
            self.refresh_probe(now, log);
            self.buffer.release();
            self.limits.set(now, self.unless_repairing(SendLimit::Pacing));
            self.validate_early(self.last_sent == now);
            return None;
        }
        if self.buffer.take_halt() {
            return None;
        }
        match self.next(now, log) {
            Ok(chunk) => {
                self.buffer.after_transmission();
                Some(chunk)
            }
            Err(limit) => {
                self.buffer.end_push_one();
                self.rest(now, limit, log);
                None
            }
        }
    }

    /// [`Sender::poll`], for a segment that leaves `room` bytes for an option that the others do not have.
    pub fn poll_narrow(&mut self, now: Time, room: u32, log: &mut Log) -> Option<Chunk> {
        if room == 0 || self.pmtud.probes() || !self.up {
            return self.poll(now, log);
        }
        let (mss, mss32) = (self.mss, self.mss32);
        self.mss = mss.saturating_sub(u64::from(room)).max(1);
        self.mss32 = mss32.saturating_sub(room).max(1);
        self.narrowed = mss - self.mss;
        let chunk = self.poll(now, log);
        (self.mss, self.mss32, self.narrowed) = (mss, mss32, 0);
        chunk
    }

    /// Processes a transmission while the local interface drops all packets.
    fn on_local_drop(&mut self, now: Time, log: &mut Log) {
        self.persist.cancel_probe();
        self.probe.clear_due();
        self.pacer.rest();
        self.nagle.end_burst();
        let fits = self.has_new() && self.peer_room() > 0 && self.room_apart() > 0;
        if !(fits || self.force_retransmit || self.scoreboard.pending() > 0) {
            return;
        }
        self.cwnd_validation.set(now, Limited::App);
        let flight = self.flight();
        if matches!(self.state, Ca::Open | Ca::Disorder) {
            self.enter_cwr(now, Cause::Loss, flight, CongestionCause::LocalDrop, log);
        }
        if flight.size == 0 {
            self.start_persist(now, log);
        }
    }

    /// RFC 6675 section 4, `NextSeg`.
    fn next(&mut self, now: Time, log: &mut Log) -> Result<Chunk, Limited> {
        if self.frto == Frto::New && !self.force_retransmit && !self.repairs_beside_frto {
            // RFC 5682 step 2b: new data, not retransmissions, until the next ACK decides.
            match self.send_new(now, log) {
                Err(_) if self.scoreboard.nxt() == self.recover => self.frto = Frto::Off,
                other => return other,
            }
        }
        // Rule 1.
        match self.send_lost(now, log) {
            // Linux sends the FIN even if lost data wait for retransmission.
            Some(Err(Limited::Cwnd)) if self.has_new() && self.ends_stream(self.unsent()) => {}
            Some(answer) => return answer,
            None => {}
        }
        // Rule 2.
        let limit = match self.send_new(now, log) {
            Ok(chunk) => return Ok(chunk),
            Err(limit) => limit,
        };
        if self.state == Ca::Recovery
            && self.cfg.recovery == Recovery::Sack
            && self.sack
            && limit != Limited::Cwnd
        {
            return self.send_unsacked(now, log).ok_or(limit);
        }
        Err(limit)
    }

    /// Bytes that count against the window.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    fn used(&self) -> u64 {
        let out = self.scoreboard.outstanding();
        match self.state {
            Ca::Recovery if self.uses_partial_ack_window() => {
                self.partial_ack_window.used(&self.scoreboard, self.recover)
            }
            // The window is inflated instead, unless it is that of a controller.
            Ca::Recovery
                if !self.sack && self.cfg.recovery != Recovery::Prr && !self.cc.governs_recovery() =>
            {
                out
            }
            Ca::Open | Ca::Disorder if !self.cfg.limited_transmit => out,
            // FreeBSD counts duplicates, not what they report (`tcp_do_segment`).
            Ca::Disorder if self.uses_partial_ack_window() => {
                out - (u64::from(self.duplicates.acks().min(2)) * self.mss).min(out)
            }
            // RFC 3042: two segments beyond the window. With SACK each reported segment releases one (RFC 6675), and in Linux
            // each duplicate (`tcp_packets_in_flight` with `tcp_add_reno_sack`).
            Ca::Open | Ca::Disorder if !self.sack && !self.rules.emulates_sack => {
                out - self.duplicates.bytes().min(2 * self.mss).min(out)
            }
            _ => self.in_flight(),
        }
    }

    /// Bytes that the congestion window still allows.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    fn room(&self) -> u64 {
        let room = self.cwnd.saturating_sub(self.used());
        if self.narrowed > 0 && self.rules.counts_packets { room / self.unit() * self.mss } else { room }
    }

    /// [`Sender::room`], not inlined, for what is not done for each packet.
    #[inline(never)]
    pub(super) fn room_apart(&self) -> u64 {
        self.room()
    }

    /// The same for what is lost: with FreeBSD's window new data do not count against it.
    fn room_for_lost(&self) -> u64 {
        if self.state == Ca::Recovery && self.uses_partial_ack_window() {
            return self.cwnd.saturating_sub(self.partial_ack_window.retransmitted(&self.scoreboard));
        }
        self.room()
    }

    /// The longest super-segment; a segment without TSO or while urgent data are outstanding.
    pub(super) fn gso(&self) -> u64 {
        let una = self.scoreboard.una();
        let Some(nic) = self.cfg.tso.filter(|_| self.buffer.urgent_end() <= una) else { return self.mss };
        tso::longest(&LengthInput {
            rule: self.cfg.tso_autosize,
            mss: self.mss,
            nic: nic.get(),
            min_segments: if self.cc.governs_recovery() && self.pacer.rate() < Some(SINGLE_SEGMENTS) {
                1
            } else {
                self.cfg.min_tso_segs
            },
            pacing: self.pacer.rate(),
            rate: self.pacer.rate_of_size(),
            min_rtt: self.rtt.windowed_min(),
        })
    }

    fn send_lost(&mut self, now: Time, log: &mut Log) -> Option<Result<Chunk, Limited>> {
        if self.reneging {
            return None;
        }
        // What is in flight again although its mark was removed counts, too (`tcp_xmit_retransmit_queue`).
        let enough = self.rules.first_mark_keeps_retransmission
            && self.scoreboard.retransmitted() >= self.scoreboard.lost();
        let index = match self.scoreboard.next_lost() {
            Some(_) if enough && !self.force_retransmit => return None,
            Some(index) => index,
            None if self.force_retransmit && self.scoreboard.front().is_some_and(|s| !s.is(SACKED)) => 0,
            None => {
                self.force_retransmit = false;
                return None;
            }
        };
        if self.scoreboard.has_parts(index) {
            self.scoreboard.join_parts(index);
        }
        let sent = self.scoreboard.at(index);
        let (start, len) = (sent.start, u64::from(sent.len));
        let una = self.scoreboard.una();
        let edge = self.window.edge(una);
        if start != una && start >= edge {
            return Some(Err(Limited::Rwnd));
        }
        // A retransmission ends at the edge of a window that has shrunk. The first segment is sent even beyond it
        // (`__tcp_retransmit_skb`).
        let fits = if start >= edge { self.mss } else { edge - start };
        let unit = len.min(self.mss).min(fits);
        let room = self.room_for_lost();
        if room < unit && !self.force_retransmit {
            return Some(Err(Limited::Cwnd));
        }
        let most = room.min(self.gso()).min(fits).max(unit);
        let whole = if most < self.mss { most } else { most - most % self.mss };
        self.scoreboard.trim(index, if most >= len { len } else { whole });
        if self.rules.collapses_retransmissions && len < self.mss {
            self.collapse(index);
        }
        let first = std::mem::take(&mut self.force_retransmit);
        let chunk = self.emit_again(now, index, log);
        if first && self.state == Ca::Recovery {
            // RFC 6675 section 5 step 4.3.
            self.next_seg.on_first_retransmit(self.scoreboard.at(index).end());
        }
        Some(Ok(chunk))
    }

    /// Appends to record `index`, which is to be retransmitted, the following records, up to a full segment and to the edge of the peer's
    /// window.
    #[cold]
    fn collapse(&mut self, index: usize) {
        let (una, sent) = (self.scoreboard.una(), *self.scoreboard.at(index));
        if sent.is(SACKED) {
            return;
        }
        let edge = self.window.edge(una);
        let room = if sent.start >= edge { self.mss } else { self.mss.min(edge - sent.start) };
        let buffer = &mut self.buffer;
        self.scoreboard.collapse(index, room, edge, |end| buffer.is_record_end(end, una));
    }

    /// RFC 6675 section 4 `NextSeg` rules 3 and 4.
    fn send_unsacked(&mut self, now: Time, log: &mut Log) -> Option<Chunk> {
        if self.room_apart() < self.mss {
            return None;
        }
        let before = self.next_seg;
        let found = before.next(&mut self.scoreboard, self.mss)?;
        let chunk = self.emit_again(now, found.index, log);
        if found.rescue {
            self.next_seg.on_rescue(&before, self.recover);
        }
        Some(chunk)
    }

    fn send_new(&mut self, now: Time, log: &mut Log) -> Result<Chunk, Limited> {
        let wnd_room = self.peer_room();
        if self.unsent() == 0 {
            // A FIN alone: it needs no room in the congestion window (as in Linux), but in the peer's.
            return if !self.has_new() {
                Err(Limited::App)
            } else if wnd_room == 0 {
                Err(Limited::Rwnd)
            } else {
                Ok(self.emit_new(now, 0, log))
            };
        }
        if self.timers.is_paused() {
            return Err(Limited::Cwnd);
        }
        if self.scoreboard.outstanding() == 0 && !self.buffer.is_queue() {
            self.restart_after_idle(now, log);
        }
        if self.pmtud.probes()
            && let Some(answer) = self.poll_path(now, log)
        {
            return answer;
        }
        self.fill_front(self.room_apart());
        let (avail, record) = self.next_record();
        let n = self.new_size(now, avail, wnd_room, record)?;
        Ok(self.emit_new(now, n, log))
    }

    /// The bytes that the next segment of new data may hold, and the end of the record that they are in.
    #[inline]
    fn next_record(&mut self) -> (u64, Option<u64>) {
        let nxt = self.scoreboard.nxt();
        let record = self.buffer.record_end(nxt);
        (record.map_or(self.unsent(), |end| self.unsent().min(end - nxt)), record)
    }

    /// Fills the first buffer of unsent data from the next one, up to the longest super-segment that a congestion window with `room` permits
    /// (`tcp_cwnd_test`, `tcp_grow_skb`).
    #[inline]
    pub(super) fn fill_front(&mut self, room: u64) {
        if self.rules.fills_front_buffer && room >= self.mss {
            let most = room.min(self.gso()).min((self.cwnd / 2).max(self.mss));
            self.buffer.fill_front(self.scoreboard.nxt(), most - most % self.mss);
        }
    }

    /// The length of the next segment of new data, of which `avail` bytes may be in it; `record`: the end of the record that they are in.
    #[inline]
    fn new_size(
        &mut self,
        now: Time,
        avail: u64,
        wnd_room: u64,
        record: Option<u64>,
    ) -> Result<u64, Limited> {
        let mut room = self.room();
        if self.ends_stream(avail) {
            room = room.max(avail);
        }
        if self.cfg.tso.is_none() && avail >= self.mss && wnd_room >= self.mss {
            // One whole segment needs no decision about its size.
            return if room < self.mss { Err(Limited::Cwnd) } else { Ok(self.mss) };
        }
        let end = self.buffer.end();
        let input = SizeInput {
            mss: self.mss,
            avail,
            cwnd_room: room,
            wnd_room,
            cwnd: self.cwnd,
            wnd: self.window.size(),
            max_wnd: if self.persist.overrides_sws() { 0 } else { self.window.largest() },
            gso: self.gso(),
            partial: self.partial_allowed(avail),
            divisor: u64::from(self.cfg.tso_win_divisor.max(1)),
            may_defer: self.may_defer(now),
            cut_by_window: self.rules.window_ends_super_segment && self.cfg.tso.is_some(),
            last: record.is_none_or(|record| record == end),
            closed: self.buffer.is_closed(),
        };
        segment_size::decide(&input)
    }

    /// The length of the segment of new data that would be sent next; `None` if there is none, or a retransmission would be sent.
    pub fn next_new(&mut self, now: Time) -> Option<u64> {
        if self.unsent() == 0 || self.scoreboard.pending() > 0 || self.timers.is_paused() {
            return None;
        }
        self.fill_front(self.room_apart());
        let (avail, record) = self.next_record();
        self.new_size(now, avail, self.peer_room(), record).ok()
    }

    /// The next segment is the last and has the FIN: in Linux it needs no room in the congestion window.
    fn ends_stream(&self, avail: u64) -> bool {
        self.rules.fin_ignores_cwnd && self.buffer.has_fin() && avail == self.unsent() && avail <= self.mss
    }

    /// Nagle and cork: whether a segment smaller than the MSS may leave.
    fn partial_allowed(&self, avail: u64) -> bool {
        let una = self.scoreboard.una();
        self.nagle.allows_partial(&NagleInput {
            rule: self.cfg.nagle,
            nodelay: self.cfg.nodelay,
            corked: self.cfg.cork || self.buffer.has_more(),
            exempt: self.buffer.has_fin() || self.timers.allows_partial() || self.buffer.urgent_end() > una,
            una,
            outstanding: self.scoreboard.outstanding(),
            avail,
            mss: self.mss,
        })
    }

    /// Whether a super-segment may wait for more window.
    fn may_defer(&self, now: Time) -> bool {
        if !self.cfg.tso_defer
            || self.cfg.tso.is_none()
            || self.buffer.pushes_one()
            || matches!(self.state, Ca::Recovery | Ca::Loss)
        {
            return false;
        }
        tso::may_defer(&DeferInput {
            recent_only: self.cfg.tso_defer_recent,
            now,
            // With pacing the last transmission ends when the next may begin (`tcp_wstamp_ns`).
            last_sent: self.last_sent.max(self.control_sent).max(self.pacer.next()),
            head_sent: self.scoreboard.front().map(|head| head.sent_at),
            srtt: self.rtt.srtt(),
        })
    }

    /// If the probe timer releases corked segments, it does not run beside the retransmission timer, which replaces it at each
    /// transmission (`tcp_event_new_data_sent`). It therefore counts from the ACK of everything.
    #[inline]
    fn stop_probe_timer_in_flight(&mut self) {
        if self.rules.probe_timer_uncorks && self.scoreboard.nxt() != self.scoreboard.una() {
            self.timers.release_cork();
        }
    }

    /// Nothing more to send for now, because of `limit`.
    fn rest(&mut self, now: Time, limit: Limited, log: &mut Log) {
        self.refresh_probe(now, log);
        self.pacer.rest();
        self.nagle.end_burst();
        self.pmtud.on_rest();
        let (una, nxt) = (self.scoreboard.una(), self.scoreboard.nxt());
        let room = self.room();
        // If both windows are full, the congestion window is the limit: Linux tests it first (`tcp_write_xmit`).
        let both = limit == Limited::Rwnd && room < self.mss;
        let limit = if both { Limited::Cwnd } else { limit };
        self.cwnd_validation.set(now, limit);
        let waits = match limit {
            Limited::Cwnd => SendLimit::CongestionWindow,
            Limited::Rwnd => SendLimit::ReceiveWindow,
            Limited::App if self.unsent() > 0 => SendLimit::Nagle,
            Limited::App if self.buffer.writer_waits() && nxt > una && !self.has_room() => {
                SendLimit::SendBuffer
            }
            Limited::App => SendLimit::Application,
        };
        self.limits.set(now, self.unless_repairing(waits));
        let filled = limit == Limited::Cwnd || room < self.mss;
        // Retransmissions alone do not show that the window is used (`tcp_write_xmit`).
        let sent = self.cwnd_validation.take_sent();
        if !self.rules.validates_when_sending || sent || filled && self.has_new() {
            self.cwnd_validation.validate(filled, una, nxt, self.out_in_window());
        }
        if limit == Limited::App && room >= self.mss {
            // Linux looks for it when the application writes.
            if self.scoreboard.pending() == 0 && !self.buffer.is_queue() {
                self.deliveries.set_app_limited(self.in_flight());
            }
            self.buffer.check_starved(now, una, nxt);
        }
        self.buffer.on_rest();
        let alone = !self.rules.probe_timer_uncorks || nxt == una;
        self.stop_probe_timer_in_flight();
        if limit == Limited::App && alone && self.unsent() > 0 && (self.cfg.cork || self.buffer.has_more()) {
            self.timers.hold_cork(now, self.cork_time(), log);
        }
        if limit == Limited::Rwnd && nxt == una {
            self.start_persist(now, log);
        }
    }
}
