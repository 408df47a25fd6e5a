//! Socket buffers of the stack.

use super::kinds::{MKH, ON_OFF, P, PROFILE};
use crate::params::kind::ValueKind;
use crate::params::linux::{Knob, flag};
use tcpassay_units::Bytes;

pub(super) const ROWS: &[P] = &[
    P::new(
        "stack.rcv_autotune",
        ValueKind::SWITCH,
        "profile",
        ON_OFF,
        MKH,
        "The receive buffer follows the rate (dynamic right-sizing)",
        |h, v| h.buffers.autotune = v.switch(),
    )
    .linux(&[Knob::Sysctl("tcp_moderate_rcvbuf", flag)]),
    P::new(
        "stack.max_rwnd",
        ValueKind::Or(PROFILE, &ValueKind::Bytes { min: Bytes::new(2_048), max: Bytes::new(1_000_000_000) }),
        "profile",
        &["profile", "65535B", "6MB"],
        MKH,
        "Largest receive window that autotuning reaches",
        |h, v| h.buffers.max_window = v.bytes(),
    )
    .linux(&[
        // The buffers of a machine with sufficient memory. `tcp_adv_win_scale` is 1: the window is half of
        // the buffer.
        Knob::Sysctl("tcp_rmem", |v, h| {
            let max = v.bytes().map_or(h.profile.largest_receive_buffer().get(), |window| window.get() * 2);
            Ok(Some(format!("4096 {} {max}", 131_072.min(max))))
        }),
    ]),
    P::new(
        "stack.max_sndbuf",
        ValueKind::Or(PROFILE, &ValueKind::Bytes { min: Bytes::new(2_048), max: Bytes::new(4_000_000_000) }),
        "profile",
        &["profile", "64KB", "4MB"],
        MKH,
        "Largest send buffer that autotuning reaches",
        |h, v| h.buffers.max_send = v.bytes(),
    )
    .linux(&[Knob::Sysctl("tcp_wmem", |v, _| {
        let max = v.bytes().map_or(4_194_304, Bytes::get);
        Ok(Some(format!("4096 {} {max}", 16_384.min(max))))
    })]),
];
