//! Tests of the analysis with small connections, packet by packet.

use crate::made::{Made, Timed, analyse, analyse_as, by, handshake, pcap};
use tcpassay_capture::{AnalysisOptions, FlowSummary, Place, Round, StallCause, Summary};
use tcpassay_wire::{Ecn, Flags};

fn data(seq: u32, len: u32) -> Made {
    by(true).seq(seq, len).ack(5001).flags(Flags::ACK | Flags::PSH).window(500)
}

fn ack(ack: u32) -> Made {
    by(false).seq(5001, 0).ack(ack).window(500)
}

#[expect(clippy::needless_pass_by_value, reason = "the packets are made for it")]
fn run(packets: Vec<Timed>) -> (Summary, Vec<Round>) {
    analyse(&pcap(101, &packets))
}

fn only(summary: &Summary) -> &FlowSummary {
    assert_eq!(summary.flows.len(), 1, "{:?}", summary.flows);
    &summary.flows[0]
}

#[test]
fn a_round_begins_with_a_packet_and_ends_with_its_ack_as_in_the_papers_figure_4() {
    // Ten packets of 1428 bytes in the first round, whose first one is acknowledged 1.331 ms later; then one of one packet.
    let mut packets = handshake(1000);
    packets.extend((0..10).map(|n| data(1001 + 1428 * n, 1428).at_us(18_924)));
    packets.push(ack(1001 + 1428).at_us(20_255));
    packets.push(data(1001 + 14_280, 1428).at_us(20_255));
    packets.push(ack(1001 + 15_708).at_us(20_295));
    let (summary, rounds) = run(packets);
    assert_eq!(rounds[0].line(), "RTT 1.1    0.020255 (1.3ms)  out: 14.3KB  rate: 85.83 Mbps  10p");
    assert_eq!(rounds[1].line(), "RTT 1.2    0.020295 (40us)  out: 1.4KB  rate: 285.60 Mbps  1p");
    assert_eq!(rounds.len(), 2);
    let flow = only(&summary);
    assert_eq!((flow.place, flow.counters.packets, flow.counters.bytes), (Place::Sender, 11, 15_708));
    assert_eq!(summary.notes, Vec::<String>::new());
    assert_eq!(flow.unknown, Vec::<String>::new());
}

#[test]
fn every_line_of_an_ordinary_round_fits_eighty_columns() {
    let round = Round {
        flow: 12,
        round: 1234,
        end_ns: 123_456_789_000,
        duration_ns: 204_123_000,
        bytes: 999_900,
        packets: 999,
        retransmissions: 12,
        reordered: 0,
        ce: 300,
        acks: 10,
        ece: 0,
        ce_reported: 0,
        window_limited: false,
        ambiguous: false,
        stalled: false,
        clock_ns: 0,
    };
    let line = round.line();
    assert_eq!(line, "RTT 12.1234 123.456789 (204ms)  out: 999.9KB  rate: 39.19 Mbps  999p 12rtx CE30%");
    assert!(line.len() <= 81, "{}", line.len());
}

#[test]
fn at_the_receiver_and_between_the_way_to_the_sender_is_part_of_the_round() {
    // 4 ms to the sender and back, 6 ms to the receiver and back.
    let between = |to_client: u64, to_server: u64| {
        let trip = to_client + to_server;
        let mut packets = vec![
            by(true).flags(Flags::SYN).seq(1000, 0).scale(7).at_us(0),
            by(false).flags(Flags::SYN | Flags::ACK).seq(5000, 0).ack(1001).scale(7).at_us(to_server),
            by(true).seq(1001, 0).ack(5001).at_us(trip),
        ];
        for n in 0..20_u32 {
            let start = u64::from(n + 1) * trip;
            packets.push(data(1001 + 1000 * n, 1000).at_us(start));
            packets.push(ack(2001 + 1000 * n).at_us(start + to_server));
        }
        run(packets)
    };
    for (to_client, to_server, place) in
        [(4_000, 6_000, Place::Between), (10_000, 20, Place::Receiver), (0, 10_000, Place::Sender)]
    {
        let (summary, rounds) = between(to_client, to_server);
        assert_eq!(only(&summary).place, place);
        assert_eq!(rounds.len(), 20, "{place:?}");
        assert!(rounds.iter().all(|round| round.duration_ns == (to_client + to_server) * 1000), "{rounds:?}");
    }
}

