//! Sysctls and route attributes of a host, from the settings of its stack.

use crate::netns::topology::NetnsTopology;
use crate::system::{Failure, write_and_check};
use tcpassay_case::params::Setting;
use tcpassay_case::{Case, HostSettings};
use tcpassay_tcp::{EcnMode, LossDetection, Pacing, RecvBuffer};

/// The attributes of a host's default route (`ip route`) for the settings that Linux takes from the route.
pub fn route_attributes(case: &Case, host: usize) -> String {
    let mut words = String::new();
    let said = |path: &str| case.host_setting(host, path).0;
    if let Setting::Bytes(mss) = said("stack.mss") {
        words = format!("{words} advmss {}", mss.get());
    }
    if let Setting::Int(segments) = said("stack.initial_window") {
        words = format!("{words} initcwnd {segments}");
    }
    if let Setting::Dur(min) = said("stack.min_rto") {
        words = format!("{words} rto_min {}ms", min.as_millis());
    }
    if matches!(said("stack.delayed_ack"), Setting::Text(off) if off == "off") {
        words.push_str(" quickack 1");
    }
    words
}

/// The sysctls of a host, each with its value; what the case leaves to the kernel is not among them.
fn host_sysctls(case: &Case, host: usize) -> Vec<(&'static str, String)> {
    let settings: &HostSettings = &case.hosts[host];
    let said = |path: &str| case.host_setting(host, path).0;
    // Buffers as on a machine with memory enough; nothing remembered from one connection to the next.
    let max = match (said("stack.max_rwnd"), settings.stack.recv_buffer) {
        // tcp_adv_win_scale 1: half of a buffer is window.
        (Setting::Bytes(max), _) => max.get() * 2,
        (_, RecvBuffer::Auto { .. } | RecvBuffer::Fixed(_)) => 6_291_456,
    };
    let sndbuf = if let Setting::Bytes(max) = said("stack.max_sndbuf") { max.get() } else { 4_194_304 };
    let mut all = vec![
        ("tcp_rmem", format!("4096 {} {max}", 131_072.min(max))),
        ("tcp_wmem", format!("4096 {} {sndbuf}", 16_384.min(sndbuf))),
        ("tcp_no_metrics_save", "1".to_owned()),
        ("tcp_ecn", u8::from(settings.stack.ecn == EcnMode::Classic).to_string()),
    ];
    let switches = [
        ("stack.sack", "tcp_sack"),
        ("stack.dsack", "tcp_dsack"),
        ("stack.timestamps", "tcp_timestamps"),
        ("stack.window_scale", "tcp_window_scaling"),
        ("stack.rcv_autotune", "tcp_moderate_rcvbuf"),
    ];
    for (path, sysctl) in switches {
        if let Setting::Bool(on) = said(path) {
            all.push((sysctl, u8::from(on).to_string()));
        }
    }
    if let Setting::Bool(on) = said("stack.frto") {
        all.push(("tcp_frto", if on { "2" } else { "0" }.to_owned()));
    }
    match said("stack.tlp") {
        Setting::Word("off") => all.push(("tcp_early_retrans", "0".to_owned())),
        Setting::Word("on") => all.push(("tcp_early_retrans", "3".to_owned())),
        _ => {}
    }
    match said("stack.slow_start_after_idle") {
        Setting::Word("off") => all.push(("tcp_slow_start_after_idle", "0".to_owned())),
        Setting::Word("decay") => all.push(("tcp_slow_start_after_idle", "1".to_owned())),
        _ => {}
    }
    match said("stack.tso_autosize") {
        Setting::Word("rate") => all.push(("tcp_tso_rtt_log", "0".to_owned())),
        Setting::Word("rate-and-rtt") => all.push(("tcp_tso_rtt_log", "9".to_owned())),
        _ => {}
    }
    if let Setting::Dur(d) = said("stack.fin_wait2") {
        all.push(("tcp_fin_timeout", (d.as_millis() / 1000).to_string()));
    }
    if let (Setting::Text(_), Pacing::Percent { slow_start, avoidance }) =
        (said("stack.pacing"), settings.stack.pacing)
    {
        all.push(("tcp_pacing_ss_ratio", slow_start.to_string()));
        all.push(("tcp_pacing_ca_ratio", avoidance.to_string()));
    }
    for (path, sysctl) in [("stack.syn_retries", "tcp_syn_retries"), ("stack.retries", "tcp_retries2")] {
        if let Setting::Int(n) = said(path) {
            all.push((sysctl, n.to_string()));
        }
    }
    if !matches!(said("stack.loss_detection"), Setting::Word(_)) {
        match settings.stack.loss_detection {
            // TCP_RACK_LOSS_DETECTION 1, TCP_RACK_STATIC_REO_WND 2 (include/net/tcp.h).
            LossDetection::Rack { dsack_adaptation } => {
                all.push(("tcp_recovery", if dsack_adaptation { "1" } else { "3" }.to_owned()));
            }
            LossDetection::DupThresh { threshold, adaptive } => {
                all.push(("tcp_recovery", "0".to_owned()));
                all.push(("tcp_reordering", threshold.to_string()));
                if !adaptive {
                    all.push(("tcp_max_reordering", threshold.to_string()));
                }
            }
        }
    }
    all
}

/// Writes the sysctls of a namespace, which the process has entered, and reads each of them back.
pub fn apply(case: &Case, topology: &NetnsTopology, place: usize) -> Result<(), Failure> {
    for scope in ["all", "default"] {
        write_and_check(&format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1")?;
    }
    if let Some(host) = topology.namespaces[place].host {
        for (name, value) in host_sysctls(case, host) {
            write_and_check(&format!("/proc/sys/net/ipv4/{name}"), &value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
