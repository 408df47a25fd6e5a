//! What goes on the wire next: probes, retransmissions, new data, in that order.
//!
//! Sources: RFC 6675 section 4 (`NextSeg`), RFC 3042 (limited transmit), RFC 5681 section 4.1 (idle), RFC 2861.

use super::Sender;
use super::board::{APP, FIN, PUSH, Sent};
use super::pace;
use super::size::{self, Ask};
use super::timeout::Frto;
use crate::config::{AfterIdle, EcnMode, Nagle, Recovery, StackFlavor, TsoAutosize};
use crate::log::{CongestionState as Ca, Log};
use crate::messages::{Chunk, Whole};
use tcpassay_cc::{Event, Limited};
use tcpassay_units::{Bytes, Dur, Time, count};

/// What a sender is about to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    /// Send a whole new segment: [`Sender::emit_whole`].
    Whole,
    /// Nothing, because the congestion window is full: [`Sender::rest_full`].
    Full,
    /// Ask [`Sender::poll`].
    Other,
}

fn halvings(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Sender {
    /// What [`Sender::poll`] is about to do, where that is simple: new data wait and the peer's window holds a whole
    /// segment of them, and nothing has to go before it or be thought of with it.
    #[inline]
    pub fn flow(&self) -> Flow {
        let end = self.board.nxt + self.mss;
        let simple = self.plain
            && !self.timers.probe_due
            && !self.probe.due
            && !self.force
            && self.pacer.rate.is_none()
            && self.board.pending == 0
            && self.frto != Frto::New
            && self.buf.is_simple(end)
            && self.timers.rto != Time::MAX
            && self.timers.stopped == Time::MAX
            && self.board.nxt > self.board.una
            && end <= self.board.una + self.wnd
            && end + u64::from(self.buf.fin) <= self.buf.end;
        if !simple {
            Flow::Other
        } else if self.room() >= self.mss {
            Flow::Whole
        } else {
            Flow::Full
        }
    }

    /// What [`Sender::poll`] does when the window is [full](Flow::Full).
    #[expect(clippy::inline_always, reason = "once for each packet, from one place")]
    #[inline(always)]
    pub fn rest_full(&mut self, now: Time, log: &mut Log) {
        self.refresh_probe(now, log);
        self.pacer.rest();
        self.idle_burst = false;
        self.buf.went = false;
        self.limits.set(now, Limited::Cwnd);
        self.limits.validate(true, self.board.una, self.board.nxt);
    }

    /// The next thing to send, until `None`. What it gives counts as sent at `now`.
    pub fn poll(&mut self, now: Time, log: &mut Log) -> Option<Chunk> {
        if !self.up {
            return None;
        }
        if self.jammed {
            self.refused(now, log);
            return None;
        }
        if self.cfg.mtu_probing.is_some() {
            self.note_path_success();
        }
        if let Some(probe) = self.window_probe(now) {
            return Some(probe);
        }
        if self.probe.due
            && let Some(chunk) = self.send_probe(now, log)
        {
            return Some(chunk);
        }
        if !self.force && self.pacer.blocks(now) && (self.board.pending > 0 || self.has_new()) {
            self.refresh_probe(now, log);
            // The timer of the pacer lets everything go, whatever write this one belongs to.
            (self.buf.one, self.buf.halt) = (false, false);
            return None;
        }
        if std::mem::take(&mut self.buf.halt) {
            return None;
        }
        match self.next(now, log) {
            Ok(chunk) => {
                self.buf.halt = std::mem::take(&mut self.buf.one);
                Some(chunk)
            }
            Err(limit) => {
                self.buf.one = false;
                self.rest(now, limit, log);
                None
            }
        }
    }

    /// [`Sender::poll`], for a segment that leaves `room` bytes for an option that the others do not have.
    pub fn poll_narrow(&mut self, now: Time, room: u32, log: &mut Log) -> Option<Chunk> {
        if room == 0 || self.cfg.mtu_probing.is_some() || !self.up {
            return self.poll(now, log);
        }
        let (mss, mss32) = (self.mss, self.mss32);
        self.mss = mss.saturating_sub(u64::from(room)).max(1);
        self.mss32 = mss32.saturating_sub(room).max(1);
        let chunk = self.poll(now, log);
        (self.mss, self.mss32) = (mss, mss32);
        chunk
    }

    /// RFC 6675 section 4, `NextSeg`.
    fn next(&mut self, now: Time, log: &mut Log) -> Result<Chunk, Limited> {
        if self.frto == Frto::New && !self.force {
            // RFC 5682 step 2b: new data, not retransmissions, until the next ACK decides.
            match self.send_new(now, log) {
                Err(_) if self.board.nxt == self.recover => self.frto = Frto::Off,
                other => return other,
            }
        }
        // Rule 1.
        match self.send_lost(now, log) {
            // Linux sends the FIN whatever waits to be sent again.
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
    pub(super) fn used(&self) -> u64 {
        let out = self.board.outstanding();
        match self.state {
            Ca::Recovery if self.creeps() => self.crept(out),
            // The window is inflated instead.
            Ca::Recovery if !self.sack && self.cfg.recovery != Recovery::Prr => out,
            Ca::Open | Ca::Disorder if !self.cfg.limited_transmit => out,
            // FreeBSD counts duplicates, not what they report (`tcp_do_segment`).
            Ca::Disorder if self.creeps() => out - (u64::from(self.dup_acks.min(2)) * self.mss).min(out),
            // RFC 3042: two segments beyond the window. With SACK each reported segment lets one go (RFC 6675).
            // Linux lets one go for each duplicate (`tcp_packets_in_flight` with `tcp_add_reno_sack`).
            Ca::Open | Ca::Disorder if !self.sack && self.cfg.flavor != StackFlavor::Linux => {
                out - self.dup_bytes.min(2 * self.mss).min(out)
            }
            Ca::Recovery if self.cfg.recovery == Recovery::Prr => self.prr_pipe(),
            Ca::Cwr if self.cfg.cwr_by_prr => self.prr_pipe(),
            _ => self.pipe(),
        }
    }

    #[inline]
    pub(super) fn room(&self) -> u64 {
        self.cwnd.saturating_sub(self.used())
    }

    pub(super) fn gso(&self) -> u64 {
        let Some(gso) = self.cfg.tso.filter(|_| self.urgent <= self.board.una) else { return self.mss };
        let most = match self.autosize(gso.get()) {
            Some(size) => gso.get().min(size.max(u64::from(self.cfg.min_tso_segs) * self.mss)),
            None => gso.get(),
        };
        (most - most % self.mss).max(self.mss)
    }

    /// The length that suits the rate (Linux `tcp_tso_autosize`), where there is such a rule.
    fn autosize(&self, gso: u64) -> Option<u64> {
        let autosize = self.cfg.tso_autosize;
        if autosize == TsoAutosize::Off {
            return self.pacer.rate.map(|rate| rate.bytes_in(Dur::from_millis(1)).get());
        }
        let rate = match (self.pacer.rate.or(self.pacer.first), self.rtt.srtt) {
            (Some(rate), _) => rate,
            (None, Some(srtt)) if !srtt.is_zero() => {
                let busy = self.cwnd.max(self.board.outstanding());
                pace::rate(Bytes::new(busy), self.cc.control, pace::LINUX, srtt)
            }
            _ => return None,
        };
        let mut size = rate.bits_per_sec() / 8 / 1024;
        if autosize == TsoAutosize::RateAndRtt
            && let Some(min) = self.rtt.windowed_min()
        {
            // `tcp_tso_rtt_log` = 9.
            size = size.saturating_add(gso.checked_shr(halvings(min.as_micros() >> 9)).unwrap_or(0));
        }
        Some(size)
    }

    fn send_lost(&mut self, now: Time, log: &mut Log) -> Option<Result<Chunk, Limited>> {
        let index = match self.board.next_lost() {
            Some(index) => index,
            None if self.force && self.board.front().is_some_and(|s| !s.is(super::board::SACKED)) => 0,
            None => {
                self.force = false;
                return None;
            }
        };
        let sent = self.board.at(index);
        let (start, len) = (sent.start, u64::from(sent.len));
        if start != self.board.una && start >= self.board.una + self.wnd {
            return Some(Err(Limited::Rwnd));
        }
        let unit = len.min(self.mss);
        let room = self.room_for_lost();
        if room < unit && !self.force {
            return Some(Err(Limited::Cwnd));
        }
        let most = room.min(self.gso()).max(unit);
        self.board.trim(index, if most >= len { len } else { most - most % self.mss });
        let first = std::mem::take(&mut self.force);
        let chunk = self.emit_again(now, index, log);
        if first && self.state == Ca::Recovery {
            // RFC 6675 section 5 step 4.3: no rescue before what was retransmitted first is acknowledged, and more.
            self.rescue = Some(self.board.at(index).end());
        }
        Some(Ok(chunk))
    }

    /// RFC 6675 section 4 `NextSeg` rules 3 and 4: below the highest SACKed position what is not known to be lost,
    /// and once a recovery the last unSACKed segment (not, as the rule's words allow, when it is in flight again already).
    fn send_unsacked(&mut self, now: Time, log: &mut Log) -> Option<Chunk> {
        if self.room() < self.mss {
            return None;
        }
        if let Some(index) = self.board.next_unsacked(self.high_rxt) {
            self.board.trim(index, self.mss);
            return Some(self.emit_again(now, index, log));
        }
        if self.rescue.is_some_and(|at| self.board.una <= at) {
            return None;
        }
        let last = self.board.last_unsacked()?;
        let last = self.board.trim_to_tail(last, self.mss);
        if self.board.at(last).is(super::board::RETX) {
            return None;
        }
        self.rescue = Some(self.recover);
        let high_rxt = self.high_rxt;
        let chunk = self.emit_again(now, last, log);
        // HighRxt stays where it was.
        self.high_rxt = high_rxt;
        Some(chunk)
    }

    fn send_new(&mut self, now: Time, log: &mut Log) -> Result<Chunk, Limited> {
        let wnd_room = (self.board.una + self.wnd).saturating_sub(self.board.nxt);
        let mut avail = self.unsent();
        let record = self.record_end();
        if let Some(end) = record {
            avail = avail.min(end - self.board.nxt);
        }
        if avail == 0 {
            // A FIN alone: the congestion window is not asked (as Linux), the peer's is.
            return if !self.has_new() {
                Err(Limited::App)
            } else if wnd_room == 0 {
                Err(Limited::Rwnd)
            } else {
                Ok(self.emit_new(now, 0, log))
            };
        }
        if self.timers.stopped != Time::MAX {
            return Err(Limited::Cwnd);
        }
        if self.board.outstanding() == 0 {
            self.after_idle(now, log);
        }
        if self.cfg.mtu_probing.is_some()
            && let Some(answer) = self.poll_path(now, log)
        {
            return answer;
        }
        let mut room = self.room();
        if self.ends_stream(avail) {
            room = room.max(avail);
        }
        if self.cfg.tso.is_none() && avail >= self.mss && wnd_room >= self.mss {
            // One whole segment: nothing to decide.
            return if room < self.mss { Err(Limited::Cwnd) } else { Ok(self.emit_new(now, self.mss, log)) };
        }
        let ask = Ask {
            mss: self.mss,
            avail,
            cwnd_room: room,
            wnd_room,
            cwnd: self.cwnd,
            wnd: self.wnd,
            max_wnd: if self.timers.override_sws { 0 } else { self.max_wnd },
            gso: self.gso(),
            partial: record.is_some_and(|end| end < self.buf.end) || self.partial_allowed(avail),
            divisor: u64::from(self.cfg.tso_win_divisor.max(1)),
            may_defer: self.may_defer(now),
            last: record.is_none_or(|end| end == self.buf.end),
            closed: self.buf.fin || self.buf.records.front().is_some_and(|r| r.closed),
        };
        let n = size::decide(&ask)?;
        Ok(self.emit_new(now, n, log))
    }

    /// The next segment is the last and has the FIN: Linux does not ask the congestion window for it (`tcp_cwnd_test`).
    fn ends_stream(&self, avail: u64) -> bool {
        self.cfg.flavor == StackFlavor::Linux && self.buf.fin && avail == self.unsent() && avail <= self.mss
    }

    /// The end of the record that is being sent. Those that are sent go.
    pub(super) fn record_end(&mut self) -> Option<u64> {
        while self.buf.records.front().is_some_and(|r| r.end <= self.board.nxt) {
            self.buf.records.pop_front();
        }
        self.buf.records.front().map(|r| r.end)
    }

    /// Nagle and cork: whether a segment smaller than the MSS may leave.
    fn partial_allowed(&self, avail: u64) -> bool {
        // Nor does Nagle hold what is urgent.
        if self.buf.fin || self.timers.uncork || self.urgent > self.board.una {
            return true;
        }
        if self.cfg.cork || self.buf.more {
            return false;
        }
        self.cfg.nodelay
            || match self.cfg.nagle {
                Nagle::All => self.board.outstanding() == 0 && avail < self.mss,
                Nagle::Idle => self.board.outstanding() == 0 || self.idle_burst,
                Nagle::Small => self.small_end <= self.board.una,
            }
    }

    /// Linux `tcp_tso_should_defer`: only while the next ACK is about to come.
    fn may_defer(&self, now: Time) -> bool {
        if !self.cfg.tso_defer
            || self.cfg.tso.is_none()
            || self.buf.one
            || matches!(self.state, Ca::Recovery | Ca::Loss)
        {
            return false;
        }
        if self.cfg.tso_defer_recent {
            let near = Dur::from_millis(1);
            // With pacing the last transmission ends when the next may begin (`tcp_wstamp_ns`).
            return now.since(self.last_sent.max(self.pacer.next())) <= near
                && self
                    .board
                    .front()
                    .zip(self.rtt.srtt)
                    .is_some_and(|(head, srtt)| (head.sent_at + srtt).since(now) <= near.min(srtt / 2));
        }
        self.board.front().zip(self.rtt.srtt).is_some_and(|(head, srtt)| now.since(head.sent_at) >= srtt / 2)
    }

    /// RFC 5681 section 4.1: the window after an idle time longer than the RTO.
    fn after_idle(&mut self, now: Time, log: &mut Log) {
        let idle = now.since(self.last_sent);
        let rto = self.rtt.rto();
        // Linux looks when data are written and when the window opens (`tcp_slow_start_after_idle_check`).
        let shut = self.cfg.flavor == StackFlavor::Linux && self.wnd == 0;
        if shut || idle <= rto || self.cfg.after_idle == AfterIdle::Keep || self.stats.bytes_sent == 0 {
            return;
        }
        let cwnd = self.cc.control.cwnd;
        let initial = self.bytes_mss() * u64::from(self.cfg.initial_window.max(1));
        let floor = initial.min(cwnd);
        let restart = match self.cfg.after_idle {
            AfterIdle::Decay => {
                // RFC 2861: half for each RTO of idle time.
                let halvings = (idle / rto).min(63);
                Bytes::new(cwnd.get() >> halvings).max(floor)
            }
            _ => floor,
        };
        self.tell(now, &Event::Resume { idle, rto, restart }, "resume", log);
        self.cwnd = self.cc.control.cwnd.get();
        // Told once for this idle time.
        self.last_sent = now;
    }

    /// [`Sender::emit_new`] of one whole segment, when that is what comes next ([`Flow::Whole`]).
    #[inline]
    pub fn emit_whole(&mut self, now: Time) -> Whole {
        let start = self.board.nxt;
        let end = start + self.mss;
        let snap = self.deliveries.snapshot(now, false);
        let push = match self.buf.records.pop_front() {
            Some(record) => record.push,
            None => end == self.buf.end && !self.buf.quiet,
        };
        let flags = if self.deliveries.app_limited() { APP } else { 0 } | if push { PUSH } else { 0 };
        self.board.push(Sent { start, sent_at: now, snap, len: self.mss32, flags, tries: 1 });
        match self.state {
            Ca::Disorder if end - self.board.una > self.cwnd => self.limited_sent += self.mss,
            Ca::Recovery | Ca::Cwr => self.prr.out += self.mss,
            _ => {}
        }
        count(&mut self.stats.bytes_sent, self.mss);
        self.last_sent = now;
        self.buf.went = true;
        if end == self.buf.end {
            self.timers.release_cork();
        }
        self.pacer.rest();
        self.timers.uncork = false;
        self.timers.stop_persist();
        self.probe.stale = true;
        let cwr = std::mem::take(&mut self.cwr_due);
        Whole { start, push, cwr, ect: self.ect }
    }

    /// Sends `n` new bytes, and the FIN when it follows and the peer's window holds it.
    pub(super) fn emit_new(&mut self, now: Time, n: u64, log: &mut Log) -> Chunk {
        let start = self.board.nxt;
        let end = start + n;
        let wnd_end = self.board.una + self.wnd;
        let fin = self.buf.fin && end == self.buf.end && end < wnd_end;
        let idle = self.board.outstanding() == 0;
        if idle {
            self.timers.progress = now;
            self.idle_burst = true;
        }
        let snap = self.deliveries.snapshot(now, idle);
        // What a write ended is pushed whenever it is sent; a super-segment each time that it is one.
        let ends = match self.buf.records.front() {
            Some(record) if record.end == end => record.push,
            _ => end == self.buf.end && !self.buf.quiet,
        };
        let push = ends || (self.cfg.push_super && n > self.mss && !self.is_path_probe(start));
        let mut flags = if fin { FIN } else { 0 } | if self.deliveries.app_limited() { APP } else { 0 };
        if ends {
            flags |= PUSH;
        }
        let len = u32::try_from(n + u64::from(fin)).expect("a segment fits 32 bits");
        self.board.push(Sent { start, sent_at: now, snap, len, flags, tries: 1 });
        self.record_end();
        if self.state == Ca::Disorder && self.board.outstanding() > self.cwnd {
            self.limited_sent += n;
        }
        self.account(now, n, log);
        if !n.is_multiple_of(self.mss) && !self.is_path_probe(start) {
            self.small_end = end;
        }
        if end == self.buf.end || !n.is_multiple_of(self.mss) {
            self.timers.release_cork();
        }
        if self.timers.rto == Time::MAX {
            self.timers.set_rto(now, self.rtt.rto(), log);
        }
        self.timers.stop_persist();
        self.probe.stale = true;
        let cwr = n > 0 && std::mem::take(&mut self.cwr_due);
        Chunk { span: start..end, fin, push, retransmission: false, cwr, ect: self.ect && n > 0 }
    }

    /// Sends record `index` again.
    pub(super) fn emit_again(&mut self, now: Time, index: usize, log: &mut Log) -> Chunk {
        let snap = self.deliveries.snapshot(now, false);
        let sent = self.board.resend(index, now, snap, self.deliveries.app_limited());
        let fin = sent.is(FIN);
        let n = u64::from(sent.len) - u64::from(fin);
        let push =
            if self.cfg.push_super { sent.is(PUSH) || n > self.mss } else { sent.start + n == self.buf.end };
        self.undo.on_retransmit(now, &sent);
        self.forget_probe();
        self.timed = self.board.nxt;
        self.high_rxt = self.high_rxt.max(sent.end());
        self.stats.bytes_retransmitted += n;
        self.stats.retransmissions += u64::from(sent.len).div_ceil(self.mss);
        self.account(now, n, log);
        // RFC 6675 section 5 step 4.3 lets the timer start anew; Linux does when it is the first segment.
        if (sent.start == self.board.una && self.timer_restarts()) || self.timers.rto == Time::MAX {
            self.timers.set_rto(now, self.rtt.rto(), log);
        }
        Chunk {
            span: sent.start..sent.start + n,
            fin,
            push,
            retransmission: true,
            cwr: self.cfg.cwr_on_retransmission && n > 0 && std::mem::take(&mut self.cwr_due),
            ect: self.ect && self.ecn == EcnMode::Dctcp,
        }
    }

    fn account(&mut self, now: Time, n: u64, log: &mut Log) {
        self.stats.bytes_sent += n;
        self.last_sent = now;
        self.buf.went = true;
        let packets = if n <= self.mss { 1 } else { n.div_ceil(self.mss) };
        if matches!(self.state, Ca::Recovery | Ca::Cwr) {
            self.prr.out += self.delivered_size(n, packets);
        }
        if self.cfg.flavor == StackFlavor::Linux {
            self.pacer.sent_linux(now, n, packets);
        } else {
            self.pacer.sent(now, n);
        }
        self.timers.uncork = false;
        if self.cc.wants_sent_events {
            self.tell(now, &Event::Sent { bytes: Bytes::new(n) }, "sent", log);
            if matches!(self.state, Ca::Open | Ca::Disorder | Ca::Loss) {
                self.cwnd = self.cc.control.cwnd.get();
            }
        }
    }

    /// Nothing more to send for now, because of `limit`.
    fn rest(&mut self, now: Time, limit: Limited, log: &mut Log) {
        self.refresh_probe(now, log);
        self.pacer.rest();
        self.idle_burst = false;
        self.path.thought = false;
        let room = self.room();
        // Where both windows are full Linux asks for its own first (`tcp_write_xmit`).
        let both = limit == Limited::Rwnd && room < self.mss;
        let limit = if both { Limited::Cwnd } else { limit };
        self.limits.set(now, limit);
        let filled = limit == Limited::Cwnd || room < self.mss;
        self.limits.validate(filled, self.board.una, self.board.nxt);
        if limit == Limited::App && room >= self.mss && self.board.pending == 0 {
            self.deliveries.set_app_limited(self.pipe());
        }
        if limit == Limited::App && room >= self.mss && self.is_starved() {
            self.starved.start(now);
        }
        self.buf.went = false;
        // In Linux that timer begins when nothing is in flight (`tcp_check_probe_timer`).
        let alone = self.cfg.flavor != StackFlavor::Linux || self.board.outstanding() == 0;
        if limit == Limited::App && alone && self.unsent() > 0 && (self.cfg.cork || self.buf.more) {
            self.timers.hold_cork(now, self.cork_time(), log);
        }
        if limit == Limited::Rwnd && self.board.outstanding() == 0 {
            let (wait, least, most) = self.persist_wait();
            self.timers.start_persist(now, wait, least, most, log);
        }
    }
}
