//! Tests of code blocks and commands with literal results.

use super::{plain, verdict};
use tcpassay_script::host::ScriptHost;
use tcpassay_script::report::Status;
use tcpassay_script::run::{Model, RunOptions, run_on};
use tcpassay_tcp::Profile;

#[test]
fn variables_keep_their_values_between_blocks_and_printed_lines_are_reported() {
    let report =
        plain("+0 %{ cwnd = 5; cwnd += 5 }%\n+0 %{ assert tcpi_snd_cwnd == cwnd; print(cwnd, 'ok') }%");
    assert_eq!(report.status, Status::Pass, "{}", verdict(&report));
    assert_eq!(report.printed, ["10 ok"]);
}

#[test]
fn expressions_have_the_values_of_python() {
    for expression in [
        "1 + 2 * 3 == 7",
        "7 // 2 == 3 and -7 // 2 == -4 and 7 % 3 == 1",
        "not (1 > 2) and 98 <= 100 <= 110",
        "(TCPI_OPT_SACK | TCPI_OPT_WSCALE) & 2 != 0",
        "min(3, 1, 2) == 1 and max(3, 4) == 4 and abs(-5) == 5",
        "3 in (1, 2, 3) and 4 not in [1, 2]",
        "(1 if 2 > 1 else 0) == 1",
        "'%d of %s' % (1, 'x') == '1 of x'",
        "'{} {}'.format(1, 2) == '1 2'",
        "0x10 == 16 and 1 << 4 == 16 and 2 ** 3 == 8",
        "1.5 * 2 == 3",
        "-9223372036854775807 - 1 < 0 and (-9223372036854775807 - 1) / -1 > 9.2e18",
        "(-9223372036854775807 - 1) % -1 == 0 and 5 >> 70 == 0 and -5 >> 70 == -1",
        "(1, 2) == (1, 2.0) and (1, 2) != (1, 3) and 1 in (1.0, 2) and 'b' in 'abc' and 'd' not in 'abc'",
    ] {
        let report = plain(&format!("+0 %{{ assert {expression} }}%"));
        assert_eq!(report.status, Status::Pass, "{expression}: {}", verdict(&report));
    }
}

#[test]
fn commands_set_sysctls_routes_and_offloads_and_nothing_else() {
    let mut host = ScriptHost::default();
    let text = "../common/defaults.sh\nsysctl -q net.ipv4.tcp_ecn=1 # on\n../common/set_sysctls.py \\\n \
                /proc/sys/net/ipv4/tcp_min_tso_segs=10 /proc/sys/net/ipv4/tcp_frto=0\n\
                sysctl net.ipv4.tcp_rmem=\"4096 5000 6000\"; ethtool -K tun0 tso off gso off\n\
                ip route change 192.0.2.1 via 192.168.0.2 dev tun0 advmss 600 mtu lock 640 initcwnd 11\n\
                ip tcp_metrics flush all > /dev/null 2>&1";
    host.run(text, None).unwrap();
    assert_eq!(host.number("net.ipv4.tcp_ecn"), Some(1));
    assert_eq!(host.number("net.ipv4.tcp_min_tso_segs"), Some(10));
    assert_eq!(host.get("net.ipv4.tcp_rmem"), Some("4096 5000 6000"));
    assert_eq!(host.route.get("mtu"), Some(&640));
    assert_eq!(host.route.get("initcwnd"), Some(&11));
    assert!(host.no_tso);
    assert_eq!(host.run("true\nrm -rf / && reboot", None), Err("reboot".to_owned()));
}

#[test]
fn an_unknown_command_is_executed_only_with_allow_shell() {
    fn executor(line: &str) -> Result<(), String> {
        if line == "reboot" { Ok(()) } else { Err(format!("{line}: failed")) }
    }
    let run = |allowed: bool, text: &str| {
        let mut options = RunOptions::new(Profile::Linux);
        options.settings.allow_shell = allowed;
        verdict(&run_on(text, &options, &mut Model::new(Profile::Linux).with_shell_executor(executor)))
    };
    let with = |text: &str| format!("{text}\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3");
    assert_eq!(run(false, &with("`reboot`")), "unsupported 1 reboot");
    assert_eq!(run(true, &with("`reboot`")), "pass 0 ");
    assert_eq!(run(true, &with("`halt`")), "unsupported 1 halt: failed");
    let itself = run(false, &with("--allow-shell\n0 `reboot`"));
    assert!(itself.starts_with("syntax 1 "), "a script cannot allow itself: {itself}");
}
