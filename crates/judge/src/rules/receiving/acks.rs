//! When a receiver of the model acknowledges: RFC 9293 section 3.8.6.3 and RFC 5681 section 4.2, or Linux's quick ACKs and adaptive delay
//! (`tcp_event_data_recv`, `tcp_measure_rcv_mss`, `__tcp_ack_snd_check`, `tcp_send_delayed_ack`, `tcp_delack_timer_handler`,
//! `tcp_event_ack_sent`, `tcp_cleanup_rbuf`).
//!
//! What the log does not tell is kept as bounds or as unknown; then every decision that is possible is accepted.

use tcpassay_measure::reason::AckReason;
use tcpassay_tcp::{AckCompression, Config, DelayedAck, RecvTuning, TimerTicks};
use tcpassay_units::{Dur, Time};

/// `TCP_ATO_MIN`.
const ATO_MIN: Dur = Dur::from_millis(40);
/// Longest delay of an ACK that waits for no data to carry it (`tcp_send_delayed_ack`: HZ / 2).
const PATIENT: Dur = Dur::from_millis(500);
/// `TCP_MSS_DEFAULT` and `TCP_MIN_MSS`.
const MSS_DEFAULT: u64 = 536;
const MSS_MIN: u64 = 88;
const TICK: u64 = 1_000_000;
/// Duplicate ACKs for a position before any is left out (`TCP_FASTRETRANS_THRESH`).
const DUPLICATES: u32 = 3;

/// Whether an ACK is delayed, and until when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Delay {
    #[default]
    No,
    Until(Time),
    /// Until a time that is not known.
    Unknown,
}

/// The decisions that are possible at present.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Allowed {
    /// Reasons for an ACK at once.
    pub now: Vec<AckReason>,
    pub delay: Delay,
    /// No decision, or an ACK that is left out.
    pub nothing: bool,
    /// The decision to delay sets the timer anew, for this time.
    sets: Delay,
}

/// What an ACK depends on besides the state of [`Acks`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub at: Time,
    /// Bytes in order that are not acknowledged.
    pub unacked: u64,
    /// RCV.NXT.
    pub nxt: u64,
    /// Data wait above RCV.NXT.
    pub gaps: bool,
    /// More than the first two SACK blocks may have changed.
    pub crowded: bool,
    /// Whether the window would not shrink (Linux); `None` if not known.
    pub kept: Option<bool>,
    pub srtt: Option<Dur>,
}

/// The state of one receiver.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug)]
pub(super) struct Acks {
    rule: DelayedAck,
    ticks: TimerTicks,
    compression: Option<AckCompression>,
    /// Linux since 4.18.
    recent: bool,
    any_size: bool,
    /// `app.quickack`.
    always: bool,
    /// Largest payload of the peer.
    full: u64,
    /// Estimate of the peer's segments, and the length of the last small one.
    pub rcv_mss: u64,
    small: u64,
    /// Something waits to be acknowledged.
    pub waits: bool,
    /// Only an answer or a window update is due.
    bare: bool,
    /// The ACK that is due at once; whether it is certain.
    pub due: Option<AckReason>,
    pub maybe: Vec<AckReason>,
    /// Data arrived and no decision was made.
    pub undecided: bool,
    /// The timer, and the time for which it was set, if that is known.
    pub timer: Option<Time>,
    set_for: Option<Time>,
    pushed: bool,
    pushed_again: bool,
    /// The adaptive delay; zero before the first data, `None` if not known.
    ato: Option<Dur>,
    /// Quick ACKs that are left, at least and at most.
    quick: (u32, u32),
    /// The host answers data at once; `None` if not known.
    interactive: Option<bool>,
    last_data: Time,
    /// Duplicate ACKs that were left out since the last ACK, since when; a position, and how many were sent for it at least and at most.
    pub left_out: u32,
    pub left_out_since: Time,
    duplicates: (u64, u32, u32),
}

