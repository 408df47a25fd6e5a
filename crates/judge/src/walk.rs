//! The pass over the rows of an event log: the state of each connection end, and the rules that receive each row.

use crate::end::End;
use crate::finding::Findings;
use crate::history::History;
use crate::kinds::{Kinds, Reads, Sorts};
use crate::needs::Need;
use crate::role::Role;
use crate::step::{Context, Rule, Step, Waits};
use std::cell::Cell;
use tcpassay_measure::{EventKind, EventRow, Flow, Recording};
use tcpassay_units::Time;

/// Rules, a bit for each.
type RuleSet = u64;

/// The rules of a pass, and which of them read rows of which kind.
pub(crate) struct Readers {
    rules: Vec<Box<dyn Rule>>,
    /// For each kind of event and each role the rules that read rows of this kind of an end with this role.
    of_kind: Vec<[RuleSet; Role::NUMBER]>,
    reads: Kinds,
    /// For each end the rules whose needs its log has.
    of_end: Vec<RuleSet>,
    /// For each set of sorts the rules that look at a segment of one of them.
    of_sorts: Box<[RuleSet]>,
}

/// A rule of a pass: what it needs, the rows that it reads, and the segments among them that it looks at.
pub(crate) struct Reader {
    pub needs: &'static [Need],
    pub reads: Reads,
    pub looks: Sorts,
    pub rule: Box<dyn Rule>,
}

impl Readers {
    /// The rules of a pass. `context` has the logs of the ends.
    pub fn new(context: &Context<'_>, all: impl IntoIterator<Item = Reader>) -> Readers {
        let (mut needs, mut kinds, mut looks, mut rules) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for one in all {
            needs.push(one.needs);
            kinds.push(one.reads);
            looks.push(one.looks);
            rules.push(one.rule);
        }
        // A recording has all that a rule may need of segments, except what event logs do not contain.
        let able = |lacks: &dyn Fn(&[Need]) -> bool| {
            let can = |(rule, needs): (usize, &&[Need])| RuleSet::from(!lacks(needs)) << rule;
            needs.iter().enumerate().map(can).fold(0, |set, bit| set | bit)
        };
        let of_end = match context.captured {
            Some(captured) => {
                captured.ends.iter().map(|log| able(&|needs| log.lack(needs).is_some())).collect()
            }
            None => vec![able(&|needs| needs.contains(&Need::Headers)); context.recording.flows.len()],
        };
        let look = |index: usize| {
            let looks = looks.iter().enumerate();
            looks.map(|(rule, looks)| RuleSet::from(looks.meets(index)) << rule).fold(0, |set, bit| set | bit)
        };
        let of_sorts = (0..Sorts::NUMBER).map(look).collect();
        assert!(kinds.len() <= RuleSet::BITS as usize, "more rules than bits");
        let set = |kind, role| {
            let reads = |reads: &Reads| reads.of(role).has(kind);
            kinds.iter().enumerate().fold(0, |set, (rule, kinds)| set | RuleSet::from(reads(kinds)) << rule)
        };
        let of_kind = EventKind::ALL.iter().map(|kind| Role::all().map(|role| set(*kind, role))).collect();
        let reads = kinds.iter().fold(Kinds::of(&[]), |sum, reads| sum.or(reads.of(Role::ANY)));
        Readers { rules, of_kind, reads, of_end, of_sorts }
    }

    /// Passes a row to the rules that read its kind. A row after a deadline (`late`) is also passed to the rules that have set one.
    #[inline]
    fn on(&mut self, late: bool, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let mut set = self.of_kind[step.event.kind as usize][step.role.index()];
        if Kinds::SEGMENTS.has(step.event.kind) {
            let sorts = Sorts::of(step.is_sent(), step.flags(), step.len() > 0, !step.sacks.is_empty());
            set &= self.of_sorts[sorts.index()];
        }
        if late {
            set |= step.waits.all();
        }
        set &= self.of_end[step.flow];
        while set != 0 {
            let rule = set.trailing_zeros() as usize;
            set &= set - 1;
            step.waits.rule.set(rule);
            self.rules[rule].on(context, step, found);
        }
    }
}

/// One end during the pass.
struct Walked {
    end: End,
    /// Index of the other end of its connection.
    peer: usize,
    role: Role,
    /// The earliest time after which its next row is passed to the rules that wait, too.
    deadline: Time,
}

