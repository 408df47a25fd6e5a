//! The constraints between the settings of a case.

use crate::case::Case;
use crate::error::CaseError;
use crate::given::Scope;
use crate::params::grammar::{Buffers, IcmpReport, LinkRate};
use crate::params::linux::LinkDirection;
use crate::params::{
    CcName, HEADERS, HostSettings, Implementation, Mark, ParamSpec, QueueKind, QueuePlace, Setting,
    Substrate, table,
};
use crate::topology::{DirectedLink, Shape};
use std::collections::BTreeSet;
use tcpassay_tcp::{EcnMode, LossDetection, Profile, Recovery, Tlp};
use tcpassay_units::Bytes;
use tcpassay_workload::{BackgroundTraffic, Behaviour};

pub(super) fn check(case: &Case, errors: &mut Vec<CaseError>) {
    for (i, host) in case.hosts.iter().enumerate() {
        let names = case.net.host_addresses(i);
        let rules = Rules { scope: case.host_scope(&names), errors };
        rules.host(host);
    }
    for &(sender, receiver) in &case.net.flows {
        path(case, sender, receiver, errors);
    }
    for i in 0..case.links.len() {
        link(case, i, errors);
    }
    switch(case, errors);
    opening(case, errors);
    reboot(case, errors);
}

/// Checks that the hosts which stop can do so.
fn reboot(case: &Case, errors: &mut Vec<CaseError>) {
    if !case.reboots() {
        return;
    }
    let (value, at) = case.given.whole().find("app.reboot");
    let mut refuse = |other: (Setting, String), why: &str| {
        errors.push(CaseError::between((&at, &value), (&other.1, &other.0), why));
    };
    if case.apps.iter().any(|(spec, _)| spec.both_open || spec.mix.iter().any(|member| member.both_open)) {
        refuse(case.given.whole().find("app.open"), "a host that is back opens its connections alone");
    }
    if matches!(case.network.background, BackgroundTraffic::Udp(_)) {
        refuse(case.given.whole().find("app.background"), "the datagrams would not stop with their host");
    }
    let ends = case.apps.iter().flat_map(|(spec, pairs)| {
        let incast = spec.behaviour == Behaviour::Incast;
        pairs.iter().map(move |pair| if incast { pair.receiver } else { pair.sender })
    });
    let clients: BTreeSet<usize> = ends.map(|host| host.0 as usize).collect();
    for client in clients {
        if case.hosts[client].implementation != Implementation::Model {
            refuse(
                case.host_setting(client, "stack.implementation"),
                "another TCP cannot be stopped; it may be the server, to which a host comes back",
            );
        }
        if case.hosts[client].blocking {
            refuse(
                case.host_setting(client, "app.blocking"),
                "a write that blocks would not end with its host",
            );
        }
    }
    if case.given.whole().substrate() == Substrate::Remote {
        let why = "the substrate `remote` tells connections apart by the ports of the clients, which are used again";
        errors.push(CaseError::new(
            &at,
            Some(&crate::params::Value::Text(value.to_string())),
            why.to_owned(),
        ));
    }
}

/// Checks that no end which opens a connection at the same time as its peer is to have a cookie for it.
fn opening(case: &Case, errors: &mut Vec<CaseError>) {
    if !case.apps.iter().any(|(spec, _)| spec.both_open || spec.mix.iter().any(|member| member.both_open)) {
        return;
    }
    if let Some(host) = (0..case.hosts.len()).find(|&host| case.hosts[host].fastopen) {
        let (open, fastopen) =
            (case.given.whole().find("app.open"), case.host_setting(host, "stack.fastopen"));
        let why = "ends that open at the same time have no Fast Open: both would send data with their SYN";
        errors.push(CaseError::between((&open.1, &open.0), (&fastopen.1, &fastopen.0), why));
    }
}

struct Rules<'a> {
    scope: Scope<'a>,
    errors: &'a mut Vec<CaseError>,
}

