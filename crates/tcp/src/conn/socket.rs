//! The calls of an application (RFC 9293 section 3.9.1).

use super::{AgreedOptions, Connection};
use crate::config::{EcnMode, Keepalive};
use crate::log::State;
use std::sync::Arc;
use tcpassay_units::{Bytes, Dur, SeqNum, Time};
use tcpassay_wire::Ecn;

impl Connection {
    /// Queues up to `n` bytes to be sent. Returns how many were accepted (send buffer, `notsent_lowat`), zero if the call
    /// would block or nothing may be sent any more.
    pub fn write(&mut self, now: Time, n: Bytes) -> Bytes {
        if !self.may_send() {
            return Bytes::ZERO;
        }
        self.touched = true;
        Bytes::new(self.send.write(now, n.get()))
    }

    /// Number of bytes that [`write`](Connection::write) would accept.
    pub fn writable(&self) -> Bytes {
        if self.may_send() { Bytes::new(self.send.writable()) } else { Bytes::ZERO }
    }

    /// Whether an application that waits to write should be woken: a third of the buffer is free, as in Linux
    /// (`sk_stream_is_writeable`).
    pub fn has_room(&self) -> bool {
        self.may_send() && self.send.has_room()
    }

    /// [`write`](Connection::write), and whether more data follow immediately (`MSG_MORE`): then a partial segment at the end waits for them.
    pub fn write_more(&mut self, now: Time, n: Bytes, more: bool) -> Bytes {
        self.send.set_more(more);
        self.write(now, n)
    }

    /// Replaces the congestion controller (`TCP_CONGESTION`). The window does not change.
    pub fn set_controller(&mut self, cc: Box<dyn tcpassay_cc::Controller>) {
        self.send.set_controller(cc);
    }

    /// Marks the data written so far as urgent (RFC 9293 section 3.8.5; `MSG_OOB`).
    pub fn mark_urgent(&mut self) {
        self.send.mark_urgent();
    }

    /// Unread bytes before the last byte of the peer's urgent data, while they are unread; and whether this byte has arrived.
    pub fn urgent_ahead(&self) -> Option<(Bytes, bool)> {
        self.recv.urgent_ahead().map(|(n, there)| (Bytes::new(n), there))
    }

    /// Sets the path MTU as `size`, the largest segment without options (MTU minus headers). `too_long`: a
    /// router reported a longer segment as too long (RFC 1191), so that longer segments are retransmitted.
    pub fn set_path(&mut self, now: Time, size: Bytes, too_long: bool) {
        self.touched = true;
        self.send.set_path(now, size.get(), too_long, &mut self.log);
    }

    /// Limits the MSS that later SYNs announce to `size`, because of the path MTU. A SYN with data is sent
    /// again at once, without the data (`tcp_simple_retransmit` of Linux).
    pub fn set_syn_path(&mut self, _now: Time, size: Bytes) {
        if self.state == State::SynSent && size < self.cfg.mss {
            Arc::make_mut(&mut self.cfg).mss = size;
            if self.open.carried() > 0 {
                self.open.repeat_syn();
            }
        }
    }

    /// One step of a write, of which `n` bytes are left; `first`: it is the first step of the call. If the send queue is made of buffers
    /// ([`Config::skbs`](crate::Config)), the step fills one buffer; otherwise it writes everything that there is room for.
    /// Between the steps comes [`poll_transmit`](Connection::poll_transmit). Zero when the call would block.
    pub fn write_step(&mut self, now: Time, n: Bytes, first: bool, more: bool) -> Bytes {
        if !self.may_send() {
            return Bytes::ZERO;
        }
        let (taken, sends) =
            self.send.write_step(now, n.get(), first, more, u64::from(self.sack_room()), &mut self.log);
        self.touched |= sends;
        Bytes::new(taken)
    }

    /// Before a step of a write: the memory of the packets of this connection that wait in the queues of its own host, with
    /// the overhead of buffers. While any wait, Linux may delay the end of a write.
    pub fn note_host_queue(&mut self, memory: Bytes) {
        self.send.set_below(memory.get());
    }

    /// Returns true once if a write waits until a packet leaves the own host. Then the host calls
    /// [`packet_left`](Connection::packet_left) at this time.
    pub fn take_autocorked(&mut self) -> bool {
        self.send.take_autocorked()
    }

    /// Whether [`write_step`](Connection::write_step) takes what there is room for in more than one step.
    pub fn writes_in_steps(&self) -> bool {
        self.send.writes_in_steps()
    }

    /// [`has_room`](Connection::has_room) for an application that found no room before: the send buffer may grow
    /// (`tcp_check_space` of Linux).
    #[inline]
    pub fn check_space(&mut self) -> bool {
        self.may_send() && self.send.check_space()
    }

