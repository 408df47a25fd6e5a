//! The follower: candidates process the log of an end until the last one contradicts it.

use crate::candidate::{Arrival, Candidate};
use crate::compare::compare;
use crate::difference::{Difference, Found, shown};
use crate::end::{End, Row, Substrate};
use crate::kind::{Kind, Role, seconds};
use crate::own_queue::Softirq;
use std::collections::BTreeMap;
use tcpassay_tcp::Connection;
use tcpassay_units::{Bytes, Dur, Seed, Time};
use tcpassay_wire::{Ecn, Segment};

/// The largest number of candidates.
const MOST: usize = 96;
/// Candidates that differ only in the measurement of what is read.
const MEASURED: usize = 3;
/// Timers that may fire at one instant before an arrival.
const FORKS: usize = 4;
/// Calls of one instant that may come before an arrival that is not the first one of the instant: reads, and the writes that answer them.
const CALLS: usize = 12;
/// Sequences of random numbers that are tried for BBR, which draws one of seven phases when it begins to probe for bandwidth
/// (`bbr_reset_probe_bw_mode`): the right one is missed once in 35 times.
const DRAWS: u64 = 24;
/// Timers that may fire until a segment is due.
const TIMERS: usize = 8;

/// What does not count as a difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tolerance {
    /// By how much a time may be off.
    pub time: Dur,
    /// Fields that are counted if they differ, and end nothing: their names in [`Difference`].
    pub counted: Vec<String>,
}

impl Tolerance {
    /// For logs with exact times: a kernel in virtual time, or the model.
    pub fn exact() -> Tolerance {
        Tolerance { time: Dur::from_micros(1), counted: Vec::new() }
    }
}

/// How far an end was followed.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Rows of its log.
    pub rows: usize,
    /// Rows before the first difference.
    pub followed: usize,
    /// Segments that left and were compared.
    pub segments: usize,
    /// How often each field of [`Tolerance::counted`] differed.
    pub counted: BTreeMap<&'static str, u64>,
    /// The largest number of candidates.
    pub candidates: usize,
    /// The first difference; `None` if the model agrees up to the end.
    pub first: Option<Difference>,
}

/// Follows an end up to the first difference. An end without a SYN in its log is not followed: [`Outcome::followed`] is 0. Of the phases that
/// a kernel's BBR may have drawn, the one with which the end is followed furthest counts.
pub fn follow(end: &End, tolerance: &Tolerance) -> Outcome {
    let drawn = end.setup.substrate == Substrate::Kernel && end.setup.cc == "bbr";
    let mut furthest = (0, 0);
    for draw in 0..if drawn { DRAWS } else { 1 } {
        let run = Run::new(end, tolerance, draw, false).run();
        if run.last.is_none() {
            return run.outcome(None);
        }
        if run.followed > furthest.0 {
            furthest = (run.followed, draw);
        }
    }
    // The model's log is slow, so that only the last pass keeps it.
    let again = Run::new(end, tolerance, furthest.1, true).run();
    let first = again.last.clone().map(|(found, candidate)| found.explained(end, &candidate));
    again.outcome(first)
}

struct Run<'a> {
    end: &'a End,
    tolerance: &'a Tolerance,
    all: Vec<Candidate>,
    followed: usize,
    segments: usize,
    counted: BTreeMap<&'static str, u64>,
    most: usize,
    /// What ended the last candidate that ended at the present row.
    last: Option<(Found, Candidate)>,
}

