//! The windows that the log of a real stack shows, instead of those that follow from the buffer and what is read.

use super::Receiver;
use crate::messages::WindowMove;
use tcpassay_units::Time;

impl Receiver {
    pub(crate) fn observe_windows(&mut self, shift: Option<u8>) {
        self.window.observe(shift.unwrap_or(0));
    }

    pub(crate) fn observe_window_move(&mut self, moved: WindowMove) {
        match moved {
            WindowMove::Kept | WindowMove::Grew | WindowMove::Spent => {
                self.window.observe_size(u64::MAX >> 16);
            }
            WindowMove::Shrank | WindowMove::Tight => {
                self.window.observe_size(self.edge.saturating_sub(self.read));
            }
        }
        match moved {
            WindowMove::Grew => self.acks.window_grew(),
            WindowMove::Spent => self.acks.spend_quick(),
            WindowMove::Tight => self.acks.stop_quick(),
            WindowMove::Kept | WindowMove::Shrank => {}
        }
        (self.announced, self.offer.0) = ((0, 0, 0), 0);
    }

    pub(crate) fn observe_edge(&mut self, edge: u64) {
        self.edge = edge;
        (self.announced, self.offer.0) = ((0, 0, 0), 0);
    }

    /// The scale of the windows that are announced.
    pub(crate) fn shift(&self) -> u8 {
        self.window.shift()
    }

    /// Whether the edge has moved to `edge` far enough for an ACK of its own, if the buffer holds `buffer` bytes.
    pub(crate) fn is_update(&mut self, edge: u64, buffer: u64) -> bool {
        // The buffer may have been smaller when the application read: it grows, and windows are rounded. In the rule of Linux, less of it is
        // stricter.
        let least = if self.rules.updates_doubled_window { buffer } else { buffer / 4 * 3 };
        self.window.observe_size(least);
        self.opens(edge)
    }

    /// A delayed ACK is not sent at the next arrival only because its timer is about to expire. Returns whether such a timer runs.
    pub(crate) fn postpone_ack(&mut self, now: Time) -> bool {
        self.acks.postpone(now)
    }

    /// Whether both decide alike from now on.
    pub(crate) fn is_like(&self, other: &Receiver) -> bool {
        let state = |r: &Receiver| (r.nxt, r.read, r.acked, r.last_ack_sent, r.edge, r.window.rtt());
        state(self) == state(other) && self.dsack == other.dsack && self.acks.is_like(&other.acks)
    }
}