    /// The writes up to the next call of this function take `bytes` in all and then find no room, whatever room there is; `None`: there is as
    /// much room as the send buffer has. Returns whether the writes since the last call found another room than they took.
    pub fn set_taken(&mut self, bytes: Option<Bytes>) -> bool {
        self.send.set_taken(bytes)
    }

    /// A segment arrived, and the data that it released have left: the send buffer may grow for a writer that did not wait
    /// (`tcp_check_space` of Linux). Returns whether that writer is woken.
    pub fn make_space(&mut self, now: Time) -> bool {
        self.may_send() && self.send.on_ack_space(now)
    }

    /// The size of the send buffer at present.
    pub fn send_buffer(&self) -> Bytes {
        Bytes::new(self.send.buffer_size())
    }

    /// Ends a record: no segment contains data written before and after this call (`MSG_EOR`).
    pub fn end_record(&mut self) {
        self.send.end_record();
    }

    /// Whether everything that was written is acknowledged.
    pub fn is_flushed(&self) -> bool {
        self.send.is_flushed()
    }

    /// The last round-trip time that was measured since the last call; for collectors.
    pub fn take_rtt(&mut self) -> Option<Dur> {
        self.send.take_rtt()
    }

    fn may_send(&self) -> bool {
        matches!(self.state, State::SynSent | State::SynReceived | State::Established | State::CloseWait)
            && !self.open.finishes()
    }

    /// Reads up to `n` bytes in order. Returns how many were read. May open the window enough for an ACK.
    #[inline]
    pub fn read(&mut self, now: Time, n: Bytes) -> Bytes {
        if !self.rules.reads_with_cached_clock {
            self.cached_clock = now;
        }
        Bytes::new(self.recv.read(self.cached_clock, n.get()))
    }

    /// Number of bytes that [`read`](Connection::read) would return.
    #[inline]
    pub fn readable(&self) -> Bytes {
        Bytes::new(self.recv.readable())
    }

    /// The peer has closed and everything it sent is read.
    pub fn peer_closed(&self) -> bool {
        self.recv.finished() && self.recv.readable() == 0
    }

    /// The peer has closed, although some of what it sent may not be read yet.
    pub fn peer_has_closed(&self) -> bool {
        self.recv.finished()
    }

    /// Whether both SYNs were acknowledged, also if the connection has ended since.
    pub fn was_established(&self) -> bool {
        self.send.is_up()
    }

    /// Whether the flags AE, CWR and ECE are the counter of accurate ECN: the handshake agreed on it, and nothing has ended it.
    #[inline]
    pub fn counts_marks(&self) -> bool {
        self.ecn == EcnMode::Accurate
    }

    /// The result of the handshake.
    pub fn agreed_options(&self) -> AgreedOptions {
        let scaled = self.cfg.window_scale && self.open.peer_scales();
        AgreedOptions {
            timestamps: self.ts.is_on(),
            sack: self.sack,
            scaled,
            ecn: self.ecn != EcnMode::Off,
            accurate: self.ecn == EcnMode::Accurate,
            peer_shift: self.window.shift(),
            our_shift: if scaled { self.recv.first_window().1 } else { 0 },
            announced_mss: self.cfg.mss,
        }
    }

    /// The third segment of the handshake may wait for data that are about to be written (Linux: an application writes, or
    /// `TCP_DEFER_ACCEPT` is set).
    pub fn hold_handshake_ack(&mut self, hold: bool) {
        self.open.set_hold_ack(hold && self.rules.may_hold_handshake_ack);
    }

    /// Numbers of the next octet that we send, and that we expect (SND.NXT and RCV.NXT of RFC 9293 section 3.3.1).
    pub fn next_numbers(&self) -> (SeqNum, SeqNum) {
        (self.iss.at(self.send.snd_nxt()), self.irs.at(self.recv.nxt()))
    }

    /// Payload of a segment without options: the smaller of both MSS, once the peer's is known.
    pub fn segment_size(&self) -> Bytes {
        self.cfg.mss.min(self.open.peer_mss().unwrap_or(self.cfg.mss))
    }

    /// Urgent data have been announced and not been read (RFC 9293 section 3.8.5).
    pub fn is_urgent(&self) -> bool {
        self.recv.is_urgent()
    }

    /// Closes the sending direction: a FIN follows the written data. The application can still read (half
    /// close).
    pub fn shutdown(&mut self, now: Time) {
        match self.state {
            State::Listen | State::SynSent => self.end(now, None, "closed"),
            State::SynReceived if self.orphan && self.is_crossed() => {
                self.agree(now, Ecn::NotEct, None, 0);
                self.open.close();
                // Once the SYN-ACK has left.
                self.streams = !self.open.syn().is_due();
                self.send.finish();
                self.set_state(now, State::FinWait1);
            }
            State::SynReceived if !self.is_fast_open_child() => self.open.finish_later(),
            State::Established | State::SynReceived => {
                self.touched = true;
                self.send.finish();
                self.set_state(now, State::FinWait1);
            }
            State::CloseWait => {
                self.touched = true;
                self.send.finish();
                self.set_state(now, State::LastAck);
            }
            _ => {}
        }
    }

