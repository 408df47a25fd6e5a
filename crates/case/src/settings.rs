//! Computation of typed settings: each row of the table changes the settings of its entity.

use crate::given::Scope;
use crate::params::{HostSettings, LinkSettings, NetworkSettings, PythonController, Substrate, stack, table};
use tcpassay_tcp::Profile;

/// The settings of the whole network.
pub(crate) fn network(scope: &Scope) -> NetworkSettings {
    let mut settings = NetworkSettings::pair();
    for rows in table::NETWORK {
        scope.apply(rows, &mut settings);
    }
    settings
}

/// The settings of a host. On a kernel the profile is Linux, or that of its version if the case names it. `python` contains the controllers in
/// Python that were read.
pub(crate) fn host(scope: &Scope, python: &[PythonController]) -> HostSettings {
    let named = stack::PROFILE_NAMES.of(&scope.find("stack.profile").0);
    let profile = match scope.substrate() {
        Substrate::Kernel | Substrate::Host | Substrate::Remote if !named.is_recent_linux() => Profile::Linux,
        _ => named,
    };
    let mut settings = HostSettings::of_profile(profile);
    for rows in table::HOST {
        scope.apply(rows, &mut settings);
    }
    scope.apply(table::NIC, &mut settings.nic);
    settings.finish();
    if let Some(named) = &mut settings.python
        && let Some(read) = python.iter().find(|one| one.file == named.file && one.class == named.class)
    {
        named.clone_from(read);
    }
    settings.cc_values = scope.controller_values();
    let known = tcpassay_cc::params(settings.cc.name());
    settings.cc_values.retain(|name, _| known.iter().any(|info| info.name == name));
    settings
}

/// The settings of a link and of its queue.
pub(crate) fn link(scope: &Scope) -> LinkSettings {
    let mut settings = LinkSettings::plain();
    scope.apply(table::LINK, &mut settings);
    scope.apply(table::QUEUE, &mut settings.queue);
    settings
}
