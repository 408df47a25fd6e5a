//! The memory of this program.

#![expect(
    unsafe_code,
    reason = "the addresses of the program, and madvise and mprotect; each block says why it is sound"
)]

use super::call::check;
use std::io;

unsafe extern "C" {
    /// The first byte of the program; the linker defines it.
    static __executable_start: u8;
    /// The first byte behind its code; the linker defines it.
    static etext: u8;
}

/// Maps the constants and the code of this program at once (`MADV_POPULATE_READ`, Linux 5.14), instead of with a page fault for each page.
///
/// User-Mode Linux maps the pages in the process only when the protection of their range changes (`fix_range` of arch/um/kernel/tlb.c); the
/// protection is the same afterwards.
pub fn map_program() -> io::Result<()> {
    const PAGE: usize = 4096;
    const CODE: libc::c_int = libc::PROT_READ | libc::PROT_EXEC;
    let start = (&raw const __executable_start).cast_mut();
    let len = ((&raw const etext).addr() - start.addr()).next_multiple_of(PAGE);
    // SAFETY: the range is that of the program's constants and code, which are read only.
    check(unsafe { libc::madvise(start.cast(), len, libc::MADV_POPULATE_READ) })?;
    for protection in [CODE | libc::PROT_WRITE, CODE] {
        // SAFETY: the same range, which can be read and executed at all times, and into which nothing writes.
        check(unsafe { libc::mprotect(start.cast(), len, protection) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_on_after_its_code_and_constants_were_mapped() {
        map_program().unwrap();
        assert_eq!(std::hint::black_box("constants").len(), 9);
    }
}
