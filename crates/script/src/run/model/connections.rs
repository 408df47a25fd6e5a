//! The connections of the model, the virtual clock, and the packets that were sent and not compared with the script yet.

use super::error_queue::ErrorQueue;
use crate::run::sequence_map::SequenceMap;
use std::collections::VecDeque;
use tcpassay_tcp::{Connection, FastOpen, LogEntry, Outgoing};
use tcpassay_units::{Bytes, Time};
use tcpassay_wire::Flags;

/// The hop limit of packets by default, on Linux and FreeBSD.
pub(super) const DEFAULT_HOP_LIMIT: u8 = 64;

/// The number of log entries in the report of a failure.
const MAX_LOG_ENTRIES: usize = 24;

/// A route whose MTU changed, with the new segment size without options. Linux looks the route up when it sends, and uses the
/// new size from the next transmission on.
#[derive(Clone, Copy, Debug)]
pub(super) enum RouteMtu {
    Changed(Bytes),
    LookedUp(Bytes),
}

/// The times of the last data segments. Before the first one, the time when the connection opened (`lrcvtime` and `lsndtime`
/// of Linux).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DataTimes {
    pub received: Time,
    pub sent: Time,
    open: bool,
    /// Bytes received in order.
    pub bytes: u64,
}

/// A connection of the model with its state in the script.
#[derive(Clone, Debug)]
pub(super) struct ModelConnection {
    pub conn: Connection,
    pub map: SequenceMap,
    /// The connection has received a packet of the script.
    pub begun: bool,
    /// The error of the ICMP message that ended the connection.
    pub icmp_error: Option<&'static str>,
    pub route: Option<RouteMtu>,
    pub errors: ErrorQueue,
    /// Number of times that a writer that waits for send buffer space was woken.
    pub write_wakeups: u64,
    /// The TOS byte of outbound packets without the ECN field.
    pub tos: u8,
    /// The hop limit of outbound packets.
    pub hops: u8,
    pub times: DataTimes,
    /// The SYN carries no options (`TCP_NOOPT`).
    pub no_options: bool,
    /// The last [`MAX_LOG_ENTRIES`] log entries.
    pub log: VecDeque<LogEntry>,
}

/// A packet that a connection sent.
#[derive(Clone, Debug)]
pub(super) struct QueuedPacket {
    pub at: Time,
    pub connection: usize,
    pub out: Outgoing,
    pub tos: u8,
    pub hops: u8,
    /// The Fast Open option of a SYN.
    pub fast_open: Option<FastOpen>,
}

/// All connections of the model, with their clock and their output.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionTable {
    pub now: Time,
    pub connections: Vec<ModelConnection>,
    /// Packets that were sent and not read by the runner yet.
    pub sent: VecDeque<QueuedPacket>,
    /// The interface has no TSO: GSO packets are segmented before the script sees them.
    pub no_tso: bool,
    /// The queue of the interface drops every packet.
    pub local_drop: bool,
    /// The number of timers that expired.
    pub steps: u64,
}

impl ConnectionTable {
    pub fn add(&mut self, conn: Connection, map: SequenceMap) -> usize {
        let mut conn = conn;
        conn.set_log(true);
        if self.local_drop {
            conn.set_local_drop(true);
        }
        self.connections.push(ModelConnection {
            conn,
            map,
            begun: false,
            icmp_error: None,
            route: None,
            errors: ErrorQueue::default(),
            write_wakeups: 0,
            times: DataTimes::default(),
            tos: 0,
            hops: DEFAULT_HOP_LIMIT,
            no_options: false,
            log: VecDeque::new(),
        });
        self.connections.len() - 1
    }

    /// Reads packets, error queue entries and log entries of a connection after an event.
    pub fn flush(&mut self, index: usize) {
        let entry = &mut self.connections[index];
        if let Some(RouteMtu::LookedUp(size)) = entry.route {
            entry.route = None;
            entry.conn.set_path(self.now, size, false);
        }
        while let Some(out) = entry.conn.poll_transmit(self.now) {
            if let Some(RouteMtu::Changed(size)) = entry.route {
                entry.route = Some(RouteMtu::LookedUp(size));
            }
            if self.local_drop {
                continue;
            }
            let at = self.now;
            let (tos, hops) = (entry.tos, entry.hops);
            let s = &out.segment;
            if s.len > 0 {
                entry.times.sent = at;
            }
            if s.len > 0 && entry.errors.waits() {
                let syn = s.flags.has(Flags::SYN);
                let start = s.seq.distance(entry.map.iss + u32::from(!syn));
                let start = u64::try_from(start).unwrap_or(0);
                entry.errors.left(at, start, start + u64::from(s.len));
            }
            // The interface cannot segment packets with an ACE counter (`NETIF_F_GSO_ACCECN`), so the stack does it.
            let apart = self.no_tso || entry.conn.agreed_options().accurate;
            if apart && !out.segment.flags.has(Flags::SYN) {
                self.sent.extend(pieces(out).map(|out| QueuedPacket {
                    at,
                    connection: index,
                    out,
                    tos,
                    hops,
                    fast_open: None,
                }));
            } else {
                let syn = out.segment.flags.has(Flags::SYN);
                let fast_open = entry.conn.sent_fast_open().filter(|_| syn).cloned();
                self.sent.push_back(QueuedPacket { at, connection: index, out, tos, hops, fast_open });
            }
        }
        let bytes = entry.conn.info().bytes_received.get();
        let opened = !entry.times.open && entry.conn.was_established();
        if opened {
            (entry.times.open, entry.times.sent) = (true, self.now);
        }
        if opened || bytes > entry.times.bytes {
            (entry.times.received, entry.times.bytes) = (self.now, bytes);
        }
        if entry.errors.waits() {
            entry.errors.acknowledged(self.now, entry.conn.info().bytes_acked.get());
        }
        for event in entry.conn.drain_log() {
            if entry.log.len() == MAX_LOG_ENTRIES {
                entry.log.pop_front();
            }
            entry.log.push_back(event);
        }
    }

    /// Sets whether the queue of the interface drops every packet.
    pub fn set_local_drop(&mut self, on: bool) {
        if on != self.local_drop {
            self.local_drop = on;
            self.connections.iter_mut().for_each(|entry| entry.conn.set_local_drop(on));
        }
    }

    /// The earliest timer of any connection.
    pub fn next_timer(&self) -> Option<Time> {
        self.connections.iter().filter_map(|p| p.conn.next_timer()).min()
    }

    /// Advances the clock to `at` and runs the timers that are due.
    pub fn fire(&mut self, at: Time) {
        self.now = self.now.max(at);
        for index in 0..self.connections.len() {
            if self.connections[index].conn.next_timer().is_some_and(|t| t <= self.now) {
                self.steps += 1;
                self.connections[index].conn.on_timer(self.now);
                self.flush(index);
            }
        }
    }
}

/// The segments of a GSO packet. FIN and PSH are set on the last one, CWR on the first one.
fn pieces(out: Outgoing) -> impl Iterator<Item = Outgoing> {
    let whole = out.segment.len;
    let count = whole.div_ceil(out.mss).max(1);
    (0..count).map(move |i| {
        let mut piece = out;
        let from = i * out.mss;
        let s = &mut piece.segment;
        s.seq = s.seq + from;
        s.len = out.mss.min(whole - from);
        if i + 1 < count {
            s.flags = s.flags.without(Flags::FIN | Flags::PSH);
        }
        if i > 0 {
            s.flags = s.flags.without(Flags::CWR);
        }
        piece
    })
}
