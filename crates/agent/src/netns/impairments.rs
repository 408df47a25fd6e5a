//! Impairments of single packets on a link: loss, damage, duplicates, jitter, reordering by distance, thinning of ACKs, pauses.
//!
//! Except for pauses they have the rules of the model's elements
//! (`crates/sim/src/element/{loss,damage,jitter,reorder,thin}.rs`) and draw from the model's random streams,
//! so that with the same seed the same packets of a link are lost, damaged, duplicated or delayed on both
//! substrates. netem implements some of them (`link.drawn_by = netem`), with differences: it uses random
//! numbers of the kernel; with a rate its jitter also delays later packets and never reorders; its `reorder`
//! sends a packet ahead of others, whereas this module holds a packet back.
//!
//! This module does not send or receive packets; [`relay`](crate::netns::relay) does.

use crate::environment::Environment;
use std::collections::{BTreeMap, VecDeque};
use tcpassay_case::draws::{Chances, Distribution, Draws, Losses};
use tcpassay_case::params::grammar::{LossModel, ReorderRule};
use tcpassay_case::{Case, LinkSettings};
use tcpassay_units::{Bytes, Dur, Rate, Seed, Stream};

/// A packet that an impairment can damage.
pub trait Corruptible: Clone {
    /// Invalidates the checksum.
    fn damage(&mut self);
}

/// Source and destination address, then source and destination port, as in the packet.
pub type FlowKey = [u8; 12];

/// The properties of a packet on which impairments depend.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketSummary {
    /// A TCP segment with payload.
    pub data: bool,
    /// A TCP segment that only acknowledges.
    pub ack: bool,
    /// The flow of the packet.
    pub flow: FlowKey,
    /// The fields that ACK thinning needs; `None` if the packet is not a TCP segment.
    pub tcp: Option<AckFields>,
}

/// Fields of a TCP header on which the thinning of ACKs depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AckFields {
    /// Acknowledgement number.
    ack: u32,
    /// The flags AE, CWR and ECE.
    ecn: u16,
    /// The segment has SACK blocks.
    sack: bool,
    /// The segment is the last of its flow: FIN or RST.
    last: bool,
}

impl PacketSummary {
    /// The properties of an IPv4 packet. A packet that is not a TCP segment has the default properties.
    pub fn of(packet: &[u8]) -> PacketSummary {
        PacketSummary::read(packet).unwrap_or_default()
    }

    fn read(packet: &[u8]) -> Option<PacketSummary> {
        const TCP: u8 = 6;
        const FIN_SYN_RST: u8 = 7;
        const FIN_RST: u8 = 5;
        let header = usize::from(packet.first()? & 15) * 4;
        let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
        if *packet.get(9)? != TCP {
            return None;
        }
        let segment = packet.get(header..)?;
        let offset = usize::from(*segment.get(12)? >> 4) * 4;
        let flags = *segment.get(13)?;
        let data = total > header + offset;
        let tcp = AckFields {
            ack: u32::from_be_bytes(segment.get(8..12)?.try_into().ok()?),
            ecn: u16::from(segment[12] & 1) << 8 | u16::from(flags & 0xc0),
            sack: has_sack(segment.get(20..offset).unwrap_or_default()),
            last: flags & FIN_RST != 0,
        };
        let mut flow = [0; 12];
        flow[..8].copy_from_slice(packet.get(12..20)?);
        flow[8..].copy_from_slice(segment.get(..4)?);
        Some(PacketSummary { data, ack: !data && flags & FIN_SYN_RST == 0, flow, tcp: Some(tcp) })
    }
}

