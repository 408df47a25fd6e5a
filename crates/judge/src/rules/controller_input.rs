//! What the congestion controller of the model is told with an ACK, against the segments of the log: `decisions` compares what it answers.
//!
//! Where data were sent again or SACKed, round-trip times, rounds and rates depend on which transmission an ACK reports. They are compared
//! while neither is the case.

use super::names::CONTROLLER_INPUT as NAME;
use crate::finding::{Findings, Oracle};
use crate::step::{Context, Rule, Step};
use std::collections::VecDeque;
use tcpassay_cc::{Ack, Control, Event, RateSample, View};
use tcpassay_measure::EventKind;
use tcpassay_tcp::{CongestionState, EcnMode, Pacing, Recovery, StackFlavor};
use tcpassay_units::{Bytes, Dur, Rate, Time};
use tcpassay_wire::Flags;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "what the congestion controller is told against the segments",
    asserts: "with each ACK that delivers data the controller is told the bytes acknowledged and delivered, the bytes that ECE reports as \
              marked, and SRTT; while nothing is SACKed or was sent again also the data in flight, the round-trip time of the newest segment, \
              the begin of a round trip with the first ACK of data sent after the last begin, and the delivery rate between the \
              transmission of that segment and its ACK; a paced segment leaves when the segments before it have had their time at the \
              rate of the controller, or of window and SRTT, and not before.",
    why: "RFC 5681 section 2 (FlightSize), RFC 3465 section 2.1, RFC 8257 section 3.3, RFC 6298 sections 2 and 3, \
          draft-cheng-iccrg-delivery-rate-estimation sections 3 and 4, Linux `tcp_update_pacing_rate`: a controller that follows its specification does the wrong thing with \
          a wrong measurement.",
    evidence: "the ACK or the transmission of which the controller was told, and the row before it at the sender.",
    wrong_when: "never known to be. Bytes and times are compared with profile `rfc` and SACK at both ends only, because Linux and FreeBSD count packets and choose other samples.",
    needs: &[],
};

/// A segment with the state of the delivery at its transmission.
#[derive(Clone, Copy, Debug)]
struct Departure {
    start: u64,
    end: u64,
    at: Time,
    delivered: u64,
    delivered_at: Time,
    /// Begin of the sending of what the sample counts, if it is known.
    first: Option<Time>,
}

/// Pacing since an ACK: the rate, and the earliest time of the next transmission with the segments sent since.
#[derive(Clone, Copy, Debug)]
struct Paced {
    rate: Rate,
    next: Time,
    segments: u64,
    row: usize,
}

impl Paced {
    /// `bytes` leave at `now`: the next segment waits for the time that they take at the rate.
    fn sent(&mut self, now: Time, bytes: u64) {
        let bits = u128::from(bytes) * 8 * 1_000_000_000;
        let takes = u64::try_from(bits / u128::from(self.rate.bits_per_sec().max(1))).unwrap_or(u64::MAX);
        self.next = self.next.max(now).saturating_add(Dur::from_nanos(takes));
        self.segments += 1;
    }
}

#[derive(Clone, Debug, Default)]
struct Half {
    /// Places of the decisions of this flow, and the next one of them.
    decisions: Vec<usize>,
    next: usize,
    srtt: Option<Dur>,
    /// The round, and SND.NXT at its begin if that is known.
    round: u64,
    edge: Option<u64>,
    departures: VecDeque<Departure>,
    delivered: u64,
    delivered_at: Time,
    first: Option<Time>,
    paced: Option<Paced>,
    /// SRTT that the controller was told with the last ACK, whose sample follows in the log; its row and time.
    told_srtt: Option<(Option<Dur>, usize, Time)>,
}

/// Implements the rules in the documentation of this module.
pub(super) struct ControllerInput {
    halves: Vec<Half>,
    begun: bool,
}

impl ControllerInput {
    pub fn new(flows: usize) -> ControllerInput {
        ControllerInput { halves: vec![Half::default(); flows], begun: false }
    }
}

/// Whether the recording has decisions.
pub(super) fn applies(context: &Context<'_>) -> bool {
    context.exact() && !context.recording.decisions.is_empty()
}

/// The pacing rate after an ACK: that of the controller, or a percentage of the window for each round trip (Linux `tcp_update_pacing_rate`).
/// `None` if nothing is paced or the window is not that of the controller.
fn rate(context: &Context<'_>, step: &Step<'_>, view: &View, asked: &Control) -> Option<Rate> {
    if asked.pacing.is_some() {
        return asked.pacing;
    }
    let Pacing::Percent { slow_start, avoidance } = context.stack(step.flow)?.pacing else { return None };
    let calm = step.before.state == CongestionState::Open && step.end.sacked == 0;
    let srtt = view.srtt.filter(|srtt| calm && !srtt.is_zero())?;
    let percent = if asked.cwnd < asked.ssthresh / 2 { slow_start } else { avoidance };
    Some(Rate::from_bytes_per(Bytes::new(asked.cwnd.get() * u64::from(percent) / 100), srtt))
}

