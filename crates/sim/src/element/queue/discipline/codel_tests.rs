use super::*;
use crate::element::DisciplineSpec;
use crate::element::test_net::{TestPath, data, ect0};
use crate::element::{Pace, PortSpec};
use tcpassay_units::Rate;

const MS: u64 = 1_000_000;

/// One packet of 1500 bytes leaves each millisecond.
fn line(spec: CoDelSpec) -> TestPath {
    TestPath::new(PortSpec::new(DisciplineSpec::CoDel(spec), Pace::Fixed(Rate::from_mbit(12)), Dur::ZERO))
}

/// The instants, in ms, at which packets had been dropped, when `n` arrive at once and one a millisecond after that.
fn drops(spec: CoDelSpec, n: u32, until_ms: u64) -> Vec<u64> {
    let mut line = line(spec);
    for _ in 0..n {
        line.send(data(1460));
    }
    let mut seen = 0;
    let mut at = Vec::new();
    for ms in 1..=until_ms {
        line.run_until(ms * MS);
        let dropped = line.counters().dropped[DropReason::Early];
        at.extend((seen..dropped).map(|_| ms));
        seen = dropped;
        line.send(data(1460));
    }
    at
}

#[test]
fn nothing_is_dropped_within_the_first_interval() {
    assert_eq!(drops(CoDelSpec::INTERNET, 50, 100), [0; 0]);
}

#[test]
fn drops_follow_the_control_law() {
    // Packet k leaves at k ms having waited k; at 5 ms the delay is the target, at 105 the interval has passed.
    // The first drop is there; the next come 100, 50, 56.3, 48.8, 44.2 and 40.4 ms later, which are Linux's roots of 1 to 6 (0.99998, 0.50002,
    // 0.5625, 0.48779, 0.44151, 0.40407): 205, 255, 311.3, 360.0, 404.2, 444.6; a packet leaves at each whole millisecond.
    assert_eq!(drops(CoDelSpec::INTERNET, 50, 470), [105, 205, 255, 312, 361, 405, 445]);
}

#[test]
fn a_queue_below_the_target_never_drops() {
    assert_eq!(drops(CoDelSpec::INTERNET, 4, 1000), [0; 0]);
}

#[test]
fn a_queue_that_empties_within_the_interval_drops_nothing() {
    let mut line = line(CoDelSpec::INTERNET);
    for _ in 0..100 {
        line.send(data(1460));
    }
    line.finish();
    assert_eq!(line.counters().dropped.total(), 0);
}

#[test]
fn with_ecn_packets_are_marked_at_the_same_instants() {
    let mut line = line(CoDelSpec { ecn: true, ..CoDelSpec::INTERNET });
    for _ in 0..50 {
        line.send(ect0(1460));
    }
    let mut at = Vec::new();
    for ms in 1..=470 {
        let before = line.counters().marked;
        line.run_until(ms * MS);
        at.extend((before..line.counters().marked).map(|_| ms));
        line.send(ect0(1460));
    }
    assert_eq!((at, line.counters().dropped.total()), (vec![105, 205, 255, 312, 361, 405, 445], 0));
}

#[test]
fn a_new_dropping_state_soon_after_resumes_near_the_old_rate() {
    let mut state = CoDelState {
        count: 10,
        last_count: 3,
        drop_next: Time::from_nanos(MS),
        // 65536 / sqrt(10).
        inverse_root: 20_724,
        ..CoDelState::default()
    };
    let mut line = line(CoDelSpec::INTERNET);
    // Enters with a packet above target since an interval, 15 intervals after the last.
    let at = Time::ZERO + Dur::from_millis(1500);
    line.run_until(1500 * MS);
    let core = line.net.core();
    let mut list = PacketList::default();
    for _ in 0..3 {
        let id = core.packets.insert(data(1460));
        core.packets[id].stamp = Time::from_nanos(1000 * MS);
        list.push_back(&mut core.packets, id);
    }
    state.first_above = Some(at);
    let mut ctx = crate::engine::ElementContext::detached();
    let spec = CoDelSpec::INTERNET;
    state.dequeue(&spec, &mut ctx, core, |core| (list.pop_front(&core.packets), list.bytes()));
    // 10 - 3 = 7: one step from 1 / sqrt(10) towards 1 / sqrt(7) is 0.3162 * (3 - 7 * 0.1) / 2 = 0.3636; the root would be 0.3780.
    assert_eq!((state.count, (state.drop_next - at).as_micros()), (7, 36364));
}

#[test]
fn drops_of_an_overflow_do_not_make_the_first_dropping_state_a_resumed_one() {
    let mut state = CoDelState::default();
    state.overflowed(29);
    let mut line = line(CoDelSpec::INTERNET);
    line.run_until(200 * MS);
    let core = line.net.core();
    let mut list = PacketList::default();
    for _ in 0..3 {
        let id = core.packets.insert(data(1460));
        core.packets[id].stamp = Time::from_nanos(100 * MS);
        list.push_back(&mut core.packets, id);
    }
    state.first_above = Some(Time::from_nanos(200 * MS));
    let mut ctx = crate::engine::ElementContext::detached();
    state.dequeue(&CoDelSpec::INTERNET, &mut ctx, core, |core| (list.pop_front(&core.packets), list.bytes()));
    assert_eq!((state.dropping, state.count), (true, 1));
}

#[test]
fn a_ce_threshold_marks_what_waited_longer() {
    let spec = CoDelSpec { ce_threshold: Some(Dur::from_millis(2)), ..CoDelSpec::INTERNET };
    let mut line = line(spec);
    for _ in 0..5 {
        line.send(ect0(1460));
    }
    line.finish();
    // They wait 0, 1, 2, 3 and 4 ms.
    assert_eq!(line.counters().marked, 2);
}
