//! Tunnels: the inner packets are analysed, and what is not decoded is named.

use crate::made::{Timed, analyse, by, handshake, pcap};
use std::collections::BTreeMap;
use tcpassay_capture::link::Undecoded;
use tcpassay_capture::{DEEPEST, Summary, TunnelKind};
use tcpassay_wire::Flags;

/// The optional fields of GTP-U and two extension headers, the second one of eight bytes.
const EXTENSIONS: [u8; 16] = [0, 7, 0, 0x85, 1, 1, 2, 0x20, 2, 0, 0, 0, 0, 0, 0, 0];
const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

/// An IPv4 packet from 198.51.100.1 to 198.51.100.2, or back.
fn ipv4(protocol: u8, payload: &[u8], forth: bool) -> Vec<u8> {
    let total = u16::try_from(20 + payload.len()).expect("small").to_be_bytes();
    let (from, to) = if forth { (1, 2) } else { (2, 1) };
    let header =
        [&[0x45, 0][..], &total, &[0, 0, 0, 0, 64, protocol, 0, 0, 198, 51, 100, from, 198, 51, 100, to]];
    [&header.concat(), payload].concat()
}

fn ipv6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).expect("small").to_be_bytes();
    [&[0x60, 0, 0, 0][..], &len, &[protocol, 64], &[0x20; 32], payload].concat()
}

fn udp(port: u16, payload: &[u8], forth: bool) -> Vec<u8> {
    let len = u16::try_from(8 + payload.len()).expect("small").to_be_bytes();
    ipv4(17, &[&[0xc0, 0][..], &port.to_be_bytes(), &len, &[0, 0], payload].concat(), forth)
}

fn ethernet(packet: &[u8]) -> Vec<u8> {
    let kind = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&MACS[..], &kind, packet].concat()
}

/// SYN, SYN-ACK, ACK, 100 bytes of data, and the ACK of them after 10 ms.
fn connection() -> Vec<Timed> {
    let mut packets = handshake(10_000);
    packets.push(by(true).seq(1001, 100).ack(5001).window(500).at_us(20_000));
    packets.push(by(false).seq(5001, 0).ack(1101).window(500).at_us(30_000));
    packets
}

/// The connection with each packet put into a tunnel; the client's packets go forth.
fn tunnelled(wrap: impl Fn(&[u8], bool) -> Vec<u8>) -> Vec<Timed> {
    let put = |(at, packet): &Timed| (*at, wrap(packet, packet[15] == 1));
    connection().iter().map(put).collect()
}

fn summary(packets: &[Timed]) -> Summary {
    analyse(&pcap(101, packets)).0
}

/// The name of the tunnels, if the connection in them was analysed whole.
fn name(wrap: impl Fn(&[u8], bool) -> Vec<u8>) -> String {
    let summary = summary(&tunnelled(wrap));
    assert_eq!((summary.connections, summary.packets.segments), (1, 5), "{:?}", summary.packets);
    let flow = &summary.flows[0];
    assert_eq!((flow.sender.as_str(), flow.receiver.as_str()), ("192.0.2.1:40000", "192.0.2.2:80"));
    assert_eq!((flow.counters.bytes, flow.counters.retransmissions), (100, 0));
    assert_eq!(flow.round_trips.map(|trips| trips.max_ns), Some(10_000_000));
    assert!(!flow.unknown.iter().any(|text| text.contains("handshake")), "{:?}", flow.unknown);
    flow.tunnel.clone()
}

/// A header of GRE: flags, protocol, and what the flags announce.
fn gre(flags: u16, protocol: u16, more: &[u8], payload: &[u8]) -> Vec<u8> {
    [&flags.to_be_bytes()[..], &protocol.to_be_bytes(), more, payload].concat()
}

#[test]
fn gre_has_checksums_keys_and_numbers_in_all_combinations() {
    for bits in 0..8_u16 {
        let flags = (bits & 1) << 15 | (bits & 2) << 12 | (bits & 4) << 10;
        let fields = [(0x8000, [1, 2, 0, 0]), (0x2000, [0, 0, 0, 7]), (0x1000, [0, 0, 0, 9])];
        let more: Vec<u8> =
            fields.iter().filter(|(bit, _)| flags & bit != 0).flat_map(|(_, bytes)| *bytes).collect();
        let told = name(|packet, forth| ipv4(47, &gre(flags, 0x0800, &more, packet), forth));
        let key = if bits & 2 != 0 { " key 7" } else { "" };
        assert_eq!(told, format!("GRE{key} (198.51.100.1 > 198.51.100.2)"));
    }
    let told = name(|packet, forth| ipv4(47, &gre(0, 0x6558, &[], &ethernet(packet)), forth));
    assert_eq!(told, "GRE (198.51.100.1 > 198.51.100.2)");
    // MPLS in GRE (RFC 4023), and PPTP with a number and an acknowledgement.
    name(|packet, forth| ipv4(47, &gre(0, 0x8847, &[], &[&[0, 0, 17, 64], packet].concat()), forth));
    let numbers = [0, 42, 0, 5, 0, 0, 0, 1, 0, 0, 0, 1];
    let told = name(|packet, forth| {
        ipv4(47, &gre(0x3081, 0x880b, &numbers, &[&[0xff, 3, 0x21], packet].concat()), forth)
    });
    assert_eq!(told, "PPTP call 5 (198.51.100.1 > 198.51.100.2)");
}

