//! One run of a case: set-up, probes of the path, traffic, recording.
//!
//! | module | phase |
//! | --- | --- |
//! | [`setup`] | builds the topology, opens the taps, starts the relays, measures the path |
//! | [`event_loop`] | runs the applications, from the start of the run to its end |
//! | [`collectors`] | reads packets, queues, sockets and trace events while the loop runs |
//! | [`recording`] | closes the sockets and assembles the recording |
//!
//! In virtual time a process takes no time: the kernel runs until it has nothing left to do, and then the clock jumps to the next timer.
//! The collectors therefore do not change the run: the same packets leave with and without them. In real time the loop
//! delays what it does by the time that it takes.

mod collectors;
mod event_loop;
mod recording;
mod setup;

use crate::collect::host_taps::HostTaps;
use crate::collect::inet_diag::InetDiag;
use crate::collect::machine_load::{LoadSince, MachineLoad, pause};
use crate::collect::queues::QueueMonitor;
use crate::collect::tap::Taps;
use crate::collect::trace_events::KernelTrace;
use crate::environment::{BOOT, Environment};
use crate::placement;
use crate::request::{CaseAnswer, Request};
use crate::system::Failure;
use crate::traffic::addresses::server_ports;
use crate::traffic::cc_engine::CcEngines;
use crate::traffic::first_connections;
use crate::traffic::runtime::TrafficRuntime;
use crate::traffic::udp_background::UdpBackground;
use collectors::Collectors;
pub use event_loop::Conductor;
use event_loop::EventLoop;
use recording::Rings;
use setup::{AdjustInterfaces, Setup};
use std::sync::Arc;
use tcpassay_case::Case;
use tcpassay_linux::sys;
use tcpassay_measure::reason::RunEnd;
use tcpassay_measure::{CapturePoint, CollectOptions, Collector, Recording, metrics};
use tcpassay_units::Seed;
use tcpassay_workload::{ConnKey, HostIndex};

/// The traffic of a guest starts a multiple of this after its boot, in nanoseconds of its clock. The topology is built and
/// probed before, which takes longer than one of them on slow paths only.
const GUEST_STEP: u64 = 100 * 1_000_000_000;
/// The time between the end of the set-up and the start of the traffic in real time, in nanoseconds.
const HOST_LEAD: u64 = 20_000_000;

/// The start of the traffic in a guest whose set-up ended now.
fn guest_start(now: u64) -> u64 {
    BOOT + (now.saturating_sub(BOOT) / GUEST_STEP + 1) * GUEST_STEP
}

/// Runs a case and writes its recording.
pub fn run(request: &Request, environment: &Environment) -> CaseAnswer {
    match request.case(environment) {
        Ok(case) => run_case(request, &case, environment).unwrap_or_else(CaseAnswer::failed),
        Err(errors) => CaseAnswer { ended: RunEnd::Refused, errors, ..CaseAnswer::default() },
    }
}

fn run_case(request: &Request, case: &Case, environment: &Environment) -> Result<CaseAnswer, Failure> {
    let (collect, options) = request.collect.read().map_err(|e| e.to_string())?;
    let ran = record(
        request,
        case,
        environment,
        collect,
        Others { adjust: &mut |_, _| Ok(()), conductor: None, since: None },
    )?;
    ran.recording.0.write(&request.folder).map_err(|why| why.to_string())?;
    Ok(answer(&ran.recording, collect.unseen, ran.mismatch, metrics::metrics(&ran.recording.0, options)))
}

/// The results of a run.
pub struct RecordedRun {
    /// The recording, and the digest of its packets.
    pub recording: (Recording, u64),
    /// The difference between the path and the case.
    pub mismatch: Option<String>,
    /// The connections of the workload, in the order of the flows of the recording.
    pub connections: Vec<ConnKey>,
    /// Still open.
    pub rings: Rings,
}

/// The part of a run that other machines of a testbed take part in.
pub struct Others<'a> {
    /// Changes the settings of test interfaces.
    pub adjust: &'a mut AdjustInterfaces<'a>,
    /// The controller.
    pub conductor: Option<&'a mut dyn Conductor>,
    /// The load is measured since then: before the start of a run no machine of a testbed sends packets.
    pub since: Option<LoadSince>,
}

/// Runs a case.
///
/// # Errors
/// A failure of the set-up or of the run.
pub fn record(
    request: &Request,
    case: &Case,
    environment: &Environment,
    collect: CollectOptions,
    others: Others,
) -> Result<RecordedRun, Failure> {
    let Others { adjust, conductor, since } = others;
    let mut setup = setup::prepare(request, case, environment, &collect, adjust)?;
    if collect.unseen {
        // The probes of the path needed the taps; the run itself goes without them.
        setup.taps = Taps::default();
    }
    setup.relays.start_run(case, Seed(request.seed));
    setup.nics.start_run(case, Seed(request.seed));
    traffic(request, case, environment, collect, setup, (conductor, since))
}

