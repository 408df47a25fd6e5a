//! The answer to a loss that a tail loss probe repaired: RFC 8985 section 7.4.

use super::names::TAIL_LOSS_PROBE as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Dur, Time};

/// A probe that repeated data, until an ACK decides what it repaired.
#[derive(Clone, Copy, Debug)]
struct Repeated {
    row: usize,
    at: Time,
    start: u64,
    end: u64,
    /// `TLP.end_seq`: the end of all data that had been sent with the probe.
    until: u64,
}

/// The last probe of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct ProbeRepair {
    probe: Option<Repeated>,
    /// The probe that repaired a loss, and the time of the ACK that shows it.
    owed: Option<(Repeated, Time)>,
}

impl ProbeRepair {
    /// A probe was sent.
    pub fn probes(&mut self, step: &Step<'_>) {
        let (start, end, until) = (step.seq(), step.seq_end(), step.end.now.nxt);
        let repeats = step.event.kind == EventKind::Retransmit && end <= step.before.nxt;
        self.probe = repeats.then_some(Repeated { row: step.row, at: step.at(), start, end, until });
    }

    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let reduces = |state| !matches!(state, CongestionState::Open | CongestionState::Disorder);
        if let Some((probe, at)) = self.owed.filter(|(_, at)| step.at() > *at) {
            self.owed = None;
            found.add(
                step.of_sender(context, NAME, "no reduction for a loss that a probe repaired").since(probe.row, probe.at),
                || {
                    format!(
                        "The probe of {} at {} repeated positions {} to {}; at {at} data that were sent after it were acknowledged, and no ACK \
                         has reported a duplicate, so that the original was lost, but the window was not reduced (RFC 8985 section 7.4.2).",
                        context.who(step.flow), probe.at, probe.start, probe.end
                    )
                },
            );
        }
        self.follow(step, reduces);
        step.deadline(self.owed.map(|(_, at)| at), Dur::ZERO);
    }

    fn follow(&mut self, step: &Step<'_>, reduces: impl Fn(CongestionState) -> bool) {
        match step.event.kind {
            EventKind::In if step.is_arrival() => self.arrival(step, reduces(step.before.state)),
            EventKind::Congestion if reduces(step.end.now.state) => {
                self.owed = None;
                self.probe = None;
            }
            EventKind::TimerFire if step.event.timer() == Some(tcpassay_measure::reason::Timer::Rto) => {
                self.probe = None;
            }
            _ => {}
        }
    }

    fn arrival(&mut self, step: &Step<'_>, reducing: bool) {
        let Some(probe) = self.probe else { return };
        let una = step.end.now.una;
        // The segment that was probed arrived twice, or an ACK without news shows that its copy was not needed.
        let reported = step.end.taken.dsacked > 0;
        let bare =
            una >= probe.until && step.end.taken.acked == 0 && step.len() == 0 && step.sacks.is_empty();
        if reported || bare || reducing {
            self.probe = None;
        } else if una > probe.until {
            self.probe = None;
            // What shows a loss of its own reduces the window anyway.
            if step.end.sacked == 0 {
                self.owed = Some((probe, step.at()));
            }
        }
    }
}
