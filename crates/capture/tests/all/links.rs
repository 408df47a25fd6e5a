//! Link layers, byte by byte.

use crate::made::{analyse, by, from_to, pcap};
use tcpassay_capture::LinkType;
use tcpassay_capture::link::{IpStart, NetworkLayer, Undecoded, network};

/// Version 4 and version 6, as first bytes of IP packets.
const V4: u8 = 0x45;
const V6: u8 = 0x60;
const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

fn at(at: usize) -> NetworkLayer {
    within(at, u32::MAX)
}

/// An IP packet that the link layer says has so many bytes.
fn within(at: usize, most: u32) -> NetworkLayer {
    NetworkLayer::Ip(IpStart { at, most, vlan: 0, device: 0 })
}

fn tagged(at: usize, vlan: u16) -> NetworkLayer {
    NetworkLayer::Ip(IpStart { at, most: u32::MAX, vlan, device: 0 })
}

fn place(link: u16, parts: &[&[u8]]) -> NetworkLayer {
    network(LinkType(link), &parts.concat())
}

#[test]
fn ethernet_has_ip_behind_its_type_and_behind_vlan_tags() {
    assert_eq!(place(1, &[&MACS, &[8, 0, V4]]), at(14));
    assert_eq!(place(1, &[&MACS, &[0x86, 0xdd, V6]]), at(14));
    assert_eq!(place(1, &[&MACS, &[0x81, 0, 0, 7, 8, 0, V4]]), tagged(18, 7));
    assert_eq!(place(1, &[&MACS, &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 7, 0x86, 0xdd, V6]]), tagged(22, 1));
    // ARP; a frame that ends in its tag; SNAP; PPPoE; two MPLS labels.
    assert_eq!(place(1, &[&MACS, &[8, 6, 0, 1]]), NetworkLayer::Other);
    assert_eq!(place(1, &[&MACS, &[0x81, 0, 0]]), NetworkLayer::Other);
    assert_eq!(place(1, &[&MACS, &[0, 60, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0, V4]]), within(22, 52));
    assert_eq!(place(1, &[&MACS, &[0x88, 0x64, 0x11, 0, 0, 1, 0, 40, 0, 0x21, V4]]), within(22, 38));
    assert_eq!(place(1, &[&MACS, &[0x88, 0x47, 0, 0, 16, 64, 0, 0, 17, 64, V4]]), at(22));
}