/// Whether the log says what an ACK delivers, in the unit of the controller. Without SACK duplicates are an estimate.
fn comparable(context: &Context<'_>, step: &Step<'_>) -> bool {
    let (Some(stack), Some(peer)) = (context.stack(step.flow), context.stack(step.peer)) else {
        return false;
    };
    stack.flavor == StackFlavor::Rfc && stack.sack && peer.sack && stack.recovery != Recovery::NewReno
}

impl Rule for ControllerInput {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if !self.begun {
            self.begun = true;
            for (place, decision) in context.recording.decisions.iter().enumerate() {
                if matches!(decision.event, Event::Ack(_)) {
                    self.halves[decision.flow as usize].decisions.push(place);
                }
            }
        }
        let half = &mut self.halves[step.flow];
        if half.decisions.is_empty() {
            return;
        }
        if step.event.kind == EventKind::Rtt {
            half.srtt = step.event.srtt;
            return;
        }
        half.check_srtt(context, step, found);
        if !comparable(context, step) {
            return;
        }
        match step.event.kind {
            EventKind::Out => {
                half.paces(context, step, found);
                half.sent(step);
            }
            // The rate of what follows depends on the time of the retransmission.
            EventKind::Retransmit => half.forget(),
            // A probe does not wait for its time.
            EventKind::TimerFire => half.paced = None,
            EventKind::In if step.is_arrival() && step.is_stream() => {
                let taken = step.end.taken;
                if let Some((view, ack, asked)) = half.told(context, step) {
                    half.told_time(context, step, &view, found);
                    half.paced = rate(context, step, &view, &asked).map(|rate| Paced {
                        rate,
                        next: view.next_send,
                        segments: 0,
                        row: step.row,
                    });
                    half.told_srtt = Some((view.srtt, step.row, step.at()));
                    half.judge(context, step, &view, &ack, found);
                } else {
                    // An undo by a DSACK, or a new window of the peer: the rate may have changed.
                    half.paced = None;
                }
                if taken.delivered > 0 {
                    half.delivered += taken.delivered;
                    half.delivered_at = step.at();
                }
            }
            _ => {}
        }
    }
}

impl Half {
    fn forget(&mut self) {
        (self.edge, self.first, self.paced) = (None, None, None);
        self.departures.clear();
    }

    /// A segment with new data does not leave before its time.
    fn paces(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        // The first segment after idle time may have another rate.
        if step.before.nxt == step.before.una {
            self.paced = None;
        }
        let Some(paced) = self.paced.as_mut().filter(|_| step.len() > 0) else { return };
        let spare = Dur::from_nanos(2 * paced.segments);
        if step.at() + spare < paced.next {
            let Paced { rate, next, row, .. } = *paced;
            found.add(step.of_sender(context, NAME, "a paced segment leaves before its time").since(row, step.at()), || {
                format!("{} paces with {rate} and sent a segment before {next}, the time that its rate gives.", context.who(step.flow))
            });
            self.paced = None;
        } else {
            paced.sent(step.at(), step.len());
        }
    }

    /// The controller is told the earliest time of the next transmission.
    fn told_time(&mut self, context: &Context<'_>, step: &Step<'_>, view: &View, found: &mut Findings) {
        let Some(paced) = self.paced.take().filter(|paced| paced.segments > 0) else { return };
        let spare = Dur::from_nanos(2 * paced.segments);
        if view.next_send.max(paced.next).since(view.next_send.min(paced.next)) > spare {
            found.add(
                step.of_sender(context, NAME, "the next transmission is paced with another rate").since(paced.row, step.at()),
                || {
                    format!(
                        "{} sent {} segments since the last ACK. At {} the next one may leave at {}; the first one could, and with {} the next one at {}.",
                        context.who(step.flow), paced.segments, step.at(), view.next_send, paced.rate, paced.next
                    )
                },
            );
        }
    }

    fn sent(&mut self, step: &Step<'_>) {
        let (start, end) = (step.before.nxt, step.end.now.nxt);
        if end == start {
            return;
        }
        if start == step.before.una {
            (self.first, self.delivered_at) = (Some(step.at()), step.at());
        }
        let (delivered, delivered_at, first) = (self.delivered, self.delivered_at, self.first);
        self.departures.push_back(Departure { start, end, at: step.at(), delivered, delivered_at, first });
    }

    fn check_srtt(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some((told, row, at)) = self.told_srtt.take() else { return };
        let Some(srtt) = self.srtt.filter(|srtt| told != Some(*srtt)) else { return };
        found.add(
            step.of_sender(context, NAME, "the controller is told another SRTT").since(row, at),
            || {
                let told = told.map_or_else(|| "none".to_owned(), |told| told.to_string());
                format!(
                    "With an ACK at {at} the controller of {} was told an SRTT of {told}; it was {srtt}.",
                    context.who(step.flow)
                )
            },
        );
    }

