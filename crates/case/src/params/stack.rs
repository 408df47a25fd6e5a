//! Parameters of the stack. A row whose default is `profile` takes what `stack.profile` says.

use super::grammar::{Abc, DelayedAck, LossDetection, Pacing, Undo, check};
use super::kind::Kind;
use super::spec::{ParamSpec, Substrates};
use tcpassay_units::{Bytes, Dur};

type P = ParamSpec;
const MKH: Substrates = Substrates::MKH;
const MK: Substrates = Substrates::MK;
const M: Substrates = Substrates::M;

/// The controllers that [`tcpassay_cc::build`] makes.
pub(crate) const CONTROLLERS: &[&str] = &["reno", "cubic", "dctcp", "vegas", "mvegas"];

/// Those, and the controllers of Linux (`net/ipv4/tcp_*.c`), for the substrates that have them.
const KNOWN: &[&str] = &[
    "reno",
    "cubic",
    "dctcp",
    "vegas",
    "mvegas",
    "bbr",
    "bic",
    "cdg",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "scalable",
    "veno",
    "westwood",
    "yeah",
];

const PROFILE: &[&str] = &["profile"];
const TIME: Kind = Kind::Dur { min: Dur::from_micros(1), max: Dur::from_secs(3600) };
const RTO: Kind = Kind::Or(PROFILE, &TIME);
const COUNT: Kind = Kind::Or(PROFILE, &Kind::Int { min: 1, max: 255 });
const ON_OFF: &[&str] = &["profile", "off", "on"];

fn object_file(text: &str) -> Result<(), String> {
    let object = std::path::Path::new(text).extension().is_some_and(|end| end == "o");
    if object { Ok(()) } else { Err("its name ends in `.o`".to_owned()) }
}

