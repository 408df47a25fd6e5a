//! The sender's timers, except for that of window probes (`persist`) and that of pacing.
//!
//! A timer is a time, or [`Time::MAX`] if it does not run. The host reads the earliest one and calls the
//! sender at this time.
//!
//! Sources: RFC 6298 section 5; RFC 3168 section 6.1.2; Linux `TCP_CORK` (200 ms).

use crate::log::{Log, LogEvent, Timer, TimerChange};
use crate::tick::{Expiry, TimerTicks};
use tcpassay_units::{Dur, Time};

/// The facts about an ACK that the timers depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimerAck {
    /// SND.UNA advanced.
    pub advanced: bool,
    /// Data were SACKed that were sent, for the first and only time, before the last transmission of the first segment.
    pub old_sack: bool,
    /// Until this ACK the retransmission timer ran as probe timer or reordering timer (the three share one timer).
    pub shared: bool,
}

/// Retransmission, tail loss probe, reordering, pause after a mark, and cork.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    rto: Time,
    tlp: Time,
    reorder: Time,
    /// A mark stopped new data until then.
    pause: Time,
    cork: Time,
    /// The cork timer has fired: one partial segment may leave.
    uncorked: bool,
    /// Timeouts in a row.
    timeouts: u32,
    /// When the cumulative point last moved, or sending began.
    progress: Time,
    user_timeout: Option<Dur>,
    ticks: TimerTicks,
    /// Expiry of the retransmission timer and of the probe timer.
    rto_expiry: Expiry,
    tlp_expiry: Expiry,
}

#[inline]
pub(super) fn note(log: &mut Log, now: Time, timer: Timer, change: TimerChange) {
    log.put(now, || LogEvent::Timer { timer, change });
}

/// Whether the timer at `at` is due; then it stops.
#[inline]
pub(super) fn fires(at: &mut Time, now: Time, timer: Timer, log: &mut Log) -> bool {
    if *at > now {
        return false;
    }
    *at = Time::MAX;
    note(log, now, timer, TimerChange::Fired);
    true
}

impl Timers {
    /// No timer runs. The connection is aborted after `user_timeout` without progress.
    pub fn new(user_timeout: Option<Dur>, ticks: TimerTicks) -> Timers {
        Timers {
            rto: Time::MAX,
            tlp: Time::MAX,
            reorder: Time::MAX,
            pause: Time::MAX,
            cork: Time::MAX,
            uncorked: false,
            timeouts: 0,
            progress: Time::ZERO,
            user_timeout,
            ticks,
            rto_expiry: Expiry::new(ticks),
            tlp_expiry: Expiry::new(ticks),
        }
    }

    /// The earliest deadline. `has_new`: new data wait, which a pause after a mark holds back.
    #[inline]
    pub fn deadline(&self, has_new: bool) -> Time {
        let pause = if has_new { self.pause } else { Time::MAX };
        self.rto.min(self.tlp).min(self.reorder).min(self.cork).min(pause)
    }

    /// When the retransmission timer fires.
    #[inline]
    pub fn rto(&self) -> Time {
        self.rto
    }

    #[inline]
    pub fn is_rto_running(&self) -> bool {
        self.rto != Time::MAX
    }

    /// Restarts the retransmission timer. It fires no later than the user timeout.
    #[inline]
    pub fn set_rto(&mut self, now: Time, rto: Dur, log: &mut Log) {
        let mut at = self.rto_expiry.after(now, rto);
        if let Some(limit) = self.user_timeout {
            at = at.min(self.progress.saturating_add(limit)).max(now);
        }
        if self.rto != at {
            self.rto = at;
            note(log, now, Timer::Rto, TimerChange::Set(at));
        }
    }

    /// Nothing is outstanding: retransmission, probe and reordering timers stop.
    pub fn stop_all(&mut self, now: Time, log: &mut Log) {
        if std::mem::replace(&mut self.rto, Time::MAX) != Time::MAX {
            note(log, now, Timer::Rto, TimerChange::Cancelled);
        }
        self.tlp = Time::MAX;
        self.reorder = Time::MAX;
    }

    pub fn rto_fires(&mut self, now: Time, log: &mut Log) -> bool {
        fires(&mut self.rto, now, Timer::Rto, log)
    }

