//! Loss detection by duplicates: the threshold, early retransmit, and how reordering raises the threshold.
//!
//! Sources: RFC 5681 section 3.2, RFC 6675 (`IsLost`, `DupAcks`), RFC 5827 (byte-based early retransmit); Linux 4.x
//! `tcp_update_reordering` for the adaptive threshold.

use crate::config::LossDetection;
use crate::log::CongestionState as Ca;
use crate::send::scoreboard::Scoreboard;

/// Linux `sysctl_tcp_max_reordering`.
const MAX_THRESHOLD: u32 = 300;

/// The duplicate threshold in force.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct DupThresh {
    threshold: u32,
    initial: u32,
    adaptive: bool,
    /// Number of times that reordering was observed.
    reorderings: u64,
}

/// The inputs of early retransmit.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct EarlyRetransmit {
    pub enabled: bool,
    pub outstanding: u64,
    /// New data wait and the peer's window allows them.
    pub can_send_new: bool,
    pub mss: u64,
}

impl DupThresh {
    pub fn new(detection: LossDetection) -> DupThresh {
        let (initial, adaptive) = match detection {
            LossDetection::DupThresh { threshold, adaptive } => (threshold, adaptive),
            // RFC 8985 section 6.2 step 4 and connections without SACK: DupThresh is 3.
            LossDetection::Rack { .. } => (3, true),
        };
        DupThresh { threshold: initial, initial, adaptive, reorderings: 0 }
    }

    /// The threshold: number of duplicate ACKs, or of SACKed segments, that indicates a loss.
    #[inline]
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// Number of times that reordering was observed.
    pub fn reorderings(&self) -> u64 {
        self.reorderings
    }

    /// A segment arrived `distance` bytes behind one that was sent later.
    pub fn on_reordering(&mut self, distance: u64, mss: u64) {
        self.reorderings += 1;
        if self.adaptive {
            let segments = u32::try_from(distance.div_ceil(mss)).unwrap_or(MAX_THRESHOLD);
            self.threshold = self.threshold.max(segments.min(MAX_THRESHOLD));
        }
    }

    /// Without SACK, more duplicates arrived than the `packets` outstanding can cause (`tcp_check_reno_reordering`).
    pub fn on_excess_duplicates(&mut self, packets: u64) {
        self.reorderings += 1;
        if self.adaptive {
            self.threshold = u32::try_from(packets).unwrap_or(MAX_THRESHOLD).min(MAX_THRESHOLD);
        }
    }

    /// Whether reordering has raised the threshold above its initial value.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.threshold > self.initial
    }

    /// A timeout while `sacked_segments` were reported and stayed below the threshold: the threshold was raised too far.
    pub fn on_timeout(&mut self, sacked_segments: u64) {
        if sacked_segments >= u64::from(self.initial) {
            self.threshold = self.threshold.min(self.initial);
        }
    }

    /// The threshold, lowered by early retransmit if too little is outstanding to produce three duplicates and nothing new
    /// can be sent (RFC 5827 section 2.1). A threshold that adapts is not lowered once reordering was observed
    /// (`tcp_disable_early_retrans` until Linux 4.10).
    pub fn lowered(&self, early: &EarlyRetransmit) -> u32 {
        let reorders = self.adaptive && self.reorderings > 0;
        if early.enabled && !reorders && early.outstanding < 4 * early.mss && !early.can_send_new {
            let segments = u32::try_from(early.outstanding.div_ceil(early.mss)).unwrap_or(u32::MAX);
            return self.threshold.min(segments.saturating_sub(1).max(1));
        }
        self.threshold
    }

    /// With SACK: marks the segments that are lost according to RFC 6675. `threshold` is that of
    /// [`DupThresh::lowered`]. Returns the bytes newly marked.
    pub fn detect_by_sack(
        &self,
        threshold: u32,
        dup_acks: u32,
        state: Ca,
        mss: u64,
        scoreboard: &mut Scoreboard,
    ) -> u64 {
        if scoreboard.sacked() == 0 {
            return 0;
        }
        let marked = scoreboard.mark_below(scoreboard.lost_below(threshold, mss));
        if marked > 0 || !matches!(state, Ca::Open | Ca::Disorder | Ca::Cwr) {
            return marked;
        }
        // RFC 6675 section 5: DupThresh duplicate ACKs mean loss of the first segment whatever they report; RFC 5827
        // section 2.1 with SACK: all but one segment reported.
        let early =
            threshold < self.threshold && scoreboard.sacked() >= scoreboard.outstanding().saturating_sub(mss);
        if dup_acks >= self.threshold || early { scoreboard.mark_front(mss) } else { 0 }
    }
}

/// Duplicate ACKs in a row, and the bytes that they stand for if there is no SACK.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::send) struct DuplicateAcks {
    acks: u32,
    bytes: u64,
}

/// The state of the sender when a duplicate ACK, or the end of a series of them, arrives without SACK.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct RenoState {
    pub state: Ca,
    /// The first position not acknowledged has reached the recovery point.
    pub recovered: bool,
    /// New data were sent after the recovery point.
    pub sent_beyond: bool,
    pub outstanding: u64,
    pub lost: u64,
    pub mss: u64,
    /// Linux's emulation of SACK is in use.
    pub emulates_sack: bool,
}

