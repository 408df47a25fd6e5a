//! The retransmission timeout as it follows from the samples, and the samples as they follow from the ACKs: a replay of RFC 6298 sections 2 and
//! 3, and of the filter of Linux (`tcp_rtt_estimator`).

use super::names::RETRANSMISSION_TIMER as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_tcp::{Config, StackFlavor};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// Tolerance for the rounding of a computed time.
const ROUNDING: Dur = Dur::from_micros(2);
/// The granularity of timestamps.
const TICK: Dur = Dur::from_millis(1);

/// A state that the estimator may have.
#[derive(Clone, Copy, Debug)]
struct Filter {
    srtt: Dur,
    /// RTTVAR of RFC 6298.
    variance: Dur,
    /// Linux: the mean deviation, its largest value in this round trip, the one in use (each four times a deviation), and the end of the
    /// round trip.
    mean: Dur,
    most: Dur,
    used: Dur,
    edge: u64,
}

impl Filter {
    fn first(sample: Dur, least: Dur, edge: u64) -> Filter {
        let used = (sample * 2).max(least);
        Filter { srtt: sample, variance: sample / 2, mean: sample * 2, most: used, used, edge }
    }

    fn sample(&mut self, sample: Dur, srtt: Dur, least: Dur, (una, nxt): (u64, u64)) {
        let error = self.srtt.abs_diff(sample);
        self.variance = (self.variance * 3 + error) / 4;
        let quarter = self.mean / 4;
        if error <= quarter {
            self.mean -= quarter - error;
        } else if sample < self.srtt {
            self.mean += (error - quarter) / 8;
        } else {
            self.mean += error - quarter;
        }
        self.most = self.most.max(self.mean);
        self.used = self.used.max(self.most);
        if una > self.edge {
            self.used -= self.used.saturating_sub(self.most) / 4;
            self.edge = nxt;
            self.most = least;
        }
        self.srtt = srtt;
    }

    /// The timeout without any back-off, before it is rounded to ticks.
    fn timeout(&self, stack: &Config) -> Dur {
        let rto = &stack.rto;
        let sum = if rto.min_on_variance {
            self.srtt + self.used
        } else {
            (self.srtt + self.variance * 4).max(rto.min)
        };
        (sum + rto.slop).min(rto.max)
    }
}

/// What an ACK shows about round-trip times.
#[derive(Clone, Copy, Debug)]
struct Shown {
    at: Time,
    row: usize,
    /// The shortest and the longest time since a transmission of what the ACK delivers.
    span: Option<(Dur, Dur)>,
    /// A sample must follow.
    owes: bool,
}

/// The replay for one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Estimator {
    /// The states that explain all samples so far. The sample of the handshake is not in the log, so that there are two at first.
    filters: Vec<Filter>,
    /// No state explained a timeout: the end is not judged any more.
    lost: bool,
    shown: Option<Shown>,
    /// The position after the data of a SYN. What its answer does not acknowledge is sent again, and gives no sample.
    syn_data_end: u64,
    handshake: Handshake,
}

/// The transmissions of the own SYN or SYN-ACK.
#[derive(Clone, Debug, Default)]
struct Handshake {
    sent: Vec<Time>,
    /// Time of the arrival that ended the handshake.
    answered: Time,
}

impl Handshake {
    fn on(&mut self, step: &Step<'_>) {
        match step.event.kind {
            EventKind::Out | EventKind::Retransmit if step.flags().has(Flags::SYN) => {
                self.sent.push(step.at());
            }
            EventKind::In if !step.end.open => self.answered = step.at(),
            _ => {}
        }
    }

    /// The time from the last transmission to the answer.
    fn shortest(&self) -> Dur {
        self.sent.last().map_or(Dur::ZERO, |last| self.answered.since(*last))
    }

    /// Karn's algorithm: a SYN that was sent again gives no sample, except one since its last transmission, or, by the timestamp that
    /// the answer echoes (RFC 6298 section 3), since the transmission that had it.
    fn permits(&self, sample: Dur, timestamps: bool) -> bool {
        let stamped = |sent: &Time| {
            let true_time = self.answered.since(*sent);
            true_time <= sample + TICK && sample <= true_time + TICK
        };
        self.sent.len() < 2 || sample <= self.shortest() + TICK || timestamps && self.sent.iter().any(stamped)
    }
}

