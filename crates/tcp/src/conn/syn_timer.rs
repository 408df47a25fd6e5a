//! The retransmission of SYN and SYN-ACK.
//!
//! Sources: RFC 6298 section 2; `tcp_model_timeout`, `tcp_clamp_rto_to_user_timeout` of Linux.

use crate::tick::TimerTicks;
use tcpassay_units::{Dur, Time};

/// Number of transmissions of the SYN or SYN-ACK, and the time of the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct SynTimer {
    /// To be sent by the next poll.
    due: bool,
    /// Number of transmissions; then whether any of them was a retransmission.
    sent: u32,
    repeated: bool,
    first_at: Time,
    /// [`Time::MAX`] if the timer does not run.
    at: Time,
    rto: Dur,
    ticks: TimerTicks,
    /// Number of timeouts.
    timeouts: u32,
}

impl SynTimer {
    /// `rto`: the first timeout.
    pub fn new(rto: Dur, ticks: TimerTicks) -> SynTimer {
        SynTimer {
            due: false,
            sent: 0,
            repeated: false,
            first_at: Time::ZERO,
            at: Time::MAX,
            rto,
            ticks,
            timeouts: 0,
        }
    }

    /// Requests the first transmission.
    pub fn begin(&mut self, now: Time) {
        self.due = true;
        self.first_at = now;
    }

    /// Requests a transmission with changed contents.
    pub fn send(&mut self) {
        self.due = true;
    }

    /// Requests a retransmission.
    pub fn repeat(&mut self) {
        self.due = true;
        self.repeated = true;
    }

    /// The handshake is over.
    pub fn stop(&mut self) {
        self.due = false;
        self.at = Time::MAX;
    }

    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Time at which the timer fires; [`Time::MAX`] if it does not run.
    #[inline]
    pub fn deadline(&self) -> Time {
        self.at
    }

    #[inline]
    pub fn is_running(&self) -> bool {
        self.at != Time::MAX
    }

    /// Number of transmissions.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// Any of that was a repetition.
    pub fn is_repeated(&self) -> bool {
        self.repeated
    }

    /// Number of timeouts.
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Time of the first transmission.
    pub fn first_at(&self) -> Time {
        self.first_at
    }

    /// The time since the segment was first sent on this clock, unless it was repeated (Karn).
    pub fn rtt(&self, now: Time, clock: impl Fn(Time) -> Time) -> Option<Dur> {
        (!self.repeated).then(|| clock(now).since(clock(self.first_at)))
    }

    /// The segment leaves now.
    pub fn on_sent(&mut self, now: Time) {
        self.due = false;
        self.sent += 1;
        if self.sent == 1 {
            self.first_at = now;
        }
    }

    /// The timer starts: it fires after the timeout and `slop`, together at most `max`, and no later than `limit` after the
    /// segment was first sent. Returns when.
    pub fn start(&mut self, now: Time, slop: Dur, max: Dur, limit: Option<Dur>) -> Time {
        let at = self.ticks.expiry(now, (self.rto + slop).min(max));
        self.at = match limit {
            Some(limit) => at.min(self.first_at.saturating_add(limit)).max(now),
            None => at,
        };
        self.at
    }

    /// The timer fires at `at` if it would fire later.
    pub fn hasten(&mut self, at: Time) {
        self.at = self.at.min(at);
    }

    /// The timer fired.
    pub fn on_timer(&mut self) {
        self.at = Time::MAX;
        self.timeouts += 1;
    }

    /// The timeout doubles, up to `max`, once the segment was sent more than `linear` times.
    pub fn back_off(&mut self, linear: u32, max: Dur) {
        if self.sent > linear {
            self.rto = (self.rto * 2).min(max);
        }
    }
}

/// The total time of a segment and its `retries` retransmissions if every timeout doubles
/// (`tcp_model_timeout`).
pub(super) fn doubled_for(first: Dur, retries: u32, max: Dur) -> Dur {
    let (mut all, mut next) = (Dur::ZERO, first);
    for _ in 0..=retries {
        all += next;
        next = (next * 2).min(max);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Dur = Dur::from_secs(60);

    fn at(s: u64) -> Time {
        Time::ZERO + Dur::from_secs(s)
    }

    #[test]
    fn the_timeout_doubles_after_the_linear_repetitions() {
        let mut timer = SynTimer::new(Dur::from_secs(1), TimerTicks::Off);
        timer.begin(at(0));
        let mut waits = Vec::new();
        let mut now = at(0);
        for _ in 0..4 {
            timer.on_sent(now);
            let next = timer.start(now, Dur::ZERO, MAX, None);
            waits.push(next.since(now).as_millis());
            now = next;
            timer.on_timer();
            timer.back_off(2, MAX);
            timer.repeat();
        }
        assert_eq!(waits, [1000, 1000, 1000, 2000]);
        assert_eq!((timer.sent(), timer.timeouts()), (4, 4));
    }

    #[test]
    fn a_limit_counts_from_the_first_transmission() {
        let mut timer = SynTimer::new(Dur::from_secs(4), TimerTicks::Off);
        timer.begin(at(10));
        timer.on_sent(at(10));
        assert_eq!(timer.start(at(10), Dur::from_secs(1), MAX, Some(Dur::from_secs(3))), at(13));
        timer.on_sent(at(13));
        assert_eq!(timer.start(at(13), Dur::ZERO, MAX, Some(Dur::from_secs(3))), at(13), "not in the past");
    }

    #[test]
    fn a_repeated_segment_gives_no_round_trip_time() {
        let mut timer = SynTimer::new(Dur::from_secs(1), TimerTicks::Off);
        timer.begin(at(1));
        timer.on_sent(at(1));
        assert_eq!(timer.rtt(at(2), |at| at), Some(Dur::from_secs(1)));
        timer.repeat();
        assert_eq!(timer.rtt(at(2), |at| at), None);
    }

    #[test]
    fn six_doubling_retries_of_a_second_last_127_seconds() {
        assert_eq!(doubled_for(Dur::from_secs(1), 6, Dur::from_secs(120)), Dur::from_secs(127));
        assert_eq!(doubled_for(Dur::from_secs(1), 2, Dur::from_secs(2)), Dur::from_secs(5));
    }
}