impl Rules<'_> {
    fn refuse(&mut self, path: &str, other: &str, why: &str) {
        let (a, b) = (self.scope.find(path), self.scope.find(other));
        self.errors.push(CaseError::between((&a.1, &a.0), (&b.1, &b.0), why));
    }

    fn host(mut self, host: &HostSettings) {
        let stack = &host.stack;
        self.implementation(host);
        if host.cc == CcName::DCTCP && stack.ecn != EcnMode::Dctcp {
            self.refuse("stack.cc", "stack.ecn", "dctcp needs stack.ecn = dctcp at this host");
        }
        if self.scope.sets("stack.dctcp_receiver") && stack.ecn != EcnMode::Dctcp {
            self.refuse("stack.dctcp_receiver", "stack.ecn", "a DCTCP receiver needs stack.ecn = dctcp");
        }
        if stack.mss.get() + HEADERS > host.mtu.get() {
            self.refuse("stack.mss", "stack.mtu", "a segment and 40 bytes of headers must fit in the MTU");
        }
        if host.nic.tso && host.nic.gso_max <= stack.mss {
            let why = format!("tso needs a super-segment larger than the MSS of {}", stack.mss);
            self.refuse("nic.gso_max", "stack.mtu", &why);
        }
        if host.nic.stale_hash && !host.nic.gro {
            self.refuse(
                "nic.lro_order",
                "nic.gro",
                "stale-hash sorts the batches of receive offload: nic.gro = on",
            );
        }
        if host.profile == Profile::Linux73
            && matches!(stack.loss_detection, LossDetection::DupThresh { .. })
            && self.scope.sets("stack.loss_detection")
        {
            let why = "Linux detects losses by RACK only from 6.17 on";
            self.refuse("stack.loss_detection", "stack.profile", why);
        }
        if host.nic.rx_buffer.is_some() && stack.recv_memory.is_none() {
            self.refuse("nic.rx_buffer", "stack.profile", "only profile linux counts the memory of packets");
        }
        if stack.rto.min > stack.rto.max {
            self.refuse("stack.min_rto", "stack.max_rto", "the smallest timeout is above the largest");
        } else if stack.rto.initial < stack.rto.min {
            self.refuse("stack.initial_rto", "stack.min_rto", "the first timeout is below the smallest");
        } else if stack.rto.initial > stack.rto.max {
            self.refuse("stack.initial_rto", "stack.max_rto", "the first timeout is above the largest");
        }
        // Without SACK the profile disables the algorithms that need SACK, as a kernel does. If the case
        // enables one of them explicitly, this is an error.
        if !stack.sack && self.scope.substrate() == Substrate::Model {
            let (detection, recovery) =
                (self.scope.sets("stack.loss_detection"), self.scope.sets("stack.recovery"));
            let tlp = self.scope.sets("stack.tlp");
            if self.scope.find("stack.dsack").0 == Setting::Bool(true) {
                self.refuse("stack.dsack", "stack.sack", "DSACK is reported in SACK blocks");
            }
            if detection && matches!(stack.loss_detection, LossDetection::Rack { .. }) {
                self.refuse("stack.loss_detection", "stack.sack", "RACK needs SACK (RFC 8985 section 3)");
            }
            if recovery && matches!(stack.recovery, Recovery::Sack | Recovery::FreeBsd { .. }) {
                self.refuse("stack.recovery", "stack.sack", "RFC 6675 needs SACK; newreno and prr do not");
            }
            if tlp && stack.tlp != Tlp::Off {
                self.refuse("stack.tlp", "stack.sack", "the tail loss probe needs SACK (RFC 8985 section 3)");
            }
        }
        if stack.undo.eifel && !stack.timestamps && self.scope.sets("stack.undo") {
            self.refuse("stack.undo", "stack.timestamps", "Eifel compares timestamps (RFC 3522)");
        }
        self.controller(host);
    }

    /// Refuses the parameters that the implementation of the host does not have.
    fn implementation(&mut self, host: &HostSettings) {
        let stack = table::HOST.iter().copied().flatten().map(|row| &row.spec);
        let all: Vec<&ParamSpec> = stack.chain(table::NIC.iter().map(|row| &row.spec)).collect();
        for spec in all {
            let setting = self.scope.of(spec).0;
            if setting != spec.default_setting()
                && let Some(why) = host.implementation.lacks(spec.path, &setting)
            {
                self.refuse(spec.path, "stack.implementation", why);
            }
        }
        if host.implementation != Implementation::Model
            && let Some(name) = host.cc_values.keys().next()
        {
            let why = format!("`stack.cc.{name}` is a parameter of a controller of the model");
            self.refuse("stack.cc", "stack.implementation", &why);
        }
    }

    /// Checks the values of `stack.cc.<name>`. A value without address applies only to hosts whose
    /// controller has the parameter.
    fn controller(&mut self, host: &HostSettings) {
        if self.scope.substrate() != Substrate::Model {
            if host.python.is_some() {
                self.refuse_controller(
                    "a controller in Python runs only on the model; docs/controllers-python.md describes the way to Linux",
                );
            }
            return;
        }
        if host.cc.is_module() {
            self.refuse_controller("a module runs in a kernel: on the substrates kernel, host and remote");
            return;
        }
        // A controller that no model has was refused with the implementation.
        if host.python.is_some() || host.implementation != Implementation::Model || host.cc == CcName::NONE {
            return;
        }
        let values = host.cc_params(host.cc.name(), tcpassay_cc::Params::default().rng);
        if let Err(why) = tcpassay_cc::build(host.cc.name(), &values) {
            self.refuse_controller(&why.to_string());
        }
    }

    fn refuse_controller(&mut self, why: &str) {
        let (cc, at) = self.scope.find("stack.cc");
        let value = crate::params::Value::Text(cc.to_string());
        self.errors.push(CaseError::new(&at, Some(&value), why.to_owned()));
    }
}

