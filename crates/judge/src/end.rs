//! The state of one end of a connection, reconstructed from its rows of the event log.

use crate::kinds::Kinds;
use crate::srtt::SmoothedRtt;
use crate::taken::{Sent, Taken};
use std::collections::VecDeque;
use tcpassay_measure::reason::{AppCall, StateChange, TcpState};
use tcpassay_measure::{EventKind, EventRow};
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

/// The state of an end before a row of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Before {
    pub una: u64,
    pub nxt: u64,
    /// The largest right edge of the window that the peer announced.
    pub edge: u64,
    pub cwnd: u64,
    pub ssthresh: u64,
    pub state: CongestionState,
    /// RCV.NXT, as a stream position.
    pub frontier: u64,
    /// The largest position acknowledged to the peer.
    pub acked_out: u64,
    /// The largest right edge announced to the peer.
    pub offered: u64,
    /// The time of the last segment that was sent.
    pub spoke: Time,
}

/// Number of SACK blocks that are remembered. A segment has four at most.
const BLOCKS: usize = 8;

/// One end of a connection.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of an end")]
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// The largest segment that this end sends.
    mss: u64,
    pub now: Before,
    /// The outstanding data, in order of position.
    pub out: VecDeque<Sent>,
    /// SACK blocks that were reported last.
    blocks: VecDeque<(u64, u64)>,
    /// Bytes of `out` that are SACKed.
    pub sacked: u64,
    /// The highest position known to be delivered.
    pub high: u64,
    /// Bytes of `out` that were sent more than once.
    pub again: u64,
    /// Bytes of `out` if each range counts as whole segments, as Linux's window counts packets of any length.
    pub in_packets: u64,
    pub taken: Taken,
    /// The shortest and the longest round-trip time so far of data that were sent once.
    pub round_trips: Option<(Dur, Dur)>,
    /// The round-trip time of the handshake, which is the first sample of SRTT.
    pub handshake: Dur,
    /// Bounds of SRTT.
    pub srtt: SmoothedRtt,
    /// Time of the own SYN until it is answered.
    syn: Option<Time>,
    /// Time of the own SYN until it is acknowledged, and whether it was sent again.
    opening: Option<(Time, bool)>,
    /// The last round-trip time of data that were sent once.
    pub recent_round_trip: Dur,
    /// The position after the last byte that the application has written.
    pub written: u64,
    /// Bytes that the application has read.
    pub read: u64,
    /// True if the log contains the writes of the application.
    pub logs_writes: bool,
    /// The peer's window as last announced, in bytes.
    pub wnd: u64,
    /// Data that arrived above `frontier`, as sorted ranges that do not touch each other.
    pub above: Vec<(u64, u64)>,
    /// Position of the peer's FIN.
    pub fin_in: Option<u64>,
    /// Position of the own FIN.
    pub fin_out: Option<u64>,
    /// The positions of the segment that arrived in this row, if all of them had arrived before.
    pub repeated: Option<(u64, u64)>,
    /// True after the handshake.
    pub open: bool,
    /// True after the connection was closed or aborted.
    pub over: bool,
    /// Linux also accepts a segment that ends where the window begins (`tcp_sequence`); RFC 9293 section 3.10.7.4 does not.
    of_linux: bool,
    /// TS.Recent of RFC 7323 section 4.3.
    recent: Option<u32>,
    /// True if the last row was an arrival.
    arrival: bool,
}

impl End {
    /// The kinds of rows that change the state of an end.
    pub const READS: Kinds =
        Kinds::SEGMENTS.and(&[EventKind::Window, EventKind::Congestion, EventKind::State, EventKind::App]);

