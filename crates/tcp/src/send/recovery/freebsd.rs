//! Fast recovery with SACK of FreeBSD without PRR: the window of partial ACKs.
//!
//! The window begins at one segment and grows by one with each duplicate ACK while less than ssthresh is in flight. After a
//! partial ACK it is what the recovery has sent, and one segment or two.
//!
//! Sources: `tcp_do_segment`, `tcp_sack_partialack`, `tcp_output`, `tcp_sack_doack` of FreeBSD.

use super::newreno::{NewReno, RecoveryAck};
use crate::log::{CongestionState as Ca, WindowCause};
use crate::send::scoreboard::Scoreboard;

/// State of one recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::send) struct PartialAckWindow {
    /// Bytes of the rescue retransmission.
    rescued: u64,
}

/// The inputs of the window besides the ACK and the scoreboard.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct WindowInput {
    pub cwnd: u64,
    pub ssthresh: u64,
    pub mss: u64,
    pub recover: u64,
    /// The first retransmission of this recovery has not left.
    pub first_is_due: bool,
    /// True if data were newly SACKed.
    pub sacked: bool,
    /// The flight is everything that is not SACKed, and what was retransmitted (`rfc6675_pipe`); otherwise what was sent
    /// above the highest SACKed position, and what was retransmitted.
    pub pipe: bool,
}

/// The inputs of the detection of losses by duplicate ACKs.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct DetectInput {
    pub state: Ca,
    /// As in [`WindowInput`].
    pub pipe: bool,
    pub dup_acks: u32,
    pub threshold: u32,
    pub mss: u64,
    pub recover: u64,
}

/// Every hole is lost once the third duplicate arrived, or more than two segments were reported. What was sent during a
/// recovery waits for the next one. Returns the bytes newly marked.
pub(in crate::send) fn detect(input: &DetectInput, scoreboard: &mut Scoreboard) -> u64 {
    if scoreboard.sacked() == 0 {
        return 0;
    }
    let shown = input.dup_acks >= input.threshold || input.pipe && scoreboard.sacked() > 2 * input.mss;
    if input.state != Ca::Recovery && !shown {
        return 0;
    }
    let end = match input.state {
        Ca::Recovery => scoreboard.high_sacked().min(input.recover),
        _ => scoreboard.high_sacked(),
    };
    scoreboard.mark_below(end)
}

impl PartialAckWindow {
    /// Retransmits the last segment, of `bytes`, because its SACK block shows which other segments are lost.
    pub fn on_rescue(&mut self, bytes: u64) {
        self.rescued = bytes;
    }

    /// `sack_bytes_rexmit`: bytes in flight again. A rescue retransmission stays in it after it has been SACKed
    /// (`tcp_sack_doack` moves its hole to what is below, and leaves the count).
    pub fn retransmitted(self, scoreboard: &Scoreboard) -> u64 {
        scoreboard.retransmitted() + if scoreboard.sacked() > 0 { self.rescued } else { 0 }
    }

    /// Bytes that count against the window for new data: what the recovery has sent, once it has retransmitted anything
    /// (`tcp_output`).
    pub fn used(self, scoreboard: &Scoreboard, recover: u64) -> u64 {
        let retransmitted = self.retransmitted(scoreboard);
        if retransmitted > 0 {
            retransmitted + (scoreboard.nxt() - recover)
        } else {
            scoreboard.outstanding()
        }
    }

    /// `tcp_sack_partialack` with `rfc6675_pipe`: everything below the recovery point was SACKed or retransmitted, is
    /// acknowledged up to here, and nothing was sent above it. Then the last segment is retransmitted.
    pub fn wants_rescue(scoreboard: &Scoreboard, recover: u64, delivered: u64) -> bool {
        recover == scoreboard.nxt() && scoreboard.sacked() == 0 && scoreboard.lost() == 0 && delivered > 0
    }

