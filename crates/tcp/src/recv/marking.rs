//! The ECN marks of data segments: their counters, and which of them cause an ACK at once.
//!
//! `ce_echo` decides about the echo; this file applies its decisions to the receiver's acknowledgements.
//!
//! Sources: RFC 8257 section 3.2; `__tcp_ecn_check_ce` and `dctcp_ece_ack_update` of Linux.

use super::answer::ack_event;
use super::ce_echo::Response;
use super::{Echo, OldAck, Receiver};
use crate::log::{AckDecision, AckReason, Log};
use tcpassay_units::{Time, count};
use tcpassay_wire::{Ecn, Flags};

impl Receiver {
    /// The mark of a data segment.
    #[expect(clippy::inline_always, reason = "once for each packet, from two places")]
    #[inline(always)]
    pub(super) fn mark(&mut self, now: Time, len: u64, field: Ecn, log: &mut Log) {
        if field == Ecn::Ce {
            count(&mut self.stats.ce_segments, 1);
            count(&mut self.stats.ce_bytes, len);
        }
        match self.echo {
            Echo::Off => {}
            // The state stays the same.
            Echo::Dctcp { ce } if field.is_capable() && ce == (field == Ecn::Ce) => {
                self.ect_seen = true;
                self.nxt_at_mark = self.nxt;
            }
            _ => self.mark_seldom(now, len, field, log),
        }
    }

    /// [`Receiver::mark`] without its fast path.
    #[inline(never)]
    fn mark_seldom(&mut self, now: Time, len: u64, field: Ecn, log: &mut Log) {
        let packets = self.packets;
        // In RFC 8257 section 3.2 any segment without CE changes the state; in Linux one that is not ECN-capable does not.
        let not_ce = field == Ecn::NotEct
            && !self.rules.not_capable_keeps_echo
            && matches!(self.echo, Echo::Dctcp { .. });
        match self.echo.data(if not_ce { Ecn::Ect0 } else { field }, packets, len) {
            Response::Nothing => {}
            Response::Quick => {
                if field == Ecn::Ce || self.ect_seen {
                    self.acks.quick_mode_for_mark(self.announced_window());
                }
            }
            Response::ReportNow => self.acks.demand(AckReason::CeChange),
            Response::Changed { was } => self.ce_changed(now, was, len, log),
        }
        if field.is_capable() {
            self.ect_seen = true;
            self.nxt_at_mark = self.nxt;
        }
    }

    /// The mark of a segment that is acceptable and brings nothing new: accurate ECN counts it like any other (RFC 9768 section 3.2.2).
    #[cold]
    pub(super) fn mark_duplicate(&mut self, len: u64, field: Ecn) {
        if matches!(self.echo, Echo::Accurate { .. }) {
            let packets = self.packets;
            self.echo.data(field, packets, len);
        }
    }

    #[cold]
    fn ce_changed(&mut self, now: Time, was: bool, len: u64, log: &mut Log) {
        let sent = self.acks.old_ack_due();
        if sent {
            let nxt = self.nxt_at_mark;
            let sacks = self.assembly.blocks().clone();
            let echo = if was { Flags::ECE } else { Flags::NONE };
            self.old_ack = Some(OldAck { nxt, echo, sacks, window: None });
            (self.acked, self.last_ack_sent) = (nxt, nxt);
            log.put(now, || ack_event(AckDecision::Now, AckReason::CeChange, nxt));
        }
        let charged = self.memory.as_deref().is_some_and(|memory| memory.is_charged_for(len));
        self.acks.ce_changed(sent, charged);
    }

    /// Accurate ECN: a packet without payload arrived with this field.
    pub(crate) fn control_mark(&mut self, field: Ecn) {
        if self.echo.control(field) {
            self.acks.demand(AckReason::CeChange);
        }
    }

    /// Accurate ECN in Linux's form: `packets` with CE arrived.
    pub(crate) fn count_marked(&mut self, n: u64) {
        if let Echo::Counted { packets, .. } = &mut self.echo {
            *packets += n;
        }
    }

    /// Packets with CE so far, and those since the last ACK was sent.
    pub(crate) fn marked(&self) -> (u64, u64) {
        match self.echo {
            Echo::Counted { packets, reported } => (packets, packets - reported),
            Echo::Accurate { packets, reported, .. } => (packets - 5, packets - reported),
            _ => (0, 0),
        }
    }

    /// Payload bytes that arrived with each field, as `AccEcn::counts` has them, where the option is kept here.
    pub(crate) fn counted_bytes(&self) -> Option<[u32; 3]> {
        match &self.echo {
            Echo::Accurate { bytes, .. } => Some(bytes.counts()),
            _ => None,
        }
    }

    /// The NIC merged `packets` packets into the segment that is processed, each but the last with `size` bytes of payload.
    pub(crate) fn begin_merged(&mut self, packets: u64, size: u64) {
        self.packets = packets;
        self.acks.measure_at_most(size);
    }

    /// The next segment is a packet.
    pub(crate) fn end_merged(&mut self) {
        self.packets = 1;
        self.acks.measure_at_most(u64::MAX);
    }

    /// The number of packets of the segment that is processed (`skb_shinfo(skb)->gso_segs`).
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// A packet was ECN-capable: later ones that are not are retransmissions.
    pub(crate) fn saw_capable(&mut self) {
        self.ect_seen = true;
    }

    /// Whether an ACK is scheduled.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.acks.is_scheduled()
    }

    /// Marks are to be reported at once.
    pub(crate) fn report_marks(&mut self) {
        self.acks.demand(AckReason::CeChange);
    }

    /// First position of the duplicate that the next SACK option reports.
    pub(crate) fn duplicate_start(&self) -> Option<u64> {
        self.dsack.as_ref().map(|span| span.start)
    }
}
