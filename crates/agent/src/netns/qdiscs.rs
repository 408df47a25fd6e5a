//! Queues, wires and faults of a case as lines of `tc -batch`.
//!
//! Sizes are IP bytes, as in the model: a root has `stab overhead -14`, so that the Ethernet header does not count. A queue
//! in the sending host sees super-segments, for which `stab` would forget the headers of all packets but the first: there the
//! shaper's rate is raised by the share of the Ethernet header in a full packet instead, and backlogs are Ethernet's bytes.
//!
//! Known differences from the model's elements:
//! * A shaper at a link's rate (`tbf`) stands before every queue that is not plain, with a bucket of one packet; the wire
//!   behind it (`netem rate`) is what serialises.
//! * The step marks by RED with a weight of 1, which is set behind `tc` (`setup`), and thresholds one byte apart.
//! * RED, CoDel, FQ-CoDel, PIE and FQ are served as a link serves them (`queue.served_by`, docs/kernel.md).
//! * RED's weight is the model's 0.002 by choice of `burst`, the only way in which `tc` lets it be said.

use tcpassay_case::draws::Distribution;
use tcpassay_case::params::DISTRIBUTIONS;
use tcpassay_case::params::grammar::{Limit, LossModel};
use tcpassay_case::{LinkSettings, Mark, QueueKind, QueueSettings};
use tcpassay_units::{Bytes, Dur, Rate};

/// More packets than a case has.
const ENDLESS: u32 = 10_000_000;
const ROOT: &str = "root handle 1: stab overhead -14";
/// Bytes of an Ethernet header.
pub const ETHERNET: u32 = 14;

/// The major number of token buckets that serve as a link does (patch 0008 of our kernels).
pub const LINK: u16 = 2;

/// The major number of a queue proper, below its shaper.
pub const INNER: u16 = 0x10;

/// Whether a line makes the RED of a step.
pub fn is_step(line: &str) -> bool {
    line.contains(" red limit ") && line.ends_with(" nodrop")
}

/// Whether it matters to a discipline that it is asked for a packet only when the one before it has left.
pub fn decides(kind: QueueKind) -> bool {
    matches!(kind, QueueKind::Red | QueueKind::CoDel | QueueKind::FqCoDel | QueueKind::Pie | QueueKind::Fq)
}

fn bits(rate: Rate) -> String {
    format!("{}bit", rate.bits_per_sec())
}

fn percent(p: f64) -> String {
    format!("{}%", p * 100.0)
}

fn micros(d: Dur) -> String {
    format!("{}us", d.as_micros().max(1))
}

/// A length of time to the nanosecond: `tc` reads decimals of a microsecond, and no `ns` everywhere.
fn exact(d: Dur) -> String {
    format!("{}.{:03}us", d.as_micros(), d.as_nanos() % 1000)
}

/// What a queue has to be made for.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of the place of a queue")]
pub struct Shaping {
    /// Super-segments pass it whole.
    pub supers: bool,
    /// In real time, where timers are late: shapers are `htb` with a bucket for 100 us.
    pub real: bool,
    /// A program marks above the step, and not a queue discipline.
    pub program: bool,
    /// What decides about packets is served as a link serves it, and not by a token bucket.
    pub link: bool,
}

/// The bucket of a shaper that lets single packets pass: one packet, and what passes in two ticks of `tc` (64 ns each). It has at least
/// the Ethernet header more, with which the kernel compares the segments of a super-segment (`skb_gso_validate_mac_len`): one whose
/// segments are larger is dropped as a whole.
fn bucket(rate: Rate, mtu: Bytes) -> u64 {
    mtu.get() + rate.bytes_in(Dur::from_nanos(128)).get().max(u64::from(ETHERNET))
}

