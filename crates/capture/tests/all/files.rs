//! File formats, byte by byte.

use crate::made::{Timed, analyse, by, pcap};
use std::io::Write;
use tcpassay_capture::{LinkType, ReadError, Reader};

/// A classic file with one packet of three bytes, at 1 s and 2 units, of 60 bytes on the wire.
const PCAP_LITTLE: [u8; 43] = [
    0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0, //
    1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 60, 0, 0, 0, 0xaa, 0xbb, 0xcc,
];
const PCAP_BIG: [u8; 43] = [
    0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 101, //
    0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 60, 0xaa, 0xbb, 0xcc,
];

/// Time, interface name, link type, captured bytes and length on the wire of each packet, and how the file ended.
type Told = (Option<u64>, String, u16, Vec<u8>, u32);

fn told(file: &[u8]) -> (Vec<Told>, Option<ReadError>, u64) {
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error), 0),
    };
    let mut packets = Vec::new();
    loop {
        let (place, mut one) = match reader.next_packet() {
            Ok(Some(p)) => (p.interface, (p.at_ns, String::new(), p.link.0, p.data.to_vec(), p.original_len)),
            Ok(None) => return (packets, None, reader.skipped_blocks()),
            Err(error) => return (packets, Some(error), reader.skipped_blocks()),
        };
        one.1.clone_from(&reader.interfaces()[place].name);
        packets.push(one);
    }
}

fn one(at: u64, link: u16) -> Vec<Told> {
    vec![(Some(at), String::new(), link, vec![0xaa, 0xbb, 0xcc], 60)]
}

#[test]
fn classic_files_have_both_byte_orders_and_two_resolutions() {
    assert_eq!(told(&PCAP_LITTLE), (one(1_000_002_000, 1), None, 0));
    assert_eq!(told(&PCAP_BIG), (one(1_000_002_000, 101), None, 0));
    let mut nano = PCAP_LITTLE;
    nano[..4].copy_from_slice(&[0x4d, 0x3c, 0xb2, 0xa1]);
    assert_eq!(told(&nano), (one(1_000_000_002, 1), None, 0));
    let mut nano = PCAP_BIG;
    nano[..4].copy_from_slice(&[0xa1, 0xb2, 0x3c, 0x4d]);
    assert_eq!(told(&nano), (one(1_000_000_002, 101), None, 0));
}

#[test]
fn files_before_version_2_3_have_the_length_on_the_wire_before_the_captured_one() {
    let version = |file: &[u8], major: u16, minor: u16, swapped: bool| {
        let mut file = file.to_vec();
        let order = |n: u16| if file[0] == 0xa1 { n.to_be_bytes() } else { n.to_le_bytes() };
        let words = [order(major), order(minor)].concat();
        file[4..8].copy_from_slice(&words);
        if swapped {
            file[32..40].rotate_left(4);
        }
        told(&file)
    };
    for (file, link) in [(PCAP_LITTLE, 1), (PCAP_BIG, 101)] {
        let expected = (one(1_000_002_000, link), None, 0);
        assert_eq!(version(&file, 2, 1, true), expected);
        assert_eq!(version(&file, 2, 2, true), expected);
        // Version 2.3 was written in both orders, 543.0 by DG/UX.
        assert_eq!(version(&file, 2, 3, true), expected);
        assert_eq!(version(&file, 2, 3, false), expected);
        assert_eq!(version(&file, 543, 0, true), expected);
        assert_eq!(version(&file, 2, 4, false), expected);
        let truncated = ReadError::Truncated { offset: 24, what: "packet" };
        assert_eq!(version(&file, 2, 4, true).1, Some(truncated));
    }
}

