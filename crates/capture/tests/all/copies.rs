//! Copies of packets by mirror ports, as opposed to retransmissions.

use crate::made::{Made, Timed, analyse, by, from_to, handshake, pcap};
use tcpassay_capture::{FlowSummary, StallCause, Summary};
use tcpassay_wire::Flags;

const HERE: &str = "[2001:db8::1]:40000";
const THERE: &str = "[2001:db8::2]:443";

fn run(packets: &[Timed]) -> Summary {
    analyse(&pcap(101, packets)).0
}

fn only(summary: &Summary) -> &FlowSummary {
    assert_eq!(summary.flows.len(), 1, "{:?}", summary.flows);
    &summary.flows[0]
}

/// Twenty segments over IPv6, one every round trip of 20 ms, seen at the receiver: every packet, and `after_us` later its copy.
fn mirrored(stamps: bool, after_us: u64, hops: u8) -> Summary {
    let stamp = |made: Made, at: u32| if stamps { made.stamps(at, at - 1) } else { made };
    let client = || from_to(HERE, THERE);
    let server = || from_to(THERE, HERE);
    let mut packets: Vec<(Made, u64)> = vec![
        (stamp(client().flags(Flags::SYN).seq(1000, 0).ack(0), 5), 0),
        (stamp(server().flags(Flags::SYN | Flags::ACK).seq(5000, 0).ack(1001), 5), 50),
        (stamp(client().seq(1001, 0).ack(5001), 25), 20_000),
    ];
    for n in 0..20_u32 {
        let at = 20_000 * u64::from(n + 2);
        packets.push((stamp(client().seq(1001 + 1000 * n, 1000).ack(5001), 45 + 20 * n), at));
        packets.push((stamp(server().seq(5001, 0).ack(2001 + 1000 * n), 45 + 20 * n), at + 2));
    }
    let mut both: Vec<Timed> = Vec::new();
    for (made, at) in packets {
        let mut copy = made.clone();
        copy.envelope.ttl -= hops;
        both.extend([made.at_us(at), copy.at_us(at + after_us)]);
    }
    both.sort_by_key(|packet| packet.0);
    run(&both)
}

#[test]
fn every_packet_twice_is_no_retransmission_over_ipv6() {
    for stamps in [false, true] {
        for (after_us, hops) in [(30, 0), (5_000, 0), (30, 1), (60_000, 1)] {
            let summary = mirrored(stamps, after_us, hops);
            let flow = only(&summary);
            let counters = &flow.counters;
            let case = format!("timestamps {stamps}, {after_us} us, {hops} hops");
            // Another TTL shows a second capture point: its data packets.
            let copies = if hops == 0 { (20, 0) } else { (0, 20) };
            assert_eq!(counters.packets, 20, "{case}");
            assert_eq!((counters.duplicates, counters.other_point), copies, "{case}");
            assert_eq!((counters.retransmissions, flow.spurious.total()), (0, 0), "{case}");
            assert_eq!((counters.syn_retransmissions, counters.reordered), (0, 0), "{case}");
            assert_eq!(counters.unseen_bytes, 0, "{case}");
            assert!(!flow.stalls.iter().any(|stall| stall.cause == StallCause::SynTimer), "{case}");
        }
    }
}

#[test]
fn a_segment_that_comes_again_after_a_round_trip_is_a_retransmission_over_ipv6() {
    let client = || from_to(HERE, THERE);
    let server = || from_to(THERE, HERE);
    let packets = [
        client().flags(Flags::SYN).seq(1000, 0).ack(0).at_us(0),
        server().flags(Flags::SYN | Flags::ACK).seq(5000, 0).ack(1001).at_us(20_000),
        client().seq(1001, 0).ack(5001).at_us(20_010),
        client().seq(1001, 1000).ack(5001).at_us(30_000),
        client().seq(1001, 1000).ack(5001).at_us(250_000),
        server().seq(5001, 0).ack(2001).at_us(270_000),
        // The timestamp of a retransmission is a later one, even if it comes at once.
        client().seq(2001, 1000).ack(5001).stamps(10, 1).at_us(300_000),
        client().seq(2001, 1000).ack(5001).stamps(12, 1).at_us(302_000),
        server().seq(5001, 0).ack(3001).at_us(320_000),
    ];
    let summary = run(&packets);
    let counters = &only(&summary).counters;
    assert_eq!((counters.retransmissions, counters.duplicates), (2, 0));
}

/// A segment of identification 7; then the same segment again at `again_us`, and the ACK.
fn same_id(again_us: &[u64], dsack: bool) -> FlowSummary {
    let mut packets = handshake(30_000);
    let data = || by(true).seq(1001, 1000).ack(5001).id(7);
    packets.push(data().at_us(70_000));
    packets.extend(again_us.iter().map(|at| data().at_us(*at)));
    let last = again_us[again_us.len() - 1];
    packets.push(by(false).seq(5001, 0).ack(2001).at_us(last + 30_000));
    if dsack {
        packets.push(by(false).seq(5001, 0).ack(2001).sack(1001, 2001).at_us(last + 30_100));
    }
    only(&run(&packets)).clone()
}

