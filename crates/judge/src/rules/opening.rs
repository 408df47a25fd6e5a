//! The opening of a connection: intervals and contents of SYNs (RFC 6298 section 2.1, RFC 3168 section 6.1.1, RFC 7323 sections 2.2 and 3.2).

use super::names::SEGMENT_CONTENTS as NAME;
use super::receive_window;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_tcp::{Config, EcnMode, RecvBuffer};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// Tolerance for the rounding of a computed time.
const ROUNDING: Dur = Dur::from_micros(2);

/// Number of segments of each end whose windows are compared.
const FIRST: usize = 24;

/// One end before and after its handshake.
#[derive(Clone, Debug, Default)]
pub(super) struct Opening {
    /// SYNs or SYN-ACKs that were sent, and timeouts.
    sent: u32,
    timeouts: u32,
    /// When the first one was sent.
    first: Option<Time>,
    /// The flags of the SYN that arrived without ACK.
    asked: Option<Flags>,
    /// The segment size was judged.
    sized: bool,
    /// The first segments that the peer sent: position, acknowledged position, length and window.
    coming: Vec<(u64, u64, u64, u64)>,
    /// Number of segments that have arrived.
    arrivals: usize,
}

impl Opening {
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let (Some(stack), Some(peer)) = (context.stack(step.flow), context.stack(step.peer)) else { return };
        if !context.exact() {
            return;
        }
        let event = step.event;
        let syn = event.flags.is_some() && step.flags().has(Flags::SYN);
        match event.kind {
            EventKind::TimerFire if event.timer() == Some(Timer::Handshake) => self.timeouts += 1,
            EventKind::TimerSet if event.timer() == Some(Timer::Handshake) => {
                self.waits(context, step, stack, found);
            }
            EventKind::In if syn && !step.refused && !step.flags().has(Flags::ACK) => {
                self.asked = Some(step.flags());
            }
            EventKind::In if step.is_stream() && step.end.open && self.arrivals < FIRST => {
                self.read(context, step, found);
            }
            EventKind::Out | EventKind::Retransmit if syn => {
                self.sent += 1;
                self.data(context, step, found);
                self.ecn(context, step, stack, found);
            }
            EventKind::Out | EventKind::Retransmit if step.is_stream() && step.end.open => {
                Opening::scale(context, step, stack, peer, found);
                self.size(context, step, stack, peer, found);
            }
            _ => {}
        }
    }

    /// The peer sent a segment.
    pub fn comes(&mut self, step: &Step<'_>) {
        if self.coming.len() < FIRST && step.is_sent() && step.is_stream() {
            self.coming.push(described(step));
        }
    }

    /// RFC 7323 section 2.3: the window of a segment is read as it was meant.
    fn read(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        self.arrivals += 1;
        // Later segments of the peer may be equal but for the window.
        if self.arrivals > FIRST || self.coming.len() == FIRST {
            return;
        }
        let (seq, ack, len, window) = described(step);
        let mut equal = self.coming.iter().filter(|one| (one.0, one.1, one.2) == (seq, ack, len)).peekable();
        let Some(meant) = equal.peek().map(|one| one.3) else { return };
        if equal.all(|one| one.3 != window) {
            self.arrivals = FIRST;
            found.add(step.of_sender(context, NAME, "a window that is read with another scale"), || {
                format!(
                    "{} read a window of {window} bytes from a segment whose sender announced {meant} (RFC 7323 section 2.3).",
                    context.who(step.flow)
                )
            });
        }
    }

    /// The first wait is the initial RTO; each wait is as long as the one before or twice as long, and twice as long after the repetitions at a
    /// constant interval.
    fn waits(&mut self, context: &Context<'_>, step: &Step<'_>, stack: &Config, found: &mut Findings) {
        let Some(due) = step.event.value.map(Time::from_nanos) else { return };
        let wait = due.since(step.at());
        let (rto, passive) = (&stack.rto, self.asked.is_some());
        // No wait lasts longer than the user timeout, which counts from the first SYN.
        let first = *self.first.get_or_insert(step.at());
        let limited = stack.connect_timeout.is_some()
            || stack.user_timeout.is_some_and(|patience| step.at() + rto.initial * 16 > first + patience);
        let linear = if passive { stack.synack_linear } else { stack.syn_linear };
        let doubled =
            rto.initial.saturating_mul(1 << self.timeouts.saturating_sub(linear).min(16)).min(rto.max);
        let least = if self.timeouts <= linear { rto.initial.min(rto.max) } else { doubled };
        let latest = stack.timer_ticks.expiry(step.at(), doubled.max(least) + rto.slop) + ROUNDING;
        if !limited && (wait + ROUNDING < least || due > latest) {
            found.add(step.of_sender(context, NAME, "a SYN waits for another time than the back-off says"), || {
                format!(
                    "After {} timeouts of its SYN {} waits {wait} for an answer; the initial RTO is {} and doubles with each timeout (RFC 6298 \
                     sections 2.1 and 5.5).", self.timeouts, context.who(step.flow), rto.initial
                )
            });
        }
    }

    /// RFC 7413 section 4.1.3: a SYN that is sent again has neither cookie nor data.
    fn data(&self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if self.sent > 1 && step.len() > 0 && !step.flags().has(Flags::ACK) {
            found.add(step.of_sender(context, NAME, "a SYN that is sent again has data"), || {
                format!(
                    "{} sent its SYN number {} with {} bytes of data (RFC 7413 section 4.1.3).",
                    context.who(step.flow),
                    self.sent,
                    step.len()
                )
            });
        }
    }

    /// RFC 3168 sections 6.1.1 and 6.1.1.1.
    fn ecn(&mut self, context: &Context<'_>, step: &Step<'_>, stack: &Config, found: &mut Findings) {
        if stack.ecn == EcnMode::Accurate {
            self.accurate(context, step, stack, found);
            return;
        }
        let (ece, cwr) = (step.flags().has(Flags::ECE), step.flags().has(Flags::CWR));
        let wrong = if step.flags().has(Flags::ACK) {
            let asks = self.asked.is_some_and(|asked| asked.has(Flags::ECE) && asked.has(Flags::CWR));
            cwr || (ece && (!asks || stack.ecn == EcnMode::Off))
                || (asks && stack.ecn != EcnMode::Off && !ece && self.timeouts == 0)
        } else {
            let offers = stack.ecn != EcnMode::Off && (self.timeouts == 0 || self.sent <= stack.ecn_syns);
            let allowed = stack.ecn != EcnMode::Off && self.sent <= stack.ecn_syns.max(1);
            // Repetitions for another reason than a timeout count as well.
            (offers && self.sent == 1 && !ece) || (!allowed && self.timeouts > 0 && ece) || ece != cwr
        };
        if wrong {
            found.add(step.of_sender(context, NAME, "a SYN with other ECN flags than RFC 3168 says"), || {
                format!(
                    "{} sent its SYN number {} (timeouts: {}) with ECE {} and CWR {} (RFC 3168 sections 6.1.1 and 6.1.1.1).",
                    context.who(step.flow), self.sent, self.timeouts,
                    if ece { "set" } else { "clear" }, if cwr { "set" } else { "clear" }
                )
            });
        }
    }

    /// RFC 9768 section 3.1.4.1: accurate ECN is offered by the second SYN, too, and then by as many as the stack offers ECN with.
    fn accurate(&mut self, context: &Context<'_>, step: &Step<'_>, stack: &Config, found: &mut Findings) {
        let flags = step.flags();
        if flags.has(Flags::ACK) || self.asked.is_some() {
            return;
        }
        let offers = self.sent <= stack.ecn_syns.max(2);
        let all = flags.has(Flags::AE | Flags::CWR | Flags::ECE);
        let none = !flags.any(Flags::AE | Flags::CWR | Flags::ECE);
        let wrong = if offers { !all } else { !none && self.timeouts > 0 };
        if wrong {
            found.add(step.of_sender(context, NAME, "a SYN with other ECN flags than RFC 9768 says"), || {
                format!(
                    "{} sent its SYN number {} (timeouts: {}) {} (RFC 9768 section 3.1.4.1).",
                    context.who(step.flow),
                    self.sent,
                    self.timeouts,
                    if offers { "without an offer of accurate ECN" } else { "with ECN flags" }
                )
            });
        }
    }

    /// RFC 7323 section 2.2: the window field counts units of the scale that the receiver offered.
    fn scale(context: &Context<'_>, step: &Step<'_>, stack: &Config, peer: &Config, found: &mut Findings) {
        let Some(window) = step.event.window.map(tcpassay_units::Bytes::get) else { return };
        let both = stack.window_scale && peer.window_scale;
        let most = match stack.recv_buffer {
            RecvBuffer::Fixed(size) => size.get(),
            RecvBuffer::Auto { max, .. } => max.get(),
        };
        if !both && window > 0xffff {
            found.add(step.of_receiver(context, NAME, "a window that needs a scale"), || {
                format!("{} announced a window of {window} bytes, and not both ends scale windows (RFC 7323 section 2.2).", context.who(step.flow))
            });
        }
        let shift = receive_window::scale(most);
        if both
            && stack.recv_memory.is_none()
            && !stack.bsd_window
            && !stack.plain_syns
            && window % (1 << shift) != 0
        {
            found.add(step.of_receiver(context, NAME, "a window that its scale cannot express"), || {
                format!(
                    "{} announced a window of {window} bytes; both ends scale windows, and the scale for its buffer of {most} bytes is {shift} (RFC \
                     7323 section 2.2).", context.who(step.flow)
                )
            });
        }
    }

    /// RFC 9293 section 3.7.1: the smaller of the two MSS options, less the options of each segment.
    fn size(
        &mut self,
        context: &Context<'_>,
        step: &Step<'_>,
        stack: &Config,
        peer: &Config,
        found: &mut Findings,
    ) {
        let known = stack.path_mss.is_none() && peer.path_mss.is_none() && stack.mtu_probing.is_none();
        let plain = !stack.plain_syns && !peer.plain_syns && stack.ecn != EcnMode::Accurate;
        if std::mem::replace(&mut self.sized, true) || !known || !plain {
            return;
        }
        let options = if stack.timestamps && peer.timestamps { 12 } else { 0 };
        let expected = stack.mss.get().min(peer.mss.get()).saturating_sub(options);
        let mss = context.mss(step.flow);
        // Linux limits a segment to half of the largest window of the peer (`tcp_bound_to_half_wnd`).
        let roomy = step.end.now.edge > 2 * expected + 1;
        if mss > expected || roomy && mss < expected && mss > 0 {
            found.add(step.of_sender(context, NAME, "an MSS that the handshake did not agree on"), || {
                format!(
                    "A full segment of {} has {mss} bytes; by the MSS options of both ends and the options of its segments it has {expected} (RFC \
                     9293 section 3.7.1).", context.who(step.flow)
                )
            });
        }
    }
}

/// Position, acknowledged position, length and window of a segment.
fn described(step: &Step<'_>) -> (u64, u64, u64, u64) {
    let window = step.event.window.map_or(0, tcpassay_units::Bytes::get);
    (step.seq(), step.event.ack.unwrap_or(0), step.len(), window)
}
