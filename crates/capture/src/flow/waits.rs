//! What kept a sender from sending, as parts of its time, from the packets that a capture at the sender shows.
//!
//! The packet that ends a wait shows its cause. Data that leave at once after an ACK waited for it; data that leave without one waited for
//! the application, or for pacing. Whether everything that was written had been sent shows in the last segment before the wait: a sender that
//! has more fills its segments.

use serde::Serialize;
use tcpassay_states::SendLimit;
use tcpassay_units::{Dur, Time};

/// A sender answers an ACK with the data that it permits within this time.
const AT_ONCE: Dur = Dur::from_micros(50);
/// A sender with a full congestion window sends nothing until as many packets as this are acknowledged only if it repairs losses.
const WITHOUT_DATA: u64 = 4;

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
}

impl TimeShares {
    /// `times` are in the order of [`SendLimit`].
    pub(crate) fn of(times: &[u64; 9]) -> Option<TimeShares> {
        let whole: u64 = times.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let share = |limit: SendLimit| times[limit as usize] as f64 / whole as f64;
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
            ("pacing", self.time_pacing),
            ("host queue", self.time_host_queue),
            ("recovery", self.time_recovery),
            ("timers", self.time_timers),
        ];
        all.retain(|(_, share)| *share >= 0.005);
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }
}

/// Segments with data that leave the sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub at: Time,
    pub len: u64,
    /// Bytes that were outstanding before it.
    pub outstanding: u64,
    /// Whether it fills segments, so that the sender may have more.
    pub is_whole: bool,
    /// Its data had been sent before.
    pub again: bool,
    /// The highest position that was sent.
    pub nxt: u64,
    /// The size of a segment, and of the largest packet.
    pub segment: u64,
    pub largest: u64,
    /// The room in the receive window behind it, if that is known.
    pub room: Option<u64>,
    /// The shortest round trip.
    pub round_trip: Option<Dur>,
}

/// What the receiver said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub at: Time,
    pub una: u64,
    /// It acknowledges data or permits more.
    pub permits: bool,
    pub has_data: bool,
    /// The room in the receive window, if that is known.
    pub room: Option<u64>,
}

/// The time of one sender under each limit, and the wait that has not ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    times: [u64; 9],
    /// The beginning of the wait; `None` before the handshake is done.
    since: Option<Time>,
    /// The last answer in the wait that permits data, and whether it had data itself.
    answer: Option<(Time, bool)>,
    /// The last segment with data or its ACK: a timer runs since then.
    active: Time,
    /// The window had no room for a segment during the wait.
    shut: bool,
    /// The size of a segment; 0 before the first one.
    segment: u64,
    /// The last segment before the wait filled its packet; `None` before the first one.
    whole: Option<bool>,
    /// Losses are being repaired until this position is acknowledged.
    repair: u64,
    una: u64,
    /// Bytes that were acknowledged in the wait before the last answer.
    acknowledged: u64,
    /// The payload of the last packet.
    last: u64,
    /// The last wait that pacing ended, and the bytes of the packet before it.
    pace: Option<(Dur, u64)>,
    /// Writes while data were outstanding that the window did not delay: at once after an ACK, and without one.
    writes: [u64; 2],
}

impl Waits {
    /// The handshake is done: time counts from now on.
    pub fn begin(&mut self, at: Time) {
        self.since = self.since.or(Some(at));
    }

    fn charge(&mut self, until: Time, limit: SendLimit) {
        if let Some(since) = self.since.filter(|since| *since < until) {
            self.times[limit as usize] += until.since(since).as_nanos();
            self.since = Some(until);
        }
    }

    fn has_no_room(&self, room: Option<u64>) -> bool {
        room.is_some_and(|room| room < self.segment)
    }

    fn is_repairing(&self) -> bool {
        self.una < self.repair
    }

    /// The receiver answers.
    pub fn answered(&mut self, answer: Answer) {
        if self.is_repairing() {
            self.charge(answer.at, SendLimit::Recovery);
        }
        if answer.una > self.una {
            let before = self.answer.is_some() && self.una > 0;
            self.acknowledged += if before { answer.una - self.una } else { 0 };
            self.una = answer.una;
            self.active = answer.at;
        }
        self.shut |= self.has_no_room(answer.room);
        if answer.permits {
            self.answer = Some((answer.at, answer.has_data));
        }
    }

    /// The sender probes a closed window: it has data.
    pub fn probed(&mut self, at: Time) {
        self.charge(at, SendLimit::ReceiveWindow);
    }

    /// The sender sends.
    pub fn sent(&mut self, sent: Sent) {
        let limit = self.limit(sent);
        if limit == SendLimit::Timers {
            let before = if self.is_repairing() { SendLimit::Recovery } else { SendLimit::CongestionWindow };
            self.charge(self.active, before);
        }
        if matches!(limit, SendLimit::CongestionWindow | SendLimit::ReceiveWindow) {
            // Whatever ended the wait, a paced sender would have waited for its timer at first.
            self.charge(self.paced_until(sent.at), SendLimit::Pacing);
        }
        if let (SendLimit::Pacing, Some(since)) = (limit, self.since) {
            self.pace = Some((sent.at.since(since), self.last));
        }
        self.charge(sent.at, limit);
        if sent.outstanding > 0 {
            self.writes[0] += u64::from(limit == SendLimit::SendBuffer);
            self.writes[1] += u64::from(limit == SendLimit::Application);
        }
        self.active = sent.at;
        (self.acknowledged, self.last) = (0, sent.len);
        if sent.again {
            self.repair = sent.nxt;
        } else {
            self.whole = Some(sent.is_whole);
        }
        self.answer = self.answer.filter(|(at, _)| sent.at.since(*at) <= AT_ONCE);
        self.segment = sent.segment;
        self.shut = self.has_no_room(sent.room);
    }

