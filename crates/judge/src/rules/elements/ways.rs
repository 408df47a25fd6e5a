//! The way of packets between elements: what leaves one element arrives at the next one of the path at once and unchanged.

use crate::facts::Facts;
use std::collections::BTreeMap;
use tcpassay_case::Case;
use tcpassay_case::topology::{DirectedLink, Node};
use tcpassay_measure::{ElementLog, ElementRow};

/// Where packets that leave an element go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Element(usize),
    /// The next link of the path from this switch.
    Switch(usize),
    /// They have reached their host.
    Host,
    Unknown,
}

/// No element has this number: rows number elements with 16 bits.
const NOWHERE: (u32, u32) = (u32::MAX, 0);

/// The ways of a network, and the packets between two elements.
#[derive(Debug)]
pub(super) struct Ways<'a> {
    case: &'a Case,
    /// For each element.
    next: Vec<Next>,
    /// For each direction of a link the element at which it begins.
    first: Vec<[Option<usize>; 2]>,
    /// The rows of the log.
    rows: &'a [ElementRow],
    /// For each packet by its number: where it must arrive, and the row in which it left ([`NOWHERE`]: it does not move).
    moving: Vec<(u32, u32)>,
}

/// The elements of a direction of a link, in order, as far as they exist.
fn chain(case: &Case, place: usize, forward: bool, places: &BTreeMap<&str, usize>) -> Vec<usize> {
    let name = &case.net.links[place].name;
    let name = if forward { name.clone() } else { format!("{name}.back") };
    let in_host = places.contains_key(format!("wire.{name}").as_str());
    let (above, line) = if in_host { ("queue", "wire") } else { ("", "queue") };
    let behind: &[&str] = if forward {
        &["loss", "corrupt", "duplicate", "reorder", "slot", "jitter"]
    } else {
        &["loss", "thin"]
    };
    let kinds = [above, "nic", "police", line].into_iter().chain(behind.iter().copied());
    kinds
        .chain(["mark", "ingress"])
        .filter_map(|kind| places.get(format!("{kind}.{name}").as_str()).copied())
        .collect()
}

impl<'a> Ways<'a> {
    pub fn new(facts: &'a Facts, log: &'a ElementLog) -> Ways<'a> {
        let names = log.names();
        let case = facts.case();
        let places: BTreeMap<&str, usize> =
            names.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
        let mut next = vec![Next::Unknown; names.len()];
        let mut first = vec![[None; 2]; case.net.links.len()];
        for host in &case.net.hosts {
            let stack = places.get(host.name.as_str());
            let nic = places.get(format!("rx.{}", host.name).as_str());
            if let Some(stack) = stack {
                next[*stack] = Next::Host;
                if let Some(nic) = nic {
                    next[*nic] = Next::Element(*stack);
                }
            }
        }
        for (place, link) in case.net.links.iter().enumerate() {
            for (forward, to) in [(true, link.to), (false, link.from)] {
                let chain = chain(case, place, forward, &places);
                for pair in chain.windows(2) {
                    next[pair[0]] = Next::Element(pair[1]);
                }
                let (Some(begin), Some(end)) = (chain.first(), chain.last()) else { continue };
                first[place][usize::from(forward)] = Some(*begin);
                next[*end] = match to {
                    Node::Switch(switch) => Next::Switch(switch),
                    Node::Host(host) => {
                        let name = &case.net.hosts[host].name;
                        let entry = places.get(format!("rx.{name}").as_str()).or(places.get(name.as_str()));
                        entry.map_or(Next::Unknown, |entry| Next::Element(*entry))
                    }
                };
            }
        }
        Ways { case, next, first, rows: log.rows(), moving: Vec::new() }
    }

    /// The first element on the way from a node to a host.
    fn begin(&self, from: Node, to: u16) -> Option<usize> {
        let DirectedLink { link, forward } = self.case.routes.next(from, usize::from(to))?;
        self.first[link][usize::from(forward)]
    }

    /// A packet departs from the element `place`; `at`: the number of the row.
    #[inline]
    pub fn departed(&mut self, place: usize, at: usize, row: &ElementRow) {
        let to = match self.next.get(place) {
            Some(Next::Element(next)) => Some(*next),
            Some(Next::Switch(switch)) => self.begin(Node::Switch(*switch), row.packet.dst),
            Some(Next::Host | Next::Unknown) | None => None,
        };
        let Some(to) = to else { return };
        let number = long(row.packet.id);
        if number >= self.moving.len() {
            self.moving.resize(number + 1, NOWHERE);
        }
        self.moving[number] = (short(to), short(at));
    }

    /// A packet arrives at the element `place`. Returns the element at which it should have arrived, if it is wrong here.
    #[inline]
    pub fn arrived(&mut self, place: usize, row: &ElementRow) -> Option<usize> {
        let packet = &row.packet;
        let moving = self.moving.get_mut(long(packet.id));
        let (to, left) = moving.map_or(NOWHERE, |moving| std::mem::replace(moving, NOWHERE));
        if to == NOWHERE.0 {
            // A host sends it.
            let first = self.begin(Node::Host(usize::from(packet.src)), packet.dst)?;
            return (first != place).then_some(first);
        }
        let (to, left) = (long(to), &self.rows[long(left)]);
        (to != place || left.at != row.at || !packet.equals_apart_from_mss(&left.packet)).then_some(to)
    }

    /// A packet that left an element before the end of the log and has not arrived anywhere.
    pub fn lost(&self, last: &ElementRow) -> Option<(usize, ElementRow)> {
        let moving = self.moving.iter().filter(|one| **one != NOWHERE);
        let mut moving = moving.map(|(to, left)| (long(*to), self.rows[long(*left)]));
        moving.find(|(_, left)| left.at < last.at)
    }
}

/// Logs have fewer than 2^32 rows and elements.
fn short(n: usize) -> u32 {
    u32::try_from(n).expect("a row or an element")
}

fn long(n: u32) -> usize {
    usize::try_from(n).expect("32 bits")
}
