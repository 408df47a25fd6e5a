//! Conservation of packets: every element has sent, dropped or still holds each packet that arrived, at any
//! time and for random arrivals.

use super::test_net::{TestPath, numbered};
use super::*;
use crate::element::DisciplineSpec;
use crate::element::QueueSpec;
use crate::engine::{FlowLabel, Packet};
use proptest::prelude::*;
use tcpassay_units::{Bytes, Dur, Rate};
use tcpassay_wire::{Ecn, Flags};

/// An arriving packet: the gap to the previous one in microseconds, bytes, flow, ECN mark, flags, band.
#[derive(Clone, Debug)]
struct Arrival {
    gap: u64,
    len: u32,
    flow: u32,
    ecn: u8,
    flags: u8,
    band: u8,
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let len = prop_oneof![2 => Just(0), 4 => Just(1460), 2 => 1u32..1460, 1 => 1461u32..65_000];
    let gap = prop_oneof![3 => Just(0), 3 => 1u64..2_000, 1 => 2_000u64..300_000];
    let one = (gap, len, 0u32..4, 0u8..4, 0u8..8, 0u8..2)
        .prop_map(|(gap, len, flow, ecn, flags, band)| Arrival { gap, len, flow, ecn, flags, band });
    prop::collection::vec(one, 1..120)
}

fn packet(a: &Arrival, seq: &mut [u32; 4]) -> Packet {
    let next = &mut seq[a.flow as usize];
    let mut p = numbered(*next, a.len);
    *next += a.len;
    p.flow = FlowLabel(a.flow);
    p.ecn = Ecn::from_bits(a.ecn);
    p.band = a.band;
    // Acknowledges everything of this flow, so that some ACKs are new and some are duplicates.
    p.segment.ack = tcpassay_units::SeqNum::new(*next);
    p.notify = a.flags & 1 > 0;
    for (bit, flag) in [(2, Flags::PSH), (4, Flags::CWR)] {
        if a.flags & bit > 0 {
            p.segment.flags |= flag;
        }
    }
    p
}

/// Sends `arrivals` through `element`. After each packet, the counters must agree with the number of packets
/// that the element holds.
fn conserves(element: impl IntoElement, arrivals: &[Arrival], copies: bool) -> Result<(), TestCaseError> {
    let mut line = TestPath::new(element);
    let (mut now, mut seq) = (0, [0; 4]);
    let (mut payload, mut notified) = (0, Bytes::ZERO);
    for a in arrivals {
        now += a.gap * 1000;
        line.run_until(now);
        let p = packet(a, &mut seq);
        payload += u64::from(p.segment.len);
        notified += if p.notify { p.size() } else { Bytes::ZERO };
        line.send(p);
        prop_assert_eq!(line.counters().balance(), line.net.held(line.node), "held after {:?}", a);
        let waits = line.net.backlog(line.node, FlowLabel(0)).packets;
        prop_assert!(u64::from(waits) <= line.net.held(line.node));
    }
    line.finish();
    let c = line.counters();
    prop_assert_eq!((c.balance(), line.net.held(line.node)), (0, 0), "something is still held");
    prop_assert_eq!(line.net.core().packets_alive().0, 0, "a packet is lost in the arena");
    prop_assert_eq!(c.packets_in, arrivals.len() as u64);
    let arrived: u64 = line.arrived.iter().map(|(_, p)| u64::from(p.segment.len)).sum();
    if copies {
        prop_assert!(arrived >= payload);
    } else if c.dropped.total() == 0 {
        prop_assert_eq!(arrived, payload, "payload in and out");
    } else {
        prop_assert!(arrived <= payload);
    }
    let told = Bytes::new(line.sent.iter().map(|&(_, bytes)| bytes).sum());
    prop_assert!(told <= notified, "a host hears of a packet once");
    Ok(())
}

const RATE: Rate = Rate::from_mbit(50);

fn port(queue: impl Into<QueueSpec>) -> PortSpec {
    PortSpec { overhead: 38, ..PortSpec::new(queue, Pace::Fixed(RATE), Dur::from_micros(700)) }
}

fn fifo() -> DisciplineSpec {
    DisciplineSpec::Fifo(FifoSpec { limit: QueueLimit::packets(20), mark_above: Some(Bytes::new(20_000)) })
}

/// One property for each element.
macro_rules! conserved {
    ($($name:ident: $element:expr $(, copies: $copies:literal)?;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(48))]
            $(#[test]
            fn $name(arrivals in arrivals()) {
                #[allow(unused_mut, unused_assignments)]
                let mut copies = false;
                $(copies = $copies;)?
                conserves($element, &arrivals, copies)?;
            })*
        }
    };
}

fn shallow_codel() -> CoDelSpec {
    let limit = QueueLimit::packets(20);
    CoDelSpec { target: Dur::from_micros(500), interval: Dur::from_millis(3), limit, ..CoDelSpec::INTERNET }
}

