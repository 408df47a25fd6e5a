//! RACK: a segment is lost if one sent later was delivered and the reordering window has passed.
//!
//! Source: RFC 8985 section 6.2, step by step. An ACK of the original is distinguished from an ACK of the retransmission by a
//! timestamp clock of one millisecond.

use crate::flavor::RackWindow;
use crate::send::delivery::{Delivered, micros};
use crate::send::scoreboard::Scoreboard;
use crate::send::scoreboard::loss_marking::RackScan;
use tcpassay_units::{Dur, Time};

/// RFC 8985 section 5: the threshold of RFC 6675.
const DUP_THRESH: u64 = 3;
/// Recoveries without a DSACK after which the window shrinks again (RFC 8985 section 6.2 step 4).
const RECOVERIES: u32 = 16;

/// RACK's variables (RFC 8985 section 5.3).
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a setting and three facts that do not depend on each other"
)]
pub(in crate::send) struct Rack {
    /// The window grows with DSACKs (RFC 8985 section 6.2 step 4).
    dsack_adaptation: bool,
    window: RackWindow,
    /// Transmission time of the most recently sent segment known to be delivered.
    xmit: Time,
    /// Position after that segment.
    end: u64,
    /// Its round-trip time.
    rtt: Dur,
    /// An original was delivered after one sent later.
    reordering_seen: bool,
    /// Quarters of the minimum round-trip time.
    mult: u32,
    /// Recoveries until `mult` returns to one.
    persist: u32,
    /// A DSACK was seen in the round that ends here.
    dsack_round: Option<u64>,
    /// The present ACK widened the window.
    widened: bool,
    /// Something was delivered since losses were looked for.
    advanced: bool,
}

/// The inputs of the reordering window besides RACK's variables.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct WindowInput {
    /// In Recovery or Loss.
    pub recovering: bool,
    pub mss: u64,
    /// The minimum of the last minutes.
    pub min_rtt: Option<Dur>,
    pub srtt: Option<Dur>,
    /// Round-trip times are whole microseconds, and so is the window.
    pub micros: bool,
}

impl Rack {
    pub fn new(dsack_adaptation: bool, window: RackWindow) -> Rack {
        Rack {
            dsack_adaptation,
            window,
            xmit: Time::ZERO,
            end: 0,
            rtt: Dur::ZERO,
            reordering_seen: false,
            mult: 1,
            persist: RECOVERIES,
            dsack_round: None,
            widened: false,
            advanced: false,
        }
    }

    /// The handshake's round-trip time is used until data give one.
    pub fn start(&mut self, rtt: Dur) {
        self.rtt = rtt;
    }

    /// Steps 2 and 3: the newest delivery, and whether reordering was seen.
    pub fn update(&mut self, d: &Delivered) {
        if let Some((xmit, end)) = d.rack {
            self.rtt = d.rack_rtt;
            self.advanced = true;
            if (self.xmit, self.end) < (xmit, end) {
                (self.xmit, self.end) = (xmit, end);
            }
        }
        if d.late > 0 {
            self.on_reordering();
        }
    }

    /// An original was delivered after one sent later.
    pub fn on_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// The same for a run of originals, in order.
    #[inline]
    pub fn update_in_order(&mut self, rtt: Dur, xmit: Time, end: u64) {
        self.rtt = rtt;
        self.advanced = true;
        if (self.xmit, self.end) < (xmit, end) {
            (self.xmit, self.end) = (xmit, end);
        }
    }

    /// Losses are to be looked for again, as after a delivery.
    pub fn look_again(&mut self) {
        self.advanced = true;
    }

    /// Whether something was delivered since losses were looked for; they are looked for now.
    #[inline]
    pub fn take_advanced(&mut self) -> bool {
        std::mem::take(&mut self.advanced)
    }

    /// Transmission time of the newest delivery, and the position after it.
    #[inline]
    pub fn newest(&self) -> (Time, u64) {
        (self.xmit, self.end)
    }

    /// Step 4, growth: one quarter more for each round that saw a DSACK.
    pub fn on_dsack(&mut self, una: u64, nxt: u64) {
        if self.dsack_round.is_some_and(|end| una >= end) {
            self.dsack_round = None;
        }
        if self.dsack_round.is_none() {
            self.dsack_round = Some(nxt);
            self.mult += 1;
            self.persist = RECOVERIES;
            self.widened = true;
        }
    }

    /// The processing of an ACK ends.
    pub fn end_ack(&mut self) {
        self.widened = false;
    }

