//! Decision whether there is memory for a packet (`tcp_sequence`, `tcp_data_queue`,
//! `tcp_try_rmem_schedule`).

use super::{Fate, GROWS_FROM, Memory, QueuedBuffer};
use crate::MemoryRules;
use crate::messages::Span;
use tcpassay_units::Dur;

/// A packet, and the state of the receiver on its arrival.
#[derive(Clone, Debug)]
pub(in crate::recv) struct Packet {
    pub span: Span,
    pub fin: bool,
    /// Bytes of headers before its data.
    pub headers: u64,
    /// RCV.NXT, the right edge announced, and the first unread position.
    pub nxt: u64,
    pub edge: u64,
    pub read: u64,
    /// Estimated payload of the peer's full segments.
    pub rcv_mss: u64,
    /// The round-trip time that the receiver has measured.
    pub rtt: Dur,
}

/// The decision about a packet, and its effects on acknowledgments.
#[expect(clippy::struct_excessive_bools, reason = "independent consequences")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::recv) struct Admission {
    pub fate: Fate,
    /// These positions repeat what was received; an ACK is due, and the next ones are quick.
    pub duplicate: Option<Span>,
    /// An ACK is due.
    pub acks: bool,
    /// Quick ACKs end.
    pub ends_quick: bool,
    /// Data out of order are removed from this position on.
    pub cut: u64,
    /// Its length counts for the estimate of the peer's segment size.
    pub measured: bool,
    /// The threshold of the window rose.
    pub grew: bool,
}

impl Admission {
    const KEPT: Admission = Admission {
        fate: Fate::Kept,
        duplicate: None,
        acks: false,
        ends_quick: false,
        cut: u64::MAX,
        measured: false,
        grew: false,
    };

    fn drop(self) -> Admission {
        Admission { fate: Fate::Dropped, ..self }
    }
}

impl Memory {
    /// Decides about a packet, and accounts for it if it is kept.
    pub(in crate::recv) fn admit(&mut self, packet: &Packet) -> Admission {
        let Packet { ref span, fin, headers, nxt, edge, read, rcv_mss, rtt } = *packet;
        let mut done = Admission::KEPT;
        let len = span.end.saturating_sub(span.start);
        self.known = None;
        let limit = self.limit.max(edge).max(nxt);
        let measured = self.cfg.rules == MemoryRules::Measured;
        if measured && span.end > limit && nxt > read {
            return Admission { acks: true, ..done.drop() };
        }
        let bare_fin = len == 0 && fin;
        if span.end <= nxt && !(bare_fin && span.end == nxt) {
            return done;
        }
        let shut = edge <= nxt;
        let in_order = span.start <= nxt;
        if in_order && shut && !bare_fin || !in_order && span.start >= edge.max(nxt) {
            return Admission { duplicate: Some(span.start.min(nxt)..nxt), ..done.drop() };
        }
        let (cost, room) = self.price(span.start.max(1), len, headers);
        if !self.has_place() && !measured {
            done.ends_quick = true;
            done.cut = self.prune(0);
            if self.used > self.size && (!in_order || self.has_unread()) {
                return done.drop();
            }
        } else if self.used > self.size {
            done.ends_quick = true;
            done.cut = self.prune(span.start);
            if self.used > self.size {
                if !in_order {
                    return done.drop();
                }
                self.refused = true;
                done.acks = true;
                if self.has_unread() && len > 0 {
                    return done.drop();
                }
            }
        }
        if len == 0 && (in_order || !measured) {
            return done;
        }
        if measured && len > 0 {
            self.weigh(len, cost, rcv_mss);
        }
        let held = QueuedBuffer { start: span.start, end: span.end, cost, room };
        if in_order {
            self.append(held);
            done.grew = len >= GROWS_FROM && self.grow(len, self.payload_cost(cost), rcv_mss);
        } else {
            done.measured = measured && len > 0;
            self.rtt = rtt;
            (done.grew, done.fate) = self.keep(held, nxt, rcv_mss);
        }
        done
    }
}
