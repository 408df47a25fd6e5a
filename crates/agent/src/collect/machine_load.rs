//! How busy this machine is, before a run in real time and during it: rows of the recording, entity `machine`.
//!
//! | property | unit | meaning |
//! | --- | --- | --- |
//! | `busy_before` | share | of all processors that something ran on, in the last 200 ms before the run; asked: a fifth at most |
//! | `busy_others` | share | of all processors taken by other processes during the run (and by interrupts that are not accounted to us) |
//! | `stolen` | share | of all processors that a hypervisor took away during the run |
//! | `agent_cpu` | s | time of the processor that the agent took: applications, collectors, and what of the network runs in its name |
//! | `late` | s | the most by which the agent was late for one of its ticks: nothing of it happened for so long |
//! | `load` | 1 | load average of one minute at the end |

use crate::system::Failure;
use std::fs;
use std::time::Duration;
use tcpassay_linux::sys;
use tcpassay_measure::EnvironmentProperty;
use tcpassay_units::Dur;

/// Beyond this share of busy processors a run waits.
const QUIET: f64 = 0.2;
const LOOK: Duration = Duration::from_millis(200);

/// Lets real time pass.
#[expect(clippy::disallowed_methods, reason = "a run on this machine waits for the machine")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Ticks of all processors since boot.
#[derive(Clone, Copy, PartialEq, Debug)]
struct CpuTicks {
    all: u64,
    idle: u64,
    stolen: u64,
}

/// The machine at the start of a run.
pub struct MachineLoad {
    busy_before: f64,
    ticks: CpuTicks,
    cpu: u64,
    /// Difference of the clock that is set and the one that is not.
    offset: u64,
    steady: u64,
}

impl MachineLoad {
    /// Waits until the machine is quiet, for at most `patience`.
    pub fn before(patience: Duration) -> Result<MachineLoad, Failure> {
        let since = sys::steady();
        loop {
            let first = ticks()?;
            pause(LOOK);
            let ticks = ticks()?;
            let busy_before = share(first, ticks, |a, b| (b.all - a.all) - (b.idle - a.idle));
            if busy_before <= QUIET || u128::from(sys::steady() - since) >= patience.as_nanos() {
                let (now, steady) = (sys::now(), sys::steady());
                return Ok(MachineLoad { busy_before, ticks, cpu: sys::cpu(), offset: now - steady, steady });
            }
        }
    }

    /// Time of the processor that this process has taken since, in nanoseconds.
    pub fn own_cpu(&self) -> u64 {
        sys::cpu() - self.cpu
    }

    /// Rows of the recording, at the end of the run, in which a tick was `late` at most.
    pub fn after(self, late: Dur) -> Result<Vec<EnvironmentProperty>, Failure> {
        let steady = sys::steady();
        // Nobody reads two clocks at once; a clock that is set jumps by more, and one that is slewed by less.
        if (sys::now() - steady).abs_diff(self.offset) > 5_000_000 {
            return Err("the machine's clock was set while the case ran; run it again".to_owned());
        }
        let end = ticks()?;
        let busy = share(self.ticks, end, |a, b| (b.all - a.all) - (b.idle - a.idle) - (b.stolen - a.stolen));
        let processors = float(std::thread::available_parallelism().map_or(1, |n| n.get() as u64));
        let cpu = float(self.own_cpu()) / 1e9;
        let own = cpu / (float(steady - self.steady) / 1e9) / processors;
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
            row("stolen", "share", None, Some(share(self.ticks, end, |a, b| b.stolen - a.stolen))),
            row("agent_cpu", "s", None, Some(cpu)),
            row("late", "s", None, Some(float(late.as_nanos()) / 1e9)),
            row("load", "1", None, load),
        ])
    }
}

fn share(a: CpuTicks, b: CpuTicks, of: impl Fn(CpuTicks, CpuTicks) -> u64) -> f64 {
    float(of(a, b)) / float((b.all - a.all).max(1))
}

#[expect(clippy::cast_precision_loss, reason = "ticks and nanoseconds below 2^53")]
fn float(n: u64) -> f64 {
    n as f64
}

fn ticks() -> Result<CpuTicks, Failure> {
    let text = fs::read_to_string("/proc/stat").map_err(|e| format!("/proc/stat: {e}"))?;
    parse(&text).ok_or_else(|| "/proc/stat does not begin as proc(5) has it".to_owned())
}

/// proc(5): `cpu user nice system idle iowait irq softirq steal guest guest_nice`; the last two are within the first two.
fn parse(text: &str) -> Option<CpuTicks> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let all = fields.get(..8)?;
    Some(CpuTicks { all: all.iter().sum(), idle: all[3] + all[4], stolen: all[7] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_idle_and_guests_are_not_counted_twice() {
        let text = "cpu  10 1 5 100 4 1 2 7 3 1\ncpu0 1 1 1 1\n";
        assert_eq!(parse(text), Some(CpuTicks { all: 130, idle: 104, stolen: 7 }));
        let later = CpuTicks { all: 230, idle: 179, stolen: 12 };
        let busy = share(parse(text).unwrap(), later, |a, b| (b.all - a.all) - (b.idle - a.idle));
        assert!((busy - 0.25).abs() < 1e-9);
    }
}
