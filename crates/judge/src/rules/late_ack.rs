//! ACKs that come later than they may be delayed: RFC 9293 section 3.8.6.3, RFC 5681 section 4.2.

use crate::finding::{Findings, Occurrence, Oracle};
use crate::history::{Half, History, Mark, Segment, at, ms};
use crate::needs::Need;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

pub(super) const NAME: &str = "late-ack";
pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "ACK later than its limit",
    asserts: "after data arrive, the receiver sends something that acknowledges all it has in order. If its log shows that it \
              set a timer, it does so by the time of the timer; otherwise at once, that is, sooner than its timer ever fires; \
              and always in less than half a second.",
    why: "RFC 9293 section 3.8.6.3 and RFC 5681 section 4.2: an ACK should not be delayed excessively, in particular the delay \
          must be less than 0.5 seconds. An ACK that is neither sent nor timed stops the sender until its retransmission \
          timeout; this is the receiver's side of the DCTCP stall.",
    evidence: "the first data that went unacknowledged; the receiver's decision about its ACK where it logged one; the segment \
               that acknowledged at last, if there was one.",
    wrong_when: "packets of a capture lie near multiples of a period (a host or a capture that works in batches): durations are known to \
                 this period only. In a run, the host could not send (a stopped process, a full device queue), or ran with a longer delayed-ACK time in one \
                 part of the run than its timer shows in the rest. Of a stack that is neither Linux nor the model, and in captures, data \
                 that arrived out of order or beyond the window are not judged until they are acknowledged: it may have dropped them.",
    needs: &[Need::BothDirections, Need::EveryPacket, Need::NoCopies, Need::AtEnd],
};

/// RFC 9293 section 3.8.6.3: less than 0.5 s.
pub(super) const ALLOWED: Dur = Dur::from_millis(500);
/// Timers of real hosts have ticks, so that an ACK may be one millisecond late.
pub(super) const SLACK: Dur = Dur::from_millis(1);

/// Judges every arrival of data by what the receiver sent next.
pub(super) fn look(history: &History<'_>, found: &mut Findings) {
    for flow in 0..history.halves.len() {
        of_half(history, flow, found);
    }
}

fn of_half(history: &History<'_>, flow: usize, found: &mut Findings) {
    let half = &history.halves[flow];
    let segments = &half.segments;
    let ledger = history.ledger(history.peer(flow));
    let limit = half.ack_delays().map_or(ALLOWED, |(shortest, _)| shortest).min(ALLOWED) + SLACK;
    // A reset ends the connection: nothing that arrives after it is acknowledged, and it may be the answer to what came before it.
    let reset = segments.iter().position(|s| s.flags.has(Flags::RST) && !s.refused);
    let segments = &segments[..reset.unwrap_or(segments.len())];
    let end = half.closed.unwrap_or_else(|| history.end());
    let end = reset.map_or(end, |reset| half.segments[reset].at.min(end));
    let (mut next, mut arrived, mut judged) = (0, 0, None);
    // What an unknown stack has for certain: it should keep what arrives out of order, and need not (RFC 9293 section 3.10.7.4, SHLD-31).
    let mut certain = 1;
    for (place, segment) in segments.iter().enumerate() {
        if segment.sent || segment.refused || !segment.has_data() {
            continue;
        }
        let mut position = ledger.frontier(segment.at, &mut arrived);
        if history.is_unknown(flow) {
            certain = certain.max(segment.acked_out);
            if segment.start <= certain {
                certain = certain.max(segment.end);
            }
            if certain <= segment.acked_out {
                continue;
            }
            position = position.min(certain);
        }
        // Of arrivals at one time the later ones may wait for another ACK than this one.
        let others = segments[place + 1..].iter().take_while(|s| s.at == segment.at);
        if others.into_iter().any(|s| !s.sent && !s.refused && s.has_data() && s.end > segment.end) {
            position = position.min(segment.end);
        }
        // The next segment that this end sends and that acknowledges all that had arrived in order: an ACK of something
        // older does not count.
        next = next.max(place);
        while segments.get(next).is_some_and(|s| !s.sent) {
            next += 1;
        }
        let reply = next.max(place + segments[place..].partition_point(|s| s.acked_out < position));
        let sent = segments.get(reply);
        let until = sent.map_or(end, |reply| reply.at);
        // Several arrivals that waited for one ACK are one case: the first waited longest.
        if until.since(segment.at) > limit.saturating_add(history.resolution) && judged != Some(reply) {
            if history.of_capture() && !proven(&segments[place..], sent, position, limit) {
                continue;
            }
            judged = Some(reply);
            judge(history, flow, &Owed { first: segment, position, reply: sent, until }, found);
        }
    }
}

/// Whether a capture proves that an ACK is late. `segments` begin with the arrival.
///
/// An end that never acknowledges may be switched off or out of the reach of its link. What was sent again may have been lost behind the
/// place of the capture: then the ACK is the answer to the later packet.
fn proven(segments: &[Segment], reply: Option<&Segment>, position: u64, limit: Dur) -> bool {
    let Some(reply) = reply else { return false };
    let again =
        segments[1..].iter().take_while(|s| s.place < reply.place).filter(|s| !s.sent && s.has_data());
    let owed = |s: &Segment| s.start < position && s.end > segments[0].acked_out;
    !again.into_iter().any(|s| owed(s) && reply.at.since(s.at) <= limit)
}

/// An ACK that is owed: the segment that arrived, the position up to which all data had arrived with it, the segment that acknowledged
/// them, and when the latter left, or when nothing more could.
struct Owed<'a> {
    first: &'a Segment,
    position: u64,
    reply: Option<&'a Segment>,
    until: Time,
}

