//! The replay of one receiver after its handshake.

use super::acks::{Acks, Allowed, Asked, Delay};
use super::rtt::Rtt;
use super::space::Space;
use super::stamps::Stamp;
use super::stream::Stream;
use super::window::Place;
use crate::finding::Findings;
use crate::rules::names::RECEIVER as NAME;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{AckReason, AppCall, StateChange, TcpState, Timer};
use tcpassay_tcp::{Config, EcnMode, StackFlavor};
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

/// Largest value of the window field.
const MOST: u64 = 0xffff;

/// What both ends agreed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreed {
    pub passive: bool,
    /// Payload of the peer's full segments.
    pub full: u64,
    pub sack: bool,
    pub ecn: EcnMode,
    /// Bytes of a unit of the window field.
    pub unit: u64,
    /// The first window.
    pub first: u64,
}

/// A segment that arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub row: usize,
    pub at: Time,
    pub start: u64,
    pub end: u64,
    pub flags: Flags,
    pub ce: bool,
    pub stamp: Stamp,
    /// Why it was refused.
    pub refused: Option<Refusal>,
}

/// Why a segment was not accepted, as far as its answer depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    Window,
    Paws,
    /// It may be challenged (RFC 5961).
    Challenged,
    /// It is never answered.
    Silent,
}

impl Arrival {
    pub fn of(step: &Step<'_>, stamp: Stamp) -> Arrival {
        Arrival {
            row: step.row,
            at: step.at(),
            start: step.seq(),
            end: step.seq_end(),
            flags: step.flags(),
            ce: step.event.ce,
            stamp,
            refused: None,
        }
    }

    fn fin(&self) -> bool {
        self.flags.has(Flags::FIN)
    }

    fn is_bare(&self) -> bool {
        self.start == self.end && !self.flags.any(Flags::FIN | Flags::SYN)
    }
}

/// What leaves next without data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pending {
    Ack,
    /// The ACK of what arrived before a change of CE.
    Old,
}

/// One receiver after its handshake.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug)]
pub(super) struct End {
    acks: Acks,
    /// Decisions are compared.
    judged: bool,
    space: Space,
    rtt: Rtt,
    stream: Stream,
    agreed: Agreed,
    linux: bool,
    dsack: bool,
    /// RCV.NXT when the last ACK left, and the right edge announced.
    acked: u64,
    edge: u64,
    arrival: Option<Arrival>,
    /// The buffer before the last arrival, if ACKs were left out and it changes a third SACK block: Linux sends the ACK for these
    /// before it (`tcp_sack_compress_send_ack`).
    earlier: Option<(Space, Place)>,
    /// The last arrival is the ACK that ended the handshake.
    opening: bool,
    /// Row and time of the last arrival, for evidence.
    since: (usize, Time),
    pending: Option<Pending>,
    piggyback: bool,
    keepalive: bool,
    /// The last row was a call of the application.
    reading: bool,
    /// A duplicate waits to be reported.
    repeats: bool,
    /// ECE is set (classic); the last mark (DCTCP), if known.
    latched: bool,
    marked: Option<bool>,
    capable: bool,
    nxt_at_mark: u64,
    owes_old: bool,
    srtt: Option<Dur>,
    rto: Option<Dur>,
    closing: bool,
    /// The peer's FIN is in order: the replay ends with the ACK of it.
    ends: bool,
}

impl End {
    pub fn new(stack: &Config, agreed: &Agreed, space: Space, last: Arrival) -> End {
        let mut acks = Acks::new(stack, agreed.full, agreed.sack);
        if !agreed.passive {
            acks.demand(AckReason::Answer);
        }
        End {
            acks,
            judged: agreed.ecn != EcnMode::Accurate,
            space,
            rtt: Rtt::new(stack),
            stream: Stream::new(),
            agreed: *agreed,
            linux: stack.flavor == StackFlavor::Linux,
            dsack: stack.dsack && agreed.sack,
            acked: 1,
            edge: 1 + agreed.first,
            arrival: Some(last),
            earlier: None,
            opening: agreed.passive,
            since: (last.row, last.at),
            pending: None,
            piggyback: false,
            keepalive: false,
            reading: false,
            repeats: false,
            latched: false,
            marked: Some(false),
            capable: false,
            nxt_at_mark: 1,
            owes_old: false,
            srtt: None,
            rto: None,
            closing: false,
            ends: false,
        }
    }

    /// Whether the echoes of arriving segments are used.
    pub fn wants_stamps(&self) -> bool {
        self.space.grows()
    }

    fn place(&self) -> Place {
        Place {
            nxt: self.stream.nxt,
            acked: self.acked,
            edge: self.edge,
            read: self.stream.read,
            rcv_mss: self.acks.rcv_mss,
        }
    }

