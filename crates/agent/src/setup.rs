//! Builds a [`Lab`] in the kernel that the agent runs on, and reads back that it stands.
//!
//! Namespaces, sysctls and offloads are made by this process; links, routes and qdiscs by a few runs of `ip -batch` and
//! `tc -batch`. Names and values reach them as lines of their standard input, never through a shell.

use crate::controllers;
use crate::ground::{Ground, LINK_MAJOR};
use crate::lab::{Dev, Lab};
use crate::system::{Failure, PATH, write_and_check};
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use tcpassay_bpf::limiter;
use tcpassay_case::params::Setting;
use tcpassay_case::{Case, HostSettings};
use tcpassay_linux::netlink::Netlink;
use tcpassay_linux::sys;
use tcpassay_measure::pcapng::host_address;
use tcpassay_tcp::{DctcpReceiver, EcnMode, LossDetection, Pacing, RecvBuffer};

/// Where `ip` looks for namespaces.
pub const NAMES: &str = "/run/netns";

/// The network namespaces that were made.
pub struct Spaces {
    files: Vec<fs::File>,
    /// Where the process is.
    here: usize,
}

impl Spaces {
    /// Moves the process to a namespace.
    pub fn enter(&mut self, space: usize) -> Result<(), Failure> {
        if self.here != space {
            sys::enter(self.files[space].as_fd()).map_err(|e| format!("entering namespace {space}: {e}"))?;
            self.here = space;
        }
        Ok(())
    }
}

/// One MAC address for all: with ARP off a frame is taken when the two ends of its cable have the same.
const MAC: &str = "02:00:00:00:00:01";

/// Builds `lab`; the process ends up in one of its namespaces.
pub fn build(case: &Case, lab: &Lab, ground: &Ground) -> Result<Spaces, Failure> {
    let mut spaces = make_spaces(lab, ground)?;
    let mtu = case.hosts.iter().map(|h| h.mtu.get()).max().expect("hosts");
    let cables: Vec<String> = lab
        .devs
        .chunks(2)
        .map(|ends| {
            let end =
                |d: &Dev| format!("{} mtu {mtu} address {MAC} netns {}", d.name, lab.spaces[d.space].name);
            format!("link add name {} type veth peer name {}", end(&ends[0]), end(&ends[1]))
        })
        .collect();
    batch("ip", &cables)?;
    let global = |path: &str, value: &str| write_and_check(&format!("/proc/sys/net/ipv4/{path}"), value);
    for place in 0..lab.spaces.len() {
        spaces.enter(place)?;
        sysctls(case, lab, place)?;
        batch("ip", &links_and_routes(case, lab, place))?;
        let devs = || lab.devs.iter().filter(|d| d.space == place);
        for dev in devs() {
            offloads(case, lab, dev)?;
        }
        let queues: Vec<String> = devs().flat_map(|d| d.queues.clone()).collect();
        if !queues.is_empty() {
            batch("tc", &queues)?;
            check_queues(lab, place)?;
            exact_steps(lab, place)?;
        }
        if lab.spaces[place].host.is_none() {
            global("ip_forward", "1")?;
        }
    }
    if !ground.is_host() {
        links_serve(case, lab)?;
        dctcp_receiver(case)?;
        controllers::set(case)?;
    }
    Ok(spaces)
}

/// A program that marks for the queue of a device.
pub struct Step {
    /// Index into [`Lab::devs`].
    pub dev: usize,
    mark: limiter::Mark,
    attached: limiter::Attached,
}

impl Step {
    /// Packets that it marked.
    pub fn marks(&self) -> Result<u64, Failure> {
        self.attached.state(self.mark).map(|state| state.marks).map_err(|e| e.to_string())
    }
}

/// Attaches the programs of a lab that has been built.
pub fn steps(lab: &Lab, spaces: &mut Spaces) -> Result<Vec<Step>, Failure> {
    let mut all = Vec::new();
    for (dev, end) in lab.devs.iter().enumerate() {
        let Some(settings) = &end.step else { continue };
        spaces.enter(end.space)?;
        let index = sys::interface_index(&end.name).map_err(|e| format!("{}: {e}", end.name))?;
        let attached = limiter::attach(index, settings).map_err(|e| e.to_string())?;
        all.push(Step { dev, mark: settings.mark, attached });
    }
    Ok(all)
}

