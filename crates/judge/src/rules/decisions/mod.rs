//! The decisions of a congestion controller against the specification of its algorithm.
//!
//! The model logs each event that a controller processed, what it knew of the sender, and the window, threshold and pacing rate that it
//! returned. The modules below compute from the events what the specification gives, with their own variables, and compare.
//!
//! * [`windows`] - slow start, congestion avoidance, reductions, timeouts, idle periods and undos, common to controllers with a window rule.
//! * [`additive`] - Reno and DCTCP.
//! * [`cubic`], [`linux_cubic`] - CUBIC of RFC 9438 and of Linux.
//! * [`slow_start`] - HyStart++ (RFC 9406) and the HyStart of Linux.
//! * [`vegas`] - Vegas and modified Vegas.
//! * [`bbr`], [`bbr3`] - BBR as in Linux 6.1, and version 3.

mod additive;
mod bbr;
mod bbr3;
mod bbr_arithmetic;
mod cubic;
mod linux_cubic;
mod slow_start;
mod specification;
#[cfg(test)]
mod tests;
mod vegas;
mod windows;

use super::names::CONTROLLER as NAME;
use crate::facts::Facts;
use crate::finding::{Findings, Oracle};
use crate::history::History;
use specification::{Specification, Values};
use std::collections::BTreeMap;
use tcpassay_case::HostSettings;
use tcpassay_cc::{Arithmetic, Cause, Control, Event};
use tcpassay_measure::Decision;
use tcpassay_tcp::Config;
use tcpassay_units::Bytes;
use windows::Windows;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "decisions of the congestion controller against its specification",
    asserts: "for each event that the controller of a sender processes (an ACK, a loss, a mark, a timeout, the end of a recovery, an undo, \
              idle time) it returns the window, the slow-start threshold and the pacing rate that its specification gives, from the data \
              that were delivered, marked and lost, the round-trip times, the delivery rates, and what limited the sender: growth by byte \
              counting, HyStart and HyStart++; additive increase; the factor of a reduction; DCTCP's alpha; CUBIC's W_max, K, epoch, \
              Reno-friendly window and fast convergence; the queue estimate of Vegas; and of BBR its filters, gains, the order and the \
              length of the phases, ProbeRTT, and the rate and window that follow from them.",
    why: "RFC 5681 section 3.1, RFC 3465 section 2, RFC 9438 sections 4 and 5.8, RFC 8257 section 3.3, RFC 9406 section 4, RFC 8511, \
          draft-cardwell-iccrg-bbr-congestion-control-00, draft-ietf-ccwg-bbr-06; for the arithmetic of Linux `tcp_cubic.c`, `tcp_vegas.c` and `tcp_bbr.c` of 6.1.",
    evidence: "the last segment that the sender received or sent before the decision.",
    wrong_when: "never known to be: the comparison is with the events as the controller received them. It says nothing about events that the \
                 sender reports wrongly; `window-growth` and `window-reduction` compare windows with segments. Controllers in Python \
                 are not judged, nor is BBR version 3 from the first wait for a probe of more than two seconds on, because its end is random.",
    needs: &[],
};

/// The specification of controller `name`, if there is one here.
fn specification(
    name: &str,
    values: &BTreeMap<String, f64>,
    stack: &Config,
) -> Option<Box<dyn Specification>> {
    let values = &Values(values);
    let linux = stack.cc_arithmetic == Arithmetic::Linux;
    Some(match name {
        "reno" => Box::new(Windows::new(additive::Reno::new(values, stack), stack)),
        "dctcp" => Box::new(Windows::new(additive::Dctcp::new(values, stack), stack)),
        "cubic" if linux => Box::new(Windows::new(linux_cubic::LinuxCubic::new(values, stack), stack)),
        "cubic" => Box::new(Windows::new(cubic::Cubic::new(values, stack), stack)),
        "vegas" => Box::new(Windows::new(vegas::Vegas::new(values, linux), stack)),
        "mvegas" => Box::new(Windows::new(vegas::Vegas::modified(values), stack)),
        "bbr" => Box::new(bbr::Candidates::new(values)),
        "bbr3" => Box::new(bbr3::candidates::Candidates::new(values)),
        _ => return None,
    })
}

/// Judges the decisions of all controllers of a run of the model.
pub(super) fn look(history: &History<'_>, found: &mut Findings) {
    let recording = history.recording;
    if recording.decisions.is_empty() {
        return;
    }
    let Some(facts) = Facts::of(recording).filter(Facts::is_model) else { return };
    let specified = |flow: &tcpassay_measure::Flow| {
        let HostSettings { stack, cc, cc_values, python, .. } = facts.host(flow.from)?;
        // A class of traffic may have another controller, with the defaults of its parameters.
        let (own, none) = (flow.cc == cc.name(), BTreeMap::new());
        let values = if own { cc_values } else { &none };
        if own && python.is_some() { None } else { specification(&flow.cc, values, stack) }
    };
    let mut judged: Vec<Option<Box<dyn Specification>>> = recording.flows.iter().map(specified).collect();
    for decision in &recording.decisions {
        let flow = decision.flow as usize;
        let Some(one) = judged.get_mut(flow).and_then(Option::as_mut) else { continue };
        if let Some(expected) = one.on(&decision.view, &decision.event, &decision.asked) {
            report(history, decision, &expected, &one.variables(), found);
            // What follows depends on variables that are not known now.
            judged[flow] = None;
        }
    }
}

fn title(decision: &Decision, expected: &Control) -> &'static str {
    let asked = &decision.asked;
    if (asked.cwnd, asked.ssthresh) == (expected.cwnd, expected.ssthresh) {
        return "a pacing rate other than specified";
    }
    match decision.event {
        Event::Ack(_) => "an ACK gives another window than specified",
        Event::Congestion { cause: Cause::Loss, .. } => "a loss gives another window than specified",
        Event::Congestion { cause: Cause::Ecn, .. } => "a mark gives another window than specified",
        Event::Timeout { .. } => "a timeout gives another window than specified",
        Event::RecoveryExit { spurious: true, .. } => "an undo gives another window than specified",
        Event::RecoveryExit { spurious: false, .. } => {
            "the end of a recovery gives another window than specified"
        }
        Event::Resume { .. } => "idle time gives another window than specified",
        Event::Established | Event::Sent { .. } => "a transmission gives another window than specified",
    }
}

fn shown(control: &Control) -> String {
    let threshold =
        if control.ssthresh == Bytes::MAX { "unlimited".to_owned() } else { control.ssthresh.to_string() };
    let rate = control.pacing.map_or_else(String::new, |rate| format!(", a pacing rate of {rate}"));
    format!("a window of {}, an ssthresh of {threshold}{rate}", control.cwnd)
}

fn report(
    history: &History<'_>,
    decision: &Decision,
    expected: &Control,
    variables: &str,
    found: &mut Findings,
) {
    let flow = decision.flow as usize;
    let now = decision.view.now;
    let half = &history.halves[flow];
    let mut one = history.occurrence(NAME, title(decision, expected), flow, flow);
    (one.start, one.end) = (now, now);
    one.rows.extend(half.at_time(now).map(|place| half.segments[place].row));
    found.add(one, || {
        let name = &history.recording.flows[flow].cc;
        format!(
            "{} had {}; to {:?} its controller {name} answers with {}. The specification gives {}{variables}.",
            history.who(flow), shown(&decision.view.control), decision.event, shown(&decision.asked), shown(expected)
        )
    });
}
