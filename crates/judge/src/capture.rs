//! Conversion of a packet capture to an event log, for the oracles that only need segments.
//!
//! An event log contains the segments that each end of a connection sends and receives. A capture shows them in the order in which they
//! pass one place. [`EndLog`] states for each end what this log lacks: an oracle that needs it does not judge the end.

use crate::batches::Batches;
use crate::captured::{Captured, Packet};
use crate::finding::{Found, Oracle};
use crate::needs::{EndLog, Need};
use crate::rules::{ORACLES, Setting, judge_log, setting};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use tcpassay_capture::{
    Analysis, AnalysisOptions, CLOCK_DISORDER, ConnectionFacts, Place, ReadError, Reader,
};
use tcpassay_measure::reason::{StateChange, TcpState};
use tcpassay_measure::{
    ECT, EventKind, EventRow, Flow, FlowCounters, Header, Reason, Recording, TcpSummary, Triple,
};
use tcpassay_units::{Bytes, Dur, SeqNum, Time};
#[cfg(test)]
use tcpassay_wire::codec::Envelope;
use tcpassay_wire::headers::Headers;
use tcpassay_wire::{Ecn, Flags, Segment};

/// The position of the first number of a stream whose SYN is not in the capture.
const UNKNOWN: u64 = 1 << 32;
/// The latest time of a log, about 146 years. Times beyond it are those of damaged packets.
const LATEST: Dur = Dur::from_nanos(1 << 62);
/// An end at which a capture was taken answers sooner than this at least once.
const PROMPT: Dur = Dur::from_micros(500);
/// Data segments to an end after which at least one ACK without data is expected of it.
const SEVERAL: u64 = 3;
/// Gaps of a stream that are remembered.
const GAPS: usize = 64;
/// Two equal packets with the same identification within this time are copies.
const COPY: Dur = Dur::from_millis(5);

/// The event log of a capture.
#[derive(Debug)]
pub struct Capture {
    /// The log.
    pub recording: Recording,
    packets: Vec<Packet>,
    /// For each row of the log the packet.
    rows: Vec<u32>,
    /// By flow: the log of the end that sends it.
    ends: Vec<EndLog>,
    /// The silences of the capture.
    batches: Batches,
    /// Connections of one packet, and those that are no longer in memory. They have no log.
    pub unlogged: u64,
    /// The capture has more packets than the log may have.
    pub cut: bool,
}

/// Oracles that do not judge ends of connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unjudged {
    /// The reason.
    pub why: Cow<'static, str>,
    /// Names of the oracles.
    pub oracles: Vec<&'static str>,
    /// The names of the flows that the ends send.
    pub flows: Vec<String>,
}

/// Number of packets between two calls of `go_on`.
const LOOK: u64 = 100_000;

