//! The loop over the events of a script.

use super::options::Options;
use super::stack::{Sent, Stack, Step, Trouble};
use crate::ast::{Call, Event, Kind, Script, When};
use crate::code::Env;
use crate::place::Place;
use crate::report::{Report, Status};
use crate::settings::Settings;
use std::collections::VecDeque;
use tcpassay_units::{Dur, Time};

/// A call that has not returned yet.
#[derive(Clone, Debug)]
pub(super) struct Blocked<'a> {
    pub(super) call: &'a Call,
    pub(super) place: Place,
    /// When it was made.
    pub(super) began: Time,
    /// When it is to return; `None` when the script gave no time.
    pub(super) end: Option<Time>,
}

/// Why a run ends before its script does.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    pub(super) status: Status,
    pub(super) place: Place,
    pub(super) reason: String,
    pub(super) details: Vec<String>,
}

pub(super) type Go = Result<(), Stop>;

pub(super) struct Runner<'a, S> {
    pub(super) options: &'a Options,
    pub(super) settings: Settings,
    pub(super) stack: &'a mut S,
    /// Packets that were taken from the stack and not looked at yet.
    pub(super) ahead: VecDeque<Sent>,
    pub(super) env: Env,
    pub(super) blocked: Option<Blocked<'a>>,
    /// When the last event finished.
    pub(super) base: Time,
    /// The largest error in time so far, and where.
    pub(super) drift: Dur,
    pub(super) drifted: Option<Stop>,
    /// The largest error in time that was allowed.
    pub(super) allowed: Dur,
    pub(super) events: u64,
    pub(super) steps: u64,
}

impl<'a, S: Stack> Runner<'a, S> {
    pub(super) fn script(&mut self, script: &'a Script) -> Go {
        let begun = self.stack.begin(&self.settings);
        begun.map_err(|trouble| self.troubled(trouble, "", Place { line: 1, column: 1 }))?;
        if let Some(shell) = &script.init {
            self.shell(shell)?;
        }
        for event in &script.events {
            self.events += 1;
            self.event(event)?;
            self.base = self.stack.now();
        }
        if let Some(place) = self.blocked.as_ref().map(|b| b.place) {
            self.finish_blocked(place)?;
        }
        Ok(())
    }

    pub(super) fn report(self, end: Go) -> Report {
        let stop = end.err().or(self.drifted);
        let mut report = match stop {
            None => Report::passed(),
            Some(stop) => {
                let mut report = Report::stopped(stop.status, stop.place, stop.reason);
                report.details = stop.details;
                report
            }
        };
        report.drift = self.drift;
        report.error = self.drift.max(self.allowed);
        report.virtual_time = self.stack.now().since(Time::ZERO);
        report.events = self.events;
        report.printed = self.env.printed;
        report
    }

    pub(super) fn event(&mut self, event: &'a Event) -> Go {
        let (start, end) = match event.when {
            When::Absolute(at) => (Time::ZERO + at, Time::ZERO + at),
            When::Relative(after) => (self.base + after, self.base + after),
            When::AbsoluteRange(from, to) => (Time::ZERO + from, Time::ZERO + to),
            When::RelativeRange(from, to) => (self.base + from, self.base + to),
            When::Any => (self.stack.now(), Time::MAX),
        };
        let is_out = matches!(&event.kind, Kind::Packet(p) if p.direction == crate::ast::Direction::Out);
        if !is_out {
            self.advance(start, event.place)?;
            if start < self.stack.now() && event.when != When::Any {
                let late = self.stack.now() - start;
                let wait = start.since(self.base);
                self.note_drift(event.place, late, wait, "the event comes too late", Vec::new());
            }
        }
        match &event.kind {
            Kind::Packet(packet) if is_out => self.expect(packet, start, end, event),
            Kind::Packet(packet) => self.inject(packet, event.place),
            Kind::Call(call) => {
                let end = call.end.map(|d| match event.when {
                    When::Relative(_) => self.base + d,
                    _ => Time::ZERO + d,
                });
                self.call(call, end, event.place)
            }
            Kind::Shell(shell) => self.shell(shell),
            Kind::Code(code) => self.code(code, event.place),
        }
    }

    /// Lets time pass up to `until`: timers run, and a call that blocks may return.
    pub(super) fn advance(&mut self, until: Time, place: Place) -> Go {
        while self.step(until, place)? {}
        self.stack.reach(until);
        self.check_limits(place)?;
        self.poll_blocked()
    }

    /// Lets the stack do the next thing that it does by itself, at most until `until`; whether there was one.
    pub(super) fn step(&mut self, until: Time, place: Place) -> Result<bool, Stop> {
        if self.stack.step(until) == Step::Quiet {
            return Ok(false);
        }
        self.steps += 1;
        self.check_limits(place)?;
        self.poll_blocked()?;
        Ok(true)
    }

    pub(super) fn check_limits(&self, place: Place) -> Go {
        let passed = self.stack.now().since(Time::ZERO);
        let reason = if passed > self.options.time_limit {
            format!("stopped after {} of virtual time", self.options.time_limit)
        } else if self.steps + self.events > self.options.step_limit {
            format!("stopped after {} steps", self.options.step_limit)
        } else {
            return Ok(());
        };
        Err(self.stop(Status::Fail, place, reason))
    }

    /// The end of the run, because of what a call or a packet met.
    pub(super) fn troubled(&self, trouble: Trouble, who: &str, place: Place) -> Stop {
        let who = if who.is_empty() { String::new() } else { format!("{who}: ") };
        match trouble {
            Trouble::Unsupported(what) => self.stop(Status::Unsupported, place, what),
            Trouble::Nonsense(why) => self.stop(Status::Fail, place, format!("{who}{why}")),
            Trouble::Mismatch { expected, live } => {
                self.stop(Status::Fail, place, format!("{who}expected {expected}, got {live}"))
            }
        }
    }

    /// An error in time is remembered; the script goes on.
    pub(super) fn note_drift(&mut self, place: Place, off: Dur, wait: Dur, what: &str, details: Vec<String>) {
        if off <= self.settings.tolerance.max(self.stack.slack(wait, &self.settings)) {
            self.allowed = self.allowed.max(off);
            return;
        }
        self.drift = self.drift.max(off);
        if self.drifted.is_none() {
            let mut stop = self.stop(Status::Time, place, format!("{what}: off by {off}"));
            stop.details.splice(0..0, details);
            self.drifted = Some(stop);
        }
    }

    /// The end of the run, with the stack's last words and state.
    pub(super) fn stop(&self, status: Status, place: Place, reason: String) -> Stop {
        let told = matches!(status, Status::Fail | Status::Time);
        Stop { status, place, reason, details: if told { self.stack.words() } else { Vec::new() } }
    }
}
