//! Topologies: who is joined to whom, and who sends to whom.
//!
//! # Names, and what a plain path means
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
//! (`sender/`, `receiver/`), or to a group of links (`access/`, `uplink/`). A plain `link.` or `queue.` path is for
//! the bottleneck of `pair`, `dumbbell` and `star`, whose access links have no delay or faults unless addressed, and
//! for every link of `racks` and `file`.
//!
//! Data flow from senders to receivers, acknowledgements back. `link.ack_loss` and `link.ack_thinning` hold on a
//! link's way back; loss, jitter and the other faults on its way forward; rate and delay both ways.
//! In `racks`, sender `i` sends to receiver `i` modulo the number of receivers, so that with fewer workers than
//! storage hosts the workers' links carry several.
//!
//! This module must not know about time, packets or settings.

mod file;
mod route;

pub use route::{Port, Routes};

use std::str::FromStr;

/// A topology as a case names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One sender, one receiver, one link.
    Pair,
    /// So many pairs over one link.
    Dumbbell(u32),
    /// So many senders, one receiver, one switch.
    Star(u32),
    /// Leaf-spine: storage racks send to worker racks.
    Racks {
        /// Racks of senders.
        storage: u32,
        /// Racks of receivers.
        worker: u32,
    },
    /// From a file.
    File(String),
}

impl FromStr for Shape {
    type Err = String;
    fn from_str(text: &str) -> Result<Shape, String> {
        let count = |t: &str| match t.parse::<u32>() {
            Ok(n) if (1..=4096).contains(&n) => Ok(n),
            _ => Err(format!("`{t}` is not a number from 1 to 4096")),
        };
        match text.split_once(':') {
            None if text == "pair" => Ok(Shape::Pair),
            Some(("dumbbell", n)) => Ok(Shape::Dumbbell(count(n)?)),
            Some(("star", n)) => Ok(Shape::Star(count(n)?)),
            Some(("racks", racks)) => {
                let (storage, worker) = racks.split_once('x').ok_or("the `x` is missing")?;
                Ok(Shape::Racks { storage: count(storage)?, worker: count(worker)? })
            }
            Some(("file", "")) => Err("the file's name is missing".to_owned()),
            Some(("file", name)) => Ok(Shape::File(name.to_owned())),
            _ => Err(String::new()),
        }
    }
}

/// Which end of its connections a host is.
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

/// A place where links end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Node {
    /// Index into [`Net::hosts`].
    Host(usize),
    /// Index into [`Net::switches`].
    Switch(usize),
}

/// A link, both ways. Forward is `from` to `to`, the way of the data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Its name, for addresses.
    pub name: String,
    /// Its group: `bottleneck`, `access`, `uplink`, or `link` in a file.
    pub group: &'static str,
    /// Where data enter.
    pub from: Node,
    /// Where data leave.
    pub to: Node,
    /// Plain `link.` and `queue.` paths are for this link.
    pub main: bool,
    /// `queue.` holds for the way back too.
    pub both_ways: bool,
    /// The link's own rate in a file, as text.
    pub rate: Option<String>,
    /// The link's own delay in a file, as text.
    pub delay: Option<String>,
}

/// Who is joined to whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Net {
    /// What the case asked for.
    pub shape: Shape,
    /// Hosts.
    pub hosts: Vec<Host>,
    /// Names of the switches.
    pub switches: Vec<String>,
    /// Links.
    pub links: Vec<Link>,
    /// Indices of the sender and receiver of each flow group.
    pub flows: Vec<(usize, usize)>,
}

