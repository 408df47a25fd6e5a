//! The processing of an ACK, in order: scoreboard, round-trip time, delivery rate, loss detection and congestion state, the
//! controller, the window, the timers.
//!
//! Sources: RFC 5681, RFC 6675 section 5; `tcp_ack` of Linux for the order.

use super::Sender;
use super::delivery::{Delivered, Run, Sample};
use super::loss::dupthresh::RenoState;
use super::recovery::prr::Step;
use super::scoreboard::sent::{FIN, SACKED};
use super::timers::TimerAck;
use crate::config::EcnMode;
use crate::log::{CongestionState, Log, LogEvent, WindowCause};
use crate::messages::{AckIn, AckOut, Span};
use tcpassay_cc::{Ack, AckCount, Event};
use tcpassay_units::{Bytes, Dur, Time, count};

/// The properties of an ACK, and the state before it, for the later steps of its processing.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one ACK")]
pub(super) struct AckContext {
    pub now: Time,
    /// True if SND.UNA advanced.
    pub advanced: bool,
    /// A duplicate ACK (RFC 5681 section 2).
    pub dup: bool,
    /// Marks were reported.
    pub marked: bool,
    /// True if the ACK carried payload, changed the window or advanced SND.UNA (Linux `FLAG_NOT_DUP`).
    pub informs: bool,
    /// It has no SACK option.
    pub bare: bool,
    /// Flight size before.
    pub prior_out: u64,
    /// SACKed bytes before.
    pub prior_sacked: u64,
}

impl AckContext {
    /// The context of a timer, which is processed like an ACK without new information.
    pub fn timer(now: Time, out: u64, sacked: u64) -> AckContext {
        AckContext {
            now,
            advanced: false,
            dup: false,
            marked: false,
            informs: false,
            bare: true,
            prior_out: out,
            prior_sacked: sacked,
        }
    }

    /// The bytes of the flight that were not SACKed before.
    pub fn prior_undelivered(&self) -> u64 {
        self.prior_out - self.prior_sacked
    }
}

/// Data of an ACK that the controller receives in addition to the bytes delivered.
#[derive(Clone, Copy, Debug)]
struct Notice {
    /// Bytes newly reported as CE by accurate ECN.
    accurate_ce: Option<u64>,
    /// Round-trip time of the newest segment delivered.
    rtt: Option<Dur>,
    sample: Sample,
    /// Bytes newly marked lost.
    lost: u64,
}