    /// The window after an ACK, if it changes, with its reason in the event log. `reno` counts the duplicates.
    pub fn on_ack(
        self,
        ack: &RecoveryAck,
        input: &WindowInput,
        reno: &mut NewReno,
        scoreboard: &Scoreboard,
    ) -> Option<(u64, WindowCause)> {
        let WindowInput { cwnd, ssthresh, mss, recover, .. } = *input;
        let retransmitted = self.retransmitted(scoreboard);
        if ack.advanced {
            // An ACK that begins the recovery and advances is partial, too, once the first segment has left.
            reno.count_all_duplicates();
            let first = if input.first_is_due { mss } else { 0 };
            let sent = first + retransmitted + (scoreboard.nxt() - recover);
            let more = if ack.acked >= 2 * mss { 2 } else { 1 };
            return Some(((sent + more * mss).min(ssthresh), WindowCause::PartialAck));
        }
        if !input.sacked || !reno.is_later_duplicate(ack.duplicates) {
            return None;
        }
        let flight = retransmitted
            + if input.pipe {
                scoreboard.outstanding() - scoreboard.sacked()
            } else {
                scoreboard.nxt() - scoreboard.high_sacked()
            };
        (flight < ssthresh).then(|| ((cwnd + mss).min(ssthresh), WindowCause::HalfWindow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::scoreboard::testing::{acked, sacked, sent};

    const INPUT: WindowInput = WindowInput {
        cwnd: 1000,
        ssthresh: 5000,
        mss: 1000,
        recover: 10_001,
        first_is_due: false,
        sacked: true,
        pipe: false,
    };
    const DUPLICATE: RecoveryAck = RecoveryAck { advanced: false, acked: 0, duplicate: true, duplicates: 4 };
    const PARTIAL: RecoveryAck = RecoveryAck { advanced: true, acked: 1000, duplicate: false, duplicates: 0 };

    #[test]
    fn a_duplicate_adds_a_segment_while_less_than_ssthresh_is_in_flight() {
        let mut scoreboard = sent(10);
        sacked(&mut scoreboard, 1..6);
        let window = PartialAckWindow::default();
        let mut reno = NewReno::begin(3);
        // Four segments above the highest SACKed position.
        assert_eq!(
            window.on_ack(&DUPLICATE, &INPUT, &mut reno, &scoreboard),
            Some((2000, WindowCause::HalfWindow))
        );
        let pipe = WindowInput { pipe: true, ..INPUT };
        // Five segments are not SACKed.
        assert_eq!(window.on_ack(&DUPLICATE, &pipe, &mut reno, &scoreboard), None);
        let early = RecoveryAck { duplicates: 3, ..DUPLICATE };
        assert_eq!(window.on_ack(&early, &INPUT, &mut reno, &scoreboard), None);
    }

    #[test]
    fn after_a_partial_ack_the_window_is_what_recovery_has_sent_and_one_segment_or_two() {
        let mut scoreboard = sent(10);
        acked(&mut scoreboard, 1);
        let window = PartialAckWindow::default();
        let mut reno = NewReno::begin(3);
        assert_eq!(
            window.on_ack(&PARTIAL, &INPUT, &mut reno, &scoreboard),
            Some((1000, WindowCause::PartialAck))
        );
        let two = RecoveryAck { acked: 2000, ..PARTIAL };
        assert_eq!(
            window.on_ack(&two, &INPUT, &mut reno, &scoreboard),
            Some((2000, WindowCause::PartialAck))
        );
        let first = WindowInput { first_is_due: true, ..INPUT };
        assert_eq!(
            window.on_ack(&two, &first, &mut reno, &scoreboard),
            Some((3000, WindowCause::PartialAck))
        );
    }

    #[test]
    fn a_rescue_retransmission_counts_while_anything_is_sacked() {
        let mut scoreboard = sent(10);
        let mut window = PartialAckWindow::default();
        window.on_rescue(1000);
        assert_eq!(window.retransmitted(&scoreboard), 0);
        assert_eq!(window.used(&scoreboard, 10_001), 10_000);
        sacked(&mut scoreboard, 9..10);
        assert_eq!(window.retransmitted(&scoreboard), 1000);
        assert_eq!(window.used(&scoreboard, 10_001), 1000);
    }

    #[test]
    fn holes_are_lost_after_three_duplicates_or_more_than_two_segments() {
        let input = DetectInput {
            state: Ca::Disorder,
            pipe: false,
            dup_acks: 2,
            threshold: 3,
            mss: 1000,
            recover: 0,
        };
        let mut scoreboard = sent(10);
        sacked(&mut scoreboard, 1..4);
        assert_eq!(detect(&input, &mut scoreboard), 0);
        assert_eq!(detect(&DetectInput { pipe: true, ..input }, &mut scoreboard), 1000);
        let mut scoreboard = sent(10);
        sacked(&mut scoreboard, 1..2);
        sacked(&mut scoreboard, 3..4);
        assert_eq!(detect(&DetectInput { dup_acks: 3, ..input }, &mut scoreboard), 2000);
    }

    #[test]
    fn what_was_sent_during_a_recovery_waits_for_the_next_one() {
        let mut scoreboard = sent(10);
        sacked(&mut scoreboard, 9..10);
        let input = DetectInput {
            state: Ca::Recovery,
            pipe: true,
            dup_acks: 9,
            threshold: 3,
            mss: 1000,
            recover: 5001,
        };
        assert_eq!(detect(&input, &mut scoreboard), 5000);
    }
}
