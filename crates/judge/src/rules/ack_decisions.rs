//! The decisions of a receiver of the model against what has arrived: when an ACK is due, why, and for how long it is delayed.

use super::names::ACK_TIMING as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{AckReason, Timer};
use tcpassay_tcp::{AckCheck, Config, EcnMode, StackFlavor};
use tcpassay_units::{Dur, Time};

/// Tolerance for the rounding of a computed time.
const ROUNDING: Dur = Dur::from_micros(2);
/// Bytes of options that a full segment may lack.
const OPTIONS: u64 = 40;

/// What one receiver has decided.
#[derive(Clone, Debug, Default)]
pub(super) struct Decisions {
    /// The time until which the ACK is delayed, from the first decision since the last ACK.
    delayed: Option<Time>,
    /// When the timer of the delayed ACK fired.
    fired: Option<Time>,
    /// Time and row of the arrival that completed the number of segments that must be acknowledged at once.
    full: Option<(Time, usize)>,
    /// When a segment arrived that the receiver did not accept, or that it accepted in another way than in order.
    odd: Option<Time>,
    /// The length of the last segment with data.
    newest: u64,
}

impl Decisions {
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some(stack) = context.stack(step.flow).filter(|_| context.exact()) else { return };
        if !step.end.open || step.end.over || step.end.fin_in.is_some() || step.end.fin_out.is_some() {
            *self = Decisions::default();
            return;
        }
        self.overdue(context, step, found);
        if step.is_timer(EventKind::TimerFire, Timer::DelayedAck) {
            self.fired = Some(step.at());
        }
        match step.event.kind {
            EventKind::In => self.arrived(context, step, stack),
            EventKind::Out | EventKind::Retransmit if step.is_stream() => {
                (self.delayed, self.full) = (None, None);
            }
            EventKind::AckNow => self.at_once(context, step, stack, found),
            EventKind::AckDelay => self.delay(context, step, stack, found),
            _ => {}
        }
        step.deadline(self.full.map(|(since, _)| since), Dur::ZERO);
    }

    fn arrived(&mut self, context: &Context<'_>, step: &Step<'_>, stack: &Config) {
        if step.len() > 0 {
            self.newest = step.len();
        }
        let in_order = step.is_arrival() && step.end.repeated.is_none() && step.end.above.is_empty();
        if !in_order
            || step.len() == 0
            || step.seq() != step.before.frontier
            || step.end.now.frontier > step.seq_end()
        {
            self.odd = Some(step.at());
            return;
        }
        // Linux asks whether an ACK would announce more than the last one, and counts by its estimate of the peer's segments.
        let plain =
            !stack.delayed_ack.adaptive && stack.ack_check == AckCheck::Always && stack.ecn != EcnMode::Dctcp;
        let enough = u64::from(stack.delayed_ack.every.max(1)) * context.mss(step.peer);
        let waits = step.end.now.frontier.saturating_sub(step.end.now.acked_out);
        if plain && waits >= enough && !stack.count_small_segments {
            self.full.get_or_insert((step.at(), step.row));
        }
    }

    /// RFC 5681 section 4.2, RFC 9293 section 3.8.6.3.
    fn overdue(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some((since, row)) = self.full.filter(|(since, _)| step.at() > *since) else { return };
        self.full = None;
        found.add(step.of_receiver(context, NAME, "the ACK of full segments is not sent at once").since(row, since), || {
            format!(
                "At {since} the number of full segments after which {} acknowledges had arrived, and it sent no ACK (RFC 5681 section 4.2).",
                context.who(step.flow)
            )
        });
    }

    /// The reason of an immediate ACK is one that the arrivals show.
    fn at_once(&mut self, context: &Context<'_>, step: &Step<'_>, stack: &Config, found: &mut Findings) {
        let Ok(reason) = step.event.why.parse::<AckReason>() else { return };
        let end = step.end;
        let waits = end.now.frontier.saturating_sub(end.now.acked_out);
        let enough = u64::from(stack.delayed_ack.every.max(1))
            * self.newest.min(context.mss(step.peer).saturating_sub(OPTIONS));
        let explained = match reason {
            // Linux counts by its estimate of the peer's segments, FreeBSD segments of any size.
            AckReason::EveryN => {
                waits >= enough
                    || stack.delayed_ack.every <= 1
                    || stack.flavor != StackFlavor::Rfc
                    || stack.count_small_segments
                    || stack.delayed_ack.adaptive
            }
            AckReason::Quick => {
                stack.delayed_ack.quick_ack > 0
                    || stack.quickack
                    || stack.delayed_ack.every == 1
                    || stack.ecn != EcnMode::Off
            }
            AckReason::OutOfOrder => {
                !end.above.is_empty() || self.odd == Some(step.at()) || stack.ack_compression.is_some()
            }
            AckReason::CeChange => stack.ecn != EcnMode::Off,
            AckReason::Timer => self.fired == Some(step.at()) || stack.delayed_ack.adaptive,
            AckReason::WindowUpdate => end.read > 0,
            AckReason::Fin => end.fin_in.is_some(),
            AckReason::Piggyback | AckReason::Answer | AckReason::Delay => true,
        };
        if !explained {
            found.add(step.of_receiver(context, NAME, "an ACK at once without its reason"), || {
                format!(
                    "{} acknowledged at once ({reason}) with {waits} bytes unacknowledged, of which {enough} would be enough; the arrivals do not \
                     show this reason (RFC 5681 section 4.2).", context.who(step.flow)
                )
            });
        }
    }

    /// The delay is the configured one, and Linux's adaptive one is at most that.
    fn delay(&mut self, context: &Context<'_>, step: &Step<'_>, stack: &Config, found: &mut Findings) {
        let Some(until) = step.event.value.map(Time::from_nanos) else { return };
        if self.delayed.replace(until).is_some() {
            return;
        }
        let most = stack.delayed_ack.timeout;
        let latest = stack.timer_ticks.expiry(step.at(), most) + ROUNDING;
        let early = !stack.delayed_ack.adaptive && until + ROUNDING < step.at() + most;
        if until > latest || early {
            found.add(step.of_receiver(context, NAME, "a delayed ACK with another delay"), || {
                format!(
                    "{} delays an ACK by {}; its delay is {most} (RFC 9293 section 3.8.6.3).",
                    context.who(step.flow),
                    until.since(step.at())
                )
            });
        }
    }
}
