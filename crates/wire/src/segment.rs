//! TCP segments in parsed form.

use std::fmt;
use std::ops::{BitOr, BitOrAssign, Deref};
use tcpassay_units::SeqNum;

/// The ECN field of an IP header (RFC 3168 section 5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Ecn {
    /// 00: the transport does not support ECN; a router drops the packet instead of marking it.
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
    /// Whether a router may mark the packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }

    /// The two bits of the IP header.
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

/// The nine flag bits of a TCP header, as in bytes 12 and 13 (AE is bit 8; RFC 9293, RFC 9768).
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

    /// These flags except those of `other`.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// The bits of the header.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// From header bits; bits above the ninth are ignored.
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

/// Formats as packetdrill and tcpdump do: `S.`, `P.`, `F.`, `R`, `SEW`, `.`
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

/// The byte counters of an accurate ECN option (RFC 9768 section 3.2.3), 24 bits each. Fields at the end of the
/// option's order may be omitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccEcn {
    /// Kind 174, with EE1B first and EE0B last; otherwise kind 172, with EE0B first.
    pub e1b_first: bool,
    /// Number of fields, 0 to 3.
    pub fields: u8,
    /// Payload bytes that arrived as ECT(0), CE, ECT(1) (EE0B, ECEB, EE1B); omitted fields are 0.
    pub counts: [u32; 3],
}

impl AccEcn {
    /// The first `fields` fields of the option's order, from the three counters, reduced to 24 bits.
    pub fn of(e1b_first: bool, fields: u8, counts: [u32; 3]) -> AccEcn {
        let mut option = AccEcn { e1b_first, fields, counts: [0; 3] };
        for place in (AccEcn { e1b_first, fields, counts }).order() {
            option.counts[place] = counts[place] & 0xff_ffff;
        }
        option
    }

    /// The fields of the option as indices of [`counts`](AccEcn::counts), in the option's order.
    pub fn order(&self) -> impl Iterator<Item = usize> {
        let order = if self.e1b_first { [2, 1, 0] } else { [0, 1, 2] };
        order.into_iter().take(usize::from(self.fields))
    }

    /// Bytes of the option, without padding.
    pub fn wire_len(&self) -> u32 {
        2 + 3 * u32::from(self.fields)
    }
}

/// Up to four SACK blocks (three with timestamps), in the order of the option. A first block at or below the
/// cumulative ACK, or inside the second block, is a DSACK (RFC 2883 section 4).
///
/// The type dereferences to a slice. Unlike `ArrayVec` it is plain data, so that a segment is written in place and
/// copied as a whole. An accurate ECN option is stored in the place of the fourth block, which keeps a segment small:
/// with four blocks a header has space for at most one field of the option, and such an option is not stored.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct SackBlocks {
    len: u8,
    /// The accurate ECN option: 0 without one; otherwise 1, the number of fields, and 8 for the order with EE1B
    /// first.
    accecn: u8,
    /// The upper half of the third counter, which has 24 bits.
    rest: [u8; 2],
    /// The entries from `len` on are zero, except for the accurate ECN option.
    blocks: [SackBlock; 4],
}

impl SackBlocks {
    /// None.
    pub const fn new() -> SackBlocks {
        let none = SackBlock { start: SeqNum::new(0), end: SeqNum::new(0) };
        SackBlocks { len: 0, accecn: 0, rest: [0; 2], blocks: [none; 4] }
    }

    /// Appends a block. Panics when there are four, or three with accurate ECN.
    pub fn push(&mut self, block: SackBlock) {
        assert!(self.accecn == 0 || self.len < 3, "at most 3 SACK blocks beside accurate ECN");
        *self.blocks.get_mut(usize::from(self.len)).expect("at most 4 SACK blocks") = block;
        self.len += 1;
    }

    /// Whether there are no blocks.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there are neither blocks nor an accurate ECN option.
    #[inline]
    pub const fn is_bare(&self) -> bool {
        self.len == 0 && self.accecn == 0
    }

