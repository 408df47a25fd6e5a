//! Every controller satisfies the contract, and the kit detects each kind of violation.

use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tcpassay_cc::conformance::{Clause, Contract, HistoryStep, Violation, check, check_all, play};
use tcpassay_cc::{
    Arithmetic, ByteCounting, Cause, Control, Controller, Event, HystartDetect, HystartMode, Limited, Params,
    View, build, names, params,
};
use tcpassay_units::Bytes;

/// The variants of controllers: as in the RFCs, with HyStart++, as in Linux, as in FreeBSD.
const FORMS: [(HystartMode, Arithmetic); 4] = [
    (HystartMode::Off, Arithmetic::Rfc),
    (HystartMode::PlusPlus, Arithmetic::Rfc),
    (HystartMode::Linux(HystartDetect::ALL), Arithmetic::Linux),
    (HystartMode::Off, Arithmetic::FreeBsd),
];

/// The contract of a controller. Vegas and mVegas of Linux change a window that the sender does not fill
/// (`tcp_vegas_cong_avoid`).
fn contract(name: &str, arithmetic: Arithmetic) -> Contract {
    match (name, arithmetic) {
        ("bbr" | "bbr3", _) => Contract::Rate,
        ("vegas" | "mvegas", Arithmetic::Linux) => Contract::Unfilled,
        _ => Contract::Window,
    }
}

