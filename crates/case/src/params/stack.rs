//! Parameters of the stack. A row whose default is `profile` leaves the setting of `stack.profile` as it is.

use super::grammar::{Abc, DelayedAck, LossDetection, Pacing, Undo, check};
use super::host::{CcEngine, HEADERS, HostSettings, SmallQueues};
use super::kind::{Kind, Setting};
use super::linux::{Derive, Knob, SocketOption, SocketValue, Wanted, flag, number};
use super::row::{Row, put};
use super::spec::Substrates;
use super::words::Words;
use tcpassay_cc::{Arithmetic, HystartDetect, HystartMode};
use tcpassay_tcp::{
    AckCheck, AfterIdle, DctcpReceiver, EcnForm, EcnMode, LossDetection as Detection, Nagle, Profile,
    PrrBound, Recovery, RecoveryExit, StackFlavor, Tlp, TsoAutosize,
};
use tcpassay_units::{Bytes, Dur};

type P = Row<HostSettings>;
const MKH: Substrates = Substrates::MKH;
const MK: Substrates = Substrates::MK;
const M: Substrates = Substrates::M;

/// The controllers that only Linux has (`net/ipv4/tcp_*.c`).
const OF_LINUX: [&str; 13] = [
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

/// The controllers of the model, and those of Linux.
const CONTROLLERS: [&str; tcpassay_cc::NAMES.len() + OF_LINUX.len()] = {
    let (own, mut all) = (tcpassay_cc::NAMES, [""; tcpassay_cc::NAMES.len() + OF_LINUX.len()]);
    let mut i = 0;
    while i < all.len() {
        all[i] = if i < own.len() { own[i] } else { OF_LINUX[i - own.len()] };
        i += 1;
    }
    all
};

const PROFILE: &[&str] = &["profile"];
const TIME: Kind = Kind::Dur { min: Dur::from_micros(1), max: Dur::from_secs(3600) };
const RTO: Kind = Kind::Or(PROFILE, &TIME);
const COUNT: Kind = Kind::Or(PROFILE, &Kind::Int { min: 1, max: 255 });
const ON_OFF: &[&str] = &["profile", "off", "on"];

fn object_file(text: &str) -> Result<(), String> {
    let object = std::path::Path::new(text).extension().is_some_and(|end| end == "o");
    if object { Ok(()) } else { Err("its name ends in `.o`".to_owned()) }
}

/// The smallest MTU: a packet has room for its headers and some payload.
const SMALLEST_MTU: Bytes = Bytes::new(256);

fn engine(setting: &Setting) -> CcEngine {
    match setting {
        Setting::Word("shim") => CcEngine::Shim,
        Setting::Text(path) => CcEngine::Object(path.clone()),
        _ => CcEngine::Kernel,
    }
}

fn small_queues(setting: &Setting) -> SmallQueues {
    match setting {
        Setting::Bytes(bytes) => SmallQueues::Bytes(*bytes),
        Setting::Word("auto") => SmallQueues::Auto,
        _ => SmallQueues::Off,
    }
}

/// How losses are detected, unless the profile decides.
fn detection(setting: &Setting) -> Option<Detection> {
    setting.parsed::<LossDetection>().map(|text| text.0)
}

/// The ratios of pacing in slow start and in congestion avoidance, in percent of the window over the round trip.
fn pacing(setting: &Setting, host: &HostSettings) -> Wanted<(u32, u32)> {
    match setting.parsed::<Pacing>().map(|text| text.0) {
        Some(tcpassay_tcp::Pacing::Off) if host.cc == "bbr" => Err("Linux's bbr always paces"),
        Some(tcpassay_tcp::Pacing::Percent { slow_start, avoidance }) if slow_start.max(avoidance) > 1000 => {
            Err("Linux goes up to 1000 % (tcp_pacing_ss_ratio); the model further")
        }
        Some(tcpassay_tcp::Pacing::Percent { slow_start, avoidance }) => Ok(Some((slow_start, avoidance))),
        Some(tcpassay_tcp::Pacing::Off) | None => Ok(None),
    }
}

/// A parameter of Linux's CUBIC, which all hosts with this controller share.
const fn cubic_module(file: &'static str, value: Derive<HostSettings, String>) -> Knob<HostSettings> {
    Knob::Module {
        file,
        value,
        absent: "",
        shared: |a, b| a.cc == b.cc,
        once: "one kernel has one set of parameters of a controller; the model one for each host",
    }
}

const fn hystart(train: bool, delay: bool) -> HystartMode {
    HystartMode::Linux(HystartDetect { train, delay })
}

/// The profiles by name.
pub(crate) static PROFILE_NAMES: Words<Profile, 5> = Words::new([
    (Profile::Rfc.name(), Profile::Rfc),
    (Profile::Linux.name(), Profile::Linux),
    (Profile::Linux46.name(), Profile::Linux46),
    (Profile::FreeBsd.name(), Profile::FreeBsd),
    (Profile::FreeBsdRack.name(), Profile::FreeBsdRack),
]);
static ECN: Words<EcnMode, 4> = Words::new([
    ("off", EcnMode::Off),
    ("classic", EcnMode::Classic),
    ("dctcp", EcnMode::Dctcp),
    ("accurate", EcnMode::Accurate),
]);
static ECN_FORM: Words<Option<EcnForm>, 3> =
    Words::new([("profile", None), ("rfc", Some(EcnForm::Rfc)), ("linux", Some(EcnForm::Linux))]);
static DCTCP_RECEIVER: Words<Option<DctcpReceiver>, 4> = Words::new([
    ("profile", None),
    ("clear-timer", Some(DctcpReceiver::ClearTimer)),
    ("rearm", Some(DctcpReceiver::Rearm)),
    ("immediate", Some(DctcpReceiver::Immediate)),
]);
static ACK_CHECK: Words<Option<AckCheck>, 3> = Words::new([
    ("profile", None),
    ("always", Some(AckCheck::Always)),
    ("if-scheduled-on-slow-path", Some(AckCheck::IfScheduledOnSlowPath)),
]);
static RTO_FLOOR: Words<Option<bool>, 3> =
    Words::new([("profile", None), ("rto", Some(false)), ("variance", Some(true))]);
static RECOVERY: Words<Option<Recovery>, 5> = Words::new([
    ("profile", None),
    ("newreno", Some(Recovery::NewReno)),
    ("sack", Some(Recovery::Sack)),
    ("prr", Some(Recovery::Prr)),
    ("freebsd", Some(Recovery::FreeBsd { pipe: false })),
]);
static PRR_BOUND: Words<Option<PrrBound>, 3> = Words::new([
    ("profile", None),
    ("safe-ack", Some(PrrBound::SafeAck)),
    ("repair", Some(PrrBound::Repair)),
]);
static RECOVERY_EXIT: Words<Option<RecoveryExit>, 4> = Words::new([
    ("profile", None),
    ("ssthresh", Some(RecoveryExit::Ssthresh)),
    ("rfc3782-less-careful", Some(RecoveryExit::Rfc3782LessCareful)),
    ("rfc6582", Some(RecoveryExit::Rfc6582)),
]);
static CWR: Words<Option<bool>, 3> =
    Words::new([("profile", None), ("at-once", Some(false)), ("prr", Some(true))]);
static TLP: Words<Option<Tlp>, 4> = Words::new([
    ("profile", None),
    ("off", Some(Tlp::Off)),
    ("open-only", Some(Tlp::OpenOnly)),
    ("on", Some(Tlp::On)),
]);
static HYSTART: Words<Option<HystartMode>, 6> = Words::new([
    ("profile", None),
    ("off", Some(HystartMode::Off)),
    ("hystart++", Some(HystartMode::PlusPlus)),
    ("linux", Some(hystart(true, true))),
    ("linux-train", Some(hystart(true, false))),
    ("linux-delay", Some(hystart(false, true))),
]);
static FLAVOR: Words<Option<StackFlavor>, 4> = Words::new([
    ("profile", None),
    ("rfc", Some(StackFlavor::Rfc)),
    ("linux", Some(StackFlavor::Linux)),
    ("freebsd", Some(StackFlavor::FreeBsd)),
]);
static ARITHMETIC: Words<Option<Arithmetic>, 4> = Words::new([
    ("profile", None),
    ("rfc", Some(Arithmetic::Rfc)),
    ("linux", Some(Arithmetic::Linux)),
    ("freebsd", Some(Arithmetic::FreeBsd)),
]);
static AFTER_IDLE: Words<Option<AfterIdle>, 4> = Words::new([
    ("profile", None),
    ("off", Some(AfterIdle::Keep)),
    ("on", Some(AfterIdle::Restart)),
    ("decay", Some(AfterIdle::Decay)),
]);
static NAGLE: Words<Option<Nagle>, 4> = Words::new([
    ("profile", None),
    ("all", Some(Nagle::All)),
    ("idle", Some(Nagle::Idle)),
    ("small", Some(Nagle::Small)),
]);
static TSO_AUTOSIZE: Words<Option<TsoAutosize>, 4> = Words::new([
    ("profile", None),
    ("off", Some(TsoAutosize::Off)),
    ("rate", Some(TsoAutosize::Rate)),
    ("rate-and-rtt", Some(TsoAutosize::RateAndRtt)),
]);

pub(super) const ROWS: &[P] = &[
    P::new(
        "stack.profile",
        Kind::Choice(PROFILE_NAMES.names()),
        "rfc",
        &["rfc", "linux", "linux-4.6", "freebsd", "freebsd-rack"],
        MKH,
        "A named set of the rows below (docs/deviations.md says where each leaves the RFCs)",
        // The other rows change the settings of the profile, so that they are made from it first (`settings::host`).
        |_, _| (),
)
    .linux(&[Knob::Builtin(|v, _| match v {
        Setting::Word("rfc" | "linux") => Ok(()),
        _ => Err("a kernel is what it is: linux, or nothing said"),
    })]),
    P::new("stack.cc", Kind::Choice(&CONTROLLERS), "reno", &tcpassay_cc::NAMES, MKH, "Congestion controller",
        |h, v| put(&mut h.cc, v.word().map(str::to_owned)),
)
        .needs("dctcp needs stack.ecn = dctcp at both ends; the model has the first five, a kernel all but mvegas"),
    P::new(
        "stack.cc_engine",
        Kind::Or(&["kernel", "shim"], &Kind::Text { form: "a BPF object file, `<path>.o`", check: object_file }),
        "kernel",
        &["kernel", "shim"],
        Substrates::H,
        "Who decides: Linux's own stack.cc, the model's code through BPF, or the one controller of an object file",
        |h, v| h.engine = engine(v),
)
    .needs("shim has the first five of stack.cc"),
    P::new(
        "stack.ecn",
        Kind::Choice(ECN.names()),
        "off",
        &["off", "classic", "dctcp", "accurate"],
        MKH,
        "Explicit congestion notification: RFC 3168, RFC 8257's per-packet echo, RFC 9768's counters",
        |h, v| h.stack.ecn = ECN.of(v),
)
    .linux(&[Knob::Sysctl("tcp_ecn", |_, h| match h.stack.ecn {
        EcnMode::Accurate => Err("Linux before 6.18 has no accurate ECN; the model has"),
        EcnMode::Dctcp if h.cc != "dctcp" && h.engine != CcEngine::Shim => {
            Err("Linux echoes each mark only with stack.cc = dctcp; the model with any")
        }
        EcnMode::Off | EcnMode::Dctcp => Ok(Some("0".to_owned())),
        EcnMode::Classic => Ok(Some("1".to_owned())),
    })])
    .needs("the same at both ends of a connection"),
    P::new(
        "stack.ecn_option",
        Kind::SWITCH,
        "profile",
        ON_OFF,
        M,
        "Accurate ECN with its TCP option, which counts bytes (RFC 9768 section 3.2.3), not by the three flags alone",
        |h, v| put(&mut h.stack.ecn_option, v.switch()),
)
    .needs("stack.ecn = accurate"),
    P::new(
        "stack.ecn_form",
        Kind::Choice(ECN_FORM.names()),
        "profile",
        &["profile", "rfc", "linux"],
        M,
        "Accurate ECN's option where a counter moved (RFC 9768 section 3.2.3.3), or Linux's on every segment, all ECN-capable",
        |h, v| put(&mut h.stack.ecn_form, ECN_FORM.of(v)),
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
        |h, v| put(&mut h.stack.delayed_ack, v.parsed::<DelayedAck>().map(|text| text.0)),
)
    .linux(&[Knob::Route("quickack", |v, _| match v {
        Setting::Text(how) if how == "off" => Ok(Some("1".to_owned())),
        Setting::Text(_) => {
            Err("Linux has its own rule, 40 to 200 ms by the arrivals, or none at all (`off`); the model has this one")
        }
        _ => Ok(None),
    })]),
    P::new(
        "stack.dctcp_receiver",
        Kind::Choice(DCTCP_RECEIVER.names()),
        "profile",
        &["profile", "immediate", "rearm", "clear-timer"],
        MK,
        "On a change of CE with an ACK delayed: clear its timer (the bug), arm it again, acknowledge at once",
        |h, v| put(&mut h.stack.dctcp_receiver, DCTCP_RECEIVER.of(v)),
)
    .linux(&[Knob::Module {
        file: "tcp_dctcp/parameters/dctcp_receiver",
        value: |_, h| Ok((h.stack.ecn == EcnMode::Dctcp).then(|| match h.stack.dctcp_receiver {
            DctcpReceiver::Immediate => "0".to_owned(),
            DctcpReceiver::ClearTimer => "1".to_owned(),
            DctcpReceiver::Rearm => "2".to_owned(),
        })),
        // A kernel without our patch acknowledges at once.
        absent: "0",
        shared: |_, _| true,
        once: "one kernel has one receiver; the model one for each host",
    }])
    .needs("stack.ecn = dctcp"),
    P::new(
        "stack.ack_check",
        Kind::Choice(ACK_CHECK.names()),
        "profile",
        &["profile", "always", "if-scheduled-on-slow-path"],
        M,
        "When an arriving segment asks whether an ACK is due (Linux's slow path asks only if one is scheduled)",
        |h, v| put(&mut h.stack.ack_check, ACK_CHECK.of(v)),
),
    P::new("stack.sack", Kind::SWITCH, "profile", ON_OFF, MKH, "Selective acknowledgements (RFC 2018)",
        |h, v| put(&mut h.stack.sack, v.switch()),
)
    .linux(&[Knob::Sysctl("tcp_sack", flag)]),
    P::new("stack.dsack", Kind::SWITCH, "profile", ON_OFF, MKH, "Duplicate SACK (RFC 2883)",
        |h, v| { put(&mut h.stack.dsack, v.switch()); h.stack.dsack &= h.stack.sack; },
)
    .linux(&[Knob::Sysctl("tcp_dsack", flag)])
        .needs("on needs stack.sack"),
    P::new("stack.timestamps", Kind::SWITCH, "profile", ON_OFF, MKH, "Timestamps and PAWS (RFC 7323)",
        |h, v| put(&mut h.stack.timestamps, v.switch()),
)
    .linux(&[Knob::Sysctl("tcp_timestamps", flag)]),
    P::new("stack.window_scale", Kind::SWITCH, "profile", ON_OFF, MKH, "Window scaling (RFC 7323)",
        |h, v| put(&mut h.stack.window_scale, v.switch()),
)
    .linux(&[Knob::Sysctl("tcp_window_scaling", flag)]),
    P::new(
        "stack.initial_window",
        Kind::Or(PROFILE, &Kind::Int { min: 1, max: 1000 }),
        "profile",
        &["profile", "2", "10"],
        MKH,
        "Initial window in segments (RFC 6928: 10)",
        |h, v| put(&mut h.stack.initial_window, v.int()),
)
    .linux(&[Knob::Route("initcwnd", number)]),
    P::new(
        "stack.initial_rto",
        RTO,
        "profile",
        &["profile", "1s"],
        M,
        "Retransmission timeout before a measurement",
        |h, v| put(&mut h.stack.rto.initial, v.dur()),
)
    .needs("stack.min_rto <= stack.initial_rto <= stack.max_rto"),
    P::new(
        "stack.min_rto",
        RTO,
        "profile",
        &["profile", "200ms", "10ms"],
        MKH,
        "Smallest retransmission timeout",
        |h, v| put(&mut h.stack.rto.min, v.dur()),
)
    .linux(&[Knob::Route("rto_min", |v, _| match v.dur() {
        Some(min) if min < Dur::from_millis(1) => Err("a tick is 1 ms; the model can go below"),
        min => Ok(min.map(|min| format!("{}ms", min.as_millis()))),
    })])
    .needs("stack.min_rto <= stack.max_rto"),
    P::new(
        "stack.rto_slop",
        Kind::Or(PROFILE, &Kind::DUR),
        "profile",
        &["profile", "0s", "200ms"],
        M,
        "Added to the timeout for the peer's delayed ACK (FreeBSD)",
        |h, v| put(&mut h.stack.rto.slop, v.dur()),
),
    P::new("stack.max_rto", RTO, "profile", &["profile", "60s"], M, "Largest retransmission timeout",
        |h, v| put(&mut h.stack.rto.max, v.dur()),
),
    P::new(
        "stack.rto_floor",
        Kind::Choice(RTO_FLOOR.names()),
        "profile",
        &["profile", "rto", "variance"],
        M,
        "Where min_rto enters: max(min, srtt + 4 rttvar) (RFC 6298), or srtt + max(min, 4 rttvar) (Linux)",
        |h, v| put(&mut h.stack.rto.min_on_variance, RTO_FLOOR.of(v)),
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
        |h, v| put(&mut h.stack.loss_detection, v.parsed::<LossDetection>().map(|text| text.0)),
)
    .linux(&[// TCP_RACK_LOSS_DETECTION 1, TCP_RACK_STATIC_REO_WND 2 (include/net/tcp.h).
        Knob::Sysctl("tcp_recovery", |v, _| Ok(detection(v).map(|how| match how {
            Detection::Rack { dsack_adaptation: true } => "1".to_owned(),
            Detection::Rack { dsack_adaptation: false } => "3".to_owned(),
            Detection::DupThresh { .. } => "0".to_owned(),
        }))),
        Knob::Sysctl("tcp_reordering", |v, _| Ok(match detection(v) {
            Some(Detection::DupThresh { threshold, .. }) => Some(threshold.to_string()),
            _ => None,
        })),
        Knob::Sysctl("tcp_max_reordering", |v, _| Ok(match detection(v) {
            Some(Detection::DupThresh { threshold, adaptive: false }) => Some(threshold.to_string()),
            _ => None,
        })),])
    .needs("rack needs stack.sack"),
    P::new(
        "stack.recovery",
        Kind::Choice(RECOVERY.names()),
        "profile",
        &["profile", "newreno", "sack", "prr", "freebsd"],
        M,
        "What recovery sends: RFC 6582, RFC 6675, RFC 9937, FreeBSD without PRR",
        |h, v| put(&mut h.stack.recovery, RECOVERY.of(v)),
)
    .needs("sack and freebsd need stack.sack"),
    P::new(
        "stack.prr_bound",
        Kind::Choice(PRR_BOUND.names()),
        "profile",
        &["profile", "safe-ack", "repair"],
        M,
        "How fast PRR fills the flight again below ssthresh: RFC 9937, or Linux 4.3 to 5.x",
        |h, v| put(&mut h.stack.prr_bound, PRR_BOUND.of(v)),
),
    P::new(
        "stack.recovery_exit",
        Kind::Choice(RECOVERY_EXIT.names()),
        "profile",
        &["profile", "ssthresh", "rfc6582", "rfc3782-less-careful"],
        M,
        "cwnd on leaving recovery",
        |h, v| put(&mut h.stack.recovery_exit, RECOVERY_EXIT.of(v)),
),
    P::new(
        "stack.cwr",
        Kind::Choice(CWR.names()),
        "profile",
        &["profile", "at-once", "prr"],
        M,
        "Reduction on ECE: cwnd = ssthresh at once (RFC 3168), or step by step by PRR (Linux)",
        |h, v| put(&mut h.stack.cwr_by_prr, CWR.of(v)),
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
        |h, v| put(&mut h.stack.undo, v.parsed::<Undo>().map(|text| text.0)),
),
    P::new(
        "stack.tlp",
        Kind::Choice(TLP.names()),
        "profile",
        &["profile", "off", "open-only", "on"],
        MKH,
        "Tail loss probe (RFC 8985 section 7); open-only: not after ECE (Linux before 4.15)",
        |h, v| put(&mut h.stack.tlp, TLP.of(v)),
)
    .linux(&[Knob::Sysctl("tcp_early_retrans", |v, _| match TLP.of(v) {
        None => Ok(None),
        Some(Tlp::Off) => Ok(Some("0".to_owned())),
        Some(Tlp::On) => Ok(Some("3".to_owned())),
        Some(Tlp::OpenOnly) => Err("that was Linux before 4.15; the model has it"),
    })])
    .needs("on and open-only need stack.sack"),
    P::new("stack.frto", Kind::SWITCH, "profile", ON_OFF, MKH, "Detects spurious timeouts (RFC 5682)",
        |h, v| put(&mut h.stack.frto, v.switch()),
)
    .linux(&[Knob::Sysctl("tcp_frto", |v, _| Ok(v.switch().map(|on| if on { "2" } else { "0" }.to_owned())))]),
    P::new(
        "stack.hystart",
        Kind::Choice(HYSTART.names()),
        "profile",
        &["profile", "off", "hystart++", "linux"],
        MK,
        "What ends slow start early: HyStart++ (RFC 9406; model), or in CUBIC Linux's HyStart, by ACK trains, delay or both",
        |h, v| put(&mut h.stack.hystart, HYSTART.of(v)),
)
    .linux(&[cubic_module("tcp_cubic/parameters/hystart", |v, h| match HYSTART.of(v) {
        None => Ok(None),
        Some(HystartMode::PlusPlus) => Err("Linux has a HyStart of its own"),
        Some(HystartMode::Linux(_)) if h.cc != "cubic" => Err("Linux has it in cubic"),
        Some(HystartMode::Linux(_)) => Ok(Some("1".to_owned())),
        Some(HystartMode::Off) => Ok((h.cc == "cubic").then(|| "0".to_owned())),
    }),
    cubic_module("tcp_cubic/parameters/hystart_detect", |v, h| Ok(match HYSTART.of(v) {
        Some(HystartMode::Linux(detect)) if h.cc == "cubic" => {
            Some((u8::from(detect.train) + 2 * u8::from(detect.delay)).to_string())
        }
        _ => None,
    }))]),
    P::new(
        "stack.flavor",
        Kind::Choice(FLAVOR.names()),
        "profile",
        &["profile", "rfc", "linux", "freebsd"],
        M,
        "How what does not belong is answered: stray resets and SYNs, challenge ACKs, SYNs in TIME-WAIT (RFC 9293 with 5961)",
        |h, v| put(&mut h.stack.flavor, FLAVOR.of(v)),
),
    P::new(
        "stack.cc_arithmetic",
        Kind::Choice(ARITHMETIC.names()),
        "profile",
        &["profile", "rfc", "linux", "freebsd"],
        M,
        "CUBIC, DCTCP and Reno as the RFCs have them, or as Linux, in whole segments and milliseconds, or as FreeBSD reduces",
        |h, v| put(&mut h.stack.cc_arithmetic, ARITHMETIC.of(v)),
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
        |h, v| put(&mut h.stack.pacing, v.parsed::<Pacing>().map(|text| text.0)),
)
    .linux(&[Knob::Sysctl("tcp_pacing_ss_ratio", |v, h| pacing(v, h).map(|ratios| ratios.map(|(start, _)| start.to_string()))),
        Knob::Sysctl("tcp_pacing_ca_ratio", |v, h| pacing(v, h).map(|ratios| ratios.map(|(_, later)| later.to_string()))),
        // No bound at all would be all ones, which leaves pacing as it is (`sock_setsockopt`).
        Knob::Socket(
            SocketOption::socket(libc::SO_MAX_PACING_RATE, libc::SO_MAX_PACING_RATE),
            |v, h| pacing(v, h).map(|ratios| ratios.map(|_| SocketValue::Bytes((u64::MAX - 1).to_ne_bytes().to_vec()))),
        ),]),
    P::new(
        "stack.slow_start_after_idle",
        Kind::Choice(AFTER_IDLE.names()),
        "profile",
        &["profile", "off", "on", "decay"],
        MKH,
        "After idle: keep the window, restart (RFC 5681), or halve it once an RTO (RFC 2861, Linux)",
        |h, v| put(&mut h.stack.after_idle, AFTER_IDLE.of(v)),
)
    .linux(&[Knob::Sysctl("tcp_slow_start_after_idle", |v, _| match AFTER_IDLE.of(v) {
        None => Ok(None),
        Some(AfterIdle::Keep) => Ok(Some("0".to_owned())),
        Some(AfterIdle::Decay) => Ok(Some("1".to_owned())),
        Some(AfterIdle::Restart) => Err("Linux has `off` and `decay`; the model all three"),
    })]),
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
        |h, v| put(&mut h.stack.byte_counting, v.parsed::<Abc>().map(|text| text.0)),
),
    P::new(
        "stack.limited_transmit",
        Kind::SWITCH,
        "profile",
        ON_OFF,
        M,
        "New data on the first duplicate ACKs (RFC 3042)",
        |h, v| put(&mut h.stack.limited_transmit, v.switch()),
),
    P::new(
        "stack.early_retransmit",
        Kind::SWITCH,
        "profile",
        ON_OFF,
        M,
        "A lower threshold for small flights (RFC 5827)",
        |h, v| put(&mut h.stack.early_retransmit, v.switch()),
),
    P::new(
        "stack.nagle",
        Kind::Choice(NAGLE.names()),
        "profile",
        &["profile", "all", "idle", "small"],
        M,
        "What a small segment waits for: all data acknowledged (RFC 896), but for a burst from idle (BSD), the last small one (Linux)",
        |h, v| put(&mut h.stack.nagle, NAGLE.of(v)),
)
    .needs("app.nodelay = off"),
    P::new(
        "stack.mtu",
        Kind::Bytes { min: SMALLEST_MTU, max: Bytes::new(9216) },
        "1500B",
        &["1500B", "9000B"],
        MKH,
        "Largest IP packet",
        |h, v| put(&mut h.mtu, v.bytes()),
)
    .needs("equal along a path"),
    P::new(
        "stack.mss",
        Kind::Or(&["auto"], &Kind::Bytes { min: Bytes::new(88), max: Bytes::new(9176) }),
        "auto",
        &["auto", "536B"],
        MKH,
        "Largest segment announced; auto: MTU less 40 bytes of headers",
        |h, v| h.stack.mss = v.bytes().unwrap_or(Bytes::new(h.mtu.get() - HEADERS)),
)
    .linux(&[Knob::Route("advmss", |v, _| Ok(v.bytes().map(|mss| mss.get().to_string())))])
    .needs("stack.mss + 40 <= stack.mtu"),
    P::new(
        "stack.rcv_autotune",
        Kind::SWITCH,
        "profile",
        ON_OFF,
        MKH,
        "The receive buffer follows the rate (dynamic right-sizing)",
        |h, v| h.buffers.autotune = v.switch(),
)
    .linux(&[Knob::Sysctl("tcp_moderate_rcvbuf", flag)]),
    P::new(
        "stack.max_rwnd",
        Kind::Or(PROFILE, &Kind::Bytes { min: Bytes::new(2_048), max: Bytes::new(1_000_000_000) }),
        "profile",
        &["profile", "65535B", "6MB"],
        MKH,
        "Largest receive window that autotuning reaches",
        |h, v| h.buffers.max_window = v.bytes(),
)
    .linux(&[// The buffers of a machine with memory enough. `tcp_adv_win_scale` is 1: half of a buffer is window.
        Knob::Sysctl("tcp_rmem", |v, _| {
            let max = v.bytes().map_or(6_291_456, |window| window.get() * 2);
            Ok(Some(format!("4096 {} {max}", 131_072.min(max))))
        })]),
    P::new(
        "stack.max_sndbuf",
        Kind::Or(PROFILE, &Kind::Bytes { min: Bytes::new(2_048), max: Bytes::new(4_000_000_000) }),
        "profile",
        &["profile", "64KB", "4MB"],
        MKH,
        "Largest send buffer that following the window reaches",
        |h, v| h.buffers.max_send = v.bytes(),
)
    .linux(&[Knob::Sysctl("tcp_wmem", |v, _| {
            let max = v.bytes().map_or(4_194_304, Bytes::get);
            Ok(Some(format!("4096 {} {max}", 16_384.min(max))))
        })]),
    P::new(
        "stack.fastopen",
        Kind::Bool,
        "off",
        &["off", "on"],
        M,
        "TCP Fast Open (RFC 7413): from the second connection to a server on the first bytes go with the SYN",
        |h, v| put(&mut h.fastopen, v.switch()),
)
    .needs("the same at both ends of a connection"),
    P::new(
        "stack.small_queues",
        Kind::Or(&["off", "auto"], &Kind::BYTES),
        "off",
        &["off", "auto"],
        M,
        "TCP small queues: bytes a connection may have below it in its own host (auto: 1 ms of pacing, as Linux)",
        |h, v| h.small_queues = small_queues(v),
),
    P::new(
        "stack.tso_defer",
        Kind::SWITCH,
        "profile",
        ON_OFF,
        M,
        "Wait for window rather than send a small super-segment (Linux)",
        |h, v| put(&mut h.stack.tso_defer, v.switch()),
),
    P::new(
        "stack.tso_autosize",
        Kind::Choice(TSO_AUTOSIZE.names()),
        "profile",
        &["profile", "off", "rate", "rate-and-rtt"],
        MKH,
        "Length of super-segments: a millisecond of the rate (Linux), and more for short round trips (since 5.18)",
        |h, v| put(&mut h.stack.tso_autosize, TSO_AUTOSIZE.of(v)),
)
    .linux(&[Knob::Sysctl("tcp_tso_rtt_log", |v, _| match TSO_AUTOSIZE.of(v) {
        None => Ok(None),
        Some(TsoAutosize::Rate) => Ok(Some("0".to_owned())),
        Some(TsoAutosize::RateAndRtt) => Ok(Some("9".to_owned())),
        Some(TsoAutosize::Off) => Err("Linux always goes by the rate; the model can leave it"),
    })]),
    P::new(
        "stack.syn_retries",
        COUNT,
        "profile",
        &["profile", "6"],
        MKH,
        "Retransmissions of a SYN before giving up",
// With a row of its own all retransmissions count, those with the same interval included.
        |h, v| if let Some(n) = v.int() { (h.stack.syn_retries, h.stack.syn_linear) = (n, 0); },
)
    .linux(&[Knob::Sysctl("tcp_syn_retries", number)]),
    P::new(
        "stack.retries",
        COUNT,
        "profile",
        &["profile", "15"],
        MKH,
        "Retransmissions of data before giving up",
        |h, v| put(&mut h.stack.retries, v.int()),
)
    .linux(&[Knob::Sysctl("tcp_retries2", number)]),
    P::new("stack.time_wait", RTO, "profile", &["profile", "60s"], M, "Length of TIME-WAIT",
        |h, v| put(&mut h.stack.time_wait, v.dur()),
),
    P::new("stack.fin_wait2", RTO, "profile", &["profile", "60s"], MKH, "Length of FIN-WAIT-2 of an orphan",
        |h, v| put(&mut h.stack.fin_wait2, v.dur()),
)
    .linux(&[Knob::Sysctl("tcp_fin_timeout", |v, _| match v.dur() {
        Some(d) if d < Dur::from_secs(1) || d.as_nanos() % 1_000_000_000 > 0 => {
            Err("Linux counts whole seconds; the model any time")
        }
        d => Ok(d.map(|d| (d.as_millis() / 1000).to_string())),
    })]),
];
