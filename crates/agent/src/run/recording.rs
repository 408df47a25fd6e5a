//! From the end of the traffic to the recording.

use crate::collect::machine_load::MachineLoad;
use crate::collect::nstat;
use crate::collect::tap::Taps;
use crate::collect::trace_events::KernelTrace;
use crate::environment::Environment;
use crate::netns::impairments::ImpairmentCounts;
use crate::netns::relay::RelaySet;
use crate::netns::topology::NetnsTopology;
use crate::probe::MeasuredPath;
use crate::request::Request;
use crate::run::collectors::Collectors;
use crate::run::event_loop::EventLoop;
use crate::system::Failure;
use crate::traffic::cc_engine::CcEngines;
use crate::traffic::runtime::TrafficRuntime;
use std::collections::BTreeMap;
use std::fs;
use tcpassay_case::Case;
use tcpassay_linux::netlink::Qdisc;
use tcpassay_measure::{Device, DeviceCounters, Recording};
use tcpassay_units::{Rate, Time};

/// Counters by group and name.
type Counters = BTreeMap<String, BTreeMap<String, u64>>;

/// The sources of the recording besides the event loop.
pub struct Parts {
    pub engines: CcEngines,
    pub relays: RelaySet,
    pub machine: Option<MachineLoad>,
    pub path: MeasuredPath,
}

/// The rings that the kernel has filled during a run.
///
/// Closing them takes up to a few hundred milliseconds: for each ring in turn, the kernel waits until no processor uses it (RCU).
pub struct Rings {
    _taps: Taps,
    _trace: KernelTrace,
}

impl Rings {
    /// Leaves the rings to the kernel, which closes them when the process has ended.
    pub fn close_at_exit(self) {
        std::mem::forget(self);
    }
}

/// Closes the sockets of applications and assembles the recording. Returns it with the digest of all packets at the taps, and with the
/// rings, which are still open.
pub fn assemble(
    request: &Request,
    environment: &Environment,
    event_loop: EventLoop,
    parts: Parts,
) -> Result<((Recording, u64), Rings), Failure> {
    let EventLoop { case, mut runtime, mut collectors, udp, max_delay, start_delay, finished, ended, .. } =
        event_loop;
    runtime.record_final_reads();
    runtime.read_packets_until(u64::MAX);
    // The trace ends here: the connections that the agent closes below were not closed by an application.
    let closed = collectors.trace.close(
        (collectors.start, runtime.now()),
        &runtime.flow_tracker,
        &mut runtime.collector,
    );
    closed.map_err(|e| format!("a trace event: {e}"))?;
    if !collectors.trace.counts_timeouts() {
        runtime.take_timeouts_of_tcp_info();
    }
    let now = ended.unwrap_or_else(|| runtime.now()).min(Time::ZERO + case.end);
    runtime.close_all();
    let lost = runtime.taps.taps.lost().map_err(|e| format!("a tap: {e}"))?;
    let queues = collectors.queues.read(collectors.topology, &mut runtime.namespaces)?;
    let mut counters = host_counters(case, &mut collectors, &mut runtime)?;
    // The sockets are closed, so that the shim has received the last events of each.
    let shim = parts.engines.stop()?;
    let lost_events = shim.get("lost").copied().unwrap_or(0);
    if !shim.is_empty() {
        counters.insert("shim".to_owned(), shim);
    }
    if let Some(udp) = &udp {
        counters.insert("datagrams".to_owned(), BTreeMap::from([("sent".to_owned(), udp.sent)]));
    }
    if let Some(counts) = parts.relays.counts() {
        counters.entry("faults".to_owned()).or_default().extend(impairment_counters(counts));
    }
    let run = counters.entry("run".to_owned()).or_default();
    run.insert("finished".to_owned(), u64::from(finished));
    let collect = *runtime.collector.collect();
    if !collect.unseen {
        run.insert("tap_lost".to_owned(), lost);
    }
    if collectors.trace.missed() {
        run.insert("trace_lost".to_owned(), 1);
    }
    if collectors.trace.unrecorded() > 0 {
        run.insert("trace_unrecorded".to_owned(), collectors.trace.unrecorded());
    }
    if runtime.blocking_writers.waited() > 0 {
        run.insert("waited_writes".to_owned(), runtime.blocking_writers.waited());
    }
    run.extend(collectors.trace.available().map(|(name, is)| (name.to_owned(), u64::from(is))));
    // How often a DCTCP receiver met a change of the CE mark while an ACK was delayed: the effect of stack.dctcp_receiver.
    let prior = fs::read_to_string("/sys/module/tcp_dctcp/parameters/dctcp_prior_acks");
    if let Some(n) = prior.ok().and_then(|text| text.trim().parse().ok()) {
        run.insert("dctcp_prior_acks".to_owned(), n);
    }
    let mut rows = parts.path.rows;
    if let Some(machine) = parts.machine {
        run.insert("cpu_ns".to_owned(), machine.own_cpu());
        rows.extend(machine.finish(max_delay, start_delay)?);
    }
    let mut recording = runtime.collector.finish(now);
    recording.events = collectors.trace.order(std::mem::take(&mut recording.events));
    let header = &mut recording.header;
    env!("CARGO_PKG_VERSION").clone_into(&mut header.version);
    environment.name().clone_into(&mut header.substrate);
    header.system =
        tcpassay_linux::sys::read_text("/proc/sys/kernel/osrelease").ok().map(|t| t.trim().to_owned());
    header.seed = request.seed;
    header.case = case.recorded();
    header.complete =
        parts.path.mismatch.is_none() && lost == 0 && lost_events == 0 && !collectors.trace.missed();
    recording.hosts = case.net.hosts.iter().map(|h| h.name.clone()).collect();
    recording.counters = counters;
    recording.devices = devices(collectors.topology, &queues, &collectors.queues.max_backlog);
    recording.header.bottleneck = bottleneck(collectors.topology, &recording.devices);
    if let (Some(series), Some(_)) = (&mut recording.series, collect.series) {
        series.entities.extend(collectors.queues.entities(collectors.topology));
        collectors.inet_diag.append(series);
    }
    recording.environment = rows;
    let digest = runtime.taps.taps.digest();
    Ok(((recording, digest), Rings { _taps: runtime.taps.taps, _trace: collectors.trace }))
}

