//! One run of a case.

use crate::engine::{DropReason, Network, QueueStats};
use crate::host::{SimHosts, Stacks, StacksConfig};
use crate::network::{BuiltNetwork, build, host_names};
use crate::python::BuildPython;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tcpassay_case::Case;
use tcpassay_case::pace::Pace;
use tcpassay_case::params::grammar::LossModel;
use tcpassay_measure::{
    CAPACITY, CapturePoint, CollectOptions, Collector, Device, DeviceCounters, DeviceSampler, EntitySeries,
    EnvironmentProperty, Histogram, Latency, LatencyKind, Recording, SeriesColumn,
};
use tcpassay_stack::StackError;
use tcpassay_stack::process::Commands;
use tcpassay_units::{Bytes, Dur, Rate, Seed, Time};
use tcpassay_workload::{BackgroundTraffic, HostIndex, UdpSource};

/// The reason why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// `app.duration` has passed.
    Duration,
    /// All applications have finished.
    Finished,
    /// [`SimOptions::stop`] was set.
    Interrupted,
    /// [`SimOptions::max_events`] was reached.
    EventLimit,
    /// A real stack failed: [`RunOutcome::failure`].
    StackFailed,
}

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct SimOptions<'a> {
    /// The data to collect. It never influences the run.
    pub collect: CollectOptions,
    /// The run ends after this number of events.
    pub max_events: u64,
    /// Creates the controllers in Python that the case names; `None` if it names none.
    pub python: Option<BuildPython>,
    /// Another thread sets this flag to stop the run. The recording then contains the data up to that point.
    pub stop: Option<&'a AtomicBool>,
    /// The commands of `exec:` that may be started, with the files that are used instead of their words. Others are refused: a
    /// case is data, and starts nothing that its caller has not checked.
    pub commands: Option<&'a Commands>,
}

impl Default for SimOptions<'_> {
    /// Counters only, at most 10^11 events, no stop flag, no commands.
    fn default() -> Self {
        SimOptions {
            collect: CollectOptions::default(),
            max_events: 100_000_000_000,
            python: None,
            stop: None,
            commands: None,
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The recording.
    pub recording: Recording,
    /// The reason why the run ended.
    pub ended: EndReason,
    /// Number of events, and a hash over their times and sources. Two runs with equal values processed the same events.
    pub trace: (u64, u64),
    /// Number of times that an element forwarded a packet: a packet over three links counts three times.
    pub hops: u64,
    /// Why a real stack (`stack.implementation`) could not be used until the end: the name of its host, and the reason.
    pub failure: Option<(String, StackError)>,
}

/// Number of events between two checks of [`SimOptions::stop`].
const STOP_CHECK_EVENTS: u64 = 1 << 16;
/// Interval at which device rates are sampled when no series are collected.
const SAMPLE_INTERVAL: Dur = Dur::from_millis(10);

/// Runs `case`. The outcome is a function of the case, the seed and this version.
pub fn run(case: &Case, seed: Seed, options: &SimOptions) -> RunOutcome {
    let mut built = build(case, seed);
    let mut sim_hosts = create_hosts(case, seed, &mut built, options);
    let mut samplers = DeviceSamplers::new(&mut built, options.collect);
    let end = Time::ZERO + case.end;
    let mut events = 0_u64;
    let mut next_check = STOP_CHECK_EVENTS.min(options.max_events);
    let mut ended = EndReason::Duration;
    let begun = sim_hosts.replace(built.net.core(), case, seed, options.commands);
    'run: while begun.is_ok() && built.net.core().now() < end {
        let boundary = samplers.next(built.net.core().now()).min(end);
        // Events at the end of an interval belong to the next one: the counters of the flows are read before them.
        let (mut until, mut tallied) = (boundary, true);
        if options.collect.series.is_some() {
            (until, tallied) = (boundary.saturating_sub(Dur::from_nanos(1)), false);
        }
        loop {
            if !built.net.step(&mut sim_hosts, until) {
                if tallied {
                    break;
                }
                sim_hosts.stacks.tally(until);
                (until, tallied) = (boundary, true);
                continue;
            }
            events += 1;
            if sim_hosts.is_finished() {
                ended = EndReason::Finished;
                break 'run;
            }
            if events == next_check {
                next_check = (events + STOP_CHECK_EVENTS).min(options.max_events.max(events + 1));
                if options.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                    ended = EndReason::Interrupted;
                    break 'run;
                }
                if events >= options.max_events {
                    ended = EndReason::EventLimit;
                    break 'run;
                }
            }
        }
        built.net.run_until(&mut sim_hosts, boundary);
        samplers.sample(&mut built, boundary);
        if options.collect.series.is_some() {
            sim_hosts.stacks.sample(boundary);
        }
    }
    let now = built.net.core().now();
    samplers.sample(&mut built, now);
    let failure = begun.err().or_else(|| sim_hosts.failure());
    let failure = failure.map(|(host, why)| (case.net.hosts[host].name.clone(), why));
    if failure.is_some() {
        ended = EndReason::StackFailed;
    }
    let outcome = finish(case, seed, &built, sim_hosts, &samplers, ended, now);
    RunOutcome { failure, ..outcome }
}