#[test]
fn echoed_timestamps_show_a_queue_before_the_receiver() {
    // At the receiver, a packet every millisecond. The sender echoes the ACK of 10 ms before, and from the 120th packet on that of 30 ms
    // before: a queue has filled.
    let mut packets = vec![
        by(true).flags(Flags::SYN).seq(1000, 0).stamps(1, 0).at_us(0),
        by(false).flags(Flags::SYN | Flags::ACK).seq(5000, 0).ack(1001).stamps(100, 1).at_us(10),
        by(true).seq(1001, 0).ack(5001).stamps(11, 100).at_us(10_010),
    ];
    for n in 0..300_u32 {
        let lag = if n < 100 { 10 } else { (n - 90).min(30) };
        let at = 10_010 + 1000 * u64::from(n);
        packets.push(data(1001 + 1000 * n, 1000).stamps(12 + n, 101 + n.saturating_sub(lag)).at_us(at));
        packets.push(ack(2001 + 1000 * n).stamps(101 + n, 12 + n).at_us(at + 10));
    }
    let (summary, rounds) = run(packets);
    assert_eq!(only(&summary).place, Place::Receiver);
    let ms: Vec<u64> = rounds.iter().map(|round| (round.duration_ns + 500_000) / 1_000_000).collect();
    assert_eq!(ms[..8], [10; 8]);
    assert_eq!(ms[ms.len() - 4..], [30; 4]);
}

#[test]
fn data_sent_again_are_retransmissions_and_the_place_of_the_loss_is_reported() {
    let mut packets = handshake(10_000);
    packets.push(data(1001, 1000).at_us(10_100));
    // 2001 never passes the capture point, 3001 passes and is lost behind it.
    packets.extend([data(3001, 1000).at_us(10_300), data(4001, 1000).at_us(10_400)]);
    packets.extend([ack(2001).at_us(20_100), ack(2001).sack(4001, 5001).at_us(20_400)]);
    packets.extend([data(2001, 1000).at_us(20_500), data(3001, 1000).at_us(20_600)]);
    packets.push(ack(5001).at_us(30_600));
    let (summary, rounds) = run(packets);
    let flow = only(&summary);
    let counters = &flow.counters;
    assert_eq!((counters.packets, counters.retransmissions, counters.lost_before), (5, 2, 1));
    assert_eq!((counters.reordered, flow.spurious.total(), counters.unseen_bytes), (0, 0, 0));
    assert_eq!(rounds.iter().map(|round| round.retransmissions).sum::<u64>(), 2);
    // The second round begins with a retransmission: its duration is no round-trip time.
    assert!(rounds[1].ambiguous);
    assert_eq!(flow.round_trips.expect("one").count, 1);
}

#[test]
fn late_packets_are_reordering_with_the_extent_of_rfc_4737() {
    // Section 4.2.1 with arrivals 1 5 2 3 4: extents 1, 2 and 3.
    let mut packets = handshake(10_000);
    for (n, at) in [(0, 0), (4, 10), (1, 20), (2, 30), (3, 40)] {
        packets.push(data(1001 + 1000 * n, 1000).at_us(10_100 + at));
    }
    packets.push(ack(6001).at_us(20_200));
    let (summary, rounds) = run(packets);
    let counters = &only(&summary).counters;
    assert_eq!((counters.retransmissions, counters.reordered), (0, 3));
    assert_eq!((counters.largest_extent, counters.sum_of_extents, counters.beyond_three), (3, 6, 1));
    assert_eq!(rounds[0].reordered, 3);
}

