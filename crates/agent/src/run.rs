//! One run: the loop of the applications, and the recording that it leaves.
//!
//! In virtual time a process takes no time: the kernel runs until nothing is left to do, and then the clock jumps to the
//! next timer. The agent sleeps in epoll until a socket, an application's timer, or the next tick (1 ms, or the series'
//! interval) is due; what it reads in between moves nothing, so that collectors on or off leave the same packets.
//!
//! In real time the same loop is late by what it does: a tick that was missed is made up for with what is true now, and packets
//! of the last moments wait until all of them are there.

use crate::calls::Calls;
use crate::datagrams::Datagrams;
use crate::diag::Diag;
use crate::engines::Engines;
use crate::ground::Ground;
use crate::lab::Lab;
use crate::machine::Machine;
use crate::probe::{self, Path};
use crate::relay::Relays;
use crate::request::{Answer, Request};
use crate::setup::{self, Step};
use crate::system::Failure;
use crate::tap::{Taps, Way};
use crate::trace::Trace;
use crate::world::{Token, World};
use std::fs;
use std::os::fd::AsFd;
use std::sync::Arc;
use tcpassay_case::params::grammar::LinkRate;
use tcpassay_case::{Case, completion};
use tcpassay_linux::netlink::{Netlink, Qdisc};
use tcpassay_linux::sys;
use tcpassay_measure::{
    Collector, Column, Device, DeviceCounters, EntitySeries, Interface, Recording, Triple, metrics,
};
use tcpassay_units::{Bytes, Dur, Seed, Time};
use tcpassay_workload::{Apps, HostId, TrafficSchedule};

/// A guest's clock at the start of every run; the topology is built and probed before it.
const START: u64 = crate::ground::BOOT + 100 * 1_000_000_000;
/// How long after a packet passed it is in the ring of its tap, in real time, with much to spare.
const SETTLED: u64 = 200_000;
/// When a guest's path is probed.
const PROBES: u64 = crate::ground::BOOT + 10 * 1_000_000_000;
const TICK: Dur = Dur::from_millis(1);

/// Runs a case and writes its recording.
pub fn run(request: &Request, ground: &Ground) -> Answer {
    match request.case(ground) {
        Ok(case) => run_case(request, &case, ground).unwrap_or_else(Answer::failed),
        Err(errors) => Answer { ended: "refused".to_owned(), errors, ..Answer::default() },
    }
}

fn run_case(request: &Request, case: &Case, ground: &Ground) -> Result<Answer, Failure> {
    let (collect, measured) = request.collect.read().map_err(|e| e.to_string())?;
    let bare = request.bare.filter(|_| ground.is_host() && case.net.hosts.len() == 2);
    let lab = if bare.is_some() { Lab::bare(case) } else { Lab::of(case, ground) };
    let mut spaces = setup::build(case, &lab, ground)?;
    let steps = setup::steps(&lab, &mut spaces)?;
    for (space, tool, line) in &request.tamper {
        let place = lab.spaces.iter().position(|s| s.name == *space);
        spaces.enter(place.ok_or_else(|| format!("tamper: there is no `{space}`"))?)?;
        setup::batch(tool, std::slice::from_ref(line))?;
    }
    let mut taps = Taps::default();
    // Where each host is the other's neighbour, what arrives at one is what leaves the other.
    let ends = |(host, dev): (usize, &usize)| match bare {
        None if case.hosts[host].nic.gro => vec![(*dev, Way::Out), (lab.devs[*dev].peer, Way::Out)],
        None => vec![(*dev, Way::Out), (*dev, Way::In)],
        Some(_) if collect.unseen => Vec::new(),
        Some(_) => vec![(*dev, Way::In)],
    };
    for (dev, way) in lab.hosts.iter().enumerate().flat_map(ends) {
        spaces.enter(lab.devs[dev].space)?;
        let packets = between_looks(case, ground);
        taps.open(&lab.devs[dev].name, way, packets).map_err(|e| format!("a tap: {e}"))?;
    }
    let relays = Relays::start(case, &lab, &mut spaces, Seed(request.seed))?;
    let pace = if ground.is_host() { probe::Pace::real() } else { probe::Pace::of_virtual_time(PROBES) };
    let path = if bare.is_some() {
        Path { rows: Vec::new(), wrong: None }
    } else {
        probe::measure(case, &lab, &mut spaces, &mut taps, &pace)?
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
        collector.add_interface(Interface { name: host.name.clone(), description });
    }
    // Windows are told in segments, whose size is in the handshake.
    let windows = collect.events && !collect.unseen;
    let trace = if ground.is_host() {
        Trace::listen(windows)
    } else {
        Trace::open(windows).map_err(|e| format!("tracefs: {e}"))?
    };
    let machine = if ground.is_host() { Some(Machine::before(request.patience())?) } else { None };
    // In real time the run begins when everything that has to be there is.
    let start = if ground.is_host() { sys::now() + 20_000_000 } else { START };
    let engines = Engines::start(case, &plan, &request.base, Seed(request.seed))?;
    let mut world = World::new(case, &plan, spaces, collector, (start, engines.names.clone()))?;
    world.traced = trace.counts_timeouts();
    if !ground.is_host() {
        world.use_pumps();
    }
    if bare.is_some_and(|bare| bare.copy) {
        world.copy_what_is_read();
    }
    let datagrams = Datagrams::of(case, &mut world)?;
    let queues = Queues::new(&lab, steps, collect.series);
    let mut run = Run {
        bare: bare.is_some(),
        case,
        lab: &lab,
        ground,
        plan,
        start,
        world,
        taps,
        trace,
        queues,
        diag: Diag::default(),
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
        Some(message) => Answer { ended: "path".to_owned(), message, ..Answer::default() },
        None => Answer {
            ended: if recording.completions.is_empty() && !recording.header.complete {
                "failed".to_owned()
            } else {
                run_ended(&recording)
            },
            trace: if collect.unseen { String::new() } else { format!("{trace:016x}") },
            metrics: Some(metrics),
            ..Answer::default()
        },
    })
}

