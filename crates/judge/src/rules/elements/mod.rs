//! The elements of the network: each one is computed anew from the packets that arrived at it, and compared with what it did.
//!
//! An element is a function of the packets that arrive at it, of time, and of the random numbers of the run. The modules below implement
//! these functions from the standards and from Linux, without the code of the simulator. Random decisions use the stream that has the name of
//! the element, so that they are compared exactly as well.

mod acks;
mod codel;
mod compare;
mod counts;
mod element;
mod fair;
mod moderation;
mod nic;
mod path;
mod pie;
mod port;
mod queue;
mod shaper;
mod spec;
#[cfg(test)]
mod tests;
mod ways;
mod wire;

use super::names::ELEMENTS as NAME;
use crate::finding::{Findings, Level, Occurrence, Oracle};
use crate::step::{Context, Rule, Step};
use compare::Mismatch;
use counts::{Counts, Received};
use element::{Effects, Element, Held, World};
use tcpassay_measure::{ElementEvent, ElementRow, EventKind, Recording};
use tcpassay_units::{Seed, Time};
use ways::Ways;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "links, queues, impairments and NICs against their rules",
    asserts: "every element of the path does with each packet what its rule says, at the time that its rule says: a link sends packets one after \
              the other at its rate and delivers them after its delay; a queue drops a packet only if its limit or its discipline says so, marks one \
              only above its threshold or by its discipline, and serves packets in the order of its discipline (RED, CoDel, FQ-CoDel, PIE, DualPI2, \
              fair queueing, token buckets, shared buffers); losses, damage, duplicates, jitter, reordering, slots and policers follow their models; \
              ACK thinning and marking choose the packets that they may choose; a NIC segments, raises interrupts, merges and drops as Linux does; \
              no element changes a packet otherwise; what leaves an element arrives at the next one of the path; and the counters of the recording are \
              the sums of what happened.",
    why: "a path that does not do what the case says makes every measurement wrong, although TCP is right. RFC 8289 and 8290 (CoDel), RFC 8033 (PIE), \
          RFC 9332 (DualPI2), Floyd and Jacobson 1993 (RED), RFC 3168 section 5 (marks), RFC 8257 section 3.1 (threshold), Linux `sch_tbf`, `sch_htb`, \
          `sch_fq`, `sch_netem`, `act_police`, `tcp_gso_segment`, `tcp_gro_receive`, `net_dim`, `ethtool -C`.",
    evidence: "the last segment that the sender of the packet sent before; the text contains the element, the packet, and what its rule says.",
    wrong_when: "the rules of the oracle and of the simulator differ on purpose. Rates from a \
                 file are not judged, and of a long run only the first million rows.",
    needs: &[],
};

/// An element with what it did and the log does not show yet.
struct Replay {
    /// `None`: unknown, or it has a finding.
    element: Option<Box<dyn Element>>,
    /// [`Element::asks`] and [`Element::due`], which most rows need several times.
    asks: Option<usize>,
    /// [`Time::MAX`] if it does not act without an arrival.
    due: Time,
    pending: Effects,
    at: Time,
}

/// Implements the rules in the documentation of this module.
pub(super) struct Elements;

/// Whether the recording has a log of elements.
pub(super) fn applies(context: &Context<'_>) -> bool {
    let log = &context.recording.elements;
    // The rows number elements with 16 bits.
    context.exact() && !log.rows().is_empty() && u16::try_from(log.names().len()).is_ok()
}

impl Rule for Elements {
    fn on(&mut self, _: &Context<'_>, _: &Step<'_>, _: &mut Findings) {}

