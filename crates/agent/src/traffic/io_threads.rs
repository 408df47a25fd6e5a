//! Bulk transfers in a guest: a thread for each end that does nothing but send, or nothing but read, so that the data move
//! inside the kernel and the agent is not woken for a packet.
//!
//! In a guest what costs is the step between a process and the kernel, some ten microseconds of the machine. One blocking call
//! sends or takes a gigabyte and makes no such step while it waits: the kernel reads at once what arrives and fills the
//! send buffer when there is room, exactly as for a process that is woken each time and calls again, in no (virtual) time.
//!
//! With `app.blocking` every socket that writes has a thread, whose calls return when all is in the send buffer; a connection's next
//! write waits for that. Reads wait nowhere: a blocking read returns with what has arrived as soon as anything has.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use tcpassay_linux::sys;

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

/// What a socket that waits is told to do, one after the other (`app.blocking`).
enum Order {
    Write(u64),
    Shutdown,
}

/// The thread of a socket whose calls wait. When it is gone, what was ordered is still done, and then the socket is closed.
pub struct Writer {
    orders: Sender<Order>,
    /// A write has not returned.
    pub busy: bool,
}

/// What the threads of all such sockets share with the loop.
pub struct BlockingWriters {
    /// Readable when a write has returned.
    pub bell: OwnedFd,
    done: Receiver<usize>,
    tell: Sender<usize>,
    waited: Arc<AtomicU64>,
}

impl BlockingWriters {
    pub fn new() -> io::Result<BlockingWriters> {
        let (tell, done) = channel();
        Ok(BlockingWriters { bell: sys::bell()?, done, tell, waited: Arc::default() })
    }

    /// The sockets whose writes have returned since the last time.
    pub fn returned(&self) -> Vec<usize> {
        // It fails when it has rung for what was handed over already.
        let _ = sys::heard(self.bell.as_fd());
        self.done.try_iter().collect()
    }

    /// Writes that had to wait for room in the send buffer.
    pub fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }

    /// A thread that does what socket `at` is told.
    pub fn writer(&self, at: usize, fd: OwnedFd, payload: Arc<[u8]>) -> io::Result<Writer> {
        sys::make_blocking(fd.as_fd())?;
        let (orders, told) = channel();
        let (tell, waited, bell) = (self.tell.clone(), Arc::clone(&self.waited), self.bell.try_clone()?);
        Builder::new().stack_size(STACK).spawn(move || {
            for order in told {
                match order {
                    Order::Write(n) => {
                        waited.fetch_add(u64::from(send(&fd, &payload, n)), Ordering::Relaxed);
                        // The run may have ended meanwhile.
                        let _ = tell.send(at);
                        let _ = sys::ring(bell.as_fd());
                    }
                    Order::Shutdown => drop(sys::shutdown_write(fd.as_fd())),
                }
            }
        })?;
        Ok(Writer { orders, busy: false })
    }
}

impl Writer {
    /// A write that returns when all of it is in the send buffer.
    pub fn write(&mut self, n: u64) {
        self.busy = self.orders.send(Order::Write(n)).is_ok();
    }

    /// Closes our direction, behind what was written.
    pub fn shutdown(&self) {
        // The thread is there as long as we are.
        let _ = self.orders.send(Order::Shutdown);
    }
}

/// Writes `n` bytes, and says whether that had to wait; ends sooner when the socket fails, which the loop is told elsewhere.
fn send(fd: &OwnedFd, payload: &[u8], n: u64) -> bool {
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
