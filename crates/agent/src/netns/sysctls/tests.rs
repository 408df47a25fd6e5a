//! Sysctls and route attributes by the settings of a case. The expected values are those of `Documentation/networking/ip-sysctl.rst` and
//! of ip-route(8).

use super::*;
use crate::testing::case;
use std::collections::BTreeMap;
use tcpassay_case::params::Substrate;

fn sysctls(rows: &[(&str, &str)]) -> BTreeMap<&'static str, String> {
    let case = case(Substrate::Kernel, rows);
    host_sysctls(&case, 0).into_iter().collect()
}

#[test]
fn without_settings_only_buffers_metrics_and_ecn_are_set() {
    let set = sysctls(&[]);
    let wanted = [
        ("tcp_ecn", "0"),
        ("tcp_no_metrics_save", "1"),
        ("tcp_rmem", "4096 131072 6291456"),
        ("tcp_wmem", "4096 16384 4194304"),
    ];
    assert_eq!(set, wanted.map(|(name, value)| (name, value.to_owned())).into());
}

#[test]
fn each_setting_changes_its_sysctl() {
    for (path, value, sysctl, wanted) in [
        ("stack.sack", "off", "tcp_sack", "0"),
        ("stack.dsack", "off", "tcp_dsack", "0"),
        ("stack.timestamps", "off", "tcp_timestamps", "0"),
        ("stack.window_scale", "off", "tcp_window_scaling", "0"),
        ("stack.rcv_autotune", "off", "tcp_moderate_rcvbuf", "0"),
        ("stack.ecn", "classic", "tcp_ecn", "1"),
        // F-RTO: 0 disables it, 2 is the default.
        ("stack.frto", "off", "tcp_frto", "0"),
        ("stack.frto", "on", "tcp_frto", "2"),
        // Early retransmit and TLP: 0 disables both, 3 enables TLP.
        ("stack.tlp", "off", "tcp_early_retrans", "0"),
        ("stack.tlp", "on", "tcp_early_retrans", "3"),
        ("stack.slow_start_after_idle", "off", "tcp_slow_start_after_idle", "0"),
        ("stack.slow_start_after_idle", "decay", "tcp_slow_start_after_idle", "1"),
        ("stack.tso_autosize", "rate", "tcp_tso_rtt_log", "0"),
        ("stack.tso_autosize", "rate-and-rtt", "tcp_tso_rtt_log", "9"),
        ("stack.fin_wait2", "5s", "tcp_fin_timeout", "5"),
        ("stack.pacing", "150%,110%", "tcp_pacing_ss_ratio", "150"),
        ("stack.pacing", "150%,110%", "tcp_pacing_ca_ratio", "110"),
        ("stack.syn_retries", "3", "tcp_syn_retries", "3"),
        ("stack.retries", "9", "tcp_retries2", "9"),
        ("stack.max_sndbuf", "1MB", "tcp_wmem", "4096 16384 1000000"),
        // Half of the receive buffer is window (tcp_adv_win_scale 1).
        ("stack.max_rwnd", "1MB", "tcp_rmem", "4096 131072 2000000"),
        ("stack.max_rwnd", "20KB", "tcp_rmem", "4096 40000 40000"),
    ] {
        let set = sysctls(&[(path, value)]);
        assert_eq!(set.get(sysctl).map(String::as_str), Some(wanted), "{path} = {value}: {set:?}");
    }
}

#[test]
fn settings_that_linux_takes_from_the_route_are_attributes_of_the_default_route() {
    for (path, value, wanted) in [
        ("stack.mss", "1400B", " advmss 1400"),
        ("stack.initial_window", "4", " initcwnd 4"),
        ("stack.min_rto", "50ms", " rto_min 50ms"),
        ("stack.delayed_ack", "off", " quickack 1"),
        ("stack.sack", "off", ""),
    ] {
        let case = case(Substrate::Kernel, &[(path, value)]);
        assert_eq!(route_attributes(&case, 0), wanted, "{path} = {value}");
        assert_eq!(route_attributes(&case, 1), wanted, "{path} = {value}");
    }
}

#[test]
fn a_setting_of_one_host_does_not_change_the_other() {
    let case = case(Substrate::Kernel, &[("receiver/stack.sack", "off")]);
    let names = |host| host_sysctls(&case, host).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert!(!names(0).contains(&"tcp_sack") && names(1).contains(&"tcp_sack"));
}

#[test]
fn a_value_that_the_release_keeps_without_an_effect_is_refused() {
    assert_eq!(without_effect("6.12.117-tcpassay", "tcp_recovery", "0"), None);
    assert_eq!(without_effect("6.16.1", "tcp_recovery", "0"), None);
    assert_eq!(without_effect("7.3.4-tcpassay", "tcp_recovery", "3"), None);
    assert_eq!(without_effect("7.3.4-tcpassay", "tcp_reordering", "0"), None);
    assert_eq!(
        without_effect("7.3.4-tcpassay", "tcp_recovery", "0").unwrap(),
        "stack.loss_detection: Linux 7.3.4-tcpassay keeps tcp_recovery = 0 without an effect: from 6.17 on it detects losses by RACK only"
    );
    assert!(without_effect("6.17.0-rc1", "tcp_recovery", "2").is_some());
}

#[test]
fn the_profile_of_a_version_is_refused_on_a_kernel_of_another_one() {
    assert_eq!(other_kernel("6.1.176-tcpassay", Profile::Linux61), None);
    assert_eq!(other_kernel("7.3.4-tcpassay", Profile::Linux73), None);
    assert_eq!(other_kernel("6.12.117", Profile::Linux), None);
    assert_eq!(
        other_kernel("6.12.117", Profile::Linux73).unwrap(),
        "stack.profile: this kernel is Linux 6.12.117, not linux-7.3; `linux` is the profile of every kernel"
    );
}
