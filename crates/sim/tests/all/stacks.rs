//! Hosts whose TCP is smoltcp.

use crate::{Rows, data, go, go_with, triples};
use std::collections::BTreeSet;
use tcpassay_case::Case;
use tcpassay_measure::{CollectOptions, CompletionKind, EventKind, Recording};
use tcpassay_sim::EndReason;

const EVERYTHING: CollectOptions = CollectOptions {
    series: None,
    latency: true,
    deliveries: true,
    events: true,
    packets: true,
    warmup: tcpassay_units::Dur::ZERO,
    unseen: false,
};

/// 1 MB over a path of 10 ms each way.
const PATH: Rows =
    &[("link.rate", "100Mbit"), ("link.delay", "10ms"), ("app.flow_size", "1MB"), ("app.duration", "60s")];

fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [PATH, more].concat()
}

fn kinds(recording: &Recording, host: u32) -> BTreeSet<EventKind> {
    let rows = (0..recording.events.len()).map(|row| recording.events.head(row));
    rows.filter(|head| head.host == host).map(|head| head.kind).collect()
}

#[test]
fn smoltcp_carries_a_transfer_between_two_of_itself_and_with_the_model_in_both_roles() {
    for hosts in [
        &[("stack.implementation", "smoltcp")][..],
        &[("sender/stack.implementation", "smoltcp")],
        &[("receiver/stack.implementation", "smoltcp")],
    ] {
        for loss in ["0", "1%"] {
            let outcome = go_with(&with(&[hosts, &[("link.loss", loss)]].concat()), EVERYTHING);
            assert_eq!((outcome.ended, outcome.failure), (EndReason::Finished, None), "{hosts:?}");
            let flow = data(&outcome.recording)[0];
            assert_eq!(flow.counters.read_bytes, 1_000_000, "{hosts:?}");
            let done = &outcome.recording.completions[0];
            assert!(done.ok && done.kind == CompletionKind::Flow, "{hosts:?}");
            // 1 MB through windows of 64 KB are sixteen round trips of 20 ms; a loss costs a timeout of 1 s at most.
            let took = (done.end - done.start).as_millis();
            assert!(
                took > 100 && took < if loss == "0" { 600 } else { 20_000 },
                "{hosts:?} {loss}: {took} ms"
            );
            // The regime: packets were lost and sent again.
            let again = flow.counters.retransmitted_packets;
            assert_eq!(again > 0, loss != "0", "{hosts:?}: {again} retransmissions");
        }
    }
}

#[test]
fn the_log_of_smoltcp_has_what_segments_show_and_the_calls_of_the_application_and_no_decisions() {
    let recording = go_with(&with(&[("sender/stack.implementation", "smoltcp")]), EVERYTHING).recording;
    let seen = [EventKind::In, EventKind::Out, EventKind::State, EventKind::App];
    assert_eq!(kinds(&recording, 0), BTreeSet::from(seen));
    assert!(kinds(&recording, 1).contains(&EventKind::AckDelay), "the model at the other end logs its own");
    assert!(!recording.is_of_model());
    let stacks = &recording.header.stacks;
    assert_eq!(stacks.len(), 1);
    assert_eq!((stacks[0].host, stacks[0].name.as_str()), (0, "smoltcp"));
    assert_eq!(stacks[0].version, "0.14.0 (socket-tcp-reno, socket-tcp-cubic)");
    let tcp = &data(&recording)[0].tcp;
    assert_eq!((tcp.cwnd_bytes, tcp.srtt_ns, tcp.timeouts), (None, None, None));
    assert_eq!(tcp.retransmits, Some(0));
}

#[test]
fn two_runs_with_smoltcp_are_identical_and_another_seed_gives_other_sequence_numbers() {
    let rows = with(&[("stack.implementation", "smoltcp"), ("link.loss", "2%")]);
    let (a, b) = (go_with(&rows, EVERYTHING), go_with(&rows, EVERYTHING));
    assert_eq!((a.trace, &a.recording), (b.trace, &b.recording));
    let case = crate::case(&rows);
    let options = tcpassay_sim::SimOptions { collect: EVERYTHING, ..tcpassay_sim::SimOptions::default() };
    let other = tcpassay_sim::run(&case, tcpassay_units::Seed(2), &options).recording;
    let first = |recording: &Recording| recording.packets[0].segment.expect("a SYN").seq;
    assert_ne!(first(&a.recording), first(&other));
}

