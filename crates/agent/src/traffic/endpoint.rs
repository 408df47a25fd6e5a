//! One end of a connection.

use crate::collect::tcp_info::TcpInfo;
use crate::traffic::app_row::{Call, app_row};
use crate::traffic::io_threads::{BlockingWriter, ReaderThread};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use tcpassay_linux::sys;
use tcpassay_measure::reason::AppCall;
use tcpassay_measure::{Collector, FlowId, LimitTimes};
use tcpassay_units::{Bytes, Time};
use tcpassay_workload::SocketId;

/// The buffer of a receiver that copies what it reads, in bytes (iperf3 has the same).
const COPY_BUFFER: usize = 128 << 10;

/// One end of a connection: a socket of a host.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as epoll and the case tell them")]
pub struct Endpoint {
    pub fd: OwnedFd,
    pub host: usize,
    /// The application's name of the socket.
    pub slot: SocketId,
    /// The direction in which this end sends.
    pub outgoing: FlowId,
    /// The direction in which this end receives.
    pub incoming: FlowId,
    /// The congestion controller reports DCTCP's alpha.
    pub is_dctcp: bool,
    /// `app.quickack` is on.
    pub quickack: bool,
    /// What never limits the sender by its settings: 0 ns of it.
    pub impossible: LimitTimes,
    pub connected: bool,
    /// Data may have arrived since the socket was last found empty.
    pub may_have_data: Cell<bool>,
    /// The application asks how much is readable before it reads (`app.read_rate`).
    pub asks_readable: bool,
    /// The peer has closed its direction. Data that arrived before may still be readable.
    pub peer_closed: bool,
    /// The application only reads.
    pub only_reads: bool,
    pub io: IoMode,
}

/// The component that reads from or writes to a socket.
pub enum IoMode {
    /// The application, when it is notified.
    Application,
    /// A thread that reads; the number is how many bytes of it have been recorded.
    Reader(Option<ReaderThread>, u64),
    /// A thread that sends without end.
    Sender,
    /// A thread that makes the blocking calls of the application.
    BlockingWriter(BlockingWriter),
}

/// The result of [`Endpoint::update`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// The endpoint was closed before.
    Closed,
    /// The endpoint is ready, or its peer has closed.
    Ready,
    /// The connection has failed.
    Failed,
}

/// The method by which a receiver without its own application reads.
pub enum ReadMode {
    /// The kernel discards the data (`MSG_TRUNC`).
    Discard,
    /// The data are copied into a buffer.
    Copy(Vec<u8>),
}

impl ReadMode {
    /// A mode that copies.
    pub fn copying() -> ReadMode {
        ReadMode::Copy(vec![0; COPY_BUFFER])
    }
}

impl Endpoint {
    /// Takes the events of epoll into account.
    pub fn update(&mut self, events: i32) -> Readiness {
        let failed =
            || sys::get(self.fd.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR).map_or(true, |code| code != 0);
        if events & libc::EPOLLERR != 0 && failed() {
            return Readiness::Failed;
        }
        if events & libc::EPOLLOUT != 0 {
            self.connected = true;
        }
        if events & libc::EPOLLIN != 0 {
            self.may_have_data.set(true);
        }
        if events & (libc::EPOLLRDHUP | libc::EPOLLHUP) != 0 {
            self.peer_closed = true;
        }
        Readiness::Ready
    }

