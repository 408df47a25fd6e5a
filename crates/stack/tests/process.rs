//! Processes that hang, end, or write what is no frame.

use std::net::Ipv4Addr;
use std::time::Duration;
use tcpassay_stack::process::{Copies, Limits, Process};
use tcpassay_stack::{Settings, StackError, StackErrorKind};

fn failure(command: &str, answer: Duration) -> StackError {
    let settings = Settings {
        address: Ipv4Addr::new(10, 0, 0, 1),
        mtu: 1500,
        seed: 1,
        cc: "reno".to_owned(),
        send_buffer: None,
        receive_buffer: None,
        nagle: true,
        timestamps: None,
        ack_delay: None,
        keepalive: None,
        user_timeout: None,
        isn: None,
    };
    Process::begin(command, &Copies::new(), &settings, Limits { answer, ..Limits::default() })
        .expect_err(command)
}

#[test]
fn a_process_that_does_not_answer_within_the_limit_hangs() {
    let why = failure("sleep 600", Duration::from_millis(50));
    assert_eq!(why.kind, StackErrorKind::Hung);
    assert_eq!(why.text, "sleep 600: it did not answer within the limit of wall time");
}

#[test]
fn a_process_that_ends_has_died() {
    let why = failure("false", Duration::from_mins(10));
    assert_eq!(why.kind, StackErrorKind::Died);
    assert_eq!(why.text, "false: it ended (exit status: 1)");
}

#[test]
fn a_process_that_writes_without_end_is_ended() {
    // Its first output is either there before the request, or a length of 175704697 bytes.
    let why = failure("yes", Duration::from_mins(10));
    assert_eq!(why.kind, StackErrorKind::Broken);
}
