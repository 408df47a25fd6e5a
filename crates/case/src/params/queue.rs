//! Queues: the settings of a queue, and the parameters that set them.

use super::grammar::{QueueLimitValue, check};
use super::kind::ValueKind;
use super::linux::Knob;
use super::row::{Row, put};
use super::spec::Substrates;
use super::words::Words;
use tcpassay_units::{Bytes, Dur, Rate};

type P = Row<QueueSettings>;
const MKH: Substrates = Substrates::MKH;
/// Range of target delays and intervals.
const SHORT: ValueKind = ValueKind::Dur { min: Dur::from_nanos(1), max: Dur::from_secs(10) };

/// The settings of a queue.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueSettings {
    /// `queue.kind`.
    pub kind: QueueKind,
    /// `queue.limit`; `None` is automatic.
    pub limit: Option<QueueLimitValue>,
    /// `queue.place`.
    pub place: QueuePlace,
    /// `queue.served_by`.
    pub served_by: ServedBy,
    /// `queue.rate`.
    pub rate: Option<Rate>,
    /// `queue.burst`; `None` is automatic.
    pub burst: Option<Bytes>,
    /// `queue.classes`.
    pub classes: u32,
    /// `queue.ecn_mark`.
    pub mark: Mark,
    /// `queue.ecn_threshold`.
    pub threshold: Bytes,
    /// `queue.red_min`.
    pub red_min: Bytes,
    /// `queue.red_max`.
    pub red_max: Bytes,
    /// `queue.red_probability`.
    pub red_probability: f64,
    /// `queue.target`; `None` is automatic.
    pub target: Option<Dur>,
    /// `queue.interval`; `None` is automatic.
    pub interval: Option<Dur>,
    /// `queue.ecn`.
    pub ecn: bool,
}

/// `queue.kind`: a queue discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueKind {
    /// First in, first out.
    Fifo,
    /// Hierarchical token bucket.
    Htb,
    /// Token bucket filter.
    Tbf,
    /// Random early detection.
    Red,
    /// CoDel (RFC 8289).
    CoDel,
    /// Flow queue CoDel (RFC 8290).
    FqCoDel,
    /// PIE (RFC 8033).
    Pie,
    /// Fair queue.
    Fq,
    /// Dual queue coupled AQM (RFC 9332).
    DualPi2,
}

impl QueueKind {
    /// The name, which is also that of Linux.
    pub fn name(self) -> &'static str {
        KINDS.name_of(self)
    }

    /// Whether the discipline limits the rate.
    pub fn is_shaper(self) -> bool {
        matches!(self, QueueKind::Htb | QueueKind::Tbf)
    }

    /// The implementation of the discipline in Linux.
    pub fn linux(self) -> LinuxQdisc {
        use LinuxQdisc::{Absent, Composed, Own};
        match self {
            QueueKind::Fifo => Composed { trial: "bfifo limit 10000" },
            QueueKind::Htb => Composed { trial: "htb" },
            QueueKind::Tbf => Composed { trial: "tbf rate 1mbit burst 10kb limit 10kb" },
            QueueKind::Red => {
                let trial = "red limit 100000 min 10000 max 30000 avpkt 1000 burst 20 bandwidth 1mbit";
                Own { trial, words: red, marks: &[12] }
            }
            QueueKind::CoDel => Own {
                trial: "codel",
                words: |q, mtu, _| {
                    format!("codel limit {}{}", q.packets(1000, mtu), q.codel_words("interval"))
                },
                marks: &[24, 32],
            },
            QueueKind::FqCoDel => Own {
                trial: "fq_codel",
                words: |q, mtu, _| {
                    let (limit, quantum) = (q.packets(10_240, mtu), mtu.get() + 14);
                    format!("fq_codel limit {limit} quantum {quantum}{}", q.codel_words("interval"))
                },
                marks: &[12, 28],
            },
            QueueKind::Pie => Own {
                trial: "pie",
                words: |q, mtu, _| format!("pie limit {}{}", q.packets(1000, mtu), q.codel_words("tupdate")),
                marks: &[36],
            },
            QueueKind::Fq => Own {
                trial: "fq",
                words: |q, mtu, _| format!("fq limit {}", q.packets(10_000, mtu)),
                marks: &[],
            },
            QueueKind::DualPi2 => Absent("Linux has it from 6.17 on; the model supports it"),
        }
    }

    /// The name of the qdisc of Linux that a kernel needs for the discipline.
    pub fn qdisc(self) -> &'static str {
        match self {
            QueueKind::Fifo => "bfifo",
            other => other.name(),
        }
    }

    /// The offsets of the counters of marks in the statistics of a qdisc; empty if it has none.
    pub fn mark_offsets(qdisc: &str) -> &'static [usize] {
        match QueueKind::all().find(|kind| kind.qdisc() == qdisc).map(QueueKind::linux) {
            Some(LinuxQdisc::Own { marks, .. }) => marks,
            _ => &[],
        }
    }

    /// Every discipline, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = QueueKind> {
        KINDS.values().iter().copied()
    }
}

