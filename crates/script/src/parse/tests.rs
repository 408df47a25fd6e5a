//! Literals of the language, tier by tier, and errors with their places.

use super::*;
use crate::ast::{Expr, IpField, PacketBody, PacketDirection, ScriptPacket, Syscall, TcpOption, TcpPacket};
use proptest::prelude::*;
use tcpassay_wire::Flags;

fn events(text: &str) -> Vec<ScriptEvent> {
    parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).events
}

fn packet(text: &str) -> ScriptPacket {
    match events(text).remove(0).action {
        Action::Packet(p) => p,
        other => panic!("{other:?}"),
    }
}

fn tcp(text: &str) -> TcpPacket {
    match packet(text).body {
        PacketBody::Tcp(tcp) => tcp,
        other @ PacketBody::Icmp(_) => panic!("{other:?}"),
    }
}

fn call(text: &str) -> Syscall {
    match events(text).remove(0).action {
        Action::Call(call) => call,
        other => panic!("{other:?}"),
    }
}

fn error(text: &str) -> String {
    parse(text).expect_err("it must not be a script").to_string()
}

#[test]
fn times_are_absolute_relative_ranges_or_any() {
    let ms = Dur::from_millis;
    let times: Vec<EventTime> = events("0 `a` 0.5 `a` +.1 `a` 0.60~0.65 `a` +.3~+.400 `a` * `a` `end`")
        .iter()
        .map(|e| e.when)
        .collect();
    assert_eq!(
        times,
        [
            EventTime::Absolute(Dur::ZERO),
            EventTime::Absolute(ms(500)),
            EventTime::Relative(ms(100)),
            EventTime::AbsoluteRange(ms(600), ms(650)),
            EventTime::RelativeRange(ms(300), ms(400)),
            EventTime::Any,
        ]
    );
}

#[test]
fn a_blocking_call_has_a_time_at_which_it_returns() {
    assert_eq!(call("+.002 ... 0.004 connect(4, ..., ...) = 0").end, Some(Dur::from_millis(4)));
    assert_eq!(call("+0...0.100 read(4, ..., 2000) = 2000").end, Some(Dur::from_millis(100)));
}

#[test]
fn options_commands_and_events_are_separate_in_the_syntax_tree() {
    let script =
        parse("// c\n--tolerance_usecs=10000\n--strict_segments\n`init\n more`\n0 `one`\n`last`\n").unwrap();
    let options: Vec<(&str, &str)> = script.options.iter().map(|o| (&*o.name, &*o.value)).collect();
    assert_eq!(options, [("tolerance_usecs", "10000"), ("strict_segments", "")]);
    assert_eq!(script.init.unwrap().text, "init\n more");
    assert_eq!(script.events.len(), 1);
    assert_eq!(script.cleanup.unwrap().text, "last");
}

#[test]
fn tier_a_a_syn_with_every_common_option() {
    let syn = tcp("0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>");
    assert_eq!(syn.flags, Flags::SYN);
    assert_eq!((syn.seq, syn.len, syn.ack, syn.window), (0, 0, None, Some(32_792)));
    assert_eq!(
        syn.options,
        Some(vec![
            TcpOption::Mss(1000),
            TcpOption::SackPermitted,
            TcpOption::Nop,
            TcpOption::Nop,
            TcpOption::Nop,
            TcpOption::WindowScale(7)
        ])
    );
}

#[test]
fn tier_a_options_that_do_not_matter() {
    let syn = tcp("+0 > S. 0:0(0) ack 1 win 65535 <...>");
    assert_eq!((syn.options, syn.ack), (None, Some(1)));
    assert_eq!(tcp("+0 > . 1:1(0) ack 1").options, Some(Vec::new()));
}

