//! Loss detection by duplicates: the threshold, early retransmit, and how reordering raises it.
//!
//! Sources: RFC 5681 section 3.2, RFC 6675 (`IsLost`, `DupAcks`), RFC 5827 (byte-based early retransmit); Linux 4.x
//! `tcp_update_reordering` for the adaptive threshold.

use super::Sender;
use super::delivery::Delivered;
use crate::config::{LossDetection, Recovery, StackFlavor};
use crate::log::CongestionState;

/// Linux `sysctl_tcp_max_reordering`.
const MAX_THRESHOLD: u32 = 300;

/// The duplicate threshold in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reordering {
    /// Duplicates (or segments' worth of SACKed bytes) that mean loss.
    pub threshold: u32,
    initial: u32,
    adaptive: bool,
    /// How often it was seen.
    pub count: u64,
}

impl Reordering {
    pub fn new(detection: LossDetection) -> Reordering {
        match detection {
            LossDetection::DupThresh { threshold, adaptive } => {
                Reordering { threshold, initial: threshold, adaptive, count: 0 }
            }
            // RFC 8985 section 6.2 step 4 and connections without SACK: DupThresh is 3.
            LossDetection::Rack { .. } => Reordering { threshold: 3, initial: 3, adaptive: true, count: 0 },
        }
    }

    /// A segment arrived `distance` bytes behind one sent later.
    pub fn seen(&mut self, distance: u64, mss: u64) {
        self.count += 1;
        if self.adaptive {
            let segments = u32::try_from(distance.div_ceil(mss)).unwrap_or(MAX_THRESHOLD);
            self.threshold = self.threshold.max(segments.min(MAX_THRESHOLD));
        }
    }

    /// Without SACK: so many packets are outstanding, and more duplicates came than they can cause (`tcp_check_reno_reordering`).
    pub fn at_most(&mut self, packets: u64) {
        self.count += 1;
        if self.adaptive {
            self.threshold = u32::try_from(packets).unwrap_or(MAX_THRESHOLD).min(MAX_THRESHOLD);
        }
    }

    /// More reordering was seen than the threshold at first allows.
    pub fn is_raised(&self) -> bool {
        self.threshold > self.initial
    }

    /// A timeout with so many segments reported and still below the threshold: it was raised too far.
    pub fn on_timeout(&mut self, sacked_segments: u64) {
        if sacked_segments >= u64::from(self.initial) {
            self.threshold = self.threshold.min(self.initial);
        }
    }
}

impl Sender {
    /// The threshold, lowered by early retransmit when too little is in flight to produce three duplicates.
    fn dup_thresh(&self) -> u32 {
        let threshold = self.reordering.threshold;
        let out = self.board.outstanding();
        // RFC 5827 section 2.1: little outstanding, and nothing new that could be sent.
        let can_send_new = self.has_new() && self.board.nxt < self.board.una + self.wnd;
        if self.cfg.early_retransmit && out < 4 * self.mss && !can_send_new {
            let segments = u32::try_from(out.div_ceil(self.mss)).unwrap_or(u32::MAX);
            return threshold.min(segments.saturating_sub(1).max(1));
        }
        threshold
    }

    /// Marks what the ACK shows to be lost by counting; gives the bytes newly marked and the rule's name.
    pub(super) fn detect_by_count(&mut self, d: &Delivered) -> (u64, &'static str) {
        if d.late > 0 {
            self.reordering.seen(d.late, self.mss);
        }
        let threshold = self.dup_thresh();
        if !self.sack {
            // RFC 6582 section 3.2 step 2: not for duplicates of what the last episode sent.
            let fresh = self.board.una > self.recover;
            let open = matches!(
                self.state,
                CongestionState::Open | CongestionState::Disorder | CongestionState::Cwr
            );
            // Linux counts those that can be of outstanding segments (`tcp_limit_reno_sacked`, `tcp_dupack_heuristics`).
            let duplicates = match self.cfg.flavor {
                StackFlavor::Linux => u32::try_from(self.dup_bytes.div_ceil(self.mss)).unwrap_or(u32::MAX),
                _ => self.dup_acks,
            };
            if open && fresh && duplicates >= threshold {
                return (self.board.mark_front(self.mss), "dupthresh");
            }
            return (0, "");
        }
        if self.board.sacked == 0 {
            return (0, "");
        }
        if self.creeps() {
            // Every hole, once the third duplicate came, or more than two segments were reported; what was sent in this
            // recovery waits for the next.
            let pipe = matches!(self.cfg.recovery, Recovery::FreeBsd { pipe: true });
            let shown = self.dup_acks >= threshold || pipe && self.board.sacked > 2 * self.mss;
            if self.state != CongestionState::Recovery && !shown {
                return (0, "");
            }
            let end = match self.state {
                CongestionState::Recovery => self.board.high_sacked.min(self.recover),
                _ => self.board.high_sacked,
            };
            return (self.board.mark_below(end), "dupthresh");
        }
        let pos = self.board.lost_below(threshold, self.mss);
        let marked = self.board.mark_below(pos);
        if marked > 0 {
            return (marked, "dupthresh");
        }
        // RFC 6675 section 5: DupThresh duplicate ACKs mean loss of the first segment whatever they report; RFC 5827
        // section 2.1 with SACK: all but one segment reported.
        let early = threshold < self.reordering.threshold
            && self.board.sacked >= self.board.outstanding().saturating_sub(self.mss);
        let open =
            matches!(self.state, CongestionState::Open | CongestionState::Disorder | CongestionState::Cwr);
        if open && (self.dup_acks >= self.reordering.threshold || early) {
            return (self.board.mark_front(self.mss), "dupthresh");
        }
        (0, "")
    }
}
