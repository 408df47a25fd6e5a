//! What limits the sender: the congestion window, the peer's, or the application. Source: Linux `tcp_cwnd_validate`.

use tcpassay_cc::{Control, Limited};
use tcpassay_units::{Dur, Time};

/// What limits the sender, and for how long it did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    now: Limited,
    since: Time,
    /// Time limited by cwnd, by the peer's window, by the application.
    pub cwnd: Dur,
    pub rwnd: Dur,
    pub app: Dur,
    /// cwnd was filled in the present window.
    filled: bool,
    most_out: u64,
    window_end: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            now: Limited::App,
            since: Time::ZERO,
            cwnd: Dur::ZERO,
            rwnd: Dur::ZERO,
            app: Dur::ZERO,
            filled: false,
            most_out: 0,
            window_end: 0,
        }
    }
}

impl Limits {
    /// The clock starts.
    pub fn start(&mut self, now: Time) {
        self.since = now;
    }

    /// Time under each limit up to `now`: cwnd, peer's window, application.
    pub fn until(&self, now: Time) -> (Dur, Dur, Dur) {
        let mut copy = *self;
        copy.charge(now);
        (copy.cwnd, copy.rwnd, copy.app)
    }

    fn charge(&mut self, now: Time) {
        let spent = now.since(self.since);
        self.since = now;
        match self.now {
            Limited::Cwnd => self.cwnd += spent,
            Limited::Rwnd => self.rwnd += spent,
            Limited::App => self.app += spent,
        }
    }

    #[inline]
    pub fn set(&mut self, now: Time, limit: Limited) {
        if self.now != limit {
            self.charge(now);
            self.now = limit;
        }
    }

    /// Linux `tcp_cwnd_validate`: over each window, whether cwnd was ever filled and the most in flight.
    #[inline]
    pub fn validate(&mut self, filled: bool, una: u64, nxt: u64) {
        let out = nxt - una;
        if una >= self.window_end || filled || (!self.filled && out > self.most_out) {
            self.filled = filled;
            self.most_out = out;
            self.window_end = nxt;
        }
    }

    /// The rule of FreeBSD (`cc_ack_received`): the window grows while the peer's is not smaller, whether it was used or not.
    pub fn by_peer(control: Control, window: u64) -> Limited {
        if control.cwnd.get() <= window { Limited::Cwnd } else { Limited::Rwnd }
    }

    /// What limited the flight (Linux `tcp_is_cwnd_limited`): in slow start more than half a window in use counts as full.
    pub fn over_flight(&self, control: Control) -> Limited {
        let cwnd = control.cwnd;
        if self.filled || (cwnd < control.ssthresh && cwnd.get() < 2 * self.most_out) {
            return Limited::Cwnd;
        }
        if self.now == Limited::Rwnd { Limited::Rwnd } else { Limited::App }
    }
}