#[test]
fn timestamps_distinguish_a_late_packet_from_a_retransmission_regardless_of_time() {
    let filled = |stamp: u32, after_us: u64| {
        let mut packets = handshake(10_000);
        packets.push(data(2001, 1000).stamps(50, 1).at_us(10_100));
        packets.push(data(1001, 1000).stamps(stamp, 1).at_us(10_100 + after_us));
        let (summary, _) = run(packets);
        (only(&summary).counters.reordered, only(&summary).counters.retransmissions)
    };
    assert_eq!(filled(49, 100), (1, 0));
    assert_eq!(filled(49, 50_000), (1, 0));
    assert_eq!(filled(51, 100), (0, 1));
    // Equal timestamps: before a round trip has passed no sender can have retransmitted.
    assert_eq!(filled(50, 5_000), (1, 0));
    assert_eq!(filled(50, 15_000), (0, 1));
}

#[test]
fn gaps_in_sack_that_close_by_themselves_are_reordering_behind_the_capture_point() {
    let mut packets = handshake(10_000);
    packets.extend((0..5).map(|n| data(1001 + 1000 * n, 1000).at_us(10_100)));
    packets.push(ack(1001).sack(2001, 4001).at_us(20_100));
    packets.push(ack(6001).at_us(20_150));
    let (summary, _) = run(packets);
    let counters = &only(&summary).counters;
    assert_eq!((counters.reordered, counters.reordered_behind, counters.largest_extent_behind), (0, 1, 2));
}

/// A retransmission at 30.1 ms, one round trip of 10 ms after its first copy; then `rest`.
fn sent_again(rest: Vec<Timed>) -> FlowSummary {
    let mut packets = handshake(10_000);
    packets.push(data(1001, 1000).stamps(10, 1).at_us(10_100));
    packets.push(ack(2001).stamps(5, 10).at_us(20_100));
    packets.push(data(2001, 1000).stamps(20, 5).at_us(20_100));
    packets.push(data(2001, 1000).stamps(30, 5).at_us(30_100));
    packets.extend(rest);
    only(&run(packets).0).clone()
}

#[test]
fn unnecessary_retransmissions_are_detected_by_timestamps_time_and_dsack() {
    let necessary = sent_again(vec![ack(3001).stamps(6, 30).at_us(40_200)]);
    assert_eq!((necessary.counters.retransmissions, necessary.spurious.total()), (1, 0));
    let older = sent_again(vec![ack(3001).stamps(6, 20).at_us(40_200)]);
    assert_eq!((older.spurious.timestamp, older.spurious.total()), (1, 1));
    let early = sent_again(vec![ack(3001).stamps(6, 30).at_us(31_000)]);
    assert_eq!((early.spurious.early_ack, early.spurious.total()), (1, 1));
    let dsack = sent_again(vec![
        ack(3001).stamps(6, 30).at_us(40_200),
        ack(3001).stamps(7, 30).sack(2001, 3001).at_us(40_300),
    ]);
    assert_eq!((dsack.spurious.dsack, dsack.spurious.total()), (1, 1));
    let acked =
        sent_again(vec![ack(3001).stamps(6, 30).at_us(40_200), data(2001, 1000).stamps(50, 6).at_us(50_000)]);
    assert_eq!((acked.spurious.acknowledged_before, acked.spurious.total()), (1, 1));
}

#[test]
fn copies_with_the_same_identification_are_no_retransmissions() {
    let mut packets = handshake(10_000);
    packets.push(data(1001, 1000).id(7).at_us(10_100));
    packets.push(data(1001, 1000).id(7).at_us(10_150));
    packets.push(data(1001, 1000).id(8).at_us(30_150));
    let (summary, _) = run(packets);
    let counters = &only(&summary).counters;
    assert_eq!((counters.packets, counters.duplicates, counters.retransmissions), (2, 1, 1));
}

