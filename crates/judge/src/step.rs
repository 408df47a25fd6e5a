//! A row of the event log with the state of its connection end, as oracles receive it.

use crate::captured::Captured;
use crate::end::{Before, End};
use crate::facts::Facts;
use crate::finding::{Findings, Level, Occurrence};
use crate::role::Role;
use std::cell::Cell;
use tcpassay_case::HostSettings;
use tcpassay_measure::reason::{CongestionCause, Timer};
use tcpassay_measure::{EventKind, EventRow, Recording};
use tcpassay_tcp::{Config, EcnMode, Pacing};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// The recording and the settings of the case, which all oracles use.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub recording: &'a Recording,
    pub facts: Option<&'a Facts>,
    /// What a log has in addition if it is that of a capture.
    pub captured: Option<Captured<'a>>,
    flows: Vec<FlowFacts<'a>>,
    exact: bool,
    of_kernel: bool,
    /// The hosts that show the state of their connections.
    showing: Vec<u32>,
}

/// Facts about a flow, computed once because oracles need them at every row.
#[derive(Clone, Copy, Debug)]
struct FlowFacts<'a> {
    mss: u64,
    settings: Option<&'a HostSettings>,
    window_based: bool,
}

impl<'a> Context<'a> {
    /// The context of the oracles that judge `recording`.
    pub fn new(
        recording: &'a Recording,
        facts: Option<&'a Facts>,
        captured: Option<Captured<'a>>,
    ) -> Context<'a> {
        let window_based = tcpassay_cc::window_based();
        let flows = recording.flows.iter().map(|flow| FlowFacts {
            mss: flow.mss.get(),
            settings: facts.and_then(|facts| facts.host(flow.from)),
            window_based: window_based.contains(&flow.cc.as_str()),
        });
        Context {
            recording,
            facts,
            captured,
            flows: flows.collect(),
            exact: facts.is_some_and(Facts::is_model),
            of_kernel: facts.is_some_and(Facts::is_kernel),
            showing: recording
                .header
                .stacks
                .iter()
                .filter(|one| !one.shows.is_empty())
                .map(|one| one.host)
                .collect(),
        }
    }

    /// Payload bytes of the largest segment of `flow`.
    pub fn mss(&self, flow: usize) -> u64 {
        self.flows[flow].mss
    }

    /// Whether the controller of `flow` leaves recovery to the data path, whose rules (RFC 6582, RFC 6675, PRR) then
    /// apply. A controller that governs recovery decides itself how much may be sent.
    pub fn window_based(&self, flow: usize) -> bool {
        self.flows[flow].window_based
    }

    /// Whether the controller of `flow` sets a pacing rate whatever `stack.pacing` says. Those that govern recovery do (BBR).
    pub fn paces(&self, flow: usize) -> bool {
        !self.window_based(flow)
    }

    /// Whether pacing may delay what `flow` sends, by its controller or by `stack.pacing`; true for unknown settings.
    pub fn may_pace(&self, flow: usize) -> bool {
        self.paces(flow) || self.stack(flow).is_none_or(|stack| stack.pacing != Pacing::Off)
    }

    /// Settings of the host that sends `flow`.
    pub fn settings(&self, flow: usize) -> Option<&'a HostSettings> {
        self.flows[flow].settings
    }

    /// The stack of the host that sends `flow`.
    pub fn stack(&self, flow: usize) -> Option<&'a Config> {
        self.settings(flow).map(|settings| &settings.stack)
    }

    /// Whether a host that sends a flow has a stack with this property.
    pub fn any_stack(&self, has: impl Fn(&Config) -> bool) -> bool {
        self.flows.iter().filter_map(|flow| flow.settings).any(|settings| has(&settings.stack))
    }

    /// Whether the recording is of the model, whose timers and decisions are exact.
    pub fn exact(&self) -> bool {
        self.exact
    }

    /// Whether the recording is of a kernel in virtual time. Its log contains the windows at arrivals and no
    /// decisions of the stack, and processing takes no time.
    pub fn of_kernel(&self) -> bool {
        self.of_kernel
    }

    /// Whether the host that sends `flow` has another TCP than the model, and shows the state of its connections.
    pub fn shows(&self, flow: usize) -> bool {
        self.showing.contains(&self.recording.flows[flow].from)
    }

    /// Whether the times of the log are those of the stack, because processing takes no time.
    pub fn in_virtual_time(&self) -> bool {
        self.exact() || self.of_kernel()
    }

    /// Whether the application that receives the data of the connection reads them when they arrive.
    pub fn reads_at_once(&self) -> bool {
        self.facts.is_some_and(Facts::reads_at_once)
    }

    /// Whether the end that sends `flow` echoes each change of CE marks at once (DCTCP).
    pub fn echoes_marks(&self, flow: usize) -> bool {
        self.stack(flow).is_some_and(|stack| stack.ecn == EcnMode::Dctcp)
    }

    /// The name of the host that sends `flow`, capitalised for the beginning of a sentence.
    pub fn who(&self, flow: usize) -> String {
        capitalised(&self.recording.hosts[self.recording.flows[flow].from as usize])
    }

    /// An error of the host that sends `flow`, from the row and time `since` to `end`.
    pub fn of_sender(
        &self,
        flow: usize,
        (oracle, title): (&'static str, &'static str),
        (since, row): (Time, usize),
        end: Time,
    ) -> Occurrence {
        Occurrence {
            oracle,
            title,
            flow: u32::try_from(flow).expect("flows are numbered in 32 bits"),
            host: self.recording.flows[flow].from,
            start: since,
            end,
            level: Level::Error,
            rows: vec![row],
        }
    }
}

