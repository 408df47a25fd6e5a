//! What the log of a kernel tells of its sender: congestion window, slow-start threshold and congestion state.
//!
//! Following does not need them, and nothing here ends a candidate. A difference in what is sent is the consequence of an earlier one in
//! these; since when they differ, and what the model did at that time, is the reason.

use crate::kind::seconds;
use tcpassay_tcp::{CongestionCause, CongestionState, Gauges, LogEntry, LogEvent, WindowCause};
use tcpassay_units::{Bytes, Time};

/// What the kernel told at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// Congestion window and slow-start threshold ([`Bytes::MAX`] before the first congestion) when a segment arrived that had not been
    /// processed.
    Before(Bytes, Bytes),
    /// The same after what happened at this time.
    After(Bytes, Bytes),
    /// It entered this congestion state.
    State(CongestionState),
}

/// Congestion window, slow-start threshold and congestion state of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inside {
    cwnd: Bytes,
    ssthresh: Bytes,
    state: CongestionState,
}

impl Inside {
    pub fn of(gauges: &Gauges, state: CongestionState) -> Inside {
        Inside { cwnd: gauges.cwnd, ssthresh: gauges.ssthresh, state }
    }

    /// That of a kernel at the first arrival of an instant, before it is processed; `None` before the first row. `rows`: in order of time.
    fn told(rows: &[(Time, Told)], at: Time) -> Option<Inside> {
        let earlier = rows.partition_point(|(time, _)| *time < at);
        let met = rows[earlier..].iter().take_while(|(time, _)| *time == at).find_map(|(_, row)| match row {
            Told::Before(cwnd, ssthresh) => Some((*cwnd, *ssthresh)),
            _ => None,
        });
        let before = || rows[..earlier].iter().rev();
        let (cwnd, ssthresh) = met.or_else(|| {
            before().find_map(|(_, row)| match row {
                Told::Before(cwnd, ssthresh) | Told::After(cwnd, ssthresh) => Some((*cwnd, *ssthresh)),
                Told::State(_) => None,
            })
        })?;
        let state = before().find_map(|(_, row)| match row {
            Told::State(state) => Some(*state),
            _ => None,
        });
        Some(Inside { cwnd, ssthresh, state: state.unwrap_or_default() })
    }

    /// Whether a window of the one state differs from that of the other for another reason than its size.
    fn reduces(self) -> bool {
        reduces(self.state)
    }
}

/// Since when kernel and model differ inside, and by what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Since {
    /// In words, with numbers.
    pub text: String,
    /// What the model did, without numbers.
    pub name: &'static str,
    /// The function of Linux that has the rule.
    pub source: &'static str,
}

/// Compares the model with the kernel at each arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    /// The last arrival before which they were compared, and the model then.
    last: Option<(Time, Inside)>,
    /// The kernel at that arrival.
    kernel: Option<Inside>,
    since: Option<Since>,
}

impl Watch {
    /// Before the model processes an arrival. `log`: the last entries of its log.
    pub fn arrives<'a>(
        &mut self,
        rows: &[(Time, Told)],
        at: Time,
        (model, cc): (Inside, &str),
        log: impl Iterator<Item = &'a LogEntry>,
    ) {
        if self.last.is_some_and(|(last, _)| last == at) {
            return;
        }
        let before = self.last.replace((at, model));
        let Some(kernel) = Inside::told(rows, at) else { return };
        let kernel_before = self.kernel.replace(kernel);
        let same =
            (model.cwnd, model.ssthresh, model.reduces()) == (kernel.cwnd, kernel.ssthresh, kernel.reduces());
        if same {
            self.since = None;
        } else if self.since.is_none() {
            let (from, was) = before.unwrap_or((at, model));
            let step = Step { model: (was, model), kernel: (kernel_before.unwrap_or(kernel), kernel), cc };
            let (name, source) = step.rule(log.filter(|entry| entry.at >= from && entry.at <= at));
            let text = format!(
                "since {} {}, the kernel's {}: {name}",
                seconds(from),
                shown("its", model),
                shown("", kernel)
            );
            self.since = Some(Since { text, name, source });
        }
    }

    /// Since when they differ; `None` if they were the same at the last arrival.
    pub fn since(&self) -> Option<&Since> {
        self.since.as_ref()
    }
}

fn shown(whose: &str, inside: Inside) -> String {
    let ssthresh = if inside.ssthresh == Bytes::MAX {
        String::new()
    } else {
        format!(", ssthresh {}", inside.ssthresh.get())
    };
    format!("{whose} cwnd is {}{ssthresh}, state {}", inside.cwnd.get(), inside.state).trim_start().to_owned()
}

/// Both before and after what happened between two arrivals.
struct Step<'a> {
    model: (Inside, Inside),
    kernel: (Inside, Inside),
    cc: &'a str,
}

