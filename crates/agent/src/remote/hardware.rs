//! Interrupt coalescing and receive rings of an interface (`ethtool -C`, `ethtool -G`).

use crate::system::Failure;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use tcpassay_case::params::linux::HardwareSetting;
use tcpassay_linux::sys;

/// `struct ethtool_coalesce` (include/uapi/linux/ethtool.h): the command, then 22 numbers.
type Coalesce = [u32; 23];
/// `struct ethtool_ringparam`: the command, the maxima of four rings, then their sizes.
type Rings = [u32; 9];

const GET_COALESCE: u32 = 0x0e;
const SET_COALESCE: u32 = 0x0f;
const GET_RINGS: u32 = 0x10;
const SET_RINGS: u32 = 0x11;
const RX_MAX_PENDING: usize = 1;
const RX_PENDING: usize = 5;

/// The structure that has a setting, and the place of the setting in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Coalesce(usize),
    Rings,
}

fn place(setting: HardwareSetting) -> Place {
    match setting {
        HardwareSetting::RxUsecs => Place::Coalesce(1),
        HardwareSetting::RxFrames => Place::Coalesce(2),
        HardwareSetting::AdaptiveRx => Place::Coalesce(10),
        HardwareSetting::RxRing => Place::Rings,
    }
}

/// The name of a setting for `ethtool`.
pub fn name(setting: HardwareSetting) -> &'static str {
    match setting {
        HardwareSetting::RxUsecs => "rx-usecs",
        HardwareSetting::RxFrames => "rx-frames",
        HardwareSetting::AdaptiveRx => "adaptive-rx",
        HardwareSetting::RxRing => "ring rx",
    }
}

/// The value of a setting, in the network namespace of this process.
///
/// # Errors
/// A device that does not have the setting.
pub fn read(interface: &str, setting: HardwareSetting) -> Result<u64, Failure> {
    let socket = socket()?;
    let value = match place(setting) {
        Place::Coalesce(at) => coalesce(&socket, interface, setting)?[at],
        Place::Rings => rings(&socket, interface, setting)?[RX_PENDING],
    };
    Ok(u64::from(value))
}

/// Changes a setting.
///
/// # Errors
/// A device that does not take the value.
pub fn write(interface: &str, setting: HardwareSetting, value: u64) -> Result<(), Failure> {
    let socket = socket()?;
    let wrong = |e: io::Error| refused(interface, setting, &format!("{value}: {e}"));
    match place(setting) {
        Place::Coalesce(at) => {
            let now = coalesce(&socket, interface, setting)?;
            sys::ethtool_words(socket.as_fd(), interface, &mut changed(now, SET_COALESCE, at, value))
                .map_err(wrong)
        }
        Place::Rings => {
            let now = rings(&socket, interface, setting)?;
            sys::ethtool_words(socket.as_fd(), interface, &mut changed(now, SET_RINGS, RX_PENDING, value))
                .map_err(wrong)
        }
    }
}

/// The reason why a device cannot have a value, as far as it is known before the value is written.
///
/// # Errors
/// The reason.
pub fn check(interface: &str, setting: HardwareSetting, value: u64) -> Result<(), Failure> {
    match place(setting) {
        Place::Coalesce(_) => read(interface, setting).map(drop),
        Place::Rings => largest(&rings(&socket()?, interface, setting)?, value)
            .map_err(|why| refused(interface, setting, &why)),
    }
}

/// Fails for a ring that is larger than the device allows.
fn largest(rings: &Rings, value: u64) -> Result<(), String> {
    let most = u64::from(rings[RX_MAX_PENDING]);
    if value > most { Err(format!("{value} is more than its maximum of {most}")) } else { Ok(()) }
}

/// A structure with another command and one other number.
fn changed<const N: usize>(now: [u32; N], command: u32, at: usize, value: u64) -> [u32; N] {
    let mut words = now;
    words[0] = command;
    words[at] = u32::try_from(value).unwrap_or(u32::MAX);
    words
}

fn coalesce(socket: &OwnedFd, interface: &str, setting: HardwareSetting) -> Result<Coalesce, Failure> {
    let mut words = [0; 23];
    words[0] = GET_COALESCE;
    sys::ethtool_words(socket.as_fd(), interface, &mut words)
        .map_err(|e| refused(interface, setting, &e.to_string()))?;
    Ok(words)
}

fn rings(socket: &OwnedFd, interface: &str, setting: HardwareSetting) -> Result<Rings, Failure> {
    let mut words = [0; 9];
    words[0] = GET_RINGS;
    sys::ethtool_words(socket.as_fd(), interface, &mut words)
        .map_err(|e| refused(interface, setting, &e.to_string()))?;
    Ok(words)
}

fn refused(interface: &str, setting: HardwareSetting, why: &str) -> Failure {
    format!("{} of `{interface}`: {why}", name(setting))
}

fn socket() -> Result<OwnedFd, Failure> {
    sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(|e| format!("a socket: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_structure_has_the_command_and_one_other_number() {
        let mut now: Coalesce = [7; 23];
        now[0] = GET_COALESCE;
        let Place::Coalesce(at) = place(HardwareSetting::AdaptiveRx) else { panic!("coalescing") };
        let mut expected = [7; 23];
        (expected[0], expected[10]) = (0x0f, 1);
        assert_eq!(changed(now, SET_COALESCE, at, 1), expected);
    }

    #[test]
    fn a_ring_may_have_the_maximum_of_the_device() {
        let rings: Rings = [0x10, 4096, 0, 0, 4096, 512, 0, 0, 512];
        assert_eq!(largest(&rings, 4096), Ok(()));
        assert_eq!(largest(&rings, 4097), Err("4097 is more than its maximum of 4096".to_owned()));
        assert_eq!(rings[RX_PENDING], 512);
    }

    #[test]
    fn a_device_without_hardware_is_named_with_the_setting() {
        for setting in [HardwareSetting::RxUsecs, HardwareSetting::RxRing] {
            let error = check("lo", setting, 64).unwrap_err();
            assert!(error.starts_with(&format!("{} of `lo`: ", name(setting))), "{error}");
        }
    }
}
