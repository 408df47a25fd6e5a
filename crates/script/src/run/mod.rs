//! Running a script against the model, in virtual time.
//!
//! | file | what |
//! | --- | --- |
//! | `world` | virtual time, connections, packets not looked at yet |
//! | `packet` | script numbers to live ones and back; what differs |
//! | `events` | packets, commands and code of the script |
//! | `icmp` | ICMP messages |
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
mod events;
mod icmp;
mod info;
mod packet;
mod poll;
mod socket;
mod sockopt;
mod world;

use crate::ast::{Call, Event, Kind, Script, When};
use crate::code::Env;
use crate::host::Host;
use crate::parse::parse;
use crate::place::Place;
use crate::report::{Report, Status};
use crate::settings::Settings;
use calls::{Attempt, Trouble};
pub use packet::Difference;
use socket::File;
use std::collections::BTreeMap;
use tcpassay_tcp::Profile;
use tcpassay_units::{Dur, Time};
use world::World;

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
}

/// How a stack lays out its options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    Linux,
    FreeBsd,
}

/// What the script's packets are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    /// Nothing yet.
    None,
    /// A listening socket: the next inbound packet makes a connection.
    Listener(i64),
    /// A connection.
    Peer(usize),
}

/// A call that has not returned yet.
#[derive(Clone, Debug)]
struct Blocked<'a> {
    call: &'a Call,
    place: Place,
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

struct Runner<'a> {
    options: &'a Options,
    settings: Settings,
    host: Host,
    world: World,
    files: BTreeMap<i64, File>,
    target: Target,
    env: Env,
    blocked: Option<Blocked<'a>>,
    /// When the call in progress began, and how much of it is written.
    call_began: Time,
    written: u64,
    /// When the last event finished.
    base: Time,
    /// The largest error in time so far, and where.
    drift: Dur,
    drifted: Option<Stop>,
    events: u64,
}

/// Runs the script `text`.
pub fn run(text: &str, options: &Options) -> Report {
    let mut settings = options.settings.clone();
    let expanded = settings.expand(text);
    let script = match parse(&expanded) {
        Ok(script) => script,
        Err(error) => {
            let reason = format!("expected {}, found {}", error.expected, error.found);
            return Report::stopped(Status::Syntax, error.place, reason);
        }
    };
    for line in &script.options {
        if let Err(reason) = settings.set(&line.name, &line.value) {
            let status = if reason.contains("not supported") { Status::Unsupported } else { Status::Syntax };
            return Report::stopped(status, line.place, reason);
        }
    }
    let mut runner = Runner {
        options,
        settings,
        host: Host::default(),
        world: World::default(),
        files: BTreeMap::new(),
        target: Target::None,
        env: Env::default(),
        blocked: None,
        call_began: Time::ZERO,
        written: 0,
        base: Time::ZERO,
        drift: Dur::ZERO,
        drifted: None,
        events: 0,
    };
    let end = runner.script(&script);
    runner.report(end)
}

