//! Retransmission timeouts although nothing was lost: RFC 5681 section 3.1, RFC 6298 section 2.

use super::late_ack::ALLOWED;
use crate::finding::{Findings, Level, Occurrence, Oracle};
use crate::history::{Half, History, Mark, NEVER, at, ms};
use crate::needs::Need;
use tcpassay_measure::EventKind;
use tcpassay_units::{Dur, Time};

pub(super) const NAME: &str = "timeout-without-loss";
pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "timeout although nothing was lost",
    asserts: "when the retransmission timer fires, some of the outstanding data, or the ACK for them, was lost.",
    why: "the timer is the last resort after loss. It collapses the window to one segment (RFC 5681 section 3.1) and stops the \
          flow for at least the minimum RTO, so a receiver must acknowledge what it has within its delayed-ACK time (RFC 9293 \
          section 3.8.6.3, RFC 5681 section 4.2), and an RTO must lie above the round-trip time (RFC 6298 section 2).",
    evidence: "the timer; the last arrival at the receiver of what was outstanding; the receiver's last ACK before the timer and, \
               if it logs them, its decision not to send one; the retransmission.",
    wrong_when: "the receiver dropped data that the log shows as arrived (a full buffer, reneging), or the path duplicates \
                 packets, so that a copy stands in for one that was lost. A round trip that jumps above the RTO, as in a deep \
                 queue that fills within one round trip, is reported as a warning: then the timer, not a bug, was too fast. So is \
                 an RTO shorter than the time for which the receiver delays its ACK. Where the case asks for a path that pauses \
                 (`link.pause`) it is a note: no timer can foresee that.",
    needs: &[Need::Event(EventKind::TimerFire)],
};

/// The shortest time for which Linux delays an ACK (`TCP_DELACK_MIN`). A kernel does not log how long it delays one. Another TCP than Linux and
/// the model delays it for as long as it may.
const DELAYED: Dur = Dur::from_millis(40);
const TOO_SHORT: &str = "the RTO was too short";

/// Judges every timeout.
pub(super) fn look(history: &History<'_>, found: &mut Findings) {
    for flow in 0..history.halves.len() {
        for mark in &history.halves[flow].timeouts {
            let half = &history.halves[flow];
            let Some(last) =
                half.before(mark.place).filter(|last| half.segments[*last].una < half.segments[*last].nxt)
            else {
                continue;
            };
            let (una, nxt) = (half.segments[last].una, half.segments[last].nxt);
            Timeout { history, mark, flow, last, una, nxt }.judge(found);
        }
    }
}

/// A timer that fired while the positions from `una` to before `nxt` were outstanding.
struct Timeout<'a> {
    history: &'a History<'a>,
    mark: &'a Mark,
    flow: usize,
    /// Index of the last segment of the sender before it.
    last: usize,
    una: u64,
    nxt: u64,
}

