//! Names of oracles whose rules are in several modules.

/// Name of the oracle in `ecn.rs`; `ce_change.rs` has another rule of it.
pub(super) const ECN: &str = "ecn";
/// Name of the oracle in `growth.rs`; `cubic_curve.rs`, `hystart.rs` and `traced_window.rs` have further rules of it.
pub(super) const WINDOW_GROWTH: &str = "window-growth";
/// Name of the oracle in `probe.rs`; `traced_probe.rs` has its rules for kernels.
pub(super) const TAIL_LOSS_PROBE: &str = "tail-loss-probe";
/// Name of the oracle in `retransmission_timer.rs`; `estimator.rs`, `give_up.rs`, `keepalive.rs` and `timer_restart.rs` have further rules of it.
pub(super) const RETRANSMISSION_TIMER: &str = "retransmission-timer";
/// Name of the oracle in `reduction.rs`; `alpha.rs` and `recovery_window.rs` have further rules of it.
pub(super) const WINDOW_REDUCTION: &str = "window-reduction";
/// Name of the oracle in `acknowledgment.rs`; `timestamp_clock.rs` has another rule of it.
pub(super) const SEGMENT_CONTENTS: &str = "segment-contents";
/// Name of the oracle in `receiver.rs`; `quick_ack.rs` has further rules of it.
pub(super) const ACK_TIMING: &str = "ack-timing";
/// Name of the oracle in `flow_control.rs`; `cork.rs` has another rule of it.
pub(super) const FLOW_CONTROL: &str = "flow-control";
/// Name of the oracle in `loss.rs`; `frto.rs` has another rule of it.
pub(super) const LOSS_DETECTION: &str = "loss-detection";
/// Name of the oracle in `bounds.rs`; `token_bucket.rs` has another rule of it.
pub(super) const BOUNDS: &str = "bounds";
