//! A port: a queueing discipline in front of a transmitter.

use super::element::{Effects, Element, Held, World};
use super::wire::{Serial, segments};
use std::collections::VecDeque;
use tcpassay_measure::{DropReason, ElementEvent};
use tcpassay_units::{Dur, Time};

/// What a discipline offers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Offer {
    Packet(Held),
    /// Packets wait, and none may leave before this time.
    Until(Time),
    Nothing,
}

/// A queueing discipline.
pub(super) trait Discipline {
    fn put(&mut self, now: Time, held: Held, out: &mut Effects);
    fn take(&mut self, now: Time, out: &mut Effects) -> Offer;
    /// Packets and bytes that wait.
    fn total(&self) -> (usize, u64);
    /// Bytes that wait in front of a packet of `flow`.
    fn backlog(&self, _flow: u32) -> u64 {
        self.total().1
    }
    /// Whether a packet may be taken from the queue without being sent, which the log does not show.
    fn peeks(&self) -> bool {
        false
    }
}

/// A port.
pub(super) struct Port {
    pub queue: Box<dyn Discipline>,
    pub serial: Serial,
    pub delay: Dur,
    /// Super-segments are segmented when they are sent.
    pub segments: bool,
    /// Index of the shared buffer, and the largest share of its free space.
    pub shares: Option<(usize, f64)>,
    pub flight: VecDeque<(Time, Held)>,
    /// When the transmitter asks the queue again.
    pub asks_at: Option<Time>,
    /// The longest backlog after an arrival.
    pub longest: u64,
}

impl Port {
    pub fn new(queue: Box<dyn Discipline>, rate: Option<u64>, delay: Dur) -> Port {
        let serial = Serial::new(rate);
        Port {
            queue,
            serial,
            delay,
            segments: false,
            shares: None,
            flight: VecDeque::new(),
            asks_at: None,
            longest: 0,
        }
    }

    fn account(&self, before: u64, world: &mut World) {
        if let Some((buffer, _)) = self.shares {
            let used = &mut world.buffers[buffer].1;
            *used = *used + self.queue.total().1 - before;
        }
    }

    fn serve(&mut self, now: Time, world: &mut World, out: &mut Effects) {
        self.asks_at = None;
        while self.serial.free_at <= now {
            let before = self.queue.total().1;
            let offer = self.queue.take(now, out);
            self.account(before, world);
            match offer {
                Offer::Nothing => return,
                Offer::Until(at) => {
                    self.asks_at = Some(at);
                    return;
                }
                Offer::Packet(held) => {
                    out.add(ElementEvent::Began, held);
                    if self.serial.free_at < now {
                        self.serial.restart(now);
                    }
                    if self.segments && held.packet.segs > 1 {
                        segments(held).for_each(|part| self.send(part));
                    } else {
                        self.send(held);
                    }
                }
            }
        }
        if self.queue.total().0 > 0 {
            self.asks_at = Some(self.serial.free_at);
        }
    }

    fn send(&mut self, held: Held) {
        let left = self.serial.send(held.packet.size);
        self.flight.push_back((left + self.delay, held));
    }
}

impl Element for Port {
    fn arrives(&mut self, now: Time, held: Held, world: &mut World, out: &mut Effects) {
        let (packets, bytes) = self.queue.total();
        let waits = self.serial.free_at > now || packets > 0;
        if waits && let Some((buffer, alpha)) = self.shares {
            let (size, used) = world.buffers[buffer];
            let free = size.saturating_sub(used);
            if u64::from(held.packet.size) > free || double(bytes) >= alpha * double(free) {
                out.drops(held, DropReason::Full);
                return;
            }
        }
        self.queue.put(now, held, out);
        self.account(bytes, world);
        self.longest = self.longest.max(self.queue.total().1);
        if self.serial.free_at > now {
            self.asks_at = Some(self.serial.free_at);
        } else {
            self.serve(now, world, out);
        }
    }

    fn due(&self) -> Option<Time> {
        let arrives = self.flight.front().map(|(due, _)| *due);
        [arrives, self.asks_at].into_iter().flatten().min()
    }

    fn acts(&mut self, now: Time, world: &mut World, out: &mut Effects) {
        while let Some((_, held)) = self.flight.pop_front_if(|(due, _)| *due <= now) {
            out.departs(held);
        }
        if self.asks_at.is_some_and(|at| at <= now) {
            self.serve(now, world, out);
        }
    }

    fn backlog(&mut self, _: Time, flow: u32) -> u64 {
        self.queue.backlog(flow)
    }

    fn longest(&self) -> Option<u64> {
        Some(self.longest)
    }

    fn is_ambiguous(&self, now: Time) -> bool {
        self.queue.peeks() && self.asks_at == Some(now) && self.serial.free_at == now
    }
}

#[expect(clippy::cast_precision_loss, reason = "a buffer is far below 2^53 bytes")]
pub(super) fn double(bytes: u64) -> f64 {
    bytes as f64
}