/// The only stall of a connection with a round trip of 1 ms that sends `rest`.
fn stall(rest: Vec<Timed>) -> (StallCause, u64, u32) {
    let mut packets = handshake(1_000);
    packets.push(data(1001, 1000).at_us(1_100));
    packets.push(ack(2001).at_us(2_100));
    packets.extend(rest);
    let (summary, _) = run(packets);
    let all: Vec<_> =
        summary.flows.iter().flat_map(|flow| flow.stalls.iter().map(|s| (flow.flow, *s))).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    (all[0].1.cause, all[0].1.total_ns / 1_000_000, all[0].0)
}

#[test]
fn a_stall_names_what_the_connection_waited_for() {
    let out = data(2001, 1000).at_us(2_200);
    // A retransmission after 200 ms; an ACK after 40 ms; data after nothing was outstanding; new data without an ACK.
    assert_eq!(
        stall(vec![out.clone(), data(2001, 1000).at_us(202_200), ack(3001).at_us(203_200)]),
        (StallCause::RetransmissionTimer, 200, 1)
    );
    assert_eq!(stall(vec![out.clone(), ack(3001).at_us(43_200)]), (StallCause::PossibleDelayedAck, 41, 1));
    assert_eq!(stall(vec![data(2001, 1000).at_us(502_100)]), (StallCause::Application, 500, 1));
    assert_eq!(
        stall(vec![out.clone(), data(3001, 1000).at_us(102_200)]),
        (StallCause::SenderResumed, 100, 1)
    );
    // The window shuts, and opens 300 ms later.
    let shut = ack(3001).window(0).at_us(3_200);
    assert_eq!(
        stall(vec![out.clone(), shut.clone(), ack(3001).at_us(303_200)]),
        (StallCause::ClosedWindow, 300, 1)
    );
    let probe = by(true).seq(3000, 0).ack(5001).at_us(203_200);
    assert_eq!(stall(vec![out, shut, probe]), (StallCause::ClosedWindow, 200, 1));
}

#[test]
fn an_end_that_does_not_answer_a_request_is_waited_for() {
    // The server sends its first data 250 ms after it acknowledged the request.
    let answer = by(false).seq(5001, 500).ack(2001).at_us(252_100);
    // Without timestamps it may be the path.
    assert_eq!(stall(vec![answer]), (StallCause::NoData, 250, 2));
}

#[test]
fn shares_of_ce_and_ece_are_those_of_packets_and_acks() {
    let mut packets = handshake(1_000);
    for n in 0..4_u32 {
        let ecn = if n == 1 { Ecn::Ce } else { Ecn::Ect0 };
        packets.push(data(1001 + 1000 * n, 1000).ecn(ecn).at_us(1_100));
    }
    packets.push(ack(3001).flags(Flags::ACK | Flags::ECE).at_us(2_100));
    packets.push(ack(5001).at_us(2_150));
    let (summary, rounds) = run(packets);
    let counters = &only(&summary).counters;
    assert_eq!((counters.ce, counters.ect, counters.ece, counters.acks), (1, 4, 1, 3));
    assert_eq!((rounds[0].ce, rounds[0].ece, rounds[0].packets), (1, 1, 4));
    assert!(rounds[0].line().ends_with("4p CE25% ECE100%"), "{}", rounds[0].line());
}

#[test]
fn a_round_that_fills_the_window_is_limited_by_it() {
    // A window of 31 << 7 = 3968 bytes takes three segments of 1000 and not four.
    let limited = |window: u16| {
        let mut packets = handshake(1_000);
        packets.push(by(false).seq(5001, 0).ack(1001).window(window).at_us(1_050));
        // The SYN-ACK announced 64000 bytes, which were never taken back: the edge is beyond it.
        packets.extend((0..60).map(|n| data(1001 + 1000 * n, 1000).at_us(1_100)));
        packets.push(ack(61_001).window(window).at_us(2_100));
        packets.extend((60..63).map(|n| data(1001 + 1000 * n, 1000).at_us(2_100)));
        packets.push(ack(64_001).window(window).at_us(3_100));
        let (_, rounds) = run(packets);
        rounds[1].window_limited
    };
    assert!(limited(31));
    assert!(!limited(500));
}

