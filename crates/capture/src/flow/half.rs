//! One direction of a connection: the data that one end sends, and the ACKs of the other end for these data.

use super::again::{Again, Known, is_late};
use super::copies::{Copies, Print, Shown, Twice};
use super::ecn::{Counter, EcnFeedback};
use super::ids::Ids;
use super::lengths::Lengths;
use super::offers::Pause;
use super::path::Path;
use super::round::{Open, Round, round_trip};
use super::sacked::Sacked;
use super::seen::Seen;
use super::sequence::{Behind, FARTHEST, ORIGIN, Range, Sequence};
use super::stall::{StallCause, StallTable};
use super::waits::Waits;
use crate::histogram::DurationHistogram;
use serde::Serialize;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::{Ecn, Flags, SackBlock, SackBlocks, Segment};

/// Counters of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct HalfCounters {
    /// Packets with payload.
    pub packets: u64,
    /// Their payload, with retransmissions.
    pub bytes: u64,
    /// Packets whose data had been sent before.
    pub retransmissions: u64,
    /// Their payload.
    pub retransmitted_bytes: u64,
    /// Retransmissions whose data had not been seen before: they were lost before the capture point.
    pub lost_before: u64,
    /// Copies of data packets that the capture or the network made.
    pub duplicates: u64,
    /// Copies among them of which the receiver reported that they reached it, too (DSACK): the network made them.
    pub network_duplicates: u64,
    /// Packets that arrived after one with larger positions, and were not sent again (RFC 4737).
    pub reordered: u64,
    /// The largest extent of reordering: how many packets arrived from the first one with a larger position on (RFC 4737 section 4.2.1).
    pub largest_extent: u64,
    /// The sum of the extents.
    pub sum_of_extents: u64,
    /// Packets with an extent of three or more, which three duplicate ACKs report as loss (RFC 5681).
    pub beyond_three: u64,
    /// Gaps that SACK reported and that closed without a retransmission: reordering behind the capture point.
    pub reordered_behind: u64,
    /// The largest of them: packets that SACK reported above the gap.
    pub largest_extent_behind: u64,
    /// Data packets with the mark CE.
    pub ce: u64,
    /// Data packets that are ECN-capable, with or without CE.
    pub ect: u64,
    /// ACKs of the other end.
    pub acks: u64,
    /// ACKs of the other end with the flag ECE, unless it is a bit of accurate ECN.
    pub ece: u64,
    /// Packets with the mark CE that the other end reported by accurate ECN (field ACE, which counts up to 7 from ACK to ACK).
    pub ce_reported: u64,
    /// Bytes with the mark CE that the other end reported by the option of accurate ECN.
    pub ce_reported_bytes: u64,
    /// DSACKs for data of which no retransmission was seen.
    pub unexplained_dsacks: u64,
    /// Probes of a closed window. They are no data packets.
    pub window_probes: u64,
    /// Keepalive probes. They are no data packets.
    pub keepalives: u64,
    /// Retransmissions of the SYN.
    pub syn_retransmissions: u64,
    /// Bytes that were acknowledged, but are not in the capture.
    pub unseen_bytes: u64,
    /// Bytes that sequence numbers of the sender show, and that are neither in the capture nor acknowledged: they were lost before it.
    pub missing_bytes: u64,
    /// Data packets with a sequence number far beyond the receive window, which are left out.
    pub beyond_window: u64,
    /// Rounds that the receive window limited.
    pub window_limited_rounds: u64,
    /// Packets of the sender that a second capture point in the file has seen. They are left out.
    pub other_point: u64,
}

/// Data may be beyond the window as the capture knows it by this, because it missed ACKs.
const FAR: u64 = 1 << 20;

/// The time by which a capture records an ACK before data that were sent before it.
const OFFLOAD: Dur = Dur::from_millis(1);

