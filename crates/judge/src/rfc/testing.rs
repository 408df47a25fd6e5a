//! Logs of captures for tests, segment by segment.
//!
//! End 0 opens the connection with the number 1000, end 1 with 5000; positions in tests count from these numbers, so that data begin at 1.

use crate::capture::Capture;
use crate::needs::Need;
use tcpassay_units::SeqNum;
use tcpassay_wire::{Ecn, Flags, Options, SackBlock, SackBlocks, Segment, Timestamps};

/// Time in microseconds, the end that sends, the segment with positions instead of numbers, the ECN field.
pub(crate) type Line = (u64, usize, Segment);

/// A segment with positions instead of numbers and a window of 60,000 bytes.
pub(crate) fn segment(seq: u32, len: u32, ack: u32, flags: Flags) -> Segment {
    Segment {
        seq: SeqNum::new(seq),
        ack: SeqNum::new(ack),
        len,
        flags,
        window: 60_000,
        urgent: 0,
        options: Options::default(),
    }
}

/// Data of an end that has received nothing.
pub(crate) fn data(seq: u32, len: u32) -> Segment {
    segment(seq, len, 1, Flags::ACK)
}

/// An ACK of an end that has sent nothing.
pub(crate) fn ack(ack: u32) -> Segment {
    segment(1, 0, ack, Flags::ACK)
}

/// An ACK with SACK blocks.
pub(crate) fn sacked(position: u32, blocks: &[(u32, u32)]) -> Segment {
    let mut made = ack(position);
    for (start, end) in blocks {
        made.options.sack.push(SackBlock { start: SeqNum::new(*start), end: SeqNum::new(*end) });
    }
    made
}

/// The same segment with a window field.
pub(crate) fn window(window: u16, segment: Segment) -> Segment {
    Segment { window, ..segment }
}

/// The same segment with timestamps.
pub(crate) fn stamped(val: u32, ecr: u32, mut segment: Segment) -> Segment {
    segment.options.timestamps = Some(Timestamps { val, ecr });
    segment
}

/// A SYN with an MSS of 1000 bytes and SACK-permitted.
pub(crate) fn syn(flags: Flags, ack: u32) -> Segment {
    let mut made = segment(0, 0, ack, flags);
    (made.options.mss, made.options.sack_permitted) = (Some(1000), true);
    made
}

/// A handshake: three packets from time 0 on.
pub(crate) fn opened() -> Vec<Line> {
    vec![
        (0, 0, syn(Flags::SYN, 0)),
        (100, 1, syn(Flags::SYN | Flags::ACK, 1)),
        (200, 0, segment(1, 0, 1, Flags::ACK)),
    ]
}

/// The frames of each finding of an oracle in a capture that lacks nothing.
pub(crate) fn found(oracle: &str, lines: &[Line]) -> Vec<Vec<u64>> {
    judged(oracle, lines, &[], Ecn::NotEct)
}

/// The frames of each finding of an oracle in a capture that lacks something for both ends, and whose data have an ECN field.
pub(crate) fn judged(oracle: &str, lines: &[Line], lacks: &[Need], ecn: Ecn) -> Vec<Vec<u64>> {
    const ZERO: [u32; 2] = [1000, 5000];
    let number = |end: usize, position: SeqNum| SeqNum::new(ZERO[end].wrapping_add(position.get()));
    let numbered = lines.iter().map(|(at, from, segment)| {
        let mut made = *segment;
        made.seq = number(*from, segment.seq);
        made.ack = number(1 - from, segment.ack);
        made.options.sack = SackBlocks::new();
        for block in &segment.options.sack {
            let (start, end) = (number(1 - from, block.start), number(1 - from, block.end));
            made.options.sack.push(SackBlock { start, end });
        }
        (*at, *from, made, if segment.len > 0 { ecn } else { Ecn::NotEct })
    });
    let capture = Capture::made(numbered, lacks);
    let all = capture.judge(&[oracle]);
    assert!(all.iter().all(|one| one.oracle == oracle));
    all.iter().map(|one| capture.frames(&one.rows)).collect()
}
