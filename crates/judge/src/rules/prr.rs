//! The window during a proportional rate reduction: RFC 9937 section 6.

use super::names::WINDOW_REDUCTION as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::WindowCause;
use tcpassay_tcp::{CongestionState, PrrBound, Recovery, StackFlavor};
use tcpassay_units::Time;

/// Tolerance in segments: amounts are rounded to segments, and segments may be short.
const SPARE: u64 = 2;

/// The amounts of RFC 9937 section 6.1, as the log shows them.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// Bounds of `RecoverFS`: Linux uses the window before the reduction.
    flight: (u64, u64),
    /// `RecoverFS` of RFC 9937: what was in flight before the ACK that began the reduction, without what was SACKed before.
    recover_fs: u64,
    /// `prr_delivered`, and an upper bound of it with the data that DSACKs report.
    delivered: (u64, u64),
    /// `prr_out`.
    out: u64,
    row: usize,
    since: Time,
}

/// The proportional rate reduction of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Prr {
    account: Option<Account>,
    /// The window before the last reduction.
    window: u64,
    /// Time of the last ACK; what it delivered, and the largest amount that was in flight before it with the least.
    ack: Option<(Time, u64, (u64, u64))>,
    /// Bytes SACKed, and bytes in flight before the last ACK without what was SACKed before it.
    sacked: u64,
    undelivered: u64,
    /// Whether the last ACK moved SND.UNA, and whether losses were found since.
    advanced: bool,
    lost: bool,
    /// True if a timer fired after the last ACK.
    by_timer: bool,
}

/// Whether the window follows PRR in a state.
fn follows(context: &Context<'_>, step: &Step<'_>, state: CongestionState) -> bool {
    let Some(stack) = context.stack(step.flow) else { return false };
    // Without SACK the amount that was delivered is an estimate.
    let reported = stack.sack && context.stack(step.peer).is_some_and(|peer| peer.sack);
    reported
        && context.window_based(step.flow)
        && match state {
            CongestionState::Recovery => stack.recovery == Recovery::Prr,
            // With a recovery that is not its own Linux counts neither what is sent nor what is delivered there.
            CongestionState::Cwr => {
                stack.cwr_by_prr && (stack.flavor != StackFlavor::Linux || stack.recovery == Recovery::Prr)
            }
            _ => false,
        }
}