#[test]
fn mirrored_frames_of_erspan_are_what_they_are() {
    let told = name(|packet, forth| ipv4(47, &gre(0, 0x88be, &[], &ethernet(packet)), forth));
    assert_eq!(told, "ERSPAN I (198.51.100.1 > 198.51.100.2)");
    // The session has a number of its own for each direction.
    let second = |packet: &[u8], forth: bool| {
        let header = [0x10, 5, 0, if forth { 21 } else { 22 }, 0, 0, 0, 1];
        let frame = [&header[..], &ethernet(packet)].concat();
        ipv4(47, &gre(0x1000, 0x88be, &[0, 0, 0, 3], &frame), true)
    };
    assert_eq!(name(second), "ERSPAN II session 21 (198.51.100.1 > 198.51.100.2)");
    let third = |with_platform: bool| {
        move |packet: &[u8], forth: bool| {
            let header = [0x20, 5, 0, 21, 0, 0, 0, 1, 0, 0, 0, u8::from(with_platform)];
            let platform = if with_platform { vec![1; 8] } else { vec![] };
            let frame = [&header[..], &platform, &ethernet(packet)].concat();
            ipv4(47, &gre(0x1000, 0x22eb, &[0, 0, 0, 3], &frame), forth)
        }
    };
    for with_platform in [false, true] {
        assert_eq!(name(third(with_platform)), "ERSPAN III session 21 (198.51.100.1 > 198.51.100.2)");
    }
}

#[test]
fn ip_in_ip_is_named_by_both_versions() {
    assert_eq!(name(|packet, forth| ipv4(4, packet, forth)), "IP in IP (198.51.100.1 > 198.51.100.2)");
    let ends = "(2020:2020:2020:2020:2020:2020:2020:2020 > 2020:2020:2020:2020:2020:2020:2020:2020)";
    assert_eq!(name(|packet, _| ipv6(4, packet)), format!("4in6 {ends}"));
    // Destination options before the packet (RFC 2473 section 4.1).
    let limited = |packet: &[u8]| ipv6(60, &[&[4, 0, 4, 1, 5, 1, 1, 0], packet].concat());
    assert_eq!(name(|packet, _| limited(packet)), format!("4in6 {ends}"));
    let both = [("6in4", false), ("6in6", true)];
    for (kind, v6) in both {
        let (at, packet) =
            crate::made::from_to("[2001:db8::1]:40000", "[2001:db8::2]:80").seq(1, 100).at_us(0);
        let outer = if v6 { ipv6(41, &packet) } else { ipv4(41, &packet, true) };
        let summary = summary(&[(at, outer)]);
        assert_eq!(summary.flows[0].sender, "[2001:db8::1]:40000");
        assert!(summary.flows[0].tunnel.starts_with(kind), "{}", summary.flows[0].tunnel);
    }
}

