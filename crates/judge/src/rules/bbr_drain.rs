//! The end of BBR's first phase: the queue that it has made is drained (Cardwell et al., "BBR: Congestion-Based Congestion Control", 2016;
//! draft-cardwell-iccrg-bbr-congestion-control section 4.3.2).

use super::names::WINDOW_REDUCTION as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Dur, Time};

/// Round trips that Drain may last. It sends at a third of the rate that it has measured, so that a queue of two bandwidth-delay products
/// is empty after three.
const ROUNDS: u64 = 8;
/// Part of a second for round trips shorter than the ticks of timers.
const LEAST: Dur = Dur::from_millis(20);

/// What one end does after its startup.
#[derive(Clone, Debug, Default)]
pub(super) struct BbrDrain {
    /// Time and row of the end of startup, and the bandwidth-delay product, which BBR then announces as ssthresh.
    full: Option<(Time, usize, u64)>,
    done: bool,
}

impl BbrDrain {
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if self.done || context.recording.flows[step.flow].cc != "bbr" || !context.in_virtual_time() {
            return;
        }
        let end = step.end;
        let Some((since, row, product)) = self.full else {
            if end.now.ssthresh != u64::MAX && step.before.ssthresh == u64::MAX {
                self.full = Some((step.at(), step.row, end.now.ssthresh));
            }
            return;
        };
        // Lost data are not in flight, and the log does not say which are lost. After a recovery the estimates may be others than those of
        // the startup, and BBR may be in a later phase.
        if end.now.state != CongestionState::Open {
            self.done = true;
            return;
        }
        let mss = context.mss(step.flow);
        let flight = end.outstanding() - end.sacked;
        let longest = end.round_trips.map_or(Dur::ZERO, |(_, longest)| longest);
        let most = longest * ROUNDS + LEAST;
        if flight <= product + 2 * mss || end.over {
            self.done = true;
        } else if step.at().since(since) > most {
            self.done = true;
            found.add(step.of_sender(context, NAME, "BBR does not drain the queue of its startup").since(row, since).warning(), || {
                format!(
                    "The startup of {} ended at {since:#} with a bandwidth-delay product of {product} bytes; since then, for {:#}, more was always \
                     in flight, now {flight} bytes (BBR, Drain).", context.who(step.flow), step.at().since(since)
                )
            });
        } else {
            step.deadline(Some(since), most);
        }
    }
}
