//! A connection: two directions, the handshake, and its stalls.

use super::copies::Print;
use super::ecn::{EcnFeedback, Negotiation};
use super::ending::{Ending, Ends};
use super::half::Half;
use super::kind::Kind;
use super::offers::Offers;
use super::path::{Path, Place};
use super::points::Points;
use super::response::Response;
use super::round::Round;
use super::seen::Seen;
use super::stamp_clock::StampClock;
use super::waits::{Answer, Sent};
use std::net::SocketAddr;
use tcpassay_units::{Dur, SeqNum, Time};
use tcpassay_wire::Flags;

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
    scales: [Option<Scale>; 2],
    /// The timestamp clock of each end.
    pub clocks: [StampClock; 2],
    pub ecn: Negotiation,
    /// What the SYN of each end offers; `None` if it or some of its options are unknown.
    pub offers: [Option<Offers>; 2],
    /// The MSS option of each end.
    mss: [Option<u16>; 2],
    /// Number of the SYN of each end.
    pub syns: [Option<SeqNum>; 2],
    /// Whether all options of the SYN of each end are known.
    whole_syns: [bool; 2],
    /// The last SYN of each end.
    prints: [Option<Print>; 2],
    /// Times at which the SYN and the SYN-ACK passed, if each was sent once.
    handshake: [Option<Time>; 2],
    /// The points at which the packets were captured.
    pub points: Points,
    /// The last packet that is neither a keepalive probe nor its answer.
    pub active: Time,
    /// The end that a keepalive probe asked.
    asked: Option<usize>,
    /// Last packet of each end.
    spoke: [Option<Time>; 2],
    /// The end that sent the last data, and how often each end sent data after those of the other one.
    pub talks: Option<usize>,
    pub turns: [u64; 2],
    /// Packets of each end.
    pub packets: [u64; 2],
    /// FIN of each end, or RST.
    pub finished: [bool; 2],
    pub reset: bool,
    /// The packets that end it.
    closing: Ends,
    /// Connections that ended: a SYN begins another one.
    pub is_over: bool,
}