#[test]
fn vxlan_geneve_and_gtp_u_are_named_by_their_numbers() {
    let vni = [0, 0, 100, 0];
    let vxlan = |port| {
        move |packet: &[u8], forth: bool| {
            udp(port, &[&[8, 0, 0, 0][..], &vni, &ethernet(packet)].concat(), forth)
        }
    };
    assert_eq!(name(vxlan(4789)), "VXLAN VNI 100 (198.51.100.1 > 198.51.100.2)");
    assert_eq!(name(vxlan(8472)), "VXLAN VNI 100 (198.51.100.1 > 198.51.100.2)");
    let generic = |packet: &[u8], forth| udp(4790, &[&[0x0c, 0, 0, 1][..], &vni, packet].concat(), forth);
    assert_eq!(name(generic), "VXLAN VNI 100 (198.51.100.1 > 198.51.100.2)");
    // Geneve with two words of options.
    let geneve = |packet: &[u8], forth| {
        let head = [2, 0, 0x65, 0x58, 0, 0, 100, 0, 1, 2, 3, 1, 9, 9, 9, 9];
        udp(6081, &[&head[..], &ethernet(packet)].concat(), forth)
    };
    assert_eq!(name(geneve), "Geneve VNI 100 (198.51.100.1 > 198.51.100.2)");
    let plain = |packet: &[u8], forth| udp(6081, &[&[0, 0, 8, 0, 0, 0, 100, 0][..], packet].concat(), forth);
    assert_eq!(name(plain), "Geneve VNI 100 (198.51.100.1 > 198.51.100.2)");
    // Each direction of GTP-U has its own TEID. With a number; with two extension headers, of which the second has eight bytes.
    let gtp = |flags: u8, more: &'static [u8]| {
        move |packet: &[u8], forth: bool| {
            let head = [flags, 255, 0, 0, 0, 0, 0x10, if forth { 1 } else { 2 }];
            udp(2152, &[&head[..], more, packet].concat(), forth)
        }
    };
    let told = "GTP-U TEID 0x00001001 (198.51.100.1 > 198.51.100.2)";
    assert_eq!(name(gtp(0x30, &[])), told);
    assert_eq!(name(gtp(0x32, &[0, 7, 0, 0])), told);
    assert_eq!(name(gtp(0x36, &EXTENSIONS)), told);
}

#[test]
fn the_same_ends_in_different_tunnels_are_different_connections() {
    let vxlan = |vni: u8| {
        move |packet: &[u8], forth: bool| {
            udp(4789, &[&[8, 0, 0, 0, 0, 0, vni, 0][..], &ethernet(packet)].concat(), forth)
        }
    };
    let mut packets = tunnelled(vxlan(1));
    packets.extend(tunnelled(vxlan(2)));
    packets.extend(tunnelled(|packet, forth| ipv4(4, packet, forth)));
    packets.extend(connection());
    packets.sort_by_key(|(at, _)| *at);
    let summary = summary(&packets);
    assert_eq!((summary.connections, summary.packets.segments), (4, 20));
    let tunnels: Vec<&str> = summary.flows.iter().map(|flow| flow.tunnel.as_str()).collect();
    let ends = "(198.51.100.1 > 198.51.100.2)";
    let expected = [format!("VXLAN VNI 1 {ends}"), format!("VXLAN VNI 2 {ends}"), format!("IP in IP {ends}")];
    assert_eq!(tunnels[..3], expected);
    assert_eq!(tunnels[3], "");
    assert!(summary.flows.iter().all(|flow| flow.counters.bytes == 100 && flow.counters.duplicates == 0));
    assert_eq!(summary.packets.tunnels, BTreeMap::from([(TunnelKind::IpInIp, 5), (TunnelKind::Vxlan, 10)]));
    let note = "TCP segments in tunnels, of which the inner packets were analysed: IP in IP 5, VXLAN 10.";
    assert!(summary.notes.iter().any(|one| one == note), "{:?}", summary.notes);
}

#[test]
fn replies_that_take_no_tunnel_belong_to_the_connection() {
    // A load balancer tunnels to the server, which answers directly.
    let told = name(|packet, forth| if forth { ipv4(4, packet, true) } else { packet.to_vec() });
    assert_eq!(told, "IP in IP (198.51.100.1 > 198.51.100.2)");
}

#[test]
fn tunnels_are_decoded_to_a_depth_and_the_rest_is_counted() {
    let deep = |depth: usize| {
        move |packet: &[u8], forth: bool| (0..depth).fold(packet.to_vec(), |inner, _| ipv4(4, &inner, forth))
    };
    let ends = "(198.51.100.1 > 198.51.100.2)";
    assert_eq!(DEEPEST, 4);
    assert_eq!(name(deep(4)), format!("IP in IP in IP in IP in IP in IP in IP in IP {ends}"));
    let summary = summary(&tunnelled(deep(5)));
    assert_eq!(summary.packets.undecoded, BTreeMap::from([(Undecoded::TooDeep, 5)]));
    let note = "5 packets: more tunnels in each other than are decoded, which are not decoded.";
    assert!(summary.notes.iter().any(|one| one == note), "{:?}", summary.notes);
}

