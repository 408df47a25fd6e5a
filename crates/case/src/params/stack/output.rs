//! Parameters of output: data with the SYN, TCP small queues, super-segments.

use super::kinds::{M, MKH, ON_OFF, P};
use crate::params::host::SmallQueues;
use crate::params::kind::{Setting, ValueKind};
use crate::params::linux::Knob;
use crate::params::row::put;
use crate::params::words::Words;
use tcpassay_tcp::TsoAutosize;

static TSO_AUTOSIZE: Words<Option<TsoAutosize>, 4> = Words::new([
    ("profile", None),
    ("off", Some(TsoAutosize::Off)),
    ("rate", Some(TsoAutosize::Rate)),
    ("rate-and-rtt", Some(TsoAutosize::RateAndRtt)),
]);

fn small_queues(setting: &Setting) -> SmallQueues {
    match setting {
        Setting::Bytes(bytes) => SmallQueues::Bytes(*bytes),
        Setting::Word("auto") => SmallQueues::Auto,
        Setting::Word("off") => SmallQueues::Off,
        _ => SmallQueues::Profile,
    }
}

pub(super) const ROWS: &[P] = &[
    P::new(
        "stack.fastopen",
        ValueKind::Bool,
        "off",
        &["off", "on"],
        M,
        "TCP Fast Open (RFC 7413): from the second connection to a server the SYN carries the first bytes",
        |h, v| put(&mut h.fastopen, v.switch()),
    )
    .needs("the same at both ends of a connection"),
    P::new(
        "stack.small_queues",
        ValueKind::Or(&["profile", "off", "auto"], &ValueKind::BYTES),
        "profile",
        &["profile", "off", "auto"],
        M,
        "TCP small queues: limit of the bytes of a connection in the queues of its own host (auto: 1 ms of pacing, as in Linux; \
         profile: with `linux` auto with `nic.tx_usecs`, the same limit in memory where packets wait for `nic.rate` or an access link, otherwise off)",
        |h, v| h.small_queues = small_queues(v),
    ),
    P::new(
        "stack.tso_defer",
        ValueKind::SWITCH,
        "profile",
        ON_OFF,
        M,
        "Wait for more window instead of sending a small super-segment (Linux)",
        |h, v| put(&mut h.stack.tso_defer, v.switch()),
    ),
    P::new(
        "stack.tso_autosize",
        ValueKind::Choice(TSO_AUTOSIZE.names()),
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
        Some(TsoAutosize::Off) => Err("Linux always uses the rate; the model supports both"),
    })]),
];
