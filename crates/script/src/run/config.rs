//! The stack's switches as a profile, the host's sysctls and the socket's options set them.

use super::socket::Options;
use crate::host::{DCTCP_RECEIVER, Host};
use crate::settings::{IpVersion, Settings, Version};
use tcpassay_cc::{Arithmetic, Controller, Detect, Hystart, Params};
use tcpassay_tcp::{
    AfterIdle, Config, ControlEcn, DctcpReceiver, EcnMode, Keepalive, LossDetection, MemoryRules, MtuProbing,
    Persist, Profile, Recovery, RecvBuffer, RecvMemory, RecvTuning, Skbs, Tlp,
};
use tcpassay_units::{Bytes, Dur};

/// The largest super-segment of Linux's `tun`, less `MAX_TCP_HEADER` and one (`sk_setup_caps`).
const GSO: u64 = 65_536 - 321;

/// What an empty `sk_buff` counted before 6.3 (`SKB_TRUESIZE`): its structures, and the headers in a kilobyte.
const SKB_OLD: u64 = 1280;

/// Which way a connection is opened: passive ECN is accepted and not offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Open {
    Active,
    Passive,
}

/// Linux's sysctls of `net.ipv4` that change nothing here: what they govern the model lacks, or a script cannot see.
const INERT: &[&str] = &[
    "tcp_fack",
    "tcp_retries1",
    "tcp_keepalive_time",
    "tcp_keepalive_intvl",
    "tcp_keepalive_probes",
    "tcp_congestion_control",
    "tcp_moderate_rcvbuf",
    "tcp_no_metrics_save",
    "tcp_pacing_ss_ratio",
    "tcp_pacing_ca_ratio",
    "tcp_autocorking",
    "tcp_limit_output_bytes",
    "tcp_fastopen",
    "tcp_fastopen_key",
    "tcp_fastopen_blackhole_timeout_sec",
    "tcp_max_syn_backlog",
    "tcp_tw_reuse",
    "tcp_tw_reuse_delay",
    "tcp_max_tw_buckets",
    "tcp_max_orphans",
    "tcp_mem",
    "tcp_adv_win_scale",
    "tcp_max_reordering",
    "tcp_challenge_ack_limit",
    "tcp_invalid_ratelimit",
    "tcp_tso_rtt_log",
    "tcp_mtu_probing",
    "tcp_base_mss",
    "tcp_mtu_probe_floor",
    "tcp_probe_interval",
    "tcp_probe_threshold",
    "tcp_available_congestion_control",
    "tcp_allowed_congestion_control",
    "ip_local_port_range",
    "ip_default_ttl",
    "tcp_shrink_window",
    "tcp_min_rtt_wlen",
    "tcp_orphan_retries",
    "tcp_l3mdev_accept",
    "tcp_backlog_ack_defer",
    "tcp_early_demux",
    "ip_no_pmtu_disc",
];

/// Linux's that the model lacks: they must be off.
const LACKING: &[&str] = &[
    "tcp_plb_enabled",
    "tcp_stdurg",
    "tcp_thin_dupack",
    "tcp_thin_linear_timeouts",
    "tcp_low_latency",
    "tcp_abort_on_overflow",
    "tcp_rfc1337",
    "tcp_workaround_signed_windows",
    "tcp_reflect_tos",
];

/// FreeBSD's that change nothing here.
const INERT_BSD: &[&str] = &[
    "hostcache.purgenow",
    "hostcache.enable",
    "hostcache.expire",
    "hostcache.prune",
    "rfc6675_pipe",
    "syncookies",
    "icmp_may_rst",
    "path_mtu_discovery",
    "pmtud_blackhole_detection",
    "functions_default",
    "minmss",
    "mssdflt",
    "log_debug",
    "bb.disable_all",
    "reass.maxqueuelen",
    "sendbuf_auto",
    "sendbuf_inc",
    "recvbuf_auto",
    "udp_tunneling_port",
    "udp_tunneling_overhead",
    "tso",
    "v6mssdflt",
    "always_keepalive",
    "nolocaltimewait",
    "rfc3390",
    "insecure_ack",
    "ack_war_cnt",
    "ack_war_timewindow",
    "cc.available",
    "sack.maxholes",
    "sack.globalmaxholes",
    "ts_offset_per_conn",
    "hostcache.bucketlimit",
    "sack.tso",
    "sack.lrd",
    "newsack",
    "sack.revised",
];

