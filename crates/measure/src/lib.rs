//! Recordings of runs, and metrics computed from them.
//!
//! * [`Recording`] - the recording of one run of one case, with the measured environment. It is written to a folder
//!   and read back: JSON for small data, Parquet for tables, pcapng for packets.
//! * [`Collector`] - collects data while a run is in progress: counters, series, histograms, events, packets. It
//!   costs an addition or a comparison per packet, and nothing for data that is not requested.
//! * [`EventRow`] - one row of the event log, which corresponds to FreeBSD's black box log.
//! * [`Recording::event_row`] - a row of the event log in memory, as in a file.
//! * [`Recording::write_event_text`] and [`siftr`] - the event log as text.
//! * [`SegmentLog`] - rows of the event log from segments alone.
//! * [`metrics`] - all metrics of a recording, each declared once in [`metrics::TABLE`].
//!
//! A recording does not depend on its substrate, except for the name of the substrate: the model, a kernel and a host
//! produce the same tables, and the same code computes the metrics.
//!
//! [`Recording::write`] and [`Recording::read`] describe the files. [`pcapng::host_address`] defines the address of a
//! host in a capture.
//!
//! This crate does not depend on connections or network elements, and it never influences a run.

mod collect;
mod device_sampler;
mod event;
mod histogram;
mod log;
pub mod metrics;
mod numbers;
pub mod pcapng;
pub mod reason;
mod recording;
mod rows;
mod seal;
mod segments;
mod serial;
mod series;
pub mod siftr;
mod store;
mod table;
mod tables;
mod text;

pub use collect::{CollectOptions, Collector, FlowId, InterfaceIndex, SenderSample};
pub use device_sampler::DeviceSampler;
pub use event::{ECT, EventKind, EventRow, Reason};
pub use histogram::Histogram;
pub use log::{EventHeader, EventLog};
pub use recording::{
    CapturePoint, Completion, CompletionKind, Delivery, Device, DeviceCounters, EnvironmentProperty, Flow,
    FlowCounters, Header, Latency, LatencyKind, LimitTimes, PacketRecord, Recording, StackUnderTest,
    TcpSummary, Triple,
};
pub use rows::{CAPACITY, series_columns};
pub use seal::{checksum, seal};
pub use segments::{SegmentLog, SentBy};
pub use series::{EntitySeries, Series, SeriesColumn};
pub use store::StoreError;
pub use table::{ColumnData, parquet};
pub use tables::{ASKED, ColumnType, table_columns};
