//! What kept a sender from sending, as parts of its time, from the packets that a capture at the sender shows.
//!
//! The packet that ends a wait shows its cause. Data that leave at once after an ACK waited for it; data that leave without one waited for
//! the application, or for pacing. Whether everything that was written had been sent shows in the last segment before the wait: a sender that
//! has more fills its segments. PSH shows the end of a write only if the sender does not set it on whole trains, as Linux does for segmentation
//! offload (`__tcp_transmit_skb`, since 5.4). What the packets do not show is unknown, and no time of the application.

use super::shares::{LIMITS, TimeShares, UNKNOWN};
use super::stall::is_short;
use tcpassay_states::SendLimit;
use tcpassay_units::{Dur, Time};

/// A sender answers an ACK with the data that it permits within this time.
const AT_ONCE: Dur = Dur::from_micros(50);
/// A process that waited for the ACK is scheduled within this part of the round trip, and of the wait.
const WOKEN: u64 = 8;
const WOKEN_IN_WAIT: u64 = 4;
/// A paced sender sends as much at once as its rate permits in 1 ms, at least two segments (Linux: `tcp_tso_autosize`, `sk_pacing_shift`).
const LONGEST_PACE: Dur = Dur::from_millis(2);
const LEAST_BURST: u64 = 2;
/// PSH shows ends of writes if a train has none for each of as many with it.
const PUSHED_TRAINS: u64 = 4;
/// A sender with a full congestion window sends nothing until as many packets as this are acknowledged only if it repairs losses.
const WITHOUT_DATA: u64 = 4;

/// Segments with data that leave the sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub at: Time,
    pub len: u64,
    /// Bytes that were outstanding before it.
    pub outstanding: u64,
    /// Whether it fills segments, so that the sender may have more; `None` if the size of a segment is unknown.
    pub is_whole: Option<bool>,
    /// It has PSH: a write ends with it.
    pub pushes: bool,
    /// The receiver has reported a loss.
    pub reported: bool,
    /// Its data had been sent before.
    pub again: bool,
    /// The highest position that was sent.
    pub nxt: u64,
    /// The size of a segment, and of the largest packet.
    pub segment: u64,
    pub largest: u64,
    /// The room in the receive window behind it, if that is known.
    pub room: Option<u64>,
    /// The shortest round trip, and the usual one, which has queues.
    pub round_trip: Option<Dur>,
    pub usual: Option<Dur>,
}

/// What the receiver said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub at: Time,
    pub una: u64,
    /// It acknowledges data or permits more.
    pub permits: bool,
    /// It has data, or a FIN.
    pub has_data: bool,
    /// The room in the receive window, if that is known.
    pub room: Option<u64>,
}

/// What came from the receiver during a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Heard {
    #[default]
    Nothing,
    /// An ACK of data.
    Ack,
    /// Data, or a FIN.
    Data,
}

/// Segments that left together.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    bytes: u64,
    /// Bytes since the last PSH before the last packet.
    train: u64,
}

/// What a wait after a train with PSH was for, if PSH ended a write, and otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doubt {
    /// The application, or unknown.
    Silence,
    /// The application, or pacing.
    Pace,
    /// Room in the send buffer, or the congestion window.
    Room,
}

/// Whether packets of `bytes` that follow each other after `idle` spread what is outstanding over the round trip, up to a factor of two.
fn spreads(idle: Dur, outstanding: u64, round_trip: Dur, bytes: u64) -> bool {
    let whole = |dur: Dur| u128::from(dur.as_nanos());
    whole(idle) * u128::from(outstanding) <= 2 * whole(round_trip) * u128::from(bytes)
}

impl Doubt {
    fn limits(self) -> [Limit; 2] {
        match self {
            Doubt::Silence => [Some(SendLimit::Application), None],
            Doubt::Pace => [Some(SendLimit::Application), Some(SendLimit::Pacing)],
            Doubt::Room => [Some(SendLimit::SendBuffer), Some(SendLimit::CongestionWindow)],
        }
    }
}

