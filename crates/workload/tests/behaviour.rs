//! The behaviour of each workload in time, over pipes with a delay of 1 ms. The handshake takes 2 ms.

mod net;

use net::{DELAY, Ran, run, run_breaking, run_with};
use proptest::prelude::*;
use tcpassay_units::{Bytes, Dur, Seed, Time};
use tcpassay_workload::{
    AppCompletion, AppCompletionKind, HostIndex, HostPair, TrafficSchedule, WorkloadSpec,
};

const PAIR: [HostPair; 1] = [HostPair { sender: HostIndex(0), receiver: HostIndex(1) }];

fn spec(rows: &[(&str, &str)]) -> WorkloadSpec {
    WorkloadSpec::read(rows.iter().copied(), &|path| Err(format!("{path}: no such file")))
        .expect("a valid spec")
}

fn pair(rows: &[(&str, &str)], end: Time) -> Ran {
    run(TrafficSchedule::new(&spec(rows), &PAIR, Seed(1)), 2, 100_000, end)
}

const fn ms(n: u64) -> Time {
    Time::from_nanos(n * 1_000_000)
}

fn times(done: &[AppCompletion]) -> Vec<(u64, u64)> {
    done.iter().map(|c| (c.start.as_nanos() / 1_000_000, c.end.as_nanos() / 1_000_000)).collect()
}

#[test]
fn a_bulk_flow_with_a_size_ends_when_the_peer_s_fin_answers_ours() {
    let ran = pair(&[("app.flow_size", "50KB")], ms(1000));
    // Connected at 2 ms, all data and the FIN arrive at 3 ms, the peer's FIN at 4 ms.
    assert_eq!(times(&ran.done), [(0, 4)]);
    assert_eq!(ran.done[0].request, Bytes::new(50_000));
    assert_eq!(ran.net.passed(ran.done[0].key).read, [50_000, 0]);
    assert!(ran.done[0].ok && ran.idle);
}

#[test]
fn an_endless_flow_fills_the_buffer_until_its_duration_is_over() {
    let ran = pair(&[("app.duration", "10ms"), ("app.start", "5ms")], ms(1000));
    // 100 KB at 7, 8, ... 15 ms: begun 5 ms, stopped at 15 ms before that write.
    assert_eq!(ran.net.writes.len(), 8);
    assert!(ran.net.writes.iter().all(|(_, _, n)| *n == 100_000));
    assert_eq!(times(&ran.done), [(5, 17)]);
    assert_eq!(ran.done[0].request, Bytes::new(800_000));
    assert!(ran.idle);
}

#[test]
fn bulk_flows_with_a_size_and_a_duration_follow_each_other() {
    let ran = pair(&[("app.flow_size", "10KB"), ("app.duration", "10ms"), ("app.think", "1ms")], ms(1000));
    assert_eq!(times(&ran.done), [(0, 4), (5, 9)]);
    assert!(ran.idle);
}

#[test]
fn poisson_flows_arrive_at_their_rate_whatever_has_completed() {
    let rows = [("app.flow_size", "10KB"), ("app.arrival", "poisson:1000/s"), ("app.duration", "2s")];
    let ran = pair(&rows, ms(3000));
    assert!((1850..2150).contains(&ran.done.len()), "{}", ran.done.len());
    assert!(ran.idle);
}

#[test]
fn bursts_of_flows_begin_together_every_gap() {
    let rows = [
        ("app.flow_size", "10KB"),
        ("app.arrival", "burst:3"),
        ("app.gap", "20ms"),
        ("app.duration", "50ms"),
    ];
    let ran = pair(&rows, ms(1000));
    let opened: Vec<u64> = ran.net.opened.iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect();
    assert_eq!(opened, [0, 0, 0, 20, 20, 20, 40, 40, 40]);
}

