//! A checked case: settings of every host, link and application.

use crate::given::{GivenTriples, Scope, split};
use crate::pace::Pace;
use crate::params::grammar::LinkRate;
use crate::params::linux::LinkDirection;
use crate::params::{DrawnBy, HostSettings, LinkSettings, NetworkSettings, QueuePlace, Setting, Value};
use crate::topology::{DirectedLink, Net, Node, Routes, Shape};
use std::collections::BTreeMap;
use tcpassay_measure::Triple;
use tcpassay_units::{Bytes, Dur, Rate, Seed};
use tcpassay_workload::{HostPair, TrafficPart, TrafficSchedule, WorkloadSpec};

/// A complete and consistent case.
#[derive(Clone, Debug)]
pub struct Case {
    pub(crate) given: GivenTriples,
    /// The hosts, switches and links.
    pub net: Net,
    /// The shortest paths between hosts.
    pub routes: Routes,
    /// The settings of the hosts, in the order of [`Net::hosts`].
    pub hosts: Vec<HostSettings>,
    /// The settings of the links, in the order of [`Net::links`].
    pub links: Vec<LinkSettings>,
    /// The settings of the whole network.
    pub network: NetworkSettings,
    /// The workloads (`app.*`), each with the pairs of hosts that run it.
    pub apps: Vec<(WorkloadSpec, Vec<HostPair>)>,
    /// The latest end of the run, from its begin.
    pub end: Dur,
    /// The traces of `link.rate = trace:<file>`, by file name.
    pub traces: BTreeMap<String, Pace>,
}

impl Case {
    /// The triples that differ from the defaults: the shortest description of this case.
    pub fn to_triples(&self) -> BTreeMap<String, Value> {
        self.given.to_triples()
    }

    /// The triples of [`Case::to_triples`] as rows of a recording.
    pub fn recorded(&self) -> Vec<Triple> {
        let row = |(full, value): (String, Value)| {
            let (entity, parameter) = split(&full);
            Triple { entity: entity.to_owned(), parameter: parameter.to_owned(), value: value.to_string() }
        };
        self.to_triples().into_iter().map(row).collect()
    }

    /// The setting of `path` at host `i`, and the full path at which it was given; for a default, the path
    /// without address.
    pub fn host_setting(&self, i: usize, path: &str) -> (Setting, String) {
        self.host_scope(&self.net.host_addresses(i)).find(path)
    }

    /// The setting of `path` at link `i`, and the full path at which it was given; for a default, the path
    /// without address.
    pub fn link_setting(&self, i: usize, path: &str) -> (Setting, String) {
        self.given.scope(&self.net.link_addresses(i), self.net.links[i].main).find(path)
    }

    /// The setting of a parameter of the whole network.
    pub fn setting(&self, path: &str) -> Setting {
        self.given.whole().find(path).0
    }

    /// On Linux: whether the random streams of the model impair the packets of a link, instead of netem. In real time it is always netem.
    pub fn draws_impairments(&self, link: usize, real_time: bool) -> bool {
        !real_time && self.links[link].drawn_by == DrawnBy::Model
    }

    /// On Linux: whether a program receives the packets of a link and sends them on, to impair single ones.
    pub fn has_relay(&self, link: usize, real_time: bool) -> bool {
        let settings = &self.links[link];
        settings.has_own_impairments()
            || settings.has_drawn_impairments() && self.draws_impairments(link, real_time)
    }

    /// Whether the queue of `link` is in the sending host, above its NIC: `queue.place`.
    pub fn stands_at_sender(&self, link: usize) -> bool {
        let queue = &self.links[link].queue;
        match queue.place {
            QueuePlace::Sender => true,
            QueuePlace::Link => false,
            QueuePlace::Auto | QueuePlace::Undescribed => {
                matches!(self.net.shape, Shape::Pair) && queue.kind.is_shaper()
            }
        }
    }

    /// The rate at which the queue of host `i` is served: that of its NIC or its access link, whichever is less. `None` if neither
    /// has one: at the bottleneck the queue of the link is not the host's.
    pub fn line_rate(&self, i: usize) -> Option<Rate> {
        let ends_here = |node| node == Node::Host(i);
        let access = self.net.links.iter().zip(&self.links);
        let access = access.filter(|(link, _)| !link.main && (ends_here(link.from) || ends_here(link.to)));
        let access = access.filter_map(|(link, settings)| {
            let way = LinkDirection::of(ends_here(link.from));
            match settings.rate_of(way) {
                LinkRate::Fixed(rate) => Some(*rate),
                LinkRate::Trace(_) => None,
            }
        });
        access.chain(self.hosts[i].nic.rate).min()
    }

