//! The elements that a case describes, by the names that they have in the log.

use super::acks;
use super::codel::{CoDel, FqCoDel, Parameters};
use super::element::{Element, World};
use super::fair::Fair;
use super::moderation::Moderation;
use super::nic::{Interrupt, Nic, State};
use super::path::{
    Correlated, Damage, Duplicates, HoldsBack, Jitter, Loss, Model, Policer, Reverses, Slots, Tag, Which,
};
use super::pie::{DualPi2, Pie};
use super::port::{Discipline, Port};
use super::queue::{Fifo, Line, Pair, Red};
use super::shaper::{Bucket, Htb, Tbf};
use super::wire::{Checksum, Limit, Link, Segmentation};
use crate::facts::Facts;
use std::collections::{BTreeMap, VecDeque};
use tcpassay_case::draws::{self, LossProcess};
use tcpassay_case::params::grammar::{Buffers, LinkRate, QueueLimitValue, ReorderRule};
use tcpassay_case::params::{Adaptive, LinkSettings, QueueKind, QueuePlace, QueueSettings};
use tcpassay_case::topology::{Node, Shape};
use tcpassay_case::{Case, HostSettings, Mark, SmallQueues};
use tcpassay_units::{Bytes, Dur, Rate, Seed, Time};

type Made = Option<Box<dyn Element>>;

/// The elements with these names, `None` for those that the case does not describe, and what they share.
pub(super) fn elements(facts: &Facts, seed: Seed, names: &[String]) -> (World, Vec<Made>) {
    let case = facts.case();
    let mut world = World::default();
    if let Buffers::Shared(size) = case.network.buffers {
        world.buffers = vec![(size.get(), 0); case.net.switches.len()];
    }
    let places = names.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
    let maker = Maker { case, seed, places, hosts: hosts(case), links: links(case) };
    (world, names.iter().map(|name| maker.element(name)).collect())
}

/// The names of impairments that the case has and the run does not.
pub(super) fn missing(facts: &Facts, names: &[String]) -> Vec<String> {
    let case = facts.case();
    let mut wanted = Vec::new();
    for (link, of) in case.net.links.iter().zip(&case.links) {
        let name = &link.name;
        let forward = [
            ("queue", true),
            ("police", of.policer.is_some()),
            ("loss", draws::losses(of).is_some()),
            ("corrupt", of.corrupt > 0.0),
            ("duplicate", of.duplicate > 0.0),
            ("reorder", !matches!(of.reorder, ReorderRule::Off)),
            ("slot", of.slot.is_some()),
            ("jitter", !of.jitter.size.is_zero()),
        ];
        wanted.extend(forward.iter().filter(|(_, has)| *has).map(|(what, _)| format!("{what}.{name}")));
        let back = [("queue", true), ("loss", of.ack_loss > 0.0), ("thin", of.ack_thinning > 1)];
        wanted.extend(back.iter().filter(|(_, has)| *has).map(|(what, _)| format!("{what}.{name}.back")));
    }
    for (host, settings) in case.net.hosts.iter().zip(&case.hosts) {
        let nic = &settings.nic;
        let waits = nic.adaptive != Adaptive::Off || !nic.rx_delay.is_zero() || !nic.rx_cost.is_zero();
        if nic.gro || nic.stale_hash || nic.ring.is_some() || waits {
            wanted.push(format!("rx.{}", host.name));
        }
    }
    wanted.retain(|name| !names.contains(name));
    wanted
}

fn hosts(case: &Case) -> BTreeMap<&str, usize> {
    case.net.hosts.iter().enumerate().map(|(place, host)| (host.name.as_str(), place)).collect()
}

/// The directions of links by name: the link, and whether it is the direction of data.
fn links(case: &Case) -> BTreeMap<String, (usize, bool)> {
    let names = case.net.links.iter().enumerate();
    let both = names.flat_map(|(place, link)| {
        [(link.name.clone(), (place, true)), (format!("{}.back", link.name), (place, false))]
    });
    both.collect()
}

/// A direction of a link.
#[derive(Clone, Copy)]
struct Direction<'a> {
    place: usize,
    forward: bool,
    settings: &'a LinkSettings,
    from: Node,
    /// The host at which it begins.
    host: Option<&'a HostSettings>,
    /// `queue.*` applies to it.
    queued: bool,
    /// Its queue is above the NIC of the host.
    in_host: bool,
}

struct Maker<'a> {
    case: &'a Case,
    seed: Seed,
    places: BTreeMap<&'a str, usize>,
    hosts: BTreeMap<&'a str, usize>,
    links: BTreeMap<String, (usize, bool)>,
}

