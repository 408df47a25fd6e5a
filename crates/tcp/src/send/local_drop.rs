//! A local interface that drops every packet of the sender and reports it.
//!
//! Linux reduces its window as after an ECN mark, leaves new data unsent, and tries again every 500 ms without
//! backing off: by the probe timer if nothing is in flight, otherwise by the retransmission timer. Sources:
//! `tcp_transmit_skb`, `tcp_send_probe0`, `tcp_retransmit_timer`, `TCP_RESOURCE_PROBE_INTERVAL`.

use tcpassay_units::{Dur, Time};

/// `TCP_RESOURCE_PROBE_INTERVAL`
pub(super) const RETRY: Dur = Dur::from_millis(500);

/// Whether the interface drops everything, and since when probes were dropped.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LocalDrop {
    active: bool,
    since: Option<Time>,
}

impl LocalDrop {
    /// Sets whether the interface drops all packets.
    pub fn set(&mut self, active: bool) {
        *self = LocalDrop { active, since: None };
    }

    #[inline]
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// The probe timer fired and the interface still drops. Returns the wait until the next attempt, or `None` if
    /// `user_timeout` has passed since the first one.
    pub fn retry(&mut self, now: Time, user_timeout: Option<Dur>) -> Option<Dur> {
        let waited = now.since(*self.since.get_or_insert(now));
        match user_timeout {
            Some(limit) if waited >= limit => None,
            Some(limit) => Some(RETRY.min(limit.saturating_sub(waited))),
            None => Some(RETRY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    #[test]
    fn it_retries_every_500_ms_without_backing_off() {
        let mut drop = LocalDrop::default();
        drop.set(true);
        assert_eq!(drop.retry(at(0), None), Some(Dur::from_millis(500)));
        assert_eq!(drop.retry(at(5000), None), Some(Dur::from_millis(500)));
    }

    #[test]
    fn the_user_timeout_counts_from_the_first_dropped_probe() {
        let mut drop = LocalDrop::default();
        drop.set(true);
        let limit = Some(Dur::from_millis(800));
        assert_eq!(drop.retry(at(1000), limit), Some(Dur::from_millis(500)));
        assert_eq!(drop.retry(at(1500), limit), Some(Dur::from_millis(300)));
        assert_eq!(drop.retry(at(1800), limit), None);
        drop.set(true);
        assert_eq!(drop.retry(at(1800), limit), Some(Dur::from_millis(500)), "the count begins again");
    }
}
