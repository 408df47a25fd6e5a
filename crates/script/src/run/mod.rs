//! Running a script against a stack: the model in virtual time, or whatever else is a [`Stack`].
//!
//! | file | what |
//! | --- | --- |
//! | `stack` | the seam: what a stack under test is |
//! | `model` | the model as such a stack |
//! | `world` | virtual time, connections, packets not looked at yet |
//! | `packet` | script numbers to live ones and back; what differs |
//! | `events` | packets, commands and code of the script |
//! | `fastopen` | cookies, and writes that open a connection |
//! | `icmp` | ICMP messages |
//! | `files` | pipes and files beside sockets |
//! | `errqueue` | the error queue: writes without a copy, time stamps |
//! | `socket`, `calls`, `sockopt`, `poll` | what an application calls |
//! | `config` | profile, sysctls and socket options to the stack's switches |
//! | `info` | `tcpi_*` |
//!
//! # Time
//!
//! A relative time counts from when the event before really finished. Timers that are due when an event of the script happens run
//! before it. A packet is compared with its time even when it left before the script asked for it. A call that blocks goes on
//! beside the script, as in the original, and the next call waits for it.
//!
//! # Known differences from the original
//!
//! * The time at which a blocking call returns is written loosely in scripts; it may be early by what the original
//!   allows (4 ms, or 12.5 % of the wait), and late by no more than the tolerance.
//! * Code runs where it stands, not after the script.

mod calls;
mod config;
mod errqueue;
mod events;
mod fastopen;
mod files;
mod icmp;
mod info;
mod message;
mod model;
mod packet;
mod poll;
mod socket;
mod sockopt;
pub mod stack;
mod world;

use crate::ast::{Call, Event, Kind, Script, When};
use crate::code::Env;
use crate::parse::{parse, select};
use crate::place::Place;
use crate::report::{Report, Status};
use crate::settings::{Settings, Version};
pub use model::{Model, Target};
pub use packet::{Difference, Map};
pub use stack::{Answer, Stack, Trouble};
use stack::{Sent, Step};
use std::collections::VecDeque;
use tcpassay_tcp::Profile;
use tcpassay_units::{Dur, Time};

/// Names and values.
type Sysctls = &'static [(&'static str, &'static str)];

/// Older versions of a profile's stack: name, profile, version, sysctls.
const OLDER: [(&str, Profile, Version, Sysctls); 2] = [
    (
        "freebsd-12",
        Profile::FreeBsd,
        Version::FreeBsd12,
        &[
            ("net.inet.tcp.delacktime", "100"),
            ("net.inet.tcp.do_prr", "0"),
            ("net.inet.tcp.rfc6675_pipe", "0"),
            ("net.inet.tcp.rexmit_initial", "3000"),
        ],
    ),
    ("linux-6.1", Profile::Linux, Version::Linux61, &[("net.ipv4.tcp_syn_linear_timeouts", "0")]),
];

/// What a run is made with.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The stack.
    pub profile: Profile,
    /// Window, PSH and the options of a SYN do not count (old scripts).
    pub loose: bool,
    /// From the command line; the script's own lines come after them.
    pub settings: Settings,
    /// The run is stopped when this much virtual time has passed.
    pub time_limit: Dur,
    /// The run is stopped after so many timers and events.
    pub step_limit: u64,
}

impl Options {
    /// The defaults: two hours of keepalive and more fit into the limits.
    pub fn new(profile: Profile) -> Options {
        Options {
            profile,
            loose: false,
            settings: Settings::default(),
            time_limit: Dur::from_secs(100_000),
            step_limit: 2_000_000,
        }
    }

    /// By the name of a stack: a profile, or an older version of one. `freebsd-12` has delayed ACKs of 100 ms (40 ms since 13), recovery
    /// without PRR (default since 13) and RFC 6675 (since 14), and SYNs that are first repeated after 3 s (1 s since 13). `linux-6.1` repeats
    /// SYNs as Linux before 6.5, and does not answer an ACK for what was never sent.
    pub fn by_name(name: &str) -> Option<Options> {
        let Some((_, profile, version, sysctls)) = OLDER.into_iter().find(|older| older.0 == name) else {
            return Profile::by_name(name).map(Options::new);
        };
        let mut options = Options::new(profile);
        options.settings.version = version;
        let owned = |&(sysctl, value): &(&str, &str)| (sysctl.to_owned(), value.to_owned());
        options.settings.sysctls.extend(sysctls.iter().map(owned));
        Some(options)
    }

