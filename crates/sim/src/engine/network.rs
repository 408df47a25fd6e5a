//! The graph of elements and the loop that runs it.

#![expect(clippy::inline_always, reason = "the run loop is one function")]

use super::core::{Core, Io, Notice, Owner, Pool, Seen};
use super::counters::{Counters, Drop};
use super::ids::{HostId, NodeId, PoolId, TimerId};
use super::packet::{FlowId, Packet, PacketId, Ticket};
use super::scheduler::SourceId;
use super::stats::QueueStats;
use crate::element::{Backlog, Element, IntoElement};
use tcpassay_units::{Bytes, Dur, Seed, Time, count};

/// What stands at the edge of the network: the stacks and applications of all hosts.
///
/// Every callback runs in the instant `net.now()`. Packets given to [`Core::send`] set out when the callback returns.
pub trait Hosts {
    /// `packet` arrived at `host`. It is freed when this returns.
    fn receive(&mut self, net: &mut Core, host: HostId, packet: PacketId);

    /// The next packet but one that `host` receives may well be of `flow`, which the next one is not: what it needs may be fetched
    /// ([`fetch`](super::fetch)). It changes nothing.
    #[inline]
    fn expect(&self, host: HostId, flow: FlowId) {
        let _ = (host, flow);
    }

    /// `timer` fired; it is not set any more.
    fn timer(&mut self, net: &mut Core, timer: TimerId);

    /// A packet with [`Packet::notify`] left the queues of its host (or was dropped there): the point at which Linux
    /// lets the socket of a flow queue more (TCP small queues).
    fn sent(&mut self, net: &mut Core, host: HostId, flow: FlowId, bytes: Bytes) {
        let _ = (net, host, flow, bytes);
    }

    /// Something happened at an element that is watched. It must not influence the run, so it cannot reach it.
    fn observe(&mut self, now: Time, node: NodeId, what: Seen, packet: &Packet) {
        let _ = (now, node, what, packet);
    }
}

/// In the order in which a packet needs it, from the start of a cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Node {
    io: Io,
    element: Element,
}