#[test]
fn requests_on_new_connections_are_answered_by_smoltcp() {
    let outcome = go(&[
        ("stack.implementation", "smoltcp"),
        ("app.workload", "rpc"),
        ("app.reuse", "off"),
        ("app.request", "10KB"),
        ("app.response", "20KB"),
        ("link.delay", "1ms"),
        ("link.rate", "100Mbit"),
        ("app.duration", "2s"),
    ]);
    assert_eq!(outcome.failure, None);
    let done = &outcome.recording.completions;
    assert!(
        done.len() > 20 && done.iter().all(|one| one.ok),
        "{} of {}",
        done.iter().filter(|one| one.ok).count(),
        done.len()
    );
}

#[test]
fn several_senders_with_smoltcp_share_a_receiver() {
    let rows = [
        ("topology", "star:3"),
        ("stack.implementation", "smoltcp"),
        ("app.flow_size", "200KB"),
        ("link.rate", "50Mbit"),
        ("link.delay", "2ms"),
        ("app.duration", "20s"),
    ];
    let outcome = go(&rows);
    assert_eq!((outcome.ended, outcome.failure), (EndReason::Finished, None));
    let read: Vec<u64> = data(&outcome.recording).iter().map(|flow| flow.counters.read_bytes).collect();
    assert_eq!(read, [200_000; 3]);
}

#[test]
fn a_setting_changes_smoltcp() {
    let trace = |more: Rows| {
        let rows = with(&[&[("stack.implementation", "smoltcp"), ("link.loss", "1%")], more].concat());
        go(&rows).trace
    };
    let plain = trace(&[]);
    for more in [
        &[("stack.cc", "none")][..],
        &[("stack.cc", "cubic")],
        &[("stack.mtu", "600B")],
        &[("stack.timestamps", "on")],
        &[("stack.delayed_ack", "off")],
        &[("stack.delayed_ack", "2,300ms")],
        &[("app.sndbuf", "4KB")],
        &[("app.rcvbuf", "4KB")],
    ] {
        assert_ne!(trace(more), plain, "{more:?}");
    }
}

