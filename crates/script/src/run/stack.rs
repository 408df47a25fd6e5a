//! The seam between a script and the stack that it tests: the model, or a kernel behind an interface of its own.
//!
//! The runner has the script, its times and what it compares; a stack has sockets, a clock and packets. Everything in
//! this module is in the words of the script or of the wire, so that a stack need not know how scripts are judged.

use super::sequence_map::Map;
use crate::ast::{Call, Opt, Packet};
use crate::code::Value;
use crate::settings::Settings;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Segment;

/// What a system call gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It returned this.
    Done(i64),
    /// It returned -1 and this `errno`, by name.
    Error(String),
    /// It gave a new descriptor: whatever the script calls it, which [`Stack::made`] says.
    New,
    /// It blocks; [`Stack::retry`] says whether it still does.
    Blocks,
}

/// Why something could not be done, or was not what the script says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// The stack, or what drives it, lacks it.
    Unsupported(String),
    /// A call gave something else than the script says, beside its result.
    Mismatch {
        /// What the script says.
        expected: String,
        /// What it gave.
        live: String,
    },
    /// The script makes no sense.
    Nonsense(String),
}

/// A packet that the stack sent.
#[derive(Clone, PartialEq, Debug)]
pub struct Sent {
    /// When.
    pub at: Time,
    /// Of which connection, by the number that [`Stack::map`] knows.
    pub conn: usize,
    /// Its header and length, with live numbers.
    pub segment: Segment,
    /// Its options in the order of the header, with live numbers.
    pub options: Vec<Opt>,
    /// The TOS byte (IPv6: traffic class); a stack that has ECN only leaves the rest zero.
    pub tos: u8,
    /// The time to live (IPv6: hop limit).
    pub hops: u8,
}

/// Whether the stack did something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Something happened, now: a timer ran, a packet left, a call returned.
    Acted,
    /// Nothing happens by itself.
    Quiet,
}

/// A stack under test.
pub trait Stack {
    /// What `#ifdef` of a script knows it by: `Linux` or `FreeBSD`.
    fn platform(&self) -> &'static str {
        "Linux"
    }

    /// Before the first event: what the command line and the script's `--` lines say.
    ///
    /// # Errors
    /// What the stack cannot do.
    fn begin(&mut self, settings: &Settings) -> Result<(), Trouble>;

    /// Since the script began.
    fn now(&self) -> Time;

    /// Lets time pass until the stack does something by itself, at most to `until`.
    fn step(&mut self, until: Time) -> Step;

    /// Lets time pass to `until`, after [`Stack::step`] said that nothing happens before.
    fn reach(&mut self, until: Time);

    /// How long after its time a packet is worth waiting for, so that the error in time can be told.
    fn patience(&self) -> Dur;

    /// What a time may be off after a wait, beyond what `settings` allow: nothing, unless the stack's own clock is coarse.
    fn slack(&self, wait: Dur, settings: &Settings) -> Dur;

    /// Makes a call.
    ///
    /// # Errors
    /// See [`Trouble`].
    fn call(&mut self, call: &Call) -> Result<Answer, Trouble>;

    /// Looks whether the call that blocks, which is this one, has returned.
    ///
    /// # Errors
    /// See [`Trouble`].
    fn retry(&mut self, call: &Call) -> Result<Answer, Trouble>;

    /// The script calls the new descriptor `fd`; `None`: it expected an error, and the descriptor has no name.
    fn made(&mut self, fd: Option<i64>) -> i64;

    /// A packet of the script arrives.
    ///
    /// # Errors
    /// See [`Trouble`].
    fn inject(&mut self, packet: &Packet) -> Result<(), Trouble>;

    /// The next packet that the stack sent and nobody has taken, in the order in which they left.
    fn take(&mut self) -> Option<Sent>;

    /// The connection that the script's packets are about.
    fn target(&self) -> Option<usize>;

    /// How the numbers of a connection map.
    fn map(&mut self, conn: usize) -> &mut Map;

    /// Commands of the script.
    ///
    /// # Errors
    /// The first line that is unsupported.
    fn shell(&mut self, text: &str) -> Result<(), String>;

    /// What a name in a block of code stands for, of the connection that the script is about.
    fn value(&self, name: &str) -> Option<Value>;

    /// What is worth knowing when something was not as expected: the state of the connection, the stack's last events.
    fn words(&self) -> Vec<String>;

    /// When the stack will do something by itself, in words; empty when nobody knows.
    fn outlook(&self) -> String {
        String::new()
    }
}
