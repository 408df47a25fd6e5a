//! The window during a recovery: RFC 6582 section 3.2 (partial ACKs) and RFC 9937 section 6.2 (proportional rate reduction).

use super::names::WINDOW_REDUCTION as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::WindowCause;
use tcpassay_tcp::CongestionState;
use tcpassay_units::Bytes;

/// What the present recovery has done to the window so far.
#[derive(Clone, Debug, Default)]
pub(super) struct RecoveryWindow {
    /// Bytes that the last ACK acknowledged, until the window follows.
    partial: Option<u64>,
    /// True once PRR has brought the window to ssthresh.
    reached: bool,
}

impl RecoveryWindow {
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        match step.event.kind {
            EventKind::In => {
                let recovers = step.before.state == CongestionState::Recovery;
                self.partial = Some(step.end.taken.acked).filter(|acked| recovers && *acked > 0);
            }
            EventKind::Congestion => *self = RecoveryWindow::default(),
            EventKind::Window if step.end.now.state == CongestionState::Recovery => {
                match step.event.window_cause() {
                    Some(WindowCause::NewReno) => self.deflates(context, step, found),
                    Some(WindowCause::Prr) => self.is_bounded(context, step, found),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// A partial ACK deflates the window by what it acknowledges, and adds back one segment.
    fn deflates(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some(acked) = self.partial.take() else { return };
        let mss = context.mss(step.flow);
        let (before, after) = (step.before.cwnd, step.end.now.cwnd);
        if after > (before.saturating_sub(acked) + mss).max(mss) {
            found.add(step.of_sender(context, NAME, "a partial ACK does not deflate the window"), || {
                format!(
                    "In recovery an ACK of {acked} bytes changed the window of {} from {before} to {after} bytes (RFC 6582 section 3.2 step \
                     3).",
                    context.who(step.flow)
                )
            });
        }
    }

    /// While less than ssthresh is in flight, PRR lets the window grow up to ssthresh, but not beyond.
    fn is_bounded(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let mss = context.mss(step.flow);
        let now = step.end.now;
        // The window is what is in flight and what may be sent. More than ssthresh is in flight again when a sender without SACK forgets its
        // duplicates at the end of the recovery (`tcp_reset_reno_sack`). The first retransmission is always allowed, and a probe of a lost
        // tail may exceed the window.
        let flight = step.event.flight.map_or(0, Bytes::get);
        let most = now.ssthresh.max(flight).saturating_add(2 * mss);
        // Without SACK the amount that was delivered is an estimate.
        let reported = |flow| context.stack(flow).is_some_and(|stack| stack.sack);
        if self.reached && now.cwnd > most && reported(step.flow) && reported(step.peer) {
            found.add(step.of_sender(context, NAME, "recovery raises the window above ssthresh"), || {
                format!(
                    "In recovery the window of {} had come down to ssthresh, {} bytes, and rose to {} (RFC 9937 section 6.2).",
                    context.who(step.flow),
                    now.ssthresh,
                    now.cwnd
                )
            });
        }
        self.reached |= now.cwnd <= now.ssthresh;
    }
}
