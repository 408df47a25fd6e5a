//! Recordings: collected, stored, computed from.

mod collect;
mod metrics;
mod metrics_ranks;
mod metrics_spread;
mod sample;
mod store;
mod text;
