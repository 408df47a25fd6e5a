//! The settings of a test interface, which are not in a namespace of the run, and their values.

use crate::collect::machine_load::pause;
use crate::netns::topology::NetnsTopology;
use crate::remote::hardware;
use crate::system::{Failure, PATH};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tcpassay_case::params::linux::{GRO, HardwareSetting, Offload, TSO};
use tcpassay_case::{Case, Change};
use tcpassay_linux::netlink::Netlink;
use tcpassay_linux::sys;
use tcpassay_measure::EnvironmentProperty;
use tcpassay_messages::Group;

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
    /// The delay of receive interrupts in microseconds.
    RxUsecs,
    /// The number of packets that raises a receive interrupt at once.
    RxFrames,
    /// The delay of receive interrupts follows the load.
    AdaptiveRx,
    /// The descriptors of the receive ring.
    RxRing,
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
            Attribute::RxUsecs => "rx_usecs",
            Attribute::RxFrames => "rx_frames",
            Attribute::AdaptiveRx => "adaptive_rx",
            Attribute::RxRing => "rx_ring",
        }
    }

    /// The setting of the hardware that it is.
    fn hardware(self) -> Option<HardwareSetting> {
        match self {
            Attribute::RxUsecs => Some(HardwareSetting::RxUsecs),
            Attribute::RxFrames => Some(HardwareSetting::RxFrames),
            Attribute::AdaptiveRx => Some(HardwareSetting::AdaptiveRx),
            Attribute::RxRing => Some(HardwareSetting::RxRing),
            _ => None,
        }
    }

    /// Returns true for a setting of the hardware.
    pub fn is_of_hardware(self) -> bool {
        self.hardware().is_some()
    }

    /// The attribute that is a setting of the hardware.
    fn of_hardware(setting: HardwareSetting) -> Attribute {
        match setting {
            HardwareSetting::RxUsecs => Attribute::RxUsecs,
            HardwareSetting::RxFrames => Attribute::RxFrames,
            HardwareSetting::AdaptiveRx => Attribute::AdaptiveRx,
            HardwareSetting::RxRing => Attribute::RxRing,
        }
    }

    /// The group of settings that a testbed file allows to be changed.
    pub fn group(self) -> Group {
        match self {
            Attribute::Up => Group::Up,
            Attribute::Mtu => Group::Mtu,
            Attribute::RxUsecs | Attribute::RxFrames | Attribute::AdaptiveRx => Group::Coalescing,
            Attribute::RxRing => Group::Rings,
            _ => Group::Offloads,
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
    /// The setting.
    pub attribute: Attribute,
    /// Its value; for the MTU the smallest allowed one.
    pub value: u64,
    /// The parameter that needs it.
    pub parameter: &'static str,
    /// A device that does not take the value fails the run. The default of a setting of the hardware is written only where the device takes
    /// it.
    pub required: bool,
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

/// `IFF_UP` (`include/uapi/linux/if.h`).
const IFF_UP: u64 = 1;

/// The settings that a topology needs of the test interfaces of this machine. `is_virtual`: the interface has no hardware that segments.
pub fn wanted(case: &Case, topology: &NetnsTopology, is_virtual: &dyn Fn(&str) -> bool) -> Vec<Wanted> {
    let mut all = Vec::new();
    let mtu = case.hosts.iter().map(|h| h.mtu.get()).max().expect("hosts");
    for device in topology.devices.iter().filter(|device| topology.is_local(device)) {
        let Some(link) = &device.test_link else { continue };
        let mut want = |attribute, value, parameter| {
            let interface = link.interface.clone();
            all.push(Wanted { interface, attribute, value, parameter, required: true });
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
        let mut hardware = Vec::new();
        for asked in case.changes(host) {
            match asked.change {
                Change::Hardware(setting, value) => hardware.push(Wanted {
                    interface: link.interface.clone(),
                    attribute: Attribute::of_hardware(setting),
                    value,
                    parameter: asked.parameter.path,
                    required: asked.setting != asked.parameter.default_setting(),
                }),
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
        // A device may ignore its delay while it adapts the delay to the load, and refuse to change it.
        hardware.sort_by_key(|wanted: &Wanted| wanted.attribute != Attribute::AdaptiveRx);
        all.extend(hardware);
    }
    all
}

/// The reason why an interface cannot have a value, as far as it is known before the value is written.
///
/// # Errors
/// The reason.
pub fn check(wanted: &Wanted) -> Result<(), Failure> {
    match wanted.attribute.hardware() {
        Some(setting) => hardware::check(&wanted.interface, setting, wanted.value),
        None => Ok(()),
    }
}

/// The rows of the recording about the hardware of the test interfaces: what the case asks for, and what it is.
#[expect(clippy::cast_precision_loss, reason = "microseconds and descriptors below 2^53")]
pub fn hardware_rows(all: &[Wanted]) -> Vec<EnvironmentProperty> {
    let of_hardware = all.iter().filter(|wanted| wanted.attribute.hardware().is_some());
    let row = |wanted: &Wanted| {
        let measured = read(&wanted.interface, wanted.attribute).ok()?;
        let unit = if wanted.attribute == Attribute::RxUsecs { "us" } else { "1" };
        Some(EnvironmentProperty {
            entity: wanted.interface.clone(),
            property: wanted.attribute.name().to_owned(),
            unit: unit.to_owned(),
            asked: Some(wanted.value as f64),
            measured: Some(measured as f64),
        })
    };
    of_hardware.filter_map(row).collect()
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
        Attribute::RxUsecs | Attribute::RxFrames | Attribute::AdaptiveRx | Attribute::RxRing => {
            hardware::read(interface, attribute.hardware().expect("these are of the hardware"))
        }
        Attribute::Up => {
            let text = of_interface(interface, "flags")?;
            let flags = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
            flags
                .map(|flags| flags & IFF_UP)
                .ok_or_else(|| format!("the flags of `{interface}` are `{text}`"))
        }
        Attribute::Mtu => {
            let text = of_interface(interface, "mtu")?;
            text.parse().map_err(|_| format!("the MTU of `{interface}` is `{text}`"))
        }
        // The kernel has no file with it.
        Attribute::GroMaxSize => {
            let wrong = |e: io::Error| format!("the interfaces of this machine: {e}");
            let all = Netlink::open().and_then(|netlink| netlink.links()).map_err(wrong)?;
            let link = all.into_iter().find(|link| link.name == interface);
            let link = link.ok_or_else(|| format!("there is no interface `{interface}`"))?;
            let value = link.gro_max_size.map(u64::from);
            value.ok_or_else(|| format!("this kernel has no `{}` of `{interface}`", attribute.name()))
        }
    }
}

/// The contents of a file of an interface in sysfs. Reading it takes microseconds, and `ip` milliseconds.
fn of_interface(interface: &str, file: &str) -> Result<String, Failure> {
    let path = format!("/sys/class/net/{interface}/{file}");
    let text = fs::read_to_string(&path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => format!("there is no interface `{interface}`"),
        _ => format!("{path}: {e}"),
    })?;
    Ok(text.trim().to_owned())
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
            // Linux does not switch it on while a device on the interface does not have it: the macvlan device of a run that is ending.
            repeated(DEVICES_END, || {
                let before = flags(interface, None)?;
                let after = if value == 0 { before & !LRO_FLAG } else { before | LRO_FLAG };
                Ok(flags(interface, Some(after))? & LRO_FLAG == after & LRO_FLAG)
            })?;
        }
        Attribute::GroFlushTimeout => {
            let path = format!("/sys/class/net/{interface}/gro_flush_timeout");
            fs::write(&path, number).map_err(|e| format!("{path}: {e}"))?;
        }
        Attribute::Up => {
            run_ip(&["link", "set", "dev", interface, if value == 0 { "down" } else { "up" }])?;
        }
        Attribute::Mtu => run_ip(&["link", "set", "dev", interface, "mtu", &number])?,
        Attribute::RxUsecs | Attribute::RxFrames | Attribute::AdaptiveRx | Attribute::RxRing => {
            let setting = attribute.hardware().expect("these are of the hardware");
            hardware::write(interface, setting, value)?;
        }
        Attribute::GroMaxSize => {
            run_ip(&["link", "set", "dev", interface, "gro_max_size", &number])?;
        }
    }
    let now = read(interface, attribute)?;
    if now == value {
        return Ok(());
    }
    Err(format!("`{}` of `{interface}`: {value} was written and it is {now}", attribute.name()))
}

/// The longest time until interfaces that were switched on, or whose hardware was reset by a change, have their carrier.
const CARRIER: Duration = Duration::from_secs(20);
/// The longest time until the devices of the last run end.
const DEVICES_END: Duration = Duration::from_secs(20);

/// Waits until all test interfaces of these settings have their carrier. A NIC loses it for seconds when it is switched on, and many lose it when
/// their MTU or a ring changes.
///
/// # Errors
/// An interface without a cable.
pub fn wait_for_carriers(all: &[Wanted]) -> Result<(), Failure> {
    let mut waiting: Vec<&str> =
        all.iter().filter(|w| w.attribute == Attribute::Up).map(|w| w.interface.as_str()).collect();
    let done = repeated(CARRIER, || {
        waiting.retain(|interface| !has_carrier(interface));
        Ok(waiting.is_empty())
    })?;
    if done {
        return Ok(());
    }
    let names = waiting.join("`, `");
    Err(format!("`{names}` has had no carrier for {} s after its settings were changed", CARRIER.as_secs()))
}

/// Returns true if a cable is connected to an interface that is up.
fn has_carrier(interface: &str) -> bool {
    fs::read_to_string(format!("/sys/class/net/{interface}/carrier")).is_ok_and(|text| text.trim() == "1")
}

/// Repeats an action until it returns true. Returns false if it has not done so in this time.
fn repeated(limit: Duration, mut act: impl FnMut() -> Result<bool, Failure>) -> Result<bool, Failure> {
    let begun = sys::monotonic();
    while !act()? {
        if u128::from(sys::monotonic() - begun) > limit.as_nanos() {
            return Ok(false);
        }
        pause(Duration::from_millis(5));
    }
    Ok(true)
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

/// Runs `ip` with arguments, without a shell.
fn run_ip(arguments: &[&str]) -> Result<(), Failure> {
    let command = || format!("`ip {}`", arguments.join(" "));
    let output = Command::new("ip").args(arguments).env_clear().env("PATH", PATH).output();
    let output = output.map_err(|e| format!("{}: {e}", command()))?;
    if !output.status.success() {
        return Err(format!("{}: {}", command(), String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::placement::tests::part;
    use crate::testing::case;
    use tcpassay_case::params::Substrate;
    use tcpassay_messages::Role;

    fn wanted_at(own: &str, rows: &[(&str, &str)]) -> Vec<(String, Attribute, u64)> {
        wanted_with(own, rows).into_iter().map(|w| (w.interface, w.attribute, w.value)).collect()
    }

    fn wanted_with(own: &str, rows: &[(&str, &str)]) -> Vec<Wanted> {
        let case = case(Substrate::Remote, rows);
        let mut topology = NetnsTopology::of(&case, &Environment::without(&[]));
        let machines = [("a", Role::Sender), ("r", Role::Router), ("b", Role::Receiver)];
        topology.cut(&case, &part(own, &machines)).unwrap();
        wanted(&case, &topology, &|_| true)
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
    fn hardware_follows_the_host_and_only_what_a_case_asks_for_is_required() {
        let rows = [("link.delay", "0s"), ("sender/nic.rx_usecs", "50us"), ("sender/nic.ring", "512")];
        let hardware = |own: &str| {
            let all = wanted_with(own, &rows).into_iter().filter(|w| w.attribute.hardware().is_some());
            all.map(|w| (w.attribute, w.value, w.required)).collect::<Vec<_>>()
        };
        let delay = |value| (Attribute::RxUsecs, value, value > 0);
        let (adaptive, frames) = ((Attribute::AdaptiveRx, 0, false), (Attribute::RxFrames, 0, false));
        // Adaptation ends before the delay is written. An unlimited ring stays as it is.
        assert_eq!(hardware("a"), [adaptive, delay(50), frames, (Attribute::RxRing, 512, true)]);
        assert_eq!(hardware("b"), [adaptive, delay(0), frames]);
        assert_eq!(hardware("r"), []);
    }

    #[test]
    fn an_action_is_repeated_until_it_succeeds_or_its_time_has_passed() {
        let mut left = 3;
        let mut act = || {
            left -= 1;
            Ok(left == 0)
        };
        assert_eq!(repeated(Duration::from_mins(10), &mut act), Ok(true));
        assert_eq!(left, 0);
        assert_eq!(repeated(Duration::ZERO, || Ok(false)), Ok(false));
        assert_eq!(repeated(Duration::ZERO, || Err("no device".to_owned())), Err("no device".to_owned()));
    }

    #[test]
    fn the_loopback_interface_has_settings_that_can_be_read() {
        assert_eq!(read("lo", Attribute::Mtu), Ok(65_536));
        assert_eq!(read("lo", Attribute::GroMaxSize), Ok(65_536));
        for attribute in [Attribute::Mtu, Attribute::GroMaxSize] {
            assert!(read("no-such-device", attribute).unwrap_err().contains("no-such-device"));
        }
    }
}