impl Prr {
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        match step.event.kind {
            EventKind::In => self.arrival(step),
            EventKind::Lost => self.lost = true,
            EventKind::TimerFire => self.by_timer = true,
            EventKind::Out | EventKind::Retransmit => {
                if let Some(account) = &mut self.account {
                    account.out += step.len();
                }
            }
            EventKind::Congestion => {
                let (before, now) = (step.before.state, step.end.now.state);
                if !follows(context, step, now) {
                    self.account = None;
                } else if before != now {
                    // A recovery that begins while PRR reduces the window for a mark continues its account.
                    let continues = before == CongestionState::Cwr && follows(context, step, before);
                    self.account = if continues { self.account } else { self.begin(step) };
                }
            }
            EventKind::Window => match step.event.window_cause() {
                Some(WindowCause::Enter) => self.window = step.before.cwnd,
                Some(WindowCause::Prr) => self.judge(context, step, found),
                _ => {}
            },
            _ => {}
        }
    }

    fn arrival(&mut self, step: &Step<'_>) {
        let taken = step.end.taken;
        let before = step.before.nxt - step.before.una;
        let least = step.end.outstanding() - step.end.sacked;
        self.ack = Some((step.at(), taken.delivered, (least, before)));
        self.undelivered = before - self.sacked.min(before);
        self.sacked = step.end.sacked;
        (self.advanced, self.lost, self.by_timer) = (taken.acked > 0, false, false);
        if let Some(account) = &mut self.account {
            account.delivered.0 += taken.delivered;
            account.delivered.1 += taken.in_packets + taken.dsacked;
        }
    }

    /// A reduction begins, with an ACK or with a timer.
    fn begin(&self, step: &Step<'_>) -> Option<Account> {
        let (at, delivered, (least, most)) = self.ack?;
        // A reordering timer begins a recovery without an ACK; its flight is that of the present.
        let flight = if at == step.at() {
            (least, most)
        } else {
            (step.end.outstanding() - step.end.sacked, step.end.outstanding())
        };
        let delivered = if at == step.at() { delivered } else { 0 };
        let window = self.window.max(step.before.cwnd).max(1);
        let present = step.end.outstanding() - step.end.sacked;
        let recover_fs = if at == step.at() && !self.by_timer { self.undelivered } else { present };
        Some(Account {
            recover_fs: recover_fs.max(1),
            flight: (flight.0.min(window).max(1), flight.1.max(window)),
            delivered: (delivered, delivered + u64::from(at != step.at()) * window),
            out: 0,
            row: step.row,
            since: step.at(),
        })
    }

    /// RFC 9937 section 6.2: as long as more than ssthresh is in flight, `prr_out` follows `prr_delivered * ssthresh / RecoverFS`; below
    /// it each delivery permits as much, up to ssthresh.
    fn judge(&self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some(account) = self.account else { return };
        let Some(pipe) = step.event.flight.map(tcpassay_units::Bytes::get) else { return };
        let Some((at, delivered, _)) = self.ack.filter(|(at, ..)| *at == step.at()) else { return };
        let mss = context.mss(step.flow);
        let (cwnd, ssthresh) = (step.end.now.cwnd, step.end.now.ssthresh);
        let part = |delivered: u64, flight: u64| {
            u64::try_from(u128::from(delivered) * u128::from(ssthresh) / u128::from(flight))
                .unwrap_or(u64::MAX)
        };
        let (least, most) = if pipe > ssthresh {
            let least = part(account.delivered.0, account.flight.1).saturating_sub(account.out);
            let most = part(account.delivered.1, account.flight.0).saturating_sub(account.out);
            (least, Some(most))
        } else {
            ((ssthresh - pipe).min(delivered), None)
        };
        let spare = SPARE * mss;
        if cwnd + spare < pipe + least {
            found.add(step.of_sender(context, NAME, "PRR permits less than what was delivered").since(account.row, account.since), || {
                format!(
                    "At {at} PRR gives {} a window of {cwnd} bytes with {pipe} in flight and an ssthresh of {ssthresh}; {} bytes were delivered \
                     and {} sent since the reduction began, so that {least} may be sent (RFC 9937 section 6.2).",
                    context.who(step.flow), account.delivered.0, account.out
                )
            });
        }
        let exact = context.stack(step.flow).is_some_and(|stack| stack.flavor == StackFlavor::Rfc);
        let safe = context.stack(step.flow).is_some_and(|stack| stack.prr_bound == PrrBound::SafeAck);
        if exact && safe && step.end.fin_out.is_none() && ssthresh > 2 * mss {
            self.equals(context, step, &account, (pipe, delivered), found);
        }
        if let Some(most) = most.filter(|most| exact && cwnd > pipe + most + spare) {
            found.add(step.of_sender(context, NAME, "PRR permits more than what was delivered").since(account.row, account.since), || {
                format!(
                    "At {at} PRR gives {} a window of {cwnd} bytes with {pipe} in flight and an ssthresh of {ssthresh}; {} bytes were delivered \
                     and {} sent since the reduction began, so that no more than {most} may be sent (RFC 9937 section 6.2).",
                    context.who(step.flow), account.delivered.1, account.out
                )
            });
        }
    }

    /// The window of RFC 9937 section 6.2, with amounts rounded up to segments as in its figures. `pipe`: bytes in flight; `delivered`: by the
    /// last ACK.
    fn equals(
        &self,
        context: &Context<'_>,
        step: &Step<'_>,
        account: &Account,
        (pipe, delivered): (u64, u64),
        found: &mut Findings,
    ) {
        let mss = context.mss(step.flow);
        let ssthresh = step.end.now.ssthresh;
        let all = account.delivered.0;
        let mut count = if pipe > ssthresh {
            let due = (u128::from(all) * u128::from(ssthresh)).div_ceil(u128::from(account.recover_fs));
            u64::try_from(due).unwrap_or(u64::MAX).next_multiple_of(mss).saturating_sub(account.out)
        } else {
            // SafeACK: a segment more if SND.UNA advances and no further loss is indicated.
            let safe = self.advanced && !self.lost;
            let owed = all.saturating_sub(account.out).max(delivered).next_multiple_of(mss);
            (owed + if safe { mss } else { 0 }).min(ssthresh - pipe)
        };
        if account.out == 0 {
            count = count.max(mss);
        }
        let expected = (pipe + count).max(mss);
        let cwnd = step.end.now.cwnd;
        if cwnd != expected {
            found.add(step.of_sender(context, NAME, "PRR gives another window than specified").since(account.row, account.since), || {
                format!(
                    "At {} PRR gives {} a window of {cwnd} bytes with {pipe} in flight and an ssthresh of {ssthresh}. Of {} bytes in flight at the \
                     begin {all} were delivered and {} sent, so that the window is {expected} (RFC 9937 section 6.2).",
                    step.at(), context.who(step.flow), account.recover_fs, account.out
                )
            });
        }
    }
}
