//! The sysctls of Linux as settings of the model.

use super::socket::OpenMode;
use crate::host::{DCTCP_RECEIVER, ScriptHost};
use tcpassay_cc::{Arithmetic, HystartDetect, HystartMode};
use tcpassay_tcp::{AfterIdle, Config, DctcpReceiver, EcnMode, LossDetection, RecvBuffer, RecvTuning, Tlp};
use tcpassay_units::{Bytes, Dur};

/// The largest GSO packet of a TUN device, minus `MAX_TCP_HEADER` and one byte (`sk_setup_caps`).
const GSO: u64 = 65_536 - 321;

/// Sysctls of `net.ipv4` without effect on the model. A script cannot observe their effect, or the model reads them elsewhere.
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

/// Sysctls of `net.ipv4` that the model does not support. Their value must be 0.
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

/// The second and the third number of `tcp_rmem` or `tcp_wmem`.
pub(super) fn buffers(text: &str) -> Option<(u64, u64)> {
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    let [_, initial, most] = numbers[..] else { return None };
    Some((initial, most))
}

/// Applies a sysctl of ACK compression (`tcp_comp_sack_*`). Returns `None` if the value is out of range.
fn compression(cfg: &mut Config, key: &str, number: u64) -> Option<()> {
    if let Some(rule) = &mut cfg.ack_compression {
        match key {
            "tcp_comp_sack_nr" => rule.most = u32::try_from(number).ok()?,
            "tcp_comp_sack_delay_ns" => rule.delay = Dur::from_nanos(number),
            "tcp_comp_sack_rtt_percent" => rule.percent = (1..=1000).contains(&number).then_some(number)?,
            "tcp_comp_sack_slack_ns" => rule.slack = Dur::from_nanos(number),
            _ => return None,
        }
    }
    Some(())
}

/// Applies `tcp_recovery` or `tcp_reordering`. Returns `None` if the model does not support the value.
fn loss_detection(cfg: &mut Config, key: &str, number: u64) -> Option<()> {
    match (key, &mut cfg.loss_detection) {
        // TCP_RACK_LOSS_DETECTION 1, TCP_RACK_STATIC_REO_WND 2 (include/net/tcp.h).
        ("tcp_recovery", how) if number & 1 == 0 => {
            *how = LossDetection::DupThresh { threshold: 3, adaptive: true };
        }
        ("tcp_recovery", LossDetection::Rack { dsack_adaptation }) => *dsack_adaptation = number & 2 == 0,
        ("tcp_recovery", LossDetection::DupThresh { .. }) => {}
        (_, LossDetection::DupThresh { threshold, .. }) => *threshold = u32::try_from(number).ok()?,
        (_, LossDetection::Rack { .. }) if number == 3 => {}
        _ => return None,
    }
    Some(())
}

/// HyStart of `tcp_cubic`. Both detectors are on by default.
fn hystart(host: &ScriptHost) -> HystartMode {
    let module = |parameter: &str, default: u64| {
        host.number(&format!("module.tcp_cubic.{parameter}")).unwrap_or(default)
    };
    if module("hystart", 1) == 0 {
        return HystartMode::Off;
    }
    let detect = module("hystart_detect", 3);
    HystartMode::Linux(HystartDetect { train: detect & 1 != 0, delay: detect & 2 != 0 })
}

pub(super) fn linux(cfg: &mut Config, host: &ScriptHost, open: OpenMode) -> Result<(), String> {
    // Without TSO the stack still builds GSO packets. `ConnectionTable::flush` segments them.
    cfg.tso = Some(Bytes::new(GSO));
    cfg.ecn = if open == OpenMode::Passive { EcnMode::Classic } else { EcnMode::Off };
    cfg.hystart = hystart(host);
    // Controllers of the kernel count whole segments in every version. The profile `linux-4.6` of cases counts bytes.
    cfg.cc_arithmetic = Arithmetic::Linux;
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
            key if key.starts_with("tcp_comp_sack_") => {
                compression(cfg, key, number()?).ok_or_else(|| format!("sysctl net.ipv4.{key}={text}"))?;
            }
            "tcp_timestamps" => cfg.timestamps = number()? != 0,
            "tcp_sack" => cfg.sack = number()? != 0,
            "tcp_dsack" => cfg.dsack = number()? != 0,
            "tcp_window_scaling" => cfg.window_scale = number()? != 0,
            "tcp_ecn" => {
                cfg.ecn = match (number()?, open) {
                    (0, _) | (2 | 5, OpenMode::Active) => EcnMode::Off,
                    (1 | 2, _) | (4, OpenMode::Active) => EcnMode::Classic,
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
            "tcp_recovery" | "tcp_reordering" => {
                loss_detection(cfg, key, number()?).ok_or_else(|| format!("sysctl net.ipv4.{key}={text}"))?;
            }
            "tcp_slow_start_after_idle" => {
                cfg.after_idle = if number()? == 0 { AfterIdle::Keep } else { AfterIdle::Decay };
            }
            "tcp_syn_retries" => cfg.syn_retries = small()?,
            "tcp_invalid_ratelimit" => cfg.invalid_ratelimit = Some(Dur::from_millis(number()?)),
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
                // Before Linux 4.20 the buffer was sized from the initial window.
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
            // With 1, cookies are used only when the SYN queue overflows, which scripts do not cause. The value 2 is unsupported.
            "tcp_syncookies" if number()? <= 1 => {}
            _ if LACKING.contains(&key) && number()? == 0 => {}
            _ if INERT.contains(&key) => {}
            _ => return Err(format!("sysctl net.ipv4.{key}={text}")),
        }
    }
    cfg.dsack &= cfg.sack;
    // The threshold does not follow reordering beyond this number.
    if let (LossDetection::DupThresh { threshold, adaptive }, Some(most)) =
        (&mut cfg.loss_detection, host.number("net.ipv4.tcp_max_reordering"))
    {
        *adaptive &= most > u64::from(*threshold);
    }
    Ok(())
}
