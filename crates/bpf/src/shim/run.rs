//! The thread of a [`Shim`](super::Shim).

use super::spec::{ShimCounts, Spec};
use super::sys;
use crate::load::{self, Registered};
use crate::{ControlledConnection, Decision, Error, Record, RecordKind, Reserve};
use hdrhistogram::Histogram;
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject, RingBufferBuilder,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shim.bpf.o"));

/// Positions of the fields in `struct tcp_congestion_ops` of `src/bpf/tcp.h`.
const NAME: std::ops::Range<usize> = 0..16;
const FLAGS: std::ops::Range<usize> = 16..20;
/// `TCP_CONG_NON_RESTRICTED` and `TCP_CONG_NEEDS_ECN` of the kernel's `net/tcp.h`.
const NON_RESTRICTED: u32 = 1;
const NEEDS_ECN: u32 = 2;

/// The largest number of records that are read before decisions are written, which bounds the delay of a decision under load.
const BATCH: usize = 64;
/// Longest time for which the thread waits for a record before it checks whether it must end.
const NAP: Duration = Duration::from_millis(20);

/// The largest latency of the histogram, in nanoseconds.
const LONGEST: u64 = 10_000_000_000;

#[derive(Debug)]
pub struct Running {
    // The order matters: the controller is unregistered before its maps are closed.
    links: Vec<Link>,
    object: Object,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<ShimCounts, Error>>>,
}

impl Running {
    pub fn start(spec: &Spec) -> Result<Running, Error> {
        let refused = |what: &str| {
            let what = what.to_owned();
            move |e: libbpf_rs::Error| Error::Refused { what, why: load::words(&e) }
        };
        let open = || ObjectBuilder::default().open_memory(PROGRAM);
        let Registered { links, object, .. } = load::register("the shim", open, |open| prepare(spec, open))?;
        let map = |name: &str| {
            let map = object.maps().find(|map| map.name().to_string_lossy().ends_with(name));
            let map = map.expect("the program has this map");
            MapHandle::try_from(&map).map_err(refused("share its maps"))
        };
        let (records, controls, counts) = (map("records")?, map("controls")?, map(".bss")?);
        let stop = Arc::new(AtomicBool::new(false));
        let (spec, asked) = (spec.clone(), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("tcpassay-shim".to_owned())
            .spawn(move || serve(&spec, &records, &controls, &counts, &asked))
            .map_err(|e| Error::Refused { what: "start a thread".to_owned(), why: e.to_string() })?;
        Ok(Running { links, object, stop, thread: Some(thread) })
    }

    pub fn stop(mut self) -> Result<ShimCounts, Error> {
        self.links.clear();
        self.stop.store(true, Ordering::Release);
        self.thread.take().expect("stopped once").join().expect("the thread does not panic")
    }
}

/// Writes the name, the flags and the size of the ring into the program before it is loaded.
fn prepare(spec: &Spec, open: &mut OpenObject) -> libbpf_rs::Result<()> {
    for mut map in open.maps_mut() {
        if map.name() == "records" {
            map.set_max_entries(spec.ring)?;
        }
        let struct_ops = map.map_type() == MapType::StructOps;
        let rodata = map.name().to_string_lossy().ends_with(".rodata");
        let Some(value) = map.initial_value_mut() else { continue };
        if struct_ops {
            let name = spec.kernel_name();
            value[NAME].fill(0);
            value[..name.len()].copy_from_slice(name.as_bytes());
            let ecn = if spec.dctcp_ecn { NEEDS_ECN } else { 0 };
            value[FLAGS].copy_from_slice(&(NON_RESTRICTED | ecn).to_ne_bytes());
        } else if rodata {
            // `dctcp_echo` is the only variable in .rodata.
            value[0] = u8::from(spec.dctcp_ecn);
        }
    }
    Ok(())
}

impl Drop for Running {
    fn drop(&mut self) {
        self.links.clear();
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // The counts are not needed.
            drop(thread.join());
        }
        let _ = &self.object;
    }
}

/// The state of the thread.
struct Server<'a> {
    spec: &'a Spec,
    connections: BTreeMap<u32, ControlledConnection>,
    /// The newest decision that each connection has applied.
    answered: BTreeMap<u32, u64>,
    /// Decisions that are not written yet.
    fresh: BTreeMap<u32, Decision>,
    /// The times of the records that caused them.
    waiting: Vec<u64>,
    closed: Vec<u32>,
    outcome: ShimCounts,
}

