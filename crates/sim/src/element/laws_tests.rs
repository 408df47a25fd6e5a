//! Laws that hold for any queue, link and shaper, whatever its parameters and arrivals are. No law computes what a discipline would do.

use super::*;
use crate::engine::{
    Core, DropReason, FlowLabel, HostId, Hosts, Network, NodeId, Packet, PacketEvent, PacketId, TimerId,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tcpassay_units::{Bytes, Dur, Rate, Seed, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

const MTU: u64 = 1500;
/// Longer than the average of RED and the control laws of the others remember anything, with the parameters below.
const REST: u64 = 30_000_000_000;

/// A packet that is sent: the time since the packet before in nanoseconds, its payload, its flow.
///
/// All packets of a flow have the same ECN field, as those of a connection, so that no discipline has a reason to reorder them.
#[derive(Clone, Debug)]
struct Sending {
    gap: u64,
    len: u32,
    flow: u32,
}

fn ecn(flow: u32) -> Ecn {
    [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct][flow as usize]
}

fn sendings() -> impl Strategy<Value = Vec<Sending>> {
    let gap =
        prop_oneof![6 => Just(0), 6 => 1_000u64..2_000_000, 2 => 2_000_000u64..300_000_000, 1 => Just(REST)];
    let len = prop_oneof![1 => Just(0u32), 6 => Just(1460u32), 2 => 1u32..1460];
    prop::collection::vec((gap, len, 0u32..4).prop_map(|(gap, len, flow)| Sending { gap, len, flow }), 1..200)
}

/// Bursts that fill a queue, then packets that find it empty, then a long pause.
fn bursts_and_rests() -> impl Strategy<Value = Vec<Sending>> {
    let full = |gap| Sending { gap, len: 1460, flow: 0 };
    let round = (10usize..80, prop::collection::vec(1_000_000u64..20_000_000, 1..4)).prop_map(
        move |(burst, gaps)| {
            let first = std::iter::once(full(REST));
            first.chain(vec![full(0); burst]).chain(gaps.into_iter().map(full)).collect::<Vec<_>>()
        },
    );
    prop::collection::vec(round, 2..12).prop_map(|rounds| rounds.concat())
}

fn limit() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (1u32..40).prop_map(QueueLimit::packets),
        (MTU..60_000).prop_map(|bytes| QueueLimit::bytes(Bytes::new(bytes))),
    ]
}

fn fifo() -> impl Strategy<Value = DisciplineSpec> {
    let mark = proptest::option::of((1u64..30_000).prop_map(Bytes::new));
    (limit(), mark).prop_map(|(limit, mark_above)| DisciplineSpec::Fifo(FifoSpec { limit, mark_above }))
}

fn red() -> impl Strategy<Value = DisciplineSpec> {
    let share = prop_oneof![Just(0.002), Just(0.02), Just(0.2), Just(1.0)];
    (limit(), 1_000u64..10_000, 1_000u64..30_000, 0.01..1.0f64, share, any::<[bool; 3]>()).prop_map(
        |(limit, min, more, max_p, weight, [gentle, ecn, harddrop])| {
            let (min, max) = (Bytes::new(min), Bytes::new(min + more));
            let packet_time = Dur::from_micros(240);
            DisciplineSpec::Red(RedSpec {
                min,
                max,
                max_p,
                weight,
                gentle,
                ecn,
                harddrop,
                packet_time,
                limit,
            })
        },
    )
}

fn codel_spec() -> impl Strategy<Value = CoDelSpec> {
    (100u64..5_000, 2u64..20, any::<bool>(), limit()).prop_map(|(target, intervals, ecn, limit)| {
        let target = Dur::from_micros(target);
        CoDelSpec { target, interval: target * intervals, ecn, limit, ..CoDelSpec::INTERNET }
    })
}

fn fq_codel() -> impl Strategy<Value = DisciplineSpec> {
    (codel_spec(), 1u16..5, 200u64..3_000, 1u32..64).prop_map(|(codel, queues, quantum, drop_batch)| {
        let quantum = Bytes::new(quantum);
        DisciplineSpec::FqCoDel(FqCoDelSpec { codel, queues, quantum, drop_batch })
    })
}

fn pie() -> impl Strategy<Value = DisciplineSpec> {
    (100u64..5_000, 1u64..5, 1u64..20, any::<bool>(), limit()).prop_map(
        |(target, update, burst, ecn, limit)| {
            let (target, update) = (Dur::from_micros(target), Dur::from_millis(update));
            let max_burst = Dur::from_millis(burst);
            DisciplineSpec::Pie(PieSpec { target, update, max_burst, ecn, limit, ..PieSpec::RFC })
        },
    )
}

