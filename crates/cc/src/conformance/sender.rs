//! A minimal test sender that turns steps into legal events.

use super::clauses::{self, Clause, ClauseInput, Contract, MAX_WINDOW};
use super::recovery::RecoveryState;
use super::step::HistoryStep;
use crate::{Ack, Cause, Control, Controller, Event, Limited, RateSample, View};
use tcpassay_units::{Bytes, Dur, Time};

const MSS: Bytes = Bytes::new(1000);
const INITIAL_WINDOW: Bytes = Bytes::new(10_000);
const BASE_RTT: Dur = Dur::from_millis(20);
const RTO: Dur = Dur::from_millis(200);

/// The number of events of each kind in the histories.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Coverage {
    /// Events of any kind.
    pub events: u64,
    /// ACKs in slow start, outside recovery.
    pub slow_start: u64,
    /// ACKs in congestion avoidance.
    pub avoidance: u64,
    /// ACKs of both kinds while the application or the peer limited the sender.
    pub limited: u64,
    /// Recoveries caused by loss.
    pub losses: u64,
    /// Reductions caused by marks.
    pub marks: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Timeouts during a recovery.
    pub timeouts_in_recovery: u64,
    /// Recoveries that were proven spurious.
    pub undos: u64,
    /// Those that were proven spurious after they had ended.
    pub late_undos: u64,
    /// Restarts after idle.
    pub resumes: u64,
}

impl Coverage {
    pub(super) fn add(&mut self, other: Coverage) {
        self.events += other.events;
        self.slow_start += other.slow_start;
        self.avoidance += other.avoidance;
        self.limited += other.limited;
        self.losses += other.losses;
        self.marks += other.marks;
        self.timeouts += other.timeouts;
        self.timeouts_in_recovery += other.timeouts_in_recovery;
        self.undos += other.undos;
        self.late_undos += other.late_undos;
        self.resumes += other.resumes;
    }
}

/// The sender.
#[derive(Debug)]
pub(super) struct TestSender {
    contract: Contract,
    /// Clauses that are known to be violated, and do not count again.
    known: Vec<Clause>,
    controller: Box<dyn Controller>,
    /// Whether clones of the controller are created and receive different events, which must not influence the
    /// original.
    pub(super) disturbed: bool,
    pub(super) coverage: Coverage,
    now: Time,
    sent_at: Time,
    control: Control,
    limited: Limited,
    exit: Bytes,
    /// Stream positions: acknowledged, sent, and sent at the start of the round.
    una: u64,
    nxt: u64,
    round_end: u64,
    round: u64,
    /// Bytes above `una`: reported by SACK, and marked lost and not yet retransmitted.
    sacked: Bytes,
    lost: Bytes,
    recovery: Option<RecoveryState>,
    /// The previous recovery, until the next reduction: a late proof may undo it.
    past: Option<RecoveryState>,
    /// Timeouts since the last progress of the cumulative acknowledgement.
    timeouts: u32,
    /// The largest flight size of this round and the previous one.
    peaks: [Bytes; 2],
    srtt: Option<Dur>,
    min_rtt: Option<Dur>,
    /// Bytes delivered, and time and bytes delivered at the start of the round.
    delivered: Bytes,
    round_began: (Time, Bytes),
}

type ClauseResult = Result<(), (Clause, String)>;

impl TestSender {
    pub(super) fn new(contract: Contract, controller: Box<dyn Controller>, known: &[Clause]) -> TestSender {
        let control = Control { cwnd: INITIAL_WINDOW, ssthresh: Bytes::MAX, pacing: None };
        let mut sender = TestSender {
            contract,
            known: known.to_vec(),
            controller,
            disturbed: false,
            coverage: Coverage::default(),
            now: Time::ZERO,
            sent_at: Time::ZERO,
            control,
            limited: Limited::Cwnd,
            exit: Bytes::MAX,
            una: 0,
            nxt: 0,
            round_end: 0,
            round: 0,
            sacked: Bytes::ZERO,
            lost: Bytes::ZERO,
            recovery: None,
            past: None,
            timeouts: 0,
            peaks: [Bytes::ZERO; 2],
            srtt: None,
            min_rtt: None,
            delivered: Bytes::ZERO,
            round_began: (Time::ZERO, Bytes::ZERO),
        };
        sender.process(Event::Established).expect("no clause binds before the first event");
        sender
    }

    pub(super) fn take(&mut self, step: HistoryStep) -> ClauseResult {
        match step {
            HistoryStep::Send { segments, unless } => self.send(segments, unless),
            HistoryStep::Ack { segments, marked, queue } => self.ack(segments, marked, queue),
            HistoryStep::Sack { segments, lost } => self.sack(segments, lost),
            HistoryStep::Undo => self.undo(),
            HistoryStep::Timeout => self.timeout(),
            HistoryStep::ExitRule { segments } => {
                self.exit = if segments == 0 { Bytes::MAX } else { MSS * u64::from(segments) };
                Ok(())
            }
            HistoryStep::Idle => self.idle(),
            HistoryStep::Wait { ms } => {
                self.now += Dur::from_millis(u64::from(ms));
                Ok(())
            }
        }
    }

