//! The model's reason for what it expected: the last decision in its own log, and where Linux or an RFC has the rule.

use crate::candidate::Candidate;
use crate::end::{End, Row};
use crate::kind::{Kind, Role, seconds};
use tcpassay_tcp::{
    AckDecision, AckReason, CongestionState, LogEntry, LogEvent, LossRule, Timer, TimerChange, WindowCause,
};
use tcpassay_units::{Dur, Time};

/// What happens within this time happens at the same time.
const SAME: Dur = Dur::from_micros(2);

/// A reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reason {
    /// In words, with numbers.
    pub text: String,
    /// Without numbers, for lists of causes; empty if the kind of the difference says it all.
    pub name: String,
    /// The function of Linux or the section of an RFC that has the rule.
    pub source: &'static str,
}

impl Reason {
    fn new(text: impl Into<String>, name: impl Into<String>, source: &'static str) -> Reason {
        Reason { text: text.into(), name: name.into(), source }
    }

    /// The reason of what a sender does: since when a kernel's window is another one, if it is.
    pub fn inside(kind: &Kind, at: Time, candidate: &Candidate, end: &End) -> Option<Reason> {
        let since = of_sender(kind).then(|| candidate.since(end, at)).flatten()?;
        Some(Reason::new(since.text, format!("since {}", since.name), since.source))
    }

    /// The reason of a retransmission that only the end sends, at row `row` and time `at`, when nothing arrives and no call is made: its timer.
    pub fn timer(kind: &Kind, (row, at): (usize, Time), candidate: &Candidate, end: &End) -> Option<Reason> {
        let since = at.saturating_sub(SAME);
        let mut before = end.rows[..row].iter().rev().take_while(|(time, _)| *time >= since);
        let asked = before.any(|(_, row)| !matches!(row, Row::Out { .. }));
        let alone = !asked && *kind == Kind::OnlySent(Role::Retransmission);
        if !alone || candidate.pacing_rate().is_some() {
            return None;
        }
        let next = match candidate.next() {
            Time::MAX => "no timer of the model runs".to_owned(),
            timer => format!("the model's next timer fires at {}", seconds(timer)),
        };
        Some(Reason::new(
            format!("nothing arrives at this time, and {next}"),
            "timer",
            "tcp_retransmit_timer, tcp_rearm_rto, tcp_set_rto, tcp_schedule_loss_probe, RFC 6298 section 5",
        ))
    }

    /// The reason of a candidate that ended with a difference of this kind. `at`: when the model sent its segment, or the end its own.
    pub fn of(kind: &Kind, at: Time, candidate: &Candidate) -> Reason {
        let mut entries = candidate.log.iter().flatten().rev().filter(|entry| entry.at <= at);
        let found = match kind {
            Kind::Fields(role, fields) => {
                let because = if *role == Role::Ack { entries.find_map(acknowledges) } else { None };
                let because = because.map_or(String::new(), |reason| reason.text);
                return Reason::new(because, "", field_source(fields.first().copied().unwrap_or_default()));
            }
            Kind::OnlyModel(Role::Ack) => entries.find_map(acknowledges),
            Kind::OnlySent(Role::Ack) => Some(unasked(entries.find_map(acknowledges))),
            Kind::OnlyModel(Role::Retransmission) => {
                // Why the segment is lost says more than the window that lets it leave.
                let lost = |entry: &&LogEntry| matches!(entry.what, LogEvent::Lost { .. }) && entry.at == at;
                entries.clone().find(lost).and_then(transmits).or_else(|| entries.find_map(transmits))
            }
            // A window that grew when the ACK came would have let a sender send that does not pace.
            Kind::OnlyModel(Role::Data) => paces(candidate).or_else(|| entries.find_map(transmits)),
            Kind::OnlySent(Role::Retransmission | Role::Data) => Some(holds(candidate)),
            Kind::OnlyModel(_) | Kind::OnlySent(_) => entries.find_map(fires),
            Kind::Read => Some(Reason::new(
                "an application reads what has arrived in order",
                "",
                "RFC 9293 section 3.10.3",
            )),
        };
        found.unwrap_or_default()
    }
}

