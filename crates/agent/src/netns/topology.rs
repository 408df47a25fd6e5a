//! The topology of a case as namespaces, veth pairs and queues: a plan on paper, which `setup` builds.
//!
//! ```text
//! pair:      sender -- shaper -- wire -- receiver
//! dumbbell:  sender0 -- left -- wire -- right -- receiver0
//! ```
//!
//! Every host and every switch is a network namespace; they forward by routes, so that a queue beyond the host's own device is
//! hidden from TCP small queues, as below a virtual machine. A link that delays or loses is a namespace of its own (`wire`), with
//! another behind it when something happens to single packets (`faults`), and a pair has one for its queue (`shaper`). Super-segments are cut where a NIC would: on leaving the host, or below a queue
//! that stands in the host.

use crate::environment::Environment;
use crate::netns::impairments;
use crate::netns::qdiscs::{self, ETHERNET, Shaping};
use tcpassay_bpf::limiter;
use tcpassay_case::params::Setting;
use tcpassay_case::params::grammar::{LinkRate, LossModel};
use tcpassay_case::topology::{Node, Port, Shape};
use tcpassay_case::{Case, HostSettings, LinkSettings, Mark, QueueSettings};
use tcpassay_units::{Bytes, Rate};

/// The folder in which `ip netns` looks for namespaces.
pub const NETNS_FOLDER: &str = "/run/netns";

/// A network namespace.
pub struct Netns {
    /// Its name, as `ip netns` has it.
    pub name: String,
    /// The host that it is.
    pub host: Option<usize>,
    /// Where packets to each host leave: `(host, device)`.
    pub routes: Vec<(usize, usize)>,
}

/// One end of a veth pair.
pub struct VethDevice {
    /// Index into [`NetnsTopology::namespaces`].
    pub netns: usize,
    /// Its name in there.
    pub name: String,
    /// The other end.
    pub peer: usize,
    /// Super-segments are cut on leaving it.
    pub cut: bool,
    /// Lines of `tc -batch`.
    pub queues: Vec<String>,
    /// The program that marks by the backlog of these queues.
    pub step: Option<limiter::Settings>,
}

/// A queue worth a row in the recording.
pub struct MonitoredQueue {
    /// As the model names it.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// What it is served with.
    pub rate: Rate,
    /// Index into [`NetnsTopology::devices`].
    pub dev: usize,
    /// Major number of its handle.
    pub handle: u16,
}

/// Everything that has to be built.
#[derive(Default)]
pub struct NetnsTopology {
    /// Namespaces: hosts first, in the order of the case.
    pub namespaces: Vec<Netns>,
    /// Ends of veth pairs, two each: device `2k` and `2k + 1`.
    pub devices: Vec<VethDevice>,
    /// The device of each host.
    pub hosts: Vec<usize>,
    /// Queues.
    pub monitored: Vec<MonitoredQueue>,
    /// Of those, the one whose rate is the capacity.
    pub bottleneck: usize,
    /// Built on this machine, in real time.
    real: bool,
    /// Super-segments travel whole: every host merges, and real time has none to spend on cutting and merging.
    pub whole: bool,
    /// Programs mark above steps.
    program: bool,
    /// Directions of links in which something happens to single packets that is not netem's.
    pub relayed: Vec<RelayedDirection>,
}

/// A direction of a link that [`relay`](crate::netns::relay) carries, from what arrives at one device to what leaves by another.
pub struct RelayedDirection {
    /// Index of the link in the case.
    pub link: usize,
    /// Index into [`NetnsTopology::devices`].
    pub from: usize,
    /// Index into [`NetnsTopology::devices`].
    pub to: usize,
    /// The way of the data.
    pub forward: bool,
}

/// The rate of a link; a trace was refused before.
fn wire_rate(link: &LinkSettings) -> Rate {
    match &link.rate {
        LinkRate::Fixed(rate) => *rate,
        LinkRate::Trace(_) => unreachable!("refused before"),
    }
}

/// Whether a link does more than serialise.
fn has_faults(link: &LinkSettings) -> bool {
    !link.delay.is_zero()
        || !link.jitter.size.is_zero()
        || link.loss > 0.0
        || link.ack_loss > 0.0
        || link.duplicate > 0.0
        || link.corrupt > 0.0
        || link.slot.is_some()
        || link.loss_model != LossModel::Bernoulli
}

