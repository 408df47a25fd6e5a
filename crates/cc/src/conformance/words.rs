//! Events, answers and steps of a history in words, for messages about violated clauses.

use super::recovery::RecoveryState;
use super::step::HistoryStep;
use crate::{Ack, Cause, Control, Event, Limited, View};
use std::fmt;
use tcpassay_units::Bytes;

/// What happened, what the controller was shown, and what it answered.
pub(super) fn answered(
    view: &View,
    event: &Event,
    answer: &Control,
    recovery: Option<&RecoveryState>,
) -> String {
    let during = match recovery {
        None => "",
        Some(recovery) if recovery.timeout => ", in the recovery from a timeout",
        Some(recovery) if recovery.marks => ", in a reduction because of marks",
        Some(_) => ", in a recovery from loss",
    };
    let limited = match view.limited {
        Limited::Cwnd => "the window",
        Limited::App => "the application",
        Limited::Rwnd => "the peer's window",
    };
    format!(
        "{}{during}. Before: {}, {} in flight, limited by {limited}. Answer: {}",
        event_words(event),
        control(&view.control),
        view.flight,
        control(answer),
    )
}

fn control(control: &Control) -> String {
    let pacing = control.pacing.map_or(String::new(), |rate| format!(", pacing {rate}"));
    format!("cwnd {}, ssthresh {}{pacing}", control.cwnd, threshold(control.ssthresh))
}

/// A threshold or an upper bound; the largest value stands for none.
fn threshold(bytes: Bytes) -> String {
    if bytes == Bytes::MAX { "none".to_owned() } else { bytes.to_string() }
}

fn event_words(event: &Event) -> String {
    match *event {
        Event::Established => "Established".to_owned(),
        Event::Sent { bytes, .. } => format!("Sent of {bytes}"),
        Event::Congestion { cause, flight } => {
            let cause = match cause {
                Cause::Loss => "loss",
                Cause::Ecn => "ecn",
            };
            format!("Congestion by {cause} with {flight} outstanding")
        }
        Event::RecoveryExit { spurious: true, .. } => "RecoveryExit, spurious".to_owned(),
        Event::RecoveryExit { exit, .. } => format!("RecoveryExit with exit {}", threshold(exit)),
        Event::Timeout { flight, again } => {
            format!("Timeout{} with {flight} outstanding", if again { ", repeated" } else { "" })
        }
        Event::Resume { restart, .. } => format!("Resume with restart {restart}"),
        Event::Ack(ref ack) => ack_words(ack),
    }
}

fn ack_words(ack: &Ack) -> String {
    let part = |bytes: Bytes, what: &str| {
        if bytes.is_zero() { String::new() } else { format!(", {bytes} {what}") }
    };
    let (lost, marked) = (part(ack.lost, "lost"), part(ack.marked, "marked"));
    format!("Ack of {} ({} delivered){lost}{marked}", ack.acked, ack.delivered)
}

impl fmt::Display for HistoryStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let segments = |n: u8| if n == 1 { "1 segment".to_owned() } else { format!("{n} segments") };
        match *self {
            HistoryStep::Send { segments: n, unless } => {
                let who = if unless == Limited::Rwnd { "the peer's window" } else { "the application" };
                write!(f, "send up to {}, as {who} allows", segments(n))
            }
            HistoryStep::Ack { segments: n, marked, queue } => {
                let marked = if marked { " that echoes marks" } else { "" };
                write!(f, "a cumulative ACK of {}{marked}, {queue} ms above the smallest RTT", segments(n))
            }
            HistoryStep::Sack { segments: n, lost } => {
                let lost = if lost { ", which proves the loss of the segment before them" } else { "" };
                write!(f, "a SACK of {}{lost}", segments(n))
            }
            HistoryStep::Undo => f.write_str("an ACK that proves the recovery spurious"),
            HistoryStep::Timeout => f.write_str("the retransmission timer fires"),
            HistoryStep::ExitRule { segments: 0 } => {
                f.write_str("from now on recoveries end without a bound")
            }
            HistoryStep::ExitRule { segments: n } => {
                write!(f, "from now on recoveries end with at most {}", segments(n))
            }
            HistoryStep::Idle => {
                f.write_str("all data is acknowledged, and the connection idles for three RTOs")
            }
            HistoryStep::Wait { ms } => write!(f, "{ms} ms pass"),
        }
    }
}
