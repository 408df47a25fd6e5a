//! The marks of data segments: what is counted of them, and which have something acknowledged at once.
//!
//! `ecn` knows what the echo asks for; here it meets the receiver's acknowledgements.
//!
//! Sources: RFC 8257 section 3.2; `__tcp_ecn_check_ce` and `dctcp_ece_ack_update` of Linux.

use super::ecn::Asks;
use super::{Echo, OldAck, Receiver, ack_event};
use crate::log::{AckDecision, AckReason, Log};
use tcpassay_units::{Time, count};
use tcpassay_wire::Ecn;

impl Receiver {
    /// The mark of a data segment.
    #[inline]
    pub(super) fn mark(&mut self, now: Time, len: u64, field: Ecn, log: &mut Log) {
        if field == Ecn::Ce {
            count(&mut self.stats.ce_segments, 1);
            count(&mut self.stats.ce_bytes, len);
        }
        if self.echo == Echo::Off {
            return;
        }
        let packets = self.packets_of(len);
        // RFC 8257 section 3.2 looks at CE alone; in Linux what is not ECN-capable does not move DCTCP's machine.
        let not_ce = field == Ecn::NotEct && !self.adaptive && matches!(self.echo, Echo::Dctcp { .. });
        match self.echo.data(if not_ce { Ecn::Ect0 } else { field }, packets, len) {
            Asks::Nothing => {}
            Asks::Quick => {
                if field == Ecn::Ce || self.ect_seen {
                    self.acks.quick_mode_for_mark(self.edge.saturating_sub(self.nxt));
                }
            }
            Asks::Tell => self.acks.demand(AckReason::CeChange),
            Asks::Changed { was } => self.ce_changed(now, was, log),
        }
        if field.is_capable() {
            self.ect_seen = true;
            self.nxt_at_mark = self.nxt;
        }
    }

    #[cold]
    fn ce_changed(&mut self, now: Time, was: bool, log: &mut Log) {
        let sent = self.acks.old_ack_due();
        if sent {
            let nxt = self.nxt_at_mark;
            let sacks = self.assembly.blocks().clone();
            self.old_ack = Some(OldAck { nxt, ece: was, sacks });
            self.acked = nxt;
            log.put(now, || ack_event(AckDecision::Now, AckReason::CeChange, nxt));
        }
        self.acks.ce_changed(sent);
    }
}
