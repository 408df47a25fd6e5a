//! The graph of elements and the loop that runs it.

#![expect(clippy::inline_always, reason = "the run loop is one function")]

use super::core::{Core, ElementContext, EventTarget, HostEvent, PacketEvent, SharedBuffer};
use super::counters::{Counters, DropReason};
use super::ids::{HostId, NodeId, SharedBufferId, TimerId};
use super::packet::{FlowLabel, Packet, PacketHandle, PacketId};
use super::scheduler::SourceId;
use super::stats::QueueStats;
use crate::element::{Backlog, Element, IntoElement};
use std::collections::BTreeMap;
use tcpassay_units::{Bytes, Dur, Seed, Time, count};

/// The hosts at the edge of the network: their stacks and applications.
///
/// Every callback runs at the instant `net.now()`. Packets passed to [`Core::send`] enter the network when the
/// callback returns.
pub trait Hosts {
    /// `packet` arrived at `host`. The packet is freed when this function returns.
    fn receive(&mut self, net: &mut Core, host: HostId, packet: PacketId);

    /// A packet of `flow` will probably be the packet after the next one that `host` receives, and the next one
    /// belongs to another flow. The implementation may prefetch the state of the flow ([`fetch`](super::prefetch)).
    /// The call must not change any state.
    #[inline]
    fn expect(&self, host: HostId, flow: FlowLabel) {
        let _ = (host, flow);
    }

    /// `timer` fired. It is no longer set.
    fn timer(&mut self, net: &mut Core, timer: TimerId);

    /// A packet with [`Packet::notify`] left the queues of its host, or was dropped there. At this point Linux lets
    /// the socket of the flow queue more data (TCP small queues).
    fn sent(&mut self, net: &mut Core, host: HostId, flow: FlowLabel, bytes: Bytes) {
        let _ = (net, host, flow, bytes);
    }

    /// A packet event occurred at a watched element. The callback receives no access to the network, so it cannot
    /// influence the run. `id` is that of the packet until it leaves or is dropped.
    fn observe(&mut self, now: Time, node: NodeId, what: PacketEvent, id: PacketId, packet: &Packet) {
        let _ = (now, node, what, id, packet);
    }
}

/// The fields are ordered as a packet needs them, from the start of a cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Node {
    ctx: ElementContext,
    element: Element,
}

/// A network: the elements, their connections, and the state of a run.
#[derive(Clone, Debug)]
pub struct Network {
    seed: Seed,
    core: Core,
    nodes: Vec<Node>,
    names: Vec<String>,
    events: u64,
    trace: u64,
}

