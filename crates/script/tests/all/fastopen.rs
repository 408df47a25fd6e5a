//! TCP Fast Open (RFC 7413), client and server, as implemented by Linux and FreeBSD.

use crate::verdict_on;
use tcpassay_tcp::Profile;

fn linux(text: &str) -> String {
    let setup = "`../common/defaults.sh\n../common/set_sysctls.py /proc/sys/net/ipv4/tcp_timestamps=0`\n";
    verdict_on(Profile::Linux, &format!("{setup}{text}"))
}

/// A first connection, which gets a cookie and an MSS of 1040.
const COOKIE: &str = "
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 sendto(3, ..., 500, MSG_FASTOPEN, ..., ...) = -1 EINPROGRESS
+0 > S 0:0(0) <mss 1460,nop,nop,sackOK,nop,wscale 8,FO,nop,nop>
+.01 < S. 7:7(0) ack 1 win 5840 <mss 1040,nop,nop,sackOK,nop,wscale 6,FO abcd1234,nop,nop>
+0 > . 1:1(0) ack 1
+.01 close(3) = 0
+0 > F. 1:1(0) ack 1
+.01 < F. 1:1(0) ack 2 win 92
+0 > . 2:2(0) ack 2
";

/// A second one, with data in its SYN.
const SECOND: &str = "
+.07 socket(..., SOCK_STREAM, IPPROTO_TCP) = 4
+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 sendto(4, ..., 2000, MSG_FASTOPEN, ..., ...) = 1000
+0 > S 0:1000(1000) <mss 1460,nop,nop,sackOK,nop,wscale 8,FO abcd1234,nop,nop>
";

#[test]
fn with_a_cookie_the_syn_has_as_many_data_as_the_cached_mss_and_the_options_allow() {
    let text = format!(
        "{COOKIE}{SECOND}+.01 < S. 7:7(0) ack 1001 win 5840 <mss 1040,nop,nop,sackOK>
+0 > . 1001:1001(0) ack 1
+0 %{{ assert (tcpi_options & TCPI_OPT_SYN_DATA) != 0, tcpi_options }}%
+0 write(4, ..., 100) = 100
+0 > P. 1001:1101(100) ack 1"
    );
    assert_eq!(linux(&text), "pass 0 ");
}

#[test]
fn syn_data_that_the_syn_ack_does_not_acknowledge_are_retransmitted_at_once() {
    let text = format!(
        "{COOKIE}{SECOND}+.01 < S. 7:7(0) ack 1 win 5840 <mss 1040,nop,nop,sackOK>
+0 > P. 1:1001(1000) ack 1
+0 %{{ assert (tcpi_options & TCPI_OPT_SYN_DATA) == 0, tcpi_options }}%"
    );
    assert_eq!(linux(&text), "pass 0 ");
}

#[test]
fn a_retransmitted_syn_has_neither_data_nor_the_fast_open_option() {
    let text = format!(
        "{COOKIE}{SECOND}+1 > S 0:0(0) <mss 1460,nop,nop,sackOK,nop,wscale 8>
+.01 < S. 7:7(0) ack 1 win 5840 <mss 1040,nop,nop,sackOK>
+0 > P. 1:1001(1000) ack 1"
    );
    assert_eq!(linux(&text), "pass 0 ");
}

#[test]
fn with_tcp_fastopen_connect_the_syn_is_sent_by_the_first_write() {
    let text = format!(
        "{COOKIE}+.07 socket(..., SOCK_STREAM, IPPROTO_TCP) = 4
+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 setsockopt(4, SOL_TCP, TCP_FASTOPEN_CONNECT, [1], 4) = 0
+0 connect(4, ..., ...) = 0
+0 write(4, ..., 100) = 100
+0 > S 0:100(100) <mss 1460,nop,nop,sackOK,nop,wscale 8,FO abcd1234,nop,nop>"
    );
    assert_eq!(linux(&text), "pass 0 ");
}

const LISTEN: &str = "
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
";