impl<'a> Maker<'a> {
    fn element(&self, name: &str) -> Made {
        if self.hosts.contains_key(name) {
            return Some(Box::new(Checksum));
        }
        let (kind, of) = name.split_once('.')?;
        if kind == "rx" {
            return Some(self.nic(name, &self.case.hosts[*self.hosts.get(of)?]));
        }
        let &(place, forward) = self.links.get(of)?;
        let way = self.direction(place, forward);
        let link = way.settings;
        Some(match kind {
            "queue" if way.in_host => {
                let mtu = way.host?.mtu;
                let queue = self.discipline(name, &link.queue, mtu, self.case.link_rate(place));
                Box::new(Port::new(queue, None, Dur::ZERO))
            }
            "queue" | "wire" => self.wire(name, way)?,
            "nic" => Self::sending(way)?,
            "police" => {
                let (rate, burst) = link.policer?;
                Box::new(Policer(Bucket::new(rate, burst)))
            }
            "loss" => Box::new(self.loss(name, way)?),
            "corrupt" => Box::new(Damage(link.corrupt, self.independent(name, "corrupt"))),
            "duplicate" => Box::new(Duplicates(link.duplicate, self.independent(name, "duplicate"))),
            "reorder" => self.reorder(name, way)?,
            "slot" => {
                let (shortest, longest, packets) = link.slot?;
                Box::new(Slots::new(shortest, longest, packets, self.stream(name, "slot")))
            }
            "jitter" => Box::new(Jitter {
                delay: link.delay,
                size: link.jitter.size,
                distribution: link.jitter.distribution,
                random: Correlated::new(self.stream(name, "jitter"), link.jitter.correlation),
                flight: VecDeque::new(),
            }),
            "thin" => Box::new(acks::Thinning {
                one_in: link.ack_thinning,
                longest: link.ack_thinning_wait,
                last: BTreeMap::new(),
                groups: VecDeque::new(),
            }),
            "mark" => {
                let data = &self.case.net.links[place].name;
                let queue = if forward { format!("queue.{data}.back") } else { format!("queue.{data}") };
                let queue = *self.places.get(queue.as_str())?;
                Box::new(acks::Echo { queue, above: link.queue.threshold.get() })
            }
            "ingress" => Box::new(Tag(self.is_second_half(place, forward)?)),
            _ => return None,
        })
    }

    fn stream(&self, name: &str, purpose: &str) -> tcpassay_units::Stream {
        self.seed.stream(&format!("{name}.{purpose}"))
    }

    fn independent(&self, name: &str, purpose: &str) -> Correlated {
        Correlated::new(self.stream(name, purpose), 0.0)
    }

