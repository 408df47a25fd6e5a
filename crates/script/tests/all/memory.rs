//! Linux's receive memory: the memory of a packet, the resulting window, and dropped packets (numbers
//! computed by hand from `SKB_TRUESIZE`).

use crate::{linux, verdict};

/// A server's connection with `SO_RCVBUF` = `size`, whose packets say that their segments have 1000 bytes.
fn buffered(size: u32, synack: &str, scale: u8, rest: &str) -> String {
    verdict(&linux(&format!(
        "--mss=1000
`../common/defaults.sh`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 setsockopt(3, SOL_SOCKET, SO_RCVBUF, [{size}], 4) = 0
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,wscale 7>
+0 > S. 0:0(0) ack 1 {synack} <mss 1460,nop,nop,sackOK,nop,wscale {scale}>
+.1 < . 1:1(0) ack 1 win 257
+0 accept(3, ..., ...) = 4
{rest}"
    )))
}

#[test]
fn the_window_is_the_payload_share_of_the_free_buffer_in_whole_segments() {
    // 60000 bytes of buffer, half of it window in whole segments of 1460. A packet of 30000 bytes takes a page with its structures
    // (4352) and seven more: 33024, payload 232 of 256; of the 26976 left that is 24447. Less than half is free: the ACK waits.
    let rest = "+0 < P. 1:30001(30000) ack 1 win 257\n+.04 > . 1:1(0) ack 30001 win 24000";
    assert_eq!(buffered(30_000, "win 29200", 0, rest), "pass 0 ");
}

#[test]
fn a_packet_beyond_the_window_is_accepted_only_if_nothing_is_unread() {
    let rest = "+0 < P. 1:4001(4000) ack 1 win 257\n+0 > . 1:1(0) ack 4001 win 5000
+0 < P. 4001:34001(30000) ack 1 win 257\n+0 > . 1:1(0) ack 4001 win 5000
+0 read(4, ..., 9000) = 4000
+0 < P. 4001:34001(30000) ack 1 win 257\n* > . 1:1(0) ack 34001 win 0";
    assert_eq!(buffered(10_000, "win 8760", 0, rest), "pass 0 ");
}

#[test]
fn a_full_buffer_drops_packets_and_closes_the_window_until_the_application_reads() {
    let rest = "+0 < P. 1:60001(60000) ack 1 win 257\n* > . 1:1(0) ack 60001
+0 setsockopt(4, SOL_SOCKET, SO_RCVBUF, [20000], 4) = 0
+0 < P. 60001:61001(1000) ack 1 win 257\n+0 > . 1:1(0) ack 60001 win 0
// A closed window: an answer, and nothing is taken.
+0 < P. 60001:61001(1000) ack 1 win 257\n+0 > . 1:1(0) ack 60001 win 0
+0 < F. 60001:60001(0) ack 1 win 257\n+0 > . 1:1(0) ack 60002 win 0
+0 %{ assert SK_MEMINFO_RCVBUF == 40000, SK_MEMINFO_RCVBUF }%
+0 %{ assert SK_MEMINFO_RMEM_ALLOC == 61696, SK_MEMINFO_RMEM_ALLOC }%
+0 read(4, ..., 99000) = 60000
+0 %{ assert SK_MEMINFO_RMEM_ALLOC == 0, SK_MEMINFO_RMEM_ALLOC }%";
    assert_eq!(buffered(200_000, "win 65535", 2, rest), "pass 0 ");
}

#[test]
fn with_tcp_shrink_window_packets_are_accepted_up_to_the_largest_announced_edge() {
    let script = |shrink: u8, length: u32, ack: u32, window: u32| {
        verdict(&linux(&format!(
            "--mss=1000
`../common/defaults.sh
sysctl -q net.ipv4.tcp_shrink_window={shrink} net.ipv4.tcp_rmem=\"4096 32768 33554432\"`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1000,nop,wscale 7>
+0 > S. 0:0(0) ack 1 <mss 1460,nop,wscale 10>
+0 < . 1:1(0) ack 1 win 257
+0 accept(3, ..., ...) = 4
// A page with its structures and two more: 12544 bytes, payload 204 of 256; 16116 of window: 15 KiB, or 16 rounded up.
+0 < P. 1:10001(10000) ack 1 win 257
* > . 1:1(0) ack 10001
+0 < P. 10001:11001(1000) ack 1 win 257
* > . 1:1(0) ack 11001 win {window}
+0 < P. 11001:{end}({length}) ack 1 win 257
* > . 1:1(0) ack {ack}",
            end = 11_001 + length,
        )))
    };
    // 25361 is the end of 15 KiB after 10001.
    assert_eq!(script(1, 14_360, 25_361, 13), "pass 0 ");
    assert_eq!(script(1, 14_361, 11_001, 13), "pass 0 ");
    // Not taken back: 16 KiB were announced, and a KiB less is left of it, rounded up.
    assert_eq!(script(0, 14_361, 25_362, 16), "pass 0 ");
}

#[test]
fn data_out_of_order_are_pruned_to_make_room_for_data_in_order() {
    // 12544 bytes out of order, and room for 6000. The one quick ACK of a window that had grown is used up.
    let rest = "+0 < . 1001:9001(8000) ack 1 win 257\n+0 > . 1:1(0) ack 1 <nop,nop,sack 1001:9001>
+0 setsockopt(4, SOL_SOCKET, SO_RCVBUF, [3000], 4) = 0
+0 < . 1:1001(1000) ack 1 win 257\n+.04 > . 1:1(0) ack 1001
+0 %{ assert SK_MEMINFO_RMEM_ALLOC == 2304, SK_MEMINFO_RMEM_ALLOC }%";
    assert_eq!(buffered(20_000, "win 18980", 0, rest), "pass 0 ");
}

#[test]
fn a_reset_after_data_accepted_beyond_the_window_is_accepted_at_their_end() {
    let rest = "+0 < P. 1:25001(25000) ack 1 win 257\n+0 < R. 25001:25001(0) ack 1 win 257
+0 < . 25001:25001(0) ack 1 win 257\n+0 > R 1:1(0)";
    assert_eq!(buffered(20_000, "win 18980", 0, rest), "pass 0 ");
}
