//! Captures of several points in one file, and the identifications of packets.

use crate::made::{Made, Timed, analyse, by, handshake, pcap};
use tcpassay_capture::{Place, Summary};
use tcpassay_wire::Flags;

fn run(packets: &[Timed]) -> Summary {
    analyse(&pcap(101, packets)).0
}

/// A connection of 30 data packets over one path of 40 ms with two routers, captured at both ends and merged without their names.
fn merged() -> Vec<Timed> {
    let (mut client, mut server) = (0_u16, 0_u16);
    let mut both: Vec<Timed> = Vec::new();
    let mut send = |mut made: Made, from_client: bool, at: u64| {
        let id = if from_client { &mut client } else { &mut server };
        *id += 1;
        made.envelope.id = *id;
        let mut far = made.clone();
        far.envelope.ttl -= 2;
        both.extend([made.at_us(at), far.at_us(at + 20_000)]);
    };
    send(by(true).flags(Flags::SYN).seq(1000, 0).ack(0), true, 0);
    send(by(false).flags(Flags::SYN | Flags::ACK).seq(5000, 0).ack(1001), false, 20_010);
    send(by(true).seq(1001, 0).ack(5001), true, 40_020);
    for n in 0..30_u32 {
        let at = 50_000 + 40_100 * u64::from(n);
        send(by(true).seq(1001 + 1000 * n, 1000).ack(5001), true, at);
        send(by(false).seq(5001, 0).ack(2001 + 1000 * n), false, at + 20_010);
    }
    both.sort_by_key(|packet| packet.0);
    both
}

#[test]
fn of_two_points_in_one_file_one_is_used() {
    let summary = run(&merged());
    let flow = &summary.flows[0];
    assert_eq!((summary.connections, flow.place), (1, Place::Sender));
    let trips = flow.round_trips.expect("round trips");
    // The ACKs pass the other point half a round trip earlier.
    assert_eq!((trips.min_ns, trips.max_ns), (40_010_000, 40_020_000));
    assert_eq!((flow.counters.packets, flow.counters.retransmissions, flow.counters.duplicates), (30, 0, 0));
    assert!(flow.counters.other_point == 30, "{:?}", flow.counters);
    let said = flow.unknown.join("\n");
    assert!(said.contains("two capture points of this connection (TTL 64 and 62)"), "{said}");
    assert!(said.contains("nearer to 192.0.2.1:40000 are used"), "{said}");
}

#[test]
fn the_point_is_the_same_when_the_file_begins_later() {
    let packets: Vec<Timed> = merged().into_iter().skip(14).collect();
    let summary = run(&packets);
    let flow = &summary.flows[0];
    assert_eq!((flow.counters.retransmissions, flow.counters.duplicates), (0, 0));
    let trips = flow.round_trips.expect("round trips");
    assert_eq!((trips.count, trips.max_ns), (26, 40_010_000));
}

#[test]
fn packets_of_which_one_direction_is_copied_have_one_point() {
    let packets: Vec<Timed> = merged();
    // The ACKs of the far point only: TTL 62.
    let one_way: Vec<Timed> =
        packets.into_iter().filter(|(_, bytes)| bytes[15] == 1 || bytes[8] == 62).collect();
    let summary = run(&one_way);
    let flow = &summary.flows[0];
    assert_eq!((flow.counters.packets, flow.counters.duplicates, flow.counters.other_point), (30, 30, 0));
    assert_eq!(flow.counters.unseen_bytes, 0);
}

#[test]
fn interfaces_of_a_cooked_capture_are_points_of_a_router() {
    // Linux cooked capture v2 of a router that bridges: the TTL stays, the interface differs.
    let cooked = |device: u8, (at, bytes): &Timed| {
        let mut frame = vec![8, 0, 0, 0, 0, 0, 0, device];
        frame.extend([0; 12]);
        frame.extend(bytes);
        (at + if device == 2 { 0 } else { 40_000 }, frame)
    };
    let mut packets = handshake(20_000);
    for n in 0..10_u32 {
        let at = 30_000 + 20_100 * u64::from(n);
        packets.push(by(true).seq(1001 + 1000 * n, 1000).ack(5001).at_us(at));
        packets.push(by(false).seq(5001, 0).ack(2001 + 1000 * n).at_us(at + 20_000));
    }
    let mut both: Vec<Timed> = Vec::new();
    for packet in &packets {
        // From the client: interface 2 first; from the server: interface 3 first.
        let devices = if packet.1[15] == 1 { [2, 3] } else { [3, 2] };
        let (first, mut second) = (cooked(devices[0], packet), cooked(devices[1], packet));
        second.0 = first.0 + 40_000;
        both.extend([first, second]);
    }
    both.sort_by_key(|packet| packet.0);
    let flow = &analyse(&pcap(276, &both)).0.flows[0];
    assert_eq!((flow.counters.packets, flow.counters.duplicates, flow.counters.retransmissions), (10, 0, 0));
    let said = flow.unknown.join("\n");
    assert!(said.contains("(interfaces 2 and 3)"), "{said}");
}