impl Acks {
    /// `full`: payload of the peer's full segments; `selective`: both ends use SACK.
    pub fn new(stack: &Config, full: u64, selective: bool) -> Acks {
        Acks {
            rule: stack.delayed_ack,
            ticks: stack.timer_ticks,
            compression: stack.ack_compression.filter(|_| selective),
            recent: stack.recv_tuning == RecvTuning::Linux,
            any_size: stack.count_small_segments,
            always: stack.quickack,
            full,
            rcv_mss: full.clamp(MSS_MIN, MSS_DEFAULT),
            small: 0,
            waits: false,
            bare: false,
            due: None,
            maybe: Vec::new(),
            undecided: false,
            timer: None,
            set_for: None,
            pushed: false,
            pushed_again: false,
            ato: Some(Dur::ZERO),
            quick: (0, 0),
            interactive: Some(false),
            last_data: Time::ZERO,
            left_out: 0,
            left_out_since: Time::ZERO,
            duplicates: (0, 0, 0),
        }
    }

    fn ticks_between(&self, earlier: Time, later: Time) -> Dur {
        self.last_tick(later).since(self.last_tick(earlier))
    }

    fn last_tick(&self, at: Time) -> Time {
        if self.ticks == TimerTicks::Off { at } else { Time::from_nanos(at.as_nanos() / TICK * TICK) }
    }

    fn whole_ticks(&self, wait: Dur) -> Dur {
        if self.ticks == TimerTicks::Off { wait } else { Dur::from_nanos(wait.as_nanos() / TICK * TICK) }
    }

    /// An ACK is due at once.
    pub fn demand(&mut self, why: AckReason) {
        let bare = matches!(why, AckReason::Answer | AckReason::WindowUpdate);
        self.bare = bare && (!self.waits || self.bare);
        self.waits = true;
        self.due = self.due.or(Some(why));
    }

    /// An ACK may be due at once.
    pub fn may_demand(&mut self, why: AckReason) {
        if self.due.is_none() {
            self.maybe.push(why);
        }
    }

    /// `len` bytes in order arrived. `window`: the window that the last ACK announced; `rto`: the sender's timeout, if it is known.
    pub fn data(&mut self, at: Time, len: u64, push: bool, window: u64, rto: Option<Dur>) {
        self.waits = true;
        self.measure(len, push);
        let pause = self.ticks_between(self.last_data, at);
        match self.ato {
            Some(Dur::ZERO) => {
                self.grant(window, self.rule.quick_ack);
                self.ato = Some(ATO_MIN);
            }
            _ if at.since(self.last_data) <= ATO_MIN / 2 && self.ato == Some(ATO_MIN) => {}
            Some(ato) => {
                let half = self.whole_ticks(ato / 2);
                if pause <= ATO_MIN / 2 {
                    self.ato = Some(half + ATO_MIN / 2);
                } else if pause < ato {
                    self.ato = rto.map(|rto| (half + pause).min(rto));
                } else if rto.is_none_or(|rto| pause > rto) {
                    let before = self.quick;
                    self.grant(window, self.rule.quick_ack);
                    if rto.is_none() {
                        self.quick.0 = before.0;
                    }
                }
            }
            None => {
                let before = self.quick;
                self.grant(window, self.rule.quick_ack);
                self.quick.0 = before.0;
            }
        }
        self.last_data = at;
    }

    /// `tcp_measure_rcv_mss`: the size of the peer's segments, and whether a write ended.
    pub fn measure(&mut self, len: u64, push: bool) {
        let len = len.min(self.full);
        let before = std::mem::take(&mut self.small);
        if len >= self.rcv_mss {
            self.rcv_mss = len;
            self.pushed |= self.recent && push;
            return;
        }
        if len >= MSS_DEFAULT || len >= MSS_MIN && !push {
            self.small = len;
            if len == before {
                self.rcv_mss = len;
                return;
            }
        }
        self.pushed_again |= self.pushed;
        self.pushed = true;
    }

    /// The estimate after a segment of `len` bytes.
    pub fn next_mss(&self, len: u64, push: bool) -> u64 {
        let len = len.min(self.full);
        let repeats = len == self.small && (len >= MSS_DEFAULT || len >= MSS_MIN && !push);
        if len >= self.rcv_mss || repeats { len } else { self.rcv_mss }
    }