    pub(crate) fn host_scope<'a>(&'a self, addresses: &'a [&'a str]) -> Scope<'a> {
        self.given.scope(addresses, true)
    }

    /// Round-trip time of an idle path: the delays in both directions, the transmission of a packet of
    /// `size` bytes, and the transmission of its ACK.
    pub fn base_rtt(&self, from: usize, to: usize, size: Bytes) -> Dur {
        let Some(path) = self.routes.path(&self.net, from, to) else { return Dur::ZERO };
        path.iter()
            .map(|port| {
                let link = &self.links[port.link];
                let time = |way: LinkDirection, size: Bytes| {
                    let rate = match link.rate_of(way) {
                        LinkRate::Fixed(rate) => *rate,
                        LinkRate::Trace(_) => self.rate_of(port.link, way),
                    };
                    link.delay_of(way) + rate.time_for(size)
                };
                let (there, back) = (LinkDirection::of(port.forward), LinkDirection::of(!port.forward));
                time(there, size) + time(back, Bytes::new(52))
            })
            .fold(Dur::ZERO, |a, b| a + b)
    }

    /// The largest packet that host `from` sends and each link of its path to host `to` carries.
    pub fn path_mtu(&self, from: usize, to: usize) -> Bytes {
        let path = self.routes.path(&self.net, from, to).unwrap_or_default();
        let links = path.iter().filter_map(|port| self.links[port.link].mtu);
        links.fold(self.hosts[from].mtu, Bytes::min)
    }

    /// The rate of the slowest link of a path, for background load and checks. A trace counts with its mean
    /// rate.
    pub fn bottleneck_rate(&self, sender: usize, receiver: usize) -> Option<Rate> {
        let path = self.routes.path(&self.net, sender, receiver)?;
        path.iter().map(|port| self.directed_rate(*port)).min()
    }

    /// The rate of a link in the direction of the data, or of a shaper before it if there is one. A trace counts with its
    /// mean rate.
    pub fn link_rate(&self, link: usize) -> Rate {
        self.rate_of(link, LinkDirection::Forward)
    }

    /// The rate of a direction of a link, as of [`Case::link_rate`].
    pub fn directed_rate(&self, port: DirectedLink) -> Rate {
        self.rate_of(port.link, LinkDirection::of(port.forward))
    }

    fn rate_of(&self, link: usize, way: LinkDirection) -> Rate {
        let settings = &self.links[link];
        let wire = match settings.rate_of(way) {
            LinkRate::Fixed(rate) => *rate,
            LinkRate::Trace(name) => self.traces.get(name).map_or(Rate::from_bits_per_sec(1), Pace::mean),
        };
        match settings.queue.rate {
            // A shaper is in the direction of the data, in racks and files in both.
            Some(rate)
                if settings.queue.kind.is_shaper()
                    && (way == LinkDirection::Forward
                        || settings.back_rate.is_none()
                        || self.net.links[link].both_ways) =>
            {
                wire.min(rate)
            }
            _ => wire,
        }
    }

    /// Whether hosts stop and begin again (`app.reboot`).
    pub fn reboots(&self) -> bool {
        let stops = |spec: &WorkloadSpec| spec.reboot.is_some();
        self.apps.iter().any(|(spec, _)| stops(spec) || spec.mix.iter().any(stops))
    }

    /// The traffic of all applications of the network.
    pub fn plan(&self, seed: Seed) -> TrafficSchedule {
        let mut plan: Option<TrafficSchedule> = None;
        for (spec, pairs) in &self.apps {
            let part = TrafficSchedule::new(spec, pairs, seed);
            match &mut plan {
                None => plan = Some(part),
                Some(plan) => part.parts().iter().for_each(|p: &TrafficPart| plan.push(p.clone())),
            }
        }
        let mut plan = plan.expect("a topology has flows");
        let all: Vec<HostPair> = self.apps.iter().flat_map(|(_, pairs)| pairs.iter().copied()).collect();
        let (s, r) = self.net.flows[0];
        let capacity = self.bottleneck_rate(s, r).expect("checked: flows have paths");
        if let Some(part) = self.network.background.part(&all, capacity) {
            plan.push(part);
        }
        plan
    }
}
