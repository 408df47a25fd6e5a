//! The algorithms that determine how much may be sent during a recovery, one module for each.

pub(super) mod freebsd;
pub(super) mod newreno;
pub(super) mod prr;
pub(super) mod sack;
