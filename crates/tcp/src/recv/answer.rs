//! The content of ACKs: whether one is due, its window, its SACK blocks and its echo of marks.

use super::ack_policy::{AckInput, Verdict};
use super::{OldAck, Receiver, WindowBefore};
use crate::log::{AckDecision, AckReason, Log, LogEvent};
use crate::messages::Span;
use arrayvec::ArrayVec;
use tcpassay_units::{Dur, Time, count};
use tcpassay_wire::{AccEcn, Flags};

impl Receiver {
    /// Whether an ACK must be sent before any other segment.
    #[inline]
    pub(crate) fn has_old_ack(&self) -> bool {
        self.old_ack.is_some()
    }

    /// Returns this ACK.
    pub(crate) fn take_old_ack(&mut self) -> Option<OldAck> {
        self.old_ack.take()
    }

    /// Whether an ACK waits for a decision, or an old one to be sent.
    #[inline]
    pub(crate) fn may_ack(&self) -> bool {
        self.acks.undecided() || self.old_ack.is_some()
    }

    /// The window that an ACK would announce now.
    pub(super) fn window_before(&mut self) -> WindowBefore {
        let at = self.at();
        let (offer, tight) = match self.memory.as_deref_mut() {
            Some(memory) => memory.offer_again(at),
            None => (self.window.offer(self.read, self.nxt, self.edge), false),
        };
        WindowBefore { offer, tight }
    }

    /// Sends the ACK for compressed ones that Linux sends before it changes SACK blocks beyond the second, so that it has `blocks`
    /// without the segment that is processed (`tcp_sack_compress_send_ack`). The ACK of this segment counts as sent with it.
    /// Linux has noted by then what the segment repeats, which the ACK reports.
    #[cold]
    pub(super) fn send_compressed(
        &mut self,
        now: Time,
        blocks: ArrayVec<Span, 4>,
        WindowBefore { offer, tight }: WindowBefore,
        log: &mut Log,
    ) {
        let again = self.dsack.take();
        let sacks = again.into_iter().chain(blocks).take(4).collect();
        let nxt = self.nxt;
        self.old_ack = Some(OldAck { nxt, echo: self.echo.flags(), sacks, window: Some(offer.field) });
        self.edge = offer.edge;
        self.announced = (0, 0, 0);
        if let Some(memory) = self.memory.as_deref_mut() {
            memory.announced(offer.edge);
        }
        if tight {
            self.acks.stop_quick();
        }
        log.put(now, || ack_event(AckDecision::Now, AckReason::OutOfOrder, nxt));
        self.acks.schedule();
        self.ack_sent(now, false, 1, log);
    }

    /// Whether a pure ACK is due now. The caller must send it, and calls this only if nothing else can carry the ACK.
    #[inline]
    pub(crate) fn ack_due(&mut self, now: Time, srtt: Option<Dur>, log: &mut Log) -> bool {
        if !self.acks.undecided() {
            return false;
        }
        let ask = AckInput {
            unacked: self.nxt - self.acked.min(self.nxt),
            gaps: !self.assembly.is_empty(),
            srtt,
            nxt: self.nxt,
            rtt: self.window.rtt(),
        };
        let at = self.at();
        let mut offered = None;
        if ask.unacked > at.rcv_mss
            && let Some(memory) = self.memory.as_deref_mut()
        {
            let (offer, tight) = memory.offer(at);
            offered = Some(offer);
            if tight {
                self.acks.stop_quick();
            }
        }
        let kept = || {
            if let Some(memory) = self.memory.as_deref_mut() {
                let offer = offered.unwrap_or_else(|| memory.offer_again(at).0);
                return offer.edge - self.nxt >= self.edge.saturating_sub(self.acked);
            }
            // Up to the rounding of the window scale.
            let offer = self.window.offer(self.read, self.nxt, self.edge);
            self.offer = (self.read, self.nxt, offer);
            offer.edge - self.nxt + self.window.unit() > self.edge.saturating_sub(self.acked)
        };
        let nxt = self.nxt;
        match self.acks.decide(now, ask, kept) {
            None => false,
            Some(Verdict::Now(why)) => {
                log.put(now, || ack_event(AckDecision::Now, why, nxt));
                true
            }
            Some(Verdict::Delay(at)) => {
                count(&mut self.stats.delayed, 1);
                log.put(now, || ack_event(AckDecision::Delayed(at), AckReason::Delay, nxt));
                false
            }
            Some(Verdict::Forgotten) => {
                self.stats.forgotten += 1;
                log.put(now, || ack_event(AckDecision::Forgotten, AckReason::CeChange, nxt));
                false
            }
        }
    }

