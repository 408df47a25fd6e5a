//! Decision when to send an ACK.
//!
//! There are two rules: that of RFC 1122 and RFC 5681 (an ACK for every n full segments, a fixed timer, an immediate ACK of unusual
//! segments), and that of Linux (`DelayedAck::adaptive`). The fields of the latter are named after `inet_connection_sock`:
//! `scheduled`, `pushed`, `ato`, `quick`, `pingpong`. Sources: `tcp_event_data_recv`, `tcp_measure_rcv_mss`,
//! `__tcp_ack_snd_check`, `tcp_send_delayed_ack`, `tcp_delack_timer_handler`, `tcp_cleanup_rbuf`,
//! `tcp_event_ack_sent`, `tcp_event_data_sent` of Linux 4.6; `AckPolicy::today` selects later behaviour.
//!
//! Known differences: times are ticks only if the stack has them ([`TimerTicks`](crate::TimerTicks)); a closed gap is acknowledged at once also in the 4.6 profile,
//! where the kernel relied on quick-ack mode; the kernel's memory-pressure rules are absent.

mod compression;

use crate::log::AckReason;
use crate::tick::Expiry;
use crate::{AckCheck, AckCompression, Config, DctcpReceiver, DelayedAck, RecvTuning};
use tcpassay_units::{Dur, Time};

/// `TCP_DELACK_MIN` and `TCP_ATO_MIN`.
const ATO_MIN: Dur = Dur::from_millis(40);
/// `TCP_MSS_DEFAULT`: the first guess of the peer's segment size.
const MSS_DEFAULT: u64 = 536;
/// `TCP_MIN_MSS`.
const MSS_MIN: u64 = 88;

/// The result of the check whether an ACK is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Send an ACK now.
    Now(AckReason),
    /// Wait until this time.
    Delay(Time),
    /// The check was not made although a segment waits: its ACK is forgotten.
    Forgotten,
}

/// The input of the check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckInput {
    /// In-order bytes not acknowledged yet.
    pub unacked: u64,
    /// Out-of-order data are waiting.
    pub gaps: bool,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Dur>,
    /// RCV.NXT.
    pub nxt: u64,
    /// The round-trip time as the receiver measures it; zero before it has.
    pub rtt: Dur,
}

/// Whether an ACK of the data before a change of CE cleared the ACK of what changed it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Cleared {
    #[default]
    No,
    Yes,
    /// It was cleared, and socket memory was charged for the segment, which is therefore processed on the
    /// slow path.
    Charged,
}

/// State of the acknowledgement policy.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, named as in the kernel")]
#[derive(Clone, Debug)]
pub(crate) struct AckPolicy {
    rule: DelayedAck,
    receiver: DctcpReceiver,
    check: AckCheck,
    any_size: bool,
    /// Linux since 4.18.
    today: bool,
    /// `app.quickack`.
    always_quick: bool,
    /// `ICSK_ACK_SCHED`: something waits to be acknowledged.
    scheduled: bool,
    /// What is due answers a segment or opens the window, and nothing else was scheduled.
    unscheduled: bool,
    /// `ICSK_ACK_NOW` and similar flags: the next check sends an ACK, for this reason.
    due: Option<AckReason>,
    /// The delayed-ACK timer; [`Time::MAX`] when it does not run.
    timer: Time,
    /// `delayed_ack_reserved` of `tcp_dctcp.c`: the last decision was to delay, and no pure ACK left since.
    reserved: bool,
    /// A data segment arrived and the check has not been made. Its value: header prediction passed.
    pending: Option<bool>,
    /// The change of CE sent the old ACK with `ClearTimer` in this segment's processing.
    cleared: Cleared,
    pushed: bool,
    pushed_twice: bool,
    ato: Dur,
    longest_ato: Dur,
    quick: u32,
    pingpong: bool,
    last_data: Time,
    rcv_mss: u64,
    last_len: u64,
    full_mss: u64,
    /// Payload of the packets of the segment that is processed, at most `full_mss` (`skb_shinfo(skb)->gso_size`).
    packet: u64,
    compression: Option<AckCompression>,
    expiry: Expiry,
    /// For when the timer was set (`icsk_ack.timeout`, in the middle of its tick); it fires later.
    nominal: Time,
    /// When `icsk_delack_timer` fires, which goes on after its ACK was sent; [`Time::MAX`] if it does not run.
    armed: Time,
    /// Duplicate ACKs that were left out since the last ACK (`compressed_ack`), and when one is sent for them.
    compressed: u32,
    compressed_until: Time,
    /// Duplicate ACKs that were sent for this RCV.NXT before any is left out (`dup_ack_counter`, `compressed_ack_rcv_nxt`).
    duplicates: (u64, u32),
}

