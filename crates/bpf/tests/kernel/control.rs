//! An independent observation of the machine while a test runs in real time, as `tests/control.py` has it for Python.
//!
//! What holds on every machine is asserted of every run. What holds only on a machine with time for the run (throughput, no loss, prompt
//! decisions) is asserted too; such an assertion may fail only while this control saw a disturbance: a thread that only
//! sleeps woke up late, or other processes took much of the processors. The control does not depend on the tested code.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const ATTEMPTS: usize = 4;
const NAP: Duration = Duration::from_micros(500);
/// A nap that ends later than this is a disturbance. The queue of the shaper in these tests holds 9.6 ms.
const LATE: Duration = Duration::from_millis(4);
/// A larger share of all processors that other processes took is a disturbance, in percent.
const OTHERS: u64 = 25;

/// Prints a line that is shown although the test passes.
pub fn say(line: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    writeln!(std::io::stderr(), "{test}: {line}").expect("standard error is open");
}

/// Calls `run`, and `expect` with its result, until `expect` holds.
///
/// A panic of `run` fails the test. A panic of `expect` fails it unless the control saw a disturbance during the run; then the
/// run is repeated. After `ATTEMPTS` disturbed runs a line on standard error says that `expect` never held.
pub fn passes<T>(mut run: impl FnMut() -> T, expect: impl Fn(&T)) {
    let mut disturbances = Vec::new();
    for _ in 0..ATTEMPTS {
        let control = Control::start();
        let made = run();
        let seen = control.stop();
        match catch_unwind(AssertUnwindSafe(|| expect(&made))) {
            Ok(()) => return,
            Err(failure) if !seen.disturbed() => resume_unwind(failure),
            Err(_) => disturbances.push(format!(
                "a nap was {:.1} ms late, others took {} % of the processors",
                seen.late.as_secs_f64() * 1e3,
                seen.others
            )),
        }
    }
    say(&format!(
        "skipped in part: the machine had no time in {ATTEMPTS} attempts: {}",
        disturbances.join("; ")
    ));
}

/// The disturbances that the control observed.
struct Seen {
    late: Duration,
    others: u64,
}

impl Seen {
    fn disturbed(&self) -> bool {
        self.late > LATE || self.others > OTHERS
    }
}

/// Threads that sleep and measure how late they wake, as many as there are processors.
struct Control {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Duration>>,
    ticks: [u64; 3],
}

impl Control {
    fn start() -> Control {
        let stop = Arc::new(AtomicBool::new(false));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let watch = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut latest = Duration::ZERO;
                while !stop.load(Ordering::Relaxed) {
                    latest = latest.max(nap().saturating_sub(NAP));
                }
                latest
            })
        };
        Control { threads: (0..processors).map(watch).collect(), stop, ticks: ticks() }
    }

    fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let late = self.threads.into_iter().map(|thread| thread.join().expect("it only sleeps")).max();
        let [all, idle, own] = ticks();
        let (all, idle, own) = (all - self.ticks[0], idle - self.ticks[1], own - self.ticks[2]);
        Seen { late: late.unwrap_or_default(), others: 100 * all.saturating_sub(idle + own) / all.max(1) }
    }
}

/// Ticks of all processors, the idle ones among them, and those of this process and of its children that have ended (proc(5)).
fn ticks() -> [u64; 3] {
    let numbers = |path: &str, from: usize, n: usize| -> Vec<u64> {
        let text = std::fs::read_to_string(path).expect("proc is mounted");
        // In /proc/self/stat the name of the program is in parentheses and may contain spaces.
        let line = text.lines().next().expect("a line");
        let fields = line.rsplit_once(')').map_or(line, |(_, rest)| rest);
        let words = fields.split_whitespace().skip(from).take(n);
        words.map(|word| word.parse().expect("a number")).collect()
    };
    let all = numbers("/proc/stat", 1, 8);
    [all.iter().sum(), all[3] + all[4], numbers("/proc/self/stat", 11, 4).iter().sum()]
}

/// The duration of a nap.
#[expect(clippy::disallowed_methods, reason = "the control measures real time")]
fn nap() -> Duration {
    let began = Instant::now();
    std::thread::sleep(NAP);
    began.elapsed()
}
