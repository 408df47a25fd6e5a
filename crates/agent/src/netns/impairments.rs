//! What a link does to single packets: losses, damage, duplicates, jitter, reordering by distance, thinning of ACKs.
//!
//! They are what the model's elements are (`crates/sim/src/element/{loss,damage,jitter,reorder,thin}.rs`) and draw from the model's
//! random streams, so that on both substrates the same packets of a link meet the same fate for the same seed. netem has some of them
//! (`link.drawn_by = netem`): it draws from the kernel's randomness; with a rate its jitter delays the packets behind, too, and never
//! reorders; its `reorder` sends a packet ahead where this one holds one back.
//!
//! This module must not know where packets come from: [`relay`](crate::netns::relay) moves them.

use crate::environment::Environment;
use std::collections::{BTreeMap, VecDeque};
use tcpassay_case::draws::{Chances, Draws, Losses};
use tcpassay_case::params::Setting;
use tcpassay_case::params::grammar::{LossModel, Reorder};
use tcpassay_case::{Case, LinkSettings};
use tcpassay_units::{Bytes, Dur, Rate, Seed, Stream};

/// What faults happen to.
pub trait Corruptible: Clone {
    /// Makes the checksum wrong.
    fn damage(&mut self);
}

/// Ends of a connection, as one direction of it has them: addresses and ports in the order of the packet.
pub type Flow = [u8; 12];

/// What faults look at in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketSummary {
    /// A TCP segment with payload.
    pub data: bool,
    /// A TCP segment that does nothing but acknowledge.
    pub ack: bool,
    /// Whose.
    pub flow: Flow,
    /// What thinning looks at; `None` when it is no TCP segment.
    pub says: Option<AckFields>,
}

/// What a TCP segment says to the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AckFields {
    /// Acknowledgement number.
    ack: u32,
    /// Its flags AE, CWR and ECE.
    ecn: u16,
    /// It has SACK blocks.
    sack: bool,
    /// It is the last of its direction: FIN or RST.
    last: bool,
}

impl PacketSummary {
    /// Of an IPv4 packet, by its headers; nothing in particular when it is no TCP segment.
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
        let says = AckFields {
            ack: u32::from_be_bytes(segment.get(8..12)?.try_into().ok()?),
            ecn: u16::from(segment[12] & 1) << 8 | u16::from(flags & 0xc0),
            sack: has_sack(segment.get(20..offset).unwrap_or_default()),
            last: flags & FIN_RST != 0,
        };
        let mut flow = [0; 12];
        flow[..8].copy_from_slice(packet.get(12..20)?);
        flow[8..].copy_from_slice(segment.get(..4)?);
        Some(PacketSummary { data, ack: !data && flags & FIN_SYN_RST == 0, flow, says: Some(says) })
    }
}

/// Whether there are SACK blocks among a segment's options (RFC 2018 section 3).
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

/// What was done, for the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImpairmentCounts {
    /// Packets that were lost.
    pub lost: u64,
    /// Packets that were damaged, which the receiving host drops.
    pub damaged: u64,
    /// Packets that came twice.
    pub duplicated: u64,
    /// ACKs that were thinned out.
    pub thinned: u64,
    /// Packets that were held back.
    pub held: u64,
}