#[test]
fn the_cookie_of_a_server_is_linuxs_hash_of_addresses_and_key() {
    let text = format!(
        "{LISTEN}+0 < S 0:0(0) win 32792 <mss 1460,sackOK,FO,nop,nop>
+0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,FO 3021b9d889017eeb,nop,nop>"
    );
    assert_eq!(linux(&text), "pass 0 ");
}

#[test]
fn after_a_valid_cookie_a_server_accepts_reads_and_writes_before_the_handshake_ends() {
    let text = format!(
        "{LISTEN}+0 < S 0:1000(1000) win 32792 <mss 1460,sackOK,FO TFO_COOKIE,nop,nop>
+0 > S. 0:0(0) ack 1001 <mss 1460,nop,nop,sackOK>
+0 accept(3, ..., ...) = 4
+0 %{{ assert tcpi_state == TCP_SYN_RECV }}%
+0 read(4, ..., 1000) = 1000
+0 write(4, ..., 2000) = 2000
+0 > P. 1:2001(2000) ack 1001
+1 > S. 0:0(0) ack 1001 <mss 1460,nop,nop,sackOK>
+.1 < . 1001:1001(0) ack 2001 win 257
+0 %{{ assert tcpi_state == TCP_ESTABLISHED }}%"
    );
    assert_eq!(linux(&text), "pass 0 ");
}

#[test]
fn after_an_invalid_cookie_the_syn_data_are_ignored_and_a_new_cookie_is_sent() {
    let text = format!(
        "{LISTEN}+0 < S 0:1000(1000) win 32792 <mss 1460,sackOK,FO 0011223344556677,nop,nop>
+0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,FO TFO_COOKIE,nop,nop>"
    );
    assert_eq!(linux(&text), "pass 0 ");
}

#[test]
fn freebsd_requests_a_cookie_pads_with_eol_and_disables_fast_open_after_an_invalid_cookie() {
    let first = "
0 `sysctl -w net.inet.tcp.fastopen.client_enable=1`
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 setsockopt(3, IPPROTO_TCP, TCP_FASTOPEN, [1], 4) = 0
+0 sendto(3, ..., 100, 0, ..., ...) = 100
+0 > S 0:0(0) win 65535 <mss 1460,nop,wscale 6,sackOK,TS val 0 ecr 0,FO,eol,eol>
+.05 < S. 0:0(0) ack 1 win 65535 <mss 1460,nop,nop,nop,FO 010203>
+0 > P. 1:101(100) ack 1 win 65535
+.05 < . 1:1(0) ack 101 win 65535
+0 < F. 1:1(0) ack 101 win 65535
+0 > . 101:101(0) ack 2 win 65535
+0 close(3) = 0
+0 > F. 101:101(0) ack 2 win 65535
+.05 < . 2:2(0) ack 102 win 65535
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 setsockopt(3, IPPROTO_TCP, TCP_FASTOPEN, [1], 4) = 0
+0 sendto(3, ..., 100, 0, ..., ...) = 100
+0 > S 0:0(0) win 65535 <mss 1460,nop,wscale 6,sackOK,TS val 0 ecr 0>
";
    assert_eq!(verdict_on(Profile::FreeBsd, first), "pass 0 ");
}

#[test]
fn syn_data_that_the_peer_ignored_count_as_retransmitted_in_the_loss_state() {
    let text = format!(
        "{COOKIE}{SECOND}+.01 < S. 7:7(0) ack 1 win 65535 <mss 1040,nop,nop,sackOK>
+0 > P. 1:1001(1000) ack 1
+0 %{{ assert tcpi_retrans == 1 and tcpi_unacked == 1, tcpi_retrans }}%
+0 %{{ assert tcpi_ca_state == TCP_CA_Loss and tcpi_delivered == 1, tcpi_delivered }}%
+.01 < . 1:1(0) ack 1001 win 257
+0 %{{ assert tcpi_retrans == 0 and tcpi_ca_state == TCP_CA_Open, tcpi_ca_state }}%"
    );
    assert_eq!(linux(&text), "pass 0 ");
}

