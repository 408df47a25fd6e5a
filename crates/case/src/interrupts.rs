//! When a NIC raises its receive interrupt, and the order in which it passes packets up: for the model and for guests.

use crate::net_dim::InterruptModeration;
use crate::params::{Adaptive, NicSettings};
use std::ops::RangeInclusive;
use tcpassay_units::{Dur, Stream, Time};

/// The sizes of the groups that a driver with a stale hash reverses (`nic.lro_order`), as in the report about it.
pub const STALE_HASH_GROUPS: RangeInclusive<u32> = 4..=5;

/// The packets that a poll takes at most (NAPI's budget).
pub const POLL_BUDGET: u32 = 64;

/// The time of the receive interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coalesce {
    /// The interrupt occurs when the first packet has waited `usecs`, or when `frames` packets have arrived (0: only
    /// the time counts), as set by `ethtool -C`. `usecs` zero: immediately.
    Fixed {
        /// Longest waiting time of the first packet.
        usecs: Dur,
        /// Number of packets that cause the interrupt.
        frames: u32,
    },
    /// The delay depends on the load, as in Linux's dynamic interrupt moderation (`net_dim`): 1, 8, 64, 128 or 256
    /// us, as long as longer delays reduce interrupts without reducing throughput.
    Adaptive,
    /// Coalescing by firmware that the driver does not show: the delay is `short` while packets arrive steadily, and
    /// `long` after a pause longer than `idle`. `frames` packets (0: only the time counts) end either delay.
    Hidden {
        /// Delay while packets arrive steadily.
        short: Dur,
        /// Delay after a pause.
        long: Dur,
        /// Shortest pause.
        idle: Dur,
        /// Number of packets that cause the interrupt.
        frames: u32,
    },
}

impl Coalesce {
    /// The rule of a NIC.
    pub fn of(nic: &NicSettings) -> Coalesce {
        match nic.adaptive {
            Adaptive::Off => Coalesce::Fixed { usecs: nic.rx_delay, frames: nic.rx_frames },
            Adaptive::On => Coalesce::Adaptive,
            Adaptive::Hidden => Coalesce::Hidden {
                short: nic.hidden_short,
                long: nic.hidden_long,
                idle: nic.hidden_idle,
                frames: nic.hidden_frames,
            },
        }
    }
}

/// Decides when the receive interrupt of a NIC occurs.
#[derive(Clone, Debug)]
pub struct ReceiveInterrupts {
    coalesce: Coalesce,
    interrupt_at: Option<Time>,
    dim: InterruptModeration,
    last_arrival: Time,
}

impl ReceiveInterrupts {
    /// The interrupts of a NIC at which no packet has arrived.
    pub fn new(coalesce: Coalesce) -> ReceiveInterrupts {
        ReceiveInterrupts {
            coalesce,
            interrupt_at: None,
            dim: InterruptModeration::new(),
            last_arrival: Time::ZERO,
        }
    }

    /// A packet of `bytes` arrives, with which `waiting` packets are in the ring. `polling`: the host polls the ring, so that interrupts are
    /// disabled. Returns true if the interrupt occurs at once.
    pub fn arrive(&mut self, now: Time, bytes: u64, waiting: u32, polling: bool) -> bool {
        if self.coalesce == Coalesce::Adaptive {
            self.dim.packet(bytes);
        }
        let delay = self.delay(now);
        self.last_arrival = now;
        if polling {
            return false;
        }
        let due = *self.interrupt_at.get_or_insert(now + delay);
        let full = match self.coalesce {
            Coalesce::Fixed { frames, .. } | Coalesce::Hidden { frames, .. } => {
                frames > 0 && waiting >= frames
            }
            Coalesce::Adaptive => false,
        };
        full || due <= now
    }

    /// The time of the next interrupt.
    pub fn due(&self) -> Option<Time> {
        self.interrupt_at
    }

    /// The interrupt occurs.
    pub fn raise(&mut self, now: Time) {
        self.interrupt_at = None;
        if self.coalesce == Coalesce::Adaptive {
            self.dim.interrupt(now);
        }
    }

    fn delay(&self, now: Time) -> Dur {
        match self.coalesce {
            Coalesce::Fixed { usecs, .. } => usecs,
            Coalesce::Adaptive => self.dim.delay(),
            Coalesce::Hidden { short, long, idle, .. } => {
                if now.since(self.last_arrival) > idle {
                    long
                } else {
                    short
                }
            }
        }
    }
}

/// Draws the size of the next group that a driver with a stale hash reverses.
pub fn group_size(rng: &mut Stream, sizes: &RangeInclusive<u32>) -> u32 {
    let (low, high) = (*sizes.start(), *sizes.end());
    let more = rng.below(u64::from(high - low) + 1);
    low + u32::try_from(more).expect("at most the largest size")
}