#[test]
fn every_controller_satisfies_the_contract_and_every_regime_is_reached() {
    for name in names() {
        for byte_counting in [ByteCounting::PerAck, ByteCounting::Limit(2), ByteCounting::All] {
            for (hystart, arithmetic) in FORMS {
                let params = Params { byte_counting, hystart, arithmetic, ..Params::default() };
                let covered = check(contract(name, arithmetic), || build(name, &params).unwrap())
                    .unwrap_or_else(|violation| panic!("{name} {byte_counting:?} {hystart:?}: {violation}"));
                for (regime, events) in [
                    ("slow start", covered.slow_start),
                    ("congestion avoidance", covered.avoidance),
                    ("limited by the application", covered.limited),
                    ("loss", covered.losses),
                    ("mark", covered.marks),
                    ("timeout", covered.timeouts),
                    ("timeout in recovery", covered.timeouts_in_recovery),
                    ("undo", covered.undos),
                    ("late undo", covered.late_undos),
                    ("resume", covered.resumes),
                ] {
                    // BBR version 3 has no slow-start threshold.
                    let absent = name == "bbr3" && regime == "congestion avoidance";
                    assert!(
                        events >= 50 || absent,
                        "{name}: {regime} was reached {events} times: {covered:?}"
                    );
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn no_valid_history_violates_the_contract_with_any_parameters(
        which in any::<prop::sample::Index>(),
        at in prop::collection::vec(0.0..=1.0f64, 8),
        bits in prop::collection::vec(any::<u64>(), 1..400),
        limit in 0u32..4,
        form in 0..FORMS.len(),
    ) {
        let names = names();
        let name = names[which.index(names.len())];
        let values = params(name)
            .iter()
            .zip(&at)
            .map(|(info, at)| (info.name.to_owned(), info.range.0 + at * (info.range.1 - info.range.0)))
            .collect();
        let byte_counting = match limit {
            0 => ByteCounting::PerAck,
            3 => ByteCounting::All,
            n => ByteCounting::Limit(n),
        };
        let (hystart, arithmetic) = FORMS[form];
        let params = Params { values, byte_counting, hystart, arithmetic, ..Params::default() };
        let history: Vec<HistoryStep> = bits.into_iter().map(HistoryStep::from_bits).collect();
        if let Err(violation) = play(contract(name, arithmetic), || build(name, &params).unwrap(), &history) {
            prop_assert!(false, "{} {:?}: {}", name, params.values, violation);
        }
    }
}

/// Reno with a fault: functions change its inputs and its outputs, and share one number as state.
#[derive(Clone, Debug)]
struct Faulty {
    reno: Box<dyn Controller>,
    hear: fn(&mut View, &mut Event),
    answer: fn(&View, &Event, Control, &mut u64) -> Control,
    memory: u64,
}

impl Controller for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn on(&mut self, view: &View, event: &Event) -> Control {
        let (mut heard_view, mut heard) = (*view, *event);
        (self.hear)(&mut heard_view, &mut heard);
        let control = self.reno.on(&heard_view, &heard);
        (self.answer)(view, event, control, &mut self.memory)
    }

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

fn none(_: &mut View, _: &mut Event) {}

fn same(_: &View, _: &Event, control: Control, _: &mut u64) -> Control {
    control
}

fn breach(
    hear: fn(&mut View, &mut Event),
    answer: fn(&View, &Event, Control, &mut u64) -> Control,
) -> Violation {
    let make = || -> Box<dyn Controller> {
        let reno = build("reno", &Params::default()).unwrap();
        Box::new(Faulty { reno, hear, answer, memory: 0 })
    };
    check(Contract::Window, make).expect_err("the kit finds the fault")
}

/// Asserts that the violation is of `clause` and that its history is short.
#[track_caller]
fn finds(clause: Clause, violation: &Violation) {
    assert_eq!(violation.clause, clause, "{violation}");
    assert!(violation.history.len() <= 8, "not shortened: {violation}");
}

#[test]
fn without_a_fault_the_wrapper_satisfies_the_contract() {
    let reno = || build("reno", &Params::default()).unwrap();
    check(Contract::Window, || Box::new(Faulty { reno: reno(), hear: none, answer: same, memory: 0 }))
        .unwrap();
}

#[test]
fn a_window_below_one_segment_is_found() {
    let small = |_: &View, e: &Event, c, _: &mut u64| match e {
        Event::Timeout { .. } => Control { cwnd: Bytes::new(500), ..c },
        _ => c,
    };
    finds(Clause::Range, &breach(none, small));
}

#[test]
fn a_window_that_changes_with_sending_is_found() {
    let counts = |_: &View, e: &Event, c: Control, _: &mut u64| match e {
        Event::Sent { .. } => Control { cwnd: c.cwnd + Bytes::new(1), ..c },
        _ => c,
    };
    finds(Clause::OnlyForCause, &breach(none, counts));
}

#[test]
fn a_window_that_grows_faster_than_it_is_acknowledged_is_found() {
    let triples = |_: &mut View, e: &mut Event| {
        if let Event::Ack(ack) = e {
            ack.acked = ack.acked * 3;
            ack.delivered = ack.delivered * 3;
        }
    };
    finds(Clause::GrowthIsEarned, &breach(triples, same));
}

#[test]
fn an_ack_that_leaves_one_segment_is_found() {
    let shrinks = |v: &View, e: &Event, c, _: &mut u64| match e {
        Event::Ack(ack) if ack.round == 3 => Control { cwnd: v.mss, ..c },
        _ => c,
    };
    finds(Clause::AckKeepsTwo, &breach(none, shrinks));
}

#[test]
fn growth_of_an_unused_window_is_found() {
    finds(Clause::AppLimited, &breach(|v, _| v.limited = Limited::Cwnd, same));
}

#[test]
fn a_loss_without_a_reduction_is_found() {
    let ignores = |v: &View, e: &Event, c, _: &mut u64| match e {
        Event::Congestion { cause: Cause::Loss, .. } => {
            Control { cwnd: v.control.cwnd, ssthresh: v.control.cwnd, ..c }
        }
        _ => c,
    };
    finds(Clause::Reduces, &breach(none, ignores));
}

#[test]
fn a_second_reduction_in_one_window_is_found() {
    let again = |_: &View, e: &Event, c: Control, recovering: &mut u64| {
        match e {
            Event::Congestion { .. } => *recovering = 1,
            Event::RecoveryExit { .. } => *recovering = 0,
            Event::Ack(ack) if *recovering == 1 && !ack.lost.is_zero() => {
                return Control { ssthresh: c.ssthresh / 2, ..c };
            }
            _ => {}
        }
        c
    };
    finds(Clause::OncePerWindow, &breach(none, again));
}

#[test]
fn a_recovery_that_ignores_the_exit_rule_is_found() {
    let unbound = |_: &mut View, e: &mut Event| {
        if let Event::RecoveryExit { exit, .. } = e {
            *exit = Bytes::MAX;
        }
    };
    finds(Clause::ExitRule, &breach(unbound, same));
}

#[test]
fn a_timeout_that_keeps_two_segments_is_found() {
    let two = |v: &View, e: &Event, c, _: &mut u64| match e {
        Event::Timeout { .. } => Control { cwnd: v.mss * 2, ..c },
        _ => c,
    };
    finds(Clause::Collapses, &breach(none, two));
}

#[test]
fn a_repeated_timeout_that_halves_again_is_found() {
    let always_first = |_: &mut View, e: &mut Event| {
        if let Event::Timeout { again, .. } = e {
            *again = false;
        }
    };
    // `Windowed` halves the remaining window of one segment, so the result is the minimum.
    finds(Clause::Collapses, &breach(always_first, same));
}

#[test]
fn a_false_recovery_that_is_not_undone_is_found() {
    let believes = |_: &mut View, e: &mut Event| {
        if let Event::RecoveryExit { spurious, .. } = e {
            *spurious = false;
        }
    };
    finds(Clause::Undo, &breach(believes, same));
}

#[test]
fn a_window_that_is_not_reduced_after_an_idle_time_is_found() {
    let keeps = |v: &View, e: &Event, c, _: &mut u64| match e {
        Event::Resume { .. } => v.control,
        _ => c,
    };
    finds(Clause::Restart, &breach(none, keeps));
}

#[test]
fn an_ack_for_more_data_that_increases_the_window_by_less_is_found() {
    let distrusts = |v: &View, e: &Event, c: Control, _: &mut u64| match e {
        Event::Ack(ack) if ack.acked > v.mss * 4 => Control { cwnd: c.cwnd.min(v.control.cwnd), ..c },
        _ => c,
    };
    finds(Clause::MoreAckedNeverLess, &breach(none, distrusts));
}

/// A controller with a fault: its copies share a counter.
#[derive(Clone, Debug)]
struct Siamese(Arc<AtomicU64>);

impl Controller for Siamese {
    fn name(&self) -> &'static str {
        "siamese"
    }

    fn on(&mut self, view: &View, _: &Event) -> Control {
        let events = self.0.fetch_add(1, Ordering::Relaxed);
        Control { cwnd: view.mss * (events + 1), ..view.control }
    }

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[test]
fn copies_that_share_state_are_found() {
    let violation = check(Contract::Any, || Box::new(Siamese(Arc::default()))).unwrap_err();
    assert_eq!(violation.clause, Clause::Pure, "{violation}");
    assert!(violation.history.len() <= 2, "{violation}");
}

#[test]
fn a_violation_contains_the_clause_the_event_and_the_history() {
    let text = breach(|v, _| v.limited = Limited::Cwnd, same).to_string();
    assert!(text.starts_with("AppLimited: A window that the sender does not fill does not grow"), "{text}");
    assert!(text.contains("\nAck of "), "{text}");
    assert!(text.contains("\n  send up to "), "{text}");
}

#[test]
fn every_violated_clause_is_found_in_one_check() {
    let answer = |v: &View, e: &Event, c: Control, _: &mut u64| match e {
        Event::Timeout { .. } => Control { cwnd: v.mss * 2, ..c },
        Event::Resume { .. } => v.control,
        _ => c,
    };
    let make = || -> Box<dyn Controller> {
        Box::new(Faulty { reno: build("reno", &Params::default()).unwrap(), hear: none, answer, memory: 0 })
    };
    let (covered, found) = check_all(Contract::Window, 200, make, || true);
    let mut clauses: Vec<String> = found.iter().map(|one| format!("{:?}", one.clause)).collect();
    clauses.sort();
    assert_eq!(clauses, ["Collapses", "Restart"]);
    assert!(
        covered.timeouts > 50 && covered.resumes > 50,
        "the search goes on after a violation: {covered:?}"
    );
    assert!(found.iter().all(|one| one.history.len() <= 8), "{found:?}");
}

#[test]
fn every_clause_is_in_the_list_once() {
    for (place, clause) in Clause::ALL.iter().enumerate() {
        assert_eq!(*clause as usize, place);
        assert!(clause.reason().ends_with('.') && clause.rule().ends_with('.'), "{clause:?}");
    }
}