impl Sender {
    /// An acceptable ACK arrived.
    pub fn on_ack(&mut self, now: Time, ack: &AckIn, log: &mut Log) -> AckOut {
        debug_assert!(self.up, "an ACK before the handshake was done");
        if ack.ack > self.scoreboard.nxt() {
            self.count_probe();
        }
        self.buffer.forget_more();
        let prior_una = self.scoreboard.una();
        if ack.sacks.is_empty()
            && ack.dsack.is_none()
            && ack.accurate_ce.is_none()
            && self.on_plain_ack(now, ack.ack, ack.window, ack.ece, log)
        {
            let fin_acked = self.fin_acked();
            let fin = fin_acked && prior_una <= self.buffer.end();
            return AckOut { acked: self.scoreboard.una() - prior_una - u64::from(fin), fin_acked };
        }
        let shared =
            self.probe.shares_timer() && (self.timers.is_tlp_running() || self.timers.is_reorder_running());
        let upto = ack.ack.max(prior_una);
        let same_window = ack.ack < prior_una || ack.window == self.window.size();
        if !same_window && self.scoreboard.outstanding() == 0 && self.buffer.is_queue() && self.unsent() > 0 {
            self.restart_after_idle(now, log);
        }
        self.cc.begin_ack();
        let mut a = AckContext {
            now,
            advanced: upto > prior_una,
            dup: false,
            marked: ack.ece && self.reads_ece() || ack.accurate_ce.is_some_and(|n| n > 0),
            informs: ack.carries_data || ack.may_update || !same_window || upto > prior_una,
            bare: ack.sacks.is_empty() && ack.dsack.is_none(),
            prior_out: self.scoreboard.outstanding(),
            prior_sacked: self.scoreboard.sacked(),
        };
        a.dup = a.prior_out > 0 && !a.informs && ack.ack == prior_una;
        self.stats.ece_acks_in += u64::from(ack.ece);
        self.stats.dup_acks_in += u64::from(a.dup);

        // This precedes the removal of the records.
        let timed = self.timed_sample(now, upto);
        let dsacked = ack.dsack.as_ref().map_or(0, |span| self.retransmitted_in(span, prior_una));
        let mut d = self.nothing_delivered(now, ack);
        let known = self.scoreboard.high_sacked();
        if a.advanced {
            d.needs_whole_segments = self.rules.acks_whole_segments_only;
            self.scoreboard.ack_to(upto, &mut d);
        }
        if self.sack && !ack.sacks.is_empty() {
            let whole = self.rules.sacks_whole_segments.then_some(self.mss);
            self.scoreboard.sack(&ack.sacks, whole, &mut d);
        }
        d.late = self.reordering_distance(known, d.late);
        if ack.ack >= prior_una {
            self.update_window_size(ack.window);
        }
        self.count_duplicates(&a, &mut d);
        let plausible = ack.dsack.as_ref().is_some_and(|span| self.count_dsack(span));
        if let Some(span) = ack.dsack.as_ref().filter(|_| plausible && ack.ack >= prior_una) {
            self.count_reported_as_delivered(span, &mut d);
        }
        // Without SACK the originals above a filled hole may have arrived before the timeout.
        d.original &= self.sack || !d.ambiguous;
        d.dubious = self.state != CongestionState::Open
            || !a.informs
            || a.marked
            || d.sacked > 0
            || ack.dsack.is_some();
        let rtt = self.measure(&a, &d, ack, timed, log);
        let sample = self.deliveries.on_ack(&d, self.delivered_size(d.bytes, d.packets), self.rtt.min());
        self.note_delivery(&d, a.marked, ack.ack >= prior_una);
        if let Some(dsack) = &ack.dsack {
            self.on_dsack(now, dsack, dsacked, plausible, log);
        }
        if a.advanced {
            self.timers.on_progress(now);
        }
        self.on_answer(now, log);
        if self.window.size() == 0 {
            self.timers.on_zero_window(now);
        }

        self.reneging = a.advanced && self.seems_reneged();
        let lost = if self.reneging { 0 } else { self.update_state(&a, &d, log) };
        self.notify_ack(&a, &d, &Notice { accurate_ce: ack.accurate_ce, rtt, sample, lost }, log);
        self.update_cwnd(&a, &d, lost, log);
        self.cc.end_ack();
        self.rack.end_ack();
        self.begin_next_episode(&a, &d, lost, log);

        self.buffer.follow_window(self.cwnd);
        if a.prior_out > 0 {
            self.update_pacing();
        }
        if self.reneging {
            self.await_reneging(now, log);
        } else {
            let old_sack = self.shows_old_sack(&a, &d);
            self.update_timers_on_ack(now, TimerAck { advanced: d.cleaned, old_sack, shared }, log);
        }
        self.audit();
        AckOut { acked: d.acked - u64::from(d.fin), fin_acked: self.fin_acked() }
    }

    /// Loss detection by time and the controller learn what an ACK delivered; `newest`: it is not older than the last one, which the controller
    /// does not count.
    fn note_delivery(&mut self, d: &Delivered, marked: bool, newest: bool) {
        if self.uses_rack {
            self.rack.update(d);
            if d.late > 0 {
                self.dup_thresh.on_reordering(d.late, self.mss);
            }
        }
        if newest {
            let (acked, sent) = (self.scoreboard.una(), self.scoreboard.nxt());
            self.cc.counted(|| AckCount { acked, sent, packets: d.packets, marked });
        }
    }

