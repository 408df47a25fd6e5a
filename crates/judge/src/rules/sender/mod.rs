//! The sender of the model, computed anew in parts: the ends of its timers, the window of NewReno, and what is sent after each ACK.
//!
//! Each part starts from the state that the log shows (the window, the congestion state, SRTT), so that one fault does not cause findings of
//! all parts.

mod deadlines;
mod inflation;
mod rto;
mod transmissions;

use super::names::SENDER as NAME;
use crate::finding::{Findings, Oracle};
use crate::needs::Need;
use crate::step::{Context, Rule, Step};
use deadlines::Deadlines;
use inflation::Inflation;
use rto::Rto;
use tcpassay_measure::EventKind;
use transmissions::Transmissions;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "timers, recovery window and transmissions of the sender, computed anew",
    asserts: "the timer of the tail loss probe is set for two SRTT, with one segment in flight for the delay of an ACK longer, and for no longer than the \
              retransmission timer; a corked segment waits for 200 ms, whatever is written meanwhile; the probes of a closed window wait for the RTO, doubled with each probe, within the bounds, and something is sent when \
              this timer fires; on Linux the retransmission timer counts from now or from the first segment; without SACK the window of a recovery begins with ssthresh and the duplicates that began it, \
              grows by a segment with each duplicate, and a partial ACK takes away what it acknowledges less one segment; without pacing and TSO (profile `rfc`) as much is sent as both windows permit, \
              at once, in segments of the size that Nagle's algorithm and silly window avoidance give, and no more, and what is lost is sent at once if the window permits.",
    why: "RFC 8985 section 7.2, RFC 6298 section 5, RFC 9293 sections 3.8.6.1 and 3.8.6.2.1, tcp(7) (TCP_CORK), RFC 5681 sections 3.1 and 3.2, RFC 6582 section \
          3.2; Linux `tcp_schedule_loss_probe`, `tcp_rearm_rto`, `tcp_check_probe_timer`.",
    evidence: "the row of the timer, of the change of the state or of the ACK.",
    wrong_when: "never known to be. Only the model logs its timers and windows exactly.",
    needs: &[Need::Event(EventKind::Congestion)],
};

#[derive(Clone, Debug, Default)]
struct Half {
    /// Which parts apply; `None` before the first row.
    applies: Option<Applies>,
    rto: Rto,
    deadlines: Deadlines,
    inflation: Inflation,
    transmissions: Transmissions,
}

/// Which parts apply to a flow. They depend on its settings only, and most flows have few of them.
#[derive(Clone, Copy, Debug)]
struct Applies {
    /// The window of a recovery is that of NewReno.
    inflation: bool,
    /// Transmissions follow from the log; then, whether SACK is used.
    transmissions: Option<bool>,
}

/// Implements the rules in the documentation of this module.
pub(super) struct Sender {
    halves: Vec<Half>,
}

impl Sender {
    pub fn new(flows: usize) -> Sender {
        Sender { halves: vec![Half::default(); flows] }
    }
}

impl Rule for Sender {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let half = &mut self.halves[step.flow];
        let applies = *half.applies.get_or_insert_with(|| Applies {
            inflation: inflation::applies(context, step),
            transmissions: transmissions::selective(context, step),
        });
        half.rto.on(step);
        half.deadlines.on(context, step, half.rto, found);
        if applies.inflation {
            half.inflation.on(context, step, found);
        }
        if let Some(selective) = applies.transmissions {
            half.transmissions.on(context, step, selective, found);
        }
    }
}