/// The faults of one direction of a link, in the order of the model: losses, thinning, damage, duplicates, reordering, jitter.
pub struct Impairments<T> {
    draws: Draws,
    /// What losses apply to.
    which: LossTarget,
    thin: Option<AckThinning<T>>,
    order: Order<T>,
    /// What the wire before has delayed already.
    delayed: Dur,
    /// Packets that jitter delays: by when they go, then by when they came.
    flight: BTreeMap<(u64, u64), T>,
    taken: u64,
    counts: ImpairmentCounts,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LossTarget {
    All,
    Data,
    PureAcks,
}

/// One pure ACK in so many goes on, by the rule of the model (`crates/sim/src/element/ack_thinning.rs`).
struct AckThinning<T> {
    one_in: u32,
    longest: u64,
    flows: BTreeMap<Flow, AckGroup<T>>,
}

struct AckGroup<T> {
    /// Acknowledgement number and flags for ECN of the last packet.
    last: Option<(u32, u16)>,
    /// The newest ACK of the group under way, how many came, and when the group ends.
    group: Option<(T, u32, u64)>,
}

impl<T> AckThinning<T> {
    /// A segment comes; how many ACKs were dropped for it.
    fn take(&mut self, now: u64, sort: PacketSummary, says: AckFields, packet: T, out: &mut Vec<T>) -> u64 {
        let acks = self.flows.entry(sort.flow).or_insert(AckGroup { last: None, group: None });
        let is_new = |(ack, ecn): (u32, u16)| says.ack.wrapping_sub(ack).cast_signed() > 0 && says.ecn == ecn;
        let thinned = sort.ack && !says.sack && acks.last.is_none_or(is_new);
        acks.last = Some((says.ack, says.ecn));
        if !thinned {
            out.extend(acks.group.take().map(|(held, ..)| held));
            out.push(packet);
            if says.last {
                self.flows.remove(&sort.flow);
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

enum Order<T> {
    Kept,
    /// Held packets, each with how many must still pass it, and when it goes at the latest.
    HoldBack {
        probability: f64,
        gap: u32,
        longest: u64,
        held: VecDeque<(T, u32, u64)>,
        rng: Stream,
    },
    /// A burst that is being collected, and when it goes at the latest.
    Reverse {
        size: usize,
        longest: u64,
        burst: Vec<T>,
        due: u64,
    },
}

impl<T: Corruptible> Impairments<T> {
    /// Those of the way of the data through a link of this name and rate; `None` when it has none. With `probing` only those that
    /// the probes of the path expect: neither lists nor reordering.
    pub fn forward(
        link: &LinkSettings,
        name: &str,
        (rate, mtu): (Rate, Bytes),
        seed: Seed,
        probing: bool,
    ) -> Option<Impairments<T>> {
        let list = matches!(link.loss_model, LossModel::List(_));
        // A held packet waits for four times what those it waits for take on the wire, as in the model.
        let longest = |packets: u32| (rate.time_for(mtu * u64::from(packets)) * 4).as_nanos();
        let order = match link.reorder {
            Reorder::Gap { p, gap } if !probing => Order::HoldBack {
                probability: p,
                gap,
                longest: longest(gap),
                held: VecDeque::new(),
                rng: seed.stream(&format!("reorder.{name}.reorder")),
            },
            Reorder::ReverseBurst(n) if !probing => {
                Order::Reverse { size: n as usize, longest: longest(n), burst: Vec::new(), due: 0 }
            }
            Reorder::Off | Reorder::Gap { .. } | Reorder::ReverseBurst(_) => Order::Kept,
        };
        let mut draws = Draws::forward(link, name, seed);
        if list && probing {
            draws.losses = None;
        }
        let which = if list { LossTarget::Data } else { LossTarget::All };
        any(link)
            .then(|| Impairments { delayed: wire_delay(link), ..Impairments::new(draws, which, None, order) })
    }

    /// Those of the way back; `None` when it has none.
    pub fn backward(link: &LinkSettings, name: &str, seed: Seed, probing: bool) -> Option<Impairments<T>> {
        let thin = (link.ack_thinning > 1 && !probing).then(|| AckThinning {
            one_in: link.ack_thinning,
            longest: link.ack_thinning_wait.as_nanos(),
            flows: BTreeMap::new(),
        });
        let draws = Draws::backward(link, name, seed);
        (link.ack_thinning > 1 || link.ack_loss > 0.0)
            .then(|| Impairments::new(draws, LossTarget::PureAcks, thin, Order::Kept))
    }

    fn new(draws: Draws, which: LossTarget, thin: Option<AckThinning<T>>, order: Order<T>) -> Impairments<T> {
        let (delayed, flight) = (Dur::ZERO, BTreeMap::new());
        Impairments {
            draws,
            which,
            thin,
            order,
            delayed,
            flight,
            taken: 0,
            counts: ImpairmentCounts::default(),
        }
    }

    /// Whether packets may be held, so that the time matters.
    pub fn holds(&self) -> bool {
        self.thin.is_some() || self.draws.delays.is_some() || !matches!(self.order, Order::Kept)
    }

    /// The counts until now.
    pub fn counts(&self) -> ImpairmentCounts {
        self.counts
    }

    /// A packet comes at `now`: what goes on is appended to `out`.
    pub fn take(&mut self, now: u64, sort: PacketSummary, mut packet: T, out: &mut Vec<T>) {
        let applies = match self.which {
            LossTarget::All => true,
            LossTarget::Data => sort.data,
            LossTarget::PureAcks => sort.ack,
        };
        if applies && self.draws.losses.as_mut().is_some_and(Losses::loses) {
            self.counts.lost += 1;
            return;
        }
        if let (Some(thin), Some(says)) = (&mut self.thin, sort.says) {
            self.counts.thinned += thin.take(now, sort, says, packet, out);
            return;
        }
        if self.draws.corrupt.as_mut().is_some_and(Chances::hits) {
            self.counts.damaged += 1;
            packet.damage();
        }
        let mut passed = Vec::new();
        if self.draws.duplicate.as_mut().is_some_and(Chances::hits) {
            self.counts.duplicated += 1;
            self.counts.held += self.order.take(now, packet.clone(), &mut passed);
        }
        self.counts.held += self.order.take(now, packet, &mut passed);
        self.delay(now, passed, out);
    }

    fn delay(&mut self, now: u64, passed: Vec<T>, out: &mut Vec<T>) {
        let Some(delays) = &mut self.draws.delays else {
            out.extend(passed);
            return;
        };
        for packet in passed {
            let more = delays.draw().saturating_sub(self.delayed);
            self.taken += 1;
            self.flight.insert((now + more.as_nanos(), self.taken), packet);
        }
        self.depart(now, out);
    }

    /// What jitter has delayed for long enough goes on.
    fn depart(&mut self, now: u64, out: &mut Vec<T>) {
        while let Some(first) = self.flight.first_entry()
            && first.key().0 <= now
        {
            out.push(first.remove());
        }
    }

    /// When something has to go that nothing has come behind.
    pub fn due(&self) -> Option<u64> {
        let thinned = self.thin.as_ref().and_then(AckThinning::due);
        let flying = self.flight.first_key_value().map(|((due, _), _)| *due);
        [thinned, self.order.due(), flying].into_iter().flatten().min()
    }

    /// What has to go at `now`.
    pub fn release(&mut self, now: u64, out: &mut Vec<T>) {
        if let Some(thin) = &mut self.thin {
            thin.release(now, out);
        }
        let mut passed = Vec::new();
        self.order.release(now, &mut passed);
        self.delay(now, passed, out);
        self.depart(now, out);
    }
}

impl<T> Order<T> {
    /// A packet comes; how many are held for it.
    fn take(&mut self, now: u64, packet: T, out: &mut Vec<T>) -> u64 {
        match self {
            Order::Kept => out.push(packet),
            Order::HoldBack { probability, gap, longest, held, rng } => {
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
            Order::Reverse { size, longest, burst, due } => {
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
            Order::Kept => None,
            Order::HoldBack { held, .. } => held.front().map(|(_, _, latest)| *latest),
            Order::Reverse { burst, due, .. } => (!burst.is_empty()).then_some(*due),
        }
    }

    fn release(&mut self, now: u64, out: &mut Vec<T>) {
        match self {
            Order::Kept => {}
            Order::HoldBack { held, .. } => {
                while held.front().is_some_and(|(_, _, latest)| *latest <= now) {
                    out.extend(held.pop_front().map(|(packet, ..)| packet));
                }
            }
            Order::Reverse { burst, due, .. } => {
                if *due <= now {
                    out.extend(burst.drain(..).rev());
                }
            }
        }
    }
}

/// Whether a link does anything to single packets.
fn any(link: &LinkSettings) -> bool {
    drawn(link) || only_here(link)
}

/// What netem has, too.
fn drawn(link: &LinkSettings) -> bool {
    link.loss > 0.0
        || matches!(link.loss_model, LossModel::GilbertElliott { .. })
        || link.corrupt > 0.0
        || link.duplicate > 0.0
        || link.ack_loss > 0.0
        || !link.jitter.size.is_zero()
}

/// What nothing in Linux is.
fn only_here(link: &LinkSettings) -> bool {
    link.reorder != Reorder::Off || link.ack_thinning > 1 || matches!(link.loss_model, LossModel::List(_))
}

/// Whether the model's streams decide about the packets of a link, and not netem. In real time netem is all there is.
pub fn drawn_here(case: &Case, link: usize, environment: &Environment) -> bool {
    !environment.is_host() && !matches!(case.link_setting(link, "link.drawn_by").0, Setting::Word("netem"))
}

/// Whether a link has a relay.
pub fn relayed(case: &Case, link: usize, environment: &Environment) -> bool {
    let settings = &case.links[link];
    only_here(settings) || drawn(settings) && drawn_here(case, link, environment)
}

/// A link without what the model's streams decide.
pub fn left_to_netem(link: &LinkSettings) -> LinkSettings {
    let mut left = link.clone();
    left.delay = wire_delay(link);
    (left.loss, left.corrupt, left.duplicate, left.ack_loss) = (0.0, 0.0, 0.0, 0.0);
    left.loss_model = LossModel::Bernoulli;
    left.jitter.size = Dur::ZERO;
    left
}

/// The least that a packet takes through a link with jitter: the wire delays by this, and the relay by the rest.
fn wire_delay(link: &LinkSettings) -> Dur {
    // Quantiles are cut at four standard deviations (crates/case/src/draws/delay.rs).
    let most = if link.jitter.distribution == "uniform" { 1 } else { 4 };
    link.delay.saturating_sub(link.jitter.size * most)
}

#[cfg(test)]
mod tests;
