//! The timestamps of RFC 7323: our clock, and the peer's timestamp that is echoed (TS.Recent).

use tcpassay_units::{Dur, Time};
use tcpassay_wire::Timestamps;

/// State of the option.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimestampState {
    on: bool,
    offset: u32,
    /// TS.Recent, and when it was set.
    recent: u32,
    recent_at: Time,
    /// The echo that last gave a round-trip time of the receiver (`rcv_rtt_last_tsecr`).
    measured: u32,
}

impl TimestampState {
    /// `offset`: what our clock shows at the start of the run.
    pub fn new(offset: u32) -> TimestampState {
        TimestampState { offset, ..TimestampState::default() }
    }

    /// Our clock: milliseconds, as in Linux and FreeBSD.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the option's clock wraps")]
    pub fn clock(&self, now: Time) -> u32 {
        self.offset.wrapping_add((now.as_nanos() / 1_000_000) as u32)
    }

    /// The peer's SYN arrived with this timestamp. `offered`: we offer timestamps, too.
    pub fn start(&mut self, now: Time, offered: bool, peer: Option<Timestamps>) {
        self.on = offered && peer.is_some();
        if let Some(peer) = peer {
            self.set_recent(now, peer.val);
        }
    }

    /// Both ends agreed on timestamps.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// TS.Recent.
    #[inline]
    pub fn recent(&self) -> u32 {
        self.recent
    }

    pub fn set_recent(&mut self, now: Time, val: u32) {
        self.recent = val;
        self.recent_at = now;
    }

    /// TS.Recent was set longer ago than `life`.
    pub fn is_older_than(&self, now: Time, life: Dur) -> bool {
        now.since(self.recent_at) > life
    }

    /// How much newer than TS.Recent `val` is, in the arithmetic of wrapping clocks.
    #[inline]
    pub fn newer_by(&self, val: u32) -> i32 {
        val.wrapping_sub(self.recent).cast_signed()
    }

    /// PAWS (RFC 7323 section 5): the timestamp is older than TS.Recent, which was set at most `life` ago.
    pub fn fails_paws(&self, now: Time, life: Dur, val: u32) -> bool {
        self.newer_by(val) < 0 && !self.is_older_than(now, life)
    }

    /// RFC 7323 section 4.3: a segment that begins at `seq` updates TS.Recent if it begins at or before the last ACK sent and does not
    /// fail PAWS.
    #[inline]
    pub fn note(&mut self, now: Time, life: Dur, (seq, last_ack_sent): (u64, u64), val: u32) {
        if seq <= last_ack_sent && !self.fails_paws(now, life, val) {
            self.set_recent(now, val);
        }
    }

    /// Returns whether this echo was recorded by an earlier call, and records it.
    pub fn was_measured(&mut self, ecr: u32) -> bool {
        std::mem::replace(&mut self.measured, ecr) == ecr
    }

    /// The option of a segment that leaves now, if it has one.
    #[inline]
    pub fn option(&self, now: Time) -> Option<Timestamps> {
        self.on.then(|| Timestamps { val: self.clock(now), ecr: self.recent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StackFlavor;

    fn at(s: u64) -> Time {
        Time::ZERO + Dur::from_secs(s)
    }

    fn state(recent: u32) -> TimestampState {
        let mut state = TimestampState::new(7);
        state.start(at(1), true, Some(Timestamps { val: recent, ecr: 0 }));
        state
    }

    #[test]
    fn the_clock_has_milliseconds_and_wraps() {
        assert_eq!(TimestampState::new(7).clock(at(2)), 2007);
        assert_eq!(TimestampState::new(u32::MAX).clock(at(2)), 1999);
    }

    #[test]
    fn an_older_timestamp_fails_paws_for_24_days_and_for_2147_s_in_linux_7_3() {
        let state = state(100);
        for (flavor, life) in
            [(StackFlavor::Rfc, 24 * 86_400), (StackFlavor::Linux, 24 * 86_400), (StackFlavor::Linux73, 2147)]
        {
            let fails = |s: u64, val: u32| state.fails_paws(at(s), flavor.rules().conn.stamp_life, val);
            assert!(fails(1, 99));
            assert!(!fails(1, 100));
            assert!(!fails(1, 100 + (1 << 30)));
            assert!(fails(1 + life, 99));
            assert!(!fails(2 + life, 99));
        }
    }

    #[test]
    fn ts_recent_is_of_the_segment_at_the_last_ack_and_never_goes_back() {
        let (mut state, life) = (state(100), Dur::from_secs(10));
        state.note(at(2), life, (5001, 5000), 200);
        assert_eq!(state.recent(), 100, "beyond the last ACK");
        state.note(at(2), life, (5000, 5000), 99);
        assert_eq!(state.recent(), 100, "older");
        state.note(at(2), life, (5000, 5000), 200);
        assert_eq!(state.option(at(3)), Some(Timestamps { val: 3007, ecr: 200 }));
    }

    #[test]
    fn without_the_peers_option_segments_have_none() {
        let mut state = TimestampState::new(7);
        state.start(at(1), true, None);
        assert!(!state.is_on() && state.option(at(1)).is_none());
    }
}
