//! Transmissions: the changes of scoreboard, timers, counters and controller by a segment that leaves.

use super::Sender;
use super::scoreboard::sent::{APP, FIN, PUSH, Sent};
use crate::config::EcnMode;
use crate::log::{CongestionState as Ca, Log, WindowCause};
use crate::messages::{Chunk, WholeRun};
use tcpassay_cc::{Event, Transmissions};
use tcpassay_units::{Bytes, Time, count};

impl Sender {
    /// [`Sender::emit_new`] for full segments, `most` of them at most, if [`Sender::flow`] has returned
    /// [`Flow::Whole`](super::Flow::Whole) with `room`. What a transmission changes is changed once for all of them.
    #[expect(clippy::inline_always, reason = "once for each burst, from one place")]
    #[inline(always)]
    pub fn emit_whole(&mut self, now: Time, mut room: u64, most: u32) -> WholeRun {
        let (una, start) = (self.scoreboard.una(), self.scoreboard.nxt());
        let mss = self.mss;
        // Up to here segments are whole.
        let limit = self.window.edge(una).min(self.buffer.end() - u64::from(self.buffer.has_fin()));
        let most = if self.sends_in_runs() { most } else { 1 };
        let snap = self.deliveries.snapshot(self.clock(now), false);
        let flags = if self.deliveries.app_limited() { APP } else { 0 };
        let (mut end, mut n, mut pushes) = (start, 0, 0_u64);
        loop {
            let from = end;
            end += mss;
            let push = self.buffer.take_simple(end);
            let flags = flags | if push { PUSH } else { 0 };
            self.scoreboard.push(Sent { start: from, sent_at: now, snap, len: self.mss32, flags, tries: 1 });
            pushes |= u64::from(push) << n;
            n += 1;
            room -= mss;
            if n == 1 {
                self.grow_while_sending();
            }
            if n == most || room < mss || end + mss > limit || !self.buffer.continues(end + mss) {
                break;
            }
        }
        self.wake_while_sending(now);
        let bytes = end - start;
        match self.state {
            Ca::Disorder if end - una > self.cwnd => self.limited_sent += bytes,
            Ca::Recovery | Ca::Cwr => self.prr.on_sent(bytes),
            _ => {}
        }
        count(&mut self.stats.bytes_sent, bytes);
        self.last_sent = now;
        self.cwnd_validation.on_sent();
        if end == self.buffer.end() {
            self.timers.release_cork();
        }
        self.pacer.rest();
        self.timers.on_sent();
        self.persist.stop();
        self.probe.mark_stale();
        let cwr = std::mem::take(&mut self.cwr_due);
        let fills = room < mss && end + mss <= limit && self.buffer.is_simple(end + mss);
        WholeRun { start, count: n, pushes, cwr, ect: self.ect, fills }
    }

    /// Whether each of several segments that leave at once fills the window by its length, and nothing is counted for each of them.
    #[inline]
    fn sends_in_runs(&self) -> bool {
        matches!(self.state, Ca::Open | Ca::Cwr) && self.duplicates.is_none()
    }