    fn announced(&self) -> u64 {
        self.edge.saturating_sub(self.acked)
    }

    fn unacked(&self) -> u64 {
        self.stream.nxt - self.acked.min(self.stream.nxt)
    }

    /// Processes a row. Returns whether the replay is over.
    pub fn on(
        &mut self,
        context: &Context<'_>,
        step: &Step<'_>,
        stamp: Stamp,
        stack: &Config,
        found: &mut Findings,
    ) -> bool {
        let event = step.event;
        match event.kind {
            EventKind::Rtt => {
                self.srtt = event.srtt.or(self.srtt);
                self.rto = event.rto.or(self.rto);
                return false;
            }
            EventKind::Refused => {
                if let Some(arrival) = &mut self.arrival {
                    arrival.refused = Some(match event.why.as_ref() {
                        "out of window" => Refusal::Window,
                        "paws" => Refusal::Paws,
                        "no timestamp" | "no ack" | "after the FIN" => Refusal::Silent,
                        _ => Refusal::Challenged,
                    });
                }
                return false;
            }
            EventKind::State => return self.moves(step),
            EventKind::In
            | EventKind::TimerFire
            | EventKind::App
            | EventKind::AckNow
            | EventKind::AckDelay
            | EventKind::AckForget
            | EventKind::Out
            | EventKind::Retransmit => {}
            // Rows that come between an arrival and what it causes.
            _ => return false,
        }
        self.process(stack);
        self.reading &= event.kind == EventKind::App;
        if self.overdue(context, step, found) {
            return true;
        }
        match event.kind {
            EventKind::In => {
                self.settles(context, step, found);
                let arrival = Arrival::of(step, stamp);
                self.since = (step.row, step.at());
                self.arrival = Some(arrival);
                false
            }
            EventKind::TimerFire => {
                self.fires(context, step, found);
                false
            }
            EventKind::App => {
                // An application may read several times before the stack looks whether an ACK is due.
                if !std::mem::replace(&mut self.reading, true) {
                    self.settles(context, step, found);
                }
                if event.app_call() == Some(AppCall::Read) {
                    return self.reads(step.at(), event.value.unwrap_or(0));
                }
                false
            }
            EventKind::AckNow => {
                self.now(context, step, found);
                false
            }
            EventKind::AckDelay => {
                self.delays(context, step, found);
                false
            }
            EventKind::AckForget => {
                self.judged = false;
                false
            }
            EventKind::Out | EventKind::Retransmit => self.sends(context, step, stack, found),
            _ => false,
        }
    }

    fn moves(&mut self, step: &Step<'_>) -> bool {
        match step.event.state_change() {
            Some(StateChange::Moved { to: Some(to), .. }) => {
                self.closing |= matches!(to, TcpState::FinWait1 | TcpState::FinWait2);
                matches!(to, TcpState::Closed | TcpState::TimeWait)
            }
            _ => true,
        }
    }

    fn finding(
        &self,
        context: &Context<'_>,
        step: &Step<'_>,
        found: &mut Findings,
        title: &'static str,
        text: impl FnOnce() -> String,
    ) {
        let (row, since) = self.since;
        found.add(step.of_receiver(context, NAME, title).since(row, since), text);
    }

    /// The delayed-ACK timer fires when it is due.
    fn overdue(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) -> bool {
        let left_out = self.acks.left_out_until().filter(|_| self.judged);
        let due = self.acks.timer.filter(|_| self.judged).into_iter().chain(left_out).min();
        let Some(due) = due.filter(|due| *due < step.at()) else { return false };
        self.finding(context, step, found, "the timer of an ACK does not fire when it is due", || {
            format!(
                "{} waits with an ACK until {due}, and nothing happened then (RFC 9293 section 3.8.6.3, Linux `tcp_delack_timer_handler`).",
                context.who(step.flow)
            )
        });
        true
    }

    /// What an ACK depends on.
    fn asked(&mut self, at: Time) -> Asked {
        let place = self.place();
        if self.unacked() > self.acks.rcv_mss
            && let Space::Memory(memory) = &self.space
            && memory.offer(&place).tight
        {
            self.acks.stop_quick();
        }
        Asked {
            at,
            unacked: self.unacked(),
            nxt: self.stream.nxt,
            gaps: !self.stream.above.is_empty(),
            crowded: self.stream.crowded,
            kept: self.space.keeps(&place),
            srtt: self.srtt,
        }
    }

    fn is_undecided(&self) -> bool {
        self.acks.undecided || self.acks.due.is_some() || !self.acks.maybe.is_empty()
    }

