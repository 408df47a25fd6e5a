//! Conversion of the stack's log entries to rows of the event log.

use tcpassay_measure::reason::{CongestionChange, StateChange};
use tcpassay_measure::{ECT, EventKind, EventRow, Reason};
use tcpassay_tcp::{AckDecision, LogEntry, LogEvent, TimerChange};
use tcpassay_units::Bytes;

/// The row for `entry` of host `host`, which sends flow `flow`.
pub(super) fn event(entry: &LogEntry, host: u32, flow: u32) -> EventRow {
    let of = |kind| EventRow::new(entry.at, host, Some(flow), kind);
    let because = |kind, why: &'static str| EventRow { why: Reason::Borrowed(why), ..of(kind) };
    let said = |kind, why: String| EventRow { why: Reason::Owned(why), ..of(kind) };
    let below_max = |b: Bytes| (b != Bytes::MAX).then_some(b);
    match entry.what {
        LogEvent::SegmentIn { seq, ack, len, flags, ce, window, stamp } => EventRow {
            seq: Some(seq),
            ack: Some(ack),
            len: Some(len),
            flags: Some(flags),
            window: Some(window),
            value: stamp.map(u64::from),
            ce,
            ..of(EventKind::In)
        },
        LogEvent::SegmentOut { seq, ack, len, flags, retransmission, window, ect, echo } => {
            let kind = if retransmission { EventKind::Retransmit } else { EventKind::Out };
            EventRow {
                seq: Some(seq),
                ack: Some(ack),
                len: Some(len),
                flags: Some(flags),
                window: Some(window),
                value: echo.map(u64::from),
                ..because(kind, if ect { ECT } else { "" })
            }
        }
        LogEvent::Sack { start, end } => span(of(EventKind::Sack), start, end),
        LogEvent::Refused { why } => because(EventKind::Refused, why),
        LogEvent::Timer { timer, change } => {
            let why = timer.name();
            match change {
                TimerChange::Set(at) => {
                    EventRow { value: Some(at.as_nanos()), ..because(EventKind::TimerSet, why) }
                }
                TimerChange::Cancelled => because(EventKind::TimerCancel, why),
                TimerChange::Fired => because(EventKind::TimerFire, why),
            }
        }
        LogEvent::State { from, to } => {
            let change = StateChange::Moved { from: Some(from), to: Some(to) };
            said(EventKind::State, change.to_string())
        }
        LogEvent::Congestion { from, to, why } => {
            let change = CongestionChange { from: Some(from), to: Some(to), cause: why.name() };
            said(EventKind::Congestion, change.to_string())
        }
        LogEvent::Window { cwnd, ssthresh, flight, why } => EventRow {
            cwnd: Some(cwnd),
            ssthresh: below_max(ssthresh),
            flight: Some(flight),
            ..because(EventKind::Window, why.name())
        },
        LogEvent::Rtt { sample, srtt, rto } => EventRow {
            value: Some(sample.as_nanos()),
            srtt: Some(srtt),
            rto: Some(rto),
            ..of(EventKind::Rtt)
        },
        LogEvent::Lost { start, end, why } => span(because(EventKind::Lost, why.name()), start, end),
        LogEvent::Spurious { start, end, why } => span(because(EventKind::Spurious, why), start, end),
        LogEvent::Ack { decision, why, rcv_nxt } => {
            let (kind, value) = match decision {
                AckDecision::Now => (EventKind::AckNow, None),
                AckDecision::Delayed(until) => (EventKind::AckDelay, Some(until.as_nanos())),
                AckDecision::Forgotten => (EventKind::AckForget, None),
            };
            EventRow { ack: Some(rcv_nxt), value, ..because(kind, why.name()) }
        }
        LogEvent::Clamped { asked, given } => {
            EventRow { cwnd: Some(given), asked: Some(asked), ..of(EventKind::Clamp) }
        }
        LogEvent::Aborted { why } => said(EventKind::State, StateChange::Aborted { cause: why }.to_string()),
    }
}

fn span(event: EventRow, start: u64, end: u64) -> EventRow {
    EventRow { seq: Some(start), len: Some(u32::try_from(end - start).unwrap_or(u32::MAX)), ..event }
}
