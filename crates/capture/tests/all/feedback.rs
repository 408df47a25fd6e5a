//! What ACKs report: marks by the echo of RFC 3168 and by accurate ECN (RFC 9768), and data by SACK.

use crate::made::{Made, Timed, analyse, by, handshake, pcap};
use tcpassay_capture::{EcnFeedback, FlowSummary, Round, Summary};
use tcpassay_wire::{AccEcn, Ecn, Flags};

fn run(packets: &[Timed]) -> (Summary, Vec<Round>) {
    analyse(&pcap(101, packets))
}

fn only(summary: &Summary) -> &FlowSummary {
    assert_eq!(summary.flows.len(), 1, "{:?}", summary.flows);
    &summary.flows[0]
}

fn data(seq: u32) -> Made {
    by(true).seq(seq, 1000).ack(5001).ecn(Ecn::Ect0)
}

fn ack(ack: u32) -> Made {
    by(false).seq(5001, 0).ack(ack)
}

/// The flags of a number of the field ACE.
fn ace(count: u16) -> Flags {
    Flags::ACK | Flags::from_bits((count & 7) << 6)
}

/// A handshake with these codes of AE, CWR and ECE in its three packets.
fn opened(codes: [u16; 3]) -> Vec<Timed> {
    let syn = by(true).seq(1000, 0).ack(0).flags(Flags::SYN | Flags::from_bits(codes[0] << 6));
    let answer =
        by(false).seq(5000, 0).ack(1001).flags(Flags::SYN | Flags::ACK | Flags::from_bits(codes[1] << 6));
    vec![syn.at_us(0), answer.at_us(1_000), by(true).seq(1001, 0).ack(5001).flags(ace(codes[2])).at_us(1_000)]
}

/// Ten segments, each acknowledged after 1 ms with a counter of `counts`.
fn counted(mut packets: Vec<Timed>, counts: &[u16], option: bool) -> (FlowSummary, Vec<Round>) {
    for (n, count) in (0_u32..).zip(counts) {
        let at = 2_000 * u64::from(n + 1);
        packets.push(data(1001 + 1000 * n).flags(ace(5)).at_us(at));
        let mut answer = ack(2001 + 1000 * n).flags(ace(*count));
        if option {
            let marked = 1000 * u32::from(count - 5);
            answer.segment.options.set_accecn(&AccEcn::of(
                false,
                3,
                [1 + 1000 * (n + 1) - marked, marked, 1],
            ));
        }
        packets.push(answer.at_us(at + 1_000));
    }
    let (summary, rounds) = run(&packets);
    (only(&summary).clone(), rounds)
}

#[test]
fn the_counter_of_accurate_ecn_is_no_echo() {
    // The codes of table 2 of RFC 9768 for the four ECN fields of the SYN.
    for code in [2, 3, 4, 6] {
        let (flow, _) = counted(opened([7, code, 2]), &[5; 10], false);
        assert_eq!(flow.ecn_feedback, EcnFeedback::Accurate, "{code}");
        assert_eq!((flow.counters.ece, flow.counters.ce_reported), (0, 0), "{code}");
        assert!(!flow.words.join(" ").contains("ECE on"), "{:?}", flow.words);
    }
}

#[test]
fn accurate_ecn_reports_marked_packets_by_its_counter_and_bytes_by_its_option() {
    // Nine marks; the counter passes 7.
    let counts = [6, 7, 8, 9, 9, 11, 12, 13, 14, 14];
    let (flow, rounds) = counted(opened([7, 2, 2]), &counts, false);
    assert_eq!((flow.counters.ce_reported, flow.counters.ce_reported_bytes, flow.counters.ece), (9, 0, 0));
    assert_eq!(
        rounds.iter().map(|round| round.ce_reported).collect::<Vec<_>>(),
        [1, 1, 1, 1, 0, 2, 1, 1, 1, 0]
    );
    assert!(rounds[0].line().contains("  1p 1ACE"), "{}", rounds[0].line());
    let (flow, _) = counted(opened([7, 2, 2]), &counts, true);
    assert_eq!((flow.counters.ce_reported, flow.counters.ce_reported_bytes), (9, 9000));
    let words = flow.words.join(" ");
    assert!(
        words.contains("the receiver reported 9 packets (9.0KB) with CE (accurate ECN, RFC 9768)"),
        "{words}"
    );
}

#[test]
fn a_counter_that_the_path_cleared_and_one_that_was_overtaken_report_nothing() {
    assert_eq!(counted(opened([7, 2, 2]), &[0; 10], false).0.counters.ce_reported, 0);
    let mut packets = opened([7, 2, 2]);
    packets.extend([data(1001).at_us(2_000), data(2001).at_us(2_001)]);
    packets.push(ack(3001).flags(ace(6)).at_us(3_000));
    packets.push(ack(3001).flags(ace(5)).at_us(3_001));
    packets.push(ack(3001).flags(ace(6)).at_us(3_002));
    assert_eq!(only(&run(&packets).0).counters.ce_reported, 1);
}

#[test]
fn the_echo_of_rfc_3168_and_refused_ecn_are_counted_as_flags() {
    // A client that asks for accurate ECN, and a server that knows RFC 3168, or no ECN.
    for codes in [[3, 1, 0], [7, 1, 0], [7, 0, 0], [0, 0, 0]] {
        let (flow, _) = counted(opened(codes), &[0, 1, 1, 0, 0, 0, 0, 0, 0, 0], false);
        assert_eq!((flow.ecn_feedback, flow.counters.ece), (EcnFeedback::Echo, 2), "{codes:?}");
    }
}

