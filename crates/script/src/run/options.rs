//! Options of a run.

use crate::settings::{ScriptSettings, StackVersion};
use tcpassay_tcp::Profile;
use tcpassay_units::Dur;

/// Names and values of sysctls.
type Sysctls = &'static [(&'static str, &'static str)];

/// Older versions of stacks: name, profile, version, sysctls.
const OLDER: [(&str, Profile, StackVersion, Sysctls); 1] = [(
    "freebsd-12",
    Profile::FreeBsd,
    StackVersion::FreeBsd12,
    &[
        ("net.inet.tcp.delacktime", "100"),
        ("net.inet.tcp.do_prr", "0"),
        ("net.inet.tcp.rfc6675_pipe", "0"),
        ("net.inet.tcp.rexmit_initial", "3000"),
    ],
)];

/// Options of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct RunOptions {
    /// The profile of the model.
    pub profile: Profile,
    /// The runner does not compare the window, PSH and the options of a SYN (for old scripts).
    pub loose: bool,
    /// The options of the command line. The `--` lines of the script are applied after them.
    pub settings: ScriptSettings,
    /// The maximum virtual time of a run.
    pub time_limit: Dur,
    /// The maximum number of timers and events of a run.
    pub step_limit: u64,
}

impl RunOptions {
    /// The default options. The limits allow for the two hours of the keepalive timer.
    pub fn new(profile: Profile) -> RunOptions {
        RunOptions {
            profile,
            loose: false,
            settings: ScriptSettings::default(),
            time_limit: Dur::from_secs(100_000),
            step_limit: 2_000_000,
        }
    }

    /// The options for the stack `name`: a profile, or an older version of one.
    ///
    /// `freebsd-12` delays ACKs by 100 ms (40 ms since 13), recovers without PRR (default since 13) and RFC 6675 (since 14), and
    /// retransmits a SYN after 3 s (1 s since 13).
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

    /// The names that [`RunOptions::by_name`] accepts.
    pub fn names() -> Vec<&'static str> {
        Profile::ALL.iter().map(|p| p.name()).chain(OLDER.iter().map(|older| older.0)).collect()
    }
}
