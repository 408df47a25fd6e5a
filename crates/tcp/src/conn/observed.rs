//! A connection that follows the packets of a real stack, of which nothing but the packets is known.
//!
//! The receiver processes what arrived and decides about ACKs. What the sender sends is not selected but observed, and so are the windows that
//! are announced, because the reads of the application and the memory of its packets are not in the packets.

use super::Connection;
use crate::log::State;
use crate::messages::WindowMove;
use tcpassay_units::{Bytes, Time};
use tcpassay_wire::{Flags, Segment};

impl Connection {
    /// The windows are those of the real stack from now on. `shift`: the scale that the real stack offers. Call it before the first segment.
    pub fn observe_windows(&mut self, shift: Option<u8>) {
        self.recv.observe_windows(shift);
    }

    /// The segment that has just arrived moves the window like this. Call it before [`Connection::poll_control`].
    pub fn observe_window_move(&mut self, moved: WindowMove) {
        self.recv.observe_window_move(moved);
    }

    /// The real stack announced this window in a segment with this ACK field.
    pub fn observe_window(&mut self, segment: &Segment) {
        let Some(ack) = segment.ack.unwrap_near(self.irs, self.recv.nxt()) else { return };
        self.recv.observe_edge(ack + (u64::from(segment.window) << self.recv.shift()));
    }

    /// Whether the window of `segment`, which acknowledges everything, has opened enough for an ACK of its own, if the buffer holds
    /// `buffer`.
    pub fn is_update(&mut self, segment: &Segment, buffer: Bytes) -> bool {
        let edge = self.recv.nxt() + (u64::from(segment.window) << self.recv.shift());
        self.recv.is_update(edge, buffer.get())
    }

    /// A segment with payload or FIN left (for others [`Connection::observe_ack`]). Returns the segment that this connection would have
    /// written, with the same positions; `None` if
    /// positions before it have not left.
    pub fn observe_sent(&mut self, now: Time, segment: &Segment) -> Option<Segment> {
        if !self.synchronised() {
            return None;
        }
        let seq = segment.seq.unwrap_near(self.iss, self.send.snd_nxt())?;
        let fin = segment.flags.has(Flags::FIN);
        let span = seq..seq + u64::from(segment.len);
        let chunk = self.send.observe(now, &span, fin, &mut self.log)?;
        if fin && matches!(self.state, State::Established | State::CloseWait) {
            self.shutdown(now);
        }
        let mut out = Segment::default();
        let _ = self.make_data(now, &chunk, &mut out);
        Some(out)
    }

    /// A segment without payload left that is no ACK of what arrived: a probe, or an update of the window. Returns the segment that
    /// this connection would have written.
    pub fn observe_ack(&mut self, now: Time, segment: &Segment) -> Segment {
        let seq = segment.seq.unwrap_near(self.iss, self.send.snd_nxt()).unwrap_or(self.send.snd_nxt());
        let mut out = Segment::default();
        let _ = self.make_ack(now, seq, &mut out);
        self.recv.ack_sent(now, false, 1, &mut self.log);
        out
    }

    /// The next deadline of the receiver and of the handshake: [`Connection::next_timer`] without the sender's.
    pub fn next_receiver_timer(&self) -> Option<Time> {
        let at = self.recv.timer().min(self.open.syn().deadline()).min(self.linger);
        (at != Time::MAX && self.state != State::Closed).then_some(at)
    }

    /// Runs the timers of [`Connection::next_receiver_timer`].
    pub fn on_receiver_timer(&mut self, now: Time) {
        self.clock = now;
        if self.state != State::Closed {
            self.run_own_timers(now);
        }
    }

    /// The earliest time at which a timer retransmits what is outstanding: that of the retransmission timeout or, with tail loss probes, two
    /// round trips after the last transmission (RFC 8985 section 7.2). `None` while no timer runs.
    pub fn retransmits_from(&self) -> Option<Time> {
        self.send.retransmits_from()
    }

    /// The delayed ACK, whose timer is about to expire, is not sent for that at the arrival that follows: the phase of the ticks of the
    /// real stack is unknown (`tcp_send_delayed_ack`). Returns whether such a timer runs.
    pub fn postpone_ack(&mut self, now: Time) -> bool {
        self.recv.postpone_ack(now)
    }

    /// Whether both decide alike about what arrives from now on, as far as connections of this kind differ.
    pub fn receives_like(&self, other: &Connection) -> bool {
        self.state == other.state && self.recv.is_like(&other.recv) && self.ts.recent() == other.ts.recent()
    }
}
