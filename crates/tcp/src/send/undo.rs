//! False recoveries: the proofs that nothing had been lost, and what follows.
//!
//! Sources: RFC 3522 and RFC 4015 (Eifel, by timestamps), with Linux's `retrans_stamp` (`tcp_packet_delayed`,
//! `tcp_try_undo_partial`); RFC 3708 and Linux `undo_retrans` (DSACK; `tcp_dsack_seen`, `tcp_check_dsack`,
//! `tcp_sacktag_one`); FreeBSD's RACK, which restores when every retransmitted byte was acknowledged less than half a round
//! trip after its only retransmission.

use super::Sender;
use super::ack::Arrival;
use super::board::Sent;
use super::delivery::Delivered;
use crate::log::{Log, LogEvent};
use crate::messages::Span;
use tcpassay_units::Time;

/// The proof by timestamps.
pub(super) const EIFEL: &str = "undo: eifel";

/// What an episode retransmitted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UndoState {
    /// Cumulative point when the episode began; none when there is nothing to undo.
    marker: Option<u64>,
    /// Something was retransmitted, in this episode or before it and still in flight.
    any: bool,
    /// Bytes retransmitted and not yet reported as duplicates.
    unproven: u64,
    /// Bytes retransmitted and not yet acknowledged too early.
    not_early: u64,
    /// Something was retransmitted twice, or acknowledged in due time: not all early.
    timely: bool,
    /// The first of the retransmissions that an ACK may speak of (Linux `retrans_stamp`): it outlives an episode whose
    /// retransmissions are in flight, because an echo of one of those is no proof against the next episode.
    first: Option<Time>,
}

impl UndoState {
    /// An episode begins. Of episodes before, `retx` bytes of retransmissions are in flight, and `any` says whether
    /// anything outstanding was ever retransmitted (`tcp_any_retrans_done`).
    pub fn begin(&mut self, una: u64, retx: u64, any: bool) {
        let first = self.first.filter(|_| any);
        *self = UndoState { marker: Some(una), any: retx > 0, unproven: retx, first, ..UndoState::default() };
    }

    /// There is nothing to undo any more.
    pub fn clear(&mut self) {
        *self = UndoState { first: self.first, ..UndoState::default() };
    }

    /// `sent` was retransmitted.
    pub fn on_retransmit(&mut self, now: Time, sent: &Sent) {
        self.first.get_or_insert(now);
        if self.marker.is_none() {
            return;
        }
        self.any = true;
        self.unproven += u64::from(sent.len);
        self.not_early += u64::from(sent.len);
        self.timely |= sent.tries > 2;
    }

    /// `bytes` that may have been retransmitted, up to `end`, were reported as duplicates.
    fn on_dsack(&mut self, end: u64, bytes: u64) {
        if self.marker.is_some_and(|m| end > m) {
            self.unproven = self.unproven.saturating_sub(bytes);
        }
    }

    #[inline]
    fn all_duplicates(&self) -> bool {
        self.marker.is_some() && self.any && self.unproven == 0
    }
}

impl Sender {
    /// What of a reported duplicate can be of a retransmission. Below `una`, the cumulative point before the ACK, nobody
    /// remembers, and all of it is taken for that; above it only what was retransmitted.
    pub(super) fn retransmitted_in(&self, span: &Span, una: u64) -> u64 {
        if span.end <= una { span.end - span.start } else { self.board.retransmitted_in(span) }
    }

    /// The receiver reported a duplicate, of which `retransmitted` bytes can be of retransmissions. More duplicates than
    /// there were retransmissions, or longer than any window, are the network's (RFC 3708 section 2; Linux since 5.10), and
    /// prove nothing; RACK counts every one (RFC 8985 section 6.2 step 4).
    pub(super) fn on_dsack(&mut self, now: Time, span: &Span, retransmitted: u64, log: &mut Log) {
        self.probe.on_dsack(span);
        if self.racks() {
            self.rack.on_dsack(self.board.una, self.board.nxt);
        }
        let length = span.end - span.start;
        let segments = length.div_ceil(self.mss);
        if length > self.max_wnd || self.stats.spurious + segments > self.stats.retransmissions {
            return;
        }
        self.undo.on_dsack(span.end, retransmitted);
        self.stats.spurious += segments;
        log.put(now, || LogEvent::Spurious { start: span.start, end: span.end, why: "dsack" });
    }

    /// Whether this ACK proves the present episode false, and how.
    pub(super) fn proven_false(&mut self, a: &Arrival, d: &Delivered) -> Option<&'static str> {
        let u = &mut self.undo;
        u.marker?;
        u.not_early = u.not_early.saturating_sub(d.early_bytes);
        u.timely |= d.timely_bytes > 0;
        if self.cfg.undo.dsack && u.all_duplicates() {
            return Some("undo: dsack");
        }
        if !a.advanced {
            return None;
        }
        let in_recovery = self.state == crate::log::CongestionState::Recovery;
        let delayed = match (u.first, d.echo_ms) {
            // Nothing was retransmitted at all (Linux 4.6, and again since 6.12).
            (None, _) => self.cfg.undo.eifel && (self.sack || self.board.una < self.recover),
            (Some(first), Some(ms)) if self.timestamps => ms < first.as_nanos() / 1_000_000,
            _ => false,
        };
        if delayed && (self.cfg.undo.eifel || self.cfg.undo.eifel_timeout && !in_recovery) {
            return Some(EIFEL);
        }
        if self.cfg.undo.rack_restore && in_recovery && u.any && !u.timely && u.not_early == 0 {
            return Some("undo: rack");
        }
        None
    }

    /// DSACKs come a round trip after the retransmission, mostly when the recovery is over: its reduction is undone
    /// even so (Linux `tcp_try_undo_dsack`).
    #[inline]
    pub(super) fn late_proof(&self) -> Option<&'static str> {
        (self.cfg.undo.dsack && self.undo.all_duplicates()).then_some("undo: dsack")
    }
}
