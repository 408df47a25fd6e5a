//! The features of a machine of a testbed, and the interfaces that must not be changed.

use crate::environment::Environment;
use crate::remote::settings::{self, Attribute};
use crate::system::{Failure, release};
use std::{fs, io};
use tcpassay_linux::netlink::Netlink;
use tcpassay_linux::netlink::links::Link;
use tcpassay_messages::Finding;

/// `ARPHRD_ETHER` (`include/uapi/linux/if_arp.h`).
const ETHERNET: &str = "1";

/// The address of this machine in the value of `SSH_CONNECTION`: client, its port, this machine, its port. Empty if there is none.
pub fn ssh_address(connection: &str) -> String {
    let address = connection.split_whitespace().nth(2).filter(|a| a.parse::<std::net::IpAddr>().is_ok());
    address.unwrap_or_default().to_owned()
}

/// The features of this machine.
pub fn machine(environment: &Environment) -> Vec<Finding> {
    let finding = |what: &str, ok: bool, found: String| Finding {
        what: what.to_owned(),
        ok,
        found,
        mtu: None,
        rate: None,
    };
    let controllers = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let kinds = ["htb", "bfifo", "tbf", "netem", "red", "codel", "fq_codel", "pie", "fq"];
    let (has, lacks): (Vec<&str>, Vec<&str>) = kinds.into_iter().partition(|kind| environment.has(kind));
    let queues = if lacks.is_empty() {
        has.join(", ")
    } else {
        format!("{}; not {}", has.join(", "), lacks.join(", "))
    };
    let bpf = environment.no_bpf.clone();
    vec![
        finding("Linux", true, release()),
        finding("rates", environment.has("htb") && environment.has("bfifo"), queues),
        finding("controllers", controllers.is_ok(), controllers.unwrap_or_default().trim().to_owned()),
        finding("BPF", true, bpf.unwrap_or_else(|| "marks by backlog, stack.cc_engine".to_owned())),
    ]
}

/// The state of a test interface.
pub fn interface(name: &str, ssh_address: &str) -> Vec<Finding> {
    let what = format!("interface {name}");
    if let Err(found) = refuse_interfaces(&[name], ssh_address) {
        return vec![Finding { what, ok: false, found, mtu: None, rate: None }];
    }
    let states =
        [Attribute::Up, Attribute::Mtu, Attribute::Tso, Attribute::Gro, Attribute::Lro].map(|attribute| {
            settings::read(name, attribute).map(|value| format!("{} {value}", attribute.name()))
        });
    let found: Result<Vec<String>, Failure> = states.into_iter().collect();
    match found {
        Ok(found) => {
            let mtu = settings::read(name, Attribute::Mtu).ok();
            vec![Finding { what, ok: true, found: found.join(", "), mtu, rate: rate(name) }]
        }
        Err(found) => vec![Finding { what, ok: false, found, mtu: None, rate: None }],
    }
}

/// The rate that the driver of an interface reports, in bit/s.
fn rate(interface: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok()?;
    bits_per_second(&text)
}

/// The rate in the file `speed` of an interface, which has Mbit/s; -1 is an unknown rate.
fn bits_per_second(text: &str) -> Option<u64> {
    let megabits: u64 = text.trim().parse().ok()?;
    // SPEED_UNKNOWN is -1 as a number with or without a sign.
    (1..u64::from(u32::MAX)).contains(&megabits).then_some(megabits * 1_000_000)
}

/// Fails if one of the interfaces cannot be a test interface: it carries the controller's connection, or this cannot be determined, or it is no
/// Ethernet device.
pub fn refuse_interfaces(interfaces: &[&str], ssh_address: &str) -> Result<(), Failure> {
    if ssh_address.is_empty() {
        let why = "the interface of the controller's connection, which must not be changed, cannot be determined from SSH_CONNECTION";
        return Err(why.to_owned());
    }
    let wrong = |e: io::Error| format!("the interfaces of this machine: {e}");
    let netlink = Netlink::open().map_err(wrong)?;
    let (links, addresses) = (netlink.links().map_err(wrong)?, netlink.addresses().map_err(wrong)?);
    let having = addresses.iter().filter(|(_, address)| ssh_address.parse() == Ok(*address));
    let names = carriers(&links, having.map(|(index, _)| *index).collect());
    if names.is_empty() {
        return Err(format!("no interface has the address {ssh_address} of the controller's connection"));
    }
    for interface in interfaces {
        if names.contains(interface) {
            return Err(format!(
                "`{interface}` carries the controller's connection ({ssh_address}); it is never used"
            ));
        }
        // An interface that does not exist has its message elsewhere.
        let kind = fs::read_to_string(format!("/sys/class/net/{interface}/type"));
        if kind.is_ok_and(|kind| kind.trim() != ETHERNET) {
            return Err(format!("`{interface}` is no Ethernet device, which a test interface must be"));
        }
    }
    Ok(())
}

/// The names of these interfaces, of those below them, and of those that are ports of them or of their bridge.
fn carriers(links: &[Link], mut found: Vec<i32>) -> Vec<&str> {
    let mut at = 0;
    while at < found.len() {
        let more = links.iter().flat_map(|link| {
            [
                (link.index == found[at]).then_some(link.below).flatten(),
                (link.master == Some(found[at])).then_some(link.index),
            ]
        });
        let more: Vec<i32> = more.flatten().filter(|index| !found.contains(index)).collect();
        found.extend(more);
        at += 1;
    }
    links.iter().filter(|link| found.contains(&link.index)).map(|link| link.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_this_machine_is_the_third_word() {
        assert_eq!(ssh_address("10.1.1.1 50000 10.1.1.2 22"), "10.1.1.2");
        assert_eq!(ssh_address("fe80::1 50000 fe80::2 22"), "fe80::2");
        for wrong in ["", "10.1.1.1", "10.1.1.1 5 nonsense 22"] {
            assert_eq!(ssh_address(wrong), "");
        }
    }

    #[test]
    fn a_rate_is_reported_in_megabits_and_may_be_unknown() {
        assert_eq!(bits_per_second("10000\n"), Some(10_000_000_000));
        for unknown in ["-1\n", "0\n", "4294967295\n", ""] {
            assert_eq!(bits_per_second(unknown), None);
        }
    }

    #[test]
    fn interfaces_below_the_one_with_the_address_carry_the_connection_too() {
        let link = |index, name: &str| Link { index, name: name.to_owned(), ..Link::default() };
        let all = [
            link(1, "lo"),
            Link { master: Some(4), ..link(2, "eth0") },
            link(3, "eth1"),
            link(4, "br0"),
            Link { below: Some(4), ..link(5, "vlan7") },
        ];
        assert_eq!(carriers(&all, vec![5]), ["eth0", "br0", "vlan7"]);
        assert_eq!(carriers(&all, vec![3]), ["eth1"]);
        assert_eq!(carriers(&all, vec![]), [] as [&str; 0]);
    }

    #[test]
    fn an_address_that_no_interface_has_makes_every_interface_refused() {
        let why = refuse_interfaces(&["eth1"], "192.0.2.77").unwrap_err();
        assert_eq!(why, "no interface has the address 192.0.2.77 of the controller's connection");
        let why = refuse_interfaces(&["lo"], "127.0.0.1").unwrap_err();
        assert_eq!(why, "`lo` carries the controller's connection (127.0.0.1); it is never used");
    }

    #[test]
    fn an_unknown_connection_makes_every_interface_refused() {
        assert!(refuse_interfaces(&["eth1"], "").unwrap_err().contains("SSH_CONNECTION"));
    }
}