    /// The reordering distance of data that arrived `late` bytes behind `known`, the highest position that was SACKed before this ACK.
    /// The distance extends to the highest position that is known to be delivered after this ACK (`tcp_check_sack_reordering`).
    fn reordering_distance(&self, known: u64, late: u64) -> u64 {
        if late == 0 {
            return 0;
        }
        let board = &self.scoreboard;
        let highest = if board.sacked() > 0 { board.high_sacked() } else { board.una() };
        highest.saturating_sub(known - late).max(late)
    }

    /// Whether the first outstanding segment is SACKed: the receiver seems to have discarded what it had SACKed (RFC 2018 section 8).
    fn seems_reneged(&self) -> bool {
        self.rules.waits_before_reneging && self.scoreboard.front().is_some_and(|head| head.is(SACKED))
    }

    /// What an ACK delivers, before its fields are processed.
    fn nothing_delivered(&self, now: Time, ack: &AckIn) -> Delivered {
        Delivered {
            now: self.clock(now),
            micros: self.rules.clock_in_micros,
            echo_ms: echo_ms(now, ack),
            min_rtt: self.rtt.windowed_min(),
            mss: self.mss,
            early: self.rtt.srtt().unwrap_or(Dur::ZERO) / 2,
            recover: self.recover,
            ..Delivered::default()
        }
    }

    /// Whether the ACK restarts the retransmission timer by SACKs of data that were sent before the last transmission of the first segment.
    fn shows_old_sack(&self, a: &AckContext, d: &Delivered) -> bool {
        let sent = d.sack_times.zip(self.scoreboard.front());
        self.rules.old_sack_restarts_timer
            && !a.advanced
            && sent.is_some_and(|((oldest, _), head)| oldest < self.clock(head.sent_at))
    }

    /// Asserts, in debug builds and while the scoreboard is small, that its counters equal a recount of its
    /// records.
    #[inline]
    fn audit(&self) {
        debug_assert!(
            self.scoreboard.len() > 32 || self.scoreboard.audit() == Ok(()),
            "{:?}",
            self.scoreboard.audit()
        );
    }

    /// The same, for properties.
    #[cfg(test)]
    pub(super) fn audit_counts(&self) -> Result<(), String> {
        self.scoreboard.audit()
    }

    /// Sets whether every ACK takes the slow path (for tests).
    #[cfg(test)]
    pub(super) fn process_in_full(&mut self, full: bool) {
        self.long_way = full;
    }

    /// Whether the ACK can take the fast path, independently of the content of the scoreboard: it moves the cumulative point, reports
    /// nothing else, no recovery or probe is in progress, and it neither begins nor ends a reduction.
    #[inline]
    fn takes_fast_path(&self, ack: u64, ece: bool) -> bool {
        #[cfg(test)]
        if self.long_way {
            return false;
        }
        let quiet = match self.state {
            CongestionState::Open => !ece,
            CongestionState::Cwr => ack <= self.recover,
            _ => false,
        };
        quiet
            && !self.segment_timer.is_active()
            && ack > self.scoreboard.una()
            && self.duplicates.is_none()
            && !self.probe.is_out()
            && self.undo.late_proof().is_none()
    }

    /// [`Sender::on_ack`] for an ACK without SACK blocks, DSACK and count of marks, if the fast path
    /// suffices. Returns whether it did; otherwise nothing has changed.
    #[inline]
    pub fn on_plain_ack(&mut self, now: Time, ack: u64, window: u64, ece: bool, log: &mut Log) -> bool {
        if self.takes_fast_path(ack, ece)
            && let Some(run) = self.scoreboard.ack_run(ack, self.mss, self.rack.newest())
        {
            self.on_run(now, window, ece, &run, log);
            return true;
        }
        false
    }