    /// Reads everything that is readable, and records it. `before`: the packets of the host that were recorded before. Returns true if the peer
    /// has closed.
    pub fn read_available(
        &mut self,
        (now, mut before): (Time, Option<u64>),
        read_mode: &mut ReadMode,
        collector: &mut Collector,
    ) -> bool {
        if let IoMode::Reader(reader, recorded) = &mut self.io {
            // The thread has read to the end of the stream: its count is exact.
            if let Some(reader) = reader.take_if(|_| self.peer_closed) {
                let all = reader.join().expect("a reader does not panic");
                let more = all.saturating_sub(*recorded);
                *recorded = all;
                collector.read(self.incoming, now, more);
            }
            return self.peer_closed;
        }
        loop {
            let (taken, room) = match read_mode {
                ReadMode::Discard => (sys::discard(self.fd.as_fd(), 1 << 30), usize::MAX),
                ReadMode::Copy(buffer) => (sys::receive(self.fd.as_fd(), buffer), buffer.len()),
            };
            match taken {
                Ok(0) => return true,
                Ok(n) => {
                    self.request_quickack();
                    collector.read(self.incoming, now, n as u64);
                    if collector.wants_events() {
                        let host = u32::try_from(self.host).expect("hosts are numbered in 32 bits");
                        let about = (now, host, self.outgoing);
                        let call = Call {
                            taken: Some(Bytes::new(n as u64)),
                            before: before.take(),
                            ..Call::default()
                        };
                        collector.event(app_row(about, AppCall::Read, call));
                    }
                    if n < room {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        self.peer_closed
    }

    /// Reads up to `n` bytes without copying them. Returns how many were read: none if a thread reads, which counts by itself.
    pub fn read(&self, n: Bytes) -> u64 {
        if matches!(self.io, IoMode::Reader(..)) {
            return 0;
        }
        let wanted = usize::try_from(n.get()).unwrap_or(usize::MAX);
        let taken = sys::discard(self.fd.as_fd(), wanted).unwrap_or(0);
        // Fewer bytes than wanted means that the socket is empty. Epoll reports what arrives later.
        self.may_have_data.set(taken == wanted);
        if taken > 0 {
            self.request_quickack();
        }
        taken as u64
    }

    /// The number of readable bytes, asked of the kernel.
    pub fn readable(&self) -> Bytes {
        let n = sys::readable(self.fd.as_fd()).unwrap_or(0);
        self.may_have_data.set(n > 0);
        Bytes::new(n)
    }

    /// Sends up to `n` zero bytes of `payload`, as often as needed, until the send buffer is full. Returns how many were taken.
    pub fn send(&self, n: Bytes, payload: &[u8]) -> Bytes {
        send_all(n, payload.len(), |len| sys::send(self.fd.as_fd(), &payload[..len]))
    }

    /// Records what the thread of the endpoint has read, while the stream goes on: it reads all that has arrived in order.
    pub fn record_reader(&mut self, at: Time, info: &TcpInfo, collector: &mut Collector) {
        if let (IoMode::Reader(Some(_), recorded), false, Some(all)) =
            (&mut self.io, self.peer_closed, info.bytes_received())
        {
            collector.read(self.incoming, at, all.saturating_sub(*recorded));
            *recorded = all;
        }
    }

    /// Sets `TCP_QUICKACK` again if `app.quickack` is on: the kernel resets the option by itself.
    pub fn request_quickack(&self) {
        if self.quickack {
            // On a TCP socket the call cannot fail.
            let _ = sys::set(self.fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1);
        }
    }
}

/// Sends `n` bytes in chunks of at most `chunk` bytes until `send` takes less than a chunk or fails. Returns how many were taken.
fn send_all(n: Bytes, chunk: usize, send: impl Fn(usize) -> io::Result<usize>) -> Bytes {
    let mut left = n.get();
    while left > 0 {
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(chunk);
        let Ok(taken) = send(len) else { break };
        left -= taken as u64;
        if taken < len {
            break;
        }
    }
    Bytes::new(n.get() - left)
}

#[cfg(test)]
impl Endpoint {
    /// An endpoint on one end of a Unix socket, and the other end.
    pub fn with_peer() -> (Endpoint, std::os::unix::net::UnixStream) {
        let (ours, peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let endpoint = Endpoint {
            fd: ours.into(),
            host: 0,
            slot: SocketId(0),
            outgoing: FlowId(0),
            incoming: FlowId(1),
            is_dctcp: false,
            quickack: false,
            impossible: LimitTimes::default(),
            connected: false,
            may_have_data: Cell::new(false),
            asks_readable: false,
            peer_closed: false,
            only_reads: false,
            io: IoMode::Application,
        };
        (endpoint, peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_epoll_change_the_state_of_an_endpoint() {
        let (mut endpoint, _peer) = Endpoint::with_peer();
        assert_eq!(endpoint.update(libc::EPOLLOUT), Readiness::Ready);
        assert!(endpoint.connected && !endpoint.may_have_data.get() && !endpoint.peer_closed);
        assert_eq!(endpoint.update(libc::EPOLLIN | libc::EPOLLRDHUP), Readiness::Ready);
        assert!(endpoint.may_have_data.get() && endpoint.peer_closed);
    }

    #[test]
    fn an_error_event_without_an_error_of_the_socket_is_no_failure() {
        let (mut endpoint, _peer) = Endpoint::with_peer();
        assert_eq!(endpoint.update(libc::EPOLLERR | libc::EPOLLIN), Readiness::Ready);
    }

    #[test]
    fn a_write_ends_when_the_send_buffer_takes_less_than_a_chunk() {
        let taken = Cell::new(0);
        let send = |len: usize| {
            taken.set(taken.get() + 1);
            Ok(if taken.get() == 3 { len / 2 } else { len })
        };
        // Two chunks of 100 bytes and half of the third.
        assert_eq!(send_all(Bytes::new(1000), 100, send), Bytes::new(250));
        assert_eq!(taken.get(), 3);
    }

    #[test]
    fn a_write_that_fails_has_taken_what_was_taken_before() {
        let send = |_| Err(io::Error::from_raw_os_error(libc::EAGAIN));
        assert_eq!(send_all(Bytes::new(10), 100, send), Bytes::ZERO);
        assert_eq!(send_all(Bytes::new(10), 100, Ok), Bytes::new(10));
    }

    #[test]
    fn what_is_readable_when_a_connection_is_accepted_is_left_to_the_thread_that_reads() {
        use std::io::Write;
        use std::net::{TcpListener, TcpStream};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.write_all(&[0; 7]).unwrap();
        let (mut endpoint, _) = Endpoint::with_peer();
        endpoint.fd = listener.accept().unwrap().0.into();
        while endpoint.readable() < Bytes::new(7) {
            std::thread::yield_now();
        }
        endpoint.io = IoMode::Reader(None, 0);
        assert_eq!((endpoint.read(Bytes::new(7)), endpoint.readable()), (0, Bytes::new(7)));
        endpoint.io = IoMode::Application;
        assert_eq!((endpoint.read(Bytes::new(7)), endpoint.readable()), (7, Bytes::ZERO));
    }

    #[test]
    fn the_kernel_counts_what_is_readable() {
        use std::io::Write;
        let (endpoint, mut peer) = Endpoint::with_peer();
        assert_eq!(endpoint.readable(), Bytes::ZERO);
        assert!(!endpoint.may_have_data.get());
        peer.write_all(&[0; 7]).unwrap();
        assert_eq!(endpoint.readable(), Bytes::new(7));
        assert!(endpoint.may_have_data.get());
    }
}
