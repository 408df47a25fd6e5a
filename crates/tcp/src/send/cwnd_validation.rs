//! Determines what limits the sender: its congestion window, the peer's window, or the application. Source:
//! Linux `tcp_cwnd_validate`.

use tcpassay_cc::{Control, Limited};
use tcpassay_units::{Dur, Time};

/// The limit in force, the time under each limit, and whether cwnd was used in full.
#[derive(Clone, Copy, Debug)]
pub(super) struct CwndValidation {
    limit: Limited,
    since: Time,
    by_cwnd: Dur,
    by_peer: Dur,
    by_application: Dur,
    /// cwnd was filled in the present window.
    filled: bool,
    /// Most bytes outstanding in the present window, or packets times the MSS (`max_packets_out`).
    most_in_flight: u64,
    window_end: u64,
    /// New data were sent since the sender last stopped sending.
    sent: bool,
}

impl Default for CwndValidation {
    fn default() -> CwndValidation {
        CwndValidation {
            limit: Limited::App,
            since: Time::ZERO,
            by_cwnd: Dur::ZERO,
            by_peer: Dur::ZERO,
            by_application: Dur::ZERO,
            filled: false,
            most_in_flight: 0,
            window_end: 0,
            sent: false,
        }
    }
}

impl CwndValidation {
    /// The handshake is done: time counts from now on.
    pub fn start(&mut self, now: Time) {
        self.since = now;
    }

    /// Time under each limit up to `now`: cwnd, the peer's window, the application.
    pub fn until(&self, now: Time) -> (Dur, Dur, Dur) {
        let mut copy = *self;
        copy.charge(now);
        (copy.by_cwnd, copy.by_peer, copy.by_application)
    }

    fn charge(&mut self, now: Time) {
        let spent = now.since(self.since);
        self.since = now;
        match self.limit {
            Limited::Cwnd => self.by_cwnd += spent,
            Limited::Rwnd => self.by_peer += spent,
            Limited::App => self.by_application += spent,
        }
    }

    /// Sets what limits the sender from now on.
    #[inline]
    pub fn set(&mut self, now: Time, limit: Limited) {
        if self.limit != limit {
            self.charge(now);
            self.limit = limit;
        }
    }

    /// New data were sent.
    #[inline]
    pub fn on_sent(&mut self) {
        self.sent = true;
    }

    /// The sender stops sending. Returns whether it sent new data.
    #[inline]
    pub fn take_sent(&mut self) -> bool {
        std::mem::take(&mut self.sent)
    }

    /// Linux `tcp_cwnd_validate`: records for the present window whether cwnd was filled and the most data that were outstanding. `out`:
    /// the data outstanding now, in the unit of the window.
    #[inline]
    pub fn validate(&mut self, filled: bool, una: u64, nxt: u64, out: u64) {
        if una >= self.window_end || filled || (!self.filled && out > self.most_in_flight) {
            self.filled = filled;
            // Nothing asks for it while the window counts as filled.
            self.most_in_flight = if filled { 0 } else { out };
            self.window_end = nxt;
        }
    }

    /// The limit of the flight (Linux `tcp_is_cwnd_limited`): in slow start more than half a window in use
    /// counts as full.
    pub fn limit_of_flight(&self, control: Control) -> Limited {
        let cwnd = control.cwnd;
        if self.filled || (cwnd < control.ssthresh && cwnd.get() < 2 * self.most_in_flight) {
            return Limited::Cwnd;
        }
        if self.limit == Limited::Rwnd { Limited::Rwnd } else { Limited::App }
    }
}

/// FreeBSD's rule (`cc_ack_received`): cwnd is the limit while the peer's window is not smaller, whether it was used or
/// not.
pub(super) fn limit_by_peer_window(control: Control, window: u64) -> Limited {
    if control.cwnd.get() <= window { Limited::Cwnd } else { Limited::Rwnd }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_units::Bytes;

    fn control(cwnd: u64, ssthresh: u64) -> Control {
        Control { cwnd: Bytes::new(cwnd), ssthresh: Bytes::new(ssthresh), pacing: None }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    #[test]
    fn time_is_charged_to_the_limit_in_force() {
        let mut validation = CwndValidation::default();
        validation.start(at(100));
        validation.set(at(110), Limited::Cwnd);
        validation.set(at(140), Limited::Rwnd);
        let ms = Dur::from_millis;
        assert_eq!(validation.until(at(145)), (ms(30), ms(5), ms(10)));
    }

    #[test]
    fn a_window_that_was_filled_once_counts_as_used_until_the_next_window() {
        let mut validation = CwndValidation::default();
        let avoidance = control(10_000, 5_000);
        validation.validate(true, 1, 10_001, 10_000);
        validation.validate(false, 5_001, 9_001, 4_000);
        assert_eq!(validation.limit_of_flight(avoidance), Limited::Cwnd);
        validation.validate(false, 10_001, 14_001, 4_000);
        assert_eq!(validation.limit_of_flight(avoidance), Limited::App);
    }

    #[test]
    fn in_slow_start_more_than_half_of_the_window_in_use_is_enough() {
        let mut validation = CwndValidation::default();
        let slow_start = control(10_000, 50_000);
        validation.validate(false, 1, 5_001, 5_000);
        assert_eq!(validation.limit_of_flight(slow_start), Limited::App);
        validation.validate(false, 1, 5_002, 5_001);
        assert_eq!(validation.limit_of_flight(slow_start), Limited::Cwnd);
    }

    #[test]
    fn freebsd_compares_cwnd_with_the_peers_window_alone() {
        assert_eq!(limit_by_peer_window(control(10_000, 5_000), 10_000), Limited::Cwnd);
        assert_eq!(limit_by_peer_window(control(10_001, 5_000), 10_000), Limited::Rwnd);
    }
}
