//! The settings of a test interface, which are not in a namespace of the run, and their values.

use crate::netns::topology::NetnsTopology;
use crate::system::{Failure, PATH};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use tcpassay_case::params::linux::{GRO, Offload, TSO};
use tcpassay_case::{Case, Change};
use tcpassay_linux::sys;

/// Large receive offload: `ETHTOOL_SFLAGS`, `ETHTOOL_GFLAGS` with `ETH_FLAG_LRO` (`linux/ethtool.h`).
const LRO_FLAG: u32 = 1 << 15;
const SET_FLAGS: u32 = 0x26;
const GET_FLAGS: u32 = 0x25;

/// A setting of an interface. Its value is a number; switches are 0 or 1.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Attribute {
    /// The interface is up.
    Up,
    /// The MTU.
    Mtu,
    /// Segmentation offload.
    Tso,
    /// Generic receive offload.
    Gro,
    /// Large receive offload.
    Lro,
    /// The largest merged segment.
    GroMaxSize,
    /// How long a merge may wait, in nanoseconds.
    GroFlushTimeout,
}

impl Attribute {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Attribute::Up => "up",
            Attribute::Mtu => "mtu",
            Attribute::Tso => "tso",
            Attribute::Gro => "gro",
            Attribute::Lro => "lro",
            Attribute::GroMaxSize => "gro_max_size",
            Attribute::GroFlushTimeout => "gro_flush_timeout",
        }
    }

    /// The group of settings that a testbed file allows to be changed.
    pub fn group(self) -> &'static str {
        match self {
            Attribute::Up => "up",
            Attribute::Mtu => "mtu",
            _ => "offloads",
        }
    }

    /// The attribute of a file of an interface.
    fn of_file(file: &str) -> Option<Attribute> {
        (file == "gro_flush_timeout").then_some(Attribute::GroFlushTimeout)
    }
}

/// A setting that a run needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The test interface.
    pub interface: String,
    /// Which setting.
    pub attribute: Attribute,
    /// Its value; of the MTU the least.
    pub value: u64,
    /// The parameter that needs it.
    pub parameter: &'static str,
}

impl Wanted {
    /// Returns true if the setting has to be changed. An interface may carry larger packets than a case needs.
    pub fn changes(&self, now: u64) -> bool {
        match self.attribute {
            Attribute::Mtu => now < self.value,
            _ => now != self.value,
        }
    }
}

/// The settings that a topology needs of the test interfaces of this machine. `is_virtual`: the interface has no hardware that segments.
pub fn wanted(case: &Case, topology: &NetnsTopology, is_virtual: &dyn Fn(&str) -> bool) -> Vec<Wanted> {
    let mut all = Vec::new();
    let mtu = case.hosts.iter().map(|h| h.mtu.get()).max().expect("hosts");
    for device in topology.devices.iter().filter(|device| topology.is_local(device)) {
        let Some(link) = &device.test_link else { continue };
        let mut want = |attribute, value, parameter| {
            let interface = link.interface.clone();
            all.push(Wanted { interface, attribute, value, parameter });
        };
        want(Attribute::Up, 1, "topology");
        want(Attribute::Mtu, mtu, "stack.mtu");
        // Merging by hardware changes packets that are forwarded.
        want(Attribute::Lro, 0, "nic.gro");
        if is_virtual(&link.interface) {
            want(Attribute::Tso, u64::from(!device.segments), "nic.tso");
        }
        let Some(host) = topology.namespaces[device.netns].host else {
            want(Attribute::Gro, u64::from(topology.keeps_super_segments), "nic.gro");
            continue;
        };
        for asked in case.changes(host) {
            match asked.change {
                Change::Offload(GRO, on) => want(Attribute::Gro, u64::from(on), asked.parameter.path),
                Change::Device("gro_max_size", value) => {
                    if let Ok(value) = value.parse() {
                        want(Attribute::GroMaxSize, value, asked.parameter.path);
                    }
                }
                Change::DeviceFile(file, value) => {
                    if let (Some(attribute), Ok(value)) = (Attribute::of_file(file), value.parse()) {
                        want(attribute, value, asked.parameter.path);
                    }
                }
                _ => {}
            }
        }
    }
    all
}

/// Returns true if an interface has no hardware of its own.
pub fn is_virtual(interface: &str) -> bool {
    !Path::new(&format!("/sys/class/net/{interface}/device")).exists()
}

/// The value of a setting, in the network namespace of this process.
///
/// # Errors
/// An interface that does not exist, or does not have the setting.
pub fn read(interface: &str, attribute: Attribute) -> Result<u64, Failure> {
    match attribute {
        Attribute::Tso => offload(interface, TSO, None),
        Attribute::Gro => offload(interface, GRO, None),
        Attribute::Lro => flags(interface, None).map(|flags| u64::from(flags & LRO_FLAG != 0)),
        Attribute::GroFlushTimeout => {
            let path = format!("/sys/class/net/{interface}/gro_flush_timeout");
            let text = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
            text.trim().parse().map_err(|e| format!("{path}: {e}"))
        }
        Attribute::Up | Attribute::Mtu | Attribute::GroMaxSize => {
            let link = link(interface)?;
            let value = match attribute {
                Attribute::Up => {
                    let flags = link["flags"].as_array();
                    flags.map(|flags| u64::from(flags.iter().any(|flag| flag == "UP")))
                }
                Attribute::Mtu => link["mtu"].as_u64(),
                _ => link["gro_max_size"].as_u64(),
            };
            value.ok_or_else(|| format!("`ip` does not tell `{}` of `{interface}`", attribute.name()))
        }
    }
}

