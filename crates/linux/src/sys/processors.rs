//! The processors on which a thread may run (`sched_setaffinity(2)`).

use super::check;
use std::io;
use std::mem::size_of;

/// A set of processors.
#[derive(Clone)]
pub struct Processors(libc::cpu_set_t);

impl Processors {
    /// The processors on which this thread may run.
    pub fn allowed() -> io::Result<Processors> {
        let mut set = Processors::none();
        // SAFETY: the kernel writes at most the size of the set, which outlives the call.
        check(unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set.0) })?;
        Ok(set)
    }

    fn none() -> Processors {
        // SAFETY: every bit pattern of the set is valid, zeros included.
        Processors(unsafe { std::mem::zeroed() })
    }

    /// The numbers of the processors, in ascending order.
    pub fn numbers(&self) -> Vec<usize> {
        let size = usize::try_from(libc::CPU_SETSIZE).expect("a number of bits");
        // SAFETY: the numbers are below the size of the set.
        (0..size).filter(|number| unsafe { libc::CPU_ISSET(*number, &self.0) }).collect()
    }

    /// The processor of the set that is at `place`, counted around its end.
    #[must_use]
    pub fn one(&self, place: usize) -> Processors {
        let numbers = self.numbers();
        let mut set = Processors::none();
        if let Some(number) = numbers.get(place % numbers.len().max(1)) {
            // SAFETY: the number is below the size of the set.
            unsafe { libc::CPU_SET(*number, &mut set.0) };
        }
        set
    }

    /// Lets this thread run on these processors only.
    pub fn apply(&self) -> io::Result<()> {
        // SAFETY: the kernel reads the set, which outlives the call.
        check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const self.0) })
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_on_one_processor_until_it_may_run_on_all_again() {
        let before = Processors::allowed().unwrap();
        let all = before.numbers();
        for place in 0..=all.len() {
            let one = before.one(place);
            one.apply().unwrap();
            assert_eq!(Processors::allowed().unwrap().numbers(), [all[place % all.len()]]);
        }
        before.apply().unwrap();
        assert_eq!(Processors::allowed().unwrap().numbers(), all);
    }
}