impl AckPolicy {
    pub(crate) fn new(cfg: &Config) -> AckPolicy {
        AckPolicy {
            rule: cfg.delayed_ack,
            receiver: cfg.dctcp_receiver,
            check: cfg.ack_check,
            any_size: cfg.count_small_segments,
            today: cfg.recv_tuning == RecvTuning::Linux,
            always_quick: cfg.quickack,
            scheduled: false,
            unscheduled: false,
            due: None,
            timer: Time::MAX,
            reserved: false,
            pending: None,
            cleared: Cleared::No,
            pushed: false,
            pushed_twice: false,
            ato: Dur::ZERO,
            longest_ato: cfg.flavor.rules().recv.longest_ato,
            quick: 0,
            pingpong: false,
            last_data: Time::ZERO,
            rcv_mss: MSS_DEFAULT,
            last_len: 0,
            full_mss: cfg.mss.get(),
            packet: cfg.mss.get(),
            compression: cfg.ack_compression,
            expiry: Expiry::new(cfg.timer_ticks),
            nominal: Time::MAX,
            armed: Time::MAX,
            compressed: 0,
            compressed_until: Time::MAX,
            duplicates: (0, 0),
        }
    }

    /// Whether an ACK is scheduled.
    #[inline]
    pub(crate) fn is_scheduled(&self) -> bool {
        self.scheduled
    }

    /// The largest payload that the peer may send is known.
    pub(crate) fn set_mss(&mut self, full: u64) {
        self.full_mss = full;
        self.packet = full;
        self.rcv_mss = full.clamp(MSS_MIN, MSS_DEFAULT);
    }

    /// The packets of the segment that is processed have at most this payload, which Linux learns from the NIC.
    pub(crate) fn measure_at_most(&mut self, size: u64) {
        if self.rule.adaptive {
            self.packet = self.full_mss.min(size);
        }
    }

    /// Estimated payload of the peer's full segments.
    pub(crate) fn rcv_mss(&self) -> u64 {
        self.rcv_mss
    }

