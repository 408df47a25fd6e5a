//! Virtual time: connections, their timers, and the packets that they sent and the script has not looked at yet.

use super::error_queue::ErrorQueue;
use crate::run::sequence_map::Map;
use std::collections::VecDeque;
use tcpassay_tcp::{Connection, FastOpen, LogEntry, Outgoing};
use tcpassay_units::{Bytes, Time};
use tcpassay_wire::Flags;

/// What both systems begin with.
pub(super) const HOPS: u8 = 64;

/// How many entries of the stack's log a mismatch shows.
const REMEMBERED: usize = 24;

/// A route that carries segments of another size (without options) than before. Linux looks it up when it sends, and thinks of
/// it when it sends next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Route {
    Changed(Bytes),
    Found(Bytes),
}

/// When data came and went last; before the first, when the connection opened (`lrcvtime` and `lsndtime` of Linux).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub received: Time,
    pub sent: Time,
    open: bool,
    /// Bytes received in order so far.
    pub bytes: u64,
}

/// One connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub conn: Connection,
    pub map: Map,
    /// A packet of the script has come to it.
    pub begun: bool,
    /// The error of an ICMP message that ended it.
    pub icmp_error: Option<&'static str>,
    pub route: Option<Route>,
    pub errors: ErrorQueue,
    /// How often a writer was woken that had found no room.
    pub rooms: u64,
    /// The TOS byte of its packets, less ECN.
    pub tos: u8,
    /// The hop limit of its packets.
    pub hops: u8,
    /// What it has received and sent.
    pub times: Times,
    /// Its SYN has no options (`TCP_NOOPT`).
    pub bare: bool,
    /// Its last log entries.
    pub log: VecDeque<LogEntry>,
}

/// A packet of the stack.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub at: Time,
    pub peer: usize,
    pub out: Outgoing,
    pub tos: u8,
    pub hops: u8,
    /// The option of a SYN.
    pub fast_open: Option<FastOpen>,
}

/// Everything that has a time.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub now: Time,
    pub peers: Vec<Peer>,
    /// Sent and not looked at.
    pub sent: VecDeque<Live>,
    /// Super-segments are cut before they are seen: the interface has no TSO.
    pub cut: bool,
    /// The interface refuses everything.
    pub jammed: bool,
    /// Timers run and segments handled.
    pub steps: u64,
}

impl World {
    pub fn add(&mut self, conn: Connection, map: Map) -> usize {
        let mut conn = conn;
        conn.set_log(true);
        if self.jammed {
            conn.set_jammed(true);
        }
        self.peers.push(Peer {
            conn,
            map,
            begun: false,
            icmp_error: None,
            route: None,
            errors: ErrorQueue::default(),
            rooms: 0,
            times: Times::default(),
            tos: 0,
            hops: HOPS,
            bare: false,
            log: VecDeque::new(),
        });
        self.peers.len() - 1
    }

    /// Collects what the connection has to say after something happened to it.
    pub fn flush(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        if let Some(Route::Found(size)) = peer.route {
            peer.route = None;
            peer.conn.set_path(self.now, size, false);
        }
        while let Some(out) = peer.conn.poll_transmit(self.now) {
            if let Some(Route::Changed(size)) = peer.route {
                peer.route = Some(Route::Found(size));
            }
            if self.jammed {
                continue;
            }
            let at = self.now;
            let (tos, hops) = (peer.tos, peer.hops);
            let s = &out.segment;
            if s.len > 0 {
                peer.times.sent = at;
            }
            if s.len > 0 && peer.errors.waits() {
                let syn = s.flags.has(Flags::SYN);
                let start = s.seq.distance(peer.map.iss + u32::from(!syn));
                let start = u64::try_from(start).unwrap_or(0);
                peer.errors.left(at, start, start + u64::from(s.len));
            }
            // No interface of packetdrill's cuts what has a counter in its flags (`NETIF_F_GSO_ACCECN`).
            let apart = self.cut || peer.conn.agreed_options().accurate;
            if apart && !out.segment.flags.has(Flags::SYN) {
                self.sent.extend(pieces(out).map(|out| Live {
                    at,
                    peer: index,
                    out,
                    tos,
                    hops,
                    fast_open: None,
                }));
            } else {
                let syn = out.segment.flags.has(Flags::SYN);
                let fast_open = peer.conn.sent_fast_open().filter(|_| syn).cloned();
                self.sent.push_back(Live { at, peer: index, out, tos, hops, fast_open });
            }
        }
        let bytes = peer.conn.info().bytes_received.get();
        let opened = !peer.times.open && peer.conn.was_established();
        if opened {
            (peer.times.open, peer.times.sent) = (true, self.now);
        }
        if opened || bytes > peer.times.bytes {
            (peer.times.received, peer.times.bytes) = (self.now, bytes);
        }
        if peer.errors.waits() {
            peer.errors.acknowledged(self.now, peer.conn.info().bytes_acked.get());
        }
        for entry in peer.conn.drain_log() {
            if peer.log.len() == REMEMBERED {
                peer.log.pop_front();
            }
            peer.log.push_back(entry);
        }
    }

    /// The interface refuses everything from now on, or nothing any more.
    pub fn jam(&mut self, on: bool) {
        if on != self.jammed {
            self.jammed = on;
            self.peers.iter_mut().for_each(|peer| peer.conn.set_jammed(on));
        }
    }

    /// The earliest timer of any connection.
    pub fn next_timer(&self) -> Option<Time> {
        self.peers.iter().filter_map(|p| p.conn.next_timer()).min()
    }

    /// Runs what is due at `at`.
    pub fn fire(&mut self, at: Time) {
        self.now = self.now.max(at);
        for index in 0..self.peers.len() {
            if self.peers[index].conn.next_timer().is_some_and(|t| t <= self.now) {
                self.steps += 1;
                self.peers[index].conn.on_timer(self.now);
                self.flush(index);
            }
        }
    }
}

/// A super-segment as the network sees it: FIN and PSH on the last piece, CWR on the first.
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
