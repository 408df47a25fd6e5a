//! What a link does to single packets on purpose: exact losses, reordering by distance, thinning of ACKs.
//!
//! netem has none of them: it draws its losses, and its `reorder` sends a packet ahead where these hold one back. They are what the
//! model's elements are (`crates/sim/src/element/{loss,reorder,damage}.rs`) and draw from the model's random streams, so that
//! on both substrates the same packets of a link are held for the same seed.
//!
//! This module must not know where packets come from: [`relay`](crate::relay) moves them.

use std::collections::{BTreeMap, VecDeque};
use tcpassay_sim::case::LinkSettings;
use tcpassay_sim::params::grammar::{LossModel, Reorder};
use tcpassay_units::{Bytes, Rate, Seed, Stream};

/// Ends of a connection, as one direction of it has them: addresses and ports in the order of the packet.
pub type Flow = [u8; 12];

/// What faults look at in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sort {
    /// A TCP segment with payload.
    pub data: bool,
    /// A TCP segment that does nothing but acknowledge.
    pub ack: bool,
    /// Whose.
    pub flow: Flow,
}

impl Sort {
    /// Of an IPv4 packet, by its headers; nothing in particular when it is no TCP segment.
    pub fn of(packet: &[u8]) -> Sort {
        Sort::read(packet).unwrap_or_default()
    }

    fn read(packet: &[u8]) -> Option<Sort> {
        const TCP: u8 = 6;
        const FIN_SYN_RST: u8 = 7;
        let header = usize::from(packet.first()? & 15) * 4;
        let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
        if *packet.get(9)? != TCP {
            return None;
        }
        let segment = packet.get(header..)?;
        let offset = usize::from(*segment.get(12)? >> 4) * 4;
        let flags = *segment.get(13)?;
        let data = total > header + offset;
        let mut flow = [0; 12];
        flow[..8].copy_from_slice(packet.get(12..20)?);
        flow[8..].copy_from_slice(segment.get(..4)?);
        Some(Sort { data, ack: !data && flags & FIN_SYN_RST == 0, flow })
    }
}

/// What was done, for the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Packets that a list named.
    pub lost: u64,
    /// ACKs that were thinned out.
    pub thinned: u64,
    /// Packets that were held back.
    pub held: u64,
}

/// The faults of one direction of a link, in the order of the model: losses, thinning, reordering.
pub struct Faults<T> {
    /// Numbers of data packets that are lost, from 1, ascending; what is left of them.
    list: VecDeque<u64>,
    data: u64,
    /// One ACK in so many is kept, the first of each group.
    one_in: u32,
    groups: BTreeMap<Flow, u32>,
    order: Order<T>,
    done: Done,
}

enum Order<T> {
    Kept,
    /// Held packets, each with how many must still pass it, and when it goes at the latest.
    HoldBack {
        probability: f64,
        gap: u32,
        longest: u64,
        held: VecDeque<(T, u32, u64)>,
        dice: Stream,
    },
    /// A burst that is being collected, and when it goes at the latest.
    Reverse {
        size: usize,
        longest: u64,
        burst: Vec<T>,
        due: u64,
    },
}

impl<T> Faults<T> {
    /// Those of the way of the data through a link of this name and rate; `None` when it has none.
    pub fn forward(link: &LinkSettings, name: &str, rate: Rate, mtu: Bytes, seed: Seed) -> Option<Faults<T>> {
        let list = match &link.loss_model {
            LossModel::List(packets) => packets.iter().copied().collect(),
            LossModel::Bernoulli | LossModel::GilbertElliott { .. } => VecDeque::new(),
        };
        // A held packet waits for four times what those it waits for take on the wire, as in the model.
        let longest = |packets: u32| (rate.time_for(mtu * u64::from(packets)) * 4).as_nanos();
        let order = match link.reorder {
            Reorder::Off => Order::Kept,
            Reorder::Gap { p, gap } => Order::HoldBack {
                probability: p,
                gap,
                longest: longest(gap),
                held: VecDeque::new(),
                dice: seed.stream(&format!("reorder.{name}.reorder")),
            },
            Reorder::ReverseBurst(n) => {
                Order::Reverse { size: n as usize, longest: longest(n), burst: Vec::new(), due: 0 }
            }
        };
        let any = !list.is_empty() || !matches!(order, Order::Kept);
        any.then(|| Faults {
            list,
            data: 0,
            one_in: 1,
            groups: BTreeMap::new(),
            order,
            done: Done::default(),
        })
    }