    fn direction(&self, place: usize, forward: bool) -> Direction<'a> {
        let link = &self.case.net.links[place];
        let from = if forward { link.from } else { link.to };
        let host = match from {
            Node::Host(host) => Some(&self.case.hosts[host]),
            Node::Switch(_) => None,
        };
        // At a pair the queue is that of the link; in other networks it is that of a switch.
        let pair = matches!(self.case.net.shape, Shape::Pair);
        let queued =
            (forward || link.both_ways) && (pair || host.is_none()) && (link.main || link.group == "access");
        let in_host = queued && host.is_some() && self.case.stands_at_sender(place);
        Direction { place, forward, settings: &self.case.links[place], from, host, queued, in_host }
    }

    /// The largest MTU, for which queues of the path are made.
    fn mtu(&self) -> Bytes {
        self.case.hosts.iter().map(|host| host.mtu).max().expect("hosts")
    }

    /// A queue and the wire behind it.
    fn wire(&self, name: &str, way: Direction<'_>) -> Made {
        let link = way.settings;
        let LinkRate::Fixed(rate) = link.rate else { return None };
        let nic = way.host.map(|host| &host.nic);
        let rate = nic.and_then(|nic| nic.rate).map_or(rate, |nic| nic.min(rate));
        // With jitter the whole delay is that of the jitter.
        let jitter = way.forward && !link.jitter.size.is_zero();
        let delay = if jitter { Dur::ZERO } else { link.delay };
        let described = way.queued && !way.in_host;
        // Elsewhere the queue is that of the NIC, if it belongs to a host.
        let own = nic.filter(|_| !way.queued);
        let data = described && link.queue.mark == Mark::Data;
        let mark_above = if data { Some(link.queue.threshold) } else { own.and_then(|nic| nic.mark_above) };
        let mark_above = mark_above.map(Bytes::get);
        let limit = match own.and_then(|nic| nic.queue) {
            Some(packets) => Limit::packets(packets),
            None if described => limit(&link.queue, Limit::packets(1000)),
            None => Limit::NONE,
        };
        let bits = Some(rate.bits_per_sec());
        match (way.from, self.case.network.buffers) {
            (Node::Switch(at), Buffers::Shared(_)) => {
                let fifo = Box::new(Fifo::new(Limit::NONE, mark_above));
                return Some(Box::new(Port { shares: Some((at, 1.0)), ..Port::new(fifo, bits, delay) }));
            }
            (Node::Switch(_), Buffers::Dual(size)) => {
                let buffer =
                    || Fifo::new(Limit { packets: u64::from(u32::MAX), bytes: size.get() }, mark_above);
                let pair = Pair { buffers: [buffer(), buffer()], next: 0 };
                return Some(Box::new(Port::new(Box::new(pair), bits, delay)));
            }
            _ => {}
        }
        if described && link.queue.kind != QueueKind::Fifo {
            let queue = self.discipline(name, &link.queue, self.mtu(), self.case.link_rate(way.place));
            return Some(Box::new(Port::new(queue, bits, delay)));
        }
        Some(Box::new(Link::new(rate.bits_per_sec(), delay, limit, mark_above)))
    }

    /// The sending side of a NIC above a link.
    fn sending(way: Direction<'_>) -> Made {
        let (host, separate) = (way.host?, way.queued && !way.in_host);
        let nic = &host.nic;
        let notifies = matches!(host.small_queues, SmallQueues::Auto | SmallQueues::Bytes(_));
        let own = separate && (nic.rate.is_some() || nic.queue.is_some() || nic.mark_above.is_some());
        if !notifies && !own {
            return Some(Box::new(Segmentation));
        }
        let limit = nic.queue.map_or(Limit::NONE, Limit::packets);
        let fifo = Fifo::new(limit, nic.mark_above.filter(|_| separate).map(Bytes::get));
        let rate = nic.rate.map(Rate::bits_per_sec);
        Some(Box::new(Port { segments: true, ..Port::new(Box::new(fifo), rate, Dur::ZERO) }))
    }

    /// A discipline in front of a rate.
    fn discipline(&self, name: &str, queue: &QueueSettings, mtu: Bytes, rate: Rate) -> Box<dyn Discipline> {
        // Linux counts an Ethernet header with each packet.
        let frame = mtu.get() + 14;
        let or = |value: Option<Dur>, ms: u64| value.unwrap_or(Dur::from_millis(ms));
        let codel = || Parameters {
            target: or(queue.target, 5),
            interval: or(queue.interval, 100),
            spared: frame,
            ecn: queue.ecn,
        };
        let threshold = (queue.mark == Mark::Data).then_some(queue.threshold.get());
        let fifo = || Fifo::new(limit(queue, Limit::packets(1000)), threshold);
        match queue.kind {
            QueueKind::Fifo => Box::new(fifo()),
            QueueKind::Red => Box::new(Red {
                min: queue.red_min.as_f64(),
                max: queue.red_max.as_f64(),
                max_p: queue.red_probability,
                weight: 0.002,
                ecn: queue.ecn,
                typical: rate.time_for(mtu),
                limit: limit(queue, Limit::packets(1000)),
                random: self.stream(name, "red"),
                average: 0.0,
                count: -1,
                idle: Some(Time::ZERO),
                line: Line::default(),
            }),
            QueueKind::CoDel => Box::new(CoDel::new(codel(), in_packets(queue, mtu, 1000))),
            QueueKind::FqCoDel => {
                let salt = self.stream(name, "hash").bits32();
                Box::new(FqCoDel::new(codel(), in_packets(queue, mtu, 10_240), frame, salt))
            }
            QueueKind::Pie => Box::new(Pie::new(
                or(queue.target, 15),
                or(queue.interval, 15),
                queue.ecn,
                frame,
                in_packets(queue, mtu, 1000),
                self.stream(name, "pie"),
            )),
            QueueKind::DualPi2 => Box::new(DualPi2::new(
                or(queue.target, 15),
                or(queue.interval, 16),
                frame,
                limit(queue, Limit::packets(10_000)),
                self.stream(name, "dualpi2"),
            )),
            QueueKind::Fq => Box::new(Fair::new(frame, in_packets(queue, mtu, 10_000))),
            QueueKind::Tbf => {
                let rate = queue.rate.expect("a shaper has a rate");
                let burst = queue.burst.unwrap_or_else(|| rate.bytes_in(Dur::from_millis(1)).max(mtu * 10));
                Box::new(Tbf::new(rate, burst, fifo()))
            }
            QueueKind::Htb => {
                let rate = queue.rate.expect("a shaper has a rate");
                let burst = queue.burst.unwrap_or(mtu.max(Bytes::new(1600)));
                Box::new(Htb::new(rate, queue.classes, burst, fifo))
            }
        }
    }

    fn loss(&self, name: &str, way: Direction<'_>) -> Option<Loss> {
        let random = || self.stream(name, "loss");
        let link = way.settings;
        if !way.forward {
            let model = Model::Alone(link.ack_loss, Correlated::new(random(), 0.0));
            return Some(Loss { model, which: Which::Acks, seen: 0 });
        }
        let (model, which) = match draws::losses(link)? {
            LossProcess::Bernoulli { .. } => {
                (Model::Alone(link.loss, Correlated::new(random(), link.loss_correlation)), Which::All)
            }
            LossProcess::GilbertElliott { p, r, bad, good } => {
                let (change, loss) = ([p, r], [good, bad]);
                (Model::Bursts { change, loss, bad: 0, random: random() }, Which::All)
            }
            LossProcess::List(list) => (Model::List(list), Which::Data),
        };
        Some(Loss { model, which, seen: 0 })
    }

    fn reorder(&self, name: &str, way: Direction<'_>) -> Made {
        // Four times the transmission of the packets that may pass.
        let longest =
            |packets: u32| self.case.link_rate(way.place).time_for(self.mtu() * u64::from(packets)) * 4;
        Some(match way.settings.reorder {
            ReorderRule::Off => return None,
            ReorderRule::Gap { p, gap } => Box::new(HoldsBack {
                probability: p,
                gap: u64::from(gap),
                longest: longest(gap),
                random: self.stream(name, "reorder"),
                passed: 0,
                held: VecDeque::new(),
            }),
            ReorderRule::ReverseBurst(size) => Box::new(Reverses {
                size: usize::try_from(size).expect("32 bits"),
                longest: longest(size),
                burst: Vec::new(),
                until: Time::ZERO,
            }),
        })
    }

    /// Whether this direction enters its switch through the second half of the switch's ports.
    fn is_second_half(&self, place: usize, forward: bool) -> Option<bool> {
        let link = &self.case.net.links[place];
        let at @ Node::Switch(_) = (if forward { link.to } else { link.from }) else { return None };
        let links = self.case.net.links.iter().enumerate();
        let ports: Vec<usize> =
            links.filter(|(_, link)| link.from == at || link.to == at).map(|(port, _)| port).collect();
        let before = ports.iter().filter(|port| **port < place).count();
        Some(2 * before >= ports.len())
    }

    fn nic(&self, name: &str, host: &HostSettings) -> Box<dyn Element> {
        let nic = &host.nic;
        let frames = |n: u32| usize::try_from(n).expect("32 bits");
        let interrupt = match nic.adaptive {
            Adaptive::Off => Interrupt::Fixed(nic.rx_delay, frames(nic.rx_frames)),
            Adaptive::On => Interrupt::Adaptive(Moderation::new()),
            Adaptive::Hidden => {
                let delays = [nic.hidden_short, nic.hidden_long, nic.hidden_idle];
                Interrupt::Hidden(delays, frames(nic.hidden_frames))
            }
        };
        Box::new(Nic {
            interrupt,
            ring: nic.ring.map_or(usize::MAX, frames),
            cost: nic.rx_cost,
            merges: nic.gro.then(|| nic.gro_max.get()),
            timeout: nic.gro_timeout,
            reverses: nic.stale_hash.then(|| self.stream(name, "order")),
            state: State::default(),
        })
    }
}

/// `queue.limit`, or a default.
fn limit(queue: &QueueSettings, auto: Limit) -> Limit {
    match queue.limit {
        Some(QueueLimitValue::Bytes(bytes)) => Limit { packets: u64::from(u32::MAX), bytes: bytes.get() },
        Some(QueueLimitValue::Packets(packets)) => Limit::packets(packets),
        None if queue.place == QueuePlace::Undescribed => Limit::NONE,
        None => auto,
    }
}

/// The limit of a discipline that counts packets.
fn in_packets(queue: &QueueSettings, mtu: Bytes, auto: u32) -> Limit {
    Limit::packets(queue.packets(auto, mtu))
}
