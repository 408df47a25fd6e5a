//! Tests of the collection, storage and evaluation of recordings.

mod collect;
mod metrics;
mod metrics_ranks;
mod metrics_spread;
mod sample;
mod store;
mod text;
