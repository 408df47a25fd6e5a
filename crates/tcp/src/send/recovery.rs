//! The congestion states: how a recovery begins, moves and ends.
//!
//! Sources: RFC 5681 section 3.2, RFC 6582 (NewReno), RFC 6675 section 5, RFC 9937, RFC 3168 section 6.1.2;
//! `tcp_fastretrans_alert` of Linux for the states.

use super::Sender;
use super::ack::Arrival;
use super::delivery::Delivered;
use super::prr::{Prr, Step};
use super::undo::EIFEL;
use crate::config::{Recovery, RecoveryExit, StackFlavor};
use crate::log::{CongestionState as Ca, Log, LogEvent};
use crate::messages::Span;
use tcpassay_cc::{Cause, Event};
use tcpassay_units::{Bytes, Time};

/// Enters a loss in the log, if there is one.
pub(super) fn log_lost(now: Time, span: Span, lost: u64, why: &'static str, log: &mut Log) {
    if lost > 0 {
        log.put(now, || LogEvent::Lost { start: span.start, end: span.end, why });
    }
}

impl Sender {
    /// What the ACK says to PRR.
    fn step(&self, a: &Arrival, d: &Delivered, lost: u64, recovery: bool) -> Step {
        let delivered = self.delivered_size(d.bytes, d.packets);
        Step { delivered, advanced: a.advanced, repaired: d.ambiguous, lost: lost > 0, recovery }
    }

    /// What PRR takes `bytes` in so many packets for: Linux counts packets (`tcp_cwnd_reduction`), however short.
    #[inline]
    pub(super) fn delivered_size(&self, bytes: u64, packets: u64) -> u64 {
        if self.cfg.flavor == StackFlavor::Linux { packets * self.mss } else { bytes }
    }

    /// What is in flight, as PRR counts it. The records are walked only where a short segment may be among them.
    pub(super) fn prr_pipe(&self) -> u64 {
        if self.cfg.flavor == StackFlavor::Linux && self.small_end > self.board.una {
            let packets = self.board.packets_in_flight(self.mss) * self.mss;
            return packets.saturating_sub(self.dup_bytes);
        }
        self.pipe()
    }

    /// Detects loss and moves the state, with at most one `Congestion` or `RecoveryExit`. Gives the bytes newly marked lost.
    pub(super) fn move_state(&mut self, a: &Arrival, d: &Delivered, log: &mut Log) -> u64 {
        match self.state {
            Ca::Loss => self.in_loss(a, d, log),
            Ca::Recovery => self.in_recovery(a, d, log),
            Ca::Open | Ca::Disorder | Ca::Cwr => self.in_open(a, d, log),
        }
    }

    fn in_recovery(&mut self, a: &Arrival, d: &Delivered, log: &mut Log) -> u64 {
        if let Some(why) = self.proven_false(a, d) {
            // Linux `tcp_try_undo_partial`: with retransmissions in flight it waits, and marks nothing more lost.
            if why != EIFEL || self.board.una >= self.recover || self.board.retx == 0 {
                self.leave(a.now, true, why, log);
            }
            return 0;
        }
        if self.board.una == self.recover && !self.sack && self.cfg.flavor == StackFlavor::Linux {
            // Late duplicates of this episode must not begin another: it lasts until something above its end is acknowledged
            // (`tcp_is_non_sack_preventing_reopen`).
            return 0;
        }
        if self.board.una >= self.recover {
            self.leave(a.now, false, "recovery point acknowledged", log);
            // `tcp_do_segment` asks before it ends the recovery whether another begins.
            return if self.creeps() { 0 } else { self.detect(a.now, d, log) };
        }
        let mut lost = self.detect(a.now, d, log);
        if !self.sack && a.advanced {
            // RFC 6582 section 3.2 step 3, partial ACK: the next hole is lost and goes out at once.
            self.partial_acks += 1;
            let marked = self.board.mark_front(self.mss);
            log_lost(a.now, self.board.una..self.board.una + marked, marked, "newreno", log);
            lost += marked;
            self.force = self.cfg.recovery != Recovery::Prr;
        }
        if a.advanced && self.wants_rescue(d) {
            self.rescued = self.board.mark_tail(self.mss);
            log_lost(a.now, self.board.nxt - self.rescued..self.board.nxt, self.rescued, "rescue", log);
            lost += self.rescued;
        }
        lost
    }

