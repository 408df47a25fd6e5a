//! Links without a discipline of their own, segmentation, and the checksum of a host.

use super::element::{Effects, Element, Held, World};
use std::collections::VecDeque;
use tcpassay_measure::{DropReason, ElementPacket};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// Limit of a backlog.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub packets: u64,
    pub bytes: u64,
}

impl Limit {
    pub const NONE: Limit = Limit { packets: u64::MAX, bytes: u64::MAX };

    pub fn packets(packets: u32) -> Limit {
        Limit { packets: u64::from(packets), bytes: u64::MAX }
    }

    /// Whether one more packet fits behind a backlog.
    pub fn holds(self, packets: usize, bytes: u64, size: u32) -> bool {
        (packets as u64) < self.packets && bytes.saturating_add(u64::from(size)) <= self.bytes
    }
}

/// When packets have left a transmitter: the sum of the bits of a busy period over the rate, rounded down to a nanosecond.
#[derive(Clone, Copy, Debug)]
pub(super) struct Serial {
    /// Bits per second; `None`: transmission takes no time.
    rate: Option<u64>,
    busy_since: Time,
    bits: u128,
    pub free_at: Time,
}

impl Serial {
    pub fn new(rate: Option<u64>) -> Serial {
        Serial { rate, busy_since: Time::ZERO, bits: 0, free_at: Time::ZERO }
    }

    /// A new busy period begins.
    pub fn restart(&mut self, now: Time) {
        (self.busy_since, self.bits) = (now, 0);
        self.free_at = now;
    }

    /// Sends a packet behind those that were sent.
    pub fn send(&mut self, size: u32) -> Time {
        if let Some(rate) = self.rate {
            self.bits += u128::from(size) * 8;
            let scaled = self.bits * 1_000_000_000;
            // A division of 64 bits takes a fraction of the time.
            let takes = u64::try_from(scaled).map_or_else(
                |_| nanoseconds(scaled / u128::from(rate)),
                |scaled| Dur::from_nanos(scaled / rate),
            );
            self.free_at = self.busy_since + takes;
        }
        self.free_at
    }
}

pub(super) fn nanoseconds(n: u128) -> Dur {
    Dur::from_nanos(u64::try_from(n).unwrap_or(u64::MAX))
}

/// A link: a queue with a limit and a marking threshold, a rate and a delay.
#[derive(Debug)]
pub(super) struct Link {
    pub serial: Serial,
    pub delay: Dur,
    pub limit: Limit,
    pub mark_above: Option<u64>,
    /// The packets whose transmission has not begun: when it begins, and their sizes.
    pub waiting: VecDeque<(Time, u32)>,
    pub waiting_bytes: u64,
    /// The longest backlog after an arrival.
    pub longest: u64,
    pub flight: VecDeque<(Time, Held)>,
}

impl Link {
    pub fn new(rate: u64, delay: Dur, limit: Limit, mark_above: Option<u64>) -> Link {
        let (waiting, flight) = (VecDeque::new(), VecDeque::new());
        Link {
            serial: Serial::new(Some(rate)),
            delay,
            limit,
            mark_above,
            waiting,
            waiting_bytes: 0,
            longest: 0,
            flight,
        }
    }

    /// Bytes of the packets whose transmission has not begun.
    fn waiting_bytes(&mut self, now: Time) -> u64 {
        while let Some((_, size)) = self.waiting.pop_front_if(|(begins, _)| *begins <= now) {
            self.waiting_bytes -= u64::from(size);
        }
        self.waiting_bytes
    }
}

impl Element for Link {
    fn arrives(&mut self, now: Time, mut held: Held, _: &mut World, out: &mut Effects) {
        let size = held.packet.size;
        if self.serial.free_at > now {
            let bytes = self.waiting_bytes(now);
            if !self.limit.holds(self.waiting.len(), bytes, size) {
                out.drops(held, DropReason::Full);
                return;
            }
            if self.mark_above.is_some_and(|threshold| bytes > threshold) {
                out.marks(&mut held);
            }
            self.waiting.push_back((self.serial.free_at, size));
            self.waiting_bytes += u64::from(size);
            self.longest = self.longest.max(self.waiting_bytes);
        } else {
            self.serial.restart(now);
        }
        let left = self.serial.send(size);
        self.flight.push_back((left + self.delay, held));
    }

    fn due(&self) -> Option<Time> {
        self.flight.front().map(|(due, _)| *due)
    }

    fn acts(&mut self, now: Time, _: &mut World, out: &mut Effects) {
        while let Some((_, held)) = self.flight.pop_front_if(|(due, _)| *due <= now) {
            out.departs(held);
        }
    }

    fn backlog(&mut self, now: Time, _: u32) -> u64 {
        self.waiting_bytes(now)
    }

    fn longest(&self) -> Option<u64> {
        Some(self.longest)
    }
}

/// The packets of a super-segment (Linux `tcp_gso_segment`).
pub(super) fn segments(held: Held) -> impl Iterator<Item = Held> {
    let whole = held.packet;
    let count = u32::from(whole.segs);
    (0..count).map(move |n| {
        let from = n * u32::from(whole.mss);
        let last = n + 1 == count;
        let len = if last { whole.len - from } else { u32::from(whole.mss) };
        let mut flags = Flags::from_bits(whole.flags);
        if !last {
            flags = flags.without(Flags::FIN | Flags::PSH);
        }
        if n > 0 && !whole.is(ElementPacket::COUNTS) {
            flags = flags.without(Flags::CWR);
        }
        let size = len + u32::from(whole.headers);
        let seq = whole.seq.wrapping_add(from);
        let packet = ElementPacket { size, len, seq, segs: 1, flags: flags.bits(), ..whole };
        Held { packet, known: held.known && n == 0, ..held }
    })
}

/// Segmentation by a NIC without a queue.
#[derive(Debug)]
pub(super) struct Segmentation;

impl Element for Segmentation {
    fn arrives(&mut self, _: Time, held: Held, _: &mut World, out: &mut Effects) {
        if held.packet.segs == 1 {
            out.departs(held);
        } else {
            segments(held).for_each(|part| out.departs(part));
        }
    }
}

/// The input of a host, which drops damaged packets.
#[derive(Debug)]
pub(super) struct Checksum;

impl Element for Checksum {
    fn arrives(&mut self, _: Time, held: Held, _: &mut World, out: &mut Effects) {
        if held.packet.is(ElementPacket::CORRUPT) {
            out.drops(held, DropReason::Checksum);
        } else {
            out.departs(held);
        }
    }
}
