//! One run: the loop of the applications, and the recording that it leaves.
//!
//! In virtual time a process takes no time: the kernel runs until nothing is left to do, and then the clock jumps to the
//! next timer. The agent sleeps in epoll until a socket, an application's timer, or the next tick (1 ms, or the series'
//! interval) is due; what it reads in between moves nothing, so that collectors on or off leave the same packets.
//!
//! In real time the same loop is late by what it does: a tick that was missed is made up for with what is true now, and packets
//! of the last moments wait until all of them are there.

use crate::collect::inet_diag::InetDiag;
use crate::collect::machine_load::MachineLoad;
use crate::collect::queues::QueueMonitor;
use crate::collect::tap::{TapDirection, Taps};
use crate::collect::trace_events::KernelTrace;
use crate::environment::Environment;
use crate::netns::build::{self, NetnsSet};
use crate::netns::relay::RelaySet;
use crate::netns::topology::NetnsTopology;
use crate::probe::{self, MeasuredPath};
use crate::request::{CaseAnswer, Request};
use crate::system::Failure;
use crate::traffic::app_calls::AppCalls;
use crate::traffic::cc_engine::CcEngines;
use crate::traffic::runtime::{EpollToken, TrafficRuntime};
use crate::traffic::udp_background::UdpBackground;

use std::fs;
use std::os::fd::AsFd;
use std::sync::Arc;
use tcpassay_case::params::grammar::LinkRate;
use tcpassay_case::{Case, completion};

use tcpassay_linux::sys;
use tcpassay_measure::{CapturePoint, Collector, Device, DeviceCounters, Recording, Triple, metrics};
use tcpassay_units::{Bytes, Dur, Seed, Time};
use tcpassay_workload::{Apps, HostIndex, TrafficSchedule};

/// A guest's clock at the start of every run; the topology is built and probed before it.
const START: u64 = crate::environment::BOOT + 100 * 1_000_000_000;
/// How long after a packet passed it is in the ring of its tap, in real time, with much to spare.
const SETTLED: u64 = 200_000;
/// When a guest's path is probed.
const PROBES: u64 = crate::environment::BOOT + 10 * 1_000_000_000;
const TICK: Dur = Dur::from_millis(1);

/// Runs a case and writes its recording.
pub fn run(request: &Request, environment: &Environment) -> CaseAnswer {
    match request.case(environment) {
        Ok(case) => run_case(request, &case, environment).unwrap_or_else(CaseAnswer::failed),
        Err(errors) => CaseAnswer { ended: "refused".to_owned(), errors, ..CaseAnswer::default() },
    }
}