/// One direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Half {
    pub sequence: Sequence,
    /// Positions below this are acknowledged; 0 before the first ACK.
    pub una: u64,
    /// When the last ACK of new data came.
    pub advanced: Option<Time>,
    /// The right edge of the receiver's window as last announced, when its scale is known.
    pub edge: Option<u64>,
    /// The receiver's window as last announced.
    pub window: Option<u64>,
    pub counters: HalfCounters,
    /// Number of the flow, from 1, when data were seen.
    pub number: Option<u32>,
    pub again: Again,
    pub stalls: StallTable,
    pub round_trips: Option<DurationHistogram>,
    pub rounds: u64,
    pub first_data: Option<Time>,
    pub last_data: Option<Time>,
    /// The largest payload of a packet.
    pub largest: u32,
    /// Smoothed duration of rounds without a stall.
    pub smoothed: Option<Dur>,
    /// The position behind the last probe of a closed window that had a byte.
    pub probed: u64,
    /// What the receiver has reported by SACK.
    pub sacked: Sacked,
    /// The identifications of the sender's packets.
    pub ids: Ids,
    /// The last data packets and probes.
    pub copies: Copies,
    /// ACKs without data since the cumulative ACK has advanced.
    pub duplicate_acks: u32,
    /// The identification of the last segment of the receiver: a copy of an ACK is no duplicate ACK.
    answer_id: u16,
    /// The counters of accurate ECN of the receiver.
    pub counter: Counter,
    /// While the window is closed: what was acknowledged, when the first silence began, and their sum.
    pub closed: Option<(u64, Dur, Dur)>,
    /// What kept the sender from sending.
    pub waits: Waits,
    /// The last long pause, if the receiver has sent nothing since.
    pub pause: Option<Pause>,
    /// The lengths of packets that arrive.
    pub lengths: Lengths,
    /// The highest sequence number of a segment without data.
    claimed: u64,
    /// The position behind the last data far beyond the window.
    far: Option<u64>,
    /// The last ACK far beyond all data.
    far_ack: Option<u64>,
    open: Option<Open>,
}

impl Half {
    /// Bytes that were seen and are not acknowledged.
    pub fn outstanding(&self) -> u64 {
        if self.sequence.base().is_none() || self.una == 0 {
            0
        } else {
            self.sequence.nxt.saturating_sub(self.una)
        }
    }

    /// Whether the receiver reports a loss (RFC 5681, RFC 6675).
    pub fn reports_loss(&self) -> bool {
        !self.sacked.is_empty() || self.duplicate_acks >= 3
    }

    /// What tells copies from retransmissions at any time.
    pub fn shown(&self, path: Path<'_>) -> Shown {
        let (loss, counts) = (self.reports_loss(), self.ids.count());
        Shown { round_trip: path.round_trip(), loss, counts, ..Shown::default() }
    }

    /// The room in the receiver's window, if that is known.
    pub fn room(&self) -> Option<u64> {
        self.edge.map(|edge| edge.saturating_sub(self.sequence.nxt))
    }

    /// Positions that the sender has sent, by its sequence numbers, and that were neither seen nor acknowledged.
    pub fn missing(&self) -> u64 {
        self.claimed.saturating_sub(self.sequence.nxt)
    }

    /// The counters up to now.
    pub fn counted(&self) -> HalfCounters {
        HalfCounters { missing_bytes: self.missing(), ..self.counters }
    }

    /// Whether data from `start` to `end` are so far beyond the window that they do not belong to the stream. Data that continue them do.
    #[inline]
    pub fn is_implausible(&mut self, start: u64, end: u64) -> bool {
        start > self.sequence.nxt && self.is_far(start, end)
    }

    #[cold]
    fn is_far(&mut self, start: u64, end: u64) -> bool {
        let most = match (self.edge, self.window) {
            (Some(edge), Some(window)) => edge.saturating_add(window.saturating_mul(4).max(FAR)),
            _ => self.sequence.nxt.saturating_add(FARTHEST / 4),
        };
        if start <= most || self.counters.packets == 0 || self.far == Some(start) {
            return false;
        }
        self.far = Some(end);
        self.counters.beyond_window += 1;
        true
    }

    /// Whether an ACK far beyond all data is near the one before it that was, so that it is no accident.
    #[cold]
    fn continues(&mut self, ack: u64) -> bool {
        self.far_ack.replace(ack).is_some_and(|far| ack.abs_diff(far) <= FAR)
    }