/// Eight segments of which the third is missing, and then a packet with its data and identification `id`, `after_us` later.
fn filled(ids: impl Fn(u16) -> u16, id: u16, after_us: u64) -> (u64, u64) {
    let mut packets = handshake(20_000);
    let at = |n: u16| 30_000 + 100 * u64::from(n);
    for n in (0..8_u16).filter(|n| *n != 2) {
        packets.push(by(true).seq(1001 + 1000 * u32::from(n), 1000).ack(5001).id(ids(n)).at_us(at(n)));
    }
    packets.push(by(true).seq(3001, 1000).ack(5001).id(id).at_us(at(3) + after_us));
    packets.push(by(false).seq(5001, 0).ack(9001).at_us(at(3) + after_us + 19_900));
    packets.sort_by_key(|packet| packet.0);
    let counters = run(&packets).flows[0].counters;
    (counters.reordered, counters.retransmissions)
}

#[test]
fn a_counted_identification_shows_whether_a_packet_was_sent_again_or_came_late() {
    let counted = |n: u16| 100 + n;
    // Sooner than a round trip, but sent after the others; later than a round trip, but sent before them.
    assert_eq!(filled(counted, 109, 15_000), (0, 1));
    assert_eq!(filled(counted, 102, 30_000), (1, 0));
    // A device repeats packets with their identification after a timeout.
    assert_eq!(filled(counted, 102, 300_000), (0, 1));
    // Little-endian counters.
    assert_eq!(filled(|n| (100 + n).swap_bytes(), 109_u16.swap_bytes(), 15_000), (0, 1));
    // Random numbers show nothing, time decides.
    let random = |n: u16| 7 + n.wrapping_mul(23_456);
    assert_eq!(filled(random, random(2) + 5, 15_000), (1, 0));
    assert_eq!(filled(random, random(2), 30_000), (0, 1));
}

#[test]
fn the_same_counted_identification_is_the_same_packet() {
    // 50 ms later on a path of 1 ms.
    let sent = |counts: bool| {
        let mut packets = handshake(1_000);
        let id = |n: u16| if counts { 100 + n } else { 7 + n.wrapping_mul(23_456) };
        for n in 0..8_u16 {
            let made = by(true).seq(1001 + 100 * u32::from(n), 100).ack(5001).id(id(n));
            packets.push(made.clone().at_us(10_000 + 5_000 * u64::from(n)));
            if n >= 5 {
                packets.push(made.at_us(60_000 + 5_000 * u64::from(n)));
            }
        }
        packets.push(by(false).seq(5001, 0).ack(1801).at_us(100_000));
        packets.sort_by_key(|packet| packet.0);
        let counters = run(&packets).flows[0].counters;
        (counters.duplicates, counters.retransmissions)
    };
    assert_eq!(sent(true), (3, 0));
    assert_eq!(sent(false), (0, 3));
}

#[test]
fn one_report_of_a_duplicate_is_about_one_packet() {
    // The first copy was lost before the capture, the second one arrives, and the third one was acknowledged before it was sent.
    let mut packets = handshake(20_000);
    packets.push(by(true).seq(2001, 1000).ack(5001).at_us(30_000));
    packets.push(by(true).seq(1001, 1000).ack(5001).at_us(60_000));
    packets.push(by(false).seq(5001, 0).ack(3001).at_us(80_000));
    packets.push(by(true).seq(1001, 1000).ack(5001).at_us(300_000));
    packets.push(by(false).seq(5001, 0).ack(3001).sack(1001, 2001).at_us(320_000));
    let flow = &run(&packets).flows[0];
    assert_eq!(flow.counters.retransmissions, 2);
    assert_eq!((flow.spurious.acknowledged_before, flow.spurious.dsack, flow.spurious.total()), (1, 0, 1));
    // Two transmissions more than needed, and one report: of the last.
    let mut packets = handshake(20_000);
    for at in [30_000, 260_000, 300_000] {
        packets.push(by(true).seq(1001, 1000).ack(5001).at_us(at));
    }
    packets.push(by(false).seq(5001, 0).ack(2001).at_us(320_000));
    packets.push(by(false).seq(5001, 0).ack(2001).sack(1001, 2001).at_us(321_000));
    let flow = &run(&packets).flows[0];
    assert_eq!((flow.counters.retransmissions, flow.spurious.total()), (2, 1));
}
