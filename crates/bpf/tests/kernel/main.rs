//! Controllers of `cc` drive the running kernel's senders through a shaper. The tests run in real time: [`control`] describes what is asserted
//! on which machine.
#![cfg(feature = "bpf")]

mod control;
mod lab;
mod objects;

use lab::{Namespaces, Sent};
use std::process::{Command, Stdio};
use std::time::Duration;
use tcpassay_bpf::shim::{Shim, ShimCounts, Spec, Traced};
use tcpassay_bpf::{Record, RecordKind};
use tcpassay_states::CongestionState;

fn registered(name: &str) -> bool {
    let list = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    list.expect("Linux has it").split_whitespace().any(|other| other == name)
}

/// The controller under a name that only this test uses.
fn spec(controller: &str, name: &str) -> Spec {
    Spec { trace: true, name: Some(name.to_owned()), ..Spec::new(controller) }
}

/// Three seconds, and enough bytes for more than a thousand ACKs.
const TRANSFER: (Duration, usize) = (Duration::from_secs(3), 8_000_000);

/// A transfer over 50 Mbit/s with a queue of 60 kB (9.6 ms). Asserts what holds on every machine.
fn run(spec: &Spec, receivers: Option<&str>) -> (Sent, ShimCounts) {
    let name = spec.kernel_name();
    let lab = Namespaces::new(&name, 50, 60_000);
    let shim = Shim::start(spec).unwrap();
    let sent = lab.transfer(&name, receivers, TRANSFER);
    let outcome = shim.stop().unwrap();
    assert_eq!(sent.controller, name);
    assert!(!registered(&name), "gone when stopped");
    eprintln!(
        "{name}: {:.1} Mbit/s, {} retransmitted, {} dropped, {} reordered; {} records, {} lost; {} decisions, {} written, \
         {} followed; latency p50 {} us, p99 {} us, worst {} us; {:.2} s of CPU",
        sent.mbit(),
        sent.retransmitted,
        sent.drops,
        sent.reordered,
        outcome.records,
        outcome.lost,
        outcome.decided,
        outcome.written,
        outcome.applied,
        outcome.latency.value_at_quantile(0.5) / 1000,
        outcome.latency.value_at_quantile(0.99) / 1000,
        outcome.latency.max() / 1000,
        outcome.cpu,
    );
    faithful(spec, &sent, &outcome);
    (sent, outcome)
}

/// The records of the sender with the decisions that they caused.
fn sender(sent: &Sent, trace: &[Traced]) -> Vec<Traced> {
    let first = trace.iter().find(|(r, _)| r.kind == RecordKind::Established && r.ports.0 == sent.port);
    let id = first.expect("the connection is reported").0.connection;
    trace.iter().filter(|(r, _)| r.connection == id).copied().collect()
}

/// Asserts what holds on every machine: no record was lost, each window in force is the one of the decision that it answers, and a replay
/// of the records gives the same decisions.
fn faithful(spec: &Spec, sent: &Sent, outcome: &ShimCounts) {
    assert_eq!((outcome.lost, outcome.clamps), (0, 0));
    let trace = sender(sent, &outcome.trace);
    let id = trace[0].0.connection;
    let mut fresh = spec.connection(id, outcome.tick);
    for (record, decision) in &trace {
        assert_eq!(fresh.on(record), *decision, "{record:?}");
    }
    for record in current(&trace) {
        let at = usize::try_from(record.answered).unwrap() - 1;
        let decision = trace[at].1.expect("the kernel applies only decisions");
        assert_eq!(decision.answers, record.answered);
        assert_eq!(record.ssthresh, decision.ssthresh, "{record:?}");
        if !matches!(record.state, CongestionState::Cwr | CongestionState::Recovery) {
            assert_eq!(record.cwnd, decision.cwnd, "{record:?}");
        }
    }
    let acks = acks(&trace);
    assert!(acks > 1000, "a transfer of some length: {acks} ACKs");
    assert_eq!(trace.last().expect("there are some").0.kind, RecordKind::Closed, "reported to the end");
}

/// Asserts what holds on a machine with time: decisions arrive before the next ACK.
fn prompt(sent: &Sent, outcome: &ShimCounts) {
    let trace = sender(sent, &outcome.trace);
    let (acks, followed) = (acks(&trace), current(&trace).count());
    assert!(followed * 100 > acks * 95, "of {acks} ACKs, {followed} found a current decision");
    let last = trace.last().expect("there are some").0;
    assert!(last.number - last.answered < 20, "the last decisions arrived: {last:?}");
}

fn acks(trace: &[Traced]) -> usize {
    count(trace, |kind| matches!(kind, RecordKind::Ack { .. }))
}

/// The ACKs that met a decision in force. After an event that the kernel handles by its own rule, the window of that rule is in force until
/// the decision for the event arrives.
fn current(trace: &[Traced]) -> impl Iterator<Item = Record> {
    let mut barrier = 0;
    trace.iter().filter_map(move |&(record, _)| match record.kind {
        RecordKind::Congestion { .. }
        | RecordKind::RecoveryExit { .. }
        | RecordKind::Timeout { .. }
        | RecordKind::Resume => {
            barrier = record.number;
            None
        }
        RecordKind::Ack { .. } => (record.answered > 0 && record.answered >= barrier).then_some(record),
        RecordKind::Established | RecordKind::Closed => None,
    })
}

fn count(trace: &[Traced], wanted: fn(&RecordKind) -> bool) -> usize {
    trace.iter().filter(|(record, _)| wanted(&record.kind)).count()
}

