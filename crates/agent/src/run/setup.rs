//! The preparation of a run before the traffic: the topology in the kernel, taps, relays, and the
//! measurement of the path.

use crate::collect::tap::{TapDirection, Taps};
use crate::environment::{BOOT, Environment};
use crate::netns::ack_marks::{self, AckMarks};
use crate::netns::build::{self, MarkingProgram, NetnsSet};
use crate::netns::nic::NicSet;
use crate::netns::relay::RelaySet;
use crate::netns::topology::NetnsTopology;
use crate::probe::{self, MeasuredPath};
use crate::request::{GeneratorBenchmark, Request};
use crate::run::collectors::TICK;
use crate::system::Failure;
use tcpassay_case::Case;
use tcpassay_case::params::grammar::LinkRate;
use tcpassay_measure::CollectOptions;
use tcpassay_units::{Bytes, Dur, Seed};

/// The instant at which the probes of a guest's path begin, by the guest's clock in nanoseconds.
const GUEST_PROBES: u64 = BOOT + 10 * 1_000_000_000;
/// The packets for which the rings of all taps on a host together have room: 64 MB of memory.
const HOST_RING_PACKETS: u64 = 131_072;
/// The time for which the rings of a testbed have room at least, if they are not larger than a ring may be: the longest delay of an agent on a
/// machine whose processors others use.
const TESTBED_DELAY: Dur = Dur::from_millis(250);
/// The smallest mean size of a packet in bytes that the rings of a guest's taps are made for.
const MEAN_PACKET: u64 = 1000;

/// Changes the settings of the test interfaces of a topology.
pub type AdjustInterfaces<'a> = dyn FnMut(&Case, &NetnsTopology) -> Result<(), Failure> + 'a;

/// The environment of a run before its traffic begins.
pub struct Setup {
    /// Set if the traffic generators are measured, and no path.
    pub benchmark: Option<GeneratorBenchmark>,
    pub topology: NetnsTopology,
    pub namespaces: NetnsSet,
    pub marking_programs: Vec<MarkingProgram>,
    pub ack_marks: Vec<AckMarks>,
    pub taps: Taps,
    pub relays: RelaySet,
    pub nics: NicSet,
    pub path: MeasuredPath,
}

/// Builds the topology of the case, opens the taps and measures the path.
///
/// On a testbed `adjust` changes the settings of the test interfaces first, which are not in namespaces of the run.
pub fn prepare(
    request: &Request,
    case: &Case,
    environment: &Environment,
    collect: &CollectOptions,
    adjust: &mut AdjustInterfaces,
) -> Result<Setup, Failure> {
    let benchmark = request.benchmark.filter(|_| environment.is_host() && case.net.hosts.len() == 2);
    let mut topology = if benchmark.is_some() {
        NetnsTopology::benchmark(case)
    } else {
        NetnsTopology::of(case, environment)
    };
    if let Some(part) = &environment.part {
        topology.cut(case, part)?;
        adjust(case, &topology)?;
    }
    let mut namespaces = build::build(case, &topology, environment)?;
    let marking_programs = build::attach_marking_programs(&topology, &mut namespaces)?;
    for (netns, tool, line) in &request.tamper {
        let place = topology.namespaces.iter().position(|n| n.name == *netns);
        namespaces.enter(place.ok_or_else(|| format!("tamper: there is no namespace `{netns}`"))?)?;
        build::batch(tool, std::slice::from_ref(line))?;
    }
    let mut taps = if environment.is_host() {
        Taps::default()
    } else {
        Taps::of_guest().map_err(|e| format!("/dev/zero: {e}"))?
    };
    let packets = ring_packets(case, environment);
    let points = tap_points(case, &topology, benchmark.map(|_| collect.unseen));
    for (number, (device, direction)) in points {
        let device = &topology.devices[device];
        namespaces.enter(device.netns)?;
        taps.open(number, &device.name, direction, packets).map_err(|e| format!("a tap: {e}"))?;
    }
    let relays = RelaySet::start(case, &topology, &mut namespaces, Seed(request.seed))?;
    let nics = NicSet::start(case, &topology, &mut namespaces)?;
    let ack_marks = ack_marks::start(case, &topology, &mut namespaces)?;
    let timing = if environment.is_host() {
        probe::ProbeTiming::real_time()
    } else {
        probe::ProbeTiming::virtual_time(GUEST_PROBES)
    };
    // The two ends of a path of a testbed are on different machines; `testbed check` measures it.
    let path = if benchmark.is_some() || environment.part.is_some() {
        MeasuredPath::default()
    } else {
        probe::measure(case, &topology, &mut namespaces, &mut taps, &timing)?
    };
    Ok(Setup { benchmark, topology, namespaces, marking_programs, ack_marks, taps, relays, nics, path })
}

