//! The substrate `model`: a network of elements under one event queue.

pub mod element;
pub mod engine;
