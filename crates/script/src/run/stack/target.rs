//! Packets, time, and the interface of the runner.

use super::options::{SocketOptions, unheard};
use super::{LOCAL, PORT, REMOTE, Role, StackTarget, Subject};
use crate::ast::{PacketBody, ScriptPacket, Syscall};
use crate::code::CodeValue;
use crate::run::sequence_map::SequenceMap;
use crate::run::target::{ScriptError, SentPacket, StepResult, SyscallResult, Target};
use crate::settings::{IpVersion, ScriptSettings};
use crate::wire;
use std::net::{SocketAddr, SocketAddrV4};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::{Flags, whole};

impl StackTarget {
    /// Processes what the stack did.
    pub(super) fn collect(&mut self) -> Result<(), ScriptError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        running.stack.drain(&mut self.drained);
        let drained = std::mem::take(&mut self.drained);
        for packet in &drained.packets {
            self.departure(packet).map_err(|why| self.lost(&why))?;
        }
        for (socket, _, from) in drained.accepted {
            let Some(conn) = self.connections.iter().rposition(|conn| conn.remote == from) else {
                return Err(self.lost(&format!("it accepted a connection from {from} that nobody opened")));
            };
            self.connections[conn].socket = Some(socket);
            let listener = self.files.values_mut().find_map(|file| match &mut file.role {
                Role::Listening(queue) => Some(queue),
                _ => None,
            });
            if let Some(queue) = listener {
                queue.push_back(conn);
            }
        }
        self.status.extend(drained.changed);
        Ok(())
    }

    /// A packet that the stack sent.
    fn departure(&mut self, bytes: &[u8]) -> Result<(), String> {
        let foreign = |why: &str| format!("it sent a packet that is not one of its own: {why}");
        let read = whole::decode(bytes).map_err(|why| foreign(&format!("{why:?}")))?;
        let Some((tos, options)) = wire::read(bytes) else { return Err(foreign("it has IP options")) };
        let (from, to) = (read.headers.envelope.from, read.headers.envelope.to);
        let known =
            |conn: &super::Conn| SocketAddr::V4(conn.local) == from && SocketAddr::V4(conn.remote) == to;
        let Some(conn) = self.connections.iter().rposition(known) else {
            return Err(foreign(&format!("from {from} to {to} there is no connection")));
        };
        if !read.ip_checksum_ok || !read.tcp_checksum_ok {
            return Err("it sent a packet with a wrong checksum".to_owned());
        }
        let segment = read.headers.segment;
        self.connections[conn].map.answered(&segment);
        self.sent.push_back(SentPacket { at: self.now, conn, segment, options, tos, hops: bytes[8] });
        Ok(())
    }

    /// Time at which the stack must be called.
    fn due(&mut self) -> Option<Time> {
        let now = self.now;
        let running = self.running.as_mut()?;
        let due = running.stack.deadline(now)?;
        // A stack that is quiet and still wants to be called now gets its next tick.
        Some(if due > now { due } else { now + running.about.granularity })
    }
}

impl Target for StackTarget {
    fn begin(&mut self, settings: &ScriptSettings) -> Result<(), ScriptError> {
        if settings.ip_version != IpVersion::V4 {
            return Err(ScriptError::Unsupported("another TCP with IPv6".to_owned()));
        }
        self.settings = settings.clone();
        let before = self.host.clone();
        for (name, value) in &settings.sysctls {
            self.host.set(name, value);
        }
        self.host.files.extend(settings.shell_files.iter().cloned());
        unheard(&before, &self.host, false).map_or(Ok(()), |what| Err(ScriptError::Unsupported(what)))
    }

    fn now(&self) -> Time {
        self.now
    }

    fn step(&mut self, until: Time) -> StepResult {
        let Some(due) = self.due().filter(|&due| due <= until && self.failure.is_none()) else {
            return StepResult::Quiet;
        };
        self.now = due;
        // `ended` reports a failure.
        let _ = self.made(|stack, now| stack.advance(now));
        StepResult::Acted
    }

    fn advance_to(&mut self, until: Time) {
        self.now = self.now.max(until);
    }

    fn packet_timeout(&self) -> Dur {
        // A stack may ask to be called each millisecond while data are outstanding.
        Dur::from_secs(10)
    }

    fn allowed_time_error(&self, _: Dur, _: &ScriptSettings) -> Dur {
        self.running.as_ref().map_or(Dur::ZERO, |running| running.about.granularity)
    }

    fn call(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError> {
        self.written = 0;
        if call.name == "socket" {
            self.subject = Subject::None;
        }
        self.syscall(call)
    }

    fn retry(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError> {
        self.syscall(call)
    }

    fn name_descriptor(&mut self, fd: Option<i64>) -> i64 {
        let file = self.new_file.take();
        let fd = fd.unwrap_or_else(|| self.files.keys().next_back().map_or(3, |last| last + 1));
        self.files.extend(file.map(|file| (fd, file)));
        fd
    }

    fn inject(&mut self, packet: &ScriptPacket) -> Result<(), ScriptError> {
        let PacketBody::Tcp(tcp) = &packet.body else {
            return Err(ScriptError::Unsupported("an ICMP message to another TCP".to_owned()));
        };
        let index = match self.subject {
            Subject::Connection(index) => index,
            // A new connection, or a packet to a closed port.
            Subject::Listener | Subject::None => {
                let number = u16::try_from(self.connections.len()).ok().and_then(|n| PORT.checked_add(n));
                let Some(port) = number else {
                    return Err(ScriptError::Unsupported("more connections than there are ports".to_owned()));
                };
                if self.running.is_none() {
                    self.running(&SocketOptions::default())?;
                }
                self.add(SocketAddrV4::new(LOCAL, PORT), SocketAddrV4::new(REMOTE, port))
            }
        };
        self.subject = Subject::Connection(index);
        let conn = &mut self.connections[index];
        let live = conn.map.live(tcp).map_err(ScriptError::Unsupported)?;
        let bytes = wire::segment(conn.remote.into(), conn.local.into(), wire::tos(packet.ip), &live)
            .map_err(ScriptError::Unsupported)?;
        conn.reset |= tcp.flags.has(Flags::RST);
        self.made(|stack, now| stack.input(now, &bytes))
    }

    fn next_packet(&mut self) -> Option<SentPacket> {
        self.sent.pop_front()
    }

    fn connection_under_test(&self) -> Option<usize> {
        match self.subject {
            Subject::Connection(index) => Some(index),
            Subject::None | Subject::Listener => None,
        }
    }

    fn sequence_map(&mut self, conn: usize) -> &mut SequenceMap {
        &mut self.connections[conn].map
    }

    fn shell(&mut self, text: &str) -> Result<(), String> {
        let before = self.host.clone();
        self.host.run(text, None)?;
        if let Some(what) = unheard(&before, &self.host, self.running.is_some()) {
            return Err(what);
        }
        let until = self.now + std::mem::take(&mut self.host.sleep_time);
        while self.step(until) == StepResult::Acted && self.failure.is_none() {}
        self.advance_to(until);
        Ok(())
    }

    fn value(&self, _: &str) -> Option<CodeValue> {
        None
    }

    fn diagnostics(&self) -> Vec<String> {
        let named = self.running.as_ref().map(|one| format!("{} {}", one.about.name, one.about.version));
        named.into_iter().collect()
    }

    fn ended(&self) -> Option<String> {
        self.failure.clone()
    }
}
