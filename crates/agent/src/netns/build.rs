//! Creates a [`NetnsTopology`] in the running kernel, and verifies it.
//!
//! This process creates namespaces and macvlan devices, and sets sysctls and offloads. Veth pairs, routes and qdiscs are lines of
//! `ip -batch` and `tc -batch`. [`commands`] executes those that it understands; the tools get the others on standard input, without a shell.

use crate::environment::{Environment, LINK_MAJOR};
use crate::netns::commands::{self, mac_address};
use crate::netns::topology::{NETNS_FOLDER, NetnsTopology, VethDevice};
use crate::netns::{completions, module_parameters, offloads, sysctls};
use crate::system::{Failure, PATH, write_and_check};
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use tcpassay_bpf::limiter;
use tcpassay_case::{Case, Change, QueueKind, ServedBy};
use tcpassay_linux::netlink::links::Macvlan;
use tcpassay_linux::netlink::{Netlink, Qdisc};
use tcpassay_linux::sys;
use tcpassay_measure::pcapng::host_address;

/// The network namespaces of a topology.
pub struct NetnsSet {
    /// By the index of the namespace; `None` on other machines.
    files: Vec<Option<fs::File>>,
    /// The namespace of the process; `usize::MAX` outside of the topology.
    current: usize,
}

impl NetnsSet {
    /// Moves the process to a namespace of the topology.
    pub fn enter(&mut self, netns: usize) -> Result<(), Failure> {
        if self.current != netns {
            let file = self.files[netns].as_ref().expect("a namespace of this machine");
            sys::enter(file.as_fd()).map_err(|e| format!("entering namespace {netns}: {e}"))?;
            self.current = netns;
        }
        Ok(())
    }
}

/// The MAC address of all devices. Without ARP a veth device accepts frames to its own address.
const MAC: &str = "02:00:00:00:00:01";

/// Creates a topology. Afterwards the process is in one of its namespaces.
pub fn build(case: &Case, topology: &NetnsTopology, environment: &Environment) -> Result<NetnsSet, Failure> {
    let mut namespaces = create_namespaces(topology, environment)?;
    let mtu = case.hosts.iter().map(|h| h.mtu.get()).max().expect("hosts");
    let veth_pairs = veth_commands(topology, mtu);
    if !veth_pairs.is_empty() {
        batch("ip", &veth_pairs)?;
    }
    create_test_links(topology, environment, &namespaces, mtu)?;
    let global = |path: &str, value: &str| write_and_check(&format!("/proc/sys/net/ipv4/{path}"), value);
    for place in (0..topology.namespaces.len()).filter(|place| topology.namespaces[*place].local) {
        namespaces.enter(place)?;
        sysctls::apply(case, topology, place)?;
        batch("ip", &links_and_routes(case, topology, place))?;
        let devices = || topology.devices.iter().filter(|d| d.netns == place);
        for dev in devices() {
            offloads::apply(case, topology, dev)?;
        }
        let queues: Vec<String> = devices().flat_map(|d| d.queues.clone()).collect();
        if !queues.is_empty() {
            batch("tc", &queues)?;
            check_queues(topology, place)?;
            set_exact_thresholds(topology, place)?;
        }
        let [links, queues] = completions::commands(case, topology, place);
        if !links.is_empty() {
            batch("ip", &links)?;
            batch("tc", &queues)?;
        }
        if topology.namespaces[place].host.is_none() {
            global("ip_forward", "1")?;
        }
        if topology.namespaces[place].silent {
            // The rule below is also applied to the reverse route of each packet that is forwarded (`fib_validate_source`).
            for dev in devices().map(|d| d.name.as_str()).chain(["all"]) {
                global(&format!("conf/{dev}/rp_filter"), "0")?;
            }
            // Packets of this namespace itself, which are its ICMP messages, have no route.
            batch("ip", &["rule add iif lo blackhole pref 1".to_owned()])?;
        }
    }
    if !environment.is_host() {
        set_link_service(case, topology)?;
        module_parameters::set(case)?;
    }
    Ok(namespaces)
}