    /// `mss`: payload bytes of the largest segment that this end sends; 0 if it is not known. `first`: the first position of its stream,
    /// `first_in`: that of its peer's; 1 if the log has the SYN. `of_linux`: whether the stack is Linux or the model.
    pub fn new(mss: u64, first: u64, first_in: u64, of_linux: bool) -> End {
        End {
            of_linux,
            mss: mss.max(1),
            now: Before {
                una: first,
                nxt: first,
                ssthresh: u64::MAX,
                frontier: first_in,
                acked_out: if first_in > 1 { first_in } else { 0 },
                ..Before::default()
            },
            out: VecDeque::new(),
            blocks: VecDeque::with_capacity(BLOCKS),
            sacked: 0,
            high: first,
            again: 0,
            in_packets: 0,
            taken: Taken::default(),
            round_trips: None,
            handshake: Dur::ZERO,
            srtt: SmoothedRtt::default(),
            syn: None,
            opening: None,
            recent_round_trip: Dur::ZERO,
            written: first,
            read: 0,
            logs_writes: false,
            wnd: 0,
            above: Vec::new(),
            fin_in: None,
            fin_out: None,
            repeated: None,
            open: false,
            over: false,
            recent: None,
            arrival: false,
        }
    }

    /// PAWS (RFC 7323 section 5.3): whether an arriving segment has data and an older timestamp than TS.Recent. Linux allows for a
    /// difference of 1 (`TCP_PAWS_WINDOW`).
    pub fn is_old(&self, event: &EventRow) -> bool {
        let plain = !event.flags.unwrap_or(Flags::NONE).any(Flags::SYN | Flags::RST);
        let arrives = event.kind == EventKind::In && event.len.unwrap_or(0) > 0 && plain;
        let stamp = event.value.and_then(|value| u32::try_from(value).ok());
        matches!((stamp, self.recent), (Some(stamp), Some(recent)) if arrives && recent.wrapping_sub(stamp).cast_signed() > 1)
    }

    /// Bytes sent and not acknowledged.
    pub fn outstanding(&self) -> u64 {
        self.now.nxt - self.now.una
    }

    /// The outstanding ranges that begin at `start` or above it.
    pub fn from(&self, start: u64) -> impl Iterator<Item = &Sent> {
        self.out.range(self.out.partition_point(|s| s.start < start)..)
    }

    /// Updates the state with a row of the log.
    pub fn update(&mut self, event: &EventRow, sacks: &[(u64, u64)], refused: bool) {
        // Only arrivals set them.
        if std::mem::take(&mut self.arrival) {
            self.taken = Taken::default();
            self.repeated = None;
        }
        match event.kind {
            EventKind::Out | EventKind::Retransmit => self.sent(event),
            EventKind::In if !refused => self.arrived(event, sacks),
            EventKind::Window => {
                if let Some(cwnd) = event.cwnd {
                    self.now.cwnd = cwnd.get();
                }
                self.now.ssthresh = event.ssthresh.map_or(u64::MAX, Bytes::get);
            }
            EventKind::Congestion => {
                if let Some(state) = event.congestion_change().and_then(|change| change.to) {
                    self.now.state = state;
                }
            }
            EventKind::State => match event.state_change() {
                Some(StateChange::Moved { to: Some(TcpState::Established), .. }) => self.open = true,
                Some(
                    StateChange::Aborted { .. }
                    | StateChange::Moved { to: Some(TcpState::Closed | TcpState::TimeWait), .. },
                ) => self.over = true,
                _ => {}
            },
            EventKind::App => match event.app_call() {
                Some(AppCall::Read) => self.read += event.value.unwrap_or(0),
                Some(AppCall::Write) => {
                    self.logs_writes = true;
                    self.written += event.value.unwrap_or(0);
                }
                Some(AppCall::Reboot) => self.over = true,
                Some(AppCall::Shutdown | AppCall::Close) | None => {}
            },
            _ => {}
        }
    }

