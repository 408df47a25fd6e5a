//! Scripts with a planted mismatch must fail, with the right position and message.

use super::{linux, plain, verdict};
use tcpassay_script::report::Status;
use tcpassay_script::run::{RunOptions, run};
use tcpassay_tcp::Profile;
use tcpassay_units::Dur;

#[test]
fn a_mismatch_names_the_field_and_shows_both_packets() {
    let report = plain("+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 2");
    assert_eq!(verdict(&report), "fail 10 outbound packet: ack differ");
    assert_eq!(report.details[0], "expected: 0.100000000 P. 1:1001(1000) ack 2");
    assert!(
        report.details[1].starts_with("live:     0.100000000 P. 1:1001(1000) ack 1 win "),
        "{:?}",
        report.details
    );
    assert_eq!(report.details[2], "  * ack: expected 2, live 1");
    assert!(report.details[3].starts_with("state: Established, Open; cwnd 10KB"), "{:?}", report.details);
    assert!(report.details.iter().any(|l| l.contains("SegmentOut { seq: 1,")), "{:?}", report.details);
}

#[test]
fn a_packet_one_microsecond_early_is_an_error_in_time_unless_the_tolerance_allows_it() {
    let script = "+0 write(4, ..., 1000) = 1000\n+.000001 > P. 1:1001(1000) ack 1";
    let report = plain(script);
    assert_eq!(
        verdict(&report),
        "time 10 outbound packet at 0.100000000, expected at 0.100001000: off by 1us"
    );
    assert_eq!(report.drift, Dur::from_micros(1));
    let text = super::accepted(",sackOK,nop,nop", ",nop,nop,sackOK", script);
    assert_eq!(linux(&format!("--tolerance_usecs=1\n{text}")).status, Status::Pass);
}

#[test]
fn a_packet_inside_its_range_passes_and_one_outside_does_not() {
    let lost = "+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 1\n";
    // srtt 100 ms: the probe of a single segment would leave after 400 ms, so the RTO at 300 ms goes before.
    assert_eq!(plain(&format!("{lost}+.25~+.35 > P. 1:1001(1000) ack 1")).status, Status::Pass);
    assert_eq!(plain(&format!("{lost}+.1~+.2 > P. 1:1001(1000) ack 1")).status, Status::Time);
}

#[test]
fn a_missing_packet_is_reported_with_the_next_timer_of_the_stack() {
    let report = plain("+0 > . 1:1(0) ack 1");
    assert_eq!(
        verdict(&report),
        "fail 9 the stack sent nothing; expected . 1:1(0) ack 1 at 0.100000000; no timer runs"
    );
}

#[test]
fn an_expected_packet_must_be_the_next_one() {
    let report = plain("+0 write(4, ..., 1000) = 1000\n+.5 < . 1:1(0) ack 1001 win 5\n+0 > . 1:1(0) ack 1");
    assert_eq!(report.status, Status::Fail);
    assert_eq!(report.position.unwrap().line, 11);
}

#[test]
fn a_larger_live_segment_than_expected_is_an_error_and_smaller_ones_are_joined() {
    let write = "+0 write(4, ..., 4000) = 4000\n";
    assert_eq!(plain(&format!("{write}+0 > P. 1:4001(4000) ack 1")).status, Status::Pass);
    assert_eq!(plain(&format!("{write}+0 > . 1:1001(1000) ack 1")).status, Status::Fail);
}

#[test]
fn a_result_and_an_errno_are_compared() {
    let report = plain("+0 write(4, ..., 1000) = 999");
    assert_eq!(verdict(&report), "fail 9 write: expected 999, got 1000");
    let report = plain("+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n+0 read(4, ..., 9) = -1 EPIPE (x)");
    assert_eq!(verdict(&report), "fail 10 read: expected -1 EPIPE, got -1 EAGAIN");
}

