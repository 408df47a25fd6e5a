//! SACK blocks against what arrived: RFC 2018 section 4, RFC 2883 section 4.

use super::bound::{Bound, PerEnd, Strength, is_dsack, of_another_tcp, settled, time};
use crate::finding::Findings;
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use std::collections::VecDeque;
use tcpassay_measure::EventKind;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

const NEEDS: &[Need] =
    &[Need::BothDirections, Need::Handshake, Need::EveryPacket, Need::NoCopies, Need::AtEnd];

pub(super) const FIRST_BLOCK: Bound = Bound {
    name: "sack-first-block",
    title: "the first SACK block is not that of the newest data",
    section: "RFC 2018 section 4, MUST",
    strength: Strength::Must,
    statement: "the first SACK block, or the second after one that reports a duplicate, contains the data that arrived last, if these are \
                above a gap.",
    exceptions: "a receiver that discards data (lack of memory, beyond its window): data count if they are acknowledged or SACKed without \
                 having arrived again. In a run of another TCP an ACK is judged by what arrived at its instant. In other logs the \
                 data that arrived within twice the shortest response time before it, at least 10 ms, may have been processed or not: the \
                 block contains one of these, or the last before them.",
    needs: NEEDS,
    looks: Sorts::SACKS_OUT.or(Sorts::DATA_IN).or(Sorts::LAST),
    new: |flows| PerEnd::<Newest>::rule(flows, first),
};

pub(super) const DSACK: Bound = Bound {
    name: "dsack-of-single-arrival",
    title: "a DSACK of data that arrived once",
    section: "RFC 2883 section 4, MUST",
    strength: Strength::Must,
    statement: "a first SACK block at or below the ACK, or inside of the second block, reports data that arrived more than once.",
    exceptions: "a packet that the network copied behind the place of the capture.",
    needs: NEEDS,
    looks: Sorts::SACKS_OUT.or(Sorts::DATA_IN).or(Sorts::LAST),
    new: |flows| PerEnd::<Repeated>::rule(flows, dsack),
};

/// Data that arrived.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    at: Time,
    row: usize,
    /// Their positions if they are new and above a gap; the first block after others is not bound.
    above: Option<(u64, u64)>,
}

/// An ACK whose first block contains none of the data that may have caused it.
#[derive(Clone, Debug)]
struct Suspect {
    /// Those of the data that the receiver has not reported yet: it may have discarded them.
    unreported: Vec<(u64, u64)>,
    last: Arrived,
    block: (u64, u64),
    at: Time,
    row: usize,
}

#[derive(Clone, Debug, Default)]
struct Newest {
    arrived: VecDeque<Arrived>,
    suspect: Option<Suspect>,
}

/// Number of arrivals that are remembered.
const ARRIVALS: usize = 256;

fn first(state: &mut Newest, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let exact = of_another_tcp(context, step.flow);
    let settled = if exact { Dur::ZERO } else { settled(context, step.flow) };
    if step.event.kind == EventKind::In {
        let whole = (step.seq(), step.seq_end());
        let again = |range: &(u64, u64)| range.0 < whole.1 && whole.0 < range.1;
        if state.suspect.as_ref().is_some_and(|suspect| suspect.unreported.iter().any(again)) {
            state.suspect = None;
        }
        let above = step.seq() > step.before.frontier && step.end.repeated.is_none();
        let taken = !step.refused && step.seq_end() <= step.before.offered;
        let plain = step.len() > 0 && !step.flags().any(Flags::SYN | Flags::FIN | Flags::RST);
        let above = (above && taken && plain).then_some(whole);
        if state.arrived.len() == ARRIVALS {
            state.arrived.pop_front();
            // What may have caused the next ACKs is not known completely.
            state.arrived[0].above = None;
        }
        state.arrived.push_back(Arrived { at: step.at(), row: step.row, above });
        return;
    }
    let Some(ack) = step.event.ack.filter(|_| step.is_stream()) else { return };
    reported(state, ack, step, context, found);
    let fresh = |one: &Arrived| one.at.saturating_add(settled) >= step.at();
    while state.arrived.get(1).is_some_and(|next| !fresh(next)) {
        state.arrived.pop_front();
    }
    if exact && state.arrived.front().is_some_and(|first| !fresh(first)) {
        state.arrived.pop_front();
    }
    let Some(block) = step.sacks.get(usize::from(is_dsack(step))).copied() else { return };
    let causes: Option<Vec<(u64, u64)>> = state.arrived.iter().map(|one| one.above).collect();
    let (Some(causes), Some(last), None) = (causes, state.arrived.back(), &state.suspect) else { return };
    if causes.iter().any(|one| one.0 <= ack || block.0 <= one.0 && one.1 <= block.1) {
        return;
    }
    state.suspect = Some(Suspect { unreported: causes, last: *last, block, at: step.at(), row: step.row });
    reported(state, ack, step, context, found);
}

