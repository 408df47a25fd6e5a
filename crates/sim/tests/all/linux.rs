//! Buffers and duplicate ACKs of the profile `linux`, compared with Linux 6.1 (measured on the substrate
//! `kernel`).

use crate::{Rows, data, float, go, go_with, goodput, ms};
use tcpassay_measure::{PacketRecord, Recording};
use tcpassay_sim::CollectOptions;
use tcpassay_units::Time;

const PATH: Rows = &[
    ("stack.profile", "linux"),
    ("stack.cc", "cubic"),
    ("link.rate", "50Mbit"),
    ("link.delay", "10ms"),
    ("queue.limit", "250KB"),
    ("app.duration", "2s"),
];

fn with(rows: Rows) -> f64 {
    let all: Vec<_> =
        PATH.iter().filter(|(path, _)| rows.iter().all(|(p, _)| p != path)).chain(rows).copied().collect();
    goodput(&go(&all).recording)
}

#[test]
fn the_window_grows_with_jumbo_frames_as_with_others() {
    // tcp_rcv_space_adjust compares with the window that was announced, not with ten segments.
    for mtu in ["1500B", "4000B", "9000B", "9216B"] {
        let rate = with(&[
            ("stack.mtu", mtu),
            ("nic.tso", "on"),
            ("nic.gro", "on"),
            ("link.rate", "10Gbit"),
            ("link.delay", "50us"),
            ("queue.limit", "1MB"),
            ("app.duration", "50ms"),
        ]);
        assert!(rate > 8.5e9, "{mtu}: {rate}");
    }
}

#[test]
fn half_of_a_bounded_receive_buffer_is_window() {
    // 32,000 B in 20 ms and the time of a few packets: 12.8 Mbit/s at most. Linux 6.1: 11.5.
    let rate = with(&[("app.rcvbuf", "64KB"), ("nic.tso", "on")]);
    assert!((10.5e6..12.8e6).contains(&rate), "{rate}");
}

#[test]
fn a_bounded_send_buffer_holds_768_bytes_more_for_each_segment() {
    // 200,000 B are 91 segments of 1448 B, which refill when a third has gone. Linux 6.1: 34.4 Mbit/s.
    let rate = with(&[("app.sndbuf", "200KB")]);
    assert!((33e6..36e6).contains(&rate), "{rate}");
}

#[test]
fn a_super_segment_costs_a_send_buffer_one_overhead() {
    // The same buffer with segmentation offload fills the link. Linux 6.1: 46.5 Mbit/s.
    let rate = with(&[("app.sndbuf", "200KB"), ("nic.tso", "on")]);
    assert!((44e6..48.3e6).contains(&rate), "{rate}");
}

#[test]
fn the_send_buffer_grows_with_each_segment_that_is_sent() {
    // What a writer has stored when slow start ends limits Reno without SACK in its long recovery. Linux 6.1: 57.1 Mbit/s.
    let rate = with(&[
        ("stack.cc", "reno"),
        ("stack.sack", "off"),
        ("link.rate", "100Mbit"),
        ("queue.limit", "60KB"),
        ("app.duration", "10s"),
    ]);
    assert!((56.5e6..57.7e6).contains(&rate), "{rate}");
}

#[test]
fn autotuning_that_is_off_leaves_the_first_window() {
    // tcp_moderate_rcvbuf = 0: 65,536 B less a segment in 20 ms.
    let rate = with(&[("stack.rcv_autotune", "off"), ("nic.tso", "on")]);
    assert!((22e6..26.3e6).contains(&rate), "{rate}");
}

#[test]
fn duplicate_acks_beyond_the_third_are_merged_for_a_millisecond() {
    // One loss in a window of some 300 packets, which pass in 72 ms: without merging each is acknowledged. Merged, one ACK stands for
    // the packets of 1.1 ms.
    let acks = |profile| {
        let outcome = go(&[
            ("stack.profile", profile),
            ("link.rate", "50Mbit"),
            ("link.delay", "40ms"),
            ("queue.limit", "1MB"),
            ("link.loss_model", "list:400"),
            ("app.flow_size", "1200KB"),
            ("app.duration", "5s"),
        ]);
        let sent: u64 = outcome.recording.flows.iter().map(|flow| flow.counters.acks_sent).sum();
        let data: u64 = outcome.recording.flows.iter().map(|flow| flow.counters.sent_packets).sum();
        assert!(data > 800, "{data} packets of data");
        float(sent) / float(data)
    };
    let (merged, each) = (acks("linux"), acks("linux-4.6"));
    assert!(merged + 0.1 < each, "{merged} and {each} ACKs for a packet");
}

#[test]
fn datagrams_beside_connections_pass_a_fair_queue() {
    let rate = with(&[("queue.kind", "fq"), ("app.background", "udp:5Mbit")]);
    assert!((38e6..45e6).contains(&rate), "{rate}");
}

