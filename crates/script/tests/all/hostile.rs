//! Scripts that would exhaust the stack, the memory or the time of the process that runs them.

use super::{linux, plain, verdict};
use proptest::prelude::*;
use tcpassay_script::run::{RunOptions, run};
use tcpassay_tcp::Profile;

fn code(text: &str) -> String {
    verdict(&plain(&format!("+0 %{{ {text} }}%\n+0 %{{ assert 1 }}%")))
}

#[test]
fn an_expression_of_many_terms_is_unsupported_and_one_of_a_hundred_is_not() {
    assert_eq!(code(&format!("print({})", vec!["1"; 100].join("+"))), "pass 0 ");
    for text in [
        format!("print({})", vec!["1"; 100_000].join("+")),
        format!("x = {}", vec!["1"; 100_000].join(" or ")),
        format!("x = {}", vec!["1"; 100_000].join(" and ")),
        format!("x = {}", vec!["1"; 100_000].join(" < ")),
        format!("x = {}", vec!["2"; 100_000].join("**")),
        format!("x = {}1", "-".repeat(100_000)),
        format!("x = {}1", "not ".repeat(100_000)),
        format!("x = {}1{}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("x = {}1{}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("x = {}1{}", "min(".repeat(100_000), ")".repeat(100_000)),
        format!("x = {}1", "1 if 1 else ".repeat(100_000)),
        format!("x = 'a'{}", ".format(1)".repeat(100_000)),
        format!("{}pass", "if 1: ".repeat(100_000)),
    ] {
        let said = code(&text);
        assert!(said.starts_with("unsupported 9 code: expected "), "{}: {said}", &text[..20]);
    }
    let deep = (0..100_000).map(|n| " ".repeat(n % 1000) + "if 1:\n").collect::<Vec<_>>().concat();
    assert!(code(&format!("\n{deep}")).starts_with("unsupported"), "blocks inside blocks");
}

#[test]
fn values_and_what_is_printed_are_bounded() {
    let double = |line: &str| format!("x = 'a'\n{}", format!("{line}\n").repeat(60));
    for text in [
        double("x = x + x"),
        double("x += x"),
        double("x = '%s%s' % (x, x)"),
        double("x = '{}{}'.format(x, x)"),
        double("x = (x, x)"),
        double("x = str((x, x))"),
        format!("x = 1\n{}", "x = [x]\n".repeat(100_000)),
        format!("x = 'a'\n{}print({})", "x = x + x\n".repeat(15), vec!["x"; 10_000].join(",")),
        format!("x = 'a'\n{}{}", "x = x + x\n".repeat(15), "print(x)\n".repeat(1000)),
        format!(
            "x = 'a'\n{}{}",
            "x = x + x\n".repeat(15),
            (0..1000).map(|n| format!("y{n} = x\n")).collect::<Vec<_>>().concat()
        ),
        format!("x = 'a'\n{}{}", "x = x + x\n".repeat(15), "len(x + 'b')\n".repeat(100_000)),
        "x = 1 << 1000".to_owned(),
        "x = 'a' * 1000000000".to_owned(),
        "x = 2 ** 1000000000".to_owned(),
        "x = [1] * 1000000000".to_owned(),
        "x = 99999999999999999999".to_owned(),
        "x = int(1.5e300)".to_owned(),
        "x = abs(-9223372036854775807 - 1)".to_owned(),
        "x = -(-9223372036854775807 - 1)".to_owned(),
        "x = (-9223372036854775807 - 1) // -1".to_owned(),
    ] {
        let said = code(&text);
        assert!(said.starts_with("unsupported 9 code: "), "{}: {said}", &text[..text.len().min(60)]);
    }
    assert_eq!(code("x = 1 / 0"), "fail 9 code: a division by zero");
}

#[test]
fn too_deep_nesting_is_a_syntax_error_with_its_position() {
    for (open, close) in [("[", "]"), ("{", "}"), ("{a=", "}"), ("f(", ")")] {
        let text = format!("0 f({}1{}) = 0", open.repeat(100_000), close.repeat(100_000));
        let said = verdict(&linux(&text));
        assert!(said.starts_with("syntax 1 expected fewer brackets"), "{said}");
    }
    for text in [
        format!("0 < S 0:0(0) win 1 <{}>", vec!["nop"; 100_000].join(",")),
        format!("0 < S 0:0(0) win 1 <{}", "mss 1,".repeat(100_000)),
        format!("0 > {} 0:0(0)", "S".repeat(1_000_000)),
        format!("0 {}", "+".repeat(1_000_000)),
        format!("{} `a`", "9".repeat(1_000_000)),
        "/*".repeat(1_000_000),
        format!("0 f({}) = 0", vec!["A"; 100_000].join("|")),
        format!("0 f(\"{}", "\\\\".repeat(100_000)),
        format!("#ifdef A\n{}", "#ifdef B\n".repeat(100_000)),
        "0 < S 0:0(0) win 1 \u{0} \u{fffd}".to_owned(),
        "\u{0}".repeat(1000),
        "a".repeat(5 << 20),
    ] {
        let said = verdict(&linux(&text));
        assert!(!said.starts_with("pass"), "{}: {said}", text.chars().take(30).collect::<String>());
    }
}

#[test]
fn a_defined_word_that_makes_the_script_too_long_is_unsupported() {
    let value = "1".repeat(60_000);
    let text = format!("--define=X={value}\n{}", "0 `X` // \n0 f(X) = 0\n".repeat(1000));
    let said = verdict(&linux(&text));
    assert_eq!(said, "unsupported 1 a script of more than 4194304 bytes");
}

#[test]
fn large_numbers_of_time_and_data_end_within_the_limits() {
    for line in [
        "+999999999 > . 1:1(0) ack 1",
        "+0 `sleep 999999`\n".repeat(40).trim_end(),
        "+0 write(4, ..., 9223372036854775807) = 5",
        "+0 read(4, ..., 9223372036854775807) = 5",
        "+0 < . 1:4294967295(4294967294) ack 1 win 5\n+0 write(4, ..., 1) = 5",
        "+0 setsockopt(4, SOL_TCP, TCP_USER_TIMEOUT, [9223372036854775807], 4) = 0",
        "+0 setsockopt(4, SOL_TCP, TCP_LINGER2, [4294967295], 4) = 0\n+0 close(4) = 1",
        "+0 poll([{fd=4, events=POLLIN, revents=0}], 1, 9223372036854775807) = 5",
        "+0 `sysctl net.ipv4.tcp_fin_timeout=4294967295`\n+0 close(4) = 1",
        "+0 sendmsg(4, {msg_name(...)=..., msg_iov(2)=[{..., 9223372036854775807}, {..., 9223372036854775807}], msg_flags=0}, 0) = 5",
    ] {
        let said = verdict(&plain(line));
        assert!(!said.starts_with("pass"), "{line}: {said}");
    }
}

const OPTIONS: &[&str] = &[
    "TCP_NODELAY",
    "TCP_CORK",
    "SO_KEEPALIVE",
    "TCP_KEEPIDLE",
    "TCP_KEEPINTVL",
    "TCP_KEEPCNT",
    "SO_SNDBUF",
    "SO_RCVBUF",
    "TCP_MAXSEG",
    "TCP_USER_TIMEOUT",
    "TCP_NOTSENT_LOWAT",
    "TCP_RTO_MIN_US",
    "TCP_RTO_MAX_MS",
    "TCP_DELACK_MAX_US",
    "TCP_SYNCNT",
    "TCP_DEFER_ACCEPT",
    "TCP_LINGER2",
    "TCP_FASTOPEN",
    "TCP_INQ",
    "TCP_QUICKACK",
    "SO_RCVLOWAT",
    "TCP_WINDOW_CLAMP",
    "IP_TTL",
    "IP_TOS",
    "TCP_KEEPINIT",
    "TCP_NOOPT",
];

const SWITCHES: &[&str] = &[
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_reordering",
    "net.ipv4.tcp_syn_retries",
    "net.ipv4.tcp_retries2",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_rto_max_ms",
    "net.ipv4.tcp_rto_min_us",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_tso_win_divisor",
    "net.ipv4.tcp_min_tso_segs",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_base_mss",
    "net.ipv4.tcp_probe_interval",
    "net.ipv4.tcp_syn_linear_timeouts",
    "net.inet.tcp.msl",
    "net.inet.tcp.delacktime",
    "net.inet.tcp.rexmit_min",
    "net.inet.tcp.recvspace",
    "net.inet.tcp.initcwnd_segments",
    "net.inet.tcp.persmin",
    "net.inet.tcp.keepinit",
    "kern.ipc.maxsockbuf",
];

fn extreme() -> impl Strategy<Value = i64> {
    prop_oneof![
        prop::sample::select(vec![
            0_i64,
            1,
            -1,
            2,
            3,
            88,
            535,
            1460,
            65_535,
            65_536,
            2_147_483_647,
            -2_147_483_648,
            4_294_967_295,
            4_294_967_296,
            i64::MAX,
            i64::MIN,
        ]),
        any::<i64>(),
        0..100_000_i64,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Sysctls, routes and socket options of any value, then a connection that sends, receives, loses and closes.
    #[test]
    fn no_value_of_a_sysctl_route_or_option_makes_the_runner_panic(
        switches in prop::collection::vec((0..SWITCHES.len(), extreme()), 0..4),
        before in prop::collection::vec((0..OPTIONS.len(), extreme()), 0..4),
        after in prop::collection::vec((0..OPTIONS.len(), extreme()), 0..4),
        mtu in extreme(), advmss in extreme(), initcwnd in extreme(), mss in any::<u16>(), window in any::<u16>(),
        scale in any::<u8>(), profile in 0..5_usize,
    ) {
        let mut text = String::new();
        for (which, value) in switches {
            let name = SWITCHES[which];
            let value = if name.ends_with("mem") { format!("{value} {value} {value}") } else { value.to_string() };
            text.extend([format!("0 `sysctl {name}=\"{value}\"`\n")]);
        }
        text.extend([format!("0 `ip route change x mtu {mtu} advmss {advmss} initcwnd {initcwnd}`\n")]);
        text.push_str("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n");
        let option = |fd: i32, which: usize, value: i64| {
            format!("+0 setsockopt({fd}, SOL_TCP, {}, [{value}], 4) = ...\n", OPTIONS[which])
        };
        for (which, value) in before {
            text.push_str(&option(3, which, value));
        }
        text.extend([format!(
            "+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n+0 < S 0:0(0) win {window} <mss {mss},sackOK,nop,wscale {scale}>\n\
             * > S. 0:0(0) ack 1 <...>\n+.1 < . 1:1(0) ack 1 win {window}\n+0 accept(3, ..., ...) = 4\n\
             +0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n"
        )]);
        for (which, value) in after {
            text.push_str(&option(4, which, value));
        }
        text.push_str("+0 write(4, ..., 300000) = ...\n+.1 < P. 1:1001(1000) ack 1 win 65535\n+0 < P. 5001:6001(1000) ack 1 win 65535\n\
                       +3 < . 1001:1001(0) ack 1 win 65535\n+0 read(4, ..., 100000) = ...\n+0 close(4) = 0\n+300 `true`\n");
        // The time to fill a window of a gigabyte does not matter; the test asserts that the script ends.
        let mut options = RunOptions::new(Profile::ALL[profile]);
        options.step_limit = 50_000;
        let _ = run(&text, &options);
    }

    /// Statements in any order, with values of any size.
    #[test]
    fn no_block_of_code_makes_the_evaluator_panic(pieces in prop::collection::vec(prop::sample::select(vec![
        "x", "y", " = ", " += ", "1", "-9223372036854775807", "0x7fffffffffffffff", "1.5e300", "'a'", "'%s'", "+", "-", "*", "/",
        "//", "%", "**", "<<", ">>", "|", "&", "^", "~", " and ", " or ", " not ", " in ", "==", "<", ">=", "(", ")", "[", "]",
        ",", "\n", ";", "if ", ":", "\n  ", "else", "elif ", "assert ", "print(", "min(", "int(", "abs(", "str(", ".format(",
        "tcpi_snd_cwnd", "#", "\\",
    ]), 0..40)) {
        let text = pieces.concat();
        let _ = plain(&format!("+0 %{{ x = -9223372036854775807 - 1; y = -1\n{text} }}%"));
    }

    #[test]
    fn arithmetic_on_any_two_numbers_gives_a_number_or_a_reason(a in any::<i64>(), b in any::<i64>(), op in 0..11_usize) {
        let op = ["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "|", "&"][op];
        let said = plain(&format!("+0 %{{ x = {} - 1; y = {} - 1; z = x {op} y; assert 1 }}%", a.max(-i64::MAX), b.max(-i64::MAX)));
        let text = verdict(&said);
        prop_assert!(
            text == "pass 0 " || text.contains("beyond 64 bits") || text.contains("a division by zero"), "{a} {op} {b}: {text}"
        );
    }
}
