//! The substrate `model`: event queue, elements, topologies, the parameter table, one run of a case.

pub mod case;
pub mod element;
pub mod engine;
pub mod params;
pub mod topology;
