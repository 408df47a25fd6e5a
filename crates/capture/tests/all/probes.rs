//! Segments of the persist and keepalive timers in all their forms: they are neither data nor samples nor losses.

use crate::made::{Made, Timed, analyse, by, handshake, pcap};
use tcpassay_capture::{FlowSummary, Place, StallCause, Summary};
use tcpassay_wire::Flags;

fn run(packets: &[Timed]) -> Summary {
    analyse(&pcap(101, packets)).0
}

fn only(summary: &Summary) -> &FlowSummary {
    assert_eq!(summary.flows.len(), 1, "{:?}", summary.flows);
    &summary.flows[0]
}

fn from(seq: u32, len: u32) -> Made {
    by(true).seq(seq, len).ack(5001).window(500)
}

fn reply(ack: u32, window: u16) -> Made {
    by(false).seq(5001, 0).ack(ack).window(window)
}

/// The only stall of a flow: its cause, number, total and longest in milliseconds.
fn stall(flow: &FlowSummary) -> (StallCause, u64, u64, u64) {
    assert_eq!(flow.stalls.len(), 1, "{:?}", flow.stalls);
    let one = flow.stalls[0];
    (one.cause, one.count, one.total_ns / 1_000_000, one.longest_ns / 1_000_000)
}

/// Probes of a closed window at these times of milliseconds, each answered after 20 ms.
const TIMES: [u64; 6] = [410, 1_010, 2_210, 4_610, 9_410, 19_010];

/// A round trip of 20 ms. A segment of 1400 bytes fills the window; six probes that `probe` makes; the window opens at 20.01 s.
fn closed(stamps: bool, probe: impl Fn(Made) -> Made) -> Summary {
    let stamped = |made: Made, ms: u32| {
        if stamps { made.stamps(1_000 + ms, 1_000 + ms.saturating_sub(20)) } else { made }
    };
    let mut packets = handshake(20_000);
    packets.push(stamped(from(1001, 1400), 50).at_us(50_000));
    packets.push(stamped(reply(2401, 0), 70).at_us(70_000));
    for ms in TIMES {
        let at = u32::try_from(ms).expect("milliseconds");
        packets.push(stamped(probe(from(2401, 0)), at).at_us(1000 * ms));
        packets.push(stamped(reply(2401, 0), at + 20).at_us(1000 * (ms + 20)));
    }
    packets.push(stamped(reply(2401, 500), 20_010).at_us(20_010_000));
    packets.push(stamped(from(2401, 1400), 20_010).at_us(20_010_010));
    packets.push(stamped(reply(3801, 500), 20_030).at_us(20_030_010));
    run(&packets)
}

#[test]
fn probes_of_a_closed_window_are_no_data_in_any_form() {
    let forms = [
        ("one byte at SND.NXT", 2401, 1, Flags::ACK),
        ("one byte below SND.NXT", 2400, 1, Flags::ACK),
        ("no byte below SND.NXT", 2400, 0, Flags::ACK),
        ("one byte with PSH", 2401, 1, Flags::ACK | Flags::PSH),
    ];
    for stamps in [false, true] {
        for (name, seq, len, flags) in forms {
            let summary = closed(stamps, |made| made.seq(seq, len).flags(flags));
            let flow = only(&summary);
            let counters = &flow.counters;
            assert_eq!((counters.packets, counters.bytes), (2, 2800), "{name}, {stamps}");
            assert_eq!((counters.retransmissions, counters.window_probes), (0, 6), "{name}, {stamps}");
            assert_eq!((counters.keepalives, counters.unseen_bytes), (0, 0), "{name}, {stamps}");
            // From 70 ms to 20.01 s, less 20 ms for each of the six probes.
            assert_eq!(stall(flow), (StallCause::ClosedWindow, 1, 19_820, 19_820), "{name}, {stamps}");
            assert_eq!(flow.round_trips.expect("rounds").max_ns, 20_000_000, "{name}, {stamps}");
            assert_eq!(flow.place, Place::Sender, "{name}, {stamps}");
        }
    }
}

