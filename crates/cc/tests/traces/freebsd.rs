//! Reductions as FreeBSD 14 computes them: `newreno_cong_signal` (`sys/netinet/cc/cc_newreno.c`) and `cubic_ssthresh_update`
//! (`cc_cubic.c`), worked by hand.

use crate::mutant::default;
use crate::trace::{Outcome, Sender, caught, traces};
use tcpassay_cc::{Arithmetic, Cause, Controller, Params, build};

fn freebsd(name: &str) -> Box<dyn Controller> {
    build(name, &Params { arithmetic: Arithmetic::FreeBsd, ..Params::default() }).unwrap()
}

mod newreno {
    use super::*;

    traces! { freebsd("reno");

        /// 25 * 50 / 100 = 12 segments; of two segments max(1, 2) are left.
        fn whole_segments_are_left_and_two_at_least_after_marks_as_after_losses(t) {
            for cause in [Cause::Loss, Cause::Ecn] {
                t.put(25_000, 8_000);
                t.enter(cause, 25_000);
                t.leave();
                t.expect(12_000, 12_000)?;
                t.ack(0);
                t.put(2_000, 8_000);
                t.enter(cause, 2_000);
                t.leave();
                t.expect(2_000, 2_000)?;
                t.ack(0);
            }
        }
    }

    #[test]
    fn the_arithmetic_of_the_rfc_is_caught() {
        caught(TRACES, || default("reno"));
    }
}

mod cubic {
    use super::*;

    traces! { freebsd("cubic");

        /// 100 / 2, with a maximum of 100 * 0.7; then 0.7 of 90, which is above that maximum and so the next one.
        fn the_first_reduction_halves_and_the_next_leaves_seven_tenths(t) {
            t.put(100_000, u64::MAX);
            t.enter(Cause::Ecn, 100_000);
            t.leave();
            t.expect(50_000, 50_000)?;
            t.expect_inner("w_max", 70_000.0)?;
            t.ack(0);
            t.put(90_000, 50_000);
            t.enter(Cause::Loss, 90_000);
            t.leave();
            t.expect(63_000, 63_000)?;
            t.expect_inner("w_max", 90_000.0)?;
        }

        /// The first is taken back whole: it counts as none.
        fn after_a_false_first_reduction_the_next_halves_too(t) {
            t.put(100_000, u64::MAX);
            t.enter(Cause::Loss, 100_000);
            t.undo();
            t.ack(0);
            t.enter(Cause::Loss, 100_000);
            t.leave();
            t.expect(50_000, 50_000)?;
        }

        /// max(1.4, 2) segments.
        fn marks_leave_two_segments(t) {
            for _ in 0..2 {
                t.put(2_000, 8_000);
                t.enter(Cause::Ecn, 2_000);
                t.leave();
                t.expect(2_000, 2_000)?;
                t.ack(0);
            }
        }
    }

    #[test]
    fn the_arithmetic_of_the_rfc_is_caught() {
        caught(TRACES, || default("cubic"));
    }
}
