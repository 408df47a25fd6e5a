//! packetdrill scripts: the language, and a runner in virtual time.
//!
//! A script says when packets arrive, what an application calls, and what the stack must then send and return. Here it runs
//! against the model TCP: no clock, no interface, no root, and the same result each time.
//!
//! | part | what |
//! | --- | --- |
//! | [`parse`] | text to [`ast`], with the place of the first error |
//! | [`code`] | blocks `%{ }%`: a small part of Python, evaluated |
//! | [`ScriptSettings`] | the options of the original's command line |
//! | [`host`] | shell lines: sysctls and routes that are known; nothing is executed |
//! | [`run`] | sockets over [`tcpassay_tcp::Connection`], packets in and out, virtual time |
//! | [`report`] | results as JSON and as text |
//!
//! It must not know a real kernel, files or a clock.

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

pub use parse::{parse, select};
pub use position::{Position, SyntaxError};
pub use settings::{IpVersion, ScriptSettings};
