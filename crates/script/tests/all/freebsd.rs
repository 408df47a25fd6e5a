//! The processing of unusual segments by FreeBSD (`tcp_do_segment`, the SYN cache, `tcp_twcheck`).

use crate::{verdict, verdict_on};
use std::fmt::Write;
use tcpassay_script::run::{RunOptions, run};
use tcpassay_tcp::Profile;

fn freebsd(text: &str) -> String {
    verdict_on(Profile::FreeBsd, text)
}

const ACTIVE: &str = "
0 `sysctl -w net.inet.tcp.recvspace=65536`
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 getsockopt(3, SOL_SOCKET, SO_RCVBUF, [65536], [4]) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS
+0 > S 0:0(0) win 65535 <mss 1460,nop,wscale 6,sackOK,TS val 100 ecr 0>
";

const ESTABLISHED: &str = "
+.1 < S. 0:0(0) ack 1 win 32767 <mss 1460,sackOK,eol,eol>
+0 > . 1:1(0) ack 1 win 65535
+0 getsockopt(3, SOL_SOCKET, SO_RCVBUF, [65700], [4]) = 0
";

const PASSIVE: &str = "
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 2) = 0
+0 < S 0:0(0) win 32767 <mss 1460,sackOK,eol,eol>
+0 > S. 0:0(0) ack 1 win 65535 <mss 1460,sackOK,eol,eol>
";

#[test]
fn syn_retransmissions_include_the_slop_and_end_after_keepinit() {
    let script = format!(
        "{ACTIVE}+1 > S 0:0(0) win 65535 <...>\n+2.2 > S 0:0(0) win 65535 <...>\n+4.2 > S 0:0(0) <...>
+8.2 > S 0:0(0) <...>\n+16.2 > S 0:0(0) <...>\n+32.2 > S 0:0(0) <...>
+11.3 getsockopt(3, SOL_SOCKET, SO_ERROR, [ETIMEDOUT], [4]) = 0"
    );
    assert_eq!(freebsd(&script), "pass 0 ");
}

#[test]
fn a_reset_at_the_right_edge_of_the_window_is_challenged_and_one_outside_is_dropped() {
    let script = format!(
        "{ACTIVE}{ESTABLISHED}+.1 < R 65701:65701(0) win 32767\n+.1 < R 65700:65700(0) win 32767
+0 > . 1:1(0) ack 1 win 65535\n+0 getsockopt(3, SOL_SOCKET, SO_ERROR, [0], [4]) = 0"
    );
    assert_eq!(freebsd(&script), "pass 0 ");
}

#[test]
fn with_insecure_rst_a_reset_in_the_window_ends_the_connection() {
    let script = format!(
        "`sysctl -w net.inet.tcp.insecure_rst=1`{ACTIVE}{ESTABLISHED}+.1 < R 65700:65700(0) win 32767
+.1 getsockopt(3, SOL_SOCKET, SO_ERROR, [ECONNRESET], [4]) = 0"
    );
    assert_eq!(freebsd(&script), "pass 0 ");
}

#[test]
fn with_insecure_syn_a_syn_in_the_window_is_answered_by_a_reset() {
    let script = format!(
        "`sysctl -w net.inet.tcp.insecure_syn=1`{ACTIVE}{ESTABLISHED}+.1 < S 65700:65700(0) win 32767 <mss 1460>
+0 > R. 1:1(0) ack 1 win 0\n+0 getsockopt(3, SOL_SOCKET, SO_ERROR, [ECONNRESET], [4]) = 0"
    );
    assert_eq!(freebsd(&script), "pass 0 ");
}

#[test]
fn data_and_fin_of_a_syn_ack_are_accepted() {
    let script = format!(
        "{ACTIVE}+.1 < SF. 0:10(10) ack 1 win 32767 <mss 1460>\n+0 > . 1:1(0) ack 12 win 65535
+0 read(3, ..., 100) = 10\n+0 read(3, ..., 100) = 0"
    );
    assert_eq!(freebsd(&script), "pass 0 ");
}

#[test]
fn a_closed_port_answers_with_a_reset() {
    let script = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0
+.1 < S 17:20(3) win 32767 <mss 1460,sackOK,eol,eol>\n+0 > R. 0:0(0) ack 21 win 0";
    assert_eq!(freebsd(script), "pass 0 ");
}

