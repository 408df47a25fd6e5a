//! The behaviour of applications, sans I/O: the same decisions drive the model's sockets and real ones.
//!
//! * [`WorkloadSpec`] - a behaviour and its parameters, from the `app.*` rows of the parameter table;
//!   [`WorkloadSpec::set`] parses one row, [`WorkloadSpec::check`] checks their combination.
//! * [`SizeDistribution`], [`WaitTime`], [`ArrivalProcess`], [`BackgroundTraffic`] - the grammars of the values of
//!   these rows.
//! * [`TrafficSchedule`] - the traffic between hosts: the parts of a workload, each with its pairs of hosts.
//! * [`Apps`] - all applications of one host. The host calls it when a socket is [ready](Apps::ready) or a
//!   [timer](Apps::wake) is due, and passes the [`Sockets`] through which it acts.
//! * [`AppCompletion`] - a flow, request or barrier round that ended, with both times.
//! * [`UdpSource`] - the departure times of background datagrams.
//!
//! Messages have sizes and no content. Both endpoints draw the same sizes from a random stream named after the
//! connection ([`ConnKey`]), so that the sizes need not be transmitted.
//!
//! This crate does not depend on segments, controllers or links, and it has no clock: time is passed as an argument.
//! Order of calls: the host calls [`Apps::start`] once, then [`Apps::wake`] whenever [`Apps::next_wake`] is reached,
//! and [`Apps::ready`] whenever a socket becomes connected, readable, writable or closed.

mod apps;
mod arrival;
mod background;
mod client;
mod clients;
mod completion;
mod endpoint;
mod error;
mod reboot;
mod schedule;
mod size;
mod sockets;
mod spec;
mod streams;
mod timer;

pub use apps::Apps;
pub use arrival::{ArrivalProcess, WaitTime};
pub use background::{BackgroundTraffic, UdpSource};
pub use completion::{AppCompletion, AppCompletionKind};
pub use error::SpecError;
pub use schedule::{ConnKey, HostIndex, HostPair, TrafficPart, TrafficSchedule};
pub use size::{EmpiricalCdf, SizeDistribution};
pub use sockets::{SocketId, Sockets};
pub use spec::{Behaviour, Reboot, WorkloadSpec};
pub use streams::FrameOrder;