/// The commands of `ip` that create the veth pairs.
fn veth_commands(topology: &NetnsTopology, mtu: u64) -> Vec<String> {
    let end = |d: &VethDevice| {
        let mtu = d.mtu.map_or(mtu, |own| own.get().min(mtu));
        format!("{} mtu {mtu} address {MAC} netns {}", d.name, topology.namespaces[d.netns].name)
    };
    let pair = |ends: &[VethDevice]| {
        format!("link add name {} type veth peer name {}", end(&ends[0]), end(&ends[1]))
    };
    let here =
        |ends: &&[VethDevice]| ends.iter().all(|end| topology.is_local(end) && end.test_link.is_none());
    topology.devices.chunks(2).filter(here).map(pair).collect()
}

/// Creates the ends of links to other machines: macvlan devices on the test interfaces, which are in the namespace in which the agent was
/// started.
fn create_test_links(
    topology: &NetnsTopology,
    environment: &Environment,
    namespaces: &NetnsSet,
    mtu: u64,
) -> Result<(), Failure> {
    let ends = topology.devices.iter().filter(|device| topology.is_local(device));
    let ends: Vec<_> = ends.filter_map(|device| Some((device, device.test_link.as_ref()?))).collect();
    let (Some(origin), false) = (&environment.origin, ends.is_empty()) else { return Ok(()) };
    let wrong = |e: std::io::Error| format!("the namespace of the test interfaces: {e}");
    let current = fs::File::open("/proc/self/ns/net").map_err(wrong)?;
    sys::enter(origin.as_fd()).map_err(wrong)?;
    let made = Netlink::open().map_err(wrong).and_then(|netlink| {
        ends.iter().try_for_each(|(device, link)| {
            let wrong = |e: std::io::Error| format!("a macvlan device on `{}`: {e}", link.interface);
            let netns = namespaces.files[device.netns].as_ref().expect("a namespace of this machine");
            netlink
                .add_macvlan(&Macvlan {
                    below: sys::interface_index(&link.interface).map_err(wrong)?,
                    name: &device.name,
                    mtu: u32::try_from(device.mtu.map_or(mtu, |own| own.get().min(mtu))).expect("an MTU"),
                    mac: mac_address(&link.mac).expect("six numbers"),
                    netns: netns.as_fd(),
                })
                .map_err(wrong)
        })
    });
    sys::enter(current.as_fd()).map_err(wrong)?;
    made
}

/// A BPF program that marks packets by the queue of a device.
pub struct MarkingProgram {
    /// Index into [`NetnsTopology::devices`].
    pub dev: usize,
    mark: limiter::MarkedPackets,
    attached: limiter::Attached,
}

impl MarkingProgram {
    /// The number of packets that the program has marked.
    pub fn marks(&self) -> Result<u64, Failure> {
        self.attached.state(self.mark).map(|state| state.marks).map_err(|e| e.to_string())
    }
}

/// Attaches the BPF programs of a topology that was created.
pub fn attach_marking_programs(
    topology: &NetnsTopology,
    namespaces: &mut NetnsSet,
) -> Result<Vec<MarkingProgram>, Failure> {
    let mut all = Vec::new();
    for (dev, end) in topology.devices.iter().enumerate().filter(|(_, end)| topology.is_local(end)) {
        let Some(settings) = &end.marking else { continue };
        namespaces.enter(end.netns)?;
        let index = sys::interface_index(&end.name).map_err(|e| format!("{}: {e}", end.name))?;
        let attached = limiter::attach(index, settings).map_err(|e| e.to_string())?;
        all.push(MarkingProgram { dev, mark: settings.mark, attached });
    }
    Ok(all)
}

fn create_namespaces(topology: &NetnsTopology, environment: &Environment) -> Result<NetnsSet, Failure> {
    fs::create_dir_all(NETNS_FOLDER).map_err(|e| format!("{NETNS_FOLDER}: {e}"))?;
    let original = fs::File::open("/proc/self/ns/net").map_err(|e| format!("/proc/self/ns/net: {e}"))?;
    // tcp_mem holds for the whole kernel, so that it does not change on a host.
    if !environment.is_host() {
        write_and_check("/proc/sys/net/ipv4/tcp_mem", "1000000 1000000 1000000")?;
    }
    let mut files = Vec::new();
    for netns in &topology.namespaces {
        if !netns.local {
            files.push(None);
            continue;
        }
        let wrong = |e: std::io::Error| format!("namespace {}: {e}", netns.name);
        let path = format!("{NETNS_FOLDER}/{}", netns.name);
        fs::File::create(&path).map_err(wrong)?;
        sys::unshare_net().map_err(wrong)?;
        sys::mount("/proc/self/ns/net", &path, "", libc::MS_BIND).map_err(wrong)?;
        files.push(Some(fs::File::open(&path).map_err(wrong)?));
    }
    sys::enter(original.as_fd()).map_err(|e| format!("the first namespace: {e}"))?;
    Ok(NetnsSet { files, current: usize::MAX })
}

