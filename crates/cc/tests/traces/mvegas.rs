//! Modified Vegas: out of slow start at the first measurement, and odds of `2^(6-n) / 64` between alpha 1 and beta 6.

use crate::mutant::{self, Mishears, Twisted, default, windowed, with};
use crate::trace::{Outcome, Sender, caught, traces, unharmed};
use crate::vegas::{avoiding, round};
use tcpassay_cc::{Control, Controller, ModifiedVegas, Params, View, WindowRule, build};
use tcpassay_units::{Bytes, Seed};

traces! { default("mvegas");

    /// At the end of the first whole round there are 22 segments and no queue: 22 * 100 / 100, and one, not above 22.
    fn slow_start_ends_with_the_first_measurement_although_nothing_is_queued(t) {
        t.put(19_000, u64::MAX);
        t.acks(1);
        round(t, &[100, 100, 100]);
        t.expect(22_000, 22_000)?;
    }

    /// 22 * 100 / 125 = 17.6, so 17, and one.
    fn slow_start_ends_with_the_predicted_window(t) {
        t.put(19_000, u64::MAX);
        t.acks(1);
        round(t, &[125, 125, 125]);
        t.expect(18_000, 18_000)?;
    }

    /// Until Vegas has its round-trip times, it is Reno in slow start.
    fn slow_start_goes_on_with_two_samples_a_round(t) {
        t.put(19_000, u64::MAX);
        t.acks(1);
        round(t, &[125, 125]);
        t.expect(22_000, u64::MAX)?;
    }

    /// 20 * 4 / 100 = 0.8: none queued, fewer than alpha.
    fn with_nothing_queued_the_window_grows(t) {
        avoiding(t, 20_000);
        for window in [21_000, 22_000, 23_000] {
            round(t, &[104, 104, 104]);
            t.expect(window, 20_000)?;
        }
    }

    /// 20 * 35 / 100 = 7, 19 * 37 / 100 = 7.03, 18 * 39 / 100 = 7.02: more than beta.
    fn with_seven_queued_the_window_shrinks(t) {
        avoiding(t, 20_000);
        for (rtt, window) in [(135, 19_000), (137, 18_000), (139, 17_000)] {
            round(t, &[rtt, rtt, rtt]);
            t.expect(window, window)?;
        }
    }

    /// Between the bounds the window never shrinks, and by one at most.
    fn between_the_bounds_the_window_rests_or_grows_by_one(t) {
        for queued in 1..=6 {
            rolls(t, queued, 200)?;
        }
    }

    /// With 6 queued one in 64 grows, so 640 rounds see some growth and mostly rest (chance of none: 4e-5).
    fn with_six_queued_the_window_still_grows_sometimes(t) {
        let grown = rolls(t, 6, 640)?.iter().filter(|g| **g).count();
        if !(1..=40).contains(&grown) {
            return Err(format!("{grown} of 640"));
        }
    }

    /// The default stream, `Seed(0).stream("cc")`, rolls 37 36 13 3 21 63 30 33 below 64. With two packets queued a roll
    /// below 16 grows the window: the third and the fourth. With one, a roll below 32: the fifth and the seventh.
    fn the_random_numbers_are_those_of_the_stream(t) {
        let grew = [rolls(t, 2, 4)?, rolls(t, 1, 4)?].concat();
        if grew != [false, false, true, true, true, false, true, false] {
            return Err(format!("{grew:?}"));
        }
    }

    /// For each n in 6400 rounds: the expected number, and five standard deviations of the binomial distribution.
    fn the_odds_are_two_to_the_six_minus_n_in_sixty_four(t) {
        for (n, expected, bound) in
            [(1, 3200, 200), (2, 1600, 174), (3, 800, 133), (4, 400, 97), (5, 200, 70), (6, 100, 50)]
        {
            let grown = rolls(t, n, 6400)?.iter().filter(|g| **g).count();
            if grown.abs_diff(expected) > bound {
                return Err(format!("{n} queued: {grown} of 6400 grew, expected {expected} within {bound}"));
            }
        }
    }
}

/// So many rounds at 100 segments with `queued` packets queued (100 * queued ms / 100 ms); whether the window grew.
fn rolls(t: &mut Sender, queued: u64, rounds: u32) -> Result<Vec<bool>, String> {
    avoiding(t, 100_000);
    let rtt = 100 + queued;
    // The round that is under way may hold samples from before.
    round(t, &[100, 100, 100]);
    (0..rounds)
        .map(|_| {
            t.put(100_000, 100_000);
            round(t, &[rtt, rtt, rtt]);
            match t.cwnd() {
                100_000 => Ok(false),
                101_000 => Ok(true),
                other => Err(format!("{queued} queued: cwnd {other}")),
            }
        })
        .collect()
}

#[test]
fn another_seed_gives_other_random_numbers() {
    let grown = |seed| {
        let params = Params { rng: Seed(seed).stream("cc"), ..Params::default() };
        let mut t = Sender::new(build("mvegas", &params).unwrap(), 10_000);
        rolls(&mut t, 1, 64).unwrap()
    };
    assert_eq!(grown(1), grown(1));
    assert_ne!(grown(1), grown(2));
}

fn mvegas() -> Twisted<ModifiedVegas> {
    Twisted::new(ModifiedVegas::new(&mutant::values::<ModifiedVegas>(), &Params::default()))
}

#[test]
fn plain_vegas_under_its_name_is_caught() {
    caught(TRACES, || default("vegas"));
}

/// Vegas with other bounds leaves slow start at its first measurement, too, when it may.
fn deterministic(alpha: f64, beta: f64) -> Box<dyn Controller> {
    let values =
        [("alpha", alpha), ("beta", beta), ("gamma", 0.0)].map(|(name, value)| (name.to_owned(), value));
    build("vegas", &Params { values: values.into(), ..Params::default() }).unwrap()
}

#[test]
fn without_a_fault_the_wrapper_passes_every_trace() {
    unharmed(TRACES, || Mishears::boxed(windowed(mvegas()), |_, _, _| {}));
}

#[test]
fn a_modified_vegas_that_rests_between_its_bounds_is_caught() {
    caught(&TRACES[4..], || deterministic(1.0, 6.0));
}

#[test]
fn a_modified_vegas_that_always_grows_between_its_bounds_is_caught() {
    caught(&TRACES[4..], || deterministic(7.0, 6.0));
}

#[test]
fn a_modified_vegas_whose_odds_are_half_of_the_reports_is_caught() {
    // One packet more is queued than there is: half the odds, and the bounds one lower.
    let halved = |r: &mut ModifiedVegas, v: &View, n: Bytes| {
        let taller = View { control: Control { cwnd: v.control.cwnd * 2, ..v.control }, ..*v };
        let grown = r.grow(&taller, n);
        if grown > taller.control.cwnd { v.control.cwnd + v.mss } else { v.control.cwnd }
    };
    let mutant = || windowed(Twisted { grow: halved, ..mvegas() });
    caught(TRACES, mutant);
}

#[test]
fn a_modified_vegas_with_vegas_bounds_is_caught() {
    caught(TRACES, || with("mvegas", "beta", 4.0));
    caught(TRACES, || with("mvegas", "alpha", 2.0));
}

#[test]
fn a_modified_vegas_that_waits_for_a_queue_to_leave_slow_start_is_caught() {
    let waits = |r: &mut ModifiedVegas, v: &View| {
        r.leave_slow_start(v).filter(|window| *window + v.mss < v.control.cwnd)
    };
    caught(TRACES, || windowed(Twisted { leave_slow_start: waits, ..mvegas() }));
}