    /// Those of the way back; `None` when it has none.
    pub fn backward(link: &LinkSettings) -> Option<Faults<T>> {
        (link.ack_thinning > 1).then(|| Faults {
            list: VecDeque::new(),
            data: 0,
            one_in: link.ack_thinning,
            groups: BTreeMap::new(),
            order: Order::Kept,
            done: Done::default(),
        })
    }

    /// Whether packets may be held, so that the time matters.
    pub fn holds(&self) -> bool {
        !matches!(self.order, Order::Kept)
    }

    /// What was done until now.
    pub fn done(&self) -> Done {
        self.done
    }

    /// A packet comes at `now`: what goes on is appended to `out`.
    pub fn take(&mut self, now: u64, sort: Sort, packet: T, out: &mut Vec<T>) {
        if sort.data && !self.list.is_empty() {
            self.data += 1;
            if self.list.front() == Some(&self.data) {
                self.list.pop_front();
                self.done.lost += 1;
                return;
            }
        }
        if sort.ack && self.one_in > 1 {
            let nth = self.groups.entry(sort.flow).or_default();
            let first = *nth == 0;
            *nth = (*nth + 1) % self.one_in;
            if !first {
                self.done.thinned += 1;
                return;
            }
        }
        match &mut self.order {
            Order::Kept => out.push(packet),
            Order::HoldBack { probability, gap, longest, held, dice } => {
                if dice.chance(*probability) {
                    self.done.held += 1;
                    held.push_back((packet, *gap, now + *longest));
                    return;
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
                self.done.held += 1;
                burst.push(packet);
                if burst.len() >= *size {
                    out.extend(burst.drain(..).rev());
                }
            }
        }
    }

    /// When something has to go that nothing has come behind.
    pub fn due(&self) -> Option<u64> {
        match &self.order {
            Order::Kept => None,
            Order::HoldBack { held, .. } => held.front().map(|(_, _, latest)| *latest),
            Order::Reverse { burst, due, .. } => (!burst.is_empty()).then_some(*due),
        }
    }

    /// What has to go at `now`.
    pub fn release(&mut self, now: u64, out: &mut Vec<T>) {
        match &mut self.order {
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

/// Whether a link has a fault that nothing in the kernel is.
pub fn any(link: &LinkSettings) -> bool {
    link.reorder != Reorder::Off || link.ack_thinning > 1 || matches!(link.loss_model, LossModel::List(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap as Map;
    use tcpassay_sim::case::Case;
    use tcpassay_sim::params::{Substrate, Value};

    fn link(path: &str, value: &str) -> LinkSettings {
        let triples = Map::from([(path.to_owned(), Value::from(value))]);
        let no_files = |_: &str| Err(std::io::Error::other("no files"));
        Case::on(Substrate::Kernel, &triples, &no_files).unwrap().links[0].clone()
    }

    fn forward(path: &str, value: &str) -> Faults<u64> {
        let (rate, mtu) = (Rate::from_mbit(12), Bytes::new(1500));
        Faults::forward(&link(path, value), "bottleneck", rate, mtu, Seed(1)).unwrap()
    }

    /// What goes on of packets that come a millisecond apart.
    fn through(faults: &mut Faults<u64>, sort: Sort, packets: std::ops::RangeInclusive<u64>) -> Vec<u64> {
        let mut out = Vec::new();
        packets.for_each(|n| faults.take(n * 1_000_000, sort, n, &mut out));
        out
    }

    const DATA: Sort = Sort { data: true, ack: false, flow: [0; 12] };

    #[test]
    fn a_list_loses_exactly_these_data_packets() {
        let mut faults = forward("link.loss_model", "list:2,5");
        let mut out = Vec::new();
        // What has no payload is not counted.
        faults.take(0, Sort::default(), 100, &mut out);
        out.extend(through(&mut faults, DATA, 1..=6));
        assert_eq!(out, [100, 1, 3, 4, 6]);
        assert_eq!(faults.done(), Done { lost: 2, ..Done::default() });
    }

    #[test]
    fn a_held_packet_is_passed_by_exactly_the_gap() {
        let mut faults = forward("link.reorder", "2%:3");
        let out = through(&mut faults, DATA, 1..=1000);
        let held = faults.done().held;
        assert!((10..30).contains(&held), "{held}");
        let late: Vec<usize> = (0..out.len())
            .map(|at| out[..at].iter().filter(|before| **before > out[at]).count())
            .filter(|passed| *passed > 0)
            .collect();
        assert!(late.len() as u64 >= held - 1 && late.iter().all(|passed| *passed == 3), "{late:?}");
    }

    #[test]
    fn a_held_packet_goes_after_four_times_what_the_others_take_on_the_wire() {
        let mut faults = forward("link.reorder", "100%:3");
        assert_eq!(through(&mut faults, DATA, 1..=1), [0_u64; 0]);
        // 3 packets of 1500 bytes at 12 Mbit/s are 3 ms.
        assert_eq!(faults.due(), Some(13_000_000));
        let mut out = Vec::new();
        faults.release(12_999_999, &mut out);
        assert_eq!(out, [0_u64; 0]);
        faults.release(13_000_000, &mut out);
        assert_eq!((out, faults.due()), (vec![1], None));
    }

    #[test]
    fn bursts_arrive_backwards_and_the_last_is_released_by_time() {
        let mut faults = forward("link.reorder", "reverse-burst:4");
        let mut out = through(&mut faults, DATA, 1..=10);
        assert_eq!(out, [4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!(faults.due(), Some(25_000_000));
        faults.release(25_000_000, &mut out);
        assert_eq!((&out[8..], faults.due()), (&[10, 9][..], None));
    }

    #[test]
    fn of_each_flow_the_first_of_so_many_acks_is_kept() {
        let mut faults: Faults<u64> = Faults::backward(&link("link.ack_thinning", "3")).unwrap();
        let ack = |flow| Sort { data: false, ack: true, flow: [flow; 12] };
        assert_eq!(through(&mut faults, ack(1), 1..=5), [1, 4]);
        assert_eq!(through(&mut faults, ack(2), 6..=7), [6]);
        assert_eq!(through(&mut faults, DATA, 8..=9), [8, 9]);
        assert_eq!(faults.done(), Done { thinned: 4, ..Done::default() });
    }

    #[test]
    fn a_packet_is_what_its_headers_say() {
        let packet = |protocol: u8, flags: u8, payload: u8| {
            let mut bytes =
                vec![0x45, 0, 0, 52 + payload, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            bytes.extend([0, 80, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, flags, 0, 0, 0, 0, 0, 0]);
            bytes.resize(52 + usize::from(payload), 0);
            Sort::of(&bytes)
        };
        let flow = [10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 4, 0];
        let sort = |data, ack| Sort { data, ack, flow };
        assert_eq!(packet(6, 0x10, 0), sort(false, true));
        assert_eq!(packet(6, 0x18, 9), sort(true, false));
        assert_eq!(packet(6, 0x12, 0), sort(false, false));
        assert_eq!(packet(6, 0x11, 0), sort(false, false));
        assert_eq!(packet(17, 0x10, 9), Sort::default());
        assert_eq!(Sort::of(&[0x45, 0]), Sort::default());
    }
}
