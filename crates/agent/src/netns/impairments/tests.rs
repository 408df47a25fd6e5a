//! The relay's processing of packets, without a network.

use super::*;
use std::collections::BTreeMap as Map;
use tcpassay_case::Case;
use tcpassay_case::params::{Substrate, Value};

fn link(path: &str, value: &str) -> LinkSettings {
    let triples = Map::from([(path.to_owned(), Value::from(value))]);
    let no_files = |_: &str| Err(std::io::Error::other("no files"));
    Case::on(Substrate::Kernel, &triples, &no_files).unwrap().links[0].clone()
}

impl Corruptible for u64 {
    fn damage(&mut self) {
        *self += 1_000_000;
    }
}

fn forward(path: &str, value: &str) -> Impairments<u64> {
    let wire = (Rate::from_mbit(12), Bytes::new(1500));
    Impairments::forward(&link(path, value), "bottleneck", wire, Seed(1), false).unwrap()
}

/// The packets that the relay forwards, of packets that arrive at intervals of a millisecond.
fn through(
    faults: &mut Impairments<u64>,
    sort: PacketSummary,
    packets: std::ops::RangeInclusive<u64>,
) -> Vec<u64> {
    let mut out = Vec::new();
    packets.for_each(|n| faults.take(n * 1_000_000, sort, n, &mut out));
    out
}

const DATA: PacketSummary = PacketSummary { data: true, ack: false, flow: [0; 12], tcp: None };

#[test]
fn a_list_loses_exactly_these_data_packets() {
    let mut faults = forward("link.loss_model", "list:2,5");
    let mut out = Vec::new();
    // What has no payload is not counted.
    faults.take(0, PacketSummary::default(), 100, &mut out);
    out.extend(through(&mut faults, DATA, 1..=6));
    assert_eq!(out, [100, 1, 3, 4, 6]);
    assert_eq!(faults.counts(), ImpairmentCounts { lost: 2, ..ImpairmentCounts::default() });
}

#[test]
fn a_held_packet_is_passed_by_exactly_the_gap() {
    let mut faults = forward("link.reorder", "2%:3");
    let out = through(&mut faults, DATA, 1..=1000);
    let held = faults.counts().held;
    assert!((10..30).contains(&held), "{held}");
    let late: Vec<usize> = (0..out.len())
        .map(|at| out[..at].iter().filter(|before| **before > out[at]).count())
        .filter(|passed| *passed > 0)
        .collect();
    assert!(late.len() as u64 >= held - 1 && late.iter().all(|passed| *passed == 3), "{late:?}");
}

#[test]
fn a_held_packet_goes_after_four_times_what_the_others_take_on_the_wire() {
    let mut faults = forward("link.reorder", "100%:3");
    assert_eq!(through(&mut faults, DATA, 1..=1), [0_u64; 0]);
    // 3 packets of 1500 bytes at 12 Mbit/s are 3 ms.
    assert_eq!(faults.due(), Some(13_000_000));
    let mut out = Vec::new();
    faults.release(12_999_999, &mut out);
    assert_eq!(out, [0_u64; 0]);
    faults.release(13_000_000, &mut out);
    assert_eq!((out, faults.due()), (vec![1], None));
}

#[test]
fn bursts_arrive_backwards_and_the_last_is_released_by_time() {
    let mut faults = forward("link.reorder", "reverse-burst:4");
    let mut out = through(&mut faults, DATA, 1..=10);
    assert_eq!(out, [4, 3, 2, 1, 8, 7, 6, 5]);
    assert_eq!(faults.due(), Some(25_000_000));
    faults.release(25_000_000, &mut out);
    assert_eq!((&out[8..], faults.due()), (&[10, 9][..], None));
}

