//! The topology of a case as data: network namespaces, veth pairs and queue disciplines, which [`build`](crate::netns::build) creates.
//!
//! ```text
//! pair:      sender -- shaper -- wire -- receiver
//! dumbbell:  sender0 -- left -- wire -- right -- receiver0
//! racks:     sender0 -- wire -- rack0 -- wire -- spine -- wire -- rack1 -- wire -- receiver0
//! ```
//!
//! Every host and every switch is a network namespace. Namespaces forward by routes, so that a queue beyond the host's own device is hidden
//! from TCP small queues, as it is below a virtual machine. A link that delays or loses packets is a namespace of its own (`wire-`);
//! if single packets are impaired, a second namespace follows (`faults-`). A pair has one more namespace for its queue
//! (`shaper-`), and a host whose NIC has its own rule for interrupts one for its NIC (`nic-`). On a testbed that uses its links as they are, the hosts of a pair are neighbours. Super-segments are segmented where a NIC would do it: when they leave the host, or below a queue in the host.

mod receive_side;

use crate::environment::Environment;
use crate::netns::impairments;
use crate::netns::qdiscs::{self, ETHERNET, Shaping};
use crate::placement;
use tcpassay_bpf::limiter;
use tcpassay_case::params::grammar::{Buffers, IcmpReport, LinkRate, LossModel};
use tcpassay_case::params::linux::LinkDirection;
use tcpassay_case::topology::{DirectedLink, Node, Shape};
use tcpassay_case::{Case, HostSettings, LinkSettings, Mark, QueueKind, QueueSettings, ServedBy};
use tcpassay_messages::Part;
use tcpassay_units::{Bytes, Dur, Rate};

/// The folder in which `ip netns` looks for namespaces.
pub const NETNS_FOLDER: &str = "/run/netns";

/// A network namespace.
pub struct Netns {
    /// The name for `ip netns`.
    pub name: String,
    /// The index of the host; `None` for other namespaces.
    pub host: Option<usize>,
    /// The routes to hosts: `(host, outgoing device)`.
    pub routes: Vec<(usize, usize)>,
    /// The namespace is on this machine.
    pub local: bool,
    /// The namespace forwards and sends no ICMP message (`link.icmp = off`).
    pub silent: bool,
}

/// The end of a link between two machines: instead of a veth pair, a macvlan device on a test interface.
pub struct TestLink {
    /// The test interface.
    pub interface: String,
    /// The MAC address of the device.
    pub mac: String,
    /// The MAC address of the device at the other machine.
    pub peer_mac: String,
}

/// One end of a veth pair.
pub struct VethDevice {
    /// Index into [`NetnsTopology::namespaces`].
    pub netns: usize,
    /// The name of the device.
    pub name: String,
    /// The index of the other end.
    pub peer: usize,
    /// The MTU, if it is not that of the hosts.
    pub mtu: Option<Bytes>,
    /// The device segments super-segments that leave it.
    pub segments: bool,
    /// The commands of `tc -batch` that create its queues.
    pub queues: Vec<String>,
    /// The BPF program that marks packets by the backlog of these queues.
    pub marking: Option<limiter::Settings>,
    /// Set if the other end is on another machine.
    pub test_link: Option<TestLink>,
}

/// A queue that the recording contains.
pub struct MonitoredQueue {
    /// The name, which is the same in the model.
    pub name: String,
    /// The kind of the queue discipline.
    pub kind: QueueKind,
    /// The rate at which the queue is served.
    pub rate: Rate,
    /// Index into [`NetnsTopology::devices`].
    pub dev: usize,
    /// The major numbers of its handles: two for a port with two buffers.
    pub handles: Vec<u16>,
    /// The index of its link in the case.
    pub link: usize,
}

/// The topology of a case.
#[derive(Default)]
pub struct NetnsTopology {
    /// The namespaces. Those of the hosts come first, in the order of the case.
    pub namespaces: Vec<Netns>,
    /// The ends of the veth pairs; devices `2k` and `2k + 1` are a pair.
    pub devices: Vec<VethDevice>,
    /// The device of each host.
    pub hosts: Vec<usize>,
    /// The queues that the recording contains.
    pub monitored: Vec<MonitoredQueue>,
    /// The index in `monitored` of the bottleneck of the first pair of hosts.
    pub bottleneck: usize,
    /// The indices in `monitored` of the queues towards receivers to which parameters without an address apply.
    pub mains: Vec<usize>,
    /// The topology is built on a host and runs in real time.
    real: bool,
    /// Super-segments are not segmented on the path, because all hosts merge packets on receipt. Segmenting and merging takes real time.
    pub keeps_super_segments: bool,
    /// BPF programs mark packets, instead of queue disciplines.
    bpf_marks: bool,
    /// The directions of links with impairments that netem does not have.
    pub relayed: Vec<RelayedDirection>,
    /// The queues that mark returning ACKs in a guest.
    pub ack_marking: Vec<AckMarking>,
    /// The NICs that delay or reorder what arrives for their hosts.
    pub delaying_nics: Vec<DelayingNic>,
    /// The devices of switches: the index of the link, the switch, and an index into `devices`.
    switch_devices: Vec<(usize, usize, usize)>,
}

