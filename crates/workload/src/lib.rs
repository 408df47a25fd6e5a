//! What applications do, sans I/O: the same decisions drive the model's sockets and real ones.
//!
//! * [`WorkloadSpec`] - one behaviour and its numbers, as the `app.*` rows of the parameter table say them; [`WorkloadSpec::set`] reads
//!   one row, [`WorkloadSpec::check`] looks at them together.
//! * [`SizeDistribution`], [`Wait`], [`ArrivalProcess`], [`BackgroundTraffic`] - the small grammars inside those rows.
//! * [`TrafficSchedule`] - who talks to whom: the parts of a workload, each with the pairs of hosts it runs between.
//! * [`Apps`] - every application of one host. It is told that a socket is [ready](Apps::ready) or that a
//!   [timer](Apps::wake) is due, and acts through the [`Sockets`] that it is handed.
//! * [`AppCompletion`] - a flow, request or round that ended, with both times.
//! * [`UdpSource`] - when background datagrams leave.
//!
//! Messages have sizes and no content. Both ends draw the same sizes from a stream named after the connection
//! ([`ConnKey`]), so that no byte on the wire has to carry them; what one end writes is what the other expects, by
//! count.
//!
//! This crate must not know what a segment, a controller or a link is, and it has no clock: time arrives as an
//! argument. Order of events: the host calls [`Apps::start`] once, then [`Apps::wake`] whenever
//! [`Apps::next_wake`] is reached and [`Apps::ready`] whenever a socket became connected, readable, writable or closed.

mod apps;
mod arrival;
mod background;
mod client;
mod clients;
mod completion;
mod endpoint;
mod error;
mod schedule;
mod size;
mod sockets;
mod spec;
mod timer;

pub use apps::Apps;
pub use arrival::{ArrivalProcess, Wait};
pub use background::{BackgroundTraffic, UdpSource};
pub use completion::{AppCompletion, AppCompletionKind};
pub use error::SpecError;
pub use schedule::{ConnKey, HostIndex, HostPair, TrafficPart, TrafficSchedule};
pub use size::{EmpiricalCdf, SizeDistribution};
pub use sockets::{SocketId, Sockets};
pub use spec::{Behaviour, WorkloadSpec};
