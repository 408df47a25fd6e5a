//! The shim beside the other two forms of a controller: the events of `tests/controllers/reno.trace` as records of a kernel.

mod common;

use common::{MSS, record};
use tcpassay_bpf::{ControlledConnection, INFINITE, Record, RecordKind};
use tcpassay_cc::{Params, build};
use tcpassay_states::CongestionState as State;
use tcpassay_units::Dur;

const TRACE: &str = include_str!("../../../tests/controllers/reno.trace");

#[test]
fn reno_through_the_shim_returns_the_windows_of_the_trace() {
    let reno = build("reno", &Params::default()).unwrap();
    let mut connection = ControlledConnection::new(reno, Dur::from_millis(4));
    let mut state = State::Open;
    let lines = TRACE.lines().filter(|line| !line.starts_with('#'));
    for (at, line) in lines.enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = u64::try_from(at).unwrap() + 1;
        let mut segments = 0;
        let kind = match words[0] {
            "established" => RecordKind::Established,
            "ack" => {
                segments = words[1].parse().unwrap();
                RecordKind::Ack { app_limited: false }
            }
            "loss" => {
                state = State::Recovery;
                RecordKind::Congestion { marked: false }
            }
            "exit" => {
                state = State::Open;
                RecordKind::RecoveryExit { spurious: false }
            }
            "timeout" => {
                state = State::Loss;
                RecordKind::Timeout { again: false }
            }
            other => panic!("{other} is no event of a trace"),
        };
        let acknowledging =
            Record { acked: segments * MSS, delivered: segments, ..record(number, kind, state) };
        let decision = connection.on(&acknowledging).expect("an answer");
        let said = |word: &str| if word == "-" { INFINITE } else { word.parse().unwrap() };
        let [.., cwnd, ssthresh] = words[..] else { panic!("{line}") };
        assert_eq!(
            (decision.cwnd, decision.ssthresh),
            (said(cwnd), said(ssthresh)),
            "event {number}: {line}"
        );
    }
}
