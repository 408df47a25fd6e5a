//! Silence of both ends of a connection with data outstanding: RFC 9293 section 3.8.6.3, RFC 6298 section 5.

use super::late_ack::{ALLOWED, SLACK};
use crate::finding::{Findings, Occurrence, Oracle};
use crate::history::{History, Mark, Segment, at, ms};
use crate::needs::Need;
use tcpassay_measure::EventKind;
use tcpassay_units::{Dur, Time};

pub(super) const NAME: &str = "mutual-silence";
pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "both sides silent with data outstanding",
    asserts: "while data are outstanding, one of the two ends acts within a bounded time. When everything that was sent has \
              arrived, the receiver's ACK follows within its delayed-ACK time; when something is missing, a retransmission \
              timer runs and fires.",
    why: "a silence that only a much later timer ends, or no event at all, is a deadlock. The receiver must not hold back an ACK \
          for half a second or more (RFC 9293 section 3.8.6.3), and the retransmission timer must run whenever data are \
          outstanding (RFC 6298 section 5, rules 5.1 and 5.4).",
    evidence: "the last segment before the silence and the first one after it; the last arrival of what was outstanding; the \
               retransmission timer as it was last set.",
    wrong_when: "the receiver dropped data that the log shows as arrived, or a host did not run (a stopped process, a suspended \
                 machine): no TCP can send then.",
    needs: &[Need::Event(EventKind::TimerSet), Need::Event(EventKind::TimerFire)],
};

/// RFC 6298 section 2: the RTO before the first measurement; a timer that was not logged is not waited for longer.
const INITIAL: Dur = Dur::from_secs(1);

/// A time in which a connection was silent: the segments before and after it.
struct Gap<'a> {
    before: &'a Segment,
    after: Option<&'a Segment>,
    end: Time,
}

impl Gap<'_> {
    fn start(&self) -> Time {
        self.before.at
    }

    fn len(&self) -> Dur {
        self.end.since(self.start())
    }

    fn rows(&self) -> Vec<usize> {
        [Some(self.before), self.after].into_iter().flatten().map(|segment| segment.row).collect()
    }
}

/// Judges every silence that is longer than an ACK may be delayed.
pub(super) fn look(history: &History<'_>, found: &mut Findings) {
    let longest = |flow: usize| history.halves[flow].ack_delays().map_or(ALLOWED, |(_, longest)| longest);
    let limits: Vec<Dur> = (0..history.halves.len()).map(longest).collect();
    let Some(shortest) = limits.iter().min().map(|least| *least + SLACK) else { return };
    for flow in (0..history.halves.len()).filter(|flow| *flow <= history.peer(*flow)) {
        let mut segments = both(history, flow).peekable();
        while let Some((own, before)) = segments.next() {
            let after = segments.peek().map(|(_, after)| *after);
            let gap = Gap { before, after, end: after.map_or_else(|| history.end(), |after| after.at) };
            if gap.len() <= shortest {
                continue;
            }
            judge(history, own, own, &gap, limits[history.peer(own)], found);
            if history.peer(own) != own {
                judge(history, history.peer(own), own, &gap, limits[own], found);
            }
        }
    }
}

/// The segments of a connection in order of time, with the half of each.
fn both<'a>(history: &'a History<'_>, flow: usize) -> impl Iterator<Item = (usize, &'a Segment)> {
    let peer = history.peer(flow);
    let one = &history.halves[flow].segments[..];
    let other: &[Segment] = if peer == flow { &[] } else { &history.halves[peer].segments };
    let (mut i, mut j) = (0, 0);
    std::iter::from_fn(move || match (one.get(i), other.get(j)) {
        (Some(a), b) if b.is_none_or(|b| a.place < b.place) => {
            i += 1;
            Some((flow, a))
        }
        (_, Some(b)) => {
            j += 1;
            Some((peer, b))
        }
        _ => None,
    })
}