    #[inline]
    pub fn is_tlp_running(&self) -> bool {
        self.tlp != Time::MAX
    }

    /// The timer of the tail loss probe fires at `at`; [`Time::MAX`] stops it.
    #[inline]
    pub fn set_tlp(&mut self, now: Time, at: Time, log: &mut Log) {
        let at = if at == Time::MAX { at } else { self.tlp_expiry.after(now, at.since(now)) };
        if self.tlp == at {
            return;
        }
        self.tlp = at;
        if at != Time::MAX {
            if self.ticks == TimerTicks::Linux {
                // Probe and retransmission share a timer: rounding does not put the probe behind the retransmission.
                self.rto = self.rto.max(at);
                self.rto_expiry.leave();
            }
            note(log, now, Timer::Tlp, TimerChange::Set(at));
        }
    }

    pub fn stop_tlp(&mut self) {
        self.tlp = Time::MAX;
    }

    pub fn tlp_fires(&mut self, now: Time, log: &mut Log) -> bool {
        fires(&mut self.tlp, now, Timer::Tlp, log)
    }

    #[inline]
    pub fn is_reorder_running(&self) -> bool {
        self.reorder != Time::MAX
    }

    /// RACK's reordering timer fires at `at`; [`Time::MAX`] cancels it.
    #[inline]
    pub fn set_reorder(&mut self, now: Time, at: Time, log: &mut Log) {
        let at = self.ticks.expiry_at(now, at);
        if self.reorder == at {
            return;
        }
        self.reorder = at;
        let change = if at == Time::MAX { TimerChange::Cancelled } else { TimerChange::Set(at) };
        note(log, now, Timer::RackReorder, change);
    }

    pub fn stop_reorder(&mut self) {
        self.reorder = Time::MAX;
    }

    pub fn reorder_fires(&mut self, now: Time, log: &mut Log) -> bool {
        fires(&mut self.reorder, now, Timer::RackReorder, log)
    }

    /// A mark found the window at one segment: no new data before `until` (RFC 3168 section 6.1.2).
    pub fn pause(&mut self, until: Time) {
        self.pause = until;
    }

    #[inline]
    pub fn is_paused(&self) -> bool {
        self.pause != Time::MAX
    }

    pub fn end_pause(&mut self, now: Time) {
        if self.pause <= now {
            self.pause = Time::MAX;
        }
    }

    /// Starts the cork timer for a partial segment, which is delayed by at most `longest`.
    pub fn hold_cork(&mut self, now: Time, longest: Dur, log: &mut Log) {
        if self.cork == Time::MAX && !self.uncorked {
            let at = self.ticks.expiry(now, longest);
            self.cork = at;
            note(log, now, Timer::Cork, TimerChange::Set(at));
        }
    }

    /// Stops the cork timer after the partial segment was sent.
    #[inline]
    pub fn release_cork(&mut self) {
        self.cork = Time::MAX;
    }

    /// The application uncorked the socket.
    pub fn stop_cork(&mut self) {
        self.cork = Time::MAX;
        self.uncorked = false;
    }

    /// If the cork timer fires, one partial segment may leave.
    pub fn cork_fires(&mut self, now: Time, log: &mut Log) -> bool {
        let fires = fires(&mut self.cork, now, Timer::Cork, log);
        self.uncorked |= fires;
        fires
    }

    /// One partial segment may leave although the socket is corked.
    pub fn allow_partial(&mut self) {
        self.uncorked = true;
    }

    #[inline]
    pub fn allows_partial(&self) -> bool {
        self.uncorked
    }

    /// Clears the permission for a partial segment after a transmission.
    #[inline]
    pub fn on_sent(&mut self) {
        self.uncorked = false;
    }

    /// Timeouts in a row.
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// The retransmission timer fired. Returns whether it had fired before without progress between.
    pub fn count_timeout(&mut self) -> bool {
        self.timeouts += 1;
        self.timeouts > 1
    }

    /// The cumulative point moved.
    #[inline]
    pub fn on_progress(&mut self, now: Time) {
        self.progress = now;
        self.timeouts = 0;
    }

    /// The timeouts so far were spurious.
    pub fn forget_timeouts(&mut self) {
        self.timeouts = 0;
    }