fn run_case(request: &Request, case: &Case, environment: &Environment) -> Result<CaseAnswer, Failure> {
    let (collect, measured) = request.collect.read().map_err(|e| e.to_string())?;
    let bare = request.bare.filter(|_| environment.is_host() && case.net.hosts.len() == 2);
    let topology =
        if bare.is_some() { NetnsTopology::bare(case) } else { NetnsTopology::of(case, environment) };
    let mut namespaces = build::build(case, &topology, environment)?;
    let marking_programs = build::attach_marking_programs(&topology, &mut namespaces)?;
    for (netns, tool, line) in &request.tamper {
        let place = topology.namespaces.iter().position(|s| s.name == *netns);
        namespaces.enter(place.ok_or_else(|| format!("tamper: there is no `{netns}`"))?)?;
        build::batch(tool, std::slice::from_ref(line))?;
    }
    let mut taps = open_taps(case, &topology, &mut namespaces, environment, bare.map(|_| collect.unseen))?;
    let relays = RelaySet::start(case, &topology, &mut namespaces, Seed(request.seed))?;
    let pace = if environment.is_host() {
        probe::ProbeTiming::real()
    } else {
        probe::ProbeTiming::of_virtual_time(PROBES)
    };
    let path = if bare.is_some() {
        MeasuredPath { rows: Vec::new(), wrong: None }
    } else {
        probe::measure(case, &topology, &mut namespaces, &mut taps, &pace)?
    };
    if collect.unseen {
        // The path was probed with them.
        taps = Taps::default();
    }
    relays.begin(case, Seed(request.seed));
    let plan = Arc::new(case.plan(Seed(request.seed)));
    let mut collector = Collector::new(collect);
    for host in &case.net.hosts {
        let description = format!("{}, at its NIC", host.name);
        collector.add_interface(CapturePoint { name: host.name.clone(), description });
    }
    // Windows are told in segments, whose size is in the handshake.
    let windows = collect.events && !collect.unseen;
    let trace = if environment.is_host() {
        KernelTrace::listen(windows)
    } else {
        KernelTrace::open(windows).map_err(|e| format!("tracefs: {e}"))?
    };
    let machine = if environment.is_host() { Some(MachineLoad::before(request.patience())?) } else { None };
    // In real time the run begins when everything that has to be there is.
    let start = if environment.is_host() { sys::now() + 20_000_000 } else { START };
    let engines = CcEngines::start(case, &plan, &request.base, Seed(request.seed))?;
    let mut runtime =
        TrafficRuntime::new(case, &plan, namespaces, collector, (start, engines.names.clone()))?;
    runtime.traced = trace.counts_timeouts();
    if !environment.is_host() {
        runtime.use_pumps();
    }
    if bare.is_some_and(|bare| bare.copy) {
        runtime.copy_what_is_read();
    }
    let datagrams = UdpBackground::of(case, &mut runtime)?;
    let queues = QueueMonitor::new(&topology, marking_programs, collect.series);
    let mut run = Run {
        bare: bare.is_some(),
        case,
        topology: &topology,
        environment,
        plan,
        start,
        runtime,
        taps,
        trace,
        queues,
        diag: InetDiag::default(),
        datagrams,
        machine,
        engines,
        relays,
        late: Dur::ZERO,
        ended: "duration",
    };
    if path.wrong.is_none() {
        run.go()?;
    }
    let wrong = path.wrong.clone();
    let (recording, trace) = run.finish(request, path)?;
    recording.write(&request.folder).map_err(|why| why.to_string())?;
    let metrics = metrics::metrics(&recording, measured);
    Ok(match wrong {
        Some(message) => CaseAnswer { ended: "path".to_owned(), message, ..CaseAnswer::default() },
        None => CaseAnswer {
            ended: if recording.completions.is_empty() && !recording.header.complete {
                "failed".to_owned()
            } else {
                run_ended(&recording)
            },
            trace: if collect.unseen { String::new() } else { format!("{trace:016x}") },
            metrics: Some(metrics),
            ..CaseAnswer::default()
        },
    })
}

/// Opens two taps for each host: what it sends and what arrives at it. `bare` is set where the generators are measured (there one tap a
/// host is enough), and tells whether the run goes without taps.
fn open_taps(
    case: &Case,
    topology: &NetnsTopology,
    namespaces: &mut NetnsSet,
    environment: &Environment,
    bare: Option<bool>,
) -> Result<Taps, Failure> {
    let mut taps = Taps::default();
    let ends = |(host, dev): (usize, &usize)| match bare {
        // A host that merges on receipt would show merged packets: its neighbour shows them as they were sent.
        None if case.hosts[host].nic.gro => {
            vec![(*dev, TapDirection::Out), (topology.devices[*dev].peer, TapDirection::Out)]
        }
        None => vec![(*dev, TapDirection::Out), (*dev, TapDirection::In)],
        Some(true) => Vec::new(),
        Some(false) => vec![(*dev, TapDirection::In)],
    };
    for (dev, direction) in topology.hosts.iter().enumerate().flat_map(ends) {
        namespaces.enter(topology.devices[dev].netns)?;
        let packets = between_looks(case, environment);
        taps.open(&topology.devices[dev].name, direction, packets).map_err(|e| format!("a tap: {e}"))?;
    }
    Ok(taps)
}

/// The most packets that pass a tap between two looks.
fn between_looks(case: &Case, environment: &Environment) -> u64 {
    if environment.is_host() {
        // Time does not wait for us: as much as all taps together may have of the machine's memory, 64 MB.
        return 131_072 / case.net.hosts.len().max(1) as u64;
    }
    let fastest = case.links.iter().filter_map(|link| match &link.rate {
        LinkRate::Fixed(rate) => Some(rate.bytes_in(TICK * 2)),
        LinkRate::Trace(_) => None,
    });
    fastest.max().unwrap_or(Bytes::ZERO).get() / 1000
}

fn run_ended(recording: &Recording) -> String {
    let finished = recording.counters.get("run").and_then(|run| run.get("finished"));
    if finished == Some(&1) { "finished" } else { "duration" }.to_owned()
}