#[test]
fn without_the_handshake_segments_show_accurate_ecn_or_the_output_says_that_it_is_unknown() {
    // The flag AE.
    let (flow, _) = counted(vec![], &[3, 3, 4, 5, 5, 5, 6, 6, 6, 6], false);
    assert_eq!((flow.ecn_feedback, flow.counters.ece), (EcnFeedback::Accurate, 0));
    assert_eq!(flow.counters.ce_reported, 3);
    // CWR on an ACK without data.
    let bare = |flags| {
        let mut packets = vec![by(true).seq(1001, 1000).ack(5001).at_us(0)];
        packets.extend((1..20).map(|n| ack(2001).flags(flags).at_us(10 * n)));
        only(&run(&packets).0).clone()
    };
    assert_eq!(bare(ace(2)).ecn_feedback, EcnFeedback::Accurate);
    // ECE alone may be both.
    let flow = bare(ace(1));
    assert_eq!((flow.ecn_feedback, flow.counters.ece), (EcnFeedback::Unknown, 19));
    assert!(!flow.words.join(" ").contains("ECE on"), "{:?}", flow.words);
    assert!(flow.unknown.join(" ").contains("it cannot be told whether"), "{:?}", flow.unknown);
    // ECE that ends without another flag is the echo.
    let mut packets = vec![by(true).seq(1001, 1000).ack(5001).at_us(0)];
    packets.extend((1..20).map(|n| ack(2001).flags(ace(u16::from(n < 10))).at_us(10 * n)));
    let (summary, _) = run(&packets);
    assert_eq!((only(&summary).ecn_feedback, only(&summary).counters.ece), (EcnFeedback::Echo, 9));
    assert!(only(&summary).words.join(" ").contains("ECE on 47% of the ACKs"), "{:?}", only(&summary).words);
}

/// Eight segments, of which the first is lost behind the capture; the ACKs of the others have `blocks`.
fn lost(blocks: &[&[(u32, u32)]]) -> Vec<Timed> {
    let mut packets = handshake(10_000);
    packets
        .extend((0..8).map(|n| by(true).seq(1001 + 1000 * n, 1000).ack(5001).at_us(20_000 + u64::from(n))));
    for (at, blocks) in (30_000..).zip(blocks) {
        let acked = blocks.iter().fold(ack(1001), |made, (start, end)| made.sack(*start, *end));
        packets.push(acked.at_us(at));
    }
    packets
}

#[test]
fn data_that_sack_had_reported_are_sent_again_without_need() {
    let mut packets = lost(&[&[(2001, 5001)]]);
    packets.push(by(true).seq(1001, 1000).ack(5001).at_us(31_000));
    packets.push(by(true).seq(3001, 1000).ack(5001).at_us(31_001));
    packets.push(by(true).seq(5001, 1000).ack(5001).at_us(31_002));
    packets.push(ack(9001).at_us(41_200));
    let (summary, _) = run(&packets);
    let flow = only(&summary);
    assert_eq!((flow.counters.retransmissions, flow.spurious.sacked_before), (3, 1));
    assert_eq!(flow.spurious.total(), 1);
}

#[test]
fn a_sack_sooner_than_a_round_trip_after_a_retransmission_answers_the_first_copy() {
    let mut packets = lost(&[&[(2001, 4001)]]);
    packets.push(by(true).seq(1001, 1000).ack(5001).at_us(31_000));
    packets.push(by(true).seq(4001, 1000).ack(5001).at_us(31_001));
    packets.push(ack(1001).sack(2001, 5001).at_us(32_000));
    packets.push(ack(9001).at_us(41_200));
    let (summary, _) = run(&packets);
    let flow = only(&summary);
    assert_eq!((flow.counters.retransmissions, flow.spurious.early_ack, flow.spurious.total()), (2, 1, 1));
    // After a round trip it may answer the retransmission.
    let mut packets = lost(&[&[(2001, 4001)]]);
    packets.push(by(true).seq(4001, 1000).ack(5001).at_us(31_001));
    packets.push(ack(1001).sack(2001, 5001).at_us(41_200));
    let (summary, _) = run(&packets);
    assert_eq!((only(&summary).counters.retransmissions, only(&summary).spurious.total()), (1, 0));
}

#[test]
fn touching_sack_blocks_that_are_cut_off_are_no_reordering() {
    // The receiver reports each segment as a block of its own, and an ACK has space for four: the block next to the loss is not repeated.
    let blocks: Vec<Vec<(u32, u32)>> = (1..8_u32)
        .map(|newest| {
            let first = newest.saturating_sub(3).max(1);
            (first..=newest).rev().map(|n| (1001 + 1000 * n, 2001 + 1000 * n)).collect()
        })
        .collect();
    let all: Vec<&[(u32, u32)]> = blocks.iter().map(Vec::as_slice).collect();
    let mut packets = lost(&all);
    packets.push(by(true).seq(1001, 1000).ack(5001).at_us(31_000));
    packets.push(ack(9001).at_us(41_000));
    let (summary, _) = run(&packets);
    let flow = only(&summary);
    assert_eq!((flow.counters.reordered_behind, flow.counters.retransmissions), (0, 1));
    assert_eq!((flow.spurious.total(), flow.counters.unexplained_dsacks), (0, 0));
    // The loss is repaired in two steps.
    let mut packets = lost(&all);
    packets.push(by(true).seq(1001, 500).ack(5001).at_us(31_000));
    packets.push(by(true).seq(1501, 500).ack(5001).at_us(31_010));
    packets.push(ack(1501).sack(8001, 9001).sack(7001, 8001).sack(6001, 7001).sack(5001, 6001).at_us(41_000));
    packets.push(ack(9001).at_us(41_010));
    assert_eq!(only(&run(&packets).0).counters.reordered_behind, 0);
}