    /// The SYNs have crossed, and a close is not deferred to the end of the handshake.
    fn is_crossed(&self) -> bool {
        !self.open.is_passive() && self.rules.closes_before_handshake
    }

    /// Neither writes nor reads any more. If data are unread, a reset informs the peer that they are lost
    /// (RFC 2525 section 2.17); otherwise the connection closes in order.
    pub fn close(&mut self, now: Time) {
        if self.orphan {
            return;
        }
        if self.cfg.reset_unread && self.recv.readable() > 0 {
            self.abort(now);
            return;
        }
        self.orphan = true;
        if self.state == State::FinWait2 {
            self.linger = now.saturating_add(self.cfg.fin_wait2);
        }
        self.shutdown(now);
    }

    /// Aborts the connection at once, with a reset if the peer needs one (RFC 9293 section 3.10.5); also a
    /// close with a linger time of zero.
    pub fn abort(&mut self, now: Time) {
        self.orphan = true;
        match self.state {
            State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait => self.reset = Some(self.own_reset(now)),
            _ => {}
        }
        self.end(now, None, "aborted");
    }

    /// Disables (`on`) or enables Nagle's algorithm.
    pub fn set_nodelay(&mut self, _now: Time, on: bool) {
        self.touched = true;
        self.send.set_nodelay(on);
    }

    /// Sets `TCP_CORK`: only full segments are sent, for at most 200 ms.
    pub fn set_cork(&mut self, _now: Time, on: bool) {
        self.touched = true;
        self.send.set_cork(on);
    }

    /// Changes `app.sndbuf`. Data in the buffer remain there.
    pub fn set_send_buffer(&mut self, size: Bytes) {
        self.send.set_send_buffer(size.get());
    }

    /// Sets Linux's receive buffer, including overhead. It no longer grows.
    pub fn set_recv_memory(&mut self, size: Bytes) {
        if let Some(memory) = self.recv.memory() {
            memory.set_size(size.get());
        }
    }

    /// The application has taken the socket from the listening one.
    pub fn accepted(&mut self) {
        if let Some(memory) = self.recv.memory() {
            memory.own();
        }
    }

    /// Sets whether the local interface drops all packets of the connection. The host drops segments without
    /// data.
    pub fn set_local_drop(&mut self, on: bool) {
        self.send.set_local_drop(on);
    }

    /// Changes `app.notsent_lowat`.
    pub fn set_notsent_lowat(&mut self, low: Option<Bytes>) {
        self.send.set_notsent_lowat(low);
    }

    /// Changes the time for which a closed connection waits for the peer's FIN (`TCP_LINGER2`).
    pub fn set_fin_wait2(&mut self, wait: Dur) {
        Arc::make_mut(&mut self.cfg).fin_wait2 = wait;
    }

    /// Changes the number of retransmissions of a SYN (`TCP_SYNCNT` of Linux).
    pub fn set_syn_retries(&mut self, retries: u32) {
        Arc::make_mut(&mut self.cfg).syn_retries = retries;
    }

    /// Changes `app.user_timeout`.
    pub fn set_user_timeout(&mut self, timeout: Option<Dur>) {
        Arc::make_mut(&mut self.cfg).user_timeout = timeout;
        self.send.set_user_timeout(timeout);
    }

    /// The retransmission timeout keeps within these bounds, and an ACK is delayed for no longer than `delay`, from now on
    /// (`TCP_RTO_MIN_US`, `TCP_RTO_MAX_MS` and `TCP_DELACK_MAX_US` of Linux).
    pub fn set_timer_bounds(&mut self, rto_min: Dur, rto_max: Dur, delay: Dur) {
        let cfg = Arc::make_mut(&mut self.cfg);
        (cfg.rto.min, cfg.rto.max, cfg.delayed_ack.timeout) = (rto_min, rto_max, delay);
        self.send.set_rto_bounds(rto_min, rto_max);
        self.recv.set_longest_delay(delay);
    }

    /// Changes `app.keepalive`.
    pub fn set_keepalive(&mut self, keepalive: Option<Keepalive>) {
        Arc::make_mut(&mut self.cfg).keepalive = keepalive;
    }

    /// Sets whether every segment is acknowledged at once. Switching it on sends the ACK that is delayed.
    pub fn set_quickack(&mut self, _now: Time, on: bool) {
        self.recv.set_quickack(on);
    }
}
