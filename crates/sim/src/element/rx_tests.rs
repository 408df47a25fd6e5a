use super::*;
use crate::element::test_net::{TestPath, numbered};
use crate::engine::{FlowLabel, Packet};
use tcpassay_units::SeqNum;
use tcpassay_wire::{Ecn, Flags, Timestamps};

/// Merging, with an interrupt 20 us after the first packet.
fn gro() -> RxSpec {
    RxSpec { coalesce: fixed(20, 0), gro_max: Some(Bytes::new(65_536)), ..RxSpec::PLAIN }
}

fn fixed(usecs: u64, frames: u32) -> Coalesce {
    Coalesce::Fixed { usecs: Dur::from_micros(usecs), frames }
}

fn all(spec: RxSpec, packets: impl IntoIterator<Item = Packet>) -> TestPath {
    let mut line = TestPath::new(spec);
    for p in packets {
        line.send(p);
    }
    line.finish();
    assert_eq!((line.counters().balance(), line.net.held(line.node)), (0, 0));
    line
}

/// The packets that are passed up: first sequence number and length.
fn up(packets: impl IntoIterator<Item = Packet>) -> Vec<(u32, u32)> {
    all(gro(), packets).arrived.iter().map(|(_, p)| (p.segment.seq.get(), p.segment.len)).collect()
}

fn full(n: u32) -> Packet {
    numbered(1000 * n, 1000)
}

fn with(mut p: Packet, change: impl FnOnce(&mut Packet)) -> Packet {
    change(&mut p);
    p.measure();
    p
}

#[test]
fn segments_in_sequence_merge_until_the_poll_ends() {
    let line = all(gro(), (0..4).map(full));
    assert_eq!(line.times(), [20_000]);
    let p = &line.arrived[0].1;
    assert_eq!((p.segment.len, p.segs, p.mss, p.size().get()), (4000, 4, 1000, 4160));
    assert_eq!(line.counters().merged, 3);
}

#[test]
fn different_ecn_marks_never_merge() {
    let marked = |n| with(full(n), |p| p.ecn = Ecn::Ce);
    let got = up([full(0), full(1), marked(2), marked(3), full(4)]);
    assert_eq!(got, [(0, 2000), (2000, 2000), (4000, 1000)]);
}

#[test]
fn different_flags_never_merge() {
    let ece = |n| with(full(n), |p| p.segment.flags |= Flags::ECE);
    assert_eq!(up([full(0), ece(1), ece(2), full(3)]), [(0, 1000), (1000, 2000), (3000, 1000)]);
}

#[test]
fn a_gap_ends_the_merge_and_what_follows_begins_another() {
    assert_eq!(up([full(0), full(2), full(3), full(1)]), [(0, 1000), (2000, 2000), (1000, 1000)]);
}

#[test]
fn push_and_fin_are_appended_and_end_the_merge() {
    let flagged = |n, f| with(full(n), move |p| p.segment.flags |= f);
    let line = all(gro(), [full(0), flagged(1, Flags::PSH), full(2), flagged(3, Flags::FIN), full(4)]);
    let got: Vec<(u32, Flags)> = line.arrived.iter().map(|(_, p)| (p.segment.len, p.segment.flags)).collect();
    let ack = Flags::ACK;
    assert_eq!(got, [(2000, ack | Flags::PSH), (2000, ack | Flags::FIN), (1000, ack)]);
}

#[test]
fn cwr_is_not_appended_but_may_begin_a_merge() {
    let cwr = |n| with(full(n), |p| p.segment.flags |= Flags::CWR);
    assert_eq!(up([full(0), cwr(1), full(2)]), [(0, 1000), (1000, 2000)]);
    assert_eq!(up([cwr(0), cwr(1)]), [(0, 1000), (1000, 1000)]);
}

#[test]
fn with_accurate_ecn_the_counter_must_be_equal() {
    let ace = |n, f| {
        with(full(n), move |p| {
            p.segment.flags |= f;
            p.accecn = true;
        })
    };
    let cwr = Flags::CWR;
    let got = up([ace(0, cwr), ace(1, cwr), ace(2, Flags::NONE), ace(3, Flags::NONE)]);
    assert_eq!(got, [(0, 2000), (2000, 2000)]);
}

#[test]
fn another_acknowledgement_number_or_timestamp_does_not_merge() {
    let acked = |n| with(full(n), |p| p.segment.ack = SeqNum::new(9));
    assert_eq!(up([full(0), acked(1)]), [(0, 1000), (1000, 1000)]);
    let stamped =
        |n, val| with(full(n), move |p| p.segment.options.timestamps = Some(Timestamps { val, ecr: 0 }));
    assert_eq!(up([stamped(0, 1), stamped(1, 1), stamped(2, 2)]), [(0, 2000), (2000, 1000)]);
}