/// A NIC that delays or reorders what arrives for its host ([`nic`](crate::netns::nic)).
pub struct DelayingNic {
    /// The index of the host.
    pub host: usize,
    /// The device at which packets for the host arrive: an index into [`NetnsTopology::devices`].
    pub from: usize,
    /// The device in the direction of the host.
    pub to: usize,
}

/// A queue that marks returning ACKs ([`ack_marks`](crate::netns::ack_marks)).
pub struct AckMarking {
    /// The device of the queue, at which the ACKs arrive: an index into [`NetnsTopology::devices`].
    pub dev: usize,
    /// The device in the direction of the sender.
    pub to: usize,
    /// ACKs are marked while the backlog is above it.
    pub threshold: Bytes,
}

/// A direction of a link that has a queue.
struct Port {
    /// The name of the direction in the recording.
    name: String,
    /// Index into [`NetnsTopology::devices`].
    dev: usize,
    rate: Rate,
    /// The queue is that of a host, above its NIC.
    above_nic: bool,
}

/// A direction of a link whose packets [`relay`](crate::netns::relay) takes from one device and sends by another.
pub struct RelayedDirection {
    /// Index of the link in the case.
    pub link: usize,
    /// Index into [`NetnsTopology::devices`].
    pub from: usize,
    /// Index into [`NetnsTopology::devices`].
    pub to: usize,
    /// The direction of the data.
    pub forward: bool,
}

/// The rate of a direction of a link.
fn wire_rate(link: &LinkSettings, way: LinkDirection) -> Rate {
    match link.rate_of(way) {
        LinkRate::Fixed(rate) => *rate,
        LinkRate::Trace(_) => unreachable!("traces are unsupported"),
    }
}

/// Returns true if a link does more than serialise packets.
fn needs_wire(link: &LinkSettings) -> bool {
    [LinkDirection::Forward, LinkDirection::Backward].into_iter().any(|way| link.netem(way).next().is_some())
        || link.loss_model != LossModel::Bernoulli
}

