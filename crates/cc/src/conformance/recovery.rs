//! The recovery of the sender that the clauses see.

use crate::Control;

/// The current recovery.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct RecoveryState {
    /// The recovery ends when all data up to this position is acknowledged.
    pub(super) point: u64,
    /// It includes a timeout.
    pub(super) timeout: bool,
    /// Marks began it and no loss followed, so that it cannot be proven spurious.
    pub(super) marks: bool,
    /// The control before the recovery.
    pub(super) before: Control,
    /// The output of the controller at the beginning.
    pub(super) entered: Control,
}
