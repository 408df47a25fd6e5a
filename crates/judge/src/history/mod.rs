//! The log of a run, arranged for oracles that look ahead or back.
//!
//! The rows that one end of a connection logs are a [`Half`]: segments that it sent and received, timers,
//! decisions. The data of flow `f` are sent in half `f` and received in half `peer(f)`. The [`Ledger`] of a
//! flow contains the transmissions and arrivals of each of its bytes.

mod ledger;
mod segment;

pub(crate) use ledger::{Ledger, NEVER};
pub(crate) use segment::Segment;

use crate::finding::{Level, Occurrence};
use crate::kinds::Kinds;
use crate::step::Step;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use tcpassay_measure::reason::{AppCall, CongestionChange, StateChange, TcpState, Timer};
use tcpassay_measure::{EventKind, EventRow, Recording};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// A row that is not a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub row: usize,
    pub place: usize,
    pub at: Time,
    /// [`EventRow::value`]: the time at which a timer fires.
    pub value: Option<u64>,
}

/// The rows of one end of a connection, in order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Half {
    pub segments: Vec<Segment>,
    /// Changes of the congestion state.
    pub changes: Vec<Mark>,
    /// Windows.
    pub windows: Vec<Mark>,
    /// The retransmission timer, or that of a SYN, was set.
    pub rto_set: Vec<Mark>,
    /// The retransmission timer, or that of a SYN, was cancelled, or it fired.
    pub rto_ended: Vec<Mark>,
    /// The retransmission timer fired.
    pub timeouts: Vec<Mark>,
    /// Any timer fired.
    pub fired: Vec<Mark>,
    /// An ACK was delayed.
    pub delayed: Vec<Mark>,
    /// An ACK was neither sent nor timed.
    pub forgotten: Vec<Mark>,
    /// A real stack sent or delivered something that was not written.
    pub damaged: Vec<Mark>,
    /// Time at which this end was closed or aborted.
    pub closed: Option<Time>,
    pub aborted: bool,
    acked: u64,
    /// [`Recording::has_unknown_tcp`].
    unknown: bool,
    /// Whether the TCP of the peer is unknown, so that it may send beyond the window.
    overrun: bool,
}

/// Whether the timer of an event sends segments again when it fires: that of a SYN, which may have data (RFC 7413), or that of data.
fn repeats(event: &EventRow) -> bool {
    matches!(event.timer(), Some(Timer::Rto | Timer::Handshake))
}

impl Half {
    /// The index of the first segment after place `place`.
    pub fn after(&self, place: usize) -> usize {
        self.segments.partition_point(|segment| segment.place < place)
    }

    /// The index of the last segment before place `place`.
    pub fn before(&self, place: usize) -> Option<usize> {
        self.after(place).checked_sub(1)
    }

    /// The index of the last segment at or before `time`.
    pub fn at_time(&self, time: Time) -> Option<usize> {
        self.segments.partition_point(|segment| segment.at <= time).checked_sub(1)
    }

    /// The shortest and the longest delay for which this end set its delayed-ACK timer; `None` if it never did.
    pub fn ack_delays(&self) -> Option<(Dur, Dur)> {
        let delays = || self.delayed.iter().map(|mark| mark.due().since(mark.at));
        Some((delays().min()?, delays().max()?))
    }

    /// The first segment that was sent, or arrived and was accepted, with `position`.
    pub fn covering(&self, position: u64, sent: bool) -> Option<&Segment> {
        self.segments.iter().find(|s| s.sent == sent && !s.refused && s.start <= position && position < s.end)
    }

    /// Segments with data that were sent again between two places.
    pub fn sent_again(&self, from: usize, to: usize) -> impl Iterator<Item = &Segment> {
        let first = self.after(from);
        self.segments[first..].iter().take_while(move |s| s.place < to).filter(|s| s.again && s.has_data())
    }

    fn add(&mut self, step: &Step<'_>, place: usize) {
        let event = step.event;
        let mark = Mark { row: step.row, place, at: event.at, value: event.value };
        match event.kind {
            EventKind::In | EventKind::Out | EventKind::Retransmit => self.segment(step, place),
            EventKind::Congestion => self.changes.push(mark),
            EventKind::Window => self.windows.push(mark),
            EventKind::TimerSet if repeats(event) => self.rto_set.push(mark),
            EventKind::TimerCancel if repeats(event) => self.rto_ended.push(mark),
            EventKind::TimerFire => {
                self.fired.push(mark);
                if repeats(event) {
                    self.rto_ended.push(mark);
                }
                if event.timer() == Some(Timer::Rto) {
                    self.timeouts.push(mark);
                }
            }
            EventKind::AckDelay => self.delayed.push(mark),
            EventKind::AckForget => self.forgotten.push(mark),
            EventKind::Damaged => self.damaged.push(mark),
            EventKind::State => match event.state_change() {
                Some(StateChange::Aborted { .. }) => {
                    self.closed = Some(event.at);
                    self.aborted = true;
                }
                Some(StateChange::Moved { to: Some(TcpState::Closed | TcpState::TimeWait), .. }) => {
                    self.closed = Some(event.at);
                }
                _ => {}
            },
            // The host has stopped: it has no timers and answers nothing.
            EventKind::App if event.app_call() == Some(AppCall::Reboot) => self.closed = Some(event.at),
            _ => {}
        }
    }

