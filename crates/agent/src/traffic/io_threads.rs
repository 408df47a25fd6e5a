//! Threads that move data inside the kernel: bulk transfers in a guest, and blocking writes.
//!
//! In a guest a system call is slow: a step between a process and the kernel takes about ten microseconds of the machine. One blocking
//! call sends or receives a gigabyte and takes no such step while it waits. The kernel reads at once what arrives and fills the
//! send buffer when there is room, as for a process that is woken each time and calls again. No virtual time passes.
//!
//! With `app.blocking` every socket that writes has a thread, whose calls return when all bytes are in the send buffer. The next write of
//! the connection waits for that. Reads do not wait: a blocking read returns with what has arrived as soon as anything has.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use tcpassay_linux::sys;

/// The bytes of one part of a call.
const CHUNK: usize = 1 << 20;
/// The parts of one call.
const CHUNKS: usize = 1000;
/// The stack of a thread in bytes.
const STACK: usize = 64 << 10;

/// A thread that reads to the end of a stream, and returns the number of bytes.
pub type ReaderThread = JoinHandle<u64>;

/// Starts a thread that reads everything that arrives, until the end of the stream or an error.
pub fn start_reader(fd: OwnedFd) -> io::Result<ReaderThread> {
    sys::make_blocking(fd.as_fd())?;
    Builder::new().stack_size(STACK).spawn(move || {
        let mut taken = 0;
        while let Ok(n @ 1..) = sys::discard_all(fd.as_fd(), CHUNK * CHUNKS) {
            taken += n as u64;
        }
        taken
    })
}

/// Starts a thread that sends without end, until the socket fails or its direction is closed.
pub fn start_sender(fd: OwnedFd, payload: &'static [u8]) -> io::Result<()> {
    sys::make_blocking(fd.as_fd())?;
    let sending = move || while sys::send_again(fd.as_fd(), payload, CHUNKS).is_ok() {};
    Builder::new().stack_size(STACK).spawn(sending).map(drop)
}

/// A command to the thread of a blocking writer. Commands are executed in order.
enum Command {
    Write(u64),
    Shutdown,
}

/// The thread that makes the blocking calls of a socket. After the handle is dropped, the thread executes the remaining commands and
/// closes the socket.
pub struct BlockingWriter {
    commands: Sender<Command>,
    /// A write has not returned.
    pub busy: bool,
}

/// The state that the threads of all blocking writers share with the event loop.
pub struct BlockingWriters {
    /// Readable when a write has returned.
    pub eventfd: OwnedFd,
    returned: Receiver<usize>,
    sender: Sender<usize>,
    waited: Arc<AtomicU64>,
}

impl BlockingWriters {
    pub fn new() -> io::Result<BlockingWriters> {
        let (sender, returned) = channel();
        Ok(BlockingWriters { eventfd: sys::eventfd()?, returned, sender, waited: Arc::default() })
    }

    /// The endpoints whose writes have returned since the last call.
    pub fn returned(&self) -> Vec<usize> {
        // The call fails if an earlier call has already received the results for which the eventfd was written.
        let _ = sys::eventfd_reset(self.eventfd.as_fd());
        self.returned.try_iter().collect()
    }

    /// The number of writes that had to wait for room in the send buffer.
    pub fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }

    /// Starts the thread of endpoint `at`.
    pub fn start(&self, at: usize, fd: OwnedFd, payload: &'static [u8]) -> io::Result<BlockingWriter> {
        sys::make_blocking(fd.as_fd())?;
        let (commands, received) = channel();
        let (sender, waited, eventfd) =
            (self.sender.clone(), Arc::clone(&self.waited), self.eventfd.try_clone()?);
        Builder::new().stack_size(STACK).spawn(move || {
            for command in received {
                match command {
                    Command::Write(n) => {
                        waited.fetch_add(u64::from(write_all(&fd, payload, n)), Ordering::Relaxed);
                        // Both calls fail only after the end of the run.
                        let _ = sender.send(at);
                        let _ = sys::eventfd_add(eventfd.as_fd());
                    }
                    Command::Shutdown => drop(sys::shutdown_write(fd.as_fd())),
                }
            }
        })?;
        Ok(BlockingWriter { commands, busy: false })
    }
}

impl BlockingWriter {
    /// Starts a write that returns when all bytes are in the send buffer.
    pub fn write(&mut self, n: u64) {
        self.busy = self.commands.send(Command::Write(n)).is_ok();
    }

    /// Closes the outgoing direction after the writes before.
    pub fn shutdown(&self) {
        // The thread lives at least as long as this handle, so that the channel is open.
        let _ = self.commands.send(Command::Shutdown);
    }
}

/// Writes `n` bytes. Returns true if the write had to wait. The write ends early if the socket fails; epoll reports the failure.
fn write_all(fd: &OwnedFd, payload: &[u8], n: u64) -> bool {
    let (mut left, mut waited) = (n, false);
    while left > 0 {
        let chunk = usize::try_from(left).unwrap_or(usize::MAX).min(payload.len());
        let sent = match sys::send(fd.as_fd(), &payload[..chunk]) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                waited = true;
                sys::send_again(fd.as_fd(), &payload[..chunk], 1)
            }
            sent => sent,
        };
        let Ok(sent) = sent else { break };
        left -= sent as u64;
    }
    waited
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn returned(writers: &BlockingWriters) -> usize {
        loop {
            if let Some(at) = writers.returned().first() {
                return *at;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_write_returns_for_its_endpoint_and_a_shutdown_comes_after_it() {
        let writers = BlockingWriters::new().unwrap();
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let mut writer = writers.start(3, ours.into(), &[0; 10]).unwrap();
        writer.write(25);
        assert!(writer.busy);
        writer.shutdown();
        assert_eq!(returned(&writers), 3);
        let mut received = Vec::new();
        peer.read_to_end(&mut received).unwrap();
        assert_eq!((received.len(), writers.waited()), (25, 0));
    }

    #[test]
    fn a_write_that_does_not_fit_the_send_buffer_waits_until_the_peer_has_read() {
        let writers = BlockingWriters::new().unwrap();
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let mut writer = writers.start(0, ours.into(), &crate::traffic::runtime::PAYLOAD).unwrap();
        // The default send buffer of a Unix socket is 208 KiB (net.core.wmem_default).
        let n = 16 << 20;
        writer.write(n);
        assert_eq!(writers.returned(), [0_usize; 0]);
        let mut received = vec![0; 16 << 20];
        peer.read_exact(&mut received).unwrap();
        assert_eq!((returned(&writers), writers.waited()), (0, 1));
    }

    #[test]
    fn a_write_to_a_closed_peer_returns() {
        let writers = BlockingWriters::new().unwrap();
        let (ours, peer) = UnixStream::pair().unwrap();
        drop(peer);
        let mut writer = writers.start(5, ours.into(), &[0; 10]).unwrap();
        writer.write(1000);
        assert_eq!(returned(&writers), 5);
    }
}
