//! The window after an idle time: RFC 5681 section 4.1.

use super::bound::{Bound, PerEnd, Strength, time, took};
use crate::finding::Findings;
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_tcp::{AfterIdle, Config};
use tcpassay_units::{Dur, Time};

pub(super) const RESTART: Bound = Bound {
    name: "restart-window",
    title: "a burst above the restart window after an idle time",
    section: "RFC 5681 section 4.1, SHOULD",
    strength: Strength::Should,
    statement: "a sender that has sent nothing for longer than its retransmission timeout sends no more than the restart window before \
                the first ACK: the initial window (RFC 6928 section 2), which is at most ten segments or 14,600 bytes.",
    exceptions: "the timeout is not known, so that only pauses of ten seconds are judged, with all data acknowledged. A sender that validates \
                 its window by RFC 7661 may keep more. What is paced, sent later than 10 ms after the pause, is not judged, nor are \
                 senders whose settings say that the window is kept.",
    needs: &[Need::BothDirections, Need::EveryPacket, Need::NoCopies, Need::AtEnd],
    looks: Sorts::DATA_OUT.or(Sorts::DATA_IN).or(Sorts::EMPTY_IN),
    new: |flows| PerEnd::<Burst>::rule(flows, restart),
};

/// Far above the timeouts of paths with round-trip times below a second, also after a back-off.
const IDLE: Dur = Dur::from_secs(10);
/// Time in which a burst leaves that is not paced.
const AT_ONCE: Dur = Dur::from_millis(10);
const SEGMENTS: u64 = 10;
const BYTES: u64 = 14_600;

#[derive(Clone, Debug, Default)]
struct Burst {
    /// When data were sent last.
    last: Option<Time>,
    /// The burst after an idle time: row and time of its first segment, how long the sender had been idle, bytes.
    since: Option<(usize, Time, Dur, u64)>,
}

fn restart(state: &mut Burst, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if step.event.kind == EventKind::In {
        if step.event.ack.is_some_and(|ack| ack > step.before.una) {
            state.since = None;
        }
        return;
    }
    let keeps =
        |stack: &Config| stack.after_idle == AfterIdle::Keep || u64::from(stack.initial_window) > SEGMENTS;
    // Nothing is known of the settings of a capture.
    if context.stack(step.flow).is_some_and(|stack| keeps(stack) || !context.window_based(step.flow)) {
        return;
    }
    let idle = state.last.replace(step.at()).map_or(Dur::ZERO, |last| step.at().since(last));
    if idle >= IDLE && step.before.una >= step.before.nxt {
        state.since = Some((step.row, step.at(), idle, 0));
    }
    let Some((row, begin, idle, bytes)) = &mut state.since else { return };
    *bytes += step.len();
    let most = (SEGMENTS * context.mss(step.flow)).min(BYTES.max(2 * context.mss(step.flow)));
    if step.at().since(*begin) > AT_ONCE {
        state.since = None;
    } else if *bytes > most {
        let (row, begin, idle, bytes) = (*row, *begin, *idle, *bytes);
        state.since = None;
        found.add(RESTART.of_sender(context, step).since(row, begin), || {
            format!(
                "{} had sent nothing for {} at {}; it then sent {bytes} bytes before an ACK of them arrived, more than a restart window of \
                 {most}.",
                context.who(step.flow),
                took(idle),
                time(begin)
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Line, ack, data, found, opened};

    const NOTHING: [Vec<u64>; 0] = [];

    /// After a handshake and a segment, a pause of `pause` microseconds, then `count` segments at once, an ACK in front of the last one.
    fn burst(pause: u64, count: u32, acked: bool) -> Vec<Line> {
        let mut log = opened();
        log.extend([(10_000, 0, data(1, 1000)), (10_100, 1, ack(1001))]);
        let at = 10_000 + pause;
        log.extend((0..count).map(|n| (at + u64::from(n), 0, data(1001 + 1000 * n, 1000))));
        if acked {
            log.insert(log.len() - 1, (at + u64::from(count) - 1, 1, ack(3001)));
        }
        log
    }

    #[test]
    fn more_than_ten_segments_after_an_idle_time_are_more_than_a_restart_window() {
        assert_eq!(found("restart-window", &burst(12_000_000, 11, false)), [vec![6, 16]]);
        assert_eq!(found("restart-window", &burst(12_000_000, 10, false)), NOTHING);
        assert_eq!(found("restart-window", &burst(8_000_000, 11, false)), NOTHING);
        assert_eq!(found("restart-window", &burst(12_000_000, 11, true)), NOTHING);
    }
}