/// What a link does to packets behind its queue: serialises, delays, loses.
pub fn wire(dev: &str, rate: Rate, link: &LinkSettings, forward: bool) -> String {
    let mut command = format!("qdisc add dev {dev} {ROOT} netem limit {ENDLESS} rate {}", bits(rate));
    let mut say = |words: String| {
        command.push(' ');
        command.push_str(&words);
    };
    let jitter = &link.jitter;
    if forward && !jitter.size.is_zero() {
        say(format!("delay {} {}", exact(link.delay), exact(jitter.size)));
        if jitter.correlation > 0.0 {
            say(percent(jitter.correlation));
        }
        if jitter.distribution != Distribution::Uniform {
            say(format!("distribution {}", DISTRIBUTIONS.name_of(jitter.distribution)));
        }
    } else if !link.delay.is_zero() {
        say(format!("delay {}", exact(link.delay)));
    }
    if !forward {
        if link.ack_loss > 0.0 {
            say(format!("loss {}", percent(link.ack_loss)));
        }
        return command;
    }
    match &link.loss_model {
        LossModel::Bernoulli if link.loss > 0.0 => {
            say(format!("loss {}", percent(link.loss)));
            if link.loss_correlation > 0.0 {
                say(percent(link.loss_correlation));
            }
        }
        LossModel::GilbertElliott { p, r, bad, good } => {
            let [p, r, bad, good] = [*p, *r, *bad, *good].map(percent);
            say(format!("loss gemodel {p} {r} {bad} {good}"));
        }
        LossModel::Bernoulli | LossModel::List(_) => {}
    }
    if link.duplicate > 0.0 {
        say(format!("duplicate {}", percent(link.duplicate)));
    }
    if link.corrupt > 0.0 {
        say(format!("corrupt {}", percent(link.corrupt)));
    }
    if let Some((shortest, longest, packets)) = link.slot {
        say(format!("slot {} {}", exact(shortest), exact(longest)));
        if packets < u32::MAX {
            say(format!("packets {packets}"));
        }
    }
    command
}

/// A plain shaper: the line rate of a NIC, with a queue of so many packets above it.
pub fn line_rate(dev: &str, rate: Rate, mtu: Bytes, queue: Option<u32>, shaping: Shaping) -> Vec<String> {
    let mut lines =
        if shaping.real { real_htb(dev, rate, mtu, None) } else { vec![tbf(dev, rate, mtu, None)] };
    lines.push(format!("qdisc add dev {dev} parent 1:1 handle 10: pfifo limit {}", queue.unwrap_or(ENDLESS)));
    lines
}

/// A token bucket before the queue of a device, which drops what is beyond it. It counts Ethernet headers, for which it has more.
pub fn policer(dev: &str, rate: Rate, burst: Bytes, mtu: Bytes) -> [String; 2] {
    let more = (mtu.as_f64() + 14.0) / mtu.as_f64();
    [
        format!("qdisc add dev {dev} handle ffff: clsact"),
        format!(
            "filter add dev {dev} egress matchall action police rate {} burst {:.0}b mtu 64kb conform-exceed drop/pipe",
            bits(rate.mul_f64(more)),
            burst.as_f64() * more
        ),
    ]
}

fn tbf(dev: &str, rate: Rate, mtu: Bytes, burst: Option<Bytes>) -> String {
    let burst = burst.map_or(bucket(rate, mtu), Bytes::get);
    // The limit is that of the queue inside, which replaces the shaper's own.
    format!("qdisc add dev {dev} {ROOT} tbf rate {} burst {burst}b limit 1000000000", bits(rate))
}

/// A queue as `queue.*` says, before a link of `rate`. The queue proper has the handle `10:`.
pub fn queue(dev: &str, queue: &QueueSettings, rate: Rate, mtu: Bytes, shaping: Shaping) -> Vec<String> {
    let mut lines = Vec::new();
    let served = queue.rate.unwrap_or(rate);
    if shaping.supers {
        let raised = |rate: Rate| rate.mul_f64((mtu.as_f64() + 14.0) / mtu.as_f64());
        let queue = QueueSettings { rate: queue.rate.map(raised), ..queue.clone() };
        let shaping = Shaping { supers: false, ..shaping };
        let lines = self::queue(dev, &queue, raised(rate), mtu + Bytes::new(14), shaping);
        return lines.into_iter().map(|line| line.replace(" stab overhead -14", "")).collect();
    }
    if shaping.real && queue.kind != QueueKind::Tbf {
        // A shaper slower than the link leaves the link nothing to do.
        lines.extend(real_htb(dev, served.min(rate), mtu, queue.burst));
    } else if queue.kind == QueueKind::Htb {
        let burst = queue.burst.unwrap_or(mtu.max(Bytes::new(1600))).get();
        lines.extend(htb(dev, served, burst));
    } else if queue.kind == QueueKind::Tbf {
        let burst = queue.burst.unwrap_or_else(|| served.bytes_in(Dur::from_millis(1)).max(mtu * 10));
        lines.push(tbf(dev, served, mtu, Some(burst)));
    } else {
        lines.push(tbf(dev, rate, mtu, None));
    }
    lines.push(format!("qdisc add dev {dev} parent 1:1 handle 10: {}", inner(queue, served, mtu, shaping)));
    if shaping.link && !shaping.real && decides(queue.kind) {
        let link = |line: String| {
            line.replace("root handle 1:", &format!("root handle {LINK}:"))
                .replace("parent 1:1", &format!("parent {LINK}:1"))
        };
        return lines.into_iter().map(link).collect();
    }
    lines
}