    fn sent(&mut self, event: &EventRow) {
        self.now.spoke = event.at;
        let flags = event.flags.unwrap_or(Flags::NONE);
        let ack = event.ack.unwrap_or(0);
        if flags.has(Flags::ACK) && !flags.has(Flags::RST) {
            self.now.acked_out = self.now.acked_out.max(ack);
            if let Some(window) = event.window {
                self.now.offered = self.now.offered.max(ack + window.get());
            }
        }
        let (Some(seq), len) = (event.seq, u64::from(event.len.unwrap_or(0))) else { return };
        if flags.has(Flags::RST) {
            return;
        }
        if flags.has(Flags::SYN) {
            self.syn.get_or_insert(event.at);
            self.opening = Some(self.opening.map_or((event.at, false), |(at, _)| (at, true)));
        }
        let start = if flags.has(Flags::SYN) { 1 } else { seq };
        let end = start + len + u64::from(flags.has(Flags::FIN));
        if flags.has(Flags::FIN) {
            self.fin_out = Some(end - 1);
        }
        if end == start {
            return;
        }
        let at = event.at;
        if start < self.now.nxt {
            self.split(start);
            self.split(end);
            let first = self.out.partition_point(|s| s.start < start);
            for sent in self.out.range_mut(first..).take_while(|s| s.end <= end) {
                self.again += if sent.tries == 1 { sent.end - sent.start } else { 0 };
                if sent.tries == 0 {
                    sent.first = at;
                }
                sent.tries += 1;
                sent.last = at;
            }
        }
        if end > self.now.nxt {
            let start = start.max(self.now.nxt);
            self.out.push_back(Sent { start, end, first: at, last: at, tries: 1, sacked: false });
            self.in_packets += (end - start).next_multiple_of(self.mss);
            self.now.nxt = end;
        }
    }

    /// Splits the outstanding range that contains `position` at `position`.
    fn split(&mut self, position: u64) {
        let place = self.out.partition_point(|s| s.end <= position);
        if let Some(sent) = self.out.get_mut(place)
            && sent.start < position
        {
            let rest = Sent { start: position, ..*sent };
            sent.end = position;
            let parts = [sent.start..position, position..rest.end, sent.start..rest.end];
            let [one, other, both] = parts.map(|part| (part.end - part.start).next_multiple_of(self.mss));
            self.in_packets = self.in_packets + one + other - both;
            self.out.insert(place + 1, rest);
        }
    }

    /// The part of the first range below `ack`. The rest remains outstanding.
    fn before(&mut self, sent: Sent, ack: u64) -> Sent {
        if sent.end <= ack {
            return sent;
        }
        self.out.push_front(sent);
        self.split(ack);
        self.out.pop_front().expect("it was split")
    }

    fn arrived(&mut self, event: &EventRow, sacks: &[(u64, u64)]) {
        self.arrival = true;
        let syn = self.syn.take();
        if let Some(at) = syn {
            self.handshake = event.at.since(at);
        }
        let flags = event.flags.unwrap_or(Flags::NONE);
        if flags.has(Flags::RST) {
            return;
        }
        if flags.has(Flags::SYN) {
            self.now.edge = self.now.edge.max(1 + event.window.map_or(0, Bytes::get));
        }
        if flags.has(Flags::ACK) {
            let ack = event.ack.unwrap_or(0);
            if let Some(window) = event.window {
                self.now.edge = self.now.edge.max(ack + window.get());
                if ack >= self.now.una {
                    self.wnd = window.get();
                }
            }
            if ack <= self.now.nxt {
                let known = self.high;
                self.acknowledge(ack, known, event.at, event.value.is_some());
                self.sack(ack, sacks, known, event.at);
                self.measure(ack, event.at);
            }
            if syn.is_some() && flags.has(Flags::SYN) {
                self.refused();
            }
        }
        let Some(seq) = event.seq else { return };
        // A segment before the window is not acceptable and changes nothing.
        let end = seq + u64::from(event.len.unwrap_or(0));
        let acceptable =
            end > self.now.acked_out || end == self.now.acked_out && (self.of_linux || end == seq);
        if let Some(stamp) = event.value.and_then(|value| u32::try_from(value).ok())
            && (flags.has(Flags::SYN) || acceptable && seq <= self.now.acked_out.max(1))
            && self.recent.is_none_or(|recent| stamp.wrapping_sub(recent).cast_signed() >= 0)
        {
            self.recent = Some(stamp);
        }
        let start = if flags.has(Flags::SYN) { 1 } else { seq };
        let mut end = start + u64::from(event.len.unwrap_or(0));
        if flags.has(Flags::FIN) {
            self.fin_in = Some(end);
            end += 1;
        }
        if end > start {
            self.receive(start, end);
        }
    }

