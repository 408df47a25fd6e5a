//! An interface that refuses what the sender hands it, and says so.
//!
//! Linux reduces its window as for a mark, leaves new data unsent, and asks again every 500 ms without backing off: by the timer of
//! probes where nothing is in flight, otherwise by the retransmission timer. Sources: `tcp_transmit_skb`, `tcp_send_probe0`,
//! `tcp_retransmit_timer`, `TCP_RESOURCE_PROBE_INTERVAL`.

use super::Sender;
use crate::log::{CongestionState as Ca, Log};
use crate::messages::GaveUp;
use tcpassay_cc::{Cause, Limited};
use tcpassay_units::{Dur, Time};

/// `TCP_RESOURCE_PROBE_INTERVAL`
pub(super) const AGAIN: Dur = Dur::from_millis(500);

impl Sender {
    /// The interface refuses everything from now on, or nothing any more; what waits is tried again when its timer fires.
    pub fn set_jammed(&mut self, on: bool) {
        self.jammed = on;
        self.plain = false;
        self.timers.refused = None;
    }

    /// What would go now is refused.
    pub(super) fn refused(&mut self, now: Time, log: &mut Log) {
        self.timers.probe_due = false;
        self.probe.due = false;
        self.pacer.rest();
        self.idle_burst = false;
        let out = self.board.outstanding();
        let fits = self.has_new() && self.board.nxt < self.board.una + self.wnd && self.room() > 0;
        if !(fits || self.force || self.board.pending > 0) {
            return;
        }
        self.limits.set(now, Limited::App);
        if matches!(self.state, Ca::Open | Ca::Disorder) {
            self.enter_cwr(now, Cause::Loss, out, out - self.board.sacked, "refused by the interface", log);
        }
        if out == 0 {
            let (wait, least, most) = self.persist_wait();
            self.timers.start_persist(now, wait, least, most, log);
        }
    }

    /// The timer of probes fired: the wait until the next attempt.
    pub(super) fn on_refused(&mut self, now: Time, log: &mut Log) -> Result<(), GaveUp> {
        let waited = now.since(*self.timers.refused.get_or_insert(now));
        if self.cfg.user_timeout.is_some_and(|t| waited >= t) {
            return Err(GaveUp::UserTimeout);
        }
        if self.timers.probes() >= self.cfg.retries {
            return Err(GaveUp::Retries);
        }
        let left = self.cfg.user_timeout.map_or(AGAIN, |t| t.saturating_sub(waited));
        self.timers.try_again(now, AGAIN.min(left), log);
        Ok(())
    }
}
