//! The data that one ACK delivered, delivery-rate samples, and the counting of round trips.
//!
//! Sources: draft-cheng-iccrg-delivery-rate-estimation; RFC 6298 and Karn's rule for round-trip samples (as Linux
//! `tcp_clean_rtx_queue`: the oldest segment acknowledged feeds the RTO, the newest one controllers and RACK).

use super::scoreboard::sent::{APP, EVER, FIN, SACKED, Sent, Snapshot};
use tcpassay_cc::RateSample;
use tcpassay_units::{Bytes, Dur, Time};

/// The time on a clock of whole microseconds. A microsecond begins with the last nanosecond before it, so that what happens just before
/// a tick has the time of the tick.
#[inline]
pub(super) fn micros(at: Time) -> Time {
    Time::from_nanos((at.as_nanos() + 1) / 1000 * 1000)
}

/// A run of records that were sent once and carry no mark, acknowledged together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// First position.
    pub start: u64,
    /// Position after the first record.
    pub first_end: u64,
    /// Time of transmission of the first record.
    pub first_sent_at: Time,
    /// Packets in it.
    pub packets: u64,
    /// The last record.
    pub last: Sent,
}

/// Collects what one ACK delivers, record by record.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one ACK")]
pub(super) struct Delivered {
    /// Time of arrival of the ACK.
    pub now: Time,
    /// The millisecond in which the echoed timestamp was made, if there is one. It tells an original from a retransmission only for
    /// data that are acknowledged cumulatively: beside SACK blocks the receiver echoes the segment that arrived last in order (RFC 7323 section 4.3).
    pub echo_ms: Option<u64>,
    /// Retransmissions acknowledged faster than this are taken for the original (RFC 8985 section 6.2 step 2).
    pub min_rtt: Option<Dur>,
    /// Bytes of a full segment, to count packets.
    pub mss: u64,
    /// A retransmission acknowledged faster than this was too early (FreeBSD's RACK restore).
    pub early: Dur,
    /// Only originals that end here or before count for [`Delivered::original`].
    pub recover: u64,

    /// The ACK is one for which Linux reads the congestion state (`tcp_ack_is_dubious`): it does more than to acknowledge in order in Open.
    pub dubious: bool,
    /// A part of a segment counts when the rest is acknowledged (Linux).
    pub needs_whole_segments: bool,
    /// Times are whole microseconds ([`micros`]).
    pub micros: bool,

    /// Positions newly acknowledged cumulatively.
    pub acked: u64,
    /// Segments were acknowledged cumulatively, and not only a part of one with [`Delivered::needs_whole_segments`].
    pub cleaned: bool,
    /// Positions of `acked` that are the first part of a segment and do not count yet.
    pub uncounted: u64,
    /// Positions that were acknowledged before, and count now that their segment is complete.
    pub recounted: u64,
    /// Whether the FIN was among them.
    pub fin: bool,
    /// Bytes newly SACKed.
    pub sacked: u64,
    /// Bytes delivered: newly acknowledged or newly SACKed, each once.
    pub bytes: u64,
    /// The packets of those bytes: a short segment is one, too.
    pub packets: u64,
    /// A retransmitted segment was acknowledged cumulatively: round-trip samples by position are ambiguous.
    pub ambiguous: bool,
    /// Oldest and newest transmission time of originals acknowledged cumulatively.
    pub times: Option<(Time, Time)>,
    /// The same of originals newly SACKed.
    pub sack_times: Option<(Time, Time)>,
    /// The most recently sent segment, for the rate sample.
    pub newest: Option<(Snapshot, Time, bool)>,
    /// The most recently sent segment whose delivery is certain (RACK): when, position after it.
    pub rack: Option<(Time, u64)>,
    /// The round-trip time of the last such segment in the order of Linux: what was SACKed before what was acknowledged in
    /// order, whichever of them was sent last (`tcp_rack_advance`; RFC 8985 section 6.2 step 2).
    pub rack_rtt: Dur,
    /// `rack_rtt` is that of a segment that was acknowledged in order.
    pub rack_in_order: bool,
    /// The reordering in bytes: distance from an original that arrived now to the highest position known to
    /// be delivered before; 0 without reordering.
    pub late: u64,
    /// An original below `recover` was delivered (F-RTO's evidence).
    pub original: bool,
    /// Bytes whose only retransmission was acknowledged too early to have caused it.
    pub early_bytes: u64,
    /// Bytes of retransmitted segments delivered that do not count as early.
    pub timely_bytes: u64,
}