#[test]
fn a_short_segment_is_appended_and_ends_the_merge() {
    assert_eq!(up([full(0), numbered(1000, 10), numbered(1010, 1000)]), [(0, 1010), (1010, 1000)]);
}

#[test]
fn a_segment_longer_than_the_first_does_not_merge() {
    assert_eq!(up([numbered(0, 10), numbered(10, 1000), numbered(1010, 1000)]), [(0, 10), (10, 2000)]);
}

#[test]
fn pure_acks_go_up_at_once_behind_the_merge_of_their_flow() {
    let got = up([full(0), numbered(1000, 0), numbered(1000, 0), full(1)]);
    assert_eq!(got, [(0, 1000), (1000, 0), (1000, 0), (1000, 1000)]);
}

#[test]
fn flows_merge_apart() {
    let other = |n| with(full(n), |p| p.flow = FlowLabel(1));
    let got = up([full(0), other(0), full(1), other(1)]);
    assert_eq!(got, [(0, 2000), (0, 2000)]);
}

#[test]
fn a_merge_stays_below_the_largest_size() {
    let spec = RxSpec { gro_max: Some(Bytes::new(3041)), ..gro() };
    let lens = |spec| -> Vec<u32> {
        all(spec, (0..7).map(full)).arrived.iter().map(|(_, p)| p.segment.len).collect()
    };
    // Three payloads and one header are 3040 bytes.
    assert_eq!(lens(spec.clone()), [3000, 3000, 1000]);
    assert_eq!(lens(RxSpec { gro_max: Some(Bytes::new(3040)), ..spec }), [2000, 2000, 2000, 1000]);
}

#[test]
fn a_timeout_keeps_a_merge_open_over_the_poll() {
    let spec = RxSpec { gro_timeout: Dur::from_micros(100), ..gro() };
    let mut line = TestPath::new(spec);
    line.send(full(0));
    line.run_until(50_000);
    line.send(full(1));
    line.finish();
    assert_eq!(
        (line.times(), line.arrived[0].1.segment.len),
        (vec![170_000], 2000),
        "100 us after the last poll"
    );
}

#[test]
fn packets_of_another_flow_keep_a_merge_open_until_the_next_tick() {
    // `napi_complete_done` of Linux starts the timer of the device again, and passes on merges that were opened before the present tick.
    let spec = RxSpec { gro_timeout: Dur::from_micros(100), ..gro() };
    let other = |n| with(full(n), |p| p.flow = FlowLabel(1));
    let mut line = TestPath::new(spec);
    line.send(full(0));
    for n in 1..=20 {
        line.run_until(60_000 * u64::from(n));
        line.send(other(n));
    }
    line.finish();
    let told: Vec<u32> = line.arrived.iter().map(|(_, p)| p.segment.len).collect();
    assert_eq!(told, [1000, 17_000, 3000]);
    // The poll of what arrived at 1020 us is the first one of the second tick; the last one ends at 1220 us.
    assert_eq!(line.times(), [1_040_000, 1_040_000, 1_320_000]);
}

#[test]
fn a_damaged_segment_is_never_merged() {
    let damaged = with(full(1), |p| p.corrupt = true);
    // It is passed up beside the open merge, and the checksum of the host detects the damage.
    assert_eq!(up([full(0), damaged, full(2)]), [(0, 1000), (2000, 1000)]);
}

#[test]
fn datagrams_pass_unmerged() {
    let datagram =
        |_| Packet::udp(crate::engine::HostId(0), crate::engine::HostId(1), FlowLabel(3), 500, Ecn::NotEct);
    assert_eq!(all(gro(), (0..3).map(datagram)).arrived.len(), 3);
}

#[test]
fn without_coalescing_every_packet_has_its_own_poll() {
    let spec = RxSpec { coalesce: fixed(0, 0), ..gro() };
    assert_eq!(all(spec, (0..3).map(full)).arrived.len(), 3);
}

#[test]
fn the_interrupt_waits_for_its_time_or_its_number_of_frames() {
    let spec = RxSpec { coalesce: fixed(20, 3), ..RxSpec::PLAIN };
    let mut line = TestPath::new(spec);
    for n in 0..4 {
        line.run_until(u64::from(n) * 1000);
        line.send(full(n));
    }
    line.finish();
    assert_eq!(line.times(), [2_000, 2_000, 2_000, 23_000]);
}

