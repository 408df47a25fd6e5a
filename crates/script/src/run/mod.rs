//! Runs a script against a stack under test.
//!
//! The runner works against the trait [`Target`]. Three types implement it: [`Model`] and [`StackTarget`] (another TCP) in
//! virtual time, and the kernel of the agent (`tcpassay-agent`, module `script::kernel`).
//!
//! | file | content |
//! | --- | --- |
//! | `target` | the interface between the runner and a stack under test |
//! | `options` | options of a run, stacks by name |
//! | `runner` | the loop over the events, errors in time |
//! | `blocking` | system calls, also those that block |
//! | `events` | packets, shell commands and code blocks |
//! | `sequence_map` | sequence numbers and timestamps of the script and of the stack |
//! | `tcp_options` | TCP options in the order of each stack |
//! | `compare`, `packet_text` | comparison of packets, packets as text |
//! | `model` | the model as a stack under test |
//! | `stack` | another TCP as a stack under test |
//!
//! # Time
//!
//! A relative time counts from the actual end of the previous event. Timers that are due at the time of an event run before the
//! event. The runner checks the time of a packet even if the packet left before the event that expects it. A call that blocks
//! continues while the script goes on, as in packetdrill, and the next call waits for it.
//!
//! # Differences from packetdrill
//!
//! * A blocking call may return early by 4 ms or 12.5 % of the wait, as in packetdrill, but late only by the tolerance.
//! * A code block runs at its place in the script. Packetdrill runs all code after the script.

mod blocking;
mod compare;
mod events;
mod model;
mod options;
mod packet_text;
mod runner;
mod sequence_map;
mod stack;
pub mod target;
mod tcp_options;

use crate::code::CodeEnvironment;
use crate::parse::{parse, select};
use crate::position::Position;
use crate::report::{Report, Status};
pub use compare::FieldDifference;
use model::fast_open;
pub use model::{Model, SocketUnderTest};
pub use options::RunOptions;
use runner::Runner;
pub use sequence_map::SequenceMap;
pub use stack::{Begin, StackTarget};
use std::collections::VecDeque;
pub use target::{ScriptError, SyscallResult, Target};
use tcpassay_units::{Dur, Time};

/// Runs the script `text` against the model.
pub fn run(text: &str, options: &RunOptions) -> Report {
    run_on(text, options, &mut Model::new(options.profile))
}

/// Runs the script `text` against a new target.
pub fn run_on<T: Target>(text: &str, options: &RunOptions, target: &mut T) -> Report {
    let mut settings = options.settings.clone();
    let mut words = settings.clone();
    let start = Position { line: 1, column: 1 };
    let chosen = select(text, &[target.platform()]);
    for line in chosen.as_deref().map_or_else(|_| Vec::new(), crate::parse::options) {
        // The loop over `script.options` below reports errors.
        let _ = words.set(&line.name, &line.value);
    }
    words.defines.splice(0..0, fast_open::words(&words));
    let expanded = match chosen.as_deref().map(|text| words.expand(text)) {
        Ok(Err(reason)) => return Report::stopped(Status::Unsupported, start, reason),
        Ok(Ok(text)) => Ok(text),
        Err(error) => Err(error.clone()),
    };
    let script = match expanded.and_then(|text| parse(&text)) {
        Ok(script) => script,
        Err(error) => {
            let status = if error.unsupported { Status::Unsupported } else { Status::Syntax };
            return Report::stopped(status, error.position, error.reason());
        }
    };
    for line in &script.options {
        if let Err(reason) = settings.set(&line.name, &line.value) {
            let status = if reason.contains("not supported") { Status::Unsupported } else { Status::Syntax };
            return Report::stopped(status, line.position, reason);
        }
    }
    if !script.tests_something() {
        let reason =
            "expected a packet of the stack, a system call or an assertion; this script tests nothing";
        return Report::stopped(Status::Syntax, start, reason.to_owned());
    }
    let mut env = CodeEnvironment::default();
    for (name, value) in &settings.defines {
        env.define(name, value);
    }
    let mut runner = Runner {
        options,
        settings,
        target,
        unchecked: VecDeque::new(),
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
