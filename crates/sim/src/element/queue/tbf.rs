//! The token bucket filter, as in Linux's `net/sched/sch_tbf.c`.
//!
//! As in Linux, tokens are measured in time: a bucket of B bytes at rate R holds at most B / R, and a packet consumes
//! its transmission time at R. A super-segment larger than the bucket is segmented on arrival, because it could never
//! be sent; a wire packet larger than the bucket is dropped. Differences: there is no peak rate, and transmission
//! times are not rounded (the remainder is carried over to the next packet).

use super::discipline::{Discipline, DisciplineSpec};
use crate::element::Backlog;
use crate::element::split::split;
use crate::engine::{Core, DropReason, ElementContext, PacketId};
use tcpassay_units::{Bytes, Carry, Dur, Rate, Seed, Time};

/// A token bucket in front of another discipline.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TbfSpec {
    /// The long-term rate.
    pub rate: Rate,
    /// Size of the bucket: bytes that may leave at once after an idle time.
    pub burst: Bytes,
    /// The discipline that holds waiting packets.
    pub inner: DisciplineSpec,
}

#[derive(Clone, Debug)]
pub(crate) struct Tbf {
    rate: Rate,
    burst: Bytes,
    /// `burst` as time at `rate`.
    depth: Dur,
    tokens: Dur,
    checked: Time,
    carry: Carry,
    inner: Discipline,
    /// The next packet, taken from `inner`, which waits for tokens.
    head: Option<PacketId>,
    head_bytes: u64,
}

impl Tbf {
    pub fn new(spec: TbfSpec, name: &str, seed: Seed) -> Tbf {
        let depth = spec.rate.time_for(spec.burst);
        Tbf {
            rate: spec.rate,
            burst: spec.burst,
            depth,
            tokens: depth,
            checked: Time::ZERO,
            carry: Carry::default(),
            inner: Discipline::new(spec.inner, name, seed),
            head: None,
            head_bytes: 0,
        }
    }

    pub fn enqueue(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        let packet = &core.packets[id];
        if packet.size() <= self.burst {
            self.inner.enqueue(ctx, core, id);
        } else if packet.segs > 1 {
            let mut pieces = split(ctx, &mut core.packets, id);
            while let Some(piece) = pieces.pop_front(&core.packets) {
                self.enqueue(ctx, core, piece);
            }
        } else {
            ctx.drop(core, id, DropReason::Full);
        }
    }

    /// The next packet. The error is the time at which enough tokens will be available.
    pub fn dequeue(&mut self, ctx: &mut ElementContext, core: &mut Core) -> Result<Option<PacketId>, Time> {
        if self.head.is_none() {
            let Some(id) = self.inner.dequeue(ctx, core) else { return Ok(None) };
            self.head = Some(id);
            self.head_bytes = core.packets[id].size().get();
        }
        let id = self.head.expect("taken above");
        self.tokens = self.depth.min(self.tokens + (core.now - self.checked));
        self.checked = core.now;
        let mut carry = self.carry;
        let cost = self.rate.tx_time(Bytes::new(self.head_bytes), &mut carry);
        if cost > self.tokens {
            return Err(core.now + (cost - self.tokens));
        }
        self.tokens -= cost;
        self.carry = carry;
        self.head = None;
        Ok(Some(id))
    }

    pub fn total(&self) -> Backlog {
        let inner = self.inner.total();
        match self.head {
            None => inner,
            Some(_) => Backlog { packets: inner.packets + 1, bytes: inner.bytes + self.head_bytes },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::QueueSpec;
    use crate::element::queue::FifoSpec;
    use crate::element::test_net::{TestPath, data};
    use crate::element::{Pace, PortSpec};

    fn tbf(burst: u64) -> TestPath {
        let inner = DisciplineSpec::Fifo(FifoSpec::UNLIMITED);
        let spec = TbfSpec { rate: Rate::from_mbit(8), burst: Bytes::new(burst), inner };
        TestPath::new(PortSpec::new(QueueSpec::Tbf(spec), Pace::Unlimited, Dur::ZERO))
    }

    #[test]
    fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        let mut line = tbf(3000);
        for _ in 0..4 {
            line.send(data(1460));
        }
        line.finish();
        // 1500 bytes at 8 Mbit/s are 1.5 ms.
        assert_eq!(line.times(), [0, 0, 1_500_000, 3_000_000]);
    }

    #[test]
    fn tokens_never_exceed_the_bucket() {
        let mut line = tbf(3000);
        line.run_until(1_000_000_000);
        for _ in 0..3 {
            line.send(data(1460));
        }
        line.finish();
        assert_eq!(line.times(), [1_000_000_000, 1_000_000_000, 1_001_500_000]);
    }

    #[test]
    fn a_super_segment_larger_than_the_bucket_is_cut() {
        let mut line = tbf(3000);
        line.send(data(4380));
        line.finish();
        assert_eq!(line.times(), [0, 0, 1_500_000]);
        assert_eq!(line.counters().made, 2);
    }

    #[test]
    fn a_super_segment_that_fits_the_bucket_passes_whole() {
        let mut line = tbf(4500);
        line.send(data(4380));
        line.finish();
        assert_eq!((line.times(), line.arrived[0].1.segs), (vec![0], 3));
    }

    #[test]
    fn a_packet_larger_than_the_bucket_is_dropped() {
        let mut line = tbf(1000);
        line.send(data(1460));
        line.finish();
        assert_eq!(line.counters().dropped[DropReason::Full], 1);
    }

    #[test]
    fn the_rate_holds_over_a_thousand_packets_to_the_nanosecond() {
        let inner = DisciplineSpec::Fifo(FifoSpec::UNLIMITED);
        let spec = TbfSpec { rate: Rate::from_gbit(3), burst: Bytes::new(1499), inner };
        let mut line = TestPath::new(PortSpec::new(QueueSpec::Tbf(spec), Pace::Unlimited, Dur::ZERO));
        for _ in 0..1001 {
            line.send(data(1459));
        }
        line.finish();
        // The first at 0 empties the bucket, which rounds up to 3998 ns; 1000 more take 1499 * 8000 / 3 = 3997333.3 ns.
        let last = *line.times().last().unwrap();
        assert!((3_997_332..=3_997_334).contains(&last), "{last}");
    }
}
