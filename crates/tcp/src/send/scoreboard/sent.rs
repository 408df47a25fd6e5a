//! A record of the scoreboard: one transmission unit and its marks.

use tcpassay_units::Time;

/// Selectively acknowledged.
pub(in crate::send) const SACKED: u16 = 1;
/// Marked lost (stays set while its retransmission is in flight).
pub(in crate::send) const LOST: u16 = 1 << 1;
/// A retransmission of it is in flight.
pub(in crate::send) const RETX: u16 = 1 << 2;
/// It was retransmitted at least once.
pub(in crate::send) const EVER: u16 = 1 << 3;
/// Its last position is the FIN.
pub(in crate::send) const FIN: u16 = 1 << 4;
/// The sender was limited by the application when it was sent.
pub(in crate::send) const APP: u16 = 1 << 5;
/// It carries PSH.
pub(in crate::send) const PUSH: u16 = 1 << 6;
/// RACK has marked it lost and does not examine it again before it is retransmitted, even if the mark is removed.
pub(in crate::send) const JUDGED: u16 = 1 << 7;
/// It continues the super-segment of the record before, whose segments are shorter than the maximum because of an option.
pub(in crate::send) const PART: u16 = 1 << 8;

/// It is SACKed, and shares the buffer of the record before (`tcp_shift_skb_data`).
pub(in crate::send) const JOINED: u16 = 1 << 9;

#[expect(clippy::struct_field_names, reason = "sent_at is when it was sent")]
/// One transmission unit (a segment or a super-segment) that is not cumulatively acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::send) struct Sent {
    /// First position.
    pub start: u64,
    /// Last transmission.
    pub sent_at: Time,
    /// Delivery state when it was last sent.
    pub snap: Snapshot,
    /// Positions, the FIN included.
    pub len: u32,
    /// Marks.
    pub flags: u16,
    /// Transmissions, saturating.
    pub tries: u8,
}

impl Sent {
    /// Position after the last.
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    /// Its bytes of data: the FIN takes a position, but no room in a packet.
    #[inline]
    pub fn payload(&self) -> u64 {
        u64::from(self.len) - u64::from(self.is(FIN))
    }

    /// Its packets.
    #[inline]
    pub fn packets(&self, mss: u64) -> u64 {
        if u64::from(self.len) <= mss { 1 } else { self.payload().div_ceil(mss) }
    }

    /// Its bytes of data in a packet, apart from a shorter last one (`tcp_skb_seglen`).
    fn segment(&self, mss: u64) -> u64 {
        self.payload().min(mss)
    }

    /// Whether Linux moves a record that is SACKed now into the buffer of this one, which is SACKed.
    pub fn takes_in(&self, next: &Sent, mss: u64) -> bool {
        self.is(SACKED) && self.segment(mss) == next.segment(mss)
    }

    /// Sent once, and nothing more is known.
    #[inline]
    pub fn is_clean(&self) -> bool {
        self.flags & (SACKED | LOST | RETX | EVER) == 0
    }

    /// Whether both records have the same marks of delivery and loss.
    #[inline]
    pub fn has_same_marks(&self, other: &Sent) -> bool {
        (self.flags ^ other.flags) & (SACKED | LOST | RETX) == 0
    }

    /// Whether all of `marks` are set.
    #[inline]
    pub fn is(&self, marks: u16) -> bool {
        self.flags & marks == marks
    }
}

/// The delivery state when a segment was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::send) struct Snapshot {
    /// Bytes delivered by then.
    pub delivered: u64,
    /// When the last of them was.
    pub delivered_at: Time,
    /// When the first segment of the sample's flight was sent.
    pub first_sent_at: Time,
}
