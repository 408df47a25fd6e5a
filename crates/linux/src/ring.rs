//! Rings that the kernel fills: of a packet socket, and of trace events.

#![expect(
    unsafe_code,
    reason = "mappings that the kernel shares and perf_event_open; each block says why it is sound"
)]

use crate::sys::{check, set, set_bytes};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A mapping of a packet socket's or an event's ring, shared with the kernel.
pub struct Ring {
    start: *mut u8,
    len: usize,
    socket: OwnedFd,
}

impl Ring {
    /// Maps the `len` bytes of the ring that was set up on `socket`.
    pub fn map(socket: OwnedFd, len: usize) -> io::Result<Ring> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping wherever the kernel likes; it aliases nothing of ours.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, socket.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { start: start.cast(), len, socket })
    }

    /// The packet socket, or the event.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// A number of the mapping.
    fn place<T>(&self, offset: usize) -> *mut T {
        let size = size_of::<T>();
        assert!(offset.is_multiple_of(size) && offset + size <= self.len, "a number outside the ring");
        // SAFETY: inside the mapping, by the assertion.
        unsafe { self.start.add(offset).cast() }
    }

    /// A 32-bit word that the kernel may be writing.
    pub fn read(&self, offset: usize) -> u32 {
        // SAFETY: inside the mapping and aligned; the kernel writes the status last, behind a barrier.
        let value = unsafe { self.place::<u32>(offset).read_volatile() };
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        value
    }

    /// Hands a frame back.
    pub fn write(&self, offset: usize, value: u32) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        // SAFETY: inside the mapping and aligned; the kernel reads it when it wants the frame.
        unsafe { self.place::<u32>(offset).write_volatile(value) };
    }

    /// A 64-bit number that the kernel may be writing.
    pub fn read_wide(&self, offset: usize) -> u64 {
        // SAFETY: inside the mapping and aligned; the kernel writes it last, behind a barrier.
        let value = unsafe { self.place::<u64>(offset).read_volatile() };
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        value
    }

    /// Tells the kernel a 64-bit number.
    pub fn write_wide(&self, offset: usize, value: u64) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        // SAFETY: inside the mapping and aligned; the kernel reads it when it looks for room.
        unsafe { self.place::<u64>(offset).write_volatile(value) };
    }

    /// Bytes of a frame that the kernel has handed over.
    pub fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        assert!(offset + len <= self.len, "bytes outside the ring");
        // SAFETY: inside the mapping; the kernel does not write a frame that it has handed over, and `&self` keeps it
        // from being handed back while the slice lives only by the caller's order: see `Tap::drain`.
        unsafe { std::slice::from_raw_parts(self.start.add(offset), len) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, which nothing uses any more.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// Sets up a ring of a packet socket (`TPACKET_V2`) and maps it.
pub fn packet_ring(socket: OwnedFd, block: u32, blocks: u32, frame: u32) -> io::Result<Ring> {
    set(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_VERSION, 1)?;
    let words = [block, blocks, frame, block / frame * blocks];
    let request: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    set_bytes(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    Ring::map(socket, block as usize * blocks as usize)
}

/// A descriptor that collects a trace event on a processor, each with the instant of `CLOCK_MONOTONIC`'s clock and its record.
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
        // The kernel takes no clock here that an interrupt could find half set, as the real one.
        clock: libc::CLOCK_MONOTONIC,
        // Nobody waits for a ring: it is looked at now and then.
        wakeup: u32::MAX,
        ..Attr::default()
    };
    // SAFETY: the kernel reads `size` bytes of the structure; every process (-1), one processor, no group.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, processor, -1, CLOSE_ON_EXEC)
    };
    let fd = check(libc::c_int::try_from(fd).expect("a descriptor"))?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Has the events of `from` written into the ring of `into`.
pub fn write_events_to(from: BorrowedFd, into: BorrowedFd) -> io::Result<()> {
    // PERF_EVENT_IOC_SET_OUTPUT = _IO('$', 5).
    // SAFETY: takes two descriptors.
    check(unsafe { libc::ioctl(from.as_raw_fd(), 0x2405, into.as_raw_fd()) }).map(drop)
}
