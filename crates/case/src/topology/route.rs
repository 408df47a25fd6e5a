//! Shortest paths.

use super::net::{Net, Node, TopologyLink};

/// One direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DirectedLink {
    /// Index into [`Net::links`].
    pub link: usize,
    /// True for the direction from `from` to `to`, that of the data.
    pub forward: bool,
}

/// For each node and each destination host, the next link of the shortest path: fewest links; of equal paths
/// the first in the order of the links.
///
/// A host has one link, so that paths differ between switches only.
#[derive(Clone, Debug)]
pub struct Routes {
    /// The link of each host in its direction from the host, and the node behind it.
    ports: Vec<Option<(DirectedLink, Node)>>,
    switches: usize,
    /// `next[there * switches + here]`: from switch `here` towards switch `there`, in the form of [`packed`].
    next: Vec<u32>,
}

const NONE: u32 = u32::MAX;

/// A direction of a link in four bytes, because a large network has millions of routes.
fn packed(link: usize, forward: bool) -> u32 {
    u32::try_from(2 * link + usize::from(forward)).expect("fewer than 2^31 links")
}

impl Routes {
    /// Routes of a network.
    pub fn of(net: &Net) -> Routes {
        let switches = net.switches.len();
        let mut ports = vec![None; net.hosts.len()];
        // Links to other switches by switch; whether a switch has hosts.
        let mut at: Vec<Vec<(u32, usize)>> = vec![Vec::new(); switches];
        let mut has_hosts = vec![false; switches];
        for (link, TopologyLink { from, to, .. }) in net.links.iter().enumerate() {
            for (here, there, forward) in [(*from, *to, true), (*to, *from, false)] {
                match (here, there) {
                    (Node::Host(i), _) => {
                        ports[i].get_or_insert((DirectedLink { link, forward }, there));
                    }
                    (Node::Switch(i), Node::Host(_)) => has_hosts[i] = true,
                    // The search goes backwards, from the destination.
                    (Node::Switch(i), Node::Switch(j)) => at[i].push((packed(link, !forward), j)),
                }
            }
        }
        let mut rows = vec![NONE; switches * switches];
        let mut queue = Vec::new();
        for destination in (0..switches).filter(|i| has_hosts[*i]) {
            let row = &mut rows[destination * switches..][..switches];
            queue.clear();
            queue.push(destination);
            let mut head = 0;
            while head < queue.len() {
                let here = queue[head];
                head += 1;
                for &(port, there) in &at[here] {
                    if there != destination && row[there] == NONE {
                        row[there] = port;
                        queue.push(there);
                    }
                }
            }
        }
        Routes { ports, switches, next: rows }
    }

    /// The next link from `node` to host `destination`; `None` if there is no path or `node` is the
    /// destination.
    pub fn next(&self, node: Node, destination: usize) -> Option<DirectedLink> {
        let (last, behind) = self.ports[destination]?;
        match node {
            Node::Host(i) if i == destination => None,
            Node::Host(i) => {
                let (port, there) = self.ports[i]?;
                let leads = there == Node::Host(destination)
                    || (matches!(there, Node::Switch(_)) && self.next(there, destination).is_some());
                leads.then_some(port)
            }
            _ if node == behind => Some(DirectedLink { forward: !last.forward, ..last }),
            Node::Switch(here) => {
                let Node::Switch(there) = behind else { return None };
                let port = self.next[there * self.switches + here];
                let link = DirectedLink { link: (port / 2) as usize, forward: port % 2 == 1 };
                (port != NONE).then_some(link)
            }
        }
    }

    /// The links from host `from` to host `to`; `None` if there is no path.
    pub fn path(&self, net: &Net, from: usize, to: usize) -> Option<Vec<DirectedLink>> {
        let mut path = Vec::new();
        let mut here = Node::Host(from);
        while here != Node::Host(to) {
            let port = self.next(here, to)?;
            let link = &net.links[port.link];
            here = if port.forward { link.to } else { link.from };
            path.push(port);
        }
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::RackCounts;

    const ONE: RackCounts = RackCounts { hosts: 1, fanout: 1 };

    #[test]
    fn a_path_between_racks_goes_up_and_down_the_spine() {
        let net = Net::of(&"racks:1x1".parse().unwrap(), ONE, &|_| unreachable!()).unwrap();
        let path = Routes::of(&net).path(&net, 0, 1).unwrap();
        let names: Vec<_> = path.iter().map(|p| (net.links[p.link].name.as_str(), p.forward)).collect();
        assert_eq!(
            names,
            [
                ("access-sender0", true),
                ("uplink-rack0", true),
                ("uplink-rack1", true),
                ("access-receiver0", true)
            ]
        );
    }

    #[test]
    fn the_way_back_takes_the_same_links_backwards() {
        let net = Net::of(&"dumbbell:2".parse().unwrap(), ONE, &|_| unreachable!()).unwrap();
        let routes = Routes::of(&net);
        let (s, r) = net.flows[1];
        let mut back = routes.path(&net, r, s).unwrap();
        back.reverse();
        let there = routes.path(&net, s, r).unwrap();
        assert!(there.iter().zip(&back).all(|(a, b)| a.link == b.link && a.forward != b.forward));
    }
    /// Two ways of equal length around a ring of four switches.
    #[test]
    fn of_equal_paths_the_first_in_the_order_of_the_links_is_taken() {
        let text = r#"
hosts = ["a", "b", "alone"]
switches = ["p", "q", "r", "s", "t"]
links = [{ from = "a", to = "p" }, { from = "r", to = "b" }, { from = "p", to = "s" }, { from = "s", to = "r" },
         { from = "p", to = "q" }, { from = "q", to = "r" }, { from = "t", to = "alone" }]
flows = [{ from = "a", to = "b" }]
"#;
        let net = Net::of(&"file:t".parse().unwrap(), ONE, &|_| Ok(text.to_owned())).unwrap();
        let routes = Routes::of(&net);
        let names = |from, to| -> Option<Vec<String>> {
            let path = routes.path(&net, from, to)?;
            Some(path.iter().map(|p| format!("{} {}", net.links[p.link].name, p.forward)).collect())
        };
        assert_eq!(names(0, 1).unwrap(), ["a-p true", "p-s true", "s-r true", "r-b true"]);
        assert_eq!(names(1, 0).unwrap(), ["r-b false", "s-r false", "p-s false", "a-p false"]);
        assert_eq!((names(0, 2), names(2, 0), names(0, 0)), (None, None, Some(Vec::new())));
    }
}