    /// What [`Options::by_name`] knows.
    pub fn names() -> Vec<&'static str> {
        Profile::ALL.iter().map(|p| p.name()).chain(OLDER.iter().map(|older| older.0)).collect()
    }
}

/// A call that has not returned yet.
#[derive(Clone, Debug)]
struct Blocked<'a> {
    call: &'a Call,
    place: Place,
    /// When it was made.
    began: Time,
    /// When it is to return; `None` when the script gave no time.
    end: Option<Time>,
}

/// Why a run ends before its script does.
#[derive(Clone, Debug)]
struct Stop {
    status: Status,
    place: Place,
    reason: String,
    details: Vec<String>,
}

type Go = Result<(), Stop>;

struct Runner<'a, S> {
    options: &'a Options,
    settings: Settings,
    stack: &'a mut S,
    /// Packets that were taken from the stack and not looked at yet.
    ahead: VecDeque<Sent>,
    env: Env,
    blocked: Option<Blocked<'a>>,
    /// When the last event finished.
    base: Time,
    /// The largest error in time so far, and where.
    drift: Dur,
    drifted: Option<Stop>,
    /// The largest error in time that was allowed.
    allowed: Dur,
    events: u64,
    steps: u64,
}

/// Runs the script `text` against the model.
pub fn run(text: &str, options: &Options) -> Report {
    run_on(text, options, &mut Model::new(options.profile))
}

/// Runs the script `text` against a stack that has just been made.
pub fn run_on<S: Stack>(text: &str, options: &Options, stack: &mut S) -> Report {
    let mut settings = options.settings.clone();
    let mut words = settings.clone();
    let start = Place { line: 1, column: 1 };
    let chosen = select(text, &[stack.platform()]);
    for line in chosen.as_deref().map_or_else(|_| Vec::new(), crate::parse::options) {
        // What is wrong with one is said below.
        let _ = words.set(&line.name, &line.value);
    }
    words.defines.splice(0..0, fastopen::words(&words));
    let expanded = match chosen.as_deref().map(|text| words.expand(text)) {
        Ok(Err(reason)) => return Report::stopped(Status::Unsupported, start, reason),
        Ok(Ok(text)) => Ok(text),
        Err(error) => Err(error.clone()),
    };
    let script = match expanded.and_then(|text| parse(&text)) {
        Ok(script) => script,
        Err(error) => {
            let status = if error.lacking { Status::Unsupported } else { Status::Syntax };
            return Report::stopped(status, error.place, error.reason());
        }
    };
    for line in &script.options {
        if let Err(reason) = settings.set(&line.name, &line.value) {
            let status = if reason.contains("not supported") { Status::Unsupported } else { Status::Syntax };
            return Report::stopped(status, line.place, reason);
        }
    }
    if !script.tests_something() {
        let reason =
            "expected a packet of the stack, a system call or an assertion; this script tests nothing";
        return Report::stopped(Status::Syntax, start, reason.to_owned());
    }
    let mut env = Env::default();
    for (name, value) in &settings.defines {
        env.define(name, value);
    }
    let mut runner = Runner {
        options,
        settings,
        stack,
        ahead: VecDeque::new(),
        env,
        blocked: None,
        base: Time::ZERO,
        drift: Dur::ZERO,
        drifted: None,
        allowed: Dur::ZERO,
        events: 0,
        steps: 0,
    };
    let end = runner.script(&script);
    runner.report(end)
}