#[test]
fn the_window_scale_is_unknown_if_the_options_of_the_syns_are_cut() {
    // As above, 31 << 7 bytes limit a round. The scale is the only option, and IP and TCP headers have 40 bytes.
    let limited = |captured: usize| {
        let mut packets = handshake(1_000);
        for (_, bytes) in &mut packets[..2] {
            bytes.truncate(captured);
        }
        packets.push(by(false).seq(5001, 0).ack(1001).window(31).at_us(1_050));
        packets.extend((0..60).map(|n| data(1001 + 1000 * n, 1000).at_us(1_100)));
        packets.push(ack(61_001).window(31).at_us(2_100));
        packets.extend((60..63).map(|n| data(1001 + 1000 * n, 1000).at_us(2_100)));
        packets.push(ack(64_001).window(31).at_us(3_100));
        let (summary, rounds) = run(packets);
        let unknown = only(&summary).unknown.join(" ");
        (summary.packets.options_cut, rounds[1].window_limited, unknown.contains("window scale is unknown"))
    };
    assert_eq!(limited(40), (2, false, true));
    assert_eq!(limited(43), (2, false, true));
    assert_eq!(limited(44), (0, true, false));
}

#[test]
fn one_direction_missing_packets_and_missing_handshakes_are_named() {
    // Data alone.
    let (summary, rounds) = run((0..5).map(|n| data(1001 + 1000 * n, 1000).at_us(100)).collect());
    let flow = only(&summary);
    assert_eq!((rounds.len(), flow.counters.packets, flow.place), (0, 5, Place::Unknown));
    let unknown = flow.unknown.join(" ");
    for part in ["handshake is not in the capture", "window scale is unknown", "No packet of the receiver"] {
        assert!(unknown.contains(part), "{unknown}");
    }
    // ACKs alone: no flow with data.
    let (summary, _) = run((0..5).map(|n| ack(1001 + 1000 * n).at_us(u64::from(n))).collect());
    assert_eq!((summary.connections, summary.flows.len()), (1, 0));
    // A packet that was acknowledged, and that the capture missed.
    let mut packets = handshake(1_000);
    packets.extend([data(1001, 1000).at_us(1_100), data(3001, 1000).at_us(1_110), ack(4001).at_us(2_100)]);
    let (summary, _) = run(packets);
    let flow = only(&summary);
    assert_eq!((flow.counters.unseen_bytes, flow.counters.retransmissions), (1000, 0));
    assert!(
        flow.unknown[0].starts_with("1.0KB were acknowledged but are not in the capture"),
        "{:?}",
        flow.unknown
    );
}

#[test]
fn data_that_are_captured_after_their_ack_are_no_retransmission() {
    // Segmentation offload: the ACK of the first segment is captured 2 us before the packet with all of them.
    let mut packets = handshake(1_000);
    packets.extend([data(1001, 4380).at_us(1_100), ack(5381).at_us(2_100)]);
    packets.extend([ack(6841).at_us(2_200), data(5381, 4380).at_us(2_202), ack(9761).at_us(3_200)]);
    let (summary, _) = run(packets.clone());
    let counters = &only(&summary).counters;
    assert_eq!((counters.packets, counters.retransmissions, counters.unseen_bytes), (2, 0, 0));
    // After a round trip the capture has missed them, and they are sent again.
    packets[6].0 += 50_000_000;
    packets[7].0 += 50_000_000;
    let (summary, _) = run(packets);
    let counters = &only(&summary).counters;
    assert_eq!((counters.retransmissions, counters.unseen_bytes), (1, 1460));
}

#[test]
fn time_that_goes_backwards_is_counted_and_measures_nothing_negative() {
    let mut packets = handshake(1_000);
    packets.push(data(1001, 1000).at_us(2_000));
    packets.push(ack(2001).at_us(500));
    let (summary, rounds) = run(packets);
    assert_eq!((summary.packets.backwards, summary.packets.most_backwards_ns), (1, 1_500_000));
    assert_eq!(rounds[0].duration_ns, 0);
    assert_eq!(rounds[0].rate_bps(), None);
    assert!(
        summary.notes[0].contains("Time goes backwards at 1 packet, by up to 1.5ms"),
        "{:?}",
        summary.notes
    );
}

