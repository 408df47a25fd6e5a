//! Accurate ECN in scripts: the option, marks, flags, sysctls, and the fields of `TCP_INFO`.

use crate::{linux, verdict};

/// An accepted connection with these lines of shell; then `rest`.
fn accepted(shell: &str, rest: &str) -> String {
    let (ours, theirs) = if shell.contains("tcp_ecn_option=0") {
        ("", "")
    } else {
        (",ECN e1b 1 ceb 0 e0b 1,nop", "<ECN e0b 1 ceb 0 e1b 1,nop>")
    };
    format!(
        "`../common/defaults.sh
sysctl -q net.ipv4.tcp_ecn=3
{shell}`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < [noecn] SEWA 0:0(0) win 32792 <mss 1000,nop,nop,sackOK,nop,wscale 8>
+0 > [noecn] SW. 0:0(0) ack 1 <mss 1460{ours},nop,nop,sackOK,nop,wscale 8>
+.05 < [ect0] W. 1:1(0) ack 1 win 264 {theirs}
+0 accept(3, ..., ...) = 4
{rest}"
    )
}

#[test]
fn the_option_is_injected_and_compared() {
    let script = |counted: u32| {
        accepted(
            "",
            &format!(
                "+0 < [ce] EAP. 1:1001(1000) ack 1 win 264
+0 > [ect0] WA. 1:1(0) ack 1001 <ECN e1b 1 ceb {counted} e0b 1,nop>"
            ),
        )
    };
    assert_eq!(verdict(&linux(&script(1000))), "pass 0 ");
    assert_eq!(verdict(&linux(&script(7))), "fail 12 outbound packet: options differ");
}

#[test]
fn the_accecn_option_is_padded_before_sack_blocks() {
    let script = accepted(
        "",
        "+0 < [ect1] P.5 1001:2001(1000) ack 1 win 264
+0 > [ect0] .5 1:1(0) ack 1 <ECN e1b 1001 ceb 0 e0b 1,nop,nop,nop,sack 1001:2001>
+0 < [ect1] P.5 3001:4001(1000) ack 1 win 264
+0 > [ect0] .5 1:1(0) ack 1 <ECN e1b 2001 ceb 0 e0b 1,nop,nop,nop,sack 3001:4001 1001:2001>
+0 < [ect1] P.5 5001:6001(1000) ack 1 win 264
+0 > [ect0] .5 1:1(0) ack 1 <ECN e1b 3001 ceb 0 e0b 1,nop,nop,nop,sack 5001:6001 3001:4001 1001:2001>
+0 < [ect1] P.5 1:1001(1000) ack 1 win 264
+0 > [ect0] .5 1:1(0) ack 2001 <ECN e1b 4001 ceb 0 e0b 1,nop,nop,nop,sack 5001:6001 3001:4001>",
    );
    assert_eq!(verdict(&linux(&script)), "pass 0 ");
}

#[test]
fn a_full_segment_leaves_room_for_the_option_unless_tcp_ecn_option_is_off() {
    let script = accepted(
        "",
        "+0 write(4, ..., 988) = 988
+0 > [ect0] P.5 1:989(988) ack 1 <ECN e1b 1 ceb 0 e0b 1,nop>
+0 `sysctl -q net.ipv4.tcp_ecn_option=0`
+.05 < [ect0] .5 1:1(0) ack 989 win 264 <ECN e0b 989 ceb 0 e1b 1,nop>
+0 write(4, ..., 1000) = 1000
+0 > [ect0] P.5 989:1989(1000) ack 1",
    );
    assert_eq!(verdict(&linux(&script)), "pass 0 ");
}

#[test]
fn super_segments_leave_the_interface_in_packets() {
    let script = accepted(
        "",
        "+0 write(4, ..., 1976) = 1976
+0 > [ect0] .5 1:989(988) ack 1 <ECN e1b 1 ceb 0 e0b 1,nop>
+0 > [ect0] P.5 989:1977(988) ack 1 <ECN e1b 1 ceb 0 e0b 1,nop>",
    );
    assert_eq!(verdict(&linux(&script)), "pass 0 ");
}

#[test]
fn tcp_info_counts_packets_and_bytes_by_ecn_field_in_each_direction() {
    let script = accepted(
        "",
        "+0 write(4, ..., 500) = 500
+0 > [ect0] P.5 1:501(500) ack 1 <ECN e1b 1 ceb 0 e0b 1,nop>
+.05 < [ce] P.6 1:1(0) ack 501 win 264 <ECN e0b 1 ceb 500 e1b 1,nop>
+0 < [ect1] P.6 1:301(300) ack 501 win 264 <ECN e0b 1 ceb 500 e1b 1,nop>
+0 > [ect0] .6 501:501(0) ack 301 <ECN e1b 301 ceb 0 e0b 1,nop>
+0 %{
assert tcpi_ecn_mode == 2
assert tcpi_accecn_opt_seen == 2
assert tcpi_accecn_fail_mode == 0
assert tcpi_delivered_ce == 1 and tcpi_received_ce == 1
assert tcpi_delivered_ce_bytes == 500 and tcpi_delivered_e0_bytes == 0 and tcpi_delivered_e1_bytes == 0
assert tcpi_received_e1_bytes == 300 and tcpi_received_e0_bytes == 0 and tcpi_received_ce_bytes == 0
}%",
    );
    assert_eq!(verdict(&linux(&script)), "pass 0 ");
}

#[test]
fn on_demand_the_option_is_sent_with_two_acks_and_at_the_beacon_interval() {
    let rest = "+0 < [ect0] P.5 1:1001(1000) ack 1 win 264
+0 > [ect0] .5 1:1(0) ack 1001 <ECN e1b 1 ceb 0 e0b 1001,nop>
+.001 < [ect0] P.5 1001:2001(1000) ack 1 win 264
+0 > [ect0] .5 1:1(0) ack 2001 <ECN e1b 1 ceb 0 e0b 2001,nop>
+.001 < [ect0] P.5 2001:3001(1000) ack 1 win 264";
    let script = |beacon: u32, wait: &str, last: &str| {
        let shell = format!(
            "sysctl -q net.ipv4.tcp_ecn_option=1\nsysctl -q net.ipv4.tcp_ecn_option_beacon={beacon}\n"
        );
        accepted(&shell, &format!("{rest}\n+0 > [ect0] .5 1:1(0) ack 3001{last}\n{wait}"))
    };
    let later = |option: &str| {
        format!("+.02 < [ect0] P.5 3001:4001(1000) ack 1 win 264\n+0 > [ect0] .5 1:1(0) ack 4001{option}")
    };
    let option = " <ECN e1b 1 ceb 0 e0b 4001,nop>";
    assert_eq!(verdict(&linux(&script(0, &later(""), ""))), "pass 0 ");
    // Three times in a round trip of 50 ms.
    assert_eq!(verdict(&linux(&script(3, &later(option), ""))), "pass 0 ");
}

#[test]
fn tcp_ecn_selects_what_a_client_requests_and_what_a_server_accepts() {
    let asks = |n: u32, flags: &str| {
        format!(
            "`../common/defaults.sh
sysctl -q net.ipv4.tcp_ecn={n}`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS
+0 > [noecn] {flags} 0:0(0) <...>"
        )
    };
    for (n, flags) in [(0, "S"), (1, "SEW"), (2, "S"), (3, "SEWA"), (4, "SEW"), (5, "S")] {
        assert_eq!(verdict(&linux(&asks(n, flags))), "pass 0 ", "tcp_ecn = {n}");
    }
    let answers = |n: u32, flags: &str| {
        format!(
            "`../common/defaults.sh
sysctl -q net.ipv4.tcp_ecn={n}`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < SEWA 0:0(0) win 32792 <mss 1000>
+0 > [noecn] {flags} 0:0(0) ack 1 <...>"
        )
    };
    for (n, flags) in [(0, "S."), (1, "SE."), (2, "SE."), (3, "SW."), (4, "SW."), (5, "SW.")] {
        assert_eq!(verdict(&linux(&answers(n, flags))), "pass 0 ", "tcp_ecn = {n}");
    }
}

#[test]
fn a_syn_ack_with_a_fast_open_cookie_has_only_the_accecn_fields_that_fit() {
    // 4 of the MSS, 12 of timestamps, 8 of two fields, 4 of the scale, 12 of the cookie.
    let script = "`../common/defaults.sh
sysctl -q net.ipv4.tcp_ecn=3`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 setsockopt(3, SOL_TCP, TCP_FASTOPEN, [1], 4) = 0
+0 < SEWA 0:0(0) win 32792 <mss 1000,sackOK,TS val 1 ecr 0,nop,wscale 8,FO,nop,nop>
+0 > SW. 0:0(0) ack 1 <mss 1460,sackOK,TS val 0 ecr 1,ECN e1b 1 ceb 0,nop,wscale 8,FO TFO_COOKIE,nop,nop>";
    assert_eq!(verdict(&linux(script)), "pass 0 ");
}