/// Creates the stacks, applications and background traffic of a case.
fn create_hosts(case: &Case, seed: Seed, built: &mut BuiltNetwork, options: &SimOptions) -> SimHosts {
    let collect = options.collect;
    let plan = Arc::new(case.plan(seed));
    let mut collector = Collector::new(collect);
    let hosts: Vec<_> = case
        .net
        .hosts
        .iter()
        .map(|h| {
            let description = format!("{}, between its stack and its NIC", h.name);
            collector.add_interface(CapturePoint { name: h.name.clone(), description })
        })
        .collect();
    let bottleneck = &built.devices[built.bottleneck];
    let point = collector.add_interface(CapturePoint {
        name: bottleneck.name.clone(),
        description: "packets that left, were marked or were dropped there".to_owned(),
    });
    let watched = vec![(bottleneck.node, point)];
    if collect.packets {
        built.net.watch(bottleneck.node);
    }
    let datagrams = match &case.network.background {
        BackgroundTraffic::Udp(rate) => {
            let (from, to) = case.net.flows[0];
            Some((from, to, UdpSource::new(*rate, Time::ZERO)))
        }
        _ => None,
    };
    let mut stacks = Stacks::new(StacksConfig {
        hosts: case.hosts.clone(),
        lines: (0..case.net.hosts.len()).map(|host| case.line_rate(host)).collect(),
        ids: built.hosts.clone(),
        plan: Arc::clone(&plan),
        seed,
        collector,
        datagrams,
        python: options.python,
    });
    stacks.set_interfaces(hosts, watched);
    stacks
        .set_layouts(case.hosts.iter().map(|host| host.stack.flavor.layout().unwrap_or_default()).collect());
    for &(s, r) in &case.net.flows {
        let path = case.idle_path(s, r).expect("checked: a path");
        let (s, r) = (u32::try_from(s).expect("few hosts"), u32::try_from(r).expect("few hosts"));
        stacks.set_idle_path(s, r, path);
        stacks.set_idle_path(r, s, path);
    }
    let apps = (0u32..).zip(&case.net.hosts).map(|(i, _)| plan.apps(HostIndex(i))).collect();
    SimHosts::new(built.net.core(), stacks, apps)
}

/// Samples the counters of the devices between events.
struct DeviceSamplers {
    series: Option<Dur>,
    interval: Dur,
    /// By device: the columns of the series.
    devices: Vec<DeviceSampler>,
    /// By device: the bytes that had left at the last sample.
    bytes: Vec<u64>,
    /// By device: the largest number of bytes in one whole interval.
    most: Vec<u64>,
    sampled: Time,
}

impl DeviceSamplers {
    fn new(built: &mut BuiltNetwork, collect: CollectOptions) -> DeviceSamplers {
        let interval = collect.series.unwrap_or(SAMPLE_INTERVAL);
        if collect.latency || collect.series.is_some() {
            for device in &built.devices {
                built.net.collect(device.node, interval, Time::ZERO + collect.warmup);
            }
        }
        let n = built.devices.len();
        DeviceSamplers {
            series: collect.series,
            interval,
            devices: vec![DeviceSampler::default(); n],
            bytes: vec![0; n],
            most: vec![0; n],
            sampled: Time::ZERO,
        }
    }

    fn next(&self, now: Time) -> Time {
        let interval = self.interval.as_nanos();
        Time::from_nanos((now.as_nanos() / interval + 1) * interval)
    }

    fn sample(&mut self, built: &mut BuiltNetwork, now: Time) {
        if now == self.sampled {
            return;
        }
        let whole = now.since(self.sampled) == self.interval;
        self.sampled = now;
        for i in 0..built.devices.len() {
            let node = built.devices[i].node;
            let c = built.net.counters(node);
            let present = [c.bytes_out, c.dropped.total(), c.marked];
            if whole {
                self.most[i] = self.most[i].max(present[0] - self.bytes[i]);
            }
            self.bytes[i] = present[0];
            if self.series.is_some() {
                self.devices[i].sample(present, built.net.waiting(node).bytes);
            }
        }
    }
}

