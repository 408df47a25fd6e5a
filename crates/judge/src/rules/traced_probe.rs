//! Tail loss probes of a kernel, whose log contains the transmissions of probes but not the probe timer.

use super::names::TAIL_LOSS_PROBE as NAME;
use crate::facts::Facts;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{AppCall, Timer};
use tcpassay_tcp::{CongestionState, Tlp};
use tcpassay_units::{Dur, Time};

/// Value of [`EventRow::why`](tcpassay_measure::EventRow::why) for a retransmission that is a probe.
const PROBE: &str = "tail loss probe";
/// The largest clock tick of a kernel, which is also its smallest probe timeout.
const TICKS: Dur = Dur::from_millis(10);
/// The longest time between a write and its transmission.
const CALL: Dur = Dur::from_micros(100);
/// The time that a sender of a single segment adds for a delayed ACK (RFC 8985 `TLP.max_ack_delay`; Linux: `tcp_rto_min`).
const MAX_ACK_DELAY: Dur = Dur::from_millis(200);

/// Linux adds this to two SRTT if several segments are outstanding (`TCP_TIMEOUT_MIN_US`).
const MIN_WAIT: Dur = Dur::from_millis(2);
/// Rounding of a timer to ticks of 1 ms, and of the time at which it was set.
const ROUNDED: Dur = Dur::from_millis(3);

/// State of the rules for the probes of one sender.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of what was sent last")]
#[derive(Clone, Debug, Default)]
pub(super) struct TracedProbe {
    /// The last probe: time, row, position after the data outstanding at that time.
    probed: Option<(Time, usize, u64)>,
    /// Time of the last segment of this connection in either direction; then of the last write of the
    /// application.
    heard: Time,
    wrote: Time,
    /// Time of the last arrival that delivered data, or of a timeout or a change of the congestion state: each sets the timer anew.
    progress: Time,
    /// Time of the last transmission of data; then of the last ACK of new data.
    sent: Option<Time>,
    acked: Option<Time>,
    /// True if the last probe was data that had been sent before.
    repeats: bool,
    /// True unless the last probe was new data that a queue in the host or pacing may have held back instead.
    certain: bool,
    /// True if the data that were sent last were sent by the persist timer, which does not set the timer of a probe
    /// (`tcp_write_wakeup`): a corked segment, or one that fills only a part of a small window.
    forced: bool,
    /// True if the data that were sent last may have been a probe: they left after a silence of two round trips, at the instant of a write.
    unclear: bool,
}