    /// What the controller was told with this ACK, if it delivers data.
    fn told(&mut self, context: &Context<'_>, step: &Step<'_>) -> Option<(View, Ack, Control)> {
        let taken = step.end.taken;
        let news = taken.acked > 0 || taken.delivered > 0;
        while let Some(place) = self.decisions.get(self.next) {
            let decision = &context.recording.decisions[*place];
            let Event::Ack(ack) = decision.event else { unreachable!("only these were collected") };
            if decision.view.now > step.at() {
                return None;
            }
            let quiet = ack.acked.is_zero() && ack.delivered.is_zero();
            if decision.view.now == step.at() && !quiet && !news {
                return None;
            }
            self.next += 1;
            if decision.view.now == step.at() && (news || quiet) {
                return news.then_some((decision.view, ack, decision.asked));
            }
        }
        None
    }

    fn judge(
        &mut self,
        context: &Context<'_>,
        step: &Step<'_>,
        view: &View,
        ack: &Ack,
        found: &mut Findings,
    ) {
        let (Some(stack), Some(peer)) = (context.stack(step.flow), context.stack(step.peer)) else { return };
        let (end, taken) = (step.end, step.end.taken);
        let fin = u64::from(end.fin_out.is_some_and(|fin| (step.before.una..end.now.una).contains(&fin)));
        let mut differs = |title, told: String, is: String| {
            found.add(step.of_sender(context, NAME, title), || {
                format!(
                    "With this ACK the controller of {} was told {told}; the segments of the log give {is}.",
                    context.who(step.flow)
                )
            });
        };
        if (ack.acked.get(), ack.delivered.get().abs_diff(taken.delivered) <= fin)
            != (taken.acked - fin, true)
        {
            differs(
                "the controller is told of other data than acknowledged",
                format!("{} acknowledged and {} delivered", ack.acked, ack.delivered),
                format!("{} B and {} B", taken.acked - fin, taken.delivered),
            );
        }
        let reads = |mode| matches!(mode, EcnMode::Classic | EcnMode::Dctcp);
        if reads(stack.ecn) && stack.ecn == peer.ecn {
            let marked = if step.flags().has(Flags::ECE) { ack.delivered } else { Bytes::ZERO };
            if ack.marked != marked {
                differs("the controller is told of other marks", ack.marked.to_string(), marked.to_string());
            }
        }
        let plain =
            step.sacks.is_empty() && end.sacked == 0 && end.again == 0 && !taken.again && taken.dsacked == 0;
        let calm = plain && step.before.una < end.now.una && step.before.state == CongestionState::Open;
        if !calm {
            self.forget();
            self.round = ack.round;
            return;
        }
        if view.flight.get().abs_diff(end.outstanding()) > 1 {
            differs(
                "the controller is told another flight",
                view.flight.to_string(),
                format!("{} B", end.outstanding()),
            );
        }
        if taken.sample.is_some() && ack.rtt != taken.sample {
            differs(
                "the controller is told another round-trip time",
                format!("{:?}", ack.rtt),
                format!("{:?}", taken.sample),
            );
        }
        // A new round begins with the first ACK of data that were sent after the last one began.
        if let Some(edge) = self.edge {
            let expected = self.round + u64::from(end.now.una > edge);
            if ack.round != expected {
                differs("the controller is told another round", ack.round.to_string(), expected.to_string());
            }
        }
        if ack.round != self.round {
            (self.round, self.edge) = (ack.round, Some(end.now.nxt));
        }
        let newest = self.newest(end.now.una);
        if let Some((newest, first)) = newest.zip(newest.and_then(|newest| newest.first)) {
            let delivered = self.delivered + taken.delivered - newest.delivered;
            let interval = newest.at.since(first).max(step.at().since(newest.delivered_at));
            let least = view.min_rtt.unwrap_or(Dur::ZERO);
            let sample =
                (interval > Dur::ZERO && interval >= least).then_some((delivered, interval, newest.at));
            let told = ack
                .sample
                .map(|RateSample { delivered, interval, sent_at }| (delivered.get(), interval, sent_at));
            let same = match (told, sample) {
                (Some(told), Some(sample)) => {
                    told.0.abs_diff(sample.0) <= 1 && (told.1, told.2) == (sample.1, sample.2)
                }
                (told, sample) => told.is_none() == sample.is_none(),
            };
            if !same {
                differs(
                    "the controller is told another delivery rate",
                    format!("{told:?}"),
                    format!("{sample:?}"),
                );
            }
        }
        if let Some(newest) = newest {
            self.first = Some(newest.at);
        }
    }

    /// Removes the segments that are acknowledged, and returns the one that contains the last acknowledged byte.
    fn newest(&mut self, una: u64) -> Option<Departure> {
        let mut newest = None;
        while let Some(departure) = self.departures.front().copied().filter(|departure| departure.start < una)
        {
            newest = Some(departure);
            if departure.end > una {
                break;
            }
            self.departures.pop_front();
        }
        newest
    }
}