#[test]
fn a_truncated_classic_file_yields_what_is_whole_and_states_where_it_ends() {
    let twice: Vec<u8> = PCAP_LITTLE.iter().chain(&PCAP_LITTLE[24..]).copied().collect();
    let cut = |len: usize| told(&twice[..len]);
    let truncated = |offset, what| Some(ReadError::Truncated { offset, what });
    assert_eq!(cut(0), (vec![], Some(ReadError::Empty), 0));
    assert_eq!(cut(3).1, Some(ReadError::Unknown("d4 c3 b2".to_owned())));
    assert_eq!(cut(23).1, truncated(0, "file header"));
    assert_eq!(cut(24), (vec![], None, 0));
    assert_eq!(cut(30).1, truncated(24, "packet"));
    assert_eq!(cut(43), (one(1_000_002_000, 1), None, 0));
    assert_eq!(cut(50), (one(1_000_002_000, 1), truncated(43, "packet"), 0));
    assert_eq!(cut(61), (one(1_000_002_000, 1), truncated(43, "packet"), 0));
    assert_eq!(cut(62).0.len(), 2);
}

#[test]
fn a_packet_of_impossible_length_is_damage_and_what_precedes_it_is_read() {
    let mut file: Vec<u8> = PCAP_LITTLE.iter().chain(&PCAP_LITTLE[24..]).copied().collect();
    file[43 + 8..43 + 12].copy_from_slice(&0x0100_0001_u32.to_le_bytes());
    let (packets, error, _) = told(&file);
    assert_eq!(packets.len(), 1);
    let why = "its length is 16777217 bytes, more than 16777216".to_owned();
    assert_eq!(error, Some(ReadError::Damaged { offset: 43, what: "packet", why }));
}

#[test]
fn other_files_are_refused_with_their_first_bytes() {
    assert_eq!(told(b"PK\x03\x04 zip").1, Some(ReadError::Unknown("50 4b 03 04".to_owned())));
}

/// A block of pcapng in one of the byte orders.
fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let padded = body.len().next_multiple_of(4);
    let len = word(u32::try_from(padded + 12).expect("small"));
    let mut made = [word(kind), len].concat();
    made.extend(body);
    made.resize(8 + padded, 0);
    made.extend(len);
    made
}

fn words(big: bool, words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|n| if big { n.to_be_bytes() } else { n.to_le_bytes() }).collect()
}

fn halves(big: bool, halves: &[u16]) -> Vec<u8> {
    halves.iter().flat_map(|n| if big { n.to_be_bytes() } else { n.to_le_bytes() }).collect()
}

fn section(big: bool) -> Vec<u8> {
    let body = [words(big, &[0x1a2b_3c4d]), halves(big, &[1, 0]), words(big, &[u32::MAX, u32::MAX])].concat();
    block(big, 0x0a0d_0d0a, &body)
}

