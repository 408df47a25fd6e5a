//! The tail loss probe: when the end of a flight stays unacknowledged, one segment asks for an ACK before the RTO would.
//!
//! Sources: RFC 8985 section 7; for [`Tlp::OpenOnly`] `tcp_schedule_loss_probe` of Linux 4.6.

use super::Sender;
use super::ack::Arrival;
use crate::config::{StackFlavor, Tlp};
use crate::log::{CongestionState as Ca, Log, Timer, TimerChange};
use crate::messages::{Chunk, Span};
use tcpassay_cc::Cause;
use tcpassay_units::{Dur, Time};

/// The receiver's largest delay of an ACK (RFC 8985 `TLP.max_ack_delay`; Linux `TCP_DELACK_MAX`).
const MAX_ACK_DELAY: Dur = Dur::from_millis(200);

/// The probe of this episode.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug, Default)]
pub(super) struct Probe {
    /// To be sent by the next poll.
    pub due: bool,
    /// Something was sent since the timer was set.
    pub stale: bool,
    /// `TLP.end_seq`: set while a probe is out.
    end: Option<u64>,
    /// The probe was a retransmission of this.
    retransmitted: Option<Span>,
    /// A DSACK reported the probe.
    duplicate: bool,
    /// A round trip was measured since the last probe or the start of the connection.
    pub measured: bool,
}

impl Probe {
    /// A probe is out.
    #[inline]
    pub fn is_out(&self) -> bool {
        self.end.is_some()
    }

    /// No probe is out or due.
    pub fn cancel(&mut self) {
        *self = Probe { stale: self.stale, measured: self.measured, ..Probe::default() };
    }

    /// The receiver reported `span` twice.
    pub fn on_dsack(&mut self, span: &Span) {
        if self.retransmitted.as_ref().is_some_and(|probe| span.start <= probe.start && span.end >= probe.end)
        {
            self.duplicate = true;
        }
    }
}

impl Sender {
    /// Arms the probe timer, or not (RFC 8985 section 7.2).
    pub(super) fn schedule_probe(&mut self, now: Time, log: &mut Log) {
        let at = if self.cfg.tlp == Tlp::Off { None } else { self.probe_time(now) }.unwrap_or(Time::MAX);
        if self.timers.tlp == at {
            return;
        }
        self.timers.tlp = at;
        if at != Time::MAX {
            log.put(now, || crate::log::LogEvent::Timer { timer: Timer::Tlp, change: TimerChange::Set(at) });
        }
    }

    /// At the end of a burst: the timer counts from it.
    #[inline]
    pub(super) fn refresh_probe(&mut self, now: Time, log: &mut Log) {
        if std::mem::take(&mut self.probe.stale) {
            self.schedule_probe(now, log);
        }
    }

    #[expect(clippy::inline_always, reason = "once for each packet, from one place that counts")]
    #[inline(always)]
    pub(super) fn probe_time(&self, now: Time) -> Option<Time> {
        let state_allows = match self.cfg.tlp {
            Tlp::Off => false,
            Tlp::OpenOnly => self.state == Ca::Open,
            Tlp::On => self.is_calm(),
        };
        let out = self.board.outstanding();
        let rto = self.timers.rto;
        if !state_allows
            || !self.sack
            || out == 0
            || self.probe.end.is_some() && !self.one_timer()
            || self.board.sacked > 0
            || rto == Time::MAX
        {
            return None;
        }
        let single = self.board.len() == 1 && out <= self.mss;
        let pto = if self.cfg.tlp == Tlp::OpenOnly {
            // Only when the window or the application is what stops the sender.
            if self.cwnd >= self.pipe() + self.mss && self.has_new() {
                return None;
            }
            let srtt = self.rtt.srtt?;
            let pto = (srtt * 2).max(Dur::from_millis(10));
            if single { pto.max(srtt * 3 / 2 + MAX_ACK_DELAY) } else { pto }
        } else {
            match self.rtt.srtt {
                Some(srtt) if single => srtt * 2 + MAX_ACK_DELAY,
                Some(srtt) => srtt * 2 + self.cfg.timer_floor,
                None => Dur::from_secs(1),
            }
        };
        let mut at = now.saturating_add(pto).min(rto);
        if self.one_timer() && self.last_sent == now {
            // Where data have left Linux counts the RTO from the first segment's transmission, unless it is over already
            // (`tcp_rto_delta_us`).
            let over = self.board.front().map_or(now, |head| head.sent_at.saturating_add(self.rtt.rto()));
            if over > now {
                at = at.min(over);
            }
        }
        Some(at.max(now))
    }

