//! What happens on an ACK, in order: scoreboard, round-trip time, delivery rate, loss detection and congestion state,
//! the controller, the window, the timers.
//!
//! Sources: RFC 5681, RFC 6675 section 5; `tcp_ack` of Linux for the order.

use super::Sender;
use super::board::FIN;
use super::delivery::{Delivered, Run, Sample};
use super::prr::Step;
use crate::config::{EcnMode, StackFlavor};
use crate::log::{CongestionState, Log, LogEvent};
use crate::messages::{AckIn, AckOut, Span};
use tcpassay_cc::{Ack, Event};
use tcpassay_units::{Bytes, Dur, Time, count};

/// What the rest of the work needs to know of the ACK and of the state before it.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one ACK")]
pub(super) struct Arrival {
    pub now: Time,
    /// The cumulative point moved.
    pub advanced: bool,
    /// A duplicate ACK (RFC 5681 section 2).
    pub dup: bool,
    /// Marks were reported.
    pub marked: bool,
    pub dsack: Option<Span>,
    /// The ACK carried payload, moved the window or the cumulative point (Linux `FLAG_NOT_DUP`).
    pub informs: bool,
    /// It has no SACK option.
    pub bare: bool,
    /// Flight size before.
    pub prior_out: u64,
    /// SACKed bytes before.
    pub prior_sacked: u64,
}

impl Arrival {
    /// A timer stands in for an ACK that brought nothing.
    pub fn timer(now: Time, out: u64, sacked: u64) -> Arrival {
        Arrival {
            now,
            advanced: false,
            dup: false,
            marked: false,
            dsack: None,
            informs: false,
            bare: true,
            prior_out: out,
            prior_sacked: sacked,
        }
    }
}

impl Sender {
    /// An acceptable ACK arrived.
    pub fn on_ack(&mut self, now: Time, ack: &AckIn, log: &mut Log) -> AckOut {
        debug_assert!(self.up, "an ACK before the handshake was done");
        if ack.ack > self.board.nxt {
            self.count_probe();
        }
        // What Linux sends because of an ACK no longer knows of `MSG_MORE` (`tcp_data_snd_check`).
        self.buf.more = false;
        let prior_una = self.board.una;
        if ack.sacks.is_empty()
            && ack.dsack.is_none()
            && ack.accurate_ce.is_none()
            && self.on_plain_ack(now, ack.ack, ack.window, ack.ece, log)
        {
            let fin_acked = self.fin_acked();
            let fin = fin_acked && prior_una <= self.buf.end;
            return AckOut { acked: self.board.una - prior_una - u64::from(fin), fin_acked };
        }
        let shared = self.one_timer() && (self.timers.tlp != Time::MAX || self.timers.reorder != Time::MAX);
        self.cc.begin_ack();
        let upto = ack.ack.max(prior_una);
        let same_window = ack.ack < prior_una || ack.window == self.wnd;
        let mut a = Arrival {
            now,
            advanced: upto > prior_una,
            dup: false,
            marked: ack.ece && self.hears_ece() || ack.accurate_ce.is_some_and(|n| n > 0),
            dsack: ack.dsack.clone(),
            informs: ack.carries_data || ack.may_update || !same_window || upto > prior_una,
            bare: ack.sacks.is_empty() && ack.dsack.is_none(),
            prior_out: self.board.outstanding(),
            prior_sacked: self.board.sacked,
        };
        a.dup = a.prior_out > 0 && !a.informs && ack.ack == prior_una;
        self.stats.ece_acks_in += u64::from(ack.ece);
        self.stats.dup_acks_in += u64::from(a.dup);

        // Before the records are gone.
        let timed = if self.times_one { self.timed_sample(now, upto) } else { None };
        let dsacked = ack.dsack.as_ref().map_or(0, |span| self.retransmitted_in(span, prior_una));
        let mut d = Delivered {
            now,
            echo_ms: echo_ms(now, ack),
            min_rtt: self.rtt.windowed_min(),
            mss: self.mss,
            early: self.rtt.srtt.unwrap_or(Dur::ZERO) / 2,
            recover: self.recover,
            ..Delivered::default()
        };
        if a.advanced {
            self.board.ack_to(upto, &mut d);
        }
        if self.sack && !ack.sacks.is_empty() {
            let whole = (self.cfg.flavor == StackFlavor::Linux).then_some(self.mss);
            self.board.sack(&ack.sacks, whole, &mut d);
        }
        if ack.ack >= prior_una {
            self.wnd = ack.window;
            if ack.window > self.max_wnd {
                self.widen(ack.window);
            }
        }
        self.count_duplicates(&a, &mut d);
        if !self.sack && d.ambiguous {
            // Without SACK the originals above a filled hole may have arrived before the timeout.
            d.original = false;
        }
        let rtt = self.measure(&a, &d, ack, timed, log);
        let sample = self.deliveries.on_ack(&d, self.rtt.min);
        if self.racks() {
            self.rack.update(&d);
            if d.late > 0 {
                self.reordering.seen(d.late, self.mss);
            }
        }
        if let Some(dsack) = &a.dsack {
            self.on_dsack(now, dsack, dsacked, log);
        }
        if a.advanced {
            self.timers.on_progress(now);
        }
        self.timers.on_answer(now);
        if self.wnd == 0 {
            self.timers.on_shut(now);
        }

        let lost = self.move_state(&a, &d, log);
        self.tell_ack(&a, &d, ack, rtt, sample, lost, log);
        self.update_window(&a, &d, lost, log);
        self.cc.end_ack();
        self.rack.end_ack();
        self.follow_up(&a, &d, log);

        self.buf.follow(self.cwnd);
        if a.prior_out > 0 {
            self.update_pacing();
        }
        self.update_timers_on_ack(now, a.advanced, shared, log);
        debug_assert!(self.board.len() > 32 || self.board.audit() == Ok(()), "{:?}", self.board.audit());
        AckOut { acked: d.acked - u64::from(d.fin), fin_acked: self.fin_acked() }
    }

