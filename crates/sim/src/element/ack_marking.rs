//! Marking the returning ACKs instead of the data (the paper's low-latency rate limiter).
//!
//! A shaper at the sender that marks data waits a round trip, and for the receiver's delayed ACK, until the sender
//! hears of it; setting ECE on ACKs that pass the shaper's host tells it at once.

use super::backlog::Backlog;
use crate::engine::{Core, ElementContext, NodeId, PacketId};
use tcpassay_units::Bytes;
use tcpassay_wire::Flags;

/// Sets ECE on the ACKs of a flow while more than a threshold waits in the queue that its data passes the other way.
///
/// Segments that carry SYN or RST are left alone: there ECE is negotiation (RFC 3168 section 6.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckEceMarker {
    /// The queue that the data passes; of a classful one, the class of the flow.
    pub queue: NodeId,
    /// Marks while more than this waits there.
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
