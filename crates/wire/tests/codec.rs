//! Tests of the encoding of packets: literal layouts, and decoding of encoded packets.

use proptest::prelude::*;
use std::net::SocketAddr;
use tcpassay_units::SeqNum;
use tcpassay_wire::codec::{Content, DecodeError, EncodeError, Envelope, decode, encode};
use tcpassay_wire::{AccEcn, Ecn, Flags, Options, SackBlock, SackBlocks, Segment, Timestamps};

fn envelope(from: &str, to: &str, ecn: Ecn) -> Envelope {
    let addr = |text: &str| text.parse::<SocketAddr>().expect("an address");
    Envelope { from: addr(from), to: addr(to), ecn, id: 0x1c46, ttl: 64 }
}

fn v4() -> Envelope {
    envelope("10.0.0.1:40000", "10.0.0.2:80", Ecn::Ect0)
}

fn bytes(envelope: &Envelope, content: &Content) -> Vec<u8> {
    let mut out = Vec::new();
    encode(envelope, content, usize::MAX, &mut out).expect("a valid packet");
    out
}

fn syn() -> Segment {
    Segment {
        seq: SeqNum::new(0x0102_0304),
        flags: Flags::SYN | Flags::ECE | Flags::CWR,
        window: 64_240,
        options: Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { val: 0x0a0b_0c0d, ecr: 0 }),
            sack: SackBlocks::new(),
        },
        ..Segment::default()
    }
}

#[test]
fn a_syn_has_the_option_layout_of_linux() {
    let bytes = bytes(&v4(), &Content::Tcp(syn()));
    #[rustfmt::skip]
    let ip = [
        0x45, 0x02, 0x00, 0x3c, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x06, 0x0a, 0x72,
        10, 0, 0, 1, 10, 0, 0, 2,
    ];
    assert_eq!(bytes[..20], ip);
    assert_eq!(bytes[32..34], [0xa0, 0xc2], "data offset 10, CWR ECE SYN");
    #[rustfmt::skip]
    let options = [
        2, 4, 0x05, 0xb4,
        4, 2, 8, 10, 0x0a, 0x0b, 0x0c, 0x0d, 0, 0, 0, 0,
        1, 3, 3, 7,
    ];
    assert_eq!(bytes[40..], options);
}

#[test]
fn an_ack_pads_timestamps_and_sack_blocks_in_front() {
    let mut sack = SackBlocks::new();
    sack.push(SackBlock { start: SeqNum::new(0x100), end: SeqNum::new(0x200) });
    let timestamps = Some(Timestamps { val: 1, ecr: 2 });
    let segment = Segment {
        flags: Flags::ACK,
        options: Options { timestamps, sack, ..Options::default() },
        ..Segment::default()
    };
    #[rustfmt::skip]
    let options = [
        1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2,
        1, 1, 5, 10, 0, 0, 1, 0, 0, 0, 2, 0,
    ];
    assert_eq!(bytes(&v4(), &Content::Tcp(segment))[40..], options);
}

#[test]
fn the_checksums_are_those_of_a_worked_example() {
    // Header words of 10.0.0.1:1 > 10.0.0.2:2, seq 1, ack 2, ACK, window 3, four bytes of zeros:
    // 0a00 + 0001 + 0a00 + 0002 + 0006 + 0018 = 1421; 0001 + 0002 + 0001 + 0002 + 5010 + 0003 = 5019;
    // ~(1421 + 5019) = ~643a = 9bc5.
    let segment = Segment {
        seq: SeqNum::new(1),
        ack: SeqNum::new(2),
        flags: Flags::ACK,
        window: 3,
        len: 4,
        ..Segment::default()
    };
    let bytes = bytes(&envelope("10.0.0.1:1", "10.0.0.2:2", Ecn::NotEct), &Content::Tcp(segment));
    assert_eq!(bytes[36..38], [0x9b, 0xc5]);
    assert_eq!(decode(&bytes).expect("valid").checksum_ok, Some(true));
}

#[test]
fn a_changed_byte_shows_in_the_checksum() {
    let segment = Segment { len: 10, flags: Flags::ACK, ..Segment::default() };
    let mut bytes = bytes(&v4(), &Content::Tcp(segment));
    *bytes.last_mut().expect("payload") = 1;
    assert_eq!(decode(&bytes).expect("valid").checksum_ok, Some(false));
}

#[test]
fn a_packet_cut_short_keeps_its_lengths_and_has_no_verdict_on_its_checksum() {
    let segment = Segment { len: 1448, flags: Flags::ACK | Flags::PSH, ..Segment::default() };
    let mut out = Vec::new();
    assert_eq!(encode(&v4(), &Content::Tcp(segment), 96, &mut out), Ok(1488));
    assert_eq!(out.len(), 96);
    let packet = decode(&out).expect("headers are there");
    assert_eq!((packet.content, packet.checksum_ok), (Content::Tcp(segment), None));
}

