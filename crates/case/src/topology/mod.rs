//! Topologies: hosts, switches, links, and pairs of senders and receivers.
//!
//! # Names, and the meaning of a path without address
//!
//! | topology | hosts | links |
//! | --- | --- | --- |
//! | `pair` | `sender`, `receiver` | `bottleneck` |
//! | `dumbbell:<n>` | `sender0`.., `receiver0`.. | `bottleneck` between two switches; `access-<host>` |
//! | `star:<n>` | `sender0`.., `receiver` | `bottleneck` from the switch to the receiver; `access-<host>` |
//! | `racks:<s>x<w>` | `sender0`.. in storage racks, `receiver0`.. in worker racks | `access-<host>`, `uplink-<rack>` |
//! | `file:<toml>` | as the file says | `<from>-<to>` |
//!
//! A parameter may be addressed to an instance (`sender0/stack.cc`, `access-sender0/link.delay`), to a side
//! (`sender/`, `receiver/`), or to a group of links (`access/`, `uplink/`). A `link.` or `queue.` path
//! without address applies to the bottleneck of `pair`, `dumbbell` and `star`, whose access links have no
//! delay or faults unless addressed, and for every link of `racks` and `file`.
//!
//! Data flow from senders to receivers, acknowledgements back. `link.ack_loss` and `link.ack_thinning` apply
//! to the reverse direction of a link; loss, jitter and the other faults to the forward direction; rate and
//! delay to both, unless `link.back_rate` and `link.back_delay` are given. In `racks`, sender `i` sends to receiver `i` modulo the number of receivers, so that with
//! fewer workers than storage hosts the workers' links carry several; with a `rack.fanout` of `n` also to
//! the `n - 1` receivers after it.
//!
//! This module must not know about time, packets or settings.

mod build;
mod file;
mod net;
mod route;
mod shape;

pub use build::RackCounts;
pub use net::{Host, Net, Node, ReverseLink, Side, TopologyLink};
pub use route::{DirectedLink, Routes};
pub use shape::Shape;