/// Whether the sender decides what differs.
fn of_sender(kind: &Kind) -> bool {
    match kind {
        Kind::OnlySent(role) | Kind::OnlyModel(role) => matches!(role, Role::Data | Role::Retransmission),
        Kind::Fields(role, fields) => {
            matches!(role, Role::Data | Role::Retransmission)
                && matches!(fields[..], ["sequence number" | "length", ..])
        }
        Kind::Read => false,
    }
}

/// The last decision about an ACK.
fn acknowledges(entry: &LogEntry) -> Option<Reason> {
    let LogEvent::Ack { decision, why, .. } = entry.what else { return None };
    let (rule, source) = ack_rule(why);
    Some(match decision {
        AckDecision::Now => Reason::new(format!("it acknowledges at once: {rule}"), why.name(), source),
        AckDecision::Delayed(until) => {
            Reason::new(format!("the ACK is delayed until {}: {rule}", seconds(until)), "delayed", source)
        }
        AckDecision::Forgotten => {
            Reason::new("neither an ACK nor a timer is due", "forgotten", "dctcp_ce_state_1_to_0")
        }
    })
}

/// That a sender paces: its window does not tell when a segment leaves.
fn paces(candidate: &Candidate) -> Option<Reason> {
    let rate = candidate.pacing_rate()?;
    let text = format!("the pacing rate is {} bit/s, and its departure time has come", rate.bits_per_sec());
    Some(Reason::new(text, "paced", "tcp_update_skb_after_send, tcp_pacing_check, tcp_update_pacing_rate"))
}

/// Why no ACK is sent. `last`: the last decision about one.
fn unasked(last: Option<Reason>) -> Reason {
    let delayed = last.filter(|reason| reason.name == "delayed");
    let (text, name) = delayed.map_or_else(
        || ("nothing that arrived waits for an ACK".to_owned(), "no ACK is due".to_owned()),
        |reason| (reason.text, reason.name),
    );
    Reason::new(text, name, AT_ONCE)
}

/// Where Linux decides that an ACK is not delayed, and where quick ACKs begin.
const AT_ONCE: &str = "__tcp_ack_snd_check, tcp_in_quickack_mode; tcp_event_data_recv, tcp_data_queue, tcp_ecn_check_ce, tcp_send_dupack";

fn ack_rule(why: AckReason) -> (&'static str, &'static str) {
    match why {
        AckReason::EveryN => {
            ("two full segments wait for an ACK", "__tcp_ack_snd_check, RFC 5681 section 4.2")
        }
        AckReason::Quick => ("quick ACK mode", "tcp_in_quickack_mode"),
        AckReason::OutOfOrder => {
            ("a segment out of order, or one that fills a gap", "__tcp_ack_snd_check, RFC 5681 section 4.2")
        }
        AckReason::CeChange => ("the CE mark has changed", "dctcp_ece_ack_update, RFC 8257 section 3.2"),
        AckReason::Timer => ("the timer of delayed ACKs", "tcp_delack_timer_handler"),
        AckReason::WindowUpdate => ("the receive window has opened", "tcp_cleanup_rbuf"),
        AckReason::Piggyback => ("data carry the ACK", "tcp_event_ack_sent"),
        AckReason::Fin => ("a FIN arrived", "tcp_fin"),
        AckReason::Answer => {
            ("an answer to a segment that is not acceptable", "tcp_send_dupack, RFC 9293 section 3.10.7.4")
        }
        AckReason::Delay => ("no rule asks for an ACK at once", "tcp_send_delayed_ack"),
    }
}