#[test]
fn tier_b_sack_blocks_and_timestamps() {
    let ack = tcp("+0 < . 1:1(0) ack 1 win 257 <sack 16061:17521 20441:26281,nop,nop>");
    assert_eq!(
        ack.options,
        Some(vec![TcpOption::Sack(vec![(16_061, 17_521), (20_441, 26_281)]), TcpOption::Nop, TcpOption::Nop])
    );
    let stamped = tcp("+0 > S 0:0(0) <TS val 100 ecr 0,TS val ... ecr 7>");
    assert_eq!(
        stamped.options,
        Some(vec![TcpOption::Timestamps(Some(100), Some(0)), TcpOption::Timestamps(None, Some(7))])
    );
}

#[test]
fn tier_c_errno_notes_and_wildcards_of_calls() {
    let connect = call("+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)");
    assert_eq!((connect.result.value, connect.result.errno.as_deref()), (Some(-1), Some("EINPROGRESS")));
    assert_eq!(connect.args, [Expr::Int(3), Expr::Any, Expr::Any]);
    let get = call("+0 fcntl(3, F_GETFL) = 0x2 (flags O_RDWR)");
    assert_eq!(get.result.value, Some(2));
    assert_eq!(call("+0 read(3, ..., 10) = ...").result.value, None);
    // Text in a comment is not parsed as an errno.
    assert_eq!(call("+0 connect(3, ..., ...) = -1 // EINPROGRESS").result.errno, None);
}

#[test]
fn tier_d_ecn_marks_and_flags() {
    assert_eq!(packet("+0 > [ect0] P. 1:1001(1000) ack 1").ip, IpField::Ecn(2));
    assert_eq!(packet("+0 <[noecn] SEW 0:0(0) win 1").ip, IpField::Ecn(0));
    assert_eq!(packet("+0 < [ce] . 1:2(1) ack 1 win 1").ip, IpField::Ecn(3));
    assert_eq!(packet("+0 > [ect01] . 1:2(1) ack 1").ip, IpField::EitherEct);
    assert_eq!(tcp("+0 <[noecn] SEW 0:0(0) win 1").flags, Flags::SYN | Flags::ECE | Flags::CWR);
}

#[test]
fn tier_e_fast_open_options() {
    let syn = tcp("+0 < S 0:10(10) win 32792 <mss 1460,FOEXP TFO_COOKIE,FO,nop>");
    assert_eq!(
        syn.options,
        Some(vec![
            TcpOption::Mss(1460),
            TcpOption::FastOpen { experimental: true, cookie: "TFO_COOKIE".to_owned() },
            TcpOption::FastOpen { experimental: false, cookie: String::new() },
            TcpOption::Nop,
        ])
    );
}

#[test]
fn tier_f_accurate_ecn_is_read() {
    assert_eq!(tcp("+0 > SEWA 0:0(0) <...>").flags, Flags::SYN | Flags::ECE | Flags::CWR | Flags::AE);
    let ack = tcp("+0 > EA. 1:1(0) ack 1 <ECN e1b 1 ceb 0 e0b 1,nop>");
    assert_eq!(
        ack.options,
        Some(vec![TcpOption::AccurateEcn("e1b 1 ceb 0 e0b 1".to_owned()), TcpOption::Nop])
    );
}

#[test]
fn tier_g_icmp_urgent_data_tos_and_no_flags() {
    let PacketBody::Icmp(icmp) = packet("+0 < icmp unreachable frag_needed mtu 1200 [1:1461(1460)]").body
    else {
        panic!("an ICMP message");
    };
    assert_eq!(
        (&*icmp.kind, &*icmp.code, icmp.mtu, icmp.seq),
        ("unreachable", "frag_needed", Some(1200), Some(1))
    );
    let urgent = tcp("+0 < U. 1:2(1) ack 1 win 9 urg 5");
    assert_eq!((urgent.flags, urgent.urgent), (Flags::URG | Flags::ACK, Some(5)));
    assert_eq!(tcp("+0 < - 1:1001(1000) win 20000").flags, Flags::NONE);
    assert_eq!(packet("+0 > [tos 0x4] . 1:1(0) ack 1").ip, IpField::Tos(4));
}