#[test]
fn in_time_wait_a_syn_above_the_window_begins_a_connection_and_an_older_one_is_dropped() {
    let script = format!(
        "{PASSIVE}+.1 < . 1:1(0) ack 1 win 32767\n+0 accept(3, ..., ...) = 4\n+.1 shutdown(4, SHUT_WR) = 0
+0 > F. 1:1(0) ack 1 win 65535\n+.1 < F. 1:1(0) ack 2 win 32767\n+0 > . 2:2(0) ack 2 win 65535
+.1 < S 2:2(0) win 32767 <mss 1460,sackOK,eol,eol>
+.1 < R 2:2(0) win 32767
+.1 < S 65536:65536(0) win 32767 <mss 1460,sackOK,eol,eol>
#ifdef FreeBSD
+0 > S. ...(0) ack 65537 win 65535 <mss 1460,sackOK,eol,eol>
#endif
#ifdef STANDARD
+0 > R. 2:2(0) ack 2 win 0
#endif"
    );
    assert_eq!(freebsd(&script), "pass 0 ");
}

#[test]
fn sysctls_of_the_command_line_select_the_behaviour_of_an_older_version() {
    // FreeBSD 12: 100 ms instead of 40.
    let script = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1460,sackOK,eol,eol>
+0 > S. 0:0(0) ack 1 win 65535 <mss 1460,sackOK,eol,eol>
+.01 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
+0 < . 1:2(1) ack 1 win 65535
+.1 > . 1:1(0) ack 2 win 65535";
    let mut options = RunOptions::new(Profile::FreeBsd);
    assert_eq!(
        verdict(&run(script, &options)),
        "time 9 outbound packet at 0.050000000, expected at 0.110000000: off by 60ms"
    );
    options.settings.set("sysctl", "net.inet.tcp.delacktime=100").expect("a sysctl");
    assert_eq!(verdict(&run(script, &options)), "pass 0 ");
    assert!(options.settings.set("sysctl", "delacktime").is_err());
}

#[test]
fn without_prr_the_window_begins_at_one_segment_and_grows_while_less_than_half_of_it_is_in_flight() {
    let head = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000,sackOK,eol,eol>
+0 > S. 0:0(0) ack 1 win 65535 <...>
+.01 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
+.1 write(4, ..., 13000) = 13000
";
    let mut script = head.to_owned();
    for from in (1..10_001).step_by(1000) {
        writeln!(script, "+0 > . {from}:{}(1000) ack 1", from + 1000).expect("a text");
    }
    // Limited transmit twice, then the hole; nothing until less than 5000 bytes are above what was SACKed.
    script += "+.1 < . 1:1(0) ack 1 win 65535 <sack 1001:2001,nop,nop>
+0 > . 10001:11001(1000) ack 1
+.01 < . 1:1(0) ack 1 win 65535 <sack 1001:3001,nop,nop>
+0 > . 11001:12001(1000) ack 1
+.01 < . 1:1(0) ack 1 win 65535 <sack 1001:4001,nop,nop>
+0 > . 1:1001(1000) ack 1
+.01 < . 1:1(0) ack 1 win 65535 <sack 1001:5001,nop,nop>
+.01 < . 1:1(0) ack 1 win 65535 <sack 1001:6001,nop,nop>
+.01 < . 1:1(0) ack 1 win 65535 <sack 1001:7001,nop,nop>
+.01 < . 1:1(0) ack 1 win 65535 <sack 1001:8001,nop,nop>
+.01 < . 1:1(0) ack 1 win 65535 <sack 1001:9001,nop,nop>
+0 > P. 12001:13001(1000) ack 1
+.01 < . 1:1(0) ack 9001 win 65535
+0 > . 13001:13001(0) ack 1";
    let run_as = |name: &str| verdict(&run(&script, &RunOptions::by_name(name).expect("a stack")));
    assert_eq!(run_as("freebsd-12"), "pass 0 ");
    assert!(run_as("freebsd").starts_with("time 30 outbound packet at 0.250000000"), "{}", run_as("freebsd"));
}

#[test]
fn icmp_errors_that_are_hard_end_a_connection_attempt_and_others_do_not() {
    for (message, error) in [
        ("unreachable port_unreachable", "ECONNREFUSED"),
        ("unreachable net_prohibited", "ECONNREFUSED"),
        ("time_exceeded ttl_exceeded_in_transit", "EHOSTUNREACH"),
        ("unreachable host_unreachable", "0"),
        ("source_quench", "0"),
    ] {
        let script = format!(
            "{ACTIVE}+.1 < icmp {message} [0:0(0)]\n+0 getsockopt(3, SOL_SOCKET, SO_ERROR, [{error}], [4]) = 0"
        );
        assert_eq!(freebsd(&script), "pass 0 ", "{message}");
        let deaf = format!(
            "`sysctl net.inet.tcp.icmp_may_rst=0`{ACTIVE}+.1 < icmp {message} [0:0(0)]
+0 getsockopt(3, SOL_SOCKET, SO_ERROR, [0], [4]) = 0"
        );
        assert_eq!(freebsd(&deaf), "pass 0 ", "{message}");
    }
}

