//! Silences of a connection, and what they waited for.
//!
//! What a capture proves depends on its place. Where an end is captured, what it sends is seen when it leaves; elsewhere only timestamps
//! (RFC 7323) tell a packet that left late from one that the path held.

use super::connection::Connection;
use super::half::Half;
use super::kind::Kind;
use super::offers::{LONG_PAUSE, Pause};
use super::path::Place;
use super::seen::Seen;
use super::stall::{self, StallCause};
use tcpassay_units::Dur;
use tcpassay_wire::Flags;

/// Delayed ACKs wait for at least 40 ms (Linux: `TCP_DELACK_MIN`; a tick of the capture or of the host less), and for at most 500 ms
/// (RFC 9293 section 3.8.6.3).
const LEAST_DELAY: Dur = Dur::from_millis(35);
const MOST_DELAY: Dur = Dur::from_millis(510);

/// An end that has answered as often is expected to answer again: handshakes of applications have fewer turns.
const ANSWERS: u64 = 2;

/// What a silence waited for.
enum Wait {
    /// The direction that was stalled, and the cause.
    For(usize, StallCause),
    /// The packet does not end it.
    GoesOn,
    /// There was nothing to wait for.
    Nothing,
}

/// When a packet left its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    /// At the end of the silence: the path did not hold it.
    Late,
    /// Before: it was on the path.
    Early,
    Unknown,
}

impl Connection {
    /// The round trip that a silence is compared with; `None` before the response times of both ends are known.
    fn usual(&self) -> Option<Dur> {
        let shortest = self.path(0).round_trip()?;
        let smoothed = self.halves.iter().filter_map(|half| half.smoothed).max();
        Some(smoothed.map_or(shortest, |smoothed| smoothed.max(shortest)))
    }

    /// Attributes the silence that the segment ends. True if the segment does not end it.
    pub fn silence(&mut self, from: usize, seen: &Seen<'_>, kind: Kind, start: Option<u64>) -> bool {
        let length = seen.at.since(self.active);
        if length <= stall::SHORTEST || self.reset {
            return false;
        }
        let (flow, cause) = match self.wait(from, seen, kind, start, length) {
            Wait::For(flow, cause) => (flow, cause),
            Wait::GoesOn => return true,
            Wait::Nothing => return false,
        };
        let half = &mut self.halves[from];
        if let Some(pause) = &mut half.pause {
            pause.fired |= cause == StallCause::RetransmissionTimer;
        } else if seen.segment.len > 0 && half.outstanding() == 0 && length >= LONG_PAUSE {
            half.pause = Some(Pause { length, since: self.active, fired: false });
        }
        let receiver = || {
            let half = &self.halves[flow];
            [self.answers[1 - flow].least(), half.smoothed].into_iter().flatten().max()
        };
        if length > stall::shortest(cause, self.usual(), receiver) {
            let since = self.active.since(self.first);
            self.halves.iter_mut().for_each(Half::stalled);
            self.halves[flow].add_stall(cause, since, length);
        }
        false
    }

    fn wait(&self, from: usize, seen: &Seen<'_>, kind: Kind, start: Option<u64>, length: Dur) -> Wait {
        let (segment, flags) = (&seen.segment, seen.segment.flags);
        if flags.has(Flags::RST) {
            let waits =
                self.may_expect_answer(from) && self.halves.iter().all(|half| half.outstanding() == 0);
            return if waits { Wait::For(from, self.without_answer(from)) } else { Wait::Nothing };
        }
        if flags.has(Flags::SYN) {
            let again = self.syns[from] == Some(segment.seq);
            return if again { Wait::For(from, StallCause::SynTimer) } else { Wait::Nothing };
        }
        match kind {
            Kind::Plain => {}
            Kind::WindowProbe => return Wait::For(from, StallCause::ClosedWindow),
            Kind::Keepalive | Kind::Copy => return Wait::Nothing,
        }
        if segment.len == 0 && !flags.has(Flags::FIN) {
            return self.wait_for_ack(from, seen, length);
        }
        start.map_or(Wait::Nothing, |start| {
            let (flow, cause) = self.wait_of_sender(from, start, seen, length);
            Wait::For(flow, cause)
        })
    }

    /// When a packet left its sender, after a silence of this length.
    fn left(&self, from: usize, seen: &Seen<'_>, length: Dur) -> Left {
        if self.place(from) == Place::Sender {
            return Left::Late;
        }
        let stamps = seen.segment.options.timestamps;
        match stamps.and_then(|stamps| self.clocks[from].excess(stamps.val, seen.at, length)) {
            Some(excess) if excess >= length / 2 => Left::Early,
            Some(excess) if excess <= length / 4 => Left::Late,
            _ => Left::Unknown,
        }
    }

    /// The direction that was stalled, and the cause of a silence that data, or FIN, from position `start` on end.
    fn wait_of_sender(&self, from: usize, start: u64, seen: &Seen<'_>, length: Dur) -> (usize, StallCause) {
        let own = &self.halves[from];
        // A probe with more than a byte, or one that fills what is left of a small window.
        let end = start + u64::from(seen.segment.len);
        let fills = own.is_shut() && own.outstanding() == 0 && own.edge == Some(end);
        if own.edge.is_some_and(|edge| edge <= start) || fills {
            return (from, StallCause::ClosedWindow);
        }
        if start < own.sequence.nxt {
            return (from, self.repair(from, start, end, seen, length));
        }
        match self.left(from, seen, length) {
            Left::Early => (from, StallCause::Path),
            _ if own.outstanding() > 0 => (from, StallCause::SenderResumed),
            _ if own.missing() > 1 => (from, StallCause::MissingData),
            _ if self.misses(from, seen) => (1 - from, StallCause::MissingData),
            _ if seen.segment.len == 0 && self.may_expect_answer(from) => (from, self.without_answer(from)),
            Left::Late if start == own.sequence.nxt && self.is_for_application(from) => {
                (from, StallCause::Application)
            }
            _ => (from, StallCause::NoData),
        }
    }

