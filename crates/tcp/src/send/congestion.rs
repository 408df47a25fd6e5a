//! The congestion states: how a recovery begins, continues and ends; and the window after an idle time.
//!
//! Sources: RFC 5681 sections 3.2 and 4.1, RFC 2861, RFC 6582 (NewReno), RFC 6675 section 5, RFC 9937, RFC 3168 section 6.1.2, RFC 5682;
//! `tcp_fastretrans_alert` and `tcp_process_loss` of Linux for the states.

use super::Sender;
use super::ack::AckContext;
use super::delivery::Delivered;
use super::detect::log_lost;
use super::in_flight::Flight;
use super::loss::rto::{Decision, Frto, FrtoAck};
use super::loss::tlp::Outcome;
use super::loss::undo::UndoAck;
use super::recovery::freebsd::{self, PartialAckWindow};
use super::recovery::newreno::{NewReno, RecoveryAck};
use super::recovery::prr::{Prr, Step};
use super::recovery::sack::NextSeg;
use crate::config::{AfterIdle, Recovery, RecoveryExitRule};
use crate::log::{CongestionCause, CongestionState as Ca, Log, LossRule, WindowCause};
use tcpassay_cc::{Cause, Event};
use tcpassay_units::{Bytes, Time};

impl Sender {
    /// RFC 5681 section 4.1: the window after an idle time longer than the RTO. Linux restarts it when a buffer is added to its queue, and
    /// when the peer's window changes while the queue has data, not when they leave (`tcp_slow_start_after_idle_check`).
    pub(super) fn restart_after_idle(&mut self, now: Time, log: &mut Log) {
        let idle = self.cfg.timer_ticks.between(self.last_sent, now);
        let rto = self.rtt.rto();
        if self.cc.governs_recovery()
            || idle <= rto
            || self.restarted && !self.buffer.is_queue()
            || self.cfg.after_idle == AfterIdle::Keep
            || self.stats.bytes_sent == 0
        {
            return;
        }
        let cwnd = self.cc.control().cwnd;
        let initial = self.bytes_mss() * u64::from(self.cfg.initial_window.max(1));
        let floor = initial.min(cwnd);
        let restart = match self.cfg.after_idle {
            AfterIdle::Decay => {
                // RFC 2861: half for each RTO of idle time.
                let halvings = (idle / rto).min(63);
                let unit = if self.rules.counts_packets { self.bytes_mss() } else { Bytes::new(1) };
                (unit * ((cwnd / unit) >> halvings)).max(floor)
            }
            _ => floor,
        };
        self.on_event(now, &Event::Resume { idle, rto, restart }, WindowCause::Resume, log);
        // A reduction in progress continues from its window (Linux: `tcp_cwnd_restart` never raises it).
        self.cwnd = if self.reducing { self.cwnd.min(self.target()) } else { self.target() };
        self.restarted = true;
    }

    /// The input of PRR from the ACK.
    fn prr_step(&self, a: &AckContext, d: &Delivered, lost: u64, recovery: bool) -> Step {
        let delivered = self.delivered_size(d.bytes, d.packets);
        Step { delivered, advanced: a.advanced, repaired: d.ambiguous, lost: lost > 0, recovery }
    }

    /// Detects losses and changes the state: at most one episode begins, and at most one ends. Returns the bytes newly marked
    /// lost.
    pub(super) fn update_state(&mut self, a: &AckContext, d: &Delivered, log: &mut Log) -> u64 {
        match self.state {
            Ca::Loss => self.in_loss(a, d, log),
            Ca::Recovery => self.in_recovery(a, d, log),
            Ca::Open | Ca::Disorder | Ca::Cwr => self.in_open(a, d, log),
        }
    }