    /// The window field of a segment that acknowledges RCV.NXT and leaves now; it counts as announced.
    #[inline]
    pub(crate) fn announce(&mut self) -> u16 {
        self.last_ack_sent = self.nxt;
        let (read, nxt, field) = self.announced;
        if read == self.read && nxt == self.nxt {
            debug_assert!(self.is_announced(field), "memory changed unnoticed");
            return field;
        }
        if self.memory.is_some() {
            return self.announce_by_memory();
        }
        let offer = match self.offer {
            (read, nxt, offer) if read == self.read && nxt == self.nxt => offer,
            _ => self.window.offer(self.read, self.nxt, self.edge),
        };
        self.edge = offer.edge;
        self.announced = (self.read, self.nxt, offer.field);
        offer.field
    }

    /// The window field of an ACK for the older position `nxt`, with the right edge in force. Linux computes the window from RCV.NXT,
    /// whatever the ACK field says, and it counts as announced (`tcp_select_window`). Before 4.18 it turned RCV.NXT back.
    pub(crate) fn announce_at(&mut self, nxt: u64) -> u16 {
        if self.memory.is_some() && self.acks.acks_a_change_at_once() {
            let field = self.announce_by_memory();
            // `rcv_wup` is RCV.NXT, too.
            self.acked = self.nxt;
            return field;
        }
        u16::try_from((self.edge - nxt).div_ceil(self.window.unit())).unwrap_or(u16::MAX)
    }

    /// ECE, or the ACE bits, of a segment that leaves now.
    #[inline]
    pub(crate) fn echo_flags(&self) -> Flags {
        self.echo.flags()
    }

    /// The accurate ECN option of a segment that leaves now, if a counter changed.
    pub(crate) fn accecn(&self, handshake: bool) -> Option<AccEcn> {
        self.echo.option(handshake)
    }

    /// Whether the FIN has not been acknowledged yet after it removed all SACK blocks (Linux).
    pub(crate) fn has_unacknowledged_fin(&self) -> bool {
        self.forgets_after_ack
    }

    /// Whether there are blocks for the SACK option.
    #[inline]
    pub(crate) fn has_blocks(&self) -> bool {
        self.dsack.is_some() || !self.assembly.blocks().is_empty()
    }

    /// The number of blocks for a SACK option with at most `most`.
    pub(crate) fn count_blocks(&self, most: usize) -> u32 {
        let blocks = usize::from(self.dsack.is_some()) + self.assembly.blocks().len();
        u32::try_from(blocks.min(most)).expect("four at most")
    }

    /// The end of the highest SACK block of data out of order.
    pub(crate) fn highest_report(&self) -> Option<u64> {
        self.assembly.blocks().iter().map(|block| block.end).max()
    }

    /// SACK blocks of an ACK that leaves now: the DSACK once, then the others.
    #[inline]
    pub(crate) fn sacks(&mut self, room: usize) -> ArrayVec<Span, 4> {
        let mut blocks = ArrayVec::new();
        if let Some(again) = self.dsack.take() {
            blocks.push(again);
        }
        for b in self.assembly.blocks() {
            if blocks.len() < room {
                blocks.push(b.clone());
            }
        }
        blocks
    }

    /// A segment was sent that acknowledges everything. `data`: it has payload or FIN, in `packets` packets.
    #[inline]
    pub(crate) fn ack_sent(&mut self, now: Time, data: bool, packets: u32, log: &mut Log) {
        if data && self.acks.is_scheduled() {
            let nxt = self.nxt;
            log.put(now, || ack_event(AckDecision::Now, AckReason::Piggyback, nxt));
        }
        self.acked = self.nxt;
        self.last_ack_sent = self.nxt;
        if let Some(memory) = self.memory.as_deref_mut() {
            memory.acked();
        }
        self.echo.on_ack_sent();
        self.acks.sent(!data, packets);
        if std::mem::take(&mut self.forgets_after_ack) {
            self.forget_out_of_order();
        }
    }
}

pub(super) fn ack_event(decision: AckDecision, why: AckReason, rcv_nxt: u64) -> LogEvent {
    LogEvent::Ack { decision, why, rcv_nxt }
}
