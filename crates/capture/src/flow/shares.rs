//! Shares of a sender's time, by what kept it from sending.

use serde::Serialize;
use tcpassay_states::SendLimit;

/// The number of [`SendLimit`]s, and the place of time that none of them is known to explain.
pub(super) const LIMITS: usize = 9;
pub(super) const UNKNOWN: usize = LIMITS;

/// What kept a sender from sending, as shares of its time, with the names of the metrics of runs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct TimeShares {
    /// Everything that the application had written was sent.
    pub time_application: f64,
    /// A small segment waited for the ACK of all data before it.
    pub time_nagle: f64,
    /// Everything was sent, and an ACK let the application write.
    pub time_send_buffer: f64,
    /// The receive window had no room for a segment.
    pub time_receive_window: f64,
    /// Full segments left with an ACK: they waited for the congestion window, or for a write that waited for room in the send buffer.
    pub time_congestion_window: f64,
    /// Full segments left without an ACK, spread over the round trip: by pacing, or by the queue of the own host.
    pub time_pacing: f64,
    /// 0: packets do not tell it from pacing.
    pub time_host_queue: f64,
    /// From a retransmission to the ACK of what was sent before it.
    pub time_recovery: f64,
    /// The wait for a retransmission timeout or a tail loss probe.
    pub time_timers: f64,
    /// What the packets do not show.
    pub time_unknown: f64,
}

impl TimeShares {
    /// `times` are in the order of [`SendLimit`], and the unknown.
    pub(crate) fn of(times: &[u64; LIMITS + 1]) -> Option<TimeShares> {
        let whole: u64 = times.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let of = |place: usize| times[place] as f64 / whole as f64;
        let share = |limit: SendLimit| of(limit as usize);
        (whole > 0).then(|| TimeShares {
            time_application: share(SendLimit::Application),
            time_nagle: share(SendLimit::Nagle),
            time_send_buffer: share(SendLimit::SendBuffer),
            time_receive_window: share(SendLimit::ReceiveWindow),
            time_congestion_window: share(SendLimit::CongestionWindow),
            time_pacing: share(SendLimit::Pacing),
            time_host_queue: share(SendLimit::HostQueue),
            time_recovery: share(SendLimit::Recovery),
            time_timers: share(SendLimit::Timers),
            time_unknown: of(UNKNOWN),
        })
    }

    /// Their names as words, the largest first, without those below half a percent.
    pub(crate) fn words(&self) -> Vec<(&'static str, f64)> {
        let mut all = vec![
            ("application", self.time_application),
            ("Nagle", self.time_nagle),
            ("send buffer", self.time_send_buffer),
            ("receive window", self.time_receive_window),
            ("congestion window (or a full send buffer)", self.time_congestion_window),
            ("pacing (or the queue of the own host)", self.time_pacing),
            ("host queue", self.time_host_queue),
            ("recovery", self.time_recovery),
            ("timers", self.time_timers),
            ("unknown", self.time_unknown),
        ];
        all.retain(|(_, share)| *share >= 0.005);
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }
}
