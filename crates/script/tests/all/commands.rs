//! Shell commands of scripts, the files that they call, and settings that the model does not support.

use super::{accepted, linux, verdict};
use tcpassay_script::host::ScriptHost;
use tcpassay_script::run::{RunOptions, run};
use tcpassay_tcp::Profile;

const CALL: &str = "\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
                    +0 < S 0:0(0) win 5\n+0 > S. 0:0(0) ack 1 <...>";

fn with_files(text: &str, files: &[(&str, &str)]) -> String {
    let mut options = RunOptions::new(Profile::Linux);
    for (name, body) in files {
        options.settings.set("shell-file", &format!("{name}\n{body}")).unwrap();
    }
    verdict(&run(text, &options))
}

#[test]
fn a_command_runs_the_shell_script_of_that_name_beside_the_script() {
    let own = "#!/bin/sh\n# own\nsysctl -q net.ipv4.tcp_fastopen=0x3 > /dev/null 2>&1\nsysctl -q net.ipv4.tcp_sack=0";
    let mut host = ScriptHost::default();
    host.files.insert("./defaults.sh".to_owned(), own.to_owned());
    host.run("./defaults.sh", None).unwrap();
    assert_eq!(host.get("net.ipv4.tcp_fastopen"), Some("0x3"));
    assert_eq!(host.get("net.ipv4.tcp_rmem"), None);
    // Without one of its own, the name means google's.
    let mut host = ScriptHost::default();
    host.run("./defaults.sh || true", None).unwrap();
    assert_eq!(host.get("net.ipv4.tcp_fastopen"), Some("0x70403"));
}

#[test]
fn an_unknown_line_of_a_shell_script_is_unsupported_with_the_names_of_both() {
    let text = format!("`./setup.sh`{CALL}");
    assert_eq!(with_files(&text, &[("./setup.sh", "true\nreboot")]), "unsupported 1 ./setup.sh: reboot");
    assert_eq!(with_files(&text, &[("./setup.sh", "true")]), "pass 0 ");
    let calls = with_files(&text, &[("./setup.sh", "./setup.sh")]);
    assert!(calls.ends_with("shell scripts call each other more than 4 deep"), "{calls}");
}

#[test]
fn sysctls_that_the_model_lacks_are_unsupported_except_at_their_usual_values() {
    for (name, good, bad) in [
        ("tcp_syncookies", "1", "2"),
        ("tcp_rfc1337", "0", "1"),
        ("tcp_reflect_tos", "0", "1"),
        ("tcp_thin_linear_timeouts", "0", "1"),
    ] {
        let report = linux(&format!("`sysctl net.ipv4.{name}={good}`{CALL}"));
        assert_eq!(verdict(&report), "pass 0 ", "{name}={good}");
        let report = linux(&format!("`sysctl net.ipv4.{name}={bad}`{CALL}"));
        assert_eq!(verdict(&report), format!("unsupported 5 sysctl net.ipv4.{name}={bad}"));
    }
    for line in [
        "tc qdisc add dev tun0 root netem delay 10ms",
        "sysctl net.ipv4.tcp_fin_timeout=99999999999",
        "ip link set tun0 mtu 70000",
    ] {
        assert_eq!(verdict(&linux(&format!("`{line}`{CALL}"))), format!("unsupported 1 {line}"));
    }
}

#[test]
fn the_initial_ssthresh_is_not_printed_as_a_number() {
    let report = super::plain("+0 write(4, ..., 1000) = 1000\n+0 > . 1:1(0) ack 1");
    assert!(!report.details.is_empty());
    assert!(
        report.details.iter().all(|line| !line.contains("18446744073709551615")),
        "{:#?}",
        report.details
    );
}

#[test]
fn a_script_that_tests_nothing_is_an_error() {
    for text in [
        "",
        "// a comment",
        "--tolerance_usecs=5",
        "`rm -rf /tmp/x`",
        "`touch a`\n0 `rm b`\n`rm c`",
        "0 < S 0:0(0) win 5",
        "0 %{ print(1) }%",
        "0 %{\nif 1:\n  x = 2\n}%",
    ] {
        let report = linux(text);
        assert_eq!(
            verdict(&report),
            "syntax 1 expected a packet of the stack, a system call or an assertion; this script tests nothing",
            "{text}"
        );
    }
    assert_eq!(verdict(&linux("0 %{ assert 1 }%")), "pass 0 ");
    assert_eq!(verdict(&linux("0 %{\nif 1:\n  assert 1\n}%")), "pass 0 ");
}

#[test]
fn if_and_else_select_statements() {
    let code = "+0 %{
x = tcpi_snd_cwnd
if x == 10:
    y = 1
    if x > 20:
        y = 2
elif x == 11:
    y = 3
else: y = 4
assert y == WANTED, y
}%";
    for (x, y) in [("10", 1), ("11", 3), ("12", 4)] {
        let code = code.replace("x = tcpi_snd_cwnd", &format!("x = {x}")).replace("WANTED", &y.to_string());
        assert_eq!(verdict(&linux(&accepted("", "", &code))), "pass 0 ", "{code}");
    }
}
