//! Hostile and damaged files: the crate does not panic, and packets before a damaged place are read as
//! without the damage.

use crate::made::{Timed, analyse_as, by, handshake, pcap};
use proptest::prelude::*;
use tcpassay_capture::{Analysis, AnalysisOptions, Reader, Round, Summary};
use tcpassay_wire::Flags;

/// A connection in both directions with losses, SACK and timestamps.
fn sample() -> Vec<Timed> {
    let mut packets = handshake(1_000);
    for n in 0..40_u32 {
        let at = 2_000 + 700 * u64::from(n);
        let seq = 1001 + 1000 * if n % 7 == 3 { n - 2 } else { n };
        packets.push(by(true).seq(seq, 1000).ack(5001 + n).stamps(n, n).at_us(at));
        packets.push(
            by(false).seq(5001 + n, 1).ack(1001 + 900 * n).stamps(n, n).sack(seq, seq + 1000).at_us(at + 300),
        );
    }
    packets.push(by(true).seq(50_000, 0).ack(5041).flags(Flags::FIN | Flags::ACK).at_us(90_000));
    packets
}

/// Applies all functions of the crate to a file.
fn everything(file: &[u8]) -> Option<(Summary, Vec<Round>)> {
    let options = AnalysisOptions::default();
    let mut reader = Reader::new(file).ok()?;
    let mut known = Analysis::new(options);
    while known.read(&mut reader, 7) {}
    assert!(known.connections().all(|one| one.mss[0] > 0));
    let rounds = known.take_rounds();
    for round in &rounds {
        assert!(!round.line().is_empty());
    }
    Some((known.summary(reader.interfaces()), rounds))
}

/// The packets of a classic file as pcapng, cut into sections at some places.
fn pcapng(packets: &[Timed], cuts: &[usize]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let mut made = kind.to_le_bytes().to_vec();
        let padded = body.len().next_multiple_of(4);
        let len = u32::try_from(padded + 12).expect("small").to_le_bytes();
        made.extend(len);
        made.extend(body);
        made.resize(8 + padded, 0);
        made.extend(len);
        made
    };
    let mut file = Vec::new();
    for (n, (at, bytes)) in packets.iter().enumerate() {
        if n == 0 || cuts.contains(&n) {
            let mut header = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
            header.extend([1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
            file.extend(block(0x0a0d_0d0a, &header));
            file.extend(block(1, &[101, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]));
        }
        let len = u32::try_from(bytes.len()).expect("small");
        let mut body: Vec<u8> = [0, (at >> 32) as u32, (at & 0xffff_ffff) as u32, len, len]
            .into_iter()
            .flat_map(u32::to_le_bytes)
            .collect();
        body.extend(bytes);
        file.extend(block(6, &body));
    }
    file
}

proptest! {
    #[test]
    fn damage_at_any_place_never_panics(
        ng: bool, places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = if ng { pcapng(&sample(), &[20]) } else { pcap(101, &sample()) };
        for (place, byte) in places {
            let place = place.index(file.len());
            file[place] ^= byte;
        }
        everything(&file);
        everything(&file[..cut.index(file.len())]);
    }

    #[test]
    fn any_bytes_behind_a_magic_number_never_panic(
        magic in prop::sample::select(vec![
            vec![0xd4, 0xc3, 0xb2, 0xa1], vec![0xa1, 0xb2, 0x3c, 0x4d], vec![0x0a, 0x0d, 0x0d, 0x0a],
            vec![0x1f, 0x8b, 8, 0], vec![0x28, 0xb5, 0x2f, 0xfd], vec![],
        ]),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        everything(&[magic, bytes].concat());
    }

    #[test]
    fn any_frame_of_any_link_layer_never_panics(
        link in prop::sample::select(vec![
            0_u32, 1, 6, 9, 10, 12, 51, 100, 101, 104, 105, 108, 109, 113, 117, 119, 127, 138, 163, 204, 205, 219, 228, 239, 276,
        ]),
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..4),
    ) {
        let frames: Vec<Timed> = frames.into_iter().zip(0..).map(|(bytes, at)| (at, bytes)).collect();
        everything(&pcap(link, &frames));
    }

    #[test]
    fn sections_do_not_change_the_results_of_a_capture(cuts in prop::collection::vec(1..80_usize, 0..5)) {
        let whole = everything(&pcapng(&sample(), &[])).expect("a file");
        prop_assert_eq!(everything(&pcapng(&sample(), &cuts)), Some(whole));
    }

    #[test]
    fn a_file_that_ends_early_has_the_packets_before_its_end(cut in 100..4000_usize) {
        let file = pcap(101, &sample());
        let cut = cut.min(file.len());
        let (summary, _) = everything(&file[..cut]).expect("a header");
        let (mut at, mut packets) = (24, 0);
        while at + 16 <= cut {
            let len = u32::from_le_bytes(file[at + 8..at + 12].try_into().expect("four")) as usize;
            at += 16 + len;
            packets += u64::from(at <= cut);
        }
        prop_assert_eq!(summary.packets.packets, packets);
        prop_assert_eq!(summary.notes.is_empty(), at == cut);
    }
}

#[test]
fn every_single_byte_of_a_capture_can_be_inverted() {
    let file = pcapng(&sample()[..12], &[6]);
    for place in 0..file.len() {
        let mut damaged = file.clone();
        damaged[place] ^= 0xff;
        everything(&damaged);
    }
}

#[test]
fn times_at_both_ends_of_their_range_never_panic() {
    let mut packets = sample();
    for (n, packet) in packets.iter_mut().enumerate() {
        packet.0 = if n % 3 == 0 { 0 } else { u64::from(u32::MAX) * 1_000_000_000 };
    }
    let (summary, _) = analyse_as(&pcap(101, &packets), AnalysisOptions::default());
    // The first packet is at 0. The third one shows that the clock was set; from there on 0 contradicts.
    assert_eq!((summary.packets.contradictory_times, summary.packets.clocks_set), (28, 1));
    assert!(summary.flows.iter().all(|flow| flow.duration_ns == 0));
}