impl RenoState {
    /// What can have caused duplicates: all but what is lost, or but one segment (`tcp_limit_reno_sacked`).
    fn possible(&self) -> u64 {
        self.outstanding - self.lost.max(self.mss).min(self.outstanding)
    }
}

/// The effect of a duplicate ACK without SACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::send) struct Counted {
    /// Bytes that count as delivered.
    pub bytes: u64,
    /// More duplicates arrived than the outstanding segments can cause.
    pub excess: bool,
}

impl DuplicateAcks {
    /// Duplicate ACKs in a row.
    #[inline]
    pub fn acks(&self) -> u32 {
        self.acks
    }

    /// Bytes that they stand for without SACK.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub fn is_none(&self) -> bool {
        self.acks == 0 && self.bytes == 0
    }

    pub fn clear(&mut self) {
        *self = DuplicateAcks::default();
    }

    /// An ACK with SACK in use. Those that report something new count (RFC 6675 section 2), also if they advance, which resets
    /// the count first (section 5).
    pub fn on_sack(&mut self, advanced: bool, reports_news: bool) {
        if advanced {
            self.acks = 0;
        }
        self.acks += u32::from(reports_news);
    }

    /// Without SACK: `acked` bytes are acknowledged. Returns how many of them were counted as delivered before, and whether more duplicates
    /// remain than the outstanding segments can have caused (`tcp_remove_reno_sacks`).
    pub fn on_advance(&mut self, acked: u64, now: &RenoState) -> (u64, bool) {
        self.acks = 0;
        // One segment of the partial ACK filled the hole; the rest had been counted by their duplicates.
        let recovering = now.state == Ca::Recovery;
        let hole = if recovering || now.emulates_sack { now.mss } else { 0 };
        let known = self.bytes.min(acked.saturating_sub(hole));
        // Linux resets the count outside recovery (`tcp_fastretrans_alert`), and when recovery ends there
        // (step D).
        let over = now.emulates_sack && (!recovering || now.recovered);
        let forgets = over || now.state == Ca::Loss || now.outstanding == 0;
        // Linux counts segments, of which the last may be short.
        let segments = |bytes: u64| bytes.div_ceil(now.mss);
        let left = segments(self.bytes).saturating_sub(segments(acked).saturating_sub(1));
        let excess = now.emulates_sack && left > segments(now.possible());
        self.bytes = match self.bytes - known {
            _ if forgets => 0,
            left if excess => left.min(now.possible()),
            left => left,
        };
        (known, excess)
    }

    /// Without SACK: a duplicate ACK stands for one segment that left the network. During F-RTO it means that its new data
    /// arrived; otherwise it does not count in Loss.
    pub fn on_duplicate(&mut self, now: &RenoState) -> Option<Counted> {
        if now.state == Ca::Loss && !now.sent_beyond {
            return None;
        }
        self.acks += 1;
        let bytes = now.mss.min(now.possible().saturating_sub(self.bytes));
        self.bytes += bytes;
        Some(Counted { bytes, excess: bytes < now.mss })
    }

    /// Duplicates that are compared with the threshold without SACK. Linux counts those that outstanding segments can have
    /// caused (`tcp_limit_reno_sacked`, `tcp_dupack_heuristics`).
    pub fn without_sack(&self, emulates_sack: bool, mss: u64) -> u32 {
        if emulates_sack { u32::try_from(self.bytes.div_ceil(mss)).unwrap_or(u32::MAX) } else { self.acks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::scoreboard::testing::{sacked, sent};

    const THREE: LossDetection = LossDetection::DupThresh { threshold: 3, adaptive: true };

    fn early(outstanding: u64) -> EarlyRetransmit {
        EarlyRetransmit { enabled: true, outstanding, can_send_new: false, mss: 1000 }
    }

    fn reno(state: Ca, outstanding: u64) -> RenoState {
        RenoState {
            state,
            recovered: false,
            sent_beyond: false,
            outstanding,
            lost: 0,
            mss: 1000,
            emulates_sack: false,
        }
    }

    #[test]
    fn reordering_raises_the_threshold_up_to_300_and_a_timeout_lowers_it() {
        let mut threshold = DupThresh::new(THREE);
        threshold.on_reordering(6500, 1000);
        assert_eq!((threshold.threshold(), threshold.is_raised(), threshold.reorderings()), (7, true, 1));
        threshold.on_reordering(2000, 1000);
        assert_eq!(threshold.threshold(), 7);
        threshold.on_reordering(1 << 40, 1000);
        assert_eq!(threshold.threshold(), 300);
        threshold.on_timeout(2);
        assert_eq!(threshold.threshold(), 300);
        threshold.on_timeout(3);
        assert_eq!((threshold.threshold(), threshold.is_raised()), (3, false));
    }

    #[test]
    fn a_fixed_threshold_counts_reordering_and_stays() {
        let mut threshold = DupThresh::new(LossDetection::DupThresh { threshold: 3, adaptive: false });
        threshold.on_reordering(9000, 1000);
        threshold.on_excess_duplicates(20);
        assert_eq!((threshold.threshold(), threshold.reorderings()), (3, 2));
    }

    #[test]
    fn early_retransmit_lowers_the_threshold_only_if_nothing_new_can_be_sent() {
        let threshold = DupThresh::new(THREE);
        assert_eq!(threshold.lowered(&early(3000)), 2);
        assert_eq!(threshold.lowered(&early(2000)), 1);
        assert_eq!(threshold.lowered(&early(4000)), 3);
        assert_eq!(threshold.lowered(&EarlyRetransmit { can_send_new: true, ..early(2000) }), 3);
        let mut adapted = threshold;
        adapted.on_reordering(4000, 1000);
        assert_eq!(adapted.lowered(&early(2000)), 4, "not after reordering");
    }

    #[test]
    fn three_segments_sacked_above_a_hole_mean_that_it_is_lost() {
        let threshold = DupThresh::new(THREE);
        let mut scoreboard = sent(6);
        sacked(&mut scoreboard, 1..3);
        assert_eq!(threshold.detect_by_sack(3, 2, Ca::Disorder, 1000, &mut scoreboard), 0);
        sacked(&mut scoreboard, 1..4);
        assert_eq!(threshold.detect_by_sack(3, 3, Ca::Disorder, 1000, &mut scoreboard), 1000);
        assert_eq!(scoreboard.lost(), 1000);
    }

    #[test]
    fn three_duplicate_acks_mean_a_loss_of_the_first_segment_however_little_they_report() {
        let threshold = DupThresh::new(THREE);
        let mut scoreboard = sent(6);
        sacked(&mut scoreboard, 1..2);
        assert_eq!(threshold.detect_by_sack(3, 3, Ca::Recovery, 1000, &mut scoreboard), 0);
        assert_eq!(threshold.detect_by_sack(3, 3, Ca::Disorder, 1000, &mut scoreboard), 1000);
    }

    #[test]
    fn without_sack_each_duplicate_stands_for_a_segment_until_the_hole_remains() {
        let mut duplicates = DuplicateAcks::default();
        let now = reno(Ca::Disorder, 3000);
        assert_eq!(duplicates.on_duplicate(&now), Some(Counted { bytes: 1000, excess: false }));
        assert_eq!(duplicates.on_duplicate(&now), Some(Counted { bytes: 1000, excess: false }));
        assert_eq!(duplicates.on_duplicate(&now), Some(Counted { bytes: 0, excess: true }));
        assert_eq!((duplicates.acks(), duplicates.bytes()), (3, 2000));
        assert_eq!((duplicates.without_sack(false, 1000), duplicates.without_sack(true, 1000)), (3, 2));
    }

    #[test]
    fn a_partial_ack_in_recovery_fills_the_hole_with_one_segment() {
        let mut duplicates = DuplicateAcks::default();
        for _ in 0..3 {
            duplicates.on_duplicate(&reno(Ca::Disorder, 9000));
        }
        assert_eq!(duplicates.on_advance(3000, &reno(Ca::Recovery, 6000)), (2000, false));
        assert_eq!((duplicates.acks(), duplicates.bytes()), (0, 1000));
        assert_eq!(duplicates.on_advance(6000, &reno(Ca::Recovery, 0)), (1000, false));
        assert_eq!(duplicates.bytes(), 0, "nothing is outstanding");
    }

    #[test]
    fn linux_forgets_duplicates_outside_recovery() {
        let mut duplicates = DuplicateAcks::default();
        let linux = RenoState { emulates_sack: true, ..reno(Ca::Disorder, 9000) };
        duplicates.on_duplicate(&linux);
        duplicates.on_duplicate(&linux);
        assert_eq!(duplicates.on_advance(2000, &linux), (1000, false));
        assert_eq!(duplicates.bytes(), 0);
    }

    #[test]
    fn linux_sees_reordering_where_a_partial_ack_leaves_more_duplicates_than_outstanding_segments_can_cause()
    {
        let mut duplicates = DuplicateAcks::default();
        let linux = |outstanding| RenoState { emulates_sack: true, ..reno(Ca::Recovery, outstanding) };
        for _ in 0..2 {
            duplicates.on_duplicate(&linux(4000));
        }
        assert_eq!(duplicates.on_advance(1000, &linux(3000)), (0, false));
        assert_eq!(duplicates.bytes(), 2000);
        assert_eq!(duplicates.on_advance(1000, &linux(2000)), (0, true));
        assert_eq!(duplicates.bytes(), 1000);
        assert_eq!(duplicates.on_advance(1500, &linux(0)), (500, false), "a short segment is one, too");
    }

    #[test]
    fn in_loss_a_duplicate_counts_only_after_new_data() {
        let mut duplicates = DuplicateAcks::default();
        assert_eq!(duplicates.on_duplicate(&reno(Ca::Loss, 5000)), None);
        let frto = RenoState { sent_beyond: true, ..reno(Ca::Loss, 5000) };
        assert!(duplicates.on_duplicate(&frto).is_some());
    }
}
