//! What applications call: the workload's [`Sockets`] on the kernel's.

use crate::traffic::runtime::{ENDLESS, IoMode, TrafficRuntime, quick};
use std::os::fd::AsFd;
use tcpassay_linux::sys;
use tcpassay_units::Bytes;
use tcpassay_workload::{ConnKey, SocketId, Sockets};

/// What a read is asked for where nobody has counted what there is.
const UNCOUNTED: Bytes = Bytes::new(1 << 30);

/// A call of an application of `host`.
pub struct AppCalls<'w, 'a> {
    pub runtime: &'w mut TrafficRuntime<'a>,
    pub host: usize,
}

impl Sockets for AppCalls<'_, '_> {
    fn connect(&mut self, slot: SocketId, key: ConnKey) {
        if let Err(why) = self.runtime.begin(self.host, slot, key) {
            self.runtime.failure.get_or_insert(why);
        }
    }

    fn write(&mut self, slot: SocketId, n: Bytes) -> Bytes {
        if self.runtime.failure.is_some() {
            return Bytes::ZERO;
        }
        let sock = self.runtime.sock(self.host, slot);
        if !sock.connected || matches!(sock.pump, IoMode::Writes) {
            return Bytes::ZERO;
        }
        if self.runtime.pumps && n >= ENDLESS {
            let at = self.runtime.slots[self.host][slot.0 as usize];
            if let Err(e) = self.runtime.pump(at) {
                self.runtime.failure.get_or_insert(format!("a sender: {e}"));
            }
            return Bytes::ZERO;
        }
        let blocking = self.runtime.case.host_setting(self.host, "app.blocking").0;
        if blocking == tcpassay_case::params::Setting::Bool(true) {
            let at = self.runtime.slots[self.host][slot.0 as usize];
            return self.runtime.write_and_wait(at, n).unwrap_or_else(|e| {
                self.runtime.failure.get_or_insert(format!("a writer: {e}"));
                Bytes::ZERO
            });
        }
        let mut left = n.get();
        while left > 0 {
            let chunk = usize::try_from(left).unwrap_or(usize::MAX).min(self.runtime.payload.len());
            let Ok(taken) = sys::send(sock.fd.as_fd(), &self.runtime.payload[..chunk]) else { break };
            left -= taken as u64;
            if taken < chunk {
                break;
            }
        }
        Bytes::new(n.get() - left)
    }

    fn readable(&self, slot: SocketId) -> Bytes {
        if self.runtime.failure.is_some() {
            return Bytes::ZERO;
        }
        let sock = self.runtime.sock(self.host, slot);
        match (sock.fed.get(), sock.measures) {
            (false, _) => Bytes::ZERO,
            // A call more for each message would be what an application does that has a reason.
            (true, false) => UNCOUNTED,
            (true, true) => sock.counted(),
        }
    }

    fn read(&mut self, slot: SocketId, n: Bytes) -> Bytes {
        let now = self.runtime.now();
        let sock = self.runtime.sock(self.host, slot);
        let most = usize::try_from(n.get()).unwrap_or(usize::MAX);
        let taken = sys::discard(sock.fd.as_fd(), most).unwrap_or(0);
        // Less than was asked for was all; what comes later is told by an edge.
        sock.fed.set(taken == most);
        if taken == 0 {
            return Bytes::ZERO;
        }
        quick(sock);
        let into = sock.into;
        self.runtime.collector.read(into, now, taken as u64);
        Bytes::new(taken as u64)
    }

    fn peer_closed(&self, slot: SocketId) -> bool {
        if self.runtime.failure.is_some() {
            return false;
        }
        let sock = self.runtime.sock(self.host, slot);
        sock.hung_up && (!sock.fed.get() || sock.counted().is_zero())
    }

    fn shutdown(&mut self, slot: SocketId) {
        if self.runtime.failure.is_some() {
            return;
        }
        let sock = self.runtime.sock(self.host, slot);
        match &sock.pump {
            IoMode::Waits(writer) => writer.shutdown(),
            _ => drop(sys::shutdown_write(sock.fd.as_fd())),
        }
    }

    fn close(&mut self, slot: SocketId) {
        let at = self.runtime.slots[self.host][slot.0 as usize];
        if at != usize::MAX {
            self.runtime.give_up(at, true);
        }
    }
}