struct Run<'a> {
    /// The two hosts are joined by a veth pair.
    bare: bool,
    case: &'a Case,
    topology: &'a NetnsTopology,
    environment: &'a Environment,
    plan: Arc<TrafficSchedule>,
    start: u64,
    runtime: TrafficRuntime<'a>,
    taps: Taps,
    trace: KernelTrace,
    queues: QueueMonitor,
    diag: InetDiag,
    datagrams: Option<UdpBackground>,
    machine: Option<MachineLoad>,
    engines: CcEngines,
    relays: RelaySet,
    /// The most that a tick was late.
    late: Dur,
    ended: &'static str,
}

impl Run<'_> {
    fn go(&mut self) -> Result<(), Failure> {
        let io = |e: std::io::Error| format!("epoll: {e}");
        let end = Time::ZERO + self.case.end;
        let mut apps: Vec<Apps> =
            (0u32..).zip(&self.case.hosts).map(|(i, _)| self.plan.apps(HostIndex(i))).collect();
        for apps in &mut apps {
            apps.start(Time::ZERO);
        }
        self.queues.before = self.queues.read(self.topology, &mut self.runtime.namespaces)?;
        self.queues.before_elsewhere =
            QueueMonitor::dropped_elsewhere(self.topology, &mut self.runtime.namespaces)?;
        let timer = sys::timer().map_err(io)?;
        sys::watch(self.runtime.poll.as_fd(), timer.as_fd(), libc::EPOLLIN | libc::EPOLLET, 0).map_err(io)?;
        let interval = self.runtime.collector.collect().series.unwrap_or(TICK);
        let (mut tick, mut armed, mut rest) = (Time::ZERO, Time::MAX, Time::ZERO);
        let mut events = Vec::new();
        sys::set_timer(timer.as_fd(), self.start).map_err(io)?;
        while sys::now() < self.start {
            sys::wait(self.runtime.poll.as_fd(), &mut events).map_err(io)?;
        }
        self.runtime.wake(None);
        let real = self.environment.is_host();
        loop {
            let now = self.runtime.now();
            if now >= tick {
                self.late = self.late.max(now - tick);
            }
            while now >= tick {
                self.look(tick)?;
                (tick, rest) = (tick + interval, now + TICK);
            }
            if now >= end {
                return Ok(());
            }
            for (host, apps) in apps.iter_mut().enumerate() {
                if apps.next_wake().is_some_and(|at| at <= now) {
                    apps.wake(now, &mut AppCalls { runtime: &mut self.runtime, host });
                }
            }
            if let Some(datagrams) = &mut self.datagrams {
                datagrams.send(now);
            }
            self.completions(&mut apps);
            if let Some(why) = self.runtime.failure.take() {
                return Err(why);
            }
            if self.datagrams.is_none() && apps.iter().all(Apps::is_idle) {
                self.ended = "finished";
                self.look(now)?;
                return Ok(());
            }
            // The taps are looked at often enough for their rings to have room. In real time that is all: who waits for an answer
            // does not wait for its packets to be counted.
            if now >= rest {
                if real {
                    self.drain();
                }
                self.listen();
                rest = now + TICK;
            }
            let due = apps.iter().filter_map(Apps::next_wake).min().unwrap_or(Time::MAX);
            let next = self.datagrams.as_ref().map_or(Time::MAX, UdpBackground::next);
            let due = due.min(tick).min(end).min(rest).min(next);
            if due != armed {
                sys::set_timer(timer.as_fd(), self.start + due.as_nanos()).map_err(io)?;
                armed = due;
            }
            sys::wait(self.runtime.poll.as_fd(), &mut events).map_err(io)?;
            let packet = if real { None } else { self.drain() };
            // What no packet has brought about: a timer of ours, or one of TCP's that has given up.
            let alone = |(number, what): &(u64, i32)| {
                EpollToken::of(*number) == EpollToken::Timer || what & (libc::EPOLLERR | libc::EPOLLHUP) != 0
            };
            self.runtime.wake(packet.filter(|_| !events.iter().any(alone)));
            for (number, what) in &events {
                match EpollToken::of(*number) {
                    EpollToken::Timer => armed = Time::MAX,
                    EpollToken::Bell => {
                        for at in self.runtime.returned() {
                            self.tell(at, &mut apps);
                        }
                    }
                    EpollToken::Listener(listener) => self.accept(listener, &mut apps)?,
                    EpollToken::Endpoint(at) => self.ready(at, *what, &mut apps),
                }
            }
        }
    }

    fn accept(&mut self, listener: usize, apps: &mut [Apps]) -> Result<(), Failure> {
        let new = self.runtime.accept(listener, |host, key| {
            let slot = apps[host].accept(key);
            (slot, apps[host].only_reads(slot))
        })?;
        for at in new {
            self.tell(at, apps);
        }
        Ok(())
    }

    fn ready(&mut self, at: usize, events: i32, apps: &mut [Apps]) {
        match self.runtime.note(at, events) {
            None => {}
            Some(Ok(())) => {
                let only_reads = self.runtime.socks[at].as_ref().is_some_and(|s| s.only_reads);
                if !only_reads || self.runtime.read_for(at) {
                    self.tell(at, apps);
                }
            }
            Some(Err(())) => {
                let sock = self.runtime.socks[at].as_ref().expect("it was noted");
                let (host, slot, now) = (sock.host, sock.slot, self.runtime.now());
                self.runtime.give_up(at, true);
                apps[host].failed(now, slot, &mut AppCalls { runtime: &mut self.runtime, host });
            }
        }
    }

    fn tell(&mut self, at: usize, apps: &mut [Apps]) {
        let Some(Some(sock)) = self.runtime.socks.get(at) else { return };
        let (host, slot, now) = (sock.host, sock.slot, self.runtime.now());
        apps[host].ready(now, slot, &mut AppCalls { runtime: &mut self.runtime, host });
    }

    fn completions(&mut self, apps: &mut [Apps]) {
        for apps in apps {
            for done in apps.drain_completions() {
                let path = self.case.idle_path(done.key.client.0 as usize, done.key.server.0 as usize);
                self.runtime.collector.completed(completion(&done, &self.plan, path));
            }
        }
    }

    /// Before when everything has been told.
    fn settled(&self) -> u64 {
        if self.environment.is_host() { sys::now() - SETTLED } else { u64::MAX }
    }

    /// Trace events since the last look.
    fn listen(&mut self) {
        let until = self.settled();
        self.trace.drain((self.start, until), &self.runtime.flow_tracker, &mut self.runtime.collector);
    }

    /// Packets since the last look; returns when the last of them passed.
    fn drain(&mut self) -> Option<u64> {
        self.drain_until(self.settled())
    }

    fn drain_until(&mut self, until: u64) -> Option<u64> {
        let (flow_tracker, collector) = (&mut self.runtime.flow_tracker, &mut self.runtime.collector);
        let (mut last, bare) = (None, self.bare);
        self.taps.drain(until, |seen| {
            last = Some(seen.at);
            if bare {
                let host = u32::try_from(seen.tap).expect("two");
                flow_tracker.packet(seen, 1 - host, true, collector);
                flow_tracker.packet(seen, host, false, collector);
                return;
            }
            let host = u32::try_from(seen.tap / 2).expect("few hosts");
            flow_tracker.packet(seen, host, seen.tap % 2 == 0, collector);
        });
        last
    }

    /// What is read at a tick.
    fn look(&mut self, at: Time) -> Result<(), Failure> {
        self.drain();
        self.listen();
        if let (true, Some(interval)) = (at > Time::ZERO, self.runtime.collector.collect().series) {
            self.runtime.sample(at);
            self.queues.sample(self.topology, &mut self.runtime.namespaces)?;
            self.diag.sample(
                self.case.net.hosts.len(),
                at,
                interval,
                &mut self.runtime.namespaces,
                &self.runtime.flow_tracker,
            )?;
        }
        Ok(())
    }

    /// The recording, and the trace of its packets.
    fn finish(mut self, request: &Request, mut path: MeasuredPath) -> Result<(Recording, u64), Failure> {
        self.runtime.settle();
        self.drain_until(u64::MAX);
        // What the agent closes now, no application has closed.
        self.trace.close(self.start, &self.runtime.flow_tracker, &mut self.runtime.collector);
        let now = self.runtime.now().min(Time::ZERO + self.case.end);
        for at in 0..self.runtime.socks.len() {
            self.runtime.give_up(at, false);
        }
        let lost = self.taps.lost().map_err(|e| format!("a tap: {e}"))?;
        let queues = self.queues.read(self.topology, &mut self.runtime.namespaces)?;
        let elsewhere = QueueMonitor::dropped_elsewhere(self.topology, &mut self.runtime.namespaces)?
            .saturating_sub(self.queues.before_elsewhere);
        let mut counters = std::collections::BTreeMap::new();
        if elsewhere > 0 {
            counters.insert("elsewhere".to_owned(), [("drops".to_owned(), elsewhere)].into_iter().collect());
        }
        for (host, name) in self.case.net.hosts.iter().enumerate() {
            self.runtime.enter(host)?;
            counters
                .insert(name.name.clone(), crate::collect::nstat::read().map_err(|e| format!("nstat: {e}"))?);
        }
        // Its sockets are closed: what they had is told to the end.
        let decided = self.engines.stop()?;
        let deaf = decided.get("lost").copied().unwrap_or(0);
        if !decided.is_empty() {
            counters.insert("shim".to_owned(), decided);
        }
        if let Some(datagrams) = &self.datagrams {
            counters.entry("datagrams".to_owned()).or_default().insert("sent".to_owned(), datagrams.sent);
        }
        if let Some(done) = self.relays.done() {
            let faults = counters.entry("faults".to_owned()).or_default();
            let told = [
                ("lost", done.lost),
                ("damaged", done.damaged),
                ("duplicated", done.duplicated),
                ("thinned", done.thinned),
                ("held", done.held),
                // As the model's elements and hosts count, for the metrics.
                ("drops", done.lost + done.damaged + done.thinned),
                ("drops.thinned", done.thinned),
            ];
            faults.extend(told.map(|(name, n)| (name.to_owned(), n)));
        }
        let run = counters.entry("run".to_owned()).or_default();
        run.insert("finished".to_owned(), u64::from(self.ended == "finished"));
        if !self.runtime.collector.collect().unseen {
            run.insert("tap_lost".to_owned(), lost);
        }
        if self.runtime.blocking_writers.waited() > 0 {
            run.insert("waited_writes".to_owned(), self.runtime.blocking_writers.waited());
        }
        run.extend(self.trace.has().map(|(name, has)| (name.to_owned(), has)));
        // Whether a DCTCP receiver met a change of CE with an ACK delayed, which is what dctcp_receiver is about.
        let prior = fs::read_to_string("/sys/module/tcp_dctcp/parameters/dctcp_prior_acks");
        if let Some(n) = prior.ok().and_then(|text| text.trim().parse().ok()) {
            run.insert("dctcp_prior_acks".to_owned(), n);
        }
        let series = self.runtime.collector.collect().series;
        let mut recording = self.runtime.collector.finish(now);
        recording.events = self.trace.order(std::mem::take(&mut recording.events));
        let header = &mut recording.header;
        env!("CARGO_PKG_VERSION").clone_into(&mut header.version);
        let substrate = if self.environment.is_host() { "host" } else { "kernel" };
        substrate.clone_into(&mut header.substrate);
        header.system = fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|t| t.trim().to_owned());
        header.seed = request.seed;
        header.case = triples(self.case);
        header.complete = path.wrong.is_none() && lost == 0 && deaf == 0 && !self.trace.missed();
        header.bottleneck = Some(u32::try_from(self.topology.bottleneck).expect("few devices"));
        recording.hosts = self.case.net.hosts.iter().map(|h| h.name.clone()).collect();
        recording.counters = counters;
        for (monitored, q) in self.topology.monitored.iter().zip(&queues) {
            recording.devices.push(Device {
                name: monitored.name.clone(),
                kind: monitored.kind.clone(),
                rate: Some(monitored.rate),
                counters: DeviceCounters {
                    packets: q.packets,
                    bytes: q.bytes,
                    drops: q.drops,
                    dropped_bytes: 0,
                    marks: q.marks,
                    max_backlog_bytes: self.queues.most.get(&monitored.name).copied().unwrap_or(0),
                },
            });
        }
        if let (Some(all), Some(_)) = (&mut recording.series, series) {
            all.entities.extend(self.queues.entities(self.topology));
            self.diag.append(all);
        }
        if let Some(machine) = self.machine {
            recording
                .counters
                .entry("run".to_owned())
                .or_default()
                .insert("cpu_ns".to_owned(), machine.own_cpu());
            path.rows.extend(machine.after(self.late)?);
        }
        recording.environment = path.rows;
        Ok((recording, self.taps.trace()))
    }
}

fn triples(case: &Case) -> Vec<Triple> {
    let all = case.to_triples().into_iter().map(|(full, value)| {
        let (entity, parameter) = full.split_once('/').unwrap_or(("", &full));
        Triple { entity: entity.to_owned(), parameter: parameter.to_owned(), value: value.to_string() }
    });
    all.collect()
}
