//! Builds a [`NetnsTopology`] in the kernel that the agent runs on, and reads back that it stands.
//!
//! Namespaces, sysctls and offloads are made by this process; links, routes and qdiscs by a few runs of `ip -batch` and
//! `tc -batch`. Names and values reach them as lines of their standard input, never through a shell.

use crate::environment::{Environment, LINK_MAJOR};
use crate::netns::topology::{NETNS_FOLDER, NetnsTopology, VethDevice};
use crate::netns::{module_parameters, offloads, sysctls};
use crate::system::{Failure, PATH, write_and_check};
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use tcpassay_bpf::limiter;
use tcpassay_case::Case;
use tcpassay_case::params::Setting;
use tcpassay_linux::netlink::Netlink;
use tcpassay_linux::sys;
use tcpassay_measure::pcapng::host_address;

/// The network namespaces that were made.
pub struct NetnsSet {
    files: Vec<fs::File>,
    /// Where the process is.
    here: usize,
}

impl NetnsSet {
    /// Moves the process to a namespace.
    pub fn enter(&mut self, netns: usize) -> Result<(), Failure> {
        if self.here != netns {
            sys::enter(self.files[netns].as_fd()).map_err(|e| format!("entering namespace {netns}: {e}"))?;
            self.here = netns;
        }
        Ok(())
    }
}

/// One MAC address for all: with ARP off a frame is taken when the two ends of its veth pair have the same.
const MAC: &str = "02:00:00:00:00:01";

/// Builds `topology`; the process ends up in one of its namespaces.
pub fn build(case: &Case, topology: &NetnsTopology, environment: &Environment) -> Result<NetnsSet, Failure> {
    let mut namespaces = create_namespaces(topology, environment)?;
    let mtu = case.hosts.iter().map(|h| h.mtu.get()).max().expect("hosts");
    let veth_pairs: Vec<String> = topology
        .devices
        .chunks(2)
        .map(|ends| {
            let end = |d: &VethDevice| {
                format!("{} mtu {mtu} address {MAC} netns {}", d.name, topology.namespaces[d.netns].name)
            };
            format!("link add name {} type veth peer name {}", end(&ends[0]), end(&ends[1]))
        })
        .collect();
    batch("ip", &veth_pairs)?;
    let global = |path: &str, value: &str| write_and_check(&format!("/proc/sys/net/ipv4/{path}"), value);
    for place in 0..topology.namespaces.len() {
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
        if topology.namespaces[place].host.is_none() {
            global("ip_forward", "1")?;
        }
    }
    if !environment.is_host() {
        set_link_service(case, topology)?;
        module_parameters::set_dctcp_receiver(case)?;
        module_parameters::set(case)?;
    }
    Ok(namespaces)
}

/// A program that marks for the queue of a device.
pub struct MarkingProgram {
    /// Index into [`NetnsTopology::devices`].
    pub dev: usize,
    mark: limiter::Mark,
    attached: limiter::Attached,
}

impl MarkingProgram {
    /// Packets that it marked.
    pub fn marks(&self) -> Result<u64, Failure> {
        self.attached.state(self.mark).map(|state| state.marks).map_err(|e| e.to_string())
    }
}

