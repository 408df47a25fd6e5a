//! Distances of paced segments: draft-cheng-iccrg-tcp-pacing, Linux `tcp_update_pacing_rate`.

use super::names::WINDOW_GROWTH as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::WindowCause;
use tcpassay_tcp::{CongestionState, Pacing, StackFlavor};
use tcpassay_units::{Dur, Time};

/// Segments that Linux sends unpaced at the begin of a connection.
const FIRST: u64 = 10;
/// Number of segments that may follow each other too closely: timers are rounded, and a probe of the path does not wait.
const PATIENCE: u32 = 4;

/// The last segment with new data of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Spacing {
    srtt: Option<Dur>,
    /// Time of the last segment, its row, and the shortest time until the next one.
    last: Option<(Time, usize, Dur)>,
    segments: u64,
    /// Number of consecutive segments that followed each other too closely.
    close: u32,
    /// True if an ACK came since something else than an ACK changed the window: the rate follows with an ACK.
    current: bool,
}

impl Spacing {
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some(stack) = context.stack(step.flow).filter(|_| context.exact()) else { return };
        let Pacing::Percent { slow_start, avoidance } = stack.pacing else { return };
        match step.event.kind {
            EventKind::Rtt => self.srtt = step.event.srtt,
            EventKind::In if step.end.taken.acked > 0 => self.current = true,
            EventKind::Window if step.event.window_cause() != Some(WindowCause::Ack) => {
                self.current = false;
                self.forget();
            }
            // What is sent again, or for a timer, does not wait.
            EventKind::Retransmit | EventKind::TimerFire => self.forget(),
            EventKind::Congestion | EventKind::Window if step.end.now.state != CongestionState::Open => {
                self.forget();
            }
            EventKind::Out if step.len() > 0 && context.window_based(step.flow) => {
                self.sent(context, step, (slow_start, avoidance), found);
            }
            _ => {}
        }
    }

    fn forget(&mut self) {
        (self.last, self.close) = (None, 0);
    }

    fn sent(&mut self, context: &Context<'_>, step: &Step<'_>, percent: (u32, u32), found: &mut Findings) {
        let mss = context.mss(step.flow).max(1);
        self.segments += step.len().div_ceil(mss);
        let now = step.end.now;
        let Some(srtt) =
            self.srtt.filter(|_| self.current && now.state == CongestionState::Open && now.cwnd > 0)
        else {
            return;
        };
        if let Some((before, row, least)) = self.last {
            let gap = step.at().since(before);
            self.close = if gap + gap / 20 + Dur::from_micros(2) < least { self.close + 1 } else { 0 };
            if self.close >= PATIENCE && self.segments > 2 * FIRST {
                self.close = 0;
                found.add(step.of_sender(context, NAME, "paced segments follow each other too closely").since(row, before), || {
                    format!(
                        "{} paces its segments and sent this one {gap} after the one before, whose length takes {least} at least at the rate of \
                         its window of {} bytes and SRTT of {srtt}.", context.who(step.flow), now.cwnd
                    )
                });
            }
        }
        // Linux compensates a late transmission by up to half of the distance.
        let linux = context.stack(step.flow).is_some_and(|stack| stack.flavor == StackFlavor::Linux);
        let share = u64::from(if now.cwnd < now.ssthresh / 2 { percent.0 } else { percent.1 });
        let whole = u128::from(srtt.as_nanos()) * u128::from(step.len()) * 100;
        let wait = whole / u128::from(now.cwnd) / u128::from(share.max(1));
        let wait = Dur::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
        self.last = Some((step.at(), step.row, if linux { wait / 2 } else { wait }));
    }
}
