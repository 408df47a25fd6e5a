//! Contents of segments: SACK blocks of data that arrived, timestamps of the time at which a kernel sends.

use super::names::SEGMENT_CONTENTS as NAME;
use super::timestamp_clock::TimestampClock;
use crate::finding::{Findings, Oracle};
use crate::needs::Need;
use crate::step::{Context, Rule, Step};
use tcpassay_measure::EventKind;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "contents of segments against RFC 2018 and RFC 7323",
    asserts: "every SACK block is a range of data and reports only data that arrived; the timestamp of a segment of a kernel is that of the time at which it is sent.",
    why: "RFC 2018 section 3, RFC 7323 section 3.2.",
    evidence: "the segment with wrong contents; for a timestamp the segment to which its clock is compared.",
    wrong_when: "arrivals are missing from the log, so that a block seems to report what did not arrive.",
    needs: &[Need::BothDirections, Need::Handshake, Need::EveryPacket, Need::NoCopies, Need::AtEnd],
};

/// Implements the rules in the documentation of this module.
pub(super) struct Acknowledgment {
    clocks: Vec<TimestampClock>,
}

impl Acknowledgment {
    pub fn new(flows: usize) -> Acknowledgment {
        Acknowledgment { clocks: vec![TimestampClock::default(); flows] }
    }
}

impl Rule for Acknowledgment {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if !context.of_kernel() {
            // Other logs do not have the timestamps of both ends, or are of the model, whose clock is exact.
        } else if step.is_sent() {
            self.clocks[step.flow].sent(step);
        } else if step.event.kind == EventKind::In {
            self.clocks[step.peer].arrived(context, step, found);
        }
        if step.event.flags.is_some() && step.is_sent() && step.is_stream() {
            blocks(context, step, found);
        }
    }
}

fn blocks(context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(ack) = step.event.ack else { return };
    for block in step.sacks {
        if block.0 == block.1 {
            found.add(step.of_receiver(context, NAME, "an empty SACK block"), || {
                format!(
                    "{} sent a SACK block that begins and ends at {} with ACK {ack}; a block is a range of data that was received (RFC 2018 section 3).",
                    context.who(step.flow), block.0
                )
            });
        } else if block.0 > block.1 || !step.end.has(block.0, block.1) {
            found.add(step.of_receiver(context, NAME, "a SACK block of data that did not arrive"), || {
                format!(
                    "{} sent a SACK block {} to {} with ACK {ack}, but not all of these positions have arrived (RFC 2018 section 3).",
                    context.who(step.flow), block.0, block.1
                )
            });
        }
    }
}