fn serve(
    spec: &Spec,
    records: &MapHandle,
    controls: &MapHandle,
    counts: &MapHandle,
    stop: &AtomicBool,
) -> Result<ShimCounts, Error> {
    let refused =
        |what: &str, e: &libbpf_rs::Error| Error::Refused { what: what.to_owned(), why: load::words(e) };
    // A polling thread with real-time priority would occupy its processor completely.
    if !spec.spin {
        // Without permission the thread runs with normal priority, and its latencies are larger.
        sys::use_real_time_priority();
    }
    let server = RefCell::new(Server::new(spec));
    let mut ring = RingBufferBuilder::new();
    ring.add(records, |bytes| {
        server.borrow_mut().take(bytes);
        0
    })
    .map_err(|e| refused("share its ring", &e))?;
    let ring = ring.build().map_err(|e| refused("share its ring", &e))?;
    loop {
        let ending = stop.load(Ordering::Acquire);
        let mut taken = ring.consume_raw_n(BATCH);
        if taken == 0 && !ending && !spec.spin {
            taken = ring.poll_raw(NAP);
        }
        if taken < 0 && taken != -libc::EINTR {
            let why = std::io::Error::from_raw_os_error(-taken).to_string();
            return Err(Error::Refused { what: "return its records".to_owned(), why });
        }
        server.borrow_mut().flush(controls).map_err(|e| refused("accept a decision", &e))?;
        if ending && taken == 0 {
            break;
        }
    }
    drop(ring);
    let mut outcome = server.into_inner().outcome();
    let value =
        counts.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(|e| refused("return its counts", &e))?;
    let value = value.unwrap_or_default();
    let count =
        |at: usize| value.get(at..at + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().expect("8 bytes")));
    (outcome.lost, outcome.connections) = (count(0), count(8));
    #[expect(clippy::cast_precision_loss, reason = "a run of years")]
    let cpu = sys::cpu() as f64 / 1e9;
    outcome.cpu = cpu;
    Ok(outcome)
}

impl Server<'_> {
    fn new(spec: &Spec) -> Server<'_> {
        let outcome = ShimCounts {
            tick: sys::tick(),
            connections: 0,
            records: 0,
            lost: 0,
            decided: 0,
            written: 0,
            applied: 0,
            clamps: 0,
            latency: Histogram::new_with_max(LONGEST, 3).expect("the bounds are in order"),
            cpu: 0.0,
            trace: Vec::new(),
        };
        Server {
            spec,
            connections: BTreeMap::new(),
            answered: BTreeMap::new(),
            fresh: BTreeMap::new(),
            waiting: Vec::new(),
            closed: Vec::new(),
            outcome,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let record = Record::read(bytes).expect("the program writes what this reads");
        self.outcome.records += 1;
        let connection = self.connections.entry(record.connection);
        let connection =
            connection.or_insert_with(|| self.spec.connection(record.connection, self.outcome.tick));
        let decision = connection.on(&record);
        if record.answered != *self.answered.entry(record.connection).or_insert(0) {
            self.answered.insert(record.connection, record.answered);
            self.outcome.applied += 1;
        }
        if self.spec.trace {
            self.outcome.trace.push((record, decision));
        }
        if let Some(decision) = decision {
            self.outcome.decided += 1;
            self.fresh.insert(record.connection, decision);
            self.waiting.push(record.at);
        }
        if record.kind == RecordKind::Closed {
            self.fresh.remove(&record.connection);
            self.closed.push(record.connection);
        }
    }

    fn flush(&mut self, controls: &MapHandle) -> libbpf_rs::Result<()> {
        for (&id, decision) in &self.fresh {
            let reserve = self.connections[&id].reserve();
            controls.update(&id.to_ne_bytes(), &control(decision, reserve), MapFlags::ANY)?;
            self.outcome.written += 1;
        }
        self.fresh.clear();
        if !self.waiting.is_empty() {
            let now = sys::monotonic();
            for at in self.waiting.drain(..) {
                self.outcome.latency.saturating_record(now.saturating_sub(at));
            }
        }
        for id in self.closed.drain(..) {
            self.answered.remove(&id);
            if let Some(connection) = self.connections.remove(&id) {
                self.outcome.clamps += connection.clamps();
            }
            // A connection that closed before the first decision has no entry.
            let _ = controls.delete(&id.to_ne_bytes());
        }
        Ok(())
    }

    fn outcome(mut self) -> ShimCounts {
        self.outcome.clamps += self.connections.values().map(ControlledConnection::clamps).sum::<u64>();
        self.outcome
    }
}

/// `struct control` of the program.
fn control(decision: &Decision, reserve: Reserve) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[0..8].copy_from_slice(&decision.answers.to_ne_bytes());
    bytes[8..16].copy_from_slice(&decision.pacing.unwrap_or(0).to_ne_bytes());
    for (at, word) in
        [(16, decision.cwnd), (20, decision.ssthresh), (24, reserve.on_loss), (28, reserve.on_mark)]
    {
        bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}
