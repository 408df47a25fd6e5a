//! What every element counts, so that no packet can vanish unseen.

use std::ops::{Index, IndexMut};

/// Why an element dropped a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DropReason {
    /// The queue was full.
    Full,
    /// An active queue management decided so (RED, CoDel, PIE, dual queue).
    Early,
    /// Loss on the path.
    Loss,
    /// Above the rate of a policer.
    Policed,
    /// An ACK that the return path thinned out.
    Thinned,
    /// The receiving host's checksum found it damaged.
    Checksum,
    /// No room in the receiving NIC's ring.
    Ring,
}

impl DropReason {
    /// Every reason, in the order of [`Counters::dropped`].
    pub const ALL: [DropReason; 7] = [
        DropReason::Full,
        DropReason::Early,
        DropReason::Loss,
        DropReason::Policed,
        DropReason::Thinned,
        DropReason::Checksum,
        DropReason::Ring,
    ];

    /// The word for it in tables and files.
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

/// Packets dropped, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DropCounters([u64; DropReason::ALL.len()]);

impl DropCounters {
    /// For whatever reason.
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

/// The counters of one element. At any moment between two events
/// `packets_in + made = packets_out + merged + dropped + held`, where `held` is what the element itself finds in its
/// queues ([`Network::held`](super::Network::held)).
///
/// A packet here is one thing handed over: a super-segment counts once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Counters {
    /// Handed to the element.
    pub packets_in: u64,
    /// Their IP bytes.
    pub bytes_in: u64,
    /// Handed on by the element.
    pub packets_out: u64,
    /// Their IP bytes.
    pub bytes_out: u64,
    /// Of those in or out, set to CE here (or, by [`AckEceMarker`](crate::element::AckEceMarker), given ECE).
    pub marked: u64,
    /// Appeared here: copies, and what a split made beyond the packet it split.
    pub made: u64,
    /// Disappeared here into another packet (receive merging).
    pub merged: u64,
    /// Dropped here.
    pub dropped: DropCounters,
    /// IP bytes dropped here.
    pub bytes_dropped: u64,
}

impl Counters {
    /// What should be held, given the rest. See [`Counters`].
    pub fn balance(&self) -> u64 {
        self.packets_in + self.made - self.packets_out - self.merged - self.dropped.total()
    }
}