/// The implementation of a queue discipline in Linux.
#[derive(Clone, Copy, Debug)]
pub enum LinuxQdisc {
    /// One qdisc below a shaper with the rate of the link. The qdisc makes decisions when packets are
    /// dequeued, so a packet must be dequeued only after the transmission of the one before.
    Own {
        /// The shortest arguments with which `tc` creates the qdisc, to test whether a kernel supports it.
        trial: &'static str,
        /// The arguments of `tc` for a queue of packets of at most an MTU, before a link of a rate.
        words: fn(&QueueSettings, Bytes, Rate) -> String,
        /// The offsets of its counters of marks in its statistics (its `tc_*_xstats` in `linux/pkt_sched.h`).
        marks: &'static [usize],
    },
    /// Several qdiscs that the agent combines.
    Composed {
        /// The shortest arguments with which `tc` creates the qdisc, to test whether a kernel supports it.
        trial: &'static str,
    },
    /// Linux does not have the discipline; the reason.
    Absent(&'static str),
}

/// `queue.place`: where a queue is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueuePlace {
    /// A shaper of topology `pair` is in the sending host, any other queue before the link.
    Auto,
    /// Before the link.
    Link,
    /// In the sending host, above its NIC.
    Sender,
    /// A queue that no parameter describes. It has no limit of its own.
    Undescribed,
}

/// `queue.served_by`: the component that dequeues packets from the queue in a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServedBy {
    /// The link, after the transmission of the packet before.
    Link,
    /// A token bucket (tbf), which peeks at the next packet before it may be sent.
    TokenBucket,
}

/// `queue.ecn_mark`: the packets that are marked above the threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// No packets are marked.
    Off,
    /// CE on data packets.
    Data,
    /// ECE on the returning ACKs.
    Ack,
}

impl QueueSettings {
    /// A FIFO without a limit, for a queue that no parameter describes.
    pub fn plain() -> QueueSettings {
        QueueSettings {
            kind: QueueKind::Fifo,
            limit: None,
            place: QueuePlace::Undescribed,
            served_by: ServedBy::Link,
            rate: None,
            burst: None,
            classes: 1,
            mark: Mark::Off,
            threshold: Bytes::MAX,
            red_min: Bytes::ZERO,
            red_max: Bytes::ZERO,
            red_probability: 0.0,
            target: None,
            interval: None,
            ecn: false,
        }
    }
}

impl QueueSettings {
    /// The limit in packets, for qdiscs that count packets. A limit in bytes is converted to packets of the
    /// MTU; `auto` is used without a limit.
    pub fn packets(&self, auto: u32, mtu: Bytes) -> u32 {
        match self.limit {
            None => auto,
            Some(QueueLimitValue::Packets(n)) => n,
            Some(QueueLimitValue::Bytes(bytes)) => {
                u32::try_from((bytes.get() / mtu.get()).max(1)).unwrap_or(u32::MAX)
            }
        }
    }

    /// The limit in bytes, for qdiscs that count bytes. A limit in packets is multiplied by the MTU;
    /// automatic is 1000 packets.
    pub fn bytes(&self, mtu: Bytes) -> u64 {
        match self.limit {
            Some(QueueLimitValue::Bytes(bytes)) => bytes.get(),
            _ => u64::from(self.packets(1000, mtu)) * mtu.get(),
        }
    }

    /// The arguments of `tc` for target, interval (whose name is `interval`) and marking, each with a
    /// leading space.
    fn codel_words(&self, interval: &str) -> String {
        let mut words = String::new();
        for (name, value) in [("target", self.target), (interval, self.interval)] {
            if let Some(value) = value {
                words = format!("{words} {name} {}us", value.as_micros().max(1));
            }
        }
        format!("{words} {}", if self.ecn { "ecn" } else { "noecn" })
    }
}

/// The highest bandwidth of RED that `tc` accepts, in bits per second: it has 32 bits for it, in bytes per second. RED estimates from
/// it how many packets would have left while the queue was idle.
pub const RED_BANDWIDTH: u64 = 8 * (u32::MAX as u64);

/// The arguments of `tc` for RED with the weight of the model, 1/512.
fn red(q: &QueueSettings, mtu: Bytes, rate: Rate) -> String {
    format!(
        "red limit {} min {} max {} avpkt {} burst {} probability {} bandwidth {}bit{}",
        q.bytes(mtu),
        q.red_min.get(),
        q.red_max.get(),
        mtu.get(),
        red_burst(q.red_min.get(), mtu.get()),
        q.red_probability,
        rate.bits_per_sec().min(RED_BANDWIDTH),
        if q.ecn { " ecn" } else { "" }
    )
}