    fn accecn(&self) -> Option<AccEcn> {
        let fields = (self.accecn & 7).checked_sub(1)?;
        let (a, b) = (self.blocks[3].start.get(), self.blocks[3].end.get());
        let [c, d] = self.rest.map(u32::from);
        let counts = [a & 0xff_ffff, b & 0xff_ffff, a >> 24 | c << 8 | d << 16];
        Some(AccEcn { e1b_first: self.accecn & 8 != 0, fields, counts })
    }

    fn set_accecn(&mut self, option: &AccEcn) {
        assert!(self.len <= 3, "at most 3 SACK blocks beside accurate ECN");
        let [a, b, c] = option.counts;
        let [low, middle, high, _] = c.to_le_bytes();
        self.accecn = (1 + option.fields) | if option.e1b_first { 8 } else { 0 };
        self.rest = [middle, high];
        self.blocks[3] = SackBlock {
            start: SeqNum::new(a & 0xff_ffff | u32::from(low) << 24),
            end: SeqNum::new(b & 0xff_ffff),
        };
    }
}

impl Deref for SackBlocks {
    type Target = [SackBlock];

    #[inline]
    fn deref(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.len)]
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

/// TCP options. Absent options are `None`, `false` or empty. Options that any segment may have precede those that
/// only a SYN has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Options {
    /// Timestamps (RFC 7323 section 3).
    pub timestamps: Option<Timestamps>,
    /// SACK blocks (RFC 2018 section 3).
    pub sack: SackBlocks,
    /// Largest segment that the sender of this option accepts (RFC 9293 section 3.7.1); only on SYN.
    pub mss: Option<u16>,
    /// Window scale shift as sent, 0 to 255 (RFC 7323 section 2; receivers treat values above 14 as 14); only on SYN.
    pub window_scale: Option<u8>,
    /// SACK permitted (RFC 2018 section 2); only on SYN.
    pub sack_permitted: bool,
}

impl Options {
    /// The accurate ECN option (RFC 9768 section 3.2.3).
    #[inline]
    pub fn accecn(&self) -> Option<AccEcn> {
        self.sack.accecn()
    }

    /// Adds an accurate ECN option. Panics when there are more than three SACK blocks.
    pub fn set_accecn(&mut self, option: &AccEcn) {
        self.sack.set_accecn(option);
    }

    /// Bytes that an accurate ECN option adds. Bytes beyond a multiple of four replace the NOPs before SACK
    /// permitted, SACK blocks or the window scale, if these suffice (`tcp_options_write` of Linux); otherwise NOPs
    /// follow.
    #[cold]
    fn accecn_len(&self) -> u32 {
        self.accecn().map_or(0, |option| {
            let len = option.wire_len();
            if len % 4 <= self.spare_nops() { len - len % 4 } else { len.next_multiple_of(4) }
        })
    }

    /// Number of NOPs that the end of an accurate ECN option may replace: two, one or none.
    pub(crate) fn spare_nops(&self) -> u32 {
        if !self.sack.is_empty() || self.sack_permitted && self.timestamps.is_none() {
            2
        } else {
            u32::from(self.window_scale.is_some())
        }
    }

    /// Length of these options in a header in the layout of Linux and FreeBSD: each group is padded to four bytes.
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
            (true, _) => 12, // SACK permitted replaces the two NOPs
            (false, true) => 4,
            (false, false) => 0,
        };
        let blocks = u32::try_from(self.sack.len()).expect("at most 4");
        if blocks > 0 {
            len += 4 + 8 * blocks;
        }
        if self.sack.accecn != 0 {
            len += self.accecn_len();
        }
        len
    }
}