/// Runs the applications, unless the path is not the one of the case.
fn traffic(
    request: &Request,
    case: &Case,
    environment: &Environment,
    collect: CollectOptions,
    setup: Setup,
    (mut conductor, since): (Option<&mut dyn Conductor>, Option<LoadSince>),
) -> Result<RecordedRun, Failure> {
    let seed = Seed(request.seed);
    let schedule = Arc::new(case.plan(seed));
    // Trace events have windows in segments; their size is known from the handshake, which the taps see.
    let windows = collect.events && !collect.unseen;
    let (mut trace, machine) = if environment.is_host() {
        let mut wait = |time| {
            if let Some(conductor) = &mut conductor {
                return conductor.wait(time);
            }
            pause(time);
            Ok(())
        };
        let since = since.map_or_else(LoadSince::now, Ok)?;
        let load = MachineLoad::when_quiet(since, request.max_wait_for_quiet(), &mut wait);
        let here = (0..case.hosts.len()).filter(|host| setup.topology.has_host(*host));
        let hosts: Vec<u32> = here.map(|host| u32::try_from(host).expect("few hosts")).collect();
        (KernelTrace::listen(windows, &hosts, &server_ports(schedule.parts().len())), Some(load?))
    } else {
        (KernelTrace::open(windows).map_err(|e| format!("tracefs: {e}"))?, None)
    };
    trace.set_merging(case.hosts.iter().map(|host| host.nic.gro).collect());
    let Setup {
        benchmark,
        topology,
        namespaces,
        marking_programs,
        ack_marks,
        mut taps,
        relays,
        nics: _,
        path,
    } = setup;
    let prefix = engine_prefix(case, environment)?;
    let engines = CcEngines::start(case, &topology, &schedule, &request.objects, seed, &prefix)?;
    let mut runtime = TrafficRuntime::new(
        case,
        &schedule,
        &topology,
        namespaces,
        collector(case, collect),
        engines.names.clone(),
    )?;
    runtime.traced = trace.counts_timeouts();
    // A thread has a descriptor of its own, so that a connection of a host that stops would not vanish.
    if !environment.is_host() && !case.reboots() {
        runtime.use_io_threads();
    }
    if benchmark.is_some_and(|benchmark| benchmark.copy) {
        runtime.copy_received_data();
    }
    let udp = UdpBackground::of(case, &topology, &mut runtime.namespaces)?;
    if environment.is_host() {
        for host in (0..case.hosts.len()).filter(|host| topology.has_host(*host)) {
            let index = HostIndex(u32::try_from(host).expect("few hosts"));
            for key in first_connections::of(&schedule.apps(index)) {
                runtime.open_before_start(host, key)?;
            }
        }
    }
    // All servers listen.
    let start = match &mut conductor {
        Some(conductor) => {
            conductor.open_path(case, &topology, &mut runtime.namespaces)?;
            let start = conductor.start()?;
            // The probes of the path do not belong to the run.
            taps.drain(u64::MAX, |_| {});
            trace.discard();
            start
        }
        None if environment.is_host() => sys::now() + HOST_LEAD,
        None => guest_start(sys::now()),
    };
    runtime.start_at(start);
    runtime.taps = HostTaps { taps, benchmark: benchmark.is_some(), real_time: environment.is_host() };
    relays.begin(start);
    let collectors = Collectors {
        start,
        topology: &topology,
        trace,
        queues: QueueMonitor::new(&topology, marking_programs, ack_marks, collect.series),
        inet_diag: InetDiag::default(),
    };
    let mut event_loop = EventLoop::new(case, environment, schedule, start, runtime, collectors, udp);
    event_loop.conductor = conductor.map(|conductor| -> &mut dyn Conductor { conductor });
    if path.mismatch.is_none() {
        event_loop.run()?;
    }
    let mismatch = path.mismatch.clone();
    let connections = event_loop.runtime.connections().to_vec();
    let parts = recording::Parts { engines, relays, machine, path };
    let (recording, rings) = recording::assemble(request, environment, event_loop, parts)?;
    Ok(RecordedRun { recording, mismatch, connections, rings })
}

/// The beginning of the names of controllers that this run registers in the kernel. Several machines of a testbed may be namespaces of
/// one kernel, in which the names must differ.
fn engine_prefix(case: &Case, environment: &Environment) -> Result<String, Failure> {
    let part = environment.part.as_ref().map(|part| placement::place(part, case)).transpose()?;
    Ok(part.map_or("run".to_owned(), |placement| format!("m{}r", placement.own)))
}

