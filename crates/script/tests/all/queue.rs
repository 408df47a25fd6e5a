//! Linux's send queue: the bytes that a write accepts, and the times at which a writer is woken.

use crate::{plain, verdict};

#[test]
fn above_notsent_lowat_a_write_stops_at_the_end_of_a_buffer_of_half_the_window() {
    // Buffers of 16 segments; ten leave at once, the first is filled up again, and a second is not begun.
    let report = plain(
        "+0 setsockopt(4, SOL_TCP, TCP_NOTSENT_LOWAT, [4000], 4) = 0
+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 write(4, ..., 60000) = 26000
+0 > P. 1:10001(10000) ack 1
+0 write(4, ..., 1000) = -1 EAGAIN (Resource temporarily unavailable)",
    );
    assert_eq!(verdict(&report), "pass 0 ");
}

#[test]
fn a_blocked_writer_is_woken_when_a_third_of_the_send_memory_with_overhead_is_free() {
    // 16000 bytes are more than two thirds of 20000; 13000 are not, but with the buffers they are; 6000 are less.
    let report = plain(
        "+0 setsockopt(4, SOL_SOCKET, SO_SNDBUF, [10000], 4) = 0
+0...0.300 write(4, ..., 40000) = 40000
+0 > P. 1:10001(10000) ack 1
+.1 < . 1:1(0) ack 10001 win 32792
+0 > P. 10001:26001(16000) ack 1
+.1 < . 1:1(0) ack 13001 win 32792
+.1 < . 1:1(0) ack 20001 win 32792
+0 > P. 26001:40001(14000) ack 1",
    );
    assert_eq!(verdict(&report), "pass 0 ");
}

#[test]
fn free_space_after_a_blocked_write_is_an_edge_of_epoll() {
    let script = "`../common/set_sysctls.py /proc/sys/net/ipv4/tcp_wmem=\"4096 50000 $((4*1024*1024))\"`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1000>
+0 > S. 0:0(0) ack 1 <mss 1460>
+0 < . 1:1(0) ack 1 win 32792
+0 accept(3, ..., ...) = 4
+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 epoll_create(1) = 5
+0 epoll_ctl(5, EPOLL_CTL_ADD, 4, {events=EPOLLOUT|EPOLLET, fd=4}) = 0
+0 epoll_wait(5, {events=EPOLLOUT, fd=4}, 1, 0) = 1
+0 write(4, ..., 59000) = 58000
+0 > P. 1:10001(10000) ack 1
+0 epoll_wait(5, {events=0, ptr=0}, 1, 0) = 0
+0 < . 1:1(0) ack 10001 win 32792
+0 > P. 10001:26001(16000) ack 1
+0 epoll_wait(5, {events=EPOLLOUT, fd=4}, 1, 0) = 1
+0 < . 1:1(0) ack 26001 win 32792
+0 > P. 26001:42001(16000) ack 1
+0 epoll_wait(5, {events=0, ptr=0}, 1, 0) = 0";
    assert_eq!(verdict(&crate::linux(script)), "pass 0 ");
}