    fn in_open(&mut self, a: &Arrival, d: &Delivered, log: &mut Log) -> u64 {
        if let Some(why) = self.late_proof() {
            self.leave(a.now, true, why, log);
        }
        let lost = self.detect(a.now, d, log);
        if self.cc.moved() {
            return lost;
        }
        if self.board.pending > 0 {
            if !self.path_probe_lost(a.now, log) {
                self.enter_recovery(a.now, a.prior_out, a.prior_out - a.prior_sacked, log);
            }
        } else if self.state == Ca::Cwr && self.board.una > self.recover {
            self.leave(a.now, false, "high_seq acked", log);
        } else {
            self.probe_evidence(a, log);
            if !self.cc.moved() && a.marked && self.state != Ca::Cwr {
                self.enter_cwr(a.now, Cause::Ecn, a.prior_out, a.prior_out - a.prior_sacked, "ece", log);
            }
        }
        self.settle(a.now, log);
        lost
    }

    /// After the controller was told the ACK: what could not be told before it. One ACK may end an episode and show the
    /// reason of the next one; the next one begins here, before anything is sent.
    pub(super) fn follow_up(&mut self, a: &Arrival, d: &Delivered, log: &mut Log) {
        if !matches!(self.state, Ca::Open | Ca::Disorder) {
            return;
        }
        let flight = a.prior_out;
        if self.board.pending > 0 {
            self.enter_recovery(a.now, flight, flight - a.prior_sacked, log);
        } else if a.marked && self.cc.moved() {
            self.enter_cwr(a.now, Cause::Ecn, flight, flight - a.prior_sacked, "ece", log);
        } else {
            return;
        }
        self.update_window(a, d, 0, log);
    }

    /// Open or Disorder, by whether duplicates are about.
    pub(super) fn settle(&mut self, now: Time, log: &mut Log) {
        let disorder = self.board.sacked > 0 || self.dup_acks > 0;
        match self.state {
            Ca::Open if disorder => {
                self.limited_sent = 0;
                self.set_state(now, Ca::Disorder, "duplicate ACK", log);
            }
            Ca::Disorder if !disorder => self.set_state(now, Ca::Open, "in order", log),
            _ => {}
        }
    }

    /// Marks losses by the configured rule; gives the bytes newly marked.
    pub(super) fn detect(&mut self, now: Time, d: &Delivered, log: &mut Log) -> u64 {
        if self.racks() {
            let scan = self.detect_by_time(now, log);
            log_lost(now, scan.first..scan.last, scan.lost, "rack", log);
            return scan.lost;
        }
        let (lost, why) = self.detect_by_count(d);
        log_lost(now, self.board.una..self.board.high_sacked, lost, why, log);
        lost
    }

    /// Fast recovery begins. `flight` is RFC 5681's flight size, `undelivered` what of it was not SACKed before.
    pub(super) fn enter_recovery(&mut self, now: Time, flight: u64, undelivered: u64, log: &mut Log) {
        self.stats.recoveries += 1;
        // One reduction a window: a loss found while a mark's reduction is under way adds none.
        if self.entered {
            if !self.cfg.cwr_by_prr {
                self.prr = Prr::begin(undelivered, self.mss);
            }
            // The mark was real whatever becomes of the loss.
            self.undo.clear();
        } else {
            let flight = flight - self.limited_sent.min(flight);
            self.enter(now, Cause::Loss, flight, log);
            self.prr = Prr::begin(undelivered, self.mss);
            self.begin_undo();
        }
        self.recover = self.board.nxt;
        self.high_rxt = self.board.una;
        self.rescue = None;
        self.rescued = 0;
        self.partial_acks = 0;
        self.entry_dups = self.dup_acks;
        self.probe.cancel();
        self.set_state(now, Ca::Recovery, if self.racks() { "rack" } else { "dupthresh" }, log);
        match self.cfg.recovery {
            Recovery::Prr => {}
            Recovery::Sack if self.sack => {
                self.force = true;
                self.set_cwnd(now, self.target(), "enter", log);
            }
            Recovery::FreeBsd { .. } if self.sack => {
                self.force = true;
                self.set_cwnd(now, self.mss, "enter", log);
            }
            // RFC 6582 section 3.2 step 2 (RFC 5681 section 3.2 step 3): inflated by what has left the network.
            Recovery::Sack | Recovery::NewReno | Recovery::FreeBsd { .. } => {
                self.force = true;
                let inflated = self.target() + u64::from(self.dup_acks.max(1)) * self.mss;
                self.set_cwnd(now, inflated, "enter", log);
            }
        }
    }

