//! The retransmission timeout and F-RTO.
//!
//! Sources: RFC 6298 section 5, RFC 5681 section 3.1, RFC 5682 (SACK-enhanced where SACK is in force), RFC 6675 section 5.1,
//! RFC 8985 section 6.3; `tcp_enter_loss` and `tcp_process_loss` of Linux.

use super::Sender;
use super::ack::Arrival;
use super::board::SACKED;
use super::delivery::Delivered;
use super::recovery::log_lost;
use crate::config::StackFlavor;
use crate::log::{CongestionState as Ca, Log};
use crate::messages::GaveUp;
use tcpassay_cc::Event;
use tcpassay_units::{Bytes, Time};

/// Where F-RTO stands (RFC 5682 section 2.1 and 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Frto {
    /// Not deciding: conventional recovery.
    #[default]
    Off,
    /// Step 1: the first segment, up to here, was retransmitted.
    Head(u64),
    /// Step 2b: an ACK advanced; new data go out, and the next ACK decides.
    New,
}

impl Sender {
    /// The retransmission timer fired.
    pub(super) fn on_rto(&mut self, now: Time, log: &mut Log) -> Result<(), GaveUp> {
        self.stats.timeouts += 1;
        let again = self.timers.rto_count > 0;
        self.timers.rto_count += 1;
        if self.cfg.user_timeout.is_some_and(|t| now.since(self.timers.progress) >= t) {
            return Err(GaveUp::UserTimeout);
        }
        if self.timers.rto_count > self.cfg.retries {
            return Err(GaveUp::Retries);
        }
        self.suspect_path(now, !again);
        let flight = self.board.outstanding();
        self.reordering.on_timeout(self.board.sacked / self.mss);
        if self.board.front().is_some_and(|s| s.is(SACKED)) {
            self.board.renege();
        }
        let fresh = matches!(self.state, Ca::Open | Ca::Disorder | Ca::Cwr);
        // RFC 5682 section 2.1: from step 1 again when the same segment times out again; not during another recovery. In Linux
        // the second timeout in a row begins it whatever came before (`tcp_enter_loss`).
        let restarts = again && (self.cfg.flavor == StackFlavor::Linux || matches!(self.frto, Frto::Head(_)));
        let head = self.board.front().map_or(0, |s| s.end().min(s.start + self.mss));
        self.frto = if self.cfg.frto && (fresh || restarts) { Frto::Head(head) } else { Frto::Off };
        if fresh {
            self.begin_undo();
        }
        let una = self.board.una;
        let lost =
            if self.racks() { self.rack_mark_on_timeout(now) } else { self.board.mark_where(|_| true) };
        log_lost(now, una..self.board.nxt, lost, "rto", log);
        self.dup_acks = 0;
        self.dup_bytes = 0;
        self.recover = self.board.nxt;
        self.probe.cancel();
        self.timers.reorder = Time::MAX;
        if !self.jammed {
            self.rtt.back_off();
        }
        self.set_state(now, Ca::Loss, "rto", log);
        let flight = self.reduced_from(flight);
        self.tell(now, &Event::Timeout { flight: Bytes::new(flight), again }, "timeout", log);
        self.cwnd = self.cc.control.cwnd.get();
        self.entered = true;
        self.announce_cwr();
        self.force = true;
        let wait = if self.jammed { super::jam::AGAIN } else { self.rtt.rto() };
        self.timers.set_rto(now, wait, log);
        Ok(())
    }

    /// The timeout was false: in Linux the same ACK may show a loss by RACK (`tcp_fastretrans_alert`).
    fn look_again(&mut self, a: &Arrival, d: &Delivered, log: &mut Log) -> u64 {
        if self.cfg.flavor == StackFlavor::Linux && self.racks() { self.detect(a.now, d, log) } else { 0 }
    }

    /// An ACK in the Loss state.
    pub(super) fn in_loss(&mut self, a: &Arrival, d: &Delivered, log: &mut Log) -> u64 {
        if a.advanced
            && let Some(why) = self.proven_false(a, d)
        {
            self.leave(a.now, true, why, log);
            return self.look_again(a, d, log);
        }
        let recovered = self.board.una >= self.recover;
        if self.frto != Frto::Off {
            // Step 3b: data that were never retransmitted arrived; the timeout was spurious.
            if d.original {
                self.leave(a.now, true, "undo: f-rto", log);
                return self.look_again(a, d, log);
            }
            if self.board.nxt > self.recover {
                // Step 3a: a duplicate after new data; the loss was real.
                if d.sacked > 0 || a.dup {
                    self.frto = Frto::Off;
                }
            } else if a.advanced && !recovered {
                // Step 2a: a part of the retransmission proves nothing; step 2b.
                let all = !matches!(self.frto, Frto::Head(end) if self.board.una < end);
                self.recover = self.board.nxt;
                self.frto = if all { Frto::New } else { Frto::Off };
            } else if a.dup && !self.sack && self.cfg.flavor != StackFlavor::Linux {
                // Step 2a; with SACK step 2 waits for the retransmission's ACK, and so does Linux without (`tcp_process_loss`).
                self.frto = Frto::Off;
            }
        }
        if self.board.una == self.recover && !self.sack && self.cfg.flavor == StackFlavor::Linux {
            // As in recovery (`tcp_try_undo_recovery`).
            return 0;
        }
        if recovered {
            self.leave(a.now, false, "high_seq acked", log);
        }
        if self.racks() || recovered { self.detect(a.now, d, log) } else { 0 }
    }
}
