//! The settings of the model. They follow from the profile, the sysctls of the host and the options of a socket.

use super::config_freebsd::freebsd;
use super::config_linux::{buffers, linux};
use super::controller::cc_name;
use super::socket::{OpenMode, SocketOptions};
use crate::host::ScriptHost;
use crate::settings::{IpVersion, ScriptSettings, StackVersion};
use tcpassay_tcp::{
    Config, EcnMode, MemoryRules, MtuProbing, PacketPages, Profile, RecvBuffer, RecvMemory, Skbs,
};
use tcpassay_units::{Bytes, Dur};

/// The true size of an empty `sk_buff` before Linux 6.3 (`SKB_TRUESIZE`): its structures, and 1 KiB for the headers.
const SKB_OLD: u64 = 1280;

/// The size of the IP and TCP headers in bytes, without options.
pub(super) fn headers(settings: &ScriptSettings) -> u64 {
    if settings.ip_version == IpVersion::V6 { 60 } else { 40 }
}

/// The settings of a new connection.
///
/// # Errors
/// The setting that the model does not support.
pub(super) fn config(
    profile: Profile,
    host: &ScriptHost,
    settings: &ScriptSettings,
    socket: &SocketOptions,
    open: OpenMode,
) -> Result<Config, String> {
    let mut cfg = Config::profile(profile);
    let headers = headers(settings);
    let mtu = host.route.get("mtu").copied().unwrap_or(u64::from(settings.mtu.unwrap_or(1500)));
    if mtu <= headers + 20 {
        return Err(format!("an MTU of {mtu}"));
    }
    cfg.mss = Bytes::new(mtu - headers);
    if let Some(&advmss) = host.route.get("advmss") {
        cfg.mss = cfg.mss.min(Bytes::new(advmss.max(64)));
    }
    let path = host.path_mtu.map_or(mtu, |known| known.min(mtu));
    cfg.path_mss = Some(Bytes::new(path.saturating_sub(headers).max(48)));
    if let Some(&n) = host.route.get("initcwnd") {
        cfg.initial_window = u32::try_from(n).map_err(|_| "initcwnd".to_owned())?;
    }
    if let Some(&ms) = host.route.get("rto_min") {
        cfg.rto.min = Dur::from_millis(ms);
    }
    if host.route.get("quickack").is_some_and(|on| *on != 0) {
        // `tcp_in_quickack_mode`: each segment is acknowledged, and everything else is as before.
        cfg.delayed_ack.every = 1;
    }
    if settings.version == StackVersion::FreeBsd12 {
        // `tcp_syn_backoff` begins with 1, 1, 1, 1, 1, 2. Of 12 retransmissions, 4 use the first interval.
        (cfg.syn_linear, cfg.synack_linear, cfg.syn_retries) = (4, 4, 8);
    }
    match profile {
        Profile::Linux | Profile::Linux61 | Profile::Linux73 | Profile::Linux46 => {
            let old =
                Skbs { overhead: Bytes::new(SKB_OLD), headers: Bytes::new(320), initial: Bytes::new(16_384) };
            let mut skbs = cfg.skbs.unwrap_or(old);
            if let Some(n) = settings.tcp_header {
                let n = Bytes::new(u64::from(n));
                skbs.overhead = skbs.overhead - skbs.headers + n;
                skbs.headers = n;
            }
            cfg.skbs = Some(skbs);
            // The initial window is half of the default of `tcp_rmem`.
            cfg.recv_buffer =
                RecvBuffer::Auto { initial: Bytes::new(65_535), max: profile.largest_receive_buffer() };
            linux(&mut cfg, host, open)?;
            if profile.is_recent_linux() {
                cfg.recv_memory = Some(memory(profile, host, settings, open)?);
            }
        }
        Profile::FreeBsd | Profile::FreeBsdRack => freebsd(&mut cfg, host, open)?,
        Profile::Rfc => {}
    }
    if host.route.contains_key("ecn") && cfg.ecn == EcnMode::Off {
        cfg.ecn = EcnMode::Classic;
    }
    cfg.mtu_probing = probing(host, headers)?;
    socket.apply(&mut cfg);
    if matches!(profile, Profile::Linux | Profile::Linux73) {
        cfg.delay_acks_below_rto();
    }
    if cc_name(profile, host, socket) == "dctcp" {
        cfg.ecn = EcnMode::Dctcp;
    }
    Ok(cfg)
}

/// The receive memory of a Linux socket.
fn memory(
    profile: Profile,
    host: &ScriptHost,
    settings: &ScriptSettings,
    open: OpenMode,
) -> Result<RecvMemory, String> {
    let (size, max) = match host.get("net.ipv4.tcp_rmem") {
        Some(text) => {
            let (initial, most) = buffers(text).ok_or_else(|| format!("sysctl net.ipv4.tcp_rmem={text}"))?;
            (initial, most.max(initial))
        }
        None => (131_072, profile.largest_receive_buffer().get()),
    };
    Ok(RecvMemory {
        size: Bytes::new(size),
        max: Bytes::new(max),
        locked: host.number("net.ipv4.tcp_moderate_rcvbuf") == Some(0),
        shrink: host.number("net.ipv4.tcp_shrink_window").is_some_and(|n| n != 0),
        passive: open == OpenMode::Passive,
        ip: Bytes::new(headers(settings) - 20),
        gso: settings.gso.map(|n| Bytes::new(u64::from(n))),
        // `scaling_ratio`, since 6.6
        rules: if profile == Profile::Linux61 { MemoryRules::Half } else { MemoryRules::Measured },
        buffer: None,
        pages: PacketPages::Sender,
    })
}

/// Path MTU probing of Linux (`tcp_mtu_probing`).
fn probing(host: &ScriptHost, headers: u64) -> Result<Option<MtuProbing>, String> {
    let number = |key: &str, default: u64| host.number(&format!("net.ipv4.{key}")).unwrap_or(default);
    let always = match number("tcp_mtu_probing", 0) {
        0 => return Ok(None),
        n @ (1 | 2) => n == 2,
        n => return Err(format!("sysctl net.ipv4.tcp_mtu_probing={n}")),
    };
    Ok(Some(MtuProbing {
        always,
        base: Bytes::new(number("tcp_base_mss", 1024)),
        floor: Bytes::new(number("tcp_mtu_probe_floor", 48)),
        threshold: Bytes::new(number("tcp_probe_threshold", 8)),
        interval: Dur::from_secs(number("tcp_probe_interval", 600)),
        headers: Bytes::new(headers),
    }))
}
