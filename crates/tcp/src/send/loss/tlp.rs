//! The tail loss probe: if the end of a flight stays unacknowledged, one segment is sent before the RTO to
//! elicit an ACK.
//!
//! Sources: RFC 8985 section 7; for [`Tlp::OpenOnly`] `tcp_schedule_loss_probe` of Linux 4.6.

use crate::config::Tlp;
use crate::log::CongestionState as Ca;
use crate::messages::Span;
use tcpassay_units::{Dur, Time};

/// The receiver's largest delay of an ACK (RFC 8985 `TLP.max_ack_delay`; Linux `TCP_DELACK_MAX`).
const MAX_ACK_DELAY: Dur = Dur::from_millis(200);

/// The probe of this episode.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug)]
pub(in crate::send) struct LossProbe {
    rule: Tlp,
    /// The probe, the reordering timer and the retransmission timer are one timer, as in Linux since 4.15.
    shares_timer: bool,
    /// A probe needs no round-trip sample since the last one.
    without_sample: bool,
    /// Time that is added to the computed timeouts (Linux `TCP_TIMEOUT_MIN`).
    timer_floor: Dur,
    /// To be sent by the next poll.
    due: bool,
    /// True if a segment was sent since the timer was set.
    stale: bool,
    /// `TLP.end_seq`: set while a probe is outstanding.
    end: Option<u64>,
    /// The probe was a retransmission of this.
    retransmitted: Option<Span>,
    /// A DSACK reported the probe.
    duplicate: bool,
    /// A round trip was measured since the last probe or the start of the connection.
    sampled: bool,
}

/// The inputs of the time of a probe.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct ProbeInput<C, H> {
    pub now: Time,
    pub state: Ca,
    pub sack: bool,
    pub outstanding: u64,
    pub sacked: u64,
    /// One segment is outstanding.
    pub single: bool,
    /// Time at which the retransmission timer fires.
    pub rto_timer: Time,
    pub srtt: Option<Dur>,
    /// New data wait and the congestion window would allow them.
    pub can_send: C,
    /// The end of the retransmission timeout: if data leave now, it counts from the transmission of the first segment, otherwise from
    /// now.
    pub retransmission: H,
}

/// The data of an ACK that concern a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::send) enum Outcome {
    /// No probe is outstanding, or its outcome is not known yet.
    Undecided,
    /// The probe was unnecessary, or carried new data.
    Unneeded,
    /// The probe repaired a loss, which is reported to the controller.
    Repaired,
}

impl LossProbe {
    pub fn new(rule: Tlp, shares_timer: bool, without_sample: bool, timer_floor: Dur) -> LossProbe {
        LossProbe {
            rule,
            shares_timer: shares_timer && rule == Tlp::On,
            without_sample: without_sample || rule == Tlp::OpenOnly,
            timer_floor,
            due: false,
            stale: false,
            end: None,
            retransmitted: None,
            duplicate: false,
            sampled: false,
        }
    }

    /// Whether a probe is outstanding.
    #[inline]
    pub fn is_out(&self) -> bool {
        self.end.is_some()
    }

