//! Paths with a small MTU and with middleboxes, as whole cases.

use crate::{Rows, go_with};
use std::collections::BTreeSet;
use tcpassay_measure::{CollectOptions, EventKind, Recording};
use tcpassay_units::{Dur, Time};

const LINUX: Rows =
    &[("stack.profile", "linux"), ("link.rate", "50Mbit"), ("link.delay", "10ms"), ("app.duration", "2s")];

fn run(more: Rows) -> Recording {
    let rows: Vec<_> = LINUX.iter().chain(more).copied().collect();
    go_with(&rows, CollectOptions::default()).recording
}

fn dropped(recording: &Recording, entity: &str, reason: &str) -> u64 {
    let counters = recording.counters.get(entity);
    counters.and_then(|counters| counters.get(&format!("drops.{reason}"))).copied().unwrap_or(0)
}

#[test]
fn icmp_tells_the_path_mtu_and_the_host_remembers_it_for_later_connections() {
    let flows = [
        ("link.mtu", "1400B"),
        ("app.flow_size", "30KB"),
        ("app.arrival", "uniform:5/s"),
        ("app.duration", "2s"),
    ];
    let recording = run(&flows);
    // The initial window of the first connection: 10 segments.
    assert_eq!(dropped(&recording, "mtu.bottleneck", "too-long"), 10);
    let sent: Vec<_> = recording.flows.iter().filter(|flow| flow.counters.read_bytes == 30_000).collect();
    assert!(sent.len() > 5, "{}", sent.len());
    // The MTU less 40 bytes of headers and 12 of timestamps.
    assert!(sent.iter().all(|flow| flow.mss.get() == 1348));
    assert_eq!(sent.iter().map(|flow| flow.tcp.timeouts.unwrap()).sum::<u64>(), 0);
}

#[test]
fn without_icmp_only_the_search_finds_the_path_mtu() {
    let hole: Rows = &[("link.mtu", "1400B"), ("link.icmp", "off"), ("app.duration", "9s")];
    let probing: Vec<_> = hole.iter().chain(&[("stack.mtu_probing", "black-hole")]).copied().collect();
    assert_eq!(run(hole).flows[0].counters.read_bytes, 0);
    let found = run(&probing);
    assert!(found.flows[0].counters.read_bytes > 1_000_000);
    // The search stops less than 8 bytes below the limit (`tcp_probe_threshold`).
    assert!((1341..=1348).contains(&found.flows[0].mss.get()), "{}", found.flows[0].mss);
}

#[test]
fn shifted_sequence_numbers_are_no_obstacle_until_sack_blocks_matter() {
    let clean = run(&[("link.rewrite", "sequence"), ("app.rcvbuf", "100KB")]);
    let plain = run(&[("app.rcvbuf", "100KB")]);
    assert_eq!(clean.flows[0].counters.read_bytes, plain.flows[0].counters.read_bytes);
    let timeouts =
        |rewrite| run(&[("link.rewrite", rewrite), ("link.loss", "1%")]).flows[0].tcp.timeouts.unwrap();
    assert!(timeouts("sequence") > timeouts("none"));
}

#[test]
fn a_removed_option_is_not_used_by_either_end() {
    let most = |rewrite| {
        let recording = run(&[("link.rewrite", rewrite), ("link.delay", "50ms")]);
        recording.flows[0].counters.read_bytes
    };
    // Windows of at most 65,535 bytes: fewer than 20 of them in 2 s with round trips of 100 ms.
    assert!(most("no-window-scale") < 20 * 65_535);
    assert!(most("none") > 2 * most("no-window-scale"));
}

/// Flags of the segments that leave both ends from `from` on.
fn flags(recording: &Recording, from: Time, n: usize) -> Vec<String> {
    let sent = recording.packets.iter().filter(|packet| packet.at >= from && packet.interface == packet.from);
    sent.take(n).map(|packet| format!("{} {}", packet.from, packet.segment.expect("whole").flags)).collect()
}

const REBOOT: Rows = &[
    ("link.rate", "50Mbit"),
    ("link.delay", "10ms"),
    ("app.workload", "rpc"),
    ("app.think", "300ms"),
    ("app.nodelay", "on"),
    ("app.reboot", "250ms"),
    ("app.duration", "3s"),
];

/// A case of which the client's host stops while the connection is quiet.
fn reboot(more: Rows) -> Recording {
    let rows: Vec<_> = REBOOT.iter().chain(more).copied().collect();
    let collect = CollectOptions { events: true, packets: true, ..CollectOptions::default() };
    go_with(&rows, collect).recording
}