/// The burst for which `tc` computes a weight of 1/512 (its `tc_red_eval_ewma`), or the smallest burst that
/// `tc` accepts.
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

static KINDS: Words<QueueKind, 9> = Words::new([
    ("fifo", QueueKind::Fifo),
    ("htb", QueueKind::Htb),
    ("tbf", QueueKind::Tbf),
    ("red", QueueKind::Red),
    ("codel", QueueKind::CoDel),
    ("fq_codel", QueueKind::FqCoDel),
    ("pie", QueueKind::Pie),
    ("fq", QueueKind::Fq),
    ("dualpi2", QueueKind::DualPi2),
]);
static PLACES: Words<QueuePlace, 3> =
    Words::new([("auto", QueuePlace::Auto), ("link", QueuePlace::Link), ("sender", QueuePlace::Sender)]);
static SERVED_BY: Words<ServedBy, 2> =
    Words::new([("link", ServedBy::Link), ("token-bucket", ServedBy::TokenBucket)]);
static MARKS: Words<Mark, 3> = Words::new([("off", Mark::Off), ("data", Mark::Data), ("ack", Mark::Ack)]);

pub(super) const ROWS: &[P] = &[
    P::new(
        "queue.kind",
        ValueKind::Choice(KINDS.names()),
        "fifo",
        &["fifo", "htb", "red", "codel", "fq_codel", "pie"],
        MKH,
        "Discipline of the bottleneck's queue (host: those that its kernel has)",
        |q, v| q.kind = KINDS.of(v),
    )
    .linux(&[Knob::Builtin(|_, q| match q.kind.linux() {
        LinuxQdisc::Absent(why) => Err(why),
        LinuxQdisc::Own { .. } | LinuxQdisc::Composed { .. } => Ok(()),
    })])
    .needs("htb and tbf need queue.rate"),
    P::new(
        "queue.limit",
        ValueKind::Or(
            &["auto"],
            &ValueKind::Text {
                form: "bytes, as in `1MB`, or packets, as in `1000p`",
                check: check::<QueueLimitValue>,
            },
        ),
        "auto",
        &["auto", "100KB", "1000p"],
        MKH,
        "Limit of the queue; auto: 1000 packets (10240 for fq_codel), as in Linux. codel, fq_codel, pie and fq count packets, \
         as in Linux: a limit in bytes is converted to packets of the largest MTU",
        |q, v| q.limit = v.parsed(),
    ),
    P::new(
        "queue.place",
        ValueKind::Choice(PLACES.names()),
        "auto",
        &["auto", "link", "sender"],
        MKH,
        "Place of the queue: before the bottleneck link, or in the sending host above its NIC (auto: htb and tbf of a pair in \
         the sending host, others before the link)",
        |q, v| q.place = PLACES.of(v),
    ),
    P::new(
        "queue.served_by",
        ValueKind::Choice(SERVED_BY.names()),
        "link",
        &["link", "token-bucket"],
        Substrates::K,
        "Component that dequeues packets from red, codel, fq_codel, pie and fq: the link, after the transmission of the packet \
         before, or tbf at its rate, which peeks at the next packet (docs/kernel.md)",
        |q, v| q.served_by = SERVED_BY.of(v),
    ),
    P::new(
        "queue.rate",
        ValueKind::Or(&["none"], &ValueKind::Rate),
        "none",
        &["none", "2Gbit"],
        MKH,
        "Rate of a shaper (htb, tbf)",
        |q, v| q.rate = v.rate(),
    ),
    P::new(
        "queue.burst",
        ValueKind::Or(&["auto"], &ValueKind::BYTES),
        "auto",
        &["auto", "100KB"],
        MKH,
        "Bucket size of a shaper; auto: the bytes that the rate transmits in 1 ms, at least 10 packets",
        |q, v| q.burst = v.bytes(),
    ),
    P::new(
        "queue.classes",
        ValueKind::Int { min: 1, max: 64 },
        "1",
        &["1", "2"],
        Substrates::M,
        "Number of leaf classes of htb with equal shares, which borrow from the root; flow i uses class i modulo this number",
        |q, v| put(&mut q.classes, v.int()),
    ),
    P::new(
        "queue.ecn_threshold",
        ValueKind::BYTES,
        "30KB",
        &["30KB", "100KB"],
        MKH,
        "Backlog above which the step threshold marks packets",
        |q, v| put(&mut q.threshold, v.bytes()),
    ),
    P::new(
        "queue.ecn_mark",
        ValueKind::Choice(MARKS.names()),
        "off",
        &["off", "data", "ack"],
        MKH,
        "Packets that the step threshold marks: data with CE, or the returning ACKs with ECE",
        |q, v| q.mark = MARKS.of(v),
    )
    .needs("marking needs stack.ecn other than off at both ends"),
    P::new(
        "queue.red_min",
        ValueKind::BYTES,
        "30KB",
        &["30KB"],
        MKH,
        "RED's lower threshold of the average backlog",
        |q, v| put(&mut q.red_min, v.bytes()),
    ),
    P::new(
        "queue.red_max",
        ValueKind::BYTES,
        "90KB",
        &["90KB"],
        MKH,
        "RED's upper threshold of the average backlog",
        |q, v| put(&mut q.red_max, v.bytes()),
    )
    .needs("queue.red_max > queue.red_min"),
    P::new(
        "queue.red_probability",
        ValueKind::Probability,
        "0.1",
        &["0.1", "1"],
        MKH,
        "RED's probability at the upper threshold",
        |q, v| put(&mut q.red_probability, v.probability()),
    ),
    P::new(
        "queue.target",
        ValueKind::Or(&["auto"], &SHORT),
        "auto",
        &["auto", "5ms", "50us"],
        MKH,
        "Target delay of codel, fq_codel, pie, dualpi2; auto: their RFCs' and Linux's defaults",
        |q, v| q.target = v.dur(),
    ),
    P::new(
        "queue.interval",
        ValueKind::Or(&["auto"], &SHORT),
        "auto",
        &["auto", "100ms", "1ms"],
        MKH,
        "Interval of codel and fq_codel, update time of pie and dualpi2; auto: their defaults",
        |q, v| q.interval = v.dur(),
    ),
    P::new(
        "queue.ecn",
        ValueKind::Bool,
        "off",
        &["off", "on"],
        MKH,
        "RED, codel, fq_codel and pie mark ECN-capable packets instead of dropping",
        |q, v| put(&mut q.ecn, v.switch()),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn red_gets_the_burst_for_the_weight_of_the_model() {
        // By tc_red_eval_ewma: 1/512 fits and 1/256 does not.
        let burst = red_burst(30_000, 1500);
        let a = f64::from(burst) + 1.0 - 20.0;
        let fits = |w: f64| a <= (1.0 - (1.0 - w).powi(i32::try_from(burst).unwrap())) / w;
        assert!(fits(1.0 / 512.0) && !fits(1.0 / 256.0), "{burst}");
    }

    #[test]
    fn marks_are_counted_at_the_offsets_of_the_statistics_of_linux() {
        // tc_red_xstats.marked; tc_codel_xstats.ecn_mark and ce_mark; tc_fq_codel_qd_stats behind its type; tc_pie_xstats.ecn_mark.
        for (qdisc, offsets) in [
            ("red", &[12][..]),
            ("codel", &[24, 32]),
            ("fq_codel", &[12, 28]),
            ("pie", &[36]),
            ("fq", &[]),
            ("bfifo", &[]),
            ("netem", &[]),
        ] {
            assert_eq!(QueueKind::mark_offsets(qdisc), offsets, "{qdisc}");
        }
    }

    #[test]
    fn a_qdisc_gets_the_settings_of_the_queue() {
        let words = |queue: &QueueSettings| match queue.kind.linux() {
            LinuxQdisc::Own { words, .. } => words(queue, Bytes::new(1500), Rate::from_mbit(20)),
            other => panic!("{other:?}"),
        };
        let queue = |kind| QueueSettings { kind, ecn: true, ..QueueSettings::plain() };
        let timed = QueueSettings {
            target: Some(Dur::from_millis(3)),
            interval: Some(Dur::from_millis(30)),
            limit: Some(QueueLimitValue::Bytes(Bytes::new(70_000))),
            ..queue(QueueKind::Pie)
        };
        assert_eq!(words(&timed), "pie limit 46 target 3000us tupdate 30000us ecn");
        assert_eq!(words(&queue(QueueKind::CoDel)), "codel limit 1000 ecn");
        assert_eq!(words(&queue(QueueKind::FqCoDel)), "fq_codel limit 10240 quantum 1514 ecn");
        assert_eq!(words(&queue(QueueKind::Fq)), "fq limit 10000");
        let red = QueueSettings {
            red_min: Bytes::new(30_000),
            red_max: Bytes::new(90_000),
            red_probability: 0.1,
            ..queue(QueueKind::Red)
        };
        assert!(
            super::red(&red, Bytes::new(1500), Rate::from_gbit(100)).contains(" bandwidth 34359738360bit ")
        );
        let words = words(&red);
        assert!(words.starts_with("red limit 1500000 min 30000 max 90000 avpkt 1500 burst "), "{words}");
        assert!(words.ends_with(" probability 0.1 bandwidth 20000000bit ecn"), "{words}");
    }
}
