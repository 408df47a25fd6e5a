//! The retransmission timeout.

use super::kinds::{M, MKH, P, PROFILE, TIME_OR_PROFILE};
use crate::params::kind::ValueKind;
use crate::params::linux::Knob;
use crate::params::row::put;
use crate::params::words::Words;
use tcpassay_units::Dur;

static RTO_FLOOR: Words<Option<bool>, 3> =
    Words::new([("profile", None), ("rto", Some(false)), ("variance", Some(true))]);

pub(super) const ROWS: &[P] = &[
    P::new(
        "stack.initial_rto",
        TIME_OR_PROFILE,
        "profile",
        &["profile", "1s"],
        M,
        "Retransmission timeout before a measurement",
        |h, v| put(&mut h.stack.rto.initial, v.dur()),
    )
    .needs("stack.min_rto <= stack.initial_rto <= stack.max_rto"),
    P::new(
        "stack.min_rto",
        TIME_OR_PROFILE,
        "profile",
        &["profile", "200ms", "10ms"],
        MKH,
        "Smallest retransmission timeout",
        |h, v| put(&mut h.stack.rto.min, v.dur()),
    )
    .linux(&[Knob::Route("rto_min", |v, _| match v.dur() {
        Some(min) if min < Dur::from_millis(1) => Err("a tick is 1 ms; the model supports shorter times"),
        min => Ok(min.map(|min| format!("{}ms", min.as_millis()))),
    })])
    .needs("stack.min_rto <= stack.max_rto"),
    P::new(
        "stack.rto_slop",
        ValueKind::Or(PROFILE, &ValueKind::DUR),
        "profile",
        &["profile", "0s", "200ms"],
        M,
        "Added to the timeout for the peer's delayed ACK (FreeBSD)",
        |h, v| put(&mut h.stack.rto.slop, v.dur()),
    ),
    P::new(
        "stack.max_rto",
        TIME_OR_PROFILE,
        "profile",
        &["profile", "60s"],
        M,
        "Largest retransmission timeout",
        |h, v| put(&mut h.stack.rto.max, v.dur()),
    ),
    P::new(
        "stack.rto_floor",
        ValueKind::Choice(RTO_FLOOR.names()),
        "profile",
        &["profile", "rto", "variance"],
        M,
        "Quantity to which min_rto applies: max(min, srtt + 4 rttvar) (RFC 6298), or srtt + max(min, 4 rttvar) (Linux)",
        |h, v| put(&mut h.stack.rto.min_on_variance, RTO_FLOOR.of(v)),
    ),
];