    /// Data of a SYN that its answer does not acknowledge were not accepted, and are sent again as if for the first time (RFC 7413 section
    /// 4.2.2).
    fn refused(&mut self) {
        for sent in &mut self.out {
            self.again -= if sent.tries > 1 { sent.end - sent.start } else { 0 };
            sent.tries = 0;
        }
    }

    /// Takes the sample of an ACK, as `tcp_ack_update_rtt` does.
    fn measure(&mut self, ack: u64, at: Time) {
        if let Some((since, again)) = self.opening.filter(|_| ack > 0) {
            self.opening = None;
            let sample = at.since(since);
            if again { self.srtt.doubtful(sample) } else { self.srtt.sample(sample, sample) }
        }
        let taken = &self.taken;
        // A log may have several arrivals before what the first one caused to be sent again.
        let repairs = matches!(self.now.state, CongestionState::Loss | CongestionState::Recovery);
        match (taken.oldest, taken.sacked) {
            (Some(sample), _) | (None, Some((_, sample))) if repairs => self.srtt.doubtful(sample),
            (Some(sample), _) => self.srtt.sample(sample, sample),
            (None, Some((least, most))) => self.srtt.sample(least, most),
            (None, None) if taken.acked > 0 => {
                let most = self.round_trips.map_or(self.handshake, |(_, longest)| longest);
                self.srtt.doubtful(most);
            }
            _ => {}
        }
    }

    /// `stamped`: the segment has a timestamp, which gives a sample also of data that were sent again (RFC 7323 section 4).
    fn acknowledge(&mut self, ack: u64, known: u64, at: Time, stamped: bool) {
        if ack <= self.now.una {
            return;
        }
        let (mut newest, mut oldest) = (None, None);
        let (mut first, mut repeats) = (None, false);
        self.high = self.high.max(ack);
        self.taken.acked = ack - self.now.una;
        while let Some(sent) = self.out.pop_front_if(|sent| sent.start < ack) {
            let whole = sent.end <= ack || sent.end - sent.start > self.mss;
            let sent = self.before(sent, ack);
            let len = sent.end - sent.start;
            let in_packets = len.next_multiple_of(self.mss);
            self.in_packets -= in_packets;
            repeats |= sent.tries > 1;
            self.taken.spans(&sent, at);
            if !sent.sacked {
                first = first.or(Some(sent.first));
            }
            self.again -= if sent.tries > 1 { len } else { 0 };
            if sent.sacked {
                self.sacked -= len;
            } else {
                self.taken.delivered += len;
                self.taken.in_packets += in_packets;
                self.taken.again |= sent.tries > 1;
                self.taken.once |= sent.tries == 1;
                self.taken.acked_again |= sent.tries > 1;
                self.taken.acked_again_whole |= sent.tries > 1 && whole;
                self.late(sent, known);
                newest = Some(sent);
                oldest = oldest.or((sent.tries == 1 || stamped).then_some(sent.first));
            }
        }
        self.now.una = ack;
        self.taken.oldest = first.filter(|_| !repeats).map(|first| at.since(first));
        if let Some(sent) = newest.filter(|_| !self.taken.acked_again) {
            let sample = at.since(sent.first);
            let (least, most) = self.round_trips.unwrap_or((sample, sample));
            self.taken.sample = Some(sample);
            self.recent_round_trip = sample;
            self.round_trips = Some((least.min(sample), most.max(sample)));
        }
        // Linux takes the sample of the oldest one that was sent once (`tcp_clean_rtx_queue`), or of the transmission that the echo names.
        if let Some(first) = oldest {
            self.sampled(at.since(first));
        }
    }

    /// Records a round-trip time that the sender may have measured.
    fn sampled(&mut self, sample: Dur) {
        let (least, most) = self.round_trips.unwrap_or((sample, sample));
        self.round_trips = Some((least, most.max(sample)));
    }

    /// Records the delivery of `sent`, which was reported for the first time. `known`: highest position
    /// known to be delivered before.
    fn late(&mut self, sent: Sent, known: u64) {
        if sent.tries == 1 && sent.end <= known {
            self.taken.late = self.taken.late.max(known - sent.start);
        }
    }