impl NetnsTopology {
    /// The plan of a case.
    pub fn of(case: &Case, environment: &Environment) -> NetnsTopology {
        let real = environment.is_host();
        let mut topology = NetnsTopology {
            hosts: vec![usize::MAX; case.net.hosts.len()],
            real,
            whole: real && case.hosts.iter().all(|h| h.nic.gro),
            program: real && environment.no_program.is_none(),
            ..NetnsTopology::default()
        };
        for (i, host) in case.net.hosts.iter().enumerate() {
            topology.netns(host.name.clone(), Some(i));
        }
        for name in &case.net.switches {
            topology.netns(name.clone(), None);
        }
        for link in 0..case.links.len() {
            topology.link(case, link, environment);
        }
        topology
    }

    /// The two hosts of a pair and a veth pair: nothing is shaped, cut or monitored.
    pub fn benchmark(case: &Case) -> NetnsTopology {
        let mut topology = NetnsTopology { real: true, whole: true, ..NetnsTopology::default() };
        for (i, host) in case.net.hosts.iter().enumerate() {
            topology.netns(host.name.clone(), Some(i));
        }
        let first = topology.veth_pair(0, 1);
        topology.hosts = vec![first, first + 1];
        topology
    }

    fn netns(&mut self, name: String, host: Option<usize>) -> usize {
        // What stands on a machine says whose it is.
        let name = if self.real { format!("tcpassay-{name}") } else { name };
        self.namespaces.push(Netns { name, host, routes: Vec::new() });
        self.namespaces.len() - 1
    }

    /// A veth pair; returns the first of its ends.
    fn veth_pair(&mut self, a: usize, b: usize) -> usize {
        let first = self.devices.len();
        for (netns, name, peer) in [(a, "a", first + 1), (b, "b", first)] {
            let name = format!("c{}{name}", first / 2);
            self.devices.push(VethDevice { netns, name, peer, cut: false, queues: Vec::new(), step: None });
        }
        first
    }

    fn link(&mut self, case: &Case, index: usize, environment: &Environment) {
        let (link, settings) = (&case.net.links[index], &case.links[index]);
        let netns = |node| match node {
            Node::Host(i) => i,
            Node::Switch(i) => case.net.hosts.len() + i,
        };
        let pair = matches!(case.net.shape, Shape::Pair);
        // A shaper lets a packet pass before the time that it takes on the wire, and the wire makes up for that. In real time a link
        // that neither delays nor loses has no wire: the queue has its rate.
        let relayed = impairments::relayed(case, index, environment);
        let wired = !self.real || relayed || has_faults(settings);
        let mut chain = vec![netns(link.from)];
        if pair {
            chain.push(self.netns(format!("shaper-{}", link.name), None));
        }
        let wire = chain.len();
        if wired {
            chain.push(self.netns(format!("wire-{}", link.name), None));
        }
        if relayed {
            chain.push(self.netns(format!("faults-{}", link.name), None));
        }
        chain.push(netns(link.to));
        let veth_pairs: Vec<usize> = chain.windows(2).map(|two| self.veth_pair(two[0], two[1])).collect();
        let (first, last) = (veth_pairs[0], veth_pairs[veth_pairs.len() - 1] + 1);
        for (node, dev) in [(link.from, first), (link.to, last)] {
            if let Node::Host(i) = node {
                self.hosts[i] = dev;
                self.devices[dev].cut = !self.whole;
                // A veth merges on receipt only what comes from a peer without segmentation (veth_skb_is_eligible_for_gro).
                let peer = self.devices[dev].peer;
                self.devices[peer].cut = !self.whole;
            }
        }
        self.routes(case, index, &chain, &veth_pairs);
        // The way of the data: a queue, then the wire.
        let mtu = case.hosts.iter().map(|h| h.mtu).max().expect("hosts");
        let rate = wire_rate(settings);
        let queued_at = if pair { Some(veth_pairs[1]) } else { (!is_host(link.from)).then_some(first) };
        if let Some(dev) = queued_at {
            let above_nic = pair && case.stands_at_sender(index);
            if above_nic {
                self.devices[first].cut = false;
                self.devices[dev].cut = !self.whole;
            }
            let plain = QueueSettings::plain();
            let queue = if link.main || link.group == "access" { &settings.queue } else { &plain };
            let link_serves =
                !matches!(case.link_setting(index, "queue.served_by").0, Setting::Word("token-bucket"));
            let shaping = Shaping {
                supers: above_nic || self.whole,
                real: self.real,
                program: self.program,
                link: link_serves && environment.link_serves(queue.kind),
            };
            self.devices[dev].queues = qdiscs::queue(&self.devices[dev].name, queue, rate, mtu, shaping);
            self.devices[dev].step = if self.program { step(queue) } else { None };
            self.watch(&link.name, queue.kind, queue.rate.unwrap_or(rate).min(rate), dev, link.main);
        } else if !wired {
            self.host_rate(case, link.from, first, Some(rate), mtu);
        }
        if let Some((rate, burst)) = settings.policer {
            let dev = queued_at.unwrap_or(first);
            let lines = qdiscs::policer(&self.devices[dev].name, rate, burst, mtu);
            self.devices[dev].queues.extend(lines);
        }
        // The way back: a plain queue before the same rate.
        if !wired {
            match link.to {
                Node::Host(_) => self.host_rate(case, link.to, last, Some(rate), mtu),
                Node::Switch(_) => {
                    self.devices[last].queues = self.line_rate(last, rate, mtu, None);
                }
            }
        }
        if wired {
            let here = impairments::drawn_here(case, index, environment);
            let left = if here { impairments::left_to_netem(settings) } else { settings.clone() };
            let out = veth_pairs[wire];
            self.devices[out].queues = vec![qdiscs::wire(&self.devices[out].name, rate, &left, true)];
            let back = veth_pairs[wire - 1] + 1;
            let left = LinkSettings { delay: settings.delay, ..left };
            self.devices[back].queues = vec![qdiscs::wire(&self.devices[back].name, rate, &left, false)];
            // What waits for an access link waits in the host, in reach of TCP small queues.
            let own = (!link.main).then_some(rate);
            self.host_rate(case, link.from, first, own, mtu);
            self.host_rate(case, link.to, last, own, mtu);
        }
        if relayed {
            let (from, to) = (veth_pairs[wire] + 1, veth_pairs[wire + 1]);
            self.relayed.push(RelayedDirection { link: index, from, to, forward: true });
            self.relayed.push(RelayedDirection { link: index, from: to, to: from, forward: false });
        }
    }

