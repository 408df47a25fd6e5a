//! Construction of the network from a case: which elements exist and how they are connected.
//!
//! # One direction of a link
//!
//! ```text
//! from --> [policer] --> [MTU] --> queue and wire --> [middlebox] --> [impairments] --> [pauses] --> [ECE on ACKs] --> to
//! ```
//!
//! The queue is that of `queue.*` where the link is a bottleneck, and otherwise a plain FIFO (at a host, `nic.queue`,
//! which may mark). The impairments are those of `link.*`: in the forward direction all of them, in the backward
//! direction `ack_loss` and `ack_thinning`; pauses are in both. Packets enter a host through its NIC: interrupts, then receive offload.
//! ECE is set on ACKs at the point where they pass the queue of their data in the opposite direction.
//!
//! # Position of a shaper
//!
//! With `queue.place` = `sender` (for `auto`: htb and tbf of a pair) the queue is in the sending host above its NIC,
//! as `tc` places it: the queue contains super-segments, and the NIC segments them behind it. Otherwise
//! super-segments are segmented in the host and queues contain wire packets.

mod impairments;

use crate::element::DisciplineSpec;

use crate::element::{
    AckEceMarker, AckThinningSpec, BufferShare, Coalesce, DualBufferSpec, FifoSpec, IngressTagSpec, LinkSpec,
    MiddleboxSpec, MtuSpec, Pace, PauseSpec, PolicerSpec, PortSpec, QueueLimit, ReorderSpec, RxOrder, RxSpec,
    SlottedMediumSpec, SplitSpec, SwitchSpec,
};
use crate::element::{limit, queue_spec};
use crate::engine::{HostId, Network, NodeId, SharedBufferId};
use tcpassay_case::draws;
use tcpassay_case::interrupts::STALE_HASH_GROUPS;
use tcpassay_case::params::grammar::{Buffers, ForwardingOffload, LinkRate, ReorderRule};
use tcpassay_case::params::linux::LinkDirection;
use tcpassay_case::topology::{DirectedLink, Net, Node, Shape};
use tcpassay_case::{Case, HostSettings, Mark, QueueKind, QueueSettings, SmallQueues};
use tcpassay_units::{Bytes, Dur, Rate, Seed};

/// The network of a case.
pub(crate) struct BuiltNetwork {
    pub net: Network,
    /// The engine's id of each host of the topology.
    pub hosts: Vec<HostId>,
    /// Queues and links that have a row in the recording.
    pub devices: Vec<DeviceNode>,
    /// Index of the device whose rate is the capacity.
    pub bottleneck: usize,
    /// Indices of the devices on the data path to which parameters without a prefix apply.
    pub mains: Vec<usize>,
}

/// A queue or link of the recording.
pub(crate) struct DeviceNode {
    pub name: String,
    pub kind: QueueKind,
    pub rate: Option<Rate>,
    /// Its rate over time, if that varies.
    pub varying: Option<Pace>,
    pub node: NodeId,
}

/// The endpoints of one direction of a link.
struct LinkEnds {
    from: Node,
    to: Node,
}

struct Builder<'a> {
    case: &'a Case,
    net: Network,
    ids: Vec<HostId>,
    /// The node at which packets enter each host (its NIC, then its stack) and each switch.
    host_entry: Vec<NodeId>,
    switches: Vec<NodeId>,
    /// The shared buffer of each switch whose ports share one.
    shared_buffers: Vec<SharedBufferId>,
    devices: Vec<DeviceNode>,
    /// The queue of each direction of each link, for marking the ACKs of the other direction.
    queues: Vec<[Option<NodeId>; 2]>,
    /// The table of connections of each link with a middlebox that forgets them.
    tables: Vec<Option<usize>>,
    bottleneck: Option<usize>,
    /// Devices on the data path to which parameters without a prefix apply.
    mains: Vec<usize>,
}

