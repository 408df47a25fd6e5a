//! False recoveries: the proofs that nothing had been lost, and what follows.
//!
//! Sources: RFC 3522 and RFC 4015 (Eifel, by timestamps); RFC 3708 and Linux `undo_retrans` (DSACK); FreeBSD's RACK, which
//! restores when every retransmitted byte was acknowledged less than half a round trip after its only retransmission.

use super::Sender;
use super::ack::Arrival;
use super::board::Sent;
use super::delivery::Delivered;
use crate::log::{Log, LogEvent};
use crate::seam::Span;
use tcpassay_units::Time;

/// What an episode retransmitted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UndoState {
    /// Cumulative point when the episode began; none when there is nothing to undo.
    marker: Option<u64>,
    /// Something was retransmitted.
    any: bool,
    /// Bytes retransmitted and not yet reported as duplicates.
    unproven: u64,
    /// Bytes retransmitted and not yet acknowledged too early.
    not_early: u64,
    /// Something was retransmitted twice, or acknowledged in due time: not all early.
    timely: bool,
    /// First retransmission.
    first: Option<Time>,
}

impl UndoState {
    /// An episode begins.
    pub fn begin(&mut self, una: u64) {
        *self = UndoState { marker: Some(una), ..UndoState::default() };
    }

    /// There is nothing to undo any more.
    pub fn clear(&mut self) {
        *self = UndoState::default();
    }

    /// `sent` was retransmitted.
    pub fn on_retransmit(&mut self, now: Time, sent: &Sent) {
        if self.marker.is_none() {
            return;
        }
        self.any = true;
        self.unproven += u64::from(sent.len);
        self.not_early += u64::from(sent.len);
        self.timely |= sent.tries > 2;
        self.first.get_or_insert(now);
    }

    fn on_dsack(&mut self, span: &Span) {
        if self.marker.is_some_and(|m| span.end > m) {
            self.unproven = self.unproven.saturating_sub(span.end - span.start);
        }
    }

    #[inline]
    fn all_duplicates(&self) -> bool {
        self.marker.is_some() && self.any && self.unproven == 0
    }
}

impl Sender {
    /// The receiver reported a duplicate.
    pub(super) fn on_dsack(&mut self, now: Time, span: &Span, log: &mut Log) {
        self.probe.on_dsack(span);
        if self.racks() {
            self.rack.on_dsack(self.board.una, self.board.nxt);
        }
        self.undo.on_dsack(span);
        self.stats.spurious += (span.end - span.start).div_ceil(self.mss);
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
        if !a.advanced || !u.any {
            return None;
        }
        let in_recovery = self.state == crate::log::CongestionState::Recovery;
        if (self.cfg.undo.eifel || self.cfg.undo.eifel_timeout && !in_recovery) && self.timestamps {
            let echoes_original = d.echo_ms.zip(u.first).is_some_and(|(ms, t)| ms < t.as_nanos() / 1_000_000);
            if echoes_original {
                return Some("undo: eifel");
            }
        }
        if self.cfg.undo.rack_restore && in_recovery && !u.timely && u.not_early == 0 {
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
