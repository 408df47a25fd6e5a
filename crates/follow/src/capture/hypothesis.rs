//! One possibility of what a capture does not show: a connection, and the ACKs that it has sent and that the capture has not shown yet.

use crate::kind::Role;
use std::collections::VecDeque;
use tcpassay_tcp::{Connection, LogEntry, WindowMove};
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

/// Entries of the log that are kept to explain a difference.
const KEPT: usize = 64;
/// The largest memory of a packet without its payload.
const PACKET: u64 = 2304;
/// The segments that are sent for one event; more are those of a fault of the model.
const MOST: usize = 64;

/// A segment without payload that the connection has sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Due {
    /// When.
    pub at: Time,
    /// Until when the capture has to show it.
    pub until: Time,
    pub segment: Segment,
    pub ecn: Ecn,
}

/// An arrival that is processed later.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Held {
    pub segment: Segment,
    pub ecn: Ecn,
    pub packets: u16,
    /// Payload of each packet but the last.
    pub size: u32,
    pub moved: WindowMove,
    /// Until when it is processed at the latest.
    pub until: Time,
}

/// What an application and the host do with an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Way {
    /// The application reads at once.
    pub reads: bool,
    /// Data that leave next may carry the ACK.
    pub waits: bool,
}

impl Way {
    pub const USUAL: Way = Way { reads: true, waits: false };
}

#[derive(Clone, Debug)]
pub(super) struct Hypothesis {
    pub conn: Connection,
    pub due: VecDeque<Due>,
    pub held: Option<Held>,
    /// The decision about an ACK waits for data that leave next.
    pub waits: bool,
    /// Data are unread, so that the window would be smaller than the capture shows the next one: a read comes before it.
    pub owes_read: bool,
    /// How often the number of quick ACKs was one more or less than the windows show.
    pub odd: u32,
    /// The memory that unread data may take at most.
    pub unread: u64,
    /// Choices that were not the usual ones, since nothing was pending.
    pub unusual: u32,
    pub log: Option<VecDeque<LogEntry>>,
    pub now: Time,
}

impl Hypothesis {
    pub fn new(conn: Connection, now: Time, logs: bool) -> Hypothesis {
        let log = logs.then(VecDeque::new);
        Hypothesis {
            conn,
            due: VecDeque::new(),
            held: None,
            waits: false,
            owes_read: false,
            odd: 0,
            unread: 0,
            unusual: 0,
            log,
            now,
        }
    }

    /// The ACKs that are due now; the capture has to show them within `within`.
    pub fn acknowledge(&mut self, now: Time, within: Dur) {
        self.waits = false;
        for _ in 0..MOST {
            let Some(out) = self.conn.poll_control(now) else { break };
            if Role::of(&out.segment, out.segment.seq) != Role::Syn {
                let until = now.saturating_add(within);
                self.due.push_back(Due { at: now, until, segment: out.segment, ecn: out.ecn });
            }
        }
        if let Some(log) = &mut self.log {
            log.extend(self.conn.drain_log());
            log.drain(..log.len().saturating_sub(KEPT));
        }
    }

    /// A segment arrives, or several that were merged.
    pub fn arrives(&mut self, now: Time, held: &Held, way: Way, within: Dur) {
        self.now = self.now.max(now);
        let now = self.now;
        if held.packets > 1 {
            self.conn.on_merged(now, &held.segment, held.ecn, held.packets, held.size);
        } else {
            self.conn.on_segment(now, &held.segment, held.ecn);
        }
        self.conn.observe_window_move(held.moved);
        self.unread += memory(held);
        self.waits = way.waits;
        if !way.waits {
            self.acknowledge(now, within);
        }
        if way.reads {
            self.reads(now, within);
        }
    }

    /// The application reads everything.
    pub fn reads(&mut self, now: Time, within: Dur) {
        let bytes = self.conn.readable();
        self.owes_read = false;
        self.unread = 0;
        if !bytes.is_zero() {
            let _ = self.conn.read(now, bytes);
            if !self.waits {
                self.acknowledge(now, within);
            }
        }
    }

    /// The next timer.
    pub fn next(&self) -> Time {
        self.conn.next_receiver_timer().unwrap_or(Time::MAX)
    }

    /// The timer that is due at `due` fires at `at`; the capture has to show its ACK until `until`.
    pub fn fires(&mut self, due: Time, at: Time, until: Time) {
        let at = at.max(self.now);
        self.now = at;
        self.conn.on_receiver_timer(due.max(at));
        self.acknowledge(at, until.since(at));
    }

    /// Everything that happened is acknowledged: what the application has not read makes no difference any more.
    pub fn settles(&mut self, now: Time) {
        if self.due.is_empty() && self.held.is_none() && !self.waits && self.next() == Time::MAX {
            let bytes = self.conn.readable();
            let _ = self.conn.read(now, bytes.min(Bytes::MAX));
            self.unread = 0;
            self.acknowledge(now, Dur::ZERO);
            self.unusual = 0;
        }
    }

    /// Whether both behave alike from now on.
    pub fn is_like(&self, other: &Hypothesis) -> bool {
        self.waits == other.waits
            && self.owes_read == other.owes_read
            && self.due == other.due
            && self.held == other.held
            && self.conn.receives_like(&other.conn)
    }
}

/// The memory that an arrival takes at most: drivers of network cards take up to twice the payload, and a page with two headers for each packet.
pub(super) fn memory(arrival: &Held) -> u64 {
    match arrival.segment.len {
        0 => 0,
        len => 2 * u64::from(len) + PACKET * u64::from(arrival.packets),
    }
}

/// Two arrivals that the host merges, if the second one continues the first one.
pub(super) fn merged(first: &Held, second: &Held) -> Option<Held> {
    let (a, b) = (&first.segment, &second.segment);
    let plain = |s: &Segment| s.len > 0 && !s.flags.any(Flags::SYN | Flags::RST | Flags::FIN | Flags::URG);
    if !(plain(a) && b.len > 0 && !b.flags.any(Flags::SYN | Flags::RST | Flags::URG)) {
        return None;
    }
    let follows = a.end() == b.seq && first.ecn == second.ecn && a.ack == b.ack;
    let alike = a.options.timestamps.is_some() == b.options.timestamps.is_some()
        && a.options.sack.is_empty()
        && b.options.sack.is_empty();
    if !(follows && alike) {
        return None;
    }
    let mut segment = *a;
    segment.len = a.len.checked_add(b.len)?;
    segment.flags = a.flags | b.flags;
    Some(Held {
        segment,
        packets: first.packets.saturating_add(second.packets),
        moved: second.moved,
        ..*first
    })
}