#[test]
fn a_host_that_is_back_resets_the_half_open_connection_of_its_peer_and_opens_another_one_from_its_port() {
    let stopped = Time::ZERO + Dur::from_millis(250);
    let recording = reboot(&[]);
    // RFC 9293 section 3.5.1, figure 9: the ACK of the old connection answers the SYN, and the client resets it.
    assert_eq!(flags(&recording, stopped, 6), ["0 S", "1 .", "0 R", "0 S", "1 S.", "0 ."]);
    let reset = recording.events.iter().find(|row| row.host == 1 && row.why == "aborted: reset by peer");
    assert_eq!(reset.expect("a reset").flow, Some(1));
    is_of_two_connections_from_one_port(&recording);
}

/// Each connection has its own flows; both carried requests.
fn is_of_two_connections_from_one_port(recording: &Recording) {
    let ports: BTreeSet<_> = recording.packets.iter().filter(|p| p.from == 0).map(|p| p.from_port).collect();
    assert_eq!((ports.len(), recording.flows.len()), (1, 4));
    assert!([0, 2].iter().all(|flow| recording.flows[*flow].counters.read_bytes >= 10_000));
}

#[test]
fn another_tcp_whose_data_are_reset_accepts_the_connection_that_replaces_its_own() {
    // A SYN that meets its open connection is not answered by smoltcp; its data are.
    let rows: Rows = &[
        ("receiver/stack.implementation", "smoltcp"),
        ("link.rate", "10Mbit"),
        ("app.response", "1MB"),
        ("app.reboot", "330ms"),
    ];
    let recording = reboot(rows);
    let said = flags(&recording, Time::ZERO + Dur::from_millis(330), 2000);
    assert!(said.iter().any(|one| one == "0 R") && said.iter().any(|one| one == "1 S."), "{said:?}");
    is_of_two_connections_from_one_port(&recording);
    let damaged = recording.events.iter().filter(|row| row.kind == EventKind::Damaged).count();
    assert_eq!(damaged, 0);
}

#[test]
fn a_host_that_is_down_answers_nothing() {
    let recording = reboot(&[("link.rate", "10Mbit"), ("app.reboot", "330ms:1s"), ("app.response", "1MB")]);
    let (stopped, back) = (Time::ZERO + Dur::from_millis(330), Time::ZERO + Dur::from_millis(1330));
    let while_down =
        recording.packets.iter().filter(|p| p.at > stopped && p.at < back && p.interface == p.from);
    let mut senders: Vec<_> = while_down.map(|p| p.from).collect();
    senders.dedup();
    // The response was in flight: the server repeats it, and hears neither ACK nor RST.
    assert_eq!(senders, [1]);
    assert!(recording.flows[1].tcp.timeouts.unwrap() >= 1);
}

#[test]
fn a_router_that_merges_packets_and_forwards_them_whole_loses_them_and_one_that_segments_them_does_not() {
    let goodput = |offload| {
        let recording = run(&[("link.offload", offload)]);
        (recording.flows[0].counters.read_bytes, dropped(&recording, "mtu.bottleneck", "too-long"))
    };
    let (plain, segmented, whole) = (goodput("off"), goodput("gro:500us"), goodput("lro:500us"));
    assert_eq!((plain.1, segmented.1), (0, 0));
    assert!(segmented.0 * 10 > plain.0 * 9, "{} of {}", segmented.0, plain.0);
    // What arrives alone passes: after a timeout one segment.
    assert!(whole.1 > 5 && whole.0 * 100 < plain.0, "{whole:?} {plain:?}");
}

#[test]
fn small_packets_fill_a_receive_buffer_that_counts_a_page_for_each() {
    let last = |buffer| {
        let rows = [
            ("nic.rx_buffer", buffer),
            ("app.nodelay", "on"),
            ("app.workload", "paced"),
            ("app.rate", "10Mbit"),
            ("app.burst", "500B"),
            ("app.read_rate", "5Mbit"),
            ("app.rcvbuf", "4MB"),
        ];
        let rows: Vec<_> = LINUX.iter().chain(&rows).copied().collect();
        let recording =
            go_with(&rows, CollectOptions { events: true, ..CollectOptions::default() }).recording;
        let sent = recording.events.iter().filter(|row| row.host == 1 && row.kind == EventKind::Out);
        sent.filter_map(|row| row.window).next_back().expect("the receiver answers")
    };
    // In 2 s 1.25 MB arrive that are not read: 2500 packets.
    assert!(last("auto") > last("4KB"), "{} {}", last("auto"), last("4KB"));
}