/// A name with a capital letter, for the beginning of a sentence.
pub(crate) fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A row, with the state of the connection end that logged it before and after the row.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub row: usize,
    pub event: &'a EventRow,
    /// Index of the flow in which this end sends.
    pub flow: usize,
    /// Index of the flow in which this end receives.
    pub peer: usize,
    /// What this end does in the whole run.
    pub role: Role,
    pub before: Before,
    pub end: &'a End,
    /// The SACK blocks of a segment, in order.
    pub sacks: &'a [(u64, u64)],
    /// True if the segment arrived and was not accepted.
    pub refused: bool,
    /// The earliest deadline that a rule set at this row ([`Step::deadline`]).
    pub deadline: Cell<Time>,
    /// The rules that have set one.
    pub waits: &'a Waits,
}

/// The rules that have set a deadline.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// The rule that processes a row.
    pub rule: Cell<usize>,
    /// A bit for each rule.
    set: Cell<u64>,
}

impl Waits {
    /// The rules that have set a deadline, a bit for each.
    pub fn all(&self) -> u64 {
        self.set.get()
    }
}

impl Step<'_> {
    /// Time of the row.
    pub fn at(&self) -> Time {
        self.event.at
    }

    /// Lets the rules that wait process the first row of this end whose time is after `since` and `wait`, whatever its kind. The deadline
    /// ends with this row: a rule that still waits for something sets it again in each call.
    pub fn deadline(&self, since: Option<Time>, wait: Dur) {
        if let Some(since) = since {
            self.waits.set.set(self.waits.set.get() | 1 << self.waits.rule.get());
            self.deadline.set(self.deadline.get().min(since.saturating_add(wait)));
        }
    }

    /// Whether the row is a segment that this end sent.
    pub fn is_sent(&self) -> bool {
        matches!(self.event.kind, EventKind::Out | EventKind::Retransmit)
    }

    /// Whether the row is a segment that arrived and was accepted.
    pub fn is_arrival(&self) -> bool {
        self.event.kind == EventKind::In && !self.refused
    }

    /// The flags of a segment.
    pub fn flags(&self) -> Flags {
        self.event.flags.unwrap_or(Flags::NONE)
    }

    /// Whether the segment has neither SYN nor RST.
    pub fn is_stream(&self) -> bool {
        !self.flags().any(Flags::SYN | Flags::RST)
    }

    /// Payload bytes of a segment.
    pub fn len(&self) -> u64 {
        u64::from(self.event.len.unwrap_or(0))
    }

    /// Position of the first byte of a segment.
    pub fn seq(&self) -> u64 {
        self.event.seq.unwrap_or(0)
    }

    /// Position after the last byte of a segment.
    pub fn seq_end(&self) -> u64 {
        self.seq() + self.len()
    }

    /// Whether the row has this kind and this timer.
    pub fn is_timer(&self, kind: EventKind, timer: Timer) -> bool {
        self.event.kind == kind && self.event.timer() == Some(timer)
    }

    /// Whether the row is the undo of a reduction.
    pub fn is_undo(&self) -> bool {
        self.event.kind == EventKind::Congestion
            && self.event.congestion_change().is_some_and(|change| change.is_undo())
    }

    /// The cause of a change of the congestion state; `None` for causes that only kernels log.
    pub fn congestion_cause(&self) -> Option<CongestionCause> {
        self.event.congestion_change()?.known_cause()
    }

    /// An occurrence at this row about the data that this end sends.
    pub fn of_sender(&self, context: &Context<'_>, oracle: &'static str, title: &'static str) -> Occurrence {
        self.occurrence(context, oracle, title, self.flow)
    }

    /// An occurrence at this row about the data that this end receives.
    pub fn of_receiver(
        &self,
        context: &Context<'_>,
        oracle: &'static str,
        title: &'static str,
    ) -> Occurrence {
        self.occurrence(context, oracle, title, self.peer)
    }

    fn occurrence(
        &self,
        context: &Context<'_>,
        oracle: &'static str,
        title: &'static str,
        flow: usize,
    ) -> Occurrence {
        let number = |place: usize| u32::try_from(place).expect("flows are numbered in 32 bits");
        Occurrence {
            oracle,
            title,
            flow: number(flow),
            host: context.recording.flows[self.flow].from,
            start: self.at(),
            end: self.at(),
            level: Level::Error,
            rows: vec![self.row],
        }
    }
}