    /// The fast path: the steps of the slow path without those that cannot apply to an ACK for which
    /// [`Sender::takes_fast_path`] is true.
    #[expect(clippy::inline_always, reason = "once for each packet, from one place")]
    #[inline(always)]
    fn on_run(&mut self, now: Time, window: u64, ece: bool, run: &Run, log: &mut Log) {
        self.buffer.forget_more();
        self.cc.begin_ack();
        count(&mut self.stats.ece_acks_in, u64::from(ece));
        let last = &run.last;
        let bytes = self.scoreboard.una() - run.start;
        self.update_window_size(window);
        let clock = self.clock(now);
        let sent_at = self.clock(last.sent_at);
        let newest = clock.since(sent_at);
        self.rtt.observe_min(now, newest);
        self.take_rtt_sample(now, clock.since(self.clock(run.first_sent_at)), log);
        let delivered = self.delivered_size(bytes, run.packets);
        let sample = self.deliveries.on_run((clock, sent_at), bytes, delivered, run, self.rtt.min());
        if self.uses_rack {
            self.rack.update_in_order(newest, last.sent_at, last.end());
            self.timers.set_reorder(now, Time::MAX, log);
            if self.rules.rack_awaits_delivery && self.state != CongestionState::Open {
                self.rack.take_advanced();
            }
        }
        self.timers.on_progress(now);
        self.on_answer(now, log);
        let marked = ece && self.reads_ece();
        self.deliveries.add_marked(if marked { bytes } else { 0 });
        let (acked, sent) = (self.scoreboard.una(), self.scoreboard.nxt());
        self.cc.counted(|| AckCount { acked, sent, packets: run.packets, marked });
        let event = Event::Ack(Ack {
            acked: Bytes::new(bytes - u64::from(last.is(FIN))),
            delivered: Bytes::new(delivered),
            lost: Bytes::ZERO,
            marked: Bytes::new(if marked { delivered } else { 0 }),
            rtt: Some(newest),
            sample: sample.rate,
            app_limited: sample.app_limited,
            round: self.deliveries.round(),
            reordered: self.dup_thresh.is_raised(),
        });
        self.on_event(now, &event, WindowCause::Ack, log);
        if self.state == CongestionState::Open || self.cc.governs_recovery() {
            self.cwnd = self.target();
        } else if self.cfg.cwr_by_prr {
            self.reduce_by_prr(now, &Step::delivered(delivered), log);
        }
        self.cc.end_ack();
        self.buffer.follow_window(self.cwnd);
        self.update_pacing();
        self.update_timers_on_ack(now, TimerAck { advanced: true, old_sack: false, shared: false }, log);
        self.audit();
    }

    /// Resets the counters whose limits end a connection if the peer does not answer.
    #[inline]
    fn on_answer(&mut self, now: Time, log: &mut Log) {
        if self.persist.on_ack() {
            self.timers.restart_user_timeout(now);
            if self.rules.ack_restarts_window_probe {
                let wait = self.persist_wait();
                self.persist.restart(now, wait, log);
            }
        }
    }

    /// The number of bytes of a reported duplicate that retransmissions may have caused. Below `una`
    /// (SND.UNA before the ACK) there are no records, so all bytes count; above it only retransmitted bytes.
    fn retransmitted_in(&self, span: &Span, una: u64) -> u64 {
        if span.end <= una { span.end - span.start } else { self.scoreboard.retransmitted_in(span) }
    }

    /// Whether a reported duplicate can be of a retransmission: it is no longer than any window, and not more segments were reported than were
    /// retransmitted. On Linux duplicates that the network made count, too (`tcp_dsack_seen`).
    fn count_dsack(&mut self, span: &Span) -> bool {
        let length = span.end - span.start;
        if length > self.window.largest() {
            return false;
        }
        let reported = self.stats.reported + length.div_ceil(self.mss);
        let plausible = reported <= self.stats.retransmissions;
        if plausible || self.rules.dsack_is_delivered {
            self.stats.reported = reported;
        }
        plausible
    }