#[test]
fn what_comes_in_a_pause_leaves_together_at_its_end_and_nothing_is_lost() {
    let mut faults = forward("link.pause", "10ms,4ms");
    faults.begin(1_000_000);
    // Pauses last from 11 to 15 ms and from 21 to 25 ms; the probes of the path see none.
    assert_eq!(through(&mut faults, DATA, 1..=14), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(faults.due(), Some(15_000_000));
    let mut out = Vec::new();
    faults.release(15_000_000, &mut out);
    assert_eq!((&out[..], faults.due()), (&[11, 12, 13, 14][..], None));
    assert_eq!(through(&mut faults, DATA, 15..=25), [15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25]);
    assert_eq!(faults.counts(), ImpairmentCounts::default());
}

#[test]
fn of_three_acks_of_a_flow_the_newest_goes_on_and_the_last_of_a_burst_after_the_wait() {
    let mut faults: Impairments<u64> =
        Impairments::backward(&link("link.ack_thinning", "3"), "bottleneck", Seed(1), false).unwrap();
    let ack = |ack, sack| PacketSummary {
        data: false,
        ack: true,
        flow: [1; 12],
        tcp: Some(AckFields { ack, sack, ..AckFields::default() }),
    };
    let mut out = Vec::new();
    for n in 1..=4_u32 {
        faults.take(u64::from(n) * 1_000_000, ack(n, false), u64::from(n), &mut out);
    }
    assert_eq!((&out[..], faults.due()), (&[3][..], Some(14_000_000)));
    faults.release(13_999_999, &mut out);
    faults.release(14_000_000, &mut out);
    assert_eq!((&out[..], faults.due()), (&[3, 4][..], None));
    // One that is held goes before a duplicate, and before one with SACK.
    faults.take(20_000_000, ack(5, false), 5, &mut out);
    faults.take(20_000_000, ack(5, false), 50, &mut out);
    faults.take(20_000_000, ack(6, false), 6, &mut out);
    faults.take(20_000_000, ack(7, true), 7, &mut out);
    assert_eq!(out[2..], [5, 50, 6, 7]);
    assert_eq!(faults.counts(), ImpairmentCounts { thinned: 2, ..ImpairmentCounts::default() });
}

#[test]
fn losses_damage_and_duplicates_happen_to_the_packets_that_the_model_chooses() {
    let (bernoulli, bursts) = ("link.loss", ("link.loss_model", "gilbert-elliott:5%,30%"));
    for (path, value) in [(bernoulli, "10%"), bursts] {
        let mut faults = forward(path, value);
        let mut model = Draws::forward(&link(path, value), "bottleneck", Seed(1)).losses.unwrap();
        let kept: Vec<u64> = (1..=1000).filter(|_| !model.loses()).collect();
        // Packets without payload count, too.
        assert_eq!(through(&mut faults, PacketSummary::default(), 1..=1000), kept, "{path}");
        assert!((800..970).contains(&kept.len()), "{path}: {}", kept.len());
        assert_eq!(faults.counts().lost, 1000 - kept.len() as u64);
    }
    let mut faults = forward("link.duplicate", "10%");
    let out = through(&mut faults, DATA, 1..=1000);
    let twice = out.windows(2).filter(|two| two[0] == two[1]).count();
    assert!((60..140).contains(&twice) && out.len() == 1000 + twice, "{twice}");
    let mut faults = forward("link.corrupt", "10%");
    let out = through(&mut faults, DATA, 1..=1000);
    let damaged = out.iter().filter(|packet| **packet > 1_000_000).count() as u64;
    assert!((60..140).contains(&damaged) && faults.counts().damaged == damaged, "{damaged}");
}

#[test]
fn jitter_adds_what_the_wire_has_not_delayed_and_lets_packets_overtake() {
    let triples = Map::from([
        ("link.delay".to_owned(), Value::from("10ms")),
        ("link.jitter".to_owned(), Value::from("4ms")),
    ]);
    let case = Case::on(Substrate::Kernel, &triples, &|_: &str| Err(std::io::Error::other("none"))).unwrap();
    let settings = &case.links[0];
    assert_eq!(left_to_netem(settings).delay, Dur::from_millis(6));
    let mut model = Draws::forward(settings, "bottleneck", Seed(1)).delays.unwrap();
    let wire = (Rate::from_mbit(12), Bytes::new(1500));
    let mut faults: Impairments<u64> =
        Impairments::forward(settings, "bottleneck", wire, Seed(1), false).unwrap();
    let (mut expected, mut arrived, mut out) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..100_u64 {
        // A packet leaves the wire after the 6 ms; 20 us lie between two.
        let now = n * 20_000 + 6_000_000;
        while let Some(due) = faults.due().filter(|due| *due <= now) {
            faults.release(due, &mut out);
            arrived.extend(out.drain(..).map(|n| (due, n)));
        }
        faults.take(now, DATA, n, &mut out);
        arrived.extend(out.drain(..).map(|n| (now, n)));
        expected.push((n * 20_000 + model.draw().as_nanos(), n));
    }
    while let Some(due) = faults.due() {
        faults.release(due, &mut out);
        arrived.extend(out.drain(..).map(|n| (due, n)));
    }
    expected.sort_unstable();
    assert_eq!(arrived, expected);
    assert!(arrived.windows(2).any(|two| two[1].1 < two[0].1));
}

#[test]
fn probes_are_subject_to_random_losses_but_not_to_lists_or_reordering() {
    let wire = (Rate::from_mbit(12), Bytes::new(1500));
    for (path, value) in [("link.loss_model", "list:1"), ("link.reorder", "100%:3")] {
        let mut faults: Impairments<u64> =
            Impairments::forward(&link(path, value), "bottleneck", wire, Seed(1), true).unwrap();
        assert_eq!(through(&mut faults, DATA, 1..=3), [1, 2, 3], "{path}");
    }
    let mut faults: Impairments<u64> =
        Impairments::forward(&link("link.loss", "50%"), "bottleneck", wire, Seed(1), true).unwrap();
    assert!(through(&mut faults, DATA, 1..=100).len() < 70);
}

#[test]
fn losses_on_the_way_back_are_of_pure_acks() {
    let mut faults: Impairments<u64> =
        Impairments::backward(&link("link.ack_loss", "100%"), "bottleneck", Seed(1), false).unwrap();
    assert_eq!(through(&mut faults, DATA, 1..=2), [1, 2]);
    assert_eq!(through(&mut faults, PacketSummary { ack: true, data: false, ..DATA }, 3..=4), [0_u64; 0]);
}

#[test]
fn sack_is_found_behind_other_options_and_an_invalid_option_ends_the_search() {
    assert!(has_sack(&[1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 5, 10, 0, 0, 0, 0, 0, 0, 0, 0]));
    for options in [&[1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0][..], &[0, 5], &[8, 0, 5], &[8], &[8, 200, 5], &[]]
    {
        assert!(!has_sack(options), "{options:?}");
    }
}

#[test]
fn the_summary_of_a_packet_follows_from_its_headers() {
    let packet = |protocol: u8, flags: u8, payload: u8| {
        let mut bytes =
            vec![0x45, 0, 0, 52 + payload, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend([0, 80, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, flags, 0, 0, 0, 0, 0, 0]);
        bytes.resize(52 + usize::from(payload), 0);
        PacketSummary::of(&bytes)
    };
    let flow = [10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 4, 0];
    let sort = |data, ack| PacketSummary { data, ack, flow, tcp: None };
    let packet = |protocol, flags, payload| PacketSummary { tcp: None, ..packet(protocol, flags, payload) };
    assert_eq!(packet(6, 0x10, 0), sort(false, true));
    assert_eq!(packet(6, 0x18, 9), sort(true, false));
    assert_eq!(packet(6, 0x12, 0), sort(false, false));
    assert_eq!(packet(6, 0x11, 0), sort(false, false));
    assert_eq!(packet(17, 0x10, 9), PacketSummary::default());
    assert_eq!(PacketSummary::of(&[0x45, 0]), PacketSummary::default());
}