    fn in_recovery(&mut self, a: &AckContext, d: &Delivered, log: &mut Log) -> u64 {
        let recovered = self.scoreboard.una() >= self.recover;
        if let Some(why) = self.undo_proof(a, d) {
            if self.rules.partial_undo_shows_reordering && why == CongestionCause::UndoEifel && !recovered {
                // The hole was filled by the original: it was as late as the data beyond it are ahead (`tcp_try_undo_partial`).
                let board = &self.scoreboard;
                let highest = if board.sacked() > 0 { board.high_sacked() } else { board.una() };
                self.dup_thresh.on_reordering(highest - (board.una() - d.acked), self.mss);
                self.rack.on_reordering();
            }
            // Linux `tcp_try_undo_partial`: with retransmissions in flight it waits, and marks nothing more lost.
            if why != CongestionCause::UndoEifel || recovered || self.scoreboard.retransmitted() == 0 {
                // Without SACK Linux still counts the duplicates, which may begin the next recovery at once (`tcp_try_undo_partial`).
                let counted = self.duplicates;
                self.leave(a.now, true, why, log);
                if self.rules.emulates_sack && !self.sack && !recovered {
                    self.duplicates = counted;
                    self.update_disorder(a.now, log);
                }
                return self.detect_after_undo(a, d, log);
            }
            return 0;
        }
        if self.awaits_ack_above_recover() {
            return 0;
        }
        if recovered {
            self.leave(a.now, false, CongestionCause::RecoveryPointAcked, log);
            // `tcp_do_segment` checks whether another recovery begins before it ends the present one.
            return if self.uses_partial_ack_window() { 0 } else { self.detect(a.now, d, log) };
        }
        let mut lost = self.detect(a.now, d, log);
        if !self.sack && a.advanced {
            // RFC 6582 section 3.2 step 3, partial ACK: the next hole is lost and is retransmitted at once.
            self.newreno.on_partial_ack();
            let marked = self.scoreboard.mark_front(self.mss);
            let una = self.scoreboard.una();
            log_lost(a.now, una..una + marked, marked, LossRule::NewReno, log);
            lost += marked;
            self.force_retransmit = self.cfg.recovery != Recovery::Prr;
        }
        if a.advanced
            && self.sack
            && self.cfg.recovery == (Recovery::FreeBsd { pipe: true })
            && PartialAckWindow::wants_rescue(&self.scoreboard, self.recover, d.bytes)
        {
            let rescued = self.scoreboard.mark_tail(self.mss);
            self.partial_ack_window.on_rescue(rescued);
            let nxt = self.scoreboard.nxt();
            log_lost(a.now, nxt - rescued..nxt, rescued, LossRule::Rescue, log);
            lost += rescued;
        }
        lost
    }

    /// Without SACK late duplicates of this episode must not begin another one: in Linux it lasts until something above its end
    /// is acknowledged (`tcp_is_non_sack_preventing_reopen`, `tcp_try_undo_recovery`).
    fn awaits_ack_above_recover(&self) -> bool {
        self.rules.holds_recovery_without_sack && !self.sack && self.scoreboard.una() == self.recover
    }

    fn in_loss(&mut self, a: &AckContext, d: &Delivered, log: &mut Log) -> u64 {
        if a.advanced
            && let Some(why) = self.undo_proof(a, d)
        {
            self.leave(a.now, true, why, log);
            return self.detect_after_undo(a, d, log);
        }
        let ack = FrtoAck {
            original: d.original,
            advanced: a.advanced,
            duplicate: a.dup,
            sacked: d.sacked > 0,
            sack: self.sack,
            una: self.scoreboard.una(),
            nxt: self.scoreboard.nxt(),
            recover: self.recover,
        };
        let recovered = ack.una >= self.recover;
        self.repairs_beside_frto = false;
        match self.frto.on_ack(&ack, self.rules.frto_ignores_early_duplicates) {
            Decision::Continue => {
                self.repairs_beside_frto = self.rules.frto_repairs_undecided && self.frto == Frto::New;
            }
            Decision::Advance => self.recover = ack.nxt,
            Decision::Spurious => {
                self.leave(a.now, true, CongestionCause::UndoFrto, log);
                return self.detect_after_undo(a, d, log);
            }
        }
        if self.awaits_ack_above_recover() {
            return 0;
        }
        if recovered {
            self.leave(a.now, false, CongestionCause::HighSeqAcked, log);
        }
        if !self.uses_rack && !recovered {
            return 0;
        }
        let retransmitted = self.scoreboard.retransmitted();
        let lost = self.detect(a.now, d, log);
        if self.state == Ca::Loss
            && self.rules.lost_retransmission_begins_recovery
            && self.scoreboard.retransmitted() < retransmitted
        {
            self.enter_recovery(a.now, Flight::before(a), log);
        }
        lost
    }

