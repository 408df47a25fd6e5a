//! Timers that fire, and the timers that an ACK sets.
//!
//! Sources: RFC 6298 section 5, RFC 5681 section 3.1, RFC 6675 section 5.1, RFC 8985 sections 6.3 and 7; RFC 9293
//! section 3.8.6.1; `tcp_enter_loss`, `tcp_send_loss_probe`, `tcp_rearm_rto`, `tcp_check_probe_timer` of Linux.

use super::Sender;
use super::ack::AckContext;
use super::delivery::Delivered;
use super::detect::log_lost;
use super::in_flight::Flight;
use super::local_drop;
use super::loss::rto::Frto;
use super::loss::tlp::ProbeInput;
use super::persist::Wait;
use super::scoreboard::sent::{EVER, SACKED, Sent};
use super::timers::TimerAck;
use crate::config::Recovery;
use crate::log::{CongestionCause, CongestionState as Ca, Log, LossRule};
use crate::messages::{Chunk, GaveUp};
use tcpassay_cc::{Event, View};
use tcpassay_units::{Bytes, Dur, Time};

/// Longest time that cork holds a partial segment.
const CORK: Dur = Dur::from_millis(200);

/// The least time for which Linux waits for further ACKs when the receiver seems to have discarded SACKed data
/// (`tcp_check_sack_reneging`).
const RENEGING_WAIT: Dur = Dur::from_millis(10);

/// The time of this number of retransmissions with `TCP_RTO_MIN`, doubled up to `TCP_RTO_MAX` (`tcp_model_timeout`).
fn time_of_retries(retries: u32) -> Dur {
    /// The doublings of 200 ms below 120 s.
    const DOUBLINGS: u32 = 9;
    let doubled = Dur::from_millis(200) * ((2_u64 << retries.min(DOUBLINGS)) - 1);
    let more = Dur::from_secs(120).saturating_mul(u64::from(retries.saturating_sub(DOUBLINGS)));
    doubled.saturating_add(more)
}

impl Sender {
    /// The earliest deadline, or [`Time::MAX`].
    #[inline]
    pub fn deadline(&self) -> Time {
        let timers = self.timers.deadline(self.has_new());
        timers.min(self.persist.deadline()).min(self.pacer.deadline())
    }

    /// Runs every timer that is due. The next polls return the segments to send.
    pub fn on_timer(&mut self, now: Time, log: &mut Log) -> Result<(), GaveUp> {
        if self.pacer.deadline() <= now {
            // The next poll may send. The pacing timer stops, because a host whose queue has no room polls later without a timer.
            self.pacer.rest();
        }
        if self.timers.reorder_fires(now, log) {
            self.on_reorder_timer(now, log);
        }
        if self.timers.tlp_fires(now, log) {
            self.on_probe_timer(now, log);
        }
        if self.timers.rto_fires(now, log) {
            self.on_rto(now, log)?;
        }
        self.timers.end_pause(now);
        if self.persist.fires(now, log) {
            self.on_persist_timer(now, log)?;
        }
        if self.timers.cork_fires(now, log) && self.rules.probe_timer_uncorks {
            self.buffer.push_all();
        }
        Ok(())
    }

    /// RFC 8985 section 6.3: the reordering window passed without the missing segments.
    fn on_reorder_timer(&mut self, now: Time, log: &mut Log) {
        let scan = self.detect_by_time(now, log);
        log_lost(now, scan.first..scan.last, scan.lost, LossRule::Rack, log);
        if self.rules.probe_shares_timer {
            // The retransmission timer was replaced, and runs again from the transmission of the first segment.
            self.rearm(now, self.head_timeout(now).since(now), log);
        }
        let begins = match self.state {
            Ca::Open | Ca::Disorder | Ca::Cwr => true,
            Ca::Recovery => false,
            Ca::Loss => self.rules.lost_retransmission_begins_recovery,
        };
        if scan.lost > 0 && begins {
            if self.path_probe_lost(now, log) {
                return;
            }
            let a = AckContext::timer(now, self.scoreboard.outstanding(), self.scoreboard.sacked());
            self.enter_recovery(now, self.flight(), log);
            let delivered = if self.rules.reordering_timer_counts_delivery {
                Delivered { bytes: self.mss, packets: 1, ..Delivered::default() }
            } else {
                Delivered::default()
            };
            self.update_cwnd(&a, &delivered, scan.lost, log);
            // No probe is sent in recovery (RFC 8985 section 7.2).
            self.timers.stop_tlp();
        }
    }

