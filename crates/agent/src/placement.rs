//! Assignment of the hosts of a case to the machines of a testbed.
//!
//! The topology of a case on a testbed is that of the substrate `host`, cut where two neighbours are on different machines. The machines
//! with the role `sender` have the hosts that send data, in the order of the testbed file; those with the role `receiver` have the
//! hosts that receive it. The router has all other namespaces: switches, queues, wires. Without a router, the machine of the
//! sender of a pair has them.

use serde::Deserialize;
use std::collections::BTreeMap;
use tcpassay_case::Case;
use tcpassay_case::topology::Shape;

/// The role of a machine of a testbed.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It has hosts that send data.
    Sender,
    /// It has hosts that receive data.
    Receiver,
    /// It has the queues and links between them.
    Router,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Sender => "sender",
            Role::Receiver => "receiver",
            Role::Router => "router",
        }
    }
}

/// A machine of a testbed.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name in the testbed file.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Its test interfaces, by the name of the machine at the other end.
    pub interfaces: BTreeMap<String, String>,
    /// The groups of settings of test interfaces that may be changed: `up`, `mtu`, `offloads`, `coalescing`, `rings`.
    pub allow: Vec<String>,
}

/// The part of a testbed that an agent has.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The name of the machine of this agent.
    pub machine: String,
    /// All machines of the testbed.
    pub machines: Vec<Machine>,
    /// A number of the run, which is contained in its MAC addresses; 24 bits.
    pub run: u32,
}

/// The machines of a case: indices of [`Part::machines`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The machine of each host of the case.
    pub hosts: Vec<usize>,
    /// The machine of all other namespaces.
    pub others: usize,
    /// The machine of this agent.
    pub own: usize,
}

impl Part {
    /// Assigns the hosts of a case to machines.
    ///
    /// # Errors
    /// A case that needs more machines, or other ones, than the testbed has.
    pub fn place(&self, case: &Case) -> Result<Placement, String> {
        let of_role = |role| {
            let machines = self.machines.iter().enumerate().filter(move |(_, m)| m.role == role);
            machines.map(|(at, _)| at).collect::<Vec<_>>()
        };
        let own = self.machines.iter().position(|m| m.name == self.machine);
        let own = own.ok_or_else(|| format!("the testbed has no machine `{}`", self.machine))?;
        let mut hosts = vec![None; case.net.hosts.len()];
        let (senders, receivers) = (of_role(Role::Sender), of_role(Role::Receiver));
        for (role, machines) in [(Role::Sender, senders), (Role::Receiver, receivers)] {
            let mut of_hosts = Vec::new();
            for &(sender, receiver) in &case.net.flows {
                let host = if role == Role::Sender { sender } else { receiver };
                if !of_hosts.contains(&host) {
                    of_hosts.push(host);
                }
            }
            if of_hosts.len() > machines.len() {
                return Err(format!(
                    "it has {} hosts that are {}s, and the testbed has {} with the role `{}`",
                    of_hosts.len(),
                    role.name(),
                    machines.len(),
                    role.name()
                ));
            }
            for (host, machine) in of_hosts.into_iter().zip(machines) {
                match hosts[host] {
                    None => hosts[host] = Some(machine),
                    Some(_) => {
                        return Err(format!(
                            "the host `{}` sends and receives; on a testbed a host has one role",
                            case.net.hosts[host].name
                        ));
                    }
                }
            }
        }
        let hosts: Option<Vec<usize>> = hosts.into_iter().collect();
        let hosts = hosts
            .ok_or("it has hosts without traffic, which cannot be assigned to a machine of the testbed")?;
        let others = match (&of_role(Role::Router)[..], &case.net.shape) {
            (&[router, ..], _) => router,
            ([], Shape::Pair) => hosts[case.net.flows[0].0],
            ([], _) => {
                return Err("it has switches, and the testbed has no host with the role `router`".to_owned());
            }
        };
        Ok(Placement { hosts, others, own })
    }

    /// Returns true if a group of settings of the test interfaces of this machine may be changed.
    pub fn allows(&self, group: &str) -> bool {
        let own = self.machines.iter().find(|machine| machine.name == self.machine);
        own.is_some_and(|machine| machine.allow.iter().any(|allowed| allowed == group))
    }

    /// The test interface of machine `at` to machine `peer`.
    ///
    /// # Errors
    /// The testbed has no such link.
    pub fn interface(&self, at: usize, peer: usize) -> Result<&str, String> {
        let (at, peer) = (&self.machines[at], &self.machines[peer]);
        let found = at.interfaces.get(&peer.name).map(String::as_str);
        found.ok_or_else(|| format!("the testbed has no link between `{}` and `{}`", at.name, peer.name))
    }

    /// The MAC address of a device of the topology: locally administered, with the number of the run.
    pub fn mac(&self, device: usize) -> String {
        let [_, a, b, c] = self.run.to_be_bytes();
        let [high, low] = u16::try_from(device).unwrap_or(u16::MAX).to_be_bytes();
        format!("02:{a:02x}:{b:02x}:{c:02x}:{high:02x}:{low:02x}")
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::testing::case;
    use tcpassay_case::params::Substrate;

    /// A testbed of machines with these roles; each has the interface `eth-<peer>` to each other one.
    pub fn part(own: &str, machines: &[(&str, Role)]) -> Part {
        let interfaces = |name: &str| {
            let peers = machines.iter().filter(|(peer, _)| *peer != name);
            peers.map(|(peer, _)| ((*peer).to_owned(), format!("eth-{peer}"))).collect()
        };
        let machine = |(name, role): &(&str, Role)| Machine {
            name: (*name).to_owned(),
            role: *role,
            interfaces: interfaces(name),
            allow: Vec::new(),
        };
        Part { machine: own.to_owned(), machines: machines.iter().map(machine).collect(), run: 0x00a1_b2c3 }
    }

    const LAB: [(&str, Role); 3] =
        [("alpha", Role::Sender), ("beta", Role::Router), ("gamma", Role::Receiver)];

    #[test]
    fn senders_receivers_and_the_rest_are_on_the_machines_of_their_roles() {
        let pair = case(Substrate::Host, &[("link.delay", "0s")]);
        let placed = part("gamma", &LAB).place(&pair);
        assert_eq!(placed, Ok(Placement { hosts: vec![0, 2], others: 1, own: 2 }));
        let two = [LAB[0], LAB[2]];
        let placed = part("alpha", &two).place(&pair);
        assert_eq!(placed, Ok(Placement { hosts: vec![0, 1], others: 0, own: 0 }));
    }

    #[test]
    fn a_case_that_needs_more_machines_is_an_error() {
        let star = case(Substrate::Host, &[("link.delay", "0s"), ("topology", "dumbbell:2")]);
        let error = part("alpha", &LAB).place(&star).unwrap_err();
        assert_eq!(error, "it has 2 hosts that are senders, and the testbed has 1 with the role `sender`");
        let two = [LAB[0], ("delta", Role::Sender), LAB[2], ("eta", Role::Receiver)];
        let error = part("alpha", &two).place(&star).unwrap_err();
        assert_eq!(error, "it has switches, and the testbed has no host with the role `router`");
    }

    #[test]
    fn mac_addresses_differ_by_run_and_device() {
        let part = part("alpha", &LAB);
        assert_eq!(part.mac(0x0102), "02:a1:b2:c3:01:02");
        assert_eq!(part.interface(0, 1), Ok("eth-beta"));
    }
}