/// Where the taps are, by number: for each host of this machine the packets that it sends, and with the next number those that arrive at it.
/// `benchmark` is set if the generators are measured, and states whether the run has no taps; then one tap at the receiving device of each
/// host is enough.
fn tap_points(
    case: &Case,
    topology: &NetnsTopology,
    benchmark: Option<bool>,
) -> Vec<(usize, (usize, TapDirection))> {
    let points = |host: usize, device: usize| match benchmark {
        // The NIC of this host merges packets on receipt. At its neighbour they are still as they were sent. Of one instant, what arrives is
        // read first, because it may be the cause of what leaves.
        None if case.hosts[host].nic.gro && topology.devices[device].test_link.is_none() => {
            let arrives = (2 * host + 1, (topology.devices[device].peer, TapDirection::Out));
            vec![arrives, (2 * host, (device, TapDirection::Out))]
        }
        None => vec![(2 * host, (device, TapDirection::Both))],
        Some(true) => Vec::new(),
        Some(false) => vec![(host, (device, TapDirection::In))],
    };
    let hosts = topology.hosts.iter().enumerate().filter(|(host, _)| topology.has_host(*host));
    hosts.flat_map(|(host, &device)| points(host, device)).collect()
}

/// The largest number of packets that pass a tap before it is read again.
fn ring_packets(case: &Case, environment: &Environment) -> u64 {
    let within = |time: Dur| {
        case.links.iter().filter_map(move |link| match &link.rate {
            LinkRate::Fixed(rate) => Some(rate.bytes_in(time)),
            LinkRate::Trace(_) => None,
        })
    };
    if !environment.is_host() {
        return within(TICK * 2).max().unwrap_or(Bytes::ZERO).get() / MEAN_PACKET;
    }
    let share = HOST_RING_PACKETS / case.net.hosts.len().max(1) as u64;
    if environment.part.is_none() {
        return share;
    }
    // A machine of a testbed has few of the hosts. The slowest link limits what passes in this time.
    let passing = within(TESTBED_DELAY).min().unwrap_or(Bytes::ZERO).get() / MEAN_PACKET;
    share.max(passing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::case;
    use tcpassay_case::params::Substrate;

    #[test]
    fn the_ring_of_a_guests_tap_holds_what_passes_in_two_ticks() {
        // 2 ms of 1 Gbit/s are 250 kB.
        let case = case(Substrate::Kernel, &[("link.rate", "1Gbit")]);
        assert_eq!(ring_packets(&case, &Environment::guest()), 250);
    }

    #[test]
    fn the_rings_of_a_hosts_taps_share_a_fixed_amount_of_memory() {
        let pair = case(Substrate::Host, &[("link.delay", "0s")]);
        assert_eq!(ring_packets(&pair, &Environment::without(&[])), 65_536);
    }

    #[test]
    fn the_rings_of_a_testbed_have_room_for_a_quarter_of_a_second_of_the_slowest_link() {
        use crate::placement::tests::part;
        use tcpassay_messages::Role;
        let mut environment = Environment::without(&[]);
        environment.join(part("a", &[("a", Role::Sender), ("b", Role::Receiver)]));
        let packets = |topology: &str| {
            let rows = [("topology", topology), ("link.rate", "1Gbit"), ("link.delay", "0s")];
            ring_packets(&case(Substrate::Remote, &rows), &environment)
        };
        // 250 ms of 1 Gbit/s are 31.25 MB. The share of two hosts is larger.
        assert_eq!((packets("dumbbell:8"), packets("pair")), (31_250, 65_536));
    }

    #[test]
    fn each_host_has_one_ring_for_both_directions_or_two_if_its_nic_merges_packets() {
        use TapDirection::{Both, In, Out};
        let case = case(Substrate::Kernel, &[("nic.gro", "off"), ("receiver/nic.gro", "on")]);
        let topology = NetnsTopology::of(&case, &Environment::guest());
        let [sender, receiver] = topology.hosts[..] else { panic!("two hosts") };
        let points = tap_points(&case, &topology, None);
        // The receiver merges packets, so that its arrivals are read at the device of its neighbour.
        let neighbour = topology.devices[receiver].peer;
        assert_eq!(points, [(0, (sender, Both)), (3, (neighbour, Out)), (2, (receiver, Out))]);
        assert_eq!(tap_points(&case, &topology, Some(false)), [(0, (sender, In)), (1, (receiver, In))]);
        assert_eq!(tap_points(&case, &topology, Some(true)), []);
    }
}
