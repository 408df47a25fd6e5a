//! Marking of returning ACKs instead of data packets (the paper's low-latency rate limiter).
//!
//! When a shaper at the sender marks data packets, the sender receives the echo one round trip later, plus the delay
//! of the receiver's delayed ACK. Setting ECE on ACKs that pass the shaper's host removes this delay.

use super::backlog::Backlog;
use crate::engine::{Core, ElementContext, NodeId, PacketId};
use tcpassay_units::Bytes;
use tcpassay_wire::Flags;

/// Sets ECE on the ACKs of a flow while the queue that its data passes in the opposite direction holds more than a
/// threshold.
///
/// Segments with SYN or RST are not changed, because ECE has a different meaning there (RFC 3168 section 6.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckEceMarker {
    /// The queue of the data packets; for a classful discipline, the class of the flow.
    pub queue: NodeId,
    /// ECE is set while the backlog of the queue exceeds this value.
    pub above: Bytes,
}

impl AckEceMarker {
    pub(crate) fn receive(self, ctx: &mut ElementContext, core: &mut Core, id: PacketId, backlog: Backlog) {
        let flags = &mut core.packets[id].segment.flags;
        if backlog.bytes > self.above.get() && flags.has(Flags::ACK) && !flags.any(Flags::SYN | Flags::RST) {
            *flags |= Flags::ECE;
            ctx.marked(core, id);
        }
        ctx.forward(core, id);
    }
}
