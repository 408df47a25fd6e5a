//! Hosts, switches and links, and their names.

use super::shape::Shape;

/// The largest number of hosts: each needs several kilobytes, and a case is checked before it is run.
pub(super) const MOST_HOSTS: usize = 16_384;
/// The largest number of switches: the routes need four bytes for each two of them.
pub(super) const MOST_SWITCHES: usize = 8192;

/// The role of a host in its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Sends data.
    Sender,
    /// Receives data.
    Receiver,
    /// Both, on different connections.
    Both,
}

/// A host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its name, for addresses.
    pub name: String,
    /// Its side.
    pub side: Side,
}

/// An end of a link: a host or a switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Node {
    /// Index into [`Net::hosts`].
    Host(usize),
    /// Index into [`Net::switches`].
    Switch(usize),
}

/// A link with both directions. Data flow forward, from `from` to `to`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologyLink {
    /// Its name, for addresses.
    pub name: String,
    /// Its group: `bottleneck`, `access`, `uplink`, or `link` in a file.
    pub group: &'static str,
    /// The node from which data come.
    pub from: Node,
    /// The node to which data go.
    pub to: Node,
    /// Whether `link.` and `queue.` paths without address apply to this link.
    pub main: bool,
    /// Whether `queue.` also applies to the reverse direction.
    pub both_ways: bool,
    /// The link's own rate in a file, as text.
    pub rate: Option<String>,
    /// The link's own delay in a file, as text.
    pub delay: Option<String>,
    /// The line of a file that describes the reverse direction.
    pub back: Option<ReverseLink>,
}

/// The reverse direction of a link in a file: rate and delay, as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReverseLink {
    /// The rate; `None`: `link.back_rate`, or the default rate of links.
    pub rate: Option<String>,
    /// The delay; `None`: `link.back_delay`, or the default delay of links.
    pub delay: Option<String>,
}

/// A network: hosts, switches, links and pairs of hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Net {
    /// The topology as the case describes it.
    pub shape: Shape,
    /// Hosts.
    pub hosts: Vec<Host>,
    /// Names of the switches.
    pub switches: Vec<String>,
    /// Links.
    pub links: Vec<TopologyLink>,
    /// Indices of the sender and receiver of each flow group.
    pub flows: Vec<(usize, usize)>,
}

impl Net {
    /// The half of the input ports of a switch, 0 or 1, to which a link belongs, in the order of the links.
    pub fn input_half(&self, switch: usize, link: usize) -> u8 {
        let ends_here = |l: &TopologyLink| l.from == Node::Switch(switch) || l.to == Node::Switch(switch);
        let ports = self.links.iter().enumerate().filter(|(_, l)| ends_here(l));
        let ports: Vec<usize> = ports.map(|(i, _)| i).collect();
        let place = ports.iter().position(|i| *i == link).expect("a port of this switch");
        u8::from(2 * place >= ports.len())
    }

    pub(super) fn host(&mut self, name: &str, side: Side) -> Node {
        self.hosts.push(Host { name: name.to_owned(), side });
        Node::Host(self.hosts.len() - 1)
    }

    pub(super) fn switch(&mut self, name: &str) -> Node {
        self.switches.push(name.to_owned());
        Node::Switch(self.switches.len() - 1)
    }

    pub(super) fn link(&mut self, name: &str, group: &'static str, from: Node, to: Node) {
        self.links.push(TopologyLink {
            name: name.to_owned(),
            group,
            from,
            to,
            main: group == "bottleneck",
            both_ways: false,
            rate: None,
            delay: None,
            back: None,
        });
    }

    /// The name of a node.
    pub fn name(&self, node: Node) -> &str {
        match node {
            Node::Host(i) => &self.hosts[i].name,
            Node::Switch(i) => &self.switches[i],
        }
    }

    /// The addresses under which host `i` can be reached, the most specific first.
    pub fn host_addresses(&self, i: usize) -> Vec<&str> {
        let host = &self.hosts[i];
        let mut all = vec![host.name.as_str()];
        if matches!(host.side, Side::Sender | Side::Both) && host.name != "sender" {
            all.push("sender");
        }
        if matches!(host.side, Side::Receiver | Side::Both) && host.name != "receiver" {
            all.push("receiver");
        }
        all
    }

    /// The addresses under which link `i` can be reached, the most specific first.
    pub fn link_addresses(&self, i: usize) -> Vec<&str> {
        let link = &self.links[i];
        let mut all = vec![link.name.as_str()];
        if link.group != link.name {
            all.push(link.group);
        }
        all
    }

    /// All addresses of the network.
    pub fn addresses(&self) -> Vec<&str> {
        let hosts = (0..self.hosts.len()).flat_map(|i| self.host_addresses(i));
        let links = (0..self.links.len()).flat_map(|i| self.link_addresses(i));
        let mut all: Vec<&str> = hosts.chain(links).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
