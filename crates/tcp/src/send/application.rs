//! Calls of the application and the host: writes, and options of the socket.

use super::Sender;
use super::output::send_buffer::WriteStep;
use crate::log::Log;
use std::sync::Arc;
use tcpassay_cc::{Controller, Transmissions};
use tcpassay_units::{Bytes, Dur, Time};

impl Sender {
    /// The application writes `n` bytes. Returns how many were taken.
    pub fn write(&mut self, now: Time, n: u64) -> u64 {
        self.buffer.write(now, n, self.scoreboard.una(), self.scoreboard.nxt())
    }

    /// Bytes that [`write`](Sender::write) would accept.
    pub fn writable(&self) -> u64 {
        self.buffer.writable(self.scoreboard.una(), self.scoreboard.nxt())
    }

    /// One step of a write of which `n` bytes are left: up to the end of a buffer. Returns how many were taken, zero if there is
    /// no room, and whether something may be sent before the next step. Before the handshake is done, and if the queue
    /// is a stream, everything is one step. `options`: bytes by which SACK blocks shorten segments at present.
    pub fn write_step(
        &mut self,
        now: Time,
        n: u64,
        first: bool,
        more: bool,
        options: u64,
        log: &mut Log,
    ) -> (u64, bool) {
        if !self.buffer.is_queue() || !self.up || self.buffer.has_fin() {
            self.buffer.set_more(more);
            return (self.write(now, n), true);
        }
        if first {
            self.check_app_limited();
        }
        let goal = match self.call_goal.filter(|_| !first) {
            Some(goal) => goal,
            None => self.size_goal(options),
        };
        let step = WriteStep { now, bytes: n, first, more, goal, largest_window: self.window.largest() };
        let progress = self.progress();
        let (taken, sends) = self.buffer.write_step(&step, &progress);
        if self.buffer.take_opened() && self.scoreboard.outstanding() == 0 {
            self.restart_after_idle(now, log);
        }
        self.call_goal = (taken > 0 && taken < n).then_some(goal);
        (taken, sends)
    }

    /// A write begins: whether the application had left too little to fill the window (`tcp_rate_check_app_limited`).
    fn check_app_limited(&mut self) {
        let flight = self.in_flight();
        if self.unsent() < self.mss
            && self.buffer.below() == 0
            && flight < self.cwnd
            && self.scoreboard.pending() == 0
        {
            self.deliveries.set_app_limited(flight);
        }
    }

    /// Sets the memory of the packets that wait in the queues of the own host.
    pub fn set_below(&mut self, memory: u64) {
        self.buffer.set_below(memory);
    }

    /// Returns true once if a write waits for a packet to leave the own host.
    pub fn take_autocorked(&mut self) -> bool {
        self.buffer.take_autocorked()
    }

    /// Capacity of one buffer (`tcp_xmit_size_goal`): a super-segment, at most half of the largest window.
    fn size_goal(&self, options: u64) -> u64 {
        let half = self.window.half_of_largest();
        let mss = self.mss.saturating_sub(options).max(1);
        let most = self.cfg.tso.map_or(mss, Bytes::get);
        let most = if half > 0 { most.min(half) } else { most };
        (most - most % mss).max(mss)
    }

    /// See [`SendBuffer::written`](super::output::send_buffer::SendBuffer::written).
    pub fn written(&self) -> (u64, u64, usize, bool) {
        self.buffer.written()
    }

    /// Closes the stream: a FIN follows the written data.
    pub fn finish(&mut self) {
        self.buffer.finish();
    }

    /// More follows what is written next (`MSG_MORE`).
    pub fn set_more(&mut self, more: bool) {
        self.buffer.set_more(more);
    }

    /// Ends a record: later data are not sent in a segment with earlier data.
    pub fn end_record(&mut self) {
        self.buffer.end_record(self.scoreboard.una());
    }