/// Bytes of the IP and TCP headers.
pub(super) fn headers(settings: &Settings) -> u64 {
    if settings.ip_version == IpVersion::V6 { 60 } else { 40 }
}

/// The stack's switches, or what is unsupported.
pub(super) fn config(
    profile: Profile,
    host: &Host,
    settings: &Settings,
    socket: &Options,
    open: Open,
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
    match settings.version {
        Version::Profile => {}
        // The table begins 1, 1, 1, 1, 1, 2; of twelve repetitions four come at the first interval.
        Version::FreeBsd12 => (cfg.syn_linear, cfg.synack_linear, cfg.syn_retries) = (4, 4, 8),
        Version::Linux61 => (cfg.challenge_unsent, cfg.shut_by_duplicate) = (false, false),
    }
    match profile {
        Profile::Linux | Profile::Linux46 => {
            let old =
                Skbs { overhead: Bytes::new(SKB_OLD), headers: Bytes::new(320), initial: Bytes::new(16_384) };
            cfg.skbs = cfg.skbs.or(Some(old));
            linux(&mut cfg, host, open)?;
            if profile == Profile::Linux {
                cfg.recv_memory = Some(memory(host, settings, open)?);
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
    if profile == Profile::Linux {
        // `tcp_delack_max`: a peer with the same bound must not time out.
        let most = cfg.rto.min.saturating_sub(Dur::from_millis(1)).max(Dur::from_millis(1));
        cfg.delayed_ack.timeout = cfg.delayed_ack.timeout.min(most);
    }
    if cc_name(profile, host, socket) == "dctcp" {
        cfg.ecn = EcnMode::Dctcp;
    }
    Ok(cfg)
}

/// Linux's account of receive memory.
fn memory(host: &Host, settings: &Settings, open: Open) -> Result<RecvMemory, String> {
    let (size, max) = match host.get("net.ipv4.tcp_rmem") {
        Some(text) => {
            let (initial, most) = buffers(text).ok_or_else(|| format!("sysctl net.ipv4.tcp_rmem={text}"))?;
            (initial, most.max(initial))
        }
        None => (131_072, 6 << 20),
    };
    Ok(RecvMemory {
        size: Bytes::new(size),
        max: Bytes::new(max),
        locked: host.number("net.ipv4.tcp_moderate_rcvbuf") == Some(0),
        shrink: host.number("net.ipv4.tcp_shrink_window").is_some_and(|n| n != 0),
        passive: open == Open::Passive,
        ip: Bytes::new(headers(settings) - 20),
        gso: settings.gso.map(|n| Bytes::new(u64::from(n))),
        rules: MemoryRules::Measured,
        buffer: None,
    })
}

/// The second and the third number of `tcp_rmem` or `tcp_wmem`.
fn buffers(text: &str) -> Option<(u64, u64)> {
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    let [_, initial, most] = numbers[..] else { return None };
    Some((initial, most))
}

/// Linux's search for the MTU of the path.
fn probing(host: &Host, headers: u64) -> Result<Option<MtuProbing>, String> {
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

/// One sysctl of Linux's compression of duplicate ACKs (`tcp_comp_sack_*`). Returns `None` if the value is out of range.
fn compression(cfg: &mut Config, key: &str, number: u64) -> Option<()> {
    if let Some(rule) = &mut cfg.ack_compression {
        match key {
            "tcp_comp_sack_nr" => rule.most = u32::try_from(number).ok()?,
            "tcp_comp_sack_delay_ns" => rule.delay = Dur::from_nanos(number),
            _ => rule.slack = Dur::from_nanos(number),
        }
    }
    Some(())
}

fn linux(cfg: &mut Config, host: &Host, open: Open) -> Result<(), String> {
    // Without TSO the kernel still makes super-segments, which leave it in pieces (`World::flush`).
    cfg.tso = Some(Bytes::new(GSO));
    // tcp_rmem: half of it is window at first.
    cfg.recv_buffer = RecvBuffer::Auto { initial: Bytes::new(65_535), max: Bytes::new(6 << 20) };
    cfg.ecn = if open == Open::Passive { EcnMode::Classic } else { EcnMode::Off };
    cfg.dctcp_receiver = match host.get(DCTCP_RECEIVER) {
        None => cfg.dctcp_receiver,
        Some("0") => DctcpReceiver::Immediate,
        Some("1") => DctcpReceiver::ClearTimer,
        Some("2") => DctcpReceiver::Rearm,
        Some(other) => return Err(format!("{DCTCP_RECEIVER}={other}")),
    };
    for (key, text) in host.all("net.ipv4.") {
        let number =
            || host.number(&format!("net.ipv4.{key}")).ok_or_else(|| format!("sysctl net.ipv4.{key}={text}"));
        let small =
            || number().and_then(|n| u32::try_from(n).map_err(|_| format!("sysctl net.ipv4.{key}={text}")));
        match key {
            "tcp_comp_sack_nr" | "tcp_comp_sack_delay_ns" | "tcp_comp_sack_slack_ns" => {
                compression(cfg, key, number()?).ok_or_else(|| format!("sysctl net.ipv4.{key}={text}"))?;
            }
            "tcp_timestamps" => cfg.timestamps = number()? != 0,
            "tcp_sack" => cfg.sack = number()? != 0,
            "tcp_dsack" => cfg.dsack = number()? != 0,
            "tcp_window_scaling" => cfg.window_scale = number()? != 0,
            "tcp_ecn" => {
                cfg.ecn = match (number()?, open) {
                    (0, _) | (2 | 5, Open::Active) => EcnMode::Off,
                    (1 | 2, _) | (4, Open::Active) => EcnMode::Classic,
                    (3..=5, _) => EcnMode::Accurate,
                    _ => return Err(format!("sysctl net.ipv4.tcp_ecn={text}")),
                }
            }
            "tcp_ecn_option" => {
                let n = number()?;
                cfg.ecn_option = n != 0;
                (cfg.accurate.on_demand, cfg.accurate.persist) = (n == 1, n == 3);
            }
            "tcp_ecn_option_beacon" => cfg.accurate.beacon = small()?,
            "tcp_ecn_fallback" => cfg.accurate.fallback = number()? != 0,
            "tcp_frto" => cfg.frto = number()? != 0,
            "tcp_early_retrans" => {
                let n = number()?;
                if n < 3 {
                    cfg.tlp = Tlp::Off;
                }
                cfg.early_retransmit &= n > 0;
            }
            "tcp_recovery" => {
                if number()? & 1 == 0 {
                    cfg.loss_detection = LossDetection::DupThresh { threshold: 3, adaptive: true };
                }
            }
            "tcp_reordering" => {
                let n = small()?;
                if let LossDetection::DupThresh { threshold, .. } = &mut cfg.loss_detection {
                    *threshold = n;
                } else if n != 3 {
                    return Err(format!("sysctl net.ipv4.tcp_reordering={text}"));
                }
            }
            "tcp_slow_start_after_idle" => {
                cfg.after_idle = if number()? == 0 { AfterIdle::Keep } else { AfterIdle::Decay };
            }
            "tcp_syn_retries" => cfg.syn_retries = small()?,
            "tcp_synack_retries" => cfg.synack_retries = small()?,
            "tcp_syn_linear_timeouts" => cfg.syn_linear = small()?,
            "tcp_tso_win_divisor" => cfg.tso_win_divisor = small()?.max(1),
            "tcp_min_tso_segs" => cfg.min_tso_segs = small()?,
            "tcp_retries2" => cfg.retries = small()?,
            "tcp_fin_timeout" => cfg.fin_wait2 = Dur::from_secs(number()?),
            "tcp_rto_max_ms" => {
                cfg.rto.max = Dur::from_millis(number()?).clamp(Dur::from_secs(1), Dur::from_secs(120));
            }
            "tcp_rto_min_us" => cfg.rto.min = Dur::from_micros(number()?),
            "tcp_notsent_lowat" => {
                let n = number()?;
                cfg.notsent_lowat = (n < u64::from(u32::MAX)).then(|| Bytes::new(n));
            }
            "tcp_rmem" => {
                let (usual, most) =
                    buffers(text).ok_or_else(|| format!("sysctl net.ipv4.tcp_rmem={text}"))?;
                // Before 4.20 the buffer followed the first window.
                let initial = if cfg.recv_tuning == RecvTuning::Linux { usual / 2 } else { 65_535 };
                let most = most.max(initial);
                cfg.recv_buffer = RecvBuffer::Auto { initial: Bytes::new(initial), max: Bytes::new(most) };
            }
            "tcp_wmem" => {
                let (initial, most) =
                    buffers(text).ok_or_else(|| format!("sysctl net.ipv4.tcp_wmem={text}"))?;
                if let Some(skbs) = &mut cfg.skbs {
                    skbs.initial = Bytes::new(initial);
                }
                cfg.max_send_buffer = Bytes::new(most);
            }
            // Cookies for a queue that overflows, which no script can see; 2 is cookies for everybody.
            "tcp_syncookies" if number()? <= 1 => {}
            _ if LACKING.contains(&key) && number()? == 0 => {}
            _ if INERT.contains(&key) => {}
            _ => return Err(format!("sysctl net.ipv4.{key}={text}")),
        }
    }
    Ok(())
}

/// FreeBSD's timer for a shut window, to be changed.
fn persist(cfg: &mut Config) -> &mut Persist {
    cfg.persist.as_mut().expect("FreeBSD has one")
}

fn freebsd(cfg: &mut Config, host: &Host, open: Open) -> Result<(), String> {
    // It counts marks in the header alone (`tcp_ecn.c`).
    cfg.ecn_option = false;
    cfg.ecn = if open == Open::Passive { EcnMode::Classic } else { EcnMode::Off };
    let mut space = 65_536;
    for (key, text) in host.all("net.inet.tcp.") {
        let wrong = || format!("sysctl net.inet.tcp.{key}={text}");
        let number = || host.number(&format!("net.inet.tcp.{key}")).ok_or_else(wrong);
        match key {
            "ecn.enable" => {
                cfg.ecn = match (number()?, open) {
                    (0, _) | (2 | 4, Open::Active) => EcnMode::Off,
                    (1 | 2, _) => EcnMode::Classic,
                    (3 | 4, _) => EcnMode::Accurate,
                    _ => return Err(wrong()),
                }
            }
            // A patch that FreeBSD has not taken.
            "ecn.plusplus" => {
                cfg.control_ecn = match number()? {
                    0 => ControlEcn::Off,
                    1 => ControlEcn::SynAck,
                    2 => ControlEcn::All,
                    _ => return Err(wrong()),
                }
            }
            "sack.enable" => cfg.sack = number()? != 0,
            "rfc1323" => {
                let n = number()?;
                cfg.window_scale = n == 1 || n == 2;
                cfg.timestamps = n == 1 || n == 3;
            }
            "initcwnd_segments" => cfg.initial_window = u32::try_from(number()?).map_err(|_| wrong())?,
            "delayed_ack" => cfg.delayed_ack.every = if number()? == 0 { 1 } else { 2 },
            "delacktime" => cfg.delayed_ack.timeout = Dur::from_millis(number()?),
            "rfc3042" => cfg.limited_transmit = number()? != 0,
            "persmin" => persist(cfg).min = Dur::from_millis(number()?),
            "persmax" => persist(cfg).max = Dur::from_millis(number()?),
            "rexmit_min" => cfg.rto.min = Dur::from_millis(number()?),
            "rexmit_slop" => cfg.rto.slop = Dur::from_millis(number()?),
            "keepinit" => cfg.connect_timeout = Some(Dur::from_millis(number()?)),
            "insecure_rst" => cfg.weak_resets = number()? != 0,
            "insecure_syn" => cfg.weak_syns = number()? != 0,
            "ecn.maxretries" => {
                cfg.ecn_syns = u32::try_from(number()?).map_err(|_| wrong())?.saturating_add(1);
            }
            "msl" => cfg.time_wait = Dur::from_millis(number()?) * 2,
            "finwait2_timeout" => cfg.fin_wait2 = Dur::from_millis(number()?),
            "rexmit_initial" => cfg.rto.initial = Dur::from_millis(number()?),
            "recvspace" => space = number()?,
            "tolerate_missing_ts" => cfg.tolerate_missing_timestamps = number()? != 0,
            "rexmit_drop_options" => cfg.plain_syns = number()? != 0,
            "drop_synfin" => cfg.drop_synfin = number()? != 0,
            "do_prr" if number()? == 0 => {
                // One switch by three names; on since 14.
                let pipe = ["sack.revised", "newsack", "rfc6675_pipe"]
                    .iter()
                    .find_map(|key| host.number(&format!("net.inet.tcp.{key}")));
                cfg.recovery = Recovery::FreeBsd { pipe: pipe != Some(0) };
            }
            "syncookies_only" | "blackhole" if number()? == 0 => {}
            "do_prr"
            | "sendspace"
            | "fastopen.client_enable"
            | "fastopen.server_enable"
            | "fastopen.path_disable_time"
            | "fastopen.setkey"
            | "fastopen.ccache_list"
            | "fastopen.acceptany"
            | "fastopen.psk_enable"
            | "abc_l_var"
            | "keepidle"
            | "keepintvl"
            | "keepcnt"
            | "sendbuf_max"
            | "recvbuf_max"
            | "fast_finwait2_recycle"
            | "rfc3465"
            | "cc.algorithm" => {}
            _ if INERT_BSD.contains(&key) => {}
            _ => return Err(wrong()),
        }
    }
    // `sb_max` says how large a window the scale must be able to tell (`tcp_select_window`).
    let most = host.number("kern.ipc.maxsockbuf").unwrap_or(2 << 20);
    cfg.recv_buffer =
        RecvBuffer::Auto { initial: Bytes::new(space.min(most)), max: Bytes::new(most.max(space)) };
    Ok(())
}

/// The controller's name, as this project has it.
pub(super) fn cc_name<'a>(profile: Profile, host: &'a Host, socket: &'a Options) -> &'a str {
    let set = socket.congestion.as_deref();
    let sysctl = match profile {
        Profile::Linux | Profile::Linux46 => host.get("net.ipv4.tcp_congestion_control"),
        _ => host.get("net.inet.tcp.cc.algorithm"),
    };
    // The public scripts of FreeBSD assume NewReno, its default until 14.
    let default = if matches!(profile, Profile::Linux | Profile::Linux46) { "cubic" } else { "reno" };
    match set.or(sysctl).unwrap_or(default) {
        "newreno" => "reno",
        other => other,
    }
}

/// The controller itself.
pub(super) fn controller(
    cfg: &Config,
    profile: Profile,
    host: &Host,
    name: &str,
) -> Result<Box<dyn Controller>, String> {
    let module = |parameter: &str, default: u64| {
        host.number(&format!("module.tcp_cubic.{parameter}")).unwrap_or(default)
    };
    // CUBIC's own, on by default.
    let linux = matches!(profile, Profile::Linux | Profile::Linux46);
    let detect = if module("hystart", 1) == 0 { 0 } else { module("hystart_detect", 3) };
    let hystart = if linux {
        Hystart::Linux(Detect { train: detect & 1 != 0, delay: detect & 2 != 0 })
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

/// Keepalive by the socket's options and the profile's defaults.
pub(super) fn keepalive(socket: &Options, host: &Host) -> Option<Keepalive> {
    let secs = |set: Option<u64>, key: &str, default: u64| {
        set.or_else(|| host.number(&format!("net.ipv4.{key}"))).unwrap_or(default)
    };
    socket.keepalive.then(|| Keepalive {
        idle: Dur::from_secs(secs(socket.keep_idle, "tcp_keepalive_time", 7200)),
        interval: Dur::from_secs(secs(socket.keep_interval, "tcp_keepalive_intvl", 75)),
        count: u32::try_from(secs(socket.keep_count, "tcp_keepalive_probes", 9)).unwrap_or(u32::MAX),
    })
}