/// Judges a silence of the connection of `flow`. `own`: the half of the segment before it. `limit`: the longest delay of an ACK of the receiver.
fn judge(history: &History<'_>, flow: usize, own: usize, gap: &Gap<'_>, limit: Dur, found: &mut Findings) {
    let receiver = history.peer(flow);
    let gave_up = |flow: usize| history.halves[flow].closed.is_some_and(|closed| closed < gap.end);
    let segments = &history.halves[flow].segments;
    let last = if own == flow {
        Some(gap.before)
    } else {
        history.halves[flow].at_time(gap.start()).map(|place| &segments[place])
    };
    let Some(last) = last.filter(|last| last.una < last.nxt) else { return };
    if gave_up(flow) || gave_up(receiver) {
        return;
    }
    let (una, nxt) = (last.una, last.nxt);
    let silence = || {
        let ended = if gap.after.is_none() {
            "to the end of the run".to_owned()
        } else {
            format!("until {}", at(gap.end))
        };
        format!(
            "From {} {ended}, {}, neither side sent anything, with {} bytes of {} outstanding (from position {una}).",
            at(gap.start()),
            ms(gap.len().as_nanos()),
            nxt - una,
            history.name(flow),
        )
    };
    let theirs = &history.halves[receiver];
    let acked = theirs.at_time(gap.start()).map_or(una, |place| theirs.segments[place].acked_out);
    if history.ledger(flow).arrived(una, nxt) > gap.start() || acked > una {
        timer(history, flow, gap, last, silence, found);
        return;
    }
    if gap.len() <= limit + SLACK {
        return;
    }
    found.add(occurrence(history, flow, gap, "everything had arrived", receiver, gap.rows()), || {
        format!(
            "{} All of them had arrived at {}, which owed an ACK and sent none, and {} could only wait: a deadlock until a \
             retransmission timer ends it.",
            silence(),
            history.host_name(receiver),
            history.host_name(flow),
        )
    });
}

/// Something is missing: the sender's timer must run, and fire in time.
fn timer(
    history: &History<'_>,
    flow: usize,
    gap: &Gap<'_>,
    last: &Segment,
    silence: impl FnOnce() -> String,
    found: &mut Findings,
) {
    let half = &history.halves[flow];
    let until =
        |marks: &[Mark]| marks[..marks.partition_point(|mark| mark.at <= gap.start())].last().copied();
    let ended = until(&half.rto_ended);
    let armed = until(&half.rto_set).filter(|set| ended.is_none_or(|ended| ended.place < set.place));
    let due = armed.map_or(gap.start() + INITIAL, |armed| armed.due());
    let fired = half.fired.iter().any(|fire| fire.place > last.place && fire.at < gap.end);
    // Linux rounds the time of a timer up by an eighth of it at most (`calc_wheel_index`).
    let rounding = armed.map_or(Dur::ZERO, |armed| armed.due().since(armed.at) / 8);
    if gap.end <= due + SLACK + rounding || fired {
        return;
    }
    let mut rows = gap.rows();
    rows.extend(armed.map(|armed| armed.row));
    let title =
        if armed.is_none() { "no retransmission timer" } else { "the retransmission timer did not fire" };
    found.add(occurrence(history, flow, gap, title, flow, rows), || {
        let why = if armed.is_none() {
            "no retransmission timer was running".to_owned()
        } else {
            format!("the retransmission timer that was to fire at {} did not", at(due))
        };
        format!("{} Not all of them had been acknowledged or had arrived, and {why}.", silence())
    });
}

/// `at_fault`: the half whose host did not act.
fn occurrence(
    history: &History<'_>,
    flow: usize,
    gap: &Gap<'_>,
    title: &'static str,
    at_fault: usize,
    rows: Vec<usize>,
) -> Occurrence {
    Occurrence { start: gap.start(), end: gap.end, rows, ..history.occurrence(NAME, title, flow, at_fault) }
}
