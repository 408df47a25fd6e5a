//! The error queue, pipes and files, and the processing of invalid segments by Linux.

use crate::verdict_on;
use tcpassay_tcp::Profile;

const SERVER: &str = "
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 setsockopt(3, SOL_SOCKET, SO_ZEROCOPY, [1], 4) = 0
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>
+0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>
+.01 < . 1:1(0) ack 1 win 257
+0 accept(3, ..., ...) = 4
";

fn linux(text: &str) -> String {
    let text = format!("`sysctl net.ipv4.tcp_rmem=\"4096 540000 15728640\"`\n{SERVER}{text}");
    verdict_on(Profile::Linux, &text)
}

fn note(first: u32, last: u32) -> String {
    format!(
        "+0 recvmsg(4, {{msg_name(...)=..., msg_iov(1)=[{{...,0}}], msg_flags=MSG_ERRQUEUE, msg_control=[
{{cmsg_level=CMSG_LEVEL_IP, cmsg_type=CMSG_TYPE_RECVERR, cmsg_data={{ee_errno=0, ee_origin=SO_EE_ORIGIN_ZEROCOPY,
ee_type=0, ee_code=SO_EE_CODE_ZEROCOPY_COPIED, ee_info={first}, ee_data={last}}}}}]}}, MSG_ERRQUEUE) = 0"
    )
}

#[test]
fn two_acknowledged_zero_copy_writes_are_reported_as_one_range() {
    let sent = "+0 send(4, ..., 2000, MSG_ZEROCOPY) = 2000
+0 > P. 1:2001(2000) ack 1
+0 recvmsg(4, {msg_name(...)=..., msg_iov(1)=[{...,0}], msg_control=[]}, MSG_ERRQUEUE) = -1 EAGAIN
+.01 < . 1:1(0) ack 2001 win 257
+0 send(4, ..., 3000, MSG_ZEROCOPY) = 3000
+0 > P. 2001:5001(3000) ack 1
+.01 < . 1:1(0) ack 5001 win 257\n";
    assert_eq!(linux(&format!("{sent}{}", note(0, 1))), "pass 0 ");
    let wrong = linux(&format!("{sent}{}", note(0, 0)));
    assert!(wrong.starts_with("fail") && wrong.contains("ee_info=0, ee_data=1"), "{wrong}");
}

#[test]
fn each_entry_of_the_error_queue_is_an_edge_of_epoll() {
    let send = |from: u32| {
        format!(
            "+0 send(4, ..., 1000, MSG_ZEROCOPY) = 1000\n+0 > P. {from}:{}(1000) ack 1\n+0 < . 1:1(0) ack {} win 257
+0 epoll_wait(5, {{events=EPOLLERR|EPOLLOUT, fd=4}}, 1, 0) = 1\n+0 epoll_wait(5, {{events=0, ptr=0}}, 1, 0) = 0\n",
            from + 1000,
            from + 1000
        )
    };
    let script = format!(
        "+0 epoll_create(1) = 5\n+0 epoll_ctl(5, EPOLL_CTL_ADD, 4, {{events=EPOLLOUT|EPOLLET|EPOLLEXCLUSIVE, fd=4}}) = 0
+0 epoll_wait(5, {{events=EPOLLOUT, fd=4}}, 1, 0) = 1\n{}{}",
        send(1),
        send(1001)
    );
    assert_eq!(linux(&script), "pass 0 ");
}

#[test]
fn timestamps_report_when_the_last_byte_of_a_write_was_sent_and_acknowledged() {
    let stamp = |nanos: u32, what: &str| {
        format!(
            "+0 recvmsg(4, {{msg_name(...)=..., msg_iov(1)=[{{...,0}}], msg_flags=MSG_ERRQUEUE|MSG_TRUNC, msg_control=[
{{cmsg_level=SOL_SOCKET, cmsg_type=SCM_TIMESTAMPING, cmsg_data={{scm_sec=0,scm_nsec={nanos}}}}},
{{cmsg_level=CMSG_LEVEL_IP, cmsg_type=CMSG_TYPE_RECVERR, cmsg_data={{ee_errno=ENOMSG,
ee_origin=SO_EE_ORIGIN_TIMESTAMPING, ee_type=0, ee_code=0, ee_info={what}, ee_data=1999}}}}]}}, MSG_ERRQUEUE) = 0\n"
        )
    };
    let script = format!(
        "+0 setsockopt(4, SOL_SOCKET, SO_TIMESTAMPING, [SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_TX_ACK |
SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID], 4) = 0
+0 write(4, ..., 2000) = 2000\n+0 > P. 1:2001(2000) ack 1\n+.02 < . 1:1(0) ack 2001 win 257\n{}{}",
        stamp(10_000_000, "SCM_TSTAMP_SND"),
        stamp(30_000_000, "SCM_TSTAMP_ACK")
    );
    assert_eq!(linux(&script), "pass 0 ");
}