impl<'a> Run<'a> {
    /// `draw`: which sequence of random numbers the controller has; 0: that of the run.
    fn new(end: &'a End, tolerance: &'a Tolerance, draw: u64, logs: bool) -> Run<'a> {
        let mut all = Vec::new();
        if let Some((at, syn)) = end.syn() {
            let setup = &end.setup;
            let offset = syn.options.timestamps.map_or(0, |stamps| {
                let ms = at.as_nanos() / 1_000_000;
                stamps.val.wrapping_sub(u32::try_from(ms & u64::from(u32::MAX)).expect("it is masked"))
            });
            let mut params = setup.params.clone();
            if draw > 0 {
                params.rng = Seed(draw).stream("cc");
            }
            let cc = tcpassay_cc::build(&setup.cc, &params).expect("the case was checked");
            let started = end.rows[0].0;
            let config = setup.config.clone();
            let mut conn = if setup.active {
                Connection::connect(config, cc, syn.seq, offset, started)
            } else {
                Connection::listen(config, cc, syn.seq, offset)
            };
            conn.set_log(logs);
            let mut first = Candidate::new(conn, started, logs);
            first.transmit(setup, started);
            all.push(first);
        }
        Run { end, tolerance, all, followed: 0, segments: 0, counted: BTreeMap::new(), most: 1, last: None }
    }

    fn outcome(self, first: Option<Difference>) -> Outcome {
        Outcome {
            rows: self.end.rows.len(),
            followed: self.followed,
            segments: self.segments,
            counted: self.counted,
            candidates: self.most,
            first,
        }
    }

    fn run(mut self) -> Run<'a> {
        if self.all.is_empty() {
            return self;
        }
        for row in 0..self.end.rows.len() {
            self.last = None;
            let before = std::mem::take(&mut self.all);
            for candidate in before {
                self.step(row, candidate);
            }
            if self.all.is_empty() {
                return self;
            }
            self.last = None;
            self.merge(row);
            self.followed += 1;
            self.segments += usize::from(matches!(self.end.rows[row].1, Row::Out { .. }));
        }
        self.finish();
        self
    }

    /// Candidates that cannot be told apart by what they do next are one.
    fn merge(&mut self, row: usize) {
        // What a writer could write is evidence, if some candidate agrees with it.
        let least = self.all.iter().map(Candidate::other_writes).min().unwrap_or(0);
        self.all.retain(|candidate| candidate.other_writes() == least);
        if self.all.len() > 1 {
            self.end_contradicted(row);
            self.all.sort_by_cached_key(Candidate::key);
            self.keep_different();
            self.all.truncate(MOST);
            self.most = self.most.max(self.all.len());
        }
    }

    /// Of sorted candidates that are equal but for the measurement of what is read, those remain that were added first: the kernel mostly
    /// processes all arrivals of an instant before it runs a process, and those that have not read yet are added first.
    fn keep_different(&mut self) {
        let mut key = None;
        let mut tuned = Vec::new();
        self.all.retain(|candidate| {
            let own = candidate.key();
            if key.as_ref() != Some(&own) {
                key = Some(own);
                tuned.clear();
            }
            let state = candidate.conn.tuned();
            let kept = tuned.len() < MEASURED && !tuned.contains(&state);
            if kept {
                tuned.push(state);
            }
            kept
        });
    }

    /// Candidates end that have sent something else than what leaves next at the instant of `row`, unless all have.
    fn end_contradicted(&mut self, row: usize) {
        let at = self.end.rows[row].0;
        let later = &self.end.rows[row + 1..];
        let here = || later.iter().take_while(|(time, _)| *time == at);
        let agrees = |candidate: &Candidate| {
            let leaves = here().filter_map(|(_, row)| match row {
                Row::Out { segment, ecn } => Some((segment, *ecn)),
                _ => None,
            });
            let mut pairs = candidate.due.iter().zip(leaves);
            pairs.all(|(due, sent)| self.tolerates(&compare(sent, (&due.segment, due.ecn))))
        };
        if self.all.iter().any(|candidate| !candidate.due.is_empty()) && self.all.iter().any(agrees) {
            let kept: Vec<bool> = self.all.iter().map(agrees).collect();
            let mut kept = kept.into_iter();
            self.all.retain(|_| kept.next().unwrap_or(true));
        }
    }

    /// Whether all of these fields are only counted.
    fn tolerates(&self, fields: &[&'static str]) -> bool {
        fields.iter().all(|field| self.tolerance.counted.iter().any(|counted| counted == field))
    }

    /// After the last row, until the end of the log: the model may not send anything more.
    fn finish(&mut self) {
        let limit = self.end.until.saturating_sub(self.tolerance.time);
        let row = self.end.rows.len();
        for mut candidate in std::mem::take(&mut self.all) {
            if self.passes(row, &mut candidate, limit) {
                self.all.push(candidate);
            }
        }
        if !self.all.is_empty() {
            self.last = None;
        }
    }

    fn ends(&mut self, candidate: Candidate, found: Found) {
        self.last = Some((found, candidate));
    }

    /// Time passes until `limit`. Returns false if the model has sent something before that the log does not have.
    fn passes(&mut self, row: usize, candidate: &mut Candidate, limit: Time) -> bool {
        let setup = &self.end.setup;
        if self.end.rows.get(row).is_none_or(|(at, _)| *at > candidate.now) {
            candidate.end_instant(setup);
        }
        while candidate.next() < limit {
            let at = candidate.next();
            candidate.fire(setup, at);
            if candidate.due.front().is_some_and(|due| due.at < limit) {
                break;
            }
        }
        let Some(due) = candidate.due.front().filter(|due| due.at < limit).copied() else { return true };
        let next = self.end.rows.get(row);
        let sent = next.map_or("nothing up to the end of the log".to_owned(), |(at, row)| {
            format!("not this; next {} at {}", self.told(row), seconds(*at))
        });
        let kind = Kind::OnlyModel(due.role);
        let found = Found { row, at: due.at, kind, sent, due: Some(due) };
        let ended = candidate.clone();
        self.ends(ended, found);
        false
    }

    /// A row in words.
    fn told(&self, row: &Row) -> String {
        match row {
            Row::In { segment, ecn, .. } => {
                let (ours, theirs) = self.end.initial();
                format!("arrives {}", shown((theirs, ours), segment, *ecn))
            }
            Row::Out { segment, ecn } => format!("leaves {}", shown(self.end.initial(), segment, *ecn)),
            Row::Write { taken, asked } => {
                let bytes = asked.unwrap_or(*taken);
                format!("the application writes {} bytes", bytes.get())
            }
            Row::Read(bytes) => format!("the application reads {} bytes", bytes.get()),
            Row::Shutdown => "the application shuts down its direction".to_owned(),
            Row::Close => "the application closes the connection".to_owned(),
        }
    }

    /// A candidate processes a row; what remains of it is added to the candidates.
    fn step(&mut self, row: usize, mut candidate: Candidate) {
        let (at, what) = self.end.rows[row];
        if !self.passes(row, &mut candidate, at.saturating_sub(self.tolerance.time)) {
            return;
        }
        if let Row::Out { segment, ecn } = what {
            self.leaves(row, candidate, (&segment, ecn));
            return;
        }
        // A timer that is due now may have fired before this row.
        let late = at.saturating_add(self.tolerance.time);
        if candidate.next() <= late {
            let mut other = candidate.clone();
            for _ in 0..FORKS {
                if other.next() > late {
                    break;
                }
                let fires = other.next();
                other.fire(&self.end.setup, fires);
                self.happens(row, other.clone());
            }
        }
        // So may one that may fire early, if an ACK of this instant tells it.
        if matches!(what, Row::In { .. }) && self.acknowledges(row) {
            let mut other = candidate.clone();
            if other.fire_early(&self.end.setup, at) {
                self.happens(row, other);
            }
        }
        self.happens(row, candidate);
    }

    /// Whether the application makes a call at the instant of `row`, after it.
    fn calls(&self, row: usize) -> bool {
        let rows = &self.end.rows[row..];
        rows.iter().take_while(|(at, _)| *at == rows[0].0).any(|(_, row)| row.is_call())
    }

    /// Whether a segment without payload leaves at the instant of `row`, after it.
    fn acknowledges(&self, row: usize) -> bool {
        let rows = &self.end.rows[row..];
        let mut here = rows.iter().take_while(|(at, _)| *at == rows[0].0);
        here.any(|(_, row)| matches!(row, Row::Out { segment, .. } if segment.len == 0))
    }

    /// An arrival or a call.
    fn happens(&mut self, row: usize, mut candidate: Candidate) {
        let (at, what) = self.end.rows[row];
        let (end, now) = (self.end, at.max(candidate.now));
        match what {
            Row::In { segment, ecn, packets, size } => {
                let arrival = Arrival { segment: &segment, ecn, packets, size };
                let is_kernel = end.setup.substrate == Substrate::Kernel;
                if is_kernel && self.calls(row) {
                    let merges = end.setup.merges.then_some(Softirq::AfterApplication);
                    for softirq in [Softirq::AfterArrival].into_iter().chain(merges) {
                        let mut held = candidate.assuming(softirq);
                        held.arrives(end, now, &arrival, true);
                        if held.queue.is_assumed() {
                            self.adds(row, held);
                        }
                    }
                }
                let beside = |row: usize| {
                    end.rows.get(row).is_some_and(|(t, row)| *t == at && matches!(row, Row::In { .. }))
                };
                if !end.setup.in_order && row > 0 && beside(row - 1) {
                    self.calls_before(row, &candidate);
                }
                // Socket memory decides whether Linux processes data on the fast path, on which it does not look for something to send
                // (`tcp_rcv_established`).
                if is_kernel && segment.len > 0 && candidate.conn.has_sendable(now) {
                    let mut slow = candidate.clone();
                    slow.conn.packet_left();
                    slow.arrives(end, now, &arrival, true);
                    self.adds(row, slow);
                }
                if is_kernel && beside(row + 1) && !end.setup.reads_are_logged {
                    // The kernel may process several segments before it runs a process.
                    let mut unread = candidate.clone();
                    unread.arrives(end, now, &arrival, false);
                    self.adds(row, unread);
                }
                candidate.arrives(end, now, &arrival, true);
                self.adds(row, candidate);
            }
            _ if candidate.done > 0 => {
                candidate.done -= 1;
                self.all.push(candidate);
            }
            Row::Read(bytes) if end.setup.reads_everything && candidate.conn.readable() != bytes => {
                self.other_read(row, candidate, bytes);
            }
            _ => {
                candidate.call(&end.setup, now, &what);
                self.all.push(candidate);
            }
        }
    }

    /// Adds a candidate after an arrival, unless it already has more to read than the next read of this instant got.
    fn adds(&mut self, row: usize, candidate: Candidate) {
        let end = self.end;
        let at = end.rows[row].0;
        let here = end.rows[row + 1..].iter().take_while(|(time, _)| *time == at).map(|(_, row)| row);
        let next = here.filter(|row| row.is_call()).skip(candidate.done).find_map(|call| match call {
            Row::Read(bytes) => Some(*bytes),
            _ => None,
        });
        match next.filter(|bytes| end.setup.reads_everything && candidate.conn.readable() > *bytes) {
            Some(bytes) => self.other_read(row, candidate, bytes),
            None => self.all.push(candidate),
        }
    }

    /// The application read another number of bytes than a candidate has for it.
    fn other_read(&mut self, row: usize, candidate: Candidate, bytes: Bytes) {
        let (at, sent) = (self.end.rows[row].0, format!("{} bytes were read", bytes.get()));
        self.ends(candidate, Found { row, at, kind: Kind::Read, sent, due: None });
    }

    /// Calls of this instant may come before an arrival that is not the first one of the instant.
    fn calls_before(&mut self, row: usize, candidate: &Candidate) {
        let end = self.end;
        let (at, what) = end.rows[row];
        let Row::In { segment, ecn, packets, size } = what else { return };
        let here = end.rows[row + 1..].iter().take_while(|(time, _)| *time == at).map(|(_, row)| row);
        let mut early = candidate.clone();
        for call in here.filter(|row| row.is_call()).skip(candidate.done).take(CALLS) {
            if let Row::Read(bytes) = call
                && end.setup.reads_everything
                && early.conn.readable() != *bytes
            {
                return;
            }
            let now = at.max(early.now);
            early.call(&end.setup, now, call);
            early.done += 1;
            let mut fork = early.clone();
            fork.arrives(end, now, &Arrival { segment: &segment, ecn, packets, size }, true);
            self.adds(row, fork);
        }
    }

    /// A segment leaves.
    fn leaves(&mut self, row: usize, mut candidate: Candidate, (segment, ecn): (&Segment, Ecn)) {
        let end = self.end;
        let at = end.rows[row].0;
        let late = at.saturating_add(self.tolerance.time);
        candidate.end_instant(&end.setup);
        if candidate.due.is_empty() {
            let now = at.max(candidate.now);
            candidate.transmit(&end.setup, now);
        }
        for _ in 0..TIMERS {
            if !candidate.due.is_empty() || candidate.next() > late {
                break;
            }
            let next = candidate.next();
            candidate.fire(&end.setup, next);
        }
        if candidate.due.is_empty() && segment.len == 0 {
            candidate.fire_early(&end.setup, at);
        }
        let Some(due) = candidate.due.pop_front() else {
            let kind = Kind::OnlySent(Role::of(segment, candidate.next_seq()));
            let found = Found { row, at, kind, sent: shown(end.initial(), segment, ecn), due: None };
            self.ends(candidate, found);
            return;
        };
        let fields = compare((segment, ecn), (&due.segment, due.ecn));
        if self.tolerates(&fields) {
            for field in fields {
                *self.counted.entry(field).or_default() += 1;
            }
            self.all.push(candidate);
            return;
        }
        let kind = Kind::Fields(due.role, fields);
        let found = Found { row, at, kind, sent: shown(end.initial(), segment, ecn), due: Some(due) };
        self.ends(candidate, found);
    }
}
