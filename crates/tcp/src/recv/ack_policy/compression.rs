//! Compression of duplicate ACKs (Linux since 4.18): the first three for a position are sent, then one for many, by a timer or before
//! blocks beyond the second change ([`Receiver::send_compressed`](crate::recv::Receiver)). Sources: `__tcp_ack_snd_check`,
//! `tcp_compressed_ack_kick`, `tcp_sack_new_ofo_skb`.

use super::{AckInput, AckPolicy, Verdict};
use crate::log::AckReason;
use tcpassay_units::{Dur, Time};

impl AckPolicy {
    /// A duplicate ACK is due: the first three for a position are sent, then one for many (`__tcp_ack_snd_check`).
    pub(super) fn compress(&mut self, now: Time, ask: &AckInput) -> Option<Verdict> {
        let send = Some(Verdict::Now(AckReason::OutOfOrder));
        let Some(rule) = self.compression.filter(|rule| self.compressed < rule.most) else { return send };
        if self.duplicates.0 != ask.nxt {
            self.duplicates = (ask.nxt, 0);
        }
        if self.duplicates.1 < 3 {
            self.duplicates.1 += 1;
            return send;
        }
        self.compressed += 1;
        if self.compressed_until == Time::MAX {
            if self.armed <= now {
                // It has fired in the meantime, and found nothing to do.
                self.armed = Time::MAX;
            }
            let rtt = ask.srtt.map_or(ask.rtt, |srtt| srtt.min(ask.rtt));
            let wait = rule.delay.min(rtt * rule.percent / 100);
            self.compressed_until = now.saturating_add(wait + rule.slack);
        }
        None
    }

    /// Whether duplicate ACKs were left out since the last ACK.
    pub(crate) fn has_compressed(&self) -> bool {
        self.compressed > 0
    }

    /// Without SACK every duplicate ACK counts.
    pub(crate) fn compress_nothing(&mut self) {
        self.compression = None;
    }

    /// Whether the timer of compressed duplicate ACKs is due, and that of the delayed ACK is not.
    pub(crate) fn only_compressed_is_due(&self, now: Time) -> bool {
        self.compressed_until <= now && self.timer > now && self.armed > now
    }

    /// Makes the timer of compressed duplicate ACKs due if it may fire now: it may fire any time within its slack
    /// (`hrtimer_start_range_ns`), when the kernel serves another timer. Returns whether it is.
    pub(crate) fn hasten(&mut self, now: Time) -> bool {
        let slack = self.compression.map_or(Dur::ZERO, |rule| rule.slack);
        let may = self.compressed_until != Time::MAX && self.compressed_until.saturating_sub(slack) <= now;
        if may {
            self.compressed_until = self.compressed_until.min(now);
        }
        may
    }

    /// Returns whether the timer of compressed duplicate ACKs is due, so that one is sent for them now. The timer of a delayed ACK that was
    /// sent in the meantime has the same effect (`tcp_delack_timer_handler`).
    pub(crate) fn compressed_due(&mut self, now: Time) -> bool {
        let stale = self.compressed > 0 && self.armed <= now;
        let due = self.compressed_until <= now || stale;
        if due {
            if stale {
                self.armed = Time::MAX;
            }
            self.compressed_until = Time::MAX;
            self.demand(AckReason::OutOfOrder);
        }
        due
    }
}
