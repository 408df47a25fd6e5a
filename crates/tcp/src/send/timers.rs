//! Deadlines. A timer is a time, or [`Time::MAX`] when it does not run; the host asks for the earliest and comes back then.
//!
//! Sources: RFC 6298 section 5; RFC 9293 section 3.8.6.1 (persist); Linux `tcp_send_probe0`, `TCP_CORK` (200 ms).

use super::Sender;
use super::ack::Arrival;
use super::board::{EVER, Sent};
use super::recovery::log_lost;
use crate::config::{Recovery, StackFlavor};
use crate::log::{CongestionState as Ca, Log, LogEvent, Timer, TimerChange};
use crate::messages::{Chunk, GaveUp};
use std::sync::Arc;
use tcpassay_units::{Dur, Time};

/// Longest time that cork holds a partial segment.
const CORK: Dur = Dur::from_millis(200);

/// The sender's timers.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug)]
pub(super) struct Timers {
    /// Retransmission.
    pub rto: Time,
    /// Tail loss probe.
    pub tlp: Time,
    /// RACK reordering.
    pub reorder: Time,
    /// Zero-window probe.
    persist: Time,
    /// The peer's window has been shut since data last left: the fields of persisting are in use.
    persisting: bool,
    persist_backoff: u32,
    /// The position of a byte that went as a probe and that nobody knows to have arrived, and when it did.
    pub probed: Option<(u64, Time)>,
    /// When the interface first refused what the timer of probes wanted sent.
    pub refused: Option<Time>,
    /// Probes that nothing answered.
    unanswered: u32,
    /// The persist timer fired on a window too small for a segment: what fits leaves (RFC 9293 section 3.8.6.2.1).
    pub override_sws: bool,
    /// `user_timeout`.
    patience: Option<Dur>,
    /// A zero-window probe is to be sent by the next poll.
    pub probe_due: bool,
    /// A mark stopped new data until then; [`Time::MAX`] when none did.
    pub stopped: Time,
    /// End of corking.
    cork: Time,
    /// Cork's time is over: one partial segment may leave.
    pub uncork: bool,
    /// Timeouts in a row.
    pub rto_count: u32,
    /// When the cumulative point last moved, or sending began.
    pub progress: Time,
}

#[inline]
fn note(log: &mut Log, now: Time, timer: Timer, change: TimerChange) {
    log.put(now, || LogEvent::Timer { timer, change });
}

impl Timers {
    /// No timer runs.
    pub fn new(patience: Option<Dur>) -> Timers {
        Timers {
            rto: Time::MAX,
            tlp: Time::MAX,
            reorder: Time::MAX,
            persist: Time::MAX,
            persisting: false,
            persist_backoff: 0,
            probed: None,
            refused: None,
            unanswered: 0,
            override_sws: false,
            patience,
            probe_due: false,
            stopped: Time::MAX,
            cork: Time::MAX,
            uncork: false,
            rto_count: 0,
            progress: Time::ZERO,
        }
    }

    /// The retransmission timer starts anew.
    #[inline]
    pub fn set_rto(&mut self, now: Time, rto: Dur, log: &mut Log) {
        let mut at = now.saturating_add(rto);
        if let Some(patience) = self.patience {
            at = at.min(self.progress.saturating_add(patience)).max(now);
        }
        if self.rto != at {
            self.rto = at;
            note(log, now, Timer::Rto, TimerChange::Set(at));
        }
    }

    /// The reordering timer; [`Time::MAX`] for none.
    #[inline]
    pub fn set_reorder(&mut self, now: Time, at: Time, log: &mut Log) {
        if self.reorder == at {
            return;
        }
        self.reorder = at;
        let change = if at == Time::MAX { TimerChange::Cancelled } else { TimerChange::Set(at) };
        note(log, now, Timer::RackReorder, change);
    }

    /// The cumulative point moved.
    #[inline]
    pub fn on_progress(&mut self, now: Time) {
        self.progress = now;
        self.rto_count = 0;
    }

    /// Window probes since the peer last answered.
    pub fn probes(&self) -> u32 {
        self.unanswered
    }

    /// The peer's window is shut and nothing is in flight.
    pub fn start_persist(&mut self, now: Time, wait: Dur, least: Dur, most: Dur, log: &mut Log) {
        if self.persist != Time::MAX || self.probe_due {
            return;
        }
        self.persisting = true;
        let wait = wait.saturating_mul(1 << self.persist_backoff.min(32)).max(least).min(most);
        let at = now.saturating_add(wait);
        self.persist = at;
        if self.persist_backoff == 0 {
            self.progress = now;
        }
        note(log, now, Timer::Persist, TimerChange::Set(at));
    }

    /// The interface refused a probe: another one after `wait`.
    pub fn try_again(&mut self, now: Time, wait: Dur, log: &mut Log) {
        self.unanswered += 1;
        self.persist = now.saturating_add(wait);
        note(log, now, Timer::Persist, TimerChange::Set(self.persist));
    }

