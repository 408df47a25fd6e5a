//! Detection of spurious recoveries.
//!
//! Sources: RFC 3522 and RFC 4015 (Eifel, by timestamps), with Linux's `retrans_stamp` (`tcp_packet_delayed`,
//! `tcp_try_undo_partial`); RFC 3708 and Linux `undo_retrans` (DSACK; `tcp_dsack_seen`, `tcp_check_dsack`,
//! `tcp_sacktag_one`); FreeBSD's RACK, which restores the window if every retransmitted byte was acknowledged less than half
//! a round trip after its only retransmission.

use crate::config::Undo;
use crate::log::CongestionCause;
use crate::send::scoreboard::sent::Sent;
use tcpassay_units::Time;

/// The retransmissions of a recovery, and the evidence that they were spurious.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::send) struct UndoState {
    rule: Undo,
    /// Cumulative point when the episode began; `None` if there is nothing to undo.
    marker: Option<u64>,
    /// True if a segment was retransmitted in this recovery, or before it and is still in flight.
    any: bool,
    /// Bytes retransmitted and not yet reported as duplicates.
    unproven: u64,
    /// Retransmitted bytes that were not, so far, acknowledged earlier than the retransmission can have caused.
    not_early: u64,
    /// True if a segment was retransmitted twice, or acknowledged so late that its retransmission may have caused the ACK.
    timely: bool,
    /// The first of the retransmissions that an ACK may refer to (Linux `retrans_stamp`). It is kept after an episode
    /// whose retransmissions are in flight, because an echo of one of them does not prove that the next episode is
    /// spurious.
    first: Option<Time>,
}

/// The data of an ACK that concern the episode.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one ACK")]
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct UndoAck {
    /// Bytes whose only retransmission was acknowledged too early to have caused the ACK.
    pub early_bytes: u64,
    /// Other retransmitted bytes were delivered.
    pub timely: bool,
    pub advanced: bool,
    /// The millisecond in which the echoed timestamp was made, if timestamps are in use.
    pub echo_ms: Option<u64>,
    /// In fast recovery; otherwise after a timeout.
    pub in_recovery: bool,
    /// SACK is in use, or the recovery point is not acknowledged: an ACK that retransmissions did not cause is a proof.
    pub may_be_original: bool,
}

impl UndoState {
    pub fn new(rule: Undo) -> UndoState {
        UndoState { rule, ..UndoState::default() }
    }

    /// An episode begins. Of episodes before, `retx` bytes of retransmissions are in flight, and `any` says whether
    /// anything outstanding was ever retransmitted (`tcp_any_retrans_done`).
    pub fn begin(&mut self, una: u64, retx: u64, any: bool) {
        let first = self.first.filter(|_| any);
        *self = UndoState {
            rule: self.rule,
            marker: Some(una),
            any: retx > 0,
            unproven: retx,
            first,
            ..UndoState::default()
        };
    }

    /// The first retransmission that an ACK may refer to.
    pub fn first(&self) -> Option<Time> {
        self.first
    }

