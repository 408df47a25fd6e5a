//! One endpoint of a connection in its host, and the table of connections.

use super::line::Waiting;
use crate::engine::{Core, FlowLabel, HostId, Route, TimerId};
use tcpassay_case::SmallQueues;
use tcpassay_measure as measure;
use tcpassay_tcp::{Connection, State};
use tcpassay_units::Time;
use tcpassay_workload::{ConnKey, SocketId};

/// No connection.
pub(super) const NONE: u32 = u32::MAX;

/// One endpoint of a connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one connection")]
pub(super) struct HostEndpoint {
    pub tcp: Connection,
    /// The fields that all its segments have in common.
    pub route: Route,
    /// Counters since the last update of the recording: for the data that this endpoint sends, and for the data that
    /// it receives.
    pub tally: measure::FlowCounters,
    /// The socket of the application; `None` after the application released it.
    pub slot: Option<SocketId>,
    pub timer: TimerId,
    /// The time at which the engine fires `timer`; [`Time::MAX`] when it is not set.
    pub armed: Time,
    /// The time at which the application closed the connection.
    pub closed: Option<Time>,
    /// The time at which lingering on unsent data ends after the close.
    pub linger_until: Time,
    /// Bytes in the queues of this host, and their limit.
    pub queued: u64,
    /// Size of the last packet with data: of its data, if the host has a line.
    pub last_sent: u32,
    pub small_queues: SmallQueues,
    /// The packets that wait for the line of this host, and the memory of a buffer in addition to its bytes; `None` if the stack
    /// does not ask for them, or the host has no line.
    pub waiting: Option<(Box<Waiting>, u64)>,
    /// The time at which a packet leaves this host for which a write waits.
    pub leaves_at: Time,
    /// A write was not accepted completely; the application waits for free space.
    pub blocked: bool,
    /// The application only reads; the host reads on its behalf.
    pub only_reads: bool,
    /// The application has received the event that the connection is established, or that the peer closed it.
    pub open_reported: bool,
    pub close_reported: bool,
    /// The connection is on the list of connections that a socket call modified.
    pub modified: bool,
    /// Index of this host in the topology.
    pub host: usize,
    pub key: ConnKey,
    /// The flow that this endpoint sends, and the flow that it receives, in the recording.
    pub out: measure::FlowId,
    pub into: measure::FlowId,
}

impl HostEndpoint {
    /// Whether an event for the application is pending.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    pub fn has_pending_event(&mut self) -> bool {
        let mut news = !self.tcp.readable().is_zero() || (self.blocked && self.tcp.check_space());
        let state = self.tcp.state();
        if state == State::Established && self.open_reported {
            // Neither side has closed.
            return news;
        }
        if !self.open_reported && !matches!(state, State::SynSent | State::SynReceived | State::Listen) {
            self.open_reported = true;
            news = true;
        }
        if !self.close_reported && self.tcp.peer_closed() {
            self.close_reported = true;
            news = true;
        }
        news || state == State::Closed
    }

    /// Moves the timer when it is due earlier than set. When it is due later, the timer fires too early and is set
    /// again.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    pub fn arm(&mut self, net: &mut Core) {
        let due = self.tcp.next_timer().unwrap_or(Time::MAX).min(self.linger_until).min(self.leaves_at);
        if due < self.armed {
            self.armed = due;
            net.set_timer(self.timer, due);
        }
    }

    /// Both the connection and its application have finished.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.slot.is_none() && self.tcp.state() == State::Closed
    }
}

/// Both endpoints of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowEntry {
    pub key: ConnKey,
    pub server: HostId,
    /// The connection at the client and at the server; [`NONE`] before it is opened and after it was removed.
    pub ends: [u32; 2],
    /// The server accepted its SYN; a further SYN is a duplicate.
    pub accepted: bool,
    /// The client's end vanished as its host stopped, and may be opened again from the same port: the entry is not used for others.
    pub kept: bool,
    /// Both ends open it.
    pub both_open: bool,
    /// The flow that each endpoint sends, in the recording.
    pub out: [measure::FlowId; 2],
    /// Table entries are reused; the generation is stored in the upper bits of a [`FlowLabel`].
    pub generation: u32,
    /// Number of connections that used this entry so far, for ports and names of random streams.
    pub count: u32,
}

/// Number of bits of a [`FlowLabel`] for the index in the table.
const PLACE: u32 = 22;

impl FlowEntry {
    pub fn id(place: usize, generation: u32) -> FlowLabel {
        let place = u32::try_from(place).expect("fewer than 2^22 connections at once");
        assert!(place < 1 << PLACE, "fewer than 2^22 connections at once");
        FlowLabel(place | generation << PLACE)
    }

    pub fn place(id: FlowLabel) -> (usize, u32) {
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
        let first = FlowEntry::id(5, 0);
        let second = FlowEntry::id(5, FlowEntry::next_generation(0));
        assert_ne!(first, second);
        assert_eq!(FlowEntry::place(second), (5, 1));
        assert_eq!(FlowEntry::next_generation(1023), 0);
    }
}