/// The collector of a run, with an interface for each host.
fn collector(case: &Case, collect: CollectOptions) -> Collector {
    let mut collector = Collector::new(collect);
    for host in &case.net.hosts {
        let description = format!("{}, at its NIC", host.name);
        collector.add_interface(CapturePoint { name: host.name.clone(), description });
    }
    collector
}

/// Why a recording lacks packets or events, for the user.
fn incomplete(recording: &Recording) -> String {
    let count = |entity: &str, name: &str| {
        recording.counters.get(entity).and_then(|counters| counters.get(name)).copied().unwrap_or(0)
    };
    let packets = count("run", "tap_lost");
    if packets > 0 {
        return format!(
            "{packets} packets are not in the recording: they passed faster than the agent read the rings of its taps. A case with a lower rate, \
             or `collect.taps = false`, needs less CPU"
        );
    }
    if count("shim", "lost") > 0 {
        return "events of the controller are not in the recording: the ring of its BPF programs was full"
            .to_owned();
    }
    "trace events of the kernel are not in the recording: their ring was full".to_owned()
}

/// The answer to the runner about a recording and the digest of its packets. `mismatch`: how the path differs from the case. A run whose
/// recording lacks packets or events has failed, because no metric and no oracle could be trusted.
pub fn answer(
    (recording, digest): &(Recording, u64),
    without_taps: bool,
    mismatch: Option<String>,
    metrics: metrics::Metrics,
) -> CaseAnswer {
    if let Some(message) = mismatch {
        return CaseAnswer { ended: RunEnd::Path, message, ..CaseAnswer::default() };
    }
    if !recording.header.complete {
        return CaseAnswer::failed(incomplete(recording));
    }
    let finished = recording.counters.get("run").and_then(|run| run.get("finished")) == Some(&1);
    CaseAnswer {
        ended: if finished { RunEnd::Finished } else { RunEnd::Duration },
        trace: if without_taps { String::new() } else { format!("{digest:016x}") },
        metrics: Some(metrics),
        ..CaseAnswer::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_traffic_of_a_guest_starts_after_its_set_up_however_long_that_takes() {
        let second = 1_000_000_000;
        assert_eq!(guest_start(BOOT + 3 * second), BOOT + 100 * second);
        assert_eq!(guest_start(BOOT + 100 * second), BOOT + 200 * second);
        assert_eq!(guest_start(BOOT + 250 * second), BOOT + 300 * second);
    }

    fn recording(complete: bool, finished: u64) -> (Recording, u64) {
        let mut recording = Recording::default();
        recording.header.complete = complete;
        recording.counters.insert("run".to_owned(), BTreeMap::from([("finished".to_owned(), finished)]));
        (recording, 0xabc)
    }

    fn told(recording: &(Recording, u64), without_taps: bool, mismatch: Option<&str>) -> CaseAnswer {
        let metrics = metrics::metrics(&recording.0, metrics::MetricOptions::default());
        answer(recording, without_taps, mismatch.map(str::to_owned), metrics)
    }

    #[test]
    fn the_answer_contains_the_reason_for_the_end() {
        assert_eq!(told(&recording(true, 0), false, None).ended, RunEnd::Duration);
        assert_eq!(told(&recording(true, 1), false, None).ended, RunEnd::Finished);
    }

    #[test]
    fn a_run_without_all_packets_or_events_has_failed_and_the_message_says_what_is_missing() {
        let lost = |entity: &str, name: &str| {
            let mut one = recording(false, 1);
            one.0.counters.entry(entity.to_owned()).or_default().insert(name.to_owned(), 71);
            let answer = told(&one, false, None);
            assert!(answer.ended == RunEnd::Failed && answer.metrics.is_none());
            answer.message
        };
        assert!(lost("run", "tap_lost").starts_with("71 packets are not in the recording"));
        assert!(lost("shim", "lost").starts_with("events of the controller are not"));
        assert!(lost("run", "trace_lost").starts_with("trace events of the kernel are not"));
    }

    #[test]
    fn a_path_that_differs_from_the_case_is_the_message_and_there_are_no_metrics() {
        let answer = told(&recording(true, 0), false, Some("the rate is half"));
        assert_eq!((answer.ended, answer.message.as_str()), (RunEnd::Path, "the rate is half"));
        assert!(answer.metrics.is_none() && answer.trace.is_empty());
    }

    #[test]
    fn the_digest_has_sixteen_digits_and_is_absent_without_taps() {
        assert_eq!(told(&recording(true, 0), false, None).trace, "0000000000000abc");
        assert_eq!(told(&recording(true, 0), true, None).trace, "");
    }
}
