//! Random early detection: Floyd and Jacobson 1993, "gentle" as in Floyd 2000, ECN as in RFC 3168 section 7.
//!
//! Differences from the paper: packets above the upper threshold are marked instead of dropped when ECN is enabled
//! and `harddrop` is not (Linux `sch_red`); RFC 3168 section 7 allows a router to drop them. As in `sch_red`, the
//! first packet with an average between the thresholds passes, and the link becomes idle when it has sent the last
//! packet.

use crate::element::{Backlog, QueueLimit};
use crate::engine::{Core, DropReason, ElementContext, PacketId, PacketList};
use tcpassay_units::{Bytes, Dur, Seed, Stream, Time};

/// RED.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RedSpec {
    /// Lower threshold of the average backlog: packets are dropped with some probability above it.
    pub min: Bytes,
    /// Upper threshold of the average backlog, at which the probability is `max_p`. Above `min`.
    pub max: Bytes,
    /// Probability at the upper threshold, 0 to 1; the paper suggests 0.02, "gentle" 0.1.
    pub max_p: f64,
    /// Weight of the current backlog in the average, above 0 and at most 1; the paper uses 0.002.
    pub weight: f64,
    /// Between `max` and twice `max` the probability rises linearly from `max_p` to 1.
    pub gentle: bool,
    /// ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
    /// Above the upper threshold ECN-capable packets are dropped, too.
    pub harddrop: bool,
    /// Transmission time of a typical packet: the average decays by one step for each packet that an idle link could
    /// have sent.
    pub packet_time: Dur,
    /// Limit of the backlog.
    pub limit: QueueLimit,
}

#[derive(Clone, Debug)]
pub(crate) struct Red {
    spec: RedSpec,
    list: PacketList,
    average: f64,
    /// Packets since the last mark or drop while the average is between the thresholds.
    count: Option<u32>,
    idle_since: Option<Time>,
    rng: Stream,
}

/// The decision about an arriving packet.
enum Verdict {
    Pass,
    Early,
    Above,
}

impl Red {
    pub fn new(spec: RedSpec, name: &str, seed: Seed) -> Red {
        assert!(spec.min < spec.max, "RED's thresholds: {} is not below {}", spec.min, spec.max);
        assert!(spec.weight > 0.0 && spec.weight <= 1.0, "RED's weight of {}", spec.weight);
        Red {
            spec,
            list: PacketList::default(),
            average: 0.0,
            count: None,
            idle_since: Some(Time::ZERO),
            rng: seed.stream(&format!("{name}.red")),
        }
    }

    pub fn enqueue(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        let idle_since = self.idle_since;
        let drop = match self.judge(core.now) {
            Verdict::Pass => false,
            Verdict::Early => !(self.spec.ecn && ctx.mark(core, id)),
            Verdict::Above => !(self.spec.ecn && !self.spec.harddrop && ctx.mark(core, id)),
        };
        if drop {
            ctx.drop(core, id, DropReason::Early);
        } else if self.spec.limit.fits(self.total(), core.packets[id].size().get()) {
            self.list.push_back(&mut core.packets, id);
        } else {
            ctx.drop(core, id, DropReason::Full);
        }
        // A dropped packet does not end the idle time: `red_dequeue` finds the queue empty and begins it again.
        if self.list.is_empty() {
            self.idle_since = idle_since.map(|since| since.max(core.now));
        }
    }

    pub fn dequeue(&mut self, core: &Core) -> Option<PacketId> {
        let id = self.list.pop_front(&core.packets)?;
        if self.list.is_empty() {
            self.idle_since = Some(core.now + self.spec.packet_time);
        }
        Some(id)
    }

    pub fn total(&self) -> Backlog {
        Backlog { packets: self.list.len(), bytes: self.list.bytes() }
    }

