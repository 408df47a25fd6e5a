//! Damaged captures, and captures with odd times, never make an oracle panic.

#[path = "../../capture/tests/all/made.rs"]
#[expect(dead_code, reason = "the tests of the readers use the rest")]
mod made;

use made::{Timed, by, handshake, pcap};
use proptest::prelude::*;
use tcpassay_capture::{Analysis, AnalysisOptions, Reader};
use tcpassay_judge::ORACLES;
use tcpassay_judge::capture::Capture;
use tcpassay_wire::Flags;

/// Connections in both directions with losses, late packets, SACK and timestamps, captured at one of the ends.
fn sample(at_receiver: bool) -> Vec<Timed> {
    let round_trip = 1_000;
    let mut packets = handshake(round_trip);
    if at_receiver {
        // The answer to the SYN comes at once, the answer to it after a round trip.
        packets[1].0 = packets[0].0 + 10_000;
        packets[2].0 = packets[0].0 + 1_000_000;
    }
    let wait = if at_receiver { 10 } else { round_trip };
    for n in 0..40_u32 {
        let at = 2_000 + 700 * u64::from(n);
        let seq = 1001 + 1000 * if n % 7 == 3 { n - 2 } else { n };
        packets.push(by(true).seq(seq, 1000).ack(5001).window(500).stamps(n, n).at_us(at));
        let answer = by(false).seq(5001, 0).ack(1001 + 900 * n).window(500).stamps(n, n);
        packets.push(answer.sack(seq, seq + 1000).at_us(at + wait));
    }
    packets.push(by(true).seq(41_001, 0).ack(5001).flags(Flags::FIN | Flags::ACK).at_us(90_000));
    packets
}

/// Calls all oracles on a capture. Returns the number of connections that have a log.
fn judged(file: &[u8], merge_interfaces: bool) -> usize {
    let options = AnalysisOptions { merge_interfaces, ..AnalysisOptions::default() };
    let mut known = Analysis::new(options.clone());
    let Ok(mut reader) = Reader::new(file) else { return 0 };
    while known.read(&mut reader, 1000) {}
    let mut reader = Reader::new(file).expect("it was read before");
    let capture = Capture::read(&known, &options, &mut reader, None, "0", 1_000_000, &mut || true);
    let names: Vec<&str> = ORACLES.iter().map(|oracle| oracle.name).collect();
    for found in capture.judge(&names) {
        assert!(!capture.frames(&found.rows).is_empty());
    }
    capture.unjudged(&names);
    capture.connections()
}

#[test]
fn a_capture_with_any_odd_time_at_any_packet_is_judged() {
    const YEAR_NS: u64 = 365 * 24 * 3600 * 1_000_000_000;
    for at_receiver in [false, true] {
        let packets = sample(at_receiver);
        assert_eq!(judged(&pcap(101, &packets), false), 1);
        for place in 1..packets.len() {
            let first = packets[0].0;
            let latest = u64::from(u32::MAX) * 1_000_000_000;
            for odd in [0, first - 9 * YEAR_NS, first + 9 * YEAR_NS, latest] {
                let mut changed = packets.clone();
                changed[place].0 = odd;
                judged(&pcap(101, &changed), place % 2 == 0);
                // The clock was set.
                changed[place..].iter_mut().for_each(|packet| packet.0 = odd);
                judged(&pcap(101, &changed), place % 2 == 0);
            }
        }
    }
}

/// The oracles that accuse an end of a capture, those that do not judge the end that opens it, and the notes.
fn outcome(packets: &[Timed]) -> (Vec<&'static str>, Vec<&'static str>, Vec<String>) {
    let file = pcap(101, packets);
    let options = AnalysisOptions::default();
    let mut known = Analysis::new(options.clone());
    let mut reader = Reader::new(&file[..]).expect("a capture");
    while known.read(&mut reader, 1000) {}
    let notes = known.summary(reader.interfaces()).notes;
    let mut reader = Reader::new(&file[..]).expect("a capture");
    let capture = Capture::read(&known, &options, &mut reader, None, "0", 1_000_000, &mut || true);
    let found = capture.judge(&["timestamp-echo"]).iter().map(|one| one.oracle).collect();
    let unjudged = capture.unjudged(&["timestamp-echo"]);
    let own = unjudged.iter().filter(|one| one.flows.contains(&"192.0.2.1:40000 > 192.0.2.2:80".to_owned()));
    (found, own.flat_map(|one| one.oracles.clone()).collect(), notes)
}

#[test]
fn an_end_whose_peer_sent_malformed_options_is_not_accused_and_the_sender_of_the_options_is_named() {
    // The client echoes 900, the timestamp of the SYN-ACK, although newer ones arrived.
    let packets = |syn_ack: u32| {
        vec![
            by(true).flags(Flags::SYN).seq(1000, 0).ack(0).scale(7).stamps(100, 0).at_us(0),
            by(false)
                .flags(Flags::SYN | Flags::ACK)
                .seq(5000, 0)
                .ack(1001)
                .scale(7)
                .stamps(syn_ack, 100)
                .at_us(20_000),
            by(true).seq(1001, 0).ack(5001).stamps(101, 900).at_us(20_010),
            by(true).seq(1001, 100).ack(5001).stamps(102, 900).at_us(30_000),
            by(false).seq(5001, 100).ack(1101).stamps(902, 102).at_us(50_000),
            by(true).seq(1101, 0).ack(5101).stamps(103, 900).at_us(50_010),
        ]
    };
    assert_eq!(outcome(&packets(900)), (vec![], vec![], vec![]));
    assert_eq!(outcome(&packets(901)), (vec!["timestamp-echo"], vec![], vec![]));
    // The timestamps of the SYN-ACK run past its header.
    let mut odd = packets(901);
    assert_eq!(odd[1].1[42..44], [8, 10]);
    odd[1].1[43] = 40;
    let note = "1 segment with malformed TCP options (an option runs past the header, or its length is wrong), sent by 192.0.2.2:80: the \
                options of these segments are unknown.";
    assert_eq!(outcome(&odd), (vec![], vec!["timestamp-echo"], vec![note.to_owned()]));
    // A length that the kind does not have.
    odd[1].1[43] = 9;
    assert_eq!(outcome(&odd).1, ["timestamp-echo"]);
}

#[test]
fn a_stretch_without_tcp_is_read_in_steps_so_that_a_command_can_be_interrupted() {
    let mut file = pcap(101, &handshake(10));
    // Records of no byte.
    file.resize(file.len() + 16 * 300_000, 0);
    let options = AnalysisOptions::default();
    let mut known = Analysis::new(options.clone());
    let mut reader = Reader::new(&file[..]).expect("a capture");
    let mut steps = 0;
    while known.read(&mut reader, 100_000) {
        steps += 1;
    }
    assert_eq!(steps, 3);
    let mut reader = Reader::new(&file[..]).expect("a capture");
    let mut looks = 0;
    let mut go_on = || {
        looks += 1;
        looks < 2
    };
    Capture::read(&known, &options, &mut reader, None, "0", 1_000_000, &mut go_on);
    assert_eq!(looks, 2);
}

proptest! {
    #[test]
    fn damage_at_any_place_never_panics(
        at_receiver: bool, merge: bool,
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let mut file = pcap(101, &sample(at_receiver));
        for (place, byte) in places {
            let place = place.index(file.len());
            file[place] ^= byte;
        }
        judged(&file, merge);
    }
}
