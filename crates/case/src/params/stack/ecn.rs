//! Explicit congestion notification.

use super::kinds::{M, MKH, ON_OFF, P};
use crate::params::cc_name::CcName;
use crate::params::host::CcEngine;
use crate::params::kind::ValueKind;
use crate::params::linux::Knob;
use crate::params::row::put;
use crate::params::words::Words;
use tcpassay_tcp::{EcnForm, EcnMode, Profile};

static ECN: Words<EcnMode, 4> = Words::new([
    ("off", EcnMode::Off),
    ("classic", EcnMode::Classic),
    ("dctcp", EcnMode::Dctcp),
    ("accurate", EcnMode::Accurate),
]);
static ECN_FORM: Words<Option<EcnForm>, 3> =
    Words::new([("profile", None), ("rfc", Some(EcnForm::Rfc)), ("linux", Some(EcnForm::Linux))]);

pub(super) const ROWS: &[P] = &[
    P::new(
        "stack.ecn",
        ValueKind::Choice(ECN.names()),
        "off",
        &["off", "classic", "dctcp", "accurate"],
        MKH,
        "Explicit congestion notification: classic (RFC 3168), with the per-packet echo of DCTCP (RFC 8257), or accurate with \
         counters (RFC 9768). With different modes a connection has what its handshake agrees on (RFC 9768 section 3.1)",
        |h, v| h.stack.ecn = ECN.of(v),
    )
    .linux(&[Knob::Sysctl("tcp_ecn", |_, h| match h.stack.ecn {
        EcnMode::Accurate if h.profile == Profile::Linux73 => Ok(Some("3".to_owned())),
        EcnMode::Accurate => Err("Linux before 6.18 has no accurate ECN; the model and a kernel with stack.profile = linux-7.3 support it"),
        EcnMode::Dctcp if h.cc != CcName::DCTCP && !h.cc.is_module() && h.engine != CcEngine::Shim => {
            Err("Linux echoes each mark only with a controller that asks for it (dctcp, a module); the model does so with any")
        }
        EcnMode::Off | EcnMode::Dctcp => Ok(Some("0".to_owned())),
        EcnMode::Classic => Ok(Some("1".to_owned())),
    })]),
    P::new(
        "stack.ecn_option",
        ValueKind::SWITCH,
        "profile",
        ON_OFF,
        M,
        "Accurate ECN with its TCP option, which counts bytes (RFC 9768 section 3.2.3); off: only the ACE field",
        |h, v| put(&mut h.stack.ecn_option, v.switch()),
    )
    .needs("stack.ecn = accurate"),
    P::new(
        "stack.ecn_form",
        ValueKind::Choice(ECN_FORM.names()),
        "profile",
        &["profile", "rfc", "linux"],
        M,
        "Accurate ECN as in RFC 9768 section 3.2.3.3 (option when a counter changed), or as in Linux (option on every segment, \
         all segments ECN-capable)",
        |h, v| put(&mut h.stack.ecn_form, ECN_FORM.of(v)),
    )
    .needs("stack.ecn = accurate"),
];
