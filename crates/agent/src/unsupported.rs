//! The settings of a case that this substrate does not support, determined before the network is built. Each
//! message states where the setting is supported.

use crate::environment::Environment;
use crate::netns::impairments;
use crate::placement::{self, Placement};
use crate::traffic::cc_engine::PARAMETER;
use std::collections::BTreeSet;
use tcpassay_case::params::grammar::LossModel;
use tcpassay_case::params::linux::LinkDirection;
use tcpassay_case::params::{Setting, Substrate, Value};
use tcpassay_case::topology::Shape;
use tcpassay_case::{Case, CaseError, CcEngine, HostSettings, LinkSettings, Mark, Unsupported};
use tcpassay_workload::Behaviour;

/// The most hosts of a guest. Each has two taps with rings of 2 MB, and each link two namespaces.
const MOST_GUEST_HOSTS: usize = 128;

/// All settings of the case that the kernel does not support, in the order of the entities.
pub fn unsupported(case: &Case, environment: &Environment) -> Vec<CaseError> {
    let mut all = Vec::new();
    let name = environment.name();
    let placement = environment.part.as_ref().map(|part| placement::place(part, case));
    let others = placement.as_ref().is_none_or(|p| p.as_ref().is_ok_and(|p| p.others == p.own))
        && !environment.links_as_is();
    let mut refuse = |(setting, path): (Setting, String), why: &str| {
        all.push(CaseError {
            path,
            other: None,
            value: Some(Value::Text(setting.to_string())),
            why: format!("the substrate `{name}` does not support this: {why}"),
        });
    };
    for Unsupported { setting, path, why } in case.unsupported_by_linux() {
        refuse((setting, path), &why);
    }
    if environment.substrate != Substrate::Host {
        for Unsupported { setting, path, why } in case.unsupported_controller_values() {
            refuse((setting, path), &why);
        }
    }
    for kind in ["htb", "bfifo"] {
        if others && environment.is_host() && !environment.has(kind) {
            let why = format!("this kernel has no `{kind}` (CONFIG_NET_SCH_*), which limits rates");
            refuse((case.setting("link.rate"), "link.rate".to_owned()), &why);
        }
    }
    let back = |b: Behaviour| matches!(b, Behaviour::RpcOpen | Behaviour::Incast) || b.is_closed_loop();
    let answers = case
        .apps
        .iter()
        .any(|(spec, _)| back(spec.behaviour) || spec.mix.iter().any(|member| back(member.behaviour)));
    for (i, link) in case.links.iter().enumerate().filter(|_| others) {
        let at = |path: &str| case.link_setting(i, path);
        if environment.is_host() && matches!(link.loss_model, LossModel::List(_)) {
            refuse(
                at("link.loss_model"),
                "netem has only random losses; the model and the substrate `kernel` support a list",
            );
        }
        if link.ack_loss > 0.0 && answers && !impairments::drawn_here(case, i, environment) {
            refuse(
                at("link.ack_loss"),
                "netem would also lose responses with data; the model loses only pure ACKs",
            );
        }
        match link.queue.mark {
            Mark::Ack if !environment.is_host() => {
                if !matches!(case.net.shape, Shape::Pair) {
                    let why = "returning ACKs are marked in topology = pair only; the model and the substrate `host` mark them in others";
                    refuse(at("queue.ecn_mark"), why);
                } else if link.policer.is_some() {
                    refuse(at("queue.ecn_mark"), "returning ACKs are marked only without link.policer");
                }
            }
            Mark::Ack => {
                if let Some(why) = &environment.no_bpf {
                    refuse(at("queue.ecn_mark"), why);
                }
            }
            Mark::Data if !environment.has("red") => {
                if let Some(why) = &environment.no_bpf {
                    let why = format!("this kernel has no `red`, and {why}");
                    refuse(at("queue.ecn_mark"), &why);
                }
            }
            _ => {}
        }
        if !environment.has(link.queue.kind.name()) {
            let why = format!("this kernel has no `{}` (CONFIG_NET_SCH_*)", link.queue.kind.name());
            refuse(at("queue.kind"), &why);
        }
        if !environment.has("netem") {
            for path in needs_netem(link) {
                let why =
                    "this kernel has no netem (CONFIG_NET_SCH_NETEM), which is needed for delays and losses";
                refuse(at(path), why);
            }
        }
    }
    for (i, _) in
        case.links.iter().enumerate().filter(|(_, link)| environment.links_as_is() && link.mtu.is_some())
    {
        let why = "the testbed uses its links as they are, so that no router stands before them";
        refuse(case.link_setting(i, "link.mtu"), why);
    }
    if let Some(why) = topology(case, environment, placement.as_ref()) {
        refuse((case.setting("topology"), "topology".to_owned()), &why);
    }
    hosts(case, environment, placement.as_ref(), &mut refuse);
    all.sort_by(|a, b| (&a.path, &a.why).cmp(&(&b.path, &b.why)));
    all.dedup();
    all
}

/// Why the topology cannot be built here.
fn topology(
    case: &Case,
    environment: &Environment,
    placement: Option<&Result<Placement, String>>,
) -> Option<String> {
    let hosts = case.net.hosts.len();
    if environment.links_as_is() && !matches!(case.net.shape, Shape::Pair) {
        let why = "the testbed uses its links as they are, so that its hosts have no switches between them";
        Some(why.to_owned())
    } else if let Some(Err(why)) = placement {
        Some(why.clone())
    } else if placement.is_some() && matches!(case.net.shape, Shape::Racks { .. } | Shape::File(_)) {
        Some("a testbed has the hosts of a pair, a dumbbell or a star".to_owned())
    } else if !environment.is_host() && hosts > MOST_GUEST_HOSTS {
        Some(format!("it has {hosts} hosts; a guest has at most {MOST_GUEST_HOSTS}"))
    } else {
        None
    }
}