/// A network: elements, how they are joined, and the state of a run.
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
    /// An empty network, whose elements draw from `seed`.
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

    /// Adds an element that leads nowhere yet. Its random stream depends on `name` alone; panics
    /// when the name is taken.
    pub fn add(&mut self, name: &str, element: impl IntoElement) -> NodeId {
        assert!(!self.names.iter().any(|n| n == name), "two elements are called `{name}`");
        let node = NodeId(u32::try_from(self.nodes.len()).expect("fewer than 2^32 elements"));
        let element = element.into_element(name, self.seed);
        let mut source = SourceId::NONE;
        if element.wakes() {
            source = self.core.queue.add();
            self.core.own(source, Owner::Node(node));
        }
        let io = Io::new(node, source);
        self.nodes.push(Node { io, element });
        self.names.push(name.to_owned());
        node
    }

    /// Adds a host: an id for [`Packet::src`] and [`Packet::dst`], and the element that packets to it end at.
    pub fn add_host(&mut self, name: &str) -> (HostId, NodeId) {
        let host = HostId(u16::try_from(self.core.egress.len()).expect("fewer than 65536 hosts"));
        self.core.egress.push(NodeId::NONE);
        (host, self.add(name, Element::Host(host)))
    }

    /// Adds a buffer of `capacity` for ports to share ([`PortSpec::pool`](crate::element::PortSpec)).
    pub fn add_pool(&mut self, capacity: Bytes) -> PoolId {
        self.core.pools.push(Pool { capacity: capacity.get(), used: 0 });
        PoolId(u32::try_from(self.core.pools.len() - 1).expect("fewer than 2^32 buffers"))
    }

    /// What leaves `from` enters `to`.
    pub fn connect(&mut self, from: NodeId, to: NodeId) {
        self.nodes[from.0 as usize].io.next = to;
    }

    /// Joins the elements one after the other.
    pub fn chain(&mut self, path: &[NodeId]) {
        for pair in path.windows(2) {
            self.connect(pair[0], pair[1]);
        }
    }

    /// What `host` sends passes the elements of `path`, which this joins, one after the other. Panics when it is empty.
    pub fn set_egress(&mut self, host: HostId, path: &[NodeId]) {
        self.chain(path);
        self.core.egress[usize::from(host.0)] = *path.first().expect("a way out has an element");
    }

    /// On the switch `at`, packets to `dst` leave by one of `ports`, chosen by their flow. Panics when `at` is not a
    /// switch or `ports` is empty.
    pub fn route(&mut self, at: NodeId, dst: HostId, ports: &[NodeId]) {
        let Element::Switch(switch) = &mut self.nodes[at.0 as usize].element else {
            panic!("`{}` is not a switch", self.names[at.0 as usize]);
        };
        switch.route(dst, ports);
    }

    /// Shows [`Hosts::observe`] every packet that enters, leaves, is marked or dropped at `node`.
    pub fn watch(&mut self, node: NodeId) {
        self.nodes[node.0 as usize].io.watched = true;
    }

    /// Keeps queue length and waiting times of `node`, one sample each `interval`.
    pub fn collect(&mut self, node: NodeId, interval: Dur, warm_at: Time) {
        let io = &mut self.nodes[node.0 as usize].io;
        io.collects = true;
        io.rest.stats = Some(QueueStats::new(interval, warm_at));
    }

    /// What was collected at `node`.
    pub fn stats(&self, node: NodeId) -> Option<&QueueStats> {
        self.nodes[node.0 as usize].io.rest.stats.as_ref()
    }

    /// The counters of `node`.
    pub fn counters(&self, node: NodeId) -> Counters {
        let node = &self.nodes[node.0 as usize];
        let mut counters = node.io.counters();
        if matches!(node.element, Element::Switch(_) | Element::Host(_)) {
            counters.packets_out = counters.packets_in - counters.dropped.total();
            counters.bytes_out = counters.bytes_in - counters.bytes_dropped;
        }
        counters
    }

    /// Packets inside `node`, counted in its queues.
    pub fn held(&self, node: NodeId) -> u64 {
        self.nodes[node.0 as usize].element.held()
    }

    /// What waits in `node` before `flow` at present.
    pub fn backlog(&mut self, node: NodeId, flow: FlowId) -> Backlog {
        self.nodes[node.0 as usize].element.backlog(&self.core, flow)
    }

    /// What waits at `node`, of all flows.
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

    /// Events so far, and a hash over their instants and sources: two runs with the same trace took the same steps.
    pub fn trace(&self) -> (u64, u64) {
        (self.events, self.trace)
    }

    /// The present instant.
    pub fn now(&self) -> Time {
        self.core.now
    }

    /// The clock, timers and packets, to set a run up and to look at it.
    pub fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    /// Runs every event up to and at `end`, and leaves the clock there.
    pub fn run_until<H: Hosts>(&mut self, hosts: &mut H, end: Time) {
        self.settle(hosts);
        while self.step(hosts, end) {}
        self.core.now = self.core.now.max(end);
    }

    /// Runs the next event if it is due by `end`; says whether there was one. What [`Core::send`] was given before the
    /// run sets out first.
    #[inline(always)]
    pub fn step<H: Hosts>(&mut self, hosts: &mut H, end: Time) -> bool {
        let Some((at, source)) = self.core.queue.take(end) else { return false };
        debug_assert!(at >= self.core.now, "an event in the past");
        self.core.now = at;
        count(&mut self.events, 1);
        self.trace = (self.trace ^ at.as_nanos() ^ u64::from(source.0) << 48).wrapping_mul(0x0100_0000_01b3);
        match self.core.owners[source.0 as usize] {
            Owner::Node(node) => {
                let node = &mut self.nodes[node.0 as usize];
                match &mut node.element {
                    Element::Link(link) => {
                        let to = node.io.next;
                        if let Some((ticket, behind)) = link.wake(&mut node.io, &mut self.core) {
                            self.pass(hosts, to, ticket, behind);
                        }
                    }
                    element => element.wake(&mut node.io, &mut self.core),
                }
            }
            Owner::Timer(timer) => {
                self.core.queue.clear(source);
                hosts.timer(&mut self.core, timer);
            }
        }
        self.settle(hosts);
        true
    }

    /// Everything that happens in the present instant: packets move until each is held, gone or delivered.
    #[inline(always)]
    fn settle<H: Hosts>(&mut self, hosts: &mut H) {
        loop {
            let mut next = 0;
            while let Some(&(to, ticket)) = self.core.moving.get(next) {
                next += 1;
                // What hosts send enters a link, as a rule.
                if let Node { io, element: Element::Link(link) } = &mut self.nodes[to.0 as usize] {
                    link.receive(io, &mut self.core, ticket);
                } else if let Some(to) = self.receive(hosts, to, ticket) {
                    self.core.moving.push((to, ticket));
                }
            }
            self.core.moving.clear();
            if self.core.notices.is_empty() {
                return;
            }
            self.tell(hosts);
        }
    }

    /// Moves the only packet under way until an element takes it. `behind` is the flow of the next one from where it came.
    #[inline(always)]
    fn pass<H: Hosts>(&mut self, hosts: &mut H, mut to: NodeId, ticket: Ticket, behind: FlowId) {
        loop {
            let Node { io, element } = &mut self.nodes[to.0 as usize];
            match element {
                Element::Link(link) => return link.receive(io, &mut self.core, ticket),
                Element::Switch(switch) => {
                    io.arrived(&mut self.core, ticket);
                    io.passed(&mut self.core, ticket);
                    to = switch.port(ticket);
                }
                Element::Host(host) => {
                    let host = *host;
                    if behind != ticket.flow {
                        hosts.expect(host, behind);
                    }
                    if arrives(io, &mut self.core, ticket) {
                        hosts.receive(&mut self.core, host, ticket.id);
                        self.core.packets.free(ticket.id);
                    }
                    return;
                }
                _ => match self.receive(hosts, to, ticket) {
                    Some(next) => to = next,
                    None => return,
                },
            }
        }
    }

    /// A packet arrives at an element; says where it goes on to when that is a switch.
    #[inline(never)]
    fn receive<H: Hosts>(&mut self, hosts: &mut H, to: NodeId, ticket: Ticket) -> Option<NodeId> {
        let Node { io, element } = &mut self.nodes[to.0 as usize];
        if let Element::Host(host) = element {
            let host = *host;
            if arrives(io, &mut self.core, ticket) {
                hosts.receive(&mut self.core, host, ticket.id);
                self.core.packets.free(ticket.id);
            }
            return None;
        }
        if let Element::Link(link) = element {
            link.receive(io, &mut self.core, ticket);
            return None;
        }
        io.arrived(&mut self.core, ticket);
        match element {
            Element::Switch(switch) => {
                io.passed(&mut self.core, ticket);
                return Some(switch.port(ticket));
            }
            Element::MarkAcks(rule) => {
                let rule = *rule;
                let backlog = self.nodes[rule.queue.0 as usize].element.backlog(&self.core, ticket.flow);
                let node = &mut self.nodes[to.0 as usize];
                rule.receive(&mut node.io, &mut self.core, ticket.id, backlog);
            }
            element => element.receive(io, &mut self.core, ticket.id),
        }
        None
    }

    #[cold]
    fn tell<H: Hosts>(&mut self, hosts: &mut H) {
        for notice in std::mem::take(&mut self.core.notices) {
            match notice {
                Notice::Seen { node, what, packet } => hosts.observe(self.core.now, node, what, &packet),
                Notice::Sent(s) => hosts.sent(&mut self.core, s.host, s.flow, s.bytes),
            }
        }
    }
}

/// A packet arrives at a host, whose checksum may find it damaged.
#[inline]
fn arrives(io: &mut Io, core: &mut Core, ticket: Ticket) -> bool {
    io.arrived(core, ticket);
    if core.packets[ticket.id].corrupt {
        io.drop(core, ticket.id, Drop::Checksum);
        return false;
    }
    io.passed(core, ticket);
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