    /// Whether an end that closes may have waited for an answer to its own data. One that has paused for its application before, and gone on
    /// without any data of the other end, expects none.
    fn may_expect_answer(&self, from: usize) -> bool {
        let goes_on = self.turns[1 - from] == 0 && self.halves[from].stalls.has(StallCause::Application);
        self.talks == Some(from) && !self.finished[1 - from] && !goes_on
    }

    /// What an end waited for that closes the connection after its own data, which were acknowledged.
    fn without_answer(&self, from: usize) -> StallCause {
        if self.turns[1 - from] >= ANSWERS {
            StallCause::Unanswered
        } else {
            StallCause::OneOfTheApplications
        }
    }

    /// Whether data of the other end had not arrived at `from` when the segment left: it does not acknowledge all of them, or sequence numbers
    /// show more of them. A FIN, which has a position, is no data.
    fn misses(&self, from: usize, seen: &Seen<'_>) -> bool {
        let to = 1 - from;
        let other = &self.halves[to];
        let fin = u64::from(self.finished[to]);
        let is_behind = |ack: u64| other.outstanding() > 0 && ack + fin < other.sequence.nxt;
        other.missing() > 1 || other.sequence.known_position(seen.segment.ack).is_some_and(is_behind)
    }

    /// Whether an end that sent late, with nothing outstanding, waited for its application. Elsewhere than at this end it must have had no more
    /// to send before the silence: its last segment was not full, or the other end has sent data since, to which the next data are the
    /// answer. When such a request arrived is known only by its ACK before the silence.
    fn is_for_application(&self, from: usize) -> bool {
        if self.place(from) == Place::Sender {
            return true;
        }
        let [own, other] = [&self.halves[from], &self.halves[1 - from]];
        if own.last_data < other.last_data {
            return other.outstanding() == 0;
        }
        own.waits.whole.map_or(own.first_data.is_none(), |whole| !whole)
    }

    /// What a sender waited for that sends data again. With a report of a loss the sender needs no timer. A retransmission timer sends the
    /// first outstanding data, and is not shorter than [`stall::SHORTEST_TIMER`] since the last data, or the ACK of some: a probe for a loss
    /// is what it does not explain.
    fn repair(&self, from: usize, start: u64, end: u64, seen: &Seen<'_>, length: Dur) -> StallCause {
        let own = &self.halves[from];
        let reported = own.reports_loss();
        let is_short = stall::is_short(length, self.usual().unwrap_or(Dur::ZERO));
        let again = own.again.covers(start, end);
        let is_last = end >= own.sequence.nxt;
        let is_behind = own.una > 0 && start > own.una;
        let ran = own.waits.timer_since().map_or(length, |since| seen.at.since(since));
        if reported && is_short {
            StallCause::FastRetransmission
        } else if !reported && !again && is_last && (is_behind || ran < stall::SHORTEST_TIMER) {
            StallCause::TailLossProbe
        } else {
            StallCause::RetransmissionTimer
        }
    }

    /// The cause of a silence that an ACK without data ends.
    fn wait_for_ack(&self, from: usize, seen: &Seen<'_>, length: Dur) -> Wait {
        let to = 1 - from;
        let other = &self.halves[to];
        let Some(ack) = other.sequence.known_position(seen.segment.ack) else { return Wait::Nothing };
        let outstanding = other.outstanding();
        // With an unknown scale the edge is known only while the window is closed.
        let opens = match self.window(from, seen) {
            Some(window) => other.edge.is_some_and(|edge| ack + window > edge),
            None => other.edge.is_some(),
        };
        let acknowledges = ack > other.una && outstanding > 0;
        // Packets before segmentation offload are larger than segments.
        let segment = self.mss(to).min(u64::from(other.largest.max(1)));
        if other.room().is_some_and(|room| room < segment) && (opens || acknowledges) {
            if !opens {
                return Wait::GoesOn;
            }
            let closed = other.window == Some(0) || outstanding == 0;
            let cause = match self.left(from, seen, length) {
                _ if closed => StallCause::ClosedWindow,
                Left::Early => StallCause::Path,
                _ => StallCause::FullWindow,
            };
            return Wait::For(to, cause);
        }
        if !acknowledges {
            return Wait::Nothing;
        }
        let here = self.place(from) == Place::Sender;
        let trip = if here { Dur::ZERO } else { self.path(to).round_trip().unwrap_or(Dur::ZERO) };
        let waited = length.saturating_sub(trip);
        let delayed = outstanding < 2 * segment && (LEAST_DELAY..=MOST_DELAY).contains(&waited);
        let cause = match self.left(from, seen, length) {
            Left::Early => StallCause::Path,
            Left::Late if delayed => StallCause::DelayedAck,
            Left::Unknown if delayed => StallCause::PossibleDelayedAck,
            _ => StallCause::LateAck,
        };
        Wait::For(to, cause)
    }
}
