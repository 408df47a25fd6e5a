//! Runs on every topology.

use crate::{data, float, go, goodput};
use tcpassay_case::Case;
use tcpassay_sim::{SimOptions, run};
use tcpassay_units::Seed;

#[test]
fn every_pair_of_a_dumbbell_gets_through_the_bottleneck() {
    let outcome = go(&[
        ("topology", "dumbbell:4"),
        ("link.rate", "100Mbit"),
        ("link.delay", "5ms"),
        ("queue.limit", "125KB"),
        ("app.duration", "5s"),
    ]);
    assert!(goodput(&outcome.recording) > 90e6);
    assert!(data(&outcome.recording).iter().all(|f| f.counters.read_bytes > 1_000_000));
    let bottleneck = outcome.recording.header.bottleneck.unwrap() as usize;
    let queue = &outcome.recording.devices[bottleneck];
    assert_eq!(queue.name, "queue.bottleneck");
    assert!(queue.counters.drops > 0, "the bottleneck was never full");
}

#[test]
fn senders_of_a_star_meet_at_the_receiver_s_port() {
    let outcome = go(&[
        ("topology", "star:3"),
        ("link.rate", "100Mbit"),
        ("link.delay", "1ms"),
        ("app.duration", "3s"),
    ]);
    assert!(goodput(&outcome.recording) > 90e6);
    assert_eq!(data(&outcome.recording).len(), 3);
}

#[test]
fn storage_racks_send_to_worker_racks_over_the_spine() {
    let outcome = go(&[
        ("topology", "racks:2x1"),
        ("rack.hosts", "2"),
        ("rack.uplink", "150Mbit"),
        ("link.rate", "100Mbit"),
        ("link.delay", "100us"),
        ("app.duration", "2s"),
    ]);
    // Four senders, two receivers, and an uplink of the worker rack at 150 Mbit/s.
    assert_eq!(data(&outcome.recording).len(), 4);
    let rate = goodput(&outcome.recording);
    assert!((130e6..150e6).contains(&rate), "{rate}");
    let bottleneck = &outcome.recording.devices[outcome.recording.header.bottleneck.unwrap() as usize];
    assert!(bottleneck.name.starts_with("queue."), "{bottleneck:?}");
}

#[test]
fn a_topology_from_a_file_runs() {
    let file = r#"
hosts = ["a", "b", "c"]
switches = ["s", "t"]
links = [
    { from = "a", to = "s" },
    { from = "b", to = "s" },
    { from = "s", to = "t", rate = "50Mbit", delay = "5ms" },
    { from = "t", to = "c" },
]
flows = [{ from = "a", to = "c" }, { from = "c", to = "b" }]
"#;
    let rows = crate::triples(&[
        ("topology", "file:x.toml"),
        ("link.rate", "100Mbit"),
        ("queue.limit", "100KB"),
        ("app.duration", "10s"),
    ]);
    let case = Case::with_files(&rows, &|_| Ok(file.to_owned())).expect("a topology");
    let outcome = run(&case, Seed(1), &SimOptions::default());
    // One flow each way over the middle link, each with all of it but the other's ACKs.
    for flow in data(&outcome.recording) {
        let rate = float(flow.counters.read_bytes) * 8.0 / 10.0;
        assert!((30e6..50e6).contains(&rate), "{rate}");
    }
}

#[test]
fn two_output_buffers_served_in_turn_share_25_25_50_whatever_the_controller() {
    for controller in ["cubic", "dctcp"] {
        let mut rows = vec![
            ("topology", "star:3"),
            ("link.rate", "1Gbit"),
            ("link.delay", "50us"),
            ("switch.buffers", "dual:300KB"),
            ("stack.profile", "linux"),
            ("stack.cc", controller),
            ("app.flows", "4"),
            ("app.duration", "2s"),
        ];
        if controller == "dctcp" {
            rows.extend([("stack.ecn", "dctcp"), ("queue.ecn_mark", "data")]);
        }
        let outcome = go(&rows);
        let total: u64 = data(&outcome.recording).iter().map(|f| f.counters.read_bytes).sum();
        let mut shares: Vec<f64> = (1..=3)
            .map(|host| {
                let sent = data(&outcome.recording).into_iter().filter(|f| f.from == host);
                float(sent.map(|f| f.counters.read_bytes).sum()) / float(total)
            })
            .collect();
        shares.sort_by(f64::total_cmp);
        for (share, expected) in shares.iter().zip([0.25, 0.25, 0.5]) {
            assert!((share - expected).abs() < 0.05, "{controller}: {shares:?}");
        }
    }
}

#[test]
fn ports_that_share_a_buffer_take_from_one_another() {
    // Incast to one port may use most of a shared buffer, more than a port's even part.
    let peak = |buffers| {
        let outcome = go(&[
            ("topology", "star:8"),
            ("link.rate", "1Gbit"),
            ("switch.buffers", buffers),
            ("app.workload", "incast"),
            ("app.request", "100B"),
            ("app.response", "100KB"),
            ("app.duration", "5s"),
        ]);
        assert!(!outcome.recording.completions.is_empty(), "rounds completed");
        outcome.recording.devices.iter().map(|d| d.counters.drops).sum::<u64>()
    };
    assert!(peak("shared:50KB") > peak("shared:2MB"));
}

#[test]
fn hosts_that_mark_their_own_queues_keep_them_as_short_as_switches_do() {
    // One sender to one receiver over a switch: only the sender's own link is full.
    let longest = |threshold| {
        let outcome = go(&[
            ("topology", "star:1"),
            ("link.rate", "1Gbit"),
            ("link.delay", "10us"),
            ("stack.profile", "linux"),
            ("stack.cc", "dctcp"),
            ("stack.ecn", "dctcp"),
            // Linux's limit would keep the queue short without marks.
            ("stack.small_queues", "off"),
            ("nic.ecn_threshold", threshold),
            ("app.duration", "200ms"),
        ]);
        let queue = outcome.recording.devices.iter().find(|d| d.counters.max_backlog_bytes > 10_000);
        let marked = data(&outcome.recording)[0].counters.ce_packets;
        (queue.map_or(0, |d| d.counters.max_backlog_bytes), marked, goodput(&outcome.recording))
    };
    let (short, marked, fast) = longest("30KB");
    let (long, unmarked, _) = longest("off");
    assert!(marked > 100 && unmarked == 0, "{marked} {unmarked}");
    assert!(short < 100_000 && long > 1_000_000, "{short} {long}");
    assert!(fast > 0.9e9, "{fast}");
}