/// The mean window in packets after the first second.
fn window(sent: &Sent) -> f64 {
    let late: Vec<f64> =
        sent.samples.iter().filter(|(at, _)| at.as_secs() >= 1).map(|&(_, cwnd)| f64::from(cwnd)).collect();
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    let n = late.len() as f64;
    late.iter().sum::<f64>() / n
}

#[test]
fn reno_through_the_shim_has_the_mean_window_of_the_kernels_reno() {
    needs_bpf!();
    let spec = spec("reno", "tat_reno");
    let both = || (run(&spec, None), Namespaces::new("native", 50, 60_000).transfer("reno", None, TRANSFER));
    control::passes(both, |((sent, outcome), native)| {
        prompt(sent, outcome);
        let reductions = count(&outcome.trace, |kind| matches!(kind, RecordKind::Congestion { .. }));
        let timeouts = count(&outcome.trace, |kind| matches!(kind, RecordKind::Timeout { .. }));
        assert!(reductions >= 8 && timeouts == 0, "{reductions} reductions, {timeouts} timeouts");
        assert_eq!(native.controller, "reno");
        eprintln!("reno: {:.1} Mbit/s, {} retransmitted", native.mbit(), native.retransmitted);
        if sent.reordered + native.reordered > 0 {
            control::say(
                "the kernel saw reordered packets and took them for lost: the windows were not compared",
            );
            return;
        }
        let (ours, theirs) = (window(sent), window(native));
        eprintln!("windows {ours:.1} and {theirs:.1}");
        assert!((ours / theirs - 1.0).abs() < 0.1, "mean windows {ours:.1} and {theirs:.1} packets");
        let rates = (sent.mbit(), native.mbit());
        assert!((rates.0 / rates.1 - 1.0).abs() < 0.05, "{} and {} Mbit/s", rates.0, rates.1);
    });
}

#[test]
fn vegas_keeps_the_queue_short_and_loses_nothing() {
    needs_bpf!();
    let spec = spec("vegas", "tat_vegas");
    control::passes(
        || run(&spec, None),
        |(sent, outcome)| {
            prompt(sent, outcome);
            let reductions = count(&outcome.trace, |kind| matches!(kind, RecordKind::Congestion { .. }));
            assert_eq!(sent.drops, 0);
            // Reordered packets that the kernel takes for lost cause reductions without a loss.
            if sent.reordered == 0 {
                assert_eq!((reductions, sent.retransmitted), (0, 0));
            } else {
                control::say(&format!(
                    "{} packets were reordered: reductions were not compared",
                    sent.reordered
                ));
            }
            assert!(
                sent.mbit() > 40.0 && window(sent) < 15.0,
                "{} Mbit/s, {} packets",
                sent.mbit(),
                window(sent)
            );
        },
    );
}

#[test]
fn mvegas_draws_the_same_random_numbers_when_its_trace_is_replayed() {
    needs_bpf!();
    let spec = spec("mvegas", "tat_mvegas");
    let expect = |(sent, outcome): &(Sent, ShimCounts)| {
        prompt(sent, outcome);
        assert!(sent.mbit() > 40.0, "{}", sent.mbit());
    };
    control::passes(|| run(&spec, None), expect);
}

#[test]
fn dctcp_negotiates_ecn_by_itself_at_both_ends() {
    needs_bpf!();
    let spec = spec("dctcp", "tat_dctcp");
    let run = || {
        let (sent, outcome) = run(&spec, Some("tat_dctcp"));
        assert!(sent.options & 8 != 0, "TCPI_OPT_ECN");
        (sent, outcome)
    };
    control::passes(run, |(sent, outcome)| {
        prompt(sent, outcome);
        assert!(sent.mbit() > 40.0, "{}", sent.mbit());
    });
}

#[test]
fn two_shims_run_at_the_same_time_each_with_its_own_connections() {
    needs_bpf!();
    let lab = Namespaces::new("two", 50, 60_000);
    let (reno, vegas) = (spec("reno", "tat_two_reno"), spec("vegas", "tat_two_vegas"));
    let shims = [Shim::start(&reno).unwrap(), Shim::start(&vegas).unwrap()];
    for shim in &shims {
        assert_eq!(
            lab.transfer(shim.name(), None, (Duration::from_millis(500), 500_000)).controller,
            shim.name()
        );
    }
    for shim in shims {
        assert_eq!(shim.stop().unwrap().connections, 1);
    }
}

#[test]
fn a_name_that_is_in_use_is_refused_and_stays_registered() {
    needs_bpf!();
    let first = Shim::start(&spec("reno", "tat_taken")).unwrap();
    let error = Shim::start(&spec("vegas", "tat_taken")).unwrap_err().to_string();
    assert!(error.contains("register the controller") && error.contains("File exists"), "{error}");
    assert!(registered("tat_taken"));
    drop(first);
    assert!(!registered("tat_taken"));
}

/// The process that the next test kills; not a test itself.
#[test]
#[ignore = "started and killed by another test"]
fn holds_a_name_until_killed() {
    let _shim = Shim::start(&spec("reno", "tat_killed")).unwrap();
    std::thread::park();
}

#[test]
fn a_killed_process_leaves_no_name_behind() {
    needs_bpf!();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "holds_a_name_until_killed"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let appears = |wanted: bool| (0..60_000).any(|_| wait(10, || registered("tat_killed") == wanted));
    assert!(appears(true), "the holder registers");
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(appears(false), "the kernel takes it back");
}

fn wait(millis: u64, so: impl Fn() -> bool) -> bool {
    let done = so();
    if !done {
        #[expect(clippy::disallowed_methods, reason = "the kernel takes its time")]
        std::thread::sleep(Duration::from_millis(millis));
    }
    done
}
