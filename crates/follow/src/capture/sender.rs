//! What the sender of an end may not do, whatever its application wrote: bounds of the profile.

use super::packet::CapturedPacket;
use tcpassay_tcp::{Config, Connection};
use tcpassay_units::{Dur, SeqNum, Time};
use tcpassay_wire::Flags;

/// What a sender did against the bounds of the profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// More bytes than the initial window and a probe, before anything was acknowledged.
    InitialWindow {
        /// The largest number of bytes.
        most: u64,
    },
    /// A retransmission although nothing shows a loss, and no timer fires before this time.
    Early(Time),
}

/// What the packets of a connection tell about its sender.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// Segments of the initial window.
    initial: u64,
    /// The first number of data, the first one that is not acknowledged, and the one after the last that left.
    first: SeqNum,
    una: SeqNum,
    high: SeqNum,
    /// A duplicate ACK or a SACK block arrived since `una` moved, or the window was closed: a loss may be known.
    evidence: bool,
    /// Without SACK, duplicate ACKs show losses up to here, also after a part is acknowledged (`tcp_remove_reno_sacks`).
    doubtful: Option<SeqNum>,
    /// Whether the connection has SACK.
    sack: bool,
    /// A retransmission left; nothing is judged before this is acknowledged.
    repairs: Option<SeqNum>,
}

impl Bounds {
    /// `iss`: the initial sequence number of the end.
    pub fn new(config: &Config, iss: SeqNum) -> Bounds {
        let first = iss + 1;
        let initial = u64::from(config.initial_window);
        Bounds {
            initial,
            first,
            una: first,
            high: first,
            evidence: false,
            doubtful: None,
            sack: config.sack,
            repairs: None,
        }
    }

    /// A packet passes. `conn` has processed those before it.
    pub fn passes(&mut self, packet: &CapturedPacket, conn: &Connection, tolerance: Dur) -> Option<Fault> {
        let segment = &packet.segment;
        if segment.flags.any(Flags::SYN | Flags::RST) {
            return None;
        }
        if !packet.sent {
            self.arrives(packet);
            return None;
        }
        let end = segment.seq + segment.len;
        if segment.len == 0 {
            return None;
        }
        if end.distance(self.high) > 0 {
            self.high = end;
            let sent = u64::try_from(end.distance(self.first)).unwrap_or(0);
            let size = conn.segment_size().get();
            // A tail loss probe may send one segment more, and duplicate ACKs let some leave (RFC 8985 section 7.3, RFC 3042).
            let most = (self.initial + 1) * size;
            let beyond = self.una == self.first && !self.evidence && sent > most;
            return beyond.then_some(Fault::InitialWindow { most });
        }
        if end.distance(self.una) <= 0 || self.repairs.replace(self.high).is_some() {
            return None;
        }
        let from = conn.retransmits_from().filter(|_| !self.evidence)?;
        (packet.at.saturating_add(tolerance) < from).then_some(Fault::Early(from))
    }

    fn arrives(&mut self, packet: &CapturedPacket) {
        let segment = &packet.segment;
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        let moved = segment.ack.distance(self.una);
        if moved > 0 {
            self.una = segment.ack;
            self.doubtful = self.doubtful.filter(|until| self.una.distance(*until) < 0);
            self.evidence = self.doubtful.is_some();
            if self.repairs.is_some_and(|until| self.una.distance(until) >= 0) {
                self.repairs = None;
            }
        }
        let duplicate = moved == 0 && segment.len == 0 && self.high != self.una;
        if duplicate && !self.sack {
            self.doubtful = Some(self.high);
        }
        self.evidence |= duplicate || !segment.options.sack.is_empty() || segment.window == 0;
    }
}