#[test]
fn the_answer_to_a_crossing_syn_acknowledges_only_the_syn_and_a_syn_ack_may_acknowledge_its_data() {
    let text = format!(
        "{COOKIE}{SECOND}+.005 < S 1234:1734(500) win 14600 <mss 1040,nop,nop,sackOK,nop,wscale 6,FO 87654321,nop,nop>
+0 > S. 0:0(0) ack 1235 <mss 1460,nop,nop,sackOK,nop,wscale 8>
+.045 < S. 1234:1234(0) ack 1001 win 14600 <mss 940,nop,nop,sackOK,nop,wscale 6>
+.1 < P. 1:501(500) ack 1001 win 257
+0 > . 1001:1001(0) ack 501"
    );
    assert_eq!(linux(&text), "pass 0 ");
}

#[test]
fn the_experimental_option_is_tried_once_and_flushing_the_metrics_removes_the_cookie() {
    let open = |fd: u8, option: &str| {
        format!(
            "+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = {fd}
+0...0.010 sendto({fd}, ..., 1000, MSG_FASTOPEN, ..., ...) = 1000
+0 > S 0:0(0) <mss 1460,nop,nop,sackOK,nop,wscale 8,{option}>
+.01 < S. 123:123(0) ack 1 win 5840 <mss 1460,nop,nop,sackOK,nop,wscale 6>
+0 > P. 1:1001(1000) ack 1
+.01 < . 1:1(0) ack 1001 win 257
"
        )
    };
    let text = [
        open(4, "FO,nop,nop"),
        open(5, "FOEXP"),
        open(6, "FO,nop,nop"),
        "+0 `ip tcp_metrics flush all`\n".to_owned(),
        open(7, "FO,nop,nop"),
        open(8, "FOEXP"),
    ];
    assert_eq!(linux(&text.concat()), "pass 0 ");
}

#[test]
fn a_syn_ack_with_an_unknown_timestamp_echo_is_answered_with_a_reset() {
    let text = "
0 `sysctl -q net.ipv4.tcp_timestamps=1`
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS
+0 > S 0:0(0) <mss 1460,sackOK,TS val 100 ecr 0,nop,wscale 8>
+.01 < S. 0:0(0) ack 1 win 5840 <mss 1040,TS val 5 ecr 9999,sackOK>
+0 > R 1:1(0)
+.01 < S. 0:0(0) ack 1 win 5840 <mss 1040,TS val 5 ecr 100,sackOK>
+0 > . 1:1(0) ack 1 <nop,nop,TS val 120 ecr 5>";
    assert_eq!(linux(text), "pass 0 ");
}

#[test]
fn fast_open_calls_have_the_errors_of_linux() {
    let text = "
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 sendto(3, ..., 10, MSG_FASTOPEN, AF_UNSPEC, ...) = -1 EOPNOTSUPP
+0 `sysctl -q net.ipv4.tcp_fastopen=0`
+0 setsockopt(3, SOL_TCP, TCP_FASTOPEN_CONNECT, [1], 4) = -1 EOPNOTSUPP
+0 `sysctl -q net.ipv4.tcp_fastopen=5`
+0 setsockopt(3, SOL_TCP, TCP_FASTOPEN_CONNECT, [1], 4) = 0
+0 connect(3, ..., ...) = 0
+0 connect(3, ..., ...) = -1 EISCONN
+0 sendto(3, ..., 10, 0x4000, ..., ...) = 10
+0 > S 0:10(10) <mss 1460,nop,nop,sackOK,nop,wscale 8>
+.01 < S. 0:0(0) ack 11 win 5840 <mss 1460>
+0 > . 11:11(0) ack 1
+0 connect(3, AF_UNSPEC, ...) = 0
+0 > R. 11:11(0) ack 1";
    assert_eq!(linux(text), "pass 0 ");
}
