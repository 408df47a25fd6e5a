//! Hosts and captures that handle packets in batches: the times of all packets lie near the multiples of a period.
//!
//! A host that works once a second, or a capture whose clock advances that slowly, shows an answer up to a period after it was due. Durations
//! of such a capture are known to its period only.

use std::collections::BTreeMap;
use tcpassay_units::{Dur, Time};

/// Shorter silences end no batch.
const SILENCE: Dur = Dur::from_millis(5);
/// Shorter periods do not matter: no limit of a rule is near them.
const SHORTEST: Dur = Dur::from_millis(100);
/// Silences that are kept.
const KEPT: usize = 4096;
/// Silences between batches that show a period.
const ENOUGH: usize = 5;
/// Periods in a silence above which it tells nothing about the period.
const FEW: u64 = 5;
/// Batches that both directions have to begin.
const EACH: usize = 2;

/// The silences of a capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batches {
    last: Option<Time>,
    /// The length of each, and the host that ended it.
    silences: Vec<(Dur, u32)>,
}

impl Batches {
    /// A host sends a packet.
    pub fn packet(&mut self, at: Time, host: u32) {
        let silence = self.last.map_or(Dur::ZERO, |last| at.since(last));
        self.last = Some(at);
        if silence >= SILENCE && self.silences.len() < KEPT {
            self.silences.push((silence, host));
        }
    }

    /// The period; `None` if the silences show none. All silences are near a multiple of it, or short beside it, and packets of several hosts
    /// end them: a host whose timer has a period does not set the times of its peers.
    pub fn period(&self) -> Option<Dur> {
        let long = || self.silences.iter().map(|(silence, host)| (silence.as_nanos(), *host));
        let shortest = long().map(|one| one.0).filter(|one| *one >= SHORTEST.as_nanos()).min()?;
        let count = |silence: u64| (silence + shortest / 2) / shortest;
        let telling: Vec<(u64, u32)> =
            long().filter(|one| one.0 >= shortest && count(one.0) <= FEW).collect();
        let periods: u64 = telling.iter().map(|one| count(one.0)).sum();
        let period = telling.iter().map(|one| one.0).sum::<u64>() / periods.max(1);
        let fits = |silence: u64| match silence {
            _ if silence < shortest => silence <= period / 10,
            _ if count(silence) > FEW => true,
            _ => silence.abs_diff(period * count(silence)) <= period / 10,
        };
        let mut enders: BTreeMap<u32, usize> = BTreeMap::new();
        for (_, host) in &telling {
            *enders.entry(*host).or_default() += 1;
        }
        let several = enders.values().filter(|count| **count >= EACH).count() > 1;
        let found = telling.len() >= ENOUGH && several && long().all(|one| fits(one.0));
        found.then_some(Dur::from_nanos(period))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The period of packets at these milliseconds, each with its host.
    fn period(packets: &[(u64, u32)]) -> Option<u64> {
        let mut batches = Batches::default();
        for (ms, host) in packets {
            batches.packet(Time::ZERO + Dur::from_millis(*ms), *host);
        }
        batches.period().map(|period| period.as_nanos() / 1_000_000)
    }

    #[test]
    fn packets_of_both_hosts_near_multiples_of_a_period_show_it() {
        let batched = [(3, 0), (1005, 1), (1007, 0), (2001, 1), (3002, 0), (3009, 1), (5001, 1), (6004, 0)];
        // The mean of six periods.
        assert_eq!(period(&batched), Some(998));
        let mut odd = batched.to_vec();
        odd.push((6404, 1));
        assert_eq!(period(&odd), None);
    }

    #[test]
    fn a_host_that_waits_for_a_timer_shows_no_period() {
        let late: Vec<(u64, u32)> = (0..8).flat_map(|n| [(900 * n, 1), (900 * n + 1, 0)]).collect();
        assert_eq!(period(&late), None);
    }
}