    /// Whether two senders that processed the same steps are in the same state.
    pub(super) fn same_as(&self, other: &TestSender) -> ClauseResult {
        if self.control == other.control && self.controller.internals() == other.controller.internals()
            || self.known.contains(&Clause::Pure)
        {
            return Ok(());
        }
        let detail = format!(
            "With copies of the controller made: {:?} {:?}. Without: {:?} {:?}",
            self.control,
            self.controller.internals(),
            other.control,
            other.controller.internals()
        );
        Err((Clause::Pure, detail))
    }

    fn outstanding(&self) -> Bytes {
        Bytes::new(self.nxt - self.una)
    }

    fn flight(&self) -> Bytes {
        self.outstanding() - self.sacked - self.lost
    }

    fn send(&mut self, segments: u8, unless: Limited) -> ClauseResult {
        self.limited = unless;
        for _ in 0..segments {
            // In a recovery from loss, ssthresh limits the data path, in the simplest form.
            if self.flight() + MSS > self.control.cwnd && !self.flight().is_zero() {
                self.limited = Limited::Cwnd;
                break;
            }
            let before = std::mem::replace(&mut self.sent_at, self.now);
            let idle = self.flight().is_zero().then(|| self.now.since(before));
            if self.lost.is_zero() {
                self.nxt += MSS.get();
            } else {
                self.lost = self.lost.saturating_sub(MSS);
            }
            let app_limited = unless == Limited::App && self.flight() == MSS;
            self.process(Event::Sent { bytes: MSS, app_limited, idle })?;
        }
        Ok(())
    }

    fn ack(&mut self, segments: u8, marked: bool, queue: u8) -> ClauseResult {
        let acked = (MSS * u64::from(segments)).min(self.outstanding());
        if acked.is_zero() {
            return Ok(());
        }
        let before = self.flight();
        self.now += Dur::from_micros(100);
        self.una += acked.get();
        self.timeouts = 0;
        // Data in flight is acknowledged first, then holes, then data that SACK had reported.
        let rest = acked.saturating_sub(before);
        let from_holes = rest.min(self.lost);
        self.lost -= from_holes;
        self.sacked -= rest - from_holes;
        let delivered = acked.min(before) + from_holes;
        let covers_round = self.una > self.round_end;
        if covers_round {
            self.round += 1;
            self.round_end = self.nxt;
            self.round_began = (self.now, self.delivered);
            self.peaks = [Bytes::ZERO, self.peaks[0]];
        }
        let rtt = BASE_RTT + Dur::from_millis(u64::from(queue));
        self.srtt = Some(self.srtt.map_or(rtt, |srtt| (srtt * 7 + rtt) / 8));
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        let mut input = false;
        match self.recovery {
            Some(recovery) if self.una >= recovery.point => self.leave(false)?,
            None if marked => {
                self.enter(Cause::Ecn, acked + self.outstanding())?;
                input = true;
            }
            _ => {}
        }
        let ce = if marked { delivered } else { Bytes::ZERO };
        self.process_ack(Ack { acked, delivered, marked: ce, rtt: Some(rtt), ..self.empty_ack() })?;
        if marked && !input && self.recovery.is_none() {
            // This ACK ended a recovery: the reduction caused by its marks begins after it.
            self.enter(Cause::Ecn, acked + self.outstanding())?;
        }
        Ok(())
    }

    fn sack(&mut self, segments: u8, lost: bool) -> ClauseResult {
        let before = self.flight();
        // A hole of one segment remains.
        let delivered = (MSS * u64::from(segments)).min(before.saturating_sub(MSS));
        if delivered.is_zero() {
            return Ok(());
        }
        self.now += Dur::from_micros(100);
        let flight = self.outstanding();
        self.sacked += delivered;
        let newly = if lost { MSS.min(self.flight()) } else { Bytes::ZERO };
        self.lost += newly;
        if lost && self.recovery.is_none() {
            self.enter(Cause::Loss, flight)?;
        }
        self.process_ack(Ack { delivered, lost: newly, ..self.empty_ack() })
    }

    fn undo(&mut self) -> ClauseResult {
        match (self.recovery, self.past) {
            (Some(recovery), _) if !recovery.marks => {}
            (None, Some(past)) if !past.marks => {
                self.recovery = Some(past);
                self.coverage.late_undos += 1;
            }
            _ => return Ok(()),
        }
        self.lost = Bytes::ZERO;
        self.leave(true)?;
        self.process_ack(self.empty_ack())
    }

    fn timeout(&mut self) -> ClauseResult {
        let flight = self.outstanding();
        if flight.is_zero() {
            return Ok(());
        }
        self.now += RTO;
        self.lost = flight - self.sacked;
        let again = self.timeouts > 0;
        self.timeouts += 1;
        self.coverage.timeouts += 1;
        self.coverage.timeouts_in_recovery += u64::from(self.recovery.is_some_and(|r| !r.timeout));
        let before = match self.recovery {
            Some(recovery) if again || !recovery.timeout && !recovery.marks => recovery.before,
            // There was progress since the last timeout, so that this one is a new event; the same applies after
            // marks.
            _ => self.control,
        };
        self.process(Event::Timeout { flight, again })?;
        self.recovery = Some(RecoveryState {
            point: self.nxt,
            timeout: true,
            marks: false,
            before,
            entered: self.control,
        });
        Ok(())
    }