    /// Data left: the window is open.
    #[inline]
    pub fn stop_persist(&mut self) {
        if !self.persisting {
            return;
        }
        self.persisting = false;
        self.persist = Time::MAX;
        self.persist_backoff = 0;
        self.unanswered = 0;
        self.probe_due = false;
        self.override_sws = false;
    }

    /// An ACK arrived: the peer lives.
    #[inline]
    pub fn on_answer(&mut self, now: Time) {
        self.unanswered = 0;
        if self.persist != Time::MAX {
            self.progress = now;
        }
    }

    /// An ACK left or kept the window shut although data are in flight: their retransmissions are probes, and while the peer
    /// answers the connection stays (RFC 9293 section 3.8.6.1).
    pub fn on_shut(&mut self, now: Time) {
        self.progress = now;
        self.rto_count = self.rto_count.min(1);
    }

    /// A partial segment is held.
    pub fn hold_cork(&mut self, now: Time, longest: Dur, log: &mut Log) {
        if self.cork == Time::MAX && !self.uncork {
            let at = now.saturating_add(longest);
            self.cork = at;
            note(log, now, Timer::Cork, TimerChange::Set(at));
        }
    }

    /// What was held has left.
    pub fn release_cork(&mut self) {
        self.cork = Time::MAX;
    }

    /// Cork was taken off.
    pub fn stop_cork(&mut self) {
        self.cork = Time::MAX;
        self.uncork = false;
    }
}

impl Sender {
    /// How long a partial segment is held: in Linux until the timer of probes, which counts by the RTO
    /// (`tcp_check_probe_timer`).
    pub(super) fn cork_time(&self) -> Dur {
        if self.cfg.flavor == StackFlavor::Linux { self.rtt.rto().max(CORK) } else { CORK }
    }

    /// The earliest deadline, or [`Time::MAX`].
    #[inline]
    pub fn deadline(&self) -> Time {
        let t = &self.timers;
        let stopped = if self.has_new() { t.stopped } else { Time::MAX };
        t.rto.min(t.tlp).min(t.reorder).min(t.persist).min(t.cork).min(self.pacer.deadline()).min(stopped)
    }

    /// Runs every timer that is due. What is to be sent then comes from the next polls.
    pub fn on_timer(&mut self, now: Time, log: &mut Log) -> Result<(), GaveUp> {
        let due = |t: Time| t <= now;
        if due(self.pacer.deadline()) {
            // The next poll may send; a host that has no room asks later, and must not be woken for it again.
            self.pacer.rest();
        }
        if due(self.timers.reorder) {
            self.timers.reorder = Time::MAX;
            note(log, now, Timer::RackReorder, TimerChange::Fired);
            self.on_reorder_timer(now, log);
        }
        if due(self.timers.tlp) {
            self.timers.tlp = Time::MAX;
            note(log, now, Timer::Tlp, TimerChange::Fired);
            self.on_probe_timer(now, log);
        }
        if due(self.timers.rto) {
            self.timers.rto = Time::MAX;
            note(log, now, Timer::Rto, TimerChange::Fired);
            self.on_rto(now, log)?;
        }
        if due(self.timers.stopped) {
            self.timers.stopped = Time::MAX;
        }
        if due(self.timers.persist) {
            self.timers.persist = Time::MAX;
            note(log, now, Timer::Persist, TimerChange::Fired);
            if self.jammed {
                self.on_refused(now, log)?;
            } else {
                self.on_persist(now)?;
            }
        }
        if due(self.timers.cork) {
            self.timers.cork = Time::MAX;
            note(log, now, Timer::Cork, TimerChange::Fired);
            self.timers.uncork = true;
            if self.cfg.flavor == StackFlavor::Linux {
                // `tcp_write_wakeup`
                self.buf.quiet = false;
                self.mark_push();
            }
        }
        Ok(())
    }

    /// RFC 8985 section 6.3: the reordering window passed without the missing segments.
    fn on_reorder_timer(&mut self, now: Time, log: &mut Log) {
        let scan = self.detect_by_time(now, log);
        log_lost(now, scan.first..scan.last, scan.lost, "rack", log);
        if scan.lost > 0 && matches!(self.state, Ca::Open | Ca::Disorder | Ca::Cwr) {
            let out = self.board.outstanding();
            if self.path_probe_lost(now, log) {
                return;
            }
            self.enter_recovery(now, out, out - self.board.sacked, log);
            let a = Arrival::timer(now, out, self.board.sacked);
            self.update_window(&a, &super::delivery::Delivered::default(), scan.lost, log);
        }
    }

    /// RFC 9293 section 3.8.6.1: probe, ever more slowly; give up as Linux does when probes stay unanswered.
    fn on_persist(&mut self, now: Time) -> Result<(), GaveUp> {
        if self.cfg.user_timeout.is_some_and(|t| now.since(self.timers.progress) >= t) {
            return Err(GaveUp::UserTimeout);
        }
        if self.timers.unanswered >= self.cfg.retries {
            return Err(GaveUp::Retries);
        }
        self.timers.persist_backoff += 1;
        if self.wnd > 0 {
            self.timers.override_sws = true;
        } else {
            self.timers.unanswered += 1;
            self.timers.probe_due = true;
        }
        Ok(())
    }

