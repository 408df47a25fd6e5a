//! Rules for the state that another TCP than the model shows of its connections (docs/stacks.md): its congestion window, its RTO, and its
//! retransmission timer.
//!
//! The log has a state at the end of a call of the stack, in front of the segments that it sent in this call. A window that changed
//! within a call is therefore known before and after it. Nothing is supposed about the controller.

use super::names::{RETRANSMISSION_TIMER, WINDOW_GROWTH};
use crate::finding::Findings;
use crate::history::at;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

/// Segments beyond the window that limited transmit (RFC 3042) and a tail loss probe (RFC 8985 section 7.3) permit.
const BEYOND: u64 = 3;
/// Segments by which a window may grow more than what was acknowledged: the inflation of RFC 5681 section 3.2 by three duplicates.
const INFLATION: u64 = 3;
/// Part of a second for which a timer may stand still while the stack goes on at the same instant in another call.
const STILL: Dur = Dur::from_millis(1);
/// Silence at the end of a run after which a timer that does not run is reported.
const SILENT: Dur = Dur::from_secs(1);
const STOPPED: &str = "no timer runs while data are outstanding";
/// RFC 6298 section 2.5: a maximum of the RTO is 60 s at least.
const LARGEST: Dur = Dur::from_secs(60);

/// Rules of the window of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct ShownWindow {
    /// The window before the last change, and the present one.
    window: Option<(u64, u64)>,
    /// The largest window, its row and time, and the bytes delivered since then.
    most: Option<(u64, usize, Time)>,
    delivered: u64,
    /// The largest segment that the end has sent.
    segment: u64,
}

impl ShownWindow {
    /// A row of an end that shows its window.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        match step.event.kind {
            EventKind::In => {
                let taken = step.end.taken;
                let duplicate = step.before.una < step.before.nxt && taken.acked == 0 && step.len() == 0;
                let inflation = if duplicate { self.full(context, step) } else { 0 };
                self.delivered += taken.acked.max(taken.in_packets) + inflation;
            }
            EventKind::Window => self.shown(context, step, found),
            EventKind::Out if step.len() > 0 => self.sent(context, step, found),
            EventKind::Retransmit => self.segment = self.segment.max(step.len()),
            _ => {}
        }
    }

    /// A full segment.
    fn full(&self, context: &Context<'_>, step: &Step<'_>) -> u64 {
        self.segment.max(context.mss(step.flow)).max(1)
    }

    /// RFC 5681 section 3.1: the window grows with what is acknowledged.
    fn shown(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some(cwnd) = step.event.cwnd.map(Bytes::get) else { return };
        let before = self.window.map_or(cwnd, |(_, now)| now);
        self.window = Some((before, cwnd));
        let set = Some((cwnd, step.row, step.at()));
        let Some((most, row, at)) = self.most.filter(|(most, ..)| cwnd > *most) else {
            self.most = self.most.or(set);
            return;
        };
        let delivered = std::mem::take(&mut self.delivered);
        self.most = set;
        // The first window is not the growth of another one.
        let begun = step.end.open && step.before.una > 1;
        if begun && cwnd > most + delivered + INFLATION * self.full(context, step) {
            found.add(step.of_sender(context, WINDOW_GROWTH, "the window grew by more than was delivered").since(row, at), || {
                format!(
                    "{} showed a congestion window of {cwnd} bytes. The largest one before was {most}, and {delivered} bytes have been \
                     acknowledged or SACKed since (RFC 5681 section 3.1).", context.who(step.flow)
                )
            });
        }
    }

    /// RFC 5681 section 3.1: nothing is sent beyond the window. Repairs have rules of their own, and are not judged.
    fn sent(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        self.segment = self.segment.max(step.len());
        let Some((before, now)) = self.window else { return };
        let (end, most) = (step.end, before.max(now));
        // What the stack has sent since it showed this window, it sent in one call.
        self.window = Some((now, now));
        let flight = end.outstanding();
        let plain = end.open && end.sacked == 0 && end.again == 0;
        if plain && flight > most + BEYOND * self.full(context, step) {
            found.add(step.of_sender(context, WINDOW_GROWTH, "data beyond the congestion window"), || {
                format!(
                    "{} sent new data although its congestion window of {most} bytes was full: {flight} bytes were outstanding then (RFC 5681 \
                     section 3.1, MUST NOT).", context.who(step.flow)
                )
            });
        }
    }
}

