//! The congestion controller and the keepalive timer of a socket.

use super::socket::SocketOptions;
use crate::host::HostSettings;
use tcpassay_cc::{Arithmetic, Controller, HystartDetect, HystartMode, Params};
use tcpassay_tcp::{Config, Keepalive, Profile};
use tcpassay_units::Dur;

/// The name of the congestion controller in this project.
pub(super) fn cc_name<'a>(profile: Profile, host: &'a HostSettings, socket: &'a SocketOptions) -> &'a str {
    let set = socket.congestion.as_deref();
    let sysctl = match profile {
        Profile::Linux | Profile::Linux46 => host.get("net.ipv4.tcp_congestion_control"),
        _ => host.get("net.inet.tcp.cc.algorithm"),
    };
    // The public scripts for FreeBSD assume NewReno, the default before FreeBSD 14.
    let default = if matches!(profile, Profile::Linux | Profile::Linux46) { "cubic" } else { "reno" };
    match set.or(sysctl).unwrap_or(default) {
        "newreno" => "reno",
        other => other,
    }
}

/// A new congestion controller.
///
/// # Errors
/// The controller is unknown.
pub(super) fn controller(
    cfg: &Config,
    profile: Profile,
    host: &HostSettings,
    name: &str,
) -> Result<Box<dyn Controller>, String> {
    let module = |parameter: &str, default: u64| {
        host.number(&format!("module.tcp_cubic.{parameter}")).unwrap_or(default)
    };
    // HyStart of `tcp_cubic`. Both detectors are on by default.
    let linux = matches!(profile, Profile::Linux | Profile::Linux46);
    let detect = if module("hystart", 1) == 0 { 0 } else { module("hystart_detect", 3) };
    let hystart = if linux {
        HystartMode::Linux(HystartDetect { train: detect & 1 != 0, delay: detect & 2 != 0 })
    } else {
        cfg.hystart
    };
    let params = Params {
        hystart,
        arithmetic: match profile {
            Profile::Linux | Profile::Linux46 => Arithmetic::Linux,
            Profile::FreeBsd | Profile::FreeBsdRack => Arithmetic::FreeBsd,
            Profile::Rfc => cfg.cc_arithmetic,
        },
        byte_counting: cfg.byte_counting,
        ..Params::default()
    };
    tcpassay_cc::build(name, &params).map_err(|_| format!("the congestion controller `{name}`"))
}

/// The keepalive timer of a socket; `None` if `SO_KEEPALIVE` is off.
pub(super) fn keepalive(socket: &SocketOptions, host: &HostSettings) -> Option<Keepalive> {
    let secs = |set: Option<u64>, key: &str, default: u64| {
        set.or_else(|| host.number(&format!("net.ipv4.{key}"))).unwrap_or(default)
    };
    socket.keepalive.then(|| Keepalive {
        idle: Dur::from_secs(secs(socket.keep_idle, "tcp_keepalive_time", 7200)),
        interval: Dur::from_secs(secs(socket.keep_interval, "tcp_keepalive_intvl", 75)),
        count: u32::try_from(secs(socket.keep_count, "tcp_keepalive_probes", 9)).unwrap_or(u32::MAX),
    })
}