#[test]
fn the_answer_to_a_crossing_syn_has_the_options_that_both_offered() {
    let script = format!(
        "{ACTIVE}+.1 < S 0:0(0) win 32767 <mss 1460,sackOK,eol,eol>
+0 > S. 0:0(0) ack 1 win 65535 <mss 1460,sackOK,eol,eol>"
    );
    assert_eq!(freebsd(&script), "pass 0 ");
}

#[test]
fn packets_have_the_tos_of_the_socket_and_with_tcp_noopt_a_syn_ack_has_no_options() {
    let script = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 setsockopt(3, IPPROTO_IP, IP_TOS, [IPTOS_DSCP_CS1], 4) = 0
+0 setsockopt(3, IPPROTO_TCP, TCP_NOOPT, [1], 4) = 0
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < (tos 0x28) S 0:0(0) win 65535 <mss 1000,wscale 6,TS val 100 ecr 0,sackOK,eol>
+0 > (tos 0x20) S. 0:0(0) ack 1 win 65535
+0 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
+0 %{ assert tcpi_state == TCPI_ESTABLISHED }%
+0 %{ assert tcpi_options == 0 }%
+0 setsockopt(4, IPPROTO_IP, IP_TOS, [IPTOS_DSCP_AF41], 4) = 0
+0 write(4, ..., 100) = 100
+0 > (tos 0x88) P. 1:101(100) ack 1 win 65535";
    assert_eq!(freebsd(script), "pass 0 ");
}

#[test]
fn data_of_a_crossing_syn_are_readable_after_the_handshake() {
    let script = format!(
        "{ACTIVE}+.1 < S 0:3(3) win 32767 <mss 1460,sackOK,eol,eol>
+0 > S. 0:0(0) ack 1 win 65535 <mss 1460,sackOK,eol,eol>
+0 read(3, ..., 100) = -1 EWOULDBLOCK
+.1 < . 4:4(0) ack 1 win 65535
+0 read(3, ..., 100) = 3"
    );
    assert_eq!(freebsd(&script), "pass 0 ");
}

#[test]
fn with_rexmit_drop_options_the_fourth_syn_has_only_the_mss_option() {
    let script = format!(
        "`sysctl net.inet.tcp.rexmit_drop_options=1`{ACTIVE}+1 > S 0:0(0) win 65535 <...>
+2.2 > S 0:0(0) win 65535 <mss 1460,nop,wscale 6,sackOK,TS val 3300 ecr 0>
+4.2 > S 0:0(0) win 65535 <mss 1460>"
    );
    assert_eq!(freebsd(&script), "pass 0 ");
}

#[test]
fn a_hop_limit_is_compared_where_a_script_writes_it() {
    let script = |hops: u8| {
        format!(
            "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 setsockopt(3, IPPROTO_IP, IP_TTL, [4], 4) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS
+0 > (ttl 4) S 0:0(0) win 65535 <...>
+.1 < (ttl 3) S. 0:0(0) ack 1 win 32767 <mss 1460>
+0 setsockopt(3, IPPROTO_IP, IP_TTL, [6], 4) = 0
+0 write(3, ..., 10) = 10
+0 > (ttl 4) . 1:1(0) ack 1
+0 > (ttl {hops}) P. 1:11(10) ack 1"
        )
    };
    assert_eq!(freebsd(&script(6)), "pass 0 ");
    assert_eq!(freebsd(&script(5)), "fail 10 outbound packet: hops differ");
}

#[test]
fn ecn_plus_marks_the_syn_ack_and_ecn_plus_plus_every_packet() {
    // The expected ECN fields of the SYN-ACK and of other packets without new data.
    for (kind, answer, control) in [(0, "noecn", "noecn"), (1, "ect0", "noecn"), (2, "ect0", "ect0")] {
        let script = format!(
            "0 `sysctl net.inet.tcp.ecn.enable=1`
+0 `sysctl net.inet.tcp.ecn.plusplus={kind}`
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 <[noecn] SEW 0:0(0) win 65535 <mss 1000,sackOK,eol,eol>
+0 >[{answer}] SE. 0:0(0) ack 1 win 65535 <...>
+0 <[noecn] . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
+.1 write(4, ..., 4000) = 4000
+0 >[ect0] . 1:1001(1000) ack 1
+0 >[ect0] . 1001:2001(1000) ack 1
+0 >[ect0] . 2001:3001(1000) ack 1
+0 >[ect0] P. 3001:4001(1000) ack 1
+0 <[noecn] . 1:1(0) ack 1 win 65535 <sack 1001:2001,eol,nop>
+0 <[noecn] . 1:1(0) ack 1 win 65535 <sack 1001:3001,eol,nop>
+0 <[noecn] . 1:1(0) ack 1 win 65535 <sack 1001:4001,eol,nop>
+0 >[{control}] W. 1:1001(1000) ack 1
+.1 <[ect0] . 1001:2001(1000) ack 4001 win 65535
+0 >[{control}] . 4001:4001(0) ack 1 <nop,nop,sack 1001:2001>
+.1 close(4) = 0
+0 >[{control}] F. 4001:4001(0) ack 1 <nop,nop,sack 1001:2001>"
        );
        let report = run(&script, &RunOptions::by_name("freebsd").expect("a stack"));
        assert_eq!(verdict(&report), "pass 0 ", "{kind}");
    }
}