/// A TCP segment: header, options and the length of its payload.
///
/// The fields that header prediction reads, including the number of SACK blocks, are in the first 36 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Segment {
    /// Sequence number of the first byte, or of the SYN.
    pub seq: SeqNum,
    /// Next expected sequence number; valid with [`Flags::ACK`].
    pub ack: SeqNum,
    /// Payload bytes. Between a stack and its NIC a segment may contain many MSS (a TSO or GRO super-segment).
    pub len: u32,
    /// Flags.
    pub flags: Flags,
    /// The window field of the header, not scaled.
    pub window: u16,
    /// The urgent pointer; valid with [`Flags::URG`].
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

impl Segment {
    /// Replaces the options by `timestamps`, or by none, when a segment is written over an old one. Fields behind the
    /// first cache line (SACK blocks, accurate ECN, options of a SYN) are written only if the old segment used them.
    /// Its flags and its number of blocks show this, because only a SYN has SYN options.
    #[inline]
    pub fn keep_stamps_only(&mut self, timestamps: Option<Timestamps>) {
        if self.flags.has(Flags::SYN) || !self.options.sack.is_bare() {
            self.options = Options::default();
        }
        self.options.timestamps = timestamps;
        debug_assert_eq!(
            self.options,
            Options { timestamps, ..Options::default() },
            "options of a SYN without one"
        );
    }

    /// Number of sequence numbers that the segment occupies: payload, SYN and FIN (RFC 9293 section 3.4, SEG.LEN).
    #[inline]
    pub fn seq_len(&self) -> u32 {
        self.len + u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN))
    }

    /// The sequence number after the segment's last.
    #[inline]
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
    fn an_accurate_ecn_option_lies_beside_three_blocks_and_takes_nothing_from_them() {
        let block = |n| SackBlock { start: SeqNum::new(n), end: SeqNum::new(n + 1) };
        let mut options = Options { sack: (1..=3).map(block).collect(), ..Options::default() };
        assert_eq!(options.accecn(), None);
        for (e1b_first, fields, counts) in [
            (false, 3, [0xff_ffff, 1, 0xab_cdef]),
            (true, 2, [0, 0x80_0001, 0xff_ffff]),
            (false, 0, [0, 0, 0]),
        ] {
            let option = AccEcn { e1b_first, fields, counts };
            options.set_accecn(&option);
            assert_eq!(options.accecn(), Some(option));
            assert_eq!(&options.sack[..], &[block(1), block(2), block(3)]);
        }
        // 28 of the blocks, and the empty option in the place of their NOPs.
        assert_eq!(options.wire_len(), 28);
        // Five bytes: one of them in that place; eleven: one NOP more.
        for (fields, len) in [(1, 32), (2, 36), (3, 40)] {
            options.set_accecn(&AccEcn { e1b_first: true, fields, counts: [0; 3] });
            assert_eq!(options.wire_len(), len);
        }
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
    fn an_overwritten_segment_keeps_no_options() {
        let stamps = Some(Timestamps { val: 1, ecr: 2 });
        let mut block = SackBlocks::new();
        block.push(SackBlock { start: SeqNum::new(1), end: SeqNum::new(2) });
        let syn =
            Options { mss: Some(1460), window_scale: Some(7), sack_permitted: true, ..Options::default() };
        for (flags, options) in [
            (Flags::SYN, syn),
            (Flags::ACK, Options { sack: block, ..Options::default() }),
            (Flags::ACK, Options { timestamps: Some(Timestamps::default()), ..Options::default() }),
        ] {
            let mut segment = Segment { flags, options, ..Segment::default() };
            segment.keep_stamps_only(stamps);
            assert_eq!(segment.options, Options { timestamps: stamps, ..Options::default() });
            segment.keep_stamps_only(None);
            assert_eq!(segment.options, Options::default());
        }
    }

    #[test]
    fn a_segment_stays_small_enough_for_the_simulator() {
        assert!(size_of::<Segment>() <= 76, "{}", size_of::<Segment>());
        assert!(std::mem::offset_of!(Segment, options.sack) + 4 <= 36);
    }
}