fn fq() -> impl Strategy<Value = DisciplineSpec> {
    (1u32..20, limit())
        .prop_map(|(flow_limit, limit)| DisciplineSpec::Fq(FqSpec { flow_limit, limit, ..FqSpec::LINUX }))
}

fn dualpi2() -> impl Strategy<Value = DisciplineSpec> {
    (100u64..5_000, 1u64..5, limit()).prop_map(|(target, update, limit)| {
        let (target, update) = (Dur::from_micros(target), Dur::from_millis(update));
        DisciplineSpec::DualPi2(DualPi2Spec { target, update, limit, ..DualPi2Spec::LINUX })
    })
}

fn any_discipline() -> impl Strategy<Value = DisciplineSpec> {
    prop_oneof![
        fifo(),
        red(),
        codel_spec().prop_map(DisciplineSpec::CoDel),
        fq_codel(),
        pie(),
        fq(),
        dualpi2()
    ]
}

/// A port of 2 to 200 Mbit/s.
fn port(queue: impl Into<QueueSpec>, mbit: u64, delay: u64) -> PortSpec {
    PortSpec::new(queue, Pace::Fixed(Rate::from_mbit(mbit)), Dur::from_micros(delay))
}

/// What happened to a packet.
#[derive(Clone, Debug)]
struct Fate {
    sent: u64,
    size: u64,
    flow: u32,
    ecn: Ecn,
    /// What waited when it was sent.
    found: Backlog,
    marked: bool,
    dropped: Option<(u64, DropReason)>,
    arrived: Vec<(u64, Ecn)>,
}

#[derive(Default)]
struct Log {
    fates: BTreeMap<u32, Fate>,
    /// Numbers of the packets in the order of their arrival at the receiver.
    order: Vec<u32>,
}

impl Log {
    fn of(&mut self, packet: &Packet) -> &mut Fate {
        self.fates.get_mut(&packet.segment.seq.get()).expect("it was sent")
    }
}

impl Hosts for Log {
    fn receive(&mut self, net: &mut Core, _: HostId, id: PacketId) {
        let packet = net.packet(id).clone();
        self.order.push(packet.segment.seq.get());
        self.of(&packet).arrived.push((net.now().as_nanos(), packet.ecn));
    }
    fn timer(&mut self, _: &mut Core, _: TimerId) {
        unreachable!("nobody set one")
    }
    fn observe(&mut self, now: Time, _: NodeId, what: PacketEvent, _: PacketId, packet: &Packet) {
        match what {
            PacketEvent::Marked => self.of(packet).marked = true,
            PacketEvent::Dropped(why) => {
                assert_eq!(self.of(packet).dropped.replace((now.as_nanos(), why)), None, "dropped twice");
            }
            PacketEvent::Arrived | PacketEvent::Departed => {}
        }
    }
}

/// Sends packets through an element until nothing is left.
fn pass(element: impl IntoElement, sendings: &[Sending]) -> Log {
    let mut net = Network::new(Seed(1));
    let (a, _) = net.add_host("a");
    let (_, to_b) = net.add_host("b");
    let node = net.add("element", element);
    net.set_egress(a, &[node, to_b]);
    net.watch(node);
    let (mut log, mut now) = (Log::default(), 0);
    for (number, one) in (0u32..).zip(sendings) {
        now += one.gap;
        net.run_until(&mut log, Time::from_nanos(now));
        let segment =
            Segment { seq: SeqNum::new(number), len: one.len, flags: Flags::ACK, ..Segment::default() };
        let packet = Packet::tcp(HostId(0), HostId(1), FlowLabel(one.flow), segment, ecn(one.flow), 1460);
        let (size, found) = (packet.size().get(), net.waiting(node));
        let fate = Fate {
            sent: now,
            size,
            flow: one.flow,
            ecn: packet.ecn,
            found,
            marked: false,
            dropped: None,
            arrived: Vec::new(),
        };
        log.fates.insert(number, fate);
        net.core().send(packet);
        net.run_until(&mut log, Time::from_nanos(now));
    }
    while net.step(&mut log, Time::MAX) {}
    assert_eq!(net.counters(node).balance(), 0);
    let dropped: u64 = log.fates.values().filter(|fate| fate.dropped.is_some()).map(|fate| fate.size).sum();
    let counters = net.counters(node);
    assert_eq!(counters.bytes_in, counters.bytes_out + counters.bytes_dropped);
    assert_eq!(counters.bytes_dropped, dropped);
    log
}

/// A packet arrives once or is dropped once, and no other packet arrives.
fn nothing_is_lost_or_made(log: &Log) -> Result<(), TestCaseError> {
    for (number, fate) in &log.fates {
        prop_assert_eq!(
            fate.arrived.len() + usize::from(fate.dropped.is_some()),
            1,
            "{}: {:?}",
            number,
            fate
        );
    }
    Ok(())
}

