//! Recordings: collected, stored, computed from.

mod collect;
mod metrics;
mod sample;
mod store;
mod text;