    /// Whether a waiting writer should be woken: a third of the buffer is free (Linux
    /// `sk_stream_is_writeable`) and some of it may be written.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.buffer.has_room(&self.progress())
    }

    /// A writer waits for room: if the window is not full the buffer grows (`tcp_new_space`). Returns whether it may write now.
    #[inline]
    pub fn check_space(&mut self) -> bool {
        if self.buffer.is_queue() && self.pipe() < self.cwnd {
            self.expand_buffer();
        }
        self.buffer.take_woken() || self.has_room()
    }

    /// See [`Connection::set_taken`](crate::Connection::set_taken).
    pub fn set_taken(&mut self, bytes: Option<Bytes>) -> bool {
        let end = self.buffer.end();
        self.buffer.set_reaches(bytes.map(|bytes| end + bytes.get()))
    }

    /// After an ACK and what it released: the buffer grows for a writer that found no room (`tcp_check_space`). Returns whether
    /// the writer is woken.
    pub fn on_ack_space(&mut self, now: Time) -> bool {
        if !self.buffer.writer_waits() {
            return self.buffer.take_woken();
        }
        self.check_space();
        let progress = self.progress();
        self.buffer.wake_writer(now, &progress)
    }

    /// New data were sent: for a writer that found no room the buffer grows before the window is full, and the writer is woken before
    /// what is sent next is divided into more buffers (`tcp_event_new_data_sent` calls `tcp_check_space` since Linux 5.19).
    #[inline]
    pub(super) fn check_space_while_sending(&mut self, now: Time) {
        self.grow_while_sending();
        self.wake_while_sending(now);
    }

    /// The first part of [`Sender::check_space_while_sending`].
    #[inline]
    pub(super) fn grow_while_sending(&mut self) {
        if self.buffer.grows_for(self.cwnd) && self.pipe() < self.cwnd {
            self.expand_buffer();
        }
    }

    /// The second part.
    #[inline]
    pub(super) fn wake_while_sending(&mut self, now: Time) {
        if self.buffer.writer_waits() && self.buffer.is_queue() {
            let progress = self.progress();
            self.buffer.wake_writer(now, &progress);
        }
    }

    pub(super) fn expand_buffer(&mut self) {
        // BBR sends in a recovery, too (`bbr_sndbuf_expand`).
        let windows = if self.cc.governs_recovery() { 3 } else { 2 };
        self.buffer.expand(self.mss, self.cwnd, self.dup_thresh.threshold(), windows);
    }

    /// The queue is made of buffers.
    pub fn writes_in_steps(&self) -> bool {
        self.buffer.is_queue()
    }

    /// Whether everything that was written is acknowledged.
    pub fn is_flushed(&self) -> bool {
        self.scoreboard.una() >= self.buffer.end()
    }

    /// The size of the send buffer at present.
    pub fn buffer_size(&self) -> u64 {
        self.buffer.size()
    }

    /// Sets a fixed size of the send buffer.
    pub fn set_send_buffer(&mut self, size: u64) {
        self.buffer.set_size(size);
    }

    /// Changes `app.notsent_lowat`.
    pub fn set_notsent_lowat(&mut self, low: Option<Bytes>) {
        self.buffer.set_notsent_lowat(low);
    }

    /// Marks the data written so far as urgent (`MSG_OOB`): every segment that begins before their end has
    /// the urgent pointer.
    pub fn mark_urgent(&mut self) {
        self.buffer.mark_urgent();
        self.simple = false;
    }

    /// Bytes from `start` to the end of the urgent data, if that is beyond it.
    pub fn urgent_from(&self, start: u64) -> Option<u64> {
        self.buffer.urgent_end().checked_sub(start).filter(|&n| n > 0)
    }

    /// Replaces the congestion controller (`TCP_CONGESTION`).
    pub fn set_controller(&mut self, cc: Box<dyn Controller>) {
        self.cc.replace(cc);
        self.simple &= self.cc.wants_sent_events() != Transmissions::All;
    }

    /// The last round-trip time that was measured since the last call.
    pub fn take_rtt(&mut self) -> Option<Dur> {
        self.rtt.take_sample()
    }

    /// Sets whether the local interface drops all packets of the connection. Dropped data are sent again
    /// when their timer fires.
    pub fn set_local_drop(&mut self, on: bool) {
        self.local_drop.set(on);
        self.simple = false;
    }

    /// `app.nodelay`; switching it on releases what waits (`__tcp_sock_set_nodelay` of Linux).
    pub fn set_nodelay(&mut self, on: bool) {
        Arc::make_mut(&mut self.cfg).nodelay = on;
        if on {
            self.buffer.forget_more();
            if self.cfg.cork && self.unsent() > 0 {
                self.timers.allow_partial();
            }
        }
    }

    /// `app.cork`.
    pub fn set_cork(&mut self, on: bool) {
        Arc::make_mut(&mut self.cfg).cork = on;
        if !on {
            self.timers.stop_cork();
        }
    }

    /// `app.user_timeout`, from now on.
    pub fn set_user_timeout(&mut self, timeout: Option<Dur>) {
        Arc::make_mut(&mut self.cfg).user_timeout = timeout;
        self.timers.set_user_timeout(timeout);
    }

    /// Bounds of the retransmission timeout from now on; a running timer is not changed.
    pub fn set_rto_bounds(&mut self, min: Dur, max: Dur) {
        let rto = &mut Arc::make_mut(&mut self.cfg).rto;
        (rto.min, rto.max) = (min, max);
        self.rtt.set_bounds(*rto);
    }
}