    fn idle(&mut self) -> ClauseResult {
        while !self.outstanding().is_zero() {
            self.ack(u8::MAX, false, 0)?;
        }
        let idle = RTO * 3;
        self.now += idle;
        self.coverage.resumes += 1;
        let restart = INITIAL_WINDOW.min(self.control.cwnd);
        self.process(Event::Resume { idle, rto: RTO, restart })?;
        self.send(1, Limited::App)
    }

    fn enter(&mut self, cause: Cause, flight: Bytes) -> ClauseResult {
        match cause {
            Cause::Loss => self.coverage.losses += 1,
            Cause::Ecn => self.coverage.marks += 1,
        }
        let before = self.control;
        self.process(Event::Congestion { cause, flight })?;
        let marks = cause == Cause::Ecn;
        self.recovery =
            Some(RecoveryState { point: self.nxt, timeout: false, marks, before, entered: self.control });
        Ok(())
    }

    fn leave(&mut self, spurious: bool) -> ClauseResult {
        self.coverage.undos += u64::from(spurious);
        self.process(Event::RecoveryExit { spurious, exit: self.exit })?;
        self.past = if spurious { None } else { self.recovery };
        self.recovery = None;
        self.timeouts = 0;
        Ok(())
    }

    fn empty_ack(&self) -> Ack {
        Ack {
            acked: Bytes::ZERO,
            delivered: Bytes::ZERO,
            lost: Bytes::ZERO,
            marked: Bytes::ZERO,
            rtt: None,
            sample: None,
            app_limited: self.limited == Limited::App,
            round: self.round,
            reordered: false,
        }
    }

    fn process_ack(&mut self, ack: Ack) -> ClauseResult {
        // The flight size before the ACK, including data that was wrongly marked lost.
        let flight = self.flight() + ack.delivered + ack.lost;
        self.peaks[0] = self.peaks[0].max(flight);
        if self.recovery.is_none() {
            let slow = self.control.cwnd < self.control.ssthresh;
            *(if slow { &mut self.coverage.slow_start } else { &mut self.coverage.avoidance }) += 1;
            self.coverage.limited += u64::from(self.limited != Limited::Cwnd);
        }
        self.delivered += ack.delivered;
        // What was delivered in this round; an interval shorter than a round trip is not valid.
        let (began, before) = self.round_began;
        let interval = self.now.since(began);
        let sample = (!ack.delivered.is_zero() && interval >= self.min_rtt.unwrap_or(BASE_RTT))
            .then(|| RateSample { delivered: self.delivered - before, interval, sent_at: began });
        self.process(Event::Ack(Ack { sample, ..ack }))
    }

    fn process(&mut self, event: Event) -> ClauseResult {
        self.coverage.events += 1;
        let view = View {
            now: self.now,
            mss: MSS,
            control: self.control,
            flight: self.flight(),
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            limited: self.limited,
            next_send: self.now,
            open: true,
        };
        if self.disturbed {
            disturb(self.controller.boxed_clone(), &view);
            // From time to time the copy replaces the original.
            if self.now.as_nanos().is_multiple_of(3) {
                self.controller = self.controller.boxed_clone();
            }
        }
        let copy = self.controller.boxed_clone();
        let answer = self.controller.on(&view, &event);
        let input = ClauseInput {
            view: &view,
            event: &event,
            answer: &answer,
            recovery: self.recovery.as_ref(),
            peak: self.peaks[0].max(self.peaks[1]),
            known: &self.known,
        };
        clauses::range(&input)?;
        if self.contract == Contract::Rate {
            clauses::rate(&input)?;
        } else if self.contract != Contract::Any {
            match clauses::window(&input) {
                Err((Clause::AppLimited, _)) if self.contract == Contract::Unfilled => {}
                kept => kept?,
            }
            clauses::more_acked_never_less(&input, copy)?;
        }
        self.control = Control { cwnd: answer.cwnd.clamp(MSS, MAX_WINDOW), ..answer };
        Ok(())
    }
}

/// Passes events to a copy of the controller that the original does not receive.
fn disturb(mut copy: Box<dyn Controller>, view: &View) {
    let flight = view.control.cwnd;
    let _ = copy.on(view, &Event::Timeout { flight, again: false });
    let _ = copy.on(view, &Event::RecoveryExit { spurious: false, exit: Bytes::MAX });
    let ack = Ack {
        acked: MSS,
        delivered: MSS,
        lost: Bytes::ZERO,
        marked: MSS,
        rtt: Some(Dur::from_millis(1)),
        sample: None,
        app_limited: false,
        round: 1 << 40,
        reordered: false,
    };
    let _ = copy.on(view, &Event::Ack(ack));
}
