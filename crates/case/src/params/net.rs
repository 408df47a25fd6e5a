//! Parameters of links, queues, switches and the topology.

use super::grammar::{Buffers, Limit, LinkRate, LossModel, Policer, Reorder, Slot, check};
use super::kind::Kind;
use super::spec::{ParamSpec, Substrates};
use crate::topology::Shape;
use tcpassay_units::{Bytes, Dur};

type P = ParamSpec;
const MKH: Substrates = Substrates::MKH;
const MK: Substrates = Substrates::MK;
const M: Substrates = Substrates::M;
const K: Substrates = Substrates::K;
const MOMENT: Kind = Kind::Dur { min: Dur::from_nanos(1), max: Dur::from_secs(10) };

pub(super) const ROWS: &[ParamSpec] = &[
    P::new(
        "link.rate",
        Kind::Text {
            form: "a rate, as in `1Gbit`, or `trace:<file>` (lines of `ms`, one 1500-byte opportunity each, or of `seconds,rate`)",
            check: check::<LinkRate>,
        },
        "1Gbit",
        &["1Gbit", "100Mbit", "10Gbit"],
        MKH,
        "Capacity, both ways",
    ),
    P::new("link.delay", Kind::DUR, "50us", &["50us", "5ms", "50ms"], MKH, "One-way delay of the path"),
    P::new(
        "link.jitter",
        Kind::DUR,
        "0s",
        &["0s", "1ms"],
        MKH,
        "Random delay added, as netem's (plus or minus). A packet overtakes the one before it when its delay is shorter by more than the time between them, so that nothing is reordered only where twice the jitter is less than what the shortest packet takes on the wire",
    ),
    P::new(
        "link.jitter_correlation",
        Kind::Probability,
        "0",
        &["0", "25%"],
        MKH,
        "Correlation of one packet's jitter with the next",
    ),
    P::new(
        "link.jitter_distribution",
        Kind::Choice(&["uniform", "normal", "pareto", "paretonormal"]),
        "uniform",
        &["uniform", "normal", "pareto"],
        MKH,
        "Distribution of the jitter, as netem's",
    ),
    P::new("link.loss", Kind::Probability, "0", &["0", "0.1%", "1%"], MKH, "Loss probability of a packet"),
    P::new(
        "link.loss_correlation",
        Kind::Probability,
        "0",
        &["0", "25%"],
        MKH,
        "Correlation of one loss with the next",
    ),
    P::new(
        "link.loss_model",
        Kind::Text {
            form: "`bernoulli`, `gilbert-elliott:<p>,<r>[,<bad>,<good>]` or `list:<n>,<n>,...`",
            check: check::<LossModel>,
        },
        "bernoulli",
        &["bernoulli", "gilbert-elliott:1%,25%", "list:100"],
        MKH,
        "How losses are chosen; `list` drops exactly these data packets, counted from 1 (not on `host`)",
    ),
    P::new(
        "link.ack_loss",
        Kind::Probability,
        "0",
        &["0", "10%"],
        MKH,
        "Loss probability of pure ACKs on the return path",
    ),
    P::new(
        "link.ack_thinning",
        Kind::Int { min: 1, max: 1000 },
        "1",
        &["1", "3"],
        MK,
        "The return path forwards one pure ACK of a connection in so many, the newest, when the last of them comes (RFC 3449 section 5.2.1); ACKs with SACK, duplicates and ACKs whose ECN flags change are not thinned",
    ),
    P::new(
        "link.ack_thinning_wait",
        Kind::Dur { min: Dur::from_micros(1), max: Dur::from_secs(1) },
        "10ms",
        &["10ms", "1ms"],
        MK,
        "The longest time for which `link.ack_thinning` holds an ACK, from the first of those that it thins together: then the newest is forwarded, however few came",
    ),
    P::new(
        "link.reorder",
        Kind::Text { form: "`off`, `<probability>:<gap>` or `reverse-burst:<n>`", check: check::<Reorder> },
        "off",
        &["off", "1%:5", "reverse-burst:4"],
        MK,
        "Reordering: with this probability a packet is held until `gap` others have passed it, or bursts arrive reversed; what is held goes at the latest after four times what those packets take on the wire",
    ),
    P::new(
        "link.drawn_by",
        Kind::Choice(&["model", "netem"]),
        "model",
        &["model", "netem"],
        K,
        "Who draws losses, damage, duplicates and jitter of a kernel's link: the random streams of the model, so that with the same seed the same packets meet the same fate on both (a relay, which costs the machine some 100 us a packet), or netem (docs/kernel.md)",
    ),
    P::new(
        "link.duplicate",
        Kind::Probability,
        "0",
        &["0", "1%"],
        MKH,
        "Probability that a packet arrives twice",
    ),
    P::new(
        "link.corrupt",
        Kind::Probability,
        "0",
        &["0", "0.1%"],
        MKH,
        "Probability that a packet arrives damaged (the checksum drops it)",
    ),
    P::new(
        "link.policer",
        Kind::Text { form: "`off` or `<rate>,<burst>`", check: check::<Policer> },
        "off",
        &["off", "500Mbit,100KB"],
        MK,
        "Drops what exceeds a token bucket",
    ),
    P::new(
        "link.slot",
        Kind::Text { form: "`off` or `<shortest>,<longest>[,<packets>]`", check: check::<Slot> },
        "off",
        &["off", "1ms,5ms"],
        MKH,
        "Bursty scheduling as of a shared radio: packets leave only in slots (netem's slot)",
    ),
    P::new(
        "queue.kind",
        Kind::Choice(&["fifo", "htb", "tbf", "red", "codel", "fq_codel", "pie", "fq", "dualpi2"]),
        "fifo",
        &["fifo", "htb", "red", "codel", "fq_codel", "pie"],
        MKH,
        "Discipline of the bottleneck's queue (host: those that its kernel has)",
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
    ),
    P::new(
        "queue.place",
        Kind::Choice(&["auto", "link", "sender"]),
        "auto",
        &["auto", "link", "sender"],
        MKH,
        "Where it stands: before the bottleneck link, or in the sending host above its NIC (auto: htb and tbf of a pair there)",
    ),
    P::new(
        "queue.served_by",
        Kind::Choice(&["link", "token-bucket"]),
        "link",
        &["link", "token-bucket"],
        K,
        "Who takes packets from red, codel, fq_codel, pie and fq: the link, when the packet before has left, or tbf at its rate, which peeks (docs/kernel.md)",
    ),
    P::new(
        "queue.rate",
        Kind::Or(&["none"], &Kind::Rate),
        "none",
        &["none", "2Gbit"],
        MKH,
        "Rate of a shaper (htb, tbf)",
    ),
    P::new(
        "queue.burst",
        Kind::Or(&["auto"], &Kind::BYTES),
        "auto",
        &["auto", "100KB"],
        MKH,
        "Bucket of a shaper; auto: what the rate passes in 1 ms and at least 10 packets",
    ),
    P::new(
        "queue.classes",
        Kind::Int { min: 1, max: 64 },
        "1",
        &["1", "2"],
        M,
        "Leaf classes of htb, equal shares that borrow from the root; flow i goes to class i modulo this",
    ),
    P::new(
        "queue.ecn_threshold",
        Kind::BYTES,
        "30KB",
        &["30KB", "100KB"],
        MKH,
        "Backlog above which the step marks",
    ),
    P::new(
        "queue.ecn_mark",
        Kind::Choice(&["off", "data", "ack"]),
        "off",
        &["off", "data", "ack"],
        MKH,
        "What the step marks: CE on data, or ECE on the returning ACKs",
    )
    .needs("marking needs stack.ecn other than off at both ends"),
    P::new(
        "queue.red_min",
        Kind::BYTES,
        "30KB",
        &["30KB"],
        MKH,
        "RED's lower threshold of the average backlog",
    ),
    P::new(
        "queue.red_max",
        Kind::BYTES,
        "90KB",
        &["90KB"],
        MKH,
        "RED's upper threshold of the average backlog",
    )
    .needs("queue.red_max > queue.red_min"),
    P::new(
        "queue.red_probability",
        Kind::Probability,
        "0.1",
        &["0.1", "1"],
        MKH,
        "RED's probability at the upper threshold",
    ),
    P::new(
        "queue.target",
        Kind::Or(&["auto"], &MOMENT),
        "auto",
        &["auto", "5ms", "50us"],
        MKH,
        "Target delay of codel, fq_codel, pie, dualpi2; auto: their RFCs' and Linux's defaults",
    ),
    P::new(
        "queue.interval",
        Kind::Or(&["auto"], &MOMENT),
        "auto",
        &["auto", "100ms", "1ms"],
        MKH,
        "Interval of codel and fq_codel, update time of pie and dualpi2; auto: their defaults",
    ),
    P::new(
        "queue.ecn",
        Kind::Bool,
        "off",
        &["off", "on"],
        MKH,
        "RED, codel, fq_codel and pie mark ECN-capable packets instead of dropping",
    ),
    P::new(
        "switch.buffers",
        Kind::Text { form: "`port`, `shared:<bytes>` or `dual:<bytes>`", check: check::<Buffers> },
        "port",
        &["port", "shared:12MB", "dual:200KB"],
        M,
        "Output buffers of a switch: each port its own, one shared, or two a port served round robin",
    )
    .needs("shared and dual need a topology with a switch, and queue.kind = fifo"),
    P::new(
        "topology",
        Kind::Text {
            form: "`pair`, `dumbbell:<n>`, `star:<n>`, `racks:<storage>x<worker>` or `file:<toml>`",
            check: super::grammar::check::<Shape>,
        },
        "pair",
        &["pair", "dumbbell:2", "star:2", "racks:3x3"],
        MKH,
        "Who is joined to whom",
    ),
    P::new(
        "rack.hosts",
        Kind::Int { min: 1, max: 256 },
        "4",
        &["4", "16"],
        M,
        "Hosts of each rack (topology racks)",
    ),
    P::new(
        "rack.uplink",
        Kind::Or(&["auto"], &Kind::Rate),
        "auto",
        &["auto", "40Gbit"],
        M,
        "Rate between a rack's switch and the spine; auto: the sum of its hosts'",
    ),
];

/// Rows that name bytes need this much at least for one packet.
pub(crate) const SMALLEST_MTU: Bytes = Bytes::new(256);
