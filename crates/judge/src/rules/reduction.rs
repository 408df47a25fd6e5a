//! Reductions of the congestion window and their undo: RFC 5681, RFC 9438, RFC 8257, RFC 3522, RFC 3708.

use super::bbr_drain::BbrDrain;
use super::names::WINDOW_REDUCTION as NAME;
use crate::finding::{Findings, Oracle};
use crate::needs::Need;
use crate::step::{Context, PerEnd, Rule, Step};
use tcpassay_cc::Arithmetic;
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{CongestionCause, WindowCause};
use tcpassay_tcp::CongestionState;
use tcpassay_wire::Flags;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "reduction of the window against RFC 5681",
    asserts: "a loss sets ssthresh to the flight size (or the window) times the factor of the controller, and to at least two \
              segments; a repeated timeout does not lower ssthresh further; \
              losses and marks of one window reduce it once; after marks DCTCP reduces by half at most; after its startup BBR \
              lets the flight fall to a bandwidth-delay product.",
    why: "RFC 5681 section 3.1 (equation 4), RFC 6582 section 3.2, RFC 9438 section 4.6 (0.7), RFC 8257 section 3.3, RFC 3168 section 6.1.2.",
    evidence: "the row of the reduction and, where it is compared with an earlier one, that row.",
    wrong_when: "the controller reduces by another factor than the one that its parameters say; the oracle has none for some controllers and does not judge them.",
    needs: &[Need::Event(EventKind::Congestion), Need::Event(EventKind::Window)],
};

