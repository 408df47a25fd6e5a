//! The socket calls of applications: the trait [`Sockets`] of the workload on the sockets of the kernel.

use crate::traffic::app_row::{Call, app_row};
use crate::traffic::endpoint::{Endpoint, IoMode};
use crate::traffic::runtime::{PAYLOAD, TrafficRuntime};
use std::os::fd::AsFd;
use tcpassay_linux::sys;
use tcpassay_measure::reason::AppCall;
use tcpassay_units::Bytes;
use tcpassay_workload::{ConnKey, SocketId, Sockets};

/// The number of readable bytes that is reported to an application for which the kernel is not asked. The
/// application then reads until the socket is empty.
const UNKNOWN_READABLE: Bytes = Bytes::new(1 << 30);
/// A write of at least this number of bytes is that of an application that sends without end.
const WITHOUT_END: Bytes = Bytes::new(1 << 40);

/// The calls of the applications of one host.
pub struct AppCalls<'w, 'a> {
    pub runtime: &'w mut TrafficRuntime<'a>,
    pub host: usize,
}

impl AppCalls<'_, '_> {
    /// The run ends because of a failure. Until then, calls do nothing.
    fn has_failed(&self) -> bool {
        self.runtime.failure.is_some()
    }

    /// Logs a call on the connection of `slot`.
    fn log(&mut self, slot: SocketId, call: AppCall, known: Call) {
        if !self.runtime.collector.wants_events() {
            return;
        }
        let (now, flow) = (self.runtime.now(), self.runtime.endpoint(self.host, slot).outgoing);
        let host = u32::try_from(self.host).expect("hosts are numbered in 32 bits");
        self.runtime.collector.event(app_row((now, host, flow), call, known));
    }

    /// Logs a write of `asked` bytes, of which the connection of `slot` has taken `taken`, after `before` packets of the host.
    fn log_write(&mut self, slot: SocketId, taken: Bytes, asked: Bytes, before: Option<u64>) {
        let asked = Some(asked).filter(|asked| taken < *asked);
        self.log(slot, AppCall::Write, Call { taken: Some(taken), asked, before });
    }

    /// Keeps the first failure.
    fn fail(&mut self, why: String) {
        self.runtime.failure.get_or_insert(why);
    }
}

impl Sockets for AppCalls<'_, '_> {
    fn connect(&mut self, slot: SocketId, key: ConnKey) {
        if let Err(why) = self.runtime.connect(self.host, slot, key, None) {
            self.fail(why);
        }
    }

    fn connect_again(&mut self, slot: SocketId, key: ConnKey, before: ConnKey) {
        if let Err(why) = self.runtime.connect(self.host, slot, key, Some(before)) {
            self.fail(why);
        }
    }

    fn halt(&mut self) {
        if let Err(why) = self.runtime.halt(self.host) {
            self.fail(format!("a host that stops: {why}"));
        }
    }

    fn boot(&mut self) {
        self.runtime.boot(self.host);
    }

    fn write(&mut self, slot: SocketId, n: Bytes) -> Bytes {
        if self.has_failed() {
            return Bytes::ZERO;
        }
        let endpoint = self.runtime.endpoint(self.host, slot);
        if !endpoint.connected || matches!(endpoint.io, IoMode::Sender) {
            return Bytes::ZERO;
        }
        let at = self.runtime.slot(self.host, slot).expect("the slot is open");
        let before = self.runtime.packets_before_call(self.host);
        if self.runtime.io_threads && n >= WITHOUT_END {
            match self.runtime.send_without_end(at) {
                Ok(()) => self.log_write(slot, WITHOUT_END, WITHOUT_END, before),
                Err(e) => self.fail(format!("a sender: {e}")),
            }
            return Bytes::ZERO;
        }
        let taken = if self.runtime.case.hosts[self.host].blocking {
            self.runtime.write_blocking(at, n).unwrap_or_else(|e| {
                self.fail(format!("a writer: {e}"));
                Bytes::ZERO
            })
        } else {
            self.runtime.endpoint(self.host, slot).send(n, &PAYLOAD)
        };
        self.log_write(slot, taken, n, before);
        taken
    }