/// The counters of each host, and the packets that unmonitored queues dropped.
fn host_counters(
    case: &Case,
    collectors: &mut Collectors,
    runtime: &mut TrafficRuntime,
) -> Result<Counters, Failure> {
    let mut counters = Counters::new();
    let elsewhere = collectors.queues.dropped_elsewhere(collectors.topology, &mut runtime.namespaces)?;
    if elsewhere > 0 {
        counters.insert("elsewhere".to_owned(), BTreeMap::from([("drops".to_owned(), elsewhere)]));
    }
    let topology = collectors.topology;
    for (host, name) in case.net.hosts.iter().enumerate().filter(|(host, _)| topology.has_host(*host)) {
        runtime.namespaces.enter(host)?;
        counters.insert(name.name.clone(), nstat::read().map_err(|e| format!("nstat: {e}"))?);
    }
    Ok(counters)
}

/// The counters of the relays. `drops` and `drops.thinned` are the model's names, from which the metrics are computed.
fn impairment_counters(counts: ImpairmentCounts) -> [(String, u64); 7] {
    [
        ("lost", counts.lost),
        ("damaged", counts.damaged),
        ("duplicated", counts.duplicated),
        ("thinned", counts.thinned),
        ("held", counts.held),
        ("drops", counts.lost + counts.damaged + counts.thinned),
        ("drops.thinned", counts.thinned),
    ]
    .map(|(name, n)| (name.to_owned(), n))
}

/// The device that metrics use as the bottleneck, as in a run of the model: the busiest of the links to which parameters without an
/// address apply. On a testbed another machine may have it.
fn bottleneck(topology: &NetnsTopology, devices: &[Device]) -> Option<u32> {
    let load = |i: usize| {
        let device = &devices[i];
        (u128::from(device.counters.bytes) << 64) / u128::from(device.rate.map_or(1, Rate::bits_per_sec))
    };
    let most = topology.mains.iter().map(|i| load(*i)).max().unwrap_or(0);
    let busiest = topology.mains.iter().copied().find(|i| most > 0 && load(*i) == most);
    u32::try_from(busiest.unwrap_or(topology.bottleneck)).ok()
}

/// The monitored queues as devices of the recording.
fn devices(topology: &NetnsTopology, queues: &[Qdisc], max_backlog: &BTreeMap<String, u64>) -> Vec<Device> {
    let device = |(monitored, qdisc): (&crate::netns::topology::MonitoredQueue, &Qdisc)| Device {
        name: monitored.name.clone(),
        kind: monitored.kind.name().to_owned(),
        rate: Some(monitored.rate),
        counters: DeviceCounters {
            packets: qdisc.packets,
            bytes: qdisc.bytes,
            drops: qdisc.drops,
            dropped_bytes: 0,
            marks: qdisc.marks,
            max_backlog_bytes: max_backlog.get(&monitored.name).copied().unwrap_or(0),
        },
    };
    topology.monitored.iter().zip(queues).map(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::case;
    use tcpassay_case::params::Substrate;

    #[test]
    fn dropped_packets_are_the_lost_the_damaged_and_the_thinned_ones() {
        let counts = ImpairmentCounts { lost: 1, damaged: 20, duplicated: 300, thinned: 4000, held: 50_000 };
        let named = BTreeMap::from(impairment_counters(counts));
        assert_eq!((named["drops"], named["drops.thinned"]), (4021, 4000));
        assert_eq!((named["duplicated"], named["held"]), (300, 50_000));
    }

    #[test]
    fn a_parameter_of_one_entity_is_split_into_entity_and_parameter() {
        let case = case(Substrate::Kernel, &[("link.rate", "2Gbit"), ("receiver/stack.cc", "cubic")]);
        let found: Vec<_> = case.recorded().into_iter().map(|t| (t.entity, t.parameter, t.value)).collect();
        let wanted = |entity: &str, parameter: &str, value: &str| {
            (entity.to_owned(), parameter.to_owned(), value.to_owned())
        };
        assert!(found.contains(&wanted("receiver", "stack.cc", "cubic")), "{found:?}");
        assert!(found.contains(&wanted("", "link.rate", "2Gbit")), "{found:?}");
    }

    #[test]
    fn a_monitored_queue_is_a_device_with_the_counters_of_its_qdisc_and_its_largest_backlog() {
        let case = case(Substrate::Kernel, &[("link.rate", "1Gbit")]);
        let topology = NetnsTopology::of(&case, &Environment::guest());
        let qdisc = Qdisc { packets: 3, bytes: 4500, drops: 1, marks: 2, ..Qdisc::default() };
        let [device] =
            &devices(&topology, &[qdisc], &BTreeMap::from([("queue.bottleneck".to_owned(), 3000)]))[..]
        else {
            panic!("one device")
        };
        assert_eq!((device.name.as_str(), device.kind.as_str()), ("queue.bottleneck", "fifo"));
        let counters = &device.counters;
        assert_eq!((counters.packets, counters.bytes, counters.drops), (3, 4500, 1));
        assert_eq!((counters.marks, counters.max_backlog_bytes), (2, 3000));
    }
}