    /// How long to wait before the first probe of a shut window, and the bounds of that wait and of the later ones: the RTO and
    /// its bounds, or what FreeBSD computes (`tcp_setpersist`).
    pub(super) fn persist_wait(&self) -> (Dur, Dur, Dur) {
        let rto = &self.cfg.rto;
        match self.cfg.persist {
            None => (self.rtt.rto(), rto.min, rto.max),
            Some(persist) => {
                let srtt = self.rtt.srtt.unwrap_or(Dur::ZERO);
                (srtt * 4 + self.rtt.rttvar * 8, persist.min, persist.max)
            }
        }
    }

    /// A zero-window probe: no data, at the position before the first unacknowledged one, so that the peer must answer; FreeBSD's
    /// is the next byte, which counts as sent but not as in flight (`TF_FORCEDATA`).
    pub(super) fn window_probe(&mut self, now: Time) -> Option<Chunk> {
        if !std::mem::take(&mut self.timers.probe_due) {
            return None;
        }
        let nxt = self.board.nxt;
        let (span, push) = if self.cfg.persist.is_some() && self.unsent() > 0 {
            self.timers.probed = Some((nxt, now));
            (nxt..nxt + 1, nxt + 1 == self.buf.end)
        } else {
            let at = self.board.una - 1;
            (at..at, false)
        };
        Some(Chunk { span, fin: false, push, retransmission: false, cwr: false, ect: false })
    }

    /// An ACK tells that the byte of a probe has arrived: it was sent then, once or more often.
    pub(super) fn count_probe(&mut self) {
        let Some((start, sent_at)) = self.timers.probed.take().filter(|&(at, _)| at == self.board.nxt) else {
            return;
        };
        let snap = self.deliveries.snapshot(sent_at, self.board.outstanding() == 0);
        self.board.push(Sent { start, sent_at, snap, len: 1, flags: EVER, tries: 2 });
        self.stats.bytes_sent += 1;
        self.timed = self.board.nxt;
    }

    /// After an ACK: the retransmission timer runs while something is outstanding and starts anew on progress
    /// (RFC 6298 sections 5.2 and 5.3); then the probe. `shared`: until this ACK the timer of probes or of reordering ran, which is
    /// the same one.
    #[inline]
    pub(super) fn update_timers_on_ack(&mut self, now: Time, advanced: bool, shared: bool, log: &mut Log) {
        if self.board.outstanding() == 0 {
            if self.unsent() == 0 {
                self.busy.stop(now);
                self.starved.stop(now);
            }
            if std::mem::replace(&mut self.timers.rto, Time::MAX) != Time::MAX {
                note(log, now, Timer::Rto, TimerChange::Cancelled);
            }
            self.timers.tlp = Time::MAX;
            self.timers.reorder = Time::MAX;
            self.probe.due = false;
            return;
        }
        if advanced && self.timer_restarts() {
            let mut wait = self.rtt.rto();
            if shared && self.probe_time(now).is_none() {
                // What ran was the timer of probes or of reordering: the RTO counts from the first segment (`tcp_rearm_rto`).
                wait = self.head_timeout(now).since(now);
            }
            self.timers.set_rto(now, wait, log);
        }
        if advanced {
            // Set when sending comes to rest.
            self.probe.stale = true;
        } else if !self.is_calm() || self.timers.reorder != Time::MAX {
            // One timer in Linux, and RFC 8985 section 8: that of reordering replaces the probe's.
            self.timers.tlp = Time::MAX;
        }
    }

    /// RFC 6582 section 4, the impatient variant: only the first partial ACK restarts the timer.
    pub(super) fn timer_restarts(&self) -> bool {
        self.sack
            || self.state != Ca::Recovery
            || self.cfg.recovery == Recovery::Prr
            || self.partial_acks <= 1
    }

    /// `app.nodelay`; switching it on lets go what waits (`__tcp_sock_set_nodelay` of Linux).
    pub fn set_nodelay(&mut self, on: bool) {
        Arc::make_mut(&mut self.cfg).nodelay = on;
        self.buf.more &= !on;
        self.timers.uncork |= on && self.cfg.cork && self.unsent() > 0;
    }

    /// `app.user_timeout`, from now on.
    pub fn set_user_timeout(&mut self, timeout: Option<Dur>) {
        Arc::make_mut(&mut self.cfg).user_timeout = timeout;
        self.timers.patience = timeout;
    }

    /// Bounds of the retransmission timeout from now on; a timer that runs goes on.
    pub fn set_rto_bounds(&mut self, min: Dur, max: Dur) {
        let rto = &mut Arc::make_mut(&mut self.cfg).rto;
        (rto.min, rto.max) = (min, max);
        self.rtt.set_bounds(*rto);
    }

    /// `app.cork`.
    pub fn set_cork(&mut self, on: bool) {
        Arc::make_mut(&mut self.cfg).cork = on;
        if !on {
            self.timers.stop_cork();
        }
    }
}