#[test]
fn cooked_captures_of_both_versions_have_their_protocol() {
    let cooked: [u8; 14] = [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    assert_eq!(place(113, &[&cooked, &[8, 0, V4]]), at(16));
    assert_eq!(place(113, &[&cooked, &[0x81, 0, 0, 9, 0x86, 0xdd, V6]]), tagged(20, 9));
    let second = |protocol: [u8; 2]| {
        let mut header = [0; 20];
        header[..2].copy_from_slice(&protocol);
        header
    };
    assert_eq!(place(276, &[&second([8, 0]), &[V4]]), at(20));
    assert_eq!(place(276, &[&second([0x86, 0xdd]), &[V6]]), at(20));
    assert_eq!(place(276, &[&second([8, 6]), &[0]]), NetworkLayer::Other);
}

#[test]
fn loopback_raw_and_ppp_begin_with_a_family_nothing_or_a_protocol() {
    for (family, first) in [([2, 0, 0, 0], V4), ([0, 0, 0, 2], V4), ([30, 0, 0, 0], V6), ([0, 0, 0, 28], V6)]
    {
        assert_eq!(place(0, &[&family, &[first]]), at(4));
        assert_eq!(place(108, &[&family, &[first]]), at(4));
    }
    assert_eq!(place(0, &[&[7, 0, 0, 0], &[V4]]), NetworkLayer::Other);
    for link in [12, 14, 101, 228, 229] {
        assert_eq!(place(link, &[&[V4]]), at(0));
        assert_eq!(place(link, &[&[0x12]]), NetworkLayer::Other);
    }
    assert_eq!(place(9, &[&[0xff, 3, 0, 0x21, V4]]), at(4));
    assert_eq!(place(50, &[&[0, 0x57, V6]]), at(2));
    assert_eq!(place(147, &[&[V4]]), NetworkLayer::Unsupported);
}

#[test]
fn other_link_layers_that_captures_have_are_read() {
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0, V4];
    // IP as a service access point of IEEE 802.2, in Ethernet and behind a VLAN tag.
    assert_eq!(place(1, &[&MACS, &[0, 43, 6, 6, 3, V4]]), within(17, 40));
    let tagged_length = NetworkLayer::Ip(IpStart { at: 26, most: 40, vlan: 7, device: 0 });
    assert_eq!(place(1, &[&MACS, &[0x81, 0, 0, 7, 0, 48], &snap]), tagged_length);
    assert_eq!(place(1, &[&MACS, &[0x88, 0xe5, 0, 0, V4]]), NetworkLayer::Undecoded(Undecoded::Macsec));
    // Token Ring without and with a route of six bytes, FDDI.
    assert_eq!(place(6, &[&[0x10, 0x40], &MACS, &snap]), at(22));
    let mut routed = MACS;
    routed[6] |= 0x80;
    assert_eq!(place(6, &[&[0x10, 0x40], &routed, &[6, 0x30, 0, 0, 0, 0], &snap]), at(28));
    assert_eq!(place(10, &[&[0x50], &MACS, &snap]), at(21));
    assert_eq!(place(51, &[&[0x11, 0, 0, 1, 0, 40, 0, 0x57, V6]]), within(8, 38));
    assert_eq!(place(104, &[&[0x0f, 0, 8, 0, V4]]), at(4));
    assert_eq!(place(205, &[&[1, 0x0f, 0, 8, 0, V4]]), at(5));
    assert_eq!(place(204, &[&[1, 0xff, 3, 0x21, V4]]), at(4));
    assert_eq!(place(9, &[&[0, 0xfd, 0x90]]), NetworkLayer::Undecoded(Undecoded::CompressedPpp));
    assert_eq!(place(109, &[&[0; 12], &[V4]]), at(12));
    assert_eq!(place(117, &[&[61], &[0; 63], &[V4]]), at(64));
    assert_eq!(place(138, &[&[0; 16], &[8, 0, V4]]), at(18));
    assert_eq!(place(219, &[&[0, 0, 16, 64, 0, 0, 17, 65, V4]]), at(8));
    // A prefix of eight bytes before the payload of NFLOG.
    assert_eq!(place(239, &[&[2, 0, 0, 0, 6, 0, 10, 0, 1, 2, 0, 0, 24, 0, 9, 0, V4]]), at(16));
}

#[test]
fn data_frames_of_ieee_802_11_carry_ip_unless_they_are_encrypted() {
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0, V4];
    let frame = |control: u8, flags: u8, more: &[u8]| [&[control, flags][..], &[0; 22], more, &snap].concat();
    assert_eq!(place(105, &[&frame(0x08, 1, &[])]), at(32));
    // QoS, four addresses, both; a control field of high throughput.
    assert_eq!(place(105, &[&frame(0x88, 1, &[0; 2])]), at(34));
    assert_eq!(place(105, &[&frame(0x08, 3, &[0; 6])]), at(38));
    assert_eq!(place(105, &[&frame(0x88, 0x81, &[0; 6])]), at(38));
    assert_eq!(place(105, &[&frame(0x08, 0x41, &[])]), NetworkLayer::Undecoded(Undecoded::EncryptedWifi));
    // No data, a management frame, several packets in one frame.
    assert_eq!(place(105, &[&frame(0x48, 1, &[])]), NetworkLayer::Other);
    assert_eq!(place(105, &[&frame(0x80, 0, &[])]), NetworkLayer::Other);
    assert_eq!(place(105, &[&frame(0x88, 1, &[0x80, 0])]), NetworkLayer::Other);
    // Radiotap of 26 bytes with a clock and flags, which say that the header is padded.
    let mut radiotap = [0; 26];
    (radiotap[2], radiotap[4], radiotap[16]) = (26, 3, 0x20);
    assert_eq!(place(127, &[&radiotap, &frame(0x88, 1, &[0; 4])]), at(62));
    assert_eq!(place(119, &[&[0; 144], &frame(0x08, 1, &[])]), at(176));
    let mut avs = [0; 64];
    avs[7] = 64;
    assert_eq!(place(163, &[&avs, &frame(0x08, 1, &[])]), at(96));
}