#[test]
fn tier_i_structs_of_poll() {
    let poll = call("+0...0.04 poll([{fd=4,\n events=POLLIN|POLLOUT, revents=POLLOUT}], 1, 1000) = 1");
    let Expr::List(items) = &poll.args[0] else { panic!("a list") };
    let Expr::Group(members) = &items[0] else { panic!("a struct") };
    assert_eq!(members[0], ("fd".to_owned(), Expr::Int(4)));
    assert_eq!(members[1].1, Expr::Names(vec!["POLLIN".to_owned(), "POLLOUT".to_owned()]));
}

#[test]
fn tier_h_messages_are_read() {
    let text = "+0 recvmsg(3, {msg_name(...)=..., msg_iov(1)=[{..., 1000}], msg_flags=0}, 0) = 1000";
    let Expr::Group(members) = &call(text).args[1] else { panic!("a struct") };
    assert_eq!(members[0], ("msg_name".to_owned(), Expr::Any));
    assert_eq!(members[1].0, "msg_iov");
}

#[test]
fn an_error_has_its_position_and_the_expected_syntax() {
    assert_eq!(
        error("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n  +0 < X 0:0(0) win 5\n"),
        "2:8: expected the flags of a segment, made of F S R P . U E W A, or `-` for none, found `X`"
    );
    assert_eq!(error("+0 < S 0:5(6) win 1"), "1:12: expected the length 5 of 0:5, found `6)`");
    assert_eq!(error("0 bind(3, ..., ...) 0"), "1:21: expected `=`, found `0`");
    assert_eq!(error("+0 < . 1:1(0) ack 1 win 70000"), "1:25: expected a window, 0 to 65535, found `70000`");
    assert_eq!(
        error("+0 > . 1:1(0) ack 1 <mss 1, foo 3>"),
        "1:29: expected a TCP option: mss, wscale, sackOK, sack, TS val, nop, eol, FO, FOEXP, md5 or ECN, found `foo`"
    );
    assert_eq!(error("0 `never closed"), "1:4: expected a command, ended by ```, found `never`");
    assert_eq!(
        error("oops"),
        "1:1: expected a time in seconds, such as `0.1`, `+.1`, `+.1~+.2` or `*`, found `oops`"
    );
    assert_eq!(
        error("0 "),
        "1:3: expected a packet (`<` or `>`), a system call, a command or `%{`, found the end of the script"
    );
}

#[test]
fn code_that_the_evaluator_does_not_support_is_kept_with_the_reason() {
    let Action::Code(code) = events("+0 %{\nimport os }%").remove(0).action else { panic!("code") };
    let why = code.body.unwrap_err();
    assert_eq!(
        why.to_string(),
        "2:1: expected `assert`, `print`, an assignment or an expression, found `import`"
    );
}

#[test]
fn constructs_of_other_versions_are_reported_with_their_position_and_are_no_syntax_error() {
    for (text, position, what) in [
        ("+0 < udp (1000)", "1:6", "a packet of UDP"),
        ("+0 > sctp: INIT[flgs=0]", "1:6", "a packet of SCTP"),
        ("+0 < 8080 > 53000 S 0:0(0) win 5", "1:6", "a packet with ports of its own"),
        ("+0 < ipv4 1.1.1.1 > 2.2.2.2: S 0:0(0) win 5", "1:6", "a packet inside another: ipv4"),
        ("+0 > gre flags [none]: . 1:1(0) ack 1", "1:6", "a packet inside another: gre"),
        ("+0 < S 0:0(0) win 5 <mss 1460> /udp(9899>12345)", "1:31", "TCP inside UDP"),
        ("+0 < S 0:0(0) win 5 {mut tcp mss}", "1:21", "a packet that is changed at random"),
        ("+0 < S 0:0(0) win 5 <mss 1460,mp_capable 5>", "1:31", "the TCP option `mp_capable`"),
        ("+0 > [flowlabel 0x5] . 1:1(0) ack 1", "1:7", "the flow label of a packet"),
        ("+0 < icmp echo_request id 5", "1:24", "an ICMP message with an identifier"),
        ("+0 < icmp unreachable port_unreachable [udp (5)]", "1:41", "an ICMP message about a packet of UDP"),
        (
            "+0 > S. 0:0(0) ack 1 <mss MSS>",
            "1:27",
            "the word `MSS` instead of an MSS, 0 to 65535; -D MSS=VALUE defines it",
        ),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.unsupported, "{text}: {error}");
        assert_eq!(error.to_string(), format!("{position}: {what}"), "{text}");
    }
}