/// The time of one sender under each limit, and the wait that has not ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    times: [u64; LIMITS + 1],
    /// The beginning of the wait; `None` before the handshake is done.
    since: Option<Time>,
    /// The last answer in the wait that permits data, and whether it had data itself.
    answer: Option<(Time, bool)>,
    heard: Heard,
    /// The last segment with data or its ACK: a timer runs since then.
    active: Time,
    /// The last segment with data.
    left: Time,
    /// The window had no room for a segment during the wait.
    shut: bool,
    /// When it had room again.
    opened: Option<Time>,
    /// The size of a segment; 0 before the first one.
    segment: u64,
    /// The last segment before the wait filled its packet; `None` before the first one, and if that is unknown.
    pub whole: Option<bool>,
    /// It had PSH.
    pushed: bool,
    /// Something was sent.
    begun: bool,
    /// Losses are being repaired until this position is acknowledged.
    repair: u64,
    una: u64,
    nxt: u64,
    /// Bytes that were acknowledged in the wait before the last answer.
    acknowledged: u64,
    /// The payload of the last packet.
    last: u64,
    /// The last packets, which left together.
    burst: Burst,
    /// Trains of full segments before a wait: without PSH, and with it.
    trains: [u64; 2],
    /// Waits that pacing ended, and an ACK that opened the congestion window.
    clocks: [u64; 2],
    /// Time whose cause depends on what PSH means, by [`Doubt`].
    doubtful: [u64; 3],
    /// Writes among `writes` that depend on it.
    doubtful_writes: [u64; 2],
    /// The last wait that pacing ended, and the bytes that left before it.
    pace: Option<(Dur, u64)>,
    /// Writes while data were outstanding that the window did not delay: after an ACK, and without one.
    writes: [u64; 2],
    round_trip: Option<Dur>,
}

/// A limit; `None` if the packets show none.
type Limit = Option<SendLimit>;

fn place(limit: Limit) -> usize {
    limit.map_or(UNKNOWN, |limit| limit as usize)
}

impl Waits {
    /// The handshake is done: time counts from now on.
    pub fn begin(&mut self, at: Time) {
        self.since = self.since.or(Some(at));
    }

    fn charge(&mut self, until: Time, limit: Limit) {
        let passed = self.pass(until);
        self.times[place(limit)] += passed;
    }

    /// The time since the last one that was charged.
    fn pass(&mut self, until: Time) -> u64 {
        match self.since.filter(|since| *since < until) {
            Some(since) => {
                self.since = Some(until);
                until.since(since).as_nanos()
            }
            None => 0,
        }
    }

    /// Since when a timer of the sender runs; `None` before the first data.
    pub fn timer_since(&self) -> Option<Time> {
        self.begun.then_some(self.active)
    }

    fn has_no_room(&self, room: Option<u64>) -> bool {
        room.is_some_and(|room| room < self.segment)
    }

    /// Losses are being repaired.
    pub fn is_repairing(&self) -> bool {
        self.una < self.repair
    }

    /// The receiver answers.
    pub fn answered(&mut self, answer: Answer) {
        if self.is_repairing() {
            let silent = answer.at.since(self.active);
            if answer.una <= self.una && self.round_trip.is_some_and(|whole| silent >= whole * 2) {
                // An answer to something else, while the retransmission timer runs.
                self.charge(self.active, Some(SendLimit::Recovery));
                self.charge(answer.at, Some(SendLimit::Timers));
            }
            self.charge(answer.at, Some(SendLimit::Recovery));
        }
        if self.has_no_room(answer.room) {
            self.shuts(answer.at);
        } else if self.shut {
            self.opened = self.opened.or(Some(answer.at));
        }
        if answer.has_data {
            self.heard = Heard::Data;
        } else if answer.una > self.una && self.heard == Heard::Nothing {
            self.heard = Heard::Ack;
        }
        if answer.una > self.una {
            let before = self.answer.is_some() && self.una > 0;
            self.acknowledged += if before { answer.una - self.una } else { 0 };
            self.una = answer.una;
            self.active = answer.at;
        }
        if answer.permits {
            self.answer = Some((answer.at, answer.has_data));
        }
    }

