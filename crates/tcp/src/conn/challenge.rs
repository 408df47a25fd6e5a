//! The throttle of challenge ACKs (RFC 5961 section 7).

use tcpassay_units::{Dur, Time};

/// The throttle of challenge ACKs (RFC 5961 section 7).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Challenge {
    since: Time,
    sent: u32,
    /// True if the ACK that is due is a challenge ACK. FreeBSD sends it apart from the stream
    /// (`tcp_respond`), without the FIN that its other ACKs repeat.
    due: bool,
}

impl Challenge {
    /// Whether one more may be sent: at most `most` in `period`.
    pub fn allowed(&mut self, now: Time, (most, period): (u32, Dur)) -> bool {
        if self.sent == 0 || now.since(self.since) >= period {
            *self = Challenge { since: now, sent: 0, due: self.due };
        }
        self.sent += 1;
        self.sent <= most
    }

    /// The ACK that is due is a challenge.
    pub fn set_due(&mut self) {
        self.due = true;
    }

    /// Whether the ACK that leaves now is a challenge.
    pub fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_pass_in_a_period_as_the_rule_allows() {
        let mut challenge = Challenge::default();
        let at = |ms| Time::ZERO + Dur::from_millis(ms);
        let rule = (2, Dur::from_millis(500));
        assert!(challenge.allowed(at(100), rule));
        assert!(challenge.allowed(at(599), rule));
        assert!(!challenge.allowed(at(599), rule));
        assert!(challenge.allowed(at(600), rule), "a new period");
    }

    #[test]
    fn a_due_challenge_outlives_a_new_period_and_is_taken_once() {
        let mut challenge = Challenge::default();
        challenge.set_due();
        assert!(challenge.allowed(Time::ZERO + Dur::from_secs(9), (1, Dur::from_secs(5))));
        assert!(challenge.take_due());
        assert!(!challenge.take_due());
    }
}