    /// Whether the ACK brings nothing that needs thought, whatever the scoreboard says: it moves the cumulative point, reports
    /// nothing else, finds no recovery or probe under way, and neither begins nor ends a reduction.
    #[inline]
    fn expects(&self, ack: u64, ece: bool) -> bool {
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
            && !self.times_one
            && ack > self.board.una
            && self.dup_acks == 0
            && self.dup_bytes == 0
            && !self.probe.is_out()
            && self.late_proof().is_none()
    }

    /// [`Sender::on_ack`] for an ACK without SACK blocks, DSACK and count of marks, where the short way will do; says whether
    /// it did.
    #[inline]
    pub fn on_plain_ack(&mut self, now: Time, ack: u64, window: u64, ece: bool, log: &mut Log) -> bool {
        if self.expects(ack, ece)
            && let Some(run) = self.board.ack_run(ack, self.mss, self.rack.newest())
        {
            self.on_run(now, window, ece, &run, log);
            return true;
        }
        false
    }

    /// The same work as the long way, less what an ACK that [`Sender::expects`] cannot find.
    #[expect(clippy::inline_always, reason = "once for each packet, from one place")]
    #[inline(always)]
    fn on_run(&mut self, now: Time, window: u64, ece: bool, run: &Run, log: &mut Log) {
        self.buf.more = false;
        self.cc.begin_ack();
        count(&mut self.stats.ece_acks_in, u64::from(ece));
        let last = &run.last;
        let bytes = self.board.una - run.start;
        self.wnd = window;
        if window > self.max_wnd {
            self.widen(window);
        }
        let newest = now.since(last.sent_at);
        self.rtt.observe_min(now, newest);
        self.take_rtt_sample(now, now.since(run.first_sent_at), log);
        let sample = self.deliveries.on_run(now, bytes, run, self.rtt.min);
        if self.racks() {
            self.rack.update_in_order(now, last.sent_at, last.end());
            self.timers.set_reorder(now, Time::MAX, log);
        }
        self.timers.on_progress(now);
        self.timers.on_answer(now);
        let marked = if ece && self.hears_ece() { bytes } else { 0 };
        self.deliveries.marked += marked;
        let event = Event::Ack(Ack {
            acked: Bytes::new(bytes - u64::from(last.is(FIN))),
            delivered: Bytes::new(bytes),
            lost: Bytes::ZERO,
            marked: Bytes::new(marked),
            rtt: Some(newest),
            delivery_rate: sample.rate,
            app_limited: sample.app_limited,
            round: self.deliveries.round,
            reordered: false,
        });
        self.tell(now, &event, "ack", log);
        if self.state == CongestionState::Open {
            self.cwnd = self.cc.control.cwnd.get();
        } else if self.cfg.cwr_by_prr {
            self.reduce_by_prr(now, &Step::delivered(self.delivered_size(bytes, run.packets)), log);
        }
        self.cc.end_ack();
        self.buf.follow(self.cwnd);
        self.update_pacing();
        self.update_timers_on_ack(now, true, false, log);
        debug_assert!(self.board.len() > 32 || self.board.audit() == Ok(()), "{:?}", self.board.audit());
    }