#[test]
fn a_closed_loop_issues_the_next_request_when_the_answer_is_complete_and_thought_over() {
    let rows = [("app.workload", "rpc"), ("app.think", "3ms"), ("app.duration", "12ms")];
    let ran = pair(&rows, ms(1000));
    // The first waits for the handshake; each takes a round trip of 2 ms, then 3 ms pass.
    assert_eq!(times(&ran.done), [(0, 4), (7, 9)]);
    assert!(ran.done.iter().all(|c| c.kind == AppCompletionKind::Rpc && c.ok));
    assert_eq!((ran.done[0].request, ran.done[0].response), (Bytes::new(10_000), Bytes::new(100)));
    assert!(ran.idle);
}

#[test]
fn concurrency_keeps_that_many_requests_outstanding_on_each_connection() {
    let rows =
        [("app.workload", "rpc"), ("app.concurrency", "3"), ("app.flows", "2"), ("app.duration", "5ms")];
    let ran = pair(&rows, ms(1000));
    // Two connections with three each: answered at 4 ms, and again at 6 ms.
    assert_eq!(times(&ran.done), [[(0, 4); 6], [(4, 6); 6]].concat());
}

#[test]
fn open_loop_requests_are_timed_from_their_arrival_and_wait_for_the_ones_before() {
    let rows = [
        ("app.workload", "rpc-open"),
        ("app.arrival", "uniform:1000/s"),
        ("app.duration", "3500us"),
        ("app.request", "150KB"),
    ];
    let ran = pair(&rows, ms(1000));
    // 100 KB fit into the pipe: 1.5 ms a request. Arrivals at 0, 1, 2, 3 ms; the pipe opens at 2 ms and
    // takes 100 KB a millisecond, so that the bytes are complete there at 4, 5, 7, 8 ms, back 1 ms later.
    assert_eq!(times(&ran.done), [(0, 5), (1, 6), (2, 8), (3, 9)]);
    assert!(ran.idle);
}

#[test]
fn on_off_pauses_after_the_socket_has_accepted_the_burst() {
    let rows =
        [("app.workload", "onoff"), ("app.burst", "150KB"), ("app.gap", "10ms"), ("app.duration", "30ms")];
    let ran = pair(&rows, ms(1000));
    let writes: Vec<(u64, u64)> =
        ran.net.writes.iter().map(|(t, _, n)| (t.as_nanos() / 1_000_000, *n)).collect();
    assert_eq!(writes, [(2, 100_000), (3, 50_000), (13, 100_000), (14, 50_000), (24, 100_000), (25, 50_000)]);
}

#[test]
fn a_paced_source_writes_a_burst_at_each_tick_of_its_rate() {
    let rows =
        [("app.workload", "paced"), ("app.rate", "8Mbit"), ("app.burst", "5KB"), ("app.duration", "16ms")];
    let ran = pair(&rows, ms(1000));
    // 5 KB at 8 Mbit/s every 5 ms from the start; the first waits for the connection.
    let writes: Vec<(u64, u64)> =
        ran.net.writes.iter().map(|(t, _, n)| (t.as_nanos() / 1_000_000, *n)).collect();
    assert_eq!(writes, [(2, 5_000), (5, 5_000), (10, 5_000), (15, 5_000)]);
}

#[test]
fn incast_requests_from_all_servers_at_once_and_waits_for_all_answers_before_the_next_round() {
    let pairs: Vec<HostPair> =
        (1..4).map(|n| HostPair { sender: HostIndex(n), receiver: HostIndex(0) }).collect();
    let rows = [
        ("app.workload", "incast"),
        ("app.request", "100B"),
        ("app.response", "20KB"),
        ("app.think", "1ms"),
        ("app.duration", "6ms"),
    ];
    let ran = run(TrafficSchedule::new(&spec(&rows), &pairs, Seed(1)), 4, 100_000, ms(1000));
    let rounds: Vec<AppCompletion> =
        ran.done.iter().filter(|c| c.kind == AppCompletionKind::Round).copied().collect();
    assert_eq!(times(&rounds), [(0, 4), (5, 7)]);
    assert_eq!((rounds[0].request, rounds[0].response), (Bytes::new(300), Bytes::new(60_000)));
    assert_eq!(ran.done.len(), 2 + 6);
    assert!(
        ran.net.opened.iter().all(|(_, key)| key.client == HostIndex(0)),
        "the receiver sends the requests"
    );
    assert!(ran.idle);
}