fn htb(dev: &str, rate: Rate, burst: u64) -> [String; 2] {
    let r = bits(rate);
    [
        format!("qdisc add dev {dev} {ROOT} htb default 1"),
        format!(
            "class add dev {dev} parent 1: classid 1:1 htb rate {r} ceil {r} burst {burst}b cburst {burst}b quantum 100000"
        ),
    ]
}

/// A shaper in real time: a timer is late by microseconds, and what the bucket cannot hold meanwhile is rate lost.
fn real_htb(dev: &str, rate: Rate, mtu: Bytes, burst: Option<Bytes>) -> Vec<String> {
    let late = rate.bytes_in(Dur::from_micros(100));
    let burst = burst.unwrap_or(late.max(mtu).max(Bytes::new(1600)));
    htb(dev, rate, burst.get()).to_vec()
}

fn inner(queue: &QueueSettings, rate: Rate, mtu: Bytes, shaping: Shaping) -> String {
    let packets = |auto: u32| match queue.limit {
        None => auto,
        Some(Limit::Packets(n)) => n,
        Some(Limit::Bytes(b)) => u32::try_from((b.get() / mtu.get()).max(1)).unwrap_or(u32::MAX),
    };
    let bytes = match queue.limit {
        Some(Limit::Bytes(b)) => b.get(),
        _ => u64::from(packets(1000)) * mtu.get(),
    };
    let ecn = if queue.ecn { "ecn" } else { "noecn" };
    let times = |target: &str, interval: &str| {
        let mut words = String::new();
        for (name, value) in [(target, queue.target), (interval, queue.interval)] {
            if let Some(value) = value {
                words = format!("{words} {name} {}", micros(value));
            }
        }
        words
    };
    match queue.kind {
        QueueKind::Red => {
            let (min, max, p) = (queue.red_min, queue.red_max, queue.red_probability);
            let burst = red_burst(min.get(), mtu.get());
            let ecn = if queue.ecn { " ecn" } else { "" };
            format!(
                "red limit {bytes} min {} max {} avpkt {} burst {burst} probability {p} bandwidth {}{ecn}",
                min.get(),
                max.get(),
                mtu.get(),
                bits(rate)
            )
        }
        QueueKind::CoDel => format!("codel limit {}{} {ecn}", packets(1000), times("target", "interval")),
        QueueKind::FqCoDel => format!(
            "fq_codel limit {} quantum {}{} {ecn}",
            packets(10_240),
            mtu.get() + 14,
            times("target", "interval")
        ),
        QueueKind::Pie => format!("pie limit {}{} {ecn}", packets(1000), times("target", "tupdate")),
        QueueKind::Fq => format!("fq limit {}", packets(10_000)),
        _ if queue.mark == Mark::Data && !shaping.program => {
            let step = queue.threshold.get();
            format!(
                "red limit {bytes} min {step} max {} avpkt {step} burst 1 probability 1 bandwidth {} ecn nodrop",
                step + 1,
                bits(rate)
            )
        }
        _ => match queue.limit {
            Some(Limit::Bytes(b)) => format!("bfifo limit {}", b.get()),
            // A super-segment is one packet: a queue of packets would hold forty times what it says.
            _ if shaping.real => format!("bfifo limit {bytes}"),
            _ => format!("pfifo limit {}", packets(1000)),
        },
    }
}