impl Owed<'_> {
    /// Those of some rows that lie between the arrival and the ACK.
    fn among<'a>(&self, marks: &'a [Mark]) -> &'a [Mark] {
        let first = marks.partition_point(|mark| mark.place < self.first.place);
        let last =
            self.reply.map_or(marks.len(), |reply| marks.partition_point(|mark| mark.place < reply.place));
        &marks[first..last]
    }
}

fn judge(history: &History<'_>, half: usize, owed: &Owed<'_>, found: &mut Findings) {
    let Half { delayed, forgotten, .. } = &history.halves[half];
    let (timed, forgotten) = (owed.among(delayed).last(), owed.among(forgotten).first());
    let Owed { first, position, reply, until } = *owed;
    let waited = until.since(first.at);
    let due = timed.map(Mark::due);
    if due.is_some_and(|due| until <= due + SLACK) && waited < ALLOWED {
        return;
    }
    let flow = history.peer(half);
    let mut rows = vec![first.row];
    rows.extend(timed.into_iter().chain(forgotten).map(|mark| mark.row));
    rows.extend(reply.map(|reply| reply.row));
    let one = Occurrence { start: first.at, end: until, rows, ..history.occurrence(NAME, "", flow, half) };
    found.add(one, || {
        let ended = if reply.is_some() { "an ACK of it left" } else { "there was still no ACK of it" };
        let decision = match due {
            _ if forgotten.is_some() => " The log says that the ACK was neither sent nor timed.".to_owned(),
            // The log of a capture, or of another TCP, does not show timers.
            None if history.halves[half].delayed.is_empty() => String::new(),
            None => " No timer was set for it.".to_owned(),
            Some(due) => format!(" Its timer was set to {}.", at(due)),
        };
        let rule = if waited >= ALLOWED {
            " An ACK must be delayed by less than 500 ms.".to_owned()
        } else {
            history.halves[half].ack_delays().map_or_else(String::new, |(_, longest)| {
                format!(
                    " Elsewhere in this run the timer of this receiver waits {} at most.",
                    ms(longest.as_nanos())
                )
            })
        };
        format!(
            "Data of {} up to position {} reached {} at {}; {} later, at {}, {ended}.{decision}{rule}",
            history.name(flow),
            position,
            history.host_name(half),
            at(first.at),
            ms(waited.as_nanos()),
            at(until),
        )
    });
}

#[cfg(test)]
mod tests {
    use crate::rfc::testing::{ack, data, found, opened};

    /// The capture has what is lost behind it. The first segment is sent again at 200 ms together with the second one, which is lost again; the
    /// third was never lost.
    fn lost_behind(first_acked_us: u64) -> Vec<Vec<u64>> {
        let mut log = opened();
        log.extend([
            (10_000, 0, data(1, 1000)),
            (10_001, 0, data(1001, 1000)),
            (10_002, 0, data(2001, 1000)),
            (10_100, 1, ack(1)),
            (200_000, 0, data(1, 1000)),
            (200_000, 0, data(1001, 1000)),
            (first_acked_us, 1, ack(1001)),
            (1_199_900, 0, data(1001, 1000)),
            (1_200_000, 1, ack(3001)),
        ]);
        found("late-ack", &log)
    }

    /// Packets near whole seconds. The third segment is acknowledged at `last_ms`.
    fn in_batches(last_ms: u64) -> Vec<Vec<u64>> {
        let mut log = opened();
        let ms = [0, 1003, 1005, 2000, 3002, 3003, 4001, 5002, last_ms];
        log.extend((0..3).flat_map(|n| [(0, 0, data(1 + 1000 * n, 1000)), (0, 1, ack(1001 + 1000 * n))]));
        for (line, ms) in log.iter_mut().zip(ms) {
            line.0 = 1000 * ms;
        }
        found("late-ack", &log)
    }

    /// A segment beyond a gap or beyond the window may be dropped: its second copy is acknowledged at once, 1.2 s after the first one arrived.
    fn dropped_first(from: u32, window: u16) -> Vec<Vec<u64>> {
        let mut log = opened();
        log.extend([
            (10_000, 0, data(1, 1000)),
            (10_100, 1, crate::rfc::testing::window(window, ack(1001))),
            (10_200, 0, data(from, 1000)),
            (10_300, 1, crate::rfc::testing::window(window, ack(1001))),
            (1_200_000, 0, data(1001, 1000)),
            (1_210_000, 0, data(2001, 1000)),
            (1_210_100, 1, ack(3001)),
        ]);
        found("late-ack", &log)
    }

    #[test]
    fn an_ack_is_late_by_what_a_capture_in_batches_cannot_explain() {
        assert_eq!(in_batches(6001), Vec::<Vec<u64>>::new());
        assert_eq!(in_batches(7001), [vec![8, 9]]);
    }

    #[test]
    fn a_receiver_need_not_keep_data_out_of_order_or_beyond_its_window() {
        assert_eq!(dropped_first(2001, 60_000), Vec::<Vec<u64>>::new());
        assert_eq!(dropped_first(1001, 500), Vec::<Vec<u64>>::new());
    }

    #[test]
    fn an_ack_of_what_arrived_is_in_time_although_what_was_lost_behind_the_capture_is_acknowledged_later() {
        assert_eq!(lost_behind(200_100), Vec::<Vec<u64>>::new());
        assert_eq!(lost_behind(900_000), [vec![4, 10]]);
    }
}