#[test]
fn in_syn_received_a_reset_up_to_the_right_edge_of_the_window_is_challenged() {
    let listen = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32767 <mss 1460,sackOK,eol,eol>
+0 > S. 0:0(0) ack 1 win 65535 <mss 1460,sackOK,eol,eol>
";
    let crossed = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS
+0 > S 0:0(0) win 65535 <...>
+.1 < S 0:0(0) win 32767 <mss 1460,sackOK,eol,eol>
+0 > S. 0:0(0) ack 1 win 65535 <mss 1460,sackOK,eol,eol>
";
    for (open, last) in [(listen, 65_535), (crossed, 65_700)] {
        let beyond = last + 1;
        let script = format!(
            "{open}+.1 < R {beyond}:{beyond}(0) win 32767
+.1 < R. {last}:{last}(0) ack 2 win 32767
+0 > . 1:1(0) ack 1 win 65535
+.1 < . 1:1(0) ack 1 win 32767
+0 < F. 1:1(0) ack 1 win 32767
+0 > . 1:1(0) ack 2 win 65535"
        );
        let report = run(&script, &RunOptions::by_name("freebsd").expect("a stack"));
        assert_eq!(verdict(&report), "pass 0 ", "{last}");
    }
}

#[test]
fn cwr_without_data_ends_the_echo_and_is_acknowledged() {
    let script = "0 `sysctl net.inet.tcp.ecn.enable=1`
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 <[noecn] SEW 0:0(0) win 65535 <mss 1000,sackOK,eol,eol>
+0 >[noecn] SE. 0:0(0) ack 1 win 65535 <...>
+0 <[noecn] . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
+.1 <[ce] . 1:1001(1000) ack 1 win 65535
+0 <[ect0] . 1001:2001(1000) ack 1 win 65535
+0 >[noecn] E. 1:1(0) ack 2001
+.1 <[noecn] W. 2001:2001(0) ack 1 win 65535
+0 >[noecn] . 1:1(0) ack 2001";
    let report = run(script, &RunOptions::by_name("freebsd").expect("a stack"));
    assert_eq!(verdict(&report), "pass 0 ");
}

#[test]
fn a_challenge_ack_does_not_repeat_the_fin_and_a_fin_occupies_no_window() {
    let closing = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS
+0 > S 0:0(0) win 65535 <...>
+.1 < S. 0:0(0) ack 1 win 32767 <mss 1460,sackOK,eol,eol>
+0 > . 1:1(0) ack 1 win 65535
+.1 shutdown(3, SHUT_WR) = 0
+0 > F. 1:1(0) ack 1 win 65535
+.1 < F. 1:1(0) ack 1 win 32767
+0 > F. 1:1(0) ack 2 win 65535
";
    // 45 segments of 1460 bytes from the second octet on.
    let script = format!(
        "{closing}+.1 < R 65702:65702(0) win 32767
+.1 < R 65701:65701(0) win 32767
+0 > . 2:2(0) ack 2 win 65535
+.1 `sysctl net.inet.tcp.insecure_rst=0`
+0 getsockopt(3, SOL_SOCKET, SO_ERROR, [0], [4]) = 0"
    );
    let report = run(&script, &RunOptions::by_name("freebsd").expect("a stack"));
    assert_eq!(verdict(&report), "pass 0 ");
}

#[test]
fn with_drop_synfin_a_syn_with_fin_is_dropped() {
    let answered = "+0 > S. 0:0(0) ack 18 win 65535 <mss 1460,sackOK,eol,eol>";
    let next = "+.5 < S 27:27(0) win 32767 <mss 1460,sackOK,eol,eol>
+0 > S. 0:0(0) ack 28 win 65535 <mss 1460,sackOK,eol,eol>";
    for (drop, rest) in [(0, answered), (1, next)] {
        let script = format!(
            "0 `sysctl net.inet.tcp.drop_synfin={drop}`
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < SF 17:20(3) win 32767 <mss 1460,sackOK,eol,eol>
{rest}"
        );
        let report = run(&script, &RunOptions::by_name("freebsd").expect("a stack"));
        assert_eq!(verdict(&report), "pass 0 ", "{drop}");
    }
}
