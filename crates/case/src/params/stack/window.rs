//! Parameters of the growth of the congestion window, of pacing, and of the flavour of the stack.

use super::kinds::{M, MK, MKH, ON_OFF, P, PROFILE};
use crate::params::cc_name::CcName;
use crate::params::grammar::{Abc, PacingValue, check};
use crate::params::host::HostSettings;
use crate::params::kind::{Setting, ValueKind};
use crate::params::linux::{Derive, Knob, KnobValue, SocketOption, SocketValue};
use crate::params::row::put;
use crate::params::words::Words;
use tcpassay_cc::{Arithmetic, HystartDetect, HystartMode};
use tcpassay_tcp::{AfterIdle, StackFlavor};

static HYSTART: Words<Option<HystartMode>, 6> = Words::new([
    ("profile", None),
    ("off", Some(HystartMode::Off)),
    ("hystart++", Some(HystartMode::PlusPlus)),
    ("linux", Some(hystart(true, true))),
    ("linux-train", Some(hystart(true, false))),
    ("linux-delay", Some(hystart(false, true))),
]);
static FLAVOR: Words<Option<StackFlavor>, 5> = Words::new([
    ("profile", None),
    ("rfc", Some(StackFlavor::Rfc)),
    ("linux", Some(StackFlavor::Linux)),
    ("linux-7.3", Some(StackFlavor::Linux73)),
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

/// The pacing ratios in slow start and in congestion avoidance, in percent of window / RTT.
fn pacing(setting: &Setting, host: &HostSettings) -> KnobValue<(u32, u32)> {
    match setting.parsed::<PacingValue>().map(|text| text.0) {
        Some(tcpassay_tcp::Pacing::Off) if host.cc == CcName::BBR => Err("Linux's bbr always paces"),
        Some(tcpassay_tcp::Pacing::Percent { slow_start, avoidance }) if slow_start.max(avoidance) > 1000 => {
            Err("Linux supports up to 1000 % (tcp_pacing_ss_ratio); the model supports more")
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
        once: "a kernel has one set of parameters of a controller; the model has one per host",
    }
}

const fn hystart(train: bool, delay: bool) -> HystartMode {
    HystartMode::Linux(HystartDetect { train, delay })
}

pub(super) const ROWS: &[P] = &[
    P::new(
        "stack.hystart",
        ValueKind::Choice(HYSTART.names()),
        "profile",
        &["profile", "off", "hystart++", "linux"],
        MK,
        "Early end of slow start: HyStart++ (RFC 9406; model), or in CUBIC Linux's HyStart by ACK trains, by delay or by both",
        |h, v| put(&mut h.stack.hystart, HYSTART.of(v)),
    )
    .linux(&[cubic_module("tcp_cubic/parameters/hystart", |v, h| match HYSTART.of(v) {
        None => Ok(None),
        Some(HystartMode::PlusPlus) => Err("Linux has a different HyStart"),
        Some(HystartMode::Linux(_)) if h.cc != CcName::CUBIC => Err("Linux has it only in cubic"),
        Some(HystartMode::Linux(_)) => Ok(Some("1".to_owned())),
        Some(HystartMode::Off) => Ok((h.cc == CcName::CUBIC).then(|| "0".to_owned())),
    }),
    cubic_module("tcp_cubic/parameters/hystart_detect", |v, h| Ok(match HYSTART.of(v) {
        Some(HystartMode::Linux(detect)) if h.cc == CcName::CUBIC => {
            Some((u8::from(detect.train) + 2 * u8::from(detect.delay)).to_string())
        }
        _ => None,
    }))]),
    P::new(
        "stack.flavor",
        ValueKind::Choice(FLAVOR.names()),
        "profile",
        &["profile", "rfc", "linux", "freebsd"],
        M,
        "Answers to segments that do not fit the connection: resets and SYNs outside the window, challenge ACKs, SYNs in \
         TIME-WAIT (RFC 9293 with 5961)",
        |h, v| put(&mut h.stack.flavor, FLAVOR.of(v)),
    ),
    P::new(
        "stack.cc_arithmetic",
        ValueKind::Choice(ARITHMETIC.names()),
        "profile",
        &["profile", "rfc", "linux", "freebsd"],
        M,
        "Arithmetic of CUBIC, DCTCP and Reno: that of the RFCs, that of Linux (whole segments and milliseconds), or the \
         reductions of FreeBSD",
        |h, v| put(&mut h.stack.cc_arithmetic, ARITHMETIC.of(v)),
    ),
    P::new(
        "stack.pacing",
        ValueKind::Or(
            PROFILE,
            &ValueKind::Text { form: "`off`, `on` or `<slow start>%,<avoidance>%`", check: check::<PacingValue> },
        ),
        "profile",
        &["profile", "off", "on"],
        MKH,
        "Spread a window over its round trip (on: 200%,120%, as Linux)",
        |h, v| put(&mut h.stack.pacing, v.parsed::<PacingValue>().map(|text| text.0)),
    )
    .linux(&[Knob::Sysctl("tcp_pacing_ss_ratio", |v, h| pacing(v, h).map(|ratios| ratios.map(|(start, _)| start.to_string()))),
        Knob::Sysctl("tcp_pacing_ca_ratio", |v, h| pacing(v, h).map(|ratios| ratios.map(|(_, later)| later.to_string()))),
        // The value without a limit is all ones, which does not enable pacing (`sock_setsockopt`).
        Knob::Socket(
            SocketOption::socket(libc::SO_MAX_PACING_RATE, libc::SO_MAX_PACING_RATE),
            |v, h| pacing(v, h).map(|ratios| ratios.map(|_| SocketValue::Bytes((u64::MAX - 1).to_ne_bytes().to_vec()))),
        ),]),
    P::new(
        "stack.slow_start_after_idle",
        ValueKind::Choice(AFTER_IDLE.names()),
        "profile",
        &["profile", "off", "on", "decay"],
        MKH,
        "Window after an idle time: unchanged, restart window (RFC 5681), or halved once per RTO (RFC 2861, Linux)",
        |h, v| put(&mut h.stack.after_idle, AFTER_IDLE.of(v)),
    )
    .linux(&[Knob::Sysctl("tcp_slow_start_after_idle", |v, _| match AFTER_IDLE.of(v) {
        None => Ok(None),
        Some(AfterIdle::Keep) => Ok(Some("0".to_owned())),
        Some(AfterIdle::Decay) => Ok(Some("1".to_owned())),
        Some(AfterIdle::Restart) => Err("Linux supports `off` and `decay`; the model supports all three"),
    })]),
    P::new(
        "stack.abc",
        ValueKind::Or(
            PROFILE,
            &ValueKind::Text {
                form: "`per-ack`, `all`, or a limit in MSS an ACK, as in `2`",
                check: check::<Abc>,
            },
        ),
        "profile",
        &["profile", "per-ack", "2", "all"],
        M,
        "Growth of the window per ACK in slow start (RFC 3465)",
        |h, v| put(&mut h.stack.byte_counting, v.parsed::<Abc>().map(|text| text.0)),
    ),
    P::new(
        "stack.limited_transmit",
        ValueKind::SWITCH,
        "profile",
        ON_OFF,
        M,
        "New data on the first duplicate ACKs (RFC 3042)",
        |h, v| put(&mut h.stack.limited_transmit, v.switch()),
    ),
    P::new(
        "stack.early_retransmit",
        ValueKind::SWITCH,
        "profile",
        ON_OFF,
        M,
        "A lower threshold for small flights (RFC 5827)",
        |h, v| put(&mut h.stack.early_retransmit, v.switch()),
    ),
];
