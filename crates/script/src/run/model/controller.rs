//! The congestion controller and the keepalive timer of a socket.

use super::socket::SocketOptions;
use crate::host::ScriptHost;
use std::collections::BTreeMap;
use tcpassay_cc::{Controller, Params};
use tcpassay_tcp::{Config, Keepalive, Profile};
use tcpassay_units::Dur;

/// The name of the congestion controller in this project.
pub(super) fn cc_name<'a>(profile: Profile, host: &'a ScriptHost, socket: &'a SocketOptions) -> &'a str {
    let set = socket.congestion.as_deref();
    let sysctl = match profile {
        linux if linux.is_linux() => host.get("net.ipv4.tcp_congestion_control"),
        _ => host.get("net.inet.tcp.cc.algorithm"),
    };
    // The public scripts for FreeBSD assume NewReno, the default before FreeBSD 14.
    let default = if profile.is_linux() { "cubic" } else { "reno" };
    match set.or(sysctl).unwrap_or(default) {
        "newreno" => "reno",
        other => other,
    }
}

/// A new congestion controller.
///
/// # Errors
/// The controller is unknown.
pub(super) fn controller(cfg: &Config, name: &str) -> Result<Box<dyn Controller>, String> {
    let params = cfg.controller_params(BTreeMap::new(), Params::default().rng);
    tcpassay_cc::build(name, &params).map_err(|_| format!("the congestion controller `{name}`"))
}

/// The keepalive timer of a socket; `None` if `SO_KEEPALIVE` is off.
pub(super) fn keepalive(socket: &SocketOptions, host: &ScriptHost) -> Option<Keepalive> {
    let secs = |set: Option<u64>, key: &str, default: u64| {
        set.or_else(|| host.number(&format!("net.ipv4.{key}"))).unwrap_or(default)
    };
    socket.keepalive.then(|| Keepalive {
        idle: Dur::from_secs(secs(socket.keep_idle, "tcp_keepalive_time", 7200)),
        interval: Dur::from_secs(secs(socket.keep_interval, "tcp_keepalive_intvl", 75)),
        count: u32::try_from(secs(socket.keep_count, "tcp_keepalive_probes", 9)).unwrap_or(u32::MAX),
    })
}