impl<'a> Runner<'a> {
    fn script(&mut self, script: &'a Script) -> Go {
        if let Some(shell) = &script.init {
            self.shell(shell)?;
        }
        for event in &script.events {
            self.events += 1;
            self.event(event)?;
            self.base = self.world.now;
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
        report.virtual_time = self.world.now.since(Time::ZERO);
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
            When::Any => (self.world.now, Time::MAX),
        };
        let is_out = matches!(&event.kind, Kind::Packet(p) if p.direction == crate::ast::Direction::Out);
        if !is_out {
            self.advance(start, event.place)?;
            if start < self.world.now && event.when != When::Any {
                let late = self.world.now - start;
                self.note_drift(event.place, late, "the event comes too late", Vec::new());
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
        while let Some(at) =
            self.world.next_timer().into_iter().chain(self.wake()).min().filter(|&at| at <= until)
        {
            self.fire(at, place)?;
        }
        self.world.now = self.world.now.max(until);
        self.check_limits(place)?;
        self.poll_blocked()
    }

    fn fire(&mut self, at: Time, place: Place) -> Go {
        self.world.steps += 1;
        self.world.fire(at);
        self.check_limits(place)?;
        self.poll_blocked()
    }

    /// When a blocked `poll` gives up.
    fn wake(&self) -> Option<Time> {
        let call = self.blocked.as_ref()?.call;
        let index = match call.name.as_str() {
            "poll" => 2,
            "epoll_wait" => 3,
            _ => return None,
        };
        let ms = calls::int(&call.args, index).ok().and_then(|ms| u64::try_from(ms).ok())?;
        Some(self.call_began.saturating_add(Dur::from_millis(ms.min(1 << 40))))
            .filter(|&at| at > self.world.now)
    }

    fn check_limits(&self, place: Place) -> Go {
        let passed = self.world.now.since(Time::ZERO);
        let reason = if passed > self.options.time_limit {
            format!("stopped after {} of virtual time", self.options.time_limit)
        } else if self.world.steps + self.events > self.options.step_limit {
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
        self.call_began = self.world.now;
        self.written = 0;
        if call.name == "socket" {
            self.target = Target::None;
        }
        match self.try_call(call, place)? {
            Attempt::Blocks => {
                let waits = end.is_some();
                self.blocked = Some(Blocked { call, place, end });
                if waits { Ok(()) } else { self.finish_blocked(place) }
            }
            done => {
                self.check_result(call, &done, place)?;
                self.check_end(end, place);
                Ok(())
            }
        }
    }

    fn try_call(&mut self, call: &Call, place: Place) -> Result<Attempt, Stop> {
        self.attempt(call).map_err(|trouble| match trouble {
            Trouble::Unsupported(what) => self.stop(Status::Unsupported, place, what),
            Trouble::Nonsense(why) => self.stop(Status::Fail, place, format!("{}: {why}", call.name)),
            Trouble::Mismatch { expected, live } => {
                self.stop(Status::Fail, place, format!("{}: expected {expected}, got {live}", call.name))
            }
        })
    }

    /// Looks whether the blocked call can return now.
    fn poll_blocked(&mut self) -> Go {
        let Some(blocked) = self.blocked.clone() else { return Ok(()) };
        let attempt = self.try_call(blocked.call, blocked.place)?;
        if attempt == Attempt::Blocks {
            return Ok(());
        }
        self.blocked = None;
        self.check_result(blocked.call, &attempt, blocked.place)?;
        self.check_end(blocked.end, blocked.place);
        Ok(())
    }

    /// Lets time pass until the blocked call returns, which `place` waits for.
    fn finish_blocked(&mut self, place: Place) -> Go {
        while let Some(blocked) = &self.blocked {
            let (name, at) = (blocked.call.name.clone(), blocked.place);
            let Some(next) = self.world.next_timer().into_iter().chain(self.wake()).min() else {
                return Err(self.stop(Status::Fail, at, format!("`{name}` blocks for ever")));
            };
            self.fire(next, place)?;
        }
        Ok(())
    }

    fn check_result(&mut self, call: &Call, attempt: &Attempt, place: Place) -> Go {
        let want = &call.result;
        let (value, errno) = match attempt {
            Attempt::Done(n) => (*n, None),
            Attempt::Error(errno) => (-1, Some(*errno)),
            Attempt::New(file) => {
                let fd = match want.value {
                    Some(fd) if fd >= 0 => fd,
                    Some(_) => 0,
                    None => self.files.keys().next_back().map_or(3, |last| last + 1),
                };
                if want.value.is_none_or(|fd| fd >= 0) {
                    self.files.insert(fd, (**file).clone());
                }
                (fd, None)
            }
            Attempt::Blocks => unreachable!("a call that blocks has no result"),
        };
        let same_value = want.value.is_none_or(|w| w == value);
        let same_errno = want.errno.as_deref().is_none_or(|w| Some(w) == errno);
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
    fn check_end(&mut self, end: Option<Time>, place: Place) {
        let Some(end) = end else { return };
        let now = self.world.now;
        let slack = self.settings.tolerance.max(Dur::from_millis(4)).max(end.since(self.call_began) / 8);
        if now > end || end.since(now) > slack {
            let off = if now > end { now - end } else { end - now };
            let what = format!("the call returned at {now}, expected at {end}");
            self.note_drift(place, off, &what, Vec::new());
        }
    }

    /// An error in time is remembered; the script goes on.
    fn note_drift(&mut self, place: Place, off: Dur, what: &str, details: Vec<String>) {
        if off <= self.settings.tolerance {
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