fn make_spaces(lab: &Lab, ground: &Ground) -> Result<Spaces, Failure> {
    fs::create_dir_all(NAMES).map_err(|e| format!("{NAMES}: {e}"))?;
    let original = fs::File::open("/proc/self/ns/net").map_err(|e| format!("/proc/self/ns/net: {e}"))?;
    // It holds for all namespaces of a kernel: a machine's own stays as it is.
    if !ground.is_host() {
        write_and_check("/proc/sys/net/ipv4/tcp_mem", "1000000 1000000 1000000")?;
    }
    let mut files = Vec::new();
    for space in &lab.spaces {
        let wrong = |e: std::io::Error| format!("namespace {}: {e}", space.name);
        let path = format!("{NAMES}/{}", space.name);
        fs::File::create(&path).map_err(wrong)?;
        sys::unshare_net().map_err(wrong)?;
        sys::mount("/proc/self/ns/net", &path, "", libc::MS_BIND).map_err(wrong)?;
        files.push(fs::File::open(&path).map_err(wrong)?);
    }
    sys::enter(original.as_fd()).map_err(|e| format!("the first namespace: {e}"))?;
    Ok(Spaces { files, here: usize::MAX })
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

fn links_and_routes(case: &Case, lab: &Lab, place: usize) -> Vec<String> {
    let space = &lab.spaces[place];
    let mut lines = Vec::new();
    for dev in lab.devs.iter().filter(|d| d.space == place) {
        let mut line = format!("link set dev {} arp off", dev.name);
        if let Some(host) = space.host {
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
    if let Some(host) = space.host {
        let dev = &lab.devs[lab.hosts[host]].name;
        lines.push(format!("addr add {}/32 dev {dev}", address(host)));
        lines.push(format!("route add default dev {dev}{}", route_options(case, host)));
    } else {
        for (host, dev) in &space.routes {
            lines.push(format!("route add {}/32 dev {}", address(*host), lab.devs[*dev].name));
        }
    }
    lines
}

fn address(host: usize) -> std::net::Ipv4Addr {
    host_address(u32::try_from(host).expect("few hosts"))
}

/// What of a stack is said by its route.
fn route_options(case: &Case, host: usize) -> String {
    let mut words = String::new();
    let said = |path: &str| case.host_setting(host, path).0;
    if let Setting::Bytes(mss) = said("stack.mss") {
        words = format!("{words} advmss {}", mss.get());
    }
    if let Setting::Int(segments) = said("stack.initial_window") {
        words = format!("{words} initcwnd {segments}");
    }
    if let Setting::Dur(min) = said("stack.min_rto") {
        words = format!("{words} rto_min {}ms", min.as_millis());
    }
    if matches!(said("stack.delayed_ack"), Setting::Text(off) if off == "off") {
        words.push_str(" quickack 1");
    }
    words
}

/// The sysctls of a host, each with its value; what the case leaves to the kernel is not among them.
fn host_sysctls(case: &Case, host: usize) -> Vec<(&'static str, String)> {
    let settings: &HostSettings = &case.hosts[host];
    let said = |path: &str| case.host_setting(host, path).0;
    // Buffers as on a machine with memory enough; nothing remembered from one connection to the next.
    let max = match (said("stack.max_rwnd"), settings.stack.recv_buffer) {
        // tcp_adv_win_scale 1: half of a buffer is window.
        (Setting::Bytes(max), _) => max.get() * 2,
        (_, RecvBuffer::Auto { .. } | RecvBuffer::Fixed(_)) => 6_291_456,
    };
    let sndbuf = if let Setting::Bytes(max) = said("stack.max_sndbuf") { max.get() } else { 4_194_304 };
    let mut all = vec![
        ("tcp_rmem", format!("4096 {} {max}", 131_072.min(max))),
        ("tcp_wmem", format!("4096 {} {sndbuf}", 16_384.min(sndbuf))),
        ("tcp_no_metrics_save", "1".to_owned()),
        ("tcp_ecn", u8::from(settings.stack.ecn == EcnMode::Classic).to_string()),
    ];
    let switches = [
        ("stack.sack", "tcp_sack"),
        ("stack.dsack", "tcp_dsack"),
        ("stack.timestamps", "tcp_timestamps"),
        ("stack.window_scale", "tcp_window_scaling"),
        ("stack.rcv_autotune", "tcp_moderate_rcvbuf"),
    ];
    for (path, sysctl) in switches {
        if let Setting::Bool(on) = said(path) {
            all.push((sysctl, u8::from(on).to_string()));
        }
    }
    if let Setting::Bool(on) = said("stack.frto") {
        all.push(("tcp_frto", if on { "2" } else { "0" }.to_owned()));
    }
    match said("stack.tlp") {
        Setting::Word("off") => all.push(("tcp_early_retrans", "0".to_owned())),
        Setting::Word("on") => all.push(("tcp_early_retrans", "3".to_owned())),
        _ => {}
    }
    match said("stack.slow_start_after_idle") {
        Setting::Word("off") => all.push(("tcp_slow_start_after_idle", "0".to_owned())),
        Setting::Word("decay") => all.push(("tcp_slow_start_after_idle", "1".to_owned())),
        _ => {}
    }
    match said("stack.tso_autosize") {
        Setting::Word("rate") => all.push(("tcp_tso_rtt_log", "0".to_owned())),
        Setting::Word("rate-and-rtt") => all.push(("tcp_tso_rtt_log", "9".to_owned())),
        _ => {}
    }
    if let Setting::Dur(d) = said("stack.fin_wait2") {
        all.push(("tcp_fin_timeout", (d.as_millis() / 1000).to_string()));
    }
    if let (Setting::Text(_), Pacing::Percent { slow_start, avoidance }) =
        (said("stack.pacing"), settings.stack.pacing)
    {
        all.push(("tcp_pacing_ss_ratio", slow_start.to_string()));
        all.push(("tcp_pacing_ca_ratio", avoidance.to_string()));
    }
    for (path, sysctl) in [("stack.syn_retries", "tcp_syn_retries"), ("stack.retries", "tcp_retries2")] {
        if let Setting::Int(n) = said(path) {
            all.push((sysctl, n.to_string()));
        }
    }
    if !matches!(said("stack.loss_detection"), Setting::Word(_)) {
        match settings.stack.loss_detection {
            // TCP_RACK_LOSS_DETECTION 1, TCP_RACK_STATIC_REO_WND 2 (include/net/tcp.h).
            LossDetection::Rack { dsack_adaptation } => {
                all.push(("tcp_recovery", if dsack_adaptation { "1" } else { "3" }.to_owned()));
            }
            LossDetection::DupThresh { threshold, adaptive } => {
                all.push(("tcp_recovery", "0".to_owned()));
                all.push(("tcp_reordering", threshold.to_string()));
                if !adaptive {
                    all.push(("tcp_max_reordering", threshold.to_string()));
                }
            }
        }
    }
    all
}

fn sysctls(case: &Case, lab: &Lab, place: usize) -> Result<(), Failure> {
    for scope in ["all", "default"] {
        write_and_check(&format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1")?;
    }
    if let Some(host) = lab.spaces[place].host {
        for (name, value) in host_sysctls(case, host) {
            write_and_check(&format!("/proc/sys/net/ipv4/{name}"), &value)?;
        }
    }
    Ok(())
}

/// Segmentation where a NIC would, merging where the case says.
fn offloads(case: &Case, lab: &Lab, dev: &Dev) -> Result<(), Failure> {
    // ETHTOOL_STSO, GTSO, SGRO, GGRO (linux/ethtool.h).
    const TSO: (u32, u32) = (0x1f, 0x1e);
    const GRO: (u32, u32) = (0x2c, 0x2b);
    let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(|e| format!("a socket: {e}"))?;
    let switch = |name: &str, (set, get): (u32, u32), on: bool| match sys::offload(
        socket.as_fd(),
        &dev.name,
        set,
        get,
        on,
    ) {
        Ok(is) if is == on => Ok(()),
        Ok(_) => Err(format!("{name} of {} did not take effect", dev.name)),
        Err(e) => Err(format!("{name} of {}: {e}", dev.name)),
    };
    switch("segmentation", TSO, !dev.cut)?;
    let Some(host) = lab.spaces[dev.space].host else { return Ok(()) };
    let nic = &case.hosts[host].nic;
    switch("receive merging", GRO, nic.gro)?;
    if nic.gro && !nic.gro_timeout.is_zero() {
        let sys_of = format!("{NAMES}/.sys-{}", dev.space);
        fs::create_dir_all(&sys_of).map_err(|e| format!("{sys_of}: {e}"))?;
        sys::mount("sysfs", &sys_of, "sysfs", 0).map_err(|e| format!("{sys_of}: {e}"))?;
        let path = format!("{sys_of}/class/net/{}/gro_flush_timeout", dev.name);
        write_and_check(&path, &nic.gro_timeout.as_nanos().to_string())?;
    }
    Ok(())
}

/// Every qdisc that was asked for is there.
fn check_queues(lab: &Lab, place: usize) -> Result<(), Failure> {
    let there = Netlink::open().and_then(|n| n.qdiscs()).map_err(|e| format!("qdiscs: {e}"))?;
    for dev in lab.devs.iter().filter(|d| d.space == place) {
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
fn exact_steps(lab: &Lab, place: usize) -> Result<(), Failure> {
    for dev in lab.devs.iter().filter(|d| d.space == place) {
        if !dev.queues.iter().any(|line| crate::qdisc::is_step(line)) {
            continue;
        }
        let wrong = |e: std::io::Error| format!("the step of {}: {e}", dev.name);
        let index = sys::interface_index(&dev.name).map_err(wrong)?;
        Netlink::open().and_then(|n| n.red_without_average(index, crate::qdisc::INNER)).map_err(wrong)?;
    }
    Ok(())
}

/// Token buckets with the major number of a link become links; RED without one would not be RED.
fn links_serve(case: &Case, lab: &Lab) -> Result<(), Failure> {
    let root = format!("root handle {}:", crate::qdisc::LINK);
    if lab.devs.iter().flat_map(|d| &d.queues).any(|line| line.contains(&root)) {
        return write_and_check(LINK_MAJOR, &crate::qdisc::LINK.to_string());
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

fn dctcp_receiver(case: &Case) -> Result<(), Failure> {
    let host = &case.hosts[0].stack;
    if host.ecn != EcnMode::Dctcp {
        return Ok(());
    }
    let receiver = match host.dctcp_receiver {
        DctcpReceiver::Immediate => "0",
        DctcpReceiver::ClearTimer => "1",
        DctcpReceiver::Rearm => "2",
    };
    let path = "/sys/module/tcp_dctcp/parameters/dctcp_receiver";
    if receiver == "0" && !fs::exists(path).unwrap_or(false) {
        return Ok(()); // a kernel without our patch does just that
    }
    write_and_check(path, receiver)
}
