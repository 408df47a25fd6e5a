//! The packet counters of every element. They detect packets that are lost without a recorded reason.

use std::ops::{Index, IndexMut};

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
    /// It was longer than the MTU of the next link.
    TooLong,
    /// A middlebox had forgotten its connection.
    Forgotten,
}

impl DropReason {
    /// Every reason, in the order of the counters of an element.
    pub const ALL: [DropReason; 9] = [
        DropReason::Full,
        DropReason::Early,
        DropReason::Loss,
        DropReason::Policed,
        DropReason::Thinned,
        DropReason::Checksum,
        DropReason::Ring,
        DropReason::TooLong,
        DropReason::Forgotten,
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
            DropReason::TooLong => "too-long",
            DropReason::Forgotten => "forgotten",
        }
    }
}

/// Packets dropped, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DropCounters([u64; DropReason::ALL.len()]);

impl DropCounters {
    /// Sum over all reasons.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Index<DropReason> for DropCounters {
    type Output = u64;
    fn index(&self, why: DropReason) -> &u64 {
        &self.0[why as usize]
    }
}

impl IndexMut<DropReason> for DropCounters {
    fn index_mut(&mut self, why: DropReason) -> &mut u64 {
        &mut self.0[why as usize]
    }
}

/// The counters of one element. Between two events, `packets_in + made = packets_out + merged + dropped + held`,
/// where `held` is counted in the queues of the element ([`Network::held`](super::Network::held)).
///
/// A super-segment counts as one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Counters {
    /// Packets that arrived.
    pub packets_in: u64,
    /// IP bytes of the packets that arrived.
    pub bytes_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// IP bytes of the packets that left.
    pub bytes_out: u64,
    /// Packets on which this element set CE (or ECE, see [`AckEceMarker`](crate::element::AckEceMarker)), or that it changed (a middlebox).
    pub marked: u64,
    /// Packets created here: copies, and the additional packets of segmentation.
    pub made: u64,
    /// Packets merged into another one here (receive offload).
    pub merged: u64,
    /// Packets dropped here.
    pub dropped: DropCounters,
    /// IP bytes dropped here.
    pub bytes_dropped: u64,
}

impl Counters {
    /// The number of held packets that follows from the other counters. See [`Counters`].
    pub fn balance(&self) -> u64 {
        self.packets_in + self.made - self.packets_out - self.merged - self.dropped.total()
    }
}