    /// What the episode that begins retransmits may turn out to have been unnecessary.
    pub(super) fn begin_undo(&mut self) {
        self.undo.begin(self.board.una, self.board.retx, self.board.any_retransmitted());
    }

    /// A window reduction without retransmission: a mark, or a loss that a probe repaired.
    pub(super) fn enter_cwr(
        &mut self,
        now: Time,
        cause: Cause,
        flight: u64,
        undelivered: u64,
        why: &'static str,
        log: &mut Log,
    ) {
        if cause == Cause::Ecn {
            self.stats.ecn_reductions += 1;
        }
        self.enter(now, cause, flight, log);
        self.recover = self.board.nxt;
        self.prr = Prr::begin(undelivered, self.mss);
        self.undo.clear();
        if !self.cfg.cwr_by_prr {
            self.set_cwnd(now, self.target().min(self.cwnd), "enter", log);
        }
        self.set_state(now, Ca::Cwr, why, log);
    }

    /// What a reduction starts from.
    pub(super) fn reduced_from(&self, flight: u64) -> u64 {
        if self.cfg.reduce_from_cwnd { self.cc.control.cwnd.get() } else { flight }
    }

    fn enter(&mut self, now: Time, cause: Cause, flight: u64, log: &mut Log) {
        if cause == Cause::Ecn && self.cfg.mark_stops_one_segment && self.cc.control.cwnd <= self.bytes_mss()
        {
            // RFC 3168 section 6.1.2: the window cannot shrink, so the timer makes the pause.
            self.timers.stopped = now.saturating_add(self.rtt.rto());
        }
        let flight = self.reduced_from(flight);
        self.tell(now, &Event::Congestion { cause, flight: Bytes::new(flight) }, "enter", log);
        self.entered = true;
        self.announce_cwr();
    }

    /// RFC 3168 section 6.1.2: the reduction, whatever its cause, is announced on the next new data.
    pub(super) fn announce_cwr(&mut self) {
        self.cwr_due = self.hears_ece();
    }

    /// The window that the controller wants: after `Congestion`, the one that the reduction ends with.
    pub(super) fn target(&self) -> u64 {
        self.cc.control.cwnd.get()
    }

    /// The episode ends; the controller's window is in force again.
    pub(super) fn leave(&mut self, now: Time, spurious: bool, why: &'static str, log: &mut Log) {
        let exit = if spurious || self.state != Ca::Recovery { Bytes::MAX } else { self.exit_bound() };
        if spurious {
            self.stats.undos += 1;
            self.board.unmark();
            self.undo.clear();
            self.force = false;
            // RFC 5682 section 2.1 step 3b: nothing was retransmitted in vain whose duplicates could mislead.
            self.recover = self.board.una - 1;
        }
        if matches!(self.state, Ca::Recovery | Ca::Loss) {
            self.rack.on_recovery_end();
        }
        self.frto = super::timeout::Frto::Off;
        self.entered = false;
        self.limited_sent = 0;
        self.dup_acks = 0;
        self.dup_bytes = 0;
        self.tell(now, &Event::RecoveryExit { spurious, exit }, "leave", log);
        self.set_cwnd(now, self.target(), "leave", log);
        let to = if self.board.sacked > 0 { Ca::Disorder } else { Ca::Open };
        self.set_state(now, to, why, log);
    }

    fn exit_bound(&self) -> Bytes {
        let flight = self.pipe();
        match self.cfg.recovery_exit {
            RecoveryExit::Ssthresh => Bytes::MAX,
            RecoveryExit::Rfc3782LessCareful => Bytes::new(flight + self.mss),
            RecoveryExit::Rfc6582 => Bytes::new(flight.max(self.mss) + self.mss),
        }
    }

    /// The data path's window after the ACK.
    pub(super) fn update_window(&mut self, a: &Arrival, d: &Delivered, lost: u64, log: &mut Log) {
        match self.state {
            Ca::Open | Ca::Disorder | Ca::Loss => self.cwnd = self.cc.control.cwnd.get(),
            Ca::Cwr if self.cfg.cwr_by_prr => {
                let step = self.step(a, d, lost, false);
                self.reduce_by_prr(a.now, &step, log);
            }
            Ca::Cwr => {}
            Ca::Recovery => match self.cfg.recovery {
                Recovery::Prr => {
                    let step = self.step(a, d, lost, true);
                    self.reduce_by_prr(a.now, &step, log);
                }
                Recovery::Sack if self.sack => {}
                Recovery::FreeBsd { pipe } if self.sack => self.creep(a, d, pipe, log),
                Recovery::Sack | Recovery::NewReno | Recovery::FreeBsd { .. } => self.inflate(a, d, log),
            },
        }
    }