impl Step<'_> {
    /// What the model did then, or else what the kernel did, and the functions of Linux that do it.
    fn rule<'a>(&self, log: impl Iterator<Item = &'a LogEntry>) -> (&'static str, &'static str) {
        let mut entries: Vec<&LogEntry> = log.collect();
        entries.reverse();
        let moved = entries.iter().find_map(|entry| match entry.what {
            LogEvent::Congestion { from, to, why } => Some((from, to, why)),
            _ => None,
        });
        // If both made the same transition, what differs is what the window did afterwards with the same ACK.
        let (model, kernel) = (self.model.1, self.kernel.1);
        let others = model.ssthresh != kernel.ssthresh || model.reduces() != kernel.reduces();
        if let Some((_, to, why)) = moved.filter(|(from, to, _)| others && (reduces(*from) || reduces(*to))) {
            return transition(to, why);
        }
        if self.kernel.0.state != self.kernel.1.state && self.kernel.1.reduces() != self.model.1.reduces() {
            return kernel_transition(self.kernel.0.state, self.kernel.1.state);
        }
        let window = entries.iter().find_map(|entry| match entry.what {
            LogEvent::Window { why, .. } => Some(why),
            _ => None,
        });
        match window {
            Some(WindowCause::Prr) => ("proportional rate reduction", "tcp_cwnd_reduction, RFC 9937"),
            Some(WindowCause::Enter) => ("a reduction begins", "tcp_init_cwnd_reduction, tcp_enter_recovery"),
            Some(WindowCause::Leave) => ("a reduction ends", "tcp_end_cwnd_reduction"),
            Some(WindowCause::Timeout) => ("a timeout", "tcp_enter_loss"),
            Some(WindowCause::Resume) => {
                ("an idle time", "tcp_cwnd_restart, tcp_slow_start_after_idle_check, tcp_event_data_sent")
            }
            _ if self.model.1.reduces() => {
                ("a window in a reduction", "tcp_cwnd_reduction, tcp_cong_control")
            }
            _ => self.growth(),
        }
    }

    /// A window that grows, or does not.
    fn growth(&self) -> (&'static str, &'static str) {
        let ((was, model), (_, kernel)) = (self.model, self.kernel);
        if self.cc == "bbr" {
            return ("BBR", "bbr_main, bbr_set_cwnd");
        }
        if model.ssthresh != kernel.ssthresh && self.cc == "cubic" {
            return ("the end of slow start by HyStart", "hystart_update, cubictcp_acked");
        }
        let slow = was.cwnd < was.ssthresh;
        let grew = model.cwnd > was.cwnd;
        match (slow, grew, self.cc) {
            (_, false, _) if kernel.cwnd > model.cwnd => (
                "the window is not used up and does not grow",
                "tcp_is_cwnd_limited, tcp_cwnd_validate, tcp_cong_avoid",
            ),
            (true, _, "cubic") => ("slow start", "tcp_slow_start, cubictcp_cong_avoid, tcp_cwnd_validate"),
            (true, ..) => ("slow start", "tcp_slow_start, tcp_reno_cong_avoid, tcp_cwnd_validate"),
            (false, _, "cubic") => (
                "congestion avoidance",
                "bictcp_update, cubictcp_cong_avoid, tcp_cong_avoid_ai, tcp_cwnd_validate",
            ),
            (false, ..) => {
                ("congestion avoidance", "tcp_reno_cong_avoid, tcp_cong_avoid_ai, tcp_cwnd_validate")
            }
        }
    }
}

/// Whether a state has a window of its own, which does not grow.
fn reduces(state: CongestionState) -> bool {
    !matches!(state, CongestionState::Open | CongestionState::Disorder)
}

/// The transition of the model.
fn transition(to: CongestionState, why: CongestionCause) -> (&'static str, &'static str) {
    match (to, why) {
        (_, CongestionCause::UndoEifel) => (
            "an undo by timestamps",
            "tcp_packet_delayed, tcp_try_undo_recovery, tcp_try_undo_partial, tcp_try_undo_loss",
        ),
        (_, CongestionCause::UndoDsack | CongestionCause::UndoRack) => {
            ("an undo by DSACKs", "tcp_try_undo_dsack, tcp_check_dsack, tcp_dsack_seen")
        }
        (_, CongestionCause::UndoFrto) => ("an undo by F-RTO", "tcp_process_loss, tcp_try_undo_loss"),
        (_, CongestionCause::Tlp | CongestionCause::RepairedByProbe) => {
            ("a loss that a probe repaired", "tcp_process_tlp_ack, RFC 8985 section 7.4")
        }
        (CongestionState::Loss, _) => ("a timeout", "tcp_enter_loss, tcp_retransmit_timer"),
        (CongestionState::Recovery, _) => ("a recovery begins", "tcp_enter_recovery, tcp_fastretrans_alert"),
        (CongestionState::Cwr, _) => ("a reduction begins", "tcp_enter_cwr, tcp_try_to_open"),
        (CongestionState::Open | CongestionState::Disorder, _) => {
            ("a reduction ends", "tcp_end_cwnd_reduction, tcp_fastretrans_alert, tcp_try_undo_recovery")
        }
    }
}

