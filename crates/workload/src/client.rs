//! The state of one client: its open connections, its barrier round, its random streams.

use crate::schedule::{ConnKey, HostIndex, TrafficPart, TrafficSchedule};
use crate::sockets::SocketId;
use tcpassay_units::{Bytes, Stream, Time};

/// The client of one part at one host.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub part: u16,
    pub servers: Vec<HostIndex>,
    /// Its open connections, oldest first.
    pub open: Vec<SocketId>,
    pub opened: u32,
    /// Index of the connection for the next request (round robin).
    pub turn: usize,
    pub stopped: bool,
    /// Its host has stopped (`app.reboot`).
    pub down: bool,
    /// The connections that it opens when its host is back: their servers, and those that they replace.
    pub lost: Vec<(HostIndex, Option<ConnKey>)>,
    pub round: Option<BarrierRound>,
    pub arrivals: Stream,
    pub choice: Stream,
    pub think: Stream,
}

/// The barrier round in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarrierRound {
    pub start: Time,
    pub left: usize,
    pub request: Bytes,
    pub response: Bytes,
    pub ok: bool,
}

impl Client {
    /// The client of `part` at `host`; `None` when it has no server.
    pub fn new(schedule: &TrafficSchedule, at: u16, part: &TrafficPart, host: HostIndex) -> Option<Client> {
        let servers = part.servers_of(host);
        let stream = |what: &str| schedule.stream(&format!("app.{at}.{}.{what}", host.0));
        (!servers.is_empty()).then(|| Client {
            part: at,
            servers,
            open: Vec::new(),
            opened: 0,
            turn: 0,
            stopped: false,
            down: false,
            lost: Vec::new(),
            round: None,
            arrivals: stream("arrival"),
            choice: stream("server"),
            think: stream("think"),
        })
    }
}
