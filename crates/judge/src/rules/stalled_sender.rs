//! Senders that wait for nothing: RFC 9293 sections 3.8.6.1 and 3.8.6.2.1.

use crate::finding::{Findings, Oracle};
use crate::history::at;
use crate::needs::Need;
use crate::step::{Context, Rule, Step};
use tcpassay_measure::EventKind;
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

pub(super) const NAME: &str = "stalled-sender";
pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "a sender with data that waits for nothing",
    asserts: "a sender that has data, and either nothing outstanding or a window of zero, sends something at least every \
              20 seconds. It may wait longer: four times as long as before any of its retransmissions and probes, or eight \
              of its longest round trips.",
    why: "RFC 9293 section 3.8.6.1, MUST-36: a sender must regularly probe a closed window; section 3.8.6.2.1: where it \
          holds back data because the window is small, a timeout of 0.1 to 1 s overrides this. The ACK that opens the \
          window may be lost, and both ends then wait for ever.",
    evidence: "the row with which the sender had data and nothing else to wait for.",
    wrong_when: "a host did not run (a stopped process, a suspended machine), or a persist timer waits longer than 20 s before \
                 its first probe. In a run the data are those that the application wrote. In a capture only data count that \
                 were sent and not acknowledged, and only if a later packet shows that the capture went on.",
    needs: &[Need::BothDirections, Need::EveryPacket, Need::NoCopies, Need::AtEnd],
};

/// FreeBSD waits 5 s at least before its first probe, with a RTO that is as long if it was backed off.
const LEAST: Dur = Dur::from_secs(20);
/// A back-off doubles an interval.
const WAITS: u64 = 4;
const ROUND_TRIPS: u64 = 8;

#[derive(Clone, Debug, Default)]
struct Half {
    /// The last window that the peer announced was zero.
    closed: bool,
    /// Since when the end has data and nothing else to wait for, and the row.
    stalled: Option<(Time, usize)>,
    /// The last segment that this end sent, and that of either end.
    spoke: Time,
    last: Time,
    /// The longest silence before a retransmission or a probe, and the longest round trip.
    waited: Dur,
    round_trip: Dur,
    /// Bytes to send: those that the application wrote and those that were sent and not acknowledged.
    data: u64,
    window: u64,
}

impl Half {
    /// When the silence of this end began, with the row, if it is too long at `now`.
    fn silent(&self, now: Time) -> Option<(Time, usize)> {
        let (since, row) = self.stalled?;
        let since = since.max(self.spoke);
        let allowed =
            LEAST.max(self.waited.saturating_mul(WAITS)).max(self.round_trip.saturating_mul(ROUND_TRIPS));
        (now.since(since) > allowed).then_some((since, row))
    }

    /// A segment that was sent or arrived.
    fn segment(&mut self, step: &Step<'_>) {
        let now = step.at();
        if step.is_sent() {
            if let Some((since, _)) = self.stalled {
                self.waited = self.waited.max(now.since(since.max(self.last)));
            } else if step.event.kind == EventKind::Retransmit {
                self.waited = self.waited.max(now.since(self.last));
            }
            self.spoke = now;
        } else if step.is_arrival() && step.is_stream() && step.flags().has(Flags::ACK) {
            let ack = step.event.ack.unwrap_or(0);
            if !step.event.window.is_some_and(Bytes::is_zero) {
                self.closed = false;
            } else if ack >= step.before.una && step.seq() >= step.before.frontier {
                self.closed = true;
            }
        }
        self.last = now;
    }

    fn report(&self, context: &Context<'_>, flow: usize, end: Time, found: &mut Findings) {
        let Some((since, row)) = self.silent(end) else { return };
        let title =
            if self.closed { "a closed window is not probed" } else { "data are held back without end" };
        let one = context.of_sender(flow, (NAME, title), (since, row), end);
        found.add(one, || {
            let why = if self.closed {
                "The last window that its peer announced was zero, which must be probed (RFC 9293 section 3.8.6.1, \
                 MUST-36)"
                    .to_owned()
            } else {
                format!(
                    "Nothing was outstanding, and the window of its peer was {} bytes (RFC 9293 section 3.8.6.2.1: a \
                     timeout overrides what holds data back)",
                    self.window
                )
            };
            let (since, end) = (at(since), at(end));
            format!("{} had {} bytes to send and sent nothing from {since} to {end}. {why}.", context.who(flow), self.data)
        });
    }
}

/// Implements the rules in the documentation of this module.
pub(super) struct StalledSender {
    halves: Vec<Half>,
}

