//! Settings and properties of each host and path, from the case.

use std::collections::BTreeMap;
use tcpassay_case::params::grammar::{LinkRate, ReorderRule};
use tcpassay_case::params::linux::LinkDirection;
use tcpassay_case::params::{Adaptive, LinkSettings, NicSettings, QueueKind, ServedBy, Substrate, Value};
use tcpassay_case::topology::DirectedLink;
use tcpassay_case::{Case, HostSettings};
use tcpassay_measure::Recording;
use tcpassay_tcp::agreed_ecn;
use tcpassay_units::{Bytes, Dur, Rate};

/// An upper bound of the bytes of headers of any packet, link layer included.
pub(crate) const HEADERS: u64 = 150;
/// Tolerance for the rounding of computed delays.
const SLACK: Dur = Dur::from_micros(10);

/// Whether neither direction has a trace.
fn has_fixed_rates(link: &LinkSettings) -> bool {
    [LinkDirection::Forward, LinkDirection::Backward]
        .iter()
        .all(|way| matches!(link.rate_of(*way), LinkRate::Fixed(_)))
}

/// Settings of the hosts of a recording, indexed as in the recording.
#[derive(Debug)]
pub(crate) struct Facts {
    case: Case,
    substrate: Substrate,
    /// Parameters and values of the case that differ from the defaults, without their entities.
    said: Vec<(String, String)>,
    queues_in_host: bool,
}

impl Facts {
    /// Reads the case of a recording. `None` if the header does not contain a complete case (a case that
    /// refers to files, or a script), or if a host has another stack than the model.
    pub fn of(recording: &Recording) -> Option<Facts> {
        let header = &recording.header;
        // The settings of a case are those of the model. Of other stacks only segments are judged, as in a capture.
        if !header.stacks.is_empty() {
            return None;
        }
        let substrate = match header.substrate.as_str() {
            "kernel" => Substrate::Kernel,
            "host" => Substrate::Host,
            "remote" => Substrate::Remote,
            _ => Substrate::Model,
        };
        let triples: BTreeMap<String, Value> = header
            .case
            .iter()
            .map(|triple| {
                let path = if triple.entity.is_empty() {
                    triple.parameter.clone()
                } else {
                    format!("{}/{}", triple.entity, triple.parameter)
                };
                (path, Value::Text(triple.value.clone()))
            })
            .collect();
        let said =
            header.case.iter().map(|triple| (triple.parameter.clone(), triple.value.clone())).collect();
        let no_file = |name: &str| Err(std::io::Error::other(format!("{name} is not read again")));
        let mut case = Case::on(substrate, &triples, &no_file).ok()?;
        // Oracles judge by what a connection agreed on. The client is the first of a pair, except in incast, where the result is the same:
        // only the mode of the end itself and what both know matter.
        let pairs = case.net.flows.clone();
        for (sender, receiver) in pairs {
            let [client, server] = [sender, receiver].map(|host| case.hosts[host].stack.ecn);
            let (client, server) = agreed_ecn(client, server);
            (case.hosts[sender].stack.ecn, case.hosts[receiver].stack.ecn) = (client, server);
        }
        let mut facts = Facts { case, substrate, said, queues_in_host: false };
        facts.queues_in_host =
            facts.said("queue.place") == "sender" || matches!(facts.said("queue.kind"), "htb" | "tbf");
        (facts.case.hosts.len() == recording.hosts.len()).then_some(facts)
    }

    /// The settings of host `host`.
    pub fn host(&self, host: u32) -> Option<&HostSettings> {
        self.case.hosts.get(host as usize)
    }

    /// Whether the recording was made by the model. Its timers are then exact, and its stack has the profile
    /// of the case.
    pub fn is_model(&self) -> bool {
        self.substrate == Substrate::Model
    }

    /// Whether the recording was made by a kernel in virtual time.
    pub fn is_kernel(&self) -> bool {
        self.substrate == Substrate::Kernel
    }

    /// The value of a parameter in the case; empty if the parameter has its default.
    fn said(&self, parameter: &str) -> &str {
        self.said.iter().find(|(path, _)| path == parameter).map_or("", |(_, value)| value)
    }

    /// Whether a parameter has its default or this value, which means the same.
    fn is_default(&self, parameter: &str, value: &str) -> bool {
        matches!(self.said(parameter), "" | "none" | "auto") || self.said(parameter) == value
    }

    /// Whether the applications write without end, as fast as their sockets accept data.
    pub fn writes_without_end(&self) -> bool {
        self.is_default("app.workload", "bulk")
            && self.is_default("app.flow_size", "endless")
            && self.is_default("app.arrival", "closed")
            && ["app.rate", "app.mix"].iter().all(|row| self.is_default(row, "none"))
    }

    /// Whether the applications write without end and read at once.
    pub fn endless(&self) -> bool {
        let rest = ["app.read_rate", "app.background", "app.rcvbuf", "app.sndbuf"];
        self.writes_without_end() && rest.iter().all(|row| self.is_default(row, "none"))
    }

    /// Whether every application reads data when they arrive.
    pub fn reads_at_once(&self) -> bool {
        self.is_default("app.read_rate", "none")
    }