#[test]
fn a_mix_runs_its_members_side_by_side_under_their_own_classes() {
    let spec = spec(&[
        ("app.workload", "mix"),
        ("app.duration", "9ms"),
        ("app.mix", "rpc request=10KB + rpc request=100KB"),
    ]);
    let traffic = TrafficSchedule::new(&spec, &PAIR, Seed(1));
    assert_eq!(traffic.parts()[1].class, "rpc 100KB/100B");
    let ran = run(traffic, 2, 100_000, ms(1000));
    let count = |part| ran.done.iter().filter(|c| c.key.part == part).count();
    assert_eq!((count(0), count(1)), (4, 4));
}

#[test]
fn a_slow_reader_takes_its_rate_and_no_more() {
    let rows = [("app.duration", "100ms"), ("app.read_rate", "80Mbit"), ("app.read_size", "10KB")];
    let ran = pair(&rows, ms(50));
    // 10 KB a millisecond from 3 ms to 50 ms: 48 reads.
    let read: u64 = ran.net.reads.iter().map(|(_, _, n)| n).sum();
    assert_eq!(read, 480_000);
}

#[test]
fn write_calls_are_no_larger_than_write_size() {
    let ran = pair(&[("app.flow_size", "50KB"), ("app.write_size", "20KB")], ms(100));
    let sizes: Vec<u64> = ran.net.writes.iter().map(|(_, _, n)| *n).collect();
    assert_eq!(sizes, [20_000, 20_000, 10_000]);
}

#[test]
fn transfers_of_a_connection_that_fails_are_recorded_as_not_completed_and_others_continue() {
    let rows =
        [("app.workload", "rpc"), ("app.concurrency", "2"), ("app.flows", "2"), ("app.duration", "9ms")];
    let traffic = TrafficSchedule::new(&spec(&rows), &PAIR, Seed(1));
    let ran = run_breaking(traffic, 2, 100_000, DELAY, ms(1000), Some((ms(5), 0)));
    let of = |index| ran.done.iter().filter(move |c| c.key.index == index);
    let brief: Vec<(u64, u64, bool)> =
        of(0).map(|c| (c.start.as_nanos() / 1_000_000, c.end.as_nanos() / 1_000_000, c.ok)).collect();
    assert_eq!(brief, [(0, 4, true), (0, 4, true), (4, 5, false), (4, 5, false)]);
    assert_eq!(of(1).filter(|c| c.ok).count(), 8, "answered at 4, 6, 8 and 10 ms");
    assert!(ran.idle);
}

#[test]
fn an_incast_round_that_loses_a_server_fails_and_the_next_round_uses_the_others() {
    let pairs: Vec<HostPair> =
        (1..4).map(|n| HostPair { sender: HostIndex(n), receiver: HostIndex(0) }).collect();
    let rows = [("app.workload", "incast"), ("app.request", "100B"), ("app.duration", "7ms")];
    let traffic = TrafficSchedule::new(&spec(&rows), &pairs, Seed(1));
    let ran = run_breaking(traffic, 4, 100_000, DELAY, ms(1000), Some((ms(5), 1)));
    let rounds: Vec<(u64, bool)> = ran
        .done
        .iter()
        .filter(|c| c.kind == AppCompletionKind::Round)
        .map(|c| (c.request.get(), c.ok))
        .collect();
    assert_eq!(rounds, [(300, true), (300, false), (200, true)]);
    assert!(ran.idle);
}

#[test]
fn the_think_timer_of_a_failed_connection_does_not_apply_to_the_connection_that_reuses_its_slot() {
    // Slot 0 thinks until 54 ms; it fails at 5 ms, and flows of the other part take its slot before that.
    let spec = spec(&[
        ("app.workload", "mix"),
        ("app.duration", "100ms"),
        ("app.mix", "rpc think=50ms + bulk flow_size=1KB arrival=uniform:100/s"),
    ]);
    let traffic = TrafficSchedule::new(&spec, &PAIR, Seed(1));
    let ran = run_breaking(traffic, 2, 100_000, DELAY, ms(1000), Some((ms(5), 0)));
    let rpcs = ran.done.iter().filter(|c| c.kind == AppCompletionKind::Rpc).count();
    let flows = ran.done.iter().filter(|c| c.kind == AppCompletionKind::Flow && c.ok).count();
    assert_eq!((rpcs, flows), (1, 10));
    assert!(ran.idle);
}

