//! A network without TCP: every connection is two pipes with a fixed delay and a bounded buffer.

use std::collections::BTreeMap;
use std::sync::Arc;
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_workload::{AppCompletion, Apps, ConnKey, HostIndex, SocketId, Sockets, TrafficSchedule};

/// One way delay of every pipe.
pub const DELAY: Dur = Dur::from_millis(1);

#[derive(Default)]
struct Pipe {
    /// Bytes under way: when they arrive, how many.
    flying: Vec<(Time, u64)>,
    /// Arrived and not read.
    arrived: u64,
    /// Time at which the FIN arrives; then whether it has arrived.
    fin: Option<Time>,
    fin_arrived: bool,
    pub written: u64,
    pub read: u64,
}

struct Conn {
    key: ConnKey,
    up: Option<Time>,
    /// client to server, server to client
    pipes: [Pipe; 2],
    slots: [Option<SocketId>; 2],
}

/// Bytes that passed over one connection: written and read, in each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    pub written: [u64; 2],
    pub read: [u64; 2],
}

pub struct Net {
    pub now: Time,
    buffer: u64,
    delay: Dur,
    conns: Vec<Conn>,
    tables: BTreeMap<HostIndex, Vec<Option<usize>>>,
    /// Each write call: when, on which connection, how many bytes were taken.
    pub writes: Vec<(Time, ConnKey, u64)>,
    pub reads: Vec<(Time, ConnKey, u64)>,
    /// When each connection was opened.
    pub opened: Vec<(Time, ConnKey)>,
    /// The numbers of the connections from ports that another one had, and of those.
    pub replaced: Vec<(u32, u32)>,
}

struct View<'a> {
    net: &'a mut Net,
    host: HostIndex,
}

impl View<'_> {
    fn conn(&self, slot: SocketId) -> (usize, usize) {
        let at = self.net.tables[&self.host][slot.0 as usize].expect("an open slot");
        (at, usize::from(self.net.conns[at].key.client != self.host))
    }
}

impl Sockets for View<'_> {
    fn connect(&mut self, slot: SocketId, key: ConnKey) {
        let conn = Conn {
            key,
            up: Some(self.net.now + self.net.delay + self.net.delay),
            pipes: [Pipe::default(), Pipe::default()],
            slots: [Some(slot), None],
        };
        self.net.opened.push((self.net.now, key));
        self.net.conns.push(conn);
        let at = self.net.conns.len() - 1;
        self.net.bind(self.host, slot, at);
    }

    fn connect_again(&mut self, slot: SocketId, key: ConnKey, before: ConnKey) {
        self.net.replaced.push((key.index, before.index));
        self.connect(slot, key);
    }

    /// The peers learn nothing: their ends stay open.
    fn halt(&mut self) {
        for (at, conn) in self.net.conns.iter_mut().enumerate() {
            for (side, host) in [conn.key.client, conn.key.server].into_iter().enumerate() {
                if host == self.host {
                    conn.slots[side] = None;
                }
            }
            self.net
                .tables
                .entry(self.host)
                .or_default()
                .iter_mut()
                .filter(|slot| **slot == Some(at))
                .for_each(|slot| *slot = None);
        }
    }

    fn boot(&mut self) {}

    fn write(&mut self, slot: SocketId, n: Bytes) -> Bytes {
        let (at, side) = self.conn(slot);
        let (now, delay, buffer) = (self.net.now, self.net.delay, self.net.buffer);
        let conn = &mut self.net.conns[at];
        if conn.up.is_some() {
            return Bytes::ZERO;
        }
        let pipe = &mut conn.pipes[side];
        assert!(pipe.fin.is_none(), "a write after shutdown");
        let queued = pipe.arrived + pipe.flying.iter().map(|(_, n)| n).sum::<u64>();
        let taken = n.get().min(buffer.saturating_sub(queued));
        if taken > 0 {
            pipe.flying.push((now + delay, taken));
            pipe.written += taken;
            let key = conn.key;
            self.net.writes.push((now, key, taken));
        }
        Bytes::new(taken)
    }

    fn readable(&self, slot: SocketId) -> Bytes {
        let (at, side) = self.conn(slot);
        Bytes::new(self.net.conns[at].pipes[1 - side].arrived)
    }

    fn read(&mut self, slot: SocketId, n: Bytes) -> Bytes {
        let (at, side) = self.conn(slot);
        let key = self.net.conns[at].key;
        let pipe = &mut self.net.conns[at].pipes[1 - side];
        let got = n.get().min(pipe.arrived);
        pipe.arrived -= got;
        pipe.read += got;
        self.net.reads.push((self.net.now, key, got));
        Bytes::new(got)
    }

    fn peer_closed(&self, slot: SocketId) -> bool {
        let (at, side) = self.conn(slot);
        let pipe = &self.net.conns[at].pipes[1 - side];
        pipe.fin_arrived && pipe.arrived == 0
    }

    fn shutdown(&mut self, slot: SocketId) {
        let (at, side) = self.conn(slot);
        let fin = self.net.now + self.net.delay;
        let previous = self.net.conns[at].pipes[side].fin.replace(fin);
        assert!(previous.is_none(), "shut down twice");
    }

    fn close(&mut self, slot: SocketId) {
        let (at, side) = self.conn(slot);
        let fin = self.net.now + self.net.delay;
        self.net.conns[at].pipes[side].fin.get_or_insert(fin);
        self.net.conns[at].slots[side] = None;
        self.net.tables.get_mut(&self.host).expect("a host")[slot.0 as usize] = None;
    }
}