    /// Bytes that the outstanding probe retransmitted.
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted.as_ref().map_or(0, |span| span.end - span.start)
    }

    /// A probe is to be sent by the next poll.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// The probe that was due is sent, or not sent at all.
    pub fn clear_due(&mut self) {
        self.due = false;
    }

    /// Probes and retransmissions share a timer.
    #[inline]
    pub fn shares_timer(&self) -> bool {
        self.shares_timer
    }

    /// A round trip was measured.
    #[inline]
    pub fn on_sample(&mut self) {
        self.sampled = true;
    }

    /// Records a transmission or an acknowledgment: the timer is restarted when the sender stops sending.
    #[inline]
    pub fn mark_stale(&mut self) {
        self.stale = true;
    }

    /// Whether the timer must be restarted.
    #[inline]
    pub fn take_stale(&mut self) -> bool {
        std::mem::take(&mut self.stale)
    }

    /// Discards an outstanding or due probe.
    pub fn cancel(&mut self) {
        self.due = false;
        self.forget();
    }

    /// No probe is outstanding any more.
    pub fn forget(&mut self) {
        self.end = None;
        self.retransmitted = None;
        self.duplicate = false;
    }

    /// The receiver reported `span` twice.
    pub fn on_dsack(&mut self, span: &Span) {
        if self.retransmitted.as_ref().is_some_and(|probe| span.start <= probe.start && span.end >= probe.end)
        {
            self.duplicate = true;
        }
    }

    /// The outstanding probe is a retransmission that ends there (`FLAG_DSACK_TLP`).
    pub fn ends_at(&self, position: u64) -> bool {
        self.retransmitted.as_ref().is_some_and(|probe| probe.end == position)
    }

    /// RFC 8985 section 7.2: when the probe timer should fire, if it should run. `input` is asked for only if a probe is
    /// possible at all.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    pub fn time<C: FnOnce() -> bool, H: FnOnce() -> Option<Time>>(
        &self,
        input: impl FnOnce() -> ProbeInput<C, H>,
    ) -> Option<Time> {
        if self.rule == Tlp::Off || self.end.is_some() && !self.shares_timer {
            return None;
        }
        self.time_of(input())
    }

    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    fn time_of<C: FnOnce() -> bool, H: FnOnce() -> Option<Time>>(
        &self,
        input: ProbeInput<C, H>,
    ) -> Option<Time> {
        let state_allows = match self.rule {
            Tlp::Off => false,
            Tlp::OpenOnly => input.state == Ca::Open,
            Tlp::On => matches!(input.state, Ca::Open | Ca::Cwr),
        };
        if !state_allows
            || !input.sack
            || input.outstanding == 0
            || input.sacked > 0
            || input.rto_timer == Time::MAX
        {
            return None;
        }
        let timeout = if self.rule == Tlp::OpenOnly {
            // Only if the window or the application stops the sender.
            if (input.can_send)() {
                return None;
            }
            let srtt = input.srtt?;
            let timeout = (srtt * 2).max(Dur::from_millis(10));
            if input.single { timeout.max(srtt * 3 / 2 + MAX_ACK_DELAY) } else { timeout }
        } else {
            match input.srtt {
                Some(srtt) if input.single => srtt * 2 + MAX_ACK_DELAY,
                Some(srtt) => srtt * 2 + self.timer_floor,
                None => Dur::from_secs(1),
            }
        };
        let mut at = input.now.saturating_add(timeout).min(input.rto_timer);
        if self.shares_timer
            && let Some(over) = (input.retransmission)().filter(|&over| over > input.now)
        {
            // Linux counts the RTO from the first segment's transmission, unless it is over already (`tcp_rto_delta_us`).
            at = at.min(over);
        }
        Some(at.max(input.now))
    }

    /// The probe timer fired. The next poll sends the probe. Returns false if a probe is outstanding that shares the timer
    /// (`tcp_send_loss_probe`). No probe is sent if no round trip was measured since the last one: otherwise probes could prevent samples
    /// of a path that became longer (RFC 8985 section 7.3).
    pub fn on_timer(&mut self) -> bool {
        if self.shares_timer && self.is_out() {
            return false;
        }
        self.due = self.sampled || self.without_sample;
        true
    }

    /// A probe was sent, either as new data or as a retransmission of a span; `nxt` is the next new position.
    pub fn on_sent(&mut self, retransmitted: Option<Span>, nxt: u64) {
        self.retransmitted = retransmitted;
        self.sampled = false;
        self.end = Some(nxt);
        self.duplicate = false;
        self.stale = false;
    }

    /// RFC 8985 section 7.4: an ACK of everything below `una` arrived. `bare_duplicate`: it brings nothing new and has no SACK
    /// option, so that original and probe both arrived.
    pub fn on_ack(&mut self, una: u64, bare_duplicate: bool) -> Outcome {
        let Some(end) = self.end.filter(|&end| una >= end) else { return Outcome::Undecided };
        if self.retransmitted.is_none() || self.duplicate {
            self.cancel();
            Outcome::Unneeded
        } else if una > end {
            self.cancel();
            Outcome::Repaired
        } else if bare_duplicate {
            self.cancel();
            Outcome::Unneeded
        } else {
            Outcome::Undecided
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Dur {
        Dur::from_millis(n)
    }

    fn at(n: u64) -> Time {
        Time::ZERO + ms(n)
    }

    type Input = ProbeInput<fn() -> bool, fn() -> Option<Time>>;

    const INPUT: Input = Input {
        now: Time::ZERO,
        state: Ca::Open,
        sack: true,
        outstanding: 5000,
        sacked: 0,
        single: false,
        rto_timer: Time::from_nanos(1_000_000_000),
        srtt: Some(Dur::from_millis(100)),
        can_send: || false,
        retransmission: || None,
    };

    fn probe(rule: Tlp) -> LossProbe {
        LossProbe::new(rule, false, false, ms(2))
    }

    #[test]
    fn it_fires_after_two_round_trips_and_no_later_than_the_rto() {
        let probe = probe(Tlp::On);
        assert_eq!(probe.time(|| INPUT), Some(at(202)));
        let near = Input { rto_timer: at(150), ..INPUT };
        assert_eq!(probe.time(|| near), Some(at(150)));
        assert_eq!(probe.time(|| Input { srtt: None, ..INPUT }), Some(at(1000)));
    }

    #[test]
    fn a_single_segment_waits_for_the_receivers_delayed_ack() {
        assert_eq!(probe(Tlp::On).time(|| Input { single: true, ..INPUT }), Some(at(400)));
        assert_eq!(probe(Tlp::OpenOnly).time(|| Input { single: true, ..INPUT }), Some(at(350)));
    }

    #[test]
    fn there_is_none_without_sack_with_sacked_data_or_during_recovery() {
        let probe = probe(Tlp::On);
        for input in [
            Input { sack: false, ..INPUT },
            Input { sacked: 1000, ..INPUT },
            Input { state: Ca::Recovery, ..INPUT },
            Input { state: Ca::Disorder, ..INPUT },
            Input { outstanding: 0, ..INPUT },
            Input { rto_timer: Time::MAX, ..INPUT },
        ] {
            assert_eq!(probe.time(|| input), None, "{input:?}");
        }
        assert!(probe.time(|| Input { state: Ca::Cwr, ..INPUT }).is_some());
    }

    #[test]
    fn linux_before_4_15_has_no_probe_in_cwr_or_while_it_can_send() {
        let probe = probe(Tlp::OpenOnly);
        assert_eq!(probe.time(|| INPUT), Some(at(200)));
        assert_eq!(probe.time(|| Input { state: Ca::Cwr, ..INPUT }), None);
        assert_eq!(probe.time(|| Input { can_send: || true, ..INPUT }), None);
    }

    #[test]
    fn a_second_probe_needs_a_sample_since_the_first() {
        let mut probe = probe(Tlp::On);
        probe.on_sample();
        assert!(probe.on_timer() && probe.is_due());
        probe.clear_due();
        probe.on_sent(None, 5001);
        assert_eq!(probe.on_ack(5001, false), Outcome::Unneeded);
        assert!(probe.on_timer() && !probe.is_due());
        let mut linux = LossProbe::new(Tlp::On, true, true, ms(2));
        assert!(linux.on_timer() && linux.is_due());
    }

    #[test]
    fn a_shared_timer_sends_one_probe_at_a_time_and_counts_the_rto_from_the_first_segment() {
        let mut probe = LossProbe::new(Tlp::On, true, true, ms(2));
        let head = Input { retransmission: || Some(at(120)), ..INPUT };
        assert_eq!(probe.time(|| head), Some(at(120)));
        probe.on_sent(Some(1..1001), 5001);
        assert!(!probe.on_timer());
        assert_eq!(probe.time(|| INPUT), Some(at(202)));
    }

    #[test]
    fn a_retransmitted_probe_repaired_a_loss_unless_it_is_reported_as_a_duplicate() {
        let mut repaired = probe(Tlp::On);
        repaired.on_sent(Some(4001..5001), 5001);
        assert_eq!(repaired.on_ack(4001, false), Outcome::Undecided);
        assert_eq!(repaired.on_ack(5001, false), Outcome::Undecided);
        assert_eq!(repaired.on_ack(6001, false), Outcome::Repaired);
        let mut unneeded = probe(Tlp::On);
        unneeded.on_sent(Some(4001..5001), 5001);
        assert_eq!(unneeded.on_ack(5001, true), Outcome::Unneeded);
        let mut reported = probe(Tlp::On);
        reported.on_sent(Some(4001..5001), 5001);
        reported.on_dsack(&(4001..4501));
        assert_eq!(reported.on_ack(5001, false), Outcome::Undecided);
        reported.on_dsack(&(4001..5001));
        assert_eq!(reported.on_ack(6001, false), Outcome::Unneeded);
    }
}