#[test]
fn a_probe_whose_byte_the_receiver_accepts_was_data() {
    let mut packets = handshake(20_000);
    packets.push(from(1001, 1400).at_us(50_000));
    packets.push(reply(2401, 0).at_us(70_000));
    packets.push(from(2401, 1).at_us(500_000));
    packets.push(reply(2401, 0).at_us(520_000));
    packets.push(from(2401, 1).at_us(1_100_000));
    packets.push(reply(2402, 500).at_us(1_120_000));
    packets.push(from(2402, 1399).at_us(1_120_010));
    packets.push(reply(3801, 500).at_us(1_140_010));
    let summary = run(&packets);
    let counters = &only(&summary).counters;
    assert_eq!((counters.packets, counters.bytes, counters.window_probes), (3, 2800, 1));
    assert_eq!((counters.retransmissions, counters.unseen_bytes), (0, 0));
}

#[test]
fn a_window_of_zero_is_closed_without_the_handshake() {
    let mut packets = vec![from(1, 1400).at_us(0), reply(1401, 0).at_us(30)];
    for ms in [300, 600, 1200, 2400] {
        packets.extend([from(1400, 0).at_us(1000 * ms), reply(1401, 0).at_us(1000 * ms + 30)]);
    }
    packets.push(reply(1401, 300).at_us(4_800_000));
    packets.extend([from(1401, 1000).at_us(4_820_000), reply(2401, 300).at_us(4_820_030)]);
    let summary = run(&packets);
    let flow = only(&summary);
    assert_eq!(stall(flow), (StallCause::ClosedWindow, 1, 4_799, 4_799));
    assert_eq!((flow.counters.window_probes, flow.counters.retransmissions), (4, 0));
    assert!(flow.unknown.join(" ").contains("only whether it is closed (0)"), "{:?}", flow.unknown);
}

#[test]
fn a_capture_that_begins_between_probes_of_one_byte_has_no_data() {
    let mut packets = Vec::new();
    for n in 0..4 {
        packets.push(from(7000, 1).at_us(5_000_000 * n));
        packets.push(reply(7000, 0).at_us(5_000_000 * n + 20_000));
    }
    packets.push(reply(7000, 400).at_us(16_000_000));
    packets.push(from(7000, 1400).at_us(16_020_000));
    packets.push(reply(8400, 400).at_us(16_040_000));
    let summary = run(&packets);
    let counters = &only(&summary).counters;
    assert_eq!((counters.packets, counters.bytes, counters.retransmissions), (1, 1400, 0));
    assert_eq!(counters.window_probes, 4);
}

#[test]
fn the_interval_of_probes_is_no_response_time_of_the_sender() {
    let mut packets =
        vec![from(1, 1344).stamps(1000, 900).at_us(0), reply(1345, 0).stamps(1001, 1000).at_us(30)];
    for (n, ms) in [3_400, 8_500, 21_250].into_iter().enumerate() {
        let stamp = 1000 + u32::try_from(ms).expect("milliseconds");
        let echo = [1001, 4401, 9501][n];
        packets.push(from(1344, 0).stamps(stamp, echo).at_us(1000 * ms));
        packets.push(reply(1345, 0).stamps(stamp + 1, stamp).at_us(1000 * ms + 30));
    }
    let summary = run(&packets);
    let flow = only(&summary);
    assert_eq!((flow.place, flow.counters.window_probes), (Place::Unknown, 3));
    assert!(!flow.words.join(" ").contains("3.40s"), "{:?}", flow.words);
    // The same is true of an application that writes rarely.
    let mut packets = vec![reply(1, 500).stamps(50, 10).at_us(0)];
    packets.push(from(1, 100).stamps(2_000, 50).at_us(2_000_000));
    packets.push(reply(101, 500).stamps(2_050, 2_000).at_us(2_000_030));
    let summary = run(&packets);
    assert_eq!(only(&summary).place, Place::Unknown);
}

/// A request of 500 bytes, an answer of 300; then three keepalive probes, 10 s apart, each answered after 16 ms.
fn idle(known: bool, stamps: bool, seq: u32, len: u32) -> Vec<Timed> {
    let stamped = |made: Made, at: u32| if stamps { made.stamps(at, at - 1) } else { made };
    let mut packets = if known { handshake(16_000) } else { Vec::new() };
    packets.push(stamped(from(1001, 500), 20).at_us(20_000));
    packets.push(stamped(by(false).seq(5001, 300).ack(1501).window(500), 21).at_us(36_000));
    packets.push(stamped(by(true).seq(1501, 0).ack(5301).window(500), 36).at_us(36_100));
    for n in 1..=3 {
        let at = 10_000_000 * n + 40_000;
        let stamp = 1000 * u32::try_from(n).expect("small");
        packets.push(stamped(by(true).seq(seq, len).ack(5301).window(500), stamp).at_us(at));
        packets.push(stamped(by(false).seq(5301, 0).ack(1501).window(500), stamp + 1).at_us(at + 16_000));
    }
    packets
}

