//! Reordering: single packets that are held back, or bursts that are reversed.

use crate::engine::{Core, ElementContext, PacketId, PacketList};
use std::collections::VecDeque;
use tcpassay_units::{Dur, Seed, Stream, Time};

/// Reordering.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ReorderSpec {
    /// With `probability` a packet is held until `gap` others have passed it, but at most `longest`.
    ///
    /// netem's `reorder` instead sends a packet ahead of those that its delay holds, so that the distance depends on
    /// delay and rate. Here the distance is a parameter.
    HoldBack {
        /// Probability, 0 to 1.
        probability: f64,
        /// Number of packets that pass a held one; at least 1.
        gap: u32,
        /// Longest waiting time of a held packet, when no packets follow.
        longest: Dur,
    },
    /// Every `size` packets arrive in reverse order; an incomplete burst is released after `longest`.
    ReverseBursts {
        /// Packets per burst, at least 2.
        size: u32,
        /// Longest waiting time of the first packet of a burst.
        longest: Dur,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Reorder {
    /// The held packets with the number of packets that must still pass them and the latest time of release. All have
    /// the same initial values, so the first one is released first.
    HoldBack {
        probability: f64,
        gap: u32,
        longest: Dur,
        held: VecDeque<(PacketId, u32, Time)>,
        rng: Stream,
    },
    Reverse {
        size: u32,
        longest: Dur,
        burst: PacketList,
        due: Time,
    },
}

impl ReorderSpec {
    pub(super) fn make(self, name: &str, seed: Seed) -> Reorder {
        match self {
            ReorderSpec::HoldBack { probability, gap, longest } => {
                assert!(gap > 0, "a packet that nothing passes is not reordered");
                let rng = seed.stream(&format!("{name}.reorder"));
                Reorder::HoldBack { probability, gap, longest, held: VecDeque::new(), rng }
            }
            ReorderSpec::ReverseBursts { size, longest } => {
                assert!(size > 1, "a burst of one has no order");
                Reorder::Reverse { size, longest, burst: PacketList::default(), due: Time::ZERO }
            }
        }
    }
}

impl Reorder {
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        match self {
            Reorder::HoldBack { probability, gap, longest, held, rng } => {
                if rng.chance(*probability) {
                    held.push_back((id, *gap, core.now + *longest));
                } else {
                    ctx.forward(core, id);
                    for h in held.iter_mut() {
                        h.1 -= 1;
                    }
                    while let Some(&(id, 0, _)) = held.front() {
                        held.pop_front();
                        ctx.forward(core, id);
                    }
                }
            }
            Reorder::Reverse { size, longest, burst, due } => {
                if burst.is_empty() {
                    *due = core.now + *longest;
                }
                burst.push_front(&mut core.packets, id);
                if burst.len() >= *size {
                    release(burst, ctx, core);
                }
            }
        }
        self.arm(ctx, core);
    }

    pub fn wake(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        match self {
            Reorder::HoldBack { held, .. } => {
                while let Some(&(id, _, latest)) = held.front()
                    && latest <= core.now
                {
                    held.pop_front();
                    ctx.forward(core, id);
                }
            }
            Reorder::Reverse { burst, .. } => release(burst, ctx, core),
        }
        self.arm(ctx, core);
    }

    pub fn held(&self) -> u64 {
        match self {
            Reorder::HoldBack { held, .. } => held.len() as u64,
            Reorder::Reverse { burst, .. } => u64::from(burst.len()),
        }
    }

    fn arm(&self, ctx: &ElementContext, core: &mut Core) {
        let at = match self {
            Reorder::HoldBack { held, .. } => held.front().map(|h| h.2),
            Reorder::Reverse { burst, due, .. } => (!burst.is_empty()).then_some(*due),
        };
        ctx.wake_at(core, at);
    }
}

fn release(burst: &mut PacketList, ctx: &mut ElementContext, core: &mut Core) {
    while let Some(id) = burst.pop_front(&core.packets) {
        ctx.forward(core, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::test_net::{TestPath, numbered};

    #[test]
    fn a_held_packet_is_passed_by_exactly_the_gap() {
        let longest = Dur::from_secs(1);
        let mut line = TestPath::new(ReorderSpec::HoldBack { probability: 0.02, gap: 3, longest });
        for seq in 0..1000 {
            line.send(numbered(seq, 1));
        }
        line.finish();
        let seqs = line.seqs();
        assert_eq!(seqs.len(), 1000);
        let mut late = 0;
        for (at, seq) in seqs.iter().enumerate() {
            let passed = seqs[..at].iter().filter(|s| *s > seq).count();
            assert!(passed == 0 || passed == 3 || at > 990, "{seq} was passed by {passed}");
            late += usize::from(passed == 3);
        }
        assert!((10..30).contains(&late), "{late}");
    }

    #[test]
    fn a_held_packet_goes_after_the_longest_wait_when_nothing_follows() {
        let longest = Dur::from_millis(7);
        let mut line = TestPath::new(ReorderSpec::HoldBack { probability: 1.0, gap: 3, longest });
        line.send(numbered(0, 1));
        line.finish();
        assert_eq!(line.times(), [7_000_000]);
    }

    #[test]
    fn bursts_arrive_backwards_and_the_last_is_released_by_time() {
        let mut line = TestPath::new(ReorderSpec::ReverseBursts { size: 4, longest: Dur::from_millis(1) });
        for seq in 1..=10 {
            line.send(numbered(seq, 1));
        }
        line.finish();
        assert_eq!(line.seqs(), [4, 3, 2, 1, 8, 7, 6, 5, 10, 9]);
        assert_eq!(line.times()[8..], [1_000_000, 1_000_000]);
    }
}
