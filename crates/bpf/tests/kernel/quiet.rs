//! Whether the machine had time for what a test asserts.
//!
//! What always holds is asserted always. What holds only of a machine that has time for it (throughput, no loss, prompt decisions) is
//! asserted on a run that was seen to have had it: while it went on, a thread on each processor slept half a millisecond at a time, and
//! none woke much later than it wanted. Where no attempt is quiet, the test says so.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const ATTEMPTS: usize = 4;
/// The shaper's queue holds 9.6 ms: whoever wakes up this late has not let it overflow, nor run empty for long.
pub const LATE: Duration = Duration::from_millis(4);
const NAP: Duration = Duration::from_micros(500);

/// Tests that transfer something take turns.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // Whoever failed with it in hand left nothing that others could trip over.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line that is seen although the test passes.
pub fn say(line: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    writeln!(std::io::stderr(), "{test}: {line}").expect("somebody hears");
}

/// What came of the first attempt that the machine had time for. `late` is what the attempt itself knows of delays.
pub fn when_quiet<T>(mut attempt: impl FnMut() -> T, late: impl Fn(&T) -> Duration) -> Option<T> {
    let mut worst = Vec::new();
    for _ in 0..ATTEMPTS {
        let watch = Watch::start();
        let made = attempt();
        let seen = watch.worst().max(late(&made));
        if seen <= LATE {
            return Some(made);
        }
        worst.push(format!("{:.1}", seen.as_secs_f64() * 1e3));
    }
    say(&format!(
        "skipped in part: what needs a quiet machine was not looked at, because in {ATTEMPTS} attempts something was {} ms late, and {} \
         are allowed",
        worst.join(", "),
        LATE.as_millis()
    ));
    None
}

/// Threads that sleep and look how late they wake, one on each processor.
struct Watch {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Duration>>,
}

impl Watch {
    fn start() -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let watch = |on: usize| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                stay_on(on);
                let mut worst = Duration::ZERO;
                while !stop.load(Ordering::Relaxed) {
                    worst = worst.max(nap().saturating_sub(NAP));
                }
                worst
            })
        };
        let threads = (0..processors).map(watch).collect();
        Watch { stop, threads }
    }

    fn worst(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.threads
            .into_iter()
            .map(|thread| thread.join().expect("it only sleeps"))
            .max()
            .unwrap_or_default()
    }
}

/// How long a nap took.
#[expect(clippy::disallowed_methods, reason = "the machine's time is what is looked at")]
fn nap() -> Duration {
    let began = Instant::now();
    std::thread::sleep(NAP);
    began.elapsed()
}

/// Keeps this thread on one processor; where it is not allowed there, it sees what the others see.
#[expect(unsafe_code, reason = "the kernel's door: affinity")]
fn stay_on(processor: usize) {
    // SAFETY: all zeroes are an empty set, the macro writes into it, and the kernel reads it; of this thread alone.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