#[test]
fn what_is_not_decoded_is_counted_and_named() {
    let of = |packets: &[Vec<u8>]| {
        let packets: Vec<Timed> = packets.iter().map(|packet| (0, packet.clone())).collect();
        let counts = summary(&packets).packets;
        assert_eq!(counts.segments, 0);
        (counts.undecoded, counts.other, counts.short + counts.malformed)
    };
    let one = |what| (BTreeMap::from([(what, 1)]), 0, 0);
    assert_eq!(of(&[ipv4(50, &[0; 40], true)]), one(Undecoded::Esp));
    assert_eq!(of(&[ipv6(50, &[0; 40])]), one(Undecoded::Esp));
    assert_eq!(of(&[udp(4500, &[0, 0, 0, 9, 1, 2], true)]), one(Undecoded::Esp));
    // Routing, and a version that does not exist.
    assert_eq!(of(&[ipv4(47, &gre(0x4000, 0x0800, &[], &[0x45; 40]), true)]), one(Undecoded::UnknownTunnel));
    assert_eq!(of(&[ipv4(47, &gre(3, 0x0800, &[], &[0x45; 40]), true)]), one(Undecoded::UnknownTunnel));
    assert_eq!(of(&[udp(2152, &[0x30, 255, 0, 0, 0, 0, 0, 1, 2, 0], true)]), one(Undecoded::UnknownTunnel));
    // A frame of IEEE 802.11 of an access point; a payload of Geneve without a known type.
    assert_eq!(of(&[ipv4(47, &gre(0, 0x8200, &[], &[0x88; 60]), true)]), one(Undecoded::UnknownTunnel));
    assert_eq!(of(&[udp(6081, &[0, 0, 0x88, 0xb5, 0, 0, 7, 0, 1, 2], true)]), one(Undecoded::UnknownTunnel));
    // A later fragment of a tunnelled packet.
    let mut fragment = ipv4(47, &[0; 40], true);
    fragment[7] = 2;
    assert_eq!(of(&[fragment]), one(Undecoded::TunnelFragment));
    // IKE, signalling of GTP, DNS from the port of VXLAN, tunnels with ARP, a keepalive of GRE: other protocols.
    let other = [
        ipv4(47, &gre(0, 0x0806, &[], &[0; 28]), true),
        ipv4(47, &gre(0, 0, &[], &[]), true),
        udp(4500, &[0, 0, 0, 0, 1, 2], true),
        udp(2152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0], true),
        udp(4789, &[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0], true),
        udp(4789, &[&[8, 0, 0, 0, 0, 0, 1, 0][..], &MACS, &[8, 6, 0, 1]].concat(), true),
    ];
    assert_eq!(of(&other), (BTreeMap::new(), 6, 0));
    // Cut in the header of the tunnel and in that of the packet in it, and a length that contradicts.
    let whole = ipv4(47, &gre(0, 0x0800, &[], &by(true).seq(1, 100).at_us(0).1), true);
    assert_eq!(of(&[whole[..23].to_vec(), whole[..50].to_vec()]), (BTreeMap::new(), 0, 2));
}

#[test]
fn the_first_fragment_of_a_tunnelled_packet_has_the_length_of_the_inner_one() {
    let (at, packet) = by(true).seq(1001, 1400).ack(5001).window(500).at_us(20_000);
    let mut first = ipv4(4, &packet[..800], true);
    first[6] = 0x20;
    let mut second = ipv4(4, &packet[800..], true);
    second[7] = 100;
    let summary = summary(&[(at, first), (at, second)]);
    assert_eq!(summary.flows[0].counters.bytes, 1400);
    assert_eq!(summary.packets.undecoded, BTreeMap::from([(Undecoded::TunnelFragment, 1)]));
}

#[test]
fn a_packet_without_a_length_in_a_tunnel_has_that_of_the_tunnel() {
    // IPv4 total length 0 of the inner packet, as before segmentation.
    let told = |outer: &dyn Fn(&[u8]) -> Vec<u8>| {
        let (at, mut packet) = by(true).seq(1001, 3000).flags(Flags::ACK).at_us(0);
        packet[2..4].fill(0);
        summary(&[(at, outer(&packet))]).flows[0].counters.bytes
    };
    assert_eq!(told(&|packet| ipv4(4, packet, true)), 3000);
    assert_eq!(told(&|packet| udp(6081, &[&[0, 0, 8, 0, 0, 0, 1, 0][..], packet].concat(), true)), 3000);
    let both = |packet: &[u8]| {
        let mut outer = udp(4789, &[&[8, 0, 0, 0, 0, 0, 1, 0][..], &ethernet(packet)].concat(), true);
        outer[2..4].fill(0);
        outer
    };
    assert_eq!(told(&both), 3000);
}

#[test]
fn too_many_ways_between_the_same_ends_are_counted() {
    let packet = by(true).seq(1001, 100).ack(5001).window(500).at_us(0);
    let packets: Vec<Timed> = (0..70)
        .map(|vni| {
            let frame = [&[8, 0, 0, 0, 0, 0, vni, 0][..], &ethernet(&packet.1)].concat();
            (packet.0, udp(4789, &frame, true))
        })
        .collect();
    let summary = summary(&packets);
    assert_eq!((summary.connections, summary.packets.too_many_tunnels), (64, 6));
}
