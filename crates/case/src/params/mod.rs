//! The parameter table.
//!
//! A case is a set of triples `<entity, parameter, value>`. Every parameter is declared here once, with its
//! kind (which includes the unit), suggested levels, default, the substrates that support it, constraints
//! and one line of documentation. Plans, the command line, reports and the replay command read this table
//! ([`to_json`]).
//!
//! * The default is the simplest value. The isolation of causes and the shortest replay command both use
//!   this order. A row of `stack` whose default is `profile` has the setting of `stack.profile`.
//! * A value contains its unit (`"10ms"`, `"1Gbit"`, `"30KB"`); a number without the required unit is refused.
//! * A path may be addressed to one side or instance: `sender/stack.ecn`, `receiver0/nic.gro`,
//!   `access/link.delay`. The most specific one applies; a plain path is for all instances
//!   (see [`topology`](crate::topology) for the names).
//!
//! This module must not know how a substrate implements a parameter: it only sets fields of the settings of
//! a [`Case`](crate::Case).

mod app;
mod cc_name;
pub mod grammar;
mod host;
pub(crate) mod implementation;
mod json;
mod kind;
mod link;
pub mod linux;
mod network;
mod nic;
pub(crate) mod python_controller;
mod queue;
mod row;
mod spec;
pub(crate) mod stack;
pub(crate) mod table;
mod words;

pub use cc_name::CcName;
pub(crate) use host::HEADERS;
pub use host::{CcEngine, HostSettings, SmallQueues, SocketBuffers};
pub use implementation::{Built, Implementation};
pub use json::to_json;
pub use kind::{Setting, Value, ValueKind};
pub use link::{DISTRIBUTIONS, DrawnBy, JitterSettings, LinkSettings};
pub use network::NetworkSettings;
pub use nic::{Adaptive, NicSettings};
pub use python_controller::PythonController;
pub use queue::{LinuxQdisc, Mark, QueueKind, QueuePlace, QueueSettings, RED_BANDWIDTH, ServedBy};
pub use row::Row;
pub use spec::{ParamSpec, Substrate, Substrates};
pub use table::{find, nearest, rows};
pub use words::Words;
