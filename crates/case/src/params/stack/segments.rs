//! Sizes of segments.

use super::kinds::{M, MKH, P};
use crate::params::host::HEADERS;
use crate::params::kind::ValueKind;
use crate::params::linux::Knob;
use crate::params::row::put;
use crate::params::words::Words;
use tcpassay_tcp::Nagle;
use tcpassay_units::Bytes;

/// The smallest MTU: a packet has room for its headers and some payload.
const SMALLEST_MTU: Bytes = Bytes::new(256);
static NAGLE: Words<Option<Nagle>, 4> = Words::new([
    ("profile", None),
    ("all", Some(Nagle::All)),
    ("idle", Some(Nagle::Idle)),
    ("small", Some(Nagle::Small)),
]);

pub(super) const ROWS: &[P] = &[
    P::new(
        "stack.nagle",
        ValueKind::Choice(NAGLE.names()),
        "profile",
        &["profile", "all", "idle", "small"],
        M,
        "Condition for sending a small segment: all data acknowledged (RFC 896); also at once after an idle time (BSD); the \
         previous small segment acknowledged (Linux)",
        |h, v| put(&mut h.stack.nagle, NAGLE.of(v)),
    )
    .needs("app.nodelay = off"),
    P::new(
        "stack.mtu",
        ValueKind::Bytes { min: SMALLEST_MTU, max: Bytes::new(9216) },
        "1500B",
        &["1500B", "9000B"],
        MKH,
        "Largest IP packet",
        |h, v| put(&mut h.mtu, v.bytes()),
    )
    .needs("equal along a path"),
    P::new(
        "stack.mss",
        ValueKind::Or(&["auto"], &ValueKind::Bytes { min: Bytes::new(88), max: Bytes::new(9176) }),
        "auto",
        &["auto", "536B"],
        MKH,
        "MSS that is announced; auto: MTU minus 40 bytes of headers",
        |h, v| h.stack.mss = v.bytes().unwrap_or(Bytes::new(h.mtu.get() - HEADERS)),
    )
    .linux(&[Knob::Route("advmss", |v, _| Ok(v.bytes().map(|mss| mss.get().to_string())))])
    .needs("stack.mss + 40 <= stack.mtu"),
];
