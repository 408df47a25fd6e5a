//! The profile of a stack, and its congestion controller.

use super::kinds::{MKH, P};
use crate::params::cc_name::{CONTROLLERS, CcName, check_module};
use crate::params::host::CcEngine;
use crate::params::implementation::{self, Implementation};
use crate::params::kind::{Setting, ValueKind};
use crate::params::linux::Knob;
use crate::params::python_controller::{self, PythonController};
use crate::params::row::put;
use crate::params::spec::Substrates;
use crate::params::words::Words;
use tcpassay_tcp::Profile;

fn object_file(text: &str) -> Result<(), String> {
    let object = std::path::Path::new(text).extension().is_some_and(|end| end == "o");
    if object { Ok(()) } else { Err("its name ends in `.o`".to_owned()) }
}

fn engine(setting: &Setting) -> CcEngine {
    match setting {
        Setting::Word("shim") => CcEngine::Shim,
        Setting::Text(path) => CcEngine::Object(path.clone()),
        _ => CcEngine::Kernel,
    }
}

/// A class in Python, or a controller of a module.
fn foreign(text: &str) -> Result<(), String> {
    if text.starts_with("module:") { check_module(text) } else { python_controller::check(text) }
}

/// The profiles by name.
pub(crate) static PROFILE_NAMES: Words<Profile, 7> = Words::new([
    (Profile::Rfc.name(), Profile::Rfc),
    (Profile::Linux.name(), Profile::Linux),
    (Profile::Linux61.name(), Profile::Linux61),
    (Profile::Linux73.name(), Profile::Linux73),
    (Profile::Linux46.name(), Profile::Linux46),
    (Profile::FreeBsd.name(), Profile::FreeBsd),
    (Profile::FreeBsdRack.name(), Profile::FreeBsdRack),
]);

/// The differences between two profiles of kernels, as `tcpassay params` prints them.
const OF_LINUX_7_3: &str = "linux-7.3 differs from linux-6.1: compressed ACKs wait 33 % of the round trip and 10 us (5 % and 100 us); \
    the window is the share of payload in the buffer (half of it), the buffer grows up to 32 MiB (6 MiB), by what is out of order, too; the first window may exceed 64 KiB; \
    an ACK waits less than stack.min_rto; the FIN obeys cwnd; old timestamps are refused for 2147 s (24 days), old ACKs with them are not answered; \
    the third segment must echo a timestamp of the SYN-ACK; four SYNs before the timeout doubles; ACKs of unsent data are answered; \
    a duplicate ACK may close the window; losses are detected by RACK only; the first buffer of unsent data is filled from the next one; \
    of the buffer's round trips an echo within a tick is none, and a longer one counts only while nothing is unread";

pub(super) const ROWS: &[P] = &[
    P::new(
        "stack.implementation",
        ValueKind::Or(&Implementation::NAMES, &ValueKind::Text { form: implementation::FORM, check: implementation::check }),
        "model",
        &Implementation::NAMES,
        Substrates::M,
        "The TCP of the host: the model, or a real one in virtual time (docs/stacks.md)",
        |h, v| h.implementation = Implementation::of(v),
    )
    .needs("a real TCP has only its own settings; nic.tso and nic.gro are off"),
    P::new(
        "stack.profile",
        ValueKind::Choice(PROFILE_NAMES.names()),
        "rfc",
        &["rfc", "linux", "linux-6.1", "linux-7.3", "linux-4.6", "freebsd", "freebsd-rack"],
        MKH,
        "A named set of the rows below, the same in scripts (docs/deviations.md says where each leaves the RFCs); `linux` is `linux-6.1` with the SYN timeouts of 6.5, \
         and answers to ACKs of unsent data (7.1) and windows that duplicate ACKs close (6.6); on a kernel it is the kernel's own",
        // `settings::host` applies the profile before all other rows, because they change its settings.
        |_, _| (),
    )
    .linux(&[Knob::Builtin(|v, _| match v {
        Setting::Word("rfc" | "linux" | "linux-6.1" | "linux-7.3") => Ok(()),
        _ => Err("a kernel supports only `linux`, which is also its default, and the `linux-6.1` or `linux-7.3` that it is"),
    })])
    .needs(OF_LINUX_7_3),
    P::new(
        "stack.cc",
        ValueKind::Or(&CONTROLLERS, &ValueKind::Text { form: "`python:<file>.py:<Class>` or `module:<name>`", check: foreign }),
        "reno",
        &tcpassay_cc::NAMES,
        MKH,
        "Congestion controller: one of the model or of Linux, a class in Python (docs/controllers-python.md), or one that a module \
         registered in the kernel (`tcpassay kernel build --module`)",
        |h, v| {
            put(&mut h.cc, v.word().map(CcName::new));
            h.python = None;
            if let Setting::Text(text) = v {
                let module = CcName::module(text);
                h.cc = module.unwrap_or(CcName::PYTHON);
                h.python = module.is_none().then(|| PythonController::named(text));
            }
        },
    )
    .needs("dctcp needs stack.ecn = dctcp at this host; the model supports the first seven and Python, a kernel all but bbr3, none and Python (mvegas with its module), smoltcp none, reno and cubic"),
    P::new(
        "stack.cc_engine",
        ValueKind::Or(&["kernel", "shim"], &ValueKind::Text { form: "a BPF object file, `<path>.o`", check: object_file }),
        "kernel",
        &["kernel", "shim"],
        Substrates::H,
        "Code of the congestion controller: the stack.cc of Linux, the code of the model through BPF, or the controller in an \
         object file",
        |h, v| h.engine = engine(v),
    )
    .needs("shim supports reno, cubic, dctcp, vegas and mvegas"),
];
