//! The model behind the interface: a lock, virtual time, and a blocking call on a second thread of packetdrill.
//!
//! Virtual time passes only while packetdrill sleeps or waits for a packet. The thread of a blocking call waits in real time until the
//! call can return. The thread that advances virtual time then waits until the thread of the call has asked for the
//! time, so that packetdrill sees the virtual time at which the call returned.

use crate::numbers;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;
use tcpassay_linux::syscall::SyscallReturn;
use tcpassay_script::ScriptSettings;
use tcpassay_script::ast::{ExpectedResult, Expr, Syscall};
use tcpassay_script::code::CodeValue;
use tcpassay_script::run::target::StepResult;
use tcpassay_script::run::{Model, ScriptError, SocketUnderTest, SyscallResult, Target};
use tcpassay_tcp::Profile;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::codec::{Content, Envelope, decode, encode};
use tcpassay_wire::{Ecn, Flags};

/// The time at the begin of virtual time, in microseconds: an arbitrary instant that fits a `timeval`.
const EPOCH: u64 = 1_000_000_000_000_000;
/// After this many requests for the time without another call, the caller is assumed to wait for the time to pass.
const SPINS: u32 = 16;
/// Longer than any timer of TCP.
const FOREVER: Dur = Dur::from_secs(100_000);
/// The first port that is chosen for a socket without one.
const FIRST_PORT: u16 = 32_768;
/// Longest real time for which the thread that advances virtual time waits for the thread of a returned
/// call.
const HANDOVER: Duration = Duration::from_millis(200);

/// A call that blocks. `answer` is its result once it can return.
struct BlockedCall {
    call: Syscall,
    answer: Option<Result<SyscallResult, ScriptError>>,
    thread: ThreadId,
}

struct State {
    model: Model,
    blocked: Option<BlockedCall>,
    /// The thread of a call that has returned, until it asks for the time.
    returning: Option<ThreadId>,
    spins: u32,
    /// Local and remote address by the number of the connection.
    ends: BTreeMap<usize, (SocketAddr, SocketAddr)>,
    /// Local addresses of bound sockets, by descriptor.
    bound: BTreeMap<i64, SocketAddr>,
    listening: BTreeMap<SocketAddr, i64>,
    next_port: u16,
    id: u16,
}

/// One stack.
pub struct Bridge {
    state: Mutex<State>,
    condition: Condvar,
}

/// A call as a script has it, without an expected result.
fn call(name: &str, args: Vec<Expr>) -> Syscall {
    Syscall { name: name.to_owned(), args, result: ExpectedResult { value: None, errno: None }, end: None }
}