impl<'a, S: Stack> Runner<'a, S> {
    fn script(&mut self, script: &'a Script) -> Go {
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

    fn report(self, end: Go) -> Report {
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

    fn event(&mut self, event: &'a Event) -> Go {
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
    fn advance(&mut self, until: Time, place: Place) -> Go {
        while self.step(until, place)? {}
        self.stack.reach(until);
        self.check_limits(place)?;
        self.poll_blocked()
    }

    /// Lets the stack do the next thing that it does by itself, at most until `until`; whether there was one.
    fn step(&mut self, until: Time, place: Place) -> Result<bool, Stop> {
        if self.stack.step(until) == Step::Quiet {
            return Ok(false);
        }
        self.steps += 1;
        self.check_limits(place)?;
        self.poll_blocked()?;
        Ok(true)
    }

    fn check_limits(&self, place: Place) -> Go {
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

    /// Makes a call; one that blocks goes on beside the script.
    fn call(&mut self, call: &'a Call, end: Option<Time>, place: Place) -> Go {
        if self.blocked.is_some() {
            self.finish_blocked(place)?;
        }
        let began = self.stack.now();
        let answer = self.stack.call(call).map_err(|t| self.troubled(t, &call.name, place))?;
        if answer == Answer::Blocks {
            self.blocked = Some(Blocked { call, place, began, end });
            return if end.is_some() { Ok(()) } else { self.finish_blocked(place) };
        }
        self.check_result(call, &answer, place)?;
        self.check_end(began, end, place);
        Ok(())
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

    /// Looks whether the blocked call can return now.
    fn poll_blocked(&mut self) -> Go {
        let Some(blocked) = self.blocked.clone() else { return Ok(()) };
        let answer = self.stack.retry(blocked.call);
        let answer = answer.map_err(|t| self.troubled(t, &blocked.call.name, blocked.place))?;
        if answer == Answer::Blocks {
            return Ok(());
        }
        self.blocked = None;
        self.check_result(blocked.call, &answer, blocked.place)?;
        self.check_end(blocked.began, blocked.end, blocked.place);
        Ok(())
    }

    /// Lets time pass until the blocked call returns, which `place` waits for.
    fn finish_blocked(&mut self, place: Place) -> Go {
        while let Some(blocked) = &self.blocked {
            let (name, at) = (blocked.call.name.clone(), blocked.place);
            if !self.step(Time::MAX, place)? {
                return Err(self.stop(Status::Fail, at, format!("`{name}` blocks for ever")));
            }
        }
        Ok(())
    }

    fn check_result(&mut self, call: &Call, answer: &Answer, place: Place) -> Go {
        let want = &call.result;
        let (value, errno) = match answer {
            Answer::Done(n) => (*n, None),
            Answer::Error(errno) => (-1, Some(errno.as_str())),
            Answer::New if want.value.is_some_and(|fd| fd < 0) => (0, None),
            Answer::New => (self.stack.made(want.value), None),
            Answer::Blocks => unreachable!("a call that blocks has no result"),
        };
        let same_value = want.value.is_none_or(|w| w == value);
        // Two names of one number.
        let one = |name: &str| if name == "EWOULDBLOCK" { "EAGAIN".to_owned() } else { name.to_owned() };
        let same_errno = want.errno.as_deref().is_none_or(|w| Some(one(w).as_str()) == errno);
        if same_value && same_errno {
            return Ok(());
        }
        let text = |value: Option<i64>, errno: Option<&str>| {
            let value = value.map_or("...".to_owned(), |v| v.to_string());
            errno.map_or(value.clone(), |e| format!("{value} {e}"))
        };
        let expected = text(want.value, want.errno.as_deref());
        let live = text(Some(value), errno);
        Err(self.stop(Status::Fail, place, format!("{}: expected {expected}, got {live}", call.name)))
    }

    /// A blocking call returned now.
    fn check_end(&mut self, began: Time, end: Option<Time>, place: Place) {
        let Some(end) = end else { return };
        let now = self.stack.now();
        let wait = end.since(began);
        let slack = self.settings.tolerance.max(Dur::from_millis(4)).max(wait / 8);
        if now > end || end.since(now) > slack {
            let off = if now > end { now - end } else { end - now };
            let what = format!("the call returned at {now}, expected at {end}");
            self.note_drift(place, off, wait, &what, Vec::new());
        }
    }

    /// An error in time is remembered; the script goes on.
    fn note_drift(&mut self, place: Place, off: Dur, wait: Dur, what: &str, details: Vec<String>) {
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
}