fn finish(
    case: &Case,
    seed: Seed,
    built: &BuiltNetwork,
    mut sim_hosts: SimHosts,
    samplers: &DeviceSamplers,
    ended: EndReason,
    now: Time,
) -> RunOutcome {
    if cfg!(debug_assertions) {
        for (node, name) in built.net.nodes() {
            let (balance, held) = (built.net.counters(node).balance(), built.net.held(node));
            assert_eq!(balance, held, "{name}: the counters do not match the packets held");
        }
    }
    sim_hosts.summarise_all(now);
    let stacks_under_test = sim_hosts.under_test().collect();
    let (sent, received) = sim_hosts.stacks.datagrams();
    let collect = *sim_hosts.stacks.recorder.collector.collect();
    let mut recording = sim_hosts.stacks.recorder.collector.finish(now);
    let header = &mut recording.header;
    env!("CARGO_PKG_VERSION").clone_into(&mut header.version);
    "model".clone_into(&mut header.substrate);
    header.stacks = stacks_under_test;
    header.seed = seed.0;
    header.case = case.recorded();
    header.complete = matches!(ended, EndReason::Duration | EndReason::Finished);
    header.bottleneck = Some(u32::try_from(busiest(built)).expect("few devices"));
    recording.hosts = host_names(&case.net);
    for (device, sampler) in built.devices.iter().zip(&samplers.devices) {
        let stats = built.net.stats(device.node);
        recording.devices.push(device_row(&built.net, device, stats));
        if let Some(stats) = stats.filter(|_| collect.latency) {
            let histogram = delays(stats);
            if histogram.count() > 0 {
                recording.latencies.push(Latency {
                    kind: LatencyKind::QueueDelay,
                    entity: device.name.clone(),
                    histogram,
                });
            }
        }
        if let (Some(series), Some(interval)) = (&mut recording.series, collect.series) {
            let mut entity = device_series(&device.name, sampler.clone(), stats, interval);
            if let Some(pace) = &device.varying {
                let bytes = capacities(pace, interval, sampler.len());
                entity.columns.push(SeriesColumn { name: CAPACITY.to_owned(), values: bytes });
            }
            series.entities.push(entity);
        }
        if let Some(bytes) = device.varying.as_ref().and_then(|pace| pace.capacity(now)) {
            let counters = recording.counters.entry(device.name.clone()).or_default();
            counters.insert(CAPACITY.to_owned(), bytes.get());
        }
    }
    count_other_elements(built, &mut recording);
    if sent > 0 {
        let counters = recording.counters.entry("datagrams".to_owned()).or_default();
        counters.insert("sent".to_owned(), sent);
        counters.insert("received".to_owned(), received);
    }
    recording.environment = environment(case, built, samplers, &recording);
    let trace = built.net.trace();
    let run = recording.counters.entry("run".to_owned()).or_default();
    run.insert("events".to_owned(), trace.0);
    run.insert("trace".to_owned(), trace.1);
    let hops = built.net.nodes().map(|(node, _)| built.net.counters(node).packets_out).sum();
    RunOutcome { recording, ended, trace, hops, failure: None }
}

/// The device that metrics use as the bottleneck: the busiest of the links to which parameters without a prefix apply.
fn busiest(built: &BuiltNetwork) -> usize {
    let load = |i: &usize| {
        let device = &built.devices[*i];
        let rate = device.rate.or_else(|| Some(device.varying.as_ref()?.mean()));
        let rate = u128::from(rate.map_or(u64::MAX, Rate::bits_per_sec));
        // Bytes over the rate, as an integer with enough resolution to compare any two loads.
        (u128::from(built.net.counters(device.node).bytes_out) << 64) / rate.max(1)
    };
    // The first of equal loads; the slowest link when no packet passed.
    let most = built.mains.iter().map(load).max().unwrap_or(0);
    built.mains.iter().copied().find(|i| most > 0 && load(i) == most).unwrap_or(built.bottleneck)
}

/// Records drops and marks of elements that have no device row.
fn count_other_elements(built: &BuiltNetwork, recording: &mut Recording) {
    let has_row = |node| built.devices.iter().any(|device| device.node == node);
    for (node, name) in built.net.nodes().filter(|(node, _)| !has_row(*node)) {
        let c = built.net.counters(node);
        let mut put = |counter: &str, n: u64| {
            if n > 0 {
                recording.counters.entry(name.to_owned()).or_default().insert(counter.to_owned(), n);
            }
        };
        put("drops", c.dropped.total());
        for why in DropReason::ALL {
            put(&format!("drops.{}", why.name()), c.dropped[why]);
        }
        put(if name.starts_with("middlebox.") { "changed" } else { "marks" }, c.marked);
        if name.starts_with("mtu.") {
            put("icmp", c.made);
        }
    }
}