#[test]
fn padding_behind_the_length_of_the_link_layer_is_no_data() {
    // The IP total length counts six bytes of padding, the lengths of PPPoE and IEEE 802.3 do not.
    let (at_ns, mut packet) = by(true).seq(1, 0).ack(1).at_us(0);
    assert_eq!(packet.len(), 40);
    packet[3] += 6;
    packet.extend([0; 6]);
    let pppoe = [&MACS[..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 42, 0, 0x21], &packet].concat();
    let snap = [&MACS[..], &[0, 48, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &packet].concat();
    for frame in [pppoe, snap] {
        let (summary, _) = analyse(&pcap(1, &[(at_ns, frame)]));
        assert_eq!((summary.packets.segments, summary.flows.len()), (1, 0));
    }
    // Without them IP decides.
    let plain = [&MACS[..], &[8, 0], &packet].concat();
    let (summary, _) = analyse(&pcap(1, &[(at_ns, plain)]));
    assert_eq!(summary.flows[0].counters.bytes, 6);
}

/// A segment with 100 bytes of payload in a packet whose bytes `change` modifies, on raw IP.
fn counted(v6: bool, change: impl FnOnce(&mut Vec<u8>)) -> (u64, u64, u64, u64, u64) {
    let made = if v6 { from_to("[2001:db8::1]:40000", "[2001:db8::2]:80") } else { by(true) };
    let (at, mut bytes) = made.seq(1, 100).stamps(1, 2).at_us(0);
    change(&mut bytes);
    let (summary, _) = analyse(&pcap(101, &[(at, bytes)]));
    let counts = summary.packets;
    let payload = summary.flows.first().map_or(0, |flow| flow.counters.bytes);
    (counts.segments, payload, counts.fragments, counts.short + counts.malformed, counts.options_cut)
}

/// Inserts an extension header of IPv6 behind the first 40 bytes.
fn extended(kind: u8, header: &[u8]) -> impl FnOnce(&mut Vec<u8>) + '_ {
    move |bytes| {
        let mut header = header.to_vec();
        header[0] = bytes[6];
        bytes[6] = kind;
        let len = u16::from_be_bytes([bytes[4], bytes[5]]) + u16::try_from(header.len()).expect("short");
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        bytes.splice(40..40, header);
    }
}

#[test]
fn extension_headers_of_ipv6_are_skipped() {
    assert_eq!(counted(true, |_| {}), (1, 100, 0, 0, 0));
    assert_eq!(counted(true, extended(0, &[0; 8])), (1, 100, 0, 0, 0));
    assert_eq!(
        counted(true, extended(60, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        (1, 100, 0, 0, 0)
    );
    // An authentication header of 12 bytes.
    assert_eq!(counted(true, extended(51, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])), (1, 100, 0, 0, 0));
    // An atomic fragment is whole, another one is not; ESP hides what it carries.
    assert_eq!(counted(true, extended(44, &[0; 8])), (1, 100, 0, 0, 0));
    assert_eq!(counted(true, extended(44, &[0, 0, 0, 1, 0, 0, 0, 0])), (0, 0, 1, 0, 0));
    assert_eq!(counted(true, extended(50, &[0; 8])), (0, 0, 0, 0, 0));
}

#[test]
fn truncated_packets_keep_the_fields_of_their_headers() {
    // IPv4 header 20, TCP header 32 with timestamps.
    for (len, expected) in [
        (152, (1, 100, 0, 0, 0)),
        (52, (1, 100, 0, 0, 0)),
        (51, (1, 100, 0, 0, 1)),
        (36, (1, 100, 0, 0, 1)),
        (35, (0, 0, 0, 1, 0)),
        (19, (0, 0, 0, 1, 0)),
    ] {
        assert_eq!(counted(false, |bytes| bytes.truncate(len)), expected, "{len}");
    }
}

#[test]
fn a_super_segment_without_a_length_has_that_of_the_capture() {
    // IPv4 total length 0 (a packet of more than 64 KB, or before segmentation).
    assert_eq!(counted(false, |bytes| bytes[2..4].fill(0)), (1, 100, 0, 0, 0));
    assert_eq!(counted(true, |bytes| bytes[4..6].fill(0)), (1, 100, 0, 0, 0));
    // Padding of Ethernet is no payload.
    assert_eq!(counted(false, |bytes| bytes.extend([0; 6])), (1, 100, 0, 0, 0));
}

#[test]
fn fragments_and_impossible_lengths_are_counted() {
    assert_eq!(counted(false, |bytes| bytes[6] = 0x20), (0, 0, 1, 0, 0));
    assert_eq!(counted(false, |bytes| bytes[7] = 3), (0, 0, 1, 0, 0));
    assert_eq!(counted(false, |bytes| bytes[0] = 0x44), (0, 0, 0, 1, 0));
    assert_eq!(counted(false, |bytes| bytes[32] = 0x40), (0, 0, 0, 1, 0));
    assert_eq!(counted(false, |bytes| bytes[9] = 17), (0, 0, 0, 0, 0));
}
