//! One module for each oracle or group of rules, the list of oracles, and the tables that say which rows each of them reads.

mod acknowledgment;
mod additive_increase;
mod bbr_drain;
mod bounds;
mod ce_change;
mod codel;
mod cork;
mod cubic_curve;
mod delivery;
mod ecn;
mod fairness;
mod flow_control;
mod give_up;
mod growth;
mod host_limit;
mod hystart;
mod joined_packets;
mod late_ack;
mod latency;
mod loss;
mod loss_response;
mod lost_silence;
mod mutual_silence;
mod names;
mod needless_fast_retransmit;
mod probe;
mod quick_ack;
mod quickack_mode;
mod receiver;
mod reduction;
mod retransmission_timer;
mod shown;
mod small_window_after_recovery;
mod stalled_sender;
mod timeout_without_loss;
mod timestamp_clock;
mod token_bucket;
mod traced_probe;
mod traced_recovery;
mod traced_window;
mod utilisation;
mod validated_window;

use crate::captured::Captured;
use crate::facts::Facts;
use crate::finding::{Findings, Found, Oracle};
use crate::history::History;
use crate::kinds::{Kinds, Reads, Sorts};
use crate::needs::Need;
use crate::own_packets::OwnPackets;
use crate::rfc::BOUNDS;
use crate::role::{Role, roles};
use crate::step::{Context, Rule};
use crate::walk::{Reader, Readers, peers, walk};
use tcpassay_measure::EventKind::{
    AckDelay, AckForget, AckNow, App, Congestion, In, Lost, Out, Retransmit, Rtt, State, TimerCancel,
    TimerFire, TimerSet, Window,
};
use tcpassay_measure::Recording;

/// All oracles of this crate, in the order of the documentation.
pub const ORACLES: &[Oracle] = &{
    let mut all = [OF_RUNS[0]; OF_RUNS.len() + BOUNDS.len()];
    let mut place = 0;
    while place < all.len() {
        all[place] =
            if place < OF_RUNS.len() { OF_RUNS[place] } else { crate::rfc::ORACLES[place - OF_RUNS.len()] };
        place += 1;
    }
    all
};

/// The oracles of this folder.
const OF_RUNS: &[Oracle] = &[
    timeout_without_loss::ORACLE,
    mutual_silence::ORACLE,
    late_ack::ORACLE,
    small_window_after_recovery::ORACLE,
    needless_fast_retransmit::ORACLE,
    loss_response::ORACLE,
    delivery::ORACLE,
    retransmission_timer::ORACLE,
    flow_control::ORACLE,
    ecn::ORACLE,
    growth::ORACLE,
    reduction::ORACLE,
    loss::ORACLE,
    probe::ORACLE,
    receiver::ORACLE,
    acknowledgment::ORACLE,
    utilisation::ORACLE,
    codel::ORACLE,
    bounds::ORACLE,
    fairness::ORACLE,
    latency::ORACLE,
    host_limit::ORACLE,
    lost_silence::ORACLE,
    stalled_sender::ORACLE,
];