    fn judge(&mut self, now: Time) -> Verdict {
        let w = self.spec.weight;
        if let Some(since) = self.idle_since.take().filter(|since| *since <= now) {
            let missed = now.since(since).as_secs_f64() / self.spec.packet_time.as_secs_f64().max(1e-12);
            self.average *= libm::pow(1.0 - w, missed);
        } else {
            self.average += w * (Bytes::new(self.list.bytes()).as_f64() - self.average);
        }
        let (min, max) = (self.spec.min.as_f64(), self.spec.max.as_f64());
        let p = if self.average < min {
            self.count = None;
            return Verdict::Pass;
        } else if self.average < max {
            self.spec.max_p * (self.average - min) / (max - min)
        } else if self.spec.gentle && self.average < 2.0 * max {
            self.spec.max_p + (1.0 - self.spec.max_p) * (self.average - max) / max
        } else {
            self.count = None;
            return Verdict::Above;
        };
        // The first packet between the thresholds has number 0 and passes (the paper's count starts at -1).
        let Some(before) = self.count else {
            self.count = Some(0);
            return Verdict::Pass;
        };
        let count = before + 1;
        self.count = Some(count);
        // This gives uniformly distributed distances between drops: p / (1 - count * p).
        let spread = 1.0 - f64::from(before) * p;
        let hit = spread <= p || self.rng.chance(p / spread);
        if !hit {
            return Verdict::Pass;
        }
        self.count = Some(0);
        if self.average < max { Verdict::Early } else { Verdict::Above }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::DisciplineSpec;
    use crate::element::test_net::{TestPath, data, ect0};
    use crate::element::{Pace, PortSpec};
    use tcpassay_units::Rate;

    fn spec() -> RedSpec {
        RedSpec {
            min: Bytes::new(15_000),
            max: Bytes::new(45_000),
            max_p: 0.1,
            weight: 1.0,
            gentle: false,
            ecn: false,
            harddrop: false,
            packet_time: Dur::from_micros(12),
            limit: QueueLimit::NONE,
        }
    }

    /// A stopped port: packets only come in.
    fn fill(spec: RedSpec, packets: u32, ecn: bool) -> TestPath {
        let pace = Pace::Fixed(Rate::from_bits_per_sec(1));
        let mut line = TestPath::new(PortSpec::new(DisciplineSpec::Red(spec), pace, Dur::ZERO));
        for _ in 0..packets {
            line.send(if ecn { ect0(1460) } else { data(1460) });
        }
        line
    }

    #[test]
    fn below_the_lower_threshold_nothing_is_dropped() {
        // One is sent, ten wait; the eleventh waiting packet would find 15,000 bytes.
        assert_eq!(fill(spec(), 11, false).counters().dropped[DropReason::Early], 0);
    }

    #[test]
    fn above_the_upper_threshold_everything_is_dropped() {
        let line = fill(RedSpec { max_p: 0.0, ..spec() }, 100, false);
        // 30 packets fit below 45,000 bytes, and one is being sent.
        assert_eq!(line.counters().dropped[DropReason::Early], 100 - 31);
    }

    #[test]
    fn gentle_reaches_twice_the_upper_threshold_before_all_is_dropped() {
        let line = fill(RedSpec { max_p: 0.0, gentle: true, ..spec() }, 2000, false);
        let held = line.net.held(line.node);
        assert!((45..=61).contains(&held), "{held}");
    }

    #[test]
    fn with_ecn_capable_packets_are_marked_and_kept() {
        let line = fill(RedSpec { ecn: true, max_p: 0.0, ..spec() }, 100, true);
        assert_eq!((line.counters().marked, line.counters().dropped.total()), (69, 0));
    }

    #[test]
    fn with_harddrop_the_upper_threshold_drops_what_is_capable_too() {
        let line = fill(RedSpec { ecn: true, harddrop: true, max_p: 0.0, ..spec() }, 100, true);
        assert_eq!((line.counters().marked, line.counters().dropped[DropReason::Early]), (0, 69));
    }

    #[test]
    fn distances_between_drops_are_uniform_with_a_sure_end() {
        // An average held at the middle: p = 0.05; the n-th packet is dropped with p / (1 - (n - 1) p), the 20th surely.
        let mut red = Red::new(spec(), "r", Seed(1));
        let mut distances = Vec::new();
        let mut since = 0;
        for _ in 0..20_000 {
            (red.average, red.idle_since, red.spec.weight) = (30_000.0, None, 1e-300);
            since += 1;
            if matches!(red.judge(Time::ZERO), Verdict::Early) {
                distances.push(since);
                since = 0;
            }
        }
        let mean =
            f64::from(distances.iter().sum::<u32>()) / f64::from(u32::try_from(distances.len()).unwrap());
        assert_eq!(distances[1..].iter().max(), Some(&20));
        assert!((10.2..10.8).contains(&mean), "{mean}");
    }

    #[test]
    fn a_drop_at_an_empty_queue_does_not_end_the_decay_of_the_average() {
        let pace = Pace::Fixed(Rate::from_mbit(100));
        let (min, max) = (Bytes::new(1_000), Bytes::new(2_000));
        let spec = RedSpec { min, max, weight: 0.02, packet_time: Dur::from_micros(120), ..spec() };
        let mut line = TestPath::new(PortSpec::new(DisciplineSpec::Red(spec), pace, Dur::ZERO));
        for _ in 0..40 {
            line.send(data(1460));
        }
        // Those that pass leave within 2 ms, and the average is several times the upper threshold.
        let passed = |line: &TestPath| line.counters().packets_in - line.counters().dropped.total();
        let mut drops = Vec::new();
        for at in [2_000, 2_010, 102_010] {
            line.run_until(at * 1000);
            let before = passed(&line);
            line.send(data(1460));
            drops.push(passed(&line) == before);
        }
        assert_eq!(drops, [true, true, false]);
    }

    #[test]
    fn an_idle_link_lets_the_average_decay() {
        let mut red = Red::new(RedSpec { weight: 0.5, ..spec() }, "r", Seed(1));
        (red.average, red.idle_since) = (40_000.0, Some(Time::ZERO));
        // 24 us are two packets: a quarter is left.
        red.judge(Time::from_nanos(24_000));
        assert!((red.average - 10_000.0).abs() < 1e-6, "{}", red.average);
    }
}