    fn segment(&mut self, step: &Step<'_>, place: usize) {
        let event = step.event;
        let flags = step.flags();
        let sent = step.is_sent();
        let start = if flags.has(Flags::SYN) { 1 } else { step.seq() };
        let end = start + step.len() + u64::from(flags.has(Flags::FIN));
        let ack = event.ack.unwrap_or(0);
        let last = self.segments.last();
        let (mut nxt, mut acked_out) = last.map_or((1, 1), |last| (last.nxt, last.acked_out));
        self.acked = self.acked.max(1);
        if sent {
            nxt = if end > start { nxt.max(end) } else { nxt };
            acked_out = if flags.has(Flags::ACK) { acked_out.max(ack) } else { acked_out };
        } else if flags.has(Flags::ACK) {
            self.acked = self.acked.max(ack);
        }
        self.segments.push(Segment {
            row: step.row,
            place,
            at: event.at,
            sent,
            again: event.kind == EventKind::Retransmit,
            // A receiver may drop what lies beyond its window (RFC 9293 section 3.10.7.4).
            refused: !sent && (step.refused || self.overrun && end > start && end > step.before.offered),
            flags,
            start,
            end,
            ack,
            una: self.acked.min(nxt),
            nxt,
            acked_out,
        });
    }
}

impl Mark {
    /// The time at which the timer of this row fires.
    pub fn due(&self) -> Time {
        Time::from_nanos(self.value.unwrap_or(0))
    }
}

/// The rows of all connections of a recording.
#[derive(Debug)]
pub(crate) struct History<'a> {
    pub recording: &'a Recording,
    pub halves: Vec<Half>,
    /// The period to which times of a capture are known ([`crate::captured::Captured::resolution`]).
    pub resolution: Dur,
    peers: Vec<usize>,
    ledgers: Vec<OnceCell<Ledger>>,
    fastest: OnceCell<Vec<Dur>>,
    places: usize,
}

impl<'a> History<'a> {
    /// The kinds of rows that it contains.
    pub const READS: Kinds = Kinds::SEGMENTS.and(&[
        EventKind::Congestion,
        EventKind::Window,
        EventKind::TimerSet,
        EventKind::TimerCancel,
        EventKind::TimerFire,
        EventKind::AckDelay,
        EventKind::AckForget,
        EventKind::State,
        EventKind::App,
        EventKind::Damaged,
    ]);