fn busy_rx() -> RxSpec {
    RxSpec {
        coalesce: Coalesce::Fixed { usecs: Dur::from_micros(300), frames: 12 },
        ring: 16,
        cost: Dur::from_micros(40),
        gro_max: Some(Bytes::new(65_536)),
        gro_timeout: Dur::from_micros(500),
        order: RxOrder::Arrival,
    }
}

conserved! {
    a_link_conserves: LinkSpec {
        limit: QueueLimit::bytes(Bytes::new(30_000)),
        mark_above: Some(Bytes::new(10_000)),
        ..LinkSpec::new(RATE, Dur::from_micros(900))
    };
    a_delay_conserves: LinkSpec::delay(Dur::from_micros(900));
    a_port_conserves: port(fifo());
    a_segmenting_port_conserves: PortSpec {
        segment: true,
        tx_coalesce: Dur::from_micros(50),
        ..port(fifo())
    };
    a_port_at_a_trace_conserves: PortSpec {
        pace: Pace::from_trace("1\n1\n2\n9\n").unwrap(),
        ..port(fifo())
    };
    a_port_at_changing_rates_conserves: PortSpec {
        pace: Pace::from_trace("0,20Mbit\n0.003,0\n0.005,90Mbit\n0.02,0\n").unwrap(),
        ..port(fifo())
    };
    tbf_conserves: port(QueueSpec::Tbf(TbfSpec {
        rate: Rate::from_mbit(30),
        burst: Bytes::new(5_000),
        inner: fifo(),
    }));
    htb_conserves: PortSpec {
        segment: true,
        ..port(QueueSpec::Htb(HtbSpec::equal(Rate::from_mbit(30), 3, Bytes::new(3_000), fifo())))
    };
    htb_over_codel_conserves: port(QueueSpec::Htb(HtbSpec::equal(
        Rate::from_mbit(10), 2, Bytes::new(3_000), DisciplineSpec::CoDel(shallow_codel()),
    )));
    red_conserves: port(DisciplineSpec::Red(RedSpec {
        min: Bytes::new(5_000),
        max: Bytes::new(15_000),
        max_p: 0.2,
        weight: 0.2,
        gentle: true,
        ecn: true,
        harddrop: false,
        packet_time: Dur::from_micros(240),
        limit: QueueLimit::packets(30),
    }));
    codel_conserves: port(DisciplineSpec::CoDel(shallow_codel()));
    fq_codel_conserves: port(DisciplineSpec::FqCoDel(FqCoDelSpec {
        codel: shallow_codel(),
        queues: 2,
        quantum: Bytes::new(500),
        drop_batch: 5,
    }));
    pie_conserves: port(DisciplineSpec::Pie(PieSpec {
        target: Dur::from_micros(500),
        update: Dur::from_millis(1),
        max_burst: Dur::from_millis(2),
        ..PieSpec::RFC
    }));
    fq_conserves: port(DisciplineSpec::Fq(FqSpec { flow_limit: 10, limit: QueueLimit::packets(25), ..FqSpec::LINUX }));
    dualpi2_conserves: port(DisciplineSpec::DualPi2(DualPi2Spec {
        target: Dur::from_micros(500),
        update: Dur::from_millis(1),
        limit: QueueLimit::packets(40),
        ..DualPi2Spec::LINUX
    }));
    two_buffers_conserve: port(DisciplineSpec::DualBuffer(DualBufferSpec { limit: QueueLimit::packets(9), mark_above: None }));
    segmentation_conserves: SplitSpec;
    a_plain_receiver_conserves: RxSpec::PLAIN;
    a_busy_receiver_conserves: busy_rx();
    an_adaptive_receiver_conserves: RxSpec { coalesce: Coalesce::Adaptive, ..busy_rx() };
    a_receiver_that_reverses_conserves: RxSpec { order: RxOrder::StaleHash(4..=5), ..busy_rx() };
    loss_conserves: LossSpec {
        model: LossProcess::GilbertElliott { p: 0.1, r: 0.3, bad: 0.9, good: 0.05 },
        which: PacketFilter::All,
    };
    duplication_conserves: DuplicateSpec { probability: 0.3 }, copies: true;
    thinning_conserves: AckThinningSpec { one_in: 3, longest: Dur::from_millis(2) };
    jitter_conserves: JitterSpec {
        delay: Dur::from_millis(2),
        jitter: Dur::from_millis(3),
        correlation: 0.25,
        distribution: Distribution::ParetoNormal,
        keep_order: false,
    };
    holding_back_conserves:
        ReorderSpec::HoldBack { probability: 0.2, gap: 3, longest: Dur::from_millis(4) };
    reversing_conserves: ReorderSpec::ReverseBursts { size: 5, longest: Dur::from_millis(4) };
    a_policer_conserves: PolicerSpec { rate: RATE, burst: Bytes::new(70_000) };
    slots_conserve: SlottedMediumSpec {
        shortest: Dur::from_micros(100),
        longest: Dur::from_millis(5),
        packets: 4,
        bytes: Bytes::new(9_000),
    };
}