    /// Duplicate ACKs: with SACK those that report something new (RFC 6675 section 2), also when they advance, which resets the
    /// count first (section 5); without it each stands for a segment that left the network.
    fn count_duplicates(&mut self, a: &Arrival, d: &mut Delivered) {
        if self.sack {
            if a.advanced {
                self.dup_acks = 0;
            }
            self.dup_acks += u32::from(d.sacked > 0);
            return;
        }
        if a.advanced {
            self.dup_acks = 0;
            // One segment of the partial ACK filled the hole; the rest had been counted by their duplicates.
            let linux = self.cfg.flavor == StackFlavor::Linux;
            let recovering = self.state == CongestionState::Recovery;
            let hole = if recovering || linux { self.mss } else { 0 };
            let known = self.dup_bytes.min(d.acked.saturating_sub(hole));
            // Linux forgets them outside recovery (`tcp_fastretrans_alert`), and when it ends there (step D).
            let over = if linux { !recovering || self.board.una >= self.recover } else { false };
            let forgets = over || self.state == CongestionState::Loss || self.board.outstanding() == 0;
            self.dup_bytes = if forgets { 0 } else { self.dup_bytes - known };
            if known > 0 {
                d.bytes -= known.min(d.bytes);
                d.packets = d.bytes.div_ceil(self.mss);
            }
        } else if a.dup
            && !self.is_held()
            && (self.state != CongestionState::Loss || self.board.nxt > self.recover)
        {
            // During F-RTO a duplicate means that its new data arrived.
            self.dup_acks += 1;
            let most = self.board.outstanding() - self.board.lost.max(self.mss).min(self.board.outstanding());
            let more = self.mss.min(most.saturating_sub(self.dup_bytes));
            if more < self.mss && self.cfg.flavor == StackFlavor::Linux {
                // More duplicates than there can be: the network makes them, or segments overtake each other
                // (`tcp_check_reno_reordering`).
                self.reordering.at_most(self.board.outstanding().div_ceil(self.mss));
            }
            self.dup_bytes += more;
            d.bytes += more;
            d.packets += u64::from(more > 0);
        }
    }

    /// Without SACK Linux stays in recovery and Loss when all of what they began with is acknowledged, and nothing more; duplicates are
    /// not counted then (`tcp_process_loss`, step D of `tcp_fastretrans_alert`).
    fn is_held(&self) -> bool {
        self.cfg.flavor == StackFlavor::Linux
            && matches!(self.state, CongestionState::Recovery | CongestionState::Loss)
            && self.board.una >= self.recover
    }