    /// The flight at present.
    pub(super) fn flight(&self) -> Flight {
        let size = self.scoreboard.outstanding();
        Flight { size, undelivered: size - self.scoreboard.sacked() }
    }

    /// The probe timer fired: the next poll sends the probe, and the RTO is restarted (RFC 8985 section 7.3).
    fn on_probe_timer(&mut self, now: Time, log: &mut Log) {
        self.limits.on_timer(now, self.last_sent.max(self.timers.progress()));
        // If a probe is outstanding, the shared timer continues as the RTO.
        let wait = if self.probe.on_timer() { self.rtt.rto() } else { self.head_timeout(now).since(now) };
        self.timers.set_rto(now, wait, log);
    }

    /// The retransmission timer has fired as often, or in Linux after such a time, that the connection is given up. `again`: it had fired before
    /// without progress between.
    fn retries_are_over(&self, now: Time, again: bool) -> bool {
        if !self.rules.retries_are_a_time {
            return self.timers.timeouts() > self.cfg.retries;
        }
        // Both in ticks of the timestamp clock.
        let ms = |at: Time| at.as_nanos() / 1_000_000;
        let over = |first: Time| ms(now) - ms(first) >= time_of_retries(self.cfg.retries).as_millis();
        again && self.undo.first().is_some_and(over)
    }

    /// The retransmission timer fired.
    fn on_rto(&mut self, now: Time, log: &mut Log) -> Result<(), GaveUp> {
        self.stats.timeouts += 1;
        self.limits.on_timer(now, self.last_sent.max(self.timers.progress()));
        let again = self.timers.count_timeout();
        if self.timers.user_timeout_over(now) {
            return Err(GaveUp::UserTimeout);
        }
        if self.retries_are_over(now, again) {
            return Err(GaveUp::Retries);
        }
        self.check_black_hole(now, !again);
        let flight = self.scoreboard.outstanding();
        if matches!(self.state, Ca::Open | Ca::Disorder) {
            self.dup_thresh.on_timeout(self.scoreboard.sacked() / self.mss);
        }
        let reneged = self.scoreboard.front().is_some_and(|s| s.is(SACKED));
        if reneged {
            self.scoreboard.renege();
        }
        self.reneging = false;
        let fresh = matches!(self.state, Ca::Open | Ca::Disorder | Ca::Cwr);
        let restarts = self.rules.frto_restarts_on_any_timeout;
        // In Linux any progress continues the algorithm, also if it is a part of the retransmission (`tcp_process_loss`).
        let head = match self.scoreboard.front() {
            Some(s) if !restarts => s.end().min(s.start + self.mss),
            _ => 0,
        };
        self.repairs_beside_frto = false;
        self.frto =
            if self.cfg.frto { self.frto.on_timeout(fresh, again, restarts, head) } else { Frto::Off };
        if fresh {
            self.begin_undo();
        }
        let (una, nxt) = (self.scoreboard.una(), self.scoreboard.nxt());
        let lost = if self.uses_rack && !reneged {
            let input = self.rack_input();
            self.rack.mark_on_timeout(self.clock(now), &input, &mut self.scoreboard)
        } else {
            self.scoreboard.mark_where(|_| true)
        };
        log_lost(now, una..nxt, lost, LossRule::Rto, log);
        self.duplicates.clear();
        self.recover = nxt;
        self.probe.cancel();
        self.timers.stop_tlp();
        self.timers.stop_reorder();
        if !self.local_drop.is_active() {
            self.rtt.back_off();
        }
        self.set_state(now, Ca::Loss, CongestionCause::Rto, log);
        let event = Event::Timeout { flight: Bytes::new(self.reduced_from(flight)), again };
        let view = View { flight: Bytes::new(self.in_flight()), ..self.view(now) };
        let kept = if self.rules.timeout_keeps_flight { view.flight } else { Bytes::ZERO };
        self.cc.on_timeout(&view, &event, kept + Bytes::new(self.mss), log);
        self.cwnd = self.target();
        self.reducing = true;
        self.announce_cwr();
        self.force_retransmit = true;
        let wait = if self.local_drop.is_active() { local_drop::RETRY } else { self.rtt.rto() };
        self.timers.set_rto(now, wait, log);
        Ok(())
    }

