//! Parameters of the TCP options that the handshake negotiates, and of the initial window.

use super::kinds::{M, MKH, ON_OFF, P, PROFILE};
use crate::params::kind::ValueKind;
use crate::params::linux::{Knob, flag, number};
use crate::params::row::put;

pub(super) const ROWS: &[P] = &[
    P::new(
        "stack.sack",
        ValueKind::SWITCH,
        "profile",
        ON_OFF,
        MKH,
        "Selective acknowledgements (RFC 2018)",
        |h, v| put(&mut h.stack.sack, v.switch()),
    )
    .linux(&[Knob::Sysctl("tcp_sack", flag)]),
    P::new("stack.dsack", ValueKind::SWITCH, "profile", ON_OFF, MKH, "Duplicate SACK (RFC 2883)", |h, v| {
        put(&mut h.stack.dsack, v.switch());
        h.stack.dsack &= h.stack.sack;
    })
    .linux(&[Knob::Sysctl("tcp_dsack", flag)])
    .needs("on needs stack.sack"),
    P::new(
        "stack.timestamps",
        ValueKind::SWITCH,
        "profile",
        ON_OFF,
        MKH,
        "Timestamps and PAWS (RFC 7323)",
        |h, v| put(&mut h.stack.timestamps, v.switch()),
    )
    .linux(&[Knob::Sysctl("tcp_timestamps", flag)]),
    P::new(
        "stack.window_scale",
        ValueKind::SWITCH,
        "profile",
        ON_OFF,
        MKH,
        "Window scaling (RFC 7323)",
        |h, v| put(&mut h.stack.window_scale, v.switch()),
    )
    .linux(&[Knob::Sysctl("tcp_window_scaling", flag)]),
    P::new(
        "stack.initial_window",
        ValueKind::Or(PROFILE, &ValueKind::Int { min: 1, max: 1000 }),
        "profile",
        &["profile", "2", "10"],
        MKH,
        "Initial window in segments (RFC 6928: 10)",
        |h, v| put(&mut h.stack.initial_window, v.int()),
    )
    .linux(&[Knob::Route("initcwnd", number)]),
    P::new(
        "stack.isn",
        ValueKind::Or(&["random"], &ValueKind::Int { min: 0, max: 4_294_967_295 }),
        "random",
        &["random", "4294900000"],
        M,
        "Initial sequence number of the first connection of the host; the others have the stack's own (RFC 9293 section 3.4.1)",
        |h, v| h.isn = v.int(),
    ),
];
