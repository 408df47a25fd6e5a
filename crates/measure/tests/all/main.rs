//! Recordings: collected, stored, computed from.

mod collect;
mod metrics;
mod metrics_ranks;
mod sample;
mod store;
mod text;