impl Capture {
    /// Reads the event log of a capture. `known` is the analysis of the whole capture; `reader` reads the same capture from its
    /// beginning. Times of the log count from `start`, or from the first segment.
    ///
    /// If the capture ends with an error, the log contains the packets before the error, as `known` does. It contains at most
    /// `most_packets` packets, because it is in memory. It ends, too, when `go_on` is false, which is called every 100,000 packets.
    pub fn read<R: Read>(
        known: &Analysis,
        options: &AnalysisOptions,
        reader: &mut Reader<R>,
        start: Option<Time>,
        version: &str,
        most_packets: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Capture {
        let (recording, connections) = begin(known, version);
        let flows = recording.flows.len();
        let mut made = Capture {
            recording,
            packets: Vec::new(),
            rows: Vec::new(),
            ends: vec![EndLog::default(); flows],
            batches: Batches::default(),
            unlogged: connections.iter().filter(|logged| logged.is_none()).count() as u64,
            cut: false,
        };
        let mut connections = connections;
        let mut again = Analysis::new(options.clone());
        let mut start = start;
        loop {
            let next: Result<Option<_>, ReadError> = reader.next_segment(&mut again.counts);
            let Ok(Some(found)) = next else { break };
            if again.counts.packets.is_multiple_of(LOOK) && !go_on() {
                break;
            }
            let Some(segment) = found else { continue };
            let Some(seen) = again.segment(&segment, reader.interfaces()) else { continue };
            again.take_rounds();
            let start = *start.get_or_insert(seen.at);
            // If the time of a capture goes backwards, the time of the log stays constant.
            let duration = &mut made.recording.header.duration;
            *duration = (*duration).max(seen.at.since(start)).min(LATEST);
            let at = Time::ZERO + *duration;
            if let Some(Some(logged)) = connections.get_mut(seen.connection) {
                if made.packets.len() as u64 == most_packets {
                    made.cut = true;
                    made.recording.header.complete = false;
                    break;
                }
                logged.packet(at, again.counts.packets, seen.from, &segment.headers, &mut made);
            }
        }
        for (logged, facts) in connections.iter().zip(known.connections()) {
            let Some(logged) = logged else { continue };
            for end in 0..2 {
                made.ends[logged.flow as usize + end] = logged.log(end, &facts, known);
            }
        }
        made
    }

    /// The log of a capture of one connection that lacks `lacks` for both ends: time in microseconds, end, segment, ECN field.
    #[cfg(test)]
    pub(crate) fn made(
        segments: impl Iterator<Item = (u64, usize, Segment, Ecn)>,
        lacks: &[Need],
    ) -> Capture {
        let known = Analysis::new(AnalysisOptions::default());
        let (mut recording, _) = begin(&known, "");
        let ends = ["10.0.0.1:1000", "10.0.0.2:80"].map(|end| end.parse::<SocketAddr>().expect("an address"));
        for from in 0..2_u32 {
            recording.hosts.push(ends[from as usize].ip().to_string());
            recording.flows.push(Flow {
                name: format!("flow.{from}"),
                connection: 0,
                from,
                to: 1 - from,
                class: "capture".to_owned(),
                cc: String::new(),
                mss: Bytes::new(1000),
                start: Time::ZERO,
                end: None,
                counters: FlowCounters::default(),
                tcp: TcpSummary::default(),
            });
        }
        let lacks = lacks.iter().map(|need| (*need, Cow::Borrowed("it lacks it"))).collect();
        let answers_in = Some(Dur::from_micros(100));
        let log = EndLog { lacks, first: 1, answers_in };
        let mut made = Capture {
            recording,
            packets: Vec::new(),
            rows: Vec::new(),
            ends: vec![log.clone(), log],
            batches: Batches::default(),
            unlogged: 0,
            cut: false,
        };
        let mut logged = Logged { hosts: [0, 1], ..Logged::default() };
        for (number, (us, from, segment, ecn)) in segments.enumerate() {
            let envelope = Envelope { from: ends[from], to: ends[1 - from], ecn, id: 0, ttl: 64 };
            let layouts = [true; 2];
            let headers = Headers { envelope, segment, cut: false, layouts, malformed: false, checksum: 0 };
            let at = Time::ZERO + Dur::from_micros(us);
            made.recording.header.duration = at.since(Time::ZERO);
            logged.packet(at, number as u64 + 1, from, &headers, &mut made);
        }
        for (end, log) in made.ends.iter_mut().enumerate() {
            log.first = logged.first[end].max(1);
        }
        made
    }

    /// Number of connections that have a log.
    pub fn connections(&self) -> usize {
        self.ends.len() / 2
    }

    /// Applies the oracles named in `wanted`, each to the ends whose log has what it needs.
    pub fn judge(&self, wanted: &[&str]) -> Vec<Found> {
        let resolution = self.batches.period().unwrap_or(Dur::ZERO);
        let captured = Captured { packets: &self.packets, rows: &self.rows, ends: &self.ends, resolution };
        judge_log(&self.recording, wanted, Some(captured))
    }

    /// The frames of rows of the log, in order.
    pub fn frames(&self, rows: &[usize]) -> Vec<u64> {
        let mut frames: Vec<u64> =
            rows.iter().map(|row| self.packets[self.rows[*row] as usize].frame).collect();
        frames.sort_unstable();
        frames.dedup();
        frames
    }

    /// Which of the oracles named in `wanted` do not judge which ends, and why. Oracles with a [`Setting`](crate::Setting) judge no capture
    /// and are not in it.
    pub fn unjudged(&self, wanted: &[&str]) -> Vec<Unjudged> {
        let wanted: Vec<&Oracle> = ORACLES
            .iter()
            .filter(|oracle| wanted.contains(&oracle.name) && setting(oracle.name) == Setting::Any)
            .collect();
        let mut all: BTreeMap<(Cow<'static, str>, Vec<&'static str>), Vec<String>> = BTreeMap::new();
        for (log, flow) in self.ends.iter().zip(&self.recording.flows) {
            let mut reasons: BTreeMap<Cow<'static, str>, Vec<&'static str>> = BTreeMap::new();
            for oracle in &wanted {
                if let Some(why) = log.lack(oracle.needs) {
                    reasons.entry(why).or_default().push(oracle.name);
                }
            }
            for reason in reasons {
                all.entry(reason).or_default().push(flow.name.clone());
            }
        }
        all.into_iter().map(|((why, oracles), flows)| Unjudged { why, oracles, flows }).collect()
    }
}

/// A recording without events, and the connections of a capture. Those of one packet, of which a scan or a flood of SYNs has millions, get
/// no log.
fn begin(known: &Analysis, version: &str) -> (Recording, Vec<Option<Box<Logged>>>) {
    let mut made = Recording {
        header: Header {
            version: version.to_owned(),
            substrate: "capture".to_owned(),
            // This is not a parameter: a capture has no case, so oracles find no settings.
            case: vec![Triple {
                entity: String::new(),
                parameter: "capture".to_owned(),
                value: "packets".to_owned(),
            }],
            complete: known.error.is_none(),
            ..Header::default()
        },
        ..Recording::default()
    };
    let mut hosts: BTreeMap<SocketAddr, u32> = BTreeMap::new();
    let mut connections = Vec::new();
    for (number, connection) in known.connections().enumerate() {
        if connection.packets < 2 {
            connections.push(None);
            continue;
        }
        let [one, other] = connection.ends;
        // Both ends of a connection are different hosts of the log, also if they have the same address.
        let same = one.ip() == other.ip();
        let places = connection.ends.map(|end| {
            let next = u32::try_from(hosts.len()).expect("fewer than 2^32 addresses");
            let key = if same { end } else { SocketAddr::new(end.ip(), 0) };
            *hosts.entry(key).or_insert_with(|| {
                made.hosts.push(if same { end.to_string() } else { end.ip().to_string() });
                next
            })
        });
        let flow = u32::try_from(made.flows.len()).expect("fewer than 2^32 flows");
        for (from, counted) in connection.counters.iter().enumerate() {
            made.flows.push(Flow {
                name: format!("{} > {}", connection.ends[from], connection.ends[1 - from]),
                connection: u32::try_from(number).expect("fewer than 2^32 connections"),
                from: places[from],
                to: places[1 - from],
                class: "capture".to_owned(),
                cc: String::new(),
                mss: Bytes::new(connection.mss[from]),
                start: Time::ZERO,
                end: None,
                counters: FlowCounters {
                    sent_packets: counted.packets,
                    sent_bytes: counted.bytes,
                    retransmitted_packets: counted.retransmissions,
                    retransmitted_bytes: counted.retransmitted_bytes,
                    ..FlowCounters::default()
                },
                tcp: TcpSummary::default(),
            });
        }
        connections.push(Some(Box::new(Logged { flow, hosts: places, ..Logged::default() })));
    }
    (made, connections)
}

/// A connection whose packets become rows of the log.
#[derive(Clone, Debug, Default)]
struct Logged {
    /// Index of its first flow.
    flow: u32,
    hosts: [u32; 2],
    /// Indexed by end: the number of position 0, the first position, and the position after the last byte sent.
    zero: [Option<SeqNum>; 2],
    first: [u64; 2],
    sent: [u64; 2],
    scales: [Option<u8>; 2],
    /// By end, whether a segment that is not a reset was seen.
    spoke: [bool; 2],
    established: bool,
    /// The last packet of each end, to recognise copies.
    last: [Option<(Time, u16, Segment)>; 2],
    copies: u64,
    /// By end: positions that it skipped and that were not seen, data segments that were sent to it, ACKs without data that it sent for them.
    gaps: [Vec<(u64, u64)>; 2],
    data_in: [u64; 2],
    fin: [bool; 2],
    bare: [u64; 2],
    /// An ACK or a SACK block reports positions that were not seen.
    missed: bool,
    /// A segment has options that are unknown.
    unknown_options: bool,
}

impl Logged {
    fn packet(&mut self, at: Time, frame: u64, from: usize, headers: &Headers, made: &mut Capture) {
        let segment = &headers.segment;
        let reset = segment.flags.has(Flags::RST);
        self.copies(at, from, headers);
        if segment.flags.has(Flags::SYN) && !reset {
            self.zero[from] = Some(segment.seq);
            (self.first[from], self.sent[from]) = (1, self.sent[from].min(1));
            self.scales[from] = segment.options.window_scale.map(|shift| shift.min(14));
        } else if !reset {
            self.start(from, segment.seq);
            if segment.flags.has(Flags::ACK) {
                self.start(1 - from, segment.ack);
            }
        }
        // The numbers of a reset may be of another connection.
        let seq = if reset {
            self.position(from, segment.seq).or(Some(UNKNOWN))
        } else {
            self.position(from, segment.seq)
        };
        let Some(seq) = seq else { return };
        made.batches.packet(at, self.hosts[from]);
        let place = u32::try_from(made.packets.len()).expect("fewer than 2^32 packets");
        made.packets.push(Packet {
            frame,
            stamps: segment.options.timestamps,
            mss: segment.options.mss,
            sack_permitted: segment.options.sack_permitted,
            ecn: headers.envelope.ecn,
            cut: headers.has_unknown_options(),
        });
        self.spoke[from] |= !reset;
        self.unknown_options |= headers.has_unknown_options();
        let after = seq + u64::from(segment.seq_len());
        self.completeness(from, segment, (seq, after));
        let again = after > seq && seq < self.sent[from];
        if !reset {
            self.sent[from] = self.sent[from].max(after);
        }
        let kind = if again && !reset { EventKind::Retransmit } else { EventKind::Out };
        self.rows(at, from, headers, (seq, kind), made);
        // The connection is established when both ends have sent a SYN and one has acknowledged the SYN of the other, or before the
        // capture begins.
        if !self.established
            && self.zero.iter().all(Option::is_some)
            && !segment.flags.any(Flags::SYN | Flags::RST)
        {
            self.established = true;
            let opened =
                StateChange::Moved { from: Some(TcpState::SynSent), to: Some(TcpState::Established) };
            for end in 0..2 {
                let why = opened.to_string().into();
                self.row(
                    end,
                    EventRow { why, ..EventRow::new(at, 0, None, EventKind::State) },
                    &mut made.recording,
                );
            }
        }
        made.rows.resize(made.recording.events.len(), place);
    }