#[test]
fn packets_beyond_the_ring_are_dropped() {
    let line = all(RxSpec { ring: 2, coalesce: fixed(20, 0), ..RxSpec::PLAIN }, (0..5).map(full));
    assert_eq!((line.arrived.len(), line.counters().dropped[DropReason::Ring]), (2, 3));
}

#[test]
fn a_busy_host_makes_its_own_batches() {
    let spec = RxSpec { coalesce: fixed(0, 0), cost: Dur::from_micros(10), ..gro() };
    let mut line = TestPath::new(spec);
    for n in 0..8 {
        line.run_until(u64::from(n) * 5_000);
        line.send(full(n));
    }
    line.finish();
    // Polls: of the packet of 0 us until 10, of 5 us until 20, of 10 and 15 us until 40, of the other four until 80.
    let got: Vec<(u64, u32)> = line.arrived.iter().map(|(t, p)| (*t, p.segment.len)).collect();
    assert_eq!(got, [(10_000, 1000), (20_000, 1000), (40_000, 2000), (80_000, 4000)]);
}

#[test]
fn a_stale_hash_reverses_a_batch_in_groups() {
    let spec = RxSpec { order: RxOrder::StaleHash(4..=4), ..gro() };
    let seqs: Vec<u32> = all(spec, (1..=10).map(full)).seqs().iter().map(|s| s / 1000).collect();
    assert_eq!(seqs, [4, 3, 2, 1, 8, 7, 6, 5, 10, 9]);
}

#[test]
fn groups_of_a_stale_hash_are_of_4_or_5() {
    let spec = RxSpec { order: RxOrder::StaleHash(4..=5), ..gro() };
    let seqs: Vec<u32> = all(spec, (0..60).map(full)).seqs().iter().map(|s| s / 1000).collect();
    let firsts: Vec<u32> =
        std::iter::once(seqs[0]).chain(seqs.windows(2).filter(|w| w[1] > w[0]).map(|w| w[1])).collect();
    let mut sizes: Vec<u32> = firsts.windows(2).map(|w| w[1] - w[0]).collect();
    sizes.pop(); // The last group ends with the batch.
    assert!(
        sizes.contains(&4) && sizes.contains(&5) && sizes.iter().all(|s| (4..=5).contains(s)),
        "{sizes:?}"
    );
}

#[test]
fn the_adaptive_delay_saves_interrupts_under_load() {
    let spec = RxSpec { coalesce: Coalesce::Adaptive, ..RxSpec::PLAIN };
    let mut line = TestPath::new(spec);
    for n in 0..50_000_u32 {
        line.run_until(u64::from(n) * 1_000);
        line.send(full(n));
    }
    line.finish();
    let mut instants = line.times();
    instants.dedup();
    let long = instants.windows(2).filter(|w| w[1] - w[0] >= 256_000).count();
    assert!(long > 64, "{long}");
}

#[test]
fn a_hidden_firmware_makes_two_delays_of_one() {
    let us = Dur::from_micros;
    let coalesce = Coalesce::Hidden { short: us(10), long: us(1200), idle: us(50), frames: 0 };
    let mut line = TestPath::new(RxSpec { coalesce, ..RxSpec::PLAIN });
    for at in [1_000_000, 2_210_000, 2_230_000, 4_000_000] {
        line.run_until(at);
        line.send(full(0));
    }
    line.finish();
    // After a pause 1.2 ms; within 50 us of the packet before, 10 us.
    assert_eq!(line.times(), [2_200_000, 3_410_000, 3_410_000, 5_200_000]);
    let mut line = TestPath::new(RxSpec { coalesce, ..RxSpec::PLAIN });
    for at in [30_000, 70_000, 110_000] {
        line.run_until(at);
        line.send(full(0));
    }
    line.finish();
    assert_eq!(line.times(), [40_000, 80_000, 120_000]);
}

#[test]
fn enough_packets_end_the_long_delay_of_a_hidden_firmware() {
    let us = Dur::from_micros;
    let coalesce = Coalesce::Hidden { short: us(10), long: us(1200), idle: us(50), frames: 3 };
    let mut line = TestPath::new(RxSpec { coalesce, ..RxSpec::PLAIN });
    for at in [1_000_000, 1_001_000, 1_002_000, 3_000_000, 3_001_000] {
        line.run_until(at);
        line.send(full(0));
    }
    line.finish();
    // Three packets after a pause raise the interrupt at once; two wait for 1.2 ms.
    assert_eq!(line.times(), [1_002_000, 1_002_000, 1_002_000, 4_200_000, 4_200_000]);
}
