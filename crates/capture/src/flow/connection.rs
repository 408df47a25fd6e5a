//! A connection: two directions, the handshake, where the capture was taken, and its stalls.

use super::half::{Half, Seen};
use super::response::Response;
use super::round::Round;
use super::stall::{self, StallCause};
use serde::Serialize;
use std::net::SocketAddr;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use tcpassay_units::{Dur, SeqNum, Time};
use tcpassay_wire::Flags;

/// The place on the path of a flow at which the capture was taken.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, EnumMessage, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Place {
    /// At the sender, or near it.
    Sender,
    /// At the receiver, or near it.
    Receiver,
    /// In between: both ends take a part of the round trip to answer.
    Between,
    /// Unknown.
    Unknown,
}

/// An end is near the capture point when it answers within this, and within a third of the round trip.
const NEAR: Dur = Dur::from_micros(50);

/// One connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub interface: usize,
    /// The end that opened it, or whose packet was seen first, and the other.
    pub ends: [SocketAddr; 2],
    pub first: Time,
    pub last: Time,
    /// The directions, by the end that sends.
    pub halves: [Half; 2],
    /// The response times of each end.
    pub answers: [Response; 2],
    pub scales: [Option<Scale>; 2],
    /// The MSS option of each end.
    mss: [Option<u16>; 2],
    /// Number of the SYN of each end.
    pub syns: [Option<SeqNum>; 2],
    /// Times at which the SYN and the SYN-ACK passed, if each was sent once.
    handshake: [Option<Time>; 2],
    /// Last packet of each end.
    spoke: [Option<Time>; 2],
    /// Packets of each end.
    pub packets: [u64; 2],
    /// FIN of each end, or RST.
    pub finished: [bool; 2],
    pub reset: bool,
    /// Connections that ended: a SYN begins another one.
    pub is_over: bool,
}

/// The window scale of a SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scale {
    Absent,
    Shift(u8),
}

impl Connection {
    pub fn new(interface: usize, ends: [SocketAddr; 2], at: Time) -> Connection {
        Connection {
            interface,
            ends,
            first: at,
            last: at,
            halves: [Half::default(), Half::default()],
            answers: [Response::default(); 2],
            scales: [None; 2],
            mss: [None; 2],
            syns: [None; 2],
            handshake: [None; 2],
            spoke: [None; 2],
            packets: [0; 2],
            finished: [false; 2],
            reset: false,
            is_over: false,
        }
    }

    /// Whether a SYN begins another connection between the same ports.
    pub fn is_other(&self, from: usize, seen: &Seen<'_>) -> bool {
        let flags = seen.segment.flags;
        if !flags.has(Flags::SYN) || flags.has(Flags::RST) {
            return false;
        }
        match self.syns[from] {
            Some(seq) => seq != seen.segment.seq,
            None => !flags.has(Flags::ACK) && self.packets[from] > 0,
        }
    }

    /// Processes a packet of end `from`; rounds that end go to `rounds`.
    pub fn packet(&mut self, from: usize, seen: &Seen<'_>, rounds: &mut Vec<Round>) {
        // Time that goes backwards is counted by the caller.
        let later = (seen.at < self.last).then_some(Seen { at: self.last, ..*seen });
        let seen = later.as_ref().unwrap_or(seen);
        let at = seen.at;
        self.close_rounds(at, rounds);
        self.silence(from, seen);
        let silence = self.spoke[from].map_or(Dur::ZERO, |last| at.since(last));
        let flags = seen.segment.flags;
        if flags.has(Flags::SYN) && !flags.has(Flags::RST) {
            self.syn(from, seen);
        } else if !flags.has(Flags::RST) {
            // The ACK that ends the handshake.
            if from == 0
                && let [Some(_), Some(answer)] = self.handshake
            {
                self.answers[0].sample(at.since(answer));
                self.handshake = [None; 2];
            }
        }
        self.stamps(from, seen, silence);
        self.reset |= flags.has(Flags::RST);
        if !flags.has(Flags::RST) {
            if flags.has(Flags::ACK) {
                self.acknowledge(from, seen);
            }
            let round_trip = round_trip(&self.answers);
            self.halves[from].data(seen, round_trip);
        }
        self.finished[from] |= flags.has(Flags::FIN);
        self.is_over = self.reset || self.finished == [true; 2];
        self.packets[from] += 1;
        self.spoke[from] = Some(at);
        self.last = at;
        // If the capture was taken at the sender, the ACK needs no further time, and the round ends with it.
        self.close_rounds(at, rounds);
    }

