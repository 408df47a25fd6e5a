//! Silences of a sender that knows of lost data.

use crate::finding::{Findings, Level, Occurrence, Oracle};
use crate::needs::Need;
use crate::rules::latency::readable;
use crate::step::{Context, Rule, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::Timer;
use tcpassay_units::{Dur, Time};

pub(super) const NAME: &str = "silence-with-losses";
const TITLE: &str = "a long silence while lost data are outstanding";

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: TITLE,
    asserts: "a sender that has marked data as lost sends something within 5 s. A finding is a note: it names what the sender waited for.",
    why: "until lost data are sent again, nothing reaches the application. RFC 6298 permits such silences: the timer doubles with each \
          timeout (section 5.5) and follows a round-trip time that a queue or an outage made long (section 2).",
    evidence: "the first row in which data were marked as lost, the last setting of the retransmission timer, and the segment that ended the \
               silence.",
    wrong_when: "the path carries nothing for that time, so that it does not matter whether the sender sends.",
    needs: &[Need::Event(EventKind::Lost)],
};

const LONG: Dur = Dur::from_secs(5);

/// When the retransmission timer was set, its expiry, and the row.
type TimerSet = (Time, Time, usize);

#[derive(Clone, Copy, Debug, Default)]
struct Half {
    /// The position after the last byte that was marked as lost, and the row.
    lost: Option<(u64, usize)>,
    timer: Option<TimerSet>,
    /// Timeouts since the last arrival that acknowledged data.
    timeouts: u32,
    /// The timer that fired last, when, and the setting of the retransmission timer before that.
    fired: Option<(Timer, Time, Option<TimerSet>)>,
    srtt: Option<Dur>,
}

/// See the module.
pub(super) struct LostSilence(Vec<Half>);

impl LostSilence {
    pub fn new(flows: usize) -> LostSilence {
        LostSilence(vec![Half::default(); flows])
    }
}

impl Rule for LostSilence {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let half = &mut self.0[step.flow];
        let timer = || step.event.why.parse::<Timer>().ok();
        match step.event.kind {
            EventKind::Lost => {
                let end = step.event.seq.unwrap_or(0) + u64::from(step.event.len.unwrap_or(0));
                let known = half.lost.filter(|(end, _)| *end > step.before.una);
                half.lost = Some((
                    end.max(known.map_or(0, |known| known.0)),
                    known.map_or(step.row, |known| known.1),
                ));
            }
            EventKind::Rtt => half.srtt = step.event.srtt.or(half.srtt),
            EventKind::TimerSet if timer() == Some(Timer::Rto) => {
                half.timer = step.event.value.map(|at| (step.at(), Time::from_nanos(at), step.row));
            }
            EventKind::TimerFire => {
                half.fired = timer().map(|timer| (timer, step.at(), half.timer));
                half.timeouts += u32::from(timer() == Some(Timer::Rto));
            }
            EventKind::In if step.end.now.una > step.before.una => half.timeouts = 0,
            EventKind::Out | EventKind::Retransmit => half.judge(context, step, found),
            _ => {}
        }
    }
}

impl Half {
    fn judge(&self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let (at, before) = (step.at(), &step.before);
        let silence = at.since(before.spoke);
        let Some((end, marked)) = self.lost.filter(|(end, _)| *end > before.una && before.nxt > before.una)
        else {
            return;
        };
        if silence < LONG || before.spoke == Time::ZERO {
            return;
        }
        let fired = self.fired.filter(|(_, time, _)| *time == at);
        let timer = fired.map_or(self.timer, |fired| fired.2);
        let rows = [Some(marked), timer.map(|timer| timer.2), Some(step.row)];
        let mut rows: Vec<usize> = rows.into_iter().flatten().collect();
        rows.sort_unstable();
        rows.dedup();
        let flow = &context.recording.flows[step.flow];
        let one = Occurrence {
            oracle: NAME,
            title: "",
            flow: u32::try_from(step.flow).expect("flows are numbered in 32 bits"),
            host: flow.from,
            start: before.spoke,
            end: at,
            level: Level::Note,
            rows,
        };
        found.add(one, || {
            let outstanding = before.nxt - before.una;
            let lost = end - before.una;
            let ended = match fired {
                Some((timer, ..)) => format!("the timer {timer} ended the silence"),
                None => "an arriving segment ended the silence".to_owned(),
            };
            let waited = timer.map_or(String::new(), |(set, expiry, _)| {
                format!("; the retransmission timer had been set to {:#} at {set:#}", readable(expiry.since(set)))
            });
            let doubled = match self.timeouts {
                0 | 1 => String::new(),
                n => format!(" after {n} timeouts in a row, which double it each time"),
            };
            let srtt = self.srtt.map_or(String::new(), |srtt| format!(", with a smoothed round-trip time of {:#}", readable(srtt)));
            format!(
                "{} sent nothing for {:#} while {outstanding} bytes were outstanding, of which data up to {lost} bytes behind SND.UNA \
                 were marked as lost: {ended}{waited}{doubled}{srtt}.",
                context.who(step.flow),
                readable(silence)
            )
        });
    }
}
