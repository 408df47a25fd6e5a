//! ICMP errors about the segments of connections.

use crate::made::{CLIENT, SERVER, Timed, analyse, by, handshake, pcap};
use tcpassay_capture::{IcmpErrors, IcmpKind, Summary};
use tcpassay_wire::Flags;

const ROUTER: [u8; 4] = [198, 51, 100, 9];
const START: u64 = 1_700_000_000_000_000_000;

fn run(packets: &[Timed]) -> Summary {
    analyse(&pcap(101, packets)).0
}

/// An error of `kind` and `code` with `rest` in its second word, about the first `quoted` bytes of a packet.
fn error(at_us: u64, [kind, code]: [u8; 2], rest: u32, packet: &[u8], quoted: usize) -> Timed {
    let quoted = &packet[..quoted];
    let total = u16::try_from(28 + quoted.len()).expect("a packet");
    let mut bytes = vec![0x45, 0];
    bytes.extend(total.to_be_bytes());
    bytes.extend([0, 0, 0, 0, 60, 1, 0, 0]);
    bytes.extend(ROUTER);
    bytes.extend(&packet[12..16]);
    bytes.extend([kind, code, 0, 0]);
    bytes.extend(rest.to_be_bytes());
    bytes.extend(quoted);
    (START + at_us * 1000, bytes)
}

#[test]
fn a_link_with_a_smaller_mtu_is_named_with_its_router() {
    let mut packets = handshake(20_000);
    for (n, at) in [30_000, 250_000, 650_000].into_iter().enumerate() {
        let (at, big) = by(true).seq(1001, 1448).ack(5001).at_us(at);
        let after = (at - START) / 1000 + 500;
        // The header and eight bytes suffice. The second message does not state the MTU.
        packets.push(error(after, [3, 4], if n == 1 { 0 } else { 1310 }, &big, 28));
        packets.push((at, big));
    }
    packets.push(by(true).seq(1001, 1258).ack(5001).at_us(700_000));
    packets.push(by(false).seq(5001, 0).ack(2259).at_us(720_000));
    packets.sort_by_key(|packet| packet.0);
    let summary = run(&packets);
    let flow = &summary.flows[0];
    let errors = IcmpErrors {
        kind: IcmpKind::TooBig,
        router: "198.51.100.9".to_owned(),
        about: CLIENT.to_owned(),
        count: 3,
        first_ns: 30_500_000,
        last_ns: 650_500_000,
        length: 1488,
        mtu: 1310,
    };
    assert_eq!(flow.icmp, [errors]);
    let words = flow.words.join("\n");
    assert!(
        words.contains("packet too big (fragmentation needed), the MTU of the next link is 1310 (3 times"),
        "{words}"
    );
    assert_eq!(
        (summary.packets.icmp_errors, summary.packets.icmp_of_others, summary.packets.other),
        (3, 0, 0)
    );
}

#[test]
fn an_unreachable_host_explains_syns_without_an_answer() {
    let mut packets = Vec::new();
    for at in [0, 1_000_000, 3_000_000] {
        packets.push(by(true).flags(Flags::SYN).seq(1000, 0).ack(0).at_us(at));
        packets.push(error(at + 100, [3, 1], 0, &packets[0].1.clone(), 28));
    }
    let summary = run(&packets);
    let one = &summary.unopened[0];
    assert_eq!((one.syns, one.icmp.len(), one.icmp[0].count), (3, 1, 3));
    assert_eq!(one.icmp[0].kind, IcmpKind::HostUnreachable);
    assert!(one.words.ends_with(": host unreachable (3 times, first at 0.000100)"), "{}", one.words);
}

#[test]
fn errors_about_the_segments_of_both_ends_go_to_the_flow_that_has_data() {
    let mut packets = handshake(20_000);
    packets.push(by(true).seq(1001, 100).ack(5001).at_us(30_000));
    let answer = by(false).seq(5001, 0).ack(1101).at_us(50_000);
    packets.push(error(60_000, [11, 0], 0, &answer.1, 28));
    packets.insert(4, answer);
    let summary = run(&packets);
    assert_eq!(summary.flows[0].icmp[0].kind, IcmpKind::TtlExceeded);
    assert_eq!(summary.flows[0].icmp[0].about, SERVER);
}

#[test]
fn an_error_about_a_connection_without_data_is_a_note() {
    let mut packets = handshake(20_000);
    let answer = by(true).seq(1001, 0).ack(5001).at_us(30_000);
    packets.push(error(31_000, [3, 13], 0, &answer.1, 28));
    packets.insert(3, answer);
    let notes = run(&packets).notes.join("\n");
    let said = "ICMP of 198.51.100.9 about packets of 192.0.2.1:40000 (up to 40B): prohibited by an administrator (once, first at 0.031000); \
                the connection has no data in the capture.";
    assert!(notes.contains(said), "{notes}");
}

#[test]
fn an_error_without_ports_or_about_an_unknown_connection_belongs_to_none() {
    let mut packets = handshake(20_000);
    packets.push(by(true).seq(1001, 100).ack(5001).at_us(30_000));
    let known = packets[3].1.clone();
    let mut unknown = known.clone();
    unknown[21] ^= 1;
    // A number far from those of the connection; seven bytes behind the IP header; a datagram of UDP; an echo reply.
    let mut far = known.clone();
    far[24] ^= 0x60;
    let mut udp = known.clone();
    udp[9] = 17;
    packets.push(error(31_000, [3, 4], 1310, &unknown, 28));
    packets.push(error(32_000, [3, 4], 1310, &far, 28));
    packets.push(error(33_000, [3, 4], 1310, &known, 27));
    packets.push(error(34_000, [3, 3], 0, &udp, 28));
    packets.push(error(35_000, [0, 0], 0, &known, 28));
    let summary = run(&packets);
    assert!(summary.flows[0].icmp.is_empty(), "{:?}", summary.flows[0].icmp);
    let counts = &summary.packets;
    assert_eq!((counts.icmp_errors, counts.icmp_of_others, counts.other), (2, 2, 3));
    let notes = summary.notes.join("\n");
    assert!(notes.contains("2 ICMP errors about connections that are not in the capture"), "{notes}");
}

#[test]
fn packet_too_big_of_ipv6_states_the_mtu_in_its_second_word() {
    let from = crate::made::from_to("[2001:db8::1]:40000", "[2001:db8::2]:443");
    let (at, big) = from.clone().seq(1001, 1440).ack(5001).at_us(0);
    let next = from.seq(2441, 100).ack(5001).at_us(10);
    let mut bytes = vec![0x60, 0, 0, 0, 0, 56, 58, 64];
    bytes.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    bytes.extend(&big[8..24]);
    bytes.extend([2, 0, 0, 0, 0, 0, 5, 0]);
    bytes.extend(&big[..48]);
    let summary = run(&[(at, big), next, (at + 500_000, bytes)]);
    let error = &summary.flows[0].icmp[0];
    assert_eq!((error.kind, error.mtu, error.length), (IcmpKind::TooBig, 1280, 1500));
    assert_eq!(error.router, "2001:db8::9");
}
