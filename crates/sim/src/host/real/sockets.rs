//! The socket calls of applications at a host whose TCP is not the model.

use super::{RealSockets, STEP};
use tcpassay_measure::reason::AppCall;
use tcpassay_measure::{EventKind, EventRow, FlowCounters, FlowId, Reason};
use tcpassay_stack::{SocketId as StackSocket, SocketStatus, StackError, content};
use tcpassay_units::{Bytes, Dur};
use tcpassay_workload::{ConnKey, SocketId, Sockets};

impl RealSockets<'_> {
    /// The socket of the stack; `None` after the stack failed, when a connection may have none.
    fn socket(&self, slot: SocketId) -> Option<StackSocket> {
        if self.host.failure.is_some() {
            return None;
        }
        Some(self.host.slots[slot.0 as usize].expect("a socket call on a slot that was given up"))
    }

    fn status(&self, slot: SocketId) -> SocketStatus {
        self.socket(slot).map_or_else(SocketStatus::default, |socket| self.host.ends[&socket].status)
    }

    /// A call of the application that took `taken` bytes, or has none. `asked`: the bytes of the whole call, if these are fewer.
    fn log(&mut self, flow: FlowId, call: AppCall, taken: Option<usize>, asked: Option<Bytes>) {
        let collector = &mut self.stacks.recorder.collector;
        if collector.wants_events() {
            let host = u32::try_from(self.host.index).expect("few hosts");
            let row = EventRow::new(self.net.now(), host, Some(flow.0), EventKind::App);
            let value = taken.map(|bytes| bytes as u64);
            collector.event(EventRow { why: Reason::Borrowed(call.name()), value, asked, ..row });
        }
    }

    /// Marks that the bytes which the application read are not those that its peer wrote.
    fn wrong_content(&mut self, flow: FlowId, at: u64, len: usize) {
        let collector = &mut self.stacks.recorder.collector;
        let host = u32::try_from(self.host.index).expect("few hosts");
        let row = EventRow::new(self.net.now(), host, Some(flow.0), EventKind::Damaged);
        let len = u32::try_from(len).ok();
        collector.event(EventRow { why: Reason::Borrowed("read"), seq: Some(at + 1), len, ..row });
    }
}

impl Sockets for RealSockets<'_> {
    fn connect(&mut self, slot: SocketId, key: ConnKey) {
        let place = self.stacks.open_flow(self.net.now(), key);
        self.host.open(self.stacks, self.net.now(), slot, place);
    }

    fn connect_again(&mut self, _: SocketId, _: ConnKey, _: ConnKey) {
        unreachable!("refused with the case: the host of a real stack does not stop");
    }

    fn halt(&mut self) {
        unreachable!("refused with the case: the host of a real stack does not stop");
    }

    fn boot(&mut self) {}

    fn write(&mut self, slot: SocketId, n: Bytes) -> Bytes {
        let now = self.net.now();
        let Some(socket) = self.socket(slot) else { return Bytes::ZERO };
        let mut taken = 0;
        while taken < n.get() && self.host.failure.is_none() {
            let first = taken == 0;
            // What the socket takes now is known after the last call.
            self.host.collect();
            let end = &self.host.ends[&socket];
            let most = STEP.min(end.status.writable);
            let ask = usize::try_from(n.get() - taken).unwrap_or(STEP).min(most);
            let written = if ask > 0 {
                self.host.stack.write(now, socket, content::bytes(end.out.0, end.written, ask))
            } else {
                Ok(0)
            };
            let written = self.host.note(written).unwrap_or(0);
            taken += written as u64;
            let end = self.host.ends.get_mut(&socket).expect("it was there");
            end.written += written as u64;
            let out = end.out;
            if first || written > 0 {
                let asked = Some(n).filter(|_| first && (written as u64) < n.get());
                self.log(out, AppCall::Write, Some(written), asked);
            }
            if written < ask || ask == 0 {
                break;
            }
        }
        let end = self.host.ends.get_mut(&socket).expect("it was there");
        end.wanted = n.get() - taken;
        end.acked = self.host.logs.get(&end.place).map_or(0, |flow| flow.acked);
        Bytes::new(taken)
    }

    fn readable(&self, slot: SocketId) -> Bytes {
        Bytes::new(self.status(slot).readable as u64)
    }

    fn read(&mut self, slot: SocketId, n: Bytes) -> Bytes {
        let now = self.net.now();
        let Some(socket) = self.socket(slot) else { return Bytes::ZERO };
        let mut buffer = std::mem::take(&mut self.host.buffer);
        let mut taken = 0_u64;
        while taken < n.get() && self.host.failure.is_none() {
            let ask = usize::try_from(n.get() - taken).unwrap_or(STEP).min(STEP);
            let got = self.host.stack.read(now, socket, &mut buffer[..ask]);
            let got = self.host.note(got).unwrap_or(0);
            let end = self.host.ends.get_mut(&socket).expect("it was there");
            let (at, into, out) = (end.read, end.into, end.out);
            end.read += got as u64;
            taken += got as u64;
            if content::verify(into.0, at, &buffer[..got]).is_err() {
                self.wrong_content(out, at, got);
            }
            self.stacks.recorder.collector.add(
                into,
                now,
                &FlowCounters { read_bytes: got as u64, ..FlowCounters::default() },
            );
            if got > 0 {
                self.log(out, AppCall::Read, Some(got), None);
            }
            if got < ask {
                break;
            }
        }
        self.host.buffer = buffer;
        // What the socket has now is known after the call.
        self.host.collect();
        let left = self.status(slot).readable;
        if taken == 0 && !n.is_zero() && left > 0 && self.host.failure.is_none() {
            let name = &self.host.about.name;
            self.host.failure = Some(StackError::broken(format!(
                "{name} says that {left} bytes can be read from socket {}, and a read returns none",
                socket.0
            )));
        }
        Bytes::new(taken)
    }

    fn peer_closed(&self, slot: SocketId) -> bool {
        self.status(slot).end_of_stream
    }

    fn shutdown(&mut self, slot: SocketId) {
        let Some(socket) = self.socket(slot) else { return };
        self.log(self.host.ends[&socket].out, AppCall::Shutdown, None, None);
        let done = self.host.stack.shutdown(self.net.now(), socket);
        self.host.note(done);
    }

    fn close(&mut self, slot: SocketId) {
        let now = self.net.now();
        let Some(socket) = self.socket(slot) else { return };
        self.log(self.host.ends[&socket].out, AppCall::Close, None, None);
        let done = match self.host.linger {
            Some(Dur::ZERO) => self.host.stack.abort(now, socket),
            _ => self.host.stack.close(now, socket),
        };
        self.host.note(done);
        self.host.detach(self.stacks, socket, now);
    }
}