/// Rules of the retransmission timer of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct ShownTimer {
    /// Whether it, or a timer that takes its place, runs; `None` before the end has shown it.
    runs: Option<bool>,
    /// Since when it does not although data are outstanding.
    still: Option<(Time, usize)>,
    rto: Option<Dur>,
    /// It shows an SRTT. After several timeouts it may have forgotten it, and with it the RTO (RFC 6298 section 5).
    measured: bool,
    /// The timer has fired: time, row, the RTO then.
    fired: Option<(Time, usize, Option<Dur>)>,
}

impl ShownTimer {
    /// A row of an end that shows its timer.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        self.stands_still(context, step, found);
        // The connection is over, and its state is not shown any more.
        if step.flags().has(Flags::RST) {
            *self = ShownTimer::default();
            return;
        }
        match step.event.kind {
            EventKind::TimerSet => self.runs = Some(true),
            EventKind::TimerCancel => self.runs = Some(false),
            EventKind::TimerFire if step.event.timer() == Some(Timer::Rto) => {
                self.fired = Some((step.at(), step.row, self.rto));
            }
            EventKind::Window => self.shown(context, step, found),
            EventKind::Retransmit if !step.flags().has(Flags::SYN) && step.len() > 1 => {
                self.repeats(context, step, found);
            }
            EventKind::In => self.fired = None,
            _ => {}
        }
        let waits = step.end.open && !step.end.over && step.end.out.front().is_some();
        self.still = match self.still {
            Some(since) if waits && self.runs == Some(false) => Some(since),
            _ if waits && self.runs == Some(false) => Some((step.at(), step.row)),
            _ => None,
        };
    }

    /// RFC 6298 section 5, rule 5.1: the timer runs while data are outstanding.
    fn stands_still(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some((since, row)) = self.still.filter(|(since, _)| step.at().since(*since) > STILL) else {
            return;
        };
        self.still = None;
        // Once for a connection.
        self.runs = None;
        let outstanding = step.before.nxt - step.before.una;
        found.add(step.of_sender(context, RETRANSMISSION_TIMER, STOPPED).since(row, since), || {
            format!(
                "{} had {outstanding} bytes outstanding from {} to {}, and showed neither a retransmission timer nor another one in its place \
                 (RFC 6298 section 5, rule 5.1).",
                context.who(step.flow),
                at(since),
                at(step.at())
            )
        });
    }

    /// After the last row: the run has ended while the timer stood still.
    pub fn end(&self, context: &Context<'_>, place: usize, found: &mut Findings) {
        let end = Time::ZERO.saturating_add(context.recording.header.duration);
        let Some((since, row)) = self.still.filter(|(since, _)| end.since(*since) > SILENT) else { return };
        let one = context.of_sender(place, (RETRANSMISSION_TIMER, STOPPED), (since, row), end);
        found.add(one, || {
            format!(
                "{} waited for an ACK from {} to the end of the run, and showed neither a retransmission timer nor another one in its place \
                 (RFC 6298 section 5, rule 5.1).",
                context.who(place),
                at(since)
            )
        });
    }

    /// RFC 6298 section 2.3: RTO <- SRTT + max (G, K*RTTVAR).
    fn shown(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        self.rto = step.event.rto;
        self.measured = step.event.srtt.is_some();
        let (Some(rto), Some(srtt)) = (step.event.rto, step.event.srtt) else { return };
        if rto < srtt && rto < LARGEST {
            found.add(step.of_sender(context, RETRANSMISSION_TIMER, "an RTO below SRTT"), || {
                format!(
                    "{} showed an RTO of {rto} and an SRTT of {srtt} (RFC 6298 section 2.3).",
                    context.who(step.flow)
                )
            });
        }
    }

    /// What follows from a timeout at the retransmission that it causes.
    fn repeats(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some((since, row, before)) = self.fired.take().filter(|(at, ..)| *at == step.at()) else {
            return;
        };
        let fired = at(since);
        if step.seq() > step.before.una {
            return;
        }
        // RFC 5482: a user timeout may end before a doubled RTO does.
        let bounded =
            context.recording.header.case.iter().any(|triple| triple.parameter == "app.user_timeout");
        if let (Some(before), Some(now)) = (before, self.rto)
            && !bounded
            && self.measured
            && now < LARGEST
            && now < before * 2 - before / 10
        {
            found.add(step.of_sender(context, RETRANSMISSION_TIMER, "no back-off after a timeout").since(row, since), || {
                format!(
                    "The retransmission timer of {} fired at {fired} with an RTO of {before}, and the RTO is {now} now (RFC 6298 section 5, rule \
                     5.5).", context.who(step.flow)
                )
            });
        }
        let (cwnd, full) = (step.end.now.cwnd, context.mss(step.flow).max(step.len()));
        if cwnd >= 2 * full {
            found.add(step.of_sender(context, RETRANSMISSION_TIMER, "a timeout that leaves the window open").since(row, since), || {
                format!(
                    "The retransmission timer of {} fired at {fired}; its congestion window is {cwnd} bytes then. After a timeout it is one \
                     segment of {full} at most (RFC 5681 section 3.1, MUST).", context.who(step.flow)
                )
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::judge;
    use tcpassay_measure::{EventKind, EventRow, Flow, FlowCounters, Recording, StackUnderTest, TcpSummary};
    use tcpassay_units::{Bytes, Dur, Time};
    use tcpassay_wire::Flags;

    const SEGMENT: u32 = 1000;

    /// The log of a sender that shows its state, with an established connection.
    struct Log(Recording, Vec<EventRow>);

    impl Log {
        fn new() -> Log {
            let mut recording =
                Recording { hosts: vec!["sender".to_owned(), "receiver".to_owned()], ..Recording::default() };
            let flow = |from, to| Flow {
                name: format!("flow.{from}"),
                connection: 0,
                from,
                to,
                class: "bulk".to_owned(),
                cc: "reno".to_owned(),
                mss: Bytes::new(SEGMENT.into()),
                start: Time::ZERO,
                end: None,
                counters: FlowCounters::default(),
                tcp: TcpSummary::default(),
            };
            recording.flows = vec![flow(0, 1), flow(1, 0)];
            let shows = vec!["cwnd".to_owned(), "timer".to_owned()];
            let (name, version) = ("test".to_owned(), "1".to_owned());
            recording.header.stacks = vec![StackUnderTest { host: 0, name, version, digest: None, shows }];
            let mut log = Log(recording, Vec::new());
            log.segment(0, EventKind::Out, 0, 0, Flags::SYN);
            log.segment(10, EventKind::In, 0, 1, Flags::SYN | Flags::ACK);
            log.row(10, EventKind::State, |row| row.why = "SynSent->Established".into());
            log
        }

        fn row(&mut self, ms: u64, kind: EventKind, set: impl FnOnce(&mut EventRow)) {
            let mut row = EventRow::new(Time::ZERO + Dur::from_millis(ms), 0, Some(0), kind);
            set(&mut row);
            self.1.push(row);
        }

        fn segment(&mut self, ms: u64, kind: EventKind, seq: u64, ack: u64, flags: Flags) {
            self.row(ms, kind, |row| {
                row.seq = Some(seq);
                row.ack = Some(ack);
                row.len = Some(if kind == EventKind::In || flags.has(Flags::SYN) { 0 } else { SEGMENT });
                row.flags = Some(flags);
                row.window = Some(Bytes::new(1 << 20));
            });
        }

        fn data(&mut self, ms: u64, seq: u64) {
            self.segment(ms, EventKind::Out, seq, 1, Flags::ACK);
        }

        fn ack(&mut self, ms: u64, ack: u64) {
            self.segment(ms, EventKind::In, 1, ack, Flags::ACK);
        }

        fn window(&mut self, ms: u64, cwnd: u64, rto: u64, srtt: u64) {
            self.row(ms, EventKind::Window, |row| {
                row.cwnd = Some(Bytes::new(cwnd));
                row.rto = Some(Dur::from_millis(rto));
                row.srtt = Some(Dur::from_millis(srtt));
            });
        }

        fn timer(&mut self, ms: u64, kind: EventKind) {
            self.row(ms, kind, |row| row.why = "Rto".into());
        }

        fn titles(mut self) -> Vec<String> {
            self.0.events = self.1.into_iter().collect();
            judge(&self.0, &["window-growth", "retransmission-timer"])
                .iter()
                .map(|one| one.title.to_string())
                .collect()
        }
    }

    fn flight(segments: u64) -> Log {
        let mut log = Log::new();
        log.window(10, 4000, 1000, 10);
        for n in 0..segments {
            log.data(11, 1 + 1000 * n);
        }
        log
    }

    #[test]
    fn new_data_are_sent_within_the_window_and_three_segments() {
        assert!(flight(7).titles().is_empty());
        assert_eq!(flight(8).titles(), ["data beyond the congestion window"]);
    }

    fn grown(to: u64) -> Log {
        let mut log = flight(4);
        log.ack(21, 2001);
        log.window(21, 6000, 1000, 10);
        log.ack(22, 3001);
        log.window(22, to, 1000, 10);
        log
    }

    #[test]
    fn the_window_grows_by_what_is_acknowledged() {
        assert!(grown(10_000).titles().is_empty());
        assert_eq!(grown(10_001).titles(), ["the window grew by more than was delivered"]);
    }

    #[test]
    fn the_timer_runs_while_data_are_outstanding() {
        let still = |last: u64| {
            let mut log = flight(1);
            log.timer(11, EventKind::TimerSet);
            log.data(11, 1001);
            log.ack(21, 1001);
            log.timer(21, EventKind::TimerCancel);
            log.ack(last, 2001);
            log.titles()
        };
        assert!(still(22).is_empty());
        assert_eq!(still(23), ["no timer runs while data are outstanding"]);
    }

    #[test]
    fn a_connection_that_its_stack_has_closed_needs_no_timer() {
        let gave_up = |closed: bool| {
            let mut log = flight(2);
            log.timer(11, EventKind::TimerSet);
            log.timer(3011, EventKind::TimerCancel);
            if closed {
                log.row(3011, EventKind::State, |row| row.why = "?->Closed".into());
            }
            log.0.header.duration = Dur::from_secs(60);
            log.titles()
        };
        assert!(gave_up(true).is_empty());
        assert_eq!(gave_up(false), ["no timer runs while data are outstanding"]);
    }

    #[test]
    fn the_rto_is_not_below_srtt() {
        let mut log = Log::new();
        log.window(20, 4000, 30, 30);
        log.window(21, 4000, 29, 30);
        assert_eq!(log.titles(), ["an RTO below SRTT"]);
    }

    /// A timeout after which the RTO and the window are these.
    fn timeout(rto: u64, cwnd: u64) -> Vec<String> {
        let mut log = flight(2);
        log.timer(11, EventKind::TimerSet);
        log.timer(1011, EventKind::TimerFire);
        log.timer(1011, EventKind::TimerSet);
        log.window(1011, cwnd, rto, 10);
        log.segment(1011, EventKind::Retransmit, 1, 1, Flags::ACK);
        log.titles()
    }

    #[test]
    fn a_timeout_doubles_the_rto_and_closes_the_window_to_a_segment() {
        assert!(timeout(2000, 1000).is_empty());
        assert_eq!(timeout(1000, 1000), ["no back-off after a timeout"]);
        assert_eq!(timeout(2000, 2000), ["a timeout that leaves the window open"]);
    }
}