/// A suspected ACK is wrong when all of the data that may have caused it have been reported.
fn reported(state: &mut Newest, ack: u64, step: &Step<'_>, context: &Context<'_>, found: &mut Findings) {
    let Some(suspect) = &mut state.suspect else { return };
    let within = |range: &(u64, u64)| step.sacks.iter().any(|sack| sack.0 <= range.0 && range.1 <= sack.1);
    suspect.unreported.retain(|range| ack < range.1 && !within(range));
    if !suspect.unreported.is_empty() {
        return;
    }
    let Some(Suspect { last, block, at, row, .. }) = state.suspect.take() else { return };
    let range = last.above.unwrap_or_default();
    let mut one = FIRST_BLOCK.of_receiver(context, step).since(row, at);
    one.rows.insert(0, last.row);
    if row == step.row {
        one.rows = vec![last.row, row];
    }
    found.add(one, || {
        format!(
            "Positions {} to {} were the last to arrive at {}, at {}, but the first SACK block that it sent at {} is of {} to {}.",
            range.0, range.1, context.who(step.flow), time(last.at), time(at), block.0, block.1
        )
    });
}

/// Ranges that arrived more than once.
#[derive(Clone, Debug, Default)]
struct Repeated {
    ranges: Vec<(u64, u64)>,
    /// There were more than are remembered.
    many: bool,
}

/// Number of ranges that are remembered.
const MOST: usize = 256;