    /// The episode was spurious. In Linux the same ACK may show a loss by RACK, or without SACK by the duplicates that still count.
    fn detect_after_undo(&mut self, a: &AckContext, d: &Delivered, log: &mut Log) -> u64 {
        let may = self.uses_rack || !self.sack && self.duplicates.bytes() > 0;
        if self.rules.detects_loss_after_undo && may { self.detect(a.now, d, log) } else { 0 }
    }

    fn in_open(&mut self, a: &AckContext, d: &Delivered, log: &mut Log) -> u64 {
        if let Some(why) = self.undo.late_proof() {
            self.leave(a.now, true, why, log);
        }
        let lost = self.detect(a.now, d, log);
        if self.cc.reduced() {
            return lost;
        }
        if self.shows_loss() {
            if !self.path_probe_lost(a.now, log) {
                self.enter_recovery(a.now, Flight::before(a), log);
            }
        } else if self.state == Ca::Cwr && self.scoreboard.una() > self.recover {
            self.leave(a.now, false, CongestionCause::HighSeqAcked, log);
        } else {
            self.read_probe_outcome(a, log);
            if !self.cc.reduced() && self.is_marked(a) && self.state != Ca::Cwr {
                self.enter_cwr(a.now, Cause::Ecn, Flight::before(a), CongestionCause::Ece, log);
            }
        }
        self.update_disorder(a.now, log);
        lost
    }

    /// Whether the marks that the ACK reports are a reason for a reduction.
    fn is_marked(&self, a: &AckContext) -> bool {
        a.marked && (a.prior_out > 0 || !self.rules.ece_needs_flight)
    }

    /// RFC 8985 section 7.4: if the tail loss probe repaired a loss, it is reported to the controller. In Linux the reduction is complete
    /// at once.
    fn read_probe_outcome(&mut self, a: &AckContext, log: &mut Log) {
        let outcome = self.probe.on_ack(self.scoreboard.una(), !a.informs && a.bare);
        if outcome == Outcome::Repaired && self.state != Ca::Cwr {
            self.enter_cwr(a.now, Cause::Loss, Flight::before(a), CongestionCause::Tlp, log);
            if self.rules.probe_repair_ends_at_once {
                self.leave(a.now, false, CongestionCause::RepairedByProbe, log);
            }
        }
    }

    /// The proof, if this ACK proves the present episode spurious.
    fn undo_proof(&mut self, a: &AckContext, d: &Delivered) -> Option<CongestionCause> {
        self.undo.on_ack(&UndoAck {
            early_bytes: d.early_bytes,
            timely: d.timely_bytes > 0,
            advanced: a.advanced,
            echo_ms: d.echo_ms.filter(|_| self.timestamps),
            in_recovery: self.state == Ca::Recovery,
            may_be_original: self.sack || self.scoreboard.una() < self.recover,
        })
    }