    /// Round-trip samples: Karn's rule by position, the timestamp where positions are ambiguous. Gives the controller's
    /// sample, of the newest segment.
    fn measure(
        &mut self,
        a: &Arrival,
        d: &Delivered,
        ack: &AckIn,
        timed: Option<Dur>,
        log: &mut Log,
    ) -> Option<Dur> {
        // The base stack of FreeBSD measures what is acknowledged in order alone (`tcp_xmit_timer`).
        let in_order = self.cfg.flavor == StackFlavor::FreeBsd && !self.racks();
        let sack_times = d.sack_times.filter(|_| !in_order);
        let by_position = if d.ambiguous { None } else { d.times }.or(sack_times);
        let rtt = match by_position {
            Some((first, _)) => Some(a.now.since(first)),
            None if a.advanced && self.timestamps => timestamp_rtt(ack),
            None => None,
        };
        // What was SACKed last before what was acknowledged last, and the timestamp where there is neither (Linux `ca_rtt_us`).
        let newest = d.sack_times.or(by_position).map(|(_, last)| a.now.since(last)).or(rtt);
        if let Some(newest) = newest {
            self.rtt.observe_min(a.now, newest);
        }
        let taken = if self.times_one { timed } else { rtt };
        if let Some(rtt) = taken {
            self.take_rtt_sample(a.now, rtt, log);
        }
        newest
    }

    /// Without timestamps FreeBSD times one segment after the other: the first new one since the last sample or retransmission
    /// (`t_rtttime`, `t_rtseq`). Gives the sample when it is acknowledged; what is timed next leaves after this.
    fn timed_sample(&mut self, now: Time, upto: u64) -> Option<Dur> {
        if self.state == CongestionState::Recovery && self.board.una < upto && upto < self.recover {
            // `tcp_sack_partialack`
            self.timed = self.board.nxt;
        }
        if upto <= self.timed {
            return None;
        }
        let sent = self.board.sent_at(self.timed);
        self.timed = self.board.nxt;
        sent.map(|at| now.since(at))
    }

    #[inline]
    fn take_rtt_sample(&mut self, now: Time, rtt: Dur, log: &mut Log) {
        self.rtt.sample(rtt, self.board.una, self.board.nxt);
        self.probe.measured = true;
        log.put(now, || LogEvent::Rtt {
            sample: rtt,
            srtt: self.rtt.srtt.expect("a sample was taken"),
            rto: self.rtt.rto(),
        });
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one event")]
    fn tell_ack(
        &mut self,
        a: &Arrival,
        d: &Delivered,
        ack: &AckIn,
        rtt: Option<Dur>,
        sample: Sample,
        lost: u64,
        log: &mut Log,
    ) {
        if d.acked == 0 && d.bytes == 0 && lost == 0 && !a.marked {
            return;
        }
        let marked = match (self.ecn, ack.accurate_ce) {
            (EcnMode::Accurate, Some(n)) => n,
            _ if a.marked => d.bytes,
            _ => 0,
        };
        self.deliveries.marked += marked;
        let event = Event::Ack(Ack {
            acked: Bytes::new(d.acked - u64::from(d.fin)),
            delivered: Bytes::new(d.bytes),
            lost: Bytes::new(lost),
            marked: Bytes::new(marked),
            rtt,
            delivery_rate: sample.rate,
            app_limited: sample.app_limited,
            round: self.deliveries.round,
            reordered: self.reordering.is_raised(),
        });
        self.tell(a.now, &event, "ack", log);
    }
}

/// The millisecond in which the echoed timestamp was made: our clock of one millisecond, whatever its offset.
fn echo_ms(now: Time, ack: &AckIn) -> Option<u64> {
    let age = ack.ts_now.wrapping_sub(ack.ts_ecr?);
    (now.as_nanos() / 1_000_000).checked_sub(u64::from(age))
}

/// RFC 7323 section 4: the round trip by timestamp, at least one tick.
fn timestamp_rtt(ack: &AckIn) -> Option<Dur> {
    let ticks = ack.ts_now.wrapping_sub(ack.ts_ecr?);
    (ticks < 1 << 31).then(|| Dur::from_millis(u64::from(ticks.max(1))))
}