    /// The receiver announces at `at` that its window has no room. While it had, it was not the limit.
    fn shuts(&mut self, at: Time) {
        let opened = self.opened.take();
        if let Some(opened) = opened {
            self.charge(opened, Some(SendLimit::ReceiveWindow));
        }
        if opened.is_some() || !self.shut {
            self.charge(at, (self.una >= self.nxt).then_some(SendLimit::Application));
        }
        self.shut = true;
    }

    /// The sender probes a closed window: it has data.
    pub fn probed(&mut self, at: Time) {
        self.charge(at, Some(SendLimit::ReceiveWindow));
    }

    /// The sender sends.
    pub fn sent(&mut self, sent: Sent) {
        // The wait for the window ends when it opens.
        if let Some(opened) = self.opened.filter(|_| self.shut && !self.is_repairing() && !sent.again)
            && !self.is_soon(opened, sent)
        {
            self.charge(opened, Some(SendLimit::ReceiveWindow));
            self.shut = false;
        }
        let begins = sent.at.since(self.left) > AT_ONCE;
        self.trains[usize::from(self.pushed)] += u64::from(begins && self.is_train() && !sent.again);
        let limit = self.limit(sent);
        let doubt = self.doubt(sent, limit);
        if limit == Some(SendLimit::Timers) {
            self.charge(self.active, self.is_repairing().then_some(SendLimit::Recovery));
        }
        if matches!(limit, Some(SendLimit::CongestionWindow | SendLimit::ReceiveWindow)) {
            // Whatever ended the wait, a paced sender would have waited for its timer at first.
            self.charge(self.paced_until(sent.at), Some(SendLimit::Pacing));
        }
        let is_paced = limit == Some(SendLimit::Pacing) || doubt == Some(Doubt::Pace);
        self.clocks[0] += u64::from(begins && is_paced);
        self.clocks[1] += u64::from(begins && limit == Some(SendLimit::CongestionWindow));
        // The pause of a train is that before its first packet.
        let is_sure = if self.paces() { begins } else { self.is_paced(sent, sent.at.since(self.active)) };
        if let Some(since) = self.since.filter(|_| is_paced && is_sure) {
            self.pace = Some((sent.at.since(since), self.together()));
        }
        let writes = if let Some(doubt) = doubt {
            let passed = self.pass(sent.at);
            self.doubtful[doubt as usize] += passed;
            &mut self.doubtful_writes
        } else {
            self.charge(sent.at, limit);
            &mut self.writes
        };
        if sent.outstanding > 0 {
            writes[0] += u64::from(limit == Some(SendLimit::SendBuffer));
            writes[1] += u64::from(limit == Some(SendLimit::Application));
        }
        (self.active, self.left) = (sent.at, sent.at);
        (self.acknowledged, self.last, self.begun) = (0, sent.len, true);
        self.burst.bytes = sent.len + if begins { 0 } else { self.burst.bytes };
        if !sent.again {
            self.burst.train = sent.len + if begins || self.pushed { 0 } else { self.burst.train };
        }
        self.heard = Heard::Nothing;
        (self.nxt, self.round_trip) = (sent.nxt, sent.round_trip);
        if sent.again {
            self.repair = sent.nxt;
        } else {
            (self.whole, self.pushed) = (sent.is_whole, sent.pushes);
        }
        self.answer = self.answer.filter(|(at, _)| sent.at.since(*at) <= AT_ONCE);
        self.segment = sent.segment;
        (self.shut, self.opened) = (self.has_no_room(sent.room), None);
    }

    /// Whether a segment leaves so soon after an ACK that this let it go: a process that waited for it is scheduled first.
    fn is_soon(&self, at: Time, sent: Sent) -> bool {
        let passed = sent.at.since(at);
        if passed <= AT_ONCE {
            return true;
        }
        let wait = self.since.map_or(Dur::ZERO, |since| sent.at.since(since)) / WOKEN_IN_WAIT;
        passed <= wait && sent.round_trip.is_some_and(|whole| passed <= whole / WOKEN)
    }