    /// The steps that follow the controller's `Ack` event. One ACK may end an episode and show the reason of the
    /// next one; the next one begins here, before anything is sent.
    pub(super) fn begin_next_episode(&mut self, a: &AckContext, d: &Delivered, lost: u64, log: &mut Log) {
        if self.reneging || !matches!(self.state, Ca::Open | Ca::Disorder) {
            return;
        }
        if self.shows_loss() {
            self.enter_recovery(a.now, Flight::before(a), log);
        } else if self.is_marked(a) && self.cc.reduced() {
            self.enter_cwr(a.now, Cause::Ecn, Flight::before(a), CongestionCause::Ece, log);
        } else {
            return;
        }
        self.update_cwnd(a, d, lost, log);
    }

    /// Open or Disorder: whether there are duplicates.
    fn update_disorder(&mut self, now: Time, log: &mut Log) {
        // Linux: duplicates that outstanding segments can have caused (`tcp_left_out`).
        let duplicates = if self.rules.emulates_sack && !self.sack {
            self.duplicates.bytes() > 0
        } else {
            self.duplicates.acks() > 0
        };
        let disorder = self.scoreboard.sacked() > 0 || duplicates;
        match self.state {
            Ca::Open if disorder => {
                self.limited_sent = 0;
                self.set_state(now, Ca::Disorder, CongestionCause::DuplicateAck, log);
            }
            Ca::Disorder if !disorder => self.set_state(now, Ca::Open, CongestionCause::InOrder, log),
            _ => {}
        }
    }

    /// Fast recovery begins.
    pub(super) fn enter_recovery(&mut self, now: Time, flight: Flight, log: &mut Log) {
        self.stats.recoveries += 1;
        if self.state == Ca::Loss {
            // The episode of the timeout ends, and this one begins with the window that it has reached.
            self.frto = Frto::Off;
            self.reducing = false;
            self.limited_sent = 0;
            let event = Event::RecoveryExit { spurious: false, exit: Bytes::MAX };
            self.on_event(now, &event, WindowCause::Leave, log);
        }
        // One reduction a window: a loss found while a mark's reduction is in progress adds none.
        if self.reducing {
            if !self.cfg.cwr_by_prr {
                self.prr = self.begin_prr(&flight);
            }
            // The mark remains real if the loss turns out to be spurious.
            self.undo.clear();
            // A controller that governs recovery answers to losses also where it did nothing about the mark: Linux's BBR reads the state of
            // the connection on each ACK (`bbr_set_cwnd_to_recover_or_restore`).
            if self.cc.governs_recovery() {
                let flight = Bytes::new(self.reduced_from(flight.size));
                let event = Event::Congestion { cause: Cause::Loss, flight };
                self.on_event(now, &event, WindowCause::Enter, log);
            }
        } else {
            // RFC 5681 section 3.2 step 2: the flight without the data of limited transmit. Only data in flight beyond the window count
            // as such: earlier data of limited transmit, sent while reordering caused duplicates, are no longer outstanding.
            let limited = self.limited_sent.min(flight.size.saturating_sub(self.cwnd));
            let size = flight.size - limited;
            self.prr = self.begin_prr(&flight);
            self.reduce(now, Cause::Loss, size, log);
            self.begin_undo();
        }
        self.recover = self.scoreboard.nxt();
        self.next_seg = NextSeg::begin(self.scoreboard.una());
        self.partial_ack_window = PartialAckWindow::default();
        self.newreno = NewReno::begin(self.duplicates.acks());
        self.probe.cancel();
        let cause = if self.uses_rack { CongestionCause::Rack } else { CongestionCause::DupThresh };
        self.set_state(now, Ca::Recovery, cause, log);
        if self.cc.governs_recovery() {
            self.cwnd = self.target();
            return;
        }
        let window = match self.cfg.recovery {
            Recovery::Prr => return,
            Recovery::Sack if self.sack => self.target(),
            Recovery::FreeBsd { .. } if self.sack => self.mss,
            Recovery::Sack | Recovery::NewReno | Recovery::FreeBsd { .. } => {
                self.newreno.first_window(self.target(), self.mss)
            }
        };
        self.force_retransmit = true;
        self.set_cwnd(now, window, WindowCause::Enter, log);
    }