impl Network {
    /// Creates an empty network. The elements draw random numbers from streams of `seed`.
    pub fn new(seed: Seed) -> Network {
        Network {
            seed,
            core: Core::default(),
            nodes: Vec::new(),
            names: Vec::new(),
            events: 0,
            trace: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// The seed of the random streams.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// Adds an element without a successor. Its random stream depends on `name` alone. Panics when an element has
    /// this name already.
    pub fn add(&mut self, name: &str, element: impl IntoElement) -> NodeId {
        assert!(!self.names.iter().any(|n| n == name), "two elements are called `{name}`");
        let node = NodeId(u32::try_from(self.nodes.len()).expect("fewer than 2^32 elements"));
        let element = element.into_element(name, self.seed);
        let mut source = SourceId::NONE;
        if element.wakes() {
            source = self.core.queue.add();
            self.core.own(source, EventTarget::Node(node));
        }
        let ctx = ElementContext::new(node, source);
        self.nodes.push(Node { ctx, element });
        self.names.push(name.to_owned());
        node
    }

    /// Adds a host. Returns the id for [`Packet::src`] and [`Packet::dst`], and the element at which packets to this
    /// host end.
    pub fn add_host(&mut self, name: &str) -> (HostId, NodeId) {
        let host = HostId(u16::try_from(self.core.egress.len()).expect("fewer than 65536 hosts"));
        self.core.egress.push(NodeId::NONE);
        (host, self.add(name, Element::Host(host)))
    }

    /// Adds a buffer of `capacity` that several ports can share ([`PortSpec::share`](crate::element::PortSpec)).
    pub fn add_shared_buffer(&mut self, capacity: Bytes) -> SharedBufferId {
        self.core.shared_buffers.push(SharedBuffer { capacity: capacity.get(), used: 0 });
        SharedBufferId(u32::try_from(self.core.shared_buffers.len() - 1).expect("fewer than 2^32 buffers"))
    }

    /// Adds the table of a middlebox that knows connections. Both directions of a link use one.
    pub fn add_connection_table(&mut self) -> usize {
        self.core.last_passed.push(BTreeMap::new());
        self.core.last_passed.len() - 1
    }

    /// Packets that leave `from` enter `to`.
    pub fn connect(&mut self, from: NodeId, to: NodeId) {
        self.nodes[from.0 as usize].ctx.next = to;
    }

    /// Connects the elements of `path` in this order.
    pub fn chain(&mut self, path: &[NodeId]) {
        for pair in path.windows(2) {
            self.connect(pair[0], pair[1]);
        }
    }

    /// Connects the elements of `path` in this order; packets that `host` sends enter the first one. Panics when
    /// `path` is empty.
    pub fn set_egress(&mut self, host: HostId, path: &[NodeId]) {
        self.chain(path);
        self.core.egress[usize::from(host.0)] = *path.first().expect("a way out has an element");
    }

    /// On the switch `at`, packets to `dst` leave through one of `ports`, chosen by a hash of the flow. Panics when
    /// `at` is not a switch or `ports` is empty.
    pub fn route(&mut self, at: NodeId, dst: HostId, ports: &[NodeId]) {
        let Element::Switch(switch) = &mut self.nodes[at.0 as usize].element else {
            panic!("`{}` is not a switch", self.names[at.0 as usize]);
        };
        switch.route(dst, ports);
    }

    /// Reports every packet that enters, leaves, is marked or is dropped at `node` to [`Hosts::observe`].
    pub fn watch(&mut self, node: NodeId) {
        self.nodes[node.0 as usize].ctx.watched = true;
    }

    /// Records queue length and waiting times of `node`, with one sample per `interval`.
    pub fn collect(&mut self, node: NodeId, interval: Dur, warm_at: Time) {
        let ctx = &mut self.nodes[node.0 as usize].ctx;
        ctx.collects = true;
        ctx.cold.stats = Some(QueueStats::new(interval, warm_at));
    }

    /// The statistics of `node`, when [`Network::collect`] enabled them.
    pub fn stats(&self, node: NodeId) -> Option<&QueueStats> {
        self.nodes[node.0 as usize].ctx.cold.stats.as_ref()
    }

    /// The counters of `node`.
    pub fn counters(&self, node: NodeId) -> Counters {
        let node = &self.nodes[node.0 as usize];
        let mut counters = node.ctx.counters();
        if matches!(node.element, Element::Switch(_) | Element::Host(_)) {
            counters.packets_out = counters.packets_in - counters.dropped.total();
            counters.bytes_out = counters.bytes_in - counters.bytes_dropped;
        }
        counters
    }

    /// Number of packets inside `node`, counted in its queues.
    pub fn held(&self, node: NodeId) -> u64 {
        self.nodes[node.0 as usize].element.held()
    }

    /// The backlog of `node` in front of a packet of `flow`.
    pub fn backlog(&mut self, node: NodeId, flow: FlowLabel) -> Backlog {
        self.nodes[node.0 as usize].element.backlog(&self.core, flow)
    }

    /// The backlog of `node` over all flows.
    pub(crate) fn waiting(&mut self, node: NodeId) -> Backlog {
        self.nodes[node.0 as usize].element.waiting(&self.core)
    }

    /// All elements, in the order they were added.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &str)> {
        (0..).map(NodeId).zip(self.names.iter().map(String::as_str))
    }

    /// The name of `node`.
    pub fn name(&self, node: NodeId) -> &str {
        &self.names[node.0 as usize]
    }

    /// Number of events so far, and a hash over their times and sources. Two runs with the same trace processed the
    /// same events.
    pub fn trace(&self) -> (u64, u64) {
        (self.events, self.trace)
    }

    /// The current virtual time.
    pub fn now(&self) -> Time {
        self.core.now
    }

    /// The clock, timers and packets, for setting up and inspecting a run.
    pub fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    /// Runs all events up to and including `end`, and sets the clock to `end`.
    pub fn run_until<H: Hosts>(&mut self, hosts: &mut H, end: Time) {
        self.settle(hosts);
        while self.step(hosts, end) {}
        self.core.now = self.core.now.max(end);
    }

    /// Runs the next event if it is due by `end`. Returns whether there was one. Packets passed to [`Core::send`]
    /// before the run enter the network first.
    #[inline(always)]
    pub fn step<H: Hosts>(&mut self, hosts: &mut H, end: Time) -> bool {
        let Some((at, source)) = self.core.queue.take(end) else { return false };
        debug_assert!(at >= self.core.now, "an event in the past");
        self.core.now = at;
        count(&mut self.events, 1);
        self.trace = (self.trace ^ at.as_nanos() ^ u64::from(source.0) << 48).wrapping_mul(0x0100_0000_01b3);
        match self.core.owners[source.0 as usize] {
            EventTarget::Node(node) => {
                let node = &mut self.nodes[node.0 as usize];
                match &mut node.element {
                    Element::Link(link) => {
                        let to = node.ctx.next;
                        if let Some((handle, behind)) = link.wake(&mut node.ctx, &mut self.core) {
                            self.pass(hosts, to, handle, behind);
                        }
                    }
                    element => element.wake(&mut node.ctx, &mut self.core),
                }
            }
            EventTarget::Timer(timer) => {
                self.core.queue.clear(source);
                hosts.timer(&mut self.core, timer);
            }
        }
        self.settle(hosts);
        true
    }

    /// Processes everything that happens at the current instant: packets move until each is held, dropped or
    /// delivered.
    #[inline(always)]
    fn settle<H: Hosts>(&mut self, hosts: &mut H) {
        loop {
            let mut next = 0;
            while let Some(&(to, handle)) = self.core.moving.get(next) {
                next += 1;
                // The first element after a host is usually a link.
                if let Node { ctx, element: Element::Link(link) } = &mut self.nodes[to.0 as usize] {
                    link.receive(ctx, &mut self.core, handle);
                } else if let Some(to) = self.receive(hosts, to, handle) {
                    self.core.moving.push((to, handle));
                }
            }
            self.core.moving.clear();
            if self.core.host_events.is_empty() {
                return;
            }
            self.deliver_host_events(hosts);
        }
    }

    /// Moves the only packet in transit until an element holds it. `behind` is the flow of the next packet from the
    /// same source.
    #[inline(always)]
    fn pass<H: Hosts>(&mut self, hosts: &mut H, mut to: NodeId, handle: PacketHandle, behind: FlowLabel) {
        loop {
            let Node { ctx, element } = &mut self.nodes[to.0 as usize];
            match element {
                Element::Link(link) => return link.receive(ctx, &mut self.core, handle),
                Element::Switch(switch) => {
                    ctx.arrived(&mut self.core, handle);
                    ctx.passed(&mut self.core, handle);
                    to = switch.port(handle);
                }
                Element::Host(host) => {
                    let host = *host;
                    if behind != handle.flow {
                        hosts.expect(host, behind);
                    }
                    if arrives(ctx, &mut self.core, handle) {
                        hosts.receive(&mut self.core, host, handle.id);
                        self.core.packets.free(handle.id);
                    }
                    return;
                }
                _ => match self.receive(hosts, to, handle) {
                    Some(next) => to = next,
                    None => return,
                },
            }
        }
    }

    /// A packet arrives at an element. Returns the next node when the element is a switch.
    #[inline(never)]
    fn receive<H: Hosts>(&mut self, hosts: &mut H, to: NodeId, handle: PacketHandle) -> Option<NodeId> {
        let Node { ctx, element } = &mut self.nodes[to.0 as usize];
        if let Element::Host(host) = element {
            let host = *host;
            if arrives(ctx, &mut self.core, handle) {
                hosts.receive(&mut self.core, host, handle.id);
                self.core.packets.free(handle.id);
            }
            return None;
        }
        if let Element::Link(link) = element {
            link.receive(ctx, &mut self.core, handle);
            return None;
        }
        ctx.arrived(&mut self.core, handle);
        match element {
            Element::Switch(switch) => {
                ctx.passed(&mut self.core, handle);
                return Some(switch.port(handle));
            }
            Element::AckEceMarker(rule) => {
                let rule = *rule;
                let backlog = self.nodes[rule.queue.0 as usize].element.backlog(&self.core, handle.flow);
                let node = &mut self.nodes[to.0 as usize];
                rule.receive(&mut node.ctx, &mut self.core, handle.id, backlog);
            }
            element => element.receive(ctx, &mut self.core, handle.id),
        }
        None
    }

    #[cold]
    fn deliver_host_events<H: Hosts>(&mut self, hosts: &mut H) {
        for notice in std::mem::take(&mut self.core.host_events) {
            match notice {
                HostEvent::Packet { node, what, id, packet } => {
                    hosts.observe(self.core.now, node, what, id, &packet);
                }
                HostEvent::TxCompleted(s) => hosts.sent(&mut self.core, s.host, s.flow, s.bytes),
            }
        }
    }
}

/// A packet arrives at a host. Returns false when the checksum detects damage and the packet is dropped.
#[inline]
fn arrives(ctx: &mut ElementContext, core: &mut Core, handle: PacketHandle) -> bool {
    ctx.arrived(core, handle);
    if core.packets[handle.id].corrupt {
        ctx.drop(core, handle.id, DropReason::Checksum);
        return false;
    }
    ctx.passed(core, handle);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_with_all_it_counts_fills_three_cache_lines() {
        assert_eq!(size_of::<Node>(), 192);
    }
}
