//! Memory that will be looked at soon, fetched so that nobody waits for it then.

use std::ops::Range;

/// Has the cache lines of `bytes` of `place` fetched. It changes nothing, not even where there is no such memory.
#[expect(clippy::inline_always, reason = "a few instructions in the run loop")]
#[inline(always)]
pub(crate) fn prefetch<T>(place: &T, bytes: Range<usize>) {
    #[cfg(target_arch = "x86_64")]
    for at in bytes.step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = std::ptr::from_ref(place).cast::<i8>().wrapping_add(at);
        #[expect(unsafe_code, reason = "the instruction reads and writes nothing, whatever the address")]
        // SAFETY: a hint to the processor, which takes any address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line);
        }
    }
}
