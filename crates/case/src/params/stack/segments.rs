//! Sizes of segments.

use super::kinds::{M, MKH, P};
use crate::params::host::HEADERS;
use crate::params::kind::ValueKind;
use crate::params::linux::Knob;
use crate::params::row::put;
use crate::params::words::Words;
use tcpassay_tcp::{MtuProbing, Nagle};
use tcpassay_units::{Bytes, Dur};

/// The smallest MTU: a packet has room for its headers and some payload.
const SMALLEST_MTU: Bytes = Bytes::new(256);
static PROBING: Words<Option<bool>, 3> =
    Words::new([("off", None), ("black-hole", Some(false)), ("always", Some(true))]);
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
    P::new(
        "stack.mtu_probing",
        ValueKind::Choice(PROBING.names()),
        "off",
        &["off", "black-hole", "always"],
        MKH,
        "Packetization layer path MTU discovery (RFC 4821) as in Linux (tcp_mtu_probing): from timeouts of 3 s on, or from the beginning; the \
         search begins at 1024 bytes. ICMP (RFC 1191) is obeyed with each value",
        |h, v| {
            h.stack.mtu_probing = PROBING.of(v).map(|always| MtuProbing {
                always,
                base: Bytes::new(1024),
                floor: Bytes::new(48),
                threshold: Bytes::new(8),
                interval: Dur::from_secs(600),
                headers: Bytes::new(HEADERS),
            });
        },
    )
    .linux(&[Knob::Sysctl("tcp_mtu_probing", |_, h| {
        Ok(h.stack.mtu_probing.map(|probing| if probing.always { "2" } else { "1" }.to_owned()))
    })]),
];