    /// Linux counts the segments of a reported duplicate as delivered (`tcp_dsack_seen`).
    fn count_reported_as_delivered(&self, span: &Span, d: &mut Delivered) {
        if self.rules.dsack_is_delivered {
            let segments = (span.end - span.start).div_ceil(self.mss);
            d.packets += segments;
            d.bytes += segments * self.mss;
        }
    }

    /// The receiver reported a duplicate, of which `retransmitted` bytes can be of retransmissions. More duplicates than
    /// there were retransmissions, or longer than any window, were made by the network (RFC 3708 section 2; Linux since 5.10) and prove
    /// nothing. RACK counts every one (RFC 8985 section 6.2 step 4); in Linux none that the network made, that reports a probe, or that came
    /// before reordering was seen.
    fn on_dsack(&mut self, now: Time, span: &Span, retransmitted: u64, plausible: bool, log: &mut Log) {
        self.probe.on_dsack(span);
        let likely = plausible && self.dup_thresh.reorderings() > 0 && !self.probe.ends_at(span.end);
        if self.uses_rack && (likely || !self.rules.rack_heeds_likely_reports_only) {
            self.rack.on_dsack(self.scoreboard.una(), self.scoreboard.nxt());
        }
        if !plausible {
            return;
        }
        self.undo.on_dsack(span.end, retransmitted);
        self.stats.spurious += (span.end - span.start).div_ceil(self.mss);
        log.put(now, || LogEvent::Spurious { start: span.start, end: span.end, why: "dsack" });
    }

    /// Counts duplicate ACKs. Without SACK each stands for a segment that left the network, which counts as delivered.
    fn count_duplicates(&mut self, a: &AckContext, d: &mut Delivered) {
        if self.sack {
            self.duplicates.on_sack(a.advanced, d.sacked > 0);
            return;
        }
        // Linux counts segments, of which the last may be short.
        let outstanding = if self.rules.emulates_sack && self.counts_packets() {
            self.scoreboard.packets(self.unit()) * self.mss
        } else {
            self.scoreboard.outstanding()
        };
        let now = RenoState {
            state: self.state,
            recovered: self.scoreboard.una() >= self.recover,
            sent_beyond: self.scoreboard.nxt() > self.recover,
            outstanding,
            lost: self.scoreboard.lost(),
            mss: self.mss,
            emulates_sack: self.rules.emulates_sack,
        };
        if a.advanced {
            let (known, excess) = self.duplicates.on_advance(d.acked, &now);
            if excess {
                let packets = (now.outstanding + d.acked).div_ceil(self.mss);
                self.dup_thresh.on_excess_duplicates(packets);
            }
            if known > 0 {
                d.bytes -= known.min(d.bytes);
                d.packets = d.bytes.div_ceil(self.mss);
            }
        } else if a.dup
            && !self.is_held()
            && let Some(counted) = self.duplicates.on_duplicate(&now)
        {
            if counted.excess && self.rules.emulates_sack {
                self.dup_thresh.on_excess_duplicates(now.outstanding.div_ceil(self.mss));
            }
            d.bytes += counted.bytes;
            d.packets += u64::from(counted.bytes > 0);
        }
    }

    /// Without SACK Linux stays in recovery and Loss when exactly the data that they began with are acknowledged; duplicates are
    /// not counted then (`tcp_process_loss`, step D of `tcp_fastretrans_alert`).
    fn is_held(&self) -> bool {
        self.rules.holds_recovery_without_sack
            && matches!(self.state, CongestionState::Recovery | CongestionState::Loss)
            && self.scoreboard.una() >= self.recover
    }

