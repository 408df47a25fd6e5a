//! The clocks and the scheduler of the kernel.
#![expect(unsafe_code, reason = "the kernel's door: clock_gettime, clock_getres, sched_setscheduler")]

use tcpassay_units::Dur;

fn read(
    call: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int,
    clock: libc::clockid_t,
) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both functions write a `timespec` to the address given, which is that of one, and keep nothing.
    let result = unsafe { call(clock, &raw mut time) };
    assert!(result == 0, "Linux has this clock");
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("these clocks start at 0")
}

/// Nanoseconds of the clock that BPF's records bear.
pub fn monotonic() -> u64 {
    read(libc::clock_gettime, libc::CLOCK_MONOTONIC)
}

/// CPU nanoseconds of this thread.
pub fn cpu() -> u64 {
    read(libc::clock_gettime, libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The kernel's tick (1/HZ).
pub fn tick() -> Dur {
    Dur::from_nanos(read(libc::clock_getres, libc::CLOCK_MONOTONIC_COARSE))
}

/// Puts this thread before all ordinary ones (`SCHED_FIFO`, the lowest of its priorities), so that a busy machine does not delay what it
/// decides; whether the kernel allowed it.
pub fn before_others() -> bool {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads the structure and keeps nothing; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) == 0 }
}