/// Attaches the programs of a topology that has been built.
pub fn attach_marking_programs(
    topology: &NetnsTopology,
    namespaces: &mut NetnsSet,
) -> Result<Vec<MarkingProgram>, Failure> {
    let mut all = Vec::new();
    for (dev, end) in topology.devices.iter().enumerate() {
        let Some(settings) = &end.step else { continue };
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
    // It holds for all namespaces of a kernel: a machine's own stays as it is.
    if !environment.is_host() {
        write_and_check("/proc/sys/net/ipv4/tcp_mem", "1000000 1000000 1000000")?;
    }
    let mut files = Vec::new();
    for netns in &topology.namespaces {
        let wrong = |e: std::io::Error| format!("namespace {}: {e}", netns.name);
        let path = format!("{NETNS_FOLDER}/{}", netns.name);
        fs::File::create(&path).map_err(wrong)?;
        sys::unshare_net().map_err(wrong)?;
        sys::mount("/proc/self/ns/net", &path, "", libc::MS_BIND).map_err(wrong)?;
        files.push(fs::File::open(&path).map_err(wrong)?);
    }
    sys::enter(original.as_fd()).map_err(|e| format!("the first namespace: {e}"))?;
    Ok(NetnsSet { files, here: usize::MAX })
}

/// Runs `ip` or `tc` on lines; the first that fails is the failure, in the tool's own words.
pub fn batch(tool: &str, lines: &[String]) -> Result<(), Failure> {
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
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.split("failed -:").nth(1).and_then(|n| n.trim().parse::<usize>().ok());
    let at = line.and_then(|n| lines.get(n - 1)).map_or(String::new(), |line| format!(" (`{tool} {line}`)"));
    Err(format!("{tool}: {}{at}", said.trim().replace('\n', "; ")))
}

fn links_and_routes(case: &Case, topology: &NetnsTopology, place: usize) -> Vec<String> {
    let netns = &topology.namespaces[place];
    let mut lines = Vec::new();
    for dev in topology.devices.iter().filter(|d| d.netns == place) {
        let mut line = format!("link set dev {} arp off", dev.name);
        if let Some(host) = netns.host {
            let nic = &case.hosts[host].nic;
            match case.hosts[host].stack.tso {
                Some(max) => line = format!("{line} gso_max_size {}", max.get().min(65_536)),
                None => line.push_str(" gso_max_segs 1"),
            }
            line = format!("{line} gro_max_size {}", nic.gro_max.get().min(65_536));
        }
        line.push_str(" up");
        lines.push(line);
    }
    if let Some(host) = netns.host {
        let dev = &topology.devices[topology.hosts[host]].name;
        lines.push(format!("addr add {}/32 dev {dev}", address(host)));
        lines.push(format!("route add default dev {dev}{}", sysctls::route_attributes(case, host)));
    } else {
        for (host, dev) in &netns.routes {
            lines.push(format!("route add {}/32 dev {}", address(*host), topology.devices[*dev].name));
        }
    }
    lines
}

fn address(host: usize) -> std::net::Ipv4Addr {
    host_address(u32::try_from(host).expect("few hosts"))
}

/// Every qdisc that was asked for is there.
fn check_queues(topology: &NetnsTopology, place: usize) -> Result<(), Failure> {
    let there = Netlink::open().and_then(|n| n.qdiscs()).map_err(|e| format!("qdiscs: {e}"))?;
    for dev in topology.devices.iter().filter(|d| d.netns == place) {
        let index = sys::interface_index(&dev.name).map_err(|e| format!("{}: {e}", dev.name))?;
        for line in dev.queues.iter().filter(|line| line.starts_with("qdisc")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let handle = words.iter().position(|w| *w == "handle").expect("every line has a handle");
            let major = words[handle + 1].trim_end_matches(':');
            let major = u16::from_str_radix(major, 16).expect("our own handles");
            let found = there.iter().find(|q| q.interface == index && q.handle == major);
            if !found.is_some_and(|q| words.contains(&q.kind.as_str())) {
                return Err(format!("`tc {line}` did not take effect"));
            }
        }
    }
    Ok(())
}

/// A RED that serves as a step looks at the backlog, and not at the mean of two packets, the shortest average of `tc`.
fn set_exact_thresholds(topology: &NetnsTopology, place: usize) -> Result<(), Failure> {
    for dev in topology.devices.iter().filter(|d| d.netns == place) {
        if !dev.queues.iter().any(|line| crate::netns::qdiscs::is_step(line)) {
            continue;
        }
        let wrong = |e: std::io::Error| format!("the step of {}: {e}", dev.name);
        let index = sys::interface_index(&dev.name).map_err(wrong)?;
        Netlink::open()
            .and_then(|n| n.red_without_average(index, crate::netns::qdiscs::INNER))
            .map_err(wrong)?;
    }
    Ok(())
}

/// Token buckets with the major number of a link become links; RED without one would not be RED.
fn set_link_service(case: &Case, topology: &NetnsTopology) -> Result<(), Failure> {
    let root = format!("root handle {}:", crate::netns::qdiscs::LINK);
    if topology.devices.iter().flat_map(|d| &d.queues).any(|line| line.contains(&root)) {
        return write_and_check(LINK_MAJOR, &crate::netns::qdiscs::LINK.to_string());
    }
    let by = |link: usize| case.link_setting(link, "queue.served_by").0;
    let red = (0..case.links.len()).any(|link| {
        case.links[link].queue.kind == "red" && !matches!(by(link), Setting::Word("token-bucket"))
    });
    if red {
        let why = "RED below a token bucket never sees itself idle (docs/kernel.md), and this kernel has nothing else; \
                   build it anew (`tcpassay kernel build`), or say queue.served_by = token-bucket";
        return Err(why.to_owned());
    }
    Ok(())
}