/// Checks the settings that must be equal at both ends and along the path.
fn path(case: &Case, sender: usize, receiver: usize, errors: &mut Vec<CaseError>) {
    let (s, r) = (case.net.host_addresses(sender), case.net.host_addresses(receiver));
    let (s, r) = (case.host_scope(&s), case.host_scope(&r));
    let name = |i: usize| case.net.hosts[i].name.as_str();
    let mut same = |path: &str, differs: bool, why: &str| {
        if differs {
            let ((a, at_a), (b, at_b)) = (s.find(path), r.find(path));
            // A default has no position in the plan, so the message names the host.
            let at = |place: String, i: usize| {
                if place.contains('/') { place } else { format!("{}/{path}", name(i)) }
            };
            errors.push(CaseError::between((&at(at_a, sender), &a), (&at(at_b, receiver), &b), why));
        }
    };
    let (a, b) = (&case.hosts[sender], &case.hosts[receiver]);
    same("stack.mtu", a.mtu != b.mtu, "the MTU must be equal along a path");
    let Some(ports) = case.routes.path(&case.net, sender, receiver) else {
        let why = format!("no path leads from `{}` to `{}`", name(sender), name(receiver));
        errors.push(CaseError::new("topology", None, why));
        return;
    };
    for port in ports {
        let link = &case.net.links[port.link];
        let queue = &case.links[port.link].queue;
        let queued = link.main || case.net.link_addresses(port.link).iter().any(|a| a.contains("access"));
        let off = [a, b].iter().any(|host| host.stack.ecn == EcnMode::Off);
        if queued && queue.mark != Mark::Off && off {
            let names = case.net.link_addresses(port.link);
            let scope = case.given.scope(&names, link.main);
            let end = if a.stack.ecn == EcnMode::Off { &s } else { &r };
            let (mark, ecn) = (scope.find("queue.ecn_mark"), end.find("stack.ecn"));
            let why = "marking needs ECN at both ends: stack.ecn other than off";
            errors.push(CaseError::between((&mark.1, &mark.0), (&ecn.1, &ecn.0), why));
        }
    }
}

