//! System calls of the thread of a shim: clocks, scheduling.
#![expect(unsafe_code, reason = "system calls: clock_gettime, clock_getres, sched_setscheduler")]

use tcpassay_units::Dur;

fn read(
    call: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int,
    clock: libc::clockid_t,
) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both functions write a `timespec` to the given address and do not keep it.
    let result = unsafe { call(clock, &raw mut time) };
    assert!(result == 0, "Linux has this clock");
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("these clocks start at 0")
}

/// `CLOCK_MONOTONIC` in nanoseconds, the clock of the records.
pub fn monotonic() -> u64 {
    read(libc::clock_gettime, libc::CLOCK_MONOTONIC)
}

/// The CPU time of this thread in nanoseconds.
pub fn cpu() -> u64 {
    read(libc::clock_gettime, libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The kernel's tick (1/HZ).
pub fn tick() -> Dur {
    Dur::from_nanos(read(libc::clock_getres, libc::CLOCK_MONOTONIC_COARSE))
}

/// Gives this thread the lowest real-time priority (`SCHED_FIFO`), so that other processes do not delay its decisions. Returns false if
/// the kernel does not permit it.
pub fn use_real_time_priority() -> bool {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads the structure and does not keep its address; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) == 0 }
}