#[test]
fn an_unterminated_comment_is_a_syntax_error() {
    assert!(error("/* open\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3").contains("found `/*`"));
    assert!(error("0 `a` /*/ `b`").contains("found `/*/`"));
}

#[test]
fn a_backslash_escapes_a_quote_and_adjacent_strings_are_concatenated() {
    let text = r#"+0 setsockopt(3, SOL_TCP, TCP_ULP, "a\"b" "c", 4) = 0"#;
    assert_eq!(call(text).args[3], Expr::Text(r#"a\"bc"#.to_owned()));
    assert_eq!(call("+0 write(3, \"abc\"..., 1000) = 1000").args[1], Expr::Text("abc".to_owned()));
    assert_eq!(call("+0 f(0x10|1|2, 4|MSG_PEEK) = 0").args[0], Expr::Int(0x13));
    let script = parse("--define=CC=\"a b\"\n--tolerance_usecs = 5\n0 `x`").unwrap();
    assert_eq!((&*script.options[0].value, &*script.options[1].value), ("CC=\"a b\"", "5"));
}

#[test]
fn a_range_that_ends_before_it_begins_is_an_error() {
    assert!(error("+.2~+.1 > . 1:1(0) ack 1").contains("an end that is not before the beginning"));
}

#[test]
fn code_may_have_conditions() {
    let body = |text: &str| match events(text).remove(0).action {
        Action::Code(code) => code.body,
        other => panic!("{other:?}"),
    };
    for good in [
        "+0 %{ if a: b = 1 }%",
        "+0 %{\nif a:\n  b = 1\n  if c:\n    d = 1\n  else:\n    d = 2\nelif e: f = 1; g = 2\nelse:\n  h = 1\nassert h\n}%",
        "+0 %{ x = 1\n   assert x }%",
    ] {
        assert!(body(good).is_ok(), "{good}: {:?}", body(good));
    }
    for bad in [
        "+0 %{ if a }%",
        "+0 %{ if a: }%",
        "+0 %{ else: b = 1 }%",
        "+0 %{\nif a:\nb = 1 }%",
        "+0 %{\nif a:\n  b = 1\n   c = 2 }%",
        "+0 %{ while a: b = 1 }%",
    ] {
        assert!(body(bad).is_err(), "{bad}: {:?}", body(bad));
    }
}

#[test]
fn the_direction_of_a_packet_is_that_of_its_sign() {
    assert_eq!(packet("+0 < . 1:1(0) ack 1 win 5").direction, PacketDirection::In);
    assert_eq!(packet("+0 > . 1:1(0) ack 1").direction, PacketDirection::Out);
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = parse(&text);
    }

    /// Pieces of the language in any order reach deeper than random characters.
    #[test]
    fn no_sequence_of_tokens_makes_the_parser_panic(pieces in prop::collection::vec(prop::sample::select(vec![
        "0 ", "+.1", "~", "...", " < ", " > ", "S.", " 1:1(0)", " ack 1", " win 5", "<mss 5", ",nop", ">", "sack 1:2",
        "TS val ", "ecr", "`x`", "%{", "}%", "assert a == 1", "read(3, ", "[{a=1,", "}]", ") = ", "-1", " E", "(", ")",
        "[ect0]", "icmp unreachable", "\n", "--a=b\n", "//", "/*", "*", "é", "\"", "|", "not ", "((((", "-",
    ]), 0..40)) {
        let _ = parse(&pieces.concat());
    }
}
