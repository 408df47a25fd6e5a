//! The name of the controller and its parameters.

use super::Bbr;
use crate::controller::{LinuxParam, ParamInfo};

impl Bbr {
    /// The controller's name.
    pub const NAME: &'static str = "bbr";
    /// Its parameters.
    pub const PARAMS: &'static [ParamInfo] = &[
        ParamInfo {
            name: "startup_gain",
            default: 2.886_718_75,
            range: (1.25, 4.0),
            doc: "gain of rate and window in Startup",
            linux: LinuxParam::Constant("Linux fixes it (bbr_high_gain)"),
        },
        ParamInfo {
            name: "cwnd_gain",
            default: 2.0,
            range: (1.0, 4.0),
            doc: "window in ProbeBw as a multiple of the bandwidth-delay product",
            linux: LinuxParam::Constant("Linux fixes it (bbr_cwnd_gain)"),
        },
        ParamInfo {
            name: "min_rtt_window",
            default: 10.0,
            range: (1.0, 60.0),
            doc: "seconds after which the smallest round-trip time is measured again",
            linux: LinuxParam::Constant("Linux fixes it (bbr_min_rtt_win_sec)"),
        },
        ParamInfo {
            name: "policer",
            default: 1.0,
            range: (0.0, 1.0),
            doc: "1: the rate of a policer is detected and used; below 1: it is not",
            linux: LinuxParam::Constant("Linux always does (bbr_lt_bw_sampling)"),
        },
        ParamInfo {
            name: "excess_gain",
            default: 1.0,
            range: (0.0, 4.0),
            doc: "part of the aggregation of ACKs that is added to the window",
            linux: LinuxParam::Constant("Linux fixes it (bbr_extra_acked_gain)"),
        },
    ];
}
