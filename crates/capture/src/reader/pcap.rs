//! Classic pcap files (draft-ietf-opsawg-pcap): both byte orders, microseconds and nanoseconds, also those of old versions.

use super::buffer::Buffer;
use super::model::{Found, Interface, LONGEST, LinkType, ReadError};
use std::io::Read;

const HEADER: usize = 24;
const RECORD: usize = 16;

/// The layout of the records of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    big_endian: bool,
    /// Nanoseconds of a unit of the second half of a time.
    unit_ns: u64,
    /// Bytes of a record's header: 16, or 24 in Kuznetzov's variant (`a1b2cd34`).
    record: usize,
    lengths: Lengths,
}

/// The order of the captured length and the length on the wire in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lengths {
    /// The captured length comes first: version 2.4.
    CapturedFirst,
    /// Version 2.3 was written in both orders: the captured length is the smaller one.
    SmallerIsCaptured,
    /// The length on the wire comes first: versions before 2.3, and 543.0 of DG/UX.
    WireFirst,
}

impl Lengths {
    fn of(major: u16, minor: u16) -> Lengths {
        match (major, minor) {
            (2, 0..3) | (543, _) => Lengths::WireFirst,
            (2, 3) => Lengths::SmallerIsCaptured,
            _ => Lengths::CapturedFirst,
        }
    }
}

impl Layout {
    fn half(self, bytes: &[u8], at: usize) -> u16 {
        let two = bytes[at..at + 2].try_into().expect("two bytes");
        if self.big_endian { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) }
    }

    fn word(self, bytes: &[u8], at: usize) -> u32 {
        let four = bytes[at..at + 4].try_into().expect("four bytes");
        if self.big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    }
}

/// Reads the file header; `None` when `magic` is not one of pcap.
pub(super) fn header<R: Read>(
    buffer: &mut Buffer<R>,
    magic: [u8; 4],
) -> Result<Option<(Layout, Interface)>, ReadError> {
    let layout =
        |big_endian, unit_ns, record| Layout { big_endian, unit_ns, record, lengths: Lengths::CapturedFirst };
    let mut layout = match magic {
        [0xd4, 0xc3, 0xb2, 0xa1] => layout(false, 1_000, RECORD),
        [0xa1, 0xb2, 0xc3, 0xd4] => layout(true, 1_000, RECORD),
        [0x4d, 0x3c, 0xb2, 0xa1] => layout(false, 1, RECORD),
        [0xa1, 0xb2, 0x3c, 0x4d] => layout(true, 1, RECORD),
        [0x34, 0xcd, 0xb2, 0xa1] => layout(false, 1_000, RECORD + 8),
        [0xa1, 0xb2, 0xcd, 0x34] => layout(true, 1_000, RECORD + 8),
        _ => return Ok(None),
    };
    if buffer.fill(HEADER)? < HEADER {
        return Err(ReadError::Truncated { offset: 0, what: "file header" });
    }
    layout.lengths = Lengths::of(layout.half(buffer.data(), 4), layout.half(buffer.data(), 6));
    // The upper half of the last word holds the length of the frame check sequence.
    let low = layout.word(buffer.data(), 20) & 0xffff;
    let link = LinkType(u16::try_from(low).expect("16 bits"));
    buffer.consume(HEADER);
    Ok(Some((layout, Interface { name: String::new(), link })))
}

/// The next record.
#[inline]
pub(super) fn next<R: Read>(layout: &Layout, buffer: &mut Buffer<R>) -> Result<Option<Found>, ReadError> {
    let offset = buffer.offset();
    let truncated = ReadError::Truncated { offset, what: "packet" };
    let have = buffer.fill(layout.record)?;
    if have == 0 {
        return Ok(None);
    }
    if have < layout.record {
        return Err(truncated);
    }
    let word = |at| layout.word(buffer.data(), at);
    let (seconds, fraction) = (u64::from(word(0)), u64::from(word(4)));
    let (captured, original_len) = match (layout.lengths, word(8), word(12)) {
        (Lengths::CapturedFirst, captured, wire) | (Lengths::WireFirst, wire, captured) => (captured, wire),
        (Lengths::SmallerIsCaptured, one, other) => (one.min(other), one.max(other)),
    };
    let len = captured as usize;
    if len > LONGEST {
        let why = format!("its length is {captured} bytes, more than {LONGEST}");
        return Err(ReadError::Damaged { offset, what: "packet", why });
    }
    if buffer.fill(layout.record + len)? < layout.record + len {
        return Err(truncated);
    }
    buffer.consume(layout.record + len);
    let at_ns = seconds * 1_000_000_000 + fraction * layout.unit_ns;
    // Some writers store a length on the wire that is shorter than what they captured.
    let original_len = original_len.max(captured);
    Ok(Some(Found { at_ns: Some(at_ns), interface: 0, original_len, start: layout.record, len }))
}
