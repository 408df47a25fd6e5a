//! The retransmission timeout: RFC 6298 section 5.

use crate::step::Step;
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_tcp::Config;
use tcpassay_units::Dur;

/// The retransmission timeout in force: that of the last sample, doubled by each timeout since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rto {
    base: Option<Dur>,
    /// Timeouts since.
    pub doublings: u32,
}

impl Rto {
    pub fn on(&mut self, step: &Step<'_>) {
        match step.event.kind {
            EventKind::Rtt => *self = Rto { base: step.event.rto, doublings: 0 },
            EventKind::TimerFire if step.event.timer() == Some(Timer::Rto) => {
                self.doublings += 1;
            }
            _ => {}
        }
    }

    /// The timeout; `None` before the first sample of data.
    pub fn get(self, stack: &Config) -> Option<Dur> {
        Some(self.base?.saturating_mul(1 << self.doublings.min(32)).min(stack.rto.max))
    }
}
