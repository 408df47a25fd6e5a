use super::*;
use crate::testing::case;
use tcpassay_case::params::Substrate;

fn names(topology: &NetnsTopology) -> Vec<&str> {
    topology.namespaces.iter().map(|n| n.name.as_str()).collect()
}

#[test]
fn a_pair_has_a_namespace_for_its_queue_and_one_for_its_wire() {
    let topology = NetnsTopology::of(&case(Substrate::Kernel, &[]), &Environment::guest());
    assert_eq!(names(&topology), ["sender", "receiver", "shaper-bottleneck", "wire-bottleneck"]);
    // Three veth pairs: sender - shaper, shaper - wire, wire - receiver.
    let ends: Vec<usize> = topology.devices.iter().map(|d| d.netns).collect();
    assert_eq!(ends, [0, 2, 2, 3, 3, 1]);
    assert_eq!(topology.hosts, [0, 5]);
    assert_eq!((topology.monitored[0].name.as_str(), topology.monitored[0].dev), ("queue.bottleneck", 2));
}

#[test]
fn a_link_that_impairs_single_packets_has_a_relay_in_both_directions() {
    let case = case(Substrate::Kernel, &[("link.loss", "1%")]);
    let topology = NetnsTopology::of(&case, &Environment::guest());
    assert_eq!(names(&topology)[4], "faults-bottleneck");
    let relayed: Vec<_> = topology.relayed.iter().map(|r| (r.from, r.to, r.forward)).collect();
    assert_eq!(relayed, [(5, 6, true), (6, 5, false)]);
    // The wire leaves the losses to the relay.
    assert!(!topology.devices[4].queues[0].contains("loss"), "{:?}", topology.devices[4].queues);
}

#[test]
fn with_netem_the_wire_loses_and_there_is_no_relay() {
    let case = case(Substrate::Kernel, &[("link.loss", "1%"), ("link.drawn_by", "netem")]);
    let topology = NetnsTopology::of(&case, &Environment::guest());
    assert_eq!(names(&topology).len(), 4);
    assert!(topology.devices[4].queues[0].ends_with(" loss 1%"), "{:?}", topology.devices[4].queues);
    assert!(topology.relayed.is_empty());
}

#[test]
fn the_interrupts_of_a_host_wait_in_front_of_its_device_in_both_directions() {
    let rows = [("receiver/nic.rx_usecs", "50us"), ("sender/nic.rx_usecs", "8us")];
    let topology = NetnsTopology::of(&case(Substrate::Kernel, &rows), &Environment::guest());
    let queues = |dev: usize| &topology.devices[dev].queues;
    assert!(
        queues(4)[1].ends_with("parent 1:1 handle 30: netem limit 10000000 slot 50000ns 50000ns"),
        "{:?}",
        queues(4)
    );
    assert!(queues(1)[0].ends_with(" slot 8000ns 8000ns"), "{:?}", queues(1));
    // Behind a relay the wire is not in front of the host.
    let rows = [("receiver/nic.rx_usecs", "50us"), ("link.loss", "1%")];
    let topology = NetnsTopology::of(&case(Substrate::Kernel, &rows), &Environment::guest());
    let (wire, last) = (&topology.devices[4].queues, &topology.devices[6].queues);
    assert!(!wire[0].contains("slot") && last.len() == 1, "{wire:?} {last:?}");
    assert!(last[0].ends_with(" slot 50000ns 50000ns"), "{last:?}");
}

#[test]
fn in_real_time_a_link_without_delay_has_no_wire_and_names_have_a_prefix() {
    let case = case(Substrate::Host, &[("link.delay", "0s")]);
    let topology = NetnsTopology::of(&case, &Environment::without(&[]));
    assert_eq!(names(&topology), ["tcpassay-sender", "tcpassay-receiver", "tcpassay-shaper-bottleneck"]);
}