    /// Forgets the only data packet, which was a probe.
    pub fn forget_data(&mut self) {
        (self.counters.packets, self.counters.bytes, self.counters.ect, self.counters.ce) = (0, 0, 0, 0);
        (self.first_data, self.last_data, self.open, self.largest) = (None, None, None, 0);
        (self.round_trips, self.rounds, self.smoothed) = (None, 0, None);
    }

    /// A packet with payload or FIN at position `start` leaves the sender; `round_trip` is the shortest one. FIN occupies a position.
    pub fn data(&mut self, start: u64, seen: &Seen<'_>, round_trip: Option<Dur>) {
        let segment = &seen.segment;
        let fin = u64::from(segment.flags.has(Flags::FIN));
        let end = start + u64::from(segment.len) + fin;
        if end == start {
            self.claimed = self.claimed.max(start);
            return;
        }
        let stamp = segment.options.timestamps.map(|stamps| stamps.val);
        let behind = Behind { at: seen.at, index: self.counters.packets, id: seen.id, stamp };
        let early = if start < self.sequence.nxt {
            let limit = round_trip.map_or(OFFLOAD, |whole| whole.mul_f64(0.9).max(OFFLOAD));
            self.sequence.catches_up(start, end, seen.at, limit)
        } else {
            None
        };
        self.counters.unseen_bytes = self.counters.unseen_bytes.saturating_sub(early.unwrap_or(0));
        let range = if early.is_some() { Range::New } else { self.sequence.arrive(start, end, behind) };
        if segment.len == 0 {
            return;
        }
        self.copies.remember(Print::new(start, seen));
        self.lengths.sent(start, start + u64::from(segment.len), self.una);
        let late = match range {
            Range::Fills(before) => is_late(behind, before, round_trip, self.ids).then_some(before),
            _ => None,
        };
        let again = range != Range::New && late.is_none();
        self.first_data = self.first_data.or(Some(seen.at));
        self.last_data = Some(seen.at);
        self.largest = self.largest.max(segment.len);
        if again {
            let known = if end <= self.una {
                Known::Acknowledged
            } else if self.sacked.covers(start.max(self.una), end) {
                Known::Sacked
            } else {
                Known::No
            };
            self.again.retransmitted(start, end, seen.at, stamp, known);
            // Karn: the ACK that ends the round answers the retransmission, or waited for it.
            if let Some(open) = self.open.as_mut().filter(|open| start < open.marker) {
                open.seen.ambiguous = true;
            }
        } else if late.is_some() {
            self.again.late(start, end, seen.at);
        }
        self.count(seen, again, range, late.map(|before| behind.index.saturating_sub(before.index).max(1)));
        self.join_round(seen, end, again, late.is_some());
    }

    fn count(&mut self, seen: &Seen<'_>, again: bool, range: Range, extent: Option<u64>) {
        let (counters, len) = (&mut self.counters, u64::from(seen.segment.len));
        counters.packets += 1;
        counters.bytes += len;
        counters.ce += u64::from(seen.ecn == Ecn::Ce);
        counters.ect += u64::from(seen.ecn.is_capable());
        if again {
            counters.retransmissions += 1;
            counters.retransmitted_bytes += len;
            counters.lost_before += u64::from(matches!(range, Range::Fills(_)));
        }
        if let Some(extent) = extent {
            counters.reordered += 1;
            counters.sum_of_extents += extent;
            counters.largest_extent = counters.largest_extent.max(extent);
            counters.beyond_three += u64::from(extent >= 3);
        }
    }

    fn join_round(&mut self, seen: &Seen<'_>, end: u64, again: bool, late: bool) {
        let window = self.window;
        let open = self.open.get_or_insert_with(|| Open::new(end, seen.at, window, again || late));
        let round = &mut open.seen;
        round.bytes += u64::from(seen.segment.len);
        round.packets += 1;
        round.retransmissions += u64::from(again);
        round.reordered += u64::from(late);
        round.ce += u64::from(seen.ecn == Ecn::Ce);
        let room = self.edge.map(|edge| edge.saturating_sub(self.sequence.nxt));
        round.window_limited |= room.is_some_and(|room| room < u64::from(self.largest));
    }