    /// The cause of the wait that a segment ends.
    fn limit(&self, sent: Sent) -> SendLimit {
        let Some(is_whole) = self.whole else { return SendLimit::Application };
        let idle = sent.at.since(self.active);
        let is_long = sent.round_trip.is_some_and(|whole| idle >= whole);
        let waits_for_ack = sent.outstanding > 0;
        let answer = self.answer.filter(|(at, _)| sent.at.since(*at) <= AT_ONCE);
        let Some((_, has_data)) = answer else {
            return match (self.is_repairing() || sent.again, is_whole && waits_for_ack) {
                (true, _) if sent.again && waits_for_ack && is_long => SendLimit::Timers,
                (true, _) => SendLimit::Recovery,
                (false, true) if is_long => SendLimit::Timers,
                (false, true) if self.is_paced(sent, idle) => SendLimit::Pacing,
                (false, _) => SendLimit::Application,
            };
        };
        if self.is_repairing() || sent.again {
            SendLimit::Recovery
        } else if self.shut {
            SendLimit::ReceiveWindow
        } else if has_data && !waits_for_ack {
            // A request is answered.
            SendLimit::Application
        } else if is_whole && self.acknowledged <= WITHOUT_DATA * sent.largest {
            SendLimit::CongestionWindow
        } else if !waits_for_ack && !sent.is_whole {
            SendLimit::Nagle
        } else {
            // Everything was sent, or earlier ACKs permitted more: the ACK let the application write.
            SendLimit::SendBuffer
        }
    }

    /// When the pacing timer of the last packet would have fired, at most `at`, by the last wait that pacing ended. A sender that does not pace
    /// has none.
    fn paced_until(&self, at: Time) -> Time {
        let (Some((wait, bytes)), Some(since)) = (self.pace.filter(|(_, bytes)| *bytes > 0), self.since)
        else {
            return Time::ZERO;
        };
        let nanos = u128::from(wait.as_nanos()) * u128::from(self.last) / u128::from(bytes);
        since.saturating_add(Dur::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))).min(at)
    }

    /// A paced sender spreads what is outstanding over the round trip.
    fn is_paced(&self, sent: Sent, idle: Dur) -> bool {
        let whole = |dur: Dur| u128::from(dur.as_nanos());
        sent.round_trip.is_none_or(|round_trip| {
            whole(idle) * u128::from(sent.outstanding) <= 2 * whole(round_trip) * u128::from(self.last)
        })
    }

    /// The shares of the time up to `end`; `None` without any.
    pub fn shares(&self, end: Time) -> Option<TimeShares> {
        let mut whole = *self;
        let rest = if self.is_repairing() { SendLimit::Recovery } else { SendLimit::Application };
        whole.charge(end, rest);
        // An application that writes for reasons of its own meets an ACK by chance.
        let [after_ack, unprompted] = self.writes;
        if after_ack < 4 * unprompted {
            let [to, from] = [SendLimit::Application, SendLimit::SendBuffer].map(|limit| limit as usize);
            whole.times[to] += std::mem::take(&mut whole.times[from]);
        }
        TimeShares::of(&whole.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Time {
        Time::from_nanos(n * 1000)
    }

    /// A sender of full segments with ten of them outstanding and a round trip of 20 ms.
    struct Line {
        waits: Waits,
        nxt: u64,
    }

    impl Line {
        fn new() -> Line {
            let mut waits = Waits::default();
            waits.begin(us(0));
            Line { waits, nxt: 0 }
        }

        fn send(&mut self, at: u64) {
            self.nxt += 1000;
            self.waits.sent(Sent {
                at: us(at),
                len: 1000,
                outstanding: 10_000,
                is_whole: true,
                again: false,
                nxt: self.nxt,
                segment: 1000,
                largest: 1000,
                room: None,
                round_trip: Some(Dur::from_millis(20)),
            });
        }

        fn ack(&mut self, at: u64, una: u64) {
            self.waits.answered(Answer { at: us(at), una, permits: true, has_data: false, room: None });
        }
    }

    #[test]
    fn a_paced_sender_waits_for_its_timer_before_it_waits_for_an_ack() {
        let mut line = Line::new();
        line.send(0);
        for n in 1..=10 {
            // An ACK of two segments each millisecond; the second one leaves 400 us after the first one.
            line.ack(n * 1000, n * 2000);
            line.send(n * 1000);
            line.send(n * 1000 + 400);
        }
        let shares = line.waits.shares(us(10_400)).expect("time has passed");
        // In the first millisecond the pace is not known; each of the nine after the first pair has 800 us of it.
        assert!((shares.time_pacing - 7.6 / 10.4).abs() < 0.001, "{shares:?}");
        assert!((shares.time_congestion_window - (1.0 + 9.0 * 0.2) / 10.4).abs() < 0.001, "{shares:?}");
    }

    #[test]
    fn a_sender_that_does_not_pace_waits_for_acks_only() {
        let mut line = Line::new();
        line.send(0);
        for n in 1..=10 {
            line.ack(n * 1000, n * 2000);
            line.send(n * 1000);
            line.send(n * 1000);
        }
        let shares = line.waits.shares(us(10_000)).expect("time has passed");
        assert!((shares.time_congestion_window - 1.0).abs() < 0.001, "{shares:?}");
    }
}