pub(super) const ROWS: &[ParamSpec] = &[
    P::new(
        "stack.profile",
        Kind::Choice(&["rfc", "linux", "linux-4.6", "freebsd", "freebsd-rack"]),
        "rfc",
        &["rfc", "linux", "linux-4.6", "freebsd", "freebsd-rack"],
        MKH,
        "A named set of the rows below (docs/deviations.md says where each leaves the RFCs)",
    ),
    P::new("stack.cc", Kind::Choice(KNOWN), "reno", CONTROLLERS, MKH, "Congestion controller")
        .needs("dctcp needs stack.ecn = dctcp at both ends; the model has the first five, a kernel all but mvegas"),
    P::new(
        "stack.cc_engine",
        Kind::Or(&["kernel", "shim"], &Kind::Text { form: "a BPF object file, `<path>.o`", check: object_file }),
        "kernel",
        &["kernel", "shim"],
        Substrates::H,
        "Who decides: Linux's own stack.cc, the model's code through BPF, or the one controller of an object file",
    )
    .needs("shim has the first five of stack.cc"),
    P::new(
        "stack.ecn",
        Kind::Choice(&["off", "classic", "dctcp", "accurate"]),
        "off",
        &["off", "classic", "dctcp", "accurate"],
        MKH,
        "Explicit congestion notification: RFC 3168, RFC 8257's per-packet echo, RFC 9768's counters",
    )
    .needs("the same at both ends of a connection"),
    P::new(
        "stack.ecn_option",
        Kind::SWITCH,
        "profile",
        ON_OFF,
        M,
        "Accurate ECN with its TCP option, which counts bytes (RFC 9768 section 3.2.3), not by the three flags alone",
    )
    .needs("stack.ecn = accurate"),
    P::new(
        "stack.ecn_form",
        Kind::Choice(&["profile", "rfc", "linux"]),
        "profile",
        &["profile", "rfc", "linux"],
        M,
        "Accurate ECN's option where a counter moved (RFC 9768 section 3.2.3.3), or Linux's on every segment, all ECN-capable",
    )
    .needs("stack.ecn = accurate"),
    P::new(
        "stack.delayed_ack",
        Kind::Or(
            PROFILE,
            &Kind::Text {
                form: "`off` or `<n>,<timeout>[,adaptive][,quick:<k>]`, as in `2,40ms,quick:16`",
                check: check::<DelayedAck>,
            },
        ),
        "profile",
        &["profile", "off", "2,40ms", "2,200ms"],
        MKH,
        "Acknowledge every n segments or after the timeout; the first k at once (a kernel: `off`)",
    ),
    P::new(
        "stack.dctcp_receiver",
        Kind::Choice(&["profile", "clear-timer", "rearm", "immediate"]),
        "profile",
        &["profile", "immediate", "rearm", "clear-timer"],
        MK,
        "On a change of CE with an ACK delayed: clear its timer (the bug), arm it again, acknowledge at once",
    )
    .needs("stack.ecn = dctcp"),
    P::new(
        "stack.ack_check",
        Kind::Choice(&["profile", "always", "if-scheduled-on-slow-path"]),
        "profile",
        &["profile", "always", "if-scheduled-on-slow-path"],
        M,
        "When an arriving segment asks whether an ACK is due (Linux's slow path asks only if one is scheduled)",
    ),
    P::new("stack.sack", Kind::SWITCH, "profile", ON_OFF, MKH, "Selective acknowledgements (RFC 2018)"),
    P::new("stack.dsack", Kind::SWITCH, "profile", ON_OFF, MKH, "Duplicate SACK (RFC 2883)")
        .needs("on needs stack.sack"),
    P::new("stack.timestamps", Kind::SWITCH, "profile", ON_OFF, MKH, "Timestamps and PAWS (RFC 7323)"),
    P::new("stack.window_scale", Kind::SWITCH, "profile", ON_OFF, MKH, "Window scaling (RFC 7323)"),
    P::new(
        "stack.initial_window",
        Kind::Or(PROFILE, &Kind::Int { min: 1, max: 1000 }),
        "profile",
        &["profile", "2", "10"],
        MKH,
        "Initial window in segments (RFC 6928: 10)",
    ),
    P::new(
        "stack.initial_rto",
        RTO,
        "profile",
        &["profile", "1s"],
        M,
        "Retransmission timeout before a measurement",
    )
    .needs("stack.min_rto <= stack.initial_rto <= stack.max_rto"),
    P::new(
        "stack.min_rto",
        RTO,
        "profile",
        &["profile", "200ms", "10ms"],
        MKH,
        "Smallest retransmission timeout",
    )
    .needs("stack.min_rto <= stack.max_rto"),
    P::new(
        "stack.rto_slop",
        Kind::Or(PROFILE, &Kind::DUR),
        "profile",
        &["profile", "0s", "200ms"],
        M,
        "Added to the timeout for the peer's delayed ACK (FreeBSD)",
    ),
    P::new("stack.max_rto", RTO, "profile", &["profile", "60s"], M, "Largest retransmission timeout"),
    P::new(
        "stack.rto_floor",
        Kind::Choice(&["profile", "rto", "variance"]),
        "profile",
        &["profile", "rto", "variance"],
        M,
        "Where min_rto enters: max(min, srtt + 4 rttvar) (RFC 6298), or srtt + max(min, 4 rttvar) (Linux)",
    ),
    P::new(
        "stack.loss_detection",
        Kind::Or(
            PROFILE,
            &Kind::Text {
                form: "`dupthresh[:<n>][:adaptive]` or `rack[:dsack]`",
                check: check::<LossDetection>,
            },
        ),
        "profile",
        &["profile", "dupthresh", "dupthresh:adaptive", "rack", "rack:dsack"],
        MKH,
        "How loss is detected: duplicate ACKs (RFC 5681, 6675) or RACK (RFC 8985)",
    )
    .needs("rack needs stack.sack"),
    P::new(
        "stack.recovery",
        Kind::Choice(&["profile", "newreno", "sack", "prr", "freebsd"]),
        "profile",
        &["profile", "newreno", "sack", "prr", "freebsd"],
        M,
        "What recovery sends: RFC 6582, RFC 6675, RFC 9937, FreeBSD without PRR",
    )
    .needs("sack and freebsd need stack.sack"),
    P::new(
        "stack.prr_bound",
        Kind::Choice(&["profile", "safe-ack", "repair"]),
        "profile",
        &["profile", "safe-ack", "repair"],
        M,
        "How fast PRR fills the flight again below ssthresh: RFC 9937, or Linux 4.3 to 5.x",
    ),
    P::new(
        "stack.recovery_exit",
        Kind::Choice(&["profile", "ssthresh", "rfc3782-less-careful", "rfc6582"]),
        "profile",
        &["profile", "ssthresh", "rfc6582", "rfc3782-less-careful"],
        M,
        "cwnd on leaving recovery",
    ),
    P::new(
        "stack.cwr",
        Kind::Choice(&["profile", "at-once", "prr"]),
        "profile",
        &["profile", "at-once", "prr"],
        M,
        "Reduction on ECE: cwnd = ssthresh at once (RFC 3168), or step by step by PRR (Linux)",
    ),
    P::new(
        "stack.undo",
        Kind::Or(
            PROFILE,
            &Kind::Text {
                form: "`off`, or `eifel`, `eifel-timeout`, `dsack`, `rack-restore` joined by `+`",
                check: check::<Undo>,
            },
        ),
        "profile",
        &["profile", "off", "eifel", "eifel+dsack", "rack-restore"],
        M,
        "Proofs that undo a false recovery (RFC 3522, RFC 3708, FreeBSD RACK)",
    ),
    P::new(
        "stack.tlp",
        Kind::Choice(&["profile", "off", "open-only", "on"]),
        "profile",
        &["profile", "off", "open-only", "on"],
        MKH,
        "Tail loss probe (RFC 8985 section 7); open-only: not after ECE (Linux before 4.15)",
    )
    .needs("on and open-only need stack.sack"),
    P::new("stack.frto", Kind::SWITCH, "profile", ON_OFF, MKH, "Detects spurious timeouts (RFC 5682)"),
    P::new(
        "stack.hystart",
        Kind::Choice(&["profile", "off", "hystart++", "linux", "linux-train", "linux-delay"]),
        "profile",
        &["profile", "off", "hystart++", "linux"],
        MK,
        "What ends slow start early: HyStart++ (RFC 9406; model), or in CUBIC Linux's HyStart, by ACK trains, delay or both",
    ),
    P::new(
        "stack.flavor",
        Kind::Choice(&["profile", "rfc", "linux", "freebsd"]),
        "profile",
        &["profile", "rfc", "linux", "freebsd"],
        M,
        "How what does not belong is answered: stray resets and SYNs, challenge ACKs, SYNs in TIME-WAIT (RFC 9293 with 5961)",
    ),
    P::new(
        "stack.cc_arithmetic",
        Kind::Choice(&["profile", "rfc", "linux", "freebsd"]),
        "profile",
        &["profile", "rfc", "linux", "freebsd"],
        M,
        "CUBIC, DCTCP and Reno as the RFCs have them, or as Linux, in whole segments and milliseconds, or as FreeBSD reduces",
    ),
    P::new(
        "stack.pacing",
        Kind::Or(
            PROFILE,
            &Kind::Text { form: "`off`, `on` or `<slow start>%,<avoidance>%`", check: check::<Pacing> },
        ),
        "profile",
        &["profile", "off", "on"],
        MKH,
        "Spread a window over its round trip (on: 200%,120%, as Linux)",
    ),
    P::new(
        "stack.slow_start_after_idle",
        Kind::Choice(&["profile", "off", "on", "decay"]),
        "profile",
        &["profile", "off", "on", "decay"],
        MKH,
        "After idle: keep the window, restart (RFC 5681), or halve it once an RTO (RFC 2861, Linux)",
    ),
    P::new(
        "stack.abc",
        Kind::Or(
            PROFILE,
            &Kind::Text {
                form: "`per-ack`, `all`, or a limit in MSS an ACK, as in `2`",
                check: check::<Abc>,
            },
        ),
        "profile",
        &["profile", "per-ack", "2", "all"],
        M,
        "How slow start counts an ACK (RFC 3465)",
    ),
    P::new(
        "stack.limited_transmit",
        Kind::SWITCH,
        "profile",
        ON_OFF,
        M,
        "New data on the first duplicate ACKs (RFC 3042)",
    ),
    P::new(
        "stack.early_retransmit",
        Kind::SWITCH,
        "profile",
        ON_OFF,
        M,
        "A lower threshold for small flights (RFC 5827)",
    ),
    P::new(
        "stack.nagle",
        Kind::Choice(&["profile", "all", "idle", "small"]),
        "profile",
        &["profile", "all", "idle", "small"],
        M,
        "What a small segment waits for: all data acknowledged (RFC 896), but for a burst from idle (BSD), the last small one (Linux)",
    )
    .needs("app.nodelay = off"),
    P::new(
        "stack.mtu",
        Kind::Bytes { min: super::net::SMALLEST_MTU, max: Bytes::new(9216) },
        "1500B",
        &["1500B", "9000B"],
        MKH,
        "Largest IP packet",
    )
    .needs("equal along a path"),
    P::new(
        "stack.mss",
        Kind::Or(&["auto"], &Kind::Bytes { min: Bytes::new(88), max: Bytes::new(9176) }),
        "auto",
        &["auto", "536B"],
        MKH,
        "Largest segment announced; auto: MTU less 40 bytes of headers",
    )
    .needs("stack.mss + 40 <= stack.mtu"),
    P::new(
        "stack.rcv_autotune",
        Kind::SWITCH,
        "profile",
        ON_OFF,
        MKH,
        "The receive buffer follows the rate (dynamic right-sizing)",
    ),
    P::new(
        "stack.max_rwnd",
        Kind::Or(PROFILE, &Kind::Bytes { min: Bytes::new(2_048), max: Bytes::new(1_000_000_000) }),
        "profile",
        &["profile", "65535B", "6MB"],
        MKH,
        "Largest receive window that autotuning reaches",
    ),
    P::new(
        "stack.max_sndbuf",
        Kind::Or(PROFILE, &Kind::Bytes { min: Bytes::new(2_048), max: Bytes::new(4_000_000_000) }),
        "profile",
        &["profile", "64KB", "4MB"],
        MKH,
        "Largest send buffer that following the window reaches",
    ),
    P::new(
        "stack.fastopen",
        Kind::Bool,
        "off",
        &["off", "on"],
        M,
        "TCP Fast Open (RFC 7413): from the second connection to a server on the first bytes go with the SYN",
    )
    .needs("the same at both ends of a connection"),
    P::new(
        "stack.small_queues",
        Kind::Or(&["off", "auto"], &Kind::BYTES),
        "off",
        &["off", "auto"],
        M,
        "TCP small queues: bytes a connection may have below it in its own host (auto: 1 ms of pacing, as Linux)",
    ),
    P::new(
        "stack.tso_defer",
        Kind::SWITCH,
        "profile",
        ON_OFF,
        M,
        "Wait for window rather than send a small super-segment (Linux)",
    ),
    P::new(
        "stack.tso_autosize",
        Kind::Choice(&["profile", "off", "rate", "rate-and-rtt"]),
        "profile",
        &["profile", "off", "rate", "rate-and-rtt"],
        MKH,
        "Length of super-segments: a millisecond of the rate (Linux), and more for short round trips (since 5.18)",
    ),
    P::new(
        "stack.syn_retries",
        COUNT,
        "profile",
        &["profile", "6"],
        MKH,
        "Retransmissions of a SYN before giving up",
    ),
    P::new(
        "stack.retries",
        COUNT,
        "profile",
        &["profile", "15"],
        MKH,
        "Retransmissions of data before giving up",
    ),
    P::new("stack.time_wait", RTO, "profile", &["profile", "60s"], M, "Length of TIME-WAIT"),
    P::new("stack.fin_wait2", RTO, "profile", &["profile", "60s"], MKH, "Length of FIN-WAIT-2 of an orphan"),
];