/// The receiver gets the packets of a flow in the order in which they were sent.
fn flows_keep_their_order(log: &Log) -> Result<(), TestCaseError> {
    let mut last = BTreeMap::new();
    for number in &log.order {
        let before = last.insert(log.fates[number].flow, *number);
        prop_assert!(before.is_none_or(|before| before < *number), "{before:?} before {number}");
    }
    Ok(())
}

/// No packet arrives before it can have been transmitted and propagated, and transmissions do not overlap.
fn nothing_is_early(log: &Log, mbit: u64, delay: u64) -> Result<(), TestCaseError> {
    let mut free = 0;
    for number in &log.order {
        let fate = &log.fates[number];
        // Rounded down: the remainder of a nanosecond counts with the next packet.
        let takes = fate.size * 8_000 / mbit;
        let left = fate.arrived[0].0 - delay * 1000;
        prop_assert!(left + 1 >= fate.sent + takes, "{number} left at {left}: {fate:?}");
        prop_assert!(left + 1 >= free + takes, "{number} left at {left}, the one before at {free}");
        free = left;
    }
    Ok(())
}

/// While a packet waits, the link transmits: each transmission begins when a packet comes or when the one before ends.
fn the_link_never_rests(log: &Log, mbit: u64, delay: u64) -> Result<(), TestCaseError> {
    let mut free = 0;
    for number in &log.order {
        let fate = &log.fates[number];
        let began = (fate.arrived[0].0 - delay * 1000).saturating_sub(fate.size * 8_000 / mbit);
        prop_assert!(began <= free.max(fate.sent) + 1, "{number} began at {began}, free at {free}: {fate:?}");
        free = fate.arrived[0].0 - delay * 1000;
    }
    Ok(())
}

/// Only ECN-capable packets are marked, and the field of a packet changes in no other way.
fn marks_need_ect(log: &Log) -> Result<(), TestCaseError> {
    for fate in log.fates.values() {
        prop_assert!(!fate.marked || fate.ecn.is_capable(), "{:?}", fate);
        let is = if fate.marked { Ecn::Ce } else { fate.ecn };
        prop_assert!(fate.arrived.iter().all(|(_, ecn)| *ecn == is), "{:?}", fate);
    }
    Ok(())
}

/// A full queue drops, and nothing else is called a full queue: with one queue for all packets it holds what its limit allows, and the packet
/// would exceed it.
fn only_a_full_queue_is_full(log: &Log, limit: QueueLimit) -> Result<(), TestCaseError> {
    for fate in log.fates.values() {
        if let Some((at, DropReason::Full)) = fate.dropped {
            prop_assert_eq!(at, fate.sent);
            let bytes = Bytes::new(fate.found.bytes + fate.size);
            prop_assert!(
                fate.found.packets >= limit.packets || bytes > limit.bytes,
                "{:?}: {:?}",
                limit,
                fate
            );
        }
    }
    Ok(())
}

/// The reasons for drops that a discipline has.
fn drops_have_the_reasons(log: &Log, reasons: &[DropReason]) -> Result<(), TestCaseError> {
    for fate in log.fates.values() {
        prop_assert!(fate.dropped.is_none_or(|(_, why)| reasons.contains(&why)), "{:?}", fate);
    }
    Ok(())
}

/// A packet that finds a queue at rest passes unmarked: after a long pause active queue management has no reason to drop it.
fn a_queue_at_rest_takes_a_packet(log: &Log, sendings: &[Sending]) -> Result<(), TestCaseError> {
    for (number, one) in (0u32..).zip(sendings) {
        let fate = &log.fates[&number];
        if one.gap >= REST {
            prop_assert!(fate.found.packets == 0, "the pause is long enough");
            prop_assert!(fate.dropped.is_none() && !fate.marked, "{:?}", fate);
        }
    }
    Ok(())
}

/// CoDel and its relatives drop packets that have waited, and not sooner than after the target.
fn drops_have_waited(log: &Log, target: Dur) -> Result<(), TestCaseError> {
    for fate in log.fates.values() {
        if let Some((at, DropReason::Early)) = fate.dropped {
            prop_assert!(at - fate.sent >= target.as_nanos(), "{:?}", fate);
        }
    }
    Ok(())
}

/// In any time a shaper lets at most its burst and its rate pass; the last packet may have been allowed just before.
fn the_bucket_is_kept(log: &Log, mbit: u64, burst: u64) -> Result<(), TestCaseError> {
    // Tokens in bit-nanoseconds at the most, as a bucket that fills and empties.
    let (mut tokens, mut last) = (burst * 8_000, 0);
    for number in &log.order {
        let fate = &log.fates[number];
        // The time at which a transmission at 1 Gbit/s began.
        let at = fate.arrived[0].0.saturating_sub(fate.size * 8).max(last);
        tokens = (tokens + (at - last) * mbit).min(burst * 8_000);
        last = at;
        // The packet before may have waited for another one, and a microsecond for rounding.
        prop_assert!(
            tokens + mbit * (MTU * 8 + 1_000) >= fate.size * 8_000,
            "{number} at {at} with {tokens}"
        );
        tokens = tokens.saturating_sub(fate.size * 8_000);
    }
    Ok(())
}