/// Oracles that judge row by row.
///
/// `reads` are the kinds of rows that change what a rule knows or that it judges. The log of the model is the longest by far, and most of
/// its rows concern few rules. Of other logs a rule gets every row.
struct ByRow {
    name: &'static str,
    reads: Reads,
    of: Setting,
    /// Whether the settings of the run give the rule something to judge.
    applies: fn(&Context<'_>) -> bool,
    new: fn(usize) -> Box<dyn Rule>,
}

const BY_ROW: &[ByRow] = &[
    ByRow {
        name: names::RETRANSMISSION_TIMER,
        reads: Reads::of_sender(Kinds::SEGMENTS.and(&[Rtt]).or(TIMERS)),
        of: Setting::Any,
        applies: always,
        new: |flows| Box::new(retransmission_timer::RetransmissionTimer::new(flows)),
    },
    ByRow {
        name: names::FLOW_CONTROL,
        reads: Reads::all(Kinds::SEGMENTS.and(&[App, State, Rtt, Congestion]).or(TIMERS)),
        of: Setting::Any,
        applies: always,
        new: flow_control::rule,
    },
    ByRow {
        name: names::ECN,
        reads: Reads::all(Kinds::SEGMENTS.and(&[Window, Congestion])),
        of: Setting::Case,
        applies: ecn::applies,
        new: ecn::rule,
    },
    ByRow {
        name: names::WINDOW_GROWTH,
        reads: Reads::of_sender(Kinds::SEGMENTS.and(&[Window, Congestion, TimerFire, Rtt])),
        of: Setting::Any,
        applies: always,
        new: growth::rule,
    },
    ByRow {
        name: names::WINDOW_REDUCTION,
        reads: Reads::of_sender(Kinds::SEGMENTS.and(&[TimerFire, Window, Congestion, Lost])),
        of: Setting::Any,
        applies: always,
        new: reduction::rule,
    },
    ByRow {
        name: names::LOSS_DETECTION,
        reads: Reads::of_sender(Kinds::SEGMENTS.and(&[
            Lost,
            TimerFire,
            TimerCancel,
            Rtt,
            Congestion,
            Window,
        ]))
        .receiver_only(Kinds::of(&[Out, Retransmit])),
        of: Setting::VirtualTime,
        applies: always,
        new: loss::rule,
    },
    ByRow {
        name: names::ACK_TIMING,
        reads: Reads::all(Kinds::SEGMENTS.and(&[AckDelay, AckForget, AckNow, State, TimerFire]))
            .sender_only(Kinds::of(&[TimerFire])),
        of: Setting::Any,
        applies: always,
        new: |flows| Box::new(receiver::Receiver::new(flows)),
    },
    ByRow {
        name: names::SEGMENT_CONTENTS,
        reads: Reads::all(Kinds::SEGMENTS.and(&[State, TimerSet, TimerFire])),
        of: Setting::Any,
        applies: always,
        new: |flows| Box::new(acknowledgment::Acknowledgment::new(flows)),
    },
    ByRow {
        name: names::TAIL_LOSS_PROBE,
        reads: Reads::of_sender(Kinds::SEGMENTS.and(&[Rtt, TimerSet, TimerFire, Congestion])),
        of: Setting::Kernel,
        applies: always,
        new: probe::rule,
    },
    ByRow {
        name: names::BOUNDS,
        reads: Reads::all(Kinds::of(&[In, Congestion])),
        of: Setting::Case,
        applies: always,
        new: |flows| Box::new(bounds::Bounds::new(flows)),
    },
    ByRow {
        name: fairness::NAME,
        reads: Reads::all(Kinds::of(&[In])),
        of: Setting::Case,
        applies: |context| context.facts.is_some_and(Facts::endless),
        new: |flows| Box::new(fairness::Fairness::new(flows)),
    },
    ByRow {
        name: latency::NAME,
        reads: Reads::all(Kinds::SEGMENTS),
        of: Setting::Case,
        applies: latency::applies,
        new: |flows| Box::new(latency::Latency::new(flows)),
    },
    ByRow {
        name: host_limit::NAME,
        reads: Reads::all(Kinds::of(&[State])),
        of: Setting::Case,
        applies: host_limit::applies,
        new: |flows| Box::new(host_limit::HostLimit::new(flows)),
    },
    ByRow {
        name: lost_silence::NAME,
        reads: Reads::of_sender(Kinds::SEGMENTS.and(&[Lost, Rtt, TimerSet, TimerFire])),
        of: Setting::Any,
        applies: always,
        new: |flows| Box::new(lost_silence::LostSilence::new(flows)),
    },
    ByRow {
        name: stalled_sender::NAME,
        reads: Reads::of_sender(Kinds::SEGMENTS.and(&[App, State])),
        of: Setting::Any,
        applies: always,
        new: |flows| Box::new(stalled_sender::StalledSender::new(flows)),
    },
    ByRow {
        name: codel::NAME,
        reads: Reads::all(Kinds::SEGMENTS),
        of: Setting::VirtualTime,
        applies: codel::applies,
        new: |_| Box::new(codel::CoDel::new()),
    },
    ByRow {
        name: utilisation::NAME,
        reads: Reads::of_sender(Kinds::SEGMENTS.and(&[App, State, Window, Congestion, Rtt])),
        of: Setting::VirtualTime,
        applies: always,
        new: |flows| Box::new(utilisation::Utilisation::new(flows)),
    },
];

/// What an oracle must know of a run besides the rows of its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    /// Nothing.
    Any,
    /// The settings of the case.
    Case,
    /// The times of a run in virtual time, which are those of the stack: of the model or of a guest.
    VirtualTime,
    /// The times of a run on a kernel in virtual time.
    Kernel,
}

