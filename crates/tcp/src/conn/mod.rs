//! One connection: the handshake, the states, and the wire on both sides of them.

use crate::info::Info;
use crate::log::Log;
use crate::{Config, LogEntry, State};
use tcpassay_cc::Controller;
use tcpassay_units::{Bytes, SeqNum, Time};
use tcpassay_wire::{Ecn, Segment};

/// A segment for the network.
#[derive(Clone, PartialEq, Debug)]
pub struct Outgoing {
    /// Header, options and payload length; with TSO the payload may be many MSS.
    pub segment: Segment,
    /// The ECN field of its IP header.
    pub ecn: Ecn,
    /// Payload bytes of each packet into which the NIC cuts it (`gso_size`); at least 1.
    pub mss: u32,
}

/// Why a connection ended without both sides closing it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnError {
    /// The peer reset it.
    #[error("connection reset by peer")]
    Reset,
    /// The peer did not answer: retransmissions, probes or the user timeout ran out.
    #[error("connection timed out")]
    TimedOut,
    /// The peer answered the SYN with a reset.
    #[error("connection refused")]
    Refused,
}

/// One end of one TCP connection, sans I/O.
///
/// After every call that may change something (`on_segment`, `on_timer`, `write`, `read`, `shutdown`, ...) the host calls
/// [`poll_transmit`](Connection::poll_transmit) until it gives `None`, and then looks at
/// [`next_timer`](Connection::next_timer).
#[derive(Clone, Debug)]
pub struct Connection {
    cfg: Config,
    cc: Box<dyn Controller>,
    state: State,
    log: Log,
}

#[expect(
    missing_docs,
    clippy::unused_self,
    clippy::needless_pass_by_value,
    reason = "signatures first; bodies follow"
)]
#[allow(unused_variables, clippy::missing_const_for_fn)]
impl Connection {
    pub fn connect(
        cfg: &Config,
        cc: Box<dyn Controller>,
        iss: SeqNum,
        ts_offset: u32,
        now: Time,
    ) -> Connection {
        Connection { cfg: cfg.clone(), cc, state: State::SynSent, log: Log::default() }
    }
    pub fn listen(cfg: &Config, cc: Box<dyn Controller>, iss: SeqNum, ts_offset: u32) -> Connection {
        Connection { cfg: cfg.clone(), cc, state: State::Listen, log: Log::default() }
    }
    pub fn on_segment(&mut self, now: Time, segment: &Segment, ecn: Ecn) {}
    pub fn poll_transmit(&mut self, now: Time) -> Option<Outgoing> {
        None
    }
    pub fn next_timer(&self) -> Option<Time> {
        None
    }
    pub fn on_timer(&mut self, now: Time) {}
    pub fn write(&mut self, now: Time, n: Bytes) -> Bytes {
        Bytes::ZERO
    }
    pub fn writable(&self) -> Bytes {
        Bytes::ZERO
    }
    pub fn read(&mut self, now: Time, n: Bytes) -> Bytes {
        Bytes::ZERO
    }
    pub fn readable(&self) -> Bytes {
        Bytes::ZERO
    }
    pub fn peer_closed(&self) -> bool {
        false
    }
    pub fn shutdown(&mut self, now: Time) {}
    pub fn close(&mut self, now: Time) {}
    pub fn abort(&mut self, now: Time) {}
    pub fn set_nodelay(&mut self, now: Time, on: bool) {}
    pub fn set_cork(&mut self, now: Time, on: bool) {}
    pub fn set_quickack(&mut self, now: Time, on: bool) {}
    pub fn error(&self) -> Option<ConnError> {
        None
    }
    pub fn state(&self) -> State {
        self.state
    }
    pub fn info(&self) -> Info {
        Info { state: self.state, controller: self.cc.name(), ..Info::empty() }
    }
    pub fn set_log(&mut self, on: bool) {
        self.log.set(on);
    }
    pub fn drain_log(&mut self) -> impl Iterator<Item = LogEntry> + '_ {
        self.log.drain()
    }
}
