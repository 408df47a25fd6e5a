//! The loop over the events of a script.

use super::options::RunOptions;
use super::target::{ScriptError, SentPacket, StepResult, Target};
use crate::ast::{Action, EventTime, Script, ScriptEvent, Syscall};
use crate::code::CodeEnvironment;
use crate::position::Position;
use crate::report::{Report, Status};
use crate::settings::ScriptSettings;
use std::collections::VecDeque;
use tcpassay_units::{Dur, Time};

/// A call that has not returned yet.
#[derive(Clone, Debug)]
pub(super) struct BlockedCall<'a> {
    pub(super) call: &'a Syscall,
    pub(super) position: Position,
    /// Time at which the call was made.
    pub(super) began: Time,
    /// Time at which the call must return; `None` if the script does not specify it.
    pub(super) end: Option<Time>,
}

/// The reason why a run stops before the end of the script.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    pub(super) status: Status,
    pub(super) position: Position,
    pub(super) reason: String,
    pub(super) details: Vec<String>,
}

pub(super) type RunResult = Result<(), Stop>;

pub(super) struct Runner<'a, T> {
    pub(super) options: &'a RunOptions,
    pub(super) settings: ScriptSettings,
    pub(super) target: &'a mut T,
    /// Packets that were read from the target and not compared yet.
    pub(super) unchecked: VecDeque<SentPacket>,
    pub(super) env: CodeEnvironment,
    pub(super) blocked: Option<BlockedCall<'a>>,
    /// Time at which the previous event finished.
    pub(super) base: Time,
    /// The largest error in time beyond the tolerance, and the first event with such an error.
    pub(super) drift: Dur,
    pub(super) drifted: Option<Stop>,
    /// The largest error in time within the tolerance.
    pub(super) allowed: Dur,
    pub(super) events: u64,
    pub(super) steps: u64,
}

impl<'a, T: Target> Runner<'a, T> {
    pub(super) fn script(&mut self, script: &'a Script) -> RunResult {
        let begun = self.target.begin(&self.settings);
        begun.map_err(|error| self.stop_for(error, "", Position { line: 1, column: 1 }))?;
        if let Some(shell) = &script.init {
            self.shell(shell)?;
        }
        for event in &script.events {
            self.events += 1;
            self.event(event)?;
            self.base = self.target.now();
        }
        if let Some(position) = self.blocked.as_ref().map(|b| b.position) {
            self.finish_blocked(position)?;
        }
        Ok(())
    }

    pub(super) fn report(self, end: RunResult) -> Report {
        let stop = end.err().or(self.drifted);
        let mut report = match stop {
            None => Report::passed(),
            Some(stop) => {
                let mut report = Report::stopped(stop.status, stop.position, stop.reason);
                report.details = stop.details;
                report
            }
        };
        report.drift = self.drift;
        report.error = self.drift.max(self.allowed);
        report.virtual_time = self.target.now().since(Time::ZERO);
        report.events = self.events;
        report.printed = self.env.printed;
        report
    }

    pub(super) fn event(&mut self, event: &'a ScriptEvent) -> RunResult {
        let (start, end) = match event.when {
            EventTime::Absolute(at) => (Time::ZERO + at, Time::ZERO + at),
            EventTime::Relative(after) => (self.base + after, self.base + after),
            EventTime::AbsoluteRange(from, to) => (Time::ZERO + from, Time::ZERO + to),
            EventTime::RelativeRange(from, to) => (self.base + from, self.base + to),
            EventTime::Any => (self.target.now(), Time::MAX),
        };
        let is_out =
            matches!(&event.action, Action::Packet(p) if p.direction == crate::ast::PacketDirection::Out);
        if !is_out {
            self.advance(start, event.position)?;
            if start < self.target.now() && event.when != EventTime::Any {
                let late = self.target.now() - start;
                let wait = start.since(self.base);
                self.note_drift(event.position, late, wait, "the event is late", Vec::new());
            }
        }
        match &event.action {
            Action::Packet(packet) if is_out => self.expect(packet, start, end, event),
            Action::Packet(packet) => self.inject(packet, event.position),
            Action::Call(call) => {
                let end = call.end.map(|d| match event.when {
                    EventTime::Relative(_) => self.base + d,
                    _ => Time::ZERO + d,
                });
                self.call(call, end, event.position)
            }
            Action::Shell(shell) => self.shell(shell),
            Action::Code(code) => self.code(code, event.position),
        }
    }

    /// Lets time pass to `until`. Timers run, and a blocked call may return.
    pub(super) fn advance(&mut self, until: Time, position: Position) -> RunResult {
        while self.step(until, position)? {}
        self.target.advance_to(until);
        self.check_limits(position)?;
        self.poll_blocked()
    }

    /// Lets time pass to the next action of the target, at most to `until`. Returns false if there was none.
    pub(super) fn step(&mut self, until: Time, position: Position) -> Result<bool, Stop> {
        let quiet = self.target.step(until) == StepResult::Quiet;
        if let Some(why) = self.target.ended() {
            return Err(self.stop(Status::Crashed, position, why));
        }
        if quiet {
            return Ok(false);
        }
        self.steps += 1;
        self.check_limits(position)?;
        self.poll_blocked()?;
        Ok(true)
    }

    pub(super) fn check_limits(&self, position: Position) -> RunResult {
        let passed = self.target.now().since(Time::ZERO);
        let reason = if passed > self.options.time_limit {
            format!("stopped after {} of virtual time", self.options.time_limit)
        } else if self.steps + self.events > self.options.step_limit {
            format!("stopped after {} steps", self.options.step_limit)
        } else {
            return Ok(());
        };
        Err(self.stop(Status::Fail, position, reason))
    }

    /// Stops the run because of the error of a call or a packet.
    pub(super) fn stop_for(&self, error: ScriptError, who: &str, position: Position) -> Stop {
        let who = if who.is_empty() { String::new() } else { format!("{who}: ") };
        match error {
            ScriptError::Unsupported(what) => self.stop(Status::Unsupported, position, what),
            ScriptError::Ended(why) => self.stop(Status::Crashed, position, why),
            ScriptError::Invalid(why) => self.stop(Status::Fail, position, format!("{who}{why}")),
            ScriptError::Mismatch { expected, live } => {
                self.stop(Status::Fail, position, format!("{who}expected {expected}, got {live}"))
            }
        }
    }

    /// Records an error in time. The script goes on.
    pub(super) fn note_drift(
        &mut self,
        position: Position,
        off: Dur,
        wait: Dur,
        what: &str,
        details: Vec<String>,
    ) {
        if off <= self.settings.tolerance.max(self.target.allowed_time_error(wait, &self.settings)) {
            self.allowed = self.allowed.max(off);
            return;
        }
        self.drift = self.drift.max(off);
        if self.drifted.is_none() {
            let mut stop = self.stop(Status::Time, position, format!("{what}: off by {off}"));
            stop.details.splice(0..0, details);
            self.drifted = Some(stop);
        }
    }

    /// Stops the run. A failure has the diagnostics of the target.
    pub(super) fn stop(&self, status: Status, position: Position, reason: String) -> Stop {
        let failed = matches!(status, Status::Fail | Status::Time);
        Stop {
            status,
            position,
            reason,
            details: if failed { self.target.diagnostics() } else { Vec::new() },
        }
    }
}
