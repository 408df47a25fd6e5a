//! The receiver of the model, computed anew from the rows of its log: when it acknowledges, until when it delays an ACK, which position and
//! which window it announces.

mod acks;
mod end;
mod memory;
mod opening;
mod rtt;
mod space;
mod stamps;
mod stream;
mod window;

use super::names::RECEIVER as NAME;
use crate::finding::{Findings, Oracle};
use crate::step::{Context, Rule, Step};
use opening::Replay;
use stamps::{Clock, Stamp};
use tcpassay_measure::EventKind;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "the receiver of the model, computed anew",
    asserts: "each ACK leaves for the reason, and is delayed until the time, that the arrivals, the reads of the application and the settings give: \
              by the number of full segments and a fixed delay, or by Linux's quick ACKs, its estimate of the peer's segments and its adaptive \
              delay, with duplicate ACKs left out after three; the timer of a delayed ACK fires when it is due; each segment acknowledges what has \
              arrived in order and announces the window that the buffer has room for, which follows the bytes read or Linux's account \
              of memory, and the first window is that of the buffer.",
    why: "RFC 9293 sections 3.8.6 and 3.10.7.4, RFC 5681 section 4.2, RFC 1122 section 4.2.3.2; Linux `__tcp_ack_snd_check`, \
          `tcp_event_data_recv`, `tcp_measure_rcv_mss`, `tcp_send_delayed_ack`, `tcp_select_window`, `tcp_grow_window`: a receiver that decides otherwise \
          costs time or ACKs although every single decision is permitted.",
    evidence: "the decision or the segment that differs, and the last segment that arrived before it.",
    wrong_when: "never known to be. Only the log of the model has the decisions of its receiver. What the log does not tell is not compared: accurate \
                 ECN, Fast Open, DCTCP receivers before Linux 4.17.",
    needs: &[],
};

/// Implements the rules in the documentation of this module.
pub(super) struct Receiving {
    ends: Vec<Replay>,
    clocks: Vec<Clock>,
}

impl Receiving {
    pub fn new(flows: usize) -> Receiving {
        Receiving { ends: vec![Replay::default(); flows], clocks: vec![Clock::default(); flows] }
    }
}

impl Rule for Receiving {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let mut stamp = Stamp::Absent;
        if step.is_sent() {
            if self.ends[step.peer].wants_stamps() {
                self.clocks[step.flow].leaves(step);
            }
        } else if step.event.kind == EventKind::In && self.ends[step.flow].wants_stamps() {
            let mut sender = std::mem::take(&mut self.clocks[step.peer]);
            stamp = sender.arrives(step, &self.clocks[step.flow]);
            self.clocks[step.peer] = sender;
        }
        self.ends[step.flow].on(context, step, stamp, found);
    }
}