    /// Looks for signs of packets that the capture missed. The segment has the positions `start` to before `end`.
    fn completeness(&mut self, from: usize, segment: &Segment, (start, end): (u64, u64)) {
        let flags = segment.flags;
        if flags.has(Flags::RST) {
            return;
        }
        let to = 1 - from;
        if end > start {
            self.data_in[to] += u64::from(segment.len > 0);
            let gaps = &mut self.gaps[from];
            if start > self.sent[from] && gaps.len() < GAPS {
                gaps.push((self.sent[from], start));
            }
            // What is left of a gap below a segment in its middle is forgotten.
            for gap in gaps.iter_mut().filter(|gap| gap.0 < end && start < gap.1) {
                *gap = if start <= gap.0 { (end.min(gap.1), gap.1) } else { (gap.0, start) };
            }
            gaps.retain(|gap| gap.0 < gap.1);
        }
        if !flags.has(Flags::ACK) {
            return;
        }
        let unseen = |start: u64, end: u64| {
            end > self.sent[to] || self.gaps[to].iter().any(|gap| gap.0 < end && start < gap.1)
        };
        let Some(ack) = self.position(to, segment.ack) else { return };
        let blocks = segment
            .options
            .sack
            .iter()
            .filter_map(|block| Some((self.position(to, block.start)?, self.position(to, block.end)?)));
        let missed =
            unseen(0, ack) || blocks.into_iter().any(|(start, end)| start >= ack && unseen(start, end));
        self.missed |= missed && self.spoke[to];
        // The last ACKs are there also where a filter has removed the others.
        self.fin[from] |= flags.has(Flags::FIN);
        let open = !self.fin[to] && !flags.any(Flags::SYN | Flags::FIN);
        self.bare[from] += u64::from(open && segment.len == 0 && ack > self.first[to]);
    }