    /// Whether the queue is in the sending host: it drops packets there, and TCP small queues limit the bytes of a connection in it.
    pub fn queues_in_host(&self) -> bool {
        self.queues_in_host
    }

    /// Whether the case has random losses, or random disturbances that a sender may take for losses.
    pub fn draws_losses(&self) -> bool {
        [
            "link.loss",
            "link.ack_loss",
            "link.corrupt",
            "link.reorder",
            "link.jitter",
            "link.duplicate",
            "link.policer",
            "link.slot",
            "link.pause",
            "link.mtu",
            "link.idle_timeout",
            "link.offload",
        ]
        .iter()
        .any(|row| !matches!(self.said(row), "" | "0" | "off" | "0s" | "0%"))
            || !matches!(self.said("link.loss_model"), "" | "bernoulli")
    }

    /// Rate of the slowest link; `None` if other traffic or a varying rate invalidate it as a bound of the
    /// throughput.
    pub fn rate(&self, from: u32, to: u32) -> Option<Rate> {
        let steady = |link: &&LinkSettings| has_fixed_rates(link) && link.policer.is_none();
        let fixed = self.links(from, to)?.iter().all(steady);
        let alone = matches!(self.said("app.background"), "" | "none");
        // A shaper in the first host does not limit what others send.
        let shaped = from != 0 && self.links(from, to)?.iter().any(|link| link.queue.kind.is_shaper());
        self.case.bottleneck_rate(from as usize, to as usize).filter(|_| fixed && alone && !shaped)
    }

    /// Whether a link has a queue of such a kind.
    pub fn has_queue(&self, is: impl Fn(QueueKind) -> bool) -> bool {
        self.case.links.iter().any(|link| is(link.queue.kind))
    }

    /// A lower bound of the round-trip time between two hosts: propagation in both directions, minus the
    /// largest reduction by jitter.
    pub fn least_rtt(&self, from: u32, to: u32) -> Dur {
        let Some(path) = self.case.routes.path(&self.case.net, from as usize, to as usize) else {
            return Dur::ZERO;
        };
        path.iter()
            .map(|port| {
                let link = &self.case.links[port.link];
                let both = link.delay_of(LinkDirection::Forward) + link.delay_of(LinkDirection::Backward);
                if link.jitter.size.is_zero() { both } else { Dur::ZERO }
            })
            .fold(Dur::ZERO, |sum, delay| sum + delay)
    }

    /// Whether the path may deliver a packet twice.
    pub fn duplicates(&self, from: u32, to: u32) -> bool {
        self.links(from, to).is_none_or(|links| links.iter().any(|link| link.duplicate > 0.0))
    }

    /// The links from one host to another, in order.
    pub fn links(&self, from: u32, to: u32) -> Option<Vec<&LinkSettings>> {
        let path = self.case.routes.path(&self.case.net, from as usize, to as usize)?;
        Some(path.iter().map(|port| &self.case.links[port.link]).collect())
    }

    /// Returns three values for a packet that is alone on the path: the longest one-way delay without
    /// payload, the rate of the slowest link, and the bytes of its headers (an upper bound). `None` if an
    /// element of the path delays packets by rules that this computation does not know.
    pub fn idle(&self, from: u32, to: u32) -> Option<(Dur, Rate, u64)> {
        let links = self.links(from, to)?;
        let plain = |link: &&LinkSettings| {
            link.jitter.size.is_zero()
                && link.ack_thinning <= 1
                && matches!(link.reorder, ReorderRule::Off)
                && link.policer.is_none()
                && link.slot.is_none()
                && link.pause.is_none()
                && link.offload.is_none()
                && has_fixed_rates(link)
                && !link.queue.kind.is_shaper()
                && link.queue.served_by == ServedBy::Link
        };
        let (sender, receiver) = (&self.host(from)?.nic, &self.host(to)?.nic);
        let steady = |nic: &NicSettings| nic.adaptive == Adaptive::Off && nic.rate.is_none();
        if !matches!(self.said("app.background"), "" | "none") {
            return None;
        }
        if !links.iter().all(plain) || !steady(sender) || !steady(receiver) || receiver.stale_hash {
            return None;
        }
        let rate = self.case.bottleneck_rate(from as usize, to as usize)?;
        let path = self.case.routes.path(&self.case.net, from as usize, to as usize)?;
        let delay =
            |port: &DirectedLink| self.case.links[port.link].delay_of(LinkDirection::of(port.forward));
        let propagation = path.iter().map(delay).fold(Dur::ZERO, |sum, delay| sum + delay);
        // Transmission of a full packet at each link except the slowest one, which the caller adds.
        let hops = u64::try_from(links.len()).expect("few links");
        let packet = rate.time_for(Bytes::new(self.host(from)?.mtu.get() + HEADERS)) * hops;
        // Each poll postpones the end of a merge by the timeout, at most until a poll in the next tick of 1 ms (`napi_complete_done`).
        let tick = if receiver.gro_timeout.is_zero() { Dur::ZERO } else { Dur::from_millis(1) };
        let merging = receiver.gro_timeout + tick;
        let held = sender.tx_delay + receiver.rx_delay + merging + receiver.rx_cost * 64;
        Some((propagation + packet + held + SLACK, rate, HEADERS))
    }
}