    /// An ACK arrives from the receiver. `window` is its window in bytes, when the scale is known.
    pub fn ack(&mut self, seen: &Seen<'_>, window: Option<u64>, feedback: EcnFeedback, path: Path<'_>) {
        let segment = &seen.segment;
        let Some(ack) = self.sequence.position(segment.ack) else { return };
        if self.una > 0 && ack > self.sequence.nxt.saturating_add(FARTHEST / 4) && !self.continues(ack) {
            return;
        }
        self.counters.acks += 1;
        let is_syn = segment.flags.has(Flags::SYN);
        let ece = feedback != EcnFeedback::Accurate && segment.flags.has(Flags::ECE) && !is_syn;
        self.counters.ece += u64::from(ece);
        if let Some(open) = &mut self.open {
            open.seen.acks += 1;
            open.seen.ece += u64::from(ece);
        }
        if ack >= self.una {
            // A window of unknown scale replaces what was known.
            self.edge = window.map(|window| ack.saturating_add(window));
            self.window = window;
            // The first ACK of a client has the code of the SYN-ACK instead of the counter (RFC 9768 section 3.2.2.1).
            if feedback == EcnFeedback::Accurate && !is_syn && ack > ORIGIN {
                self.marks(segment);
            }
        }
        self.lengths.answer(ack, self.una);
        let echo = segment.options.timestamps.map(|stamps| stamps.ecr);
        if ack > self.una {
            self.duplicate_acks = 0;
            self.overtaken(ack);
            if self.sequence.nxt < ack && ack <= self.probed {
                self.probe_accepted(ack);
            }
            self.counters.unseen_bytes +=
                if self.una == 0 { 0 } else { self.sequence.acknowledge(ack, seen.at) };
            self.sequence.nxt = self.sequence.nxt.max(ack);
            let before = std::mem::replace(&mut self.una, ack);
            self.advanced = Some(seen.at);
            self.again.acknowledged(before, ack, seen.at, echo, path.receiver());
            self.answered(seen.at, path);
        } else if ack == self.una
            && segment.len == 0
            && self.outstanding() > 0
            && (seen.id == 0 || seen.id != self.answer_id)
        {
            self.duplicate_acks = self.duplicate_acks.saturating_add(1);
        }
        self.answer_id = seen.id;
        if !segment.options.sack.is_empty() {
            self.sacks(&segment.options.sack, ack, seen.at, path);
        }
    }

    /// The receiver accepted the byte of a probe: it was data.
    fn probe_accepted(&mut self, ack: u64) {
        self.counters.packets += 1;
        self.counters.bytes += ack - self.sequence.nxt;
        self.counters.window_probes = self.counters.window_probes.saturating_sub(1);
        self.sequence.nxt = ack;
    }

    /// Counts the marks that accurate ECN reports.
    fn marks(&mut self, segment: &Segment) {
        let reported = self.counter.read(segment);
        self.counters.ce_reported += reported.packets;
        self.counters.ce_reported_bytes += reported.bytes;
        if let Some(open) = &mut self.open {
            open.seen.ce_reported += reported.packets;
        }
    }

    /// What was counted as ECE is the counter of accurate ECN.
    pub fn forget_echoes(&mut self) {
        self.counters.ece = 0;
        if let Some(open) = &mut self.open {
            open.seen.ece = 0;
        }
    }

    /// The ACK of the round passes the capture point. It reaches the sender after the time from here to the sender, which is estimated
    /// from the round trip that data packets show.
    fn answered(&mut self, at: Time, path: Path<'_>) {
        if let Some(open) = &mut self.open
            && open.closes.is_none()
            && self.una >= open.marker
        {
            open.closes = Some(at.saturating_add(path.to_sender()));
        }
    }

    /// Whether the ACK of the round has reached the sender by `now`.
    #[inline]
    pub fn closes_by(&self, now: Time) -> bool {
        self.open.as_ref().and_then(|open| open.closes).is_some_and(|closes| closes <= now)
    }