    /// The rows of a packet in the logs of both ends.
    fn rows(
        &self,
        at: Time,
        from: usize,
        headers: &Headers,
        (seq, kind): (u64, EventKind),
        made: &mut Capture,
    ) {
        let segment = &headers.segment;
        let stamps = segment.options.timestamps;
        let ack = segment.flags.has(Flags::ACK).then(|| self.position(1 - from, segment.ack)).flatten();
        let row = EventRow {
            seq: Some(seq),
            ack,
            len: Some(segment.len),
            flags: Some(segment.flags),
            window: self.window(from, segment).map(Bytes::new),
            ce: headers.envelope.ecn == Ecn::Ce,
            ..EventRow::new(at, 0, None, kind)
        };
        let why = if headers.envelope.ecn.is_capable() { ECT } else { "" };
        let sent =
            EventRow { why: Reason::Borrowed(why), value: stamps.map(|s| s.ecr.into()), ..row.clone() };
        let come = EventRow { kind: EventKind::In, value: stamps.map(|s| s.val.into()), ..row };
        for (end, row) in [(from, sent), (1 - from, come)] {
            self.row(end, row, &mut made.recording);
            for block in &segment.options.sack {
                let (Some(start), Some(stop)) =
                    (self.position(1 - from, block.start), self.position(1 - from, block.end))
                else {
                    continue;
                };
                let Ok(len) = u32::try_from(stop.saturating_sub(start)) else { continue };
                let block = EventRow {
                    seq: Some(start),
                    len: Some(len),
                    ..EventRow::new(at, 0, None, EventKind::Sack)
                };
                self.row(end, block, &mut made.recording);
            }
        }
    }