/// Returns true if TCP options contain SACK blocks (RFC 2018 section 3).
fn has_sack(mut options: &[u8]) -> bool {
    const END: u8 = 0;
    const NOP: u8 = 1;
    const SACK: u8 = 5;
    while let Some(kind) = options.first() {
        match *kind {
            SACK => return true,
            END => return false,
            NOP => options = &options[1..],
            _ => {
                let len = options.get(1).map_or(0, |len| usize::from(*len));
                match options.get(len..) {
                    Some(rest) if len >= 2 => options = rest,
                    _ => return false,
                }
            }
        }
    }
    false
}

/// The number of impaired packets, for the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImpairmentCounts {
    /// Lost packets.
    pub lost: u64,
    /// Damaged packets, which the receiving host drops.
    pub damaged: u64,
    /// Duplicated packets.
    pub duplicated: u64,
    /// ACKs that thinning removed.
    pub thinned: u64,
    /// Packets that reordering held back.
    pub held: u64,
}

/// The impairments of one direction of a link. Their order is that of the model: loss, thinning, damage, duplicates, reordering, jitter; then
/// pauses.
pub struct Impairments<T> {
    draws: Draws,
    /// The packets to which loss applies.
    loss_target: LossTarget,
    thinning: Option<AckThinning<T>>,
    reordering: Reordering<T>,
    /// The delay of the wire before the relay, which is a part of the total delay of a link with jitter.
    wire_delay: Dur,
    /// The packets that jitter delays, by the time at which they leave, then by arrival.
    delayed: BTreeMap<(u64, u64), T>,
    /// The number of packets that jitter has delayed.
    delay_count: u64,
    pauses: Option<Pauses<T>>,
    counts: ImpairmentCounts,
}

/// Pauses in which no packet leaves (`link.pause`).
struct Pauses<T> {
    every: u64,
    length: u64,
    /// The instant from which the times are counted.
    origin: u64,
    /// The packets of the present pause, in their order.
    waiting: Vec<T>,
    /// The instant at which they leave.
    until: u64,
}

impl<T> Pauses<T> {
    fn of(link: &LinkSettings, probing: bool) -> Option<Pauses<T>> {
        let (every, length) = link.pause.filter(|_| !probing)?;
        Some(Pauses {
            every: every.as_nanos(),
            length: length.as_nanos(),
            origin: 0,
            waiting: Vec::new(),
            until: 0,
        })
    }

    /// The end of the pause at this instant.
    fn end(&self, now: u64) -> Option<u64> {
        let since = now.saturating_sub(self.origin);
        let inside = since % self.every;
        (since >= self.every && inside < self.length).then(|| now - inside + self.length)
    }

