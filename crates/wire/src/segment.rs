//! The parsed form of a segment.

use std::fmt;
use std::ops::{BitOr, BitOrAssign, Deref};
use tcpassay_units::SeqNum;

/// The ECN field of an IP header (RFC 3168 section 5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Ecn {
    /// 00: the transport does not understand ECN; a router that would mark must drop.
    #[default]
    NotEct,
    /// 01: ECN-capable, used by L4S senders.
    Ect1,
    /// 10: ECN-capable.
    Ect0,
    /// 11: congestion experienced.
    Ce,
}

impl Ecn {
    /// Whether a router may mark instead of dropping.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }

    /// The two bits as they stand in the IP header.
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::NotEct => 0b00,
            Ecn::Ect1 => 0b01,
            Ecn::Ect0 => 0b10,
            Ecn::Ce => 0b11,
        }
    }

    /// From the low two bits of a traffic class or TOS byte.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// The nine flag bits of a TCP header, as they stand in bytes 12 and 13 (AE is bit 8; RFC 9293, RFC 9768).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u16);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x001);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x002);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x004);
    /// Push.
    pub const PSH: Flags = Flags(0x008);
    /// The acknowledgement field is significant.
    pub const ACK: Flags = Flags(0x010);
    /// The urgent pointer is significant.
    pub const URG: Flags = Flags(0x020);
    /// ECN-Echo (RFC 3168).
    pub const ECE: Flags = Flags(0x040);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x080);
    /// Accurate ECN (RFC 9768), formerly NS.
    pub const AE: Flags = Flags(0x100);

    /// Whether every flag of `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any flag of `other` is set.
    pub const fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Without the flags of `other`.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// The bits as they stand in the header.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// From header bits; bits above the ninth are dropped.
    pub const fn from_bits(bits: u16) -> Flags {
        Flags(bits & 0x1ff)
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

/// As packetdrill and tcpdump write them: `S.`, `P.`, `F.`, `R`, `SEW`, `.`
impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: [(Flags, &str); 9] = [
            (Flags::FIN, "F"),
            (Flags::SYN, "S"),
            (Flags::RST, "R"),
            (Flags::PSH, "P"),
            (Flags::ACK, "."),
            (Flags::URG, "U"),
            (Flags::ECE, "E"),
            (Flags::CWR, "W"),
            (Flags::AE, "A"),
        ];
        for (flag, letter) in LETTERS {
            if self.has(flag) {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The timestamps option (RFC 7323 section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamps {
    /// The sender's clock.
    pub val: u32,
    /// The peer's clock, echoed; zero where ACK is not set.
    pub ecr: u32,
}

/// One SACK block: `start` is its first sequence number, `end` the one after its last (RFC 2018 section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlock {
    /// First sequence number of the block.
    pub start: SeqNum,
    /// The sequence number after the last of the block.
    pub end: SeqNum,
}

/// Up to four SACK blocks (three beside timestamps), in the order of the option. A first block at or below the
/// cumulative ACK, or inside the second, is a DSACK (RFC 2883 section 4).
///
/// Read like a slice. Plain memory, unlike an `ArrayVec`: a segment is written where it will lie, and copied whole.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct SackBlocks {
    len: u32,
    /// Those behind the first `len` are zero.
    blocks: [SackBlock; 4],
}

impl SackBlocks {
    /// None.
    pub const fn new() -> SackBlocks {
        let none = SackBlock { start: SeqNum::new(0), end: SeqNum::new(0) };
        SackBlocks { len: 0, blocks: [none; 4] }
    }

    /// Adds one. Panics when there are four.
    pub fn push(&mut self, block: SackBlock) {
        *self.blocks.get_mut(self.len as usize).expect("at most 4 SACK blocks") = block;
        self.len += 1;
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Deref for SackBlocks {
    type Target = [SackBlock];

    #[inline]
    fn deref(&self) -> &[SackBlock] {
        &self.blocks[..self.len as usize]
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}

impl FromIterator<SackBlock> for SackBlocks {
    /// Panics when there are more than four.
    fn from_iter<I: IntoIterator<Item = SackBlock>>(blocks: I) -> SackBlocks {
        let mut all = SackBlocks::new();
        blocks.into_iter().for_each(|block| all.push(block));
        all
    }
}

impl<'a> IntoIterator for &'a SackBlocks {
    type Item = &'a SackBlock;
    type IntoIter = std::slice::Iter<'a, SackBlock>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// TCP options. Absent options are `None`, `false` or empty. What every segment may have lies before what only a SYN has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Options {
    /// Timestamps (RFC 7323 section 3).
    pub timestamps: Option<Timestamps>,
    /// SACK blocks (RFC 2018 section 3).
    pub sack: SackBlocks,
    /// Largest segment that the sender of this option will receive (RFC 9293 section 3.7.1); only on SYN.
    pub mss: Option<u16>,
    /// Window scale shift as sent, 0 to 255 (RFC 7323 section 2; values above 14 are to be read as 14); only on SYN.
    pub window_scale: Option<u8>,
    /// SACK permitted (RFC 2018 section 2); only on SYN.
    pub sack_permitted: bool,
}

impl Options {
    /// Bytes these options occupy in a header as Linux and FreeBSD lay them out: each group padded to four bytes.
    #[inline]
    pub fn wire_len(&self) -> u32 {
        let mut len = 0;
        if self.mss.is_some() {
            len += 4;
        }
        if self.window_scale.is_some() {
            len += 4; // with its NOP
        }
        len += match (self.timestamps.is_some(), self.sack_permitted) {
            (true, _) => 12, // SACK permitted stands where the two NOPs would
            (false, true) => 4,
            (false, false) => 0,
        };
        let blocks = u32::try_from(self.sack.len()).expect("at most 4");
        if blocks > 0 {
            len += 4 + 8 * blocks;
        }
        len
    }
}

/// A TCP segment: header, options and the length of its payload.
///
/// What header prediction looks at lies in its first 36 bytes, the count of SACK blocks included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Segment {
    /// Sequence number of the first byte, or of the SYN.
    pub seq: SeqNum,
    /// Next sequence number expected; meaningful with [`Flags::ACK`].
    pub ack: SeqNum,
    /// Payload bytes. Between a stack and its NIC this may be many MSS (a TSO or GRO super-segment).
    pub len: u32,
    /// Flags.
    pub flags: Flags,
    /// The window field, unscaled as it stands in the header.
    pub window: u16,
    /// The urgent pointer; meaningful with [`Flags::URG`].
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

impl Segment {
    /// Sequence numbers that the segment occupies: payload, SYN and FIN (RFC 9293 section 3.4, SEG.LEN).
    pub fn seq_len(&self) -> u32 {
        self.len + u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN))
    }

    /// The sequence number after the segment's last.
    pub fn end(&self) -> SeqNum {
        self.seq + self.seq_len()
    }

    /// Bytes of the TCP header with options.
    #[inline]
    pub fn header_len(&self) -> u32 {
        20 + self.options.wire_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_print_as_packetdrill_writes_them() {
        assert_eq!((Flags::SYN | Flags::ECE | Flags::CWR).to_string(), "SEW");
        assert_eq!((Flags::PSH | Flags::ACK).to_string(), "P.");
    }

    #[test]
    fn option_lengths_are_those_of_linux() {
        let syn = Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps::default()),
            sack: SackBlocks::new(),
        };
        assert_eq!(syn.wire_len(), 20);
        let mut ack = Options { timestamps: Some(Timestamps::default()), ..Options::default() };
        assert_eq!(ack.wire_len(), 12);
        ack.sack.push(SackBlock::default());
        assert_eq!(ack.wire_len(), 24);
    }

    #[test]
    fn syn_and_fin_each_occupy_a_sequence_number() {
        let segment = Segment {
            flags: Flags::SYN | Flags::FIN,
            len: 10,
            seq: SeqNum::new(u32::MAX),
            ..Segment::default()
        };
        assert_eq!(segment.seq_len(), 12);
        assert_eq!(segment.end(), SeqNum::new(11));
    }

    #[test]
    fn a_segment_stays_small_enough_for_the_simulator() {
        assert!(size_of::<Segment>() <= 76, "{}", size_of::<Segment>());
        assert!(std::mem::offset_of!(Segment, options.sack) + 4 <= 36);
    }
}
