//! A path that pauses and loses nothing, as during a handover.

use crate::engine::{Core, ElementContext, PacketId, PacketList};
use tcpassay_units::{Dur, Seed, Time};

/// Packets that arrive in a pause leave together at its end, in their order. A pause begins at each multiple of `every`; the first begins at
/// `every`, not at the beginning of the run. On kernels the relay has the same rule (`crates/agent/src/netns/impairments.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PauseSpec {
    /// Time between the beginnings of two pauses.
    pub every: Dur,
    /// Length of a pause, shorter than `every`.
    pub length: Dur,
}

#[derive(Clone, Debug)]
pub(crate) struct Pause {
    spec: PauseSpec,
    waiting: PacketList,
}

impl PauseSpec {
    pub(super) fn make(self, _: &str, _: Seed) -> Pause {
        assert!(!self.length.is_zero() && self.length < self.every, "a pause without a length or an end");
        Pause { spec: self, waiting: PacketList::default() }
    }

    /// The end of the pause at `now`.
    fn end(self, now: Time) -> Option<Time> {
        let (now, every, length) = (now.as_nanos(), self.every.as_nanos(), self.length.as_nanos());
        let inside = now % every;
        (now >= every && inside < length).then(|| Time::from_nanos(now - inside + length))
    }
}

impl Pause {
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        let Some(end) = self.spec.end(core.now) else {
            // Packets of the pause that ends at this instant come first.
            self.release(ctx, core);
            ctx.forward(core, id);
            return;
        };
        self.waiting.push_back(&mut core.packets, id);
        if self.waiting.len() == 1 {
            ctx.wake_at(core, Some(end));
        }
    }

    pub fn wake(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        self.release(ctx, core);
    }

    fn release(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        if self.waiting.is_empty() {
            return;
        }
        while let Some(id) = self.waiting.pop_front(&core.packets) {
            ctx.forward(core, id);
        }
        ctx.wake_at(core, None);
    }

    pub fn held(&self) -> u64 {
        u64::from(self.waiting.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::test_net::{TestPath, numbered};

    #[test]
    fn packets_of_a_pause_leave_at_its_end_in_their_order_and_others_at_once() {
        let mut line = TestPath::new(PauseSpec { every: Dur::from_millis(10), length: Dur::from_millis(4) });
        // 0 ms is no pause; the pauses are 10 to 14 ms and 20 to 24 ms.
        for (seq, ms) in [(0, 0), (1, 9), (2, 10), (3, 13), (4, 14), (5, 19), (6, 23)] {
            line.run_until(ms * 1_000_000);
            line.send(numbered(seq, 100));
        }
        line.finish();
        let ms: Vec<u64> = line.times().iter().map(|t| t / 1_000_000).collect();
        assert_eq!(line.seqs(), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(ms, [0, 9, 14, 14, 14, 19, 24]);
        assert_eq!(line.counters().balance(), 0);
    }
}