    fn sack(&mut self, ack: u64, sacks: &[(u64, u64)], known: u64, at: Time) {
        for (place, &(start, end)) in sacks.iter().enumerate() {
            let within = |other: &(u64, u64)| other.0 <= start && end <= other.1;
            // A DSACK block (RFC 2883 section 4) reports data that were delivered before.
            if place == 0 && (end <= ack || sacks.get(1).is_some_and(within)) {
                self.taken.dsacked = end - start.min(end);
                continue;
            }
            if start >= end || end <= self.now.una || end > self.now.nxt {
                continue;
            }
            self.high = self.high.max(end);
            let from = self.unreported(start, end);
            if from == end {
                continue;
            }
            self.split(end);
            let first = self.out.partition_point(|s| s.end <= from);
            for place in first..self.out.len() {
                let sent = &mut self.out[place];
                if sent.end > end {
                    break;
                }
                if !sent.sacked {
                    sent.sacked = true;
                    self.sacked += sent.end - sent.start;
                    self.taken.delivered += sent.end - sent.start;
                    self.taken.in_packets += (sent.end - sent.start).next_multiple_of(self.mss);
                    self.taken.again |= sent.tries > 1;
                    self.taken.once |= sent.tries == 1;
                    self.taken.sacked_once |= sent.tries == 1;
                    let sent = *sent;
                    self.taken.spans(&sent, at);
                    self.late(sent, known);
                    if sent.tries == 1 {
                        let sample = at.since(sent.first);
                        self.sampled(sample);
                        let (least, most) = self.taken.sacked.unwrap_or((sample, sample));
                        self.taken.sacked = Some((least.min(sample), most.max(sample)));
                    }
                }
            }
        }
    }

    /// The position from which on a block reports what the last blocks did not. What they reported is SACKed already.
    fn unreported(&mut self, start: u64, end: u64) -> u64 {
        if let Some(block) = self.blocks.iter_mut().find(|block| block.0 == start && block.1 <= end) {
            return std::mem::replace(&mut block.1, end);
        }
        self.split(start);
        if self.blocks.len() == BLOCKS {
            self.blocks.pop_front();
        }
        self.blocks.push_back((start, end));
        start
    }

    fn receive(&mut self, start: u64, end: u64) {
        let frontier = self.now.frontier;
        if end <= frontier {
            self.repeated = Some((start, end));
            return;
        }
        if start < frontier {
            self.repeated = Some((start, frontier));
        }
        let start = start.max(frontier);
        if self.above.is_empty() && start == frontier {
            self.now.frontier = end;
            return;
        }
        let first = self.above.partition_point(|r| r.1 < start);
        let last = self.above.partition_point(|r| r.0 <= end);
        let mut whole = (start, end);
        for range in self.above.drain(first..last) {
            if self.repeated.is_none() {
                let common = (range.0.max(start), range.1.min(end));
                if common.0 < common.1 {
                    self.repeated = Some(common);
                }
            }
            whole = (whole.0.min(range.0), whole.1.max(range.1));
        }
        if whole.0 <= frontier {
            self.now.frontier = whole.1;
        } else {
            self.above.insert(first, whole);
        }
    }

    /// An upper bound of the retransmission timeout that Linux computes from these round-trip times, before
    /// any back-off. SRTT is at most the longest one. The mean deviation begins with half of a round-trip
    /// time (RFC 6298 section 2.2), and is at most the larger of this and the difference between the longest
    /// and the shortest one. Zero before the first round-trip sample.
    pub fn most_rto(&self, least: Dur) -> Dur {
        self.round_trips.map_or(Dur::ZERO, |(shortest, longest)| {
            let longest = longest.max(self.handshake);
            longest + least.max((longest / 2).max(longest.saturating_sub(shortest)) * 4)
        })
    }

    /// Whether all data from `start` to `end` have arrived.
    pub fn has(&self, start: u64, end: u64) -> bool {
        end <= self.now.frontier || {
            let start = start.max(self.now.frontier);
            let place = self.above.partition_point(|r| r.1 < end);
            start == end
                || self.above.get(place).is_some_and(|r| r.0 <= start && end <= r.1)
                || self.now.frontier >= end
        }
    }
}
