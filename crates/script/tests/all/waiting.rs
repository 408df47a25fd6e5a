//! Events of sockets for `poll` and `epoll`, invalid pointers, and sockets without a connection.

use super::{linux, passes, plain, verdict};

const COOKIE: &str = "`sysctl net.ipv4.tcp_timestamps=0`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 sendto(3, ..., 0, MSG_FASTOPEN, ..., ...) = -1 EINPROGRESS (x)
+0 > S 0:0(0) <...>
+.01 < S. 5:5(0) ack 1 win 5840 <mss 1460,nop,nop,sackOK,nop,wscale 6,FO abcd1234,nop,nop>
+0 > . 1:1(0) ack 1
+0 close(3) = 0
+0 > F. 1:1(0) ack 1
+.01 < F. 1:1(0) ack 2 win 92
+0 > . 2:2(0) ack 2
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 4
+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 setsockopt(4, SOL_TCP, TCP_FASTOPEN_CONNECT, [1], 4) = 0
";

#[test]
fn new_data_are_an_edge_of_epoll_even_if_older_data_are_unread() {
    passes(
        "+0 epoll_create(1) = 5
+0 epoll_ctl(5, EPOLL_CTL_ADD, 4, {events=EPOLLIN|EPOLLET, fd=4}) = 0
+0 < . 1:101(100) ack 1 win 5000
+0 epoll_wait(5, {events=EPOLLIN, fd=4}, 1, 0) = 1
+0 epoll_wait(5, {events=0, ptr=0}, 1, 0) = 0
+.01 < . 101:201(100) ack 1 win 5000
+0 epoll_wait(5, {events=EPOLLIN, fd=4}, 1, 0) = 1
+0 epoll_wait(5, {events=0, ptr=0}, 1, 0) = 0
+0 < . 401:501(100) ack 1 win 5000
+0 epoll_wait(5, {events=0, ptr=0}, 1, 0) = 0
+0 read(4, ..., 50) = 50
+0 epoll_wait(5, {events=0, ptr=0}, 1, 0) = 0
+0 < . 201:401(200) ack 1 win 5000
+0 epoll_wait(5, {events=EPOLLIN, fd=4}, 1, 0) = 1
+0 < F. 501:501(0) ack 1 win 5000
+0 epoll_wait(5, {events=EPOLLIN, fd=4}, 1, 0) = 1
+0 epoll_wait(5, {events=0, ptr=0}, 1, 0) = 0",
    );
}

#[test]
fn data_do_not_wake_a_socket_that_waits_only_for_writing() {
    passes(
        "+0 epoll_create(1) = 5
+0 epoll_ctl(5, EPOLL_CTL_ADD, 4, {events=EPOLLOUT|EPOLLET, fd=4}) = 0
+0 epoll_wait(5, {events=EPOLLOUT, fd=4}, 1, 0) = 1
+0 < . 1:101(100) ack 1 win 5000
+0 epoll_wait(5, {events=0, ptr=0}, 1, 0) = 0",
    );
}

#[test]
fn a_socket_with_a_deferred_connect_is_writable_without_pollhup() {
    let rest = "+0 connect(4, ..., ...) = 0
+0 %{ assert tcpi_state == TCP_SYN_SENT }%
+0 poll([{fd=4, events=POLLIN|POLLOUT|POLLERR, revents=POLLOUT}], 1, 0) = 1
+0 read(4, ..., 4096) = -1 EAGAIN (x)
+0 write(4, ..., 1000) = 1000
+0 > S 0:1000(1000) <...>";
    let report = linux(&format!("{COOKIE}{rest}"));
    assert_eq!(verdict(&report), "pass 0 ", "{:#?}", report.details);
    let fresh = linux(
        "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 poll([{fd=3, events=POLLIN, revents=POLLHUP}], 1, 0) = 1",
    );
    assert_eq!(verdict(&fresh), "pass 0 ");
}

#[test]
fn a_socket_without_a_connection_has_a_state() {
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 %{ assert tcpi_state == TCP_CLOSE }%
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 %{ assert tcpi_state == TCP_LISTEN }%
+0 < S 0:0(0) win 32792 <mss 1000>
+0 > S. 0:0(0) ack 1 <...>
+0 %{ assert tcpi_state == TCP_SYN_RECV }%";
    assert_eq!(verdict(&linux(text)), "pass 0 ");
}

#[test]
fn an_invalid_pointer_is_efault_and_consumes_nothing() {
    passes(
        "+0 write(4, NULL, 1000) = -1 EFAULT (Bad address)
+0 write(4, NULL, 0) = 0
+0 send(4, NULL, 1000, 0) = -1 EFAULT (Bad address)
+0 sendto(4, NULL, 1000, 0, ..., ...) = -1 EFAULT (Bad address)
+0 writev(4, [{NULL, 100}], 1) = -1 EFAULT (Bad address)
+0 sendmsg(4, {msg_name(...)=..., msg_iov(1)=[{NULL, 100}], msg_flags=0}, 0) = -1 EFAULT (Bad address)
+0 setsockopt(4, SOL_TCP, TCP_NODELAY, NULL, 4) = -1 EFAULT (Bad address)
+0 getsockopt(4, SOL_TCP, TCP_NODELAY, NULL, NULL) = -1 EFAULT (Bad address)
+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 read(4, NULL, 1000) = -1 EAGAIN (nothing to copy)
+0 < . 1:1001(1000) ack 1 win 200
+0 > . 1:1(0) ack 1001
+0 read(4, NULL, 1000) = -1 EFAULT (Bad address)
+0 recv(4, NULL, 1000, 0) = -1 EFAULT (Bad address)
+0 recvfrom(4, NULL, 1000, MSG_PEEK, ..., ...) = -1 EFAULT (Bad address)
+0 read(4, ..., 2000) = 1000
+0 write(4, ..., 100) = 100
+0 > P. 1:101(100) ack 1001",
    );
    let some = plain("+0 writev(4, [{..., 5}, {NULL, 100}], 2) = 5");
    assert_eq!(verdict(&some), "unsupported 9 a vector with valid and invalid buffers");
}

#[test]
fn a_fast_open_write_from_an_invalid_pointer_only_requests_a_cookie() {
    let rest = "+0 sendto(4, NULL, 1, MSG_FASTOPEN, ..., ...) = -1 EINPROGRESS (x)\n+0 > S 0:0(0) <...>";
    assert_eq!(verdict(&linux(&format!("{COOKIE}{rest}"))), "pass 0 ");
}

#[test]
fn times_of_the_last_data_count_in_milliseconds() {
    passes(
        "+.05 %{ assert tcpi_last_data_recv == 50 and tcpi_last_data_sent == 50 }%
+0 < . 1:1001(1000) ack 1 win 5000
+.01 %{ assert tcpi_last_data_recv == 10, tcpi_last_data_recv }%
+0 write(4, ..., 1000) = 1000
+.02 %{ assert tcpi_last_data_recv == 30 and tcpi_last_data_sent == 20 }%
+0 < . 2001:3001(1000) ack 1 win 5000
+0 %{ assert tcpi_last_data_recv == 30, 'out of order' }%",
    );
}

#[test]
fn a_descriptor_that_is_not_open_is_an_error_of_the_call() {
    passes(
        "+0 close(9) = -1 EBADF (x)\n+0 read(9, ..., 5) = -1 EBADF (x)\n+0 close(4) = 0\n+0 > F. 1:1(0) ack 1\n+0 write(4, ..., 5) = -1 EBADF (x)",
    );
}
