//! The number and times of SYN retransmissions of current Linux (`tcp_write_timeout`,
//! `retransmits_timed_out`); older versions are in `tests/older`, and were compared with Linux 6.1.

use crate::{linux, verdict};

/// An active open with so many SYNs of `TCP_SYNCNT`, then `rest`.
fn opening(count: u32, rest: &str) -> String {
    verdict(&linux(&format!(
        "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 setsockopt(3, IPPROTO_TCP, TCP_SYNCNT, [{count}], 4) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
+0 > S 0:0(0) <...>
{rest}"
    )))
}

/// A SYN after each of these seconds; the connection is given up `last` seconds after the last of them.
fn given_up(count: u32, syns: &[u32], last: u32) -> String {
    let syns: Vec<String> = syns.iter().map(|wait| format!("+{wait} > S 0:0(0) <...>")).collect();
    let syns = syns.join("\n");
    let wait = last * 1000 - 1;
    opening(
        count,
        &format!(
            "{syns}\n+{}.{:03} write(3, ..., 1) = -1 EAGAIN\n+.002 write(3, ..., 1) = -1 ETIMEDOUT",
            wait / 1000,
            wait % 1000
        ),
    )
}

#[test]
fn linear_timeouts_end_when_exponential_ones_would_have_ended() {
    // (2^(n + 1) - 1) s; measured on 6.18: 3.06, 7.15 and 19.5 s, with the drift of its timers.
    assert_eq!(given_up(1, &[1, 1], 1), "pass 0 ");
    assert_eq!(given_up(2, &[1, 1, 1, 1, 1], 2), "pass 0 ");
    assert_eq!(given_up(3, &[1, 1, 1, 1, 1, 2, 4], 8), "pass 0 ");
}

#[test]
fn the_count_may_be_changed_while_the_connection_is_opened() {
    let rest = "+1 > S 0:0(0) <...>
+.5 setsockopt(3, IPPROTO_TCP, TCP_SYNCNT, [1], 4) = 0
+.5 > S 0:0(0) <...>
+.9 write(3, ..., 1) = -1 EAGAIN
+.2 write(3, ..., 1) = -1 ETIMEDOUT";
    assert_eq!(opening(6, rest), "pass 0 ");
}

#[test]
fn the_count_is_between_1_and_127() {
    for wrong in [0, 128] {
        let rest = format!("+0 setsockopt(3, IPPROTO_TCP, TCP_SYNCNT, [{wrong}], 4) = -1 EINVAL");
        assert_eq!(opening(127, &rest), "pass 0 ", "{wrong}");
    }
    assert_eq!(opening(5, "+0 getsockopt(3, IPPROTO_TCP, TCP_SYNCNT, [5], [4]) = 0"), "pass 0 ");
}
