//! Prefetching of memory that will be read soon.

use std::ops::Range;

/// Prefetches the cache lines of `bytes` of `place`. It has no other effect, and any address is allowed.
#[expect(clippy::inline_always, reason = "a few instructions in the run loop")]
#[inline(always)]
pub(crate) fn prefetch<T>(place: &T, bytes: Range<usize>) {
    #[cfg(target_arch = "x86_64")]
    for at in bytes.step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = std::ptr::from_ref(place).cast::<i8>().wrapping_add(at);
        #[expect(unsafe_code, reason = "the instruction reads and writes nothing, whatever the address")]
        // SAFETY: the instruction is a hint to the processor and accepts any address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line);
        }
    }
}
