//! Queues, wires and impairments of a case as lines of `tc -batch`.
//!
//! Sizes are IP bytes, as in the model: a root has `stab overhead -14`, so that the Ethernet header does not
//! count. A queue in the sending host contains super-segments, for which `stab` would count the headers of
//! the first packet only. There the rate of the shaper is increased by the share of the Ethernet header in a
//! full packet instead, and backlogs include Ethernet headers.
//!
//! Known differences from the model's elements:
//! * A shaper at a link's rate (`tbf`) precedes every queue that is not plain, with a bucket of one packet; the wire
//!   behind it (`netem rate`) is what serialises.
//! * A step threshold is RED with a weight of 1 and thresholds one byte apart. `tc` cannot set this weight; `build` sets it by netlink.
//! * RED, CoDel, FQ-CoDel, PIE and FQ are served as a link serves them (`queue.served_by`, docs/kernel.md).
//! * `burst`, the only option of `tc` that determines the weight of RED, is chosen so that the weight is the model's 0.002.

use tcpassay_case::params::RED_BANDWIDTH;
use tcpassay_case::params::grammar::QueueLimitValue;
use tcpassay_case::params::linux::LinkDirection;
use tcpassay_case::{LinkSettings, LinuxQdisc, Mark, QueueKind, QueueSettings};
use tcpassay_units::{Bytes, Dur, Rate};

/// A limit in packets that no case reaches.
const ENDLESS: u32 = 10_000_000;
const ROOT: &str = "root handle 1: stab overhead -14";
/// Bytes of an Ethernet header.
pub const ETHERNET: u32 = 14;

/// The major number of token buckets that serve as a link does (patch 0008 of our kernels).
pub const LINK: u16 = 2;

/// The major number of a queue proper, below its shaper.
pub const INNER: u16 = 0x10;

/// The major number of the second buffer of a port with two.
pub const SECOND: u16 = 0x20;

/// Whether a line creates the RED qdisc of a step threshold.
pub fn is_step(line: &str) -> bool {
    line.contains(" red limit ") && line.ends_with(" nodrop")
}

/// Whether a discipline makes decisions when packets are dequeued, so that a packet must be dequeued only
/// after the transmission of the one before.
pub fn decides(kind: QueueKind) -> bool {
    matches!(kind.linux(), LinuxQdisc::Own { .. })
}

fn bits(rate: Rate) -> String {
    format!("{}bit", rate.bits_per_sec())
}

/// The conditions under which a queue is created.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of the place of a queue")]
pub struct Shaping {
    /// Super-segments pass the queue without segmentation.
    pub supers: bool,
    /// The queue works in real time, where timers are late: shapers are `htb` with a bucket for 100 us.
    pub real: bool,
    /// A BPF program marks packets above the step threshold, instead of a queue discipline.
    pub program: bool,
    /// A discipline that decides at dequeue is served like by a link, and not by a token bucket.
    pub link: bool,
}

/// The bucket of a shaper that lets single packets pass: one packet, and what passes in two ticks of `tc` (64 ns each). The addition is
/// at least an Ethernet header: the kernel drops a super-segment as a whole if its segments with this header are larger than the bucket
/// (`skb_gso_validate_mac_len`).
fn bucket(rate: Rate, mtu: Bytes) -> u64 {
    mtu.get() + rate.bytes_in(Dur::from_nanos(128)).get().max(u64::from(ETHERNET))
}

/// The commands for one direction of a link behind its queue: transmission rate, delay, losses.
pub fn wire(dev: &str, rate: Rate, link: &LinkSettings, way: LinkDirection) -> String {
    let mut command = format!("qdisc add dev {dev} {ROOT} netem limit {ENDLESS} rate {}", bits(rate));
    for (_, words) in link.netem(way) {
        command = format!("{command} {words}");
    }
    command
}

/// Adds the delay of receive interrupts to the queues of a device in front of a host: the first packet opens a slot of netem after
/// the delay, in which all that have arrived until then pass together. It has a netem of its own: a slot begins when the packet is
/// queued, not when the delay of the same netem has passed (`netem_dequeue`).
pub fn delay_interrupts(dev: &str, queues: &mut Vec<String>, delay: Dur) {
    let place = if queues.is_empty() { ROOT } else { "parent 1:1 handle 30:" };
    queues.push(slots(dev, place, delay));
}

/// A netem that keeps packets until the end of a slot, which its first packet begins.
pub fn slots(dev: &str, place: &str, length: Dur) -> String {
    let ns = length.as_nanos();
    format!("qdisc add dev {dev} {place} netem limit {ENDLESS} slot {ns}ns {ns}ns")
}

/// The queue of a device that passes packets which are sent at the same time on in one poll of their receiver.
pub fn one_poll(dev: &str) -> String {
    slots(dev, "root handle 1:", Dur::from_nanos(1))
}