impl NetnsTopology {
    /// The topology of a case.
    pub fn of(case: &Case, environment: &Environment) -> NetnsTopology {
        let real = environment.is_host();
        let mut topology = NetnsTopology {
            hosts: vec![usize::MAX; case.net.hosts.len()],
            real,
            keeps_super_segments: real && case.hosts.iter().all(|h| h.nic.gro),
            bpf_marks: real && environment.no_bpf.is_none(),
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
        topology.serve_second_buffers(case);
        topology.bottleneck = topology.first_bottleneck(case);
        topology
    }

    /// The slowest queue, of equal ones the first, that data of the first pair of hosts pass and to which parameters without an
    /// address apply; none (`usize::MAX`) without such a queue.
    fn first_bottleneck(&self, case: &Case) -> usize {
        let (from, to) = case.net.flows[0];
        let path = case.routes.path(&case.net, from, to).unwrap_or_default();
        let passed =
            |i: &usize| path.contains(&DirectedLink { link: self.monitored[*i].link, forward: true });
        self.mains
            .iter()
            .copied()
            .filter(passed)
            .min_by_key(|i| self.monitored[*i].rate)
            .unwrap_or(usize::MAX)
    }

    /// Removes namespaces and devices that are on other machines of a testbed. Queues on other machines are
    /// not monitored here.
    ///
    /// # Errors
    /// A case that the testbed cannot represent.
    pub fn cut(&mut self, case: &Case, part: &Part) -> Result<(), String> {
        let placement = placement::place(part, case)?;
        let machine = |netns: &Netns| netns.host.map_or(placement.others, |host| placement.hosts[host]);
        let machines: Vec<usize> = self.namespaces.iter().map(machine).collect();
        for (netns, machine) in self.namespaces.iter_mut().zip(&machines) {
            netns.local = *machine == placement.own;
        }
        for dev in 0..self.devices.len() {
            let peer = self.devices[dev].peer;
            let (here, there) = (machines[self.devices[dev].netns], machines[self.devices[peer].netns]);
            if here != there {
                let interface = part.interface(here, there)?.to_owned();
                let (mac, peer_mac) = (part.mac(dev), part.mac(peer));
                self.devices[dev].test_link = Some(TestLink { interface, mac, peer_mac });
            }
        }
        for (host, dev) in self.hosts.iter_mut().enumerate() {
            if placement.hosts[host] != placement.own {
                *dev = usize::MAX;
            }
        }
        let bottleneck = self.monitored.get(self.bottleneck).map(|queue| queue.name.clone());
        let (namespaces, devices) = (&self.namespaces, &self.devices);
        self.monitored.retain(|queue| namespaces[devices[queue.dev].netns].local);
        self.relayed.retain(|relayed| namespaces[devices[relayed.from].netns].local);
        let position = self.monitored.iter().position(|queue| Some(&queue.name) == bottleneck.as_ref());
        self.bottleneck = position.unwrap_or(usize::MAX);
        self.mains = position.into_iter().collect();
        Ok(())
    }

    /// Returns true if the namespace of a device is on this machine.
    pub fn is_local(&self, device: &VethDevice) -> bool {
        self.namespaces[device.netns].local
    }

    /// Returns true if a host is on this machine.
    pub fn has_host(&self, host: usize) -> bool {
        self.hosts.get(host).is_some_and(|device| *device != usize::MAX)
    }

    /// For each host, whether it is on this machine; empty if all are.
    pub fn hosts_here(&self) -> Vec<bool> {
        let here: Vec<bool> = (0..self.hosts.len()).map(|host| self.has_host(host)).collect();
        if here.iter().all(|here| *here) { Vec::new() } else { here }
    }

    /// Two hosts joined by a veth pair, without queues, to measure the traffic generators.
    pub fn benchmark(case: &Case) -> NetnsTopology {
        let mut topology =
            NetnsTopology { real: true, keeps_super_segments: true, ..NetnsTopology::default() };
        for (i, host) in case.net.hosts.iter().enumerate() {
            topology.netns(host.name.clone(), Some(i));
        }
        let first = topology.veth_pair(0, 1);
        topology.hosts = vec![first, first + 1];
        topology
    }

    /// Adds a namespace. Returns its index.
    fn netns(&mut self, name: String, host: Option<usize>) -> usize {
        // The prefix identifies namespaces of tcpassay on this machine.
        let name = if self.real { format!("tcpassay-{name}") } else { name };
        self.namespaces.push(Netns { name, host, routes: Vec::new(), local: true, silent: false });
        self.namespaces.len() - 1
    }

    /// Adds a veth pair between two namespaces. Returns the index of its first end.
    fn veth_pair(&mut self, a: usize, b: usize) -> usize {
        let first = self.devices.len();
        for (netns, name, peer) in [(a, "a", first + 1), (b, "b", first)] {
            let name = format!("c{}{name}", first / 2);
            self.devices.push(VethDevice {
                netns,
                name,
                peer,
                mtu: None,
                segments: false,
                queues: Vec::new(),
                marking: None,
                test_link: None,
            });
        }
        first
    }

    /// Adds the namespaces, devices, queues and routes of a link.
    fn link(&mut self, case: &Case, index: usize, environment: &Environment) {
        let (link, settings) = (&case.net.links[index], &case.links[index]);
        let netns = |node| match node {
            Node::Host(i) => i,
            Node::Switch(i) => case.net.hosts.len() + i,
        };
        let pair = matches!(case.net.shape, Shape::Pair);
        // A token bucket releases a packet before its transmission time has passed; the rate of the wire behind it adds that time. In real
        // time a link without delay and loss has no wire, and the queue alone has the rate.
        let relayed = impairments::relayed(case, index, environment);
        let wired = !self.real || relayed || needs_wire(settings) || settings.mtu.is_some();
        let mut chain = vec![netns(link.from)];
        if environment.links_as_is() {
            self.link_as_is(case, index, [netns(link.from), netns(link.to)]);
            return;
        }
        chain.extend(self.nic(case, link.from));
        let shaper = chain.len();
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
        chain.extend(self.nic(case, link.to));
        chain.push(netns(link.to));
        let veth_pairs: Vec<usize> = chain.windows(2).map(|two| self.veth_pair(two[0], two[1])).collect();
        let (first, last) = (veth_pairs[0], veth_pairs[veth_pairs.len() - 1] + 1);
        self.end_devices(index, [(link.from, first), (link.to, last)]);
        self.delaying_nics(case, [link.from, link.to], &veth_pairs);
        self.routes(case, index, &chain, &veth_pairs);
        if let Some(mtu) = settings.mtu {
            self.limit_packets(mtu, settings.icmp, veth_pairs[usize::from(is_host(link.from))]);
        }
        // In the direction of the data: a queue, then the wire.
        let mtu = case.hosts.iter().map(|h| h.mtu).max().expect("hosts");
        let (rate, back_rate) =
            (wire_rate(settings, LinkDirection::Forward), wire_rate(settings, LinkDirection::Backward));
        let queued_at = if pair { Some(veth_pairs[shaper]) } else { (!is_host(link.from)).then_some(first) };
        if let Some(dev) = queued_at {
            let above_nic = pair && case.stands_at_sender(index);
            if above_nic {
                self.devices[first].segments = false;
                self.devices[dev].segments = !self.keeps_super_segments;
            }
            if link.main {
                self.mains.push(self.monitored.len());
            }
            self.queue(case, index, Port { name: link.name.clone(), dev, rate, above_nic }, environment);
            if pair && !self.real && settings.queue.mark == Mark::Ack {
                let threshold = settings.queue.threshold;
                self.ack_marking.push(AckMarking { dev, to: veth_pairs[shaper - 1] + 1, threshold });
            }
        } else if !wired {
            self.host_rate(case, link.from, first, Some(rate), mtu);
        }
        if let Some((rate, burst)) = settings.policer {
            let dev = queued_at.unwrap_or(first);
            let lines = qdiscs::policer(&self.devices[dev].name, rate, burst, mtu);
            self.devices[dev].queues.extend(lines);
        }
        // In the direction of the ACKs: a plain queue with the same rate.
        if !wired {
            match link.to {
                Node::Host(_) => self.host_rate(case, link.to, last, Some(back_rate), mtu),
                Node::Switch(_) => {
                    self.devices[last].queues = self.line_rate(last, back_rate, mtu, None);
                }
            }
        }
        if link.both_ways && !is_host(link.to) {
            let name = format!("{}.back", link.name);
            self.queue(case, index, Port { name, dev: last, rate: back_rate, above_nic: false }, environment);
        }
        if wired {
            let here = impairments::drawn_here(case, index, environment);
            let left = if here { impairments::left_to_netem(settings) } else { settings.clone() };
            let out = veth_pairs[wire];
            self.devices[out].queues =
                vec![qdiscs::wire(&self.devices[out].name, rate, &left, LinkDirection::Forward)];
            let back = veth_pairs[wire - 1] + 1;
            let left = LinkSettings { delay: settings.delay, ..left };
            self.devices[back].queues =
                vec![qdiscs::wire(&self.devices[back].name, back_rate, &left, LinkDirection::Backward)];
            // Packets wait for an access link in the host, where TCP small queues limits them.
            let own = |rate: Rate| (!link.main || link.group == "access").then_some(rate);
            self.host_rate(case, link.from, first, own(rate), mtu);
            self.host_rate(case, link.to, last, own(back_rate), mtu);
        }
        if relayed {
            let (from, to) = (veth_pairs[wire] + 1, veth_pairs[wire + 1]);
            self.relayed.push(RelayedDirection { link: index, from, to, forward: true });
            self.relayed.push(RelayedDirection { link: index, from: to, to: from, forward: false });
        }
        self.delay_interrupts(case, [(link.from, first), (link.to, last)]);
    }

    /// Sets the devices of hosts and switches at the ends of a link.
    fn end_devices(&mut self, index: usize, ends: [(Node, usize); 2]) {
        for (node, dev) in ends {
            if let Node::Host(i) = node {
                self.hosts[i] = dev;
                self.devices[dev].segments = !self.keeps_super_segments;
                // A veth merges on receipt only what comes from a peer without segmentation (veth_skb_is_eligible_for_gro).
                let peer = self.devices[dev].peer;
                self.devices[peer].segments = !self.keeps_super_segments;
            }
            if let Node::Switch(i) = node {
                self.switch_devices.push((index, i, dev));
            }
        }
    }

    /// The time that a packet of a probe waits in front of a host in a guest. On a testbed it waits in the NIC; a NIC with a thread
    /// passes probes at once.
    pub fn interrupt_delay(&self, case: &Case, host: usize) -> Dur {
        let nic = &case.hosts[host].nic;
        if self.real || nic.has_own_receive_rule() { Dur::ZERO } else { nic.rx_delay }
    }

    /// Adds the namespace of a host's NIC, if it has one. Returns its index.
    fn nic(&mut self, case: &Case, node: Node) -> Option<usize> {
        let Node::Host(host) = node else { return None };
        let own = !self.real && case.hosts[host].nic.has_own_receive_rule();
        own.then(|| self.netns(format!("nic-{}", case.net.hosts[host].name), None))
    }

    /// Sets the MTU of a link at a veth pair between two namespaces that forward, which report longer packets.
    fn limit_packets(&mut self, mtu: Bytes, icmp: IcmpReport, pair: usize) {
        for dev in [pair, pair + 1] {
            self.devices[dev].mtu = Some(mtu);
            let netns = self.devices[dev].netns;
            self.namespaces[netns].silent |= icmp == IcmpReport::Never;
        }
    }

    /// Adds a link that is used as it is: two neighbours without queues of the case, except for those of `nic.rate`.
    fn link_as_is(&mut self, case: &Case, index: usize, ends: [usize; 2]) {
        let link = &case.net.links[index];
        let mtu = case.hosts.iter().map(|h| h.mtu).max().expect("hosts");
        let first = self.veth_pair(ends[0], ends[1]);
        for (node, dev) in [(link.from, first), (link.to, first + 1)] {
            if let Node::Host(i) = node {
                self.hosts[i] = dev;
                self.devices[dev].segments = !self.keeps_super_segments;
            }
            self.host_rate(case, node, dev, None, mtu);
        }
        self.routes(case, index, &ends, &[first]);
    }

    /// Sets the line rate and the queue of a host's own device.
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
        let shaping = Shaping {
            supers: self.keeps_super_segments,
            real: self.real,
            program: self.bpf_marks,
            link: false,
        };
        qdiscs::line_rate(&self.devices[dev].name, rate, mtu, queue, shaping)
    }

