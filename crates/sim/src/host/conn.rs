//! One end of a connection in its host, and the table of both ends.

use crate::engine::{FlowId, TimerId};
use tcpassay_measure as measure;
use tcpassay_tcp::Connection;
use tcpassay_units::Time;
use tcpassay_workload::{ConnKey, Slot};

/// No connection.
pub(super) const NONE: u32 = u32::MAX;

/// One end.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one connection")]
pub(super) struct Conn {
    pub tcp: Connection,
    /// This host and the peer, by their places in the topology.
    pub host: usize,
    pub peer: usize,
    pub flow: FlowId,
    pub key: ConnKey,
    /// The application's end of it; `None` once the application has given it up.
    pub slot: Option<Slot>,
    /// What this end sends, and what it receives, in the recording.
    pub out: measure::FlowId,
    pub into: measure::FlowId,
    pub timer: TimerId,
    /// When the engine will fire `timer`; [`Time::MAX`] when it will not.
    pub armed: Time,
    /// When the application's patience with unsent data ends after its close.
    pub linger_until: Time,
    /// Bytes in the queues of this host.
    pub queued: u64,
    /// A write was not taken whole: the application waits for room.
    pub blocked: bool,
    /// The application does nothing but read: the host reads for it.
    pub only_reads: bool,
    /// The application knows that the connection stands, or that the peer closed.
    pub told_open: bool,
    pub told_closed: bool,
    /// On the list of those that a socket call touched.
    pub touched: bool,
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub key: ConnKey,
    /// Connections of the client and of the server; [`NONE`] before and after.
    pub ends: [u32; 2],
    /// The server took its SYN: another is old.
    pub accepted: bool,
    /// What each end sends, in the recording.
    pub out: [measure::FlowId; 2],
    /// Places are used again: the upper bits of a [`FlowId`].
    pub generation: u32,
    /// Connections of this place so far: for ports and names of dice.
    pub count: u32,
}

/// Bits of a [`FlowId`] that are the place in the table.
const PLACE: u32 = 22;

impl Flow {
    pub fn id(place: usize, generation: u32) -> FlowId {
        let place = u32::try_from(place).expect("fewer than 2^22 connections at once");
        assert!(place < 1 << PLACE, "fewer than 2^22 connections at once");
        FlowId(place | generation << PLACE)
    }

    pub fn place(id: FlowId) -> (usize, u32) {
        ((id.0 & ((1 << PLACE) - 1)) as usize, id.0 >> PLACE)
    }

    pub fn next_generation(generation: u32) -> u32 {
        (generation + 1) & ((1 << (32 - PLACE)) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_used_again_has_another_flow_id() {
        let first = Flow::id(5, 0);
        let second = Flow::id(5, Flow::next_generation(0));
        assert_ne!(first, second);
        assert_eq!(Flow::place(second), (5, 1));
        assert_eq!(Flow::next_generation(1023), 0);
    }
}
