//! What a run leaves behind, and what can be computed from it.
//!
//! * [`Recording`] - all that one run of one case left behind, with the environment it really ran in. It is written to a
//!   folder and read back: JSON for what is small, Parquet for tables, pcapng for packets.
//! * [`Collector`] - what the run feeds while it runs: counters, series, histograms, events, packets. It costs an
//!   addition or a comparison a packet, and nothing that is not asked for.
//! * [`EventRow`] - one line of the event log, which reads like FreeBSD's black box log.
//!
//! * [`Recording::event_numbers`] - the event log as arrays, for those who judge a run in memory.
//! * [`Recording::write_event_text`] and [`siftr`] - the event log as people read it.
//! * [`metrics`] - every number computed from a recording, each declared once in [`metrics::TABLE`].
//!
//! A recording does not know which substrate made it, except for its name: the model, a kernel and a host leave the same
//! tables, and every number computed from them is computed by the same code.
//!
//! [`Recording::write`] and [`Recording::read`] describe the files. [`pcapng::host_address`] says which address a host has in a
//! capture.
//!
//! This crate must not know what a connection or an element is, and it never decides anything in a run.

mod collect;
mod event;
mod histogram;
mod log;
pub mod metrics;
mod numbers;
pub mod pcapng;
mod recording;
mod rows;
mod seal;
mod serial;
mod series;
pub mod siftr;
mod store;
mod table;
mod tables;
mod text;

pub use collect::{CollectOptions, Collector, DeviceIndex, FlowId, InterfaceIndex, SenderSample};
pub use event::{EventKind, EventRow, RTO, Reason};
pub use histogram::Histogram;
pub use log::EventLog;
pub use numbers::EventNumbers;
pub use recording::{
    CapturePoint, Completion, CompletionKind, Delivery, Device, DeviceCounters, EnvironmentProperty, Flow,
    FlowCounters, Header, Latency, LatencyKind, PacketRecord, Recording, TcpSummary, Triple,
};
pub use seal::{checksum, seal};
pub use series::{EntitySeries, Series, SeriesColumn};
pub use store::StoreError;
pub use table::{ColumnData, parquet};