    /// `tcp_incr_quickack`: quick ACKs for half of the segments that the window holds.
    fn grant(&mut self, window: u64, most: u32) {
        let half = u32::try_from(window / (2 * self.rcv_mss)).unwrap_or(u32::MAX);
        let granted = if half == 0 { 2 } else { half }.min(most);
        self.quick = (self.quick.0.max(granted), self.quick.1.max(granted));
    }

    /// `tcp_enter_quickack_mode`. `for_mark`: because of a mark.
    pub fn hurry(&mut self, window: u64, for_mark: bool) {
        let most = self.rule.quick_ack;
        if most > 0 {
            self.grant(window, if for_mark && self.recent { most.min(2) } else { most });
            self.interactive = Some(false);
            self.ato = Some(ATO_MIN);
        }
    }

    /// [`Acks::hurry`] may have been called.
    pub fn may_hurry(&mut self, window: u64, for_mark: bool) {
        let (quick, interactive, ato) = (self.quick, self.interactive, self.ato);
        self.hurry(window, for_mark);
        self.quick.0 = quick.0;
        self.interactive = self.interactive.filter(|now| Some(*now) == interactive);
        self.ato = self.ato.filter(|now| Some(*now) == ato);
    }

    /// The window grew (`tcp_grow_window`): one more quick ACK if their number is even.
    pub fn window_grew(&mut self) {
        if self.rule.quick_ack > 0 {
            self.quick = (self.quick.0 | 1, self.quick.1 | 1);
        }
    }

    /// It is not known whether the window grew.
    pub fn window_may_have_grown(&mut self) {
        if self.rule.quick_ack > 0 {
            self.quick.1 |= 1;
        }
    }

    /// Less than half of the buffer is free (`__tcp_select_window`).
    pub fn stop_quick(&mut self) {
        self.quick = (0, 0);
    }

    /// It is not known whether half of the buffer is free.
    pub fn may_stop_quick(&mut self) {
        self.quick.0 = 0;
    }

    /// The peer's FIN arrived in order.
    pub fn fin(&mut self) {
        self.waits = true;
        if self.rule.adaptive {
            self.interactive = Some(true);
        } else {
            self.demand(AckReason::Fin);
        }
    }

    /// Data arrived above RCV.NXT.
    pub fn out_of_order(&mut self) {
        if self.compression.is_some() {
            self.waits = true;
        } else {
            self.demand(AckReason::OutOfOrder);
        }
        self.undecided = true;
    }

    /// Data arrived that had arrived before.
    pub fn repeated(&mut self) {
        if self.rule.adaptive {
            self.waits = true;
            self.undecided = true;
        } else {
            self.demand(AckReason::OutOfOrder);
        }
    }

    /// Data with CWR arrived (`tcp_ecn_accept_cwr`).
    pub fn reduced(&mut self, immediate: bool) {
        if self.rule.adaptive && (self.recent || immediate) {
            self.demand(AckReason::CeChange);
        }
    }

    /// The decisions that the present state allows.
    pub fn decide(&self, asked: &Asked) -> Allowed {
        let mut allowed = Allowed::default();
        // The first reason counts.
        allowed.now.extend(&self.maybe);
        if let Some(why) = self.due {
            allowed.now.push(why);
            return allowed;
        }
        if !self.undecided {
            allowed.nothing = true;
            return allowed;
        }
        let every = u64::from(self.rule.every);
        let enough = if self.rule.every <= 1 {
            Some(true)
        } else if self.rule.adaptive {
            if asked.unacked > (every - 1) * self.rcv_mss { asked.kept } else { Some(false) }
        } else {
            Some(asked.unacked >= every * self.rcv_mss || self.any_size && self.timer.is_some())
        };
        if enough != Some(false) {
            allowed.now.push(AckReason::EveryN);
        }
        if enough == Some(true) {
            return allowed;
        }
        let quick = if self.always && !self.rule.adaptive {
            Some(true)
        } else {
            match (self.quick, self.interactive) {
                ((_, 0), _) | (_, Some(true)) => Some(false),
                ((1.., _), Some(false)) => Some(true),
                _ => None,
            }
        };
        if quick != Some(false) {
            allowed.now.push(AckReason::Quick);
        }
        if quick == Some(true) {
            return allowed;
        }
        if asked.gaps {
            let rule = self.compression.filter(|rule| self.left_out < rule.most);
            let (_, least, most) = self.counted(asked.nxt);
            let crowded = self.left_out > 0 && asked.crowded;
            if rule.is_none() || least < DUPLICATES || crowded {
                allowed.now.push(AckReason::OutOfOrder);
            }
            // Without a change of the later blocks none is due.
            allowed.nothing = rule.is_some() && most >= DUPLICATES;
        } else {
            self.delay(asked, &mut allowed);
        }
        allowed
    }

