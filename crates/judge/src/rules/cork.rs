//! `TCP_CORK`: segments that are not full are held back (tcp(7)).

use super::names::FLOW_CONTROL as NAME;
use crate::facts::Facts;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::AppCall;
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// Linux sends a corked segment after the time of its persist timer, `TCP_RTO_MIN` at least; a tick less.
const HELD: Dur = Dur::from_millis(198);
/// Bytes that no send buffer refuses. A writer that waits for space in the buffer ends the cork.
const BUFFERED: u64 = 16_384;
/// Number of corked segments that are reported. One is enough if no write can have ended its cork.
const MANY: u32 = 3;
/// Bytes of options that a full segment may lack.
const OPTIONS: u64 = 40;

/// What one end holds back.
#[derive(Clone, Debug, Default)]
pub(super) struct Cork {
    /// Time since which data wait with nothing outstanding.
    alone: Option<Time>,
    /// Time of the last transmission of data.
    sent: Option<Time>,
    /// Number of segments that left before their time, and the row of the first one.
    early: (u32, usize),
    reported: bool,
    /// Time of the last write.
    wrote: Time,
    /// The last arrival: its time, SND.UNA before it, and whether it was the only one of its instant.
    arrival: (Time, u64, bool),
    /// SND.NXT of TCP, which a queue in the host may hide, at an arrival: time, position.
    reached: (Time, u64),
}

impl Cork {
    /// Processes a row of an end.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let corked = context.of_kernel() && context.stack(step.flow).is_some_and(|stack| stack.cork);
        if !corked || !step.end.logs_writes {
            return;
        }
        match step.event.kind {
            EventKind::Out if step.len() > 0 => {
                self.sent(context, step, found);
                self.sent = Some(step.at());
            }
            EventKind::App if step.event.app_call() == Some(AppCall::Write) => self.wrote = step.at(),
            EventKind::In => {
                self.arrival = (step.at(), step.before.una, self.arrival.0 != step.at());
            }
            EventKind::Window if step.event.why == "met by a segment" => {
                let (at, una, single) = self.arrival;
                if let Some(flight) = step.event.flight.filter(|_| at == step.at() && single) {
                    self.reached = (at, una + flight.get());
                }
            }
            _ => {}
        }
        let waits = step.end.outstanding() == 0 && step.end.written > step.end.now.nxt;
        if waits {
            self.alone.get_or_insert(step.at());
        } else {
            self.alone = None;
        }
    }

    fn sent(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let (end, before) = (step.end, &step.before);
        let mss = context.mss(step.flow);
        let partial = step.len() + OPTIONS < mss && step.seq() >= before.nxt;
        // A window that ends cuts a segment; the end of the stream ends the cork.
        let cut = before.una + end.wnd < step.seq() + mss || step.flags().any(Flags::FIN | Flags::URG);
        let calm = before.state == CongestionState::Open && end.sacked == 0 && end.again == 0;
        // TCP sent it after the last write, which may have been one that ended the cork: with an arrival.
        let by_ack = self.reached.0 > self.wrote
            && step.seq() >= self.reached.1
            && step.seq_end() == end.written
            && before.nxt > before.una;
        let buffered = end.written.saturating_sub(before.una) <= BUFFERED;
        if !partial || cut || !calm || !(buffered || by_ack) || !end.open {
            return;
        }
        let held = if before.nxt > before.una {
            // A tail loss probe may send it, two round trips after the last transmission or later.
            let Some((shortest, _)) = end.round_trips else { return };
            self.sent.is_none_or(|at| step.at().since(at) >= shortest)
        } else {
            // A queue in the host holds back what was sent.
            let queued = context.facts.is_none_or(Facts::queues_in_host);
            queued || self.alone.is_none_or(|since| step.at().since(since) >= HELD)
        };
        if held {
            return;
        }
        if self.early.0 == 0 {
            self.early.1 = step.row;
        }
        self.early.0 += 1;
        if (self.early.0 >= MANY || by_ack) && !self.reported {
            self.reported = true;
            let (count, row) = self.early;
            found.add(step.of_sender(context, NAME, "corked segments are sent").since(row, step.at()).warning(), || {
                format!(
                    "{} has TCP_CORK set and sent segments that are not full ({count}) sooner than 200 ms after they were written, and not as tail \
                     loss probes (tcp(7)).", context.who(step.flow)
                )
            });
        }
    }
}
