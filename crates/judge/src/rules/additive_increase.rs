//! The finding of a window that grows too fast in congestion avoidance (RFC 5681 section 3.1), of the model and of kernels.

use super::names::WINDOW_GROWTH as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};

/// An increase of a window in congestion avoidance.
pub(super) struct Increase {
    /// The row from which the growth is counted.
    pub row: usize,
    /// The window at that row, in bytes.
    pub from: u64,
    /// The window now, in bytes.
    pub to: u64,
    /// Number of windows that were acknowledged in between.
    pub windows: f64,
    /// Maximum segment size in bytes: each of these windows permits one segment.
    pub mss: u64,
}

/// Reports a window that grew by more than a segment for each acknowledged window.
pub(super) fn report(increase: &Increase, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Increase { row, from, to, windows, mss } = increase;
    found.add(
        step.of_sender(context, NAME, "congestion avoidance adds more than a segment a window").since(*row, step.at()),
        || {
            format!(
                "In congestion avoidance the window of {} grew from {from} to {to} bytes while {windows:.1} windows were \
                 acknowledged; one segment of {mss} bytes a window is allowed (RFC 5681 section 3.1).",
                context.who(step.flow)
            )
        },
    );
}
