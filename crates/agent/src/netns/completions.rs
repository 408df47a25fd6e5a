//! Late transmit completions of hosts in a guest (`nic.tx_usecs`).
//!
//! A completion is the release of a packet that TCP sent: until then it counts for TCP small queues (`tcp_wfree`). A veth pair does not release
//! it; the IP layer of the next namespace does (`ip_rcv_core`). Before that layer a filter passes a copy of each packet on, which belongs to no
//! socket, and the packet itself to a dummy device. There netem keeps it until the interrupt and the device releases it. A slot of netem begins
//! with the first packet after the last slot, as the interrupt of the model does; a netem without a delay does not release packets itself.

use crate::netns::qdiscs;
use crate::netns::topology::NetnsTopology;
use tcpassay_case::Case;

/// The commands of `ip` and of `tc` that delay the completions of the hosts whose packets arrive first at a namespace.
pub fn commands(case: &Case, topology: &NetnsTopology, place: usize) -> [Vec<String>; 2] {
    let [mut links, mut queues] = [const { Vec::new() }; 2];
    for (host, own) in topology.hosts.iter().enumerate() {
        let delay = case.hosts[host].nic.tx_delay;
        if delay.is_zero() {
            continue;
        }
        let next = &topology.devices[topology.devices[*own].peer];
        if next.netns != place {
            continue;
        }
        let (from, keeper) = (&next.name, format!("t{host}"));
        links.push(format!("link add name {keeper} mtu 65535 type dummy"));
        links.push(format!("link set dev {keeper} arp off up"));
        queues.push(qdiscs::slots(&keeper, "root handle 1:", delay));
        queues.push(format!("qdisc add dev {from} handle ffff: ingress"));
        queues.push(format!(
            "filter add dev {from} ingress matchall action mirred ingress mirror dev {keeper} pipe action mirred egress redirect dev {keeper}"
        ));
    }
    [links, queues]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::testing::case;
    use tcpassay_case::params::Substrate;

    #[test]
    fn packets_of_a_host_with_late_completions_wait_for_the_interrupt_while_copies_of_them_go_on() {
        let case = case(Substrate::Kernel, &[("sender/nic.tx_usecs", "100us")]);
        let topology = NetnsTopology::of(&case, &Environment::guest());
        let shaper = topology.namespaces.iter().position(|n| n.name == "shaper-bottleneck").unwrap();
        for place in 0..topology.namespaces.len() {
            let [links, queues] = commands(&case, &topology, place);
            if place != shaper {
                assert!(links.is_empty() && queues.is_empty());
                continue;
            }
            assert_eq!(links, ["link add name t0 mtu 65535 type dummy", "link set dev t0 arp off up"]);
            assert_eq!(
                queues,
                [
                    "qdisc add dev t0 root handle 1: netem limit 10000000 slot 100000ns 100000ns",
                    "qdisc add dev c0b handle ffff: ingress",
                    "filter add dev c0b ingress matchall action mirred ingress mirror dev t0 pipe action mirred egress \
                     redirect dev t0",
                ]
            );
        }
    }
}
