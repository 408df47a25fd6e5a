//! Latencies of requests that accumulate at the duration of a timer.

use crate::finding::{Findings, Level, Occurrence, Oracle};
use crate::step::{Context, Rule, Step};
use std::collections::BTreeMap;
use tcpassay_measure::{Completion, CompletionKind, EventKind};
use tcpassay_units::{Dur, Time};

pub(super) const NAME: &str = "latency-tail";

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "request latencies accumulate at the duration of a timer",
    asserts: "latencies of requests of one size do not accumulate at the median plus the duration of a delayed ACK or of a \
              retransmission timeout, while the connection is silent for that time; nor, if most requests have such a delay, at the \
              time of the path (a round trip and the transmission) plus this duration.",
    why: "a second mode of the latency distribution at the duration of a timer shows that requests wait for the timer: one end \
          delays an ACK while the other waits for it (RFC 9293 sections 3.7.4 and 3.8.6.3, Minshall et al., 2000), or the tail \
          of a request is lost and only the RTO repairs it (RFC 8985 section 7).",
    evidence: "the numbers of requests; the time of the first request that waited.",
    wrong_when: "the applications pause for such a time. Timeouts after random losses of the case are a note.",
    needs: &[],
};

/// The shortest silence that is attributed to a timer.
const SILENCE: Dur = Dur::from_millis(10);

/// The shortest delay of an adaptive delayed ACK (Linux `TCP_DELACK_MIN`).
const LEAST_ADAPTIVE: Dur = Dur::from_millis(40);

/// Number of requests whose latencies are a distribution.
const LEAST: usize = 20;

/// Implements the rules in the documentation of this module.
pub(super) struct Latency {
    /// For each connection, the time at which its last segment was sent or arrived.
    last: Vec<Time>,
    /// Periods without a segment of one connection, longer than `SILENCE`.
    silences: Vec<(Time, Time)>,
}

impl Latency {
    pub fn new(flows: usize) -> Latency {
        Latency { last: vec![Time::ZERO; flows], silences: Vec::new() }
    }

    /// Whether a connection was silent for a time similar to `wait` during the request.
    fn has_waited(&self, done: &Completion, wait: Dur) -> bool {
        self.silences
            .iter()
            .any(|&(from, to)| from >= done.start && to <= done.end && to.since(from) + wait / 10 >= wait)
    }
}

/// Whether there are enough requests of one size.
pub(super) fn applies(context: &Context<'_>) -> bool {
    context.recording.completions.len() >= LEAST
}

impl Rule for Latency {
    fn on(&mut self, _: &Context<'_>, step: &Step<'_>, _: &mut Findings) {
        if step.is_sent() || step.event.kind == EventKind::In {
            let last = std::mem::replace(&mut self.last[step.flow], step.at());
            if step.at().since(last) >= SILENCE {
                self.silences.push((last, step.at()));
            }
        }
    }

    fn end(&mut self, context: &Context<'_>, found: &mut Findings) {
        let mut groups: BTreeMap<(&str, u64, u64), Vec<&Completion>> = BTreeMap::new();
        for done in &context.recording.completions {
            if done.kind == CompletionKind::Rpc && done.ok {
                let sizes = (done.class.as_str(), done.request.get(), done.response.get());
                groups.entry(sizes).or_default().push(done);
            }
        }
        for group in groups.values().filter(|group| group.len() >= LEAST) {
            self.gathers(context, group, found);
        }
    }
}

fn took(done: &Completion) -> Dur {
    done.end.since(done.start)
}

impl Latency {
    fn gathers(&self, context: &Context<'_>, group: &[&Completion], found: &mut Findings) {
        let (Some(facts), recording) = (context.facts, context.recording) else { return };
        let mut durations: Vec<Dur> = group.iter().map(|done| took(done)).collect();
        durations.sort_unstable();
        let median = durations[durations.len() / 2];
        let first = group[0];
        let hosts = [first.client, first.server].map(|host| facts.host(host).map(|settings| &settings.stack));
        let [Some(client), Some(server)] = hosts else { return };
        let delayed = [client, server].into_iter().flat_map(|stack| {
            let acks = stack.delayed_ack;
            [Some(acks.timeout), acks.adaptive.then_some(LEAST_ADAPTIVE)].into_iter().flatten()
        });
        let timeouts = [client, server].map(|stack| stack.rto.min);
        let timers = delayed.map(|wait| (wait, true)).chain(timeouts.map(|wait| (wait, false)));
        let timeouts_fired = recording.flows.iter().any(|flow| flow.tcp.timeouts.unwrap_or(0) > 0);
        let drops = recording.devices.iter().any(|device| device.counters.drops > 0) || facts.draws_losses();
        for (wait, acks) in timers {
            // Latencies that a loss explains are not findings.
            if acks && timeouts_fired || !acks && drops {
                continue;
            }
            // A timer that is not well above the usual latency cannot be distinguished from queueing. If every request waits, the usual
            // latency contains the wait, and the time of the path takes its place.
            let distinct = |usual: &Dur| !wait.is_zero() && wait >= *usual * 4;
            let Some(usual) = [Some(median), first.ideal].into_iter().flatten().find(distinct) else {
                continue;
            };
            let near = |time: Dur| time + wait / 10 >= wait && time <= usual + wait + wait / 5;
            let waits = |done: &Completion| near(took(done)) && self.has_waited(done, wait);
            let waiting = group.iter().filter(|done| waits(done)).count();
            if waiting < 3 || waiting * 50 < group.len() {
                continue;
            }
            let Some(example) = group.iter().find(|done| waits(done)) else { continue };
            let flow =
                recording.flows.iter().position(|f| (f.from, f.to) == (example.client, example.server));
            let Some(flow) = flow else { continue };
            let level = if facts.draws_losses() { Level::Note } else { Level::Warning };
            let most = usual != median;
            let title = match (acks, most) {
                (true, false) => "requests wait for a delayed ACK",
                (true, true) => "most requests wait for a delayed ACK",
                (false, false) => "requests wait for a timeout",
                (false, true) => "most requests wait for a timeout",
            };
            let one = Occurrence {
                oracle: NAME,
                title,
                flow: u32::try_from(flow).expect("flows are numbered in 32 bits"),
                host: if acks { example.server } else { example.client },
                start: example.start,
                end: example.end,
                level,
                rows: row_at(context, example.end),
            };
            found.add(one, || {
                let which = if acks { "the delayed-ACK time" } else { "the smallest RTO" };
                let reference = if most { "the time of the path," } else { "the median of" };
                format!(
                    "{waiting} of {} requests of {} and {} bytes took about {wait:#} longer than {reference} {:#}: {which} is {wait:#}. \
                     The first of them began at {:#} and took {:#}.",
                    group.len(), example.request.get(), example.response.get(), readable(usual), example.start, readable(took(example))
                )
            });
        }
    }
}

/// Rounds a duration to microseconds.
pub(super) fn readable(time: Dur) -> Dur {
    Dur::from_micros(time.as_nanos() / 1000)
}

/// The last row not later than a time.
fn row_at(context: &Context<'_>, at: Time) -> Vec<usize> {
    let place = context.recording.events.times().position(|time| time > at);
    place.and_then(|place| place.checked_sub(1)).into_iter().collect()
}