#[test]
fn keepalive_probes_are_no_data_and_end_no_silence() {
    for known in [false, true] {
        for stamps in [false, true] {
            for len in [0, 1] {
                let mut packets = idle(known, stamps, 1500, len);
                let summary = run(&packets);
                let flow = &summary.flows[0];
                let counters = &flow.counters;
                assert_eq!((counters.packets, counters.bytes), (1, 500), "{known} {stamps} {len}");
                assert_eq!((counters.keepalives, counters.window_probes), (3, 0), "{known} {stamps} {len}");
                assert_eq!(counters.retransmissions, 0, "{known} {stamps} {len}");
                assert_eq!(flow.stalls, [], "{known} {stamps} {len}");
                // The application writes again: it had sent nothing from 36.1 ms on.
                packets.push(by(true).seq(1501, 200).ack(5301).window(500).at_us(40_036_100));
                let summary = run(&packets);
                assert_eq!(stall(&summary.flows[0]), (StallCause::Application, 1, 40_000, 40_000));
            }
        }
    }
}

#[test]
fn a_dsack_for_the_byte_of_a_keepalive_probe_reports_no_duplicate_data() {
    let mut packets = handshake(16_000);
    packets.extend([from(1001, 500).at_us(20_000), reply(1501, 500).at_us(36_000)]);
    for at in [10_000_000, 20_000_000] {
        packets.push(from(1500, 1).at_us(at));
        packets.push(reply(1501, 500).sack(1500, 1501).at_us(at + 16_000));
    }
    let summary = run(&packets);
    let counters = &only(&summary).counters;
    assert_eq!((counters.keepalives, counters.unexplained_dsacks), (2, 0));
}

#[test]
fn a_sender_that_ignores_the_window_sends_data_and_no_probes() {
    let mut packets = handshake(20_000);
    // A window of 500 << 7 bytes.
    packets.push(by(false).seq(5001, 0).ack(1001).window(500).at_us(20_100));
    packets.extend((0..100).map(|n| from(1001 + 1000 * n, 1000).at_us(21_000 + u64::from(n))));
    packets.extend([from(101_001, 1).at_us(22_000), reply(101_002, 500).at_us(42_000)]);
    let summary = run(&packets);
    let counters = &only(&summary).counters;
    assert_eq!((counters.packets, counters.bytes, counters.window_probes), (101, 100_001, 0));
}

#[test]
fn a_segment_of_one_byte_that_is_sent_again_at_once_is_a_retransmission() {
    // A byte that was typed; its ACK is lost behind the capture.
    let mut packets = handshake(20_000);
    packets.push(from(1001, 1).at_us(100_000));
    packets.push(reply(1002, 500).at_us(100_020));
    packets.push(from(1001, 1).at_us(320_000));
    packets.push(reply(1002, 500).at_us(320_020));
    let summary = run(&packets);
    let counters = &only(&summary).counters;
    assert_eq!((counters.packets, counters.retransmissions, counters.keepalives), (2, 1, 0));
}

#[test]
fn a_capture_of_keepalive_probes_alone_has_no_data() {
    for len in [0, 1] {
        let mut packets = Vec::new();
        for n in 0..3 {
            packets.push(from(1500, len).at_us(10_000_000 * n));
            packets.push(reply(1501, 500).at_us(10_000_000 * n + 16_000));
        }
        let summary = run(&packets);
        let packets: u64 = summary.flows.iter().map(|flow| flow.counters.packets).sum();
        assert_eq!(packets, 0, "{len}");
        assert!(summary.flows.iter().all(|flow| flow.stalls.is_empty()), "{:?}", summary.flows);
    }
}