    fn end(&mut self, context: &Context<'_>, found: &mut Findings) {
        let Some(facts) = context.facts else { return };
        let recording = context.recording;
        let names = recording.elements.names();
        let (mut world, elements) = spec::elements(facts, Seed(recording.header.seed), names);
        for missing in spec::missing(facts, names) {
            let row = recording.elements.rows()[0];
            report(recording, &row, compare::MISSING, found, || {
                format!(
                    "The case has the element `{missing}`, and the network of the run does not contain it."
                )
            });
        }
        let mut replays: Vec<Replay> = elements.into_iter().map(Replay::new).collect();
        let mut ways = Ways::new(facts, &recording.elements);
        let mut counts = vec![Counts::default(); names.len()];
        let mut received = Received::default();
        let hosts: Vec<bool> = names.iter().map(|name| recording.hosts.contains(name)).collect();
        for (number, row) in recording.elements.rows().iter().enumerate() {
            let place = usize::from(row.element);
            // Most rows are arrivals and departures, and each concerns other parts.
            let (astray, wrong) = match row.event {
                ElementEvent::Arrived => {
                    (ways.arrived(place, row), arrived(&mut replays, &mut world, place, row))
                }
                ElementEvent::Departed => {
                    counts[place].add(row);
                    if hosts[place] {
                        received.add(row);
                    }
                    ways.departed(place, number, row);
                    (None, replays[place].happened(row, &mut world))
                }
                ElementEvent::Began | ElementEvent::Marked | ElementEvent::Dropped(_) => {
                    counts[place].add(row);
                    (None, replays[place].happened(row, &mut world))
                }
            };
            if let Some(next) = astray {
                report(recording, row, compare::ASTRAY, found, || {
                    let text = compare::describe(row.event, &row.packet);
                    format!(
                        "The element `{}` {text}; on its way it must arrive at `{}`, as it left the last element.",
                        names[place], names[next]
                    )
                });
            }
            if let Some(wrong) = wrong {
                replays[place].element = None;
                report(recording, row, wrong.title, found, || wrong.text(&names[place], row));
            }
        }
        if !recording.elements.is_truncated()
            && let Some(last) = recording.elements.rows().last()
        {
            if let Some((next, left)) = ways.lost(last) {
                report(recording, &left, compare::ASTRAY, found, || {
                    let (name, text) =
                        (&names[usize::from(left.element)], compare::describe(left.event, &left.packet));
                    format!(
                        "At {} the element `{name}` {text}, and `{}` never received it.",
                        left.at, names[next]
                    )
                });
            }
            let longest =
                |place: usize| replays[place].element.as_ref().and_then(|element| element.longest());
            for (place, name) in names.iter().enumerate() {
                let Some((counter, log)) = counts::longest(recording, name).zip(longest(place)) else {
                    continue;
                };
                if counter != log {
                    report(recording, last, compare::MISCOUNTED, found, || {
                        format!(
                            "The longest backlog of `{name}` is {counter} bytes in the recording; by the log of elements it is {log}."
                        )
                    });
                }
            }
            let counts = names.iter().map(String::as_str).zip(counts).collect();
            for (what, counter, log) in counts::differences(recording, &counts, &received) {
                report(recording, last, compare::MISCOUNTED, found, || {
                    format!("The recording has for `{what}` {counter}; by the log of elements it is {log}.")
                });
            }
            for (place, replay) in replays.iter_mut().enumerate() {
                if let Some(wrong) = replay.overdue(last.at, &mut world) {
                    report(recording, last, wrong.title, found, || wrong.text(&names[place], last));
                }
            }
        }
    }
}

/// When an element acts without an arrival; [`Time::MAX`] if it does not.
fn next_action(element: &dyn Element) -> Time {
    element.due().unwrap_or(Time::MAX)
}

/// Passes an arrival to the rule of its element.
#[inline]
fn arrived(replays: &mut [Replay], world: &mut World, place: usize, row: &ElementRow) -> Option<Mismatch> {
    if let Some(queue) = replays[place].asks
        && replays[place].element.is_some()
    {
        let replay = &mut replays[queue];
        let Some(queue) = replay.element.as_mut() else {
            // The queue is not known, and so its backlog is not.
            replays[place].element = None;
            return None;
        };
        world.backlog = queue.backlog(row.at, row.packet.flow);
        replay.due = next_action(queue.as_ref());
    }
    replays[place].arrived(row, world)
}

