//! Parameters of acknowledgments.

use super::kinds::{M, MK, MKH, P, PROFILE};
use crate::params::grammar::{DelayedAckValue, check};
use crate::params::kind::{Setting, ValueKind};
use crate::params::linux::Knob;
use crate::params::row::put;
use crate::params::words::Words;
use tcpassay_tcp::{AckCheck, DctcpReceiver, EcnMode};

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

pub(super) const ROWS: &[P] = &[
    P::new(
        "stack.delayed_ack",
        ValueKind::Or(
            PROFILE,
            &ValueKind::Text {
                form: "`off` or `<n>,<timeout>[,adaptive][,quick:<k>]`, as in `2,40ms,quick:16`",
                check: check::<DelayedAckValue>,
            },
        ),
        "profile",
        &["profile", "off", "2,40ms", "2,200ms"],
        MKH,
        "Acknowledge every n segments or after the timeout; the first k at once (a kernel: `off`)",
        |h, v| match v.parsed::<DelayedAckValue>() {
            // Linux: each segment is acknowledged (`RTAX_QUICKACK`), and everything else is as before.
            Some(DelayedAckValue(None)) => h.stack.delayed_ack.every = 1,
            other => put(&mut h.stack.delayed_ack, other.and_then(|text| text.0)),
        },
    )
    .linux(&[Knob::Route("quickack", |v, _| match v {
        Setting::Text(how) if how == "off" => Ok(Some("1".to_owned())),
        Setting::Text(_) => {
            Err("Linux delays ACKs by its own rule (40 to 200 ms, depending on the arrivals) or not at all (`off`); the model supports this value")
        }
        _ => Ok(None),
    })]),
    P::new(
        "stack.dctcp_receiver",
        ValueKind::Choice(DCTCP_RECEIVER.names()),
        "profile",
        &["profile", "immediate", "rearm", "clear-timer"],
        MK,
        "Action on a change of CE while an ACK is delayed: clear its timer (the bug), arm it again, acknowledge at once",
        |h, v| put(&mut h.stack.dctcp_receiver, DCTCP_RECEIVER.of(v)),
    )
    .linux(&[Knob::Module {
        file: "tcp_dctcp/parameters/dctcp_receiver",
        value: |_, h| Ok((h.stack.ecn == EcnMode::Dctcp).then(|| match h.stack.dctcp_receiver {
            DctcpReceiver::Immediate => "0".to_owned(),
            DctcpReceiver::ClearTimer => "1".to_owned(),
            DctcpReceiver::Rearm => "2".to_owned(),
        })),
        // A kernel without the patch of tcpassay acknowledges at once.
        absent: "0",
        shared: |_, _| true,
        once: "a kernel has one setting for all hosts; the model has one per host",
    }])
    .needs("stack.ecn = dctcp"),
    P::new(
        "stack.ack_check",
        ValueKind::Choice(ACK_CHECK.names()),
        "profile",
        &["profile", "always", "if-scheduled-on-slow-path"],
        M,
        "Condition under which an arriving segment causes the check whether an ACK is due (Linux's slow path checks only if an \
         ACK is scheduled)",
        |h, v| put(&mut h.stack.ack_check, ACK_CHECK.of(v)),
    ),
];
