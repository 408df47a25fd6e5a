//! Flows with equal settings that share a path unequally for a long time.

use crate::finding::{Findings, Level, Occurrence, Oracle};
use crate::step::{Context, Rule, Step};
use tcpassay_measure::EventKind;
use tcpassay_units::{Dur, Time};

pub(super) const NAME: &str = "fairness";

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "flows with equal settings share a path unequally",
    asserts: "endless flows between the same hosts, with the same controller and workload, which begin together, are compared: \
              in the second half of the run each flow delivers more than a twentieth of the mean.",
    why: "controllers of one kind converge to equal shares (RFC 5681 with Chiu and Jain, 1989; RFC 9438 section 5.3): a flow that gets \
          almost nothing for hundreds of round trips is starved by a fault or by a queue that locks it out (RFC 7567 section 2).",
    evidence: "the last row of the starved flow; the text contains its bytes and the mean of the flows with equal settings.",
    wrong_when: "a flow loses its SYN or a whole window at random and waits for long timeouts. In a case with random losses \
                 the finding is a note.",
    needs: &[],
};

/// Implements the rules in the documentation of this module.
pub(super) struct Fairness {
    /// For each flow: bytes that arrived in order in the second half of the run, and its last row.
    late: Vec<(u64, Option<usize>)>,
}

impl Fairness {
    pub fn new(flows: usize) -> Fairness {
        Fairness { late: vec![(0, None); flows] }
    }
}

fn half_time(context: &Context<'_>) -> Time {
    Time::ZERO.saturating_add(context.recording.header.duration / 2)
}

impl Rule for Fairness {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, _: &mut Findings) {
        if step.event.kind == EventKind::In && step.at() > half_time(context) {
            let (bytes, row) = &mut self.late[step.peer];
            *bytes += step.end.now.frontier - step.before.frontier;
            *row = Some(step.row);
        }
    }

    fn end(&mut self, context: &Context<'_>, found: &mut Findings) {
        let recording = context.recording;
        let Some(facts) = context.facts.filter(|facts| facts.endless()) else { return };
        let half = recording.header.duration / 2;
        for (place, flow) in recording.flows.iter().enumerate() {
            let alike: Vec<usize> = (0..recording.flows.len())
                .filter(|other| {
                    let o = &recording.flows[*other];
                    let same = (o.from, o.to, &o.class, &o.cc) == (flow.from, flow.to, &flow.class, &flow.cc);
                    same && o.end.is_none() && Time::ZERO.saturating_add(half / 4) > o.start
                })
                .collect();
            let rtt =
                flow.tcp.srtt_ns.map_or(Dur::ZERO, Dur::from_nanos).max(facts.least_rtt(flow.from, flow.to));
            if alike.len() < 2 || !alike.contains(&place) || rtt * 100 > half || rtt == Dur::ZERO {
                continue;
            }
            let total: u64 = alike.iter().map(|one| self.late[*one].0).sum();
            let mean = total / u64::try_from(alike.len()).expect("few flows");
            let (own, row) = self.late[place];
            if own >= mean / 20 || mean < 200 * flow.mss.get() {
                continue;
            }
            // No RFC requires equal shares, so the finding is a note.
            let level = Level::Note;
            let one = Occurrence {
                oracle: NAME,
                title: "a flow is starved by flows with equal settings",
                flow: u32::try_from(place).expect("flows are numbered in 32 bits"),
                host: flow.from,
                start: half_time(context),
                end: Time::ZERO.saturating_add(recording.header.duration),
                level,
                rows: row.into_iter().collect(),
            };
            found.add(one, || {
                format!(
                    "In the second half of the run {} received {own} bytes; the mean of the {} flows with equal settings is {mean}. A round trip takes {rtt:#}.", flow.name, alike.len()
                )
            });
        }
    }
}