#[test]
fn arrivals_of_an_open_loop_do_not_move_when_the_network_is_slower() {
    let rows = [
        ("app.workload", "rpc-open"),
        ("app.arrival", "poisson:500/s"),
        ("app.request", "exp:20KB"),
        ("app.duration", "200ms"),
    ];
    let starts = |delay| {
        let traffic = TrafficSchedule::new(&spec(&rows), &PAIR, Seed(3));
        let ran = run_with(traffic, 2, 100_000, delay, ms(60_000));
        assert!(ran.idle);
        let mut starts: Vec<(Time, Bytes)> = ran.done.iter().map(|c| (c.start, c.request)).collect();
        starts.sort_unstable();
        starts
    };
    let fast = starts(Dur::from_micros(10));
    assert!(fast.len() > 50);
    assert_eq!(fast, starts(Dur::from_millis(70)));
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let run = |seed| {
        let rows = [("app.flow_size", "websearch"), ("app.arrival", "poisson:100/s"), ("app.duration", "1s")];
        run(TrafficSchedule::new(&spec(&rows), &PAIR, Seed(seed)), 2, 100_000, ms(5000)).done
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_byte_that_is_asked_for_is_written_once_and_read_once(
        seed: u64,
        buffer in 1u64..200_000,
        workload in prop::sample::select(vec!["rpc", "rpc-open", "incast", "bulk", "onoff", "paced"]),
        size in prop::sample::select(vec!["3KB", "exp:5KB", "choice:1B@1,20KB@1"]),
        flows in prop::sample::select(vec!["1", "3"]),
        write in prop::sample::select(vec!["auto", "7B", "1460B"]),
    ) {
        // The smallest buffers would need a million round trips.
        let buffer = if workload == "bulk" { buffer.max(1000) } else { buffer.max(100) };
        let mut rows = vec![
            ("app.workload", workload), ("app.request", size), ("app.response", size), ("app.burst", size),
            ("app.rate", "1Mbit"), ("app.flows", flows), ("app.write_size", write), ("app.duration", "20ms"),
        ];
        if workload == "rpc-open" {
            rows.push(("app.arrival", "poisson:300/s"));
        }
        if workload == "bulk" {
            rows.push(("app.flow_size", size));
        }
        let ran = run(TrafficSchedule::new(&spec(&rows), &PAIR, Seed(seed)), 2, buffer, ms(1_000_000));
        prop_assert!(ran.idle, "every application ends");
        let mut keys: Vec<_> = ran.net.opened.iter().map(|(_, key)| *key).collect();
        keys.dedup();
        for key in keys {
            let passed = ran.net.passed(key);
            prop_assert_eq!(passed.written, passed.read);
            let of_key = ran.done.iter().filter(|c| c.key == key && c.kind != AppCompletionKind::Round);
            let asked = of_key.fold([0, 0], |sum, c| {
                assert!(c.ok && c.end >= c.start);
                [sum[0] + c.request.get(), sum[1] + c.response.get()]
            });
            prop_assert_eq!(passed.written, asked);
        }
    }
}

#[test]
fn an_echo_returns_the_bytes_of_a_request_and_the_next_request_follows_it() {
    let rows =
        [("app.workload", "echo"), ("app.request", "1KB"), ("app.think", "3ms"), ("app.duration", "10ms")];
    let ran = pair(&rows, ms(1000));
    // Sent when the connection is there at 2 ms, back at 4 ms; then a pause of 3 ms.
    assert_eq!(times(&ran.done), [(0, 4), (7, 9)]);
    assert_eq!((ran.done[0].request, ran.done[0].response), (Bytes::new(1000), Bytes::new(1000)));
    assert!(ran.done.iter().all(|done| done.ok) && ran.idle);
}

#[test]
fn ends_that_write_before_they_read_finish_if_their_buffers_hold_the_messages_and_wait_for_ever_otherwise() {
    let exchange = |bytes: &str| {
        let rows = [
            ("app.workload", "exchange"),
            ("app.request", bytes),
            ("app.response", bytes),
            ("app.duration", "10ms"),
        ];
        let schedule = TrafficSchedule::new(&spec(&rows), &PAIR, Seed(1));
        run(schedule, 2, 100_000, ms(1000))
    };
    let short = exchange("50KB");
    assert!(!short.done.is_empty() && short.done.iter().all(|done| done.ok) && short.idle);
    let long = exchange("1MB");
    assert!(long.done.is_empty() && !long.idle, "{:?}", times(&long.done));
}

#[test]
fn a_half_closed_connection_still_carries_the_response() {
    let rows = [
        ("app.workload", "rpc"),
        ("app.request", "1KB"),
        ("app.response", "500KB"),
        ("app.reuse", "off"),
        ("app.half_close", "on"),
        ("app.duration", "20ms"),
    ];
    let ran = pair(&rows, ms(1000));
    assert!(ran.done.len() > 1 && ran.idle, "{:?}", times(&ran.done));
    assert!(ran.done.iter().all(|done| done.ok && done.response == Bytes::new(500_000)));
}

#[test]
fn a_host_that_reboots_loses_what_it_had_and_opens_its_connections_again_from_their_ports() {
    let rows = [
        ("app.workload", "rpc"),
        ("app.flows", "2"),
        ("app.concurrency", "3"),
        ("app.request", "1KB"),
        ("app.response", "1KB"),
        ("app.reboot", "11ms:7ms"),
        ("app.duration", "30ms"),
    ];
    let ran = pair(&rows, ms(1000));
    let opened: Vec<(u64, u32)> =
        ran.net.opened.iter().map(|(at, key)| (at.as_nanos() / 1_000_000, key.index)).collect();
    assert_eq!(opened, [(0, 0), (0, 1), (18, 2), (18, 3)]);
    assert_eq!(ran.net.replaced, [(2, 0), (3, 1)]);
    // Six requests were outstanding; none failed later.
    let lost: Vec<u64> = ran.done.iter().filter(|done| !done.ok).map(|done| done.end.as_nanos()).collect();
    assert_eq!(lost, [11_000_000; 6]);
    assert!(ran.done.iter().any(|done| done.ok && done.end > ms(18)));
}

#[test]
fn a_short_message_passes_a_long_one_on_its_connection_only_while_the_buffer_has_not_taken_the_long_one() {
    let shortest = |order: &str, buffer: u64| {
        let rows = [
            ("app.workload", "streams"),
            ("app.concurrency", "2"),
            ("app.request", "choice:16KB@1,2MB@1"),
            ("app.response", "10B"),
            ("app.order", order),
            ("app.duration", "200ms"),
        ];
        let schedule = TrafficSchedule::new(&spec(&rows), &PAIR, Seed(1));
        let ran = run(schedule, 2, buffer, ms(5000));
        assert!(
            ran.done.len() > 10 && ran.idle && ran.done.iter().all(|done| done.ok),
            "{:?}",
            times(&ran.done)
        );
        let short = ran.done.iter().filter(|done| done.request.get() == 16_384);
        let worst =
            short.map(|done| done.end.since(done.start).as_millis()).max().expect("there are short messages");
        // Each frame is answered.
        let frames = ran.done.iter().map(|done| done.request.get() / 16_384).sum::<u64>();
        let [sent, answered] = ran.net.passed(ran.done[0].key).written;
        assert_eq!((sent, answered), (frames * 16_384, frames * 10));
        worst
    };
    let (first, priority) = (shortest("fifo", 100_000), shortest("shortest", 100_000));
    assert!(priority < first, "{priority} {first}");
    // What the buffer has taken cannot be passed.
    assert_eq!(shortest("shortest", 100_000_000), shortest("fifo", 100_000_000));
}
