//! The line of a host: when a packet leaves the queue above it.
//!
//! Packets wait in a host if its NIC or its access link has a rate of its own. Linux's sender has rules that depend on
//! what waits there (`tcp_should_autocork`). The queue is a FIFO behind a token bucket of one packet, as `tc` builds
//! it, so that the time of departure is known when a packet is sent: no event is necessary.

use std::collections::VecDeque;
use tcpassay_units::{Bytes, Dur, Rate, Time};

/// What `tc` adds to a bucket of one packet: two of its ticks, and at least an Ethernet header.
const TICKS: Dur = Dur::from_nanos(128);
const ETHERNET: u64 = 14;

/// The line of a host.
#[derive(Debug)]
pub(super) struct HostLine {
    rate: Rate,
    /// The time in which the bucket fills.
    depth: Dur,
    /// When the bucket is full again.
    full_at: Time,
    /// When the last packet leaves the queue.
    last: Time,
}

impl HostLine {
    pub fn new(rate: Rate, mtu: Bytes) -> HostLine {
        let bucket = mtu.get() + rate.bytes_in(TICKS).get().max(ETHERNET);
        HostLine { rate, depth: rate.time_for(Bytes::new(bucket)), full_at: Time::ZERO, last: Time::ZERO }
    }

    /// `packet` is sent at `now`. Segments of a super-segment leave one by one.
    pub fn enqueue(&mut self, now: Time, packet: QueuedPacket, waiting: &mut Waiting) {
        let segs = packet.segs.max(1);
        let (size, len) = (packet.size / segs, packet.len / segs);
        for _ in 0..segs {
            let leaves = self.leaves(now, u64::from(size));
            // A pure ACK has no memory of the socket (`skb_set_tcp_pure_ack`).
            if packet.len > 0 && leaves > now {
                waiting.push(leaves, u64::from(len) + packet.overhead);
            }
        }
    }

    /// A packet of `size` bytes is sent at `now`. Returns the time at which it leaves the queue.
    pub fn leaves(&mut self, now: Time, size: u64) -> Time {
        let cost = self.rate.time_for(Bytes::new(size));
        let spare = self.depth.saturating_sub(cost);
        let at = now.max(self.last).max(self.full_at.saturating_sub(spare));
        self.full_at = self.full_at.max(at) + cost;
        self.last = at;
        at
    }
}

/// A packet that its host sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedPacket {
    /// IP bytes of all segments.
    pub size: u32,
    /// Bytes of the stream.
    pub len: u32,
    pub segs: u32,
    /// Memory of a buffer in addition to its bytes.
    pub overhead: u64,
}

/// The packets of one connection that wait for the line of its host.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    /// When each leaves, and the memory that it needs.
    packets: VecDeque<(Time, u64)>,
    memory: u64,
}

impl Waiting {
    pub fn push(&mut self, leaves: Time, memory: u64) {
        self.packets.push_back((leaves, memory));
        self.memory += memory;
    }

    /// The memory of what waits at `now`.
    pub fn memory(&mut self, now: Time) -> u64 {
        while let Some(&(leaves, memory)) = self.packets.front()
            && leaves <= now
        {
            self.packets.pop_front();
            self.memory -= memory;
        }
        self.memory
    }

    /// When the next packet leaves.
    pub fn next(&self) -> Option<Time> {
        self.packets.front().map(|packet| packet.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Dur::from_micros(us)
    }

    #[test]
    fn the_first_packet_leaves_at_once_and_each_further_one_when_the_bucket_holds_it() {
        // 1000 bytes take 8 us.
        let mut line = HostLine::new(Rate::from_gbit(1), Bytes::new(1000));
        // The bucket holds 16 bytes more than a packet: 128 ns.
        let times = [1000, 1000, 1000].map(|size| line.leaves(at(100), size).since(at(100)).as_nanos());
        assert_eq!(times, [0, 7872, 15_872]);
        assert_eq!(line.leaves(at(200), 1000), at(200), "the bucket is full again");
        assert_eq!(line.leaves(at(200), 16), at(200), "a small packet takes the rest");
        assert!(line.leaves(at(200), 16) > at(200));
    }

    #[test]
    fn memory_is_counted_until_its_packet_leaves() {
        let mut waiting = Waiting::default();
        waiting.push(at(8), 2228);
        waiting.push(at(16), 1768);
        assert_eq!((waiting.memory(at(7)), waiting.next()), (3996, Some(at(8))));
        assert_eq!((waiting.memory(at(8)), waiting.next()), (1768, Some(at(16))));
        assert_eq!((waiting.memory(at(16)), waiting.next()), (0, None));
    }
}
