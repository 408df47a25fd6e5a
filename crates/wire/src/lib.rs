//! TCP segments as the stacks and the network see them, to and from IPv4/IPv6 bytes.
//!
//! * [`Segment`] - a TCP header with options, and the length of its payload. The model carries no payload
//!   bytes: what a byte stream needs to be checked is which positions arrived, and in what order.
//! * [`Ecn`] - the ECN field of the IP header (RFC 3168 section 5), which the network changes, not TCP.
//! * [`codec`] - the bytes of a packet, for captures and for real interfaces.
//!
//! This crate must not know about connections, time or the network.

pub mod codec;
mod options;
mod segment;

pub use segment::{AccEcn, Ecn, Flags, Options, SackBlock, SackBlocks, Segment, Timestamps};