/// The transition of a kernel that the model did not make.
fn kernel_transition(from: CongestionState, to: CongestionState) -> (&'static str, &'static str) {
    match (from, to) {
        (_, CongestionState::Recovery) => (
            "the kernel alone begins a recovery",
            "tcp_time_to_recover, tcp_fastretrans_alert, tcp_rack_mark_lost",
        ),
        (_, CongestionState::Loss) => {
            ("the kernel alone has a timeout", "tcp_retransmit_timer, tcp_enter_loss")
        }
        (_, CongestionState::Cwr) => {
            ("the kernel alone begins a reduction", "tcp_enter_cwr, tcp_process_tlp_ack, tcp_try_to_open")
        }
        (CongestionState::Recovery | CongestionState::Loss, _) => (
            "the kernel alone ends a recovery",
            "tcp_try_undo_recovery, tcp_try_undo_partial, tcp_try_undo_loss, tcp_may_undo, tcp_fastretrans_alert",
        ),
        (_, CongestionState::Open | CongestionState::Disorder) => {
            ("the kernel alone ends a reduction", "tcp_fastretrans_alert, tcp_end_cwnd_reduction")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Inside = Inside { cwnd: Bytes::new(10), ssthresh: Bytes::MAX, state: CongestionState::Open };

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn before(cwnd: u64) -> Told {
        Told::Before(Bytes::new(cwnd), Bytes::MAX)
    }

    fn window(cwnd: u64) -> Inside {
        Inside { cwnd: Bytes::new(cwnd), ..BEGIN }
    }

    /// Arrivals at these times, with the model's window before each of them.
    fn watched(rows: &[(Time, Told)], cc: &str, arrivals: &[(u64, Inside)]) -> Option<Since> {
        let mut watch = Watch::default();
        for (ms, model) in arrivals {
            watch.arrives(rows, at(*ms), (*model, cc), [].iter());
        }
        watch.since().cloned()
    }

    #[test]
    fn a_kernel_tells_its_window_before_a_segment_and_after_a_recovery() {
        let five = Told::After(Bytes::new(5), Bytes::new(5));
        let rows = [
            (at(1), before(10)),
            (at(3), five),
            (at(3), Told::State(CongestionState::Cwr)),
            (at(7), before(6)),
        ];
        let told = |ms| Inside::told(&rows, at(ms)).map(|one| (one.cwnd.get(), one.state));
        assert_eq!(told(0), None);
        assert_eq!(told(3), Some((10, CongestionState::Open)));
        assert_eq!(told(5), Some((5, CongestionState::Cwr)));
        assert_eq!(told(7), Some((6, CongestionState::Cwr)));
    }

    #[test]
    fn windows_that_differ_name_the_phase_in_which_they_began_to() {
        let rows = [(at(1), before(10)), (at(2), before(11)), (at(3), before(12))];
        let slow =
            watched(&rows, "reno", &[(1, BEGIN), (2, window(12)), (3, window(14))]).expect("they differ");
        assert_eq!(slow.name, "slow start");
        assert_eq!(slow.source, "tcp_slow_start, tcp_reno_cong_avoid, tcp_cwnd_validate");
        assert!(
            slow.text.starts_with("since 0.001000 s its cwnd is 12, state Open, the kernel's cwnd is 11"),
            "{}",
            slow.text
        );
        let unused = watched(&rows, "cubic", &[(1, BEGIN), (2, BEGIN)]).expect("they differ");
        assert_eq!(unused.source, "tcp_is_cwnd_limited, tcp_cwnd_validate, tcp_cong_avoid");
    }

    #[test]
    fn windows_that_are_the_same_again_do_not_differ() {
        let rows = [(at(1), before(10)), (at(2), before(11)), (at(3), before(12))];
        assert_eq!(watched(&rows, "reno", &[(1, BEGIN), (2, window(12)), (3, window(12))]), None);
    }

    #[test]
    fn another_window_after_the_same_transition_is_that_of_its_reduction() {
        let recovery = |cwnd| Inside {
            cwnd: Bytes::new(cwnd),
            ssthresh: Bytes::new(5),
            state: CongestionState::Recovery,
        };
        let enters = LogEvent::Congestion {
            from: CongestionState::Open,
            to: CongestionState::Recovery,
            why: CongestionCause::Rack,
        };
        let reduces = LogEvent::Window {
            cwnd: Bytes::new(8),
            ssthresh: Bytes::new(5),
            flight: Bytes::new(7),
            why: WindowCause::Prr,
        };
        let log = [enters, reduces].map(|what| LogEntry { at: at(1), what });
        let rule = |kernel| {
            Step { model: (BEGIN, recovery(8)), kernel: (BEGIN, kernel), cc: "reno" }.rule(log.iter()).0
        };
        assert_eq!(rule(recovery(9)), "proportional rate reduction");
        assert_eq!(rule(BEGIN), "a recovery begins");
    }

    #[test]
    fn a_recovery_of_the_kernel_alone_is_the_reason_even_if_the_window_is_the_same() {
        let rows = [(at(1), before(10)), (at(1), Told::State(CongestionState::Recovery))];
        let since = watched(&rows, "reno", &[(1, BEGIN), (2, BEGIN)]).expect("they differ");
        assert_eq!(since.name, "the kernel alone begins a recovery");
    }
}
