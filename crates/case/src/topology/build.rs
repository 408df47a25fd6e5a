//! Construction of the network of a topology.

use super::file;
use super::net::{MOST_HOSTS, MOST_SWITCHES, Net, Side};
use super::shape::Shape;

/// The numbers of hosts and receivers in a topology of racks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RackCounts {
    /// `rack.hosts`.
    pub hosts: u32,
    /// `rack.fanout`.
    pub fanout: u32,
}

impl Net {
    /// Builds the network of `shape`; `racks` are the parameters of topology `racks`. Files are read through
    /// `read`.
    ///
    /// # Errors
    ///
    /// The error in the file of a topology, with its line; more hosts or switches than possible.
    pub fn of(
        shape: &Shape,
        racks: RackCounts,
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
            Shape::Racks { storage, worker } => {
                let (switches, hosts) =
                    (storage + worker + 1, u64::from(storage + worker) * u64::from(racks.hosts));
                if switches as usize > MOST_SWITCHES || hosts > MOST_HOSTS as u64 {
                    return Err(format!(
                        "it has {switches} switches and {hosts} hosts (rack.hosts = {}); at most \
                         {MOST_SWITCHES} and {MOST_HOSTS} are possible",
                        racks.hosts
                    ));
                }
                net.racks(*storage, *worker, racks);
            }
            Shape::File(name) => {
                let text = read(name).map_err(|why| format!("cannot read `{name}`: {why}"))?;
                file::fill(&mut net, &text).map_err(|why| format!("{name}: {why}"))?;
            }
        }
        Ok(net)
    }

    fn racks(&mut self, storage: u32, worker: u32, RackCounts { hosts, fanout }: RackCounts) {
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
        let fanout = (fanout as usize).min(receivers.len());
        for step in 0..fanout {
            let to = |i: usize| receivers[(i + step) % receivers.len()];
            self.flows.extend(senders.iter().enumerate().map(|(i, sender)| (*sender, to(i))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(shape: &str, hosts: u32) -> Net {
        fanned(shape, hosts, 1)
    }

    fn fanned(shape: &str, hosts: u32, fanout: u32) -> Net {
        let racks = RackCounts { hosts, fanout };
        Net::of(&shape.parse().unwrap(), racks, &|_| unreachable!("no file")).unwrap()
    }

    #[test]
    fn with_a_fanout_of_two_each_storage_host_sends_to_two_workers() {
        let names = |net: &Net| -> Vec<(String, String)> {
            net.flows.iter().map(|(s, r)| (net.hosts[*s].name.clone(), net.hosts[*r].name.clone())).collect()
        };
        let net = fanned("racks:1x1", 3, 2);
        let expected = [
            ("sender0", "receiver0"),
            ("sender1", "receiver1"),
            ("sender2", "receiver2"),
            ("sender0", "receiver1"),
            ("sender1", "receiver2"),
            ("sender2", "receiver0"),
        ];
        assert_eq!(names(&net), expected.map(|(s, r)| (s.to_owned(), r.to_owned())));
        // No pair occurs twice.
        assert_eq!(fanned("racks:1x1", 2, 9).flows.len(), 4);
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
    fn racks_with_more_hosts_or_switches_than_possible_are_refused() {
        let refused = |shape: &str, hosts| {
            Net::of(&shape.parse().unwrap(), RackCounts { hosts, fanout: 1 }, &|_| unreachable!())
                .unwrap_err()
        };
        assert_eq!(
            refused("racks:40x25", 256),
            "it has 66 switches and 16640 hosts (rack.hosts = 256); at most 8192 and 16384 are possible"
        );
        assert!(refused("racks:4096x4096", 1).starts_with("it has 8193 switches and 8192 hosts"));
    }

    #[test]
    fn a_shape_outside_the_grammar_is_refused() {
        for text in ["", "ring", "star", "star:0", "racks:3", "racks:3x", "dumbbell:-1", "file:"] {
            assert!(text.parse::<Shape>().is_err(), "{text}");
        }
    }
}