    fn readable(&self, slot: SocketId) -> Bytes {
        if self.has_failed() {
            return Bytes::ZERO;
        }
        reported_readable(self.runtime.endpoint(self.host, slot))
    }

    fn read(&mut self, slot: SocketId, n: Bytes) -> Bytes {
        let now = self.runtime.now();
        let before = self.runtime.packets_before_call(self.host);
        let endpoint = self.runtime.endpoint(self.host, slot);
        let (taken, flow) = (endpoint.read(n), endpoint.incoming);
        if taken > 0 {
            self.runtime.collector.read(flow, now, taken);
            let known = Call { taken: Some(Bytes::new(taken)), before, ..Call::default() };
            self.log(slot, AppCall::Read, known);
        }
        Bytes::new(taken)
    }

    fn peer_closed(&self, slot: SocketId) -> bool {
        if self.has_failed() {
            return false;
        }
        has_read_to_the_end(self.runtime.endpoint(self.host, slot))
    }

    fn shutdown(&mut self, slot: SocketId) {
        if self.has_failed() {
            return;
        }
        let before = self.runtime.packets_before_call(self.host);
        self.log(slot, AppCall::Shutdown, Call { before, ..Call::default() });
        let endpoint = self.runtime.endpoint(self.host, slot);
        match &endpoint.io {
            IoMode::BlockingWriter(writer) => writer.shutdown(),
            _ => drop(sys::shutdown_write(endpoint.fd.as_fd())),
        }
    }

    fn close(&mut self, slot: SocketId) {
        if let Some(at) = self.runtime.slot(self.host, slot) {
            let before = self.runtime.packets_before_call(self.host);
            self.log(slot, AppCall::Close, Call { before, ..Call::default() });
            self.runtime.close(at, true);
        }
    }
}

/// The number of readable bytes that is reported to the application.
fn reported_readable(endpoint: &Endpoint) -> Bytes {
    match (endpoint.may_have_data.get(), endpoint.asks_readable) {
        (false, _) => Bytes::ZERO,
        // Asking the kernel would cost a system call for each message, which applications do without.
        (true, false) => UNKNOWN_READABLE,
        (true, true) => endpoint.readable(),
    }
}

/// Returns true if the peer has closed the connection and no data are left to read.
fn has_read_to_the_end(endpoint: &Endpoint) -> bool {
    endpoint.peer_closed && (!endpoint.may_have_data.get() || endpoint.readable().is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn an_application_that_does_not_ask_the_kernel_reads_until_the_socket_is_empty() {
        let (endpoint, mut peer) = Endpoint::with_peer();
        assert_eq!(reported_readable(&endpoint), Bytes::ZERO);
        peer.write_all(&[0; 300]).unwrap();
        // No event has reported the data.
        assert_eq!(reported_readable(&endpoint), Bytes::ZERO);
        endpoint.may_have_data.set(true);
        assert_eq!(reported_readable(&endpoint), Bytes::new(1 << 30));
    }

    #[test]
    fn an_application_that_asks_the_kernel_gets_the_number_of_bytes() {
        let (mut endpoint, mut peer) = Endpoint::with_peer();
        endpoint.asks_readable = true;
        peer.write_all(&[0; 300]).unwrap();
        endpoint.may_have_data.set(true);
        assert_eq!(reported_readable(&endpoint), Bytes::new(300));
    }

    #[test]
    fn the_end_of_the_stream_is_reported_after_all_data_were_read() {
        let (mut endpoint, mut peer) = Endpoint::with_peer();
        peer.write_all(&[0; 300]).unwrap();
        endpoint.may_have_data.set(true);
        assert!(!has_read_to_the_end(&endpoint));
        endpoint.peer_closed = true;
        assert!(!has_read_to_the_end(&endpoint));
        let mut own = UnixStream::from(endpoint.fd.try_clone().unwrap());
        assert_eq!(own.read(&mut [0; 1000]).unwrap(), 300);
        assert!(has_read_to_the_end(&endpoint));
    }
}
