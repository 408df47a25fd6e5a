//! Names of oracles whose rules stand in several modules.

/// The oracle of `ecn.rs`.
pub(super) const ECN: &str = "ecn";
/// The oracle of `growth.rs`.
pub(super) const WINDOW_GROWTH: &str = "window-growth";
/// The oracle of `probe.rs`.
pub(super) const TAIL_LOSS_PROBE: &str = "tail-loss-probe";
/// The oracle of `retransmission_timer.rs`.
pub(super) const RETRANSMISSION_TIMER: &str = "retransmission-timer";