    /// An empty history. `peers`: for each flow the index of the other direction.
    pub fn new(recording: &'a Recording, peers: Vec<usize>) -> History<'a> {
        let flows = recording.flows.len();
        let mut halves = vec![Half::default(); flows];
        // Growing these lists row by row would copy most of a long log.
        for (half, segments) in halves.iter_mut().zip(segments_of(recording)) {
            half.segments.reserve_exact(segments);
        }
        for (half, flow) in halves.iter_mut().zip(&recording.flows) {
            half.unknown = recording.has_unknown_tcp(flow.from);
            half.overrun = recording.has_unknown_tcp(flow.to);
        }
        History {
            recording,
            halves,
            resolution: Dur::ZERO,
            peers,
            ledgers: vec![OnceCell::new(); flows],
            fastest: OnceCell::new(),
            places: 0,
        }
    }

    /// Adds a row. Rows are added in order of time.
    pub fn add(&mut self, step: &Step<'_>) {
        self.halves[step.flow].add(step, self.places);
        self.places += 1;
    }

    /// A place behind all rows.
    pub fn last_place(&self) -> usize {
        self.places
    }

    /// The end of the run.
    pub fn end(&self) -> Time {
        Time::ZERO + self.recording.header.duration
    }

    /// The other direction of the connection of `flow`.
    pub fn peer(&self, flow: usize) -> usize {
        self.peers[flow]
    }

    /// Index of the host that sends `flow`.
    pub fn host(&self, flow: usize) -> u32 {
        self.recording.flows[flow].from
    }

    /// Name of the host that sends `flow`.
    pub fn host_name(&self, flow: usize) -> &str {
        &self.recording.hosts[self.host(flow) as usize]
    }

    /// The name of the host that sends `flow`, capitalised for the beginning of a sentence.
    pub fn who(&self, flow: usize) -> String {
        crate::step::capitalised(self.host_name(flow))
    }

    /// An error of `oracle` about the data of `flow`, by the host of the half `half`; its time and its rows are not set.
    pub fn occurrence(
        &self,
        oracle: &'static str,
        title: &'static str,
        flow: usize,
        half: usize,
    ) -> Occurrence {
        let (start, end) = (Time::ZERO, Time::ZERO);
        let flow = u32::try_from(flow).expect("flows are numbered in 32 bits");
        Occurrence {
            oracle,
            title,
            flow,
            host: self.host(half),
            start,
            end,
            level: Level::Error,
            rows: Vec::new(),
        }
    }

    /// Name of `flow`.
    pub fn name(&self, flow: usize) -> &str {
        &self.recording.flows[flow].name
    }

    /// Whether the recording was made by the model.
    pub fn of_model(&self) -> bool {
        self.recording.is_of_model()
    }

    /// Whether the log is that of a capture, which shows what passed its place and not what the end processed.
    pub fn of_capture(&self) -> bool {
        self.recording.header.substrate == "capture"
    }

    /// [`Recording::has_unknown_tcp`] for the host of a half.
    pub fn is_unknown(&self, half: usize) -> bool {
        self.halves[half].unknown
    }

    /// The value of a parameter that the case sets, if it does.
    pub fn said(&self, parameter: &str) -> Option<&str> {
        let case = &self.recording.header.case;
        case.iter().rev().find(|one| one.parameter == parameter).map(|one| one.value.as_str())
    }

    /// The row of a mark in full.
    pub fn row(&self, mark: &Mark) -> EventRow {
        self.recording.events.get(mark.row).expect("a mark is a row of the log")
    }

    /// The change of the congestion state of a row; `None` if its text cannot be read.
    pub fn change(&self, mark: &Mark) -> Option<CongestionChange<'_>> {
        CongestionChange::read(self.recording.events.why(mark.row)?)
    }

    /// The transmissions and arrivals of each byte of `flow`.
    pub fn ledger(&self, flow: usize) -> &Ledger {
        self.ledgers[flow]
            .get_or_init(|| Ledger::new(&self.halves[flow].segments, &self.halves[self.peers[flow]].segments))
    }

    /// The shortest time from transmission to arrival between the hosts of `flow`; zero if it is not known.
    ///
    /// It is the minimum over all flows between the two hosts: if all segments that one flow sent only once were queued,
    /// a retransmission may be faster than any of them. SYNs are included, because a retransmitted segment may be
    /// shorter than all other segments.
    pub fn fastest(&self, flow: usize) -> Dur {
        self.fastest.get_or_init(|| {
            let flows = 0..self.halves.len();
            let path = |flow: usize| (self.host(flow), self.host(self.peers[flow]));
            let mut fastest: BTreeMap<(u32, u32), Dur> = BTreeMap::new();
            for flow in flows.clone() {
                let delays = self.ledger(flow).delays_of_single_transmissions().min();
                if let Some(least) = delays.into_iter().chain(self.handshake(flow)).min() {
                    fastest.entry(path(flow)).and_modify(|known| *known = least.min(*known)).or_insert(least);
                }
            }
            flows.map(|flow| fastest.get(&path(flow)).copied().unwrap_or(Dur::ZERO)).collect()
        })[flow]
    }

    /// The one-way delay of the SYN of `flow`, if it was sent once and arrived.
    fn handshake(&self, flow: usize) -> Option<Dur> {
        let syns = |flow: usize, sent| {
            self.halves[flow].segments.iter().filter(move |s| s.flags.has(Flags::SYN) && s.sent == sent)
        };
        let mut sent = syns(flow, true);
        let first = sent.next()?;
        let arrived = syns(self.peers[flow], false).next()?;
        sent.next().is_none().then(|| arrived.at.since(first.at))
    }
}

/// The number of segments that each half logged.
fn segments_of(recording: &Recording) -> Vec<usize> {
    let mut segments = vec![0; recording.flows.len()];
    for (kind, flow) in recording.events.kinds() {
        if let Some(count) = flow.and_then(|flow| segments.get_mut(flow as usize))
            && matches!(kind, EventKind::In | EventKind::Out | EventKind::Retransmit)
        {
            *count += 1;
        }
    }
    segments
}

/// A time in milliseconds, to the microsecond.
pub(crate) fn ms(ns: u64) -> String {
    format!("{:#}", Dur::from_nanos(ns))
}

/// [`ms`] of a point in time.
pub(crate) fn at(time: Time) -> String {
    ms(time.as_nanos())
}