    /// The cause of the wait that a segment ends.
    fn limit(&self, sent: Sent) -> Limit {
        if !self.begun {
            return Some(SendLimit::Application);
        }
        let idle = sent.at.since(self.active);
        let is_long = sent.round_trip.is_some_and(|whole| idle >= whole);
        let waits_for_ack = sent.outstanding > 0;
        if self.is_repairing() || sent.again {
            let trip = sent.round_trip.unwrap_or(Dur::ZERO);
            let of_report = sent.reported && is_short(idle, trip);
            let of_timer = sent.again && waits_for_ack && is_long && !of_report;
            return Some(if of_timer { SendLimit::Timers } else { SendLimit::Recovery });
        }
        let Some((_, has_data)) = self.answer.filter(|(at, _)| self.is_soon(*at, sent)) else {
            return match self.whole {
                _ if self.shut => Some(SendLimit::ReceiveWindow),
                _ if !waits_for_ack => Some(SendLimit::Application),
                None => None,
                Some(false) => Some(SendLimit::Application),
                Some(true) if is_long && !self.pushed => Some(SendLimit::Timers),
                Some(true) if !is_long && self.is_paced(sent, idle) => Some(SendLimit::Pacing),
                Some(true) if !is_long && !self.pushed && self.is_paced_train(sent) => {
                    Some(SendLimit::Pacing)
                }
                // Without the end of a write more may have been written before; after a round trip a probe for a loss has new data.
                Some(true) => (self.pushed && !is_long).then_some(SendLimit::Application),
            };
        };
        if self.shut {
            return Some(SendLimit::ReceiveWindow);
        }
        if has_data && !waits_for_ack {
            // A request is answered.
            return Some(SendLimit::Application);
        }
        match self.whole {
            None => None,
            // An unknown receive window may have been the limit.
            Some(true) if self.acknowledged <= WITHOUT_DATA * sent.largest => {
                sent.room.map(|_| SendLimit::CongestionWindow)
            }
            // Nagle's algorithm holds data that were written before the ACK; data after those of the other end may answer them.
            _ if !waits_for_ack && sent.is_whole == Some(false) && self.heard == Heard::Ack => {
                Some(SendLimit::Nagle)
            }
            _ if !waits_for_ack && (self.heard == Heard::Data || sent.is_whole == Some(false)) => {
                Some(SendLimit::Application)
            }
            // More had been written.
            Some(true) if !self.pushed => sent.room.map(|_| SendLimit::CongestionWindow),
            // Everything was sent, or earlier ACKs permitted more: the ACK let the application write.
            _ => Some(SendLimit::SendBuffer),
        }
    }

