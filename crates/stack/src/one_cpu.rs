//! One CPU for a thread and the processes that it talks to.
//!
//! Of a run and its processes exactly one computes at a time, and the others wait for it. A wake-up on another CPU is an
//! interrupt there, often of a CPU that sleeps; on the same CPU it is a switch between two processes.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::cell::RefCell;

thread_local! {
    /// The CPUs that the thread may use otherwise, and the number of [`OneCpu`].
    static HELD: RefCell<Option<(CpuSet, usize)>> = const { RefCell::new(None) };
}

/// While it exists, this thread and the processes that it starts use the CPU on which the thread was. Without the permission
/// for that nothing changes.
#[derive(Debug)]
pub(crate) struct OneCpu;

impl OneCpu {
    pub fn hold() -> OneCpu {
        HELD.with_borrow_mut(|held| {
            if let Some((_, count)) = held {
                *count += 1;
                return;
            }
            let Ok(all) = sched_getaffinity(None) else { return };
            let mut one = CpuSet::new();
            one.set(sched_getcpu());
            if sched_setaffinity(None, &one).is_ok() {
                *held = Some((all, 1));
            }
        });
        OneCpu
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| match held {
            Some((_, count)) if *count > 1 => *count -= 1,
            Some((all, _)) => {
                let _ = sched_setaffinity(None, all);
                *held = None;
            }
            None => {}
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_one_cpu_until_the_last_hold_ends() {
        let allowed = || sched_getaffinity(None).expect("of this thread").count();
        let all = allowed();
        let first = OneCpu::hold();
        let second = OneCpu::hold();
        assert_eq!(allowed(), 1);
        drop(first);
        assert_eq!(allowed(), 1);
        drop(second);
        assert_eq!(allowed(), all);
    }
}
