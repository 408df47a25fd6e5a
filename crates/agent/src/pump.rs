//! Bulk transfers in a guest: a thread for each end that does nothing but send, or nothing but read, so that the data move
//! inside the kernel and the agent is not woken for a packet.
//!
//! In a guest what costs is the step between a process and the kernel, some ten microseconds of the machine. One blocking call
//! sends or takes a gigabyte and makes no such step while it waits: the kernel reads at once what arrives and fills the
//! send buffer when there is room, exactly as for a process that is woken each time and calls again, in no (virtual) time.

use crate::sys;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// A call's worth: what the kernel takes in one.
const CHUNK: usize = 1 << 20;
const CHUNKS: usize = 1000;
const STACK: usize = 64 << 10;

/// An end that is read for; ends with the stream, and says how much it was.
pub type Reader = JoinHandle<u64>;

/// Takes everything that arrives, to the end of the stream or an error.
pub fn read(fd: OwnedFd) -> io::Result<Reader> {
    sys::make_blocking(fd.as_fd())?;
    Builder::new().stack_size(STACK).spawn(move || {
        let mut taken = 0;
        while let Ok(n @ 1..) = sys::discard_all(fd.as_fd(), CHUNK * CHUNKS) {
            taken += n as u64;
        }
        taken
    })
}

/// Sends without end, until the socket fails or its direction is closed.
pub fn write(fd: OwnedFd, payload: Arc<[u8]>) -> io::Result<()> {
    sys::make_blocking(fd.as_fd())?;
    let sending = move || while sys::send_again(fd.as_fd(), &payload, CHUNKS).is_ok() {};
    Builder::new().stack_size(STACK).spawn(sending).map(drop)
}