fn dsack(state: &mut Repeated, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if step.event.kind == EventKind::In {
        let fin = u64::from(step.flags().has(Flags::FIN));
        let whole = (step.seq(), step.seq_end() + fin);
        let again = if step.refused { Some(whole) } else { step.end.repeated };
        if let Some(range) = again {
            state.many |= state.ranges.len() == MOST;
            if !state.many {
                state.ranges.push(range);
            }
        }
        return;
    }
    // The SYN is at position 0.
    if state.many || step.sacks.is_empty() || !is_dsack(step) || step.sacks[0].1 <= 1 {
        return;
    }
    let (start, end) = step.sacks[0];
    if start < end && !state.ranges.iter().any(|range| range.0 < end && start < range.1) {
        found.add(DSACK.of_receiver(context, step), || {
            format!(
                "{} reported positions {start} to {end} as duplicates; they had arrived once at most.",
                context.who(step.flow)
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Line, data, found, opened, sacked};
    use crate::judge;
    use std::collections::BTreeMap;
    use tcpassay_case::params::Value;
    use tcpassay_measure::{CollectOptions, EventKind, EventRow};
    use tcpassay_sim::{SimOptions, run};
    use tcpassay_units::Seed;

    const NOTHING: [Vec<u64>; 0] = [];

    fn flight() -> Vec<Line> {
        let mut log = opened();
        log.extend([
            (10_000, 0, data(1, 1000)),
            (10_010, 0, data(2001, 1000)),
            (10_020, 0, data(4001, 1000)),
        ]);
        log
    }

    #[test]
    fn the_first_block_contains_what_arrived_last() {
        let mut log = flight();
        log.push((25_000, 1, sacked(1001, &[(2001, 3001), (4001, 5001)])));
        assert_eq!(found("sack-first-block", &log), [vec![6, 7]]);
        log[6] = (25_000, 1, sacked(1001, &[(4001, 5001), (2001, 3001)]));
        assert_eq!(found("sack-first-block", &log), NOTHING);
        // The receiver may not have processed the last packet yet.
        log[6] = (10_030, 1, sacked(1001, &[(2001, 3001)]));
        assert_eq!(found("sack-first-block", &log), NOTHING);
    }

    #[test]
    fn an_ack_among_arrivals_is_judged_by_those_that_may_have_caused_it() {
        let mut log = flight();
        log.extend([(40_000, 0, data(6001, 1000)), (40_010, 0, data(8001, 1000))]);
        log.push((40_020, 1, sacked(1001, &[(2001, 3001), (4001, 5001), (6001, 7001)])));
        assert_eq!(found("sack-first-block", &log), NOTHING);
        log.push((40_030, 1, sacked(1001, &[(2001, 3001), (4001, 5001), (8001, 9001)])));
        assert_eq!(found("sack-first-block", &log), [vec![8, 9, 10]]);
        log[8].2 = sacked(1001, &[(6001, 7001), (4001, 5001), (2001, 3001)]);
        assert_eq!(found("sack-first-block", &log), NOTHING);
    }

    #[test]
    fn data_that_a_receiver_discards_are_in_no_block() {
        let mut log = flight();
        log.extend([(25_000, 1, sacked(1001, &[(2001, 3001)])), (30_000, 0, data(4001, 1000))]);
        log.push((31_000, 1, sacked(1001, &[(4001, 5001), (2001, 3001)])));
        assert_eq!(found("sack-first-block", &log), NOTHING);
        // They did not arrive again.
        log.remove(7);
        assert_eq!(found("sack-first-block", &log), [vec![6, 7, 8]]);
    }

    #[test]
    fn in_a_run_of_another_tcp_the_arrival_of_this_instant_counts() {
        let rows = [
            ("link.rate", "20Mbit"),
            ("link.delay", "5ms"),
            ("link.loss_model", "list:12,14,16"),
            ("app.flow_size", "60KB"),
            ("app.duration", "10s"),
            ("receiver/stack.implementation", "smoltcp"),
        ];
        let triples = rows.map(|(path, value)| (path.to_owned(), Value::Text(value.to_owned())));
        let case = tcpassay_case::Case::from_triples(&BTreeMap::from(triples)).expect("a case");
        let collect = CollectOptions { events: true, ..CollectOptions::default() };
        let mut recording = run(&case, Seed(1), &SimOptions { collect, ..SimOptions::default() }).recording;
        assert_eq!(judge(&recording, &["sack-first-block"]), []);
        let mut events: Vec<EventRow> = recording.events.iter().collect();
        // smoltcp reports one block: an older one in front of a later one, of an ACK with the same number.
        let sacks: Vec<usize> = (1..events.len())
            .filter(|row| events[*row].host == 1 && events[*row].kind == EventKind::Sack)
            .collect();
        let pair = sacks.iter().flat_map(|one| sacks.iter().map(move |other| (*one, *other))).find(|pair| {
            let (one, other) = (&events[pair.0], &events[pair.1]);
            one.seq < other.seq && events[pair.0 - 1].ack == events[pair.1 - 1].ack
        });
        let (older, newer) = pair.expect("two holes");
        let block = EventRow { at: events[newer].at, ..events[older].clone() };
        events.insert(newer, block);
        recording.events = events.into_iter().collect();
        let found = judge(&recording, &["sack-first-block"]);
        assert_eq!(found.iter().map(|one| (one.host, one.count)).collect::<Vec<_>>(), [(1, 1)]);
    }

    #[test]
    fn a_dsack_reports_what_arrived_twice() {
        let mut log = flight();
        log.push((25_000, 1, sacked(1001, &[(1, 1001), (4001, 5001)])));
        assert_eq!(found("dsack-of-single-arrival", &log), [vec![7]]);
        log.insert(6, (20_000, 0, data(1, 1000)));
        assert_eq!(found("dsack-of-single-arrival", &log), NOTHING);
    }
}
