//! Link layers, byte by byte.

use crate::made::{analyse, by, from_to, pcap};
use tcpassay_capture::LinkType;
use tcpassay_capture::link::{NetworkLayer, network};

/// Version 4 and version 6, as first bytes of IP packets.
const V4: u8 = 0x45;
const V6: u8 = 0x60;
const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

fn place(link: u16, parts: &[&[u8]]) -> NetworkLayer {
    network(LinkType(link), &parts.concat())
}

#[test]
fn ethernet_has_ip_behind_its_type_and_behind_vlan_tags() {
    assert_eq!(place(1, &[&MACS, &[8, 0, V4]]), NetworkLayer::Ip(14));
    assert_eq!(place(1, &[&MACS, &[0x86, 0xdd, V6]]), NetworkLayer::Ip(14));
    assert_eq!(place(1, &[&MACS, &[0x81, 0, 0, 7, 8, 0, V4]]), NetworkLayer::Ip(18));
    assert_eq!(place(1, &[&MACS, &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 7, 0x86, 0xdd, V6]]), NetworkLayer::Ip(22));
    // ARP; a frame that ends in its tag; SNAP; PPPoE; two MPLS labels.
    assert_eq!(place(1, &[&MACS, &[8, 6, 0, 1]]), NetworkLayer::Other);
    assert_eq!(place(1, &[&MACS, &[0x81, 0, 0]]), NetworkLayer::Other);
    assert_eq!(place(1, &[&MACS, &[0, 60, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0, V4]]), NetworkLayer::Ip(22));
    assert_eq!(place(1, &[&MACS, &[0x88, 0x64, 0x11, 0, 0, 1, 0, 40, 0, 0x21, V4]]), NetworkLayer::Ip(22));
    assert_eq!(place(1, &[&MACS, &[0x88, 0x47, 0, 0, 16, 64, 0, 0, 17, 64, V4]]), NetworkLayer::Ip(22));
}

#[test]
fn cooked_captures_of_both_versions_have_their_protocol() {
    let cooked: [u8; 14] = [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    assert_eq!(place(113, &[&cooked, &[8, 0, V4]]), NetworkLayer::Ip(16));
    assert_eq!(place(113, &[&cooked, &[0x81, 0, 0, 9, 0x86, 0xdd, V6]]), NetworkLayer::Ip(20));
    let second = |protocol: [u8; 2]| {
        let mut header = [0; 20];
        header[..2].copy_from_slice(&protocol);
        header
    };
    assert_eq!(place(276, &[&second([8, 0]), &[V4]]), NetworkLayer::Ip(20));
    assert_eq!(place(276, &[&second([0x86, 0xdd]), &[V6]]), NetworkLayer::Ip(20));
    assert_eq!(place(276, &[&second([8, 6]), &[0]]), NetworkLayer::Other);
}

#[test]
fn loopback_raw_and_ppp_begin_with_a_family_nothing_or_a_protocol() {
    for (family, first) in [([2, 0, 0, 0], V4), ([0, 0, 0, 2], V4), ([30, 0, 0, 0], V6), ([0, 0, 0, 28], V6)]
    {
        assert_eq!(place(0, &[&family, &[first]]), NetworkLayer::Ip(4));
        assert_eq!(place(108, &[&family, &[first]]), NetworkLayer::Ip(4));
    }
    assert_eq!(place(0, &[&[7, 0, 0, 0], &[V4]]), NetworkLayer::Other);
    for link in [12, 14, 101, 228, 229] {
        assert_eq!(place(link, &[&[V4]]), NetworkLayer::Ip(0));
        assert_eq!(place(link, &[&[0x12]]), NetworkLayer::Other);
    }
    assert_eq!(place(9, &[&[0xff, 3, 0, 0x21, V4]]), NetworkLayer::Ip(4));
    assert_eq!(place(50, &[&[0, 0x57, V6]]), NetworkLayer::Ip(2));
    assert_eq!(place(105, &[&[V4]]), NetworkLayer::Unsupported);
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