/// The window scale of a SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scale {
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
            clocks: [StampClock::default(); 2],
            ecn: Negotiation::default(),
            offers: [None; 2],
            mss: [None; 2],
            syns: [None; 2],
            whole_syns: [false; 2],
            prints: [None; 2],
            handshake: [None; 2],
            points: Points::default(),
            active: at,
            asked: None,
            spoke: [None; 2],
            talks: None,
            turns: [0; 2],
            packets: [0; 2],
            finished: [false; 2],
            reset: false,
            closing: Ends::default(),
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
        if self.points.leaves_out(from, seen.way) {
            self.halves[from].counters.other_point += 1;
            return;
        }
        if self.points.splits(from, seen.way) {
            self.split();
        }
        self.close_rounds(at, rounds);
        let flags = seen.segment.flags;
        if self.reset && !flags.has(Flags::RST) {
            self.closing.other(from);
        }
        if flags.has(Flags::RST) {
            let _ = self.silence(from, seen, Kind::Plain, None);
            self.reset = true;
            self.closing.reset(from, at, [0, 1].map(|end| self.halves[end].outstanding()));
        } else if flags.has(Flags::SYN) {
            self.syn(from, seen);
        } else {
            self.segment(from, seen);
        }
        if flags.has(Flags::FIN) {
            self.finished[from] = true;
            self.closing.fin(from, at);
        }
        self.is_over = self.reset || self.finished == [true; 2];
        self.packets[from] += 1;
        self.halves[1 - from].pause = None;
        self.spoke[from] = Some(at);
        self.last = at;
        // If the capture was taken at the sender, the ACK needs no further time, and the round ends with it.
        self.close_rounds(at, rounds);
    }

    /// A segment that neither opens nor resets the connection.
    fn segment(&mut self, from: usize, seen: &Seen<'_>) {
        let path = Path { answers: &self.answers, sender: from };
        let half = &mut self.halves[from];
        let start = half.sequence.position(seen.segment.seq);
        let end = start.map(|start| start + u64::from(seen.segment.len));
        if let (Some(start), Some(end)) = (start, end)
            && start < end
            && half.is_implausible(start, end)
        {
            return;
        }
        let kind = start.map_or(Kind::Plain, |start| half.kind(start, seen, path));
        if kind == Kind::Copy {
            let original = half.copies.original;
            self.points.copied(from, original, seen.way);
            return;
        }
        half.ids.passed(seen.id);
        let goes_on = self.silence(from, seen, kind, start);
        self.touch(from, seen, kind, goes_on);
        // The ACK that ends the handshake.
        if from == 0
            && let [Some(_), Some(answer)] = self.handshake
        {
            self.answers[0].sample(seen.at.since(answer));
            self.points.opening.ack = Some(seen.at);
            self.handshake = [None; 2];
        }
        if self.ecn.feedback == EcnFeedback::Unknown && self.ecn.learn(from, seen.segment) {
            self.halves.iter_mut().for_each(Half::forget_echoes);
        }
        self.stamps(from, seen, kind);
        self.halves.iter_mut().for_each(|half| half.waits.begin(seen.at));
        if kind == Kind::WindowProbe {
            self.halves[from].waits.probed(seen.at);
        }
        if seen.segment.flags.has(Flags::ACK) {
            self.acknowledge(from, seen);
        }
        if kind == Kind::Plain
            && let Some(start) = start
        {
            self.data(from, start, seen);
        }
    }

    /// A segment may have data or FIN.
    fn data(&mut self, from: usize, start: u64, seen: &Seen<'_>) {
        let segment = seen.segment;
        let round_trip = self.path(from).round_trip();
        if segment.len == 0 {
            self.halves[from].data(start, seen, round_trip);
            return;
        }
        if self.talks != Some(from) && start >= self.halves[from].sequence.nxt {
            self.talks = Some(from);
            self.turns[from] += 1;
        }
        let size = self.mss[1 - from].map(|_| self.mss(from));
        let half = &mut self.halves[from];
        let (outstanding, before) = (half.outstanding(), half.counters.retransmissions);
        let reported = half.reports_loss();
        half.data(start, seen, round_trip);
        // The path may permit less than the MSS. Without PSH there is more.
        let (len, largest) = (u64::from(segment.len), u64::from(half.largest).max(1));
        let fills = len.is_multiple_of(largest) && !segment.flags.has(Flags::PSH);
        let pushes = segment.flags.has(Flags::PSH);
        let is_whole = match size {
            Some(size) => Some(fills || len.is_multiple_of(size)),
            None if !pushes => Some(true),
            // It may fill a segment and end a write.
            None => (!len.is_multiple_of(largest)).then_some(false),
        };
        half.waits.sent(Sent {
            at: seen.at,
            len,
            outstanding,
            is_whole,
            pushes,
            reported,
            again: half.counters.retransmissions > before,
            nxt: half.sequence.nxt,
            segment: size.map_or(largest, |size| size.min(largest)),
            largest,
            room: half.room(),
            round_trip,
            usual: half.smoothed.max(round_trip),
        });
    }

    /// From this packet of end `from` on the packets of one capture point are used. Times up to now may lie between two points.
    #[cold]
    fn split(&mut self) {
        self.answers = [Response::default(); 2];
        let answers = self.points.opening.answers(self.points.near().unwrap_or(0));
        for (response, time) in self.answers.iter_mut().zip(answers) {
            if let Some(time) = time {
                response.sample(time);
            }
        }
        for half in &mut self.halves {
            (half.smoothed, half.round_trips) = (None, None);
            half.counters.other_point += std::mem::take(&mut half.counters.duplicates);
        }
    }

    /// Keepalive probes and their answers do not end the time in which nothing was sent, and an ACK that leaves a full window full does not
    /// end the wait for it (`goes_on`).
    fn touch(&mut self, from: usize, seen: &Seen<'_>, kind: Kind, goes_on: bool) {
        if kind == Kind::Keepalive {
            self.asked = Some(1 - from);
            return;
        }
        let answers = self.asked == Some(from)
            && seen.segment.len == 0
            && !seen.segment.flags.has(Flags::FIN)
            && self.halves[1 - from].outstanding() == 0;
        self.asked = None;
        if !answers && !goes_on {
            self.active = seen.at;
        }
    }

    pub fn path(&self, sender: usize) -> Path<'_> {
        Path { answers: &self.answers, sender }
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
        let print = Print::new(0, seen);
        let again = self.syns[from] == Some(segment.seq);
        if let Some(earlier) = self.prints[from].filter(|earlier| again && print.is_copy_of_syn(earlier)) {
            self.points.copied(from, earlier.way(), seen.way);
            self.points.opening.copies[from] = Some(seen.at);
            return;
        }
        self.prints[from] = Some(print);
        let _ = self.silence(from, seen, Kind::Plain, None);
        self.active = seen.at;
        self.stamps(from, seen, Kind::Plain);
        self.ecn.syn(segment.flags);
        if again {
            self.halves[from].counters.syn_retransmissions += 1;
            self.handshake = [None; 2];
        } else {
            self.syns[from] = Some(segment.seq);
            self.handshake[from] = Some(seen.at);
            self.points.opening.syns[from] = Some(seen.at);
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
        self.whole_syns[from] = !seen.cut;
        self.offers[from] = (!seen.cut).then(|| Offers::of(segment));
        self.mss[from] = segment.options.mss;
        // The SYN occupies a position.
        let first = segment.seq + 1;
        if self.halves[from].sequence.position(first).is_none() {
            self.halves[from] = Half::default();
        }
        if !again {
            self.halves[1 - from].counter.begin();
        }
        if segment.flags.has(Flags::ACK) {
            self.acknowledge(from, seen);
        }
        // Data of TCP Fast Open.
        if let Some(start) = self.halves[from].sequence.position(first) {
            let round_trip = self.path(from).round_trip();
            self.halves[from].data(start, seen, round_trip);
        }
    }

    /// Measures the response times of both ends by echoed timestamps. A probe waited for its timer.
    fn stamps(&mut self, from: usize, seen: &Seen<'_>, kind: Kind) {
        let Some(stamps) = seen.segment.options.timestamps else { return };
        if kind != Kind::Plain {
            self.answers[from].give_up();
        } else if seen.segment.flags.has(Flags::ACK) {
            let silence = self.spoke[from].map_or(Dur::MAX, |last| seen.at.since(last));
            self.answers[from].echoed(stamps.ecr, seen.at, silence);
        }
        self.clocks[from].passed(stamps.val, seen.at);
        self.answers[1 - from].towards(stamps.val, seen.at, seen.segment.seq_len() > 0);
    }

    fn acknowledge(&mut self, from: usize, seen: &Seen<'_>) {
        let to = 1 - from;
        let window = self.window(from, seen);
        let half = &mut self.halves[to];
        let before = half.una;
        let edge = half.edge;
        half.ack(seen, window, self.ecn.feedback, Path { answers: &self.answers, sender: to });
        let permits = half.una > before || half.edge > edge;
        half.waits.answered(Answer {
            at: seen.at,
            una: half.una,
            permits,
            has_data: seen.segment.seq_len() > 0,
            room: half.room(),
        });
        // The answer of the newest data, when it was sent once.
        if half.una > before
            && half.una == half.sequence.nxt
            && let Some(last) = half.last_data
            && half.counters.retransmissions == 0
        {
            self.answers[from].sample(seen.at.since(last));
        }
    }

    /// The window in a segment of `from`; `None` when the scale is unknown. Zero is zero with every scale, and a SYN-ACK with a scale
    /// answers a SYN with one.
    pub fn window(&self, from: usize, seen: &Seen<'_>) -> Option<u64> {
        let window = u64::from(seen.segment.window);
        if window == 0 || seen.segment.flags.has(Flags::SYN) {
            return Some(window);
        }
        Some(window << self.scale(from)?)
    }

    /// The window scale of the segments of `from`; `None` when it is unknown.
    fn scale(&self, from: usize) -> Option<u8> {
        match (self.scales, from) {
            ([Some(Scale::Absent), _] | [_, Some(Scale::Absent)], _) => Some(0),
            ([Some(Scale::Shift(shift)), Some(_)], 0) | ([_, Some(Scale::Shift(shift))], 1) => Some(shift),
            _ => None,
        }
    }

    /// Whether both SYNs are in the capture, with all of their options.
    pub fn has_both_syns(&self) -> bool {
        self.whole_syns == [true; 2]
    }

    /// Whether the windows of end `from` are known.
    pub fn knows_scale(&self, from: usize) -> bool {
        self.scale(from).is_some()
    }

    /// The largest payload of a segment of end `from`: what the other end accepts, less the options of each segment; at least what was seen.
    pub fn mss(&self, from: usize) -> u64 {
        let option = u64::from(self.mss[1 - from].unwrap_or(536));
        let stamps = if self.answers.iter().any(Response::has_stamps) { 12 } else { 0 };
        (option.saturating_sub(stamps)).max(1)
    }

    /// How the connection ended, for the data of `sender`.
    pub fn ending(&self, sender: usize) -> Ending {
        self.closing.ending(self.ends, self.first, sender, self.halves[sender].outstanding())
    }

    /// Whether only SYNs came from the end that opened it, and nothing but a reset (`Some(true)`), or nothing (`Some(false)`), from the other.
    pub fn is_refused(&self) -> Option<bool> {
        let [opener, other] = &self.halves;
        let is_alone =
            matches!(self.syns, [Some(_), None]) && opener.counters.acks + other.counters.acks == 0;
        let has_data = opener.counters.packets + other.counters.packets > 0;
        let refused = self.packets[1] > 0;
        (is_alone && !has_data && (self.reset || !refused)).then_some(refused)
    }

    /// The place at which the capture was taken, for data of end `sender`.
    pub fn place(&self, sender: usize) -> Place {
        self.path(sender).place()
    }
}