/// The most packets that pass a tap between two looks.
fn between_looks(case: &Case, ground: &Ground) -> u64 {
    if ground.is_host() {
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
    /// The two hosts are joined by a cable.
    bare: bool,
    case: &'a Case,
    lab: &'a Lab,
    ground: &'a Ground,
    plan: Arc<TrafficSchedule>,
    start: u64,
    world: World<'a>,
    taps: Taps,
    trace: Trace,
    queues: Queues,
    diag: Diag,
    datagrams: Option<Datagrams>,
    machine: Option<Machine>,
    engines: Engines,
    relays: Relays,
    /// The most that a tick was late.
    late: Dur,
    ended: &'static str,
}

impl Run<'_> {
    fn go(&mut self) -> Result<(), Failure> {
        let io = |e: std::io::Error| format!("epoll: {e}");
        let end = Time::ZERO + self.case.end;
        let mut apps: Vec<Apps> =
            (0u32..).zip(&self.case.hosts).map(|(i, _)| self.plan.apps(HostId(i))).collect();
        for apps in &mut apps {
            apps.start(Time::ZERO);
        }
        self.queues.before = self.queues.read(self.lab, &mut self.world)?;
        self.queues.before_elsewhere = Queues::dropped_elsewhere(self.lab, &mut self.world)?;
        let timer = sys::timer().map_err(io)?;
        sys::watch(self.world.poll.as_fd(), timer.as_fd(), libc::EPOLLIN | libc::EPOLLET, 0).map_err(io)?;
        let interval = self.world.collector.collect().series.unwrap_or(TICK);
        let (mut tick, mut armed, mut rest) = (Time::ZERO, Time::MAX, Time::ZERO);
        let mut events = Vec::new();
        sys::set_timer(timer.as_fd(), self.start).map_err(io)?;
        while sys::now() < self.start {
            sys::wait(self.world.poll.as_fd(), &mut events).map_err(io)?;
        }
        self.world.wake(None);
        let real = self.ground.is_host();
        loop {
            let now = self.world.now();
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
                    apps.wake(now, &mut Calls { world: &mut self.world, host });
                }
            }
            if let Some(datagrams) = &mut self.datagrams {
                datagrams.send(now);
            }
            self.completions(&mut apps);
            if let Some(why) = self.world.failure.take() {
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
            let next = self.datagrams.as_ref().map_or(Time::MAX, Datagrams::next);
            let due = due.min(tick).min(end).min(rest).min(next);
            if due != armed {
                sys::set_timer(timer.as_fd(), self.start + due.as_nanos()).map_err(io)?;
                armed = due;
            }
            sys::wait(self.world.poll.as_fd(), &mut events).map_err(io)?;
            let packet = if real { None } else { self.drain() };
            // What no packet has brought about: a timer of ours, or one of TCP's that has given up.
            let alone = |(number, what): &(u64, i32)| {
                Token::of(*number) == Token::Timer || what & (libc::EPOLLERR | libc::EPOLLHUP) != 0
            };
            self.world.wake(packet.filter(|_| !events.iter().any(alone)));
            for (number, what) in &events {
                match Token::of(*number) {
                    Token::Timer => armed = Time::MAX,
                    Token::Bell => {
                        for at in self.world.returned() {
                            self.tell(at, &mut apps);
                        }
                    }
                    Token::Listener(listener) => self.accept(listener, &mut apps)?,
                    Token::Sock(at) => self.ready(at, *what, &mut apps),
                }
            }
        }
    }

    fn accept(&mut self, listener: usize, apps: &mut [Apps]) -> Result<(), Failure> {
        let new = self.world.accept(listener, |host, key| {
            let slot = apps[host].accept(key);
            (slot, apps[host].only_reads(slot))
        })?;
        for at in new {
            self.tell(at, apps);
        }
        Ok(())
    }

    fn ready(&mut self, at: usize, events: i32, apps: &mut [Apps]) {
        match self.world.note(at, events) {
            None => {}
            Some(Ok(())) => {
                let only_reads = self.world.socks[at].as_ref().is_some_and(|s| s.only_reads);
                if !only_reads || self.world.read_for(at) {
                    self.tell(at, apps);
                }
            }
            Some(Err(())) => {
                let sock = self.world.socks[at].as_ref().expect("it was noted");
                let (host, slot, now) = (sock.host, sock.slot, self.world.now());
                self.world.give_up(at, true);
                apps[host].failed(now, slot, &mut Calls { world: &mut self.world, host });
            }
        }
    }

    fn tell(&mut self, at: usize, apps: &mut [Apps]) {
        let Some(Some(sock)) = self.world.socks.get(at) else { return };
        let (host, slot, now) = (sock.host, sock.slot, self.world.now());
        apps[host].ready(now, slot, &mut Calls { world: &mut self.world, host });
    }

    fn completions(&mut self, apps: &mut [Apps]) {
        for apps in apps {
            for done in apps.drain_completions() {
                let path = self.case.idle_path(done.key.client.0 as usize, done.key.server.0 as usize);
                self.world.collector.completed(completion(&done, &self.plan, path));
            }
        }
    }

    /// Before when everything has been told.
    fn settled(&self) -> u64 {
        if self.ground.is_host() { sys::now() - SETTLED } else { u64::MAX }
    }

    /// Trace events since the last look.
    fn listen(&mut self) {
        let until = self.settled();
        self.trace.drain((self.start, until), &self.world.account, &mut self.world.collector);
    }

    /// Packets since the last look; returns when the last of them passed.
    fn drain(&mut self) -> Option<u64> {
        self.drain_until(self.settled())
    }

    fn drain_until(&mut self, until: u64) -> Option<u64> {
        let (account, collector) = (&mut self.world.account, &mut self.world.collector);
        let (mut last, bare) = (None, self.bare);
        self.taps.drain(until, |seen| {
            last = Some(seen.at);
            if bare {
                let host = u32::try_from(seen.tap).expect("two");
                account.packet(seen, 1 - host, true, collector);
                account.packet(seen, host, false, collector);
                return;
            }
            let host = u32::try_from(seen.tap / 2).expect("few hosts");
            account.packet(seen, host, seen.tap % 2 == 0, collector);
        });
        last
    }

    /// What is read at a tick.
    fn look(&mut self, at: Time) -> Result<(), Failure> {
        self.drain();
        self.listen();
        if let (true, Some(interval)) = (at > Time::ZERO, self.world.collector.collect().series) {
            self.world.sample(at);
            self.queues.sample(self.lab, &mut self.world)?;
            self.diag.sample(self.case.net.hosts.len(), at, interval, &mut self.world)?;
        }
        Ok(())
    }

    /// The recording, and the trace of its packets.
    fn finish(mut self, request: &Request, mut path: Path) -> Result<(Recording, u64), Failure> {
        self.world.settle();
        self.drain_until(u64::MAX);
        // What the agent closes now, no application has closed.
        self.trace.close(self.start, &self.world.account, &mut self.world.collector);
        let now = self.world.now().min(Time::ZERO + self.case.end);
        for at in 0..self.world.socks.len() {
            self.world.give_up(at, false);
        }
        let lost = self.taps.lost().map_err(|e| format!("a tap: {e}"))?;
        let queues = self.queues.read(self.lab, &mut self.world)?;
        let elsewhere = Queues::dropped_elsewhere(self.lab, &mut self.world)?
            .saturating_sub(self.queues.before_elsewhere);
        let mut counters = std::collections::BTreeMap::new();
        if elsewhere > 0 {
            counters.insert("elsewhere".to_owned(), [("drops".to_owned(), elsewhere)].into_iter().collect());
        }
        for (host, name) in self.case.net.hosts.iter().enumerate() {
            self.world.enter(host)?;
            counters.insert(name.name.clone(), crate::nstat::read().map_err(|e| format!("nstat: {e}"))?);
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
        if !self.world.collector.collect().unseen {
            run.insert("tap_lost".to_owned(), lost);
        }
        if self.world.desk.waited() > 0 {
            run.insert("waited_writes".to_owned(), self.world.desk.waited());
        }
        run.extend(self.trace.has().map(|(name, has)| (name.to_owned(), has)));
        // Whether a DCTCP receiver met a change of CE with an ACK delayed, which is what dctcp_receiver is about.
        let prior = fs::read_to_string("/sys/module/tcp_dctcp/parameters/dctcp_prior_acks");
        if let Some(n) = prior.ok().and_then(|text| text.trim().parse().ok()) {
            run.insert("dctcp_prior_acks".to_owned(), n);
        }
        let series = self.world.collector.collect().series;
        let mut recording = self.world.collector.finish(now);
        recording.events = self.trace.order(std::mem::take(&mut recording.events));
        let header = &mut recording.header;
        env!("CARGO_PKG_VERSION").clone_into(&mut header.version);
        let substrate = if self.ground.is_host() { "host" } else { "kernel" };
        substrate.clone_into(&mut header.substrate);
        header.system = fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|t| t.trim().to_owned());
        header.seed = request.seed;
        header.case = triples(self.case);
        header.complete = path.wrong.is_none() && lost == 0 && deaf == 0 && !self.trace.missed();
        header.bottleneck = Some(u32::try_from(self.lab.bottleneck).expect("few devices"));
        recording.hosts = self.case.net.hosts.iter().map(|h| h.name.clone()).collect();
        recording.counters = counters;
        for (watched, q) in self.lab.watched.iter().zip(&queues) {
            recording.devices.push(Device {
                name: watched.name.clone(),
                kind: watched.kind.clone(),
                rate: Some(watched.rate),
                counters: DeviceCounters {
                    packets: q.packets,
                    bytes: q.bytes,
                    drops: q.drops,
                    dropped_bytes: 0,
                    marks: q.marks,
                    max_backlog_bytes: self.queues.most.get(&watched.name).copied().unwrap_or(0),
                },
            });
        }
        if let (Some(all), Some(_)) = (&mut recording.series, series) {
            all.entities.extend(self.queues.entities(self.lab));
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

/// What the queues say at every tick. Counters begin at the start of the run: probes do not count.
struct Queues {
    sockets: Vec<(usize, i32, Netlink)>,
    steps: Vec<Step>,
    before: Vec<Qdisc>,
    /// What was dropped elsewhere before the start.
    before_elsewhere: u64,
    last: Vec<[u64; 3]>,
    columns: Vec<[Vec<f64>; 4]>,
    /// What waited at the last look.
    waiting: Vec<u64>,
    most: std::collections::BTreeMap<String, u64>,
    series: bool,
}

impl Queues {
    fn new(lab: &Lab, steps: Vec<Step>, series: Option<Dur>) -> Queues {
        let n = lab.watched.len();
        Queues {
            sockets: Vec::new(),
            steps,
            before: Vec::new(),
            before_elsewhere: 0,
            last: vec![[0; 3]; n],
            columns: vec![Default::default(); n],
            waiting: vec![0; n],
            most: std::collections::BTreeMap::new(),
            series: series.is_some(),
        }
    }

    /// The counters of every watched queue since the start.
    fn read(&mut self, lab: &Lab, world: &mut World) -> Result<Vec<Qdisc>, Failure> {
        let io = |e: std::io::Error| format!("qdiscs: {e}");
        if self.sockets.is_empty() {
            for watched in &lab.watched {
                let dev = &lab.devs[watched.dev];
                world.enter(dev.space)?;
                let index = sys::interface_index(&dev.name).map_err(io)?;
                self.sockets.push((dev.space, index, Netlink::open().map_err(io)?));
            }
        }
        let mut all = Vec::new();
        for ((_, index, netlink), watched) in self.sockets.iter().zip(&lab.watched) {
            let found = netlink.qdiscs().map_err(io)?;
            let of = found.into_iter().find(|q| q.interface == *index && q.handle == watched.handle);
            let mut of = of.ok_or_else(|| format!("the qdisc of {} is gone", watched.name))?;
            for step in self.steps.iter().filter(|step| step.dev == watched.dev) {
                of.marks += step.marks()?;
            }
            all.push(of);
        }
        for (q, before) in all.iter_mut().zip(&self.before) {
            q.bytes -= before.bytes;
            q.packets -= before.packets;
            q.drops -= before.drops;
            q.marks -= before.marks;
        }
        Ok(all)
    }

    /// Packets that qdiscs other than the watched dropped since the machine was built: wires, NICs, policers.
    fn dropped_elsewhere(lab: &Lab, world: &mut World) -> Result<u64, Failure> {
        let io = |e: std::io::Error| format!("qdiscs: {e}");
        let mut drops = 0;
        for space in 0..lab.spaces.len() {
            world.enter(space)?;
            let devs = lab.devs.iter().enumerate().filter(|(_, dev)| dev.space == space);
            let mut indices = Vec::new();
            for (at, dev) in devs {
                let watched = lab.watched.iter().any(|watched| watched.dev == at);
                // What a relay takes is dropped behind it (`relay`).
                let relayed = lab.relayed.iter().any(|relayed| relayed.from == at);
                indices.push((sys::interface_index(&dev.name).map_err(io)?, watched, relayed));
            }
            for q in Netlink::open().and_then(|n| n.qdiscs()).map_err(io)? {
                let counts = indices.iter().any(|(index, watched, relayed)| {
                    q.interface == *index && (q.is_root && !watched || q.kind == "clsact" && !relayed)
                });
                drops += if counts { q.drops } else { 0 };
            }
        }
        Ok(drops)
    }

    fn sample(&mut self, lab: &Lab, world: &mut World) -> Result<(), Failure> {
        let all = self.read(lab, world)?;
        for (i, (q, watched)) in all.iter().zip(&lab.watched).enumerate() {
            let present = [q.bytes, q.drops, q.marks];
            for (k, column) in self.columns[i].iter_mut().take(3).enumerate() {
                column.push(float(present[k] - self.last[i][k]));
            }
            // What waited when the interval began, or waits now; a peak between two looks is not seen.
            self.columns[i][3].push(float(q.backlog.max(std::mem::replace(&mut self.waiting[i], q.backlog))));
            self.last[i] = present;
            let most = self.most.entry(watched.name.clone()).or_default();
            *most = (*most).max(q.backlog);
        }
        Ok(())
    }

    fn entities(&self, lab: &Lab) -> Vec<EntitySeries> {
        let names = ["out_bytes", "drops", "marks", "max_backlog_bytes"];
        let of = |(watched, columns): (&crate::lab::Watched, &[Vec<f64>; 4])| EntitySeries {
            entity: watched.name.clone(),
            first: 0,
            columns: names
                .into_iter()
                .zip(columns)
                .map(|(name, values)| Column { name: name.to_owned(), values: values.clone() })
                .collect(),
        };
        if !self.series {
            return Vec::new();
        }
        lab.watched.iter().zip(&self.columns).map(of).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of an interval are below 2^53")]
fn float(n: u64) -> f64 {
    n as f64
}
