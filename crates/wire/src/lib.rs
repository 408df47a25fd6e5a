//! TCP segments, and their encoding as IPv4/IPv6 packets.
//!
//! * [`Segment`] - a TCP header with options, and the length of its payload. The model has no payload bytes: to
//!   verify a byte stream it suffices to know which positions arrived, and in which order.
//! * [`Ecn`] - the ECN field of the IP header (RFC 3168 section 5), which the network changes.
//! * [`codec`] - encoding and decoding of packets, for captures and for real interfaces.
//! * [`whole`] - whole IPv4 packets with their payload, as real stacks send and receive them.
//! * [`headers`] - the headers of a captured packet, which may be cut.
//!
//! This crate does not depend on connections, time or the network.

pub mod codec;
pub mod headers;
mod options;
mod segment;
pub mod whole;

pub use options::Layout;
pub use segment::{AccEcn, Ecn, Flags, Options, SackBlock, SackBlocks, Segment, Timestamps};
