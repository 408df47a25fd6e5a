//! The log of elements: what happened to each packet at each link, queue, impairment and NIC.
//!
//! Oracles compare it with the specification of each element. It exists in memory only: a recording that was read from a folder has
//! none. A run stops logging after [`ElementLog::MOST`] rows, so that the memory of a long run is bounded.

use tcpassay_units::Time;

/// What happened to a packet at an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElementEvent {
    /// It arrived.
    Arrived,
    /// A port took it from its queue, or a NIC took a batch of which it is the first packet.
    Began,
    /// It left.
    Departed,
    /// It was marked CE, or ECE was set.
    Marked,
    /// It was dropped.
    Dropped(DropReason),
}

/// The reason why an element dropped a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DropReason {
    /// The queue was full.
    Full,
    /// Active queue management dropped it.
    Early,
    /// Loss on the path.
    Loss,
    /// It exceeded the rate of a policer.
    Policed,
    /// ACK thinning dropped it.
    Thinned,
    /// The checksum of the receiving host detected damage.
    Checksum,
    /// The ring of the receiving NIC was full.
    Ring,
}

impl DropReason {
    /// Every reason, in the order of the counters of an element.
    pub const ALL: [DropReason; 7] = [
        DropReason::Full,
        DropReason::Early,
        DropReason::Loss,
        DropReason::Policed,
        DropReason::Thinned,
        DropReason::Checksum,
        DropReason::Ring,
    ];

    /// The name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Full => "full",
            DropReason::Early => "early",
            DropReason::Loss => "loss",
            DropReason::Policed => "policed",
            DropReason::Thinned => "thinned",
            DropReason::Checksum => "checksum",
            DropReason::Ring => "ring",
        }
    }
}

/// The contents of a packet that elements read or change.
#[derive(Clone, Copy, Eq, Debug, Default)]
pub struct ElementPacket {
    /// Number of the packet. It is unique among the packets that exist at the same time.
    pub id: u32,
    /// Number of its connection, the same in both directions.
    pub flow: u32,
    /// IP bytes of all its segments.
    pub size: u32,
    /// Payload bytes.
    pub len: u32,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// A hash of timestamps, SACK blocks and accurate ECN.
    pub options: u32,
    /// Index of the host that sent it.
    pub src: u16,
    /// Index of the host to which it goes.
    pub dst: u16,
    /// Payload bytes of each packet except the last, where there are several.
    pub mss: u16,
    /// Number of packets on the wire.
    pub segs: u16,
    /// Flags of the TCP header.
    pub flags: u16,
    /// Bytes of the headers of one packet.
    pub headers: u16,
    /// The ECN field.
    pub ecn: u8,
    /// [`CORRUPT`](ElementPacket::CORRUPT) and other properties.
    pub is: u8,
}

impl ElementPacket {
    /// It was damaged.
    pub const CORRUPT: u8 = 1;
    /// It is a datagram.
    pub const DATAGRAM: u8 = 2;
    /// Its ECN flags are a counter (accurate ECN).
    pub const COUNTS: u8 = 4;
    /// It has SACK blocks.
    pub const SACK: u8 = 8;
    /// It belongs to the second buffer of a port.
    pub const SECOND: u8 = 16;

    /// Whether it has the property.
    pub const fn is(&self, property: u8) -> bool {
        self.is & property != 0
    }

    /// Whether the packet equals `other` in all fields but [`mss`](ElementPacket::mss). It has no branch for each field, because the packets
    /// are equal in nearly all comparisons.
    #[inline]
    #[must_use]
    pub fn equals_apart_from_mss(&self, other: &ElementPacket) -> bool {
        // A field that is added must be compared here, too.
        let ElementPacket {
            id,
            flow,
            size,
            len,
            seq,
            ack,
            options,
            src,
            dst,
            mss: _,
            segs,
            flags,
            headers,
            ecn,
            is,
        } = *self;
        let words = (id ^ other.id)
            | (flow ^ other.flow)
            | (size ^ other.size)
            | (len ^ other.len)
            | (seq ^ other.seq)
            | (ack ^ other.ack)
            | (options ^ other.options);
        let halves = (src ^ other.src)
            | (dst ^ other.dst)
            | (segs ^ other.segs)
            | (flags ^ other.flags)
            | (headers ^ other.headers);
        let bytes = (ecn ^ other.ecn) | (is ^ other.is);
        words | u32::from(halves) | u32::from(bytes) == 0
    }
}

impl PartialEq for ElementPacket {
    #[inline]
    fn eq(&self, other: &ElementPacket) -> bool {
        self.equals_apart_from_mss(other) && self.mss == other.mss
    }
}

/// A row of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ElementRow {
    /// Time of the event.
    pub at: Time,
    /// Index of the element in [`ElementLog::names`].
    pub element: u16,
    /// The event.
    pub event: ElementEvent,
    /// The packet: with [`ElementEvent::Arrived`] as it arrived, otherwise after the event.
    pub packet: ElementPacket,
}

/// The rows of a run, in the order in which they happened.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ElementLog {
    names: Vec<String>,
    rows: Vec<ElementRow>,
    truncated: bool,
}

impl ElementLog {
    /// The largest number of rows.
    pub const MOST: usize = 1_000_000;

    /// An empty log of the elements with these names.
    pub fn new(names: Vec<String>) -> ElementLog {
        ElementLog { names, rows: Vec::new(), truncated: false }
    }

    /// The names of the elements.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The rows.
    pub fn rows(&self) -> &[ElementRow] {
        &self.rows
    }

    /// Whether rows are missing at the end.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Adds a row.
    pub fn push(&mut self, row: ElementRow) {
        if self.rows.len() < ElementLog::MOST {
            self.rows.push(row);
        } else {
            self.truncated = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_ends_after_its_largest_number_of_rows() {
        let packet = ElementPacket::default();
        let row = ElementRow { at: Time::ZERO, element: 0, event: ElementEvent::Arrived, packet };
        let mut log = ElementLog::new(vec!["link".to_owned()]);
        for _ in 0..ElementLog::MOST {
            log.push(row);
        }
        assert_eq!((log.rows().len(), log.is_truncated()), (1_000_000, false));
        log.push(row);
        assert_eq!((log.rows().len(), log.is_truncated()), (1_000_000, true));
        assert_eq!(size_of::<ElementRow>(), 56);
    }
}