impl Delivered {
    /// `sent` (or a front part of a record) was acknowledged cumulatively; `known` is the highest
    /// position that was SACKed before.
    pub fn acked(&mut self, sent: &Sent, known: u64) {
        self.acked += u64::from(sent.len);
        self.cleaned = true;
        self.fin |= sent.is(FIN);
        if sent.is(EVER) {
            self.ambiguous = true;
        }
        if sent.is(SACKED) {
            return;
        }
        if !sent.is(EVER) {
            let at = self.clock(sent.sent_at);
            self.times = Some((self.times.map_or(at, |(first, _)| first), at));
            self.late = self.late.max(known.saturating_sub(sent.start));
        }
        self.take(sent, true);
    }

    /// The first part of one segment was acknowledged, and [`Delivered::needs_whole_segments`] is true. Returns the bytes that are to be
    /// counted with the rest.
    pub fn acked_part(&mut self, part: &Sent) -> u64 {
        let n = u64::from(part.len);
        self.acked += n;
        if part.is(SACKED) {
            return 0;
        }
        self.uncounted += n;
        n
    }

    #[inline]
    fn clock(&self, at: Time) -> Time {
        if self.micros { micros(at) } else { at }
    }

    /// The segment of which `bytes` were not counted is complete.
    pub fn recount(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.recounted += bytes;
    }

    /// Bytes newly acknowledged that count.
    pub fn counted(&self) -> u64 {
        self.acked + self.recounted - self.uncounted - u64::from(self.fin)
    }

    /// A run of originals was acknowledged cumulatively, none of it SACKed before.
    pub fn acked_run(&mut self, run: &Run, known: u64) {
        let last = &run.last;
        let bytes = last.end() - run.start;
        self.acked += bytes;
        self.cleaned = true;
        self.bytes += bytes;
        self.packets += run.packets;
        self.fin |= last.is(FIN);
        let (first, at) = (self.clock(run.first_sent_at), self.clock(last.sent_at));
        self.times = Some((self.times.map_or(first, |(first, _)| first), at));
        self.late = self.late.max(known.saturating_sub(run.start));
        self.original |= run.first_end <= self.recover;
        if self.newest.is_none_or(|(snap, ..)| last.snap.delivered >= snap.delivered) {
            self.newest = Some((last.snap, at, last.is(APP)));
        }
        if self.rack.is_none_or(|newest| newest < (last.sent_at, last.end())) {
            self.rack = Some((last.sent_at, last.end()));
        }
        self.rack_rtt = self.now.since(at);
        self.rack_in_order = true;
    }

    /// `sent` was newly SACKed; `known` is the highest position that was SACKed before.
    pub fn sacked(&mut self, sent: &Sent, known: u64) {
        self.sacked += u64::from(sent.len);
        if !sent.is(EVER) {
            let at = self.clock(sent.sent_at);
            self.sack_times = Some((self.sack_times.map_or(at, |(first, _)| first), at));
            self.late = self.late.max(known.saturating_sub(sent.start));
        }
        self.take(sent, false);
    }