    /// An ACK about which nothing was decided before the next event.
    fn settles(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if !self.is_undecided() {
            return;
        }
        let asked = self.asked(self.since.1);
        let allowed = self.acks.decide(&asked);
        if self.judged && !allowed.nothing {
            self.judged = false;
            self.finding(context, step, found, "a decision about an ACK is missing", || {
                format!(
                    "{} has {} bytes that are not acknowledged and neither sent nor delayed an ACK: expected is {} (RFC 5681 section 4.2).",
                    context.who(step.flow), asked.unacked, told(&allowed)
                )
            });
        }
        self.acks.leaves_out(&asked);
    }

    fn now(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Ok(why) = step.event.why.parse::<AckReason>() else { return };
        if why == AckReason::Piggyback {
            self.piggyback = true;
            return;
        }
        if why == AckReason::CeChange && std::mem::take(&mut self.owes_old) {
            self.pending = Some(Pending::Old);
            return;
        }
        self.pending = Some(Pending::Ack);
        let asked = self.asked(step.at());
        let allowed = self.acks.decide(&asked);
        let of_earlier = why == AckReason::OutOfOrder && self.earlier.is_some();
        if self.judged && !of_earlier && !allowed.now.contains(&why) {
            self.judged = false;
            self.finding(context, step, found, "an ACK at once that is not due", || {
                format!(
                    "{} acknowledges at once ({why}), with {} bytes that are not acknowledged; expected is {} (RFC 5681 section 4.2, Linux \
                     `__tcp_ack_snd_check`)", context.who(step.flow), asked.unacked, told(&allowed)
                )
            });
        }
        self.acks.sends(why, &asked);
    }

    fn delays(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some(until) = step.event.value.map(Time::from_nanos) else { return };
        let asked = self.asked(step.at());
        let allowed = self.acks.decide(&asked);
        if self.judged {
            let title = match allowed.delay {
                Delay::No => Some("an ACK that is due at once is delayed"),
                Delay::Until(expected) if expected != until => Some("an ACK is delayed until another time"),
                _ => None,
            };
            if let Some(title) = title {
                self.judged = false;
                self.finding(context, step, found, title, || {
                    format!(
                        "{} delays an ACK until {until}, with {} bytes that are not acknowledged; expected is {} (RFC 9293 section 3.8.6.3, Linux \
                         `tcp_send_delayed_ack`).", context.who(step.flow), asked.unacked, told(&allowed)
                    )
                });
            }
        }
        self.acks.delayed(until, &allowed);
    }

    fn fires(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        match step.event.timer() {
            Some(Timer::DelayedAck) => {
                self.settles(context, step, found);
                self.since = (step.row, step.at());
                let due = self.acks.timer == Some(step.at());
                let left_out = self.acks.left_out > 0;
                if left_out && due {
                    self.judged = false;
                } else if left_out {
                    self.acks.fires_for_left_out();
                } else {
                    if self.judged && !due {
                        self.judged = false;
                        self.finding(
                            context,
                            step,
                            found,
                            "the timer of an ACK fires when it is not due",
                            || {
                                format!(
                                    "{} has no ACK that waits until {} (RFC 9293 section 3.8.6.3).",
                                    context.who(step.flow),
                                    step.at()
                                )
                            },
                        );
                    }
                    self.acks.fires(self.rto);
                }
            }
            Some(Timer::Rto) => self.rto = None,
            Some(Timer::Keepalive) => self.keepalive = true,
            _ => {}
        }
    }

    /// The application read `bytes`.
    fn reads(&mut self, at: Time, bytes: u64) -> bool {
        let readable = self.stream.readable();
        if bytes > readable {
            return true;
        }
        self.stream.read += bytes;
        self.space.read(at, self.stream.read, self.rtt.value());
        self.acks.read(self.unacked(), bytes == readable);
        if !self.stream.is_finished() {
            match self.space.updates(&self.place(), self.linux) {
                Some(true) => self.acks.demand(AckReason::WindowUpdate),
                Some(false) => {}
                None => self.acks.may_demand(AckReason::WindowUpdate),
            }
        }
        false
    }