#[test]
fn an_equal_identification_is_no_copy_at_the_distance_of_a_timer() {
    let flow = same_id(&[370_000, 970_000, 2_170_000], false);
    assert_eq!((flow.counters.packets, flow.counters.duplicates, flow.counters.retransmissions), (4, 0, 3));
    let rto = flow.stalls.iter().find(|stall| stall.cause == StallCause::RetransmissionTimer);
    assert_eq!(rto.map(|stall| (stall.count, stall.total_ns)), Some((3, 2_100_000_000)));
    assert_eq!(flow.round_trips, None);
}

#[test]
fn an_equal_identification_is_no_copy_when_a_timer_may_have_expired_within_the_round_trip() {
    // A round trip of 413 ms, and a sender whose timer is 310 ms.
    let mut packets = handshake(413_000);
    packets.push(by(true).seq(1001, 1000).ack(5001).id(7).at_us(500_000));
    packets.push(by(true).seq(1001, 1000).ack(5001).id(7).at_us(810_000));
    packets.push(by(false).seq(5001, 0).ack(2001).at_us(913_000));
    let summary = run(&packets);
    let counters = &only(&summary).counters;
    assert_eq!((counters.duplicates, counters.retransmissions), (0, 1));
}

#[test]
fn a_dsack_shows_whether_the_network_or_the_sender_repeated_a_packet() {
    // Sooner than a round trip: the network.
    let flow = same_id(&[75_000], true);
    let counters = &flow.counters;
    assert_eq!((counters.duplicates, counters.network_duplicates, counters.unexplained_dsacks), (1, 1, 0));
    assert_eq!((counters.retransmissions, flow.spurious.total()), (0, 0));
    // Later: the sender.
    let flow = same_id(&[370_000], true);
    assert_eq!((flow.counters.duplicates, flow.counters.retransmissions, flow.spurious.dsack), (0, 1, 1));
}

#[test]
fn on_a_short_path_a_copy_of_a_mirror_port_may_come_after_a_round_trip() {
    // A round trip of 20 us; the copy comes 400 us later with an equal identification, and no loss is reported.
    let data = || by(true).seq(1001, 1000).ack(5001).id(7);
    let counted = |loss: bool| {
        let mut packets = handshake(20);
        packets.extend([data().at_us(1_000), by(true).seq(2001, 1000).ack(5001).id(8).at_us(1_001)]);
        let acks =
            if loss { vec![by(false).seq(5001, 0).ack(1001).sack(2001, 3001).at_us(1_020)] } else { vec![] };
        packets.extend(acks);
        packets.push(data().at_us(1_400));
        packets.push(by(false).seq(5001, 0).ack(3001).at_us(1_420));
        let counters = only(&run(&packets)).counters;
        (counters.duplicates, counters.retransmissions)
    };
    assert_eq!(counted(false), (1, 0));
    assert_eq!(counted(true), (0, 1));
}

#[test]
fn copies_of_an_ack_are_no_duplicate_acks() {
    // A round trip of 300 us; the capture has the ACK and the data after it four times each.
    let mut packets = handshake(300);
    packets.push(by(true).seq(1001, 100).ack(5001).id(7).at_us(1_000));
    packets.extend((0..4).map(|n| by(false).seq(5001, 0).ack(1101).id(70).at_us(1_300 + 5 * n)));
    packets.extend((0..4).map(|n| by(true).seq(1101, 1000).ack(5001).id(8).at_us(5_000 + 1_000 * n)));
    packets.push(by(false).seq(5001, 0).ack(2101).id(71).at_us(9_000));
    let counters = only(&run(&packets)).counters;
    assert_eq!((counters.duplicates, counters.retransmissions), (3, 0));
}

#[test]
fn the_same_segment_in_another_vlan_passed_another_place() {
    // 60 ms later, on a path of 20 ms, without an identification.
    let counted = |vlan: u8| {
        let mut packets = handshake(20_000);
        packets.extend([70_000, 130_000].map(|at| by(true).seq(1001, 1000).ack(5001).at_us(at)));
        packets.push(by(false).seq(5001, 0).ack(2001).at_us(131_000));
        for (place, (_, bytes)) in packets.iter_mut().enumerate() {
            let tag: &[u8] = if place == 4 && vlan > 0 { &[0x81, 0, 0, vlan] } else { &[] };
            *bytes = [&[0; 12], tag, &[8, 0], bytes.as_slice()].concat();
        }
        let counters = only(&analyse(&pcap(1, &packets)).0).counters;
        (counters.duplicates, counters.retransmissions)
    };
    assert_eq!(counted(7), (1, 0));
    assert_eq!(counted(0), (0, 1));
}

