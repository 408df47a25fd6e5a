//! Options of a run.

use crate::settings::{ScriptSettings, StackVersion};
use tcpassay_tcp::Profile;
use tcpassay_units::Dur;

/// Names and values.
type Sysctls = &'static [(&'static str, &'static str)];

/// Older versions of a profile's stack: name, profile, version, sysctls.
const OLDER: [(&str, Profile, StackVersion, Sysctls); 2] = [
    (
        "freebsd-12",
        Profile::FreeBsd,
        StackVersion::FreeBsd12,
        &[
            ("net.inet.tcp.delacktime", "100"),
            ("net.inet.tcp.do_prr", "0"),
            ("net.inet.tcp.rfc6675_pipe", "0"),
            ("net.inet.tcp.rexmit_initial", "3000"),
        ],
    ),
    ("linux-6.1", Profile::Linux, StackVersion::Linux61, &[("net.ipv4.tcp_syn_linear_timeouts", "0")]),
];

/// What a run is made with.
#[derive(Clone, PartialEq, Debug)]
pub struct RunOptions {
    /// The stack.
    pub profile: Profile,
    /// Window, PSH and the options of a SYN do not count (old scripts).
    pub loose: bool,
    /// From the command line; the script's own lines come after them.
    pub settings: ScriptSettings,
    /// The run is stopped when this much virtual time has passed.
    pub time_limit: Dur,
    /// The run is stopped after so many timers and events.
    pub step_limit: u64,
}

impl RunOptions {
    /// The defaults: two hours of keepalive and more fit into the limits.
    pub fn new(profile: Profile) -> RunOptions {
        RunOptions {
            profile,
            loose: false,
            settings: ScriptSettings::default(),
            time_limit: Dur::from_secs(100_000),
            step_limit: 2_000_000,
        }
    }

    /// By the name of a stack: a profile, or an older version of one. `freebsd-12` has delayed ACKs of 100 ms (40 ms since 13), recovery
    /// without PRR (default since 13) and RFC 6675 (since 14), and SYNs that are first repeated after 3 s (1 s since 13). `linux-6.1` repeats
    /// SYNs as Linux before 6.5, and does not answer an ACK for what was never sent.
    pub fn by_name(name: &str) -> Option<RunOptions> {
        let Some((_, profile, version, sysctls)) = OLDER.into_iter().find(|older| older.0 == name) else {
            return Profile::by_name(name).map(RunOptions::new);
        };
        let mut options = RunOptions::new(profile);
        options.settings.version = version;
        let owned = |&(sysctl, value): &(&str, &str)| (sysctl.to_owned(), value.to_owned());
        options.settings.sysctls.extend(sysctls.iter().map(owned));
        Some(options)
    }

    /// What [`RunOptions::by_name`] knows.
    pub fn names() -> Vec<&'static str> {
        Profile::ALL.iter().map(|p| p.name()).chain(OLDER.iter().map(|older| older.0)).collect()
    }
}