impl Setting {
    /// The name for other languages.
    pub fn name(self) -> &'static str {
        match self {
            Setting::Any => "any",
            Setting::Case => "case",
            Setting::VirtualTime => "virtual-time",
            Setting::Kernel => "kernel",
        }
    }

    fn holds(self, context: &Context<'_>) -> bool {
        match self {
            Setting::Any => true,
            Setting::Case => context.facts.is_some(),
            Setting::VirtualTime => context.in_virtual_time(),
            Setting::Kernel => context.of_kernel(),
        }
    }
}

/// What the oracle with this name must know of a run.
pub fn setting(oracle: &str) -> Setting {
    BY_ROW.iter().find(|rule| rule.name == oracle).map_or(Setting::Any, |rule| rule.of)
}

const TIMERS: Kinds = Kinds::of(&[TimerSet, TimerCancel, TimerFire]);

fn always(_: &Context<'_>) -> bool {
    true
}

/// Judges a run after its last row.
type Look = fn(&History<'_>, &mut Findings);

/// Oracles that judge after the last row.
const AFTER: &[(&str, Look)] = &[
    (timeout_without_loss::NAME, timeout_without_loss::look),
    (mutual_silence::NAME, mutual_silence::look),
    (late_ack::NAME, late_ack::look),
    (small_window_after_recovery::NAME, small_window_after_recovery::look),
    (needless_fast_retransmit::NAME, needless_fast_retransmit::look),
    (loss_response::NAME, loss_response::look),
    (delivery::NAME, delivery::look),
];

/// Applies the oracles named in `wanted` to a recording and returns their findings. Names that are not in
/// [`ORACLES`] are ignored.
pub fn judge(recording: &Recording, wanted: &[&str]) -> Vec<Found> {
    let mut found = judge_with(recording, wanted, None, false);
    let whole = wanted.iter().copied().filter(|name| needs(name).contains(&Need::Headers));
    let whole: Vec<&str> = whole.collect();
    if !whole.is_empty()
        && let Some(own) = OwnPackets::of(recording)
    {
        found.extend(judge_with(recording, &whole, Some(own.captured()), false));
    }
    found
}

/// As [`judge`], for the log of a capture.
pub(crate) fn judge_log(
    recording: &Recording,
    wanted: &[&str],
    captured: Option<Captured<'_>>,
) -> Vec<Found> {
    judge_with(recording, wanted, captured, false)
}

/// As [`judge`]. `every`: each rule gets every row of a recording of the model, too, not only the rows that it reads by their kind and by the
/// role of their end.
fn judge_with(
    recording: &Recording,
    wanted: &[&str],
    captured: Option<Captured<'_>>,
    every: bool,
) -> Vec<Found> {
    if recording.events.is_empty() {
        return Vec::new();
    }
    let facts = Facts::of(recording);
    let context = Context::new(recording, facts.as_ref(), captured);
    let selects = context.exact() && !every;
    let peers = peers(recording);
    let of_ends = if selects { roles(recording, &peers) } else { vec![Role::ANY; peers.len()] };
    let rules = BY_ROW
        .iter()
        .filter(|rule| wanted.contains(&rule.name) && rule.of.holds(&context) && (rule.applies)(&context));
    let reads = |rule: &ByRow| if selects { rule.reads } else { Reads::all(Kinds::ALL) };
    let flows = recording.flows.len();
    let rules = rules.map(|rule| Reader {
        needs: needs(rule.name),
        reads: reads(rule),
        looks: Sorts::ALL,
        rule: (rule.new)(flows),
    });
    let bounds = BOUNDS.iter().filter(|bound| wanted.contains(&bound.name)).map(|bound| Reader {
        needs: bound.needs,
        reads: Reads::all(bound.reads()),
        looks: bound.looks,
        rule: (bound.new)(flows),
    });
    let readers = Readers::new(&context, rules.chain(bounds));
    let looks: Vec<&(&str, Look)> = AFTER.iter().filter(|(name, _)| wanted.contains(name)).collect();
    let mut history = (!looks.is_empty()).then(|| History::new(recording, peers.clone()));
    if let (Some(history), Some(captured)) = (&mut history, captured) {
        history.resolution = captured.resolution;
    }
    let mut by_row = Findings::default();
    walk(&context, &of_ends, readers, history.as_mut(), &mut by_row);
    let mut all = Vec::new();
    for (name, look) in looks {
        let mut found = Findings::default();
        look(history.as_ref().expect("it was collected for them"), &mut found);
        let mut found = found.take();
        if let Some(captured) = captured {
            // They look at every end, also at those whose log lacks what they need.
            let able = |one: &Found| {
                let flow = one.flow as usize;
                let by = if recording.flows[flow].from == one.host { flow } else { peers[flow] };
                captured.ends[by].lack(needs(name)).is_none()
            };
            found.retain(able);
        }
        all.extend(found);
    }
    all.extend(by_row.take());
    all
}

/// What the oracle with a name needs.
fn needs(name: &str) -> &'static [Need] {
    ORACLES.iter().find(|oracle| oracle.name == name).map_or(&[], |oracle| oracle.needs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tcpassay_case::params::Value;
    use tcpassay_case::{Case, HostSettings};
    use tcpassay_measure::CollectOptions;
    use tcpassay_sim::{SimOptions, run};
    use tcpassay_tcp::DctcpReceiver;
    use tcpassay_units::Seed;

    type Fault = fn(&mut HostSettings);

    /// Settings of a case in addition to a rate, a delay and a duration, and what the hosts do differently.
    const RUNS: [(&[(&str, &str)], Fault); 4] = [
        (&[("link.loss", "2%")], |_| {}),
        (&[], |host| host.stack.delayed_ack.every = 8),
        (&[("app.read_rate", "20Kbit"), ("app.rcvbuf", "16KB"), ("app.duration", "4s")], |_| {}),
        (
            &[
                ("stack.cc", "dctcp"),
                ("stack.ecn", "dctcp"),
                ("queue.ecn_mark", "data"),
                ("queue.ecn_threshold", "30KB"),
                ("link.rate", "5Mbit"),
                ("app.duration", "2s"),
            ],
            |host| host.stack.dctcp_receiver = DctcpReceiver::ClearTimer,
        ),
    ];

    fn recording(rows: &[(&str, &str)], fault: Fault) -> Recording {
        let base = [("app.duration", "400ms"), ("link.rate", "20Mbit"), ("link.delay", "2ms")];
        let triples: BTreeMap<String, Value> = base
            .iter()
            .chain(rows)
            .map(|(path, value)| ((*path).to_owned(), Value::Text((*value).to_owned())))
            .collect();
        let mut case = Case::from_triples(&triples).expect("a case");
        case.hosts.iter_mut().for_each(fault);
        let collect = CollectOptions { events: true, latency: true, ..CollectOptions::default() };
        run(&case, Seed(1), &SimOptions { collect, ..SimOptions::default() }).recording
    }

    #[test]
    fn a_rule_finds_the_same_in_the_rows_that_it_reads_as_in_all_rows() {
        let names: Vec<&str> = ORACLES.iter().map(|oracle| oracle.name).collect();
        let mut titles: Vec<String> = Vec::new();
        for (rows, fault) in RUNS {
            let recording = recording(rows, fault);
            let found = judge(&recording, &names);
            assert_eq!(found, judge_with(&recording, &names, None, true), "{rows:?}");
            titles.extend(found.iter().map(|one| one.title.to_string()));
        }
        // These rules find something because a time has passed.
        for title in
            ["too many full segments are unacknowledged", "a change of CE is not acknowledged at once"]
        {
            assert!(titles.iter().any(|found| found == title), "{title}: {titles:?}");
        }
    }

    #[test]
    fn every_oracle_judges_in_one_way() {
        for oracle in ORACLES {
            let by_row = BY_ROW.iter().filter(|rule| rule.name == oracle.name).count();
            let after = AFTER.iter().filter(|(name, _)| *name == oracle.name).count();
            let bounds = BOUNDS.iter().filter(|bound| bound.name == oracle.name).count();
            assert_eq!(by_row + after + bounds, 1, "{}", oracle.name);
        }
        assert_eq!(BY_ROW.len() + AFTER.len() + BOUNDS.len(), ORACLES.len());
    }
}