#[test]
fn unknown_options_are_skipped_and_an_impossible_length_ends_them() {
    let segment = Segment {
        options: Options {
            timestamps: Some(Timestamps { val: 7, ecr: 8 }),
            window_scale: Some(2),
            mss: Some(536),
            ..Options::default()
        },
        ..Segment::default()
    };
    let packet = bytes(&v4(), &Content::Tcp(segment));
    let read = |patch: &[(usize, u8)]| {
        let mut packet = packet.clone();
        for (at, byte) in patch {
            packet[40 + at] = *byte;
        }
        match decode(&packet).expect("headers are whole").content {
            Content::Tcp(segment) => segment.options,
            Content::Udp { .. } => panic!("not a datagram"),
        }
    };
    // MSS becomes fast open (34) with a cookie of two bytes.
    let skipped = read(&[(0, 34)]);
    assert_eq!((skipped.mss, skipped.window_scale), (None, Some(2)));
    assert_eq!(skipped.timestamps, Some(Timestamps { val: 7, ecr: 8 }));
    // The timestamps (at 6) claim 200 bytes, then one byte.
    for len in [200, 1, 0] {
        let ended = read(&[(7, len)]);
        assert_eq!((ended.mss, ended.timestamps, ended.window_scale), (Some(536), None, None));
    }
}

#[test]
fn an_accurate_ecn_option_of_another_length_gives_its_whole_fields() {
    // RFC 9768 section 3.2.3. The timestamps (at 6, of ten bytes) become the option.
    let timestamps = Some(Timestamps { val: 0x0001_0203, ecr: 0x0405_0607 });
    let options = Options { timestamps, mss: Some(536), ..Options::default() };
    let mut packet = bytes(&v4(), &Content::Tcp(Segment { options, ..Segment::default() }));
    for (kind, counts) in [(172, [0x00_0102, 0x03_0405, 0]), (174, [0, 0x03_0405, 0x00_0102])] {
        packet[46] = kind;
        let Content::Tcp(segment) = decode(&packet).expect("headers are whole").content else {
            panic!("not a datagram")
        };
        let expected = AccEcn { e1b_first: kind == 174, fields: 2, counts };
        assert_eq!(segment.options.accecn(), Some(expected));
    }
}

#[test]
fn the_end_of_an_accurate_ecn_option_stands_where_the_next_options_nops_would() {
    // `tcp_options_write` of Linux: one byte or two, never a part of two.
    let sack: SackBlocks = [SackBlock::default()].into_iter().collect();
    let options = |fields, timestamps: bool, sack| {
        let stamps = timestamps.then(Timestamps::default);
        let mut options = Options { timestamps: stamps, sack, ..Options::default() };
        options.set_accecn(&AccEcn { e1b_first: true, fields, counts: [0x0a_0b0c, 0x0d_0e0f, 0x01_0203] });
        options
    };
    let written = |options: Options| {
        let packet = bytes(&v4(), &Content::Tcp(Segment { options, ..Segment::default() }));
        packet[40..].to_vec()
    };
    assert_eq!(written(options(1, false, sack))[..8], [174, 5, 1, 2, 3, 1, 5, 10]);
    assert_eq!(written(options(0, false, sack))[..4], [174, 2, 5, 10]);
    assert_eq!(written(options(2, false, sack))[..12], [174, 8, 1, 2, 3, 13, 14, 15, 1, 1, 5, 10]);
    let alone = [174, 11, 1, 2, 3, 13, 14, 15, 10, 11, 12, 1];
    assert_eq!(written(options(3, false, SackBlocks::new())), alone);
    assert_eq!(written(options(3, true, SackBlocks::new()))[12..], alone);
    let mut syn = Options { window_scale: Some(8), ..options(1, false, SackBlocks::new()) };
    assert_eq!(written(syn), [174, 5, 1, 2, 3, 3, 3, 8]);
    syn.set_accecn(&AccEcn { e1b_first: true, fields: 0, counts: [0; 3] });
    assert_eq!(written(syn), [174, 2, 1, 1, 1, 3, 3, 8]);
}

#[test]
fn options_beyond_forty_bytes_and_packets_beyond_64_kb_are_refused() {
    let sack: SackBlocks = [SackBlock::default(); 4].into_iter().collect();
    let options = Options { timestamps: Some(Timestamps::default()), sack, ..Options::default() };
    let error = encode(&v4(), &Content::Tcp(Segment { options, ..Segment::default() }), 0, &mut Vec::new());
    assert_eq!(error, Err(EncodeError::Options { len: 48 }));
    let long = Content::Tcp(Segment { len: 65_496, ..Segment::default() });
    assert_eq!(encode(&v4(), &long, 0, &mut Vec::new()), Err(EncodeError::TooLong { len: 65_536 }));
    let mixed = envelope("10.0.0.1:1", "[::1]:2", Ecn::NotEct);
    assert!(matches!(
        encode(&mixed, &Content::Udp { len: 0 }, 0, &mut Vec::new()),
        Err(EncodeError::Families { .. })
    ));
}