    /// Probes and retransmissions share a timer, as in Linux since 4.15.
    pub(super) fn one_timer(&self) -> bool {
        self.cfg.flavor == StackFlavor::Linux && self.cfg.tlp == Tlp::On
    }

    /// When the RTO is over that counts from the transmission of the first segment, but a tick from now at least (`tcp_rearm_rto`).
    pub(super) fn head_timeout(&self, now: Time) -> Time {
        let sent = self.board.front().map_or(now, |head| head.sent_at);
        sent.saturating_add(self.rtt.rto()).max(now + Dur::from_millis(1))
    }

    /// The probe timer fired: the next poll sends the probe, and the RTO starts anew (section 7.3). Without a round trip measured
    /// since the last probe there is none, or probes could keep the estimate from following a path that became longer; Linux does
    /// not ask (`tcp_send_loss_probe`).
    pub(super) fn on_probe_timer(&mut self, now: Time, log: &mut Log) {
        if self.one_timer() && self.probe.is_out() {
            // One probe at a time: what remains is the RTO (`tcp_send_loss_probe`).
            let at = self.head_timeout(now);
            self.timers.set_rto(now, at.since(now), log);
            return;
        }
        self.probe.due =
            self.probe.measured || self.cfg.flavor == StackFlavor::Linux || self.cfg.tlp == Tlp::OpenOnly;
        self.timers.set_rto(now, self.rtt.rto(), log);
    }

    /// New data that a probe sends: one segment; in Linux a buffer, if the congestion window holds it (`tcp_send_loss_probe`).
    fn probe_size(&mut self) -> u64 {
        let one = self.unsent().min(self.mss);
        if self.cfg.tso.is_none() || self.cfg.flavor != StackFlavor::Linux {
            return one;
        }
        let buffer = self.record_end().map_or(self.unsent(), |end| end - self.board.nxt);
        let most =
            self.room().min(self.gso()).min((self.board.una + self.wnd).saturating_sub(self.board.nxt));
        if buffer <= most { buffer } else { (most - most % self.mss).max(one) }
    }

    /// Section 7.3: new data if the peer's window allows, whatever cwnd says; otherwise the last segment again.
    pub(super) fn send_probe(&mut self, now: Time, log: &mut Log) -> Option<Chunk> {
        self.probe.due = false;
        let room = (self.board.una + self.wnd).saturating_sub(self.board.nxt);
        let n = self.probe_size();
        let chunk = if n > 0 && n <= room {
            self.probe.retransmitted = None;
            self.emit_new(now, n, log)
        } else {
            let last = self.board.last_unsacked()?;
            let last = self.board.last_segment(last, self.mss);
            // Nothing of an episode: `__tcp_retransmit_skb` leaves `retrans_stamp` and `undo_retrans` alone, and in Linux it is not
            // counted among the retransmissions in flight (`retrans_out`).
            let undo = self.undo;
            let chunk = self.emit_again(now, last, log);
            self.undo = undo;
            if self.cfg.flavor == StackFlavor::Linux {
                self.board.uncount(last);
            }
            self.probe.retransmitted = Some(chunk.span.start..chunk.span.end + u64::from(chunk.fin));
            chunk
        };
        self.stats.tlp_probes += 1;
        self.probe.measured = false;
        self.probe.end = Some(self.board.nxt);
        self.probe.duplicate = false;
        self.probe.stale = false;
        self.timers.tlp = Time::MAX;
        Some(chunk)
    }

    /// Section 7.4: whether the probe repaired a loss, which the controller must hear of.
    pub(super) fn probe_evidence(&mut self, a: &Arrival, log: &mut Log) {
        let Some(end) = self.probe.end else { return };
        let una = self.board.una;
        if una < end {
            return;
        }
        if self.probe.retransmitted.is_none() || self.probe.duplicate {
            self.probe.cancel();
        } else if una > end {
            self.probe.cancel();
            if self.state != Ca::Cwr {
                self.enter_cwr(a.now, Cause::Loss, a.prior_out, a.prior_out - a.prior_sacked, "tlp", log);
            }
        } else if !a.informs && a.bare {
            // Original and probe both arrived: a duplicate ACK without a SACK option.
            self.probe.cancel();
        }
    }
}