impl Occurrence {
    /// Adds `row` as evidence, and sets the begin of the occurrence to `at`.
    pub fn since(mut self, row: usize, at: Time) -> Occurrence {
        self.rows.insert(0, row);
        self.start = at;
        self
    }

    /// Sets the level to warning: the standard only recommends the rule, or random cases without a fault
    /// also violate it.
    pub fn warning(mut self) -> Occurrence {
        self.level = Level::Warning;
        self
    }
}

/// An oracle or a part of one that judges row by row. The table in [`rules`](crate::rules) contains the kinds of rows that it reads.
pub(crate) trait Rule {
    /// Processes a row. Rows of other kinds than those of the table come, too: all of a log that is not of the model, and in any log the
    /// first row of an end after a deadline ([`Step::deadline`]).
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings);

    /// Called after the last row.
    fn end(&mut self, _context: &Context<'_>, _found: &mut Findings) {}
}

/// A rule with a state for each end.
pub(crate) struct PerEnd<S> {
    ends: Vec<S>,
    on: fn(&mut S, &Context<'_>, &Step<'_>, &mut Findings),
}

impl<S: Clone + Default + 'static> PerEnd<S> {
    pub fn rule(flows: usize, on: fn(&mut S, &Context<'_>, &Step<'_>, &mut Findings)) -> Box<dyn Rule> {
        Box::new(PerEnd { ends: vec![S::default(); flows], on })
    }
}

impl<S> Rule for PerEnd<S> {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        (self.on)(&mut self.ends[step.flow], context, step, found);
    }
}