    /// The initial state of PRR. It is computed before the window is reduced.
    fn begin_prr(&self, flight: &Flight) -> Prr {
        Prr::begin(if self.rules.prr_from_window { self.target() } else { flight.undelivered }, self.mss)
    }

    /// An episode begins whose retransmissions may prove unnecessary.
    pub(super) fn begin_undo(&mut self) {
        let board = &self.scoreboard;
        // A probe that is not counted in flight may be reported as a duplicate, too (`tcp_init_undo`).
        let probe = if self.rules.probe_not_in_flight { self.probe.retransmitted() } else { 0 };
        self.undo.begin(board.una(), board.retransmitted() + probe, board.any_retransmitted());
    }

    /// A window reduction without retransmission: a mark, a loss that a probe repaired, or a local drop.
    pub(super) fn enter_cwr(
        &mut self,
        now: Time,
        cause: Cause,
        flight: Flight,
        why: CongestionCause,
        log: &mut Log,
    ) {
        if cause == Cause::Ecn {
            self.stats.ecn_reductions += 1;
        }
        self.prr = self.begin_prr(&flight);
        if self.rules.probe_not_in_flight {
            // `tcp_init_cwnd_reduction` forgets an outstanding probe, so that the next one may follow.
            self.probe.forget();
        }
        self.reduce(now, cause, flight.size, log);
        self.recover = self.scoreboard.nxt();
        self.undo.clear();
        if !self.cfg.cwr_by_prr && !self.cc.governs_recovery() {
            self.set_cwnd(now, self.target().min(self.cwnd), WindowCause::Enter, log);
        }
        self.set_state(now, Ca::Cwr, why, log);
    }

    /// The window that a reduction is computed from.
    pub(super) fn reduced_from(&self, flight: u64) -> u64 {
        if self.cfg.reduce_from_cwnd { self.target() } else { flight }
    }

    fn reduce(&mut self, now: Time, cause: Cause, flight: u64, log: &mut Log) {
        if cause == Cause::Ecn && self.cfg.mark_stops_one_segment && self.target() <= self.mss {
            // RFC 3168 section 6.1.2: the window cannot become smaller, so the sender pauses until a timer
            // fires.
            self.timers.pause(now.saturating_add(self.rtt.rto()));
        }
        let flight = self.reduced_from(flight);
        self.on_event(now, &Event::Congestion { cause, flight: Bytes::new(flight) }, WindowCause::Enter, log);
        self.reducing = true;
        self.announce_cwr();
    }

    /// RFC 3168 section 6.1.2: every reduction is announced on the next new data, independently of its cause.
    pub(super) fn announce_cwr(&mut self) {
        self.cwr_due = self.reads_ece();
    }

    /// The window that the controller wants: after `Congestion`, the one that the reduction ends with.
    #[inline]
    pub(super) fn target(&self) -> u64 {
        self.cc.control().cwnd.get()
    }

    /// The episode ends; the controller's window is in force again.
    fn leave(&mut self, now: Time, spurious: bool, why: CongestionCause, log: &mut Log) {
        let exit = if spurious || self.state != Ca::Recovery { Bytes::MAX } else { self.exit_bound() };
        if spurious {
            self.stats.undos += 1;
            self.scoreboard.unmark();
            self.undo.clear();
            self.rack.look_again();
            self.force_retransmit = false;
            // RFC 5682 section 2.1 step 3b: later duplicate ACKs may begin a recovery at once, also below the old recovery point.
            self.recover = self.scoreboard.una() - 1;
        }
        if matches!(self.state, Ca::Recovery | Ca::Loss) {
            self.rack.on_recovery_end();
        }
        if spurious && self.state == Ca::Loss && self.rules.undo_forgets_timeouts {
            self.timers.forget_timeouts();
        }
        self.frto = Frto::Off;
        self.reducing = false;
        self.limited_sent = 0;
        self.duplicates.clear();
        let reduced = self.cc.control().ssthresh;
        self.on_event(now, &Event::RecoveryExit { spurious, exit }, WindowCause::Leave, log);
        if spurious && self.rules.undo_withdraws_cwr && self.cc.control().ssthresh > reduced {
            self.cwr_due = false;
        }
        self.set_cwnd(now, self.target(), WindowCause::Leave, log);
        let to = if self.scoreboard.sacked() > 0 { Ca::Disorder } else { Ca::Open };
        self.set_state(now, to, why, log);
    }