/// Executes command lines of `ip` or `tc`, as far as possible without a process of the tool. The error of the first command that fails
/// has the message of the tool.
pub fn batch(tool: &str, lines: &[String]) -> Result<(), Failure> {
    let lines = &lines[commands::execute(tool, lines)..];
    if lines.is_empty() {
        return Ok(());
    }
    let wrong = |e: std::io::Error| format!("`{tool}` cannot be run: {e}");
    let mut child = Command::new(tool)
        .args(["-batch", "-"])
        .env_clear()
        .env("PATH", PATH)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(wrong)?;
    let mut text = lines.join("\n");
    text.push('\n');
    child.stdin.take().expect("piped").write_all(text.as_bytes()).map_err(wrong)?;
    let output = child.wait_with_output().map_err(wrong)?;
    if output.status.success() {
        return Ok(());
    }
    Err(batch_error(tool, lines, &String::from_utf8_lossy(&output.stderr)))
}

/// The message of a failed batch. The tools end their messages with `Command failed -:N`, where N is the number of the line.
fn batch_error(tool: &str, lines: &[String], stderr: &str) -> Failure {
    let number = stderr.split("failed -:").nth(1).and_then(|n| n.trim().parse::<usize>().ok());
    let line = number.and_then(|n| lines.get(n.checked_sub(1)?));
    let at = line.map_or(String::new(), |line| format!(" (`{tool} {line}`)"));
    format!("{tool}: {}{at}", stderr.trim().replace('\n', "; "))
}

/// The commands of `ip` for the devices and routes of a namespace.
fn links_and_routes(case: &Case, topology: &NetnsTopology, place: usize) -> Vec<String> {
    let netns = &topology.namespaces[place];
    let mut lines = Vec::new();
    for dev in topology.devices.iter().filter(|d| d.netns == place) {
        let mut line = format!("link set dev {} arp off", dev.name);
        for asked in netns.host.map(|host| case.changes(host)).unwrap_or_default() {
            if let Change::Device(attribute, value) = asked.change {
                line = format!("{line} {attribute} {value}");
            }
        }
        line.push_str(" up");
        lines.push(line);
    }
    if let Some(host) = netns.host {
        let dev = &topology.devices[topology.hosts[host]].name;
        lines.push(format!("addr add {}/32 dev {dev}", address(host)));
        lines.push(format!("route add default dev {dev}{}", sysctls::route_attributes(case, host)));
        let others = (0..case.net.hosts.len()).filter(|other| *other != host);
        lines.extend(others.filter_map(|other| neighbour(&topology.devices[topology.hosts[host]], other)));
    } else {
        for (host, dev) in &netns.routes {
            let dev = &topology.devices[*dev];
            lines.push(format!("route add {}/32 dev {}", address(*host), dev.name));
            lines.extend(neighbour(dev, *host));
        }
    }
    lines
}

/// The command that sets the MAC address of the next machine on the path to a host. Devices of one machine
/// have one address.
fn neighbour(dev: &VethDevice, host: usize) -> Option<String> {
    let link = dev.test_link.as_ref()?;
    Some(format!("neigh add {} lladdr {} dev {} nud permanent", address(host), link.peer_mac, dev.name))
}

fn address(host: usize) -> std::net::Ipv4Addr {
    host_address(u32::try_from(host).expect("few hosts"))
}

