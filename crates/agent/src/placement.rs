//! Assignment of the hosts of a case to the machines of a testbed.
//!
//! The topology of a case on a testbed is that of the substrate `host`, cut where two neighbours are on different machines. The machines
//! with the role `sender` have the hosts that send data, in the order of the testbed file; those with the role `receiver` have the
//! hosts that receive it. The router has all other namespaces: switches, queues, wires. Without a router, the machine of the
//! sender of a pair has them.

use tcpassay_case::Case;
use tcpassay_case::topology::Shape;
use tcpassay_messages::{Part, Role};

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

/// Assigns the hosts of a case to machines.
///
/// # Errors
/// A case that needs more machines, or other ones, than the testbed has.
pub fn place(part: &Part, case: &Case) -> Result<Placement, String> {
    let of_role = |role| {
        let machines = part.machines.iter().enumerate().filter(move |(_, m)| m.role == role);
        machines.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let own = part.machines.iter().position(|m| m.name == part.machine);
    let own = own.ok_or_else(|| format!("the testbed has no machine `{}`", part.machine))?;
    let mut hosts = vec![None; case.net.hosts.len()];
    for role in [Role::Sender, Role::Receiver] {
        let machines = of_role(role);
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
            if hosts[host].replace(machine).is_some() {
                return Err(format!(
                    "the host `{}` sends and receives; on a testbed a host has one role",
                    case.net.hosts[host].name
                ));
            }
        }
    }
    let hosts: Option<Vec<usize>> = hosts.into_iter().collect();
    let hosts =
        hosts.ok_or("it has hosts without traffic, which cannot be assigned to a machine of the testbed")?;
    let others = match (&of_role(Role::Router)[..], &case.net.shape) {
        (&[router, ..], _) => router,
        ([], Shape::Pair) => hosts[case.net.flows[0].0],
        ([], _) => {
            return Err("it has switches, and the testbed has no host with the role `router`".to_owned());
        }
    };
    Ok(Placement { hosts, others, own })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::testing::case;
    use tcpassay_case::params::Substrate;
    use tcpassay_messages::Machine;

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
        Part {
            machine: own.to_owned(),
            machines: machines.iter().map(machine).collect(),
            run: 0x00a1_b2c3,
            as_is: false,
            place: None,
        }
    }

    const LAB: [(&str, Role); 3] =
        [("alpha", Role::Sender), ("beta", Role::Router), ("gamma", Role::Receiver)];

    #[test]
    fn senders_receivers_and_the_rest_are_on_the_machines_of_their_roles() {
        let pair = case(Substrate::Host, &[("link.delay", "0s")]);
        let placed = place(&part("gamma", &LAB), &pair);
        assert_eq!(placed, Ok(Placement { hosts: vec![0, 2], others: 1, own: 2 }));
        let two = [LAB[0], LAB[2]];
        let placed = place(&part("alpha", &two), &pair);
        assert_eq!(placed, Ok(Placement { hosts: vec![0, 1], others: 0, own: 0 }));
    }

    #[test]
    fn a_host_that_sends_and_receives_is_refused_with_its_name() {
        let mut pair = case(Substrate::Host, &[("link.delay", "0s")]);
        pair.net.flows = vec![(0, 1), (1, 0)];
        let four = [("a", Role::Sender), ("b", Role::Sender), ("c", Role::Receiver), ("d", Role::Receiver)];
        let error = place(&part("a", &four), &pair).unwrap_err();
        let name = &pair.net.hosts[1].name;
        assert_eq!(error, format!("the host `{name}` sends and receives; on a testbed a host has one role"));
    }

    #[test]
    fn a_case_that_needs_more_machines_is_an_error() {
        let star = case(Substrate::Host, &[("link.delay", "0s"), ("topology", "dumbbell:2")]);
        let error = place(&part("alpha", &LAB), &star).unwrap_err();
        assert_eq!(error, "it has 2 hosts that are senders, and the testbed has 1 with the role `sender`");
        let two = [LAB[0], ("delta", Role::Sender), LAB[2], ("eta", Role::Receiver)];
        let error = place(&part("alpha", &two), &star).unwrap_err();
        assert_eq!(error, "it has switches, and the testbed has no host with the role `router`");
    }
}