    fn close_rounds(&mut self, now: Time, rounds: &mut Vec<Round>) {
        for half in &mut self.halves {
            if half.closes_by(now) {
                rounds.extend(half.close_round(now, self.first));
            }
        }
    }

    /// Closes what is open at the end of the capture.
    pub fn finish(&mut self, rounds: &mut Vec<Round>) {
        self.close_rounds(Time::MAX, rounds);
    }

    fn syn(&mut self, from: usize, seen: &Seen<'_>) {
        let segment = &seen.segment;
        let again = self.syns[from] == Some(segment.seq);
        if again {
            self.halves[from].counters.syn_retransmissions += 1;
            self.handshake = [None; 2];
        } else {
            self.syns[from] = Some(segment.seq);
            self.handshake[from] = Some(seen.at);
            if from == 1
                && let Some(asked) = self.handshake[0]
            {
                self.answers[1].sample(seen.at.since(asked));
            }
        }
        self.scales[from] = match segment.options.window_scale {
            Some(shift) => Some(Scale::Shift(shift.min(14))),
            None => (!seen.cut).then_some(Scale::Absent),
        };
        self.mss[from] = segment.options.mss;
        // The SYN occupies a position.
        if self.halves[from].sequence.position(segment.seq + 1).is_none() {
            self.halves[from] = Half::default();
        }
    }

    /// Measures the response times of both ends by echoed timestamps.
    fn stamps(&mut self, from: usize, seen: &Seen<'_>, silence: Dur) {
        let Some(stamps) = seen.segment.options.timestamps else { return };
        if seen.segment.flags.has(Flags::ACK) {
            self.answers[from].echoed(stamps.ecr, seen.at, silence);
        }
        self.answers[1 - from].towards(stamps.val, seen.at);
    }

    fn acknowledge(&mut self, from: usize, seen: &Seen<'_>) {
        let to = 1 - from;
        let window = self.window(from, seen);
        let (halves, answers) = (&mut self.halves, &mut self.answers);
        let half = &mut halves[to];
        let before = half.una;
        half.ack(seen, window, &answers[from], || to_sender(answers, to));
        // The answer of the newest data, when it was sent once.
        if half.una > before
            && half.una == half.sequence.nxt
            && let Some(last) = half.last_data
            && half.counters.retransmissions == 0
        {
            answers[from].sample(seen.at.since(last));
        }
    }

    /// The window in a segment of `from`; `None` when the scale is unknown.
    fn window(&self, from: usize, seen: &Seen<'_>) -> Option<u64> {
        let window = u64::from(seen.segment.window);
        if seen.segment.flags.has(Flags::SYN) {
            return Some(window);
        }
        match self.scales {
            [Some(Scale::Shift(a)), Some(Scale::Shift(b))] => Some(window << if from == 0 { a } else { b }),
            [None, None | Some(Scale::Shift(_))] | [Some(Scale::Shift(_)), None] => None,
            _ => Some(window),
        }
    }

    /// The largest payload of a segment of end `from`: what the other end accepts, less the options of each segment; at least what was seen.
    pub fn mss(&self, from: usize) -> u64 {
        let option = u64::from(self.mss[1 - from].unwrap_or(536));
        let stamps = if self.answers.iter().any(Response::has_stamps) { 12 } else { 0 };
        (option.saturating_sub(stamps)).max(1)
    }

    /// The place at which the capture was taken, for data of end `sender`.
    pub fn place(&self, sender: usize) -> Place {
        place(&self.answers, sender)
    }