    /// Processes packets that leave the other impairments.
    fn take(&mut self, now: u64, passed: Vec<T>, out: &mut Vec<T>) {
        if let Some(end) = self.end(now) {
            self.until = end;
            self.waiting.extend(passed);
        } else {
            out.append(&mut self.waiting);
            out.extend(passed);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LossTarget {
    All,
    Data,
    PureAcks,
}

/// One pure ACK of `one_in` is forwarded, by the rule of the model (`crates/sim/src/element/ack_thinning.rs`).
struct AckThinning<T> {
    one_in: u32,
    longest: u64,
    flows: BTreeMap<FlowKey, AckGroup<T>>,
}

struct AckGroup<T> {
    /// The acknowledgement number and the ECN flags of the last packet.
    last: Option<(u32, u16)>,
    /// The newest ACK of the current group, the number of its ACKs, and the instant at which the group ends.
    group: Option<(T, u32, u64)>,
}

impl<T> AckThinning<T> {
    /// Processes a segment. Returns the number of ACKs that it replaces, which are dropped.
    fn take(&mut self, now: u64, summary: PacketSummary, tcp: AckFields, packet: T, out: &mut Vec<T>) -> u64 {
        let acks = self.flows.entry(summary.flow).or_insert(AckGroup { last: None, group: None });
        let is_new = |(ack, ecn): (u32, u16)| tcp.ack.wrapping_sub(ack).cast_signed() > 0 && tcp.ecn == ecn;
        let thinned = summary.ack && !tcp.sack && acks.last.is_none_or(is_new);
        acks.last = Some((tcp.ack, tcp.ecn));
        if !thinned {
            out.extend(acks.group.take().map(|(held, ..)| held));
            out.push(packet);
            if tcp.last {
                self.flows.remove(&summary.flow);
            }
            return 0;
        }
        let (dropped, came, ends) = match acks.group.take() {
            Some((_, came, ends)) => (1, came + 1, ends),
            None => (0, 1, now + self.longest),
        };
        if came >= self.one_in {
            out.push(packet);
        } else {
            acks.group = Some((packet, came, ends));
        }
        dropped
    }

    fn due(&self) -> Option<u64> {
        self.flows.values().filter_map(|acks| acks.group.as_ref().map(|(.., ends)| *ends)).min()
    }

    fn release(&mut self, now: u64, out: &mut Vec<T>) {
        for acks in self.flows.values_mut() {
            if acks.group.as_ref().is_some_and(|(.., ends)| *ends <= now) {
                out.extend(acks.group.take().map(|(held, ..)| held));
            }
        }
    }
}

enum Reordering<T> {
    Kept,
    /// Held packets, each with the number of packets that must still pass it and the latest instant at which it leaves.
    HoldBack {
        probability: f64,
        gap: u32,
        longest: u64,
        held: VecDeque<(T, u32, u64)>,
        rng: Stream,
    },
    /// A burst that is being collected, and the latest instant at which it leaves.
    Reverse {
        size: usize,
        longest: u64,
        burst: Vec<T>,
        due: u64,
    },
}

impl<T: Corruptible> Impairments<T> {
    /// The impairments in the direction of the data of a link with this name, rate and MTU; `None` if it has none. `probing`: only those that
    /// the probes of the path expect, without lists and reordering.
    pub fn forward(
        link: &LinkSettings,
        name: &str,
        (rate, mtu): (Rate, Bytes),
        seed: Seed,
        probing: bool,
    ) -> Option<Impairments<T>> {
        let list = matches!(link.loss_model, LossModel::List(_));
        // A packet is held at most four times as long as the packets that must pass it need on the wire, as in the model.
        let longest = |packets: u32| (rate.time_for(mtu * u64::from(packets)) * 4).as_nanos();
        let reordering = match link.reorder {
            ReorderRule::Gap { p, gap } if !probing => Reordering::HoldBack {
                probability: p,
                gap,
                longest: longest(gap),
                held: VecDeque::new(),
                rng: seed.stream(&format!("reorder.{name}.reorder")),
            },
            ReorderRule::ReverseBurst(n) if !probing => {
                Reordering::Reverse { size: n as usize, longest: longest(n), burst: Vec::new(), due: 0 }
            }
            ReorderRule::Off | ReorderRule::Gap { .. } | ReorderRule::ReverseBurst(_) => Reordering::Kept,
        };
        let mut draws = Draws::forward(link, name, seed);
        if list && probing {
            draws.losses = None;
        }
        let loss_target = if list { LossTarget::Data } else { LossTarget::All };
        (link.has_drawn_impairments() || link.has_own_impairments()).then(|| Impairments {
            wire_delay: wire_delay(link),
            pauses: Pauses::of(link, probing),
            ..Impairments::new(draws, loss_target, None, reordering)
        })
    }

    /// The impairments in the direction of the ACKs; `None` if there are none.
    pub fn backward(link: &LinkSettings, name: &str, seed: Seed, probing: bool) -> Option<Impairments<T>> {
        let thinning = (link.ack_thinning > 1 && !probing).then(|| AckThinning {
            one_in: link.ack_thinning,
            longest: link.ack_thinning_wait.as_nanos(),
            flows: BTreeMap::new(),
        });
        let draws = Draws::backward(link, name, seed);
        let any =
            link.ack_thinning > 1 || link.ack_loss > 0.0 || link.pause.is_some() || link.has_middlebox();
        any.then(|| Impairments {
            pauses: Pauses::of(link, probing),
            ..Impairments::new(draws, LossTarget::PureAcks, thinning, Reordering::Kept)
        })
    }

    fn new(
        draws: Draws,
        loss_target: LossTarget,
        thinning: Option<AckThinning<T>>,
        reordering: Reordering<T>,
    ) -> Impairments<T> {
        Impairments {
            draws,
            loss_target,
            thinning,
            reordering,
            wire_delay: Dur::ZERO,
            delayed: BTreeMap::new(),
            delay_count: 0,
            pauses: None,
            counts: ImpairmentCounts::default(),
        }
    }

    /// Sets the beginning of the run, from which pauses are counted.
    pub fn begin(&mut self, now: u64) {
        if let Some(pauses) = &mut self.pauses {
            pauses.origin = now;
        }
    }

    /// Returns true if packets may be delayed, so that the caller must know the time.
    pub fn holds(&self) -> bool {
        self.thinning.is_some()
            || self.draws.delays.is_some()
            || self.pauses.is_some()
            || !matches!(self.reordering, Reordering::Kept)
    }

    /// The counts until now.
    pub fn counts(&self) -> ImpairmentCounts {
        self.counts
    }

    /// Processes a packet that arrives at `now`. Appends the packets that leave to `out`.
    pub fn take(&mut self, now: u64, summary: PacketSummary, packet: T, out: &mut Vec<T>) {
        let mut passed = Vec::new();
        self.impair(now, summary, packet, &mut passed);
        self.pass(now, passed, out);
    }

    fn pass(&mut self, now: u64, passed: Vec<T>, out: &mut Vec<T>) {
        match &mut self.pauses {
            Some(pauses) => pauses.take(now, passed, out),
            None => out.extend(passed),
        }
    }

    fn impair(&mut self, now: u64, summary: PacketSummary, mut packet: T, out: &mut Vec<T>) {
        let applies = match self.loss_target {
            LossTarget::All => true,
            LossTarget::Data => summary.data,
            LossTarget::PureAcks => summary.ack,
        };
        if applies && self.draws.losses.as_mut().is_some_and(Losses::loses) {
            self.counts.lost += 1;
            return;
        }
        if let (Some(thinning), Some(tcp)) = (&mut self.thinning, summary.tcp) {
            self.counts.thinned += thinning.take(now, summary, tcp, packet, out);
            return;
        }
        if self.draws.corrupt.as_mut().is_some_and(Chances::hits) {
            self.counts.damaged += 1;
            packet.damage();
        }
        let mut passed = Vec::new();
        if self.draws.duplicate.as_mut().is_some_and(Chances::hits) {
            self.counts.duplicated += 1;
            self.counts.held += self.reordering.take(now, packet.clone(), &mut passed);
        }
        self.counts.held += self.reordering.take(now, packet, &mut passed);
        self.delay(now, passed, out);
    }

    fn delay(&mut self, now: u64, passed: Vec<T>, out: &mut Vec<T>) {
        let Some(delays) = &mut self.draws.delays else {
            out.extend(passed);
            return;
        };
        for packet in passed {
            let more = delays.draw().saturating_sub(self.wire_delay);
            self.delay_count += 1;
            self.delayed.insert((now + more.as_nanos(), self.delay_count), packet);
        }
        self.depart(now, out);
    }

    /// Appends the packets whose delay has ended to `out`.
    fn depart(&mut self, now: u64, out: &mut Vec<T>) {
        while let Some(first) = self.delayed.first_entry()
            && first.key().0 <= now
        {
            out.push(first.remove());
        }
    }

    /// The instant at which the next delayed packet leaves without another arrival.
    pub fn due(&self) -> Option<u64> {
        let thinned = self.thinning.as_ref().and_then(AckThinning::due);
        let flying = self.delayed.first_key_value().map(|((due, _), _)| *due);
        let paused =
            self.pauses.as_ref().filter(|pauses| !pauses.waiting.is_empty()).map(|pauses| pauses.until);
        [thinned, self.reordering.due(), flying, paused].into_iter().flatten().min()
    }

    /// Appends the packets that must leave at `now` to `out`.
    pub fn release(&mut self, now: u64, out: &mut Vec<T>) {
        let mut left = Vec::new();
        if let Some(thinning) = &mut self.thinning {
            thinning.release(now, &mut left);
        }
        let mut passed = Vec::new();
        self.reordering.release(now, &mut passed);
        self.delay(now, passed, &mut left);
        self.depart(now, &mut left);
        self.pass(now, left, out);
    }
}

impl<T> Reordering<T> {
    /// Processes a packet. Returns the number of packets that it begins to hold back.
    fn take(&mut self, now: u64, packet: T, out: &mut Vec<T>) -> u64 {
        match self {
            Reordering::Kept => out.push(packet),
            Reordering::HoldBack { probability, gap, longest, held, rng } => {
                if rng.chance(*probability) {
                    held.push_back((packet, *gap, now + *longest));
                    return 1;
                }
                out.push(packet);
                for (_, passing, _) in held.iter_mut() {
                    *passing -= 1;
                }
                while held.front().is_some_and(|(_, passing, _)| *passing == 0) {
                    out.extend(held.pop_front().map(|(packet, ..)| packet));
                }
            }
            Reordering::Reverse { size, longest, burst, due } => {
                if burst.is_empty() {
                    *due = now + *longest;
                }
                burst.push(packet);
                if burst.len() >= *size {
                    out.extend(burst.drain(..).rev());
                }
                return 1;
            }
        }
        0
    }

    fn due(&self) -> Option<u64> {
        match self {
            Reordering::Kept => None,
            Reordering::HoldBack { held, .. } => held.front().map(|(_, _, latest)| *latest),
            Reordering::Reverse { burst, due, .. } => (!burst.is_empty()).then_some(*due),
        }
    }

    fn release(&mut self, now: u64, out: &mut Vec<T>) {
        match self {
            Reordering::Kept => {}
            Reordering::HoldBack { held, .. } => {
                while held.front().is_some_and(|(_, _, latest)| *latest <= now) {
                    out.extend(held.pop_front().map(|(packet, ..)| packet));
                }
            }
            Reordering::Reverse { burst, due, .. } => {
                if *due <= now {
                    out.extend(burst.drain(..).rev());
                }
            }
        }
    }
}

/// Returns true if the random streams of the model impair the packets of a link, instead of netem. In real time it is always netem.
pub fn drawn_here(case: &Case, link: usize, environment: &Environment) -> bool {
    case.draws_impairments(link, environment.is_host())
}

/// Returns true if a link has a relay.
pub fn relayed(case: &Case, link: usize, environment: &Environment) -> bool {
    case.has_relay(link, environment.is_host())
}

/// The settings of a link without the impairments that the relay applies.
pub fn left_to_netem(link: &LinkSettings) -> LinkSettings {
    let mut left = link.clone();
    left.delay = wire_delay(link);
    (left.loss, left.corrupt, left.duplicate, left.ack_loss) = (0.0, 0.0, 0.0, 0.0);
    left.loss_model = LossModel::Bernoulli;
    left.jitter.size = Dur::ZERO;
    left
}

/// The smallest delay of a link with jitter. The wire has this delay, and the relay adds the rest.
fn wire_delay(link: &LinkSettings) -> Dur {
    // Quantiles are cut at four standard deviations (crates/case/src/draws/delay.rs).
    let most = if link.jitter.distribution == Distribution::Uniform { 1 } else { 4 };
    link.delay.saturating_sub(link.jitter.size * most)
}

#[cfg(test)]
mod tests;
