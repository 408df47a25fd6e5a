//! Shortest paths.

use super::net::{Net, Node};

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
#[derive(Clone, Debug)]
pub struct Routes {
    hosts: usize,
    nodes: usize,
    /// `next[node * hosts + destination]`.
    next: Vec<Option<DirectedLink>>,
}

impl Routes {
    /// Routes of a network.
    pub fn of(net: &Net) -> Routes {
        let (hosts, nodes) = (net.hosts.len(), net.hosts.len() + net.switches.len());
        let mut routes = Routes { hosts, nodes, next: vec![None; hosts * nodes] };
        // Links by node, so that the search takes linear time with thousands of hosts.
        let mut at: Vec<Vec<usize>> = vec![Vec::new(); nodes];
        for (i, link) in net.links.iter().enumerate() {
            at[routes.index(link.from)].push(i);
            at[routes.index(link.to)].push(i);
        }
        let mut queue = Vec::new();
        for destination in 0..hosts {
            let mut seen = vec![false; nodes];
            seen[destination] = true;
            queue.clear();
            queue.push(Node::Host(destination));
            let mut head = 0;
            while head < queue.len() {
                let here = queue[head];
                head += 1;
                for &i in &at[routes.index(here)] {
                    let link = &net.links[i];
                    // The direction towards `here` is forward if the link ends here.
                    let forward = link.to == here;
                    let there = if forward { link.from } else { link.to };
                    let index = routes.index(there);
                    if !seen[index] {
                        seen[index] = true;
                        routes.next[index * hosts + destination] = Some(DirectedLink { link: i, forward });
                        // A host does not forward packets, so paths end there.
                        if matches!(there, Node::Switch(_)) {
                            queue.push(there);
                        }
                    }
                }
            }
        }
        routes
    }

    fn index(&self, node: Node) -> usize {
        match node {
            Node::Host(i) => i,
            Node::Switch(i) => self.hosts + i,
        }
    }

    /// The next link from `node` to host `destination`; `None` if there is no path or `node` is the
    /// destination.
    pub fn next(&self, node: Node, destination: usize) -> Option<DirectedLink> {
        debug_assert!(self.index(node) < self.nodes, "a node of another network");
        self.next[self.index(node) * self.hosts + destination]
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
}
