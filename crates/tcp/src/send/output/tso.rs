//! The length of super-segments, and the decision to wait for more window before sending one.
//!
//! Sources: Linux `tcp_tso_autosize`, `tcp_tso_should_defer`.

use crate::config::TsoAutosize;
use tcpassay_units::{Dur, Rate, Time};

/// The inputs of the length.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct LengthInput {
    pub rule: TsoAutosize,
    pub mss: u64,
    /// Largest super-segment of the NIC.
    pub nic: u64,
    /// Least segments of a super-segment that is sized by rate.
    pub min_segments: u32,
    /// The rate of pacing; `None` if nothing is paced.
    pub pacing: Option<Rate>,
    /// The rate of pacing, or the one that Linux has without pacing, too.
    pub rate: Option<Rate>,
    pub min_rtt: Option<Dur>,
}

/// The longest super-segment, in whole segments.
pub(in crate::send) fn longest(input: &LengthInput) -> u64 {
    let most = match by_rate(input) {
        Some(size) => input.nic.min(size.max(u64::from(input.min_segments) * input.mss)),
        None => input.nic,
    };
    (most - most % input.mss).max(input.mss)
}

/// The length that follows from the pacing rate, if such a rule is in use.
fn by_rate(input: &LengthInput) -> Option<u64> {
    if input.rule == TsoAutosize::Off {
        return input.pacing.map(|rate| rate.bytes_in(Dur::from_millis(1)).get());
    }
    let rate = input.rate?;
    let mut size = rate.bits_per_sec() / 8 / 1024;
    if input.rule == TsoAutosize::RateAndRtt
        && let Some(min) = input.min_rtt
    {
        // `tcp_tso_rtt_log` = 9.
        let halvings = u32::try_from(min.as_micros() >> 9).unwrap_or(u32::MAX);
        size = size.saturating_add(input.nic.checked_shr(halvings).unwrap_or(0));
    }
    Some(size)
}

/// The inputs of the decision about deferral.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct DeferInput {
    /// The rule of Linux since 4.20.
    pub recent_only: bool,
    pub now: Time,
    /// Time of the last transmission, also of a segment without data, or the time at which pacing permits the next one.
    pub last_sent: Time,
    /// Time of transmission of the oldest outstanding record.
    pub head_sent: Option<Time>,
    pub srtt: Option<Dur>,
}

/// `tcp_tso_should_defer`: whether the next ACK is about to arrive, so that waiting for more window costs little.
pub(in crate::send) fn may_defer(input: &DeferInput) -> bool {
    let Some((head, srtt)) = input.head_sent.zip(input.srtt) else { return false };
    if input.recent_only {
        let near = Dur::from_millis(1);
        return input.now.since(input.last_sent) <= near
            && (head + srtt).since(input.now) <= near.min(srtt / 2);
    }
    input.now.since(head) >= srtt / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: LengthInput = LengthInput {
        rule: TsoAutosize::Off,
        mss: 1000,
        nic: 65_536,
        min_segments: 2,
        pacing: None,
        // 120 % of 100 kB in 100 ms.
        rate: Some(Rate::from_bits_per_sec(9_600_000)),
        min_rtt: Some(Dur::from_millis(100)),
    };

    #[test]
    fn without_a_rule_the_nic_decides_and_with_pacing_a_millisecond() {
        assert_eq!(longest(&INPUT), 65_000);
        let paced = LengthInput { pacing: Some(Rate::from_bits_per_sec(80_000_000)), ..INPUT };
        assert_eq!(longest(&paced), 10_000);
        let slow = LengthInput { pacing: Some(Rate::from_bits_per_sec(8_000_000)), ..INPUT };
        assert_eq!(longest(&slow), 2000, "at least two segments");
    }

    #[test]
    fn linux_sends_what_passes_in_a_1024th_of_a_second_and_more_on_short_paths() {
        let rate = LengthInput { rule: TsoAutosize::Rate, ..INPUT };
        // 1.2 MB/s: 1171 bytes, raised to two segments.
        assert_eq!(longest(&rate), 2000);
        let short =
            LengthInput { rule: TsoAutosize::RateAndRtt, min_rtt: Some(Dur::from_micros(1100)), ..rate };
        // 1171 and 65536 / 4.
        assert_eq!(longest(&short), 17_000);
    }

    #[test]
    fn deferral_needs_an_ack_that_is_near() {
        let at = |ms| Time::ZERO + Dur::from_millis(ms);
        let input = DeferInput {
            recent_only: true,
            now: at(100),
            last_sent: at(99),
            head_sent: Some(at(1)),
            srtt: Some(Dur::from_millis(100)),
        };
        assert!(may_defer(&input));
        assert!(!may_defer(&DeferInput { last_sent: at(98), ..input }));
        assert!(!may_defer(&DeferInput { head_sent: Some(at(2)), ..input }));
        assert!(!may_defer(&DeferInput { head_sent: None, ..input }));
        let before = DeferInput { recent_only: false, last_sent: at(0), ..input };
        assert!(may_defer(&DeferInput { head_sent: Some(at(50)), ..before }));
        assert!(!may_defer(&DeferInput { head_sent: Some(at(51)), ..before }));
    }
}