/// A plain shaper: the line rate of a NIC, with a queue of so many packets above it.
pub fn line_rate(dev: &str, rate: Rate, mtu: Bytes, queue: Option<u32>, shaping: Shaping) -> Vec<String> {
    let mut lines =
        if shaping.real { real_htb(dev, rate, mtu, None) } else { vec![tbf(dev, rate, mtu, None)] };
    lines.push(format!("qdisc add dev {dev} parent 1:1 handle 10: pfifo limit {}", queue.unwrap_or(ENDLESS)));
    lines
}

/// A policer before the queue of a device, which drops packets that exceed the token bucket. It counts
/// Ethernet headers, so its rate and burst are increased accordingly.
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

/// The commands for the queue of `queue.*` before a link of `rate`. The inner qdisc has the handle `10:`.
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
        // With a shaper slower than the link, the link needs no shaper of its own.
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

/// The commands for a port of a switch with two buffers of `size`, served in turn. HTB serves classes that may borrow from their parent by deficit round
/// robin (`htb_dequeue_tree`): with a quantum of one packet and almost no rate of their own, the buffers take turns packet by packet.
pub fn two_buffers(
    dev: &str,
    queue: &QueueSettings,
    size: Bytes,
    rate: Rate,
    mtu: Bytes,
    shaping: Shaping,
) -> Vec<String> {
    let (r, burst) = (bits(rate), bucket(rate, mtu));
    let mut lines = vec![
        format!("qdisc add dev {dev} {ROOT} htb default {INNER:x}"),
        format!(
            "class add dev {dev} parent 1: classid 1:1 htb rate {r} ceil {r} burst {burst}b cburst {burst}b quantum 100000"
        ),
    ];
    let buffer = QueueSettings { limit: Some(QueueLimitValue::Bytes(size)), ..queue.clone() };
    for handle in [INNER, SECOND] {
        lines.push(format!(
            "class add dev {dev} parent 1:1 classid 1:{handle:x} htb rate 8kbit ceil {r} burst {burst}b cburst {burst}b quantum {}",
            mtu.get()
        ));
        lines.push(format!(
            "qdisc add dev {dev} parent 1:{handle:x} handle {handle:x}: {}",
            inner(&buffer, rate, mtu, shaping)
        ));
    }
    lines
}

/// The command that puts what arrived at another device into the second buffer of a port.
pub fn second_buffer(dev: &str, input: &str) -> String {
    format!(
        "filter add dev {dev} parent 1: protocol ip prio 1 u32 match u32 0 0 indev {input} flowid 1:{SECOND:x}"
    )
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

/// A shaper in real time. Timers are late by microseconds, and a bucket that is too small for this time
/// would reduce the rate.
fn real_htb(dev: &str, rate: Rate, mtu: Bytes, burst: Option<Bytes>) -> Vec<String> {
    let late = rate.bytes_in(Dur::from_micros(100));
    let burst = burst.unwrap_or(late.max(mtu).max(Bytes::new(1600)));
    htb(dev, rate, burst.get()).to_vec()
}

/// The queue proper, below its shaper.
fn inner(queue: &QueueSettings, rate: Rate, mtu: Bytes, shaping: Shaping) -> String {
    let bytes = queue.bytes(mtu);
    match queue.kind.linux() {
        LinuxQdisc::Own { words, .. } => words(queue, mtu, rate),
        _ if queue.mark == Mark::Data && !shaping.program => {
            let step = queue.threshold.get();
            format!(
                "red limit {bytes} min {step} max {} avpkt {step} burst 1 probability 1 bandwidth {} ecn nodrop",
                step + 1,
                // With a weight of 1 the average does not depend on it.
                bits(rate.min(Rate::from_bits_per_sec(RED_BANDWIDTH)))
            )
        }
        _ => match queue.limit {
            Some(QueueLimitValue::Bytes(b)) => format!("bfifo limit {}", b.get()),
            // A super-segment counts as one packet, so a limit in packets would permit up to forty times the
            // bytes.
            _ if shaping.real => format!("bfifo limit {bytes}"),
            _ => format!("pfifo limit {}", queue.packets(1000, mtu)),
        },
    }
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
                "class add dev c1a parent 1: classid 1:1 htb rate 1000000000bit ceil 1000000000bit burst 12500b cburst 12500b \
                 quantum 100000",
                "qdisc add dev c1a parent 1:1 handle 10: bfifo limit 1500000",
            ]
        );
    }

    #[test]
    fn a_discipline_that_decides_at_dequeue_is_served_like_by_a_link_unless_a_token_bucket_is_requested() {
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
    fn a_step_threshold_is_distinguished_from_red() {
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