    /// A segment leaves. Returns whether the replay is over.
    fn sends(
        &mut self,
        context: &Context<'_>,
        step: &Step<'_>,
        stack: &Config,
        found: &mut Findings,
    ) -> bool {
        if !step.is_stream() {
            return step.flags().has(Flags::RST);
        }
        let pending = self.pending.take();
        let piggyback = std::mem::take(&mut self.piggyback);
        let keepalive = std::mem::take(&mut self.keepalive);
        if pending == Some(Pending::Old) {
            self.old_ack(context, step, found);
            return false;
        }
        let ack = step.event.ack.unwrap_or(0);
        if ack != self.stream.nxt {
            let nxt = self.stream.nxt;
            self.finding(context, step, found, "an ACK field that is not the next position", || {
                format!(
                    "{} acknowledges position {ack}; what has arrived in order ends before {nxt} (RFC 9293 section 3.10.7.4).",
                    context.who(step.flow)
                )
            });
            return true;
        }
        self.announces(context, step, found);
        let data = step.len() > 0 || step.flags().has(Flags::FIN);
        let acknowledges = match pending {
            Some(Pending::Ack) => true,
            _ if !data => keepalive && self.linux,
            _ if self.acks.waits => piggyback,
            _ => self.carries(step, context),
        };
        if !acknowledges {
            return false;
        }
        self.acked = self.stream.nxt;
        self.repeats = false;
        let pure = pending.is_some() || !data;
        self.acks.sent(if pure { (1, 1) } else { packets(context, step, stack) });
        if step.len() > 0 {
            let whole = step.event.kind == EventKind::Out
                && step.len() == context.mss(step.flow)
                && step.before.nxt > step.before.una;
            self.acks.replied(step.at(), !whole || !step.sacks.is_empty());
        }
        self.ends
    }

    /// Whether data acknowledge what has arrived: all SACK blocks must fit into the segment.
    fn carries(&self, step: &Step<'_>, context: &Context<'_>) -> bool {
        if self.stream.above.is_empty() && !self.repeats {
            true
        } else if self.agreed.sack {
            !step.sacks.is_empty()
        } else {
            step.len() + 36 <= context.mss(step.flow)
        }
    }

    /// The window of a segment.
    fn announces(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let window = step.event.window.map_or(0, Bytes::get);
        let place = self.place();
        let earlier = self.earlier.take().and_then(|(space, place)| space.offer(&place));
        let Some(offer) = self.space.offer(&place) else {
            self.edge = self.edge.max(place.nxt + window);
            self.acks.may_stop_quick();
            return;
        };
        let offer = earlier.filter(|earlier| earlier.bytes == window).unwrap_or(offer);
        if offer.bytes != window {
            self.space = Space::Unknown;
            self.edge = self.edge.max(place.nxt + window);
            self.finding(context, step, found, "a window that is not that of the buffer", || {
                format!(
                    "{} announces {window} bytes from position {}; its buffer gives {}: the right edge was {}, and the application has read up to {} \
                     (RFC 9293 section 3.8.6.2.2, Linux `__tcp_select_window`).",
                    context.who(step.flow), place.nxt, offer.bytes, place.edge, place.read
                )
            });
            return;
        }
        self.edge = offer.edge;
        if offer.tight {
            self.acks.stop_quick();
        }
    }

    /// The ACK of the data before a change of CE (RFC 8257 section 3.2).
    fn old_ack(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if matches!(self.space, Space::Memory(_)) {
            // From RCV.NXT, whatever the ACK field says (`tcp_select_window`).
            return self.announces(context, step, found);
        }
        let (ack, window) = (step.event.ack.unwrap_or(0), step.event.window.map_or(0, Bytes::get));
        let unit = self.agreed.unit;
        let expected = self.edge.saturating_sub(ack).div_ceil(unit).min(MOST) * unit;
        if window != expected && self.space.is_known() {
            self.finding(context, step, found, "a window that is not that of the buffer", || {
                format!(
                    "{} announces {window} bytes from position {ack}; the right edge in force gives {expected} (RFC 9293 section 3.8.6).",
                    context.who(step.flow)
                )
            });
        }
    }
}

/// The number of packets of a segment, at least and at most.
fn packets(context: &Context<'_>, step: &Step<'_>, stack: &Config) -> (u32, u32) {
    let mss = context.mss(step.flow).max(1);
    let of = |mss: u64| u32::try_from(step.len().div_ceil(mss.max(1)).max(1)).unwrap_or(u32::MAX);
    let steady = step.sacks.is_empty() && stack.mtu_probing.is_none() && stack.path_mss.is_none();
    if steady { (of(mss), of(mss)) } else { (1, of(mss.saturating_sub(40).min(500))) }
}

/// What was expected, in words.
fn told(allowed: &Allowed) -> String {
    let mut words: Vec<String> = allowed.now.iter().map(|why| format!("an ACK at once ({why})")).collect();
    match allowed.delay {
        Delay::Until(until) => words.push(format!("a delay until {until}")),
        Delay::Unknown => words.push("a delay".to_owned()),
        Delay::No => {}
    }
    if allowed.nothing {
        words.push("none".to_owned());
    }
    words.join(" or ")
}

mod arriving;
