//! The engine: virtual clock, event queue, packets, the network graph and its run loop.
//!
//! # In short
//!
//! ```
//! use tcpassay_sim::element::{Limit, LinkSpec};
//! use tcpassay_sim::engine::{Core, FlowId, HostId, Hosts, Network, Packet, PacketId, TimerId};
//! use tcpassay_units::{Bytes, Dur, Rate, Seed, Time};
//! use tcpassay_wire::{Ecn, Flags, Segment};
//!
//! /// Echoes whatever arrives at host 1, and counts what comes back to host 0.
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
//! let link = LinkSpec { limit: Limit::packets(100), ..LinkSpec::new(Rate::from_gbit(1), Dur::from_millis(5)) };
//! let there = net.add("there", link);
//! let back = net.add("back", link);
//! net.set_egress(a, &[there, to_b]); // host a sends into `there`, which ends at host b
//! net.set_egress(b, &[back, to_a]);
//!
//! let segment = Segment { len: 1460, flags: Flags::ACK, ..Segment::default() };
//! net.core().send(Packet::tcp(a, b, FlowId(0), segment, Ecn::NotEct, 1460));
//! let mut hosts = Echo::default();
//! net.run_until(&mut hosts, Time::ZERO + Dur::from_millis(20));
//! assert_eq!(hosts.0, 1);
//! assert_eq!(net.counters(there).bytes_out, 1500);
//! ```
//!
//! # How it works
//!
//! * A [`Network`] owns elements (see [`crate::element`]) joined by [`Network::connect`], [`Network::chain`] and, at
//!   switches, [`Network::route`]. What is beyond a host's NIC, the stacks and applications, implements [`Hosts`].
//! * A callback of [`Hosts`] gets a [`Core`]: the clock ([`Core::now`]), [`Core::send`], the arrived packet
//!   ([`Core::packet`]) and timers ([`Core::add_timer`], [`Core::set_timer`]). A timer may be re-armed lazily: let it
//!   fire early and set it again.
//! * A [`Packet`] is a TCP segment, possibly a super-segment of many wire packets (TSO, GRO), with what the network needs:
//!   flow, source, destination, ECN field. It lives in one arena from [`Core::send`] to its delivery or drop.
//! * In one event everything that takes no time happens: a packet passes all elements without delay until one holds
//!   it. Packets under way in the same instant move in the order in which they were handed on.
//! * Events are totally ordered by (time, insertion). A run is a function of network, hosts and [`Seed`](tcpassay_units::Seed);
//!   [`Network::trace`] hashes the steps it took.
//! * Every element counts ([`Network::counters`]) and can say what it holds ([`Network::held`]). Collectors
//!   ([`Network::collect`], [`Network::watch`]) make no event and reach nothing, so they cannot influence a run.
//!
//! The engine must not know TCP's state, only headers that elements act on.

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
pub use packet::{Arena, FlowKey, MTU, Packet, PacketId, PacketList, Protocol};
pub use scheduler::{Scheduler, SourceId};
pub use stats::{LogLinearHistogram, QueueSample, QueueStats};

pub(crate) use self::core::{ElementContext, HostEvent, TxCompletion};
pub(crate) use packet::{PacketHandle, Route};
pub(crate) use prefetch::prefetch;