fn limit_of(spec: &DisciplineSpec) -> Option<QueueLimit> {
    match spec {
        DisciplineSpec::Fifo(fifo) => Some(fifo.limit),
        DisciplineSpec::Red(red) => Some(red.limit),
        DisciplineSpec::CoDel(codel) => Some(codel.limit),
        DisciplineSpec::Pie(pie) => Some(pie.limit),
        DisciplineSpec::DualPi2(dual) => Some(dual.limit),
        // These drop from another flow, or have a limit of each flow.
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_port_with_any_discipline_keeps_the_laws(
        spec in any_discipline(),
        mbit in 2u64..200,
        delay in 0u64..3_000,
        sendings in sendings(),
    ) {
        let log = pass(port(spec, mbit, delay), &sendings);
        nothing_is_lost_or_made(&log)?;
        flows_keep_their_order(&log)?;
        nothing_is_early(&log, mbit, delay)?;
        the_link_never_rests(&log, mbit, delay)?;
        marks_need_ect(&log)?;
        if let Some(limit) = limit_of(&spec) {
            only_a_full_queue_is_full(&log, limit)?;
        }
        let passive = matches!(spec, DisciplineSpec::Fifo(_) | DisciplineSpec::Fq(_));
        drops_have_the_reasons(&log, if passive { &[DropReason::Full] } else { &[DropReason::Full, DropReason::Early] })?;
        a_queue_at_rest_takes_a_packet(&log, &sendings)?;
        if let DisciplineSpec::CoDel(CoDelSpec { target, .. })
        | DisciplineSpec::FqCoDel(FqCoDelSpec { codel: CoDelSpec { target, .. }, .. }) = spec
        {
            drops_have_waited(&log, target)?;
        }
    }

    #[test]
    fn active_queue_management_forgets_a_burst_in_a_long_pause(
        spec in prop_oneof![4 => red(), 1 => codel_spec().prop_map(DisciplineSpec::CoDel), 1 => fq_codel(), 1 => pie(), 1 => dualpi2()],
        mbit in 20u64..100,
        sendings in bursts_and_rests(),
    ) {
        let log = pass(port(spec, mbit, 0), &sendings);
        a_queue_at_rest_takes_a_packet(&log, &sendings)?;
    }

    #[test]
    fn a_link_keeps_the_laws(
        limit in limit(),
        mark in proptest::option::of(1u64..30_000),
        mbit in 2u64..200,
        delay in 0u64..3_000,
        sendings in sendings(),
    ) {
        let mark_above = mark.map(Bytes::new);
        let spec = LinkSpec { limit, mark_above, ..LinkSpec::new(Rate::from_mbit(mbit), Dur::from_micros(delay)) };
        let log = pass(spec, &sendings);
        nothing_is_lost_or_made(&log)?;
        flows_keep_their_order(&log)?;
        nothing_is_early(&log, mbit, delay)?;
        the_link_never_rests(&log, mbit, delay)?;
        marks_need_ect(&log)?;
        only_a_full_queue_is_full(&log, limit)?;
        drops_have_the_reasons(&log, &[DropReason::Full])?;
        a_queue_at_rest_takes_a_packet(&log, &sendings)?;
    }

    #[test]
    fn a_shaper_over_any_discipline_keeps_the_laws(
        inner in any_discipline(),
        bucket in any::<bool>(),
        mbit in 1u64..50,
        burst in 2 * MTU..40_000,
        sendings in sendings(),
    ) {
        let (rate, bytes) = (Rate::from_mbit(mbit), Bytes::new(burst));
        let queue = if bucket {
            QueueSpec::Tbf(TbfSpec { rate, burst: bytes, inner })
        } else {
            QueueSpec::Htb(HtbSpec::equal(rate, 1, bytes, inner))
        };
        let log = pass(port(queue, 1_000, 0), &sendings);
        nothing_is_lost_or_made(&log)?;
        flows_keep_their_order(&log)?;
        nothing_is_early(&log, 1_000, 0)?;
        marks_need_ect(&log)?;
        // The packet that empties the bucket of HTB may leave it in debt.
        the_bucket_is_kept(&log, mbit, burst + if bucket { 0 } else { MTU })?;
        a_queue_at_rest_takes_a_packet(&log, &sendings)?;
    }
}