    /// Sends `n` new bytes, and the FIN if it follows and the peer's window holds it.
    pub(super) fn emit_new(&mut self, now: Time, n: u64, log: &mut Log) -> Chunk {
        let start = self.scoreboard.nxt();
        let end = start + n;
        let stream_end = self.buffer.end();
        let fin = self.buffer.has_fin() && end == stream_end && end < self.window.edge(self.scoreboard.una());
        let idle = self.scoreboard.outstanding() == 0;
        if idle {
            self.timers.restart_user_timeout(now);
            self.nagle.begin_idle_burst();
        }
        let snap = self.deliveries.snapshot(self.clock(now), idle);
        // The segment with the end of a write has PSH in each transmission; with `push_super` every super-segment has it, too.
        let ends = self.buffer.pushes(end);
        let push = ends || (self.cfg.push_super && n > self.mss && !self.is_path_probe(start));
        let mut flags = if fin { FIN } else { 0 } | if self.deliveries.app_limited() { APP } else { 0 };
        if ends {
            flags |= PUSH;
        }
        let len = u32::try_from(n + u64::from(fin)).expect("a segment fits 32 bits");
        self.scoreboard.push(Sent { start, sent_at: now, snap, len, flags, tries: 1 });
        self.check_space_while_sending(now);
        if self.narrowed > 0 {
            self.scoreboard.cut_parts(self.scoreboard.len() - 1, self.mss);
        }
        self.buffer.record_end(self.scoreboard.nxt());
        self.cwnd_validation.on_sent();
        if self.state == Ca::Disorder && self.scoreboard.outstanding() > self.cwnd {
            self.limited_sent += n;
        }
        self.account(now, n, log);
        // A FIN takes a position, but no room in a packet.
        let small = fin || !n.is_multiple_of(self.mss);
        if small && !self.is_path_probe(start) {
            self.nagle.on_small_segment(end + u64::from(fin));
        }
        if small || self.narrowed > 0 {
            self.short_end = end + u64::from(fin);
        }
        if end == stream_end || small {
            self.timers.release_cork();
        }
        if !self.timers.is_rto_running() {
            self.rearm(now, self.rtt.rto(), log);
        }
        // In Linux the part of a segment that the timer of window probes sends starts no timer of tail loss probes (`tcp_write_wakeup`).
        if !(self.rules.probe_shares_timer && self.persist.overrides_sws()) {
            self.probe.mark_stale();
        }
        self.persist.stop();
        let cwr = n > 0 && std::mem::take(&mut self.cwr_due);
        Chunk { span: start..end, fin, push, retransmission: false, cwr, ect: self.ect && n > 0 }
    }

    /// Retransmits record `index`.
    pub(super) fn emit_again(&mut self, now: Time, index: usize, log: &mut Log) -> Chunk {
        let snap = self.deliveries.snapshot(self.clock(now), false);
        let sent = self.scoreboard.resend(index, now, snap, self.deliveries.app_limited());
        if self.narrowed > 0 {
            self.scoreboard.cut_parts(index, self.mss);
        }
        let fin = sent.is(FIN);
        let n = u64::from(sent.len) - u64::from(fin);
        let push = if self.cfg.push_super {
            sent.is(PUSH) || n > self.mss
        } else {
            sent.start + n == self.buffer.end()
        };
        self.undo.on_retransmit(now, &sent);
        self.pmtud.forget_probe();
        self.segment_timer.restart(self.scoreboard.nxt());
        self.next_seg.on_retransmit(sent.end());
        self.stats.bytes_retransmitted += n;
        self.stats.retransmissions += u64::from(sent.len).div_ceil(self.mss);
        self.account(now, n, log);
        // RFC 6675 section 5 step 4.3 allows a restart of the timer; Linux restarts it for the first segment.
        if (sent.start == self.scoreboard.una() && self.timer_restarts()) || !self.timers.is_rto_running() {
            self.rearm(now, self.rtt.rto(), log);
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

    /// The effects that new data and retransmissions have in common: counters, PRR, the controller, pacing.
    fn account(&mut self, now: Time, n: u64, log: &mut Log) {
        self.stats.bytes_sent += n;
        let before = std::mem::replace(&mut self.last_sent, now);
        self.restarted = false;
        self.buffer.on_sent();
        let packets = if n <= self.mss { 1 } else { n.div_ceil(self.mss) };
        if matches!(self.state, Ca::Recovery | Ca::Cwr) {
            self.prr.on_sent(self.delivered_size(n, packets));
        }
        let wanted = self.cc.wants_sent_events();
        if wanted == Transmissions::All || wanted == Transmissions::IntoEmptyPath && self.pipe() <= n {
            let idle = (self.pipe() <= n).then(|| now.since(before));
            let event =
                Event::Sent { bytes: Bytes::new(n), app_limited: self.deliveries.app_limited(), idle };
            self.on_event(now, &event, WindowCause::Sent, log);
            if self.cc.governs_recovery() {
                self.cwnd = self.target();
                // The rate applies to what leaves now (`tcp_event_data_sent`).
                self.update_pacing();
            } else if matches!(self.state, Ca::Open | Ca::Disorder | Ca::Loss) {
                self.cwnd = self.target();
            }
        }
        self.pacer.sent(now, n, packets);
        self.timers.on_sent();
    }
}
