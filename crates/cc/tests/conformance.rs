//! Every controller keeps the contract, under every counting of slow start, with and without HyStart++.

use proptest::prelude::*;
use tcpassay_cc::conformance::{Contract, Step, check, play};
use tcpassay_cc::{ByteCounting, Params, build, names, params};

#[test]
fn every_controller_keeps_the_contract_and_every_regime_is_reached() {
    for name in names() {
        for byte_counting in [ByteCounting::PerAck, ByteCounting::Limit(2), ByteCounting::All] {
            for hystart in [false, true] {
                let params = Params { byte_counting, hystart, ..Params::default() };
                let covered = check(Contract::Window, || build(name, &params).unwrap())
                    .unwrap_or_else(|violation| panic!("{name} {byte_counting:?} {hystart}: {violation}"));
                for (regime, events) in [
                    ("slow start", covered.slow_start),
                    ("congestion avoidance", covered.avoidance),
                    ("limited by the application", covered.limited),
                    ("loss", covered.losses),
                    ("mark", covered.marks),
                    ("timeout", covered.timeouts),
                    ("timeout in recovery", covered.timeouts_in_recovery),
                    ("undo", covered.undos),
                    ("resume", covered.resumes),
                ] {
                    assert!(events >= 50, "{name}: {regime} was reached {events} times: {covered:?}");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn no_legal_history_breaks_the_contract_with_any_parameters(
        which in any::<prop::sample::Index>(),
        at in prop::collection::vec(0.0..=1.0f64, 8),
        bits in prop::collection::vec(any::<u64>(), 1..400),
    ) {
        let names = names();
        let name = names[which.index(names.len())];
        let values = params(name)
            .iter()
            .zip(&at)
            .map(|(info, at)| (info.name.to_owned(), info.range.0 + at * (info.range.1 - info.range.0)))
            .collect();
        let params = Params { values, ..Params::default() };
        let history: Vec<Step> = bits.into_iter().map(Step::from_bits).collect();
        if let Err(violation) = play(Contract::Window, || build(name, &params).unwrap(), &history) {
            prop_assert!(false, "{} {:?}: {}", name, params.values, violation);
        }
    }
}