    /// `tcp_send_delayed_ack`, or the fixed delay.
    fn delay(&self, asked: &Asked, allowed: &mut Allowed) {
        if !self.rule.adaptive {
            let new = self.ticks.expiry(asked.at, self.rule.timeout);
            allowed.delay = Delay::Until(self.timer.unwrap_or(new));
            return;
        }
        let Some(mut ato) = self.ato else {
            allowed.delay = Delay::Unknown;
            allowed.sets = Delay::Unknown;
            if self.timer.is_some() {
                allowed.now.push(AckReason::Timer);
            }
            return;
        };
        if ato > ATO_MIN {
            let patient = self.interactive.map(|interactive| interactive || self.pushed);
            if patient.is_none() && !self.pushed && ato > self.rule.timeout {
                allowed.delay = Delay::Unknown;
                allowed.sets = Delay::Unknown;
                return;
            }
            let mut most = if patient == Some(false) { PATIENT } else { self.rule.timeout };
            if let Some(srtt) = asked.srtt {
                most = most.min(self.ticks.round_up(srtt).max(ATO_MIN));
            }
            ato = ato.min(most);
        }
        let wait = ato.min(self.rule.timeout);
        let new = asked.at.saturating_add(wait);
        let anew = Delay::Until(self.ticks.expiry(asked.at, wait));
        match (self.timer, self.set_for) {
            (None, _) => {
                allowed.delay = anew;
                allowed.sets = Delay::Until(new);
            }
            (Some(timer), Some(set)) => {
                let (set, tick) = (self.last_tick(set), self.last_tick(asked.at));
                if set <= tick.saturating_add(ato / 4) {
                    allowed.now.push(AckReason::Timer);
                } else if set <= tick.saturating_add(wait) {
                    allowed.delay = Delay::Until(timer);
                } else {
                    allowed.delay = anew;
                    allowed.sets = Delay::Until(new);
                }
            }
            (Some(_), None) => {
                allowed.now.push(AckReason::Timer);
                allowed.delay = Delay::Unknown;
                allowed.sets = Delay::Unknown;
            }
        }
    }

    /// The ACK is delayed until `until`, as `allowed` says.
    pub fn delayed(&mut self, until: Time, allowed: &Allowed) {
        self.decided();
        match allowed.sets {
            Delay::No => {}
            Delay::Until(set) => self.set_for = Some(set),
            Delay::Unknown => self.set_for = None,
        }
        if self.interactive == Some(false) {
            self.quick = (0, 0);
        } else if self.quick.0 > 0 {
            self.interactive = Some(true);
        }
        self.timer = Some(until);
        self.waits = true;
    }

    /// An ACK is sent at once for `why`.
    pub fn sends(&mut self, why: AckReason, asked: &Asked) {
        if why == AckReason::Quick {
            self.quick = (self.quick.0.max(1), self.quick.1.max(1));
            self.interactive = Some(false);
        } else if why == AckReason::OutOfOrder && self.due.is_none() && asked.gaps {
            self.duplicate(asked.nxt, !(self.left_out > 0 && asked.crowded));
        }
        self.decided();
    }

    fn counted(&self, nxt: u64) -> (u64, u32, u32) {
        if self.duplicates.0 == nxt { self.duplicates } else { (nxt, 0, 0) }
    }

