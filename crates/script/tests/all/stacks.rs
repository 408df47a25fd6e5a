//! Another TCP as the target: smoltcp.

use super::verdict;
use tcpassay_script::report::Report;
use tcpassay_script::run::{RunOptions, StackTarget, run_on};
use tcpassay_stack::smoltcp::SmolStack;
use tcpassay_tcp::Profile;

fn smoltcp(text: &str) -> Report {
    let mut options = RunOptions::new(Profile::Linux);
    options.loose = true;
    let mut target = StackTarget::new(None, |_, settings| {
        SmolStack::new(settings).map(|(stack, about)| (Box::new(stack) as Box<_>, about))
    });
    run_on(text, &options, &mut target)
}

const LISTEN: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
";
const ACCEPTED: &str = "+0 < S 7:7(0) win 32792 <mss 1000,sackOK>
+0 > S. 0:0(0) ack 8 <...>
+0...0.1 accept(3, ..., ...) = 4
+.1 < . 1:1(0) ack 1 win 32792
";

#[test]
fn data_are_written_acknowledged_and_read_with_the_numbers_of_the_script() {
    let text = format!(
        "{LISTEN}{ACCEPTED}+0 write(4, ..., 500) = 500
+0 > P. 1:501(500) ack 1
+.01 < P. 1:301(300) ack 501 win 32792
+0 recv(4, ..., 1000, MSG_PEEK) = 300
+0 read(4, ..., 100) = 100
+0 read(4, ..., 1000) = 200
+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 read(4, ..., 1000) = -1 EAGAIN (x)
+0 shutdown(4, SHUT_WR) = 0
+0 > F. 501:501(0) ack 301
+0 write(4, ..., 1) = -1 EPIPE (x)
+.01 < F. 301:301(0) ack 502 win 32792
+0 > . 502:502(0) ack 302
+0 read(4, ..., 1000) = 0
+0 close(4) = 0
"
    );
    let report = smoltcp(&text);
    assert_eq!(verdict(&report), "pass 0 ", "{:#?}", report.details);
}

#[test]
fn a_retransmission_after_a_second_is_compared_with_its_time() {
    let sent = "+0 write(4, ..., 500) = 500\n+0 > P. 1:501(500) ack 1\n";
    let report = smoltcp(&format!("{LISTEN}{ACCEPTED}{sent}+2 > P. 1:501(500) ack 1\n"));
    assert_eq!(report.status.name(), "time");
    assert!(report.reason.starts_with("outbound packet at 1."), "{}", report.reason);
}

#[test]
fn a_refused_and_a_reset_connection_have_different_errors() {
    let connect = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS (x)
+0 > S 0:0(0) <...>
";
    let refused = smoltcp(&format!(
        "{connect}+.1 < R. 0:0(0) ack 1 win 0\n+0 connect(3, ..., ...) = -1 ECONNREFUSED (x)\n"
    ));
    assert_eq!(verdict(&refused), "pass 0 ");
    let reset = "+.1 < S. 0:0(0) ack 1 win 1000 <mss 1000>
+0 > . 1:1(0) ack 1
+0 connect(3, ..., ...) = 0
+.1 < R. 1:1(0) ack 1 win 0
+0 read(3, ..., 1) = -1 ECONNRESET (x)
+0 read(3, ..., 1) = 0
";
    assert_eq!(verdict(&smoltcp(&format!("{connect}{reset}"))), "pass 0 ");
}

#[test]
fn what_another_tcp_lacks_is_refused_at_its_line() {
    let cases = [
        (
            format!("{LISTEN}+0 setsockopt(3, SOL_TCP, TCP_CORK, [1], 4) = 0\n"),
            "5 the socket option TCP_CORK: there is no setting for it",
        ),
        (
            format!("{LISTEN}+0 getsockopt(3, SOL_TCP, TCP_MAXSEG, [1], [4]) = 0\n"),
            "5 getsockopt TCP_MAXSEG: a stack shows no options",
        ),
        (format!("{LISTEN}+0 epoll_create(1) = 4\n"), "5 the system call `epoll_create` on another TCP"),
        (
            format!("{LISTEN}{ACCEPTED}+0 shutdown(4, SHUT_RD) = 0\n"),
            "9 shutdown with SHUT_RD: another TCP closes its sending direction only",
        ),
        (
            format!("{LISTEN}{ACCEPTED}+0 recv(4, ..., 1, MSG_OOB) = 1\n"),
            "9 recv with MSG_OOB on another TCP",
        ),
        (
            format!("{LISTEN}{ACCEPTED}+0 < icmp unreachable host_unreachable [1:1(0)]\n"),
            "9 an ICMP message to another TCP",
        ),
        (
            format!("{LISTEN}{ACCEPTED}+0 %{{ assert tcpi_snd_cwnd == 10 }}%\n"),
            "9 the name `tcpi_snd_cwnd` in code",
        ),
        (
            format!("`sysctl net.ipv4.tcp_early_retrans=0`\n{LISTEN}"),
            "1 the sysctl net.ipv4.tcp_early_retrans=0: no setting of another TCP stands for it",
        ),
        (
            format!("{LISTEN}+0 `sysctl net.ipv4.tcp_timestamps=0`\n"),
            "5 the sysctl net.ipv4.tcp_timestamps=0: no setting of another TCP stands for it any more",
        ),
    ];
    for (text, wanted) in cases {
        let report = smoltcp(&text);
        assert_eq!(verdict(&report), format!("unsupported {wanted}"), "{text}");
    }
}

#[test]
fn settings_hold_for_the_whole_host() {
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 listen(3, 1) = 0
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 4
+0 setsockopt(4, SOL_SOCKET, SO_RCVBUF, [4096], 4) = 0
+0 connect(4, ..., ...) = 0
";
    let why =
        "unsupported 5 SO_RCVBUF differs from that of the first socket; smoltcp has one value for the host";
    assert_eq!(verdict(&smoltcp(text)), why);
}

#[test]
fn a_stack_that_does_not_have_a_setting_does_not_begin() {
    let text = LISTEN.replace("SOL_SOCKET, SO_REUSEADDR, [1], 4", "SOL_TCP, TCP_CONGESTION, \"dctcp\", 5");
    let why = "unsupported 4 smoltcp has no congestion controller `dctcp`; it has none, reno, cubic";
    assert_eq!(verdict(&smoltcp(&text)), why);
}

/// smoltcp does not answer such a SYN.
#[test]
fn a_second_syn_in_a_connection_does_not_move_the_numbers_of_its_peer() {
    let text = format!(
        "{LISTEN}{ACCEPTED}+.1 < S 1000:1000(0) win 1000
+.1 < P. 1:301(300) ack 1 win 32792
+.01 > . 1:1(0) ack 301
+0 read(4, ..., 1000) = 300
"
    );
    assert_eq!(verdict(&smoltcp(&text)), "pass 0 ");
}