    fn exit_bound(&self) -> Bytes {
        let flight = self.pipe();
        match self.cfg.recovery_exit {
            RecoveryExitRule::Ssthresh => Bytes::MAX,
            RecoveryExitRule::Rfc3782LessCareful => Bytes::new(flight + self.mss),
            RecoveryExitRule::Rfc6582 => Bytes::new(flight.max(self.mss) + self.mss),
        }
    }

    /// The data path's window after the ACK.
    pub(super) fn update_cwnd(&mut self, a: &AckContext, d: &Delivered, lost: u64, log: &mut Log) {
        match self.state {
            _ if self.cc.governs_recovery() => self.cwnd = self.target(),
            Ca::Open | Ca::Disorder | Ca::Loss => self.cwnd = self.target(),
            Ca::Cwr if self.cfg.cwr_by_prr => {
                let step = self.prr_step(a, d, lost, false);
                self.reduce_by_prr(a.now, &step, log);
            }
            Ca::Cwr => {}
            Ca::Recovery => {
                let ack = RecoveryAck {
                    advanced: a.advanced,
                    acked: d.acked,
                    duplicate: a.dup,
                    duplicates: self.duplicates.acks(),
                };
                match self.cfg.recovery {
                    Recovery::Prr => {
                        let step = self.prr_step(a, d, lost, true);
                        self.reduce_by_prr(a.now, &step, log);
                    }
                    Recovery::Sack if self.sack => {}
                    Recovery::FreeBsd { pipe } if self.sack => {
                        let input = freebsd::WindowInput {
                            cwnd: self.cwnd,
                            ssthresh: self.target(),
                            mss: self.mss,
                            recover: self.recover,
                            first_is_due: self.force_retransmit,
                            sacked: d.sacked > 0,
                            pipe,
                        };
                        let window = self.partial_ack_window;
                        if let Some((cwnd, why)) =
                            window.on_ack(&ack, &input, &mut self.newreno, &self.scoreboard)
                        {
                            self.set_cwnd(a.now, cwnd, why, log);
                        }
                    }
                    Recovery::Sack | Recovery::NewReno | Recovery::FreeBsd { .. } => {
                        if let Some(cwnd) = self.newreno.on_ack(&ack, self.cwnd, self.mss) {
                            self.set_cwnd(a.now, cwnd, WindowCause::NewReno, log);
                        }
                    }
                }
            }
        }
    }

    pub(super) fn reduce_by_prr(&mut self, now: Time, step: &Step, log: &mut Log) {
        // In Linux only what is delivered reduces the window after a mark (`tcp_cwnd_reduction`).
        if step.delivered == 0 && (self.prr.has_sent() || !step.recovery && self.rules.prr_from_window) {
            return;
        }
        let cwnd = self.prr.on_ack(step, self.in_flight(), self.target(), self.cfg.prr_bound, self.mss);
        self.set_cwnd(now, cwnd, WindowCause::Prr, log);
    }

    /// Whether recovery is FreeBSD's without PRR.
    #[inline]
    pub(super) fn uses_partial_ack_window(&self) -> bool {
        self.sack && matches!(self.cfg.recovery, Recovery::FreeBsd { .. }) && !self.cc.governs_recovery()
    }
}
