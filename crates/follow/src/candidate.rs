//! One hypothesis about what the log does not contain: a connection of the model, and what it has sent that the log has not shown yet.

use crate::end::{End, Row, Setup, Substrate};
use crate::inside::{Inside, Since, Watch};
use crate::kind::Role;
use crate::own_queue::{OwnQueue, Softirq};
use std::collections::VecDeque;
use tcpassay_tcp::{CongestionState, Connection, LogEntry, LogEvent, State};
use tcpassay_units::{Bytes, Dur, Rate, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

/// Entries of the model's log that are kept to explain a difference.
const KEPT: usize = 64;
/// A write of at least this number of bytes is that of an application that sends without end, whose single writes are not in the log.
const WITHOUT_END: Bytes = Bytes::new(1 << 40);

/// A segment that the model has sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Due {
    pub at: Time,
    pub role: Role,
    pub segment: Segment,
    pub ecn: Ecn,
}

/// The application that writes, as far as the log tells.
#[derive(Clone, Debug, Default)]
struct Writer {
    /// It sends without end.
    endless: bool,
    /// It waits for room in the send buffer.
    blocked: bool,
    /// Its present call has written a part of its bytes already. Only the first bytes of a call take PSH from the last buffer
    /// (`tcp_sendmsg_locked`).
    in_call: bool,
    /// Bytes that the connection took already and that later rows of the same call tell.
    ahead: Bytes,
    /// How often the model had another room than the log has.
    others: u32,
}

/// A segment that arrives.
pub(crate) struct Arrival<'a> {
    pub segment: &'a Segment,
    pub ecn: Ecn,
    pub packets: u16,
    pub size: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub conn: Connection,
    pub due: VecDeque<Due>,
    pub now: Time,
    /// Calls of this instant that came before an arrival of this instant.
    pub done: usize,
    /// What the own kernel has of it at this instant.
    pub queue: OwnQueue,
    writer: Writer,
    /// The last entries of the model's log, if it is kept.
    pub log: Option<VecDeque<LogEntry>>,
    /// Its congestion state, according to that log.
    state: CongestionState,
    /// Where the kernel differs inside, if the log is kept.
    watch: Watch,
}

impl Candidate {
    pub fn new(conn: Connection, now: Time, logs: bool) -> Candidate {
        let log = logs.then(VecDeque::new);
        Candidate {
            conn,
            due: VecDeque::new(),
            now,
            done: 0,
            queue: OwnQueue::default(),
            writer: Writer::default(),
            log,
            state: CongestionState::Open,
            watch: Watch::default(),
        }
    }

    /// Sends what may be sent.
    pub fn transmit(&mut self, setup: &Setup, now: Time) {
        self.now = now;
        let overhead = setup.config.skbs.map_or(0, |skbs| skbs.overhead.get());
        let mut sent = false;
        while self.conn.may_transmit() {
            let next = self.next_seq();
            let Some(out) = self.queue.next(&mut self.conn, now, sent, overhead) else { break };
            let size = if setup.in_packets { out.mss.max(1) } else { u32::MAX };
            let (segment, ecn, role) = (out.segment, out.ecn, Role::of(&out.segment, next));
            if segment.len > 0 {
                let packets = if setup.in_packets { segment.len.div_ceil(size) } else { 1 };
                self.queue.add(u64::from(segment.len), u64::from(packets), overhead);
                sent = true;
            }
            self.put(&Due { at: now, role, segment, ecn }, size);
        }
        self.keep_log();
    }

    /// The present instant ends: packets leave the own kernel, and what waited for them is sent.
    pub fn end_instant(&mut self, setup: &Setup) {
        if self.queue.is_assumed() && self.queue.release(&mut self.conn) {
            self.serve(setup, self.now, false);
        }
    }