    fn take(&mut self, sent: &Sent, in_order: bool) {
        self.bytes += u64::from(sent.len);
        self.packets += sent.packets(self.mss);
        let at = self.clock(sent.sent_at);
        if self.newest.is_none_or(|(snap, ..)| sent.snap.delivered >= snap.delivered) {
            self.newest = Some((sent.snap, at, sent.is(APP)));
        }
        let rtt = self.now.since(at);
        if sent.is(EVER) {
            if sent.tries == 2 && rtt < self.early {
                self.early_bytes += u64::from(sent.len);
            } else {
                self.timely_bytes += u64::from(sent.len);
            }
            let echoes_original =
                in_order && self.echo_ms.is_some_and(|ms| ms < sent.sent_at.as_nanos() / 1_000_000);
            if echoes_original || self.min_rtt.is_some_and(|min| rtt < min) {
                return;
            }
        } else if sent.end() <= self.recover {
            self.original = true;
        }
        if self.rack.is_none_or(|newest| newest < (sent.sent_at, sent.end())) {
            self.rack = Some((sent.sent_at, sent.end()));
        }
        if in_order || !self.rack_in_order {
            self.rack_rtt = rtt;
            self.rack_in_order = in_order;
        }
    }
}

/// A delivery-rate sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// The rate, if it is valid.
    pub rate: Option<RateSample>,
    /// It was limited by the application.
    pub app_limited: bool,
}

/// The connection's delivery state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deliveries {
    /// Bytes delivered.
    total: u64,
    /// Packets delivered.
    packets: u64,
    /// Delivered data in the unit of the window: bytes, or packets times the MSS.
    size: u64,
    /// Bytes of `total` that were reported as marked.
    marked: u64,
    /// Time of the last delivery.
    at: Time,
    /// Time of transmission of the segment that begins the present sample.
    first_sent_at: Time,
    /// The sender is limited by the application until so much is delivered; zero when it is not.
    app_limited_until: u64,
    /// Round trips so far.
    round: u64,
    /// The round ends with the first segment sent when this much had been delivered.
    round_edge: u64,
}

impl Deliveries {
    /// Bytes delivered.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Packets delivered.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Bytes delivered that were reported as marked.
    pub fn marked(&self) -> u64 {
        self.marked
    }

    /// Round trips so far.
    #[inline]
    pub fn round(&self) -> u64 {
        self.round
    }

    /// `bytes` were reported as marked.
    #[inline]
    pub fn add_marked(&mut self, bytes: u64) {
        self.marked += bytes;
    }

    /// `bytes` of data that the SYN carried are acknowledged.
    pub fn add_syn_data(&mut self, bytes: u64) {
        self.total += bytes;
        self.size += bytes;
        self.packets += 1;
    }

    /// The state to keep with a segment sent now. `idle`: nothing else is in flight, so a new sample begins.
    pub fn snapshot(&mut self, now: Time, idle: bool) -> Snapshot {
        if idle {
            self.first_sent_at = now;
            self.at = now;
        }
        Snapshot { delivered: self.size, delivered_at: self.at, first_sent_at: self.first_sent_at }
    }

    /// The application did not fill the window; `flight` is in flight, in the unit of the window.
    pub fn set_app_limited(&mut self, flight: u64) {
        self.app_limited_until = (self.size + flight).max(1);
    }

    /// Whether a segment sent now is limited by the application.
    pub fn app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// Counts what an ACK delivered, which is `size` for the window, and takes a sample. Without SACK nothing may be left to count,
    /// because duplicate ACKs have counted it. The sample is taken all the same (`tcp_rate_gen`): its data were sent in their round.
    pub fn on_ack(&mut self, d: &Delivered, size: u64, min_rtt: Option<Dur>) -> Sample {
        if d.bytes > 0 {
            self.count(d.now, d.bytes, d.packets, size);
        }
        match &d.newest {
            Some((snap, sent_at, app_limited)) => {
                Sample { app_limited: *app_limited, ..self.sample(d.now, snap, *sent_at, min_rtt) }
            }
            None => Sample { rate: None, app_limited: false },
        }
    }

    /// Like [`Deliveries::on_ack`], for a run of `bytes` bytes whose last record was sent at `sent_at` on the clock of `now`.
    #[inline]
    pub fn on_run(
        &mut self,
        (now, sent_at): (Time, Time),
        bytes: u64,
        size: u64,
        run: &Run,
        min_rtt: Option<Dur>,
    ) -> Sample {
        let last = &run.last;
        self.count(now, bytes, run.packets, size);
        Sample { app_limited: last.is(APP), ..self.sample(now, &last.snap, sent_at, min_rtt) }
    }