#[test]
fn a_syn_that_comes_twice_at_once_was_sent_once() {
    let syn = |id: u16| by(true).flags(Flags::SYN).seq(1000, 0).ack(0).scale(7).id(id);
    let sent = |second: Made, after_us: u64| {
        let mut packets = handshake(1_000);
        packets[0] = syn(3).at_us(0);
        packets.insert(1, second.at_us(after_us));
        packets.sort_by_key(|packet| packet.0);
        packets.push(by(true).seq(1001, 100).ack(5001).at_us(3_000_000));
        only(&run(&packets)).counters.syn_retransmissions
    };
    assert_eq!(sent(syn(3), 200), 0);
    assert_eq!(sent(syn(4), 200), 1);
    assert_eq!(sent(syn(3), 1_000_000), 1);
}

/// What tells a copy from a retransmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Marks {
    /// IPv4 with an identification that counts packets.
    Counted,
    /// IPv4 with identification 0, or IPv6, with timestamps.
    Stamps,
    /// The same without timestamps.
    None,
}

/// Fifteen flights of eight segments over a path of 80 ms, and a capture that has each packet of the sender a second time `late_ms` later. The
/// fourth segment of flight 7 is lost behind both places, and sent again when the receiver has reported the eighth.
fn late_direction(marks: Marks, six: bool, late_ms: u64) -> FlowSummary {
    const TRIP: u64 = 80_000;
    let ends = |back: bool| match (six, back) {
        (true, false) => from_to(HERE, THERE),
        (true, true) => from_to(THERE, HERE),
        (false, back) => by(!back),
    };
    let stamp = |at: u64| 1_000 + u32::try_from(at / 1_000).expect("seconds");
    // It echoes the timestamp of the packet of time `of`.
    let answer = |made: Made, of: u64| if marks == Marks::Stamps { made.stamps(7, stamp(of)) } else { made };
    let mut sent = vec![
        (ends(false).flags(Flags::SYN).seq(1000, 0).ack(0), 0),
        (ends(false).seq(1001, 0).ack(5001), TRIP + 100),
    ];
    let syn_ack = ends(true).flags(Flags::SYN | Flags::ACK).seq(5000, 0).ack(1001);
    let mut packets = vec![answer(syn_ack, 0).at_us(TRIP)];
    for n in 0..120_u32 {
        let (flight, seq) = (n / 8, 1001 + 1000 * n);
        let at = (TRIP + 20_000) * u64::from(flight + 1) + 1_500 * u64::from(n % 8);
        sent.push((ends(false).seq(seq, 1000).ack(5001), at));
        let ack = ends(true).seq(5001, 0);
        let in_order = at - 1_500 * u64::from(n.saturating_sub(58));
        match n {
            59 => {}
            60..64 => {
                let ack = ack.ack(60_001).sack(61_001, seq + 1000);
                packets.push(answer(ack, in_order).at_us(at + TRIP));
            }
            _ => packets.push(answer(ack.ack(seq + 1000), at).at_us(at + TRIP)),
        }
        if n == 63 {
            let again = at + TRIP + 10;
            sent.push((ends(false).seq(60_001, 1000).ack(5001), again));
            let ack = ends(true).seq(5001, 0).ack(65_001);
            packets.push(answer(ack, again).at_us(again + TRIP));
        }
    }
    sent.sort_by_key(|(_, at)| *at);
    for (number, (made, at)) in (100_u16..).zip(sent) {
        let made = match marks {
            Marks::Counted => made.id(number),
            Marks::Stamps => made.stamps(stamp(at), 7),
            Marks::None => made,
        };
        packets.extend([made.clone().at_us(at), made.at_us(at + 1_000 * late_ms)]);
    }
    packets.sort_by_key(|packet| packet.0);
    only(&run(&packets)).clone()
}

#[test]
fn a_direction_that_was_recorded_twice_with_a_delay_has_no_retransmissions_but_its_own() {
    use Marks::{Counted, None, Stamps};
    for (marks, six) in [(Counted, false), (Stamps, false), (Stamps, true), (None, false), (None, true)] {
        for late_ms in [30, 80, 150] {
            let flow = late_direction(marks, six, late_ms);
            let counters = &flow.counters;
            let case = format!("{marks:?}, IPv6 {six}, {late_ms} ms");
            assert_eq!((counters.retransmissions, counters.duplicates), (1, 121), "{case}");
            assert_eq!((counters.packets, flow.spurious.total()), (121, 0), "{case}");
            assert!(
                flow.unknown.iter().any(|text| text.contains("100% of the data packets twice")),
                "{case}"
            );
        }
    }
}
