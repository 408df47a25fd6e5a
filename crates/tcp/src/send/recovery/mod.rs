//! How much a recovery may send: one module for each algorithm.

pub(super) mod freebsd;
pub(super) mod newreno;
pub(super) mod prr;
pub(super) mod sack;