impl StalledSender {
    pub fn new(flows: usize) -> StalledSender {
        StalledSender { halves: vec![Half::default(); flows] }
    }
}

impl Rule for StalledSender {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let half = &mut self.halves[step.flow];
        if half.silent(step.at()).is_some() {
            half.report(context, step.flow, step.at(), found);
            half.stalled = None;
        }
        if step.is_sent() || step.event.kind == EventKind::In {
            half.segment(step);
        }
        let end = step.end;
        let longest = end.round_trips.map_or(end.handshake, |(_, longest)| longest.max(end.handshake));
        half.round_trip = half.round_trip.max(longest);
        half.window = end.wnd;
        let written = if end.logs_writes { end.written } else { 0 };
        half.data = end.now.nxt.max(written).saturating_sub(end.now.una);
        let waits = half.closed || end.outstanding() == 0;
        let stalled = waits && half.data > 0 && end.open && !end.over && !step.flags().has(Flags::RST);
        half.stalled = if stalled { half.stalled.or(Some((step.at(), step.row))) } else { None };
    }

    fn end(&mut self, context: &Context<'_>, found: &mut Findings) {
        // A capture may have been ended at any time.
        if context.recording.header.substrate == "capture" {
            return;
        }
        let end = Time::ZERO.saturating_add(context.recording.header.duration);
        for (flow, half) in self.halves.iter().enumerate() {
            half.report(context, flow, end, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::judge;
    use std::collections::BTreeMap;
    use tcpassay_case::params::Value;
    use tcpassay_measure::{CollectOptions, EventKind, EventRow, Recording};
    use tcpassay_sim::{SimOptions, run};
    use tcpassay_units::{Bytes, Dur, Seed, Time};

    /// A sender with a window that closes: its recording, and the row that closed the window first.
    fn closed() -> (Recording, Vec<EventRow>, usize) {
        let rows = [
            ("link.rate", "20Mbit"),
            ("link.delay", "5ms"),
            ("app.flow_size", "60KB"),
            ("app.rcvbuf", "4KB"),
            ("app.read_rate", "8Kbit"),
            ("app.duration", "60s"),
        ];
        let triples = rows.map(|(path, value)| (path.to_owned(), Value::Text(value.to_owned())));
        let case = tcpassay_case::Case::from_triples(&BTreeMap::from(triples)).expect("a case");
        let collect = CollectOptions { events: true, ..CollectOptions::default() };
        let recording = run(&case, Seed(1), &SimOptions { collect, ..SimOptions::default() }).recording;
        let events: Vec<EventRow> = recording.events.iter().collect();
        let zero =
            |row: &EventRow| row.host == 0 && row.kind == EventKind::In && row.window == Some(Bytes::new(0));
        let place = events.iter().position(zero).expect("a closed window");
        (recording, events, place)
    }

    /// The texts of the findings if nothing happens for so many seconds after the ACK in row `place`, which announces this window.
    fn silent_for(seconds: u64, window: u64, mut events: Vec<EventRow>, place: usize) -> Vec<String> {
        let (mut recording, ..) = closed();
        recording.header.duration = (events[place].at + Dur::from_secs(seconds)).since(Time::ZERO);
        events[place].window = Some(Bytes::new(window));
        events.truncate(place + 1);
        recording.events = events.into_iter().collect();
        judge(&recording, &["stalled-sender"]).into_iter().map(|one| one.text).collect()
    }

    #[test]
    fn a_sender_with_data_does_not_wait_for_a_window_update_alone() {
        let (recording, events, place) = closed();
        assert_eq!(judge(&recording, &["stalled-sender"]), []);
        assert!(silent_for(20, 0, events.clone(), place).is_empty());
        let closed = silent_for(21, 0, events.clone(), place);
        assert!(closed.len() == 1 && closed[0].contains("announced was zero"), "{closed:?}");
        let small = silent_for(21, 1080, events.clone(), place);
        assert!(small.len() == 1 && small[0].contains("window of its peer was 1080 bytes"), "{small:?}");
        // The application has written nothing that was not acknowledged.
        let mut idle = events;
        for row in idle.iter_mut().filter(|row| row.kind == EventKind::App) {
            row.value = None;
        }
        assert!(silent_for(60, 0, idle, place).is_empty());
    }

    #[test]
    fn a_sender_that_waits_for_an_ack_is_not_stalled() {
        let (_, events, _) = closed();
        let data = |row: &EventRow| row.host == 0 && row.kind == EventKind::Out && row.len > Some(0);
        let place = events.iter().position(data).expect("data");
        assert!(silent_for(60, 0, events, place).is_empty());
    }
}
