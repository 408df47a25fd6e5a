//! The window that a receiver announces against its buffer and what the application has read: RFC 9293 section 3.8.6.

use super::names::FLOW_CONTROL as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_tcp::RecvBuffer;

/// The scale with which a window of `most` bytes fits into 16 bits, 14 at most (RFC 7323 section 2.3).
pub(super) fn scale(most: u64) -> u32 {
    (u64::BITS - most.leading_zeros()).saturating_sub(16).min(14)
}

/// The announcements of one receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceiveWindow {
    /// The largest right edge so far.
    edge: u64,
}

impl ReceiveWindow {
    /// This end sends a segment.
    pub fn sent(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let (Some(stack), Some(peer)) = (context.stack(step.flow), context.stack(step.peer)) else { return };
        let (Some(ack), Some(window)) = (step.event.ack, step.event.window) else { return };
        // Linux's account of memory, and its threshold, give less than the buffer.
        let plain = stack.recv_memory.is_none()
            && stack.recv_tuning == tcpassay_tcp::RecvTuning::Plain
            && !stack.bsd_window;
        if !context.exact()
            || !plain
            || !step.end.open
            || step.end.fin_in.is_some()
            || ack < step.end.now.frontier
        {
            return;
        }
        let most = match stack.recv_buffer {
            RecvBuffer::Fixed(size) => size.get(),
            RecvBuffer::Auto { max, .. } => max.get(),
        };
        let shift = if stack.window_scale && peer.window_scale { scale(most) } else { 0 };
        let unit = 1_u64 << shift;
        let (edge, unread) = (ack + window.get(), step.end.read + 1);
        let before = self.edge;
        self.edge = before.max(edge);
        if edge >= (unread + most).max(before) + unit {
            found.add(step.of_receiver(context, NAME, "a window beyond the buffer"), || {
                format!(
                    "{} announced a window up to {edge}; its application has read up to {unread}, and its buffer has {most} bytes at most (RFC 9293 \
                     section 3.8.6).", context.who(step.flow)
                )
            });
        }
    }
}