/// Verifies that the kernel has all qdiscs of a namespace.
fn check_queues(topology: &NetnsTopology, place: usize) -> Result<(), Failure> {
    let wrong = |e: std::io::Error| format!("qdiscs: {e}");
    let netlink = Netlink::open().map_err(wrong)?;
    let there = netlink.qdiscs(|_| &[]).map_err(wrong)?;
    for dev in topology.devices.iter().filter(|d| d.netns == place) {
        let index = netlink.interface_index(&dev.name).map_err(|e| format!("{}: {e}", dev.name))?;
        if let Some(line) = missing_qdisc(&dev.queues, index, &there) {
            return Err(format!("`tc {line}` did not take effect"));
        }
    }
    Ok(())
}

/// The first of the commands whose qdisc the kernel does not have on an interface: with this handle and of this kind.
fn missing_qdisc<'a>(commands: &'a [String], interface: i32, all: &[Qdisc]) -> Option<&'a String> {
    commands.iter().filter(|line| line.starts_with("qdisc")).find(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let handle = words.iter().position(|w| *w == "handle").expect("every command has a handle");
        let major = words[handle + 1].trim_end_matches(':');
        let major = u16::from_str_radix(major, 16).expect("handles are hexadecimal");
        let found = all.iter().find(|q| q.interface == interface && q.handle == major);
        !found.is_some_and(|q| words.contains(&q.kind.as_str()))
    })
}

/// Lets each RED qdisc of a marking threshold use the backlog instead of an average, which `tc` cannot express.
fn set_exact_thresholds(topology: &NetnsTopology, place: usize) -> Result<(), Failure> {
    for dev in topology.devices.iter().filter(|d| d.netns == place) {
        if !dev.queues.iter().any(|line| crate::netns::qdiscs::is_step(line)) {
            continue;
        }
        let wrong = |e: std::io::Error| format!("the marking threshold of {}: {e}", dev.name);
        let netlink = Netlink::open().map_err(wrong)?;
        let index = netlink.interface_index(&dev.name).map_err(wrong)?;
        let monitored =
            topology.monitored.iter().find(|monitored| topology.devices[monitored.dev].name == dev.name);
        for handle in monitored.map(|monitored| &monitored.handles[..]).unwrap_or_default() {
            netlink.red_without_average(index, *handle).map_err(wrong)?;
        }
    }
    Ok(())
}