/// Passes the rows of connections to the rules that read them and to the history, in order of time, each with the state of the end that
/// logged it. `roles`: the role of each end.
pub(crate) fn walk(
    context: &Context<'_>,
    roles: &[Role],
    mut readers: Readers,
    mut history: Option<&mut History<'_>>,
    found: &mut Findings,
) {
    let recording = context.recording;
    let peers = peers(recording);
    let first = |flow: usize| context.captured.map_or(1, |captured| captured.ends[flow].first);
    let of_linux = context.captured.is_none() && recording.header.stacks.is_empty();
    let begin = |(place, ((flow, peer), role)): (usize, ((&Flow, usize), &Role))| Walked {
        end: End::new(flow.mss.get(), first(place), first(peer), of_linux),
        peer,
        role: *role,
        deadline: Time::MAX,
    };
    let mut ends: Vec<Walked> = recording.flows.iter().zip(peers).zip(roles).enumerate().map(begin).collect();
    let mut reads = readers.reads.or(End::READS);
    if history.is_some() {
        reads = reads.or(History::READS);
    }
    let order = order(recording);
    let row_at = |place: usize| order.as_ref().map_or(place, |rows| rows[place]);
    let rows = recording.events.len();
    // The log of a stack that is not the model does not contain which arrivals it refused.
    let kernel = !recording.is_of_model();
    let waits = Waits::default();
    let mut sacks = Vec::new();
    let mut event = EventRow::new(Time::ZERO, 0, None, EventKind::App);
    let mut place = 0;
    while place < rows {
        let row = row_at(place);
        place += 1;
        let head = recording.events.head(row);
        let Some(flow) = head.flow.map(|flow| flow as usize) else { continue };
        let Some(Walked { end, peer, role, deadline }) = ends.get_mut(flow) else { continue };
        let late = head.at > *deadline;
        if !late && !reads.has(head.kind) {
            continue;
        }
        recording.events.read(row, &mut event);
        sacks.clear();
        let mut refused = false;
        if Kinds::SEGMENTS.has(head.kind) {
            let follows = |place, kind| {
                place < rows && recording.events.kind_of(row_at(place)) == Some((kind, event.flow))
            };
            while follows(place, EventKind::Sack) {
                let (start, len) = recording.events.range(row_at(place));
                sacks.push((start, start + len));
                place += 1;
            }
            refused = follows(place, EventKind::Refused) || kernel && end.is_old(&event);
        }
        let before = end.now;
        end.update(&event, &sacks, refused);
        let step = Step {
            row,
            event: &event,
            flow,
            peer: *peer,
            role: *role,
            before,
            end,
            sacks: &sacks,
            refused,
            deadline: Cell::new(if late { Time::MAX } else { *deadline }),
            waits: &waits,
        };
        readers.on(late, context, &step, found);
        if let Some(history) = &mut history {
            history.add(&step);
        }
        *deadline = step.deadline.get();
    }
    for rule in &mut readers.rules {
        rule.end(context, found);
    }
}

/// For each flow: the index of the other direction of its connection, or its own index if there is none.
pub(crate) fn peers(recording: &Recording) -> Vec<usize> {
    let mut of_connection = std::collections::BTreeMap::new();
    let mut peers: Vec<usize> = (0..recording.flows.len()).collect();
    for (place, flow) in recording.flows.iter().enumerate() {
        if let Some(other) = of_connection.insert(flow.connection, place) {
            peers[place] = other;
            peers[other] = place;
        }
    }
    peers
}

/// Indices of the rows in the order of time; `None` if the log has this order already.
fn order(recording: &Recording) -> Option<Vec<usize>> {
    if recording.events.times().is_sorted() {
        return None;
    }
    let times: Vec<_> = recording.events.times().collect();
    let mut rows: Vec<usize> = (0..times.len()).collect();
    rows.sort_by_key(|row| times[*row]);
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use tcpassay_measure::{FlowCounters, TcpSummary};
    use tcpassay_units::{Bytes, Dur};

    /// Notes the rows that it receives, and waits for a millisecond after each arrival.
    struct Waits(Rc<RefCell<Vec<usize>>>);

    impl Rule for Waits {
        fn on(&mut self, _: &Context<'_>, step: &Step<'_>, _: &mut Findings) {
            self.0.borrow_mut().push(step.row);
            let arrived = (step.event.kind == EventKind::In).then_some(step.at());
            step.deadline(arrived, Dur::from_millis(1));
        }
    }

    #[test]
    fn a_rule_receives_the_kinds_that_it_reads_and_the_first_row_of_its_end_after_a_deadline() {
        let row = |us: u64, flow: u32, kind| {
            EventRow::new(Time::ZERO + Dur::from_micros(us), flow, Some(flow), kind)
        };
        let events = [
            row(0, 0, EventKind::Rtt),
            row(100, 0, EventKind::In),
            row(200, 0, EventKind::Rtt),
            row(1100, 0, EventKind::App),
            row(1101, 1, EventKind::Rtt),
            row(1102, 0, EventKind::AckNow),
            row(1103, 0, EventKind::Rtt),
        ];
        let flow = |from, to| Flow {
            name: format!("flow.{from}"),
            connection: 0,
            from,
            to,
            class: "bulk".to_owned(),
            cc: "reno".to_owned(),
            mss: Bytes::new(1000),
            start: Time::ZERO,
            end: None,
            counters: FlowCounters::default(),
            tcp: TcpSummary::default(),
        };
        let recording = Recording {
            flows: vec![flow(0, 1), flow(1, 0)],
            events: events.into_iter().collect(),
            ..Recording::default()
        };
        let context = Context::new(&recording, None, None);
        let seen = Rc::new(RefCell::new(Vec::new()));
        let rule: Box<dyn Rule> = Box::new(Waits(Rc::clone(&seen)));
        let readers = Readers::new(
            &context,
            [Reader { needs: &[], reads: Reads::all(Kinds::SEGMENTS), looks: Sorts::ALL, rule }],
        );
        walk(&context, &[Role::ANY; 2], readers, None, &mut Findings::default());
        assert_eq!(*seen.borrow(), [1, 5]);
    }
}
