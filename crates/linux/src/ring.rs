//! Ring buffers shared with the kernel: of packet sockets, for packets that are received or sent, and of perf events.

#![expect(
    unsafe_code,
    reason = "mappings that the kernel shares and perf_event_open; each block says why it is sound"
)]

use crate::sys::{check, set, set_bytes, text};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A ring buffer that is shared with the kernel, of a packet socket or of a perf event.
pub struct Ring {
    start: *mut u8,
    len: usize,
    socket: OwnedFd,
}

// SAFETY: the mapping belongs to this value alone, and is not bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of `len` bytes of a packet socket or a perf event.
    pub fn map(socket: OwnedFd, len: usize) -> io::Result<Ring> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses; it does not alias other memory.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, socket.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { start: start.cast(), len, socket })
    }

    /// The descriptor of the packet socket or the perf event.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The address of a value of type `T` at byte `offset` of the ring. Panics if it is not inside the ring
    /// or not aligned.
    fn place<T>(&self, offset: usize) -> *mut T {
        let size = size_of::<T>();
        assert!(
            offset.is_multiple_of(size) && offset + size <= self.len,
            "an offset outside the ring, or not aligned"
        );
        // SAFETY: inside the mapping, by the assertion.
        unsafe { self.start.add(offset).cast() }
    }

    /// Reads a 32-bit word that the kernel may write at the same time, with acquire ordering.
    pub fn read(&self, offset: usize) -> u32 {
        // SAFETY: inside the mapping and aligned; the kernel writes the status last, behind a barrier.
        let value = unsafe { self.place::<u32>(offset).read_volatile() };
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        value
    }

    /// Writes a 32-bit word with release ordering, for example the status of a frame that is returned to the kernel.
    pub fn write(&self, offset: usize, value: u32) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        // SAFETY: inside the mapping and aligned; the kernel may read it at any time.
        unsafe { self.place::<u32>(offset).write_volatile(value) };
    }

    /// Sets 32-bit words to 0 with calls of the kernel (readv(2) from `zero`, which is /dev/zero). In User-Mode Linux a write of the process itself
    /// to a page of the ring is a page fault the first time, because the page is mapped read-only until then.
    pub fn clear(&self, zero: BorrowedFd, offsets: &[usize]) -> io::Result<()> {
        const MOST: usize = 1024; // UIO_MAXIOV
        for some in offsets.chunks(MOST) {
            let word = |offset: &usize| libc::iovec {
                iov_base: self.place::<u32>(*offset).cast(),
                iov_len: size_of::<u32>(),
            };
            let words: Vec<libc::iovec> = some.iter().map(word).collect();
            let n = libc::c_int::try_from(words.len()).expect("1024 at most");
            // SAFETY: each entry is a word inside the mapping, to which no slice refers.
            let read = unsafe { libc::readv(zero.as_raw_fd(), words.as_ptr(), n) };
            if read < 0 {
                return Err(io::Error::last_os_error());
            }
            if read.cast_unsigned() != size_of::<u32>() * words.len() {
                return Err(io::Error::other("/dev/zero ended"));
            }
        }
        Ok(())
    }

    /// Reads a 64-bit number that the kernel may write at the same time, with acquire ordering.
    pub fn read_wide(&self, offset: usize) -> u64 {
        // SAFETY: inside the mapping and aligned; the kernel writes it last, behind a barrier.
        let value = unsafe { self.place::<u64>(offset).read_volatile() };
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        value
    }

    /// Writes a 64-bit number with release ordering.
    pub fn write_wide(&self, offset: usize, value: u64) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        // SAFETY: inside the mapping and aligned; the kernel may read it at any time.
        unsafe { self.place::<u64>(offset).write_volatile(value) };
    }

    /// Writes into a frame of a send ring that the process owns, that is, whose status is `TP_STATUS_AVAILABLE`.
    pub fn fill(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len, "bytes outside the ring");
        // SAFETY: inside the mapping; `&mut self` excludes slices of it, and the kernel does not write what is to be sent.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset), bytes.len()) };
    }

    /// Bytes of the ring that the process owns until it returns them to the kernel.
    pub fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        assert!(offset + len <= self.len, "bytes outside the ring");
        // SAFETY: inside the mapping. The kernel does not write a frame that belongs to the process. The callers return a frame to the kernel
        // only after the last use of the slice (the agent's `Tap::drain`, `PerfEvents::drain`).
        unsafe { std::slice::from_raw_parts(self.start.add(offset), len) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`; the borrow checker ends all slices of it before.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// Creates the receive ring of a packet socket (`TPACKET_V2`): `blocks` blocks of `block` bytes with frames of `frame` bytes.
pub fn packet_ring(socket: OwnedFd, block: u32, blocks: u32, frame: u32) -> io::Result<Ring> {
    ring_of(socket, libc::PACKET_RX_RING, [block, blocks, frame])
}

/// Creates the send ring of a packet socket, with the same arguments.
pub fn packet_send_ring(socket: OwnedFd, block: u32, blocks: u32, frame: u32) -> io::Result<Ring> {
    ring_of(socket, libc::PACKET_TX_RING, [block, blocks, frame])
}

fn ring_of(socket: OwnedFd, option: libc::c_int, [block, blocks, frame]: [u32; 3]) -> io::Result<Ring> {
    set(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_VERSION, 1)?;
    let words = [block, blocks, frame, block / frame * blocks];
    let request: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    set_bytes(socket.as_fd(), libc::SOL_PACKET, option, &request)?;
    Ring::map(socket, block as usize * blocks as usize)
}

/// Subscribes to a trace event on a processor, for all processes. A record has a time of `CLOCK_MONOTONIC` and the data of the event.
pub fn trace_event(id: u64, processor: i32) -> io::Result<OwnedFd> {
    // struct perf_event_attr up to `sample_max_stack` (include/uapi/linux/perf_event.h).
    #[repr(C)]
    #[derive(Default)]
    struct Attr {
        kind: u32,
        size: u32,
        config: u64,
        period: u64,
        sample: u64,
        read: u64,
        flags: u64,
        wakeup: u32,
        breakpoint: u32,
        config1: u64,
        config2: u64,
        branch: u64,
        registers: u64,
        stack: u32,
        clock: i32,
        interrupted: u64,
        watermark: u32,
        depth: u32,
    }
    const TRACEPOINT: u32 = 2;
    const TIME_AND_RAW: u64 = 1 << 2 | 1 << 10;
    const USE_CLOCK: u64 = 1 << 25;
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let attr = Attr {
        kind: TRACEPOINT,
        size: u32::try_from(size_of::<Attr>()).expect("112"),
        config: id,
        period: 1,
        sample: TIME_AND_RAW,
        flags: USE_CLOCK,
        // The kernel accepts only clocks that can be read in an NMI, which `CLOCK_REALTIME` cannot.
        clock: libc::CLOCK_MONOTONIC,
        // No event wakes the process, which reads the ring at its ticks. The kernel reads the number as an `int` (`perf_output_sample`):
        // a negative one would cause an interrupt for each event.
        wakeup: i32::MAX.cast_unsigned(),
        ..Attr::default()
    };
    // SAFETY: the kernel reads `size` bytes of the structure; every process (-1), one processor, no group.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, processor, -1, CLOSE_ON_EXEC)
    };
    let fd = check(libc::c_int::try_from(fd).expect("a descriptor"))?;
    // SAFETY: the system call returned a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets the kernel record only those events of a trace event that pass a filter (`Documentation/trace/events.rst`).
pub fn filter_events(event: BorrowedFd, filter: &str) -> io::Result<()> {
    let filter = text(filter);
    // PERF_EVENT_IOC_SET_FILTER = _IOW('$', 6, char *).
    // SAFETY: takes a descriptor and a NUL-terminated string that outlives the call.
    check(unsafe { libc::ioctl(event.as_raw_fd(), 0x4008_2406, filter.as_ptr()) }).map(drop)
}

/// Lets the kernel write the events of `from` to the ring of `into`.
pub fn write_events_to(from: BorrowedFd, into: BorrowedFd) -> io::Result<()> {
    // PERF_EVENT_IOC_SET_OUTPUT = _IO('$', 5).
    // SAFETY: takes two descriptors.
    check(unsafe { libc::ioctl(from.as_raw_fd(), 0x2405, into.as_raw_fd()) }).map(drop)
}

/// Counts no more events of a perf event, and records no more.
pub fn stop_events(event: BorrowedFd) -> io::Result<()> {
    // PERF_EVENT_IOC_DISABLE = _IO('$', 1).
    // SAFETY: takes a descriptor.
    check(unsafe { libc::ioctl(event.as_raw_fd(), 0x2401, 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn words_of_a_ring_are_cleared_by_the_kernel_and_others_stay() {
        let path = std::env::temp_dir().join(format!("tcpassay-ring-{}", std::process::id()));
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(65_536).unwrap();
        let ring = Ring::map(file.into(), 65_536).unwrap();
        let all: Vec<usize> = (0..16_384).map(|word| 4 * word).collect();
        for at in &all {
            ring.write(*at, 7);
        }
        // More words than one call takes.
        let (cleared, kept): (Vec<usize>, Vec<usize>) = all.iter().partition(|at| *at % 8 == 0);
        ring.clear(File::open("/dev/zero").unwrap().as_fd(), &cleared).unwrap();
        assert_eq!(cleared.len(), 8192);
        assert!(cleared.iter().all(|at| ring.read(*at) == 0));
        assert!(kept.iter().all(|at| ring.read(*at) == 7));
    }
}
