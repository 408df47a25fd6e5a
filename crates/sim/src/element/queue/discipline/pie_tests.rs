use super::*;
use crate::element::DisciplineSpec;
use crate::element::test_net::{TestPath, data, ect0};
use crate::element::{Pace, PortSpec};
use tcpassay_units::Rate;

fn pie(change: impl FnOnce(&mut Pie)) -> Pie {
    let mut p = Pie::new(PieSpec::RFC, "p", Seed(1));
    change(&mut p);
    p
}

fn ms(n: u64) -> Dur {
    Dur::from_millis(n)
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-12, "{a} is not {b}");
}

#[test]
fn the_update_is_proportional_to_distance_and_change() {
    // At p = 0.15: 0.125 * (20 - 15 ms) + 1.25 * (20 - 18 ms) = 0.003125.
    let mut p = pie(|p| (p.probability, p.delay, p.old_delay) = (0.15, ms(20), ms(18)));
    p.update();
    close(p.probability, 0.153_125);
    assert_eq!(p.old_delay, ms(20));
}

#[test]
fn small_probabilities_move_in_small_steps() {
    // 0.125 * 15 ms + 1.25 * 30 ms = 0.039375 over the divisor of each range.
    for (at, divisor) in [(0.0, 2048.0), (5e-6, 512.0), (5e-5, 128.0), (5e-4, 32.0), (5e-3, 8.0), (5e-2, 2.0)]
    {
        let mut p = pie(|p| (p.probability, p.delay) = (at, ms(30)));
        p.update();
        close(p.probability, at + 0.039_375 / divisor);
    }
}

#[test]
fn a_step_is_at_most_two_percent_once_the_probability_is_a_tenth() {
    let mut p = pie(|p| (p.probability, p.delay) = (0.5, ms(200)));
    p.update();
    close(p.probability, 0.52);
}

#[test]
fn without_delay_the_probability_decays() {
    let mut p = pie(|p| p.probability = 0.5);
    p.update();
    // 0.5 - 0.125 * 15 ms = 0.498125, times 63/64.
    close(p.probability, 0.490_341_796_875);
}

#[test]
fn the_burst_allowance_falls_by_the_time_between_departures_and_returns_after_quiet() {
    let mut line = TestPath::new(crate::element::SplitSpec);
    let mut p = pie(|p| (p.probability, p.old_delay) = (0.1, ms(10)));
    for at in [0, 20, 50] {
        line.run_until(at * 1_000_000);
        let core = line.net.core();
        for _ in 0..2 {
            let id = core.packets.insert(data(1460));
            p.list.push_back(&mut core.packets, id);
        }
        p.dequeue(core);
    }
    // The first departure measures nothing; 50 ms lie between it and the last.
    assert_eq!(p.burst, ms(100));
    let mut p = pie(|p| (p.burst, p.delay, p.old_delay) = (ms(0), ms(5), ms(5)));
    p.update();
    assert_eq!((p.burst, p.left, p.probability > 0.0), (ms(150), None, false));
}

#[test]
fn a_packet_passes_while_the_delay_is_low_now_whatever_it_was_at_the_last_update() {
    let mut line = TestPath::new(crate::element::SplitSpec);
    for (delay, old, hit) in [(ms(7), ms(20), false), (ms(8), ms(0), true)] {
        let core = line.net.core();
        let mut p = pie(|p| (p.probability, p.delay, p.old_delay) = (0.19, delay, old));
        for _ in 0..4 {
            let id = core.packets.insert(data(1460));
            p.list.push_back(&mut core.packets, id);
        }
        assert_eq!((0..100).any(|_| p.hits()), hit, "{delay} {old}");
    }
}

#[test]
fn drops_are_never_closer_than_the_accumulated_probability_says() {
    let mut line = TestPath::new(PortSpec::new(
        DisciplineSpec::Fifo(crate::element::FifoSpec::UNLIMITED),
        Pace::Unlimited,
        Dur::ZERO,
    ));
    let core = line.net.core();
    let mut p = pie(|p| (p.probability, p.delay) = (0.1, ms(20)));
    for _ in 0..4 {
        let id = core.packets.insert(data(1460));
        p.list.push_back(&mut core.packets, id);
    }
    let mut since = 0;
    let mut distances = Vec::new();
    for _ in 0..10_000 {
        since += 1;
        if p.hits() {
            distances.push(since);
            since = 0;
        }
    }
    // 0.85 / 0.1: at least the 9th; 8.5 / 0.1: at the latest the 85th.
    assert_eq!(distances.iter().min(), Some(&9));
    assert!(distances.iter().all(|d| *d <= 85));
}

#[test]
fn the_controller_holds_the_delay_near_the_target() {
    // 12 Mbit/s; packets come at 110 % of that for 20 s.
    let mut line = TestPath::new(PortSpec::new(
        DisciplineSpec::Pie(PieSpec::RFC),
        Pace::Fixed(Rate::from_mbit(12)),
        Dur::ZERO,
    ));
    line.net.collect(line.node, Dur::from_secs(1), tcpassay_units::Time::ZERO);
    let mut last = 0;
    for n in 0..22_000_u64 {
        line.run_until(n * 909_091);
        line.send(data(1460));
        if n == 11_000 {
            last = line.counters().dropped[DropReason::Early];
        }
    }
    let dropped = line.counters().dropped[DropReason::Early] - last;
    let samples = line.net.stats(line.node).unwrap().samples();
    let late: Vec<u32> = samples.skip(12).take(7).map(|s| s.max_packets).collect();
    // A tenth is too much: about 1000 of the last 11,000 must go; the queue stands near 15 packets.
    assert!((900..1100).contains(&dropped), "{dropped}");
    assert!(late.iter().all(|p| (8..40).contains(p)), "{late:?}");
}

#[test]
fn with_ecn_packets_are_marked_while_the_probability_is_at_most_a_tenth() {
    for (probability, marks) in [(0.1, true), (0.101, false)] {
        let mut line = TestPath::new(crate::element::SplitSpec);
        let core = line.net.core();
        let mut ctx = crate::engine::ElementContext::detached();
        let mut p = pie(|p| {
            (p.probability, p.delay, p.burst) = (probability, ms(20), Dur::ZERO);
            p.spec.ecn = true;
        });
        for _ in 0..500 {
            let id = core.packets.insert(ect0(1460));
            p.enqueue(&mut ctx, core, id);
        }
        let (marked, dropped) = (ctx.counters().marked, ctx.counters().dropped[DropReason::Early]);
        assert!((marked > 20) == marks && (dropped > 20) != marks, "{probability}: {marked} {dropped}");
    }
}

#[test]
fn a_long_pause_is_no_different_from_its_updates() {
    let state = |p: &Pie| (p.probability.to_bits(), p.burst, p.old_delay, p.next_update);
    let start = |p: &mut Pie| (p.probability, p.old_delay) = (0.3, ms(20));
    let mut at_once = pie(start);
    at_once.catch_up(Time::ZERO + Dur::from_secs(3600));
    let mut step_by_step = pie(start);
    for n in 1..=240_000 {
        step_by_step.catch_up(Time::ZERO + Dur::from_millis(15) * n);
    }
    assert_eq!(state(&at_once), state(&step_by_step));
}