    /// Round-trip samples: Karn's rule by position, the timestamp where positions are ambiguous. Returns the controller's
    /// sample, of the newest segment.
    fn measure(
        &mut self,
        a: &AckContext,
        d: &Delivered,
        ack: &AckIn,
        timed: Option<Dur>,
        log: &mut Log,
    ) -> Option<Dur> {
        let in_order = self.rules.samples_in_order_only && !self.uses_rack;
        let sack_times = d.sack_times.filter(|_| !in_order);
        let by_position = if d.ambiguous { None } else { d.times }.or(sack_times);
        let rtt = match by_position {
            Some((first, _)) => Some(d.now.since(first)),
            None if d.cleaned && self.timestamps => timestamp_rtt(ack),
            None => None,
        };
        // The newest SACKed segment takes precedence over the newest acknowledged one; the timestamp is used
        // if there is neither (Linux `ca_rtt_us`).
        let newest = d.sack_times.or(by_position).map(|(_, last)| d.now.since(last)).or(rtt);
        if let Some(newest) = newest {
            self.rtt.observe_min(a.now, newest);
        }
        let taken = if self.segment_timer.is_active() { timed } else { rtt };
        if let Some(rtt) = taken {
            self.take_rtt_sample(a.now, rtt, log);
        }
        newest
    }

    /// The sample of the timed segment, if the stack times one segment at a time and this ACK covers it.
    fn timed_sample(&mut self, now: Time, upto: u64) -> Option<Dur> {
        let (una, nxt) = (self.scoreboard.una(), self.scoreboard.nxt());
        if self.state == CongestionState::Recovery && una < upto && upto < self.recover {
            // `tcp_sack_partialack`
            self.segment_timer.restart(nxt);
        }
        self.segment_timer.on_ack(now, upto, nxt, |position| self.scoreboard.sent_at(position))
    }

    #[inline]
    fn take_rtt_sample(&mut self, now: Time, rtt: Dur, log: &mut Log) {
        self.rtt.sample(rtt, self.scoreboard.una(), self.scoreboard.nxt());
        self.probe.on_sample();
        log.put(now, || LogEvent::Rtt {
            sample: rtt,
            srtt: self.rtt.srtt().expect("a sample was taken"),
            rto: self.rtt.rto(),
        });
    }

    fn notify_ack(&mut self, a: &AckContext, d: &Delivered, notice: &Notice, log: &mut Log) {
        if d.acked == 0 && d.bytes == 0 && notice.lost == 0 && !a.marked {
            return;
        }
        let delivered = self.delivered_size(d.bytes, d.packets);
        let (marked, marked_size) = match (self.ecn, notice.accurate_ce) {
            (EcnMode::Accurate, Some(n)) => (n, n),
            _ if a.marked => (d.bytes, delivered),
            _ => (0, 0),
        };
        self.deliveries.add_marked(marked);
        let event = Event::Ack(Ack {
            acked: Bytes::new(d.counted()),
            delivered: Bytes::new(delivered),
            lost: Bytes::new(notice.lost),
            marked: Bytes::new(marked_size),
            rtt: notice.rtt,
            sample: notice.sample.rate,
            app_limited: notice.sample.app_limited,
            round: self.deliveries.round(),
            // A reported duplicate alone is no progress (FLAG_FORWARD_PROGRESS).
            reordered: self.dup_thresh.is_raised() && (a.advanced || d.sacked > 0),
        });
        self.on_event(a.now, &event, WindowCause::Ack, log);
    }
}

/// The millisecond in which the echoed timestamp was made: the model's clock of one millisecond, independently of its offset.
fn echo_ms(now: Time, ack: &AckIn) -> Option<u64> {
    let age = ack.ts_now.wrapping_sub(ack.ts_ecr?);
    (now.as_nanos() / 1_000_000).checked_sub(u64::from(age))
}

/// RFC 7323 section 4: the round trip by timestamp, at least one tick.
fn timestamp_rtt(ack: &AckIn) -> Option<Dur> {
    let ticks = ack.ts_now.wrapping_sub(ack.ts_ecr?);
    (ticks < 1 << 31).then(|| Dur::from_millis(u64::from(ticks.max(1))))
}