impl TracedProbe {
    /// Processes a row of the log of a kernel.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        self.ends(step);
        let moved = match step.event.kind {
            EventKind::In => {
                let taken = step.end.taken;
                taken.acked > 0 || taken.delivered > 0 || taken.dsacked > 0
            }
            EventKind::TimerFire | EventKind::Congestion => true,
            _ => false,
        };
        if moved {
            self.progress = step.at();
        }
        if step.event.kind == EventKind::In && step.end.taken.acked > 0 {
            self.acked = Some(step.at());
        }
        match step.event.kind {
            EventKind::Retransmit if step.event.why == PROBE && step.is_stream() => {
                self.again(context, step, found);
            }
            EventKind::Out if step.len() > 0 => self.new_data(context, step, found),
            EventKind::TimerFire if step.event.why == Timer::Rto.name() => {
                self.timeout(context, step, found);
                self.probed = None;
            }
            // Each of these reductions ends the episode (`tcp_init_cwnd_reduction`).
            EventKind::Congestion
                if matches!(step.end.now.state, CongestionState::Recovery | CongestionState::Cwr) =>
            {
                self.probed = None;
            }
            EventKind::App if step.event.app_call() == Some(AppCall::Write) => self.wrote = step.at(),
            _ => {}
        }
        if step.is_sent() && step.len() > 0 {
            self.sent = Some(step.at());
        }
        if step.is_sent() || step.event.kind == EventKind::In {
            self.heard = step.at();
        }
    }

    /// RFC 8985 section 7.4.2: new data that were sent as a probe end the episode when they are acknowledged. If data were sent again, an
    /// ACK of newer data or a duplicate ACK ends it; until then Linux sends no other probe (`tlp_high_seq`).
    fn ends(&mut self, step: &Step<'_>) {
        let Some((_, _, until)) = self.probed else { return };
        let (una, taken) = (step.end.now.una, step.end.taken);
        let pure = step.event.kind == EventKind::In && step.len() == 0 && taken.acked == 0;
        let duplicate = una == until && pure && step.event.ack == Some(una);
        if una > until || !self.repeats && una == until || duplicate || taken.dsacked > 0 && una >= until {
            self.probed = None;
        }
    }

    /// RFC 8985 section 7.3: no other probe is sent until the outstanding probe is acknowledged.
    fn second(&self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if let Some((at, row, until)) = self.probed
            && step.at() > at
            && step.end.now.una < until
            && self.certain
        {
            found.add(
                step.of_sender(context, NAME, "a second probe before the first was acknowledged").since(row, at).warning(),
                || {
                    format!(
                        "{} sent a tail loss probe at {at:#}, and another one {:#} later, before the data up to position {until} were \
                         acknowledged (RFC 8985 section 7.3).", context.who(step.flow), step.at().since(at)
                    )
                },
            );
        }
    }

    fn again(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        self.second(context, step, found);
        self.late(context, step, found);
        self.early(context, step, found);
        self.probed = Some((step.at(), step.row, step.end.now.nxt));
        self.repeats = true;
        self.certain = true;
    }

    /// RFC 8985 section 7.2: the probe is sent two SRTT after the last transmission or the last delivery of data. With one segment
    /// outstanding it is sent later by the delay of an ACK. An ACK that delivers nothing does not restart its timer.
    fn late(&self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let (Some(stack), Some((_, longest)), Some(sent)) =
            (context.stack(step.flow), step.end.round_trips, self.sent)
        else {
            return;
        };
        let longest = longest.max(step.end.handshake);
        let since = sent.max(self.progress);
        let waited = step.at().since(since);
        let mss = context.mss(step.flow);
        let several = step.end.outstanding() > mss;
        let for_ack = if several { Dur::ZERO } else { MAX_ACK_DELAY.max(stack.rto.min) };
        // SRTT is at most the longest round trip; where each sample is in the log, it is known better.
        let least_wait = if several { MIN_WAIT } else { for_ack };
        let known = step
            .end
            .srtt
            .bounds()
            .map(|(_, high)| high * 2 + least_wait + ROUNDED)
            .map(|wait| wait + wheel(wait));
        let most = known.unwrap_or(Dur::MAX).min(longest * 2 + for_ack + TICKS * 2);
        // Data that pacing or a queue still holds in the host postpone the probe.
        let leaves =
            !context.may_pace(step.flow) && context.facts.is_some_and(|facts| !facts.queues_in_host());
        if leaves && waited > most {
            found.add(step.of_sender(context, NAME, "a probe too late").since(step.row, since).warning(), || {
                format!(
                    "{} sent a tail loss probe {waited:#} after the last transmission and the last delivery of data; no round trip took longer \
                     than {longest:#}, so that {most:#} are the most (RFC 8985 section 7.2).", context.who(step.flow)
                )
            });
        }
    }

    /// RFC 8985 section 7.2: an ACK of new data sets the timer anew, for two SRTT and, with one segment outstanding, the delay of an ACK, but not
    /// for longer than the RTO.
    fn early(&self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let (Some(stack), Some((low, _)), Some(sent)) =
            (context.stack(step.flow), step.end.srtt.bounds(), self.sent)
        else {
            return;
        };
        let Some(acked) = self.acked.filter(|at| *at > sent) else { return };
        let for_ack = if step.end.out.len() == 1 { stack.rto.min } else { MIN_WAIT };
        let least = (low * 2 + for_ack).min(low + stack.rto.min);
        let waited = step.at().since(acked);
        let leaves = context.facts.is_some_and(|facts| !facts.queues_in_host());
        if leaves && waited + ROUNDED < least && stack.user_timeout.is_none() {
            found.add(step.of_sender(context, NAME, "a probe too early").since(step.row, acked).warning(), || {
                format!(
                    "{} sent a tail loss probe {waited:#} after an ACK of new data and has sent nothing since; its SRTT is {low:#} at least, so that the \
                     probe may come after {least:#} (RFC 8985 section 7.2).", context.who(step.flow)
                )
            });
        }
    }

    /// New data that are sent after a silence are also a probe, unless the application has just written
    /// them.
    fn new_data(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some((shortest, _)) = step.end.round_trips else { return };
        let outstanding = step.before.nxt > step.before.una;
        let written = step.at().since(self.wrote) < CALL;
        let silent = step.at().since(self.heard) >= shortest && !written;
        // A probe that an earlier end of the RTO advances, or data that pacing or a queue held back.
        let alone = step.at().since(self.heard) >= CALL && !written;
        let queued = context.facts.is_none_or(Facts::queues_in_host);
        let corked = context.stack(step.flow).is_some_and(|stack| stack.cork);
        let small = step.end.wnd < context.mss(step.flow);
        self.forced = (corked || small) && !outstanding && self.heard != step.at() && self.wrote != step.at();
        // A probe may leave at the instant of a write.
        self.unclear = outstanding && written && step.at().since(self.heard) >= shortest * 2;
        // Only a probe leaves while the window is full, also while the peer sends data.
        let full = step.before.cwnd > 0 && step.before.nxt - step.before.una >= step.before.cwnd;
        if outstanding && alone {
            let paced = context.may_pace(step.flow);
            if full && !queued && !paced {
                self.second(context, step, found);
            }
            self.probed = Some((step.at(), step.row, step.end.now.nxt));
            self.repeats = false;
            self.certain = (silent || full) && !queued && !paced;
        }
    }

    /// RFC 8985 section 7.2: with SACK, nothing SACKed, and no recovery the probe timer runs, and it fires
    /// no later than the retransmission timer.
    fn timeout(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let selective = |flow| context.stack(flow).is_some_and(|stack| stack.sack);
        let Some(stack) = context.stack(step.flow) else { return };
        let open = step.before.state == CongestionState::Open && step.end.sacked == 0 && step.end.again == 0;
        let Some(newest) = step.end.out.back() else { return };
        // Data that were sent shortly before the timeout have no probe yet.
        let waited = step.at().since(newest.last) + TICKS >= stack.rto.min;
        // Linux sends no probe for data that pacing still delays in the host.
        let paced = context.may_pace(step.flow);
        let judged =
            open && waited && !paced && stack.tlp == Tlp::On && selective(step.flow) && selective(step.peer);
        let established = step.end.open && !step.end.over && step.end.round_trips.is_some();
        if judged
            && established
            && self.probed.is_none()
            && !self.forced
            && !self.unclear
            && stack.user_timeout.is_none()
        {
            found.add(
                step.of_sender(context, NAME, "a timeout without a probe before it").since(step.row, newest.last).warning(),
                || {
                    format!(
                        "The retransmission timer of {} fired with {} bytes outstanding, in state Open and with nothing SACKed, and no \
                         tail loss probe was sent before (RFC 8985 section 7.2).", context.who(step.flow), step.end.outstanding()
                    )
                },
            );
        }
    }
}

/// The wheel of Linux's timers rounds up the end of a longer wait to a multiple of 8 or 64 ticks (`kernel/time/timer.c`, `LVL_GRAN`).
fn wheel(wait: Dur) -> Dur {
    const LEVELS: [(Dur, Dur); 2] =
        [(Dur::from_millis(500), Dur::from_millis(64)), (Dur::from_millis(60), Dur::from_millis(8))];
    LEVELS.iter().find(|(from, _)| wait >= *from).map_or(Dur::ZERO, |(_, step)| *step)
}