/// Lets token buckets with the major number [`LINK`](crate::netns::qdiscs::LINK) serve their queues like links. RED needs that: below an
/// ordinary token bucket it never becomes idle.
fn set_link_service(case: &Case, topology: &NetnsTopology) -> Result<(), Failure> {
    let root = format!("root handle {}:", crate::netns::qdiscs::LINK);
    if topology.devices.iter().flat_map(|d| &d.queues).any(|line| line.contains(&root)) {
        return write_and_check(LINK_MAJOR, &crate::netns::qdiscs::LINK.to_string());
    }
    let red = case
        .links
        .iter()
        .any(|link| link.queue.kind == QueueKind::Red && link.queue.served_by == ServedBy::Link);
    if red {
        let why = "RED below a token bucket never becomes idle (docs/kernel.md), and this kernel has no other way to serve it; build the kernel again (`tcpassay kernel build`), or set queue.served_by = token-bucket";
        return Err(why.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::case;
    use tcpassay_case::params::Substrate;

    #[test]
    fn a_veth_pair_is_created_in_both_namespaces_with_one_mac_address() {
        let case = case(Substrate::Kernel, &[("link.rate", "1Gbit")]);
        let topology = NetnsTopology::of(&case, &Environment::guest());
        assert_eq!(
            veth_commands(&topology, 1500)[0],
            "link add name c0a mtu 1500 address 02:00:00:00:00:01 netns sender \
             type veth peer name c0b mtu 1500 address 02:00:00:00:00:01 netns shaper-bottleneck"
        );
    }

    #[test]
    fn the_mtu_of_a_link_is_that_of_two_devices_between_namespaces_that_forward() {
        let limited = |rows: &[(&str, &str)]| {
            let rows: Vec<_> =
                [("link.mtu", "1400B"), ("link.icmp", "off")].iter().chain(rows).copied().collect();
            let topology = NetnsTopology::of(&case(Substrate::Kernel, &rows), &Environment::guest());
            let lines = veth_commands(&topology, 1500);
            let narrow: Vec<String> = lines.into_iter().filter(|line| line.contains("mtu 1400")).collect();
            let silent = topology.namespaces.into_iter().filter(|n| n.silent).map(|n| n.name);
            (narrow, silent.collect::<Vec<_>>())
        };
        let (narrow, silent) = limited(&[]);
        assert_eq!(
            narrow,
            ["link add name c1a mtu 1400 address 02:00:00:00:00:01 netns shaper-bottleneck \
              type veth peer name c1b mtu 1400 address 02:00:00:00:00:01 netns wire-bottleneck"]
        );
        assert_eq!(silent, ["shaper-bottleneck", "wire-bottleneck"]);
        let (narrow, silent) = limited(&[("topology", "dumbbell:1")]);
        assert!(narrow.len() == 1 && narrow[0].contains("netns left type veth"), "{narrow:?}");
        assert_eq!(silent, ["left", "wire-bottleneck"]);
    }

    #[test]
    fn a_host_has_an_address_and_a_default_route_and_limits_super_segments() {
        let case =
            case(Substrate::Kernel, &[("nic.tso", "on"), ("nic.gso_max", "6KB"), ("stack.mss", "1400B")]);
        let topology = NetnsTopology::of(&case, &Environment::guest());
        let lines = links_and_routes(&case, &topology, 0);
        let address = host_address(0);
        assert_eq!(
            lines,
            [
                "link set dev c0a arp off gso_max_size 6000 gro_max_size 65536 up".to_owned(),
                format!("addr add {address}/32 dev c0a"),
                "route add default dev c0a advmss 1400".to_owned(),
            ]
        );
    }

    #[test]
    fn a_namespace_that_forwards_has_a_route_to_each_host() {
        let case = case(Substrate::Kernel, &[]);
        let topology = NetnsTopology::of(&case, &Environment::guest());
        let shaper = topology.namespaces.iter().position(|n| n.name == "shaper-bottleneck").unwrap();
        let lines = links_and_routes(&case, &topology, shaper);
        assert_eq!(lines[..2], ["link set dev c0b arp off up", "link set dev c1a arp off up"]);
        let mut routes = lines[2..].to_vec();
        routes.sort();
        let wanted = [(0, "c0b"), (1, "c1a")];
        assert_eq!(
            routes,
            wanted.map(|(host, dev)| format!("route add {}/32 dev {dev}", host_address(host)))
        );
    }

    #[test]
    fn the_error_of_a_batch_names_the_command_that_failed() {
        let lines = ["qdisc add dev c0a root fifo".to_owned(), "qdisc add dev c9z root tbf".to_owned()];
        assert_eq!(
            batch_error("tc", &lines, "Cannot find device \"c9z\"\nCommand failed -:2\n"),
            "tc: Cannot find device \"c9z\"; Command failed -:2 (`tc qdisc add dev c9z root tbf`)"
        );
        assert_eq!(batch_error("ip", &lines, "out of memory\n"), "ip: out of memory");
        assert_eq!(batch_error("ip", &lines, "Command failed -:0"), "ip: Command failed -:0");
    }

    #[test]
    fn a_qdisc_that_the_kernel_lacks_or_has_of_another_kind_is_missing() {
        let commands = [
            "qdisc add dev c1a root handle 1: tbf rate 1mbit burst 3000b limit 9000".to_owned(),
            "class add dev c1a parent 1: classid 1:1 htb rate 1mbit".to_owned(),
            "qdisc add dev c1a parent 1:1 handle 10: red limit 9000".to_owned(),
        ];
        let qdisc =
            |handle, kind: &str| Qdisc { interface: 7, handle, kind: kind.to_owned(), ..Qdisc::default() };
        let both = [qdisc(1, "tbf"), qdisc(0x10, "red")];
        assert_eq!(missing_qdisc(&commands, 7, &both), None);
        assert_eq!(missing_qdisc(&commands, 8, &both), Some(&commands[0]));
        assert_eq!(missing_qdisc(&commands, 7, &both[..1]), Some(&commands[2]));
        assert_eq!(missing_qdisc(&commands, 7, &[qdisc(1, "tbf"), qdisc(0x10, "pie")]), Some(&commands[2]));
    }
}