impl Bridge {
    /// A stack with the profile named by `flags`; `linux` if `flags` is empty.
    ///
    /// # Errors
    /// An unknown profile; the message lists the known ones.
    pub fn new(flags: &str) -> Result<Bridge, String> {
        let name = if flags.is_empty() { "linux" } else { flags };
        let profile = Profile::by_name(name).ok_or_else(|| {
            let names: Vec<&str> = Profile::ALL.iter().map(|p| p.name()).collect();
            format!("--so_flags={name}: allowed are {}", names.join(", "))
        })?;
        let mut model = Model::new(profile);
        model.begin(&ScriptSettings::default()).map_err(|error| format!("{error:?}"))?;
        let state = State {
            model,
            blocked: None,
            returning: None,
            spins: 0,
            ends: BTreeMap::new(),
            bound: BTreeMap::new(),
            listening: BTreeMap::new(),
            next_port: FIRST_PORT,
            id: 0,
        };
        Ok(Bridge { state: Mutex::new(state), condition: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.spins = 0;
        state
    }

    /// Executes a call. Blocks the calling thread until the call returns.
    fn execute(&self, made: &Syscall) -> SyscallReturn {
        let mut state = self.lock();
        let mut answer = state.model.call(made);
        if answer == Ok(SyscallResult::Blocks) {
            let thread = std::thread::current().id();
            state.blocked = Some(BlockedCall { call: made.clone(), answer: None, thread });
            answer = loop {
                if let Some(answer) = state.blocked.as_mut().and_then(|w| w.answer.take()) {
                    state.blocked = None;
                    break answer;
                }
                state = self.condition.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
        }
        match answer {
            Ok(SyscallResult::Done(n)) => Ok(n),
            Ok(SyscallResult::Error(name)) => Err(numbers::error(&name)),
            Ok(SyscallResult::NewDescriptor) => Ok(state.model.name_descriptor(None)),
            Ok(SyscallResult::Blocks) => unreachable!("waited for above"),
            Err(ScriptError::Invalid(_)) => Err(libc::EBADF),
            Err(error) => {
                eprintln!("tcpassay: {}: {error:?}", made.name);
                Err(libc::EOPNOTSUPP)
            }
        }
    }

    /// Executes the call of this name with these arguments.
    pub fn call(&self, name: &str, args: Vec<Expr>) -> SyscallReturn {
        self.execute(&call(name, args))
    }

    /// Executes a call with an output argument, and returns the value of that argument.
    pub fn call_for_value(&self, name: &str, args: Vec<Expr>) -> Result<i64, i32> {
        self.execute(&call(name, args))?;
        Ok(self.lock().model.output_value())
    }

    /// bind(2)
    pub fn bind(&self, fd: i64, at: SocketAddr) -> SyscallReturn {
        let result = self.call("bind", vec![Expr::Int(fd), Expr::Any, Expr::Any])?;
        let mut state = self.lock();
        let at = SocketAddr::new(at.ip(), if at.port() == 0 { state.port() } else { at.port() });
        state.bound.insert(fd, at);
        Ok(result)
    }

    /// listen(2)
    pub fn listen(&self, fd: i64, backlog: i32) -> SyscallReturn {
        let result = self.call("listen", vec![Expr::Int(fd), Expr::Int(backlog.into())])?;
        let mut state = self.lock();
        let at = state.bound.get(&fd).copied().ok_or(libc::EINVAL)?;
        state.listening.insert(at, fd);
        Ok(result)
    }

    /// accept(2): the new descriptor and its peer.
    pub fn accept(&self, fd: i64) -> Result<(i64, Option<SocketAddr>), i32> {
        let made = self.call("accept", vec![Expr::Int(fd), Expr::Any, Expr::Any])?;
        Ok((made, self.ends(made).map(|(_, remote)| remote)))
    }

    /// connect(2)
    pub fn connect(&self, fd: i64, to: SocketAddr) -> SyscallReturn {
        {
            let mut state = self.lock();
            let unspecified = if to.is_ipv4() { "192.168.0.1" } else { "fd3d:fa7b:d17d::1" };
            let port = state.port();
            let local = SocketAddr::new(unspecified.parse().expect("an address"), port);
            let local = state.bound.get(&fd).copied().unwrap_or(local);
            state.bound.insert(fd, local);
            // The number that the new connection will have. packetdrill may ask for the SYN before the call has returned.
            let next = state.model.connections();
            state.ends.insert(next, (local, to));
        }
        self.call("connect", vec![Expr::Int(fd), Expr::Any, Expr::Any])
    }

    /// close(2)
    pub fn close(&self, fd: i64) -> SyscallReturn {
        let result = self.call("close", vec![Expr::Int(fd)])?;
        let mut state = self.lock();
        state.listening.retain(|_, listening| *listening != fd);
        state.bound.remove(&fd);
        Ok(result)
    }

    /// Local and remote address of a connected socket.
    pub fn ends(&self, fd: i64) -> Option<(SocketAddr, SocketAddr)> {
        let state = self.lock();
        state.ends.get(&state.model.connection_of(fd)?).copied()
    }

    /// A field of `TCP_INFO` of a socket.
    pub fn info(&self, fd: i64, name: &str) -> Option<i64> {
        let mut state = self.lock();
        let conn = state.model.connection_of(fd)?;
        state.model.set_socket_under_test(SocketUnderTest::Connection(conn));
        match state.model.value(name) {
            Some(CodeValue::Int(n)) => Some(n),
            _ => None,
        }
    }

    /// poll(2) of pairs of descriptor and events. Returns the events that have happened. Waits for at most `timeout_ms`, or without limit if
    /// it is negative.
    pub fn poll(&self, of: &[(i64, i16)], timeout_ms: i32) -> Result<Vec<i16>, i32> {
        let always = libc::POLLERR | libc::POLLHUP;
        let one = |&(fd, events): &(i64, i16)| {
            let member = |name: &str, value| (name.to_owned(), value);
            Expr::Group(vec![
                member("fd", Expr::Int(fd)),
                member("events", Expr::Int(events.into())),
                member("revents", Expr::Any),
            ])
        };
        let list = Expr::List(of.iter().map(one).collect());
        let count = i64::try_from(of.len()).expect("few descriptors");
        self.call("poll", vec![list, Expr::Int(count), Expr::Int(timeout_ms.into())])?;
        let mut state = self.lock();
        let ready = |state: &mut State, fd| state.model.ready(fd).map_err(|_| libc::EBADF);
        of.iter()
            .map(|&(fd, events)| {
                let now = i16::try_from(ready(&mut state, fd)? & 0x7fff).expect("15 bits");
                Ok(now & (events | always))
            })
            .collect()
    }

    /// Delivers a packet to the stack.
    pub fn receive(&self, bytes: &[u8]) -> Result<(), i32> {
        let packet = decode(bytes).map_err(|_| libc::EINVAL)?;
        let Content::Tcp(segment) = packet.content else { return Err(libc::EINVAL) };
        let (remote, local) = (packet.envelope.from, packet.envelope.to);
        let mut state = self.lock();
        let known = state.ends.iter().rfind(|(_, ends)| **ends == (local, remote)).map(|(conn, _)| *conn);
        let target = match known {
            Some(conn) if !(segment.flags == Flags::SYN && state.model.is_closed(conn)) => {
                SocketUnderTest::Connection(conn)
            }
            _ => match state.listening.get(&local) {
                Some(fd) => SocketUnderTest::Listener(*fd),
                // No socket has this address. The model has no host that would answer with a reset.
                None => return Ok(()),
            },
        };
        if let SocketUnderTest::Listener(_) = target {
            let next = state.model.connections();
            state.ends.insert(next, (local, remote));
        }
        state.model.set_socket_under_test(target);
        state.model.receive_segment(&segment, packet.envelope.ecn).map_err(|error| {
            eprintln!("tcpassay: {error:?}");
            libc::EINVAL
        })?;
        drop(self.settle(state));
        Ok(())
    }

    /// Writes the next packet that the stack sends to `out`, and returns its time in microseconds. `None` if the stack will not send another
    /// packet.
    pub fn next_packet(&self, out: &mut Vec<u8>) -> Option<u64> {
        let mut state = self.lock();
        let last = state.model.now().saturating_add(FOREVER);
        loop {
            if let Some(sent) = state.model.next_packet() {
                let (from, to) = state.ends.get(&sent.conn).copied()?;
                state.id = state.id.wrapping_add(1);
                let envelope = Envelope { from, to, ecn: Ecn::from_bits(sent.tos), id: state.id, ttl: 64 };
                encode(&envelope, &Content::Tcp(sent.segment), usize::MAX, out).ok()?;
                return Some(micros(sent.at));
            }
            if state.model.step(last) == StepResult::Quiet {
                return None;
            }
            state = self.settle(state);
        }
    }

    /// The virtual time in microseconds.
    pub fn now(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.returning == Some(std::thread::current().id()) {
            state.returning = None;
            self.condition.notify_all();
        }
        state.spins += 1;
        if state.spins > SPINS {
            let spins = state.spins;
            let next = state.model.now().saturating_add(Dur::from_micros(1));
            state = self.advance(state, next);
            state.spins = spins;
        }
        micros(state.model.now())
    }

    /// Advances virtual time.
    pub fn sleep(&self, time: Dur) {
        let state = self.lock();
        let until = state.model.now().saturating_add(time);
        drop(self.advance(state, until));
    }

    fn advance<'a>(&'a self, mut state: MutexGuard<'a, State>, until: Time) -> MutexGuard<'a, State> {
        while state.model.step(until) == StepResult::Acted {
            state = self.settle(state);
        }
        state.model.advance_to(until);
        state
    }

    /// Lets the blocked call return if it can.
    fn settle<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(BlockedCall { call, answer: None, thread }) = &state.blocked else { return state };
        let (call, thread) = (call.clone(), *thread);
        let answer = state.model.retry(&call);
        if answer == Ok(SyscallResult::Blocks) {
            return state;
        }
        state.blocked = Some(BlockedCall { call, answer: Some(answer), thread });
        state.returning = Some(thread);
        self.condition.notify_all();
        let pending = |state: &mut State| state.returning.is_some();
        let (mut state, _) = self
            .condition
            .wait_timeout_while(state, HANDOVER, pending)
            .unwrap_or_else(PoisonError::into_inner);
        state.returning = None;
        state
    }
}

impl State {
    fn port(&mut self) -> u16 {
        self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_PORT);
        self.next_port
    }
}

fn micros(at: Time) -> u64 {
    EPOCH + at.since(Time::ZERO).as_micros()
}