    /// Adds a row to the log of an end.
    fn row(&self, end: usize, mut row: EventRow, made: &mut Recording) {
        row.host = self.hosts[end];
        row.flow = Some(self.flow + u32::from(end == 1));
        made.events.push(row);
    }

    /// A number of a stream of which no SYN was seen.
    fn start(&mut self, end: usize, seq: SeqNum) {
        if self.zero[end].is_none() {
            self.zero[end] = Some(seq);
            (self.first[end], self.sent[end]) = (UNKNOWN, UNKNOWN);
        }
    }

    /// The stream position of a sequence number of end `from`. Its SYN has position 0.
    fn position(&self, from: usize, seq: SeqNum) -> Option<u64> {
        seq.unwrap_near(self.zero[from]?, self.sent[from])
    }

    /// The window in bytes; `None` if its scale is not known. A closed window is closed with every scale.
    fn window(&self, from: usize, segment: &Segment) -> Option<u64> {
        let window = u64::from(segment.window);
        if segment.flags.has(Flags::SYN) || window == 0 {
            return Some(window);
        }
        let known = self.first == [1, 1];
        let both = self.scales.iter().all(Option::is_some);
        known.then(|| window << if both { self.scales[from].unwrap_or(0) } else { 0 })
    }

    fn copies(&mut self, at: Time, from: usize, headers: &Headers) {
        let id = headers.envelope.id;
        let same = |(before, other, segment): &(Time, u16, Segment)| {
            id != 0 && *other == id && *segment == headers.segment && at.since(*before) <= COPY
        };
        self.copies += u64::from(self.last[from].as_ref().is_some_and(same));
        self.last[from] = Some((at, id, headers.segment));
    }

