//! RACK: a segment is lost when one sent later was delivered and the reordering window has passed.
//!
//! Source: RFC 8985 section 6.2, step by step. The timestamps of the original and of its retransmission are told apart
//! with a clock of one millisecond.

use super::Sender;
use super::board::RackScan;
use super::delivery::Delivered;
use crate::config::{LossDetection, StackFlavor};
use crate::log::{CongestionState, Log};
use tcpassay_units::{Dur, Time};

/// RFC 8985 section 5: the threshold of RFC 6675.
const DUP_THRESH: u64 = 3;

/// RACK's variables (RFC 8985 section 5.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Rack {
    /// Transmission time of the most recently sent segment known to be delivered.
    xmit: Time,
    /// Its position after the last.
    end: u64,
    /// Its round-trip time.
    rtt: Dur,
    /// An original was delivered after one sent later.
    pub reordering_seen: bool,
    /// Quarters of the minimum round-trip time.
    pub mult: u32,
    /// Recoveries until `mult` returns to one.
    pub persist: u32,
    /// A DSACK was seen in the round that ends here.
    dsack_round: Option<u64>,
    /// The ACK at work widened the window.
    widened: bool,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            xmit: Time::ZERO,
            end: 0,
            rtt: Dur::ZERO,
            reordering_seen: false,
            mult: 1,
            persist: 16,
            dsack_round: None,
            widened: false,
        }
    }
}

impl Rack {
    /// The handshake's round trip stands in until data give one.
    pub fn start(&mut self, rtt: Dur) {
        self.rtt = rtt;
    }

    /// Steps 2 and 3: the newest delivery, and whether reordering was seen.
    pub fn update(&mut self, d: &Delivered) {
        if let Some((xmit, end)) = d.rack {
            self.rtt = d.rack_rtt;
            if (self.xmit, self.end) < (xmit, end) {
                (self.xmit, self.end) = (xmit, end);
            }
        }
        if d.late > 0 {
            self.reordering_seen = true;
        }
    }

    /// The same for a run of originals, in order.
    #[inline]
    pub fn update_in_order(&mut self, now: Time, xmit: Time, end: u64) {
        self.rtt = now.since(xmit);
        if (self.xmit, self.end) < (xmit, end) {
            (self.xmit, self.end) = (xmit, end);
        }
    }

    /// Transmission time of the newest delivery, and the position after it.
    pub fn newest(&self) -> (Time, u64) {
        (self.xmit, self.end)
    }

    /// Step 4, growth: one quarter more a round that saw a DSACK.
    pub fn on_dsack(&mut self, una: u64, nxt: u64) {
        if self.dsack_round.is_some_and(|end| una >= end) {
            self.dsack_round = None;
        }
        if self.dsack_round.is_none() {
            self.dsack_round = Some(nxt);
            self.mult += 1;
            self.persist = 16;
            self.widened = true;
        }
    }

    /// The ACK is dealt with.
    pub fn end_ack(&mut self) {
        self.widened = false;
    }

    /// Step 4, decay: after sixteen recoveries without a DSACK. One that ends with the ACK that widened the window is not among
    /// them.
    pub fn on_recovery_end(&mut self) {
        if self.widened {
            return;
        }
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.mult = 1;
        }
    }
}

impl Sender {
    /// Whether RACK decides: it needs SACK (RFC 8985 section 3).
    pub(super) fn racks(&self) -> bool {
        self.sack && matches!(self.cfg.loss_detection, LossDetection::Rack { .. })
    }

    /// Step 4: the reordering window.
    pub(super) fn reo_wnd(&self) -> Dur {
        if self.cfg.flavor == StackFlavor::FreeBsd {
            return self.reo_wnd_freebsd();
        }
        if !self.rack.reordering_seen {
            let recovering = matches!(self.state, CongestionState::Recovery | CongestionState::Loss);
            if recovering || self.board.holds_sacked_segments(DUP_THRESH, self.mss) {
                return Dur::ZERO;
            }
        }
        let mult = match self.cfg.loss_detection {
            LossDetection::Rack { dsack_adaptation: true } => self.rack.mult,
            _ => 1,
        };
        let min = self.rtt.windowed_min().unwrap_or(Dur::ZERO);
        (min * u64::from(mult) / 4).min(self.rtt.srtt.unwrap_or(Dur::ZERO))
    }

    /// The same of FreeBSD 14's RACK stack (`rack_calc_thresh_rack` in `tcp_stacks/rack.c` with `dsack_std_based` = 3): a quarter of
    /// the round trip measured last from the beginning on, whatever number of segments is SACKed and also in recovery; one more for
    /// each round with a DSACK once reordering was seen; at most a whole round trip.
    fn reo_wnd_freebsd(&self) -> Dur {
        let more = match self.cfg.loss_detection {
            LossDetection::Rack { dsack_adaptation: true } if self.rack.reordering_seen => self.rack.mult - 1,
            _ => 0,
        };
        let rtt = self.rack.rtt;
        (rtt * u64::from(1 + more) / 4).min(rtt)
    }

    /// Step 5: marks what is lost and sets the reordering timer for what may still be reordered.
    pub(super) fn detect_by_time(&mut self, now: Time, log: &mut Log) -> RackScan {
        if self.board.none_before(self.rack.xmit, self.rack.end) {
            self.timers.set_reorder(now, Time::MAX, log);
            return RackScan::default();
        }
        let window = self.rack.rtt + self.reo_wnd();
        let scan =
            self.board.rack_scan(self.rack.xmit, self.rack.end, now, |sent| sent.saturating_add(window));
        let wait = scan.wait.map_or(Time::MAX, |at| at.saturating_add(self.cfg.timer_floor));
        self.timers.set_reorder(now, wait, log);
        scan
    }

    /// RFC 8985 section 6.3: on a timeout the first segment is lost, and whatever is older than the window.
    pub(super) fn rack_mark_on_timeout(&mut self, now: Time) -> u64 {
        let window = self.rack.rtt + self.reo_wnd();
        let una = self.board.una;
        self.board.mark_where(|s| s.start == una || s.sent_at.saturating_add(window) <= now)
    }
}
