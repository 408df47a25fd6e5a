//! The detection of losses by the rule in force: by time (RACK) or by duplicates.
//!
//! Sources: RFC 8985, RFC 6675 section 4, RFC 6582 section 3.2; `tcp_identify_packet_loss` of Linux.

use super::Sender;
use super::delivery::Delivered;
use super::loss::dupthresh::EarlyRetransmit;
use super::loss::rack::WindowInput;
use super::recovery::freebsd::{self, DetectInput};
use super::scoreboard::loss_marking::RackScan;
use crate::config::Recovery;
use crate::log::{CongestionState as Ca, Log, LogEvent, LossRule};
use crate::messages::Span;
use tcpassay_units::Time;

/// Logs newly detected losses, if there are any.
pub(super) fn log_lost(now: Time, span: Span, lost: u64, why: LossRule, log: &mut Log) {
    if lost > 0 {
        log.put(now, || LogEvent::Lost { start: span.start, end: span.end, why });
    }
}

impl Sender {
    /// Marks losses by the configured rule. Returns the bytes newly marked.
    pub(super) fn detect(&mut self, now: Time, d: &Delivered, log: &mut Log) -> u64 {
        if self.uses_rack {
            if self.rules.rack_awaits_delivery {
                if !d.dubious {
                    // An ACK in order in Open: Linux looks for nothing, and sets its one timer anew.
                    self.timers.set_reorder(now, Time::MAX, log);
                    return 0;
                }
                if !self.rack.take_advanced() {
                    return 0;
                }
            }
            let scan = self.detect_by_time(now, log);
            log_lost(now, scan.first..scan.last, scan.lost, LossRule::Rack, log);
            return scan.lost;
        }
        let lost = self.detect_by_count(d);
        log_lost(now, self.scoreboard.una()..self.scoreboard.high_sacked(), lost, LossRule::DupThresh, log);
        lost
    }

    /// The inputs of RACK's reordering window.
    pub(super) fn rack_input(&self) -> WindowInput {
        WindowInput {
            recovering: matches!(self.state, Ca::Recovery | Ca::Loss),
            mss: self.mss,
            min_rtt: self.rtt.windowed_min(),
            srtt: self.rtt.srtt(),
            micros: self.rules.clock_in_micros,
        }
    }

    /// By time (RACK): marks what is lost, and sets the reordering timer for what may still be reordered.
    pub(super) fn detect_by_time(&mut self, now: Time, log: &mut Log) -> RackScan {
        let input = self.rack_input();
        let scan = self.rack.detect(self.clock(now), &input, &mut self.scoreboard);
        let mut wait = scan.wait.map_or(Time::MAX, |at| at.saturating_add(self.cfg.timer_floor));
        if scan.wait.is_some() && self.rules.probe_shares_timer {
            // The one timer of Linux never waits for longer than a retransmission timeout (`inet_csk_reset_xmit_timer`).
            wait = wait.min(now.saturating_add(self.rtt.rto()));
        }
        self.timers.set_reorder(now, wait, log);
        scan
    }

    /// By duplicates: marks what is lost. Returns the bytes newly marked.
    fn detect_by_count(&mut self, d: &Delivered) -> u64 {
        if d.late > 0 {
            self.dup_thresh.on_reordering(d.late, self.mss);
        }
        let threshold = self.dup_thresh.lowered(&EarlyRetransmit {
            enabled: self.cfg.early_retransmit,
            outstanding: self.scoreboard.outstanding(),
            can_send_new: self.has_new() && self.peer_room() > 0,
            mss: self.mss,
        });
        let (state, mss) = (self.state, self.mss);
        if !self.sack {
            // RFC 6582 section 3.2 step 2: not for duplicates of what the last episode sent.
            let fresh = self.scoreboard.una() > self.recover;
            let open = matches!(state, Ca::Open | Ca::Disorder | Ca::Cwr);
            let duplicates = self.duplicates.without_sack(self.rules.emulates_sack, mss);
            let lost = open && fresh && duplicates >= threshold;
            return if lost { self.scoreboard.mark_front(mss) } else { 0 };
        }
        let dup_acks = self.duplicates.acks();
        if let Recovery::FreeBsd { pipe } = self.cfg.recovery {
            let input = DetectInput { state, pipe, dup_acks, threshold, mss, recover: self.recover };
            return freebsd::detect(&input, &mut self.scoreboard);
        }
        self.dup_thresh.detect_by_sack(threshold, dup_acks, state, mss, &mut self.scoreboard)
    }

    /// Whether the loss marks are a reason to begin a recovery: in Linux also if what is lost is in flight again (`tcp_time_to_recover`).
    pub(super) fn shows_loss(&self) -> bool {
        self.scoreboard.pending() > 0
            || self.rules.first_mark_keeps_retransmission && self.uses_rack && self.scoreboard.lost() > 0
    }
}