fn device_row(net: &Network, device: &crate::network::DeviceNode, stats: Option<&QueueStats>) -> Device {
    let c = net.counters(device.node);
    Device {
        name: device.name.clone(),
        kind: device.kind.name().to_owned(),
        rate: device.rate,
        counters: DeviceCounters {
            packets: c.packets_out,
            bytes: c.bytes_out,
            drops: c.dropped.total(),
            dropped_bytes: c.bytes_dropped,
            marks: c.marked,
            max_backlog_bytes: stats
                .map_or(0, |s| s.samples().map(|sample| sample.max_bytes).max().unwrap_or(0)),
        },
    }
}

fn delays(stats: &QueueStats) -> Histogram {
    let mut histogram = Histogram::default();
    for (delay, n) in stats.sojourn().counts() {
        histogram.record_many(delay, n);
    }
    histogram
}

/// The largest backlog of an interval is the backlog at its start, or the largest one that an arriving packet found.
fn device_series(
    name: &str,
    mut sampler: DeviceSampler,
    stats: Option<&QueueStats>,
    interval: Dur,
) -> EntitySeries {
    for sample in stats.into_iter().flat_map(QueueStats::samples) {
        let at =
            usize::try_from(sample.start.as_nanos() / interval.as_nanos()).expect("intervals fit memory");
        sampler.seen(at, sample.max_bytes);
    }
    sampler.into_series(name)
}

/// The bytes that a rate allows in each of the first `n` intervals of the run.
#[expect(clippy::cast_precision_loss, reason = "bytes of an interval are below 2^53")]
fn capacities(pace: &Pace, interval: Dur, n: usize) -> Vec<f64> {
    let until = |i: u64| pace.capacity(Time::ZERO + interval * i).unwrap_or(Bytes::ZERO);
    (0..n as u64).map(|i| until(i + 1).saturating_sub(until(i)).get() as f64).collect()
}

/// Requested and measured properties of the path.
#[expect(clippy::cast_precision_loss, reason = "counts, times and rates of a run are below 2^53")]
fn environment(
    case: &Case,
    built: &BuiltNetwork,
    samplers: &DeviceSamplers,
    recording: &Recording,
) -> Vec<EnvironmentProperty> {
    let mut all = Vec::new();
    let mut put = |entity: &str, property: &str, unit: &str, asked: Option<f64>, measured: Option<f64>| {
        all.push(EnvironmentProperty {
            entity: entity.to_owned(),
            property: property.to_owned(),
            unit: unit.to_owned(),
            asked,
            measured,
        });
    };
    let (s, r) = case.net.flows[0];
    // The smallest round trip is that of the handshake: a SYN of 60 bytes and the SYN-ACK.
    let asked = case.base_rtt(s, r, Bytes::new(60));
    let ends = (u32::try_from(s).expect("few hosts"), u32::try_from(r).expect("few hosts"));
    let least = recording
        .flows
        .iter()
        .filter(|f| (f.from, f.to) == ends)
        .filter_map(|f| f.tcp.min_rtt_ns)
        .min()
        .map(|ns| ns as f64);
    put("path", "rtt", "ns", Some(asked.as_nanos() as f64), least);
    let device = &built.devices[built.bottleneck];
    let most = samplers.most[built.bottleneck];
    let rate = (most > 0).then(|| most as f64 * 8.0 / samplers.interval.as_secs_f64());
    put(&device.name, "rate", "bit/s", device.rate.map(Rate::bits_per_sec).map(|r| r as f64), rate);
    for (i, link) in case.links.iter().enumerate() {
        let asked = match &link.loss_model {
            LossModel::Bernoulli => Some(link.loss),
            LossModel::GilbertElliott { .. } | LossModel::List(_) => None,
        };
        let lossy = link.loss_model != LossModel::Bernoulli || link.loss > 0.0;
        if lossy {
            let name = format!("loss.{}", case.net.links[i].name);
            let node = built.net.nodes().find(|(_, n)| *n == name).map(|(node, _)| node);
            let measured = node.map(|node| built.net.counters(node)).filter(|c| c.packets_in > 0);
            let measured = measured.map(|c| c.dropped[DropReason::Loss] as f64 / c.packets_in as f64);
            put(&format!("link.{}", case.net.links[i].name), "loss", "share", asked, measured);
        }
    }
    let c = built.net.counters(device.node);
    let marks = (c.packets_out > 0).then(|| c.marked as f64 / c.packets_out as f64);
    put(&device.name, "marks", "share", None, marks);
    all
}
