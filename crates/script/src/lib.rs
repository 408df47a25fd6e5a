//! packetdrill scripts: the language, and a runner.
//!
//! A script contains inbound packets and system calls with their times, and the packets and results that the stack must
//! produce. The runner works against the trait [`run::Target`]. The model is a target in virtual time that needs neither root
//! nor an interface, and whose results are reproducible. The agent has a target for real kernels.
//!
//! | module | content |
//! | --- | --- |
//! | [`parse`] | parser, whose result is in [`ast`] and whose errors have a position |
//! | [`code`] | code blocks `%{ }%`: evaluator of a subset of Python |
//! | [`ScriptSettings`] | the options of packetdrill's command line |
//! | [`host`] | shell commands: settings of sysctls, routes and the interface |
//! | [`run`] | the runner, and its targets in virtual time: the model, and other TCPs |
//! | [`wire`] | whole packets of scripts for targets that have real bytes |
//! | [`report`] | the result of a run, also as JSON |
//!
//! The crate does not use a kernel, files or a clock.

pub mod ast;
pub mod code;
mod cursor;
pub mod host;
mod parse;
mod position;
pub mod report;
pub mod run;
mod settings;
mod siphash;
pub mod wire;

pub use parse::{parse, select};
pub use position::{Position, SyntaxError};
pub use settings::{IpVersion, ScriptSettings};
