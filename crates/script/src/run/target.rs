//! The interface between the runner of scripts and a stack under test.
//!
//! The runner works against the trait [`Target`]. There are three targets: the model and other TCPs in virtual time
//! ([`super::Model`], [`super::StackTarget`]), and a real Linux kernel (`script::kernel` of the agent). The runner holds the script, the times of its events and all
//! comparisons. A target holds sockets, a clock and packets.

use super::sequence_map::SequenceMap;
use crate::ast::{ScriptPacket, Syscall, TcpOption};
use crate::code::CodeValue;
use crate::settings::ScriptSettings;
use std::borrow::Cow;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Segment;

/// The result of a system call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SyscallResult {
    /// The call returned this value.
    Done(i64),
    /// The call returned -1 with this `errno`, by name.
    Error(Cow<'static, str>),
    /// The call created a descriptor. [`Target::name_descriptor`] gives it the number that the script uses.
    NewDescriptor,
    /// The call blocks. [`Target::retry`] returns its result later.
    Blocks,
}

impl SyscallResult {
    /// The call returned -1 with this `errno`.
    pub const fn errno(name: &'static str) -> SyscallResult {
        SyscallResult::Error(Cow::Borrowed(name))
    }
}

/// The reason why the runner stops at a system call, a packet or the start of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScriptError {
    /// The target does not support this.
    Unsupported(String),
    /// A value that the call delivered, other than its result, differs from the script.
    Mismatch {
        /// The value in the script.
        expected: String,
        /// The value of the target.
        live: String,
    },
    /// The script is not valid here, for example because a descriptor is not open.
    Invalid(String),
    /// The target cannot be used any more: its process ended, for example.
    Ended(String),
}

/// A packet that the target sent.
#[derive(Clone, PartialEq, Debug)]
pub struct SentPacket {
    /// Time at which the packet was sent.
    pub at: Time,
    /// The number of its connection, as in [`Target::sequence_map`].
    pub conn: usize,
    /// Header and length. Sequence numbers and timestamps are those of the target.
    pub segment: Segment,
    /// TCP options in the order of the header.
    pub options: Vec<TcpOption>,
    /// The TOS byte (IPv6: traffic class). The upper six bits are zero if the target knows only ECN.
    pub tos: u8,
    /// The time to live (IPv6: hop limit).
    pub hops: u8,
}

/// The result of [`Target::step`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepResult {
    /// A timer expired, a packet left or a call returned at the current time.
    Acted,
    /// Nothing happens before the given time.
    Quiet,
}

/// A stack under test.
pub trait Target {
    /// The name of the platform in `#ifdef` lines: `Linux` or `FreeBSD`.
    fn platform(&self) -> &'static str {
        "Linux"
    }

    /// Prepares the target before the first event, with the options of the command line and of the script's `--` lines.
    ///
    /// # Errors
    /// The target does not support one of the settings.
    fn begin(&mut self, settings: &ScriptSettings) -> Result<(), ScriptError>;

    /// The time since the start of the script.
    fn now(&self) -> Time;

    /// Lets time pass until a timer expires, a packet leaves or a call returns, at most to `until`.
    fn step(&mut self, until: Time) -> StepResult;

    /// Lets time pass to `until`. [`Target::step`] must have returned [`StepResult::Quiet`] for `until` before.
    fn advance_to(&mut self, until: Time);

    /// Time for which the runner waits for a packet after its expected time, to report its delay.
    fn packet_timeout(&self) -> Dur;

    /// The error in time that is allowed after a wait of `wait` if the clock of the target is coarse. The runner allows the
    /// larger of this and the tolerance in `settings`.
    fn allowed_time_error(&self, wait: Dur, settings: &ScriptSettings) -> Dur;

    /// Makes a system call.
    ///
    /// # Errors
    /// See [`ScriptError`].
    fn call(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError>;

    /// The result of `call`, which has blocked; [`SyscallResult::Blocks`] if it still does.
    ///
    /// # Errors
    /// See [`ScriptError`].
    fn retry(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError>;

    /// Gives the new descriptor the number `fd` of the script. `None` if the script expected an error; then the target chooses
    /// a number. Returns the number.
    fn name_descriptor(&mut self, fd: Option<i64>) -> i64;

    /// Delivers a packet of the script to the stack.
    ///
    /// # Errors
    /// See [`ScriptError`].
    fn inject(&mut self, packet: &ScriptPacket) -> Result<(), ScriptError>;

    /// Removes the oldest packet that the stack has sent from the queue.
    fn next_packet(&mut self) -> Option<SentPacket>;

    /// The connection that the packets and the code of the script refer to.
    fn connection_under_test(&self) -> Option<usize>;

    /// The map of sequence numbers and timestamps of a connection.
    fn sequence_map(&mut self, conn: usize) -> &mut SequenceMap;

    /// Applies shell commands of the script.
    ///
    /// # Errors
    /// The first line that is unsupported.
    fn shell(&mut self, text: &str) -> Result<(), String>;

    /// The value of a name such as `tcpi_snd_cwnd` in a code block, for the connection under test.
    fn value(&self, name: &str) -> Option<CodeValue>;

    /// Lines that explain a failure: the state of the connection and the last events of the stack.
    fn diagnostics(&self) -> Vec<String>;

    /// Why the target cannot be used any more.
    fn ended(&self) -> Option<String> {
        None
    }

    /// Time at which the next timer expires, as text; empty if it is unknown.
    fn next_action(&self) -> String {
        String::new()
    }
}