    /// RFC 9293 section 3.8.6.1: probes with exponential back-off. Unanswered probes end as in Linux.
    fn on_persist_timer(&mut self, now: Time, log: &mut Log) -> Result<(), GaveUp> {
        let retries_over = self.persist.unanswered() >= self.cfg.retries;
        if self.local_drop.is_active() {
            let wait = self.local_drop.retry(now, self.cfg.user_timeout).ok_or(GaveUp::UserTimeout)?;
            if retries_over {
                return Err(GaveUp::Retries);
            }
            self.persist.retry(now, wait, log);
            return Ok(());
        }
        if self.timers.user_timeout_over(now) {
            return Err(GaveUp::UserTimeout);
        }
        if retries_over {
            return Err(GaveUp::Retries);
        }
        self.persist.on_timer(self.window.size() > 0);
        Ok(())
    }

    /// The peer's window, or the local interface, prevents all transmissions: the timer of window probes runs. It waits for the RTO
    /// within its bounds, or for what FreeBSD computes (`tcp_setpersist`).
    pub(super) fn start_persist(&mut self, now: Time, log: &mut Log) {
        let wait = self.persist_wait();
        if self.persist.start(now, wait, log) {
            self.timers.restart_user_timeout(now);
        }
    }

    /// The wait before a window probe.
    pub(super) fn persist_wait(&self) -> Wait {
        let (rto, ticks) = (&self.cfg.rto, self.cfg.timer_ticks);
        match self.cfg.persist {
            None => {
                let least = self.rules.least_window_probe;
                let shift = if self.rules.ack_restarts_window_probe { self.rtt.backoff() } else { 0 };
                Wait { first: self.rtt.rto().max(least), min: rto.min.max(least), max: rto.max, shift, ticks }
            }
            Some(persist) => {
                let srtt = self.rtt.srtt().unwrap_or(Dur::ZERO);
                let first = srtt * 4 + self.rtt.rttvar() * 8;
                Wait { first, min: persist.min, max: persist.max, shift: 0, ticks }
            }
        }
    }

    /// A zero-window probe: no data, at the position before the first unacknowledged one, so that the peer must answer; FreeBSD's
    /// is the next byte, which counts as sent but not as in flight (`TF_FORCEDATA`).
    pub(super) fn window_probe(&mut self, now: Time) -> Option<Chunk> {
        if !self.persist.take_probe() {
            return None;
        }
        let nxt = self.scoreboard.nxt();
        let (span, push) = if self.cfg.persist.is_some() && self.unsent() > 0 {
            self.persist.on_probe_sent(now, nxt);
            (nxt..nxt + 1, nxt + 1 == self.buffer.end())
        } else {
            let at = self.scoreboard.una() - 1;
            (at..at, false)
        };
        Some(Chunk { span, fin: false, push, retransmission: false, cwr: false, ect: false })
    }

    /// An ACK shows that the byte of a window probe has arrived: it was sent then, once or more often.
    pub(super) fn count_probe(&mut self) {
        let start = self.scoreboard.nxt();
        let Some(sent_at) = self.persist.take_probed(start) else { return };
        let snap = self.deliveries.snapshot(sent_at, self.scoreboard.outstanding() == 0);
        self.scoreboard.push(Sent { start, sent_at, snap, len: 1, flags: EVER, tries: 2 });
        self.stats.bytes_sent += 1;
        self.segment_timer.restart(self.scoreboard.nxt());
    }

    /// The time for which a partial segment is held: in Linux until the timer of probes, which waits for the
    /// RTO at least (`tcp_check_probe_timer`).
    pub(super) fn cork_time(&self) -> Dur {
        if self.rules.probe_timer_uncorks { self.rtt.rto().max(CORK) } else { CORK }
    }

    /// After an ACK: the retransmission timer runs while something is outstanding and starts anew on progress
    /// (RFC 6298 sections 5.2 and 5.3); then the probe timer.
    #[inline]
    pub(super) fn update_timers_on_ack(&mut self, now: Time, on: TimerAck, log: &mut Log) {
        let TimerAck { advanced, old_sack, shared } = on;
        if self.scoreboard.outstanding() == 0 {
            self.buffer.on_all_acked(now, self.scoreboard.nxt());
            self.timers.stop_all(now, log);
            self.probe.clear_due();
            return;
        }
        if advanced && self.timer_restarts() || old_sack && !self.timers.is_reorder_running() {
            let mut wait = self.rtt.rto();
            if shared && self.probe_time(now).is_none() {
                // The timer of probes or of reordering ran, so the RTO counts from the first segment
                // (`tcp_rearm_rto`).
                wait = self.head_timeout(now).since(now);
            }
            self.rearm(now, wait, log);
        }
        let reorders = self.timers.is_reorder_running();
        if advanced && !(reorders && self.rules.probe_beside_sacked) {
            // The timer is set when the sender stops sending.
            self.probe.mark_stale();
        } else if reorders || !self.may_probe() {
            // The reordering timer replaces the probe timer (RFC 8985 section 8); in Linux they are one timer, which an ACK that
            // sets it for reordering does not set for a probe (`tcp_ack`, `FLAG_SET_XMIT_TIMER`).
            self.timers.stop_tlp();
        }
    }