    /// What the log of an end lacks.
    fn log(&self, end: usize, facts: &ConnectionFacts, known: &Analysis) -> EndLog {
        let mut lacks: Vec<(Need, Cow<'static, str>)> = Vec::new();
        if self.spoke != [true; 2] {
            lacks.push((Need::BothDirections, "the capture shows one direction only".into()));
        }
        if !facts.has_handshake {
            lacks.push((Need::Handshake, "the capture has no whole handshake of the connection".into()));
        }
        let unseen: u64 = facts.counters.iter().map(|half| half.unseen_bytes).sum();
        let counts = &known.counts;
        let undecoded = counts.short + counts.fragments + counts.malformed;
        let filtered = (0..2).any(|end| self.data_in[end] >= SEVERAL && self.bare[end] == 0);
        if unseen > 0 || self.missed {
            lacks.push((
                Need::EveryPacket,
                "the capture missed packets: bytes are acknowledged that it lacks".into(),
            ));
        } else if undecoded > 0 {
            lacks.push((
                Need::EveryPacket,
                "the capture has packets that cannot be decoded (fragments, cut headers)".into(),
            ));
        }
        if self.unknown_options {
            lacks.push((
                Need::EveryPacket,
                "options of segments of the connection are unknown: they are cut or malformed".into(),
            ));
        }
        if filtered && unseen == 0 && !self.missed {
            lacks.push((
                Need::EveryPacket,
                "the capture has no ACKs without data of an end: it may be filtered".into(),
            ));
        }
        let copies =
            self.copies + facts.counters.iter().map(|half| half.duplicates + half.other_point).sum::<u64>();
        if copies > 0 {
            lacks.push((Need::NoCopies, "the capture has packets more than once".into()));
        }
        let local = is_local(facts);
        if facts.counters[end].reordered > 0 {
            lacks.push((Need::AtEnd, "what the end sent is in another order in the capture".into()));
        } else if !local && facts.answers_in[end].is_none_or(|answer| answer > PROMPT) {
            lacks.push((
                Need::AtEnd,
                "the end never answers within 500 us, as it does where it is captured".into(),
            ));
        }
        if let Some(why) = elsewhere(end, facts).filter(|_| !local) {
            lacks.push((Need::AtEnd, why.into()));
        } else if let Some(ttl) = facts.routed[end] {
            let why = format!("the packets of the end have passed routers before the capture (TTL {ttl})");
            lacks.push((Need::AtEnd, why.into()));
        } else if counts.most_backwards_ns > CLOCK_DISORDER.as_nanos()
            || counts.timeless + counts.contradictory_times > 0
        {
            lacks.push((Need::AtEnd, "times of the capture are missing or go backwards".into()));
        }
        EndLog { lacks, first: self.first[end].max(1), answers_in: facts.answers_in[end] }
    }
}

/// Whether both ends are on the machine of the capture.
fn is_local(facts: &ConnectionFacts) -> bool {
    let [one, other] = facts.ends.map(|end| end.ip());
    one == other || one.is_loopback() && other.is_loopback()
}

/// Why the capture does not show the order in which an end sent and received; `None` if it does.
fn elsewhere(end: usize, facts: &ConnectionFacts) -> Option<&'static str> {
    match (facts.place, end) {
        (Place::Sender, 0) | (Place::Receiver, 1) => None,
        (Place::Sender | Place::Receiver, _) => Some("the capture was taken at the other end"),
        (Place::Between, _) => Some("the capture was taken between the ends"),
        (Place::Unknown, _) => Some("the place of the capture is not known: too few packets are answered"),
    }
}