    /// Closes the round whose ACK has reached the sender by `now`.
    pub fn close_round(&mut self, now: Time, first: Time) -> Option<Round> {
        let open = self.open.as_ref()?;
        let end = open.closes.filter(|closes| *closes <= now)?;
        let number = self.number?;
        self.rounds += 1;
        let mut round = open.close(number, self.rounds, end, first);
        let most = u64::from(self.largest);
        round.window_limited |= open.window.is_some_and(|window| round.bytes + most > window);
        self.open = None;
        self.counters.window_limited_rounds += u64::from(round.window_limited);
        if let Some(time) = round_trip(&round) {
            self.round_trips.get_or_insert_default().add(time);
            if !round.stalled {
                self.smoothed = Some(self.smoothed.map_or(time, |old| {
                    Dur::from_nanos(old.as_nanos() - old.as_nanos() / 8 + time.as_nanos() / 8)
                }));
            }
        }
        Some(round)
    }

    /// Adds a silence that began `start` after the first packet. Silences between the probes of a closed window are one stall.
    pub fn add_stall(&mut self, cause: StallCause, start: Dur, length: Dur) {
        let before = self.closed.filter(|(una, ..)| cause == StallCause::ClosedWindow && *una == self.una);
        let (begin, whole) =
            before.map_or((start, length), |(_, begin, sum)| (begin, sum.saturating_add(length)));
        if before.is_some() {
            self.stalls.extend(cause, begin, length, whole);
        } else {
            self.stalls.add(cause, start, length);
        }
        self.closed = (cause == StallCause::ClosedWindow).then_some((self.una, begin, whole));
    }

    /// The connection was silent for longer than its round trips explain.
    pub fn stalled(&mut self) {
        if let Some(open) = &mut self.open {
            open.seen.stalled = true;
        }
    }

    /// A gap that SACK had reported closes: without a retransmission the packets were only late.
    fn overtaken(&mut self, ack: u64) {
        let Some((least, above)) = self.sacked.lowest() else { return };
        self.sacked.acknowledge(ack);
        if least > ack || least <= self.una || self.again.covers(self.una, least) {
            return;
        }
        let extent = above.div_ceil(u64::from(self.largest.max(1)));
        let counters = &mut self.counters;
        counters.reordered_behind += 1;
        counters.largest_extent_behind = counters.largest_extent_behind.max(extent);
    }

    /// The positions of a block.
    fn range(&self, block: SackBlock) -> Option<(u64, u64)> {
        let (start, end) =
            (self.sequence.known_position(block.start)?, self.sequence.known_position(block.end)?);
        (start < end && end <= self.sequence.nxt.saturating_add(FARTHEST)).then_some((start, end))
    }

    fn sacks(&mut self, blocks: &SackBlocks, ack: u64, at: Time, path: Path<'_>) {
        let [first, second] = [0, 1].map(|place| blocks.get(place).and_then(|block| self.range(*block)));
        let Some((start, end)) = first else { return };
        // RFC 2883 section 4: below the cumulative ACK, or inside the second block.
        let is_duplicate = end <= ack || second.is_some_and(|(from, to)| from <= start && end <= to);
        if is_duplicate {
            self.duplicate(start, end, path);
        }
        for block in blocks.iter().skip(usize::from(is_duplicate)) {
            if let Some((start, end)) = self.range(*block).filter(|(start, _)| ack <= *start) {
                self.again.sacked(start, end, at, path.receiver());
                self.sacked.add(start, end);
                self.lengths.arrived(start, end);
            }
        }
    }

    /// A DSACK.
    fn duplicate(&mut self, start: u64, end: u64, path: Path<'_>) {
        if self.again.duplicate(start, end) {
            return;
        }
        match self.copies.duplicate(start, end, self.shown(path)) {
            Twice::Unknown => self.counters.unexplained_dsacks += 1,
            Twice::Probe => {}
            Twice::Network => self.counters.network_duplicates += 1,
            Twice::Retransmission(len) => {
                self.counters.duplicates = self.counters.duplicates.saturating_sub(1);
                self.counters.packets += 1;
                self.counters.bytes += u64::from(len);
                self.counters.retransmissions += 1;
                self.counters.retransmitted_bytes += u64::from(len);
                self.again.spurious.dsack += 1;
            }
        }
    }
}