    /// An ACK of data out of order is sent; `counts`: it is certainly one of the first for its position.
    fn duplicate(&mut self, nxt: u64, counts: bool) {
        if self.compression.is_some_and(|rule| self.left_out < rule.most) {
            let (_, least, most) = self.counted(nxt);
            let least = least + u32::from(counts);
            self.duplicates = (nxt, least.min(DUPLICATES), (most + 1).min(DUPLICATES));
        }
    }

    /// No decision was made: an ACK of data out of order was left out, or nothing had to be decided.
    pub fn leaves_out(&mut self, asked: &Asked) {
        if self.undecided {
            if self.left_out == 0 {
                self.left_out_since = asked.at;
            }
            self.left_out += 1;
            self.duplicates = (asked.nxt, DUPLICATES, DUPLICATES);
        }
        self.decided();
    }

    fn decided(&mut self) {
        self.undecided = false;
        self.due = None;
        self.maybe.clear();
    }

    /// When the timer of duplicate ACKs that were left out fires at the latest.
    pub fn left_out_until(&self) -> Option<Time> {
        let rule = self.compression.filter(|_| self.left_out > 0)?;
        Some(self.left_out_since.saturating_add(rule.delay + rule.slack))
    }

    /// The delayed-ACK timer fires.
    pub fn fires(&mut self, rto: Option<Dur>) {
        self.timer = None;
        if !self.waits {
            return;
        }
        if self.rule.adaptive {
            match self.interactive {
                Some(true) => {
                    self.interactive = Some(false);
                    self.ato = Some(ATO_MIN);
                }
                Some(false) => self.ato = self.ato.zip(rto).map(|(ato, rto)| (ato * 2).min(rto)),
                None => {
                    self.interactive = Some(false);
                    self.ato = None;
                }
            }
        }
        self.demand(AckReason::Timer);
    }

    /// An ACK for those that were left out is due.
    pub fn fires_for_left_out(&mut self) {
        self.demand(AckReason::OutOfOrder);
    }

    /// A segment leaves that acknowledges everything, in at least and at most so many packets.
    pub fn sent(&mut self, (least, most): (u32, u32)) {
        let bare = std::mem::take(&mut self.bare);
        let scheduled = std::mem::take(&mut self.waits) && !bare;
        // `tcp_dec_quickack_mode`
        let (least, most) =
            if self.recent { (u32::from(scheduled), u32::from(scheduled)) } else { (least, most) };
        self.decided();
        self.timer = None;
        self.set_for = None;
        self.pushed = false;
        self.pushed_again = false;
        self.left_out = 0;
        let before = self.quick;
        self.quick = (before.0.saturating_sub(most), before.1.saturating_sub(least));
        let (was, was_not) = (before.0 > 0, before.1 == 0);
        let (is_over, may_be_over) = (self.quick.1 == 0, self.quick.0 == 0);
        if was && is_over {
            self.ato = Some(ATO_MIN);
        } else if !was_not && may_be_over && self.ato != Some(ATO_MIN) {
            self.ato = None;
        }
    }

    /// Data left as a reply (`tcp_event_data_sent`). `certain`: the stack looked at the time since the last arrival.
    pub fn replied(&mut self, at: Time, certain: bool) {
        if !self.rule.adaptive || self.interactive == Some(true) {
            return;
        }
        let pause = at.since(self.last_data);
        let soon =
            |ato: Dur| pause < ato + Dur::from_nanos(TICK) && self.ticks_between(self.last_data, at) < ato;
        match self.ato.map(soon) {
            Some(false) => {}
            Some(true) if certain => self.interactive = Some(true),
            _ => self.interactive = None,
        }
    }

    /// The application read (`tcp_cleanup_rbuf`); `empty`: everything in order.
    pub fn read(&mut self, unacked: u64, empty: bool) {
        if !self.rule.adaptive {
            return;
        }
        if self.always {
            self.interactive = Some(false);
            self.pushed |= self.waits;
        }
        if !self.waits {
            return;
        }
        let answers = self.interactive.map(|interactive| self.pushed && !interactive);
        if unacked > self.rcv_mss || empty && (self.pushed_again || answers == Some(true)) {
            self.demand(AckReason::EveryN);
        } else if empty && self.pushed && answers.is_none() {
            self.may_demand(AckReason::EveryN);
        }
    }
}
