//! The sockets of a host, as its applications use them.

use super::stacks::Stacks;
use crate::engine::Core;
use tcpassay_measure::reason::AppCall;
use tcpassay_tcp::State;
use tcpassay_units::Bytes;
use tcpassay_workload::{ConnKey, SocketId, Sockets};

/// The socket interface for the applications of `host`.
pub(super) struct HostSockets<'a> {
    pub stacks: &'a mut Stacks,
    pub net: &'a mut Core,
    pub host: usize,
}

impl Sockets for HostSockets<'_> {
    fn connect(&mut self, slot: SocketId, key: ConnKey) {
        let c = self.stacks.connect(self.net, key);
        self.stacks.attach(c, slot);
        self.stacks.mark_modified(c);
    }

    fn connect_again(&mut self, slot: SocketId, key: ConnKey, before: ConnKey) {
        let c = self.stacks.connect_again(self.net, key, before);
        self.stacks.attach(c, slot);
        self.stacks.mark_modified(c);
    }

    fn halt(&mut self) {
        self.stacks.halt(self.net, self.host);
    }

    fn boot(&mut self) {
        self.stacks.hosts[self.host].down = false;
    }

    fn write(&mut self, slot: SocketId, n: Bytes) -> Bytes {
        let c = self.stacks.socket(self.host, slot);
        let now = self.net.now();
        // As with a non-blocking connect, a socket accepts data only after the handshake, except data that Fast Open
        // sends with the SYN.
        let tcp = &self.stacks.conn_ref(c).tcp;
        let opening = matches!(tcp.state(), State::SynSent | State::SynReceived | State::Listen);
        let most = if opening && !tcp.is_fast_open_child() { n.min(tcp.fast_open_room()) } else { n };
        let mut taken = Bytes::ZERO;
        while taken < most {
            self.stacks.note_host_queue(c, now);
            let tcp = &mut self.stacks.conn(c).tcp;
            let (step, last) =
                (tcp.write_step(now, most - taken, taken.is_zero(), false), !tcp.writes_in_steps());
            let first = taken.is_zero();
            taken += step;
            // The first row tells what the call asks for; a step without bytes after it tells nothing new.
            if first || !step.is_zero() {
                let asked = Some(n).filter(|_| first && step < n);
                self.stacks.log_application(c, now, AppCall::Write, Some(step), asked);
            }
            // As in a system call, segments that may be sent are sent before the next step of the application and
            // before its next write.
            self.stacks.transmit(self.net, c);
            if last || step.is_zero() {
                break;
            }
        }
        self.stacks.await_departure(c);
        self.stacks.conn(c).blocked = taken < n;
        if !taken.is_zero() {
            self.stacks.mark_modified(c);
        }
        taken
    }

    fn readable(&self, slot: SocketId) -> Bytes {
        self.stacks.conn_ref(self.stacks.socket(self.host, slot)).tcp.readable()
    }

    fn read(&mut self, slot: SocketId, n: Bytes) -> Bytes {
        let c = self.stacks.socket(self.host, slot);
        let now = self.net.now();
        let taken = self.stacks.conn(c).tcp.read(now, n);
        if !taken.is_zero() {
            self.stacks.has_read(c, taken);
            self.stacks.log_application(c, now, AppCall::Read, Some(taken), None);
            self.stacks.mark_modified(c);
        }
        taken
    }

    fn peer_closed(&self, slot: SocketId) -> bool {
        self.stacks.conn_ref(self.stacks.socket(self.host, slot)).tcp.peer_closed()
    }

    fn shutdown(&mut self, slot: SocketId) {
        let c = self.stacks.socket(self.host, slot);
        let now = self.net.now();
        self.stacks.log_application(c, now, AppCall::Shutdown, None, None);
        self.stacks.conn(c).tcp.shutdown(now);
        self.stacks.mark_modified(c);
    }

    fn close(&mut self, slot: SocketId) {
        let c = self.stacks.socket(self.host, slot);
        let now = self.net.now();
        self.stacks.log_application(c, now, AppCall::Close, None, None);
        self.stacks.close(c, now);
        self.stacks.detach(c);
        self.stacks.mark_modified(c);
    }
}
