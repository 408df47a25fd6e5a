//! The window of a recovery without SACK: RFC 5681 section 3.2 and RFC 6582 section 3.2.

use crate::finding::Findings;
use crate::rules::names::SENDER as NAME;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::WindowCause;
use tcpassay_tcp::{CongestionState, Recovery, StackFlavor};
use tcpassay_wire::Flags;

/// State of the recovery of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Inflation {
    /// Duplicate ACKs in a row.
    duplicates: u64,
    /// In a recovery: the duplicates that it began with, which do not inflate the window again.
    counted: u64,
    /// The window that the last ACK gives, and its row.
    expected: Option<(u64, usize)>,
    /// True from the begin of a recovery until its window is known.
    begins: bool,
    /// SND.NXT at the begin of the recovery.
    recover: u64,
    /// The window that the peer announced last.
    window: u64,
}

/// Whether the window of a recovery is that of NewReno.
pub(super) fn applies(context: &Context<'_>, step: &Step<'_>) -> bool {
    let (Some(stack), Some(other)) = (context.stack(step.flow), context.stack(step.peer)) else {
        return false;
    };
    let selective = stack.sack && other.sack && stack.recovery != Recovery::NewReno;
    // Linux does not count more duplicates than segments are outstanding (`tcp_limit_reno_sacked`).
    let counts = stack.flavor != StackFlavor::Linux;
    context.window_based(step.flow) && stack.recovery != Recovery::Prr && !selective && counts
}

impl Inflation {
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let recovers = step.end.now.state == CongestionState::Recovery;
        match step.event.kind {
            EventKind::In if step.is_arrival() => {
                self.judge(context, step, found);
                let window = self.peers_window(context, step);
                self.arrival(context, step, recovers, window);
                self.window = window;
            }
            EventKind::Congestion => {
                if self.expected.is_some() && !recovers {
                    self.expected = None;
                }
                self.begins = recovers;
                self.recover = step.end.now.nxt;
                self.counted = self.duplicates;
                if step.before.state == CongestionState::Loss || step.is_undo() {
                    self.duplicates = 0;
                }
            }
            EventKind::TimerFire => {
                self.expected = None;
                self.begins = false;
            }
            EventKind::Window if step.event.window_cause() == Some(WindowCause::Enter) && self.begins => {
                let first =
                    step.end.now.ssthresh.saturating_add(self.counted.max(1) * context.mss(step.flow));
                self.expected =
                    Some((first, step.row)).filter(|_| step.before.state == CongestionState::Recovery);
            }
            EventKind::Out | EventKind::Retransmit => self.judge(context, step, found),
            _ => {}
        }
    }

    /// The peer's window with this ACK. FreeBSD ignores a smaller one in an ACK of the same position (`tcp_do_segment`).
    fn peers_window(&self, context: &Context<'_>, step: &Step<'_>) -> u64 {
        let grows_only = context.stack(step.flow).is_some_and(|stack| stack.flavor == StackFlavor::FreeBsd);
        let repeats = step.len() == 0 && step.end.taken.acked == 0;
        if grows_only && repeats { self.window.max(step.end.wnd) } else { step.end.wnd }
    }

    /// `window`: that of the peer after this ACK.
    fn arrival(&mut self, context: &Context<'_>, step: &Step<'_>, recovers: bool, window: u64) {
        let mss = context.mss(step.flow);
        let acked = step.end.taken.acked;
        let cwnd = step.before.cwnd;
        if acked > 0 {
            (self.duplicates, self.counted) = (0, 0);
            let back = if acked >= mss { mss } else { 0 };
            let deflated = (cwnd.saturating_sub(acked) + back).max(mss);
            self.expected = recovers.then_some((deflated, step.row));
        } else if window == self.window && is_duplicate(step) {
            self.duplicates += 1;
            let grown = if self.duplicates > self.counted { mss } else { 0 };
            self.expected = recovers.then_some((cwnd + grown, step.row));
        } else {
            self.expected = recovers.then_some((cwnd, step.row));
        }
        // A FIN takes a position, and no room in the window.
        if step.end.fin_out.is_some() || step.end.now.una >= self.recover {
            self.expected = None;
        }
    }

    /// The window before the next segment is the one that the last ACK gives.
    fn judge(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some((expected, row)) = self.expected.take() else { return };
        if step.before.state != CongestionState::Recovery || step.before.cwnd == expected {
            return;
        }
        found.add(
            step.of_sender(context, NAME, "another window in recovery without SACK").since(row, step.at()),
            || {
                format!(
                    "In recovery the window of {} is {} bytes after this row; RFC 5681 section 3.2 and RFC 6582 section 3.2 give {expected}.",
                    context.who(step.flow), step.before.cwnd
                )
            },
        );
    }
}

/// A duplicate ACK, if it leaves the window as it was: it has no data and acknowledges nothing new (RFC 5681 section 2).
fn is_duplicate(step: &Step<'_>) -> bool {
    step.len() == 0
        && step.event.ack == Some(step.before.una)
        && step.before.nxt > step.before.una
        && !step.flags().any(Flags::SYN | Flags::FIN | Flags::RST)
}
