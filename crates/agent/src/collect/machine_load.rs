//! The load of this machine before and during a run in real time. The rows of the recording have the entity
//! `machine`.
//!
//! | property | unit | meaning |
//! | --- | --- | --- |
//! | `busy_before` | share | busy processors in at least 200 ms before the run, without the agent that builds the network; the run waits until it is at most 0.2 |
//! | `busy_others` | share | processors used by other processes, and by interrupts that are not accounted to the agent |
//! | `interrupts` | share | processors that handle interrupts, hard and soft |
//! | `stolen` | share | processors that a hypervisor took away |
//! | `agent_cpu` | s | CPU time of the agent: applications, collectors, and the network stack on its behalf |
//! | `late` | s | the longest delay of a tick of the agent |
//! | `start` | s | the delay of the first action of the applications after the agreed start |
//! | `load` | 1 | the load average of one minute at the end of the run |

use crate::system::Failure;
use std::fs;
use std::time::Duration;
use tcpassay_linux::sys;
use tcpassay_measure::EnvironmentProperty;
use tcpassay_units::Dur;

/// A run waits while a larger share of the processors is busy.
const QUIET: f64 = 0.2;
/// The time over which that share is measured.
const INTERVAL: Duration = Duration::from_millis(200);

/// A measurement may have begun this long before the run whose load it measures.
const RECENT: Duration = Duration::from_millis(500);

/// Sleeps in real time.
#[expect(clippy::disallowed_methods, reason = "a run in real time waits for other processes")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Clock ticks of all processors since boot.
#[derive(Clone, Copy, PartialEq, Debug)]
struct CpuTicks {
    all: u64,
    idle: u64,
    interrupts: u64,
    stolen: u64,
}

/// The beginning of a measurement of the load.
pub struct LoadSince {
    at: u64,
    ticks: CpuTicks,
    /// CPU time of this process and of its children that have ended, in nanoseconds.
    own: u64,
}

impl LoadSince {
    /// A measurement that begins now.
    pub fn now() -> Result<LoadSince, Failure> {
        Ok(LoadSince {
            at: sys::monotonic(),
            ticks: ticks()?,
            own: sys::cpu_time() + sys::children_cpu_time(),
        })
    }

    /// A measurement that begins now, for a process that will be created later.
    pub fn before_a_process() -> Result<LoadSince, Failure> {
        Ok(LoadSince { own: 0, ..LoadSince::now()? })
    }

    /// The measurement of a run whose process will be created now: the one that has begun with the idle time before it, unless that was long ago.
    pub fn of_run(idle: Option<LoadSince>) -> Result<LoadSince, Failure> {
        let now = sys::monotonic();
        idle.filter(|idle| idle.is_recent(now)).map_or_else(LoadSince::before_a_process, Ok)
    }

    /// Returns true if it began a short time before `now`.
    fn is_recent(&self, now: u64) -> bool {
        u128::from(now.saturating_sub(self.at)) <= RECENT.as_nanos()
    }

    /// The share of busy processors until `now`, without the work of this process and its children.
    fn busy(&self, now: &LoadSince, processors: f64) -> f64 {
        let busy = share(self.ticks, now.ticks, |a, b| (b.all - a.all) - (b.idle - a.idle));
        let own = float(now.own - self.own) / float((now.at - self.at).max(1)) / processors;
        (busy - own).max(0.0)
    }
}

/// The state of the machine at the start of a run.
pub struct MachineLoad {
    busy_before: f64,
    ticks: CpuTicks,
    /// CPU time of the process in nanoseconds.
    cpu: u64,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, in nanoseconds.
    offset: u64,
    monotonic: u64,
}

impl MachineLoad {
    /// Waits until few processors are busy, for at most `max_wait`. `first` is a measurement that has already begun; the time since its
    /// beginning counts as waiting time. `wait` sleeps for a duration; its error ends the wait.
    pub fn when_quiet(
        first: LoadSince,
        max_wait: Duration,
        mut wait: impl FnMut(Duration) -> Result<(), Failure>,
    ) -> Result<MachineLoad, Failure> {
        let begun = sys::monotonic();
        let mut since = first;
        loop {
            let passed = Duration::from_nanos(sys::monotonic() - since.at);
            wait(INTERVAL.saturating_sub(passed))?;
            let busy_before = since.busy(&LoadSince::now()?, processors());
            if busy_before <= QUIET || u128::from(sys::monotonic() - begun) >= max_wait.as_nanos() {
                return Ok(MachineLoad {
                    busy_before,
                    ticks: ticks()?,
                    cpu: sys::cpu_time(),
                    offset: sys::realtime_offset(),
                    monotonic: sys::monotonic(),
                });
            }
            since = LoadSince::now()?;
        }
    }

    /// CPU time of this process since the start of the run, in nanoseconds.
    pub fn own_cpu(&self) -> u64 {
        sys::cpu_time() - self.cpu
    }