    /// The user timeout counts from now on.
    #[inline]
    pub fn restart_user_timeout(&mut self, now: Time) {
        self.progress = now;
    }

    /// An ACK closed the window, or kept it closed, while data are in flight. Their retransmissions are
    /// probes, and the connection remains open while the peer answers (RFC 9293 section 3.8.6.1).
    pub fn on_zero_window(&mut self, now: Time) {
        self.progress = now;
        self.timeouts = self.timeouts.min(1);
    }

    pub fn set_user_timeout(&mut self, timeout: Option<Dur>) {
        self.user_timeout = timeout;
    }

    /// When the cumulative point last moved, or sending began.
    pub fn progress(&self) -> Time {
        self.progress
    }

    /// Whether the user timeout has passed without progress.
    pub fn user_timeout_over(&self, now: Time) -> bool {
        self.user_timeout.is_some_and(|limit| now.since(self.progress) >= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    #[test]
    fn the_retransmission_timer_fires_no_later_than_the_user_timeout() {
        let mut log = Log::default();
        let mut timers = Timers::new(Some(Dur::from_millis(2500)), TimerTicks::Off);
        timers.on_progress(at(1000));
        timers.set_rto(at(1000), Dur::from_secs(1), &mut log);
        assert_eq!(timers.rto(), at(2000));
        timers.set_rto(at(2000), Dur::from_secs(2), &mut log);
        assert_eq!(timers.rto(), at(3500));
        assert!(!timers.user_timeout_over(at(3499)));
        assert!(timers.user_timeout_over(at(3500)));
    }

    #[test]
    fn a_probe_whose_time_is_rounded_beyond_the_retransmission_timer_replaces_it() {
        let mut log = Log::default();
        let mut timers = Timers::new(None, TimerTicks::Linux);
        timers.set_rto(at(0), Dur::from_millis(40), &mut log);
        timers.set_tlp(at(20), at(30), &mut log);
        assert_eq!((timers.rto, timers.tlp), (at(41), at(31)));
        timers.set_tlp(at(20), at(41), &mut log);
        assert_eq!((timers.rto, timers.tlp), (at(42), at(42)));
    }

    #[test]
    fn a_pause_after_a_mark_is_a_deadline_only_while_new_data_wait() {
        let mut timers = Timers::new(None, TimerTicks::Off);
        timers.pause(at(300));
        assert_eq!(timers.deadline(true), at(300));
        assert_eq!(timers.deadline(false), Time::MAX);
        timers.end_pause(at(299));
        assert!(timers.is_paused());
        timers.end_pause(at(300));
        assert!(!timers.is_paused());
    }

    #[test]
    fn after_the_cork_timer_one_partial_segment_may_leave() {
        let mut log = Log::default();
        let mut timers = Timers::new(None, TimerTicks::Off);
        timers.hold_cork(at(0), Dur::from_millis(200), &mut log);
        timers.hold_cork(at(100), Dur::from_millis(200), &mut log);
        assert!(!timers.cork_fires(at(199), &mut log));
        assert!(timers.cork_fires(at(200), &mut log), "the time counts from the first segment held");
        assert!(timers.allows_partial());
        timers.on_sent();
        assert!(!timers.allows_partial());
    }

    #[test]
    fn a_shut_window_keeps_one_timeout_at_most() {
        let mut timers = Timers::new(None, TimerTicks::Off);
        assert!(!timers.count_timeout());
        assert!(timers.count_timeout());
        timers.on_zero_window(at(0));
        assert_eq!(timers.timeouts(), 1);
        timers.on_progress(at(0));
        assert_eq!(timers.timeouts(), 0);
    }

    #[test]
    fn changes_of_the_reordering_timer_are_logged_once() {
        let mut log = Log::default();
        log.set(true);
        let mut timers = Timers::new(None, TimerTicks::Off);
        for until in [at(5), at(5), Time::MAX, Time::MAX] {
            timers.set_reorder(at(0), until, &mut log);
        }
        let logged: Vec<_> = log.drain().map(|entry| entry.what).collect();
        let timer = Timer::RackReorder;
        assert_eq!(
            logged,
            [
                LogEvent::Timer { timer, change: TimerChange::Set(at(5)) },
                LogEvent::Timer { timer, change: TimerChange::Cancelled },
            ]
        );
    }
}
