//! Changes of the state of a connection against RFC 9293 section 3.3.2, and the duration of its last states.

use super::names::SEGMENT_CONTENTS as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{StateChange, TcpState, Timer};
use tcpassay_tcp::StackFlavor;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// Tolerance for the rounding of a computed time.
const ROUNDING: Dur = Dur::from_micros(2);

/// One end of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Closing {
    /// The present state, when it began, and when a segment arrived last.
    state: Option<(TcpState, Time)>,
    heard: Time,
    /// When a segment arrived that begins TIME-WAIT anew, and its row.
    anew: Option<(Time, usize)>,
}

impl Closing {
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if !context.exact() {
            return;
        }
        match step.event.kind {
            EventKind::In => {
                self.heard = step.at();
                if self.begins_anew(context, step) {
                    self.anew = Some((step.at(), step.row));
                }
            }
            EventKind::State => self.change(context, step, found),
            EventKind::TimerFire if step.event.timer() == Some(Timer::TimeWait) => {
                self.lingered(context, step, found);
            }
            _ => {}
        }
    }

    fn change(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some(StateChange::Moved { from: Some(from), to: Some(to) }) = step.event.state_change() else {
            return;
        };
        self.state = Some((to, step.at()));
        if !allowed(from, to) {
            found.add(step.of_sender(context, NAME, "a change of state that RFC 9293 does not have"), || {
                format!(
                    "The connection of {} went from {from} to {to} (RFC 9293 section 3.3.2).",
                    context.who(step.flow)
                )
            });
        }
        let end = step.end;
        // All data up to the peer's FIN have arrived; the own FIN is acknowledged.
        let came = end.fin_in.is_some_and(|fin| end.now.frontier > fin);
        let acked = end.fin_out.is_some_and(|fin| end.now.una > fin);
        let missing = match (from, to) {
            (_, TcpState::CloseWait | TcpState::Closing) | (TcpState::FinWait2, TcpState::TimeWait)
                if !came =>
            {
                "the peer's FIN"
            }
            (_, TcpState::FinWait2) | (TcpState::Closing, TcpState::TimeWait) if !acked => {
                "the acknowledgment of its FIN"
            }
            _ => return,
        };
        found.add(step.of_sender(context, NAME, "a change of state without its reason"), || {
            format!(
                "The connection of {} went from {from} to {to}, but {missing} has not arrived (RFC 9293 section 3.10.7.4).", context.who(step.flow)
            )
        });
    }

    /// RFC 9293 section 3.10.7.4, eighth: a FIN that arrives again in TIME-WAIT restarts the 2 MSL timeout. Linux restarts it with every
    /// segment that has an ACK (`tcp_timewait_state_process`).
    fn begins_anew(&self, context: &Context<'_>, step: &Step<'_>) -> bool {
        let waits = matches!(self.state, Some((TcpState::TimeWait, _)));
        let Some(stack) = context.stack(step.flow).filter(|_| waits && step.is_stream()) else {
            return false;
        };
        match stack.flavor {
            StackFlavor::Linux => step.flags().has(Flags::ACK),
            StackFlavor::Rfc | StackFlavor::FreeBsd => step.flags().has(Flags::FIN) && !step.refused,
        }
    }

    /// TIME-WAIT lasts two MSL from its begin or from the last segment that begins it anew (RFC 9293 section 3.10.7.4).
    fn lingered(&self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let (Some(stack), Some((state, since))) = (context.stack(step.flow), self.state) else { return };
        let lasts = match state {
            TcpState::TimeWait => stack.time_wait,
            TcpState::FinWait2 => stack.fin_wait2,
            _ => return,
        };
        if let Some((at, row)) =
            self.anew.filter(|(at, _)| state == TcpState::TimeWait && step.at() + ROUNDING < *at + lasts)
        {
            found.add(step.of_sender(context, NAME, "TIME-WAIT does not begin anew").since(row, at), || {
                format!(
                    "The connection of {} left TIME-WAIT {} after the peer's FIN had arrived again; it lasts {lasts} from then on (RFC 9293 section \
                     3.10.7.4).", context.who(step.flow), step.at().since(at)
                )
            });
        }
        let stayed = step.at().since(since);
        let tick = lasts / 64 + Dur::from_millis(2);
        if stayed + ROUNDING < lasts
            || step.at() > since.max(self.heard).saturating_add(lasts).saturating_add(tick)
        {
            found.add(step.of_sender(context, NAME, "a last state of another duration"), || {
                format!("The connection of {} stayed in {state} for {stayed}; it lasts {lasts} (RFC 9293 section 3.10.7.4).", context.who(step.flow))
            });
        }
    }
}

fn allowed(from: TcpState, to: TcpState) -> bool {
    use TcpState::{
        CloseWait, Closed, Closing, Established, FinWait1, FinWait2, LastAck, Listen, SynReceived, SynSent,
        TimeWait,
    };
    match from {
        Closed | Listen => true,
        SynSent => matches!(to, SynReceived | Established | Closed),
        SynReceived => matches!(to, Established | FinWait1 | CloseWait | Listen | Closed),
        Established => matches!(to, FinWait1 | CloseWait | Closed),
        FinWait1 => matches!(to, FinWait2 | Closing | TimeWait | Closed),
        FinWait2 | Closing => matches!(to, TimeWait | Closed),
        CloseWait => matches!(to, LastAck | Closed),
        LastAck => to == Closed,
        TimeWait => matches!(to, Closed | Listen | SynReceived),
    }
}