impl Net {
    fn bind(&mut self, host: HostIndex, slot: SocketId, at: usize) {
        let table = self.tables.entry(host).or_default();
        let index = slot.0 as usize;
        if table.len() <= index {
            table.resize(index + 1, None);
        }
        assert!(table[index].is_none(), "slot {index} of {host:?} is in use");
        table[index] = Some(at);
    }

    pub fn passed(&self, key: ConnKey) -> Passed {
        let conn = self.conns.iter().find(|conn| conn.key == key).expect("a connection of the run");
        let [up, down] = &conn.pipes;
        Passed { written: [up.written, down.written], read: [up.read, down.read] }
    }

    /// The next time at which something arrives.
    fn next(&self) -> Option<Time> {
        let events = self.conns.iter().flat_map(|conn| {
            let pipes = conn.pipes.iter().flat_map(|pipe| {
                let fin = pipe.fin.filter(|_| !pipe.fin_arrived);
                pipe.flying.iter().map(|(at, _)| *at).chain(fin)
            });
            conn.up.into_iter().chain(pipes)
        });
        events.min()
    }
}

/// The result of a run.
pub struct Ran {
    pub net: Net,
    pub done: Vec<AppCompletion>,
    pub idle: bool,
}

/// Runs the traffic until `end`, or until no event is pending.
pub fn run(traffic: TrafficSchedule, hosts: u32, buffer: u64, end: Time) -> Ran {
    run_with(traffic, hosts, buffer, DELAY, end)
}

pub fn run_with(traffic: TrafficSchedule, hosts: u32, buffer: u64, delay: Dur, end: Time) -> Ran {
    run_breaking(traffic, hosts, buffer, delay, end, None)
}

/// At the given time the connection with the given index fails at both ends.
pub fn run_breaking(
    traffic: TrafficSchedule,
    hosts: u32,
    buffer: u64,
    delay: Dur,
    end: Time,
    mut breaks: Option<(Time, usize)>,
) -> Ran {
    let traffic = Arc::new(traffic);
    let mut apps: Vec<Apps> = (0..hosts).map(|h| traffic.apps(HostIndex(h))).collect();
    let mut net = Net {
        now: Time::ZERO,
        buffer,
        delay,
        conns: Vec::new(),
        tables: BTreeMap::new(),
        writes: Vec::new(),
        reads: Vec::new(),
        opened: Vec::new(),
        replaced: Vec::new(),
    };
    for app in &mut apps {
        app.start(Time::ZERO);
    }
    let mut done = Vec::new();
    loop {
        let timers = apps.iter().filter_map(Apps::next_wake);
        let breaking = breaks.map(|(at, _)| at);
        let Some(now) = timers.chain(net.next()).chain(breaking).min().filter(|at| *at <= end) else { break };
        net.now = now;
        for app in &mut apps {
            let host = app.host();
            app.wake(now, &mut View { net: &mut net, host });
        }
        deliver(&mut net, &mut apps);
        if let Some((_, broken)) = breaks.take_if(|(at, _)| *at <= now) {
            fail(&mut net, &mut apps, broken);
        }
        for app in &mut apps {
            done.extend(app.drain_completions());
        }
    }
    let idle = apps.iter().all(Apps::is_idle);
    Ran { net, done, idle }
}

/// Tells the applications at both ends that a connection has failed.
fn fail(net: &mut Net, apps: &mut [Apps], at: usize) {
    let conn = &mut net.conns[at];
    let (key, slots) = (conn.key, std::mem::take(&mut conn.slots));
    conn.up = None;
    conn.pipes = Default::default();
    for (host, slot) in [(key.client, slots[0]), (key.server, slots[1])] {
        if let Some(slot) = slot {
            net.tables.get_mut(&host).expect("a host")[slot.0 as usize] = None;
            let now = net.now;
            apps[host.0 as usize].failed(now, slot, &mut View { net, host });
        }
    }
}

/// Delivers the bytes that arrive now, and then notifies both ends of every connection with an arrival.
fn deliver(net: &mut Net, apps: &mut [Apps]) {
    let now = net.now;
    for at in 0..net.conns.len() {
        let conn = &mut net.conns[at];
        if conn.up.is_some_and(|up| up <= now) {
            conn.up = None;
            let key = conn.key;
            let slot = apps[key.server.0 as usize].accept(key);
            net.conns[at].slots[1] = Some(slot);
            net.bind(key.server, slot, at);
        }
        for pipe in &mut net.conns[at].pipes {
            pipe.flying.retain(|&(arrives, n)| {
                if arrives <= now {
                    pipe.arrived += n;
                }
                arrives > now
            });
            pipe.fin_arrived |= pipe.fin.is_some_and(|fin| fin <= now && pipe.flying.is_empty());
        }
    }
    // A read makes room for a write, and a request causes a response: repeated until no byte moves.
    loop {
        let before = (net.writes.len(), net.reads.len(), net.opened.len());
        for at in 0..net.conns.len() {
            for side in 0..2 {
                let key = net.conns[at].key;
                let host = if side == 0 { key.client } else { key.server };
                if let (None, Some(slot)) = (net.conns[at].up, net.conns[at].slots[side]) {
                    apps[host.0 as usize].ready(now, slot, &mut View { net, host });
                }
            }
        }
        if before == (net.writes.len(), net.reads.len(), net.opened.len()) {
            return;
        }
    }
}