    /// The difference inside from the kernel of `end`, as the arrival after `at` shows it; `None` without one, or without the model's log.
    pub fn since(&self, end: &End, at: Time) -> Option<Since> {
        let log = self.log.as_ref()?;
        let next = end.rows.partition_point(|(time, _)| *time <= at);
        let mut watch = self.watch.clone();
        if let Some((next, _)) = end.rows[next..].iter().find(|(_, row)| matches!(row, Row::In { .. })) {
            watch.arrives(&end.inside, *next, (self.inside(), &end.setup.cc), log.iter());
        }
        watch.since().cloned()
    }

    /// The rate at which it paces; `None` if it does not.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.conn.gauges().pacing_rate
    }

    fn inside(&self) -> Inside {
        Inside::of(&self.conn.gauges(), self.state)
    }

    /// How often the model had another room for a writer than the log has.
    pub fn other_writes(&self) -> u32 {
        self.writer.others
    }

    /// Adds a segment, or its packets of `size` bytes of payload.
    fn put(&mut self, whole: &Due, size: u32) {
        let mut offset = 0;
        loop {
            let mut segment = whole.segment;
            segment.len = (whole.segment.len - offset).min(size);
            segment.seq = whole.segment.seq + offset;
            let first = offset == 0;
            offset += segment.len;
            let last = offset >= whole.segment.len;
            if !last {
                segment.flags = segment.flags.without(Flags::FIN | Flags::PSH);
            }
            if !first {
                segment.flags = segment.flags.without(Flags::CWR);
            }
            self.due.push_back(Due { segment, ..*whole });
            if last {
                return;
            }
        }
    }

    fn keep_log(&mut self) {
        if let Some(log) = &mut self.log {
            for entry in self.conn.drain_log() {
                if let LogEvent::Congestion { to, .. } = entry.what {
                    self.state = to;
                }
                log.push_back(entry);
            }
            log.drain(..log.len().saturating_sub(KEPT));
        }
    }

    /// The application makes a call that the log has.
    pub fn call(&mut self, setup: &Setup, now: Time, row: &Row) {
        self.now = now;
        match row {
            Row::Write { taken, asked } => self.writes(setup, now, *taken, *asked),
            Row::Read(bytes) => {
                let _ = self.conn.read(now, *bytes);
                self.after_call(setup, now);
            }
            Row::Shutdown => {
                self.conn.shutdown(now);
                self.after_call(setup, now);
            }
            Row::Close => {
                self.writer = Writer::default();
                if setup.linger == Some(Dur::ZERO) {
                    self.conn.abort(now);
                } else {
                    self.conn.close(now);
                }
                self.after_call(setup, now);
            }
            Row::In { .. } | Row::Out { .. } => unreachable!("a segment is no call"),
        }
    }

    /// A system call of Linux ends with what it sends. On the model the next call may come first.
    fn after_call(&mut self, setup: &Setup, now: Time) {
        if setup.substrate == Substrate::Kernel {
            self.transmit(setup, now);
        }
    }

    fn writes(&mut self, setup: &Setup, now: Time, taken: Bytes, asked: Option<Bytes>) {
        if asked.is_none() && self.writer.ahead >= taken {
            self.writer.ahead -= taken;
            return;
        }
        self.writer.ahead = Bytes::ZERO;
        let asked = asked.unwrap_or(taken);
        self.writer.in_call = false;
        if setup.substrate == Substrate::Kernel && asked >= WITHOUT_END {
            self.writer.endless = true;
            let _ = self.write(setup, now, asked);
            return;
        }
        if setup.substrate == Substrate::Kernel {
            self.conn.set_taken(Some(taken));
            let _ = self.write(setup, now, asked);
            self.writer.others += u32::from(self.conn.set_taken(None));
            return;
        }
        let got = self.write(setup, now, asked);
        self.writer.ahead = got.saturating_sub(taken);
        self.writer.others += u32::from(got != taken);
        self.writer.blocked = got < asked;
    }

    /// One call that writes `bytes`. Returns how many were taken.
    fn write(&mut self, setup: &Setup, now: Time, bytes: Bytes) -> Bytes {
        let mut taken = Bytes::ZERO;
        while taken < bytes {
            let first = !self.writer.in_call;
            self.queue.before_write(&mut self.conn);
            let step = self.conn.write_step(now, bytes - taken, first, false);
            let last = !self.conn.writes_in_steps();
            taken += step;
            self.writer.in_call |= !step.is_zero();
            self.queue.after_write(&mut self.conn);
            self.transmit(setup, now);
            if last || step.is_zero() {
                break;
            }
        }
        taken
    }

    /// Another candidate for which this is true of what the own kernel has at this instant.
    pub fn assuming(&self, softirq: Softirq) -> Candidate {
        let mut other = self.clone();
        other.queue.assume(softirq, &mut other.conn);
        other
    }

    /// A segment arrives. `reads`: an application that reads at once does so before the next segment of this instant.
    pub fn arrives(&mut self, end: &End, now: Time, arrival: &Arrival<'_>, reads: bool) {
        if let Some(log) = self.log.as_ref().filter(|_| !end.inside.is_empty()) {
            let model = Inside::of(&self.conn.gauges(), self.state);
            self.watch.arrives(&end.inside, now, (model, &end.setup.cc), log.iter());
        }
        if arrival.packets > 1 {
            self.conn.on_merged(now, arrival.segment, arrival.ecn, arrival.packets, arrival.size);
        } else {
            self.conn.on_segment(now, arrival.segment, arrival.ecn);
        }
        self.serve(&end.setup, now, reads);
    }

    /// After an arrival or a timer: what is due is sent, and applications act that the log does not show.
    fn serve(&mut self, setup: &Setup, now: Time, reads: bool) {
        self.transmit(setup, now);
        self.queue.after_arrival();
        if reads && !setup.reads_are_logged {
            let bytes = self.conn.readable();
            if !bytes.is_zero() {
                let _ = self.conn.read(now, bytes);
                self.transmit(setup, now);
            }
        }
        if !matches!(self.conn.state(), State::Established | State::CloseWait) {
            return;
        }
        if setup.substrate == Substrate::Kernel {
            if self.conn.make_space(now) && self.writer.endless {
                let _ = self.write(setup, now, WITHOUT_END);
            }
        } else if self.writer.blocked {
            self.conn.check_space();
        }
    }

    /// The next timer of the model.
    pub fn next(&self) -> Time {
        self.conn.next_timer().unwrap_or(Time::MAX)
    }

    /// The next timer fires, not before `at`.
    pub fn fire(&mut self, setup: &Setup, at: Time) {
        let at = at.max(self.now);
        self.conn.on_timer(at);
        self.serve(setup, at, true);
        self.now = at;
    }

    /// A timer that may fire early does (a timer with slack of Linux). Returns whether there is one.
    pub fn fire_early(&mut self, setup: &Setup, at: Time) -> bool {
        let may = self.conn.hasten_timer(at);
        if may {
            self.fire(setup, at);
        }
        may
    }

    /// What distinguishes it from candidates that behave differently from now on.
    pub fn key(&self) -> impl Ord + use<> {
        let one = |due: &Due| {
            let s = &due.segment;
            let stamps = s.options.timestamps.map(|stamps| (stamps.val, stamps.ecr));
            (due.at, s.seq.get(), s.len, s.ack.get(), s.window, s.flags.bits(), stamps)
        };
        let gauges = self.conn.gauges();
        (
            self.done,
            self.due.iter().map(one).collect::<Vec<_>>(),
            self.next(),
            gauges.cwnd,
            gauges.unacked,
            self.conn.readable(),
            self.writer.ahead,
            self.queue,
            self.conn.written(),
        )
    }

    /// The number of the next octet that it sends.
    pub fn next_seq(&self) -> SeqNum {
        self.conn.next_numbers().0
    }
}
