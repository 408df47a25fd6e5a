//! What this substrate cannot do, said before anything is built: each with who can.

use crate::environment::Environment;
use crate::netns::impairments;
use crate::netns::module_parameters;
use crate::traffic::cc_engine::PARAMETER;
use tcpassay_case::params::grammar::{LinkRate, LossModel};
use tcpassay_case::params::{Setting, Value};
use tcpassay_case::topology::Shape;
use tcpassay_case::{Case, CaseError, CcEngine, HostSettings, LinkSettings, Mark, QueueKind};
use tcpassay_tcp::{EcnMode, Pacing};
use tcpassay_units::Dur;
use tcpassay_workload::Behaviour;

/// Everything in the case that the kernel does not do, in the order of the entities.
pub fn unsupported(case: &Case, environment: &Environment) -> Vec<CaseError> {
    let mut all = Vec::new();
    let name = if environment.is_host() { "host" } else { "kernel" };
    let mut refuse = |(setting, path): (Setting, String), why: &str| {
        all.push(CaseError {
            path,
            other: None,
            value: Some(Value::Text(setting.to_string())),
            why: format!("the substrate `{name}` cannot do this: {why}"),
        });
    };
    if !matches!(case.net.shape, Shape::Pair | Shape::Dumbbell(_) | Shape::Star(_)) {
        let at = (case.setting("topology"), "topology".to_owned());
        refuse(at, "it has pair, dumbbell and star; the model has this one");
    }
    for kind in ["htb", "bfifo"] {
        if environment.is_host() && !environment.has(kind) {
            let why = format!("this kernel has no `{kind}` (CONFIG_NET_SCH_*), with which rates are made");
            refuse((case.setting("link.rate"), "link.rate".to_owned()), &why);
        }
    }
    let back = |b: Behaviour| matches!(b, Behaviour::Rpc | Behaviour::RpcOpen | Behaviour::Incast);
    let answers = case
        .apps
        .iter()
        .any(|(spec, _)| back(spec.behaviour) || spec.mix.iter().any(|member| back(member.behaviour)));
    for (i, link) in case.links.iter().enumerate() {
        let at = |path: &str| case.link_setting(i, path);
        if matches!(link.rate, LinkRate::Trace(_)) {
            refuse(at("link.rate"), "netem has one rate; the model follows traces");
        }
        if environment.is_host() && matches!(link.loss_model, LossModel::List(_)) {
            refuse(
                at("link.loss_model"),
                "netem draws what it loses; the model and the substrate `kernel` drop a list",
            );
        }
        if link.ack_loss > 0.0 && answers && !impairments::drawn_here(case, i, environment) {
            refuse(at("link.ack_loss"), "netem would lose the responses, too; the model loses pure ACKs");
        }
        match link.queue.mark {
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
        if link.queue.kind == QueueKind::DualPi2 {
            refuse(at("queue.kind"), "Linux has it from 6.17 on; the model has it");
        } else if !environment.has(link.queue.kind.name()) {
            let why = format!("this kernel has no `{}` (CONFIG_NET_SCH_*)", link.queue.kind.name());
            refuse(at("queue.kind"), &why);
        }
        if !environment.has("netem") {
            without_netem(link, &mut |path| {
                let why = "this kernel has no netem (CONFIG_NET_SCH_NETEM), and nothing else delays or loses";
                refuse(at(path), why);
            });
        }
    }
    hosts(case, environment, &mut refuse);
    all.sort_by(|a, b| (&a.path, &a.why).cmp(&(&b.path, &b.why)));
    all.dedup();
    all
}

/// What of a link netem alone does.
fn without_netem(link: &LinkSettings, refuse: &mut impl FnMut(&str)) {
    let needed = [
        ("link.delay", !link.delay.is_zero()),
        ("link.jitter", !link.jitter.size.is_zero()),
        ("link.loss", link.loss > 0.0),
        ("link.loss_model", link.loss_model != LossModel::Bernoulli),
        ("link.ack_loss", link.ack_loss > 0.0),
        ("link.duplicate", link.duplicate > 0.0),
        ("link.corrupt", link.corrupt > 0.0),
        ("link.slot", link.slot.is_some()),
    ];
    needed.into_iter().filter(|(_, needs)| *needs).for_each(|(path, _)| refuse(path));
}

fn hosts(case: &Case, environment: &Environment, refuse: &mut impl FnMut((Setting, String), &str)) {
    for (i, host) in case.hosts.iter().enumerate() {
        let at = |path: &str| case.host_setting(i, path);
        let is = |path: &str, word: &str| matches!(at(path).0, Setting::Word(w) if w == word);
        if !is("stack.profile", "rfc") && !is("stack.profile", "linux") {
            refuse(at("stack.profile"), "a kernel is what it is: linux, or nothing said");
        }
        let engine = &host.engine;
        controller(host, environment, &mut |path, why| refuse(at(path), why));
        if host.stack.ecn == EcnMode::Accurate {
            refuse(at("stack.ecn"), "Linux before 6.18 has no accurate ECN; the model has");
        }
        if host.stack.ecn == EcnMode::Dctcp && host.cc != "dctcp" && *engine != CcEngine::Shim {
            refuse(at("stack.ecn"), "Linux echoes each mark only with stack.cc = dctcp; the model with any");
        }
        if is("stack.tlp", "open-only") {
            refuse(at("stack.tlp"), "that was Linux before 4.15; the model has it");
        }
        if is("stack.slow_start_after_idle", "on") {
            refuse(at("stack.slow_start_after_idle"), "Linux has `off` and `decay`; the model all three");
        }
        if matches!(at("stack.delayed_ack").0, Setting::Text(how) if how != "off") {
            let why = "Linux has its own rule, 40 to 200 ms by the arrivals, or none at all (`off`); the model has this one";
            refuse(at("stack.delayed_ack"), why);
        }
        if is("stack.tso_autosize", "off") {
            refuse(at("stack.tso_autosize"), "Linux always goes by the rate; the model can leave it");
        }
        if let Setting::Dur(d) = at("stack.fin_wait2").0
            && (d < Dur::from_secs(1) || d.as_nanos() % 1_000_000_000 > 0)
        {
            refuse(at("stack.fin_wait2"), "Linux counts whole seconds; the model any time");
        }
        match (at("stack.pacing").0, host.stack.pacing) {
            (Setting::Text(_), Pacing::Off) if host.cc == "bbr" => {
                refuse(at("stack.pacing"), "Linux's bbr always paces");
            }
            (Setting::Text(_), Pacing::Percent { slow_start, avoidance })
                if slow_start.max(avoidance) > 1000 =>
            {
                refuse(
                    at("stack.pacing"),
                    "Linux goes up to 1000 % (tcp_pacing_ss_ratio); the model further",
                );
            }
            _ => {}
        }
        if *engine == CcEngine::Kernel && !environment.is_host() {
            if let Err(why) = module_parameters::parameters(host, module_parameters::hystart(case, i)) {
                refuse(at("stack.cc"), &why);
            }
            if let Some(other) = module_parameters::conflict(case, i) {
                let why = format!(
                    "one kernel has one set of parameters of it, and {} has others",
                    case.net.hosts[other].name
                );
                refuse(at("stack.cc"), &why);
            }
        }
        if host.nic.queue.is_some() && host.nic.rate.is_none() && matches!(case.net.shape, Shape::Pair) {
            refuse(at("nic.queue"), "with no nic.rate nothing waits there");
        }
        if host.stack.rto.min < Dur::from_millis(1) {
            refuse(at("stack.min_rto"), "a tick is 1 ms; the model can go below");
        }
        if at("stack.dctcp_receiver").0 != case.host_setting(0, "stack.dctcp_receiver").0 {
            refuse(at("stack.dctcp_receiver"), "one kernel has one receiver; the model one for each host");
        }
    }
}

/// What of a host's controller cannot be had from who decides there.
fn controller(host: &HostSettings, environment: &Environment, refuse: &mut impl FnMut(&str, &str)) {
    let engine = &host.engine;
    if let (CcEngine::Shim | CcEngine::Object(_), Some(why)) = (engine, &environment.no_bpf) {
        refuse(PARAMETER, why);
    } else if let (CcEngine::Shim, Err(why)) = (engine, tcpassay_bpf::shim::available()) {
        refuse(PARAMETER, &why.to_string());
    }
    match engine {
        CcEngine::Kernel if host.cc == "mvegas" => refuse("stack.cc", "Linux has no mvegas; the model has"),
        CcEngine::Kernel if !environment.has_cc(&host.cc) => {
            let why = format!("this kernel has no {} (CONFIG_TCP_CONG_*)", host.cc);
            refuse("stack.cc", &why);
        }
        CcEngine::Shim if !tcpassay_cc::names().contains(&host.cc.as_str()) => {
            let why = format!(
                "{PARAMETER} = shim has the model's controllers: {}",
                tcpassay_cc::names().join(", ")
            );
            refuse("stack.cc", &why);
        }
        _ => {}
    }
    if *engine != CcEngine::Shim && !host.cc_values.is_empty() && environment.is_host() {
        let why = "parameters of its controllers are this machine's; the model and a guest set them, and stack.cc_engine = shim";
        refuse("stack.cc", why);
    }
}
