//! Rows of the event log from the segments of a connection end, for ends whose stack logs nothing itself.

use crate::event::{ECT, EventKind, EventRow, Reason};
use crate::reason::{StateChange, TcpState};
use tcpassay_units::{Bytes, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

/// An end of a connection, as far as the segments show it that it sends and receives.
///
/// Positions, windows and retransmissions follow from all segments since the SYN of each direction.
#[derive(Clone, Debug)]
pub struct SegmentLog {
    /// Index of the host of this end.
    pub host: u32,
    /// The flow that this end sends.
    pub flow: u32,
    /// Of this end, then of its peer: the initial sequence number, the position after the last byte sent, the window scale.
    first: [Option<SeqNum>; 2],
    sent: [u64; 2],
    scales: [Option<u8>; 2],
    /// The largest window that each end announced.
    widest: [u64; 2],
    established: bool,
}

/// Whether this end sent a segment or its peer did: an index of the arrays above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SentBy {
    /// This end.
    Own = 0,
    /// Its peer.
    Peer = 1,
}

impl SegmentLog {
    /// An end without segments.
    pub fn new(host: u32, flow: u32) -> SegmentLog {
        SegmentLog {
            host,
            flow,
            first: [None; 2],
            sent: [0; 2],
            scales: [None; 2],
            widest: [0; 2],
            established: false,
        }
    }

    /// The stream position of a sequence number; the SYN has position 0. `None` before the SYN of this direction, and below it.
    #[inline]
    pub fn position(&self, by: SentBy, seq: SeqNum) -> Option<u64> {
        seq.unwrap_near(self.first[by as usize]?, self.sent[by as usize])
    }

    /// Processes a segment. Returns the position of its first byte, and whether it occupies sequence numbers that this
    /// direction has sent before; `None` for a segment whose position is not known. [`SegmentLog::rows`] gives its rows.
    pub fn segment(&mut self, by: SentBy, segment: &Segment) -> Option<(u64, bool)> {
        let from = by as usize;
        if segment.flags.has(Flags::SYN) {
            // The peer has rebooted and opens a connection from the same port: this end still has the old one (RFC 9293 section 3.5.1).
            if self.established && self.first[from] != Some(segment.seq) {
                return Some((0, false));
            }
            self.first[from] = Some(segment.seq);
            self.scales[from] = segment.options.window_scale.map(|shift| shift.min(14));
        }
        self.widest[from] = self.widest[from].max(self.window(by, segment));
        let seq = self.position(by, segment.seq)?;
        let after = seq + u64::from(segment.seq_len());
        let again = after > seq && seq < self.sent[from];
        self.sent[from] = self.sent[from].max(after);
        Some((seq, again))
    }

    /// The rows of a segment for which [`SegmentLog::segment`] returned `seq` and `again`: the segment, its SACK blocks, and the
    /// state when the connection is established.
    pub fn rows(
        &mut self,
        at: Time,
        by: SentBy,
        (segment, ecn): (&Segment, Ecn),
        (seq, again): (u64, bool),
        mut log: impl FnMut(EventRow),
    ) {
        let peer = if by == SentBy::Own { SentBy::Peer } else { SentBy::Own };
        let kind = match (by, again) {
            (SentBy::Peer, _) => EventKind::In,
            (SentBy::Own, false) => EventKind::Out,
            (SentBy::Own, true) => EventKind::Retransmit,
        };
        let outgoing = by == SentBy::Own;
        let stamps = segment.options.timestamps;
        let value = if outgoing { stamps.map(|s| s.ecr) } else { stamps.map(|s| s.val) };
        let ect = outgoing && ecn.is_capable();
        let ack = segment.flags.has(Flags::ACK).then(|| self.position(peer, segment.ack)).flatten();
        let row = |kind| EventRow::new(at, self.host, Some(self.flow), kind);
        log(EventRow {
            why: Reason::Borrowed(if ect { ECT } else { "" }),
            seq: Some(seq),
            ack,
            len: Some(segment.len),
            flags: Some(segment.flags),
            window: Some(Bytes::new(self.window(by, segment))),
            value: value.map(u64::from),
            ce: ecn == Ecn::Ce,
            ..row(kind)
        });
        for block in &segment.options.sack {
            let (Some(start), Some(stop)) =
                (self.position(peer, block.start), self.position(peer, block.end))
            else {
                continue;
            };
            let Ok(len) = u32::try_from(stop.saturating_sub(start)) else { continue };
            log(EventRow { seq: Some(start), len: Some(len), ..row(EventKind::Sack) });
        }
        // The connection is established when both ends have sent a SYN and one has acknowledged the SYN of the other.
        if !self.established && self.first.iter().all(Option::is_some) && !segment.flags.has(Flags::SYN) {
            self.established = true;
            let opened =
                StateChange::Moved { from: Some(TcpState::SynSent), to: Some(TcpState::Established) };
            log(EventRow { why: opened.to_string().into(), ..row(EventKind::State) });
        }
    }

    /// The position after the last byte that an end sent.
    pub fn after(&self, by: SentBy) -> u64 {
        self.sent[by as usize]
    }

    /// The largest window that an end announced, in bytes.
    pub fn widest(&self, by: SentBy) -> u64 {
        self.widest[by as usize]
    }

    fn window(&self, by: SentBy, segment: &Segment) -> u64 {
        let both = self.scales.iter().all(Option::is_some) && !segment.flags.has(Flags::SYN);
        let shift = if both { self.scales[by as usize].unwrap_or(0) } else { 0 };
        u64::from(segment.window) << shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(flags: Flags, seq: u32, ack: u32) -> Segment {
        Segment { seq: SeqNum::new(seq), ack: SeqNum::new(ack), flags, ..Segment::default() }
    }

    #[test]
    fn a_syn_of_another_connection_leaves_the_positions_of_an_established_one() {
        let mut log = SegmentLog::new(1, 1);
        let mut rows = Vec::new();
        let mut see = |by, segment: &Segment| {
            let seen = log.segment(by, segment).expect("a position");
            log.rows(Time::ZERO, by, (segment, Ecn::NotEct), seen, |row| rows.push(row));
            seen
        };
        see(SentBy::Peer, &segment(Flags::SYN, 5000, 0));
        see(SentBy::Own, &segment(Flags::SYN | Flags::ACK, 100, 5001));
        see(SentBy::Peer, &segment(Flags::ACK, 5001, 101));
        assert_eq!(see(SentBy::Peer, &segment(Flags::SYN, 900_000, 0)), (0, false));
        // The answer to it acknowledges what the old connection has received.
        see(SentBy::Own, &segment(Flags::ACK, 101, 5001));
        assert_eq!(rows.last().and_then(|row| row.ack), Some(1));
        assert_eq!(log.position(SentBy::Peer, SeqNum::new(5001)), Some(1));
    }
}