    /// An ACK ended at SACKed data: further ACKs have a short time to show that the receiver still has them. Then the timeout
    /// forgets all SACKs (`tcp_check_sack_reneging`).
    pub(super) fn await_reneging(&mut self, now: Time, log: &mut Log) {
        let srtt = self.rtt.srtt().unwrap_or(Dur::ZERO);
        self.timers.stop_tlp();
        self.timers.stop_reorder();
        self.timers.set_rto(now, (srtt / 2).max(RENEGING_WAIT), log);
    }

    /// Whether a probe timer that runs may go on. In Linux only a retransmission or the timer of reordering replaces it.
    fn may_probe(&self) -> bool {
        if self.rules.probe_beside_sacked {
            return !matches!(self.state, Ca::Recovery | Ca::Loss);
        }
        self.is_calm() && self.scoreboard.sacked() == 0
    }

    /// Whether an ACK or a retransmission of the first segment restarts the retransmission timer.
    pub(super) fn timer_restarts(&self) -> bool {
        self.sack
            || self.state != Ca::Recovery
            || self.cfg.recovery == Recovery::Prr
            || self.newreno.restarts_timer()
    }

    /// By how much timers that are set now are longer, in whole ticks, because the next transmission is paced (`tcp_reset_xmit_timer`).
    #[inline]
    fn timer_delay(&self, now: Time) -> Dur {
        self.cfg.timer_ticks.round_down(self.pacer.delay(now))
    }

    /// Restarts the retransmission timer; it waits for pacing, too.
    #[inline]
    pub(super) fn rearm(&mut self, now: Time, wait: Dur, log: &mut Log) {
        self.timers.set_rto(now, wait + self.timer_delay(now), log);
    }

    /// Sets or stops the timer of the tail loss probe at the end of a burst, from which it counts.
    #[inline]
    pub(super) fn refresh_probe(&mut self, now: Time, log: &mut Log) {
        if self.probe.take_stale() {
            let delay = self.timer_delay(now);
            let at = self.probe_time(now).map(|at| at.saturating_add(delay));
            if at.is_some() && self.rules.probe_shares_timer && self.timers.is_reorder_running() {
                // The one timer of Linux waits for the probe instead (`tcp_schedule_loss_probe`).
                self.timers.set_reorder(now, Time::MAX, log);
            }
            self.timers.set_tlp(now, at.unwrap_or(Time::MAX), log);
        }
    }

    /// The time at which the tail loss probe should fire; `None` if it should not.
    #[inline]
    pub(super) fn probe_time(&self, now: Time) -> Option<Time> {
        self.probe.time(|| {
            let outstanding = self.scoreboard.outstanding();
            ProbeInput {
                now,
                state: self.state,
                sack: self.sack,
                outstanding,
                sacked: if self.rules.probe_beside_sacked { 0 } else { self.scoreboard.sacked() },
                single: self.scoreboard.len() == 1 && outstanding <= self.unit(),
                rto_timer: self.timers.rto(),
                srtt: self.rtt.srtt(),
                can_send: || self.cwnd >= self.pipe() + self.mss && self.has_new(),
                retransmission: || {
                    let head = self.scoreboard.front()?;
                    let from = if self.last_sent == now { head.sent_at } else { now };
                    Some(from.saturating_add(self.rtt.rto()))
                },
            }
        })
    }

    /// The end of the RTO, counted from the transmission of the first segment, but at least one tick from
    /// now (`tcp_rearm_rto`).
    pub(super) fn head_timeout(&self, now: Time) -> Time {
        let sent = self.scoreboard.front().map_or(now, |head| head.sent_at);
        sent.saturating_add(self.rtt.rto()).max(now + Dur::from_millis(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifteen_retries_of_linux_are_the_924_6_s_of_its_documentation() {
        // Documentation/networking/ip-sysctl.rst, tcp_retries2.
        let ms = |retries| time_of_retries(retries).as_millis();
        assert_eq!([0, 2, 3, 9, 10, 15].map(ms), [200, 1400, 3000, 204_600, 324_600, 924_600]);
    }
}