/// The parameters of a link that only netem implements.
fn needs_netem(link: &LinkSettings) -> BTreeSet<&'static str> {
    let ways = [LinkDirection::Forward, LinkDirection::Backward];
    let limited = link.mtu.map(|_| "link.mtu");
    ways.into_iter()
        .flat_map(|way| link.netem(way))
        .map(|(parameter, _)| parameter.path)
        .chain(limited)
        .collect()
}

/// The problems of the hosts that are on this machine.
fn hosts(
    case: &Case,
    environment: &Environment,
    placement: Option<&Result<Placement, String>>,
    refuse: &mut impl FnMut((Setting, String), &str),
) {
    let here = |host: usize| match placement {
        None => true,
        Some(Ok(placement)) => placement.hosts[host] == placement.own,
        Some(Err(_)) => false,
    };
    for (i, host) in case.hosts.iter().enumerate().filter(|(i, _)| here(*i)) {
        let at = |path: &str| case.host_setting(i, path);
        controller(host, environment, &mut |path, why| refuse(at(path), why));
        if host.nic.queue.is_some() && host.nic.rate.is_none() && matches!(case.net.shape, Shape::Pair) {
            refuse(at("nic.queue"), "without nic.rate no packet waits in this queue");
        }
    }
}

/// The settings of a host's controller that `stack.cc_engine` does not support.
fn controller(host: &HostSettings, environment: &Environment, refuse: &mut impl FnMut(&str, &str)) {
    let engine = &host.engine;
    if let (CcEngine::Shim | CcEngine::Object(_), Some(why)) = (engine, &environment.no_bpf) {
        refuse(PARAMETER, why);
    } else if matches!(engine, CcEngine::Shim)
        && let Err(why) = tcpassay_bpf::shim::available()
    {
        refuse(PARAMETER, &why.to_string());
    }
    match engine {
        CcEngine::Kernel if !host.cc.in_linux() => {
            refuse("stack.cc", &format!("Linux has no {}; the model supports it", host.cc));
        }
        CcEngine::Kernel if !environment.has_cc(host.cc.name()) => {
            let why = format!("this kernel has no {} (CONFIG_TCP_CONG_*, or a module)", host.cc);
            refuse("stack.cc", &why);
        }
        CcEngine::Shim if !tcpassay_cc::window_based().contains(&host.cc.name()) => {
            let why = format!(
                "{PARAMETER} = shim supports the model's window-based controllers: {}",
                tcpassay_cc::window_based().join(", ")
            );
            refuse("stack.cc", &why);
        }
        _ => {}
    }
    if *engine != CcEngine::Shim && !host.cc_values.is_empty() && environment.substrate == Substrate::Host {
        let why = "the parameters of its controllers apply to the whole machine and are not changed; the model, a guest, a testbed and stack.cc_engine = shim support them";
        refuse("stack.cc", why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::case;

    fn refused(environment: &Environment, rows: &[(&str, &str)]) -> Vec<String> {
        unsupported(&case(environment.substrate, rows), environment).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_list_of_losses_needs_a_guest_and_a_host_names_the_substrates_that_have_it() {
        let rows = [("link.loss_model", "list:3,5")];
        assert_eq!(refused(&Environment::guest(), &rows), Vec::<String>::new());
        assert_eq!(
            refused(&Environment::without(&[]), &rows),
            [
                "`link.loss_model` = `list:3,5`: the substrate `host` does not support this: netem has only random losses; \
              the model and the substrate `kernel` support a list"
            ]
        );
    }

    #[test]
    fn losses_of_acks_are_refused_where_netem_would_lose_responses_as_well() {
        let host = Environment::without(&[]);
        let losses = ("link.ack_loss", "10%");
        assert_eq!(refused(&host, &[losses]), Vec::<String>::new());
        for workload in ["rpc", "incast"] {
            let errors = refused(&host, &[losses, ("app.workload", workload)]);
            assert!(
                errors.len() == 1 && errors[0].contains("would also lose responses with data"),
                "{errors:?}"
            );
        }
    }

    #[test]
    fn a_queue_of_a_nic_without_a_rate_is_refused_between_two_hosts() {
        let guest = Environment::guest();
        let queue = ("nic.queue", "10");
        assert_eq!(
            refused(&guest, &[queue]),
            [
                "`nic.queue` = `10`: the substrate `kernel` does not support this: without nic.rate no packet waits in this \
              queue"
            ]
        );
        assert_eq!(refused(&guest, &[queue, ("nic.rate", "1Gbit")]), Vec::<String>::new());
    }

    #[test]
    fn every_problem_is_reported_once_in_the_order_of_paths() {
        let bare = Environment::without(&["netem", "codel"]);
        let errors = refused(&bare, &[("queue.kind", "codel"), ("link.loss", "1%"), ("link.delay", "1ms")]);
        let paths: Vec<_> = errors.iter().map(|e| e.split('`').nth(1).unwrap()).collect();
        assert_eq!(paths, ["link.delay", "link.loss", "queue.kind"], "{errors:?}");
    }
}