impl Estimator {
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if step.event.kind == EventKind::In && step.flags().has(Flags::SYN) {
            self.syn_data_end = step.end.now.nxt;
        }
        self.handshake.on(step);
        let Some(stack) = context.stack(step.flow).filter(|_| context.exact() && step.end.open) else {
            return;
        };
        match step.event.kind {
            EventKind::Rtt => {
                self.value(context, step, stack, found);
                self.timeout(context, step, stack, found);
            }
            EventKind::In | EventKind::Out | EventKind::Retransmit => {
                self.missing(context, step, found);
                if step.is_arrival() {
                    self.shown = Some(shown(step, stack, self.syn_data_end));
                }
            }
            _ => {}
        }
    }

    /// A sample is the time since a transmission of what the ACK delivers.
    fn value(&mut self, context: &Context<'_>, step: &Step<'_>, stack: &Config, found: &mut Findings) {
        let Some(shown) = self.shown.filter(|shown| shown.at == step.at()) else { return };
        self.shown = None;
        let Some(value) = step.event.value.map(Dur::from_nanos) else { return };
        let Some((least, most)) = shown.span else {
            found.add(step.of_sender(context, NAME, "a sample of an ACK that delivers nothing").since(shown.row, shown.at), || {
                format!(
                    "{} took a round-trip sample of {value} from a segment that neither acknowledges nor SACKs new data (RFC 7323 section 4.1, \
                     RFC 6298 section 3).", context.who(step.flow)
                )
            });
            return;
        };
        // The echo of a timestamp may be that of another transmission than those of what is delivered.
        let stamped = stack.timestamps && value.as_nanos().is_multiple_of(TICK.as_nanos());
        if !stamped && (value + ROUNDING < least || value > most + ROUNDING) {
            found.add(step.of_sender(context, NAME, "a sample that is no round-trip time").since(shown.row, shown.at), || {
                format!(
                    "{} took a round-trip sample of {value}; what the ACK delivers was sent between {least} and {most} ago (RFC 6298 section 3).",
                    context.who(step.flow)
                )
            });
        }
    }

    /// An ACK of data that were sent once gives a sample.
    fn missing(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some(shown) = self.shown.take().filter(|shown| shown.owes) else { return };
        found.add(step.of_sender(context, NAME, "an ACK of new data gives no sample").since(shown.row, shown.at), || {
            format!(
                "{} took no round-trip sample of the ACK at {}, which acknowledges only data that were sent once (RFC 6298 section 3).",
                context.who(step.flow), shown.at
            )
        });
    }

    /// The RTO is the one that the samples so far give.
    fn timeout(&mut self, context: &Context<'_>, step: &Step<'_>, stack: &Config, found: &mut Findings) {
        let event = step.event;
        let (Some(value), Some(srtt), Some(rto)) = (event.value.map(Dur::from_nanos), event.srtt, event.rto)
        else {
            return;
        };
        if self.lost {
            return;
        }
        let known = (step.end.now.una, step.end.now.nxt);
        let least = stack.rto.min;
        let begins = self.filters.is_empty();
        if begins {
            if srtt == value {
                self.filters.push(Filter::first(value, least, known.1));
            }
            if let Some(seven) = (srtt * 8 >= value).then(|| srtt * 8 - value) {
                if self.handshake.permits(seven / 7, stack.timestamps) {
                    let mut filter = Filter::first(seven / 7, least, 1);
                    filter.sample(value, srtt, least, known);
                    self.filters.push(filter);
                } else if self.filters.is_empty() {
                    self.lost = true;
                    found.add(step.of_sender(context, NAME, "a sample of a SYN that was sent again"), || {
                        format!(
                            "After its first sample of data, {value}, SRTT of {} is {srtt}: the handshake gave a sample of {}, although its SYN was sent {} \
                             times, the last time {} before the answer (Karn's algorithm, RFC 6298 section 3).",
                            context.who(step.flow), seven / 7, self.handshake.sent.len(), self.handshake.shortest()
                        )
                    });
                    return;
                }
            }
        } else {
            for filter in &mut self.filters {
                filter.sample(value, srtt, least, known);
            }
        }
        let first = self.filters.first().map(|filter| filter.timeout(stack));
        self.filters.retain(|filter| {
            let expected = filter.timeout(stack);
            rto + ROUNDING >= expected && rto <= stack.timer_ticks.round_up(expected + ROUNDING) + ROUNDING
        });
        if self.filters.is_empty() {
            self.lost = true;
            let expected = first.unwrap_or(Dur::ZERO);
            found.add(step.of_sender(context, NAME, "the RTO is not the one of its samples"), || {
                format!(
                    "After a sample of {value}, with SRTT {srtt}, the RTO of {} is {rto}; its samples give {expected} (RFC 6298 section 2.3).",
                    context.who(step.flow)
                )
            });
        }
    }
}

/// `syn_data_end`: the position after the data of a SYN.
fn shown(step: &Step<'_>, stack: &Config, syn_data_end: u64) -> Shown {
    let taken = &step.end.taken;
    let all = taken.acked == taken.delivered && taken.acked > 0;
    let once = all && taken.once && !taken.again && step.before.una >= syn_data_end;
    Shown {
        at: step.at(),
        row: step.row,
        span: taken.span,
        owes: once && stack.flavor != StackFlavor::FreeBsd,
    }
}

#[cfg(test)]
mod tests {
    use super::Handshake;
    use tcpassay_units::{Dur, Time};

    #[test]
    fn a_repeated_syn_gives_a_sample_of_an_earlier_transmission_only_by_its_timestamp() {
        let at = |ms| Time::ZERO + Dur::from_millis(ms);
        let handshake = Handshake { sent: vec![at(0), at(1000)], answered: at(1010) };
        let permits = |ms, timestamps| handshake.permits(Dur::from_millis(ms), timestamps);
        assert!(permits(10, false) && permits(10, true), "the last transmission");
        assert!(!permits(1010, false) && permits(1010, true), "the first one");
        assert!(!permits(500, true), "none was sent then");
    }
}
