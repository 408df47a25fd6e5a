//! Packet captures: readers, and the analysis of each TCP connection, round trip by round trip.
//!
//! * [`Reader`] - the packets of a pcap or pcapng file, plain or compressed, from a stream.
//! * [`link`] - where the IP packet begins in frames of Ethernet, Linux cooked capture, loopback and others.
//! * [`Analysis`] - all connections of a capture in one pass: rounds, retransmissions, reordering, ECN, windows, stalls.
//! * [`Summary`] - its result, with findings as text.
//! * [`siftr`] - logs of FreeBSD's siftr(4).
//!
//! The memory for a connection does not depend on its length, and the file is never in memory as a whole. The crate does not depend
//! on the model TCP or the simulation: its results follow from packets alone.

mod analysis;
mod flow;
mod histogram;
pub mod link;
mod reader;
pub mod siftr;
mod source;
mod summarise;
mod summary;
mod text;
mod words;

pub use analysis::{Analysis, AnalysisOptions, ConnectionFacts, PacketCounts, Placed};
pub use flow::{EcnFeedback, HalfCounters, Place, Round, Spurious, StallCause, Stalls};
pub use histogram::{DurationHistogram, Modes};
pub use reader::{CaptureRecord, Interface, LinkType, ReadError, Reader};
pub use summary::{FlowSummary, RoundTrips, Summary};