/// Builds the network of `case`.
pub(crate) fn build(case: &Case, seed: Seed) -> BuiltNetwork {
    let mut b = Builder {
        case,
        net: Network::new(seed),
        ids: Vec::new(),
        host_entry: Vec::new(),
        switches: Vec::new(),
        shared_buffers: Vec::new(),
        devices: Vec::new(),
        queues: vec![[None; 2]; case.links.len()],
        tables: vec![None; case.links.len()],
        bottleneck: None,
        mains: Vec::new(),
    };
    for host in &case.net.hosts {
        let (id, node) = b.net.add_host(&host.name);
        b.ids.push(id);
        let settings = &case.hosts[b.host_entry.len()];
        let entry = b.receiving_nic(&host.name, settings, node);
        b.host_entry.push(entry);
    }
    for name in &case.net.switches {
        let node = b.net.add(name, SwitchSpec);
        b.switches.push(node);
        if let Buffers::Shared(size) = case.network.buffers {
            let pool = b.net.add_shared_buffer(size);
            b.shared_buffers.push(pool);
        }
    }
    // Queues are created first, because the marking of ACKs refers to the queue of the other direction.
    let mut starts = Vec::new();
    for link in 0..case.links.len() {
        for forward in [true, false] {
            let port = DirectedLink { link, forward };
            starts.push((port, b.queue(port)));
        }
    }
    for (port, path) in starts {
        b.finish(port, path);
    }
    let bottleneck = b.bottleneck.unwrap_or(0);
    BuiltNetwork { net: b.net, hosts: b.ids, devices: b.devices, bottleneck, mains: b.mains }
}

