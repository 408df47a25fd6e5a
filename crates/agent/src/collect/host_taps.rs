//! The taps of the hosts of a run: which host a packet at a tap concerns.

use crate::collect::tap::{CapturedPacket, Taps};
use tcpassay_linux::sys;

/// In real time a packet is in the ring of its tap at most this long after it passed, in nanoseconds. The measured delay is far below.
const RING_DELAY: u64 = 200_000;

/// The taps of a run. The number of a tap tells its host and direction.
#[derive(Default)]
pub struct HostTaps {
    /// The taps.
    pub taps: Taps,
    /// The generators are measured: one tap a host.
    pub benchmark: bool,
    /// Time passes while the agent works.
    pub real_time: bool,
}

impl HostTaps {
    /// The instant before which everything has reached the rings.
    pub fn complete_until(&self) -> u64 {
        if self.real_time { sys::now() - RING_DELAY } else { u64::MAX }
    }

    /// Calls `each` with the packets that passed before `until`, as [`Taps::drain`], with each host that they concern and whether they leave it.
    /// Returns when the last one passed.
    pub fn drain(&mut self, until: u64, mut each: impl FnMut(&CapturedPacket, u32, bool)) -> Option<u64> {
        let (mut last, benchmark) = (None, self.benchmark);
        self.taps.drain(until, |packet| {
            last = Some(packet.at);
            for (host, outgoing) in roles(packet.tap, benchmark) {
                each(packet, host, outgoing);
            }
        });
        last
    }
}

/// The hosts that a packet at a tap concerns; for each, whether the packet leaves it. Each host has two
/// taps, for leaving and for arriving packets. In a benchmark of two hosts tap `n` sees the packets that
/// arrive at host `n`, which left the other one.
fn roles(tap: usize, benchmark: bool) -> Vec<(u32, bool)> {
    let host = |n: usize| u32::try_from(n).expect("few hosts");
    if benchmark {
        return vec![(1 - host(tap), true), (host(tap), false)];
    }
    vec![(host(tap / 2), tap.is_multiple_of(2))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_two_taps_for_leaving_and_arriving_packets() {
        assert_eq!(
            [0, 1, 2, 3].map(|tap| roles(tap, false)[0]),
            [(0, true), (0, false), (1, true), (1, false)]
        );
    }

    #[test]
    fn a_packet_that_arrives_in_a_benchmark_has_left_the_other_host_first() {
        assert_eq!(roles(0, true), [(1, true), (0, false)]);
        assert_eq!(roles(1, true), [(0, true), (1, false)]);
    }
}
