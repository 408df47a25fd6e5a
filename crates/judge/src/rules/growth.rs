//! Growth of the congestion window: RFC 5681, RFC 3465, RFC 6928, RFC 7661.

use super::hystart::Hystart;
use super::names::WINDOW_GROWTH as NAME;
use super::shown::ShownWindow;
use super::traced_window::TracedWindow;
use super::validated_window::ValidatedWindow;
use crate::finding::{Findings, Oracle};
use crate::needs::Need;
use crate::step::{Context, PerEnd, Rule, Step};
use tcpassay_measure::EventKind;
use tcpassay_tcp::EcnMode;
use tcpassay_wire::Flags;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "growth of the congestion window against RFC 5681",
    asserts: "the first flight is at most the initial window; with the HyStart of Linux slow start ends when the ACKs of a round, at most 2 ms apart, take \
              longer than half of the shortest round-trip time, or the shortest of nine round-trip times of a round is an eighth longer \
              than that (4 to 16 ms), and not before. On kernels: in slow start an ACK increases the window by at most a segment for each packet that it delivers; \
              in congestion avoidance Reno and DCTCP add \
              at most one segment per window of acknowledged data, and exactly one while the window is full; CUBIC adds at \
              most half a window per round trip, and does not exceed the CUBIC function of the time since the last reduction without idle periods; \
              a window of which less than half is used does not grow, nor in congestion avoidance \
              one that the application does not fill; after an idle time of one RTO the first flight is at most the restart window; slow \
              start without a loss or mark does not end while round-trip times are not longer than the shortest one and less \
              than a quarter of the path's capacity is in use; only probes are sent beyond the window, which is never below \
              one segment. Of another TCP that shows its window, it grows by no more than is delivered, and no more is sent than it permits.",
    why: "RFC 5681 section 3.1 (equations 2 and 3) and 4.1 (idle), RFC 3465 sections 2.1 to 2.3, RFC 6928, RFC 9438 sections 4.2 \
          (target of 1.5 windows), 4.3 (Reno-friendly region) and 5.8 (idle), RFC 9406 section 4 (end of slow start), Linux `hystart_update`, RFC 2861, RFC 7661 section 1 (an unused window is not validated by the path).",
    evidence: "the row with the change of the window, and the row at which counting began.",
    wrong_when: "the oracle has no rule for the controller (it then checks only the initial window). The log of a real kernel \
                 contains the window at each arrival of a segment, so every rule allows for the data that the last arrivals \
                 delivered.",
    needs: &[Need::Event(EventKind::Window)],
};

/// The length of the option of accurate ECN with its padding.
const ACCURATE_OPTION: u64 = 12;
#[derive(Clone, Debug, Default)]
struct Half {
    /// True after the first ACK of data, which ends the first flight.
    acked: bool,
    /// The position at which the first flight begins.
    first: Option<u64>,
    /// State of the rules for the log of a kernel.
    traced: TracedWindow,
    shown: ShownWindow,
    validated: ValidatedWindow,
    hystart: Hystart,
}

/// The rules of the documentation of this module.
pub(super) fn rule(flows: usize) -> Box<dyn Rule> {
    PerEnd::<Half>::rule(flows, on)
}

fn on(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if context.of_kernel() {
        half.traced.on(context, step, found);
        half.validated.on(context, step, found);
    }
    if context.shows(step.flow) {
        half.shown.on(context, step, found);
    }
    half.hystart.on(context, step, found);
    match step.event.kind {
        EventKind::In if !step.flags().has(Flags::SYN) => half.acked |= half.first.is_some(),
        // A tail loss probe may send new data beyond the window (RFC 8985 section 7.3).
        EventKind::TimerFire => half.acked |= half.first.is_some(),
        EventKind::Out => first_flight(half, context, step, found),
        _ => {}
    }
}

/// Checks the first flight against the initial window.
fn first_flight(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(stack) = context.stack(step.flow) else { return };
    if step.flags().has(Flags::SYN) || step.len() == 0 || half.acked {
        return;
    }
    let mss = context.mss(step.flow);
    let initial = u64::from(stack.initial_window.max(1)) * mss;
    let start = *half.first.get_or_insert(step.seq());
    let sent = step.seq_end() - start;
    // The log of a kernel does not identify a tail loss probe among the first segments.
    let probe = if context.exact() { 0 } else { mss };
    // A segment without the option of accurate ECN is longer than one with it, and the window counts the longer ones.
    let option =
        if stack.ecn == EcnMode::Accurate { u64::from(stack.initial_window) * ACCURATE_OPTION } else { 0 };
    if sent > initial + probe + option && start == 1 {
        found.add(step.of_sender(context, NAME, "the first flight is above the initial window"), || {
            format!(
                "{} sent {sent} bytes before the first ACK of data; its initial window is {} segments of {mss} bytes (RFC 6928).",
                context.who(step.flow), stack.initial_window
            )
        });
    }
}
