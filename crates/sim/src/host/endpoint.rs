//! One end of a connection in its host, and the table of both ends.

use crate::engine::{Core, FlowKey, HostId, Route, TimerId};
use tcpassay_case::SmallQueues;
use tcpassay_measure as measure;
use tcpassay_tcp::{Connection, State};
use tcpassay_units::Time;
use tcpassay_workload::{ConnKey, SocketId};

/// No connection.
pub(super) const NONE: u32 = u32::MAX;

/// One end.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one connection")]
pub(super) struct Endpoint {
    pub tcp: Connection,
    /// What its segments have in common.
    pub route: Route,
    /// What passed since the recording was last told: of what this end sends, and of what it receives.
    pub tally: measure::FlowCounters,
    /// The application's end of it; `None` once the application has given it up.
    pub slot: Option<SocketId>,
    pub timer: TimerId,
    /// When the engine will fire `timer`; [`Time::MAX`] when it will not.
    pub armed: Time,
    /// When the application closed it.
    pub closed: Option<Time>,
    /// When the application's patience with unsent data ends after its close.
    pub linger_until: Time,
    /// Bytes in the queues of this host, and how many there may be.
    pub queued: u64,
    /// Size of the last packet with data.
    pub last_sent: u32,
    pub small_queues: SmallQueues,
    /// A write was not taken whole: the application waits for room.
    pub blocked: bool,
    /// The application does nothing but read: the host reads for it.
    pub only_reads: bool,
    /// The application knows that the connection stands, or that the peer closed.
    pub told_open: bool,
    pub told_closed: bool,
    /// On the list of those that a socket call touched.
    pub touched: bool,
    /// This host, by its place in the topology.
    pub host: usize,
    pub key: ConnKey,
    /// What this end sends, and what it receives, in the recording.
    pub out: measure::FlowId,
    pub into: measure::FlowId,
}

impl Endpoint {
    /// Whether the application has to be told something.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    pub fn has_news(&mut self) -> bool {
        let mut news = !self.tcp.readable().is_zero() || (self.blocked && self.tcp.check_space());
        let state = self.tcp.state();
        if state == State::Established && self.told_open {
            // Nobody has closed.
            return news;
        }
        if !self.told_open && !matches!(state, State::SynSent | State::SynReceived | State::Listen) {
            self.told_open = true;
            news = true;
        }
        if !self.told_closed && self.tcp.peer_closed() {
            self.told_closed = true;
            news = true;
        }
        news || state == State::Closed
    }

    /// Sets the timer when it is due sooner than it would fire; a timer that moved back fires in vain.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    pub fn arm(&mut self, net: &mut Core) {
        let due = self.tcp.next_timer().unwrap_or(Time::MAX).min(self.linger_until);
        if due < self.armed {
            self.armed = due;
            net.set_timer(self.timer, due);
        }
    }

    /// Both the connection and its application are done.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.slot.is_none() && self.tcp.state() == State::Closed
    }
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowEntry {
    pub key: ConnKey,
    pub server: HostId,
    /// Connections of the client and of the server; [`NONE`] before and after.
    pub ends: [u32; 2],
    /// The server took its SYN: another is old.
    pub accepted: bool,
    /// What each end sends, in the recording.
    pub out: [measure::FlowId; 2],
    /// Places are used again: the upper bits of a [`FlowKey`].
    pub generation: u32,
    /// Connections of this place so far: for ports and names of rng.
    pub count: u32,
}

/// Bits of a [`FlowKey`] that are the place in the table.
const PLACE: u32 = 22;

impl FlowEntry {
    pub fn id(place: usize, generation: u32) -> FlowKey {
        let place = u32::try_from(place).expect("fewer than 2^22 connections at once");
        assert!(place < 1 << PLACE, "fewer than 2^22 connections at once");
        FlowKey(place | generation << PLACE)
    }

    pub fn place(id: FlowKey) -> (usize, u32) {
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