#[test]
fn what_a_slow_reader_reads_in_a_round_trip_counts_by_the_first_buffer_of_each_call() {
    // tcp_rcv_space_adjust. Linux 6.1 delivers 19.25 Mbit/s to a reader of 4 Mbit/s in the first 300 ms: the rest fills the buffer.
    let outcome = go(&[
        ("stack.profile", "linux"),
        ("stack.cc", "cubic"),
        ("stack.mss", "1000B"),
        ("stack.timestamps", "off"),
        ("app.read_rate", "4Mbit"),
        ("link.rate", "2Gbit"),
        ("link.delay", "1ms"),
        ("queue.limit", "500KB"),
        ("app.duration", "300ms"),
    ]);
    let rate = float(data(&outcome.recording)[0].counters.delivered_wire_bytes) * 8.0 / 0.3;
    assert!((18.5e6..20e6).contains(&rate), "{rate}");
}

fn captured(rows: Rows) -> Recording {
    go_with(rows, CollectOptions { packets: true, ..CollectOptions::default() }).recording
}

/// Time and payload of the segments with data that leave the first sender.
fn departures(rows: Rows) -> Vec<(Time, u32)> {
    let recording = captured(rows);
    let name = |p: &PacketRecord| &recording.interfaces[p.interface as usize].name;
    let sent = recording.packets.iter().filter(|p| p.from == 0 && name(p) == "sender");
    sent.filter_map(|p| Some((p.at, p.segment?.len))).filter(|(_, len)| *len > 0).collect()
}

#[test]
fn a_partial_segment_waits_while_packets_wait_for_the_line_of_the_host() {
    // tcp_should_autocork: the first segment leaves the host at once, the second waits for the line, and what is written
    // meanwhile fills the third. Linux 6.1 sends 1000, 1000, 1448 B, ...; without a line of its own 1000 B each.
    let rows = |rate| {
        let rows = [
            ("stack.profile", "linux"),
            ("link.rate", "1Gbit"),
            ("link.delay", "5ms"),
            ("app.write_size", "1000B"),
            ("app.nodelay", "on"),
            ("app.flow_size", "60KB"),
            ("nic.rate", rate),
            ("app.duration", "15ms"),
        ];
        departures(&rows).iter().map(|(_, len)| *len).take(4).collect::<Vec<_>>()
    };
    assert_eq!(rows("20Gbit"), [1000, 1000, 1448, 1448]);
    assert_eq!(rows("auto"), [1000; 4]);
}

#[test]
fn connections_of_a_host_take_turns_on_its_line() {
    // tcp_small_queue_check: two packets of a connection wait for the line; a further one joins when one of them leaves. Linux 6.1
    // sends two packets of each connection in turn, too. Without a line of its own a host sends the whole initial window at once.
    let senders = |rate| {
        let recording = captured(&[
            ("stack.profile", "linux"),
            ("link.rate", "1Gbit"),
            ("link.delay", "5ms"),
            ("nic.rate", rate),
            ("app.flows", "2"),
            ("app.duration", "16ms"),
        ]);
        let name = |p: &PacketRecord| &recording.interfaces[p.interface as usize].name;
        let data = recording.packets.iter().filter(|p| p.from == 0 && name(p) == "sender");
        let data = data.filter(|p| p.segment.as_ref().is_some_and(|s| s.len > 0));
        data.map(|p| p.from_port - 32768).take(13).collect::<Vec<_>>()
    };
    assert_eq!(senders("100Mbit"), [0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1]);
    assert_eq!(senders("auto"), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1]);
}

#[test]
fn timers_of_linux_count_ticks() {
    // A corked remainder waits for 200 ms after the ACK of the segment before it: 40 ms for the handshake, 40 ms for the segment
    // and its ACK, and 40 ms that the ACK is delayed. A timer of 200 ticks fires at multiples of eight; Linux 6.1 sends the
    // remainder at 328 ms. The profile of Linux 4.6 has no ticks.
    let remainder = |profile| {
        let rows = [
            ("stack.profile", profile),
            ("link.rate", "100Mbit"),
            ("link.delay", "20ms"),
            ("app.workload", "rpc"),
            ("app.request", "2KB"),
            ("app.response", "1KB"),
            ("app.cork", "on"),
            ("app.duration", "1s"),
        ];
        departures(&rows)[1]
    };
    let (at, len) = remainder("linux");
    assert_eq!((at, len), (Time::ZERO + ms(328), 552));
    let (at, len) = remainder("linux-4.6");
    assert!((ms(320)..ms(321)).contains(&at.since(Time::ZERO)), "{at:?}");
    assert_eq!(len, 552);
}

#[test]
fn connections_that_open_together_send_their_syns_in_order() {
    // Linux sends a SYN in each call of `connect`.
    let recording = captured(&[("app.flows", "3"), ("app.duration", "20ms")]);
    let mut ports: Vec<_> = recording.packets.iter().take(3).map(|p| p.from_port).collect();
    assert!(ports.is_sorted(), "{ports:?}");
    ports.dedup();
    assert_eq!(ports.len(), 3);
}
