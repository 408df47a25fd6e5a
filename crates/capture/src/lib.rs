//! Packet captures: readers, and the analysis of each TCP connection, round trip by round trip.
//!
//! * [`Reader`] - the packets of a pcap or pcapng file, plain or compressed, from a stream.
//! * [`link`] - where the IP packet begins in frames of Ethernet, Linux cooked capture, loopback and others.
//! * [`TunnelKind`] - the tunnels whose inner packets are analysed.
//! * [`Analysis`] - all connections of a capture in one pass: rounds, retransmissions, reordering, ECN, windows, stalls.
//! * [`Summary`] - its result, with findings as text.
//! * [`siftr`] - logs of FreeBSD's siftr(4).
//!
//! The memory for a connection does not depend on its length, the number of connections in memory is limited, and the file is never in memory
//! as a whole. The crate does not depend
//! on the model TCP or the simulation: its results follow from packets alone.

mod ahead;
mod analysis;
mod clock;
mod content;
mod counts;
mod flow;
mod histogram;
mod icmp;
mod intake;
mod life;
pub mod link;
mod notes;
mod reader;
pub mod siftr;
mod source;
mod summarise;
mod summary;
mod table;
mod text;
mod tunnel;
mod words;

pub use ahead::Steps;
pub use analysis::{Analysis, AnalysisOptions, Placed};
pub use clock::CLOCK_DISORDER;
pub use content::CapturedSegment;
pub use counts::PacketCounts;
pub use flow::{
    BlackHole, EcnFeedback, Ending, EndingKind, HalfCounters, Place, Round, Spurious, StallCause, Stalls,
    TimeShares,
};
pub use histogram::{DurationHistogram, Modes};
pub use icmp::{IcmpErrors, IcmpKind};
pub use life::ConnectionFacts;
pub use reader::{CaptureRecord, Interface, LinkType, ReadError, Reader};
pub use summary::{FlowSummary, MOST_UNOPENED, RoundTrips, Summary, Unopened};
pub use tunnel::{Around, DEEPEST, Tunnel, TunnelKind};