#[test]
fn silences_before_the_first_round_trip_are_no_stalls() {
    // A path of 600 ms, seen at the client; then at the server.
    for at_client in [true, false] {
        let mut packets = handshake(600_000);
        let trip = if at_client { 600_000 } else { 0 };
        if !at_client {
            packets[1].0 -= 600_000_000;
        }
        packets.push(from(1001, 300).at_us(601_000));
        packets.push(by(false).seq(5001, 1000).ack(1301).window(500).at_us(601_100 + trip));
        packets.push(by(true).seq(1301, 0).ack(6001).window(500).at_us(1_201_200));
        let summary = run(&packets);
        assert_eq!(summary.flows.len(), 2);
        assert!(summary.flows.iter().all(|flow| flow.stalls.is_empty()), "{:?}", summary.flows);
    }
    // Without the handshake: an answer after 600 ms of a path whose length is unknown.
    let packets = [
        from(1, 300).at_us(0),
        reply(301, 500).at_us(30),
        from(301, 300).at_us(600_000),
        reply(601, 500).at_us(600_030),
    ];
    assert_eq!(only(&run(&packets)).stalls, []);
    // No path takes 300 s.
    let packets = [from(1, 300).at_us(0), reply(301, 500).at_us(30), from(301, 2).at_us(300_000_000)];
    assert_eq!(stall(only(&run(&packets))), (StallCause::NoData, 1, 299_999, 299_999));
}

#[test]
fn nothing_waits_after_a_reset() {
    let mut packets = handshake(20_000);
    packets.extend([from(1001, 50).at_us(30_000), reply(1051, 500).at_us(50_000)]);
    packets.push(by(true).seq(1051, 0).ack(0).flags(Flags::RST).at_us(50_100));
    packets.push(reply(1052, 500).at_us(1_200_000));
    assert_eq!(only(&run(&packets)).stalls, []);
}

#[test]
fn a_round_whose_first_packet_is_sent_again_has_no_round_trip_time() {
    // The first packet of the second round is lost; its retransmission is acknowledged 2.1 s later (Karn).
    let mut packets = handshake(30_000);
    packets.extend([from(1001, 1000).at_us(31_000), reply(2001, 500).at_us(61_000)]);
    packets.extend([
        from(2001, 1000).at_us(70_000),
        from(2001, 1000).at_us(370_000),
        from(2001, 1000).at_us(2_170_000),
    ]);
    packets.push(reply(3001, 500).at_us(2_200_000));
    let summary = run(&packets);
    let flow = only(&summary);
    assert_eq!((flow.rounds, flow.counters.retransmissions), (2, 2));
    let trips = flow.round_trips.expect("one");
    assert_eq!((trips.count, trips.max_ns), (1, 30_000_000));
    // The same for a packet before it: its retransmission delays the cumulative ACK.
    let mut packets = handshake(30_000);
    packets.extend([
        from(1001, 1000).at_us(31_000),
        from(2001, 1000).at_us(60_000),
        reply(2001, 500).at_us(61_000),
    ]);
    packets.push(from(3001, 1000).at_us(61_100));
    packets.extend([from(2001, 1000).at_us(400_000), reply(4001, 500).at_us(430_000)]);
    let summary = run(&packets);
    let trips = only(&summary).round_trips.expect("one");
    assert_eq!((trips.count, trips.max_ns), (1, 30_000_000));
}

#[test]
fn times_below_the_step_of_the_clock_are_given_as_such() {
    // A round trip of 2 ms, and a clock that advances every 10 ms.
    let mut packets = handshake(2_000);
    for n in 0..40_u32 {
        packets.push(from(1001 + 100 * n, 100).at_us(3_000 * u64::from(n) + 4_000));
        packets.push(reply(1101 + 100 * n, 500).at_us(3_000 * u64::from(n) + 6_000));
    }
    for packet in &mut packets {
        packet.0 -= packet.0 % 10_000_000;
    }
    let (summary, rounds) = analyse(&pcap(101, &packets));
    assert_eq!(summary.clock_ns, Some(10_000_000));
    let flow = only(&summary);
    let trips = flow.round_trips.expect("rounds");
    assert_eq!((trips.min_ns, trips.median_ns, trips.max_ns), (0, 0, 10_000_000));
    assert_eq!(trips.modes, None);
    let words = flow.words.join(" ");
    assert!(words.contains("round-trip time <10.0ms to 10.0ms, median <10.0ms"), "{words}");
    assert!(words.contains("advances in steps of 10.0ms"), "{words}");
    assert!(rounds.iter().any(|round| round.line().contains("(<10.0ms)")));
}
