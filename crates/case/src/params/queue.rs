//! Queues: the settings of a queue, and the parameters that set them.

use super::grammar::{Limit, check};
use super::kind::Kind;
use super::row::{Row, put};
use super::spec::Substrates;
use super::words::Words;
use tcpassay_units::{Bytes, Dur, Rate};

type P = Row<QueueSettings>;
const MKH: Substrates = Substrates::MKH;
/// Target delays and intervals.
const SHORT: Kind = Kind::Dur { min: Dur::from_nanos(1), max: Dur::from_secs(10) };

/// The settings of a queue.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueSettings {
    /// `queue.kind`.
    pub kind: QueueKind,
    /// `queue.limit`; `None` is automatic.
    pub limit: Option<Limit>,
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
}

/// `queue.place`: where a queue is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueuePlace {
    /// A shaper of a `pair` in the sending host, any other queue before the link.
    Auto,
    /// Before the link.
    Link,
    /// In the sending host, above its NIC.
    Sender,
    /// A queue that no parameter describes. It has no limit of its own.
    Undescribed,
}

/// `queue.served_by`: what takes packets from the queue of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServedBy {
    /// The link, when the packet before has left.
    Link,
    /// A token bucket, which peeks.
    TokenBucket,
}

/// `queue.ecn_mark`: what is marked above the threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Nothing.
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
        Kind::Choice(KINDS.names()),
        "fifo",
        &["fifo", "htb", "red", "codel", "fq_codel", "pie"],
        MKH,
        "Discipline of the bottleneck's queue (host: those that its kernel has)",
        |q, v| q.kind = KINDS.of(v),
    )
    .needs("htb and tbf need queue.rate"),
    P::new(
        "queue.limit",
        Kind::Or(
            &["auto"],
            &Kind::Text { form: "bytes, as in `1MB`, or packets, as in `1000p`", check: check::<Limit> },
        ),
        "auto",
        &["auto", "100KB", "1000p"],
        MKH,
        "What the queue holds; auto: 1000 packets (10240 for fq_codel), as Linux. codel, fq_codel, pie and fq count packets, as in Linux: bytes are as many packets of the largest MTU",
        |q, v| q.limit = v.parsed(),
    ),
    P::new(
        "queue.place",
        Kind::Choice(PLACES.names()),
        "auto",
        &["auto", "link", "sender"],
        MKH,
        "Where it stands: before the bottleneck link, or in the sending host above its NIC (auto: htb and tbf of a pair there)",
        |q, v| q.place = PLACES.of(v),
    ),
    P::new(
        "queue.served_by",
        Kind::Choice(SERVED_BY.names()),
        "link",
        &["link", "token-bucket"],
        Substrates::K,
        "Who takes packets from red, codel, fq_codel, pie and fq: the link, when the packet before has left, or tbf at its rate, which peeks (docs/kernel.md)",
        |q, v| q.served_by = SERVED_BY.of(v),
    ),
    P::new(
        "queue.rate",
        Kind::Or(&["none"], &Kind::Rate),
        "none",
        &["none", "2Gbit"],
        MKH,
        "Rate of a shaper (htb, tbf)",
        |q, v| q.rate = v.rate(),
    ),
    P::new(
        "queue.burst",
        Kind::Or(&["auto"], &Kind::BYTES),
        "auto",
        &["auto", "100KB"],
        MKH,
        "Bucket of a shaper; auto: what the rate passes in 1 ms and at least 10 packets",
        |q, v| q.burst = v.bytes(),
    ),
    P::new(
        "queue.classes",
        Kind::Int { min: 1, max: 64 },
        "1",
        &["1", "2"],
        Substrates::M,
        "Leaf classes of htb, equal shares that borrow from the root; flow i goes to class i modulo this",
        |q, v| put(&mut q.classes, v.int()),
    ),
    P::new(
        "queue.ecn_threshold",
        Kind::BYTES,
        "30KB",
        &["30KB", "100KB"],
        MKH,
        "Backlog above which the step marks",
        |q, v| put(&mut q.threshold, v.bytes()),
    ),
    P::new(
        "queue.ecn_mark",
        Kind::Choice(MARKS.names()),
        "off",
        &["off", "data", "ack"],
        MKH,
        "What the step marks: CE on data, or ECE on the returning ACKs",
        |q, v| q.mark = MARKS.of(v),
    )
    .needs("marking needs stack.ecn other than off at both ends"),
    P::new(
        "queue.red_min",
        Kind::BYTES,
        "30KB",
        &["30KB"],
        MKH,
        "RED's lower threshold of the average backlog",
        |q, v| put(&mut q.red_min, v.bytes()),
    ),
    P::new(
        "queue.red_max",
        Kind::BYTES,
        "90KB",
        &["90KB"],
        MKH,
        "RED's upper threshold of the average backlog",
        |q, v| put(&mut q.red_max, v.bytes()),
    )
    .needs("queue.red_max > queue.red_min"),
    P::new(
        "queue.red_probability",
        Kind::Probability,
        "0.1",
        &["0.1", "1"],
        MKH,
        "RED's probability at the upper threshold",
        |q, v| put(&mut q.red_probability, v.probability()),
    ),
    P::new(
        "queue.target",
        Kind::Or(&["auto"], &SHORT),
        "auto",
        &["auto", "5ms", "50us"],
        MKH,
        "Target delay of codel, fq_codel, pie, dualpi2; auto: their RFCs' and Linux's defaults",
        |q, v| q.target = v.dur(),
    ),
    P::new(
        "queue.interval",
        Kind::Or(&["auto"], &SHORT),
        "auto",
        &["auto", "100ms", "1ms"],
        MKH,
        "Interval of codel and fq_codel, update time of pie and dualpi2; auto: their defaults",
        |q, v| q.interval = v.dur(),
    ),
    P::new(
        "queue.ecn",
        Kind::Bool,
        "off",
        &["off", "on"],
        MKH,
        "RED, codel, fq_codel and pie mark ECN-capable packets instead of dropping",
        |q, v| put(&mut q.ecn, v.switch()),
    ),
];