impl Replay {
    fn new(element: Option<Box<dyn Element>>) -> Replay {
        let asks = element.as_ref().and_then(|element| element.asks());
        let due = element.as_ref().map_or(Time::MAX, |element| next_action(element.as_ref()));
        Replay { element, asks, due, pending: Effects::default(), at: Time::ZERO }
    }

    #[inline]
    fn arrived(&mut self, row: &ElementRow, world: &mut World) -> Option<Mismatch> {
        if let Some(wrong) = self.advance(row.at, world) {
            return Some(wrong);
        }
        let element = self.element.as_mut()?;
        if let Some(expected) = self.pending.first() {
            return Some(Mismatch::absent(*expected, row.at));
        }
        if element.is_ambiguous(row.at) {
            self.element = None;
            return None;
        }
        let held = Held { packet: row.packet, known: true, since: row.at };
        element.arrives(row.at, held, world, &mut self.pending);
        self.due = next_action(element.as_ref());
        None
    }

    /// Compares what the element did with its rule.
    #[inline]
    fn happened(&mut self, row: &ElementRow, world: &mut World) -> Option<Mismatch> {
        if let Some(wrong) = self.advance(row.at, world) {
            return Some(wrong);
        }
        let element = self.element.as_mut()?;
        while self.due == row.at && self.pending.first().is_none() {
            element.acts(row.at, world, &mut self.pending);
            self.due = next_action(element.as_ref());
        }
        let expected = self.pending.first();
        if expected.is_some_and(|expected| compare::is_the_same(expected, row)) {
            self.pending.show();
            return None;
        }
        let due = (self.due != Time::MAX).then_some(self.due);
        let wrong = compare::compare(expected.copied(), row, due);
        self.pending.show();
        wrong
    }

    /// The time of the next row has come. Returns what should have happened before it and did not.
    #[inline]
    fn advance(&mut self, now: Time, world: &mut World) -> Option<Mismatch> {
        let late = self.due < now || self.at < now && self.pending.first().is_some();
        let wrong = if late { self.overdue(now, world) } else { None };
        self.at = now;
        wrong
    }

    /// What should have happened before `now` and did not.
    fn overdue(&mut self, now: Time, world: &mut World) -> Option<Mismatch> {
        let element = self.element.as_mut()?;
        if let Some(expected) = self.pending.first()
            && self.at < now
        {
            return Some(Mismatch::absent(*expected, self.at));
        }
        while self.due < now {
            let due = self.due;
            element.acts(due, world, &mut self.pending);
            self.due = next_action(element.as_ref());
            if let Some(expected) = self.pending.first() {
                return Some(Mismatch::absent(*expected, due));
            }
        }
        None
    }
}

/// Adds a finding about the packet of `row`.
fn report(
    recording: &Recording,
    row: &ElementRow,
    title: &'static str,
    found: &mut Findings,
    text: impl FnOnce() -> String,
) {
    let host = u32::from(row.packet.src);
    let (evidence, flow) = evidence(recording, row.at, host);
    let one = Occurrence {
        oracle: NAME,
        title,
        flow,
        host,
        start: row.at,
        end: row.at,
        level: Level::Error,
        rows: vec![evidence],
    };
    found.add(one, text);
}

/// Number of rows that are searched for a segment of the sender.
const NEAR: usize = 2000;

/// The last segment that `host` sent up to `at`, or the last row, with its flow.
fn evidence(recording: &Recording, at: Time, host: u32) -> (usize, u32) {
    let events = &recording.events;
    // Rows of a recording of the model are in the order of time.
    let (mut low, mut high) = (0, events.len());
    while low < high {
        let middle = low.midpoint(high);
        if events.head(middle).at <= at {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let sent = |row: &usize| {
        let head = events.head(*row);
        head.host == host && matches!(head.kind, EventKind::Out | EventKind::Retransmit)
    };
    let last = low.saturating_sub(1);
    let row = (last.saturating_sub(NEAR)..=last).rev().find(sent).unwrap_or(last);
    (row, events.head(row).flow.unwrap_or(0))
}
