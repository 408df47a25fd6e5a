//! System calls and their errors.

use super::{linux, passes, plain, verdict};
use tcpassay_script::report::Status;

#[test]
fn a_blocking_read_returns_when_data_come() {
    passes("+0...0.05 read(4, ..., 100) = 100\n+.05 < P. 1:101(100) ack 1 win 5000");
}

#[test]
fn a_blocking_read_that_returns_late_is_an_error_in_time() {
    let report = plain("+0...0.05 read(4, ..., 100) = 100\n+.08 < P. 1:101(100) ack 1 win 5000");
    assert_eq!(
        verdict(&report),
        "time 9 the call returned at 0.180000000, expected at 0.150000000: off by 30ms"
    );
}

#[test]
fn msg_peek_leaves_the_data_in_the_buffer() {
    passes(
        "+0 < P. 1:101(100) ack 1 win 5000\n+0 recv(4, ..., 1000, MSG_PEEK) = 100\n+0 recv(4, ..., 1000, 0) = 100\n\
         +0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n+0 recv(4, ..., 1000, 0) = -1 EAGAIN (x)",
    );
}

#[test]
fn a_refused_connection_returns_its_error_once() {
    let report = linux(
        "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS (x)
+0 > S 0:0(0) <...>
+0 connect(3, ..., ...) = -1 EALREADY (x)
+.1 < R. 0:0(0) ack 1 win 0
+0 getsockopt(3, SOL_SOCKET, SO_ERROR, [111], [4]) = 0
+0 getsockopt(3, SOL_SOCKET, SO_ERROR, [0], [4]) = 0",
    );
    assert_eq!(report.status, Status::Pass, "{}", verdict(&report));
}

#[test]
fn poll_waits_for_an_event_or_for_its_time() {
    passes(
        "+0...0.02 poll([{fd=4, events=POLLIN, revents=POLLIN}], 1, 1000) = 1\n+.02 < . 1:101(100) ack 1 win 5000",
    );
    passes("+0...0.05 poll([{fd=4, events=POLLIN, revents=0}], 1, 50) = 0");
}

#[test]
fn an_edge_is_reported_once() {
    passes(
        "+0 epoll_create(1) = 5
+0 epoll_ctl(5, EPOLL_CTL_ADD, 4, {events=EPOLLIN|EPOLLET, fd=4}) = 0
+0 < . 1:101(100) ack 1 win 5000
+0 epoll_wait(5, {events=EPOLLIN, fd=4}, 1, 0) = 1
+0 epoll_wait(5, {events=EPOLLIN, fd=4}, 1, 0) = 0",
    );
}

#[test]
fn a_linger_time_of_zero_closes_with_a_reset() {
    passes(
        "+0 setsockopt(4, SOL_SOCKET, SO_LINGER, {onoff=1, linger=0}, 8) = 0\n+0 close(4) = 0\n+0 > R. 1:1(0) ack 1",
    );
}

#[test]
fn a_defined_word_stands_for_its_value() {
    let text = super::accepted(",sackOK,nop,nop", ",nop,nop,sackOK", "+0 write(4, ..., SIZE) = SIZE");
    // The caller's word, without a value for it.
    assert_eq!(
        verdict(&linux(&text)),
        "unsupported 9 the word `SIZE` instead of what the call gives: a number or `...`; -D SIZE=VALUE defines it"
    );
    let own = format!("--define=SIZE=700 // the script's own\n{text}");
    assert_eq!(verdict(&linux(&own)), "pass 0 ");
    let mut options = tcpassay_script::run::RunOptions::new(tcpassay_tcp::Profile::Linux);
    options.settings.set("D", "SIZE=700").unwrap();
    assert_eq!(tcpassay_script::run::run(&text, &options).status, Status::Pass);
}

#[test]
fn ipv6_has_a_smaller_segment() {
    let script = "--ip_version=ipv6
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1440>
+0 > S. 0:0(0) ack 1 <mss 1440>";
    assert_eq!(linux(script).status, Status::Pass);
}

#[test]
fn an_unreachable_host_ends_an_opening_connection_and_leaves_an_open_one_alone() {
    let report = linux(
        "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0...0.1 connect(3, ..., ...) = -1 EHOSTUNREACH (No route to host)
+0 > S 0:0(0) <...>
+.1 < icmp unreachable host_unreachable [0:0(0)]",
    );
    assert_eq!(report.status, Status::Pass, "{}", verdict(&report));
    passes(
        "+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 1\n\
         +.1 < icmp unreachable host_unreachable [1:1001(1000)]\n+0 write(4, ..., 10) = 10",
    );
}

#[test]
fn the_echoed_header_may_stand_before_the_message_or_behind_it() {
    for message in [
        "[ect0] [1:1001(1000)] icmp unreachable frag_needed mtu 640",
        "icmp unreachable frag_needed mtu 640 [1:1001(1000)]",
    ] {
        passes(&format!(
            "+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 1\n+.1 < {message}\n+0 > P. 1:1001(1000) ack 1"
        ));
    }
}