#[test]
fn a_failed_assertion_shows_the_values_of_its_names() {
    let report = plain("+0 %{ assert tcpi_snd_cwnd == 11, 'cwnd' }%");
    assert_eq!(verdict(&report), "fail 9 assertion failed: tcpi_snd_cwnd == 11: tcpi_snd_cwnd is 10 (cwnd)");
    // A message that only repeats a value is left out.
    let report = plain("+0 %{ assert tcpi_snd_cwnd == 11 and\\\n   tcpi_unacked  == 0, tcpi_snd_cwnd }%");
    assert_eq!(
        verdict(&report),
        "fail 9 assertion failed: tcpi_snd_cwnd == 11 and\\ tcpi_unacked == 0: tcpi_snd_cwnd is 10, tcpi_unacked is 0"
    );
    let report = plain("+0 %{ x = 5; assert (x if x > 6 else 0), 'no' }%");
    assert_eq!(verdict(&report), "fail 9 assertion failed: (x if x > 6 else 0): x is 5 (no)");
}

#[test]
fn unknown_commands_names_and_calls_are_unsupported_and_do_not_pass() {
    for (line, reason) in [
        ("+0 `iptables -A INPUT -j DROP`", "iptables -A INPUT -j DROP"),
        ("+0 `../some/tool.py`", "../some/tool.py"),
        ("+0 %{ assert tcpi_nonsense == 1 }%", "the name `tcpi_nonsense` in code"),
        (
            "+0 %{ import os }%",
            "code: expected `assert`, `print`, an assignment or an expression, found `import`",
        ),
        ("+0 vmsplice(4, ..., 5, 0) = 10", "the system call `vmsplice`"),
    ] {
        let report = plain(line);
        assert_eq!((report.status, &*report.reason), (Status::Unsupported, reason), "{line}");
        assert_eq!(report.position.unwrap().line, 9);
    }
}

#[test]
fn a_syntax_error_has_its_position() {
    let report = plain("+0 < Q 1:1(0) ack 1 win 5");
    assert_eq!(report.status, Status::Syntax);
    assert_eq!(report.position.unwrap().to_string(), "9:6");
}

#[test]
fn an_unknown_option_of_the_script_is_reported() {
    let report = linux("--tolerence_usecs=5\n0 `true`");
    assert_eq!(report.status, Status::Syntax);
    assert_eq!(report.reason, "`--tolerence_usecs` is not an option; see `tcpassay script --help`");
}

#[test]
fn loose_comparison_ignores_window_push_and_the_options_of_a_syn() {
    let script = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1000>
+0 > S. 0:0(0) ack 1 win 5 <mss 7>
+.1 < . 1:1(0) ack 1 win 32792
+0 accept(3, ..., ...) = 4
+0 write(4, ..., 1000) = 1000
+0 > . 1:1001(1000) ack 1";
    assert_eq!(linux(script).status, Status::Fail);
    let options = RunOptions { loose: true, ..RunOptions::new(Profile::Linux) };
    assert_eq!(run(script, &options).status, Status::Pass);
}

#[test]
fn an_endless_script_is_stopped_by_the_limit_of_virtual_time() {
    let report = plain("+200000 `true`");
    assert_eq!(verdict(&report), "fail 9 stopped after 100000s of virtual time");
}

#[test]
fn an_endless_script_is_stopped_by_the_limit_of_steps() {
    let text = super::accepted(",sackOK,nop,nop", ",nop,nop,sackOK", &"+0 `true`\n".repeat(50));
    let options = RunOptions { step_limit: 20, ..RunOptions::new(Profile::Linux) };
    assert_eq!(run(&text, &options).reason, "stopped after 20 steps");
}

#[test]
fn a_call_that_nothing_can_end_is_reported() {
    let report = plain("+0 read(4, ..., 100) = 100");
    assert_eq!(verdict(&report), "fail 9 `read` blocks, and no timer or packet can end it");
}

#[test]
fn the_same_script_gives_the_same_report() {
    let script =
        "+0 write(4, ..., 50000) = 50000\n+0 > P. 1:10001(10000) ack 1\n+.3 > P. 9001:10001(1000) ack 1";
    assert_eq!(plain(script), plain(script));
}