#[test]
fn a_syn_with_another_number_begins_another_connection() {
    let mut packets = handshake(1_000);
    packets.push(data(1001, 1000).at_us(1_100));
    packets.push(by(true).flags(Flags::SYN).seq(9_000_000, 0).ack(0).at_us(5_000));
    packets.push(by(true).seq(9_000_001, 700).ack(1).at_us(6_000));
    let (summary, _) = run(packets);
    assert_eq!(summary.connections, 2);
    let bytes: Vec<u64> = summary.flows.iter().map(|flow| flow.counters.bytes).collect();
    assert_eq!(bytes, [1000, 700]);
}

#[test]
fn a_syn_that_is_sent_again_waits_for_its_timer() {
    let syn = |at| by(true).flags(Flags::SYN).seq(1000, 0).ack(0).scale(7).at_us(at);
    let mut packets = vec![syn(0), syn(1_000_000)];
    packets.extend(handshake(1_000).into_iter().skip(1).map(|(at, bytes)| (at + 1_000_000_000, bytes)));
    packets.push(data(1001, 10).at_us(1_001_100));
    let (summary, _) = run(packets);
    let flow = only(&summary);
    assert_eq!(flow.counters.syn_retransmissions, 1);
    assert_eq!((flow.stalls[0].cause, flow.stalls[0].longest_ns), (StallCause::SynTimer, 1_000_000_000));
}

#[test]
fn sequence_numbers_wrap_within_a_flow() {
    let start = u32::MAX - 2500;
    let mut packets = vec![
        by(true).flags(Flags::SYN).seq(start, 0).ack(0).at_us(0),
        by(false).flags(Flags::SYN | Flags::ACK).seq(5000, 0).ack(start.wrapping_add(1)).at_us(1_000),
        by(true).seq(start.wrapping_add(1), 0).ack(5001).at_us(1_000),
    ];
    for n in 0..5_u32 {
        packets.push(data(start.wrapping_add(1 + 1000 * n), 1000).at_us(1_100 + u64::from(n)));
    }
    packets.push(ack(start.wrapping_add(5001)).at_us(2_100));
    let (summary, rounds) = run(packets);
    let counters = &only(&summary).counters;
    assert_eq!((counters.packets, counters.retransmissions, counters.reordered), (5, 0, 0));
    assert_eq!((rounds.len(), rounds[0].bytes), (1, 5000));
}

#[test]
fn a_point_can_be_chosen_by_the_name_of_its_interface() {
    let file = pcap(101, &handshake(10));
    let options = AnalysisOptions { interface: Some("eth7".to_owned()), ..AnalysisOptions::default() };
    let (summary, _) = analyse_as(&file, options);
    assert_eq!((summary.connections, summary.packets.other_interfaces), (0, 3));
}

#[test]
fn a_capture_of_the_acks_alone_says_how_much_they_acknowledge_and_that_the_other_direction_is_missing() {
    let acks = (0..4).map(|n| ack(1001 + 1000 * n).at_us(10_000 * u64::from(n))).collect();
    let (summary, rounds) = run(acks);
    assert_eq!((summary.flows.len(), rounds.len()), (0, 0));
    assert_eq!(
        summary.notes,
        ["1 flow of which only the ACKs are in the capture, for 3.0KB: the capture has one direction only."]
    );
    // The FIN of an end that sends nothing is acknowledged, too.
    let mut whole = handshake(1000);
    whole.push(data(1001, 1000).at_us(20_000));
    whole.push(by(false).seq(5001, 0).ack(2001).flags(Flags::ACK | Flags::FIN).window(500).at_us(30_000));
    whole.push(by(true).seq(2001, 0).ack(5002).window(500).at_us(30_100));
    assert_eq!(run(whole).0.notes, Vec::<String>::new());
}