    /// Step 4, decay: after sixteen recoveries without a DSACK. A recovery that ends with the ACK that widened the window is not
    /// one of them.
    pub fn on_recovery_end(&mut self) {
        if self.widened {
            return;
        }
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.mult = 1;
        }
    }

    /// Step 4: the reordering window.
    pub fn reo_wnd(&self, input: &WindowInput, scoreboard: &Scoreboard) -> Dur {
        match self.window {
            RackWindow::Rfc8985 => {
                let likely = || input.recovering || scoreboard.holds_sacked_segments(DUP_THRESH, input.mss);
                if !self.reordering_seen && likely() {
                    return Dur::ZERO;
                }
                let mult = if self.dsack_adaptation { self.mult } else { 1 };
                let min = input.min_rtt.unwrap_or(Dur::ZERO);
                let window = if input.micros {
                    Dur::from_micros(min.as_micros() / 4 * u64::from(mult))
                } else {
                    min * u64::from(mult) / 4
                };
                let srtt = input.srtt.unwrap_or(Dur::ZERO);
                window.min(if input.micros { Dur::from_micros(srtt.as_micros()) } else { srtt })
            }
            // A quarter of the last round trip; one more for each round with a DSACK once reordering was seen; at most a whole
            // round trip.
            RackWindow::LastRtt => {
                let more = if self.dsack_adaptation && self.reordering_seen { self.mult - 1 } else { 0 };
                (self.rtt * u64::from(1 + more) / 4).min(self.rtt)
            }
        }
    }

    /// Step 5: marks what is lost. The scan says until when the rest may still be reordered.
    pub fn detect(&self, now: Time, input: &WindowInput, scoreboard: &mut Scoreboard) -> RackScan {
        if scoreboard.none_before(self.xmit, self.end) {
            return RackScan::default();
        }
        let window = self.rtt + self.reo_wnd(input, scoreboard);
        scoreboard
            .rack_scan(self.xmit, self.end, now, |sent| clock(sent, input.micros).saturating_add(window))
    }

    /// RFC 8985 section 6.3: on a timeout the first segment is lost, and all segments that are older than the window. Returns the bytes
    /// newly marked.
    pub fn mark_on_timeout(&self, now: Time, input: &WindowInput, scoreboard: &mut Scoreboard) -> u64 {
        let window = self.rtt + self.reo_wnd(input, scoreboard);
        let una = scoreboard.una();
        scoreboard
            .mark_where(|s| s.start == una || clock(s.sent_at, input.micros).saturating_add(window) <= now)
    }
}

