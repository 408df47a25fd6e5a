//! What applications do, sans I/O: the same decisions drive the model's sockets and real ones.
//!
//! * [`Spec`] - one behaviour and its numbers, as the `app.*` rows of the parameter table say them; [`Spec::set`] reads
//!   one row, [`Spec::check`] looks at them together.
//! * [`Size`], [`Wait`], [`Arrival`], [`Background`] - the small grammars inside those rows.
//! * [`TrafficSchedule`] - who talks to whom: the parts of a workload, each with the pairs of hosts it runs between.
//! * [`Apps`] - every application of one host. It is told that a socket is [ready](Apps::ready) or that a
//!   [timer](Apps::wake) is due, and acts through the [`Sockets`] that it is handed.
//! * [`Completion`] - a flow, request or round that ended, with both times.
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
mod end;
mod error;
mod schedule;
mod size;
mod sockets;
mod spec;
mod wake;

pub use apps::Apps;
pub use arrival::{Arrival, Wait};
pub use background::{Background, UdpSource};
pub use completion::{Completion, CompletionKind};
pub use error::SpecError;
pub use schedule::{ConnKey, HostId, Pair, Part, TrafficSchedule};
pub use size::{Size, SizeTable};
pub use sockets::{Slot, Sockets};
pub use spec::{Behaviour, Spec};
