//! Detection of losses, and recovery from them.

use super::kinds::{M, MKH, ON_OFF, P, PROFILE};
use crate::params::grammar::{LossDetectionValue, UndoValue, check};
use crate::params::kind::{Setting, ValueKind};
use crate::params::linux::Knob;
use crate::params::row::put;
use crate::params::words::Words;
use tcpassay_tcp::{LossDetection as Detection, PrrBound, Recovery, RecoveryExitRule, Tlp};

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
static RECOVERY_EXIT: Words<Option<RecoveryExitRule>, 4> = Words::new([
    ("profile", None),
    ("ssthresh", Some(RecoveryExitRule::Ssthresh)),
    ("rfc3782-less-careful", Some(RecoveryExitRule::Rfc3782LessCareful)),
    ("rfc6582", Some(RecoveryExitRule::Rfc6582)),
]);
static CWR: Words<Option<bool>, 3> =
    Words::new([("profile", None), ("at-once", Some(false)), ("prr", Some(true))]);
static TLP: Words<Option<Tlp>, 4> = Words::new([
    ("profile", None),
    ("off", Some(Tlp::Off)),
    ("open-only", Some(Tlp::OpenOnly)),
    ("on", Some(Tlp::On)),
]);

/// The loss detection that the setting names; `None` for `profile`.
fn detection(setting: &Setting) -> Option<Detection> {
    setting.parsed::<LossDetectionValue>().map(|text| text.0)
}

pub(super) const ROWS: &[P] = &[
    P::new(
        "stack.loss_detection",
        ValueKind::Or(
            PROFILE,
            &ValueKind::Text {
                form: "`dupthresh[:<n>][:adaptive]` or `rack[:dsack]`",
                check: check::<LossDetectionValue>,
            },
        ),
        "profile",
        &["profile", "dupthresh", "dupthresh:adaptive", "rack", "rack:dsack"],
        MKH,
        "Loss detection: duplicate ACKs (RFC 5681, 6675) or RACK (RFC 8985)",
        |h, v| put(&mut h.stack.loss_detection, v.parsed::<LossDetectionValue>().map(|text| text.0)),
    )
    .linux(&[
        // TCP_RACK_LOSS_DETECTION 1, TCP_RACK_STATIC_REO_WND 2 (include/net/tcp.h).
        Knob::Sysctl("tcp_recovery", |v, _| {
            Ok(detection(v).map(|how| match how {
                Detection::Rack { dsack_adaptation: true } => "1".to_owned(),
                Detection::Rack { dsack_adaptation: false } => "3".to_owned(),
                Detection::DupThresh { .. } => "0".to_owned(),
            }))
        }),
        Knob::Sysctl("tcp_reordering", |v, _| {
            Ok(match detection(v) {
                Some(Detection::DupThresh { threshold, .. }) => Some(threshold.to_string()),
                _ => None,
            })
        }),
        Knob::Sysctl("tcp_max_reordering", |v, _| {
            Ok(match detection(v) {
                Some(Detection::DupThresh { threshold, adaptive: false }) => Some(threshold.to_string()),
                _ => None,
            })
        }),
    ])
    .needs("rack needs stack.sack"),
    P::new(
        "stack.recovery",
        ValueKind::Choice(RECOVERY.names()),
        "profile",
        &["profile", "newreno", "sack", "prr", "freebsd"],
        M,
        "Algorithm of loss recovery: RFC 6582, RFC 6675, RFC 9937 (PRR), FreeBSD without PRR",
        |h, v| put(&mut h.stack.recovery, RECOVERY.of(v)),
    )
    .needs("sack and freebsd need stack.sack"),
    P::new(
        "stack.prr_bound",
        ValueKind::Choice(PRR_BOUND.names()),
        "profile",
        &["profile", "safe-ack", "repair"],
        M,
        "Rate at which PRR restores a flight below ssthresh: RFC 9937, or Linux 4.3 to 5.x",
        |h, v| put(&mut h.stack.prr_bound, PRR_BOUND.of(v)),
    ),
    P::new(
        "stack.recovery_exit",
        ValueKind::Choice(RECOVERY_EXIT.names()),
        "profile",
        &["profile", "ssthresh", "rfc6582", "rfc3782-less-careful"],
        M,
        "cwnd at the end of recovery",
        |h, v| put(&mut h.stack.recovery_exit, RECOVERY_EXIT.of(v)),
    ),
    P::new(
        "stack.cwr",
        ValueKind::Choice(CWR.names()),
        "profile",
        &["profile", "at-once", "prr"],
        M,
        "Reduction on ECE: cwnd = ssthresh at once (RFC 3168), or gradually by PRR (Linux)",
        |h, v| put(&mut h.stack.cwr_by_prr, CWR.of(v)),
    ),
    P::new(
        "stack.undo",
        ValueKind::Or(
            PROFILE,
            &ValueKind::Text {
                form: "`off`, or `eifel`, `eifel-timeout`, `dsack`, `rack-restore` joined by `+`",
                check: check::<UndoValue>,
            },
        ),
        "profile",
        &["profile", "off", "eifel", "eifel+dsack", "rack-restore"],
        M,
        "Methods that detect a spurious recovery and undo it (RFC 3522, RFC 3708, FreeBSD RACK)",
        |h, v| put(&mut h.stack.undo, v.parsed::<UndoValue>().map(|text| text.0)),
    ),
    P::new(
        "stack.tlp",
        ValueKind::Choice(TLP.names()),
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
        Some(Tlp::OpenOnly) => Err("only Linux before 4.15 behaves so; the model supports it"),
    })])
    .needs("on and open-only need stack.sack"),
    P::new(
        "stack.frto",
        ValueKind::SWITCH,
        "profile",
        ON_OFF,
        MKH,
        "Detects spurious timeouts (RFC 5682)",
        |h, v| put(&mut h.stack.frto, v.switch()),
    )
    .linux(&[Knob::Sysctl("tcp_frto", |v, _| {
        Ok(v.switch().map(|on| if on { "2" } else { "0" }.to_owned()))
    })]),
];