    /// The rows of the recording, at the end of a run in which the longest delay of a tick was `late`, and that of the first action `start`.
    pub fn finish(self, late: Dur, start: Dur) -> Result<Vec<EnvironmentProperty>, Failure> {
        let monotonic = sys::monotonic();
        // A clock may be slewed. If it was set, it differs by more than 5 ms.
        if sys::realtime_offset().abs_diff(self.offset) > 5_000_000 {
            return Err("the clock of this machine was set during the run; run the case again".to_owned());
        }
        let end = ticks()?;
        let busy = share(self.ticks, end, |a, b| (b.all - a.all) - (b.idle - a.idle) - (b.stolen - a.stolen));
        let cpu = float(self.own_cpu()) / 1e9;
        let own = cpu / (float(monotonic - self.monotonic) / 1e9) / processors();
        let load = fs::read_to_string("/proc/loadavg").ok();
        let load = load.and_then(|text| text.split(' ').next()?.parse().ok());
        let row = |property: &str, unit: &str, asked, measured| EnvironmentProperty {
            entity: "machine".to_owned(),
            property: property.to_owned(),
            unit: unit.to_owned(),
            asked,
            measured,
        };
        Ok(vec![
            row("busy_before", "share", Some(QUIET), Some(self.busy_before)),
            row("busy_others", "share", None, Some((busy - own).max(0.0))),
            row(
                "interrupts",
                "share",
                None,
                Some(share(self.ticks, end, |a, b| b.interrupts - a.interrupts)),
            ),
            row("stolen", "share", None, Some(share(self.ticks, end, |a, b| b.stolen - a.stolen))),
            row("agent_cpu", "s", None, Some(cpu)),
            row("late", "s", None, Some(float(late.as_nanos()) / 1e9)),
            row("start", "s", None, Some(float(start.as_nanos()) / 1e9)),
            row("load", "1", None, load),
        ])
    }
}

/// The share of a kind of ticks (`of`) in all ticks between two instants.
fn share(a: CpuTicks, b: CpuTicks, of: impl Fn(CpuTicks, CpuTicks) -> u64) -> f64 {
    float(of(a, b)) / float((b.all - a.all).max(1))
}

/// The number of processors.
fn processors() -> f64 {
    float(std::thread::available_parallelism().map_or(1, |n| n.get() as u64))
}

#[expect(clippy::cast_precision_loss, reason = "ticks and nanoseconds below 2^53")]
fn float(n: u64) -> f64 {
    n as f64
}

fn ticks() -> Result<CpuTicks, Failure> {
    let text = fs::read_to_string("/proc/stat").map_err(|e| format!("/proc/stat: {e}"))?;
    parse(&text).ok_or_else(|| "the first line of /proc/stat does not have the format of proc(5)".to_owned())
}

/// The first line of `/proc/stat` (proc(5)): `cpu user nice system idle iowait irq softirq steal guest guest_nice`. The values of `guest`
/// and `guest_nice` are contained in `user` and `nice`.
fn parse(text: &str) -> Option<CpuTicks> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let all = fields.get(..8)?;
    Some(CpuTicks {
        all: all.iter().sum(),
        idle: all[3] + all[4],
        interrupts: all[5] + all[6],
        stolen: all[7],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(at: u64, all: u64, idle: u64, own: u64) -> LoadSince {
        LoadSince { at, ticks: CpuTicks { all, idle, interrupts: 0, stolen: 0 }, own }
    }

    #[test]
    fn the_agents_own_work_is_no_load() {
        // Of 40 ticks of two processors in 200 ms 30 were idle; the agent worked for 60 ms, which are 15 % of both processors.
        let busy = since(0, 100, 50, 0).busy(&since(200_000_000, 140, 80, 60_000_000), 2.0);
        assert!((busy - 0.1).abs() < 1e-9);
        assert!(since(0, 100, 50, 0).busy(&since(200_000_000, 140, 80, 400_000_000), 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_time_since_the_last_run_counts_for_the_next_one_if_it_is_short() {
        let idle = since(1_000_000_000, 0, 0, 0);
        assert!(idle.is_recent(1_500_000_000));
        assert!(!idle.is_recent(1_500_000_001));
    }

    #[test]
    fn waiting_for_a_disk_is_idle_and_guests_are_not_counted_twice() {
        let text = "cpu  10 1 5 100 4 1 2 7 3 1\ncpu0 1 1 1 1\n";
        assert_eq!(parse(text), Some(CpuTicks { all: 130, idle: 104, interrupts: 3, stolen: 7 }));
        let later = CpuTicks { all: 230, idle: 179, interrupts: 3, stolen: 12 };
        let busy = share(parse(text).unwrap(), later, |a, b| (b.all - a.all) - (b.idle - a.idle));
        assert!((busy - 0.25).abs() < 1e-9);
    }
}