#[test]
fn the_urgent_byte_is_read_out_of_band_and_reads_stop_at_it() {
    passes(
        "+.1 < PU. 1:11(10) ack 1 win 32792 urg 5
+0 > . 1:1(0) ack 11
+0 ioctl(4, SIOCATMARK, [0]) = 0
+0 recv(4, ..., 1, MSG_OOB) = 1
+0 recv(4, ..., 1, MSG_OOB) = -1 EINVAL (Invalid argument)
+0 read(4, ..., 10) = 4
+0 ioctl(4, SIOCATMARK, [1]) = 0
+0 read(4, ..., 10) = 5
+0 ioctl(4, SIOCATMARK, [0]) = 0",
    );
}

#[test]
fn a_new_controller_keeps_the_window_of_the_old_one() {
    passes(
        "+0 getsockopt(4, SOL_TCP, TCP_CONGESTION, \"cubic\", [16]) = 0
+0 write(4, ..., 10000) = 10000
+0 > P. 1:10001(10000) ack 1
+.1 < . 1:1(0) ack 10001 win 32792
+0 setsockopt(4, SOL_TCP, TCP_CONGESTION, \"reno\", 4) = 0
+0 getsockopt(4, SOL_TCP, TCP_CONGESTION, \"reno\", [16]) = 0
+0 %{ assert tcpi_snd_cwnd == 20, tcpi_snd_cwnd }%",
    );
}

#[test]
fn tcp_linger2_is_the_time_of_an_orphan_in_fin_wait_2() {
    passes(
        "+0 setsockopt(4, SOL_TCP, TCP_LINGER2, [3], 4) = 0
+0 getsockopt(4, SOL_TCP, TCP_LINGER2, [3], [4]) = 0
+0 close(4) = 0
+0 > F. 1:1(0) ack 1
+.1 < . 1:1(0) ack 2 win 32792
+3.1 < F. 1:1(0) ack 2 win 32792
+0 > R 2:2(0)",
    );
}

#[test]
fn getsockopt_returns_type_protocol_state_and_buffer_of_a_socket() {
    passes(
        "+0 getsockopt(4, SOL_SOCKET, SO_TYPE, [1], [4]) = 0
+0 getsockopt(4, SOL_SOCKET, SO_PROTOCOL, [6], [4]) = 0
+0 getsockopt(4, SOL_SOCKET, SO_ACCEPTCONN, [0], [4]) = 0
+0 getsockopt(3, SOL_SOCKET, SO_ACCEPTCONN, [1], [4]) = 0
+0 getsockopt(4, SOL_SOCKET, SO_SNDBUF, [262144], [4]) = 0",
    );
}

#[test]
fn the_longest_retransmission_timeout_is_a_sysctl_and_an_option() {
    let head = "0 `sysctl -q net.ipv4.tcp_rto_max_ms=1000`
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 10000 <mss 1000>
+0 > S. 0:0(0) ack 1 <mss 1460>
+1 > S. 0:0(0) ack 1 <mss 1460>
+1 > S. 0:0(0) ack 1 <mss 1460>
+1 > S. 0:0(0) ack 1 <mss 1460>
+.1 < . 1:1(0) ack 1 win 10000
+0 accept(3, ..., ...) = 4
+0 getsockopt(4, SOL_TCP, TCP_RTO_MAX_MS, [1000], [4]) = 0
+0 setsockopt(4, SOL_TCP, TCP_RTO_MAX_MS, [999], 4) = -1 EINVAL
+0 setsockopt(4, SOL_TCP, TCP_RTO_MAX_MS, [4000], 4) = 0
+0 setsockopt(4, SOL_TCP, TCP_RTO_MIN_US, [1], 4) = -1 EINVAL
+0 write(4, ..., 100) = 100
+0 > P. 1:101(100) ack 1
";
    let again = [1, 2, 4, 4].map(|wait| format!("+{wait} > P. 1:101(100) ack 1\n")).concat();
    let script = format!("{head}{again}");
    assert_eq!(verdict(&linux(&script)), "pass 0 ");
}

#[test]
fn an_ack_waits_no_longer_than_its_option_or_the_shortest_timeout_allows() {
    for (option, wait) in [("TCP_DELACK_MAX_US, [5000]", 5), ("TCP_RTO_MIN_US, [11000]", 10)] {
        passes(&format!(
            "+0 setsockopt(4, SOL_TCP, {option}, 4) = 0
+0 < . 1:1001(1000) ack 1 win 5000
+0 > . 1:1(0) ack 1001
+.001 write(4, ..., 10) = 10
+0 > P. 1:11(10) ack 1001
+.01 < . 1001:1101(100) ack 11 win 5000
+.{wait:03} > . 11:11(0) ack 1101"
        ));
    }
}

#[test]
fn a_signed_segment_without_a_key_is_dropped() {
    let digest = "000102030405060708090a0b0c0d0e0f";
    passes(&format!(
        "+0 < . 1:1001(1000) ack 1 win 5000 <md5 {digest},nop,nop>\n+.5 < . 1:501(500) ack 1 win 5000\n+0 > . 1:1(0) ack 501"
    ));
}

#[test]
fn a_reset_in_the_window_of_syn_received_is_challenged() {
    let script = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 1000 <mss 1000,nop,wscale 0>
+0 > S. 0:0(0) ack 1 <...>
+0 < R. 2:2(0) ack 100 win 1000
+0 > . 1:1(0) ack 1
+0 < . 1:1(0) ack 1 win 1000
+0 accept(3, ..., ...) = 4";
    assert_eq!(verdict(&linux(script)), "pass 0 ");
}