    /// The round trip that a silence is compared with.
    fn usual(&self) -> Option<Dur> {
        let smoothed = self.halves.iter().filter_map(|half| half.smoothed).max();
        [round_trip(&self.answers), smoothed].into_iter().flatten().max()
    }

    /// Attributes the silence that the packet ends.
    fn silence(&mut self, from: usize, seen: &Seen<'_>) {
        let length = seen.at.since(self.last);
        if length <= stall::SHORTEST || length <= stall::threshold(self.usual()) {
            return;
        }
        let Some((flow, cause)) = self.cause(from, seen) else { return };
        let start = self.last.since(self.first);
        self.halves.iter_mut().for_each(Half::stalled);
        self.halves[flow].stalls.add(cause, start, length);
    }

    /// Returns the end whose direction was stalled, and the cause; `None` for packets that do not end a wait
    /// (keepalive, RST).
    fn cause(&self, from: usize, seen: &Seen<'_>) -> Option<(usize, StallCause)> {
        let to = 1 - from;
        let (segment, flags) = (&seen.segment, seen.segment.flags);
        if flags.has(Flags::RST) {
            return None;
        }
        if flags.has(Flags::SYN) {
            return Some((from, StallCause::SynTimer));
        }
        let own = &self.halves[from];
        let other = &self.halves[to];
        let shut = |half: &Half| {
            let least = u64::from(half.largest.max(1));
            half.edge.is_some_and(|edge| edge.saturating_sub(half.sequence.nxt) < least)
        };
        let start = own.sequence.known_position(segment.seq);
        if segment.len > 0 || flags.has(Flags::FIN) {
            let old = start.is_some_and(|start| start < own.sequence.nxt);
            return Some(match (old, own.outstanding() > 0) {
                _ if shut(own) && segment.len <= 1 && own.outstanding() == 0 => {
                    (from, StallCause::ZeroWindow)
                }
                (true, _) => (from, StallCause::RetransmissionTimer),
                (false, false) => (from, StallCause::Application),
                (false, true) => (from, StallCause::SenderResumed),
            });
        }
        let ack = other.sequence.known_position(segment.ack)?;
        let below = start.is_some_and(|start| start + 1 == own.sequence.nxt);
        if below && own.outstanding() == 0 {
            // A probe without data: of a closed window, or keepalive.
            return shut(own).then_some((from, StallCause::ZeroWindow));
        }
        if ack > other.una && other.outstanding() > 0 {
            return Some((to, StallCause::DelayedAck));
        }
        let window = self.window(from, seen)?;
        let opens = other.edge.is_some_and(|edge| ack + window > edge);
        (shut(other) && opens).then_some((to, StallCause::ZeroWindow))
    }
}

/// The shortest round trip: both ends' smallest response times together.
fn round_trip(answers: &[Response; 2]) -> Option<Dur> {
    Some(answers[0].least()?.saturating_add(answers[1].least()?))
}

/// The place at which the capture was taken, for data of end `sender`, from the response times of both ends.
fn place(answers: &[Response; 2], sender: usize) -> Place {
    let [Some(own), Some(other)] = [sender, 1 - sender].map(|end| answers[end].least()) else {
        return Place::Unknown;
    };
    let near = |one: Dur, other: Dur| {
        let whole = one.saturating_add(other);
        one.saturating_mul(10) <= whole || (one <= NEAR && one.saturating_mul(3) <= whole)
    };
    match (near(own, other), near(other, own)) {
        (true, _) => Place::Sender,
        (false, true) => Place::Receiver,
        (false, false) => Place::Between,
    }
}

/// The time from the capture point to end `sender` and back; zero at the sender.
fn to_sender(answers: &[Response; 2], sender: usize) -> Dur {
    match place(answers, sender) {
        Place::Sender | Place::Unknown => Dur::ZERO,
        Place::Receiver | Place::Between => answers[sender].now().unwrap_or(Dur::ZERO),
    }
}
