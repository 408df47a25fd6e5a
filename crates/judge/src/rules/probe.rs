//! Tail loss probes: RFC 8985 section 7.

use super::names::TAIL_LOSS_PROBE as NAME;
use super::traced_probe::TracedProbe;
use crate::finding::Oracle;
use crate::needs::Need;
use crate::step::{PerEnd, Rule};
use tcpassay_measure::EventKind;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "tail loss probes against RFC 8985",
    asserts: "a probe is sent when no segment has arrived for two SRTT or for the RTO, and not earlier; it comes no later than two of the longest round trips after the last delivery and, if a single \
              segment is outstanding, the delay of an ACK; \
              a retransmission timer that fires in state Open with nothing SACKed was preceded by a probe.",
    why: "RFC 8985 sections 7.2 (when the probe timer is set, and its duration) and 7.3 (contents of a probe; at most one probe is outstanding).",
    evidence: "the row at which the timer fired, and the transmission at which the wait began.",
    wrong_when: "the log of a kernel does not contain the probe timer: a retransmission is a probe if the kernel gives this reason, and new data that are sent after a \
                 silence are considered a probe.",
    needs: &[Need::Event(EventKind::TimerFire)],
};

/// The rules of the documentation of this module, for the log of a kernel.
pub(super) fn rule(flows: usize) -> Box<dyn Rule> {
    PerEnd::<TracedProbe>::rule(flows, TracedProbe::on)
}
