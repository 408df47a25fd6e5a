//! What the log of a capture gives to an oracle in addition to its rows.

use crate::needs::EndLog;
use tcpassay_units::Dur;
use tcpassay_wire::{Ecn, Timestamps};

/// What a packet of a capture has in addition to its rows of the event log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// Its number in the capture, from 1.
    pub frame: u64,
    /// Timestamps (RFC 7323).
    pub stamps: Option<Timestamps>,
    /// The option MSS of a SYN.
    pub mss: Option<u16>,
    /// The option SACK-permitted.
    pub sack_permitted: bool,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// True if the captured bytes end inside of the options, or these are malformed: others than the known ones may be there.
    pub cut: bool,
}

/// What the log of a capture gives to an oracle in addition to the recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Captured<'a> {
    pub packets: &'a [Packet],
    /// For each row of the log the packet.
    pub rows: &'a [u32],
    pub ends: &'a [EndLog],
    /// The period in which the capture, or its host, handles packets ([`crate::batches`]); zero if none shows.
    pub resolution: Dur,
}

impl<'a> Captured<'a> {
    /// The packet of a row.
    pub fn packet(&self, row: usize) -> &'a Packet {
        &self.packets[self.rows[row] as usize]
    }
}
