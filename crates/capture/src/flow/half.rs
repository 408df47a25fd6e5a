//! One direction of a connection: the data that one end sends, and the ACKs of the other end for these data.

use super::again::{Again, is_late};
use super::response::Response;
use super::round::{Open, Round, round_trip};
use super::sequence::{Behind, Range, Sequence};
use super::stall::StallTable;
use crate::histogram::DurationHistogram;
use serde::Serialize;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::{Ecn, Flags, SackBlocks, Segment};

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
    /// Copies that the network made.
    pub duplicates: u64,
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
    /// ACKs of the other end with the flag ECE.
    pub ece: u64,
    /// DSACKs for data of which no retransmission was seen.
    pub unexplained_dsacks: u64,
    /// Probes of a closed window and keepalive probes.
    pub probes: u64,
    /// Retransmissions of the SYN.
    pub syn_retransmissions: u64,
    /// Bytes that were acknowledged, but are not in the capture.
    pub unseen_bytes: u64,
    /// Rounds that the receive window limited.
    pub window_limited_rounds: u64,
}

/// The fields of a packet that one direction uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub at: Time,
    pub ecn: Ecn,
    pub id: u16,
    pub segment: &'a Segment,
    /// The capture does not have all of its options.
    pub cut: bool,
}

/// One direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Half {
    pub sequence: Sequence,
    /// Positions below this are acknowledged; 0 before the first ACK.
    pub una: u64,
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
    open: Option<Open>,
    sacked: SackBlocks,
    /// Position and identification of the last packets, to recognise copies.
    recent: [(u64, u16); 8],
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

    /// A packet with payload or FIN leaves the sender; `round_trip` is the shortest one. FIN and SYN occupy a position each.
    pub fn data(&mut self, seen: &Seen<'_>, round_trip: Option<Dur>) {
        let segment = &seen.segment;
        let fin = u64::from(segment.flags.has(Flags::FIN));
        let seq = if segment.flags.has(Flags::SYN) { segment.seq + 1 } else { segment.seq };
        let Some(start) = self.sequence.position(seq) else { return };
        let end = start + u64::from(segment.len) + fin;
        if end == start {
            return;
        }
        // A probe repeats the last byte, or sends one byte beyond a closed window.
        if segment.len <= 1 && end <= self.sequence.nxt && end <= self.una.max(1) {
            self.counters.probes += 1;
            return;
        }
        let stamp = segment.options.timestamps.map(|stamps| stamps.val);
        let behind = Behind { at: seen.at, index: self.counters.packets, id: seen.id, stamp };
        let range = self.sequence.arrive(start, end, behind);
        if segment.len == 0 {
            return;
        }
        let copy = seen.id != 0 && range == Range::Seen && self.recent.contains(&(start, seen.id));
        let place = usize::try_from(self.counters.packets % 8).expect("below 8");
        self.recent[place] = (start, seen.id);
        if copy {
            self.counters.duplicates += 1;
            return;
        }
        let late = match range {
            Range::Fills(before) => is_late(behind, before, round_trip).then_some(before),
            _ => None,
        };
        let again = range != Range::New && late.is_none();
        self.first_data = self.first_data.or(Some(seen.at));
        self.last_data = Some(seen.at);
        self.largest = self.largest.max(segment.len);
        if again {
            let acked = end <= self.una;
            self.again.retransmitted(start, end, seen.at, stamp, acked);
        } else if late.is_some() {
            self.again.late(start, end, seen.at);
        }
        self.count(seen, again, range, late.map(|before| behind.index - before.index));
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

    /// An ACK arrives from the receiver, whose response times are in `receiver`. `window` is its window in bytes, when the scale is known;
    /// `to_sender` returns the time from the capture point to the sender and back.
    pub fn ack(
        &mut self,
        seen: &Seen<'_>,
        window: Option<u64>,
        receiver: &Response,
        to_sender: impl FnOnce() -> Dur,
    ) {
        let segment = &seen.segment;
        let Some(ack) = self.sequence.position(segment.ack) else { return };
        self.counters.acks += 1;
        let ece = segment.flags.has(Flags::ECE) && !segment.flags.has(Flags::SYN);
        self.counters.ece += u64::from(ece);
        if let Some(window) = window.filter(|_| ack >= self.una) {
            self.edge = Some(ack.saturating_add(window));
            self.window = Some(window);
        }
        if let Some(open) = &mut self.open {
            open.seen.acks += 1;
            open.seen.ece += u64::from(ece);
        }
        let echo = segment.options.timestamps.map(|stamps| stamps.ecr);
        if ack > self.una {
            self.overtaken(ack);
            self.counters.unseen_bytes += if self.una == 0 { 0 } else { self.sequence.acknowledge(ack) };
            self.sequence.nxt = self.sequence.nxt.max(ack);
            let before = std::mem::replace(&mut self.una, ack);
            self.again.acknowledged(before, ack, seen.at, echo, receiver);
            self.answered(seen.at, to_sender);
        }
        self.sacks(&segment.options.sack, ack);
    }

    /// The ACK of the round passes the capture point. It reaches the sender after the time from here to the sender, which is estimated
    /// from the round trip that data packets show.
    fn answered(&mut self, at: Time, to_sender: impl FnOnce() -> Dur) {
        if let Some(open) = &mut self.open
            && open.closes.is_none()
            && self.una >= open.marker
        {
            open.closes = Some(at.saturating_add(to_sender()));
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

    /// The connection was silent for longer than its round trips explain.
    pub fn stalled(&mut self) {
        if let Some(open) = &mut self.open {
            open.seen.stalled = true;
        }
    }

    /// A gap that SACK had reported closes: without a retransmission the packets were only late.
    fn overtaken(&mut self, ack: u64) {
        let blocks = std::mem::take(&mut self.sacked);
        let mut least = u64::MAX;
        let mut above = 0;
        for block in &blocks {
            let (Some(start), Some(end)) =
                (self.sequence.known_position(block.start), self.sequence.known_position(block.end))
            else {
                continue;
            };
            if start >= self.una && end > start {
                least = least.min(start);
                above += end - start;
            }
        }
        if least > ack || least <= self.una || self.again.covers(self.una, least) {
            return;
        }
        let extent = above.div_ceil(u64::from(self.largest.max(1)));
        let counters = &mut self.counters;
        counters.reordered_behind += 1;
        counters.largest_extent_behind = counters.largest_extent_behind.max(extent);
    }

    fn sacks(&mut self, blocks: &SackBlocks, ack: u64) {
        let Some(first) = blocks.first() else { return };
        let position = |seq| self.sequence.known_position(seq);
        if let (Some(start), Some(end)) = (position(first.start), position(first.end)) {
            let within = blocks.get(1).is_some_and(|second| {
                position(second.start).is_some_and(|from| from <= start)
                    && position(second.end).is_some_and(|to| end <= to)
            });
            // RFC 2883 section 4: below the cumulative ACK, or inside the second block.
            if start < end && (end <= ack || within) {
                self.counters.unexplained_dsacks += u64::from(!self.again.duplicate(start, end));
                self.sacked = blocks.iter().skip(1).copied().collect();
                return;
            }
        }
        self.sacked = *blocks;
    }
}
