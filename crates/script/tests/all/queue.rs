//! Linux's send queue: what a write takes, when a writer is woken.

use crate::{plain, verdict};

#[test]
fn a_write_that_finds_too_much_unsent_stops_at_the_end_of_a_buffer_of_half_the_window() {
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
fn a_blocked_writer_is_woken_when_a_third_of_the_buffer_is_free_buffers_and_all() {
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
