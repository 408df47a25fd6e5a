//! The runner ends with a report for any script.

use proptest::prelude::*;
use tcpassay_script::run::{RunOptions, run};
use tcpassay_tcp::Profile;

const LINES: &[&str] = &[
    "socket(..., SOCK_STREAM, IPPROTO_TCP) = 3",
    "socket(..., SOCK_STREAM, IPPROTO_TCP) = 4",
    "bind(3, ..., ...) = 0",
    "listen(3, 1) = 0",
    "accept(3, ..., ...) = 4",
    "connect(3, ..., ...) = ...",
    "write(4, ..., 5000) = ...",
    "write(3, ..., 99999999999) = ...",
    "read(4, ..., 1000) = ...",
    "close(3) = 0",
    "close(4) = 0",
    "shutdown(4, SHUT_WR) = ...",
    "fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0",
    "fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0",
    "setsockopt(4, SOL_TCP, TCP_MAXSEG, [90], 4) = ...",
    "setsockopt(3, SOL_TCP, TCP_USER_TIMEOUT, [1], 4) = ...",
    "setsockopt(4, SOL_SOCKET, SO_SNDBUF, [-1], 4) = ...",
    "poll([{fd=4, events=POLLIN, revents=...}], 1, 10) = ...",
    "< S 0:0(0) win 0 <mss 0,sackOK,TS val 4294967295 ecr 5,wscale 255>",
    "< S 4294967295:9(10) win 65535 <mss 1000,wscale 14>",
    "< S. 7:7(0) ack 1 win 65535 <mss 65535,sackOK,wscale 7>",
    "< . 1:1(0) ack 1 win 65535",
    "< . 1:1(0) ack 5001 win 5",
    "< . 1:1001(1000) ack 1 win 65535",
    "< . 5001:6001(1000) ack 1 win 65535 <sack 1:2001 3001:9,nop>",
    "< F. 1001:1001(0) ack 1 win 65535",
    "< R 1:1(0) win 0",
    "< [ce] FSRPUEWA. 1:9(8) ack 4294967295 win 1 urg 65535",
    "< - 0:0(0)",
    "< icmp unreachable host_unreachable [0:0(0)]",
    "> S. 0:0(0) ack 1 <...>",
    "> S 0:0(0) <...>",
    "> . 1:1(0) ack 1",
    "> P. 1:5001(5000) ack 1",
    "%{ print(tcpi_snd_cwnd, tcpi_rto, tcpi_lost) }%",
    "`sysctl net.ipv4.tcp_rmem=\"1 2 3\"`",
    "`ip route change x advmss 1 mtu 100 initcwnd 0 rto_min 0`",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_script_makes_the_runner_panic(
        steps in prop::collection::vec((0usize..4, 0usize..LINES.len()), 1..30), profile in 0usize..5,
    ) {
        // Mostly with an accepted connection, so that what follows reaches something.
        let mut text = String::new();
        for line in [0, 2, 3, 19, 21, 4] {
            text.push_str("+0 ");
            text.push_str(LINES[line]);
            text.push('\n');
        }
        for (time, line) in steps {
            text.push_str(["+0 ", "+.1 ", "+3 ", "* "][time]);
            text.push_str(LINES[line]);
            text.push('\n');
        }
        let options = RunOptions::new(Profile::ALL[profile]);
        let report = run(&text, &options);
        prop_assert!(report.events <= 40);
    }
}
