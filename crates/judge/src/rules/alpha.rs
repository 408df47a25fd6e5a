//! DCTCP's estimate of the share of marked bytes (RFC 8257 section 3.3), computed from the marks that ACKs report.

use super::names::WINDOW_REDUCTION as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_tcp::EcnMode;
use tcpassay_wire::Flags;

/// Largest difference from the sender's estimate. The round trips of the sender may begin at other ACKs than those of the oracle. The
/// sender reduces by the estimate from before or after the ACK that ends a round trip.
const TOLERANCE: f64 = 0.2;

/// The estimate, as the oracle computes it.
#[derive(Clone, Debug, Default)]
pub(super) struct Alpha {
    /// `DCTCP.Alpha`; `None` before the first ACK.
    value: Option<f64>,
    /// `DCTCP.WindowEnd`, `DCTCP.BytesAcked` and `DCTCP.BytesMarked`.
    end: u64,
    delivered: u64,
    marked: u64,
}

impl Alpha {
    #[expect(clippy::cast_precision_loss, reason = "windows are far below 2^53")]
    pub fn on_ack(&mut self, context: &Context<'_>, step: &Step<'_>) {
        if context.recording.flows[step.flow].cc != "dctcp" {
            return;
        }
        let Some(settings) = context.settings(step.flow) else { return };
        let parameter = |name: &str, default: f64| settings.cc_values.get(name).copied().unwrap_or(default);
        let value = self.value.get_or_insert(parameter("alpha", 1.0));
        let delivered = step.end.taken.delivered;
        self.delivered += delivered;
        self.marked += if step.flags().has(Flags::ECE) { delivered } else { 0 };
        if step.end.now.una >= self.end && self.delivered > 0 {
            let gain = parameter("g", 0.0625);
            *value = (1.0 - gain) * *value + gain * (self.marked as f64 / self.delivered as f64);
            (self.end, self.delivered, self.marked) = (step.end.now.nxt, 0, 0);
        }
    }

    /// Checks the reduction from `window` to `ssthresh` for a mark: by half of alpha, up to rounding to segments.
    pub fn judge(
        &self,
        context: &Context<'_>,
        step: &Step<'_>,
        (window, ssthresh): (u64, u64),
        found: &mut Findings,
    ) {
        let dctcp = |flow| context.stack(flow).is_some_and(|stack| stack.ecn == EcnMode::Dctcp);
        let Some(alpha) = self.value.filter(|_| context.exact() && dctcp(step.flow) && dctcp(step.peer))
        else {
            return;
        };
        let slack = 2 * context.mss(step.flow);
        let left = |alpha: f64| scale(window, 1.0 - alpha.clamp(0.0, 1.0) / 2.0);
        let (low, high) = (left(alpha + TOLERANCE), left(alpha - TOLERANCE));
        if ssthresh + slack < low || ssthresh > high + 2 * slack {
            found.add(step.of_sender(context, NAME, "a mark does not reduce by half of alpha"), || {
                format!(
                    "After a mark ssthresh of {} is {ssthresh} bytes, with a window of {window}; the marks that its ACKs reported give an alpha \
                     of {alpha:.2} (RFC 8257 section 3.3).",
                    context.who(step.flow)
                )
            });
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "windows are far below 2^53 and not negative"
)]
pub(super) fn scale(bytes: u64, factor: f64) -> u64 {
    (bytes as f64 * factor) as u64
}