#[test]
fn a_setting_that_smoltcp_lacks_is_refused_with_the_reason() {
    let refused = |path: &str, value: &str| {
        let rows = [("stack.implementation", "smoltcp"), (path, value)];
        let errors = Case::from_triples(&triples(&rows)).expect_err(path);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    for (path, value, why) in [
        ("stack.sack", "off", "always offers SACK"),
        ("stack.profile", "linux", "a set of settings of the model"),
        ("stack.min_rto", "200ms", "a parameter of the model"),
        ("stack.cc", "vegas", "none, reno and cubic"),
        ("stack.delayed_ack", "3,40ms", "`off` or `2,<timeout>`"),
        ("app.cork", "on", "a parameter of the model"),
        ("app.linger", "1s", "no lingering close"),
        ("nic.gro", "on", "as they were sent"),
        ("nic.tso", "on", "packets that fit the MTU"),
        ("stack.cc.beta", "0.8", "controller of the model"),
    ] {
        let text = refused(path, value);
        assert!(text.contains(why) && text.contains("`stack.implementation` = `smoltcp`"), "{path}: {text}");
    }
    let errors = Case::from_triples(&triples(&[("stack.cc", "none")])).expect_err("the model");
    assert!(errors[0].to_string().contains("the model always has a controller"), "{}", errors[0]);
}

#[test]
fn with_a_linger_of_zero_smoltcp_resets_the_connection() {
    let resets = |linger| {
        let recording = go_with(
            &[
                ("receiver/stack.implementation", "smoltcp"),
                ("receiver/app.linger", linger),
                ("app.workload", "rpc"),
                ("app.reuse", "off"),
                ("app.duration", "1s"),
                ("link.delay", "1ms"),
            ],
            EVERYTHING,
        )
        .recording;
        let segments = recording.packets.iter().filter_map(|packet| packet.segment);
        segments.filter(|segment| segment.flags.has(tcpassay_wire::Flags::RST)).count()
    };
    // The server closes after its client did.
    assert_eq!(resets("off"), 0);
    assert!(resets("0s") > 5, "{}", resets("0s"));
}

#[test]
fn the_end_of_a_connection_that_gives_up_is_in_its_log() {
    let packets: Vec<String> = (20..120).map(|packet| packet.to_string()).collect();
    let outage = format!("list:{}", packets.join(","));
    let dead = &[
        ("sender/stack.implementation", "smoltcp"),
        ("app.user_timeout", "3s"),
        ("link.loss_model", outage.as_str()),
    ];
    let recording = go_with(&with(dead), EVERYTHING).recording;
    let closed: Vec<_> =
        recording.events.iter().filter(|row| row.host == 0 && row.why == "?->Closed").collect();
    assert_eq!(closed.len(), 1);
    let at = closed[0].at;
    let sent = recording.events.iter().filter(|row| row.host == 0 && row.flags.is_some() && row.at < at);
    assert!(sent.count() > 20 && at.as_nanos() > 3_000_000_000, "{:?}", closed[0]);
}

/// The segments with SYN of a recording: time in nanoseconds, sending host, whether it has an ACK, sequence number.
fn syns(recording: &Recording) -> Vec<(u64, u32, bool, u32)> {
    let own = recording.packets.iter().filter(|packet| packet.interface == packet.from);
    own.filter_map(|packet| Some((packet, packet.segment?)))
        .filter(|(_, segment)| segment.flags.has(tcpassay_wire::Flags::SYN))
        .map(|(packet, segment)| {
            let acknowledges = segment.flags.has(tcpassay_wire::Flags::ACK);
            (packet.at.as_nanos(), packet.from, acknowledges, segment.seq.get())
        })
        .collect()
}

#[test]
fn ends_that_open_at_the_same_time_have_one_connection_whose_syns_cross_and_are_answered() {
    for hosts in [
        &[("stack.implementation", "smoltcp")][..],
        &[("sender/stack.implementation", "smoltcp")],
        &[("receiver/stack.implementation", "smoltcp")],
        &[("stack.implementation", "model")],
    ] {
        let outcome = go_with(&with(&[hosts, &[("app.open", "both")]].concat()), EVERYTHING);
        assert_eq!((outcome.ended, outcome.failure), (EndReason::Finished, None), "{hosts:?}");
        assert_eq!(data(&outcome.recording)[0].counters.read_bytes, 1_000_000, "{hosts:?}");
        let seen: Vec<_> =
            syns(&outcome.recording).into_iter().map(|(at, from, ack, _)| (at, from, ack)).collect();
        assert_eq!(seen[..2], [(0, 0, false), (0, 1, false)], "{hosts:?}");
        assert!(seen[2..].iter().all(|(at, _, ack)| *at > 10_000_000 && *ack), "{hosts:?}: {seen:?}");
        assert_eq!(seen.len(), 4, "{hosts:?}: {seen:?}");
    }
}

#[test]
fn the_first_connection_of_each_host_has_the_initial_sequence_number_of_the_case_and_its_data_pass_2_to_the_32()
 {
    for implementation in ["smoltcp", "model"] {
        let rows = with(&[
            ("stack.implementation", implementation),
            ("stack.isn", "4294900000"),
            ("link.loss", "1%"),
        ]);
        let outcome = go_with(&rows, EVERYTHING);
        assert_eq!(data(&outcome.recording)[0].counters.read_bytes, 1_000_000, "{implementation}");
        let isns: Vec<u32> = syns(&outcome.recording).into_iter().map(|(_, _, _, seq)| seq).collect();
        assert_eq!(isns, [4_294_900_000; 2], "{implementation}");
        let data = outcome.recording.packets.iter().filter_map(|packet| packet.segment).filter(|s| s.len > 0);
        let (high, low): (Vec<u32>, Vec<u32>) =
            data.map(|s| s.seq.get()).partition(|seq| *seq > 4_294_900_000);
        assert!(high.len() > 40 && low.len() > 600);
        assert!(low.iter().all(|seq| *seq < 1_000_000), "{implementation}");
    }
}