    /// A host's own line rate and queue.
    fn host_rate(&mut self, case: &Case, node: Node, dev: usize, link: Option<Rate>, mtu: Bytes) {
        let Node::Host(i) = node else { return };
        let HostSettings { nic, .. } = &case.hosts[i];
        let rate = match (nic.rate, link) {
            (Some(nic), Some(link)) => Some(nic.min(link)),
            (nic, link) => nic.or(link),
        };
        if let Some(rate) = rate {
            self.devices[dev].queues = self.line_rate(dev, rate, mtu, nic.queue);
        }
    }

    fn line_rate(&self, dev: usize, rate: Rate, mtu: Bytes, queue: Option<u32>) -> Vec<String> {
        let shaping = Shaping { supers: self.whole, real: self.real, program: self.program, link: false };
        qdiscs::line_rate(&self.devices[dev].name, rate, mtu, queue, shaping)
    }

    fn watch(&mut self, link: &str, kind: &str, rate: Rate, dev: usize, main: bool) {
        if main {
            self.bottleneck = self.monitored.len();
        }
        self.monitored.push(MonitoredQueue {
            name: format!("queue.{link}"),
            kind: kind.to_owned(),
            rate,
            dev,
            handle: qdiscs::INNER,
        });
    }

    /// Which way packets to each host go at every namespace of a link.
    fn routes(&mut self, case: &Case, index: usize, chain: &[usize], veth_pairs: &[usize]) {
        let link = &case.net.links[index];
        for host in 0..case.net.hosts.len() {
            let leads = |node, forward| case.routes.next(node, host) == Some(Port { link: index, forward });
            let forward = link.to == Node::Host(host) || leads(link.from, true);
            let backward = link.from == Node::Host(host) || leads(link.to, false);
            for (place, netns) in chain.iter().enumerate() {
                let end = place == 0 || place == chain.len() - 1;
                if forward && place < veth_pairs.len() && (!end || leads(link.from, true)) {
                    self.namespaces[*netns].routes.push((host, veth_pairs[place]));
                } else if backward && place > 0 && (!end || leads(link.to, false)) {
                    self.namespaces[*netns].routes.push((host, veth_pairs[place - 1] + 1));
                }
            }
        }
    }
}

/// The program that marks for a queue.
fn step(queue: &QueueSettings) -> Option<limiter::Settings> {
    let mark = match queue.mark {
        Mark::Off => return None,
        Mark::Data => limiter::Mark::Data,
        Mark::Ack => limiter::Mark::Acks,
    };
    Some(limiter::Settings { mark, threshold: queue.threshold, header: ETHERNET, made_clsact: true })
}

fn is_host(node: Node) -> bool {
    matches!(node, Node::Host(_))
}