#[test]
fn bytes_that_are_no_packet_give_the_reason() {
    assert_eq!(decode(&[]), Err(DecodeError::Short { header: "IP", have: 0 }));
    assert_eq!(decode(&[0x45; 19]), Err(DecodeError::Short { header: "IPv4", have: 19 }));
    let mut icmp = bytes(&v4(), &Content::Udp { len: 0 });
    icmp[9] = 1;
    assert_eq!(decode(&icmp), Err(DecodeError::Protocol(1)));
    let mut fragment = bytes(&v4(), &Content::Udp { len: 0 });
    fragment[7] = 1;
    assert_eq!(decode(&fragment), Err(DecodeError::Fragment));
}

fn any_segment() -> impl Strategy<Value = Segment> {
    let timestamps =
        prop::option::of((any::<u32>(), any::<u32>()).prop_map(|(val, ecr)| Timestamps { val, ecr }));
    let block = (any::<u32>(), any::<u32>())
        .prop_map(|(a, b)| SackBlock { start: SeqNum::new(a), end: SeqNum::new(b) });
    let sacks = prop::collection::vec(block, 0..=4);
    let options =
        (prop::option::of(any::<u16>()), prop::option::of(any::<u8>()), any::<bool>(), timestamps, sacks)
            .prop_map(|(mss, window_scale, sack_permitted, timestamps, sack)| Options {
                mss,
                window_scale,
                sack_permitted,
                timestamps,
                sack: sack.into_iter().collect(),
            })
            .prop_filter("fits a header", |options| options.wire_len() <= 40);
    let counts = [0..1_u32 << 24, 0..1 << 24, 0..1 << 24];
    let accecn = prop::option::of((any::<bool>(), 0u8..=3, counts));
    let options = (options, accecn).prop_map(|(options, accecn)| {
        let Some((e1b_first, fields, counts)) = accecn else { return options };
        let mut option = AccEcn { e1b_first, fields, counts: [0; 3] };
        for field in option.order().collect::<Vec<_>>() {
            option.counts[field] = counts[field];
        }
        let mut with = options;
        if options.sack.len() <= 3 {
            with.set_accecn(&option);
        }
        if with.wire_len() <= 40 { with } else { options }
    });
    (any::<[u32; 2]>(), 0u16..0x200, any::<[u16; 2]>(), 0u32..65_000, options).prop_map(
        |([seq, ack], flags, [window, urgent], len, options)| Segment {
            seq: SeqNum::new(seq),
            ack: SeqNum::new(ack),
            flags: Flags::from_bits(flags),
            window,
            urgent,
            len,
            options,
        },
    )
}

proptest! {
    #[test]
    fn a_written_packet_is_parsed_back_with_a_valid_checksum(
        segment in any_segment(), six: bool, bits in 0u8..4, id: u16, ttl: u8, ports: [u16; 2], snap in 0usize..2000,
    ) {
        let (from, to) = if six { ("[fd00::1]:0", "[fd00::2]:0") } else { ("10.1.2.3:0", "10.255.0.7:0") };
        let mut envelope = envelope(from, to, Ecn::from_bits(bits));
        envelope.from.set_port(ports[0]);
        envelope.to.set_port(ports[1]);
        envelope.ttl = ttl;
        envelope.id = if six { 0 } else { id };
        let content = Content::Tcp(segment);
        let whole = bytes(&envelope, &content);
        let packet = decode(&whole).expect("our own");
        prop_assert_eq!((&packet.envelope, &packet.content, packet.checksum_ok), (&envelope, &content, Some(true)));
        let mut cut = Vec::new();
        prop_assert_eq!(encode(&envelope, &content, snap, &mut cut), Ok(u32::try_from(whole.len()).unwrap()));
        prop_assert_eq!(decode(&cut).expect("cut").content, content);
        prop_assert!(whole.starts_with(&cut));
    }

    #[test]
    fn datagrams_read_back(len in 0u32..60_000, six: bool) {
        let envelope = if six { envelope("[::1]:5", "[::2]:6", Ecn::Ce) } else { v4() };
        let envelope = Envelope { id: 0, ..envelope };
        let packet = decode(&bytes(&envelope, &Content::Udp { len })).expect("our own");
        prop_assert_eq!((packet.envelope, packet.content, packet.checksum_ok), (envelope, Content::Udp { len }, Some(true)));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn no_damage_to_a_packet_panics(
        segment in any_segment(),
        damage in prop::collection::vec((0usize..120, any::<u8>()), 1..6),
        cut in 0usize..200,
    ) {
        let mut packet = Vec::new();
        encode(&v4(), &Content::Tcp(segment), 120, &mut packet).expect("valid");
        for (at, byte) in damage {
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
        }
        packet.truncate(cut);
        let _ = decode(&packet);
    }
}
