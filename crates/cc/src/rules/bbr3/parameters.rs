//! The name of the controller and its parameters.

use super::Bbr3;
use crate::controller::{LinuxParam, ParamInfo};

impl Bbr3 {
    /// The controller's name.
    pub const NAME: &'static str = "bbr3";
    /// Its parameters.
    pub const PARAMS: &'static [ParamInfo] = &[
        ParamInfo {
            name: "loss_thresh",
            default: 0.02,
            range: (0.001, 0.5),
            doc: "share of lost bytes in a round trip above which the flight was too large",
            linux: LinuxParam::Absent,
        },
        ParamInfo {
            name: "beta",
            default: 0.7,
            range: (0.1, 0.95),
            doc: "factor on the bounds after losses",
            linux: LinuxParam::Absent,
        },
        ParamInfo {
            name: "cwnd_gain",
            default: 2.0,
            range: (1.0, 4.0),
            doc: "window as a multiple of the bandwidth-delay product",
            linux: LinuxParam::Absent,
        },
        ParamInfo {
            name: "probe_rtt_interval",
            default: 5.0,
            range: (1.0, 60.0),
            doc: "seconds between the pauses that measure the round-trip time",
            linux: LinuxParam::Absent,
        },
        ParamInfo {
            name: "ecn",
            default: 0.0,
            range: (0.0, 1.0),
            doc: "1: ECN marks reduce the data in flight; below 1: they do not",
            linux: LinuxParam::Absent,
        },
    ];
}