    /// Discards the state: there is nothing to undo.
    pub fn clear(&mut self) {
        *self = UndoState { rule: self.rule, first: self.first, ..UndoState::default() };
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
    pub fn on_dsack(&mut self, end: u64, bytes: u64) {
        if self.marker.is_some_and(|m| end > m) {
            self.unproven = self.unproven.saturating_sub(bytes);
        }
    }

    #[inline]
    fn all_duplicates(&self) -> bool {
        self.marker.is_some() && self.any && self.unproven == 0
    }

    /// The proof, if this ACK proves the present episode spurious.
    pub fn on_ack(&mut self, ack: &UndoAck) -> Option<CongestionCause> {
        self.marker?;
        self.not_early = self.not_early.saturating_sub(ack.early_bytes);
        self.timely |= ack.timely;
        if self.rule.dsack && self.all_duplicates() {
            return Some(CongestionCause::UndoDsack);
        }
        if !ack.advanced {
            return None;
        }
        let delayed = match (self.first, ack.echo_ms) {
            // Nothing was retransmitted at all (Linux 4.6, and again since 6.12).
            (None, _) => self.rule.eifel && ack.may_be_original,
            (Some(first), Some(ms)) => ms < first.as_nanos() / 1_000_000,
            (Some(_), None) => false,
        };
        if delayed && (self.rule.eifel || self.rule.eifel_timeout && !ack.in_recovery) {
            return Some(CongestionCause::UndoEifel);
        }
        if self.rule.rack_restore && ack.in_recovery && self.any && !self.timely && self.not_early == 0 {
            return Some(CongestionCause::UndoRack);
        }
        None
    }

    /// The proof by DSACKs. They arrive a round trip after the retransmission, usually after the end of the recovery. Its reduction is
    /// undone nevertheless (Linux `tcp_try_undo_dsack`).
    #[inline]
    pub fn late_proof(&self) -> Option<CongestionCause> {
        (self.rule.dsack && self.all_duplicates()).then_some(CongestionCause::UndoDsack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_units::Dur;

    const ACK: UndoAck = UndoAck {
        early_bytes: 0,
        timely: false,
        advanced: true,
        echo_ms: None,
        in_recovery: true,
        may_be_original: true,
    };
    const EIFEL_RULE: Undo = Undo { eifel: true, eifel_timeout: false, dsack: false, rack_restore: false };
    const DSACK_RULE: Undo = Undo { eifel: false, dsack: true, ..EIFEL_RULE };

    fn at(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    fn again(tries: u8) -> Sent {
        Sent { start: 1, len: 1000, tries, ..Sent::default() }
    }

    /// An episode in which one segment was retransmitted at 500 ms.
    fn episode(rule: Undo) -> UndoState {
        let mut undo = UndoState::new(rule);
        undo.begin(1, 0, false);
        undo.on_retransmit(at(500), &again(2));
        undo
    }

    #[test]
    fn an_echo_from_before_the_first_retransmission_is_a_proof() {
        assert_eq!(
            episode(EIFEL_RULE).on_ack(&UndoAck { echo_ms: Some(499), ..ACK }),
            Some(CongestionCause::UndoEifel)
        );
        assert_eq!(episode(EIFEL_RULE).on_ack(&UndoAck { echo_ms: Some(500), ..ACK }), None);
        assert_eq!(episode(EIFEL_RULE).on_ack(&ACK), None, "no timestamps");
    }

    #[test]
    fn bsd_uses_timestamps_only_after_timeouts() {
        let rule = Undo { eifel: false, eifel_timeout: true, ..EIFEL_RULE };
        let echo = UndoAck { echo_ms: Some(499), ..ACK };
        assert_eq!(episode(rule).on_ack(&echo), None);
        assert_eq!(
            episode(rule).on_ack(&UndoAck { in_recovery: false, ..echo }),
            Some(CongestionCause::UndoEifel)
        );
    }

    #[test]
    fn every_retransmission_reported_as_a_duplicate_is_a_proof_also_after_recovery() {
        let mut undo = episode(DSACK_RULE);
        undo.on_dsack(1001, 400);
        assert_eq!(undo.late_proof(), None);
        undo.on_dsack(1, 1000);
        assert_eq!(undo.late_proof(), None, "a duplicate from before the episode");
        undo.on_dsack(1001, 600);
        assert_eq!(undo.late_proof(), Some(CongestionCause::UndoDsack));
        assert_eq!(undo.on_ack(&UndoAck { advanced: false, ..ACK }), Some(CongestionCause::UndoDsack));
        undo.clear();
        assert_eq!(undo.late_proof(), None);
    }

    #[test]
    fn freebsds_rack_requires_that_every_retransmission_was_acknowledged_too_early() {
        let rule = Undo { eifel: false, rack_restore: true, ..EIFEL_RULE };
        assert_eq!(
            episode(rule).on_ack(&UndoAck { early_bytes: 1000, ..ACK }),
            Some(CongestionCause::UndoRack)
        );
        assert_eq!(episode(rule).on_ack(&UndoAck { early_bytes: 999, ..ACK }), None);
        assert_eq!(episode(rule).on_ack(&UndoAck { early_bytes: 1000, timely: true, ..ACK }), None);
        let mut twice = episode(rule);
        twice.on_retransmit(at(600), &again(3));
        assert_eq!(twice.on_ack(&UndoAck { early_bytes: 2000, ..ACK }), None);
    }

    #[test]
    fn a_retransmission_in_flight_from_an_episode_before_is_no_proof_against_the_next() {
        let mut undo = episode(EIFEL_RULE);
        undo.clear();
        undo.begin(2001, 1000, true);
        assert_eq!(undo.on_ack(&UndoAck { echo_ms: Some(500), ..ACK }), None);
        let mut settled = episode(EIFEL_RULE);
        settled.begin(2001, 0, false);
        assert_eq!(
            settled.on_ack(&ACK),
            Some(CongestionCause::UndoEifel),
            "nothing of this episode was retransmitted"
        );
    }
}
