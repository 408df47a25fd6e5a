//! Parameters of the number of retries and of the duration of states after the end of a connection.

use super::kinds::{M, MKH, P, PROFILE, TIME_OR_PROFILE};
use crate::params::kind::ValueKind;
use crate::params::linux::{Knob, number};
use crate::params::row::put;
use tcpassay_units::Dur;

const COUNT: ValueKind = ValueKind::Or(PROFILE, &ValueKind::Int { min: 1, max: 255 });

pub(super) const ROWS: &[P] = &[
    P::new(
        "stack.syn_retries",
        COUNT,
        "profile",
        &["profile", "6"],
        MKH,
        "Retransmissions of a SYN before giving up",
        // If the case sets this row, all retransmissions count, including those with the same interval.
        |h, v| {
            if let Some(n) = v.int() {
                (h.stack.syn_retries, h.stack.syn_linear) = (n, 0);
            }
        },
    )
    .linux(&[Knob::Sysctl("tcp_syn_retries", number)]),
    P::new(
        "stack.retries",
        COUNT,
        "profile",
        &["profile", "15"],
        MKH,
        "Retransmissions of data before giving up; in Linux the time that so many take with a timeout of 200 ms, from the first one on",
        |h, v| put(&mut h.stack.retries, v.int()),
    )
    .linux(&[Knob::Sysctl("tcp_retries2", number)]),
    P::new(
        "stack.time_wait",
        TIME_OR_PROFILE,
        "profile",
        &["profile", "60s"],
        M,
        "Length of TIME-WAIT",
        |h, v| put(&mut h.stack.time_wait, v.dur()),
    ),
    P::new(
        "stack.fin_wait2",
        TIME_OR_PROFILE,
        "profile",
        &["profile", "60s"],
        MKH,
        "Length of FIN-WAIT-2 of an orphan",
        |h, v| put(&mut h.stack.fin_wait2, v.dur()),
    )
    .linux(&[Knob::Sysctl("tcp_fin_timeout", |v, _| match v.dur() {
        Some(d) if d < Dur::from_secs(1) || d.as_nanos() % 1_000_000_000 > 0 => {
            Err("Linux supports whole seconds; the model supports any time")
        }
        d => Ok(d.map(|d| (d.as_millis() / 1000).to_string())),
    })]),
];
