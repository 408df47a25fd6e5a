//! The knobs of Linux for a parameter, as data that the agent executes.
//!
//! A knob gives the value to set, leaves the kernel unchanged, or states why Linux does not support the
//! value. The agent uses this declaration to set the value and to refuse unsupported values.

use super::kind::Setting;

/// The value of a knob. `None` keeps the value of the kernel. The error is the reason why Linux does not
/// support the setting.
pub type KnobValue<T> = Result<Option<T>, &'static str>;

/// Derives the value of a knob from the setting of a row and the settings of its entity.
pub type Derive<S, T> = fn(&Setting, &S) -> KnobValue<T>;

/// A knob: the value in Linux that a parameter changes.
#[derive(Debug)]
pub enum Knob<S: 'static> {
    /// A sysctl below `net.ipv4`, of the network namespace of a host.
    Sysctl(&'static str, Derive<S, String>),
    /// An attribute of the default route of a host (`ip route`).
    Route(&'static str, Derive<S, String>),
    /// An attribute of the device of a host (`ip link set`).
    Device(&'static str, Derive<S, String>),
    /// A file of the device of a host below `/sys/class/net`.
    DeviceFile(&'static str, Derive<S, String>),
    /// An offload of the device of a host (`ethtool -K`).
    Offload(Offload, Derive<S, bool>),
    /// A number of the hardware of an interface (`ethtool -C`, `ethtool -G`). Virtual devices do not have it.
    Hardware(HardwareSetting, Derive<S, u64>),
    /// An option of every socket of a host.
    Socket(SocketOption, Derive<S, SocketValue>),
    /// Arguments of `tc qdisc add ... netem` for one direction of a link.
    Netem(fn(&S, LinkDirection) -> Option<String>),
    /// A parameter of a module below `/sys/module`. It applies to the whole kernel, so all hosts of a guest
    /// must have the same value.
    Module {
        /// The file.
        file: &'static str,
        /// Its value.
        value: Derive<S, String>,
        /// The value that describes the behaviour of a kernel without the file.
        absent: &'static str,
        /// Whether two hosts use the module, and therefore need the same value.
        shared: fn(&S, &S) -> bool,
        /// The reason for the message if these hosts have different values.
        once: &'static str,
    },
    /// No setting is needed: the kernel always behaves as required, or the function returns why it does not.
    Builtin(fn(&Setting, &S) -> Result<(), &'static str>),
}

impl<S> Knob<S> {
    /// The reason why Linux does not support the setting; `None` if it does.
    pub fn unsupported(&self, setting: &Setting, settings: &S) -> Option<&'static str> {
        match self {
            Knob::Sysctl(_, value)
            | Knob::Route(_, value)
            | Knob::Device(_, value)
            | Knob::DeviceFile(_, value)
            | Knob::Module { value, .. } => value(setting, settings).err(),
            Knob::Offload(_, value) => value(setting, settings).err(),
            Knob::Hardware(_, value) => value(setting, settings).err(),
            Knob::Socket(_, value) => value(setting, settings).err(),
            Knob::Builtin(check) => check(setting, settings).err(),
            Knob::Netem(_) => None,
        }
    }
}

/// The direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkDirection {
    /// From the sender of the data to the receiver.
    Forward,
    /// From the receiver to the sender.
    Backward,
}

impl LinkDirection {
    /// Forward or backward.
    pub fn of(forward: bool) -> LinkDirection {
        if forward { LinkDirection::Forward } else { LinkDirection::Backward }
    }
}

/// An offload, with the commands of `linux/ethtool.h` that set it and read it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offload {
    /// The name of the offload in messages.
    pub name: &'static str,
    /// `ETHTOOL_S...`.
    pub set: u32,
    /// `ETHTOOL_G...`.
    pub get: u32,
}

/// TCP segmentation offload: `ETHTOOL_STSO`, `ETHTOOL_GTSO`.
pub const TSO: Offload = Offload { name: "segmentation", set: 0x1f, get: 0x1e };
/// Generic receive offload: `ETHTOOL_SGRO`, `ETHTOOL_GGRO`.
pub const GRO: Offload = Offload { name: "receive merging", set: 0x2c, get: 0x2b };

/// A number of the hardware of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HardwareSetting {
    /// `rx-usecs`: the delay of an interrupt after the first packet, in microseconds.
    RxUsecs,
    /// `rx-frames`: the number of packets that raises an interrupt at once.
    RxFrames,
    /// `adaptive-rx`: 1 if the delay follows the load.
    AdaptiveRx,
    /// `rx` of `ethtool -G`: the descriptors of the receive ring.
    RxRing,
}

/// A socket option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketOption {
    /// `SOL_SOCKET`, `IPPROTO_TCP`.
    pub level: i32,
    /// The option that is set.
    pub set: i32,
    /// The option by which the value is read back.
    pub get: i32,
}

impl SocketOption {
    /// An option of TCP.
    pub(super) const fn tcp(option: i32) -> SocketOption {
        SocketOption { level: libc::IPPROTO_TCP, set: option, get: option }
    }

    /// An option of all sockets, set by `set` and read back by `get`.
    pub(super) const fn socket(set: i32, get: i32) -> SocketOption {
        SocketOption { level: libc::SOL_SOCKET, set, get }
    }
}

/// The value of a socket option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SocketValue {
    /// A number, and what the kernel must report afterwards.
    Number {
        /// The value that is set.
        set: i32,
        /// The value that must be read back.
        back: i32,
    },
    /// A number that is not read back: the kernel changes it by itself.
    Transient(i32),
    /// A structure or a wide number, in the order of bytes of the machine. It is not read back.
    Bytes(Vec<u8>),
}

impl SocketValue {
    /// A number that the kernel reports as it was set.
    pub(super) fn same(n: u64) -> SocketValue {
        let n = i32::try_from(n).unwrap_or(i32::MAX);
        SocketValue::Number { set: n, back: n }
    }
}

/// `1` or `0` for a switch; a word leaves the kernel's default.
#[expect(clippy::unnecessary_wraps, reason = "all knobs have functions of one type")]
pub(super) fn flag<S>(setting: &Setting, _: &S) -> KnobValue<String> {
    Ok(setting.switch().map(|on| u8::from(on).to_string()))
}

/// A whole number; a word leaves the kernel's default.
#[expect(clippy::unnecessary_wraps, reason = "all knobs have functions of one type")]
pub(super) fn number<S>(setting: &Setting, _: &S) -> KnobValue<String> {
    Ok(setting.int().map(|n| n.to_string()))
}

/// 1 for a switch that is on.
#[expect(clippy::unnecessary_wraps, reason = "all knobs have functions of one type")]
pub(super) fn enabled<S>(setting: &Setting, _: &S) -> KnobValue<SocketValue> {
    Ok((setting.switch() == Some(true)).then(|| SocketValue::same(1)))
}