fn link(case: &Case, i: usize, errors: &mut Vec<CaseError>) {
    let names = case.net.link_addresses(i);
    let scope = case.given.scope(&names, case.net.links[i].main);
    let settings = &case.links[i];
    let queue = &settings.queue;
    let mut refuse = |path: &str, other: &str, why: &str| {
        let (a, b) = (scope.find(path), scope.find(other));
        errors.push(CaseError::between((&a.1, &a.0), (&b.1, &b.0), why));
    };
    let cross = |forward: bool| {
        let syn = case.directed_rate(DirectedLink { link: i, forward }).time_for(Bytes::new(60));
        (settings.delay_of(LinkDirection::of(forward)), syn)
    };
    let ((delay, syn), (back_delay, answer)) = (cross(true), cross(false));
    if delay + syn + back_delay + answer >= case.end {
        let parts = [
            (delay, "link.delay"),
            (syn, "link.rate"),
            (back_delay, if settings.back_delay.is_some() { "link.back_delay" } else { "link.delay" }),
            (answer, if settings.back_rate.is_some() { "link.back_rate" } else { "link.rate" }),
        ];
        // The first of the longest.
        let slow = parts.iter().rev().max_by_key(|(time, _)| *time).expect("four").1;
        refuse(slow, "app.duration", "the run ends before a SYN and its answer can cross the link");
    }
    let shaper = queue.kind.is_shaper();
    if shaper && queue.rate.is_none() {
        refuse("queue.kind", "queue.rate", "a shaper needs its rate");
    }
    if !shaper && queue.rate.is_some() {
        refuse("queue.rate", "queue.kind", "only htb and tbf have a rate");
    }
    if let Some(burst) = queue.burst
        && burst < Bytes::new(9216).min(mtu(case))
    {
        refuse("queue.burst", "stack.mtu", "the bucket is smaller than a packet, so no packet can be sent");
    }
    if queue.kind == QueueKind::Red && queue.red_min >= queue.red_max {
        refuse("queue.red_min", "queue.red_max", "the lower threshold must be below the upper one");
    }
    if queue.mark == Mark::Data && !shaper && queue.kind != QueueKind::Fifo {
        refuse(
            "queue.ecn_mark",
            "queue.kind",
            "the step threshold marks data only in fifo, htb and tbf; other disciplines mark with queue.ecn = on",
        );
    }
    if queue.place == QueuePlace::Sender && !matches!(case.net.shape, Shape::Pair) {
        refuse("queue.place", "topology", "a queue in the sending host needs topology = pair");
    }
    if matches!(settings.rate, LinkRate::Trace(_)) && (shaper || queue.kind != QueueKind::Fifo) {
        refuse("link.rate", "queue.kind", "a link with a trace needs queue.kind = fifo");
    }
    let queued_back = case.net.links[i].both_ways && queue.kind != QueueKind::Fifo;
    if matches!(settings.back_rate, Some(LinkRate::Trace(_))) && queued_back {
        refuse("link.back_rate", "queue.kind", "a link with a trace needs queue.kind = fifo");
    }
    if settings.icmp != IcmpReport::Always && settings.mtu.is_none() {
        refuse("link.icmp", "link.mtu", "without a limit no packet is too long");
    }
    if settings.jitter.size > settings.delay {
        refuse(
            "link.jitter",
            "link.delay",
            "jitter larger than the delay would make packets arrive before they are sent",
        );
    }
}

/// The largest MTU of any host.
fn mtu(case: &Case) -> Bytes {
    case.hosts.iter().map(|h| h.mtu).max().expect("a network has hosts")
}

fn switch(case: &Case, errors: &mut Vec<CaseError>) {
    if case.network.buffers == Buffers::Port {
        return;
    }
    let whole = case.given.whole();
    let at = |path: &str| whole.find(path);
    let buffers = at("switch.buffers");
    if case.net.switches.is_empty() {
        let other = at("topology");
        let why = "there is no switch; dumbbell, star, racks and file have one";
        errors.push(CaseError::between((&buffers.1, &buffers.0), (&other.1, &other.0), why));
    }
    if case.links.iter().any(|l| l.queue.kind != QueueKind::Fifo) {
        let other = at("queue.kind");
        let why = "ports of a shared or dual buffer need queue.kind = fifo";
        errors.push(CaseError::between((&buffers.1, &buffers.0), (&other.1, &other.0), why));
    }
    let (Buffers::Shared(size) | Buffers::Dual(size)) = case.network.buffers else { return };
    if size < mtu(case) {
        let other = at("stack.mtu");
        errors.push(CaseError::between(
            (&buffers.1, &buffers.0),
            (&other.1, &other.0),
            "a buffer must hold at least one packet",
        ));
    }
}
