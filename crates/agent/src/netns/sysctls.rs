//! Sysctls and route attributes of a host, which the parameters of its stack change.

use crate::netns::topology::NetnsTopology;
use crate::system::{Failure, release, write_and_check};
use tcpassay_case::{Case, Change};
use tcpassay_tcp::Profile;

/// The attributes of a host's default route (`ip route`) for the settings that Linux takes from the route.
pub fn route_attributes(case: &Case, host: usize) -> String {
    let mut words = String::new();
    for asked in case.changes(host) {
        if let Change::Route(attribute, value) = asked.change {
            words = format!("{words} {attribute} {value}");
        }
    }
    words
}

/// The sysctls of a host, each with its value. Sysctls for which the case has no setting are not contained.
fn host_sysctls(case: &Case, host: usize) -> Vec<(&'static str, String)> {
    // No connection inherits what an earlier one measured.
    let mut all = vec![("tcp_no_metrics_save", "1".to_owned())];
    for asked in case.changes(host) {
        if let Change::Sysctl(name, value) = asked.change {
            all.push((name, value));
        }
    }
    all
}

/// Why a kernel of this release keeps a value of a sysctl without an effect; `None` if the value has one.
fn without_effect(release: &str, name: &str, value: &str) -> Option<String> {
    // Bit 0 of tcp_recovery is RACK. Linux 6.17 (1c120191dcec) removed the loss detection that replaced it.
    let no_rack = name == "tcp_recovery" && value.parse::<u32>().is_ok_and(|bits| bits & 1 == 0);
    (no_rack && version(release) >= (6, 17)).then(|| {
        format!(
            "stack.loss_detection: Linux {release} keeps {name} = {value} without an effect: from 6.17 on it detects losses by RACK only"
        )
    })
}

/// Why a kernel of this release is not the one that a profile describes; `None` if it is, or if the profile is that of every kernel.
fn other_kernel(release: &str, profile: Profile) -> Option<String> {
    let is_other = profile != Profile::Linux && Profile::of_release(release) != Some(profile);
    is_other.then(|| {
        let name = profile.name();
        format!("stack.profile: this kernel is Linux {release}, not {name}; `linux` is the profile of every kernel")
    })
}

/// The first two numbers of a release, as in `6.12.117-tcpassay`; zeros for what is not a number.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Writes the sysctls of a namespace, which the process has entered, and reads each of them back.
pub fn apply(case: &Case, topology: &NetnsTopology, place: usize) -> Result<(), Failure> {
    for scope in ["all", "default"] {
        write_and_check(&format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1")?;
    }
    if let Some(host) = topology.namespaces[place].host {
        let release = release();
        if let Some(why) = other_kernel(&release, case.hosts[host].profile) {
            return Err(why);
        }
        for (name, value) in host_sysctls(case, host) {
            if let Some(why) = without_effect(&release, name, &value) {
                return Err(why);
            }
            write_and_check(&format!("/proc/sys/net/ipv4/{name}"), &value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