/// Changes a setting, and reads it back.
///
/// # Errors
/// A value that the interface does not take.
pub fn write(interface: &str, attribute: Attribute, value: u64) -> Result<(), Failure> {
    let number = value.to_string();
    match attribute {
        Attribute::Tso => offload(interface, TSO, Some(value != 0)).map(drop)?,
        Attribute::Gro => offload(interface, GRO, Some(value != 0)).map(drop)?,
        Attribute::Lro => {
            let before = flags(interface, None)?;
            let after = if value == 0 { before & !LRO_FLAG } else { before | LRO_FLAG };
            flags(interface, Some(after)).map(drop)?;
        }
        Attribute::GroFlushTimeout => {
            let path = format!("/sys/class/net/{interface}/gro_flush_timeout");
            fs::write(&path, number).map_err(|e| format!("{path}: {e}"))?;
        }
        Attribute::Up => {
            run_ip(&["link", "set", "dev", interface, if value == 0 { "down" } else { "up" }]).map(drop)?;
        }
        Attribute::Mtu => run_ip(&["link", "set", "dev", interface, "mtu", &number]).map(drop)?,
        Attribute::GroMaxSize => {
            run_ip(&["link", "set", "dev", interface, "gro_max_size", &number]).map(drop)?;
        }
    }
    let now = read(interface, attribute)?;
    if now == value {
        return Ok(());
    }
    Err(format!("`{}` of `{interface}`: {value} was written and it is {now}", attribute.name()))
}

fn socket() -> Result<std::os::fd::OwnedFd, Failure> {
    sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(|e| format!("a socket: {e}"))
}

fn offload(interface: &str, offload: Offload, value: Option<bool>) -> Result<u64, Failure> {
    let wrong = |e: std::io::Error| format!("{} of `{interface}`: {e}", offload.name);
    let socket = socket()?;
    if let Some(on) = value {
        sys::ethtool(socket.as_fd(), interface, offload.set, u32::from(on)).map_err(wrong)?;
    }
    sys::ethtool(socket.as_fd(), interface, offload.get, 0).map(u64::from).map_err(wrong)
}

fn flags(interface: &str, value: Option<u32>) -> Result<u32, Failure> {
    let wrong = |e: std::io::Error| format!("the offloads of `{interface}`: {e}");
    let socket = socket()?;
    if let Some(flags) = value {
        sys::ethtool(socket.as_fd(), interface, SET_FLAGS, flags).map_err(wrong)?;
    }
    sys::ethtool(socket.as_fd(), interface, GET_FLAGS, 0).map_err(wrong)
}

/// The object of `ip -json link show` about an interface.
pub fn link(interface: &str) -> Result<serde_json::Value, Failure> {
    let all = run_ip(&["-json", "-details", "link", "show", "dev", interface])?;
    all.get(0).cloned().ok_or_else(|| format!("`ip` tells nothing about `{interface}`"))
}

/// Runs `ip` with arguments, without a shell. Returns its JSON, or null without output.
pub fn run_ip(arguments: &[&str]) -> Result<serde_json::Value, Failure> {
    let command = || format!("`ip {}`", arguments.join(" "));
    let output = Command::new("ip").args(arguments).env_clear().env("PATH", PATH).output();
    let output = output.map_err(|e| format!("{}: {e}", command()))?;
    if !output.status.success() {
        return Err(format!("{}: {}", command(), String::from_utf8_lossy(&output.stderr).trim()));
    }
    if output.stdout.is_empty() {
        return Ok(serde_json::Value::Null);
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("{}: {e}", command()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::placement::Role;
    use crate::placement::tests::part;
    use crate::testing::case;
    use tcpassay_case::params::Substrate;

    fn wanted_at(own: &str, rows: &[(&str, &str)]) -> Vec<(String, Attribute, u64)> {
        let case = case(Substrate::Host, rows);
        let mut topology = NetnsTopology::of(&case, &Environment::without(&[]));
        let machines = [("a", Role::Sender), ("r", Role::Router), ("b", Role::Receiver)];
        topology.cut(&case, &part(own, &machines)).unwrap();
        let all = wanted(&case, &topology, &|_| true);
        all.into_iter().map(|w| (w.interface, w.attribute, w.value)).collect()
    }

    #[test]
    fn receive_merging_follows_the_host_and_at_the_router_all_hosts() {
        let rows = [("link.delay", "0s"), ("receiver/nic.gro", "on")];
        let gro = |own: &str| {
            let all = wanted_at(own, &rows).into_iter().filter(|w| w.1 == Attribute::Gro);
            all.map(|(interface, _, value)| (interface, value)).collect::<Vec<_>>()
        };
        assert_eq!(gro("a"), [("eth-r".to_owned(), 0)]);
        assert_eq!(gro("b"), [("eth-r".to_owned(), 1)]);
        assert_eq!(gro("r"), [("eth-a".to_owned(), 0), ("eth-b".to_owned(), 0)]);
    }

    #[test]
    fn super_segments_stay_whole_on_virtual_interfaces_if_every_host_merges() {
        let tso = |gro| {
            let rows = [("link.delay", "0s"), ("nic.tso", "on"), ("nic.gro", gro)];
            wanted_at("a", &rows).into_iter().find(|w| w.1 == Attribute::Tso).unwrap().2
        };
        assert_eq!((tso("on"), tso("off")), (1, 0));
    }

    #[test]
    fn the_loopback_interface_has_settings_that_can_be_read() {
        assert_eq!(read("lo", Attribute::Mtu), Ok(65_536));
        assert!(read("no-such-device", Attribute::Mtu).unwrap_err().contains("no-such-device"));
    }
}