fn clock(at: Time, in_micros: bool) -> Time {
    if in_micros { micros(at) } else { at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::scoreboard::testing::{sacked, sent_every};

    fn ms(n: u64) -> Dur {
        Dur::from_millis(n)
    }

    fn at(n: u64) -> Time {
        Time::ZERO + ms(n)
    }

    const INPUT: WindowInput = WindowInput {
        recovering: false,
        mss: 1000,
        min_rtt: Some(Dur::from_millis(100)),
        srtt: Some(Dur::from_millis(120)),
        micros: false,
    };

    fn rack() -> Rack {
        Rack::new(true, RackWindow::Rfc8985)
    }

    fn reordered() -> Delivered {
        Delivered { late: 1000, ..Delivered::default() }
    }

    #[test]
    fn three_sacked_segments_or_a_recovery_leave_no_window_until_reordering_was_seen() {
        let mut rack = rack();
        let mut scoreboard = sent_every(6, ms(1));
        sacked(&mut scoreboard, 1..3);
        assert_eq!(rack.reo_wnd(&INPUT, &scoreboard), ms(25));
        sacked(&mut scoreboard, 1..4);
        assert_eq!(rack.reo_wnd(&INPUT, &scoreboard), Dur::ZERO);
        assert_eq!(
            rack.reo_wnd(&WindowInput { recovering: true, ..INPUT }, &sent_every(1, ms(1))),
            Dur::ZERO
        );
        rack.update(&reordered());
        assert_eq!(rack.reo_wnd(&INPUT, &scoreboard), ms(25));
    }

    /// After reordering was seen.
    fn reordered_rack(dsack_adaptation: bool) -> Rack {
        let mut rack = Rack::new(dsack_adaptation, RackWindow::Rfc8985);
        rack.update(&reordered());
        rack
    }

    #[test]
    fn the_window_grows_a_quarter_a_round_with_a_dsack_and_is_at_most_srtt() {
        let mut rack = reordered_rack(true);
        let scoreboard = sent_every(1, ms(1));
        assert_eq!(rack.reo_wnd(&INPUT, &scoreboard), ms(25));
        rack.on_dsack(1, 5001);
        assert_eq!(rack.reo_wnd(&INPUT, &scoreboard), ms(50));
        rack.on_dsack(4001, 6001);
        assert_eq!(rack.reo_wnd(&INPUT, &scoreboard), ms(50), "the second DSACK is of the same round");
        for (round, window) in [(1, 75), (2, 100), (3, 120), (4, 120)] {
            rack.on_dsack(5001 * round, 5001 * (round + 1));
            assert_eq!(rack.reo_wnd(&INPUT, &scoreboard), ms(window));
        }
    }

    #[test]
    fn losses_are_looked_for_once_after_a_delivery() {
        let mut rack = rack();
        assert!(!rack.take_advanced());
        rack.update_in_order(ms(10), at(10), 1001);
        assert!(rack.take_advanced());
        assert!(!rack.take_advanced(), "a duplicate ACK delivers nothing");
        rack.update(&Delivered { rack: Some((at(12), 2001)), rack_rtt: ms(10), ..Delivered::default() });
        assert!(rack.take_advanced());
        rack.look_again();
        assert!(rack.take_advanced());
    }

    #[test]
    fn without_adaptation_a_dsack_does_not_widen_the_window() {
        let mut rack = reordered_rack(false);
        rack.on_dsack(1, 5001);
        assert_eq!(rack.reo_wnd(&INPUT, &sent_every(1, ms(1))), ms(25));
    }

    #[test]
    fn the_window_shrinks_after_sixteen_recoveries_without_a_dsack() {
        let mut rack = reordered_rack(true);
        let scoreboard = sent_every(1, ms(1));
        rack.on_dsack(1, 5001);
        rack.end_ack();
        for _ in 0..15 {
            rack.on_recovery_end();
        }
        assert_eq!(rack.reo_wnd(&INPUT, &scoreboard), ms(50));
        rack.on_recovery_end();
        assert_eq!(rack.reo_wnd(&INPUT, &scoreboard), ms(25));
    }

    #[test]
    fn a_recovery_that_ends_with_the_ack_that_widens_the_window_is_not_one_of_the_sixteen() {
        // RFC 8985 section 6.2 step 4: "else if exiting".
        let mut rack = reordered_rack(true);
        let scoreboard = sent_every(1, ms(1));
        rack.on_dsack(1, 5001);
        rack.on_recovery_end();
        rack.end_ack();
        for _ in 0..15 {
            rack.on_recovery_end();
        }
        assert_eq!(rack.reo_wnd(&INPUT, &scoreboard), ms(50));
        rack.on_recovery_end();
        assert_eq!(rack.reo_wnd(&INPUT, &scoreboard), ms(25));
    }

    #[test]
    fn freebsds_window_is_a_quarter_of_the_last_round_trip_also_in_recovery() {
        let mut rack = Rack::new(true, RackWindow::LastRtt);
        rack.start(ms(80));
        let recovering = WindowInput { recovering: true, ..INPUT };
        let scoreboard = sent_every(1, ms(1));
        assert_eq!(rack.reo_wnd(&recovering, &scoreboard), ms(20));
        rack.on_dsack(1, 1001);
        assert_eq!(rack.reo_wnd(&recovering, &scoreboard), ms(20), "no reordering was seen");
        rack.update(&reordered());
        assert_eq!(rack.reo_wnd(&recovering, &scoreboard), ms(40));
    }

    #[test]
    fn what_was_sent_a_window_before_the_newest_delivery_is_lost_and_the_rest_waits() {
        // Segments leave at 0, 10, 20, 30 ms; the third is delivered after 100 ms.
        let mut scoreboard = sent_every(4, ms(10));
        let mut rack = rack();
        rack.update(&reordered());
        let mut d = Delivered { now: at(120), mss: 1000, ..Delivered::default() };
        let blocks = std::iter::once(2001..3001).collect();
        scoreboard.sack(&blocks, None, &mut d);
        rack.update(&d);
        assert_eq!(rack.newest(), (at(20), 3001));
        // 100 ms and a window of 25 ms after they were sent.
        let scan = rack.detect(at(126), &INPUT, &mut scoreboard);
        assert_eq!((scan.lost, scan.first, scan.last, scan.wait), (1000, 1, 1001, Some(at(135))));
        assert_eq!(rack.detect(at(135), &INPUT, &mut scoreboard).lost, 1000);
        assert_eq!(scoreboard.lost(), 2000);
    }

    #[test]
    fn on_a_timeout_the_first_segment_is_lost_and_what_is_older_than_the_window() {
        let mut scoreboard = sent_every(4, ms(100));
        let mut rack = rack();
        rack.start(ms(100));
        // The window ends 125 ms after each was sent.
        assert_eq!(rack.mark_on_timeout(at(230), &INPUT, &mut scoreboard), 2000);
        assert_eq!(rack.mark_on_timeout(at(240), &INPUT, &mut scoreboard), 0);
    }
}