impl Net {
    /// The network of `shape`; `rack_hosts` is `rack.hosts`. Files are read through `read`.
    ///
    /// # Errors
    ///
    /// What is wrong with the file of a topology, with its line.
    pub fn of(
        shape: &Shape,
        rack_hosts: u32,
        read: &dyn Fn(&str) -> std::io::Result<String>,
    ) -> Result<Net, String> {
        let mut net = Net {
            shape: shape.clone(),
            hosts: Vec::new(),
            switches: Vec::new(),
            links: Vec::new(),
            flows: Vec::new(),
        };
        match shape {
            Shape::Pair => {
                let (a, b) = (net.host("sender", Side::Sender), net.host("receiver", Side::Receiver));
                net.link("bottleneck", "bottleneck", a, b);
                net.flows.push((0, 1));
            }
            Shape::Dumbbell(n) => {
                let (left, right) = (net.switch("left"), net.switch("right"));
                net.link("bottleneck", "bottleneck", left, right);
                for i in 0..*n {
                    let s = net.host(&format!("sender{i}"), Side::Sender);
                    let r = net.host(&format!("receiver{i}"), Side::Receiver);
                    net.link(&format!("access-sender{i}"), "access", s, left);
                    net.link(&format!("access-receiver{i}"), "access", right, r);
                    net.flows.push((net.hosts.len() - 2, net.hosts.len() - 1));
                }
            }
            Shape::Star(n) => {
                let switch = net.switch("switch");
                let receiver = net.host("receiver", Side::Receiver);
                net.link("bottleneck", "bottleneck", switch, receiver);
                for i in 0..*n {
                    let s = net.host(&format!("sender{i}"), Side::Sender);
                    net.link(&format!("access-sender{i}"), "access", s, switch);
                    net.flows.push((net.hosts.len() - 1, 0));
                }
            }
            Shape::Racks { storage, worker } => net.racks(*storage, *worker, rack_hosts),
            Shape::File(name) => {
                let text = read(name).map_err(|why| format!("cannot read `{name}`: {why}"))?;
                file::fill(&mut net, &text).map_err(|why| format!("{name}: {why}"))?;
            }
        }
        Ok(net)
    }

    fn racks(&mut self, storage: u32, worker: u32, hosts: u32) {
        let spine = self.switch("spine");
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for rack in 0..storage + worker {
            let sends = rack < storage;
            let leaf = self.switch(&format!("rack{rack}"));
            let (up, down) = if sends { (leaf, spine) } else { (spine, leaf) };
            self.link(&format!("uplink-rack{rack}"), "uplink", up, down);
            for _ in 0..hosts {
                let (side, name) = if sends {
                    (Side::Sender, format!("sender{}", senders.len()))
                } else {
                    (Side::Receiver, format!("receiver{}", receivers.len()))
                };
                let host = self.host(&name, side);
                let (from, to) = if sends { (host, leaf) } else { (leaf, host) };
                self.link(&format!("access-{name}"), "access", from, to);
                if sends { &mut senders } else { &mut receivers }.push(self.hosts.len() - 1);
            }
        }
        for link in &mut self.links {
            (link.main, link.both_ways) = (true, true);
        }
        self.flows = senders.iter().enumerate().map(|(i, s)| (*s, receivers[i % receivers.len()])).collect();
    }

    fn host(&mut self, name: &str, side: Side) -> Node {
        self.hosts.push(Host { name: name.to_owned(), side });
        Node::Host(self.hosts.len() - 1)
    }

    fn switch(&mut self, name: &str) -> Node {
        self.switches.push(name.to_owned());
        Node::Switch(self.switches.len() - 1)
    }

    fn link(&mut self, name: &str, group: &'static str, from: Node, to: Node) {
        self.links.push(Link {
            name: name.to_owned(),
            group,
            from,
            to,
            main: group == "bottleneck",
            both_ways: false,
            rate: None,
            delay: None,
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

    /// Every address there is.
    pub fn addresses(&self) -> Vec<&str> {
        let hosts = (0..self.hosts.len()).flat_map(|i| self.host_addresses(i));
        let links = (0..self.links.len()).flat_map(|i| self.link_addresses(i));
        let mut all: Vec<&str> = hosts.chain(links).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(shape: &str, hosts: u32) -> Net {
        Net::of(&shape.parse().unwrap(), hosts, &|_| unreachable!("no file")).unwrap()
    }

    #[test]
    fn a_dumbbell_of_three_has_six_hosts_and_seven_links() {
        let net = net("dumbbell:3", 1);
        assert_eq!((net.hosts.len(), net.links.len(), net.flows.len()), (6, 7, 3));
        assert_eq!(net.host_addresses(net.flows[2].0), ["sender2", "sender"]);
        assert_eq!(net.links.iter().filter(|l| l.main).count(), 1);
    }

    #[test]
    fn racks_of_storage_send_to_racks_of_workers_in_turn() {
        let net = net("racks:2x1", 2);
        let names: Vec<_> = net
            .flows
            .iter()
            .map(|(s, r)| (net.hosts[*s].name.as_str(), net.hosts[*r].name.as_str()))
            .collect();
        assert_eq!(
            names,
            [
                ("sender0", "receiver0"),
                ("sender1", "receiver1"),
                ("sender2", "receiver0"),
                ("sender3", "receiver1")
            ]
        );
        assert!(net.addresses().contains(&"uplink-rack2"));
    }

    #[test]
    fn a_shape_outside_the_grammar_is_refused() {
        for text in ["", "ring", "star", "star:0", "racks:3", "racks:3x", "dumbbell:-1", "file:"] {
            assert!(text.parse::<Shape>().is_err(), "{text}");
        }
    }
}