    /// Sets the queue of a link at a port, and records it.
    fn queue(&mut self, case: &Case, index: usize, port: Port, environment: &Environment) {
        let (link, settings) = (&case.net.links[index], &case.links[index]);
        let Port { name, dev, rate, above_nic } = port;
        let plain = QueueSettings::plain();
        let queue = if link.main || link.group == "access" { &settings.queue } else { &plain };
        let shaping = Shaping {
            supers: above_nic || self.keeps_super_segments,
            real: self.real,
            program: self.bpf_marks,
            link: settings.queue.served_by == ServedBy::Link && environment.link_serves(queue.kind),
        };
        let mtu = case.hosts.iter().map(|h| h.mtu).max().expect("hosts");
        let at_switch = self.switch_devices.iter().any(|(.., device)| *device == dev);
        let (queues, handles) = match case.network.buffers {
            Buffers::Dual(size) if at_switch => {
                let queues = qdiscs::two_buffers(&self.devices[dev].name, queue, size, rate, mtu, shaping);
                (queues, vec![qdiscs::INNER, qdiscs::SECOND])
            }
            _ => {
                let queues = qdiscs::queue(&self.devices[dev].name, queue, rate, mtu, shaping);
                (queues, vec![qdiscs::INNER])
            }
        };
        self.devices[dev].queues = queues;
        self.devices[dev].marking = if self.bpf_marks { marking(queue) } else { None };
        self.monitored.push(MonitoredQueue {
            name: format!("queue.{name}"),
            kind: queue.kind,
            rate: queue.rate.unwrap_or(rate).min(rate),
            dev,
            handles,
            link: index,
        });
    }

    /// Adds the routes to each host in all namespaces of a link.
    fn routes(&mut self, case: &Case, index: usize, chain: &[usize], veth_pairs: &[usize]) {
        let link = &case.net.links[index];
        for host in 0..case.net.hosts.len() {
            let leads =
                |node, forward| case.routes.next(node, host) == Some(DirectedLink { link: index, forward });
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

/// The settings of the BPF program that marks packets of a queue.
fn marking(queue: &QueueSettings) -> Option<limiter::Settings> {
    let mark = match queue.mark {
        Mark::Off => return None,
        Mark::Data => limiter::MarkedPackets::Data,
        Mark::Ack => limiter::MarkedPackets::Acks,
    };
    Some(limiter::Settings { mark, threshold: queue.threshold, header: ETHERNET, made_clsact: true })
}

fn is_host(node: Node) -> bool {
    matches!(node, Node::Host(_))
}

#[cfg(test)]
mod tests;