#[derive(Clone, Debug, Default)]
struct Half {
    /// SND.NXT at the last reduction, and its row.
    reduced: Option<(u64, usize)>,
    /// cwnd and ssthresh before the first reduction of the present CWR, Recovery or Loss state.
    prior: Option<(u64, u64)>,
    /// ssthresh after the last timeout, while nothing was acknowledged since.
    timed_out: Option<(u64, usize)>,
    /// A row `window` with the cause `enter` or `timeout`, until the row of the state change shows the
    /// reason.
    entered: Option<Entered>,
    /// True if an ECN mark caused the reduction, which is then never undone.
    marked: bool,
    /// True if the present timeout occurred in state CWR, Recovery or Loss.
    within: bool,
    drain: BbrDrain,
    /// Bytes outstanding at the latest ACK; then the bytes of them that were SACKed.
    flight: u64,
    sacked: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entered {
    row: usize,
    timeout: bool,
    ssthresh: u64,
    /// The window before the reduction.
    window: u64,
    threshold: u64,
    flight: u64,
    sacked: u64,
}

impl Entered {
    /// ssthresh before the reduction, if the reduction did not raise it.
    fn threshold_if_below(&self) -> u64 {
        if self.threshold >= self.ssthresh && self.threshold != u64::MAX && self.threshold > self.window {
            self.threshold
        } else {
            0
        }
    }
}

/// The rules of the documentation of this module.
pub(super) fn rule(flows: usize) -> Box<dyn Rule> {
    PerEnd::<Half>::rule(flows, on)
}

fn on(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    half.drain.on(context, step, found);
    match step.event.kind {
        EventKind::In if !step.flags().has(Flags::SYN) => {
            half.flight = step.before.nxt - step.before.una;
            half.sacked = step.end.sacked;
            if step.end.taken.acked > 0 {
                half.timed_out = None;
            }
        }
        EventKind::TimerFire => {
            half.flight = step.end.outstanding();
            half.sacked = step.end.sacked;
        }
        EventKind::Window => window(half, context, step, found),
        EventKind::Congestion => state(half, context, step, found),
        _ => {}
    }
}

/// The factors of the controller: smallest and largest remaining share of the window after a loss, and after
/// a mark.
fn factors(context: &Context<'_>, step: &Step<'_>) -> Option<((f64, f64), (f64, f64))> {
    let settings = context.settings(step.flow)?;
    let value = |name: &str, default: f64| settings.cc_values.get(name).copied().unwrap_or(default);
    let cc = context.recording.flows[step.flow].cc.as_str();
    Some(match cc {
        "reno" => {
            let (loss, mark) = (value("beta", 0.5), value("beta_ecn", 0.5));
            ((loss, loss), (mark, mark))
        }
        "cubic" => {
            let beta = value("beta", 0.7);
            // FreeBSD halves the window that its first slow start reached (`cubic_ssthresh_update`).
            let least =
                if settings.stack.cc_arithmetic == Arithmetic::FreeBsd { beta.min(0.5) } else { beta };
            ((least, beta), (least, beta))
        }
        "dctcp" => ((0.5, 0.5), (0.5, 1.0)),
        _ => return None,
    })
}

fn window(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let (before, after) = (step.before, step.end.now);
    let cause = step.event.window_cause();
    let timeout = cause == Some(WindowCause::Timeout);
    match cause {
        Some(WindowCause::Enter | WindowCause::Timeout) if before.ssthresh != after.ssthresh || timeout => {
            half.entered = Some(Entered {
                row: step.row,
                timeout,
                ssthresh: after.ssthresh,
                // A timeout during a reduction reduces from the window before that reduction; a recovery after a timeout from the window that
                // slow start has reached.
                window: half
                    .prior
                    .filter(|_| reduces(before.state) && (timeout || before.state != CongestionState::Loss))
                    .map_or(0, |(cwnd, _)| cwnd)
                    .max(before.cwnd),
                threshold: before.ssthresh,
                flight: half.flight,
                sacked: half.sacked,
            });
            if timeout {
                // BBR changes ssthresh between timeouts.
                if let Some((threshold, row)) = half.timed_out
                    && after.ssthresh < threshold
                    && !context.paces(step.flow)
                {
                    found.add(
                        step.of_sender(context, NAME, "a repeated timeout lowers ssthresh again").since(row, step.at()),
                        || {
                            format!(
                                "The first segment of {} timed out again, and ssthresh fell from {threshold} to {} (RFC 5681 section 3.1: ssthresh is held constant).", context.who(step.flow), after.ssthresh
                            )
                        },
                    );
                }
                half.timed_out = Some((after.ssthresh, step.row));
                judge(half, context, step, CongestionState::Loss, false, found);
                // The next timeout of the same loss does not change the congestion state.
                half.within = true;
            }
        }
        _ => {}
    }
}

fn state(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let (now, before) = (step.end.now.state, step.before.state);
    if step.is_undo() {
        half.prior = None;
        half.reduced = None;
        half.entered = None;
        // A timeout that was spurious has not reduced anything: the next one of the same segment may.
        half.timed_out = None;
        return;
    }
    if reduces(now) {
        if before == CongestionState::Loss && now == CongestionState::Recovery {
            // RFC 5681 section 4.3: the loss of a retransmission is another indication of congestion.
            half.reduced = None;
        }
        half.within = reduces(before);
        half.marked = before == CongestionState::Cwr || half.marked && reduces(before);
        if !reduces(before) {
            half.prior = Some((step.before.cwnd, step.before.ssthresh));
        }
        let marks = now == CongestionState::Cwr && step.congestion_cause() == Some(CongestionCause::Ece);
        if half.entered.is_some() {
            judge(half, context, step, now, marks, found);
        }
        return;
    }
    if reduces(before) {
        half.entered = None;
        // Linux immediately ends the reduction for a loss that a tail loss probe repaired. Another loss of
        // the same flight is then a new one (`tcp_process_tlp_ack`).
        if step.congestion_cause() == Some(CongestionCause::RepairedByProbe) {
            half.reduced = None;
        }
    }
}

/// Whether a reduction lasts in this state.
fn reduces(state: CongestionState) -> bool {
    !matches!(state, CongestionState::Open | CongestionState::Disorder)
}

fn judge(
    half: &mut Half,
    context: &Context<'_>,
    step: &Step<'_>,
    state: CongestionState,
    marks: bool,
    found: &mut Findings,
) {
    let Some(entered) = half.entered.take() else { return };
    let mss = context.mss(step.flow);
    half.prior = Some((entered.window, entered.threshold));
    let again = entered.timeout && entered.threshold == entered.ssthresh;
    if let Some((nxt, row)) = half.reduced
        && !entered.timeout
        && step.end.now.una < nxt
    {
        found.add(
            step.of_sender(context, NAME, "two reductions in one window").since(row, step.at()),
            || {
                format!(
                    "{} reduced its window again at position {}, before {nxt}, which was next to be sent at the last reduction, was \
                     acknowledged (RFC 6582 section 3.2, RFC 3168 section 6.1.2).", context.who(step.flow), step.end.now.una
                )
            },
        );
    }
    half.reduced = Some((step.end.now.nxt, entered.row));
    let Some((loss, mark)) = factors(context, step).filter(|_| !again && entered.window > 0) else { return };
    let (least, most) = if marks { mark } else { loss };
    let floor = 2 * mss;
    let (small, large) = (entered.flight.min(entered.window), entered.flight.max(entered.window));
    let name = match state {
        CongestionState::Loss => "a timeout",
        CongestionState::Cwr if marks => "a mark",
        _ => "a loss",
    };
    // Tolerances: rounding to segments, and stacks that subtract segments of limited transmit or SACKed
    // segments from the flight. If ssthresh was not above the window before, it need not fall.
    let high = (scale(large, most).max(floor) + 2 * mss).max(entered.threshold_if_below());
    // An ECN mark arrives with an ACK that advances SND.UNA, so no data beyond the window are in flight.
    // SACKed data are not in flight (RFC 9937 section 6.1).
    let low =
        scale(small.saturating_sub(entered.sacked), least).saturating_sub(if marks { 2 } else { 4 } * mss);
    // For a timeout during a reduction the reference window is not known exactly.
    let within = entered.timeout && half.within;
    if entered.ssthresh > high && entered.ssthresh != u64::MAX && !within {
        found.add(step.of_sender(context, NAME, "ssthresh above the controller's factor"), || {
            format!(
                "After {name} ssthresh of {} is {} bytes, with {} bytes in flight and a window of {}; the factor of {} allows {high}.",
                context.who(step.flow), entered.ssthresh, entered.flight, entered.window, context.recording.flows[step.flow].cc
            )
        });
    }
    if entered.ssthresh < low && !within {
        found.add(step.of_sender(context, NAME, "ssthresh below the controller's factor"), || {
            format!(
                "After {name} ssthresh of {} is {} bytes, with {} bytes in flight and a window of {}; the factor of {} requires at least {low}.", context.who(step.flow), entered.ssthresh, entered.flight, entered.window,
                context.recording.flows[step.flow].cc
            )
        });
    }
    if entered.ssthresh < floor && !marks {
        found.add(step.of_sender(context, NAME, "ssthresh below two segments"), || {
            format!(
                "After {name} ssthresh of {} is {} bytes, less than two segments of {mss} (RFC 5681 section 3.1, equation 4).",
                context.who(step.flow), entered.ssthresh
            )
        });
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "windows are far below 2^53 and not negative"
)]
fn scale(bytes: u64, factor: f64) -> u64 {
    (bytes as f64 * factor) as u64
}
