//! Settings of a host that a capture does not tell, but whose effect its packets show.

use super::outcome::CaptureOutcome;
use tcpassay_tcp::Config;
use tcpassay_units::Dur;

/// The smallest timeout of a route that is tried: a tick of 250 Hz.
const MIN_RTO: Dur = Dur::from_millis(4);
/// The time within which a host acts that keeps packets for GRO: its timer and a tick of 1000 Hz (`napi_complete_done`).
const KEPT: Dur = Dur::from_millis(2);

/// A setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Setting {
    /// Duplicates are not reported.
    NoDsack,
    /// The route has a timeout below the usual minimum.
    ShortRto,
    /// The host keeps packets that arrive for a while.
    Keeps,
}

impl Setting {
    const ALL: [Setting; 3] = [Setting::NoDsack, Setting::ShortRto, Setting::Keeps];

    /// Its name for users of Linux.
    fn name(self) -> &'static str {
        match self {
            Setting::NoDsack => "net.ipv4.tcp_dsack = 0",
            Setting::ShortRto => "a smaller rto_min of the route",
            Setting::Keeps => "up to 2 ms between the arrival and TCP (gro_flush_timeout)",
        }
    }

    /// Changes what the profile has. `within`: the time within which an end acts that should act at once.
    pub fn apply(self, config: &mut Config, within: &mut Dur) {
        match self {
            Setting::NoDsack => config.dsack = false,
            Setting::ShortRto => config.rto.min = config.rto.min.min(MIN_RTO),
            Setting::Keeps => *within = KEPT.max(*within),
        }
    }
}

/// The outcome with the setting that explains all packets, or the given one, of the profile's own. `follow` follows with a setting. Two at
/// once are not tried: the receivers of other stacks would be taken for Linux.
pub(super) fn followed(plain: CaptureOutcome, follow: impl Fn(Setting) -> CaptureOutcome) -> CaptureOutcome {
    let with = |one: Setting| CaptureOutcome { setting: Some(one.name()), ..follow(one) };
    let explains = |outcome: &CaptureOutcome| outcome.first.is_none();
    Setting::ALL.into_iter().map(with).find(explains).unwrap_or(plain)
}
