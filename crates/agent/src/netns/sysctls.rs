//! Sysctls and route attributes of a host, which the parameters of its stack change.

use crate::netns::topology::NetnsTopology;
use crate::system::{Failure, write_and_check};
use tcpassay_case::{Case, Change};

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

/// Writes the sysctls of a namespace, which the process has entered, and reads each of them back.
pub fn apply(case: &Case, topology: &NetnsTopology, place: usize) -> Result<(), Failure> {
    for scope in ["all", "default"] {
        write_and_check(&format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1")?;
    }
    if let Some(host) = topology.namespaces[place].host {
        for (name, value) in host_sysctls(case, host) {
            write_and_check(&format!("/proc/sys/net/ipv4/{name}"), &value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