/// The burst for which `tc` computes a weight of 1/512 (its `tc_red_eval_ewma`), or the least that it takes.
fn red_burst(min: u64, avpkt: u64) -> u32 {
    let mean = Bytes::new(min).as_f64() / Bytes::new(avpkt).as_f64();
    let weight_log = |burst: u32| {
        let a = f64::from(burst) + 1.0 - mean;
        (1..32).find(|log| {
            let w = 0.5_f64.powi(*log);
            a <= (1.0 - (1.0 - w).powi(burst.cast_signed())) / w
        })
    };
    let least = (1..100_000).find(|burst| f64::from(*burst) + 1.0 - mean >= 1.0).unwrap_or(1);
    (least..100_000).find(|burst| weight_log(*burst) == Some(9)).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIRTUAL: Shaping = Shaping { supers: false, real: false, program: false, link: true };

    #[test]
    fn in_real_time_a_queue_is_htb_with_a_bucket_for_late_timers_over_a_fifo_of_bytes() {
        let real = Shaping { supers: false, real: true, program: false, link: true };
        let lines = queue("c1a", &QueueSettings::plain(), Rate::from_gbit(1), Bytes::new(1500), real);
        assert_eq!(
            lines,
            [
                "qdisc add dev c1a root handle 1: stab overhead -14 htb default 1",
                "class add dev c1a parent 1: classid 1:1 htb rate 1000000000bit ceil 1000000000bit burst 12500b cburst 12500b quantum 100000",
                "qdisc add dev c1a parent 1:1 handle 10: bfifo limit 1500000",
            ]
        );
    }

    #[test]
    fn what_decides_about_packets_is_served_as_a_link_serves_it_unless_a_token_bucket_is_asked_for() {
        let red = QueueSettings { kind: QueueKind::Red, ..QueueSettings::plain() };
        let roots = |link| {
            let shaping = Shaping { link, ..VIRTUAL };
            queue("c1a", &red, Rate::from_mbit(20), Bytes::new(1500), shaping)
        };
        let link = roots(true);
        assert!(
            link[0].starts_with("qdisc add dev c1a root handle 2: stab overhead -14 tbf rate 20000000bit "),
            "{link:?}"
        );
        assert!(link[1].starts_with("qdisc add dev c1a parent 2:1 handle 10: red "), "{link:?}");
        let bucket = roots(false);
        assert!(
            bucket[0].starts_with("qdisc add dev c1a root handle 1: stab overhead -14 tbf rate 20000000bit "),
            "{bucket:?}"
        );
        assert!(bucket[1].starts_with("qdisc add dev c1a parent 1:1 handle 10: red "), "{bucket:?}");
    }

    #[test]
    fn a_step_is_told_from_red() {
        let threshold = Bytes::new(30_000);
        let step = QueueSettings { mark: Mark::Data, threshold, ..QueueSettings::plain() };
        let red = QueueSettings { kind: QueueKind::Red, ecn: true, ..QueueSettings::plain() };
        let steps = |settings: &QueueSettings| {
            let lines = queue("c1a", settings, Rate::from_gbit(1), Bytes::new(1500), VIRTUAL);
            lines.iter().filter(|line| is_step(line)).count()
        };
        assert_eq!((steps(&step), steps(&red), steps(&QueueSettings::plain())), (1, 0, 0));
    }

    #[test]
    fn red_s_burst_gives_the_weight_of_the_model() {
        // By tc_red_eval_ewma: 1/512 fits and 1/256 does not.
        let burst = red_burst(30_000, 1500);
        let a = f64::from(burst) + 1.0 - 20.0;
        let fits = |w: f64| a <= (1.0 - (1.0 - w).powi(i32::try_from(burst).unwrap())) / w;
        assert!(fits(1.0 / 512.0) && !fits(1.0 / 256.0), "{burst}");
    }

    #[test]
    fn a_plain_queue_of_a_gigabit_is_a_shaper_of_one_packet_over_a_fifo() {
        let lines = queue("c1a", &QueueSettings::plain(), Rate::from_gbit(1), Bytes::new(1500), VIRTUAL);
        assert_eq!(
            lines,
            [
                "qdisc add dev c1a root handle 1: stab overhead -14 tbf rate 1000000000bit burst 1516b limit 1000000000",
                "qdisc add dev c1a parent 1:1 handle 10: pfifo limit 1000",
            ]
        );
    }
}