impl Builder<'_> {
    fn ends(&self, port: DirectedLink) -> LinkEnds {
        let link = &self.case.net.links[port.link];
        if port.forward {
            LinkEnds { from: link.from, to: link.to }
        } else {
            LinkEnds { from: link.to, to: link.from }
        }
    }

    fn name(&self, port: DirectedLink) -> String {
        let name = &self.case.net.links[port.link].name;
        if port.forward { name.clone() } else { format!("{name}.back") }
    }

    /// Whether `queue.*` applies to this direction.
    fn is_queued(&self, port: DirectedLink) -> bool {
        let link = &self.case.net.links[port.link];
        let from_host = matches!(self.ends(port).from, Node::Host(_));
        let pair = matches!(self.case.net.shape, Shape::Pair);
        (port.forward || link.both_ways) && (pair || !from_host) && (link.main || link.group == "access")
    }

    /// The receive path of a host, when its NIC has any effect.
    fn receiving_nic(&mut self, name: &str, host: &HostSettings, stack: NodeId) -> NodeId {
        let nic = &host.nic;
        let spec = RxSpec {
            coalesce: Coalesce::of(nic),
            ring: nic.ring.unwrap_or(u32::MAX),
            cost: nic.rx_cost,
            gro_max: nic.gro.then_some(nic.gro_max),
            gro_timeout: nic.gro_timeout,
            order: if nic.stale_hash { RxOrder::StaleHash(STALE_HASH_GROUPS) } else { RxOrder::Arrival },
        };
        if spec == RxSpec::PLAIN {
            return stack;
        }
        let node = self.net.add(&format!("rx.{name}"), spec);
        self.net.connect(node, stack);
        node
    }

    /// The impairments of the link behind its wire, in this order.
    fn faults(&mut self, port: DirectedLink) -> Vec<NodeId> {
        let link = &self.case.links[port.link];
        let name = self.name(port);
        let mut path: Vec<NodeId> = self.middlebox(port).into_iter().collect();
        path.extend(self.impairments(port));
        if let Some((every, length)) = link.pause {
            path.push(self.net.add(&format!("pause.{name}"), PauseSpec { every, length }));
        }
        path
    }

    fn middlebox(&mut self, port: DirectedLink) -> Option<NodeId> {
        let (link, name) = (&self.case.links[port.link], &self.case.net.links[port.link].name);
        if !link.has_middlebox() {
            return None;
        }
        let mut shifts = draws::sequence_shifts(name, self.net.seed());
        if !port.forward {
            shifts.reverse();
        }
        let forgets = link.idle_timeout.map(|after| {
            let table = self.tables[port.link].get_or_insert_with(|| self.net.add_connection_table());
            (*table, after)
        });
        let spec = MiddleboxSpec { rules: link.rewrite, shifts, forgets };
        Some(self.net.add(&format!("middlebox.{}", self.name(port)), spec))
    }

    /// The impairments except for pauses.
    fn impairments(&mut self, port: DirectedLink) -> Vec<NodeId> {
        let link = &self.case.links[port.link];
        let name = self.name(port);
        let mut path = Vec::new();
        if !port.forward {
            if let Some(spec) = impairments::ack_loss(link) {
                path.push(self.net.add(&format!("loss.{name}"), spec));
            }
            if link.ack_thinning > 1 {
                let one_in = u16::try_from(link.ack_thinning).expect("the table's range");
                let spec = AckThinningSpec { one_in, longest: link.ack_thinning_wait };
                path.push(self.net.add(&format!("thin.{name}"), spec));
            }
            return path;
        }
        if let Some(spec) = impairments::loss(link) {
            path.push(self.net.add(&format!("loss.{name}"), spec));
        }
        if let Some(spec) = impairments::corrupt(link) {
            path.push(self.net.add(&format!("corrupt.{name}"), spec));
        }
        if let Some(spec) = impairments::duplicate(link) {
            path.push(self.net.add(&format!("duplicate.{name}"), spec));
        }
        let mtu = self.case.hosts.iter().map(|h| h.mtu).max().expect("hosts");
        // A held packet waits at most four times the transmission time of the packets that may pass it.
        let longest = |packets: u32| self.case.link_rate(port.link).time_for(mtu * u64::from(packets)) * 4;
        let reorder = match link.reorder {
            ReorderRule::Off => None,
            ReorderRule::Gap { p, gap } => {
                Some(ReorderSpec::HoldBack { probability: p, gap, longest: longest(gap) })
            }
            ReorderRule::ReverseBurst(n) => Some(ReorderSpec::ReverseBursts { size: n, longest: longest(n) }),
        };
        if let Some(spec) = reorder {
            path.push(self.net.add(&format!("reorder.{name}"), spec));
        }
        if let Some((shortest, longest, packets)) = link.slot {
            let spec = SlottedMediumSpec { shortest, longest, packets, bytes: Bytes::MAX };
            path.push(self.net.add(&format!("slot.{name}"), spec));
        }
        if let Some(spec) = impairments::jitter(link) {
            path.push(self.net.add(&format!("jitter.{name}"), spec));
        }
        path
    }

    /// The elements from the node to the end of the wire.
    fn queue(&mut self, port: DirectedLink) -> Vec<NodeId> {
        let case = self.case;
        let link = &case.links[port.link];
        let (name, way) = (self.name(port), LinkDirection::of(port.forward));
        let queued = self.is_queued(port);
        let plain = QueueSettings::plain();
        let queue = if queued { &link.queue } else { &plain };
        let mut path = Vec::new();
        let host = match self.ends(port).from {
            Node::Host(i) => Some(&case.hosts[i]),
            Node::Switch(_) => None,
        };
        let at_sender = queued && host.is_some() && case.stands_at_sender(port.link);
        if at_sender {
            let host = host.expect("a sender");
            let port_spec = PortSpec {
                tx_coalesce: host.nic.tx_delay,
                ..PortSpec::new(
                    queue_spec(queue, host.mtu, case.directed_rate(port)),
                    Pace::Unlimited,
                    Dur::ZERO,
                )
            };
            let node = self.net.add(&format!("queue.{name}"), port_spec);
            path.push(node);
            self.device(port, node, queue.kind, queue.rate.or(fixed(link.rate_of(way))));
        }
        if let Some(host) = host {
            path.extend(self.nic(port, host, queued && !at_sender));
        }
        if port.forward
            && let Some((rate, burst)) = link.policer
        {
            path.push(self.net.add(&format!("police.{name}"), PolicerSpec { rate, burst }));
        }
        let offload = link.offload;
        if let Some(ForwardingOffload { wait, .. }) = offload {
            let coalesce = Coalesce::Fixed { usecs: wait, frames: 0 };
            let spec = RxSpec { coalesce, gro_max: Some(Bytes::new(65_536)), ..RxSpec::PLAIN };
            path.push(self.net.add(&format!("offload.{name}"), spec));
        }
        let merged = offload.is_some_and(|offload| offload.lro);
        let own = case.hosts.iter().map(|host| host.mtu).max().filter(|_| merged);
        if let Some(mtu) = link.mtu.or(own) {
            let back = match self.ends(port).from {
                Node::Host(i) => self.host_entry[i],
                Node::Switch(i) => self.switches[i],
            };
            path.push(self.net.add(&format!("mtu.{name}"), MtuSpec { mtu, merged, icmp: link.icmp, back }));
        }
        if offload.is_some() && !merged {
            path.push(self.net.add(&format!("split.{name}"), SplitSpec));
        }
        let wire = if at_sender { &plain } else { queue };
        let wire_name = if at_sender { format!("wire.{name}") } else { format!("queue.{name}") };
        // The jitter element adds the whole delay, because jitter varies it.
        let jitters = port.forward && link.jitter.size > Dur::ZERO;
        let delay = if jitters { Dur::ZERO } else { link.delay_of(way) };
        let node = self.wire(&wire_name, port, delay, wire, host, queued);
        path.push(node);
        if !at_sender {
            self.device(port, node, wire.kind, wire.rate.or(fixed(link.rate_of(way))));
        }
        path
    }

    /// A separate NIC before the link, when it has a function that the link lacks: segmentation, a lower rate, a
    /// queue, or transmit completions.
    fn nic(&mut self, port: DirectedLink, host: &HostSettings, separate: bool) -> Option<NodeId> {
        let tells = matches!(host.small_queues, SmallQueues::Auto | SmallQueues::Bytes(_));
        let nic = &host.nic;
        let slower = separate && (nic.rate.is_some() || nic.queue.is_some() || nic.mark_above.is_some());
        let name = format!("nic.{}", self.name(port));
        if tells || slower {
            let limit = host.nic.queue.map_or(QueueLimit::NONE, QueueLimit::packets);
            // Above a link with its own element, the queue of the NIC is the queue of the link.
            let mark_above = if separate { nic.mark_above } else { None };
            let queue = DisciplineSpec::Fifo(FifoSpec { limit, mark_above });
            let pace = host.nic.rate.map_or(Pace::Unlimited, Pace::Fixed);
            let spec = PortSpec {
                segment: true,
                tx_coalesce: host.nic.tx_delay,
                ..PortSpec::new(queue, pace, Dur::ZERO)
            };
            return Some(self.net.add(&name, spec));
        }
        host.nic.tso.then(|| self.net.add(&name, SplitSpec))
    }

    fn wire(
        &mut self,
        name: &str,
        port: DirectedLink,
        delay: Dur,
        queue: &QueueSettings,
        host: Option<&HostSettings>,
        queued: bool,
    ) -> NodeId {
        let case = self.case;
        let link = &case.links[port.link];
        let pace = match link.rate_of(LinkDirection::of(port.forward)) {
            LinkRate::Fixed(rate) => {
                Pace::Fixed(host.and_then(|h| h.nic.rate).map_or(*rate, |nic| nic.min(*rate)))
            }
            LinkRate::Trace(file) => case.traces[file].clone(),
        };
        // The host's own queue, when `queue.*` does not apply here.
        let nic = host.filter(|_| !queued).map(|h| &h.nic);
        let mark_above = (queue.mark == Mark::Data).then_some(queue.threshold);
        let mark_above = mark_above.or_else(|| nic.and_then(|n| n.mark_above));
        let buffers = match self.ends(port).from {
            Node::Switch(at) => Some((at, case.network.buffers)),
            Node::Host(_) => None,
        };
        let limit = nic.and_then(|n| n.queue).map_or_else(|| limit(queue), QueueLimit::packets);
        match (buffers, queue.kind, pace) {
            (Some((at, Buffers::Shared(_))), _, pace) => {
                let share = Some(BufferShare { pool: self.shared_buffers[at], alpha: Some(1.0) });
                let fifo = DisciplineSpec::Fifo(FifoSpec { limit: QueueLimit::NONE, mark_above });
                self.net.add(name, PortSpec { share, ..PortSpec::new(fifo, pace, delay) })
            }
            (Some((_, Buffers::Dual(size))), _, pace) => {
                let dual =
                    DisciplineSpec::DualBuffer(DualBufferSpec { limit: QueueLimit::bytes(size), mark_above });
                self.net.add(name, PortSpec::new(dual, pace, delay))
            }
            (_, QueueKind::Fifo, Pace::Fixed(rate)) => {
                self.net.add(name, LinkSpec { limit, mark_above, ..LinkSpec::new(rate, delay) })
            }
            (_, QueueKind::Fifo, pace) => {
                let fifo = DisciplineSpec::Fifo(FifoSpec { limit, mark_above });
                self.net.add(name, PortSpec::new(fifo, pace, delay))
            }
            (_, _, pace) => {
                let mtu = case.hosts.iter().map(|h| h.mtu).max().expect("hosts");
                let spec = queue_spec(queue, mtu, case.directed_rate(port));
                self.net.add(name, PortSpec::new(spec, pace, delay))
            }
        }
    }

    fn device(&mut self, port: DirectedLink, node: NodeId, kind: QueueKind, rate: Option<Rate>) {
        let main = self.case.net.links[port.link].main;
        let bottleneck = main && port.forward;
        if bottleneck {
            self.mains.push(self.devices.len());
        }
        if bottleneck
            && self.bottleneck.is_none_or(|b| {
                let slowest = self.devices[b].rate.map_or(u64::MAX, Rate::bits_per_sec);
                rate.map_or(u64::MAX, Rate::bits_per_sec) < slowest
            })
        {
            self.bottleneck = Some(self.devices.len());
        }
        self.queues[port.link][usize::from(!port.forward)] = Some(node);
        let name = format!("queue.{}", self.name(port));
        let varying = match self.case.links[port.link].rate_of(LinkDirection::of(port.forward)) {
            LinkRate::Trace(trace) if rate.is_none() => self.case.traces.get(trace).cloned(),
            _ => None,
        };
        self.devices.push(DeviceNode { name, kind, rate, varying, node });
    }

    /// Connects the end of the wire to the next node, and sets the egress path of a host.
    fn finish(&mut self, port: DirectedLink, mut path: Vec<NodeId>) {
        let case = self.case;
        let ends = self.ends(port);
        path.extend(self.faults(port));
        // ACKs of data that pass the queue of the other direction.
        let other = DirectedLink { forward: !port.forward, ..port };
        let queue = &case.links[port.link].queue;
        if self.is_queued(other)
            && queue.mark == Mark::Ack
            && let Some(node) = self.queues[port.link][usize::from(!other.forward)]
        {
            let marker = AckEceMarker { queue: node, above: queue.threshold };
            path.push(self.net.add(&format!("mark.{}", self.name(port)), marker));
        }
        if let (Node::Switch(at), Buffers::Dual(_)) = (ends.to, case.network.buffers) {
            let band = self.case.net.input_half(at, port.link);
            path.push(self.net.add(&format!("ingress.{}", self.name(port)), IngressTagSpec { band }));
        }
        path.push(match ends.to {
            Node::Host(i) => self.host_entry[i],
            Node::Switch(i) => self.switches[i],
        });
        self.net.chain(&path);
        let first = path[0];
        if let Node::Host(i) = ends.from {
            self.net.set_egress(self.ids[i], &[first]);
        }
        self.add_routes(port, first);
    }

    fn add_routes(&mut self, port: DirectedLink, first: NodeId) {
        let Node::Switch(at) = self.ends(port).from else { return };
        for destination in 0..self.case.net.hosts.len() {
            if self.case.routes.next(Node::Switch(at), destination) == Some(port) {
                self.net.route(self.switches[at], self.ids[destination], &[first]);
            }
        }
    }
}

fn fixed(rate: &LinkRate) -> Option<Rate> {
    match rate {
        LinkRate::Fixed(rate) => Some(*rate),
        LinkRate::Trace(_) => None,
    }
}

/// Hosts of the topology by name, for recordings.
pub(crate) fn host_names(net: &Net) -> Vec<String> {
    net.hosts.iter().map(|h| h.name.clone()).collect()
}