#[test]
fn splice_and_sendfile_move_bytes_and_stop_at_urgent_data() {
    let script = "+0 pipe([5, 6]) = 0
+0 open(\"/tmp/file\", O_RDONLY) = 7
+0 sendfile(4, 7, [0], 500) = 500
+0 > P. 1:501(500) ack 1
+.01 < U. 1:101(100) ack 501 win 257 urg 100
+0 > . 501:501(0) ack 101
+0 splice(4, NULL, 6, NULL, 200, 0) = 99
+0 splice(4, NULL, 6, NULL, 1, 0) = 0
+0 splice(5, NULL, 4, NULL, 99, 0) = 99
+0 > P. 501:600(99) ack 101";
    assert_eq!(linux(script), "pass 0 ");
}

#[test]
fn a_segment_that_acknowledges_unsent_data_is_dropped_and_challenged_once_in_500_ms() {
    let script = "+0 < P. 1:101(100) ack 9999 win 257
+0 > . 1:1(0) ack 1
+.1 < P. 1:101(100) ack 9999 win 257
+.1 < . 1:1001(1000) ack 1 win 257
+0 > . 1:1(0) ack 1001
+.4 < P. 1001:1101(100) ack 9999 win 257
+0 > . 1:1(0) ack 1001";
    assert_eq!(linux(script), "pass 0 ");
}

#[test]
fn a_segment_longer_than_the_window_is_accepted_whole_if_nothing_is_unread_and_else_dropped() {
    let head = "+0 setsockopt(4, SOL_SOCKET, SO_RCVLOWAT, [1], 4) = 0\n";
    let script = format!(
        "{head}+0 < . 1:80001(80000) ack 1 win 257\n+0~+.05 > . 1:1(0) ack 80001
+0 < P. 80001:480001(400000) ack 1 win 257\n+0 > . 1:1(0) ack 80001\n+0 read(4, ..., 100000) = 80000"
    );
    assert_eq!(linux(&script), "pass 0 ");
}

#[test]
fn data_in_order_that_repeat_earlier_data_are_reported_in_a_dsack() {
    let script = "+0 < P. 1001:2001(1000) ack 1 win 257
+0 > . 1:1(0) ack 1 <nop,nop,sack 1001:2001>
+0 < P. 3001:4001(1000) ack 1 win 257
+0 > . 1:1(0) ack 1 <nop,nop,sack 3001:4001 1001:2001>
+0 < P. 1:2501(2500) ack 1 win 257
+0 > . 1:1(0) ack 2501 <nop,nop,sack 1001:2001 3001:4001>";
    assert_eq!(linux(script), "pass 0 ");
}

#[test]
fn a_sack_block_that_covers_a_part_of_a_packet_does_not_count_the_packet() {
    let script = "+0 write(4, ..., 4000) = 4000
+0 > P. 1:4001(4000) ack 1
+.01 < . 1:1(0) ack 1 win 257 <sack 3900:4001,nop,nop>
+0 %{ assert tcpi_sacked == 0, tcpi_sacked }%
+.01 < . 1:1(0) ack 1 win 257 <sack 2500:4001,nop,nop>
+0 %{ assert tcpi_sacked == 1, tcpi_sacked }%";
    assert_eq!(linux(script), "pass 0 ");
}

#[test]
fn msg_more_holds_a_small_segment_until_an_ack_or_the_probe_timer() {
    let script = "+0 setsockopt(4, SOL_TCP, TCP_NODELAY, [1], 4) = 0
+0 send(4, ..., 40, MSG_MORE) = 40
+.21 > P. 1:41(40) ack 1
+.01 < . 1:1(0) ack 41 win 257
+0 send(4, ..., 1050, MSG_MORE) = 1050
+0 > . 41:1041(1000) ack 1
+.01 < . 1:1(0) ack 1041 win 257
+0 > . 1041:1091(50) ack 1";
    assert_eq!(linux(script), "pass 0 ");
}

#[test]
fn a_path_mtu_learned_from_icmp_applies_to_the_next_connection() {
    let script = "+0 `ethtool -K tun0 tso off`
+0 write(4, ..., 1000) = 1000
+0 > P. 1:1001(1000) ack 1
+0 < icmp unreachable frag_needed mtu 640 [1:1001(1000)]
+0 > . 1:601(600) ack 1
+0 > P. 601:1001(400) ack 1
+0 < R. 1:1(0) ack 1 win 0
+0 close(4) = 0
+0 close(3) = 0
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1000>
+0 > S. 0:0(0) ack 1 <mss 1460>
+.01 < . 1:1(0) ack 1 win 32792
+0 accept(3, ..., ...) = 4
+0 write(4, ..., 1000) = 1000
+0 > . 1:601(600) ack 1
+0 > P. 601:1001(400) ack 1";
    assert_eq!(linux(script), "pass 0 ");
}
