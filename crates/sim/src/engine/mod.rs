//! The engine: virtual clock, event queue, packets, the graph of elements and its event loop.
//!
//! # Example
//!
//! ```
//! use tcpassay_sim::element::{LinkSpec, QueueLimit};
//! use tcpassay_sim::engine::{Core, FlowLabel, HostId, Hosts, Network, Packet, PacketId, TimerId};
//! use tcpassay_units::{Bytes, Dur, Rate, Seed, Time};
//! use tcpassay_wire::{Ecn, Flags, Segment};
//!
//! /// Returns each packet that arrives at host 1 to its sender, and counts the packets that arrive at host 0.
//! #[derive(Default)]
//! struct Echo(u32);
//!
//! impl Hosts for Echo {
//!     fn receive(&mut self, net: &mut Core, host: HostId, id: PacketId) {
//!         let mut p = net.packet(id).clone();
//!         if host == HostId(1) {
//!             (p.src, p.dst) = (p.dst, p.src);
//!             net.send(p);
//!         } else {
//!             self.0 += 1;
//!         }
//!     }
//!     fn timer(&mut self, _: &mut Core, _: TimerId) {}
//! }
//!
//! let mut net = Network::new(Seed(1));
//! let (a, to_a) = net.add_host("a");
//! let (b, to_b) = net.add_host("b");
//! let link = LinkSpec { limit: QueueLimit::packets(100), ..LinkSpec::new(Rate::from_gbit(1), Dur::from_millis(5)) };
//! let forward = net.add("forward", link);
//! let backward = net.add("backward", link);
//! net.set_egress(a, &[forward, to_b]); // packets of host a pass `forward` and end at host b
//! net.set_egress(b, &[backward, to_a]);
//!
//! let segment = Segment { len: 1460, flags: Flags::ACK, ..Segment::default() };
//! net.core().send(Packet::tcp(a, b, FlowLabel(0), segment, Ecn::NotEct, 1460));
//! let mut hosts = Echo::default();
//! net.run_until(&mut hosts, Time::ZERO + Dur::from_millis(20));
//! assert_eq!(hosts.0, 1);
//! assert_eq!(net.counters(forward).bytes_out, 1500);
//! ```
//!
//! # Operation
//!
//! * A [`Network`] owns elements (see [`crate::element`]), connected by [`Network::connect`], [`Network::chain`] and,
//!   at switches, [`Network::route`]. The stacks and applications behind the NICs implement [`Hosts`].
//! * A callback of [`Hosts`] receives a [`Core`]: the clock ([`Core::now`]), [`Core::send`], the packets
//!   ([`Core::packet`]) and timers ([`Core::add_timer`], [`Core::set_timer`]). A host may let a timer fire too early
//!   and set it again then.
//! * A [`Packet`] is a TCP segment, possibly a super-segment of many wire packets (TSO, GRO), with the fields that
//!   the network needs: flow, source, destination, ECN field. It stays in the arena from [`Core::send`] to its
//!   delivery or drop.
//! * One event includes everything that takes no time: a packet passes all elements without delay until one holds it.
//!   Packets in transit at the same instant move in the order in which they were forwarded.
//! * Events are totally ordered by (time, insertion). A run is a function of network, hosts and
//!   [`Seed`](tcpassay_units::Seed); [`Network::trace`] is a hash of the processed events.
//! * Every element counts packets ([`Network::counters`]) and the packets that it holds ([`Network::held`]).
//!   Collectors ([`Network::collect`], [`Network::watch`]) create no event and have no access to the network, so they
//!   cannot influence a run.
//!
//! The engine does not depend on TCP's state; it reads only the headers that elements act on.

mod core;
mod counters;
#[cfg(test)]
mod determinism_tests;
mod ids;
mod network;
mod packet;
mod prefetch;
mod scheduler;
mod stats;

pub use self::core::{Core, PacketEvent};
pub use counters::{Counters, DropCounters, DropReason};
pub use ids::{HostId, NodeId, SharedBufferId, TimerId};
pub use network::{Hosts, Network};
pub use packet::{Arena, FlowLabel, MTU, Packet, PacketId, PacketList, Protocol};
pub use scheduler::{Scheduler, SourceId};
pub use stats::{LogLinearHistogram, QueueSample, QueueStats};

pub(crate) use self::core::{ElementContext, HostEvent, TxCompletion};
pub(crate) use packet::{PacketHandle, Route};
pub(crate) use prefetch::prefetch;