    /// When the pacing timer of the last packet would have fired, at most `at`, by the last wait that pacing ended. A sender that does not pace
    /// has none.
    fn paced_until(&self, at: Time) -> Time {
        let (Some((wait, bytes)), Some(since)) = (self.pace.filter(|(_, bytes)| *bytes > 0), self.since)
        else {
            return Time::ZERO;
        };
        let nanos = u128::from(wait.as_nanos()) * u128::from(self.together()) / u128::from(bytes);
        since.saturating_add(Dur::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))).min(at)
    }

    /// A paced sender spreads what is outstanding over the round trip.
    fn is_paced(&self, sent: Sent, idle: Dur) -> bool {
        sent.round_trip.is_none_or(|trip| spreads(idle, sent.outstanding, trip, self.last))
    }

    /// Segmentation offload sends some segments at once, and then pauses for all of them.
    fn is_paced_train(&self, sent: Sent) -> bool {
        let idle = sent.at.since(self.left);
        let is_short = idle <= LONGEST_PACE || self.burst.bytes <= LEAST_BURST * self.segment;
        is_short && sent.usual.is_none_or(|trip| spreads(idle, sent.outstanding, trip, self.burst.bytes))
    }

    /// Whether the sender waits for the timer of its pacing rather than for ACKs.
    fn paces(&self) -> bool {
        let [timer, ack] = self.clocks;
        timer > ack
    }

    /// What one wait for the timer lets go.
    fn together(&self) -> u64 {
        if self.paces() { self.burst.bytes } else { self.last }
    }

    /// Whether the last packets are a train of full segments, of which PSH may be the sign of segmentation offload.
    fn is_train(&self) -> bool {
        self.whole == Some(true) && self.burst.train > self.segment
    }

    /// Whether PSH ends writes: the sender sends trains without it.
    fn push_tells(&self) -> bool {
        let [without, with] = self.trains;
        PUSHED_TRAINS * without >= with
    }

    /// What else the wait may have been for, because PSH on a train may be no end of a write.
    fn doubt(&self, sent: Sent, limit: Limit) -> Option<Doubt> {
        match limit.filter(|_| self.pushed && self.is_train() && self.begun)? {
            SendLimit::Application if sent.outstanding > 0 && self.is_paced_train(sent) => Some(Doubt::Pace),
            SendLimit::Application if sent.outstanding > 0 => Some(Doubt::Silence),
            SendLimit::SendBuffer => Some(Doubt::Room),
            _ => None,
        }
    }

    /// The shares of the time up to `end`; `None` without any. `has_finished`: the sender has sent a FIN.
    pub fn shares(&self, end: Time, has_finished: bool) -> Option<TimeShares> {
        let mut whole = *self;
        whole.rest(end, has_finished);
        let tells = self.push_tells();
        for doubt in [Doubt::Silence, Doubt::Pace, Doubt::Room] {
            let [write, other] = doubt.limits();
            whole.times[place(if tells { write } else { other })] += self.doubtful[doubt as usize];
        }
        // An application that writes for reasons of its own meets an ACK by chance.
        let [after_ack, unprompted] =
            [0, 1].map(|n| self.writes[n] + if tells { self.doubtful_writes[n] } else { 0 });
        if after_ack < 4 * unprompted {
            whole.times[UNKNOWN] += std::mem::take(&mut whole.times[SendLimit::SendBuffer as usize]);
        }
        TimeShares::of(&whole.times)
    }

    /// The time after the last data. A sender with a FIN had no more. Without one it may have waited while data were outstanding.
    fn rest(&mut self, end: Time, has_finished: bool) {
        if self.is_repairing() {
            if self.round_trip.is_some_and(|whole| end.since(self.active) >= whole) {
                self.charge(self.active, Some(SendLimit::Recovery));
                self.charge(end, Some(SendLimit::Timers));
            }
            self.charge(end, Some(SendLimit::Recovery));
        } else if self.shut {
            self.charge(self.opened.unwrap_or(end), Some(SendLimit::ReceiveWindow));
        } else if self.begun && !has_finished && self.whole != Some(false) {
            self.charge(if self.una < self.nxt { end } else { self.active }, None);
        }
        self.charge(end, Some(SendLimit::Application));
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
                is_whole: Some(true),
                pushes: false,
                reported: false,
                again: false,
                nxt: self.nxt,
                segment: 1000,
                largest: 1000,
                room: Some(1_000_000),
                round_trip: Some(Dur::from_millis(20)),
                usual: Some(Dur::from_millis(20)),
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
        let shares = line.waits.shares(us(10_400), false).expect("time has passed");
        // In the first millisecond the pace is not known; each of the nine after the first pair has 800 us of it.
        assert!((shares.time_pacing - 7.6 / 10.4).abs() < 0.001, "{shares:?}");
        assert!((shares.time_congestion_window - (1.0 + 9.0 * 0.2) / 10.4).abs() < 0.001, "{shares:?}");
    }

    #[test]
    fn pairs_of_a_paced_sender_that_meet_an_ack_by_chance_waited_for_its_timer() {
        let mut line = Line::new();
        for n in 0..=8 {
            if n == 4 || n == 8 {
                line.ack(n * 5000, n * 1000);
            }
            line.send(n * 5000);
            line.send(n * 5000);
        }
        let shares = line.waits.shares(us(40_000), false).expect("time has passed");
        assert!((shares.time_pacing - 1.0).abs() < 0.001, "{shares:?}");
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
        let shares = line.waits.shares(us(10_000), false).expect("time has passed");
        assert!((shares.time_congestion_window - 1.0).abs() < 0.001, "{shares:?}");
    }
}
