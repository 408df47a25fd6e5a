//! Cases: the parameter table, topologies, and triples `<entity, parameter, value>` as typed, checked settings.
//!
//! * [`params`] - the parameter table: path, unit, default, levels, substrates and constraints of every parameter.
//! * [`topology`] - hosts, switches and links by name, and shortest paths.
//! * [`pace`] - the rate of a link: fixed, or from a trace.
//! * [`draws`] - the random decisions about single packets of a link.
//! * [`interrupts`] - when a NIC raises its receive interrupt.
//! * [`Case`] - a complete and consistent case. [`Case::from_triples`] reports every error at once, each
//!   with its path, so that a plan file's line can be shown. A later step of a run does not refuse a `Case`
//!   that was created successfully.
//!
//! The crate contains no simulation engine and no access to a kernel: the simulator and the agent both read it.

mod case;
pub mod draws;
mod error;
mod files;
mod given;
mod idle;
pub mod interrupts;
mod linux;
mod linux_cc;
mod net_dim;
pub mod pace;
pub mod params;
mod python_files;
mod read;
mod rules;
mod settings;
pub mod topology;

#[cfg(test)]
mod tests;

pub use case::Case;
pub use error::CaseError;
pub use files::{ReadFile, read_file};
pub use idle::{IdlePath, completion};
pub use linux::{Asked, Change, Unsupported};
pub use params::{
    Adaptive, CcEngine, CcName, DrawnBy, HostSettings, Implementation, JitterSettings, LinkSettings,
    LinuxQdisc, Mark, NetworkSettings, NicSettings, PythonController, QueueKind, QueuePlace, QueueSettings,
    ServedBy, SmallQueues, SocketBuffers,
};