impl Timeout<'_> {
    fn at(&self) -> Time {
        self.mark.at
    }

    fn receiver(&self) -> usize {
        self.history.peer(self.flow)
    }

    fn sending(&self) -> &Half {
        &self.history.halves[self.flow]
    }

    fn receiving(&self) -> &Half {
        &self.history.halves[self.receiver()]
    }

    fn judge(&self, found: &mut Findings) {
        let ledger = self.history.ledger(self.flow);
        let cells = ledger.cells(self.una, self.nxt);
        let arrived = ledger.arrived(self.una, self.nxt);
        // A part never arrived.
        if arrived == NEVER {
            return;
        }
        if arrived > self.at() {
            // What came before the retransmission could was the original. Where delays vary, one may be shorter than all
            // that are known, though hardly half as long.
            let fastest = self.history.fastest(self.flow);
            let early = arrived < self.at() + Dur::from_nanos(fastest.as_nanos() / 2);
            let copied = || ledger.all().iter().any(|cell| cell.arrivals > cell.sends);
            let whole = || cells.iter().all(|cell| cell.arrivals >= cell.sends);
            if early || whole() && !copied() {
                self.too_fast(arrived, found);
            }
            return;
        }
        let receiving = self.receiving();
        let acked = receiving.at_time(self.at()).map(|place| receiving.segments[place].acked_out);
        if acked.is_none_or(|acked| acked <= self.una) {
            if !self.delayed(arrived, found) {
                self.silent(arrived, found);
            }
            return;
        }
        // An ACK was sent and is not here. It is late, not lost, when it comes, and not another that says the same: of several
        // it is not known which one came.
        let later = &self.sending().segments[self.last + 1..];
        let Some(ack) = later.iter().find(|s| !s.sent && s.ack > self.una) else { return };
        let came = receiving.segments.partition_point(|s| s.at <= ack.at);
        let mut sent = receiving.segments[..came].iter().filter(|s| s.sent && s.ack == ack.ack);
        if sent.next().is_some_and(|sent| sent.at < self.at()) && sent.next().is_none() {
            self.too_fast(ack.at, found);
        }
    }

    /// The receiver's own timer is to fire later than the sender's did, but no later than it may. Returns whether this is so. A
    /// receiver that has answered later data delays no ACK.
    fn delayed(&self, arrived: Time, found: &mut Findings) -> bool {
        let delayed = if self.history.recording.header.stacks.is_empty() { DELAYED } else { ALLOWED };
        let silent = self.answer(arrived).is_none();
        if !self.history.of_model() && silent && self.at().since(arrived) < delayed {
            self.short(arrived, arrived + delayed, None, found);
            return true;
        }
        let Some(decided) = self.decided(&self.receiving().delayed, arrived).last() else { return false };
        let due = decided.due();
        let may = due > self.at() && due.since(arrived) < ALLOWED;
        if may {
            self.short(arrived, due, Some(decided.row), found);
        }
        may
    }

    /// Those of some rows that lie between the arrival of the last data and the timeout.
    fn decided<'m>(&self, marks: &'m [Mark], arrived: Time) -> &'m [Mark] {
        let first = marks.partition_point(|mark| mark.at < arrived);
        &marks[first..marks.partition_point(|mark| mark.at < self.at()).max(first)]
    }

    fn short(&self, arrived: Time, due: Time, decided: Option<usize>, found: &mut Findings) {
        let mut rows = vec![self.mark.row];
        rows.extend(self.arrival(arrived).into_iter().chain(decided).chain(self.next_sent()));
        let one = Occurrence {
            start: arrived,
            end: self.at(),
            level: Level::Warning,
            ..self.occurrence(TOO_SHORT, self.flow, rows)
        };
        found.add(one, || {
            format!(
                "{} {} had all of them since {} and delays its ACK until {}, as it may. The RTO was shorter than that: RFC 6298 \
                 says that it should be a second or more.",
                self.text(),
                self.history.who(self.receiver()),
                at(arrived),
                at(due),
            )
        });
    }

    fn silent(&self, arrived: Time, found: &mut Findings) {
        let mut rows = vec![self.mark.row];
        let forgotten = self.decided(&self.receiving().forgotten, arrived).first().map(|mark| mark.row);
        let parts =
            [self.arrival(arrived), self.answer(arrived), self.last_ack(), forgotten, self.next_sent()];
        rows.extend(parts.into_iter().flatten());
        let one = Occurrence {
            start: arrived,
            end: self.at(),
            level: Level::Error,
            ..self.occurrence("", self.receiver(), rows)
        };
        found.add(one, || {
            let decision = if forgotten.is_some() {
                " Its log says that it neither sent the ACK nor set a timer for it."
            } else {
                ""
            };
            let (who, arrival) = (self.history.who(self.receiver()), at(arrived));
            let silence = ms(self.at().since(arrived).as_nanos());
            if self.answer(arrived).is_some() {
                let name = self.history.host_name(self.receiver());
                return format!(
                    "{} All of them had arrived at {name} at {arrival}. It answered, and in the {silence} until the timeout it sent no \
                     ACK beyond position {}. So nothing was lost on the path: {name} has not kept what arrived.{decision}",
                    self.text(),
                    self.una,
                );
            }
            format!(
                "{} {who} had all of them since {arrival}, and in the {silence} until the timeout it sent no ACK beyond position \
                 {}. So nothing was lost; both sides waited, the sender for an ACK and the receiver for more data.{decision}",
                self.text(),
                self.una,
            )
        });
    }

    fn too_fast(&self, arrived: Time, found: &mut Findings) {
        let pauses = self.history.said("link.pause").is_some_and(|pause| pause != "off");
        let mut rows = vec![self.mark.row];
        rows.extend(self.next_sent());
        let one = Occurrence {
            end: arrived,
            level: if pauses { Level::Note } else { Level::Warning },
            ..self.occurrence(TOO_SHORT, self.flow, rows)
        };
        found.add(one, || {
            format!(
                "{} None of them was lost: what was missing, data or the ACK for them, was under way and came at {}. The RTO was \
                 shorter than this round trip.",
                self.text(),
                at(arrived),
            )
        });
    }

    fn occurrence(&self, title: &'static str, at_fault: usize, rows: Vec<usize>) -> Occurrence {
        Occurrence {
            start: self.at(),
            end: self.at(),
            rows,
            ..self.history.occurrence(NAME, title, self.flow, at_fault)
        }
    }

    fn text(&self) -> String {
        format!(
            "The retransmission timer of {} fired at {} with {} bytes of {} outstanding (from position {}).",
            self.history.host_name(self.flow),
            at(self.at()),
            self.nxt - self.una,
            self.history.name(self.flow),
            self.una,
        )
    }

    /// The place of the arrival after which nothing was missing among the segments of the receiver.
    fn place(&self, arrived: Time) -> Option<usize> {
        let segments = &self.receiving().segments;
        let first = segments.partition_point(|s| s.at < arrived);
        let last = segments.partition_point(|s| s.at <= arrived);
        let missing = |s: &crate::history::Segment| !s.sent && s.start < self.nxt && s.end > self.una;
        segments[first..last].iter().rposition(missing).map(|place| first + place)
    }

    /// The row of this arrival.
    fn arrival(&self, arrived: Time) -> Option<usize> {
        self.place(arrived).map(|place| self.receiving().segments[place].row)
    }

    /// The row of the first segment that the receiver sent between an arrival of data later than that after which nothing was missing, and
    /// the timeout. An ACK without such an arrival may have been due before it, like that of a receiver whose marks change (RFC 8257
    /// section 3.2), and says nothing about it.
    fn answer(&self, arrived: Time) -> Option<usize> {
        let after = &self.receiving().segments[self.place(arrived)? + 1..];
        let later = after.iter().position(|s| !s.sent && s.end > s.start)?;
        after[later..].iter().take_while(|s| s.at < self.at()).find(|s| s.sent).map(|s| s.row)
    }

    /// The row of what the receiver sent last before the timer fired.
    fn last_ack(&self) -> Option<usize> {
        let segments = &self.receiving().segments;
        let before = segments.partition_point(|s| s.at < self.at());
        segments[..before].iter().rfind(|s| s.sent).map(|s| s.row)
    }

    /// The row of the retransmission.
    fn next_sent(&self) -> Option<usize> {
        let half = self.sending();
        half.segments[half.after(self.mark.place)..].iter().find(|s| s.sent).map(|s| s.row)
    }
}