    pub(super) fn reduce_by_prr(&mut self, now: Time, step: &Step, log: &mut Log) {
        if step.delivered == 0 && self.prr.out > 0 {
            return;
        }
        let cwnd = self.prr.on_ack(step, self.prr_pipe(), self.target(), self.cfg.prr_bound, self.mss);
        self.set_cwnd(now, cwnd, "prr", log);
    }

    /// [`Recovery::FreeBsd`]: one segment more with each duplicate ACK while the flight is below ssthresh; after a partial ACK
    /// what recovery has sent, and one segment or two.
    fn creep(&mut self, a: &Arrival, d: &Delivered, pipe: bool, log: &mut Log) {
        if a.advanced {
            // Each duplicate after it counts. An ACK that begins the recovery and advances is partial, too, once the first
            // segment has left.
            self.entry_dups = 0;
            let first = if self.force { self.mss } else { 0 };
            let sent = first + self.resent() + (self.board.nxt - self.recover);
            let more = if d.acked >= 2 * self.mss { 2 } else { 1 };
            self.set_cwnd(a.now, (sent + more * self.mss).min(self.target()), "partial ACK", log);
        } else if d.sacked > 0 && self.dup_acks > self.entry_dups {
            let flight = if pipe {
                self.board.outstanding() - self.board.sacked + self.resent()
            } else {
                self.board.nxt - self.board.high_sacked + self.resent()
            };
            if flight < self.target() {
                self.set_cwnd(a.now, (self.cwnd + self.mss).min(self.target()), "half window", log);
            }
        }
    }

    /// `tcp_sack_partialack` with `rfc6675_pipe`: an ACK of everything below the recovery point that was SACKed or retransmitted,
    /// and nothing was sent above it: the last segment is sent again, for its SACK to show what else is lost.
    fn wants_rescue(&self, d: &Delivered) -> bool {
        self.sack
            && self.cfg.recovery == Recovery::FreeBsd { pipe: true }
            && self.recover == self.board.nxt
            && self.board.sacked == 0
            && self.board.lost == 0
            && d.bytes > 0
    }

    /// FreeBSD's `sack_bytes_rexmit`: what is in flight again. A rescue retransmission stays in it when it has been SACKed
    /// (`tcp_sack_doack` moves its hole to what is below, and not the count).
    fn resent(&self) -> u64 {
        self.board.retx + if self.board.sacked > 0 { self.rescued } else { 0 }
    }

    /// What counts against that window for new data, of `out` bytes outstanding: what recovery has sent, once it has sent
    /// anything again (`tcp_output`).
    pub(super) fn crept(&self, out: u64) -> u64 {
        let resent = self.resent();
        if resent > 0 { resent + (self.board.nxt - self.recover) } else { out }
    }

    /// The room for what is lost: new data do not count against it.
    pub(super) fn room_for_lost(&self) -> u64 {
        if self.state == Ca::Recovery && self.creeps() {
            return self.cwnd.saturating_sub(self.resent());
        }
        self.room()
    }

    /// Whether recovery is FreeBSD's without PRR.
    pub(super) fn creeps(&self) -> bool {
        self.sack && matches!(self.cfg.recovery, Recovery::FreeBsd { .. })
    }

    /// RFC 6582 section 3.2 steps 2 and 3.
    fn inflate(&mut self, a: &Arrival, d: &Delivered, log: &mut Log) {
        if a.advanced {
            // Each duplicate after it counts (RFC 5681 section 3.2 step 4).
            self.entry_dups = 0;
            let back = if d.acked >= self.mss { self.mss } else { 0 };
            let cwnd = (self.cwnd.saturating_sub(d.acked) + back).max(self.mss);
            self.set_cwnd(a.now, cwnd, "newreno", log);
        } else if a.dup && self.dup_acks > self.entry_dups {
            self.set_cwnd(a.now, self.cwnd + self.mss, "newreno", log);
        }
    }
}