/// An interface of raw IP with options: (code, value).
fn interface(big: bool, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = [halves(big, &[101, 0]), words(big, &[96])].concat();
    for (code, value) in options {
        body.extend(halves(big, &[*code, u16::try_from(value.len()).expect("short")]));
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    body.extend([0; 4]);
    block(big, 1, &body)
}

fn enhanced(big: bool, interface: u32, ticks: u64, data: &[u8], wire: u32) -> Vec<u8> {
    let (high, low) = ((ticks >> 32) as u32, (ticks & 0xffff_ffff) as u32);
    let len = u32::try_from(data.len()).expect("short");
    block(big, 6, &[words(big, &[interface, high, low, len, wire]), data.to_vec()].concat())
}

#[test]
fn a_pcapng_file_is_read_byte_by_byte() {
    #[rustfmt::skip]
    let file = [
        0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 28, 0, 0, 0,
        // An interface of Ethernet with the name "e0" and nanoseconds.
        1, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 96, 0, 0, 0,
        2, 0, 2, 0, b'e', b'0', 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0,
        // A packet at 2^32 + 5 ns with five bytes of seventy.
        6, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0,
        5, 0, 0, 0, 70, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 40, 0, 0, 0,
    ];
    let packet = (Some(4_294_967_301), "e0".to_owned(), 1, vec![1, 2, 3, 4, 5], 70);
    assert_eq!(told(&file), (vec![packet], None, 0));
}

#[test]
fn sections_have_byte_orders_resolutions_and_offsets_of_their_own() {
    let mut file = Vec::new();
    for big in [false, true] {
        let offset: [u8; 8] = if big { 100_i64.to_be_bytes() } else { 100_i64.to_le_bytes() };
        file.extend(section(big));
        // Microseconds by default; 2^-10 s; milliseconds, 100 s later.
        file.extend(interface(big, &[]));
        file.extend(interface(big, &[(2, b"binary"), (9, &[0x8a])]));
        file.extend(interface(big, &[(2, b"late"), (9, &[3]), (14, &offset)]));
        file.extend(block(big, 5, &[0; 12]));
        file.extend(enhanced(big, 0, 7, &[1], 1));
        file.extend(enhanced(big, 1, 512, &[2], 1));
        file.extend(enhanced(big, 2, 1, &[3], 1));
    }
    let (packets, error, skipped) = told(&file);
    assert_eq!((error, skipped), (None, 0));
    let expected = [
        (Some(7_000), "interface 0", 1),
        (Some(500_000_000), "binary", 2),
        (Some(100_001_000_000), "late", 3),
    ];
    let seen: Vec<_> = packets.iter().map(|p| (p.0, p.1.as_str(), p.3[0])).collect();
    assert_eq!(seen, expected.iter().chain(&expected).copied().collect::<Vec<_>>());
    // The interfaces of the second section are those of the first.
    let mut reader = Reader::new(&file[..]).expect("a file");
    while reader.next_packet().expect("whole").is_some() {}
    assert_eq!(reader.interfaces().len(), 3);
    assert_eq!(reader.interfaces()[0].link, LinkType(101));
}

/// Statistics of an interface: options (code, value).
fn statistics(big: bool, interface: u32, options: &[(u16, u64)]) -> Vec<u8> {
    let mut body = words(big, &[interface, 0, 0]);
    for (code, value) in options {
        body.extend(halves(big, &[*code, 8]));
        body.extend(if big { value.to_be_bytes() } else { value.to_le_bytes() });
    }
    block(big, 5, &body)
}

fn lost(file: &[u8]) -> (u64, u64) {
    let mut reader = Reader::new(file).expect("a file");
    while reader.next_packet().expect("whole").is_some() {}
    (reader.lost_packets(), reader.skipped_blocks())
}

#[test]
fn packets_that_the_capture_lost_are_those_of_the_last_statistics_of_each_interface() {
    for big in [false, true] {
        let mut file = [section(big), interface(big, &[]), interface(big, &[(2, b"b")])].concat();
        // Received 900, dropped by interface and system; a later block of the same interface includes them.
        file.extend(statistics(big, 0, &[(4, 900), (5, 20), (7, 3)]));
        file.extend(statistics(big, 1, &[(5, 1)]));
        file.extend(statistics(big, 0, &[(4, 1_900), (5, 40), (7, 3)]));
        assert_eq!(lost(&file), (44, 0));
        // A new section is another capture.
        file.extend([section(big), interface(big, &[]), statistics(big, 0, &[(5, 6)])].concat());
        assert_eq!(lost(&file), (50, 0));
    }
}

#[test]
fn packets_that_were_lost_before_packets_are_not_added_to_the_statistics() {
    let dropped = [halves(false, &[4, 8]), words(false, &[7, 0])].concat();
    let data = |ticks: u32| {
        // One byte, its padding, and the option.
        let body = [words(false, &[0, 0, ticks, 1, 70]), vec![9, 0, 0, 0], dropped.clone()].concat();
        block(false, 6, &body)
    };
    let mut file = [section(false), interface(false, &[]), data(1), data(2)].concat();
    assert_eq!(lost(&file), (14, 0));
    file.extend(statistics(false, 0, &[(5, 12)]));
    assert_eq!(lost(&file), (14, 0));
    file.extend(statistics(false, 0, &[(5, u64::MAX), (7, 1)]));
    assert_eq!(lost(&file), (u64::MAX, 0));
    // Statistics of an interface that is not described are damaged.
    file.extend(statistics(false, 9, &[(5, 1)]));
    assert_eq!(lost(&file), (u64::MAX, 1));
}

#[test]
fn simple_and_obsolete_packet_blocks_are_read() {
    let mut file = section(false);
    file.extend(interface(false, &[]));
    // The length on the wire is 200, the interface keeps 96.
    file.extend(block(false, 3, &[words(false, &[200]), vec![9; 96]].concat()));
    let old = [halves(false, &[0, 0]), words(false, &[0, 8, 2, 2]), vec![4, 5]].concat();
    file.extend(block(false, 2, &old));
    let (packets, error, skipped) = told(&file);
    assert_eq!((error, skipped, packets.len()), (None, 0, 2));
    assert_eq!((packets[0].0, packets[0].3.len(), packets[0].4), (None, 96, 200));
    assert_eq!((packets[1].0, packets[1].3.as_slice()), (Some(8_000), &[4_u8, 5][..]));
}

#[test]
fn a_damaged_block_of_plausible_length_is_skipped_and_counted() {
    let mut file = section(false);
    file.extend(interface(false, &[]));
    // More captured bytes than the block has; then an interface that does not exist.
    file.extend(block(false, 6, &words(false, &[0, 0, 0, 100, 100])));
    file.extend(enhanced(false, 7, 1, &[1], 1));
    file.extend(enhanced(false, 0, 1, &[2], 1));
    let (packets, error, skipped) = told(&file);
    assert_eq!((packets.len(), error, skipped), (1, None, 2));
}

#[test]
fn a_damaged_length_ends_the_file_at_its_place() {
    let mut file = section(false);
    file.extend(interface(false, &[]));
    let at = file.len();
    file.extend(enhanced(false, 0, 1, &[2], 1));
    let last = file.len() - 4;
    file[last] = 99;
    let why = "its length is 36 bytes before and 99 behind its body".to_owned();
    let damaged = ReadError::Damaged { offset: at as u64, what: "block", why };
    assert_eq!(told(&file), (vec![], Some(damaged), 0));
    file[at + 4] = 37;
    let why = "its length is 37 bytes".to_owned();
    assert_eq!(told(&file).1, Some(ReadError::Damaged { offset: at as u64, what: "block", why }));
}

fn connection() -> Vec<Timed> {
    crate::made::handshake(100).into_iter().chain([by(true).seq(1001, 100).ack(5001).at_us(200)]).collect()
}

#[test]
fn compressed_files_are_read_as_plain_ones_also_in_several_members() {
    let file = pcap(101, &connection());
    let plain = analyse(&file);
    assert_eq!(plain.0.flows.len(), 1);
    let gzip = |part: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(part).expect("memory");
        encoder.finish().expect("memory")
    };
    assert_eq!(analyse(&gzip(&file)), plain);
    let (a, b) = file.split_at(100);
    assert_eq!(analyse(&[gzip(a), gzip(b)].concat()), plain);
    // zstd without compression: a frame of one raw block (RFC 8878 sections 3.1.1 and 3.1.1.2), and a skippable frame.
    let zstd = |part: &[u8]| {
        let len = u32::try_from(part.len()).expect("small");
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
        frame.extend(len.to_le_bytes());
        frame.extend(&(len << 3 | 1).to_le_bytes()[..3]);
        frame.extend(part);
        frame
    };
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 7, 7].to_vec();
    assert_eq!(analyse(&zstd(&file)), plain);
    assert_eq!(analyse(&[skippable, zstd(a), zstd(b)].concat()), plain);
    // A stream that ends early has what precedes.
    let cut = gzip(&file);
    let (summary, _) = analyse(&cut[..cut.len() - 12]);
    assert!(summary.notes[0].starts_with("The capture is incomplete"), "{:?}", summary.notes);
}