#[test]
fn every_namespace_of_a_dumbbell_has_a_route_to_every_host_but_itself() {
    let case = case(Substrate::Kernel, &[("topology", "dumbbell:2")]);
    let topology = NetnsTopology::of(&case, &Environment::guest());
    for (place, netns) in topology.namespaces.iter().enumerate().filter(|(_, n)| n.host.is_none()) {
        let mut to: Vec<usize> = netns.routes.iter().map(|(host, _)| *host).collect();
        to.sort_unstable();
        assert_eq!(to, [0, 1, 2, 3], "{}", netns.name);
        // A route leads out of the namespace by a device of its own.
        assert!(netns.routes.iter().all(|(_, dev)| topology.devices[*dev].netns == place), "{}", netns.name);
    }
}

#[test]
fn the_two_ends_of_a_veth_pair_refer_to_each_other() {
    let topology =
        NetnsTopology::of(&case(Substrate::Kernel, &[("topology", "star:3")]), &Environment::guest());
    for (at, device) in topology.devices.iter().enumerate() {
        assert_eq!((device.peer, topology.devices[device.peer].peer), (at ^ 1, at));
    }
}

#[test]
fn super_segments_stay_whole_in_real_time_if_all_hosts_merge_on_receipt() {
    let whole = |gro: &str| {
        let case = case(Substrate::Host, &[("link.delay", "0s"), ("nic.gro", gro)]);
        NetnsTopology::of(&case, &Environment::without(&[]))
    };
    assert!(whole("on").devices.iter().all(|d| !d.segments));
    assert!(whole("off").devices[0].segments);
}

#[test]
fn the_generators_are_measured_over_one_veth_pair_without_queues() {
    let topology = NetnsTopology::benchmark(&case(Substrate::Host, &[("link.delay", "0s")]));
    assert_eq!((topology.devices.len(), &topology.hosts[..]), (2, &[0, 1][..]));
    assert!(topology.devices.iter().all(|d| d.queues.is_empty() && !d.segments));
}

#[test]
fn a_nic_with_its_own_rule_for_interrupts_is_a_namespace_in_front_of_its_host() {
    let rows = [("receiver/nic.rx_frames", "8"), ("sender/nic.adaptive", "hidden")];
    let topology = NetnsTopology::of(&case(Substrate::Kernel, &rows), &Environment::guest());
    assert_eq!(names(&topology)[2..], ["nic-sender", "shaper-bottleneck", "wire-bottleneck", "nic-receiver"]);
    // sender - nic - shaper - wire - nic - receiver
    let nics: Vec<_> = topology.delaying_nics.iter().map(|nic| (nic.host, nic.from, nic.to)).collect();
    assert_eq!((topology.hosts.as_slice(), nics), (&[0, 9][..], vec![(0, 2, 1), (1, 7, 8)]));
    assert_eq!(topology.monitored[0].dev, 4);
    assert_eq!(
        topology.devices[8].queues,
        ["qdisc add dev c4a root handle 1: netem limit 10000000 slot 1ns 1ns"]
    );
    assert_eq!(topology.interrupt_delay(&case(Substrate::Kernel, &rows), 1), Dur::ZERO);
}

#[test]
fn a_port_with_two_buffers_sorts_packets_by_the_half_of_their_input_ports() {
    let rows = [("topology", "star:3"), ("switch.buffers", "dual:1MB")];
    let topology = NetnsTopology::of(&case(Substrate::Kernel, &rows), &Environment::guest());
    let [port] = &topology.monitored[..] else { panic!("one queue") };
    let device = &topology.devices[port.dev];
    assert_eq!(port.handles, [0x10, 0x20]);
    let lines = |word: &str| device.queues.iter().filter(|line| line.contains(word)).count();
    assert_eq!((lines(" htb rate 8kbit "), lines(" bfifo limit 1000000")), (2, 2), "{:?}", device.queues);
    // The switch has the links of the receiver and of three senders; the second half are those of the second and third sender.
    let filters = device.queues.iter().filter(|line| line.starts_with("filter"));
    let inputs =
        filters.map(|line| line.split_whitespace().skip_while(|word| *word != "indev").nth(1).unwrap());
    let wires: Vec<usize> = inputs
        .map(|input| topology.devices.iter().find(|device| device.name == input).unwrap())
        .map(|input| topology.devices[input.peer].netns)
        .collect();
    // sender - wire - switch
    let next = |host: usize| topology.devices[topology.devices[topology.hosts[host]].peer].netns;
    // The receiver is the first host.
    assert_eq!(wires, [next(2), next(3)]);
}