    /// In-order data arrived. `window` is the window that the last ACK announced, `rto` the sender's timeout in force.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    pub(crate) fn data(&mut self, now: Time, len: u64, push: bool, window: u64, rto: Dur) {
        self.scheduled = true;
        self.measure(len, push);
        if self.any_size && (len > self.full_mss || window == 0) {
            self.demand(AckReason::EveryN);
        }
        if self.ato.is_zero() {
            // The first data segment starts quick-ack mode.
            self.enter_quick(window, self.rule.quick_ack);
            self.ato = ATO_MIN;
        } else if now.since(self.last_data) > ATO_MIN / 2 || self.ato != ATO_MIN {
            self.gap(now, window, rto);
        }
        self.last_data = now;
    }

    /// What the gap since the last data means. Gap and `ato` are numbers of ticks.
    #[cold]
    fn gap(&mut self, now: Time, window: u64, rto: Dur) {
        let ticks = self.expiry.ticks();
        let (gap, half) = (ticks.between(self.last_data, now), ticks.round_down(self.ato / 2));
        if gap <= ATO_MIN / 2 {
            self.ato = half + ATO_MIN / 2;
        } else if gap < self.ato {
            self.ato = (half + gap).min(rto).min(self.longest_ato);
        } else if gap > rto {
            // The sender restarted after idle: it needs ACKs quickly.
            self.enter_quick(window, self.rule.quick_ack);
        }
    }

    /// `tcp_measure_rcv_mss`. A super-segment is evidence for the size of its full packets.
    #[inline]
    fn measure(&mut self, len: u64, push: bool) {
        let last = std::mem::take(&mut self.last_len);
        let len = len.min(self.packet);
        if len >= self.rcv_mss {
            self.rcv_mss = len;
            // Since 6.6, and its stable predecessors: one full segment with PSH ends a write, or a super-segment.
            self.pushed |= self.today && push;
            return;
        }
        // The segment is long enough to be a full one of a path with a small MTU, or it does not end a write: two of equal
        // size prove that segments have this size.
        if len >= MSS_DEFAULT || (len >= MSS_MIN && !push) {
            self.last_len = len;
            if len == last {
                self.rcv_mss = len;
                return;
            }
        }
        self.pushed_twice |= self.pushed;
        self.pushed = true;
    }

    /// `tcp_incr_quickack`: half of the segments that fit into the announced window, or two where not even two segments fit.
    fn enter_quick(&mut self, window: u64, most: u32) {
        let packets = match window / (2 * self.rcv_mss) {
            0 => 2,
            n => u32::try_from(n).unwrap_or(u32::MAX),
        };
        self.quick = self.quick.max(packets.min(most));
    }

    /// `tcp_enter_quickack_mode`: something unusual happened (a duplicate).
    pub(crate) fn quick_mode(&mut self, window: u64) {
        self.quick_mode_of(window, self.rule.quick_ack);
    }

    /// The same for a mark: two ACKs since 4.18.
    pub(crate) fn quick_mode_for_mark(&mut self, window: u64) {
        let most = if self.today { self.rule.quick_ack.min(2) } else { self.rule.quick_ack };
        self.quick_mode_of(window, most);
    }

    fn quick_mode_of(&mut self, window: u64, most: u32) {
        if self.rule.quick_ack > 0 {
            self.enter_quick(window, most);
            self.pingpong = false;
            self.ato = ATO_MIN;
        }
    }

    /// Data arrived out of order. Their length counts for the estimate of the peer's segment size, too (since 6.17).
    pub(crate) fn measured(&mut self, len: u64, push: bool) {
        self.measure(len, push);
    }

    /// Less than half of the buffer is free (`__tcp_select_window`).
    pub(crate) fn stop_quick(&mut self) {
        self.quick = 0;
    }

    /// One quick ACK less is left.
    pub(crate) fn spend_quick(&mut self) {
        self.quick = self.quick.saturating_sub(1);
    }

    /// The window can be opened further: Linux sends one more quick ACK (`tcp_grow_window`).
    #[inline]
    pub(crate) fn window_grew(&mut self) {
        if self.rule.quick_ack > 0 {
            self.quick |= 1;
        }
    }

    /// Data arrived that must be acknowledged at some time (`inet_csk_schedule_ack`).
    pub(crate) fn schedule(&mut self) {
        self.scheduled = true;
    }

    /// Data arrived that must be acknowledged at the next check.
    #[inline]
    pub(crate) fn demand(&mut self, why: AckReason) {
        let bare = matches!(why, AckReason::Answer | AckReason::WindowUpdate);
        self.unscheduled = bare && (!self.scheduled || self.unscheduled);
        self.scheduled = true;
        if self.due.is_none() {
            self.due = Some(why);
        }
    }

    /// A FIN arrived. Linux delays its ACK, because the application's answer may carry it (`tcp_fin`).
    pub(crate) fn fin(&mut self) {
        self.scheduled = true;
        if self.rule.adaptive {
            self.pingpong = true;
        } else {
            self.demand(AckReason::Fin);
        }
    }

    /// Requests the check after all data were sent with which the ACK can be piggybacked.
    #[inline]
    pub(crate) fn ask_later(&mut self, fast: bool) {
        self.pending = Some(fast);
    }

    /// Linux makes the check also for a segment without data, if header prediction does not let it through: an ACK whose timer is about to
    /// expire is sent then (`tcp_ack_snd_check`, `tcp_send_delayed_ack`).
    pub(crate) fn check_scheduled(&mut self) {
        if self.rule.adaptive && self.scheduled && self.pending.is_none() {
            self.pending = Some(false);
        }
    }

    /// Whether the CE change is to send the old ACK first.
    pub(crate) fn old_ack_due(&self) -> bool {
        match self.receiver {
            DctcpReceiver::ClearTimer | DctcpReceiver::Rearm if !self.today => self.reserved,
            // Since 4.18 Linux tests `ICSK_ACK_TIMER` with every receiver, and an ACK that data carry also stops this timer.
            _ => self.timer != Time::MAX,
        }
    }

    /// Whether the segment that changes the mark is acknowledged at once ([`DctcpReceiver::Immediate`]).
    pub(crate) fn acks_a_change_at_once(&self) -> bool {
        self.receiver == DctcpReceiver::Immediate
    }

    /// The CE mark changed. `sent`: an ACK of the data before the change is sent first. `charged`: socket memory was charged for the
    /// segment, which header prediction leaves to the slow path (`tcp_rcv_established`).
    pub(crate) fn ce_changed(&mut self, sent: bool, charged: bool) {
        match self.receiver {
            DctcpReceiver::Immediate => self.demand(AckReason::CeChange),
            DctcpReceiver::Rearm if sent => {
                self.sent(true, 1);
                self.scheduled = true;
            }
            DctcpReceiver::ClearTimer if sent => {
                self.sent(true, 1);
                self.cleared = if charged { Cleared::Charged } else { Cleared::Yes };
            }
            DctcpReceiver::Rearm | DctcpReceiver::ClearTimer => {}
        }
    }

    /// CWR arrived with data: the peer's window may be one packet. Linux acknowledges at once since 4.18.
    pub(crate) fn cwr(&mut self) {
        if self.rule.adaptive && (self.today || self.receiver == DctcpReceiver::Immediate) {
            self.demand(AckReason::CeChange);
        }
    }

    /// Whether [`AckPolicy::decide`] has something to decide.
    #[inline]
    pub(crate) fn undecided(&self) -> bool {
        self.pending.is_some() || self.due.is_some()
    }

    /// Decides about the ACK, after all data that could carry it were sent. `window_kept`: an ACK sent now would announce at
    /// least the window announced before.
    #[inline]
    pub(crate) fn decide(
        &mut self,
        now: Time,
        ask: AckInput,
        window_kept: impl FnOnce() -> bool,
    ) -> Option<Verdict> {
        let fast = self.pending.take();
        let cleared = std::mem::take(&mut self.cleared);
        if let Some(fast) = fast {
            let asked = match self.check {
                AckCheck::Always => cleared == Cleared::No,
                AckCheck::IfScheduledOnSlowPath => fast && cleared != Cleared::Charged || self.scheduled,
            };
            // If the schedule was cleared, `due` remains only if it was set afterwards.
            if !asked && self.due.is_none() {
                return (ask.unacked > 0).then_some(Verdict::Forgotten);
            }
        }
        if let Some(why) = self.due.take() {
            return Some(Verdict::Now(why));
        }
        fast?;
        // Linux's `TCP_QUICKACK` causes an ACK when the application reads: see `read`.
        let kept_on = self.always_quick && !self.rule.adaptive;
        let quick = kept_on || (self.quick > 0 && !self.pingpong);
        let enough = if self.rule.adaptive {
            ask.unacked > u64::from(self.rule.every.saturating_sub(1)) * self.rcv_mss && window_kept()
        } else {
            // FreeBSD checks whether a segment of any size already waits.
            ask.unacked >= u64::from(self.rule.every) * self.rcv_mss
                || (self.any_size && self.timer != Time::MAX)
        };
        if enough || self.rule.every <= 1 {
            Some(Verdict::Now(AckReason::EveryN))
        } else if quick {
            Some(Verdict::Now(AckReason::Quick))
        } else if ask.gaps {
            self.compress(now, &ask)
        } else {
            Some(self.delay(now, ask.srtt))
        }
    }

    /// Data arrived out of order.
    pub(crate) fn out_of_order(&mut self) {
        match self.compression {
            Some(_) => self.scheduled = true,
            None => self.demand(AckReason::OutOfOrder),
        }
    }

    /// Data arrived that were received before, in quick mode. Linux only schedules their ACK (`tcp_data_queue`): if less than half of
    /// the buffer is free, the check ends quick mode and delays it.
    pub(crate) fn old_data(&mut self) {
        if self.rule.adaptive {
            self.scheduled = true;
            self.ask_later(false);
        } else {
            self.demand(AckReason::OutOfOrder);
        }
    }

    /// The next deadline: of the delayed ACK, or of duplicate ACKs that were left out.
    #[inline]
    pub(crate) fn deadline(&self) -> Time {
        let armed = if self.compressed > 0 { self.armed } else { Time::MAX };
        self.timer.min(self.compressed_until).min(armed)
    }

    /// `tcp_send_delayed_ack`, or the fixed timer.
    fn delay(&mut self, now: Time, srtt: Option<Dur>) -> Verdict {
        self.reserved = true;
        self.scheduled = true;
        if !self.rule.adaptive {
            if self.timer == Time::MAX {
                self.timer = self.expiry.after(now, self.rule.timeout);
            }
            return Verdict::Delay(self.timer);
        }
        let mut ato = self.ato;
        if ato > ATO_MIN {
            let patient = self.pingpong || self.pushed;
            let mut most = if patient { self.rule.timeout } else { Dur::from_millis(500) };
            if let Some(srtt) = srtt {
                most = most.min(self.expiry.ticks().round_up(srtt).max(ATO_MIN));
            }
            ato = ato.min(most);
        }
        let wait = ato.min(self.rule.timeout);
        if self.timer != Time::MAX {
            let ticks = self.expiry.ticks();
            let (nominal, tick) = (ticks.last(self.nominal), ticks.last(now));
            if nominal <= tick.saturating_add(ato / 4) {
                return Verdict::Now(AckReason::Timer);
            }
            if nominal <= tick.saturating_add(wait) {
                return Verdict::Delay(self.timer);
            }
        }
        self.nominal = now.saturating_add(wait);
        self.timer = self.expiry.after(now, wait);
        self.armed = self.timer;
        Verdict::Delay(self.timer)
    }

    /// A timer that is about to expire is not at `now`. Returns whether there is one.
    pub(crate) fn postpone(&mut self, now: Time) -> bool {
        let later = now.saturating_add(self.ato / 4 + Dur::from_millis(2));
        let sooner = self.timer != Time::MAX && self.nominal < later;
        self.nominal = self.nominal.max(later);
        sooner
    }

    /// Delays a due ACK by the longest permitted time.
    pub(crate) fn hold(&mut self, now: Time) {
        self.scheduled = true;
        self.quick = self.quick.max(self.rule.quick_ack);
        self.ato = ATO_MIN;
        // Data written from now on count as a reply.
        self.last_data = now;
        self.nominal = now.saturating_add(self.rule.timeout);
        self.timer = self.expiry.after(now, self.rule.timeout);
    }

    /// The delayed-ACK timer is due. Returns whether an ACK is to be sent.
    pub(crate) fn fire(&mut self, rto: Dur) -> bool {
        self.timer = Time::MAX;
        if !self.scheduled {
            return false;
        }
        if self.rule.adaptive {
            if self.pingpong {
                self.pingpong = false;
                self.ato = ATO_MIN;
            } else {
                self.ato = (self.ato * 2).min(rto).min(self.longest_ato);
            }
        }
        self.demand(AckReason::Timer);
        true
    }

    /// A segment was sent that acknowledges everything. `pure`: it has no payload; `packets`: its number of packets on the wire.
    #[inline]
    pub(crate) fn sent(&mut self, pure: bool, packets: u32) {
        let scheduled = std::mem::take(&mut self.scheduled);
        self.due = None;
        self.timer = Time::MAX;
        self.pushed = false;
        self.pushed_twice = false;
        self.compressed = 0;
        self.compressed_until = Time::MAX;
        self.pending = None;
        self.cleared = Cleared::No;
        if pure {
            self.reserved = false;
        }
        let unscheduled = std::mem::take(&mut self.unscheduled);
        if self.quick > 0 {
            // Linux counts ACKs of new data, not packets (`tcp_dec_quickack_mode`); 4.6 counted packets.
            let used = if self.today { u32::from(scheduled && !unscheduled) } else { packets };
            self.quick = self.quick.saturating_sub(used);
            if self.quick == 0 {
                self.ato = ATO_MIN;
            }
        }
    }

    /// Processes the transmission of data. A reply within `ato` after an arrival starts interactive mode
    /// (`pingpong`, `tcp_event_data_sent`).
    #[inline]
    pub(crate) fn replied(&mut self, now: Time) {
        // The difference in ticks is greater by less than one, or less.
        if self.rule.adaptive
            && now.since(self.last_data) < self.ato + Dur::from_millis(1)
            && self.expiry.ticks().between(self.last_data, now) < self.ato
        {
            self.pingpong = true;
        }
    }

    /// The application read; the first half of `tcp_cleanup_rbuf`. `empty`: nothing is left to read.
    #[inline]
    pub(crate) fn read(&mut self, unacked: u64, empty: bool) {
        if self.always_quick && self.rule.adaptive {
            // An application that sets `TCP_QUICKACK` after each read (`__tcp_sock_set_quickack`).
            self.pingpong = false;
            self.pushed |= self.scheduled;
        }
        if self.rule.adaptive
            && self.scheduled
            && (unacked > self.rcv_mss || (empty && (self.pushed_twice || (self.pushed && !self.pingpong))))
        {
            self.demand(AckReason::EveryN);
        }
    }

    /// Whether both decide alike from now on, if they have the same rules.
    pub(crate) fn is_like(&self, other: &AckPolicy) -> bool {
        let flags = |a: &AckPolicy| {
            (a.scheduled, a.unscheduled, a.due, a.pending, a.pushed, a.pushed_twice, a.pingpong, a.reserved)
        };
        let numbers = |a: &AckPolicy| (a.quick, a.rcv_mss, a.last_len, a.compressed, a.duplicates);
        let times = |a: &AckPolicy| (a.timer, a.nominal, a.armed, a.ato, a.last_data, a.compressed_until);
        flags(self) == flags(other) && numbers(self) == numbers(other) && times(self) == times(other)
    }

    /// An ACK is delayed for no longer than this.
    pub(crate) fn set_longest_delay(&mut self, delay: Dur) {
        self.rule.timeout = delay;
    }

    /// `app.quickack` was switched. Switching it on acknowledges what waits; switching it off delays ACKs, the quick ones of the
    /// start, too (`__tcp_sock_set_quickack`).
    pub(crate) fn set_quick(&mut self, on: bool) {
        self.always_quick = on;
        self.pingpong = !on;
        if on && self.scheduled {
            self.demand(AckReason::Quick);
        }
    }
}

#[cfg(test)]
mod tests;