/// The last event that lets a sender transmit.
fn transmits(entry: &LogEntry) -> Option<Reason> {
    match &entry.what {
        LogEvent::Lost { start, end, why } => {
            let (rule, source) = match why {
                LossRule::DupThresh => ("the duplicate threshold", "tcp_mark_head_lost, RFC 6675 section 5"),
                LossRule::Rack => ("the time of RACK", "tcp_rack_detect_loss, RFC 8985 section 6.2"),
                LossRule::Rto => ("the retransmission timeout", "tcp_timeout_mark_lost"),
                LossRule::NewReno => ("a partial ACK", "tcp_newreno_mark_lost, RFC 6582 section 3.2"),
                LossRule::Rescue => ("the end of a recovery", "RFC 6675 section 4"),
                LossRule::Path => ("the path MTU", "tcp_simple_retransmit"),
                LossRule::SynData => ("data of the SYN that were not taken", "tcp_rcv_fastopen_synack"),
            };
            Some(Reason::new(format!("it takes {start} to {end} for lost by {rule}"), why.name(), source))
        }
        LogEvent::Window { cwnd, flight, why, .. } => {
            let source = match why {
                WindowCause::Prr => "tcp_cwnd_reduction, RFC 9937",
                WindowCause::Enter => "tcp_init_cwnd_reduction",
                WindowCause::Leave => "tcp_end_cwnd_reduction",
                WindowCause::Timeout => "tcp_enter_loss",
                WindowCause::Resume => "tcp_cwnd_restart, tcp_cwnd_application_limited",
                _ => "tcp_cong_control",
            };
            let text = format!("cwnd is {} with {} in flight (cause: {why})", cwnd.get(), flight.get());
            Some(Reason::new(text, format!("window by {why}"), source))
        }
        _ => fires(entry),
    }
}

/// A timer that fired.
fn fires(entry: &LogEntry) -> Option<Reason> {
    let LogEvent::Timer { timer, change: TimerChange::Fired } = entry.what else { return None };
    let source = match timer {
        Timer::Rto => "tcp_retransmit_timer, RFC 6298",
        Timer::Tlp => "tcp_schedule_loss_probe, tcp_send_loss_probe, RFC 8985 section 7",
        Timer::RackReorder => "tcp_rack_reo_timeout, RFC 8985 section 6.3",
        Timer::Persist => "tcp_probe_timer, RFC 9293 section 3.8.6.1",
        Timer::DelayedAck => "tcp_delack_timer_handler",
        Timer::Keepalive => "tcp_keepalive_timer",
        Timer::TimeWait => "tcp_time_wait",
        Timer::Pacing => "tcp_update_skb_after_send, tcp_pace_kick",
        Timer::Handshake => "tcp_retransmit_timer",
        Timer::Cork => "tcp_probe_timer",
    };
    Some(Reason::new(format!("its timer {timer} fired at {}", seconds(entry.at)), timer.name(), source))
}

/// What keeps a sender from sending.
fn holds(candidate: &Candidate) -> Reason {
    let state = candidate.log.iter().flatten().rev().find_map(|entry| match entry.what {
        LogEvent::Congestion { to, .. } => Some(to),
        _ => None,
    });
    let gauges = candidate.conn.gauges();
    let state = state.unwrap_or(CongestionState::Open);
    if gauges.flight >= gauges.cwnd {
        let text = format!(
            "its window is full: cwnd {}, in flight {}, state {state}",
            gauges.cwnd.get(),
            gauges.flight.get()
        );
        return Reason::new(
            text,
            format!("the window is full in {state}"),
            "tcp_cwnd_test, tcp_cong_control",
        );
    }
    Reason::new(
        format!("its window has room, and nothing is to be sent (state {state})"),
        format!("nothing to send in {state}"),
        "tcp_write_xmit, tcp_xmit_retransmit_queue",
    )
}

/// Where the rule of a field is.
fn field_source(field: &str) -> &'static str {
    match field {
        "sequence number" | "length" => "tcp_write_xmit, tcp_xmit_retransmit_queue",
        "acknowledgment number" => "RFC 9293 section 3.8.6",
        "FIN" => "tcp_send_fin",
        "PSH" => "tcp_push, tcp_mark_push",
        "ECE" | "CWR" | "AE" | "ECN field" => "tcp_ecn_send, RFC 3168 section 6.1",
        "window" => "__tcp_select_window, RFC 9293 section 3.8.6",
        "timestamps" | "TSval" => "tcp_skb_timestamp, RFC 7323 section 4.1",
        "TSecr" => "tcp_replace_ts_recent, RFC 7323 section 4.3",
        "SACK blocks" => "tcp_sack_new_ofo_skb, RFC 2018 section 4",
        "options of the SYN" => "tcp_syn_options",
        _ => "",
    }
}
