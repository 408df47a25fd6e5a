//! Bounds of the number of quick ACKs that Linux has left, from what its receiver got and sent.
//!
//! Linux acknowledges the first segments of a connection at once, because the sender is in slow start (`tcp_event_data_recv`,
//! `TCP_MAX_QUICKACKS`), and again after a pause longer than its RTO. Each ACK of new data takes one of these quick ACKs
//! (`tcp_dec_quickack_mode`). A host that answers data within the ATO is interactive and delays its ACKs (`tcp_event_data_sent`).

use crate::facts::Facts;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_units::{Dur, Time};

/// `TCP_MAX_QUICKACKS`.
const MOST: u64 = 16;
/// Number of quick ACKs that a mark permits (`__tcp_ecn_check_ce`).
const AFTER_MARK: u32 = 2;
/// `TCP_ATO_MIN`, and half of it.
const ATO: Dur = Dur::from_millis(40);
const HALF: Dur = Dur::from_millis(20);
/// Difference of a delay from its value by the tick of the clock.
const TICKS: Dur = Dur::from_millis(2);
/// Time after which an ACK was sent by the timer of delayed ACKs.
const DELAYED: Dur = Dur::from_millis(35);
/// Time within which an ACK without a delay leaves.
const INSTANT: Dur = Dur::from_micros(50);
/// A pause after which Linux may send ACKs at once again: the shortest RTO that plans set.
const PAUSE: Dur = Dur::from_millis(20);
/// The RTO before a round-trip time was measured (RFC 6298 section 2.1).
const INITIAL_RTO: Dur = Dur::from_secs(1);

/// What is known of the delayed ACKs of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct QuickackMode {
    /// The number of quick ACKs that are left at least, and at most (`None`: unknown).
    least: u32,
    most: Option<u32>,
    /// True if the host may be interactive.
    interactive: bool,
    /// The largest value that the ATO may have; zero before the first data.
    ato: Dur,
    /// Time of the last data in order.
    arrived: Option<Time>,
    /// Time of the first data since the last ACK.
    waits: Option<Time>,
    /// True after a retransmission timeout of this end, after which its RTO is not known.
    backed_off: bool,
}

impl QuickackMode {
    /// Processes a row of an end. `demands`: a mark arrived and no CWR since.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, demands: bool) {
        if step.is_timer(EventKind::TimerFire, Timer::Rto) {
            self.backed_off = true;
        } else if step.is_sent() && step.is_stream() {
            self.sent(context, step);
        } else if step.event.kind == EventKind::In && step.len() > 0 {
            self.arrival(context, step, demands);
        }
    }

    /// Whether the data that arrived in this row must be acknowledged at once.
    pub fn due(&self, context: &Context<'_>, step: &Step<'_>) -> bool {
        // Own data in a queue of the host delay its ACKs.
        let free = context.facts.is_some_and(|facts| !facts.queues_in_host()) || step.end.now.nxt == 1;
        // A slow reader leaves no room for what arrives, which is then dropped.
        let room = context.reads_at_once();
        self.least > 0 && !self.interactive && free && room && !context.echoes_marks(step.flow)
    }

    /// Takes a quick ACK. Returns how many were left at most before.
    pub fn take(&mut self) -> Option<u32> {
        let before = self.most;
        self.most = before.map(|left| left.saturating_sub(1));
        before
    }

    fn arrival(&mut self, context: &Context<'_>, step: &Step<'_>, demands: bool) {
        let at = step.at();
        let advances = !step.refused && step.end.now.frontier > step.before.frontier;
        let plain = step.seq() == step.before.frontier
            && step.end.now.frontier == step.seq_end()
            && step.end.above.is_empty();
        // An ACK that was delayed shows that there was no quick ACK, unless the host is interactive.
        if self.waits.is_some_and(|since| at.since(since) > INSTANT) && !self.interactive {
            self.most = Some(0);
        }
        self.waits.get_or_insert(at);
        if advances {
            self.receives(context, step);
        }
        // Data out of order and duplicates give new quick ACKs (`tcp_enter_quickack_mode`).
        if !(advances && plain) {
            self.most = None;
        }
        // A mark ends the interactive mode.
        if step.event.ce && !demands && advances {
            self.interactive = false;
            self.most = self.most.map(|left| left.max(AFTER_MARK));
        }
    }

    /// `tcp_event_data_recv`: data in order, also while others are missing.
    fn receives(&mut self, context: &Context<'_>, step: &Step<'_>) {
        let mss = context.mss(step.peer).max(1);
        let window = step.before.offered.saturating_sub(step.before.frontier);
        let granted = u32::try_from((window / (2 * mss)).min(MOST)).expect("at most 16");
        let Some(last) = self.arrived.replace(step.at()) else {
            // The first one may be used for the ACK of the handshake.
            self.least = granted.saturating_sub(1);
            self.ato = ATO;
            return;
        };
        let pause = step.at().since(last);
        if pause <= HALF {
            self.ato = self.ato / 2 + HALF;
        } else if pause < self.ato + TICKS {
            self.ato = self.ato / 2 + pause + TICKS;
        } else if !self.backed_off && longest_rto(context, step).is_some_and(|rto| pause > rto) {
            self.least = self.least.max(granted);
        }
        if pause >= PAUSE {
            self.most = None;
        }
    }

    fn sent(&mut self, context: &Context<'_>, step: &Step<'_>) {
        let at = step.at();
        let waits = self.waits.take();
        // Several arrivals may be logged before the ACK of the first one.
        let advances = step.event.ack.unwrap_or(0) > step.before.acked_out;
        if waits.is_some() || advances || step.len() == 0 {
            self.least = self.least.saturating_sub(1);
        }
        if waits.is_some_and(|since| at.since(since) >= DELAYED) {
            self.ato = self.ato * 2;
            // The timer of delayed ACKs ends the interactive mode (`tcp_delack_timer_handler`).
            let by_timer = step.len() == 0 && self.arrived.is_some_and(|last| at.since(last) > INSTANT);
            self.interactive &= !(by_timer && context.reads_at_once());
        }
        if step.len() > 0 {
            // Data may have been written long before they leave a queue of the host.
            let queued = context.facts.is_none_or(Facts::queues_in_host) || context.may_pace(step.flow);
            let answers = self.arrived.is_some_and(|last| queued || at.since(last) < self.ato + TICKS);
            self.interactive |= answers;
        }
    }
}

/// The longest RTO that this end may have; `None` if its handshake is not in the log.
fn longest_rto(context: &Context<'_>, step: &Step<'_>) -> Option<Dur> {
    let least = context.stack(step.flow)?.rto.min;
    let handshake = step.end.handshake;
    let plain = handshake + least.max(handshake * 2);
    (handshake > Dur::ZERO).then(|| step.end.most_rto(least).max(plain).max(INITIAL_RTO) + TICKS)
}
