//! What FreeBSD does with segments outside the usual course (`tcp_do_segment`, the SYN cache, `tcp_twcheck`).

use crate::verdict;
use tcpassay_script::run::{Options, run};
use tcpassay_tcp::Profile;

fn freebsd(text: &str) -> String {
    verdict(&run(text, &Options::new(Profile::FreeBsd)))
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
fn a_syn_is_repeated_with_the_slop_and_given_up_after_keepinit() {
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
fn where_resets_are_weak_one_in_the_window_ends_the_connection() {
    let script = format!(
        "`sysctl -w net.inet.tcp.insecure_rst=1`{ACTIVE}{ESTABLISHED}+.1 < R 65700:65700(0) win 32767
+.1 getsockopt(3, SOL_SOCKET, SO_ERROR, [ECONNRESET], [4]) = 0"
    );
    assert_eq!(freebsd(&script), "pass 0 ");
}

#[test]
fn where_syns_are_weak_one_in_the_window_is_answered_by_a_reset() {
    let script = format!(
        "`sysctl -w net.inet.tcp.insecure_syn=1`{ACTIVE}{ESTABLISHED}+.1 < S 65700:65700(0) win 32767 <mss 1460>
+0 > R. 1:1(0) ack 1 win 0\n+0 getsockopt(3, SOL_SOCKET, SO_ERROR, [ECONNRESET], [4]) = 0"
    );
    assert_eq!(freebsd(&script), "pass 0 ");
}

#[test]
fn data_and_fin_of_a_syn_ack_are_taken() {
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
fn a_sysctl_of_the_command_line_makes_it_an_older_version() {
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
    let mut options = Options::new(Profile::FreeBsd);
    assert_eq!(
        verdict(&run(script, &options)),
        "time 9 outbound packet at 0.050000000, expected at 0.110000000: off by 60ms"
    );
    options.settings.set("sysctl", "net.inet.tcp.delacktime=100").expect("a sysctl");
    assert_eq!(verdict(&run(script, &options)), "pass 0 ");
    assert!(options.settings.set("sysctl", "delacktime").is_err());
}