    #[inline]
    fn count(&mut self, now: Time, bytes: u64, packets: u64, size: u64) {
        self.total += bytes;
        self.packets += packets;
        self.size += size;
        self.at = now;
        if self.app_limited_until > 0 && self.size > self.app_limited_until {
            self.app_limited_until = 0;
        }
    }

    /// `snap` and `sent_at` are those of the most recently sent segment that was delivered.
    #[inline]
    fn sample(&mut self, now: Time, snap: &Snapshot, sent_at: Time, min_rtt: Option<Dur>) -> Sample {
        if snap.delivered >= self.round_edge {
            self.round += 1;
            self.round_edge = self.size;
        }
        self.first_sent_at = sent_at;
        let interval = sent_at.since(snap.first_sent_at).max(now.since(snap.delivered_at));
        // An interval shorter than a round trip is invalid: ACKs were lost or compressed after retransmissions.
        let valid = !interval.is_zero() && min_rtt.is_none_or(|min| interval >= min);
        let delivered = Bytes::new(self.size - snap.delivered);
        let rate = valid.then_some(RateSample { delivered, interval, sent_at });
        Sample { rate, app_limited: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_units::Rate;

    fn at(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    fn record(start: u64, sent_at: Time, snap: Snapshot) -> Sent {
        Sent { start, sent_at, snap, len: 1000, flags: 0, tries: 1 }
    }

    #[test]
    fn the_rate_is_what_was_delivered_over_the_longer_of_sending_and_acknowledging() {
        let mut deliveries = Deliveries::default();
        let first = record(1, at(0), deliveries.snapshot(at(0), true));
        let second = record(1001, at(10), deliveries.snapshot(at(10), false));
        let mut d = Delivered { now: at(100), mss: 1000, ..Delivered::default() };
        d.acked(&first, 0);
        let sample = deliveries.on_ack(&d, d.bytes, None);
        // 1000 bytes in 100 ms.
        assert_eq!(sample.rate.map(|sample| sample.rate()), Some(Rate::from_bits_per_sec(80_000)));
        let mut d = Delivered { now: at(110), mss: 1000, ..Delivered::default() };
        d.acked(&second, 0);
        let sample = deliveries.on_ack(&d, d.bytes, None);
        assert_eq!(
            sample.rate.map(|sample| sample.rate()),
            Some(Rate::from_bits_per_sec(2000 * 8 * 1000 / 110))
        );
        assert_eq!((deliveries.total(), deliveries.packets(), deliveries.round()), (2000, 2, 1));
    }

    #[test]
    fn an_ack_of_data_that_duplicates_have_counted_ends_its_round() {
        let mut deliveries = Deliveries::default();
        let sent = record(1, at(0), deliveries.snapshot(at(0), true));
        let dup = Delivered { now: at(90), mss: 1000, bytes: 1000, packets: 1, ..Delivered::default() };
        assert_eq!(deliveries.on_ack(&dup, dup.bytes, None).rate, None);
        assert_eq!(deliveries.round(), 0);
        let mut d = Delivered { now: at(100), mss: 1000, ..Delivered::default() };
        d.acked(&sent, 0);
        (d.bytes, d.packets) = (0, 0);
        let sample = deliveries.on_ack(&d, d.bytes, None);
        assert_eq!((deliveries.total(), deliveries.round()), (1000, 1));
        // What the duplicate counted, in 100 ms.
        assert_eq!(sample.rate.map(|sample| sample.rate()), Some(Rate::from_bits_per_sec(80_000)));
    }

    #[test]
    fn the_clock_of_microseconds_counts_the_nanosecond_before_a_tick_to_the_tick() {
        let ns = Time::from_nanos;
        assert_eq!([micros(ns(4998)), micros(ns(4999)), micros(ns(5998))], [ns(4000), ns(5000), ns(5000)]);
        let mut d = Delivered { now: micros(ns(9_999)), mss: 1000, micros: true, ..Delivered::default() };
        d.acked(&record(1, ns(1_998), Snapshot::default()), 0);
        assert_eq!((d.times, d.rack_rtt), (Some((ns(1000), ns(1000))), Dur::from_micros(9)));
    }

    #[test]
    fn an_interval_below_the_minimum_round_trip_gives_no_rate() {
        let mut deliveries = Deliveries::default();
        let sent = record(1, at(0), deliveries.snapshot(at(0), true));
        let mut d = Delivered { now: at(5), mss: 1000, ..Delivered::default() };
        d.acked(&sent, 0);
        assert_eq!(deliveries.on_ack(&d, d.bytes, Some(Dur::from_millis(6))).rate, None);
    }

    #[test]
    fn segments_sent_while_the_application_is_the_limit_are_marked_until_they_are_delivered() {
        let mut deliveries = Deliveries::default();
        deliveries.set_app_limited(1000);
        assert!(deliveries.app_limited());
        let mut d = Delivered { now: at(5), mss: 1000, ..Delivered::default() };
        d.acked(&record(1, at(0), Snapshot::default()), 0);
        deliveries.on_ack(&d, d.bytes, None);
        assert!(deliveries.app_limited());
        let mut d = Delivered { now: at(6), mss: 1000, ..Delivered::default() };
        d.acked(&record(1001, at(0), Snapshot::default()), 0);
        deliveries.on_ack(&d, d.bytes, None);
        assert!(!deliveries.app_limited());
    }

    #[test]
    fn karn_positions_of_retransmitted_segments_give_no_times() {
        let mut d = Delivered { now: at(50), mss: 1000, ..Delivered::default() };
        d.acked(&record(1, at(0), Snapshot::default()), 0);
        assert_eq!((d.ambiguous, d.times), (false, Some((at(0), at(0)))));
        d.acked(&Sent { flags: EVER, tries: 2, ..record(1001, at(40), Snapshot::default()) }, 0);
        assert_eq!((d.ambiguous, d.times), (true, Some((at(0), at(0)))));
    }

    #[test]
    fn an_original_below_what_was_sacked_shows_by_how_much_it_was_reordered() {
        let mut d = Delivered { now: at(50), mss: 1000, ..Delivered::default() };
        d.acked(&record(1001, at(0), Snapshot::default()), 4001);
        assert_eq!(d.late, 3000);
    }

    #[test]
    fn an_ack_of_a_retransmission_faster_than_the_minimum_rtt_is_taken_for_the_originals() {
        let again = Sent { flags: EVER, tries: 2, ..record(1, at(40), Snapshot::default()) };
        let newest = |now| {
            let min_rtt = Some(Dur::from_millis(20));
            let mut d = Delivered { now, min_rtt, mss: 1000, ..Delivered::default() };
            d.acked(&again, 0);
            d.rack
        };
        assert_eq!(newest(at(59)), None);
        assert_eq!(newest(at(60)), Some((at(40), 1001)));
    }

    #[test]
    fn an_old_timestamp_echo_with_sack_may_be_of_the_retransmission_and_on_a_cumulative_ack_is_of_the_original()
     {
        // RFC 7323 section 4.3: out of order the receiver echoes what arrived last in order.
        // `tcp_rack_advance` uses only the time, `tcp_skb_spurious_retrans` the echo for data that are
        // acknowledged in order.
        let again = Sent { flags: EVER, tries: 2, ..record(1, at(40), Snapshot::default()) };
        let old_echo = || Delivered { now: at(90), echo_ms: Some(39), mss: 1000, ..Delivered::default() };
        let mut acked = old_echo();
        acked.acked(&again, 0);
        assert_eq!(acked.rack, None);
        let mut sacked = old_echo();
        sacked.sacked(&again, 0);
        assert_eq!(sacked.rack, Some((at(40), 1001)));
    }
}
